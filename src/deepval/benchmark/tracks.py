"""Track files (TOML) -> tracks and their cells, what each needs, and whether this machine has it.

A track fixes modes, thresholds, geometry, downstream system, split sizes and costs. The id of its cell carries the hash
of all of that, the system's constants and the cost profile included. A folder made by `deepval build` belongs to the
track whose cell says the same.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import deepval
from deepval.benchmark.build import digest_of, plain
from deepval.costs import PROFILES
from deepval.datasets.synthetic import WorldSettings
from deepval.errors import InputError
from deepval.systems import SYSTEMS
from deepval.systems.system import constants

PACKAGE = Path(deepval.__file__).parent
NAMES = ("core", "external", "kitti-public", "synthetic")


@dataclass(frozen=True)
class Need:
    """Files that a cell is built from.

    Attributes:
        name: Its name in the track file.
        patterns: Where the files lie in the data folder; any one of them will do.
        count: How many there must be.
        get: What to get and from whom, in words.
    """

    name: str
    patterns: tuple[str, ...]
    count: int
    get: str

    def found(self, data: Path) -> int:
        """How many of the files are there; counting stops at what is enough."""
        return max(_counted(data, pattern, self.count) for pattern in self.patterns)


@dataclass(frozen=True)
class TrackCell:
    """One cell of a track.

    Attributes:
        track: The track's name.
        definition: Everything that it rests on: what its id is the hash of.
        needs: The files it is built from.
    """

    track: str
    definition: Mapping[str, Any]
    needs: tuple[Need, ...] = field(repr=False)

    @property
    def id(self) -> str:
        """Name of the cell with the first digits of the hash of everything that defines it."""
        return f"{self.name}-{digest_of(self.definition)[:12]}"

    @property
    def name(self) -> str:
        """Data set, modes, geometry, system and loss where a system has several."""
        d = self.definition
        loss = [] if d["loss"] is None else [d["loss"]]
        return "-".join([d["dataset"]["name"], *d["modes"], d["geometry"], d["system"]["name"], *loss])

    def missing(self, data: Path | None) -> list[str]:
        """What this machine lacks to build the cell, in words; empty where it can be built."""
        system = self.definition["system"]["name"]
        lacks = [] if system in SYSTEMS else [f"the downstream system {system!r}: not in this version of deepval"]
        for need in self.needs:
            found = 0 if data is None else need.found(data)
            if found < need.count:
                lacks.append(f"{need.get} ({found:,} of {need.count:,} found at {' or '.join(need.patterns)})")
        return lacks


@dataclass(frozen=True)
class Track:
    """Cells that are judged and averaged together.

    Attributes:
        name: Its name.
        title: What it is.
        source: Where its figures come from.
        not_given: What the source does not say.
        alphas: Budgets that are judged.
        headline_alpha: The budget that ranks.
        cells: Its cells.
    """

    name: str
    title: str
    source: str
    not_given: tuple[str, ...]
    alphas: tuple[float, ...]
    headline_alpha: float
    cells: tuple[TrackCell, ...]


@cache
def read_track(name: str) -> Track:
    """One of the package's tracks."""
    if name not in NAMES:
        raise InputError(f"A track must be one of {', '.join(NAMES)}; found {name!r}.")
    content = tomllib.loads((PACKAGE / "tracks" / f"{name}.toml").read_text(encoding="utf-8"))
    return Track(
        name=name,
        title=content["title"],
        source=content["source"],
        not_given=tuple(content["not_given"]),
        alphas=tuple(content["alphas"]),
        headline_alpha=content["headline_alpha"],
        cells=tuple(cell for entry in content["cells"] for cell in _cells(name, content, entry)),
    )


def read_tracks(names: Sequence[str] | None = None) -> tuple[Track, ...]:
    """The named tracks, or all."""
    return tuple(read_track(name) for name in names or NAMES)


def _cells(track: str, content: Mapping[str, Any], entry: Mapping[str, Any]) -> Iterator[TrackCell]:
    dataset = {"name": entry["dataset"], **content["datasets"][entry["dataset"]]}
    if "inputs" in entry:
        dataset["inputs"] = entry["inputs"]
    modes = {mode: dict(content["modes"][mode]) for mode in content["pairs"][entry["pair"]]["modes"]}
    world = content.get("world")
    if world is not None:
        dataset["seed"] = world["seed"]
        dataset["settings"] = plain(asdict(WorldSettings(scenes=world["scenes"], frames=world["frames"])))
    profile = entry.get("costs")
    costs = None if profile is None else tomllib.loads(PROFILES[profile].read_text(encoding="utf-8"))
    needs = tuple(_need(name, content["materials"][name]) for name in entry["needs"])
    for geometry, system, loss in product(entry["geometry"], entry["system"], entry.get("loss", [None])):
        definition = {
            "dataset": dataset,
            "modes": modes,
            "cheap_first": list(modes),
            "geometry": geometry,
            "system": {"name": system, "constants": plain(constants(SYSTEMS[system])) if system in SYSTEMS else None},
            "loss": loss,
            "costs": costs and {"profile": profile, "modes": {mode: costs["modes"][mode] for mode in modes}},
        }
        yield TrackCell(track, definition, needs)


def _need(name: str, entry: Mapping[str, Any]) -> Need:
    patterns = (entry["files"], *([entry["instead"]] if "instead" in entry else []))
    return Need(name, patterns, entry["count"], entry["get"])


def _counted(data: Path, pattern: str, enough: int) -> int:
    return sum(1 for _, path in zip(range(enough), data.glob(pattern), strict=False) if path.is_file())


def cell_of(built: Mapping[str, Any], modes: Sequence[str]) -> TrackCell | None:
    """The track's cell that a built cell agrees with; None where there is none.

    Args:
        built: The definition in its manifest.
        modes: Its modes, cheap first (a manifest does not keep their order).
    """
    every = [cell for track in read_tracks() for cell in track.cells]
    agreeing = (cell for cell in every if _agrees(cell.definition, built))
    return next((cell for cell in agreeing if cell.definition["cheap_first"] == list(modes)), None)


def _agrees(told: Mapping[str, Any], built: Mapping[str, Any]) -> bool:
    dataset, modes = told["dataset"], told["modes"]
    same_world = all(
        mode.get("settings") == dataset.get("settings") and mode.get("seed") == dataset.get("seed")
        for mode in built["modes"].values()
    )
    return (
        built["dataset"]["name"] == dataset["name"]
        and len(built["dataset"]["units"]) == dataset.get("units")
        and same_world
        and set(built["modes"]) == set(modes)
        and all(_same_mode(modes[name], mode) for name, mode in built["modes"].items())
        and built["geometry"] == told["geometry"]
        and not built["persistence"]
        and built["system"] == told["system"]
    )


def _same_mode(told: Mapping[str, Any], built: Mapping[str, Any]) -> bool:
    chosen = ("threshold", "classes")
    scores = built.get("scores", told["scores"])  # the synthetic world's modes declare none: they are probabilities
    return all(told.get(key) == built.get(key) for key in chosen) and told["scores"] == scores


def build_command(cell: TrackCell, data: Path | None) -> str | None:
    """The `deepval build` command of a cell from detections or of the synthetic world; None where there is none."""
    d = cell.definition
    words = ["deepval build", f"--geometry {d['geometry']}", f"--system {d['system']['name']}"]
    if d["costs"]:
        words.append(f"--costs {d['costs']['profile']}")
    if d["dataset"]["name"] == "synthetic":
        return " ".join([*words, "--out cells"])
    if cell.track != "kitti-public" or data is None:
        return None
    folder = (data / "kitti_tracking").as_posix()
    words.append(f"--dataset kitti --root {folder}")
    for name, mode in d["modes"].items():
        words.append(f"--mode {name}={folder}/detections/{mode['source']} --scores-are {name}={mode['scores']}")
        words += [f"--threshold {name}={mode['threshold']:g}"] if "threshold" in mode else []
    return " ".join([*words, "--class Car", f"--out cells/{'-'.join(d['modes'])}"])
