"""Cells -> what ranking by perception gain is worth in every configuration:
docs/analyses.md.

nDG of the false-negative gain (the reduction in missed objects, E1) and of the
multi-metric diagnostic, both of which know the reference. A configuration is data set,
detector pair, geometry and task, where the braking controller is the longitudinal task
and the lateral corridor controller the lateral one. Perception gains depend on neither
geometry nor task, so the other configurations of a cell with data need its losses
alone.

What ranking by perception gain is worth over sixteen configurations of system, geometry
and corridor. Other geometries and systems need the data.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.errors import InputError, is_of_machine
from deepval.deploy.diagnostics import DIAGNOSTICS
from deepval.driving.cells.spec import CellSpec
from deepval.driving.cells.unit import unit_data, variant_tables
from deepval.driving.evidence import Evidence
from deepval.driving.systems import SYSTEMS
from deepval.driving.systems.system import constants
from deepval.judge.allocators import all_policies, policy_of
from deepval.judge.allowances import Selection, allowance
from deepval.judge.bootstrap import Bootstrap
from deepval.judge.draws import make_draws
from deepval.judge.judgement import judge
from deepval.judge.report.text_tables import Table, number
from deepval.judge.results import Row as ResultRow
from deepval.judge.row_columns import Additions, rows_of
from deepval.judge.tables.keys import positions
from deepval.judge.tables.scores import Scores
from deepval.judge.tables.split import units_of
from deepval.judge.tables.values import ValueTable
from deepval.paper.analysis import Analysis
from deepval.paper.columns import HARM, INPUTS, harm
from deepval.paper.study import Cell, DrawCount, Units
from deepval.paper.tidy import Column, Estimate, Row, only, printed, without_intervals

TASKS = {"braking": "longitudinal", "lateral": "lateral"}
"""What the paper calls the downstream systems of its sweep."""
SIGNALS = {"fn": "gain-E1", "multi": "multi-metric"}


CONFIGURATION = (
    Column(
        "cell",
        "The cell; or the configuration in words, if it was made "
        "from another cell's data",
        heading="configuration",
    ),
    Column("dataset", "The data set"),
    Column("cheap", "The cheap mode"),
    Column("full", "The full mode"),
    Column("geometry", "How detections become objects"),
    Column("system", "The downstream system"),
    Column(
        "task",
        "longitudinal or lateral; the name of the system if it is neither",
        heading="task",
    ),
    Column("alpha", "Share of inputs that may be escalated"),
)
"""A configuration: data set, detector pair, geometry and task."""


SIGNAL = (
    Column(
        "fn_ndg",
        "nDG of the false-negative gain",
        heading="nDG FN gain",
        text=number,
        bounds="95 %",
    ),
    Column("fn_verdict", "Verdict on it against random: better, worse or unresolved"),
    Column("fn_reason", "Why it is undefined"),
    Column(
        "multi_ndg",
        "nDG of the multi-metric diagnostic, out of fold",
        heading="nDG multi",
        text=number,
        bounds="95 %",
    ),
    Column(
        "multi_verdict", "Verdict on it against random: better, worse or unresolved"
    ),
    Column("multi_reason", "Why it is undefined"),
)
"""How well the two signals rank."""


COLUMNS = (
    *CONFIGURATION,
    *INPUTS,
    *SIGNAL,
    *HARM,
)
"""One configuration. None: undefined."""


class Configuration(NamedTuple):
    """A cell or a variant of it: its losses on all units, and the evidence for
    diagnostics on the same inputs.
    """

    name: str
    spec: CellSpec
    table: ValueTable
    evidence: Evidence


def rows(
    cells: Sequence[Cell],
    *,
    alpha: float = 0.2,
    units: Units = "all",
    draws: DrawCount = 1000,
    seed: int = 0,
) -> Iterator[Row]:
    """One row per cell, and one for each further configuration of the cells with data:
    both geometries and both tasks, whichever of them the cell is.

    Args:
        cells: The cells.
        alpha: Share of inputs that may be escalated.
        units: Units whose inputs are judged; the diagnostic is fitted out of fold over
            all units of a cell.
        draws: Draws of units behind the intervals.
        seed: Their seed.
    """
    every = list(configurations(cells))
    if every:
        for item in cells[0].watch(every, "perception gains"):
            yield _row(item, units=units, alpha=alpha, draws=draws, seed=seed)


def configurations(cells: Sequence[Cell]) -> Iterator[Configuration]:
    """The cells, and the configurations of their data that are not among them."""
    settings = [_setting(cell.cell.spec) for cell in cells]
    for at in cells:
        cell = at.cell
        yield Configuration(at.name, cell.spec, cell.listed, cell.evidence)
        spec = at.part("located")
        if spec is None:
            continue
        ends = replace(spec, modes=(spec.modes[0], spec.modes[-1]))
        others = [
            replace(
                ends,
                geometry=geometry,
                system=system,
                rule=SYSTEMS[system],
                constants=constants(SYSTEMS[system]),
            )
            for geometry in _geometries(spec)
            for system in TASKS
        ]
        missing = [other for other in others if _setting(other) not in settings]
        settings += [_setting(other) for other in missing]
        tables = (
            variant_tables(missing, cell.listed, watch=at.watch, label="configurations")
            if missing
            else []
        )
        for other, table in zip(missing, tables, strict=True):
            rows = positions(table.input, cell.table.input)
            evidence = {
                column: values[rows] for column, values in cell.evidence.columns.items()
            }
            label = (
                f"{spec.dataset} {spec.order[0]} "
                f"-> {spec.order[-1]}, {other.geometry}, {TASKS[other.system]}"
            )
            yield Configuration(label, other, table, Evidence(table, evidence))


def _geometries(spec: CellSpec) -> tuple[str, ...]:
    """Oracle geometry and the cell's own, or for a cell of oracle geometry the one that
    suits its detections.
    """
    if spec.geometry == "oracle":
        solid = any(
            not used.has_boxes
            for unit in spec.units
            for used in unit_data(spec, unit).used.values()
        )
        return ("cuboids" if solid else "monocular", "oracle")
    return (
        (spec.geometry, "oracle")
        if spec.geometry in ("monocular", "cuboids")
        else (spec.geometry,)
    )


def _setting(spec: CellSpec) -> dict[str, Any]:
    """What distinguishes configurations; constants of the system do not."""
    ends = {
        part: value
        for part, value in spec.key.items()
        if part not in ("system", "modes", "mode")
    }
    return ends | {
        "system": spec.system,
        "ends": [spec.key["mode"][spec.order[end]] for end in (0, -1)],
    }


def _row(
    configuration: Configuration,
    *,
    units: Units,
    alpha: float,
    draws: DrawCount,
    seed: int,
) -> Row:
    table = configuration.table.restrict(
        list(units_of(configuration.spec.roles, units))
    )
    drawn = make_draws(len(table.unit_ids), draws, seed)
    scores, why = _scores(configuration, table)
    bootstrap = Bootstrap.of(table, drawn, leave_out=False)
    allowed = allowance(Selection(alpha), table.modes, None)
    allocators = [policy_of(table, own) for own in scores.values()]
    contests = judge(bootstrap, all_policies(table, allocators), [allowed])
    rows = rows_of(bootstrap, contests, Additions())
    rows_by_signal = {row.allocator: row for row in rows}
    columns: dict[str, Any] = {}
    for short, signal in SIGNALS.items():
        row = rows_by_signal.get(
            signal, ResultRow(signal, "selection", alpha, reason=why.get(signal))
        )
        columns |= {
            f"{short}_ndg": Estimate(row.ndg, row.ndg_lo, row.ndg_hi),
            f"{short}_verdict": row.verdict,
            f"{short}_reason": row.reason,
        }
    return {
        **columns,
        **harm(table, drawn),
        "cell": configuration.name,
        "dataset": configuration.spec.dataset,
        "cheap": configuration.spec.order[0],
        "full": configuration.spec.order[-1],
        "geometry": configuration.spec.geometry,
        "system": configuration.spec.system,
        "task": TASKS.get(configuration.spec.system, configuration.spec.system),
        "alpha": alpha,
    }


def _scores(
    configuration: Configuration, table: ValueTable
) -> tuple[dict[str, Scores], dict[str, str]]:
    """The two signals on the inputs of a table and, for each signal that is undefined,
    the reason.
    """
    scores, why = {}, {}
    rows = positions(table.input, configuration.evidence.table.input)
    for signal in SIGNALS.values():
        try:
            values = DIAGNOSTICS[signal].scores(configuration.evidence)[rows]
        except InputError as error:
            if is_of_machine(error):
                raise
            why[signal] = str(error).rstrip(".")
            continue
        scores[signal] = Scores(
            signal, values, np.ones(len(rows), dtype=bool), (), "diagnostic"
        )
    return scores, why


def tables(rows: Sequence[Row]) -> list[Table]:
    """The rows as a table."""
    budget = f"{100 * rows[0]['alpha']:g} %" if rows else "a share"
    order = (
        "cell",
        "task",
        "affected",
        "harm_rate",
        "harm_ratio",
        "fn_ndg",
        "multi_ndg",
    )
    title = f"Ranking by perception gain at {budget}, over configurations"
    columns = without_intervals(only(COLUMNS, *order), "harm_rate", "harm_ratio")
    return [printed(title, columns, rows, notes=list(_notes(rows)))]


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        "FN gain: reduction in missed objects; multi: boosted trees over all "
        "perception errors, out of fold. Both know the reference."
    )
    gains = [row["fn_ndg"].value for row in rows if row["fn_ndg"].value is not None]
    if gains:
        yield (
            f"The FN gain reaches at most {number(max(gains))} and is negative in "
            f"{sum(gain < 0 for gain in gains)} of {len(gains)} configurations."
        )
    reasons = [
        f"{row['cell']}: {why}."
        for row in rows
        for why in (row["fn_reason"], row["multi_reason"])
        if why
    ]
    yield from dict.fromkeys(reasons)


ROBUSTNESS = Analysis(
    name="robustness",
    shows="Show signals over sixteen configurations",
    paper="robustness",
    example=("cells/braking-monocular"),
    judges=True,
    by="pair",
    details=(
        "What ranking by perception gain is worth over sixteen configurations of "
        "system, geometry and corridor. Other geometries and systems need the data."
    ),
    rows=rows,
    columns=COLUMNS,
    asks=("located",),
    tables=tables,
)
