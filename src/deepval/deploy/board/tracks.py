"""Track files (TOML) -> tracks and their cells, the files that each cell needs, and
whether this machine has them.

A track fixes modes, thresholds, geometry, downstream system, split sizes and costs. The
id of its cell contains the hash of all of these, including the system's constants, the
cost profile and the published hashes of files. Whether a built cell is a track's own is
decided by its specification, in `TrackedCell.official`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from deepval.basics.errors import InputError, suggestion
from deepval.basics.files import reading
from deepval.basics.files.canonical import (
    digest_of,
    file_digest,
    plain,
    read_toml,
    toml_content,
)
from deepval.driving.cells.folder import BuiltCell, read_cell
from deepval.driving.cells.spec import CellSpec, ModeSpec, folder_digests_of, unlike
from deepval.driving.datasets import DATASETS, Dataset
from deepval.driving.datasets.kitti import Kitti
from deepval.driving.datasets.synthetic import MODES, WorldSettings
from deepval.driving.perception.placing import PLACINGS
from deepval.driving.systems import LEARNED, SYSTEMS
from deepval.driving.systems.system import constants
from deepval.judge.tables.costs import PROFILES
from deepval.judge.tables.split import Split, split
from deepval.judge.tables.values import ValueTable

TRACK_FILES = Path(__file__).parent / "track_files"
NAMES = ("core", "external", "kitti-public", "synthetic")
KITTI = "kitti_tracking"
LOCAL_NOTE = (
    "Cells of tracks core and external are local, never official: the hashes of the "
    "paper's files are not public, so a cell from your own files cannot be shown to "
    "be the paper's."
)
LEARNED_PLANNER = "learned-planner"
"""Name of the learned planner in tracks.

Its losses are systems of their own in `LEARNED`; it needs files.
"""


@dataclass(frozen=True)
class Need:
    """Files that a cell is built from.

    Attributes:
        name: Its name in the track file.
        patterns: Patterns of the files in the data folder; one of them must match.
        count: Required number of files.
        get: Sentence on what to obtain and from where.
        sha256: Hash of the file; None if there are several files or the track publishes
            no hash.
        least: Number of files without which nothing can be built; None for all, 1 where
            a part of the data serves.
    """

    name: str
    patterns: tuple[str, ...]
    count: int
    get: str
    sha256: str | None = None
    least: int | None = None

    def available(self, data: Path) -> int:
        """Number of the files that exist; counting stops at the required number."""
        return max(_count(data, pattern, self.count) for pattern in self.patterns)

    def lacking(self, data: Path | None) -> str | None:
        """The files that this machine lacks, as a phrase; None if it has all."""
        count = 0 if data is None else self.available(data)
        locations = " or ".join(self.patterns)
        if data is None or count < (self.count if self.least is None else self.least):
            return f"{self.get} ({count:,} of {self.count:,} found at {locations})"
        if (
            self.sha256 is not None
            and file_digest(next(reading.find(data, self.patterns[0]))) != self.sha256
        ):
            return (
                f"{self.get} (the file at {locations} is another: "
                f"its SHA-256 must be {self.sha256})"
            )
        return None


@dataclass(frozen=True)
class TrackCell:
    """One cell of a track.

    Attributes:
        track: The track's name.
        definition: Everything that the cell depends on; its id contains the hash of
            this.
        needs: The files that it is built from.
        costs: The whole cost profile; None if the track has none.
        published: Whether the track publishes hashes of its files, so that a built cell
            can be compared with it.
        root: The folder of its data set in the data folder.
    """

    track: str
    definition: Mapping[str, Any]
    needs: tuple[Need, ...] = field(repr=False)
    costs: Mapping[str, Any] | None = field(default=None, repr=False)
    published: bool = True
    root: str = ""

    @property
    def id(self) -> str:
        """Name of the cell with the first digits of the hash of everything that defines
        it; without, if unpublished.
        """
        return (
            f"{self.name}-{digest_of(self.definition)[:12]}"
            if self.published
            else self.name
        )

    @cached_property
    def spec(self) -> CellSpec:
        """The specification that a built cell must have to be this cell."""
        d = self.definition
        system = d["system"]
        return CellSpec(
            dataset=d["dataset"]["name"],
            files=d["dataset"].get("files", {}),
            units=("",) * d["dataset"].get("units", 0),
            modes=tuple(
                _mode(name, d["modes"][name], d["dataset"]) for name in d["cheap_first"]
            ),
            geometry=d["geometry"],
            persistence=False,
            system=system["name"],
            constants=system["constants"],
            rule=SYSTEMS.get(system["name"]),
        )

    @property
    def name(self) -> str:
        """Data set, modes, geometry, system, and the loss where a system has
        several.
        """
        d = self.definition
        loss = [] if d["loss"] is None else [d["loss"]]
        return "-".join(
            [
                d["dataset"]["name"],
                *d["modes"],
                d["geometry"],
                d["system"]["name"],
                *loss,
            ]
        )

    def missing(self, data: Path | None) -> list[str]:
        """What this version or machine lacks to build the cell, as phrases; empty if it
        can be built.
        """
        d = self.definition
        parts = (
            ("downstream system", d["system"]["name"], {*SYSTEMS, LEARNED_PLANNER}),
            ("data set", d["dataset"]["name"], DATASETS),
            ("geometry", d["geometry"], PLACINGS),
        )
        lacks = [
            f"the {what} {name!r}: not in this version of deepval"
            for what, name, has in parts
            if name not in has
        ]
        lacks += [
            line for need in self.needs if (line := need.lacking(data)) is not None
        ]
        return lacks or ([] if data is None else list(self._other_files(data)))

    def _other_files(self, data: Path) -> Iterator[str]:
        """Folders of the data set whose files differ from the track's."""
        expected = self.definition["dataset"].get("files", {})
        actual = folder_digests_of(_files(Kitti(data / KITTI))) if expected else {}
        for folder in sorted({*expected, *actual}):
            if expected.get(folder) != actual.get(folder):
                rule = (
                    f"must be {expected[folder]}"
                    if folder in expected
                    else "is not the track's"
                )
                yield (
                    f"the track's own files in {KITTI}/training/{folder} (the SHA-256 "
                    f"over those there {rule})"
                )


@dataclass(frozen=True)
class Track:
    """Cells that are judged and averaged together.

    Attributes:
        name: Its name.
        title: Its title.
        source: The source of its figures.
        not_given: Details that the source does not state.
        alphas: The judged budgets.
        headline_alpha: The budget that determines the ranks.
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
        raise InputError(
            "A track must "
            f"be one of {', '.join(NAMES)}; found {name!r}{suggestion(name, NAMES)}"
        )
    content = read_toml(TRACK_FILES / f"{name}.toml")
    return Track(
        name=name,
        title=content["title"],
        source=content["source"],
        not_given=tuple(content["not_given"]),
        alphas=tuple(content["alphas"]),
        headline_alpha=content["headline_alpha"],
        cells=tuple(
            cell for entry in content["cells"] for cell in _cells(name, content, entry)
        ),
    )


def read_tracks(names: Sequence[str] | None = None) -> tuple[Track, ...]:
    """The named tracks, or all."""
    return tuple(read_track(name) for name in names or NAMES)


def cells_named(name: str) -> tuple[TrackCell, ...]:
    """The cells of a track, or the cell of a track with this name or id; none if there
    is no such track or cell.
    """
    if name in NAMES:
        return read_track(name).cells
    return tuple(
        cell
        for track in read_tracks()
        for cell in track.cells
        if name in (cell.name, cell.id)
    )


def _cells(
    track: str, content: Mapping[str, Any], entry: Mapping[str, Any]
) -> Iterator[TrackCell]:
    dataset = {"name": entry["dataset"], **content["datasets"][entry["dataset"]]}
    if "inputs" in entry:
        dataset["inputs"] = entry["inputs"]
    modes = {
        mode: dict(content["modes"][mode])
        for mode in content["pairs"][entry["pair"]]["modes"]
    }
    world = content.get("world")
    if world is not None:
        dataset["seed"] = world["seed"]
        dataset["settings"] = plain(
            asdict(WorldSettings(scenes=world["scenes"], frames=world["frames"]))
        )
    profile = entry.get("costs")
    costs = None if profile is None else read_toml(PROFILES[profile])
    sha256 = {name: mode.get("sha256") for name, mode in modes.items()}
    published = content.get("hashes") != "not published"
    needs = tuple(
        _need(
            name, content["materials"][name], sha256.get(name), None if published else 1
        )
        for name in entry["needs"]
    )
    root = content.get("roots", {}).get(entry["dataset"], KITTI)
    for geometry, named, loss in product(
        entry["geometry"], entry["system"], entry.get("loss", [None])
    ):
        # A loss that this version implements is a system of its own: the same planner
        # with other weights.
        is_system = f"{named}-{loss}" in SYSTEMS
        system, loss = (f"{named}-{loss}", None) if is_system else (named, loss)
        definition = {
            "dataset": dataset,
            "modes": modes,
            "cheap_first": list(modes),
            "geometry": geometry,
            "system": {
                "name": system,
                "constants": plain(constants(SYSTEMS[system]))
                if system in SYSTEMS
                else None,
            },
            "loss": loss,
            "costs": costs
            and {
                "profile": profile,
                "modes": {mode: costs["modes"][mode] for mode in modes},
            },
        }
        yield TrackCell(track, definition, needs, costs, published, root)


def _mode(name: str, entry: Mapping[str, Any], dataset: Mapping[str, Any]) -> ModeSpec:
    if dataset["name"] == "synthetic":
        origin = {
            "seed": dataset["seed"],
            "settings": dataset["settings"],
            "size": MODES[name],
        }
    else:
        origin = {"sha256": entry.get("sha256"), "scores": entry["scores"]}
    classes = entry.get("classes")
    return ModeSpec(
        name,
        origin,
        entry.get("threshold"),
        None if classes is None else tuple(classes),
    )


def _files(source: Dataset) -> dict[str, str]:
    return {
        name: file_digest(path)
        for unit in source.unit_ids()
        for name, path in source.files(unit).items()
    }


def _need(
    name: str, entry: Mapping[str, Any], sha256: str | None, least: int | None
) -> Need:
    patterns = (entry["files"], *([entry["instead"]] if "instead" in entry else []))
    return Need(name, patterns, entry["count"], entry["get"], sha256, least)


def _count(data: Path, pattern: str, enough: int) -> int:
    return sum(
        1
        for _, path in zip(range(enough), reading.find(data, pattern), strict=False)
        if reading.is_file(path)
    )


def build_command(cell: TrackCell, data: Path | None) -> str | None:
    """The `deepval build` command for a cell from detections or of the synthetic world;
    None for other cells.
    """
    d = cell.definition
    costs = d["costs"]["profile"] if d["costs"] else None
    if d["dataset"]["name"] == "synthetic":
        return cell.spec.command(root="", files={}, out="cells", costs=costs)
    if cell.track != "kitti-public" or data is None:
        return None
    root = (data / KITTI).as_posix()
    files = {
        name: f"{root}/detections/{mode['source']}" for name, mode in d["modes"].items()
    }
    return cell.spec.command(
        root=root, files=files, out=f"cells/{'-'.join(d['modes'])}", costs=costs
    )


class TrackMatch(NamedTuple):
    """The track's cell with the name of a built cell, and the differences between the
    two.
    """

    cell: TrackCell
    differences: tuple[str, ...]


def track_match(spec: CellSpec, costs: Mapping[str, Any] | None) -> TrackMatch | None:
    """The track's cell with the built cell's name and the fewest differences; None if
    no track has that name.

    Args:
        spec: Specification of the built cell.
        costs: The content of its costs file; None if it has none.
    """
    loss, target = LEARNED[spec.learned] if spec.learned else ("", "")
    planner = [spec.dataset, *spec.order, spec.geometry, LEARNED_PLANNER, loss]
    name = "-".join(planner) if target == "logged" else spec.name
    namesakes = [
        cell for track in read_tracks() for cell in track.cells if cell.name == name
    ]
    matches = [TrackMatch(cell, differences(cell, spec, costs)) for cell in namesakes]
    return min(matches, key=lambda item: len(item.differences), default=None)


def differences(
    cell: TrackCell, spec: CellSpec, costs: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Every difference between a built cell and a track's cell, one phrase each."""
    if not cell.published:
        return (
            (
                f"track {cell.track} publishes no hashes of its files, so that no cell "
                "can be shown to be its own"
            ),
        )
    loss = unlike({"loss": cell.definition["loss"]}, {"loss": None})
    return (
        *cell.spec.differences(spec),
        *loss,
        *unlike({"costs": cell.costs}, {"costs": costs}),
    )


COSTS = "costs.toml"
LOCAL = "local"
"""Name of the track of cells that no track file describes, and of cost profiles without
a name.
"""


@dataclass(frozen=True, eq=False)
class TrackedCell:
    """A cell on disk as the protocol sees it.

    Attributes:
        name: Name of its folder, and of the score file in a submission.
        built: The cell itself.
        profile: Name of its cost profile; None where costs are unknown.
        match: The track's cell of the same name and the differences from it; None if no
            track has one.
    """

    name: str
    built: BuiltCell = field(repr=False)
    profile: str | None
    match: TrackMatch | None = field(repr=False)

    @property
    def id(self) -> str:
        """Its id, which contains the hash of its definition."""
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
        """The track's cell that it equals; None if there is none."""
        return None if self.match is None or self.match.differences else self.match.cell

    @property
    def track(self) -> str:
        """Name of its track."""
        return LOCAL if self.official is None else self.official.track

    @cached_property
    def scored(self) -> ValueTable:
        """The inputs that a submission must score: those of validation and test
        units.
        """
        return self.built.listed.restrict([*self.split.validation, *self.split.test])


def read_cells(folder: Path | str) -> dict[str, TrackedCell]:
    """Every cell in a folder of cell folders, sorted by name; cells one level deeper
    are named outer-inner.
    """
    folder = Path(folder)
    if not reading.is_folder(folder):
        raise InputError(
            f"{folder}: must be a folder of cells made by `deepval build`; there is "
            "no such folder."
        )
    manifests = [
        *reading.find(folder, "*/manifest.json"),
        *reading.find(folder, "*/*/manifest.json"),
    ]
    cells: dict[str, TrackedCell] = {}
    for manifest in sorted(manifests):
        name = "-".join(manifest.parent.relative_to(folder).parts)
        if name in cells:
            raise InputError(
                f"{folder}: cells need different names; two are called {name!r}. "
                "Rename a folder."
            )
        cells[name] = tracked_cell(manifest.parent, name)
    if not cells:
        raise InputError(
            f"{folder}: must hold folders made by `deepval build`; "
            "no manifest.json lies in any."
        )
    return dict(sorted(cells.items()))


def tracked_cell(folder: Path, name: str) -> TrackedCell:
    """The cell in a folder, compared with the tracks."""
    built = read_cell(folder)
    costs = (
        toml_content(built.manifest.content(COSTS), folder / COSTS)
        if COSTS in built.manifest.files
        else None
    )
    profile = None if costs is None else costs.get("profile", LOCAL)
    if not isinstance(profile, str | None):
        raise InputError(
            f"{folder / COSTS}: 'profile' must be a name; found {profile!r}."
        )
    like = track_match(built.spec, costs)
    if like is not None and not like.differences:
        like = TrackMatch(like.cell, tuple(_alterations(built)))
    return TrackedCell(name, built, profile, like)


def _alterations(built: BuiltCell) -> Iterator[str]:
    """Where a cell's id or split does not follow from its definition."""
    if not built.id.endswith(digest_of(built.definition)[:12]):
        yield "its id must be the hash of its definition; found another"
    if built.split != split(built.split.dataset, built.definition["dataset"]["units"]):
        yield "its split must be the frozen one; found another"
