"""What a track says of a cell and what a built cell says of itself -> whether they are the same, and if not, how.

A cell is official iff its specification equals that of a track's cell: data set and hashes of its files, modes with
the hashes of their detections, thresholds, classes and kind of scores, geometry, persistence, the system with its
constants, and the costs. A name proves nothing. Cells of a track that publishes no hashes are never official.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from deepval.benchmark.tracks import TrackCell, files_digests, read_tracks
from deepval.columns import shown
from deepval.datasets.synthetic import MODES

Specification = Mapping[str, Any]


class Likeness(NamedTuple):
    """The track's cell that a built one is called after, and in which points it is another."""

    cell: TrackCell
    differences: tuple[str, ...]


def likeness(definition: Mapping[str, Any], modes: Sequence[str], costs: Mapping[str, Any] | None) -> Likeness | None:
    """The track's cell that a built one is, or else the namesake it comes nearest to; None where it has none.

    Args:
        definition: The definition in its manifest.
        modes: Its modes, cheap first (a manifest does not keep their order).
        costs: The content of its costs file, None where it has none.
    """
    found = specification_of(definition, modes, costs)
    namesakes = [cell for track in read_tracks() for cell in track.cells if _name(specified(cell)) == _name(found)]
    told = [Likeness(cell, tuple(_unpublished(cell)) or differences(specified(cell), found)) for cell in namesakes]
    return min(told, key=lambda item: len(item.differences), default=None)


def differences(told: Specification, found: Specification) -> tuple[str, ...]:
    """Every point in which two specifications differ, one phrase each; empty where they are equal."""
    return tuple(_unlike(told, found, ""))


def _unlike(told: Any, found: Any, point: str) -> Iterator[str]:
    if isinstance(told, Mapping) and isinstance(found, Mapping):
        for key in dict.fromkeys([*told, *found]):
            yield from _unlike(told.get(key), found.get(key), f"{point} {key}".lstrip())
    elif told != found:
        yield f"{point} must be {_told(told)}; found {_told(found)}"


def specified(cell: TrackCell) -> Specification:
    """What a built cell must say to be this cell of a track."""
    d = cell.definition
    dataset = d["dataset"]
    return {
        "data set": dataset["name"],
        "units": dataset.get("units"),
        "files": dataset.get("files", {}),
        "modes": d["cheap_first"],
        "mode": {name: _specified_mode(name, mode, dataset) for name, mode in d["modes"].items()},
        "geometry": d["geometry"],
        "persistence": False,
        "system": d["system"],
        "loss": d["loss"],
        "costs": cell.costs,
    }


def _specified_mode(name: str, mode: Mapping[str, Any], dataset: Mapping[str, Any]) -> dict[str, Any]:
    used = {key: mode.get(key) for key in ("threshold", "classes")}
    if dataset["name"] == "synthetic":
        return used | {"seed": dataset["seed"], "settings": dataset["settings"], "size": MODES[name]}
    return used | {"sha256": mode.get("sha256"), "scores": mode["scores"]}


def specification_of(
    definition: Mapping[str, Any], modes: Sequence[str], costs: Mapping[str, Any] | None
) -> Specification:
    """What a built cell says of itself, whatever its files are called; arguments as for `likeness`."""
    dataset, told = definition.get("dataset", {}), definition.get("modes", {})
    return {
        "data set": dataset.get("name"),
        "units": len(dataset.get("units", ())),
        "files": files_digests(dataset.get("files", {})),
        "modes": list(modes),
        "mode": {name: {key: part for key, part in mode.items() if key != "source"} for name, mode in told.items()},
        "geometry": definition.get("geometry"),
        "persistence": definition.get("persistence"),
        "system": definition.get("system"),
        "loss": None,
        "costs": costs,
    }


def _name(specification: Specification) -> tuple[Any, ...]:
    system = specification["system"]
    name = system.get("name") if isinstance(system, Mapping) else system
    return specification["data set"], *specification["modes"], specification["geometry"], name


def _unpublished(cell: TrackCell) -> Iterator[str]:
    if not cell.published:
        yield f"track {cell.track} publishes no hashes of its files, so that no cell can be shown to be its own"


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return shown(value["profile"]) if "profile" in value else f"a table of {', '.join(value)}"
    return "none" if value is None else shown(value)
