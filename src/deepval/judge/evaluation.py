"""evaluate(): a table of losses, scores and budgets -> a Result.

This module only composes, from top to bottom:

    table, scores       files -> losses and scores, aligned by id
    bootstrap           units -> resamples, shared by all policies
    allowances          budgets -> what may be spent on this table
    contests            every policy under every allowance: gains, figures, verdicts
    asked for           floors, groups, streams, thresholds, curves
    notes               likely mistakes, as warnings
    result              computes what describes the rows when it is read: flat rows with
                        sentences, answers, gaps, units, samples
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Literal, get_args

from deepval.basics import checks
from deepval.basics.errors import InputError, InputWarning, argument, quote
from deepval.basics.progress import Watch, unwatched
from deepval.judge.allocators import all_policies, own_allowances, policy_of
from deepval.judge.allowances import (
    Allowance,
    Budget,
    MissingCosts,
    allowance_on,
    budget_list,
    charging,
    cost_figures,
    free_of_charge,
)
from deepval.judge.answers.blind import always_modes
from deepval.judge.answers.told import own_of
from deepval.judge.bootstrap import Bootstrap, Cap
from deepval.judge.draws import make_draws
from deepval.judge.extras.gaps import gaps
from deepval.judge.extras.notes import notes_in_memory
from deepval.judge.extras.recovery import Fresh
from deepval.judge.extras.setting import setting
from deepval.judge.extras.table_notes import table_notes
from deepval.judge.extras.units import unit_parts
from deepval.judge.judgement import Contest, judge
from deepval.judge.pairs import Contender, contenders_of, samples_of
from deepval.judge.policies import Policy, Ranking
from deepval.judge.results import (
    TABLE_BY,
    BudgetKey,
    Curve,
    Inputs,
    Optimum,
    Provenance,
    Result,
    Row,
    ScoresUsed,
    Stream,
    Threshold,
)
from deepval.judge.row_columns import (
    Additions,
    additions_of,
    half_widths,
    number_of_verdicts,
    rows_of,
)
from deepval.judge.tables.chunks import OnDisk, on_disk
from deepval.judge.tables.keys import positions
from deepval.judge.tables.scores import CALIBRATE, Missing, Scores, align_all, on_part
from deepval.judge.tables.values import ValueTable, read_values
from deepval.version import __version__

MOST_POINTS = 10_000
"""Upper limit of `curve_points`."""


def evaluate(
    table: ValueTable | Any,
    scores: Mapping[str, Any],
    budgets: Budget | float | Iterable[Budget | float] | None = None,
    *,
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    modes: Sequence[str] | None = None,
    units: Sequence[str] | None = None,
    calibration: Sequence[str] | int | None = None,
    by: str | Sequence[str] = (),
    own: str | Sequence[str] = (),
    table_by: str | Sequence[str] = (),
    keep: float | str | None = None,
    at_least: float | str | None = None,
    missing: Missing = "error",
    missing_costs: MissingCosts = "error",
    simultaneous_intervals: bool = False,
    curve_points: int = 0,
    thresholds: bool = False,
    terms: Any = None,
    weights: Mapping[str, float] | None = None,
    memory: int | str | None = None,
    watch: Watch = unwatched,
) -> Result:
    """What to run: allocators on a table of losses, judged under budgets.

    Args:
        table: A `ValueTable`, or anything `read_values` reads.
        scores: Per allocator, an array in the table's order or columns `input` and
            `score` (aligned by id).
        budgets: One or several: a share of the inputs (0.2), `Selection`, `Latency`,
            `Energy` or `Money`. None means 10, 20, 30 and 50 %: of the money where the
            table has prices, else of the inputs.
        draws: Number of bootstrap draws of units, or "exact" to enumerate them all; 0
            for no intervals.
        seed: Seed of the draws.
        modes: Modes to judge, cheap first and full last; None for all, in the order of
            the table.
        units: Units to judge on; None for all but the calibration units.
        calibration: Units on which streaming policies are calibrated; they are not
            judged. Or a number of folds: the policies of each fold of the judged units
            are calibrated on the others.
        by: Columns of the table that divide the inputs into groups, which are also
            judged, with the same draws.
        own: Your own allocators, beside which others are only compared: one of these is
            the candidate of every answer. All allocators where none is named.
        table_by: Columns by which tables choose a mode for each group: an allocator
            each, named `table by COLUMN` and judged out of fold.
        keep: Share of the quality of the dearest mode, such as 0.99 or "99%": the
            result then names the cheapest option that is shown to keep it.
        at_least: The same for a quality per input (0.83), or for that of a mode
            ("gpt-4", "gpt-4-1pt").
        missing: Whether an input without a score is an error or ranked last ("worst").
        missing_costs: Whether an allocator without a cost is an error under a measured
            budget, or gets rows without a verdict that give the reason ("list").
        simultaneous_intervals: Whether to add intervals that hold for all rows of the
            table at once.
        curve_points: Number of shares at which to compute the gain curve of every
            allocator.
        thresholds: Whether the result also contains the score from which each allocator
            escalates, and its expected rate. `Result.threshold` finds them where asked
            later.
        terms: Loss terms of every input (a terms file, or columns as in one): the
            result then contains the terms of every loss.
        weights: New weights of some terms: the losses are computed again from the
            terms.
        memory: Memory limit, such as "1.5GB". Parquet files that need more are read
            piece by piece, with the same rows. None allows most of the available
            memory; 0 reads every Parquet file piece by piece.
        watch: Reports the progress of long loops.

    Returns:
        What to run under every budget (`answer`), a row of every allocator, reference
        and fixed mode (`row`), and what these rest on.

    Raises:
        InputError: An argument, a file or a score is not as it must be.

    Three units of two inputs. The full mode lowers the loss of the first input of each
    from 4 to 1 and does nothing for the second, and the scores know which is which.

    >>> columns = {
    ...     "unit": ["a", "a", "b", "b", "c", "c"],
    ...     "input": [1, 2, 3, 4, 5, 6],
    ...     "loss_cheap": [4.0, 1.0, 4.0, 1.0, 4.0, 1.0],
    ...     "loss_full": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    ... }
    >>> result = evaluate(columns, {"mine": [2, 1, 2, 1, 2, 1]}, 0.5, draws="exact")
    >>> row = result.row("mine")
    >>> row.gain
    9.0
    >>> row.verdict
    'better'
    """
    columns = checks.texts(by, "by")
    by_groups = checks.texts(table_by, "table_by")
    own_names = own_of(own, scores, [TABLE_BY + name for name in by_groups])
    checks.word(missing_costs, get_args(MissingCosts), "missing_costs")
    points = checks.whole(curve_points, "curve_points", most=MOST_POINTS)
    at_once = checks.flag(simultaneous_intervals, "simultaneous_intervals")
    with_thresholds = checks.flag(thresholds, "thresholds")
    files = table if isinstance(table, OnDisk) else on_disk(table, scores, memory)
    if files is not None:
        # What few judgements need is loaded where it is needed, here and below.
        from deepval.judge.out_of_core import evaluate_on_disk, refuse

        asked = {
            argument("by"): columns,
            argument("calibration"): calibration,
            argument("curve_points"): points,
            argument("table_by"): by_groups,
            argument("keep"): keep is not None,
            argument("at_least"): at_least is not None,
            argument("terms"): terms is not None,
            argument("weights"): weights,
        }
        refuse(files, asked)
        return evaluate_on_disk(
            files,
            scores,
            budgets,
            draws=draws,
            seed=seed,
            modes=modes,
            units=units,
            own=own_names,
            missing=missing,
            missing_costs=missing_costs,
            simultaneous_intervals=at_once,
            thresholds=with_thresholds,
            watch=watch,
        )

    # Losses and scores: aligned once, then the judged and the calibration part of them.
    # Draws and means are over the judged part alone.
    whole, parts = _read_table(table, modes, terms, weights)
    judged_on, calibrated_on = _split(whole, units, calibration)
    aligned = align_all(whole, scores)
    judged_scores = [on_part(judged_on, one, whole, missing) for one in aligned]
    calibrated: tuple[ValueTable, list[Scores]] | None = None
    if calibrated_on is not None:
        # A choice has no threshold that could be calibrated.
        on_calibration = [
            on_part(calibrated_on, one, whole, missing, role=CALIBRATE)
            for one in aligned
            if not one.choice
        ]
        calibrated = (calibrated_on, on_calibration)

    # The path: resamples, allowances, and every policy under every allowance.
    drawn = make_draws(len(judged_on.unit_ids), draws, seed)
    bootstrap = Bootstrap.of(judged_on, drawn, watch=watch)
    judged_budgets = budget_list(budgets, judged_on)
    stated = [allowance_on(budget, judged_on) for budget in judged_budgets]
    # Where missing costs are listed, an allocator without one has a row that says so.
    free: list[str] = []
    if missing_costs == "error":
        stated, free = free_of_charge(aligned, stated)
    kinds = {one.name: one.kind for one in aligned}
    stated = charging(kinds, stated, missing_costs)
    fixed = always_modes(judged_on.modes)
    tables = _group_tables(judged_on, by_groups)
    contests = _contests(bootstrap, judged_scores, stated, [*tables, *fixed])

    # What follows adds to the rows and changes none of them.
    diagnostics = [one.name for one in judged_scores if one.kind == "diagnostic"]
    cheapest = None
    if keep is not None or at_least is not None:
        from deepval.judge.answers.as_good import as_good

        cheapest = as_good(
            bootstrap,
            contests,
            (keep, at_least),
            columns=by_groups,
            own=own_names,
            never=diagnostics,
        )
    sliced: list[Row] = []
    for column in columns:
        sliced += _sliced(bootstrap, judged_scores, stated, column)
    # A choice is judged at its own spend; what follows is about rankings and prices.
    rankable = [one for one in judged_scores if not one.choice]
    folds = calibration if isinstance(calibration, int) else None
    streamed, caps = _streamed(bootstrap, rankable, stated, calibrated or folds)
    find_thresholds = partial(
        _thresholds, bootstrap, rankable, stated, calibration=calibrated
    )

    # Likely mistakes, as warnings and in the result.
    notes = [
        *_charged_nothing(free),
        *_idle_choices(judged_scores, contests),
        *([] if whole.estimated is None else [whole.estimated]),
        *table_notes(judged_on, whole, stated),
        *notes_in_memory(judged_on, rankable, stated, bootstrap, calibrated_on),
    ]
    for note in notes:
        warnings.warn(InputWarning(note), stacklevel=2)

    rankings = _rankings(contests)
    result = Result(
        provenance=_provenance(bootstrap, judged_scores, stated, calibrated_on, units),
        setting=setting(judged_on),
        comparisons=0,
        half_widths=half_widths(contests),
        rows=(),
        keep=cheapest,
        slices=tuple(sliced),
        streams=tuple(one.row for one in streamed if isinstance(one.row, Stream)),
        thresholds=find_thresholds() if with_thresholds else (),
        curves=_curves(bootstrap, rankings, points),
        ladder=_ladder(judged_on, stated),
        warnings=tuple(notes),
        inputs=None if parts is None else _inputs(judged_on, whole, parts, rankable),
        fresh=Fresh(
            bootstrap,
            tuple(rankings),
            find_thresholds,
            policies=tuple(entry.policy for entry in contests[0].entries),
            allowances=_of_users(contests),
            own=own_names,
            diagnostics=tuple(diagnostics),
        ),
    )

    # Everything is judged by now. What only describes it would take half as long again,
    # so it is computed when it is read. These functions do not refer to the result: it
    # would refer to itself, and its memory would be freed late.
    additions = cache(
        partial(
            additions_of,
            bootstrap,
            contests,
            own=own_names,
            diagnostics=diagnostics,
            at_once=at_once,
            is_estimated=judged_on.estimated is not None,
        )
    )
    rows = cache(lambda: rows_of(bootstrap, contests, additions()))
    result.postpone(
        comparisons=lambda: number_of_verdicts((*rows(), *sliced)),
        rows=rows,
        answers=lambda: additions().told.answers,
        effect=lambda: additions().told.effect,
        gaps=partial(gaps, bootstrap, contests, caps),
        units=partial(unit_parts, bootstrap, contests),
        samples=lambda: samples_of(
            bootstrap, contenders_of(rows(), contests), streamed
        ),
    )
    return result


def _contests(
    bootstrap: Bootstrap,
    scores: Sequence[Scores],
    stated: Sequence[Allowance],
    fixed: Sequence[Policy] = (),
) -> list[Contest]:
    """The allocators, the references and fixed modes, judged under every budget."""
    table = bootstrap.table
    allocators = [policy_of(table, one) for one in scores]
    own = own_allowances(table, allocators, stated)
    policies = [*all_policies(table, allocators), *fixed]
    # Prices of single inputs have a mean of their own on each part of a table.
    allowances = [allowance.on(table) for allowance in (*stated, *own)]
    return judge(bootstrap, policies, allowances)


def _group_tables(table: ValueTable, columns: Sequence[str]) -> list[Policy]:
    """The tables by columns, where some are asked for."""
    if not columns:
        return []
    from deepval.judge.group_tables import GroupTable

    return [GroupTable.of(table, column) for column in columns]


def _sliced(
    bootstrap: Bootstrap,
    scores: Sequence[Scores],
    stated: Sequence[Allowance],
    column: str,
) -> list[Row]:
    """The rows of each group of a column, with the same draws."""
    from deepval.judge.extras.groups import groups

    rows: list[Row] = []
    for label, members in groups(bootstrap.table, column):
        # Units keep their place in a group, so that the same draws serve it.
        part = Bootstrap.of(
            bootstrap.table.keep(members),
            bootstrap.draws,
            leave_out=False,
            watch=bootstrap.watch,
        )
        own = [one.keep(members) for one in scores]
        contests = _contests(part, own, stated)
        # Answers and units are about all inputs; a group has figures and verdicts.
        rows += rows_of(part, contests, Additions(), label=label)
    return rows


def _streamed(
    bootstrap: Bootstrap,
    scores: Sequence[Scores],
    stated: Sequence[Allowance],
    calibrated_on: tuple[ValueTable, Sequence[Scores]] | int | None,
) -> tuple[list[Contender], dict[tuple[str, BudgetKey], Cap]]:
    """The causal policies of every ranking, and what the causal cap gains.

    They are calibrated on other units, or on the other folds of the judged ones.
    """
    if calibrated_on is None:
        return [], {}
    from deepval.judge.stream_rows import streams

    return streams(bootstrap, scores, stated, calibrated_on=calibrated_on)


def _curves(
    bootstrap: Bootstrap, rankings: Sequence[Ranking], points: int
) -> tuple[Curve, ...]:
    """The gain curves, where points of them are asked for."""
    if points == 0:
        return ()
    from deepval.judge.extras.curves import curves

    return curves(bootstrap, rankings, points)


def _ladder(table: ValueTable, allowances: Sequence[Allowance]) -> tuple[Optimum, ...]:
    """The best plan of whole inputs under each budget that needs a plan."""
    # Two modes of one price each need no plan, but a number of slots.
    if len(table.modes) == 2 and not any(one.per_input for one in allowances):
        return ()
    from deepval.judge.extras.optima import optima

    return tuple(optima(table, allowances))


def _of_users(contests: Sequence[Contest]) -> tuple[Allowance, ...]:
    """The budgets that the user named, not those of what a router spends itself."""
    allowances = [contest.allowance for contest in contests]
    return tuple(one for one in allowances if one.spender is None)


def _thresholds(
    bootstrap: Bootstrap,
    scores: Sequence[Scores],
    stated: Sequence[Allowance],
    *,
    calibration: tuple[ValueTable, Sequence[Scores]] | None,
) -> tuple[Threshold, ...]:
    """The threshold of every allocator under every budget."""
    from deepval.judge.deployment import thresholds

    return thresholds(bootstrap, scores, stated, calibration=calibration)


def _rankings(contests: Sequence[Contest]) -> list[Ranking]:
    """The allocators with one score per input."""
    return [
        entry.policy
        for entry in contests[0].entries
        if isinstance(entry.policy, Ranking)
    ]


def _read_table(
    source: ValueTable | Any,
    modes: Sequence[str] | None,
    terms: Any,
    weights: Mapping[str, float] | None,
) -> tuple[ValueTable, Any]:
    """The table, with losses under new weights if there are some, and its terms."""
    table = source
    if not isinstance(table, ValueTable):
        table = read_values(source, modes=modes)
    if modes is not None:
        table = table.with_modes(modes)
    if weights is not None and not isinstance(weights, Mapping):
        raise InputError(
            f"weights must be a mapping from terms to numbers; found {quote(weights)}."
        )
    if terms is None and weights:
        raise InputError(
            "Other weights need the loss terms; none were given: give "
            f"{argument('terms', 'terms.parquet')}."
        )
    if terms is None:
        return table, None
    from deepval.judge.tables import terms as loss_terms

    parts = loss_terms.align(table, terms)
    if not weights:
        return table, parts
    parts = parts.reweight(weights)
    return loss_terms.with_losses(table, parts), parts


def _split(
    table: ValueTable,
    units: Sequence[str] | None,
    calibration: Sequence[str] | int | None,
) -> tuple[ValueTable, ValueTable | None]:
    """The inputs to judge, and those to calibrate on."""
    if calibration is not None:
        from deepval.judge.stream_rows import times

        times(table)  # refuses a table without times before any computation
    if isinstance(calibration, int):
        _check_folds(calibration, table)
    if calibration is None or isinstance(calibration, int):
        judged = table if units is None else table.restrict(units)
        return judged, None
    calibration_table = table.restrict(calibration)
    calibration_units = set(calibration_table.unit_ids)
    judged_units = [unit for unit in table.unit_ids if unit not in calibration_units]
    if units is not None:
        judged_units = list(units)
    shared = set(map(str, judged_units)) & calibration_units
    if shared:
        raise InputError(
            "Calibration units must not be judged; "
            f"{str(min(shared))!r} is in both lists."
        )
    if not judged_units:
        raise InputError(
            "At least one unit must be left to judge; all are calibration units."
        )
    return table.restrict(judged_units), calibration_table


def _check_folds(folds: int, table: ValueTable) -> None:
    """Raise where a number of folds cannot divide the units."""
    units = len(table.unit_ids)
    if folds is True or not 2 <= folds <= units:
        raise InputError(
            f"calibration must be units, or 2 to {units} folds, as many as there are "
            f"units; found {quote(folds)}."
        )


def _charged_nothing(names: Sequence[str]) -> list[str]:
    """The note on allocators whose own cost nobody stated."""
    if not names:
        return []
    return [
        f"No cost of {', '.join(names)} is stated: 0 is charged for choosing, beside "
        "the costs in the table (a costs file states another)."
    ]


def _idle_choices(scores: Sequence[Scores], contests: Sequence[Contest]) -> list[str]:
    """Notes on routers that choose the cheap mode everywhere."""
    spenders = {contest.allowance.spender for contest in contests}
    names = [one.name for one in scores if one.choice and one.name not in spenders]
    return [
        f"{name} never escalates, or spends nothing on it: it has no row of its own."
        for name in names
    ]


def _inputs(
    judged_on: ValueTable,
    whole: ValueTable,
    terms: Any,
    scores: Sequence[Scores],
) -> Inputs:
    """Every judged input with its loss terms."""
    plain = {one.name: one.values for one in scores if not one.modes}
    rows = positions(judged_on.input, whole.input)
    from deepval.judge.tables import terms as loss_terms

    return loss_terms.inputs_of(judged_on, terms, rows, scores=plain)


def _provenance(
    bootstrap: Bootstrap,
    scores: Sequence[Scores],
    allowances: Sequence[Allowance],
    calibrated_on: ValueTable | None,
    chosen: Sequence[str] | None,
) -> Provenance:
    """What a judgement in memory came from."""
    calibration_units = None
    if calibrated_on is not None:
        calibration_units = tuple(map(str, calibrated_on.unit_ids))
    used = {
        one.name: ScoresUsed(one.digest, float(one.covered.mean())) for one in scores
    }
    is_whole = chosen is None and calibrated_on is None
    return Provenance(
        deepval=__version__,
        table=bootstrap.table.digest,
        scores=used,
        costs=cost_figures(allowances, bootstrap.table),
        draws=bootstrap.draws.used,
        units=bootstrap.unit_ids,
        calibration_units=calibration_units,
        role="all" if is_whole else "chosen",
    )
