"""Cells -> what ranking by perception gain is worth in every configuration: docs/analyses.md.

nDG of the false-negative gain (the reduction in missed objects, E1) and of the multi-metric diagnostic, both of which
know the reference. A configuration is data set, detector pair, geometry and task, where the braking controller is the
longitudinal task and the lateral corridor controller the lateral one. Perception gains depend on neither geometry nor
task, so the other configurations of a cell whose data are at hand need its losses alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec, units_of
from deepval.cells.unit import unit_data, variant_tables
from deepval.diagnostics import DIAGNOSTICS, Evidence
from deepval.errors import InputError, is_of_machine
from deepval.judging.budgets import Selection, allowance
from deepval.judging.draws import make_draws
from deepval.judging.resamples import Resamples
from deepval.judging.rows import judge
from deepval.paper.analyses.judged import Units, harm
from deepval.progress import Watch, unwatched
from deepval.report.table import Table, interval, lines_of, number, percent
from deepval.results import Row
from deepval.systems import SYSTEMS
from deepval.systems.system import constants
from deepval.tables.columns import positions
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable

TASKS = {"braking": "longitudinal", "lateral": "lateral"}
"""What the paper calls the downstream systems of its sweep."""
SIGNALS = {"fn": "gain-E1", "multi": "multi-metric"}


@dataclass(frozen=True)
class RobustnessRow:
    """One configuration. None: undefined.

    Attributes:
        cell: The cell, or what the configuration is where it was made from another cell's data.
        dataset: The data set.
        cheap: The cheap mode.
        full: The full mode.
        geometry: How detections become objects.
        system: The downstream system.
        task: longitudinal, lateral, or the system where it is neither.
        alpha: Share of inputs that may be escalated.
        inputs: Number of inputs.
        units: Number of units.
        fn_ndg: nDG of the false-negative gain, with its 95 % interval over units.
        fn_verdict: better, worse or unresolved against random.
        fn_reason: Why it is undefined.
        multi_ndg: nDG of the multi-metric diagnostic, out of fold, with its 95 % interval over units.
        multi_verdict: The same of it.
        multi_reason: The same of it.
        affected: Inputs whose loss the full mode changes.
        harmed: Those that it makes worse.
        harm_rate: Share of the affected inputs that are harmed, with its 95 % interval over units.
        harm_ratio: Total harm over total benefit, with its 95 % interval over units.
        draws: Number of draws.
        draws_dropped: Draws without any benefit, left out of the interval of the harm ratio.
    """

    cell: str
    dataset: str
    cheap: str
    full: str
    geometry: str
    system: str
    task: str
    alpha: float
    inputs: int
    units: int
    fn_ndg: float | None
    fn_ndg_lo: float | None
    fn_ndg_hi: float | None
    fn_verdict: str | None
    fn_reason: str | None
    multi_ndg: float | None
    multi_ndg_lo: float | None
    multi_ndg_hi: float | None
    multi_verdict: str | None
    multi_reason: str | None
    affected: int
    harmed: int
    harm_rate: float | None
    harm_rate_lo: float | None
    harm_rate_hi: float | None
    harm_ratio: float | None
    harm_ratio_lo: float | None
    harm_ratio_hi: float | None
    draws: int
    draws_dropped: int


class Configuration(NamedTuple):
    """A cell, or one like it: its losses on all units, and what diagnostics may know of the same inputs."""

    name: str
    spec: CellSpec
    table: ValueTable
    evidence: Evidence


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    located: Mapping[str, CellSpec] | None = None,
    alpha: float = 0.2,
    units: Units = "all",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[RobustnessRow]:
    """One row per cell, and one for each further configuration of those whose data are at hand.

    Args:
        cells: Cells by name.
        located: Specifications of those whose data are at hand, by the same names (`cells.located`): both geometries
            and both tasks are judged there, whichever of them the cell is.
        alpha: Share of inputs that may be escalated.
        units: Units whose inputs are looked at; the diagnostic is fitted out of fold over all units of a cell.
        draws: Draws of units behind the intervals.
        seed: Their seed.
        watch: Who is told how far it is.
    """
    every = list(configurations(cells, located or {}, watch=watch))
    return [_row(each, units=units, alpha=alpha, draws=draws, seed=seed) for each in watch(every, "perception gains")]


def configurations(
    cells: Mapping[str, BuiltCell], located: Mapping[str, CellSpec], *, watch: Watch = unwatched
) -> Iterator[Configuration]:
    """The cells, and the configurations of their data that are not among them."""
    given = [_setting(cell.spec) for cell in cells.values()]
    for name, cell in cells.items():
        yield Configuration(name, cell.spec, cell.listed, cell.evidence)
        spec = located.get(name)
        if spec is None:
            continue
        ends = replace(spec, modes=(spec.modes[0], spec.modes[-1]))
        others = [
            replace(ends, geometry=geometry, system=system, rule=SYSTEMS[system], constants=constants(SYSTEMS[system]))
            for geometry in _geometries(spec)
            for system in TASKS
        ]
        missing = [other for other in others if _setting(other) not in given]
        given += [_setting(other) for other in missing]
        tables = variant_tables(missing, cell.listed, watch=watch, label="configurations") if missing else []
        for other, table in zip(missing, tables, strict=True):
            rows = positions(table.input, cell.table.input)
            kept = {column: held[rows] for column, held in cell.evidence.kept.items()}
            called = f"{spec.dataset} {spec.order[0]} -> {spec.order[-1]}, {other.geometry}, {TASKS[other.system]}"
            yield Configuration(called, other, table, Evidence(table, kept))


def _geometries(spec: CellSpec) -> tuple[str, ...]:
    """The cell's own geometry and the oracle's; beside the oracle's, the one that its detections can be placed by."""
    if spec.geometry == "oracle":
        solid = any(not used.has_boxes for unit in spec.units for used in unit_data(spec, unit).used.values())
        return ("cuboids" if solid else "monocular", "oracle")
    return (spec.geometry, "oracle") if spec.geometry in ("monocular", "cuboids") else (spec.geometry,)


def _setting(spec: CellSpec) -> dict[str, Any]:
    """What tells configurations apart: constants of the system do not."""
    ends = {part: told for part, told in spec.key.items() if part not in ("system", "modes", "mode")}
    return ends | {"system": spec.system, "ends": [spec.key["mode"][spec.order[end]] for end in (0, -1)]}


def _row(each: Configuration, *, units: Units, alpha: float, draws: int | Literal["exact"], seed: int) -> RobustnessRow:
    table = each.table.restrict(list(units_of(each.spec.roles, units)))
    drawn = make_draws(len(table.unit_ids), draws, seed)
    scores, why = _scores(each, table)
    resamples = Resamples.of(table, drawn, leave_out_up_to=0)
    allowed = allowance(Selection(alpha), table.modes, None)
    found = {item.row.allocator: item.row for item in judge(resamples, list(scores.values()), [allowed])}
    told: dict[str, Any] = {}
    for short, signal in SIGNALS.items():
        row = found.get(signal, Row(signal, "selection", alpha, reason=why.get(signal)))
        fields = ("ndg", "ndg_lo", "ndg_hi", "verdict", "reason")
        told |= {f"{short}_{field}": getattr(row, field) for field in fields}
    return RobustnessRow(
        cell=each.name,
        dataset=each.spec.dataset,
        cheap=each.spec.order[0],
        full=each.spec.order[-1],
        geometry=each.spec.geometry,
        system=each.spec.system,
        task=TASKS.get(each.spec.system, each.spec.system),
        alpha=alpha,
        inputs=len(table),
        units=len(table.unit_ids),
        **told,
        **harm(table, drawn),
    )


def _scores(each: Configuration, table: ValueTable) -> tuple[dict[str, Scores], dict[str, str]]:
    """The two signals on the inputs of a table; a reason for one that is undefined."""
    found, why = {}, {}
    rows = positions(table.input, each.evidence.table.input)
    for signal in SIGNALS.values():
        try:
            values = DIAGNOSTICS[signal].scores(each.evidence)[rows]
        except InputError as error:
            if is_of_machine(error):
                raise
            why[signal] = str(error).rstrip(".")
            continue
        found[signal] = Scores(signal, values, np.ones(len(rows), dtype=bool), (), "diagnostic")
    return found, why


def table(rows: Sequence[RobustnessRow]) -> Table:
    """The rows as a table."""
    share = f"{100 * rows[0].alpha:g} %" if rows else "a share"
    header = ("configuration", "task", "affected", "harmed", "harm ratio", "nDG FN gain", "95 %", "nDG multi", "95 %")
    texts = [
        (
            row.cell,
            row.task,
            f"{row.affected:,}",
            percent(row.harm_rate, 1),
            number(row.harm_ratio),
            number(row.fn_ndg),
            interval(row.fn_ndg_lo, row.fn_ndg_hi),
            number(row.multi_ndg),
            interval(row.multi_ndg_lo, row.multi_ndg_hi),
        )
        for row in rows
    ]
    title = f"Ranking by perception gain at {share}, over configurations"
    return Table(title, header, lines_of(texts), tuple(_notes(rows)))


def _notes(rows: Sequence[RobustnessRow]) -> Iterator[str]:
    yield (
        "FN gain: reduction in missed objects; multi: boosted trees over all perception errors, out of fold. Both know "
        "the reference."
    )
    gains = [row.fn_ndg for row in rows if row.fn_ndg is not None]
    if gains:
        yield (
            f"The FN gain reaches at most {number(max(gains))} and is negative in {sum(gain < 0 for gain in gains)} of "
            f"{len(gains)} configurations."
        )
    reasons = [f"{row.cell}: {why}." for row in rows for why in (row.fn_reason, row.multi_reason) if why]
    yield from dict.fromkeys(reasons)
