"""Cells -> the rows of every analysis on them, computed by an engine and stored; a
second run computes only changes.

A run builds cells, then makes the parts of cells that several analyses take (fits,
scores, results), then runs the analyses. A job whose answer is stored is not run again,
so a stopped run continues where it stopped.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from deepval.basics.errors import (
    InputError,
    InputWarning,
    UnsuitableError,
    few,
    is_of_machine,
    reports_absence,
    reports_machine,
)
from deepval.basics.files import reading
from deepval.basics.files.canonical import digest_of, plain, sha256
from deepval.basics.plugins import typed_word
from deepval.basics.progress import Watch, unwatched
from deepval.basics.workers import Map
from deepval.deploy.board.cell_builds import (
    build_group,
    cell_folder,
    cell_sources,
    outdated,
)
from deepval.deploy.board.store import (
    LIST,
    REFUSED,
    code_digest,
    is_stored,
    result_folder,
    store_result,
)
from deepval.deploy.board.track_data import RunEstimate, Step
from deepval.driving.cells.folder import BuiltCell, read_cell
from deepval.driving.cells.sources import (
    BuildGroup,
    check_confirmed,
    located,
    needs_files,
)
from deepval.driving.cells.spec import CellSpec
from deepval.driving.cells.unit import cache_units
from deepval.judge.cases import note
from deepval.judge.results import lists_by_key
from deepval.judge.tables.costs import costs_bytes
from deepval.judge.tables.scores import Scores
from deepval.judge.tables.split import units_of
from deepval.paper.analysis import ANALYSES, Analysis, analysis
from deepval.paper.stored_files import identity
from deepval.paper.study import BOARD, PARTS, SCORES, Cell, Choices, recipes_of

ROWS = "rows.json"
CACHED_UNITS = 32
"""Units that a worker holds in memory, because most analyses go through all of them."""


@dataclass(frozen=True)
class AnalysisOutcome:
    """The outcome of an analysis on one collection of cells: the cells of a data set,
    or of some of its units.

    Attributes:
        rows: Its rows.
        refused: Reasons why it could not be run on some of these cells.
    """

    rows: tuple[Any, ...]
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """A run.

    Attributes:
        cells: Its cells.
        lacking: What this machine or version lacks to build further cells, by the id of
            the cell.
        outcomes: Outcomes by analysis and collection.
        idle: Reasons why analyses had no cell to run on, by analysis.
        notes: Frames with and without pictures by data set of local cells; recipes with
            nothing to learn, by cell.
    """

    cells: tuple[Cell, ...]
    lacking: Mapping[str, tuple[str, ...]]
    outcomes: Mapping[str, Mapping[str, AnalysisOutcome]]
    idle: Mapping[str, str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """One analysis on cells that it takes together."""

    analysis: str
    cells: tuple[Cell, ...]

    @property
    def collection(self) -> str:
        """The collection that the cells belong to."""
        return self.cells[0].collection


def run(
    names: Sequence[str | Path],
    *,
    work: Path,
    data: Path | None = None,
    costs: str = BOARD,
    recipes: tuple[str, ...] | None = None,
    analyses: Sequence[str] | None = None,
    code: Sequence[str] = (),
    map_units: Map = map,
    watch: Watch = unwatched,
    step: Step | None = None,
    announce: Callable[[RunEstimate], None] | None = None,
) -> Run:
    """Run every analysis on the named cells.

    Args:
        names: Tracks, cell folders, folders of cell folders, or specification files.
        work: Folder in which cells are built and all results are stored.
        data: Folder with kitti_tracking, nuscenes and so on, for tracks and
            specifications.
        costs: Costs of modes and allocators, for cells that have none.
        recipes: Recipes to fit; None for all that apply to a cell.
        analyses: Names of analyses; None for all.
        code: Words of the user's own code that cells were built with or that
            specifications name.
        map_units: How cells and analyses are mapped.
        watch: Progress reporting.
        step: Progress reporting of detectors.
        announce: Called with the expected time and disk before anything is run.
    """
    sources = cell_sources(
        names,
        data=data,
        work=work,
        code=code,
        map_units=map_units,
        watch=watch,
        step=step,
        announce=announce,
    )
    if not sources.groups and not sources.folders:
        lines = dict.fromkeys(
            line for reasons in sources.lacking.values() for line in reasons
        )
        raise InputError(
            "There must be a cell to run; every "
            f"cell lacks something: {'; '.join(lines)}."
        )
    missing = [group for group in sources.groups if outdated(group, work)]
    _all(
        map_units(_build, [(group, work) for group in missing]),
        missing,
        "building cells",
        watch,
    )
    folders: list[tuple[Path, CellSpec | None]] = [
        (folder, None) for folder in sources.folders
    ]
    folders += [
        (cell_folder(spec, work), spec)
        for group in sources.groups
        for spec in group.specs
    ]
    cells = _run_cells(folders, work, costs=costs, recipes=recipes, code=code)
    check_confirmed([at.cell for at in cells], code)
    chosen = [
        analysis(name) for name in ANALYSES if analyses is None or name in analyses
    ]
    idle: dict[str, str] = {}
    jobs = [job for entry in chosen for job in _jobs(entry, cells, idle)]
    undone = [job for job in jobs if not _is_answered(_place(job))]
    # so that none of these runs alone at the end
    undone.sort(key=lambda job: not analysis(job.analysis).long)
    shares = _shares(undone)
    _all(map_units(_prepare, shares), shares, "fitting, scoring, judging", watch)
    try:
        lacking = _all(map_units(_analyse, undone), undone, "analyses", watch)
    finally:
        cache_units()
    outcomes: dict[str, dict[str, AnalysisOutcome]] = {}
    refused = {
        _place(job): AnalysisOutcome((), (sentence,))
        for job, sentence in zip(undone, lacking, strict=True)
        if sentence
    }
    for job in jobs:
        before = outcomes.setdefault(job.analysis, {}).get(
            job.collection, AnalysisOutcome(())
        )
        outcomes[job.analysis][job.collection] = _join(
            before,
            refused.get(_place(job)) or _read(analysis(job.analysis), _stored(job)),
        )
    return Run(
        tuple(cells),
        sources.lacking,
        outcomes,
        idle,
        (*sources.notes, *_unlearned(jobs)),
    )


class CellRows(NamedTuple):
    """The rows of an analysis, and why it left out some cells, by the name of the
    cell.
    """

    rows: list[Any]
    left_out: dict[str, str]

    @property
    def reasons(self) -> list[str]:
        """A sentence for each reason."""
        return _sentences(self.left_out)


def _sentences(left_out: Mapping[str, str]) -> list[str]:
    by_reason = lists_by_key((reason, name) for name, reason in left_out.items())
    return [f"{few(names)}: {reason}" for reason, names in by_reason.items()]


def rows_of(
    declared: Analysis,
    cells: Sequence[Cell],
    settings: Mapping[str, Any],
    *,
    command: str,
    saved: Mapping[str, Any] | None = None,
    watch: Watch = unwatched,
    **passed: Any,
) -> CellRows:
    """The rows of an analysis on some cells, from their parts.

    A cell on which the analysis cannot work is left out with a warning. If the analysis
    judges by itself, the ledgers count it.

    Args:
        declared: The analysis.
        cells: The cells.
        settings: Its settings.
        command: Name of the command, for the ledgers.
        saved: Results by name, used instead of cells.
        watch: Progress reporting.
        passed: More arguments of `rows`, such as `map_fits`.

    Raises:
        InputError: The analysis works on none of the cells.
    """
    every = [*_saved_cells(declared, saved or {}, watch), *cells]
    arguments = {**settings, **passed}
    left_out: dict[str, str] = {}
    try:
        rows = declared.run(every, **arguments)
    except UnsuitableError as error:
        left_out = _unsuitable(declared, every, arguments, error)
        suitable = [at for at in every if at.name not in left_out]
        if not suitable:
            reasons = [text.removesuffix(".") for text in _sentences(left_out)]
            raise InputError(f"{'; '.join(reasons)}.") from error
        for sentence in _sentences(left_out):
            warnings.warn(InputWarning(f"Left out, {sentence}"), stacklevel=2)
        rows = declared.run(suitable, **arguments)
    asked = [name for name in declared.asks if name in SCORES]
    if declared.judges:
        for at in cells:
            if at.name in left_out:
                continue
            own = at.part(asked[0]) if asked else {}
            named = (
                own.items()
                if isinstance(own, Mapping)
                else ((item.name, item) for item in own or ())
            )
            aligned = {name: item for name, item in named if isinstance(item, Scores)}
            note(
                at.cell,
                by=command,
                units=units_of(at.cell.split, settings.get("units", "test")),
                scores=aligned,
            )
    return CellRows(rows, left_out)


def _unsuitable(
    declared: Analysis,
    cells: Sequence[Cell],
    arguments: Mapping[str, Any],
    error: UnsuitableError,
) -> dict[str, str]:
    """Why an analysis does not work on some of the cells, by name; raises the error of
    all of them where it is of none alone.
    """
    if len(cells) == 1:
        return {cells[0].name: _reason(cells[0], error)}
    # The error does not name its cell: units and systems know nothing of cells. So each
    # cell is tried alone; what fails for another reason alone, such as for lack of a
    # second cell, fails again with the others.
    reasons = {}
    for at in cells:
        with warnings.catch_warnings(), suppress(InputError):
            warnings.simplefilter("ignore", InputWarning)
            try:
                declared.run([at], **arguments)
            except UnsuitableError as own:
                reasons[at.name] = _reason(at, own)
    if not reasons:
        raise error
    return reasons


def _reason(at: Cell, error: UnsuitableError) -> str:
    """The sentence of an error without the name of its cell: cells of one reason are
    listed before it.
    """
    return str(error).removeprefix(f"{at.name}: ")


def _saved_cells(
    declared: Analysis, saved: Mapping[str, Any], watch: Watch
) -> list[Cell]:
    """Saved results as cells that have the results alone."""
    names = [name for name in declared.asks if PARTS[name].saved]
    return [
        Cell(
            name,
            parts=dict.fromkeys(PARTS, None) | dict.fromkeys(names, result),
            choices=Choices(command=""),
            watch=watch,
        )
        for name, result in saved.items()
    ]


def _all(
    done: Iterable[Any], items: Sequence[Any], label: str, watch: Watch
) -> list[Any]:
    """The results of all items, with a progress bar."""
    return [result for _, result in zip(watch(items, label), done, strict=True)]


def _build(job: tuple[BuildGroup, Path]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        list(build_group(*job))


def _run_cells(
    folders: Sequence[tuple[Path, CellSpec | None]],
    work: Path,
    *,
    costs: str,
    recipes: tuple[str, ...] | None,
    code: Sequence[str],
) -> list[Cell]:
    """The cells, labelled by modes, system and geometry, with a hash where these are
    not unique in a data set.
    """
    built = [read_cell(folder) for folder, _ in folders]
    if not built:
        return []
    collections = _collections(
        [(cell.spec.dataset, cell.split.units) for cell in built]
    )
    short = [(cell.spec.dataset, _label(cell)) for cell in built]
    labels = [
        label
        if short.count((dataset, label)) == 1
        else f"{label} {cell.id.rpartition('-')[2]}"
        for (dataset, label), cell in zip(short, built, strict=True)
    ]
    return [
        Cell(
            label,
            collection,
            folder,
            _located_spec(cell, spec, code),
            work,
            costs,
            recipes,
        )
        for label, collection, cell, (folder, spec) in zip(
            labels, collections, built, folders, strict=True
        )
    ]


def _collections(units: Sequence[tuple[str, tuple[str, ...]]]) -> list[str]:
    """The data set of each cell; also the cell's units if other cells of the data set
    have more units.
    """
    most = {
        name: max((own for other, own in units if other == name), key=len)
        for name, _ in units
    }
    return [
        name if own == most[name] else f"{name}, {_some(own)}" for name, own in units
    ]


def _some(units: Sequence[str]) -> str:
    return f"{len(units)} units" if len(units) > 1 else f"unit {units[0]}"


def _label(cell: BuiltCell) -> str:
    cheap, full = cell.table.modes[0], cell.table.modes[-1]
    family, dash, size = full.rpartition("-")
    modes = f"{cheap}-{size if dash and cheap.startswith(family + dash) else full}"
    return f"{modes} {cell.spec.system} {cell.spec.geometry}"


def _located_spec(
    cell: BuiltCell, spec: CellSpec | None, code: Sequence[str]
) -> CellSpec | None:
    if spec is not None:
        return spec
    own = cell.code.get("dataset")
    if own is not None and typed_word(own.word, code) is None:
        return None
    if own is None and needs_files(cell):
        return None
    return located(cell, code=code)


def _jobs(declared: Analysis, cells: Sequence[Cell], idle: dict[str, str]) -> list[Job]:
    """One job for each group of cells that the analysis takes together.

    If there is none, `idle` gets the reason.
    """
    fitting = list(cells)
    if declared.among is not None:
        holds, none = declared.among
        fitting = [at for at in cells if holds(at.cell)]
        if not fitting:
            idle[declared.name] = none
            return []
    if declared.needs_data:
        fitting = [at for at in fitting if at.spec is not None]
        if not fitting:
            idle[declared.name] = "no cell whose data are on this machine"
            return []
    groups: dict[str, list[Cell]] = {}
    for at in fitting:
        d = at.cell.definition
        kinds = {
            "cell": (d["dataset"], at.name),
            "view": [d[part] for part in ("dataset", "modes", "geometry")],
            "pair": [d[part] for part in ("dataset", "modes")],
            "set": at.collection,
        }
        groups.setdefault(digest_of(plain(kinds[declared.by])), []).append(at)
    jobs = [
        Job(declared.name, tuple(group))
        for group in groups.values()
        if len(group) >= declared.least
    ]
    if not jobs:
        idle[declared.name] = (
            f"no {declared.least} cells that differ in the consumer alone"
        )
    return jobs


def _shares(jobs: Sequence[Job]) -> list[tuple[Cell, tuple[str, ...]]]:
    """The parts that jobs take of each cell, each made once; parts from fits on all fit
    units come first.
    """
    by_cell: dict[str, tuple[Cell, set[str]]] = {}
    for job in jobs:
        parts = _parts_to_make(job.analysis)
        for at in job.cells if parts else ():
            by_cell.setdefault(str(at.folder), (at, set()))[1].update(parts)
    shares = [
        (at, tuple(sorted(part for part in parts if PARTS[part].turn == turn)))
        for turn in sorted({part.turn for part in PARTS.values()})
        for at, parts in by_cell.values()
    ]
    return [(at, parts) for at, parts in shares if parts]


def _unlearned(jobs: Sequence[Job]) -> Iterator[str]:
    """Phrases on recipes that have nothing to learn from some cells, and the cells."""
    cells: dict[str, list[str]] = {}
    for at, parts in _shares(jobs):
        with suppress(InputError):  # the analyses that take the scores report it
            names = (
                [name for name in recipes_of(at) if name not in at.part("scores")]
                if "scores" in parts
                else []
            )
            cells.setdefault(", ".join(names), []).append(f"{at.collection} {at.name}")
    for names, labels in cells.items():
        if names:
            yield (
                f"without {names} for lack of fit "
                f"inputs of both kinds: {'; '.join(labels)}"
            )


def _prepare(share: tuple[Cell, tuple[str, ...]]) -> None:
    at, parts = share
    for part in parts:
        try:
            with warnings.catch_warnings():
                # the rows state what a command would warn of
                warnings.simplefilter("ignore", InputWarning)
                at.part(part)
        except InputError as error:
            if _stops(error):
                raise
            continue  # the analysis that takes the part reports the error


def _parts_taken(name: str) -> list[str]:
    """Names of the parts that a reproduction supplies to an analysis."""
    return [PARTS[part].reproduced_as or part for part in analysis(name).asks]


def _parts_to_make(name: str) -> set[str]:
    return {part for part in _parts_taken(name) if not PARTS[part].ready}


def _settings(job: Job) -> dict[str, Any]:
    """The settings of an analysis: its defaults, without recipes that the run does not
    fit on these cells.
    """
    settings = analysis(job.analysis).settings
    available = [recipes_of(at) for at in job.cells if at.cell.split.too_few is None]
    for setting in ("recipes", "allocators"):
        if settings.get(setting) is not None:
            settings[setting] = tuple(
                name
                for name in settings[setting]
                if all(name in names for names in available)
            )
    return settings


def _rests_on(job: Job) -> dict[str, Any]:
    declared = analysis(job.analysis)
    parts = _parts_taken(job.analysis)
    to_make = _parts_to_make(job.analysis)
    content: dict[str, Any] = {
        "analysis": declared.name,
        "cells": {at.name: identity(at.cell) for at in job.cells},
        "takes": parts,
        "settings": plain(_settings(job)),
        "code": code_digest(
            declared.rows.__module__, *(["deepval.paper.study"] if to_make else [])
        ),
    }
    if "located" in parts:
        content["located"] = [at.spec is not None for at in job.cells]
        # Own code plans only if it was named for this run.
        content["acting"] = [
            at.spec is not None and at.spec.rule is not None for at in job.cells
        ]
    if to_make:
        content["recipes"] = job.cells[0].recipes
    if any(PARTS[part].has_costs for part in parts):
        content["costs"] = sha256(costs_bytes(str(job.cells[0].costs)))
    return content


def _root(job: Job) -> tuple[Path, str]:
    work = job.cells[0].work
    assert work is not None
    return work / "kept", f"analyses/{job.analysis}"


def _place(job: Job) -> Path:
    return result_folder(*_root(job), _rests_on(job))


def _analyse(job: Job) -> str | None:
    """Store the answer of a job.

    Returns the reason if this machine lacks a file or a library for it.
    """
    cache_units(CACHED_UNITS)
    try:
        _stored(job)
    except InputError as error:
        if _stops(error):
            raise
        return str(error)
    return None


def _stops(error: InputError) -> bool:
    """Whether the machine lacks something that all further jobs need as well: disk
    space, rights, memory, workers.
    """
    return is_of_machine(error) and not reports_absence(str(error))


def _is_answered(folder: Path) -> bool:
    """Whether the answer of a job is stored; a failure of the machine, which earlier
    versions stored, is removed.
    """
    if not is_stored(folder):
        return False
    if reading.is_file(folder / REFUSED) and reports_machine(
        reading.text(folder / REFUSED)
    ):
        for name in (LIST, REFUSED):
            (folder / name).unlink()
        return False
    return True


def _stored(job: Job) -> Path:
    """The folder with the rows of a job, or with the reason why there are none."""
    return store_result(*_root(job), _rests_on(job), lambda: _answer(job))


def _answer(job: Job) -> dict[str, bytes]:
    declared = analysis(job.analysis)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            with job.cells[0].storing_fits():
                done = rows_of(
                    declared,
                    job.cells,
                    _settings(job),
                    command=f"reproduce {job.analysis}",
                )
    except InputError as error:
        if is_of_machine(error):
            raise
        return {REFUSED: str(error).encode()}
    files = {ROWS: declared.to_bytes(done.rows)}
    if done.left_out:
        files[REFUSED] = "\n".join(done.reasons).encode()
    return files


def _read(declared: Analysis, folder: Path) -> AnalysisOutcome:
    rows: Iterable[Any] = ()
    refused: list[str] = []
    if reading.is_file(folder / ROWS):
        rows = declared.from_bytes(reading.content(folder / ROWS))
    if reading.is_file(folder / REFUSED):
        refused = reading.text(folder / REFUSED).splitlines()
    return AnalysisOutcome(tuple(rows), tuple(refused))


def _join(one: AnalysisOutcome, other: AnalysisOutcome) -> AnalysisOutcome:
    return AnalysisOutcome(
        (*one.rows, *other.rows), tuple(dict.fromkeys((*one.refused, *other.refused)))
    )
