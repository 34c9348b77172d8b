"""`deepval fit`, `export`, `score` and `profile`: a cell -> a fitted allocator, its
ONNX graph, its scores, its costs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from cyclopts import Parameter

from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.basics.files.canonical import ALLOCATORS
from deepval.basics.files.writing import check_writable, write_atomically
from deepval.cli import options, terminal
from deepval.cli.terminal import say, say_note
from deepval.deploy import fitting
from deepval.deploy.allocators import (
    PAPER,
    PAPERS_RECIPES,
    PAPERS_SIGNALS,
    RECIPES,
    Allocator,
    EstimatorRecipe,
    FittedAllocator,
    Learned,
    PixelRouter,
    Recipe,
    own_allocator,
    read_allocator,
    recipe_by_name,
    refuse_namesake,
)
from deepval.deploy.allocators.allocator import SIGNALS
from deepval.deploy.allocators.feature_sets import OwnFeatures
from deepval.deploy.allocators.row_allocator import export
from deepval.deploy.features import Glance, glance
from deepval.deploy.fitting import allocator_named
from deepval.driving.cells.folder import BuiltCell, read_cell
from deepval.driving.metering.cost_cards import (
    CostCard,
    add_cards,
    measure_cards,
    read_entries,
)
from deepval.driving.metering.energy import EnergyUse
from deepval.driving.metering.timing import Items, Stages
from deepval.driving.views import CheapMode, Frame, Past, frames_of
from deepval.judge.cases import SCORES
from deepval.judge.report.text_tables import MISSING, Table, TableCell, quantity
from deepval.judge.tables.columns import csv_text, parquet_bytes
from deepval.judge.tables.split import ROLES

CellFolder = Annotated[
    Path, Parameter(help="Folder of a cell that `deepval build` wrote.")
]
AllocatorName = Annotated[
    str,
    Parameter(
        help=(
            "A fitted allocator (its file, or its name in the cell's folder), a "
            "signal, or your own: FILE.py:NAME."
        ),
    ),
]
ALL = "all"


def profile(
    cell: CellFolder,
    allocator: str,
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o", group=options.OUTPUT)],
    seconds: Annotated[float, Parameter(validator=options.Between(0, 1e6))] = 5.0,
    batch: Annotated[int | None, options.whole(1, 100_000)] = None,
    threads: Annotated[int | None, options.whole(1, 1_024)] = None,
    energy: bool = False,
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> None:
    """Preprocessing and inference are measured on the frames of the cell.

    Example: deepval profile cells/braking-monocular gate-ridge --out costs.toml --batch
    64

    A table of all, as shares of a full pass: deepval profile cells/braking-monocular
    all --out cache/costs.toml

    Args:
        allocator: A fitted allocator (its file, or its name in the cell's folder), a
            signal, your own (FILE.py:NAME), or all: every signal and every fitted
            allocator in the cell's folder, as one table.
        out: Costs file (.toml) to add the costs to.
        seconds: Time limit of each measurement.
        batch: Measure batches of this size too.
        threads: Threads of BLAS, OpenMP and OpenCV.
        energy: Measure energy above idle; needs a sensor.
    """
    # Read first, so that an unreadable costs file is reported before the measurement.
    read_entries(out, "allocators")
    modes = read_entries(out, "modes")
    settings = {
        "batch": batch,
        "seconds": seconds,
        "threads": threads,
        "energy": energy,
    }
    names = [allocator]
    if allocator == ALL:
        fitted = reading.find(cell / ALLOCATORS, "*.json")
        names = [*SIGNALS, *sorted(path.stem for path in fitted)]
    targets: Iterable[tuple[str, Stages, Items]]
    targets = [stages_of(text, cell) for text in names]
    if allocator == ALL:
        targets = terminal.watch(targets, f"allocators of {cell.name}")
    cards = []
    for name, stages, items in targets:
        cards += measure_cards(name, stages, items, **settings)
    add_cards(out, cards)
    if printing.is_json:
        terminal.print_json({card.name: card.entry() for card in cards})
        return
    if allocator == ALL:
        terminal.print_tables([_table(cards, modes)])
    else:
        for card in cards:
            say("\n".join(_lines(card)))
    say(f"Cards in {out}")


def _table(cards: list[CostCard], modes: Mapping[str, Mapping[str, object]]) -> Table:
    """Costs per input beside those of the modes in the costs file, as shares of the
    most expensive mode.
    """
    costs = {
        name: float(ms)
        for name, entry in modes.items()
        if isinstance(ms := entry.get("ms"), int | float)
    }
    full = max(costs.values(), default=None)

    def row(name: str, ms: float, p95: str) -> tuple[TableCell, ...]:
        return tuple(
            map(
                TableCell,
                (
                    name,
                    f"{ms:.4f}",
                    p95,
                    MISSING if not full else f"{100 * ms / full:.2f}%",
                ),
            )
        )

    noisy = [card.name for card in cards if not card.timing.tight]
    notes = (
        f"{cards[0].threads} thread{'s' * (cards[0].threads != 1)}, {cards[0].device}.",
        *(
            ["No mode has ms in the costs file: measure modes with `deepval detect`."]
            if not full
            else []
        ),
        *([f"Not within the tolerance: {', '.join(noisy)}."] if noisy else []),
    )
    sections = (
        tuple(row(name, ms, "") for name, ms in costs.items()),
        tuple(
            row(card.name, card.timing.ms, f"{card.timing.p95_ms:.4f}")
            for card in cards
        ),
    )
    return Table(
        "Costs per input", ("name", "ms", "p95 ms", "of a full pass"), sections, notes
    )


def stages_of(target: str, cell: Path) -> tuple[str, Stages, Items]:
    """The name of an allocator's scores, its stages from frame to score, and the frames
    of a cell that they run on.

    The first stage starts at the cheap mode's boxes and includes the memory of earlier
    frames. For a learned allocator, it ends with the row that its models take.
    """
    built, own = read_cell(cell), own_allocator(target)
    if isinstance(own, EstimatorRecipe):
        allocator = fitting.fit_on(built, own)
    else:
        scorer = _scorer(target, own, cell)
        allocator = (
            scorer
            if isinstance(scorer, Allocator)
            else allocator_named(scorer, cell, others=(ALL,))
        )
    frames = _frames(built, allocator)
    steps = dict(allocator.stages())
    first = next(iter(steps))
    name = _called(target) if own is None else own.name
    return name, steps | {first: lambda items: steps[first](_glances(items))}, frames


def _scorer(word: str, own: Allocator | Recipe | None, cell: Path) -> Allocator | str:
    """What scores: the user's own allocator, or the name or file of another; a recipe's
    is in the cell's folder.
    """
    if isinstance(own, EstimatorRecipe):
        raise InputError(
            f"{own.name} is an estimator: `deepval fit {cell} -a {word}` fits it and "
            "writes its scores."
        )
    if isinstance(own, Recipe) and not reading.is_file(
        fitting.fitted_file(cell, own.name)
    ):
        raise InputError(
            f"{own.name} is not fitted: `deepval fit {cell} -a {word}` fits it."
        )
    return word if own is None else own.name if isinstance(own, Recipe) else own


class _FrameWithPast(NamedTuple):
    """A frame with the memory of earlier frames at its arrival."""

    frame: Frame
    past: Past
    mode: CheapMode


def _glances(items: _FrameWithPast | list[_FrameWithPast]) -> Glance | list[Glance]:
    if isinstance(items, list):
        return [glance(item.frame, item.past, mode=item.mode) for item in items]
    return glance(items.frame, items.past, mode=items.mode)


def _frames(built: BuiltCell, allocator: Allocator) -> list[_FrameWithPast]:
    """The frames of the cell's validation units on which the cheap mode was run, as a
    router receives them.
    """
    frames = []
    for view in built.views:
        if view.scene.unit not in built.split.validation:
            continue
        past = allocator.past()
        for frame in frames_of(view):
            if frame.run:
                frames.append(_FrameWithPast(frame, past, view.mode))
            past = glance(frame, past, mode=view.mode).after
    return frames


def _lines(card: CostCard) -> list[str]:
    timing, entry = card.timing, card.entry()
    low, high = timing.interval_ms
    parts = ", ".join(f"{stage} {entry[f'{stage}_ms']:.4g}" for stage in timing.stages)
    energy = (
        ", ".join(f"{convention} {mj:.4g}" for convention, mj in card.energy.mj.items())
        if isinstance(card.energy, EnergyUse)
        else card.energy
    )
    return [
        f"{card.name} ({card.served}{f' {timing.batch}' if timing.batch else ''}): "
        f"{timing.ms:.4g} ms per input [{low:.4g}, {high:.4g}], p95 "
        f"{timing.p95_ms:.4g} ({parts}), {timing.calls:,} calls",
        f"  {card.threads} threads, {card.device}; energy: {energy}",
        *(f"  note: {note}" for note in card.notes),
    ]


def fit(
    cell: CellFolder,
    /,
    *,
    allocator: Annotated[tuple[str, ...], Parameter(alias="-a")] = (),
    out: options.Out = None,
    features: Path | None = None,
    target: str | None = None,
    units: str | None = None,
    seed: Annotated[int | None, options.whole(0, 2**63 - 1)] = None,
    like: Path | None = None,
    workers: options.Workers = options.WORKERS_DEFAULTS,
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> None:
    """By default, training and validation units are used (--units). Each allocator is
    written as soon as it is fitted. For out-of-fold fits, use `deepval analyse
    out-of-fold`.

    Example: deepval fit cells/braking-monocular --allocator gate-gbm

    Several, two at a time: deepval fit cells/braking-monocular -a gate-gbm gate-ridge
    --workers 2

    Your own estimator with scikit-learn's methods, whose scores are written at once:
    deepval fit cells/braking-monocular --allocator my_file.py:model

    Args:
        allocator: gate-ridge, gate-gbm, gate-gbm-memory, gate-multi-fidelity,
            router-mlp-value, router-mlp-binary, router-gbm-value, router-gbm-binary,
            router-two-head, router-recall, router-voi, router-pixel; all: those that
            need no extra; paper: the six of the paper's main table; your own:
            FILE.py:NAME. Repeatable.
        out: File for the fitted allocator, or folder for several. Default:
            CELL/allocators/NAME.json.
        features: Features of your own estimator (.csv, .parquet): input and numbers.
            Default: the 65.
        target: Training target, such as value or gain-E1. Default: the allocator's.
        units: fit (train and validation; the default), train, a,b,c or a file.
        seed: Seed of the fit. Default: 0.
        like: Repeat the fit of this file: same bytes on the same cell.
    """
    if bool(allocator) == bool(like):
        raise InputError("Give either --allocator or --like.")
    fit_options = {"--target": target, "--units": units, "--seed": seed}
    ignored = [option for option, value in fit_options.items() if value is not None]
    if like is not None and ignored:
        raise InputError(
            "--like takes target, units and seed from "
            f"its file: leave out {' and '.join(ignored)}."
        )
    many = len(allocator) > 1 or not {ALL, PAPER}.isdisjoint(allocator)
    if out is not None:
        check_writable(out, folder=many)
    built = read_cell(cell)
    items: list[Any]
    if like is None:
        items = _recipes(built, allocator, features)
        work = partial(
            fitting.fit_on,
            built,
            target=target,
            units=options.unit_list(units, ROLES) or "fit",
            seed=seed or 0,
        )
    else:
        items = [read_allocator(like)]
        work = partial(fitting.refit, built)
    if any(isinstance(item, EstimatorRecipe) for item in items):
        _fit_estimator(built, items, work, out, printing)
        return

    def file_of(name: str) -> Path:
        if out is None:
            return fitting.fitted_file(cell, name)
        return out / f"{name}.json" if many else out

    for item in items:
        name = item if isinstance(item, str) else item.name
        refuse_namesake(file_of(name), name)
    written = []
    for fitted in _fit_all(items, work, workers, cell.name):
        file = file_of(fitted.name)
        write_atomically(file, fitted.to_json(), make_folder=out is None or many)
        written.append((file, fitted))
    if printing.is_json:
        content = [_summary(file, fitted) for file, fitted in written]
        terminal.print_json(content if many else content[0])
        return
    for file, fitted in written:
        used = fitted.training
        inputs = quantity(used.inputs, "input")
        fitted_on = f"{inputs} of {quantity(len(used.units), 'unit')}"
        say(f"{file}: {fitted.name} for {used.target}, fitted on {fitted_on}.")


def _fit_estimator(
    built: BuiltCell,
    items: Sequence[Any],
    work: Callable[..., Any],
    out: Path | None,
    printing: options.Printing,
) -> None:
    """Fit an estimator of the user's, and write its scores instead of itself."""
    (estimator, *others) = items
    if others:
        raise InputError(
            "An estimator is fitted alone; found "
            f"{len(items)} allocators: fit {estimator.name} alone."
        )
    if out is not None:
        _check_scores_file(out)
    fitted = work(estimator, watch=terminal.watch)
    scored = fitting.calibration_scores(built, fitted, watch=terminal.watch)
    usual = built.folder / SCORES / f"{estimator.name}.csv"
    _write_scores(scored, out, usual, printing, note=NOT_SAVED)


def _fit_all(
    items: Sequence[Any], work: Callable[..., Any], workers: options.Workers, cell: str
) -> Iterator[FittedAllocator]:
    """The fitted allocators, as soon as each is fitted."""
    with workers.start() as map_units:
        if map_units is map and len(items) == 1:
            yield work(items[0], watch=terminal.watch)
            return
        # Other processes do not have what the user's code registered, so its recipes
        # are fitted here.
        if any(isinstance(item, Recipe) for item in items):
            map_units = map
        fitted = iter(map_units(work, items))
        for _ in terminal.watch(items, f"allocators of {cell}"):
            yield next(fitted)


NOT_SAVED = (
    " The estimator itself is not saved, as reading it back would execute what the "
    "file contains: fit it again to score again, and serve it from your own code."
)


def _recipes(
    cell: BuiltCell, names: Sequence[str], features: Path | None
) -> list[str | Recipe]:
    """Recipes without repetition, own ones as objects; `all` means those that suit the
    cell and need no extra, `paper` the paper's.
    """
    groups = {ALL: fitting.recipes_for(cell), PAPER: PAPERS_RECIPES}
    recipes: dict[str, str | Recipe] = {}
    for name in chain.from_iterable(groups.get(text, [text]) for text in names):
        own = None if name in RECIPES else own_allocator(name)
        if isinstance(own, Allocator):
            raise InputError(
                f"{own.name} needs no fit: "
                f"`deepval score {cell.folder} {name}` scores by it."
            )
        if features is not None and not isinstance(own, EstimatorRecipe):
            raise InputError(
                "--features applies only to an estimator "
                f"of your own; found {name}: leave it out."
            )
        if isinstance(own, EstimatorRecipe) and features is not None:
            own = replace(own, features=OwnFeatures.read(features, cell.table.input))
            RECIPES[own.name] = own
        recipes[name] = recipe_by_name(name).name if own is None else own
    return list(recipes.values())


def _summary(file: Path, allocator: FittedAllocator) -> dict[str, Any]:
    used = allocator.training
    content = {
        "allocator": allocator.name,
        "file": str(file),
        "target": used.target,
        "units": list(used.units),
    }
    return content | {"inputs": used.inputs, "seed": used.seed}


def score(
    cell: CellFolder,
    allocator: AllocatorName,
    /,
    *,
    out: options.Out = None,
    units: str = "validation,test",
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> None:
    """Inputs without a score are left out, and their number is printed. `paper` stands
    for the allocators of the paper's main table. An allocator that was fitted on
    validation units does not score them itself: the same recipe, fitted on the training
    units alone, does.

    Example: deepval score cells/braking-monocular gate-gbm

    Args:
        out: Scores file (.csv, .parquet). Default: CELL/scores/NAME.csv.
        units: Units to score: test, validation, train, fit, all, a,b,c or a file.
    """
    if allocator == PAPER:
        if out is not None:
            raise InputError(
                "--out is one file, and the paper's allocators fill several: leave it "
                "out."
            )
        _score_papers(cell, units, printing)
        return
    if out is not None:
        _check_scores_file(out)
    own = own_allocator(allocator)
    scorer = _scorer(allocator, own, cell)
    requested_units = options.unit_list(units, ROLES) or ()
    scored = fitting.calibration_scores(
        read_cell(cell), scorer, units=requested_units, watch=terminal.watch
    )
    name = _called(allocator) if own is None else own.name
    _write_scores(scored, out, cell / SCORES / f"{name}.csv", printing)


def _score_papers(cell: Path, units: str, printing: options.Printing) -> None:
    """Score by each of the paper's allocators; one that this cell lacks is noted."""
    faults = []
    for name in (*PAPERS_SIGNALS, *PAPERS_RECIPES):
        try:
            score(cell, name, units=units, printing=printing)
        except InputError as error:
            faults.append(f"{name}: {error}")
    if len(faults) == len(PAPERS_SIGNALS) + len(PAPERS_RECIPES):
        raise InputError(faults[0])
    for fault in faults:
        say_note(fault)


def _check_scores_file(out: Path) -> None:
    if out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: the name must end in .csv or .parquet.")
    check_writable(out)


def _write_scores(
    scored: fitting.Scored,
    out: Path | None,
    usual: Path,
    printing: options.Printing,
    note: str = "",
) -> None:
    """Write scores to a file, by default the usual one, and print what they cover."""
    if not len(scored.input):
        raise InputError(
            f"{scored.name} has no score for "
            f"any of the {scored.inputs:,} inputs: {scored.reason}."
        )
    columns = scored.columns()
    file = out or usual
    content = parquet_bytes(columns) if file.suffix == ".parquet" else csv_text(columns)
    write_atomically(file, content, make_folder=out is None)
    if printing.is_json:
        content = {
            "allocator": scored.name,
            "kind": scored.kind,
            "file": str(file),
            "inputs": scored.inputs,
        }
        more = {
            "scored": len(scored.input),
            "coverage": scored.coverage,
            "reason": scored.reason,
            "fits": _fits(scored),
        }
        terminal.print_json(content | more)
        return
    without = (
        ""
        if scored.reason is None
        else f"; {scored.inputs - len(scored.input):,} without, as {scored.reason}"
    )
    say(
        f"{file}: {len(scored.input):,} of {scored.inputs:,} inputs scored by "
        f"{scored.name} (coverage "
        f"{scored.coverage:.1%}{without}){_fit_words(scored)}.{note}"
    )


def _fits(scored: fitting.Scored) -> list[dict[str, int]]:
    """For each fit behind scores: number of its units, of inputs that it scored, and of
    those that are of its units.
    """
    fit = scored.fit
    if fit is None:
        return []
    rows = {
        number: fit.units == number
        for number in np.unique(fit.units).tolist()
        if number
    }
    return [
        {
            "units": number,
            "inputs": int(here.sum()),
            "inputs_in_fit": int(fit.inside[here].sum()),
        }
        for number, here in rows.items()
    ]


def _fit_words(scored: fitting.Scored) -> str:
    """Facts about the fits behind scores, as the end of a sentence."""
    fits = _fits(scored)
    words = [
        f"{fit['inputs_in_fit']:,} of them are of units that it was fitted on"
        for fit in fits
        if fit["inputs_in_fit"]
    ]
    if len(fits) > 1:
        alone = min(fits, key=lambda fit: fit["units"])
        words.append(
            f"{alone['inputs']:,} validation inputs by a fit on "
            f"{quantity(alone['units'], 'unit')} without theirs"
        )
    return "; ".join(["", *words])


def export_fitted(
    cell: CellFolder,
    allocator: AllocatorName,
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o", group=options.OUTPUT)],
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> None:
    """The graph goes from `row` (double, [n, columns]; the column names are in its
    metadata) to `score` (double) and is checked on the cell's frames, which needs the
    extra `vision`; the pixel router's graph is written as it is served.

    Example: deepval export cells/braking-monocular gate-gbm --out gate.onnx

    Args:
        out: File to write (.onnx).
    """
    if out.suffix != ".onnx":
        raise InputError(f"--out must be a name that ends in .onnx; found {out}.")
    check_writable(out)
    built = read_cell(cell)
    scorer = _scorer(allocator, own_allocator(allocator), cell)
    fitted = (
        scorer
        if isinstance(scorer, Allocator)
        else fitting.allocator_named(scorer, cell)
    )
    if isinstance(fitted, PixelRouter):
        write_atomically(out, fitted.model)
        facts = {
            "allocator": fitted.name,
            "file": str(out),
            "rows": 0,
            "difference": 0.0,
        }
        description = "the graph that it is served by, from picture to log_odds"
    elif isinstance(fitted, Learned):
        checked = export(fitted, fitting.rows_on(built, fitted))
        write_atomically(out, checked.graph)
        facts = {
            "allocator": fitted.name,
            "file": str(out),
            "rows": checked.rows,
            "difference": checked.difference,
        }
        same = (
            "all are equal"
            if checked.equal == checked.rows
            else f"{checked.equal:,} of them are equal"
        )
        apart = (
            "the scores of ONNX Runtime and deepval "
            f"differ by at most {checked.difference:.2g}"
        )
        description = f"on {checked.rows:,} rows {apart}, {same}"
    else:
        raise InputError(
            f"{fitted.name} is not a fitted allocator: `deepval export` takes one "
            "that `deepval fit` wrote."
        )
    if printing.is_json:
        terminal.print_json(facts)
        return
    say(f"{out}: {fitted.name}; {description}.")


def _called(text: str) -> str:
    """The name of an allocator's scores and costs: the file's name without its suffix,
    or the text itself.
    """
    return Path(text).stem if reading.is_file(Path(text)) else text
