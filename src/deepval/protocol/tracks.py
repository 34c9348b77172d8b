"""Track files (TOML) -> tracks and their cells, what each needs, and whether this machine has it.

A track fixes modes, thresholds, geometry, downstream system, split sizes and costs. The id of its cell carries the hash
of all of that, the system's constants, the cost profile and the published hashes of files included. Which built cell is
a track's own is decided in `official`, by its specification.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import deepval
from deepval.cells.folder import BuiltCell, read_cell
from deepval.cells.spec import CellSpec, ModeSpec, Split, folder_digests_of, split, unlike
from deepval.datasets import DATASETS, Dataset
from deepval.datasets.kitti import Kitti
from deepval.datasets.synthetic import MODES, WorldSettings
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import digest_of, file_digest, plain, read_toml, toml_content
from deepval.perception.placing import PLACINGS
from deepval.systems import SYSTEMS
from deepval.systems.system import constants
from deepval.tables.costs import PROFILES
from deepval.tables.values import ValueTable

PACKAGE = Path(deepval.__file__).parent
NAMES = ("core", "external", "kitti-public", "synthetic")
KITTI = "kitti_tracking"
LEARNED_PLANNER = "learned-planner"
"""What tracks call the learned planner, whose losses are systems of their own in `LEARNED`; it needs files."""


@dataclass(frozen=True)
class Need:
    """Files that a cell is built from.

    Attributes:
        name: Its name in the track file.
        patterns: Where the files lie in the data folder; any one of them will do.
        count: How many there must be.
        get: What to get and from whom, in words.
        sha256: Hash of the one file, None where there are several or the track publishes none.
    """

    name: str
    patterns: tuple[str, ...]
    count: int
    get: str
    sha256: str | None = None

    def found(self, data: Path) -> int:
        """How many of the files are there; counting stops at what is enough."""
        return max(_counted(data, pattern, self.count) for pattern in self.patterns)

    def lacking(self, data: Path | None) -> str | None:
        """What this machine lacks of it, in words; None where it has all."""
        found = 0 if data is None else self.found(data)
        places = " or ".join(self.patterns)
        if data is None or found < self.count:
            return f"{self.get} ({found:,} of {self.count:,} found at {places})"
        if self.sha256 is not None and file_digest(next(reading.matching(data, self.patterns[0]))) != self.sha256:
            return f"{self.get} (the file at {places} is another: its SHA-256 must be {self.sha256})"
        return None


@dataclass(frozen=True)
class TrackCell:
    """One cell of a track.

    Attributes:
        track: The track's name.
        definition: Everything that it rests on: what its id is the hash of.
        needs: The files it is built from.
        costs: The whole cost profile, None where the track has none.
        published: Whether the track says what its files hash to, so that a cell can be shown to be this one.
    """

    track: str
    definition: Mapping[str, Any]
    needs: tuple[Need, ...] = field(repr=False)
    costs: Mapping[str, Any] | None = field(default=None, repr=False)
    published: bool = True

    @property
    def id(self) -> str:
        """Name of the cell with the first digits of the hash of everything that defines it."""
        return f"{self.name}-{digest_of(self.definition)[:12]}"

    @cached_property
    def spec(self) -> CellSpec:
        """The cell that a built one must equal to be this one."""
        d = self.definition
        system = d["system"]
        return CellSpec(
            dataset=d["dataset"]["name"],
            files=d["dataset"].get("files", {}),
            units=("",) * d["dataset"].get("units", 0),
            modes=tuple(_mode(name, d["modes"][name], d["dataset"]) for name in d["cheap_first"]),
            geometry=d["geometry"],
            persistence=False,
            system=system["name"],
            constants=system["constants"],
            rule=SYSTEMS.get(system["name"]),
        )

    @property
    def name(self) -> str:
        """Data set, modes, geometry, system and loss where a system has several."""
        d = self.definition
        loss = [] if d["loss"] is None else [d["loss"]]
        return "-".join([d["dataset"]["name"], *d["modes"], d["geometry"], d["system"]["name"], *loss])

    def missing(self, data: Path | None) -> list[str]:
        """What this version or machine lacks to build the cell, in words; empty where it can be built."""
        d = self.definition
        parts = (
            ("downstream system", d["system"]["name"], {*SYSTEMS, LEARNED_PLANNER}),
            ("data set", d["dataset"]["name"], DATASETS),
            ("geometry", d["geometry"], PLACINGS),
        )
        lacks = [f"the {what} {name!r}: not in this version of deepval" for what, name, has in parts if name not in has]
        if not self.published:
            lacks.append("hashes not published: a cell that is built from files of your own is local, not this one")
        lacks += [line for need in self.needs if (line := need.lacking(data)) is not None]
        return lacks or ([] if data is None else list(self._other_files(data)))

    def _other_files(self, data: Path) -> Iterator[str]:
        """Folders of the data set that hold other files than the track's."""
        told = self.definition["dataset"].get("files", {})
        here = folder_digests_of(_files(Kitti(data / KITTI))) if told else {}
        for folder in sorted({*told, *here}):
            if told.get(folder) != here.get(folder):
                wanted = f"must be {told[folder]}" if folder in told else "is not the track's"
                yield f"the track's own files in {KITTI}/training/{folder} (the SHA-256 over those there {wanted})"


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
    content = read_toml(PACKAGE / "protocol" / "track_files" / f"{name}.toml")
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
    costs = None if profile is None else read_toml(PROFILES[profile])
    sha256 = {name: mode.get("sha256") for name, mode in modes.items()}
    needs = tuple(_need(name, content["materials"][name], sha256.get(name)) for name in entry["needs"])
    for geometry, named, loss in product(entry["geometry"], entry["system"], entry.get("loss", [None])):
        # A loss that this version knows is a system of its own: the same planner, weighed otherwise.
        known = f"{named}-{loss}" in SYSTEMS
        system, loss = (f"{named}-{loss}", None) if known else (named, loss)
        definition = {
            "dataset": dataset,
            "modes": modes,
            "cheap_first": list(modes),
            "geometry": geometry,
            "system": {"name": system, "constants": plain(constants(SYSTEMS[system])) if system in SYSTEMS else None},
            "loss": loss,
            "costs": costs and {"profile": profile, "modes": {mode: costs["modes"][mode] for mode in modes}},
        }
        yield TrackCell(track, definition, needs, costs, content.get("hashes") != "not published")


def _mode(name: str, told: Mapping[str, Any], dataset: Mapping[str, Any]) -> ModeSpec:
    if dataset["name"] == "synthetic":
        made = {"seed": dataset["seed"], "settings": dataset["settings"], "size": MODES[name]}
    else:
        made = {"sha256": told.get("sha256"), "scores": told["scores"]}
    classes = told.get("classes")
    return ModeSpec(name, made, told.get("threshold"), None if classes is None else tuple(classes))


def _files(source: Dataset) -> dict[str, str]:
    return {name: file_digest(path) for unit in source.unit_ids() for name, path in source.files(unit).items()}


def _need(name: str, entry: Mapping[str, Any], sha256: str | None) -> Need:
    patterns = (entry["files"], *([entry["instead"]] if "instead" in entry else []))
    return Need(name, patterns, entry["count"], entry["get"], sha256)


def _counted(data: Path, pattern: str, enough: int) -> int:
    return sum(
        1 for _, path in zip(range(enough), reading.matching(data, pattern), strict=False) if reading.is_file(path)
    )


def build_command(cell: TrackCell, data: Path | None) -> str | None:
    """The `deepval build` command of a cell from detections or of the synthetic world; None where there is none."""
    d = cell.definition
    costs = d["costs"]["profile"] if d["costs"] else None
    if d["dataset"]["name"] == "synthetic":
        return cell.spec.command(root="", files={}, out="cells", costs=costs)
    if cell.track != "kitti-public" or data is None:
        return None
    root = (data / KITTI).as_posix()
    files = {name: f"{root}/detections/{mode['source']}" for name, mode in d["modes"].items()}
    return cell.spec.command(root=root, files=files, out=f"cells/{'-'.join(d['modes'])}", costs=costs)


class Likeness(NamedTuple):
    """The track's cell that a built one is called after, and in which points it is another."""

    cell: TrackCell
    differences: tuple[str, ...]


def likeness(spec: CellSpec, costs: Mapping[str, Any] | None) -> Likeness | None:
    """The track's cell that a built one is, or else the namesake it comes nearest to; None where it has none.

    Args:
        spec: What the built cell says of itself.
        costs: The content of its costs file, None where it has none.
    """
    namesakes = [cell for track in read_tracks() for cell in track.cells if cell.spec.name == spec.name]
    told = [Likeness(cell, differences(cell, spec, costs)) for cell in namesakes]
    return min(told, key=lambda item: len(item.differences), default=None)


def differences(cell: TrackCell, spec: CellSpec, costs: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Every point in which a built cell is not a track's, one phrase each."""
    if not cell.published:
        return (f"track {cell.track} publishes no hashes of its files, so that no cell can be shown to be its own",)
    loss = unlike({"loss": cell.definition["loss"]}, {"loss": None})
    return (*cell.spec.differences(spec), *loss, *unlike({"costs": cell.costs}, {"costs": costs}))


COSTS = "costs.toml"
LOCAL = "local"
"""The track of cells that no track file describes, and the profile of costs without a name."""


@dataclass(frozen=True, eq=False)
class TrackedCell:
    """A cell on disk as the protocol sees it.

    Attributes:
        name: Its folder's name: what a submission's score file is called.
        built: The cell itself.
        profile: Name of its cost profile, None where costs are unknown.
        likeness: The track's cell that it is called after and how it differs from it, None where no track has one.
    """

    name: str
    built: BuiltCell = field(repr=False)
    profile: str | None
    likeness: Likeness | None = field(repr=False)

    @property
    def id(self) -> str:
        """Its id, which rests on the hashes of everything that went in."""
        return self.built.id

    @property
    def digest(self) -> str:
        """SHA-256 of its files."""
        return self.built.digest

    @property
    def table(self) -> ValueTable:
        """Losses of all units, with costs where known."""
        return self.built.table

    @property
    def split(self) -> Split:
        """Training, validation and test units."""
        return self.built.split

    @property
    def official(self) -> TrackCell | None:
        """The track's cell that it is, None where it is none."""
        return None if self.likeness is None or self.likeness.differences else self.likeness.cell

    @property
    def track(self) -> str:
        """Name of its track."""
        return LOCAL if self.official is None else self.official.track

    @cached_property
    def scored(self) -> ValueTable:
        """The inputs that a submission must score: those of validation and test units."""
        return self.built.listed.restrict([*self.split.validation, *self.split.test])


def read_cells(folder: Path | str) -> dict[str, TrackedCell]:
    """Every cell in a folder of cell folders, or of folders of them (then named outer-inner), sorted by name."""
    folder = Path(folder)
    if not reading.is_folder(folder):
        raise InputError(f"{folder}: must be a folder of cells made by `deepval build`; there is no such folder.")
    manifests = [*reading.matching(folder, "*/manifest.json"), *reading.matching(folder, "*/*/manifest.json")]
    found: dict[str, TrackedCell] = {}
    for manifest in sorted(manifests):
        name = "-".join(manifest.parent.relative_to(folder).parts)
        if name in found:
            raise InputError(f"{folder}: cells need different names; two are called {name!r}. Rename a folder.")
        found[name] = _tracked(manifest.parent, name)
    if not found:
        raise InputError(f"{folder}: must hold folders made by `deepval build`; no manifest.json lies in any.")
    return dict(sorted(found.items()))


def _tracked(folder: Path, name: str) -> TrackedCell:
    built = read_cell(folder)
    told = toml_content(built.manifest.content(COSTS), folder / COSTS) if COSTS in built.manifest.files else None
    profile = None if told is None else told.get("profile", LOCAL)
    if not isinstance(profile, str | None):
        raise InputError(f"{folder / COSTS}: 'profile' must be a name; found {profile!r}.")
    like = likeness(built.spec, told)
    if like is not None and not like.differences:
        like = Likeness(like.cell, tuple(_altered(built)))
    return TrackedCell(name, built, profile, like)


def _altered(built: BuiltCell) -> Iterator[str]:
    """Where a manifest or a split does not follow from what the cell says that it rests on."""
    if not built.id.endswith(digest_of(built.definition)[:12]):
        yield "its id must be the hash of its definition; found another"
    if built.split != split(built.split.dataset, built.definition["dataset"]["units"]):
        yield "its split must be the frozen one; found another"
