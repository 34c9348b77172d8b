"""A track's cells and a user's own data -> the pictures at hand, the runs of detectors,
and the material of the cells.

The hashes of the paper's files are not public, so the cells of such a track are built
from whatever units the user has and are local. Detections are made in the work folder,
one cache per data set and detector.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from deepval.basics.errors import InputError, InputWarning
from deepval.basics.files import reading
from deepval.basics.progress import Watch, unwatched
from deepval.basics.workers import Map
from deepval.deploy.board.tracks import LEARNED_PLANNER, TrackCell
from deepval.driving.cells.sources import ModeFile, from_files
from deepval.driving.cells.spec import CellSpec, specs
from deepval.driving.datasets import Dataset, open_dataset
from deepval.driving.perception.reported.cache import MANIFEST as CACHE_MANIFEST
from deepval.driving.perception.reported.cache import units_in
from deepval.driving.perception.running.detector import load_detector
from deepval.driving.perception.running.mode_costs import measure_mode
from deepval.driving.perception.running.perceive import image_bytes, perceive
from deepval.driving.systems import System
from deepval.driving.systems.learned import LEARNED, learned_planners
from deepval.driving.world.scene import pictures_of
from deepval.judge.report.text_tables import quantity
from deepval.judge.tables.split import FEWEST

DETECTIONS = "detections"
CELL_S, INPUT_MS, INPUT_BYTES, FRAME_BYTES = 5.0, 7.0, 2_000, 1_500
"""Processor time per cell and per input of a cell, for building and all analyses; disk
per input, and per frame and mode. The times are measured, the disk is a rough allowance
(docs/official.md)."""
Step = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class TrackPictures:
    """The pictures of a data set.

    Attributes:
        source: The data set.
        units: Frame number and file of each picture, by unit; frames and units without
            a picture are left out.
        text: The units as a command line names them; None for all units of the data
            set.
        note: How many frames and units have a picture, and how many are left out.
    """

    source: Dataset
    units: Mapping[str, Sequence[tuple[int, Path]]]
    text: str | None
    note: str


def track_pictures(
    cell: TrackCell, data: Path, watch: Watch = unwatched
) -> TrackPictures:
    """The pictures of the cell's data set; an error where they are too few for a
    split.
    """
    facts = cell.definition["dataset"]
    listed = [facts["unit_list"]] if "unit_list" in facts else None
    source = open_dataset(facts["name"], data / cell.root).for_units(listed)
    every = source.unit_ids()
    named = set(every) if listed is None else source.expand(listed)
    chosen = [unit for unit in every if unit in named]
    with warnings.catch_warnings():
        # the note has the sum
        warnings.filterwarnings("ignore", ".* are left out", InputWarning)
        pictures = pictures_of(
            source.read_unit(unit)[0]
            for unit in watch(chosen, f"pictures of {source.name}")
        )
    units = pictures.units
    if len(units) < FEWEST:
        raise InputError(
            f"{data / cell.root}: the cells of a track need {FEWEST} {facts['unit']}s "
            "or more with pictures; found "
            f"{len(units)} of {len(chosen)}: get more of them."
        )
    text = facts.get("unit_list")
    if set(units) != named:
        names = [
            name
            for unit in units
            for name in source.choice(unit).get("scenes", (unit,))
        ]
        source, text = source.for_units(names), ",".join(names)
    return TrackPictures(source, units, text, f"{source.name}: {pictures.note}")


class DetectorRun(NamedTuple):
    """One detector over the pictures of a data set, at all sizes that the cells
    need.
    """

    weights: Path
    sizes: tuple[int, ...]
    pictures: TrackPictures
    root: Path
    cache: Path

    @property
    def command(self) -> str:
        """The command line that fills the same cache."""
        words = [
            (
                "deepval detect "
                "--dataset "
                f"{self.pictures.source.name} --root {quote(self.root.as_posix())}"
            )
        ]
        words += (
            []
            if self.pictures.text is None
            else [f"--units {quote(self.pictures.text)}"]
        )
        words += [
            f"--weights {quote(self.weights.as_posix())}",
            *(f"--size {size}" for size in self.sizes),
        ]
        return " ".join([*words, f"--samples 0 --out {quote(self.cache.as_posix())}"])

    @property
    def frames_to_run(self) -> dict[int, int]:
        """Number of frames that are not in the cache yet, by size."""
        done = {size: self._cached(size) for size in self.sizes}
        return {
            size: sum(
                len(frames)
                for unit, frames in self.pictures.units.items()
                if unit not in done[size]
            )
            for size in self.sizes
        }

    def _cached(self, size: int) -> set[str]:
        filled = reading.is_file(self.cache / CACHE_MANIFEST)
        return (
            set(units_in(self.cache, f"{self.weights.stem}-{size}"))
            if filled
            else set()
        )

    @property
    def seconds(self) -> float:
        """Estimate of the time that it takes: a few timed calls on its first picture,
        times the frames left.
        """
        left = {size: number for size, number in self.frames_to_run.items() if number}
        if not left:
            return 0.0
        image = image_bytes(next(iter(self.pictures.units.values()))[0][1])
        detector = load_detector(self.weights)
        times = {
            size: measure_mode(
                detector, [image], size=size, samples=3, warmup=1
            ).timing.ms
            for size in left
        }
        return sum(times[size] * number for size, number in left.items()) / 1000

    def run(self, map_units: Map, step: Step | None) -> None:
        """Fill the cache; finished units are compared with their pictures and left as
        they are.
        """
        perceive(
            self.pictures.units,
            self.cache,
            weights=self.weights,
            sizes=self.sizes,
            latency_samples=0,
            map_units=map_units,
            progress=None
            if step is None
            else lambda at: step(f"{at.mode} {at.unit}", at.done, at.total),
        )


@dataclass(frozen=True)
class LocalCells:
    """Cells of tracks without published hashes that the data at hand suffice for.

    Attributes:
        cells: The cells.
        pictures: TrackPictures by data set.
        runs: Runs of detectors by data set and name of the weights.
        data: Folder of the data.
    """

    cells: tuple[TrackCell, ...]
    pictures: Mapping[str, TrackPictures]
    runs: Mapping[tuple[str, str], DetectorRun]
    data: Path

    def runs_of(self, cell: TrackCell) -> list[DetectorRun]:
        """The runs that a cell needs."""
        names = dict.fromkeys(
            name for name, _ in map(_detector, cell.definition["cheap_first"])
        )
        return [self.runs[cell.definition["dataset"]["name"], name] for name in names]

    def specs(self, cells: Sequence[TrackCell]) -> list[CellSpec]:
        """Specifications of cells that share a data set and modes, whose detections are
        in the caches.
        """
        dataset = cells[0].definition["dataset"]["name"]
        pictures = self.pictures[dataset]
        files = [
            ModeFile(
                name, self._report(dataset, name), mode["threshold"], mode["scores"]
            )
            for name, mode in cells[0].definition["modes"].items()
        ]
        material = from_files(pictures.source, files, units=list(pictures.units))
        return [
            spec
            for cell in cells
            for spec in specs(
                material,
                geometries=[cell.definition["geometry"]],
                systems=[local_system(cell, self.data)],
            )
        ]

    def _report(self, dataset: str, mode: str) -> Path:
        return self.runs[dataset, _detector(mode)[0]].cache / mode

    def command(self, cell: TrackCell) -> str:
        """The `deepval build` command of a cell."""
        d = cell.definition
        dataset, pair = (
            d["dataset"]["name"],
            "-".join((*d["cheap_first"][:1], d["cheap_first"][-1].rpartition("-")[2])),
        )
        pictures, system = self.pictures[dataset], local_system(cell, self.data)
        spec = replace(cell.spec, units=tuple(pictures.units), source=pictures.source)
        return replace(
            spec, rule=spec.rule if isinstance(system, str) else system
        ).command(
            root=(self.data / cell.root).as_posix(),
            files={
                mode: self._report(dataset, mode).as_posix()
                for mode in d["cheap_first"]
            },
            out=f"cells/{dataset}-{pair}",
            costs=d["costs"]["profile"],
            units=pictures.text,
        )


def _detector(mode: str) -> tuple[str, int]:
    """Name of the weights and resolution of a mode such as yolov8s-320."""
    name, _, size = mode.rpartition("-")
    return name, int(size)


def _learned_name(cell: TrackCell) -> str | None:
    """The learned planner's system with the loss of the cell; None where the cell has
    another system.
    """
    if cell.definition["system"]["name"] != LEARNED_PLANNER:
        return None
    return next(
        name
        for name, judged in LEARNED.items()
        if judged == (cell.definition["loss"], "logged")
    )


def planner_paths(cell: TrackCell, data: Path) -> tuple[Path, Path]:
    """Weights and masks of the cell's learned planner."""
    first = {
        need.name: next(
            (p for pattern in need.patterns for p in reading.find(data, pattern)), None
        )
        for need in cell.needs
    }
    weights, masks = first["pkl-planner"], first["pkl-masks"]
    assert weights is not None
    assert masks is not None
    return weights, masks


def local_system(cell: TrackCell, data: Path) -> str | System:
    """The downstream system of a cell; a learned planner with its files."""
    learned = _learned_name(cell)
    if learned is None:
        return str(cell.definition["system"]["name"])
    weights, masks = planner_paths(cell, data)
    return learned_planners([learned], weights=weights, masks=masks)[0]


def local_cells(
    cells: Sequence[TrackCell], data: Path | None, work: Path, watch: Watch = unwatched
) -> tuple[LocalCells, dict[str, tuple[str, ...]]]:
    """The cells that the data suffice for, with their pictures and runs; and why the
    others cannot be built.
    """
    if data is None:
        return LocalCells((), {}, {}, Path()), {
            cell.id: tuple(cell.missing(None)) for cell in cells
        }
    pictures: dict[str, TrackPictures] = {}
    problems: dict[str, str] = {}
    lacking: dict[str, tuple[str, ...]] = {}
    fitting: list[TrackCell] = []
    sizes: dict[tuple[str, str, str], set[int]] = {}
    for cell in cells:
        dataset = cell.definition["dataset"]["name"]
        missing = cell.missing(data)
        if not missing and dataset not in {*pictures, *problems}:
            try:
                pictures[dataset] = track_pictures(cell, data, watch)
            except InputError as error:
                problems[dataset] = str(error).rstrip(".")
        missing = missing or (
            [problems[dataset]]
            if dataset in problems
            else _unfit(cell, data, pictures[dataset])
        )
        if missing:
            lacking[cell.id] = tuple(missing)
            continue
        fitting.append(cell)
        for name, size in map(_detector, cell.definition["cheap_first"]):
            sizes.setdefault((dataset, name, cell.root), set()).add(size)
    runs = {
        (dataset, name): DetectorRun(
            data / "weights" / f"{name}.onnx",
            tuple(sorted(needed)),
            pictures[dataset],
            data / root,
            work / DETECTIONS / f"{dataset}-{name}",
        )
        for (dataset, name, root), needed in sizes.items()
    }
    return LocalCells(tuple(fitting), pictures, runs, data), lacking


def _unfit(cell: TrackCell, data: Path, pictures: TrackPictures) -> list[str]:
    """Why the files of a learned planner or the lane maps that it needs do not
    serve.
    """
    if _learned_name(cell) is None:
        return []
    try:
        local_system(cell, data)
    except InputError as error:
        return [str(error).rstrip(".")]
    lacking = pictures.source.without_map(list(pictures.units))
    return (
        [
            (
                f"lane maps of {quantity(len(lacking), 'unit')}, such as {lacking[0]}: "
                "all files of maps/expansion"
            )
        ]
        if lacking
        else []
    )


class RunEstimate(NamedTuple):
    """Roughly what a run takes, if nothing of it is stored yet."""

    cells: int
    frames: int
    detector_s: float
    analyses_s: float
    disk_bytes: int


def estimate(local: Sequence[LocalCells], inputs: Sequence[int]) -> RunEstimate:
    """Time and disk of the detectors' runs and of cells with these numbers of
    inputs.
    """
    runs = [run for item in local for run in item.runs.values()]
    frames = sum(sum(run.frames_to_run.values()) for run in runs)
    seconds = sum(run.seconds for run in runs)
    disk = INPUT_BYTES * sum(inputs) + FRAME_BYTES * frames
    return RunEstimate(
        len(inputs),
        frames,
        seconds,
        CELL_S * len(inputs) + INPUT_MS * sum(inputs) / 1000,
        disk,
    )
