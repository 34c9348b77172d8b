"""Cells of published planners -> the external track: five losses each, the planners' agreement, and viability.

docs/definitions.md, External track. All five losses are recombined from the terms of one plan, so the cells of a
planner that differ in nothing but the weights of the loss tell the same, and one of them is enough.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from typing import Any

import numpy as np

from deepval.arrays import Bool, Float
from deepval.cells.build import Cell
from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec
from deepval.errors import InputError
from deepval.files.canonical import digest_of
from deepval.judging.agreement import affected, pair_counts, sign_disagreement, spearman
from deepval.progress import Watch, silent
from deepval.report.text_table import Table, TableCell, number, percent
from deepval.systems import SYSTEMS
from deepval.systems.driving import TRIVIAL, Driving
from deepval.tables.terms import align, weighted_loss
from deepval.tables.values import ValueTable

PARTS = ("collision", "shortfall", "deviation")
"""Terms of a planner's loss, as `systems/driving.py` names them."""
WEIGHED = {loss: SYSTEMS[f"idm-{loss}"].weights for loss in ("safety", "scalar")}
LOSSES = ("collision", "clearance shortfall", "deviation", *WEIGHED)
TOLERANCE = Driving.tolerance
ALPHA = 0.2
NO_SPLIT = "no split: all units"


def loss_named(name: str, terms: Mapping[str, np.ndarray]) -> np.ndarray:
    """One of the five losses from the terms; the clearance shortfall is c itself, of which the term is the square."""
    if name == "clearance shortfall":
        return np.sqrt(terms["shortfall"])
    return weighted_loss(terms, WEIGHED[name]) if name in WEIGHED else terms[name]


@dataclass(frozen=True, eq=False)
class PlannerCell:
    """A cell of a planner, from a folder or from memory.

    Attributes:
        name: What it is called in the rows.
        spec: What the cell is.
        table: Its inputs, under whatever loss it was built with.
        terms: Loss terms of each mode, before weighting.
        trivial: Loss terms of constant velocity; empty where the cell was built without.
    """

    name: str
    spec: CellSpec
    table: ValueTable
    terms: Mapping[str, Float[np.ndarray, "input mode"]]
    trivial: Mapping[str, Float[np.ndarray, "input"]]

    @property
    def planner(self) -> str:
        """The planner: what the system is called without its loss."""
        return self.spec.system.removesuffix("-safety").removesuffix("-scalar")

    @property
    def judged_on(self) -> str:
        """Which of its units the rows are over: always all, and whether a split would have held some out."""
        return "all units" if self.spec.roles.fit else NO_SPLIT

    def under(self, loss: str) -> ValueTable:
        """Its inputs under one of the five losses."""
        losses = np.asfortranarray(loss_named(loss, self.terms))
        return replace(self.table, losses=losses, tolerance=TOLERANCE)

    @property
    def setting(self) -> str:
        """A hash of all that it shares with the cells of another planner: data set, modes and placing."""
        return digest_of({part: told for part, told in self.spec.key.items() if part != "system"})

    @property
    def key(self) -> tuple[str, str]:
        """What tells apart cells that differ in more than the weights of the loss."""
        constants = dict(self.spec.definition["system"]["constants"] or {})
        plans = {name: value for name, value in constants.items() if name not in Driving.loss_fields}
        return self.setting, digest_of({"planner": self.planner, "constants": plans})


@dataclass(frozen=True)
class LossRow:
    """What escalation does under one loss: a row of the paper's table. None: undefined.

    Attributes:
        cell: The cell.
        planner: The planner.
        dataset: The data set.
        modes: The modes, cheap first.
        thresholds: From which score on each mode's detections are used.
        geometry: How detections become what the planner observes.
        judged_on: Which units the row is over.
        units: Number of units.
        inputs: Number of states.
        loss: The loss.
        affected: States whose loss changes by more than 1e-9.
        harmed: Share of those that get worse.
        harm_ratio: Total harm over total benefit.
        cheap_loss: Total loss of the cheap mode.
        all_full: Share of it that escalating everything removes.
        oracle_20: Share that the oracle removes at 20 %.
    """

    cell: str
    planner: str
    dataset: str
    modes: tuple[str, ...]
    thresholds: tuple[float | None, ...]
    geometry: str
    judged_on: str
    units: int
    inputs: int
    loss: str
    affected: int
    harmed: float | None
    harm_ratio: float | None
    cheap_loss: float
    all_full: float | None
    oracle_20: float | None


@dataclass(frozen=True)
class AgreementRow:
    """How far two planners agree on the same states, over those that both are affected on. None: undefined.

    Attributes:
        first: Cell of the one planner.
        second: Cell of the other.
        loss: The loss.
        affected: States that each is affected on.
        both: States that both are affected on.
        spearman: Rank correlation of their decision values.
        gamma: Goodman-Kruskal gamma.
        ordered_differently: Of the pairs that both rank strictly, the share ranked in opposite order.
        opposite: States of opposite sign.
        sign_disagreement: Their share.
    """

    first: str
    second: str
    loss: str
    affected: tuple[int, int]
    both: int
    spearman: float | None
    gamma: float | None
    ordered_differently: float | None
    opposite: int
    sign_disagreement: float | None


@dataclass(frozen=True)
class ViabilityRow:
    """Mean loss of each mode beside that of constant velocity, which a viable mode beats."""

    cell: str
    planner: str
    loss: str
    mean_loss: dict[str, float]
    constant_velocity: float
    viable: dict[str, bool]


@dataclass(frozen=True)
class ExternalTrack:
    """The rows of the analysis."""

    losses: tuple[LossRow, ...]
    agreement: tuple[AgreementRow, ...]
    viability: tuple[ViabilityRow, ...]


def external_track(cells: Sequence[PlannerCell], *, watch: Watch = silent) -> ExternalTrack:
    """The external track's rows over cells of planners; of cells that differ in weights alone, the first counts."""
    alone = list({cell.key: cell for cell in reversed(cells)}.values())[::-1]
    losses, viable = [], []
    for cell in watch(alone, "losses"):
        losses += [loss_row(cell, loss) for loss in LOSSES]
        viable += [viability_row(cell, loss) for loss in LOSSES]
    pairs = [(one, other) for one, other in combinations(alone, 2) if _comparable(one, other)]
    agreed = [agreement_row(one, other, loss) for one, other in watch(pairs, "agreement") for loss in LOSSES]
    return ExternalTrack(tuple(losses), tuple(agreed), tuple(viable))


def loss_row(cell: PlannerCell, loss: str) -> LossRow:
    """The row of one cell under one loss."""
    table = cell.under(loss)
    summary, values = table.summary(ALPHA), table.decision_values
    helped = bool((values > TOLERANCE).any())  # what rounding leaves is no benefit to divide by
    return LossRow(
        cell=cell.name,
        planner=cell.planner,
        dataset=cell.spec.dataset,
        modes=cell.spec.order,
        thresholds=tuple(mode.threshold for mode in cell.spec.modes),
        geometry=cell.spec.geometry,
        judged_on=cell.judged_on,
        units=summary.units,
        inputs=summary.inputs,
        loss=loss,
        affected=summary.affected,
        harmed=_known(summary.harm_rate),
        harm_ratio=_known(summary.harm_ratio) if helped else None,
        cheap_loss=summary.cheap_loss,
        all_full=_known(summary.all_full_share),
        oracle_20=_known(summary.oracle_share),
    )


def agreement_row(one: PlannerCell, other: PlannerCell, loss: str) -> AgreementRow:
    """How far two cells of one setting agree under one loss."""
    if not np.array_equal(one.table.input, other.table.input):
        raise InputError(f"{one.name} and {other.name} must judge the same states to be compared; build both again.")
    values = [cell.under(loss).decision_values for cell in (one, other)]
    moved = [affected(value, tolerance=TOLERANCE) for value in values]
    both: Bool[np.ndarray, "input"] = moved[0] & moved[1]
    counts = pair_counts(values[0][both], values[1][both])
    signs = sign_disagreement(*values, tolerance=TOLERANCE)
    return AgreementRow(
        first=one.name,
        second=other.name,
        loss=loss,
        affected=(int(moved[0].sum()), int(moved[1].sum())),
        both=int(both.sum()),
        spearman=_known(spearman(*values, among=both)),
        gamma=_known(counts.gamma),
        ordered_differently=_known(counts.ordered_differently),
        opposite=signs.count,
        sign_disagreement=_known(signs.share),
    )


def viability_row(cell: PlannerCell, loss: str) -> ViabilityRow:
    """Whether planning on each mode's observation loses less than driving straight on at the present speed."""
    if not cell.trivial:
        raise InputError(
            f"{cell.name}: a cell of a planner must keep the losses of constant velocity; it was built before this "
            "version: build it again."
        )
    trivial = float(loss_named(loss, cell.trivial).mean())
    means = dict(zip(cell.table.modes, loss_named(loss, cell.terms).mean(axis=0).tolist(), strict=True))
    viable = {mode: mean < trivial for mode, mean in means.items()}
    return ViabilityRow(cell.name, cell.planner, loss, means, trivial, viable)


def planner_cell(given: BuiltCell | Cell, name: str | None = None) -> PlannerCell:
    """A cell's folder as read, or a cell in memory, as this analysis takes it; an error where no planner drives."""
    if isinstance(given, Cell):
        called, terms, kept = given.id, dict(given.outcomes.terms), given.told
    else:
        called, terms = str(given.folder), dict(align(given.table, given.terms).parts)
        kept = given.evidence.columns
    called = name or called
    if set(terms) != set(PARTS):
        raise InputError(
            f"{called}: must be a cell of a published planner, whose loss has the terms {', '.join(PARTS)}; this one "
            f"has {', '.join(terms)}: build one with --system pdm-closed-safety or idm-safety."
        )
    trivial = {part: kept[f"{TRIVIAL}{part}"] for part in PARTS if f"{TRIVIAL}{part}" in kept}
    return PlannerCell(called, given.spec, given.table, terms, trivial)


def rows(cells: Mapping[str, BuiltCell], *, watch: Watch = silent) -> ExternalTrack:
    """The analysis of built cells by name, as all analyses are called; its tables are `external_tables`."""
    return external_track([planner_cell(cell, name) for name, cell in cells.items()], watch=watch)


def _comparable(one: PlannerCell, other: PlannerCell) -> bool:
    return one.setting == other.setting and one.planner != other.planner


def _known(figure: Any) -> float | None:
    return None if math.isnan(figure) else float(figure)


UNDEFINED = "undefined"


def external_tables(found: ExternalTrack) -> list[Table]:
    """One table for losses, one for agreement where planners can be compared, one for viability."""
    tables = [_losses(found.losses), _agreement(found.agreement), _viability(found.viability)]
    return [table for table in tables if table.sections]


def _losses(rows: Sequence[LossRow]) -> Table:
    cells = [next(group) for _, group in groupby(rows, key=lambda row: row.cell)]
    header = ("cell", "loss", "affected", "harmed", "harm ratio", "all-full / Oracle@20", "cheap loss")
    return Table("Published planners: what escalation does", header, _sections(rows, _loss_texts), _told(cells))


def _loss_texts(row: LossRow) -> tuple[str, ...]:
    harmed = UNDEFINED if row.harmed is None else percent(row.harmed, 1)
    ratio = UNDEFINED if row.harm_ratio is None else number(row.harm_ratio)
    shares = (row.all_full, row.oracle_20)
    gains = UNDEFINED if None in shares else " / ".join(percent(share) for share in shares)
    return row.cell, row.loss, f"{row.affected} of {row.inputs}", harmed, ratio, gains, number(row.cheap_loss, 2)


def _told(cells: Iterable[LossRow]) -> tuple[str, ...]:
    """What each cell is and which units it is judged on."""
    return tuple(
        f"{row.cell}: {row.planner} on {row.dataset}, {_modes(row)}, {row.geometry}; {row.judged_on} ({row.units})."
        for row in cells
    )


def _modes(row: LossRow) -> str:
    limits = ["" if limit is None else f" from {limit:g}" for limit in row.thresholds]
    return " -> ".join(f"{mode}{limit}" for mode, limit in zip(row.modes, limits, strict=True))


def _agreement(rows: Sequence[AgreementRow]) -> Table:
    header = ("cells", "loss", "affected", "both", "Spearman", "gamma", "ordered differently", "opposite signs")
    note = "Over the states on which both planners are affected; undefined where too few are ranked."
    return Table("Agreement of planners", header, _sections(rows, _agreement_texts), (note,))


def _agreement_texts(row: AgreementRow) -> tuple[str, ...]:
    figures = (row.spearman, row.gamma, row.ordered_differently)
    opposite = UNDEFINED if row.sign_disagreement is None else f"{row.opposite} of {row.both}"
    texts = [UNDEFINED if figure is None else number(figure, 2) for figure in figures]
    both = f"{row.affected[0]}, {row.affected[1]}"
    return f"{row.first}, {row.second}", row.loss, both, str(row.both), *texts, opposite


def _viability(rows: Sequence[ViabilityRow]) -> Table:
    header = ("cell", "loss", "mean loss", "constant velocity", "viable")
    note = "A mode is viable where planning on it loses less than straight on at the present speed."
    return Table("Viability", header, _sections(rows, _viability_texts), (note,))


def _viability_texts(row: ViabilityRow) -> tuple[str, ...]:
    means = ", ".join(f"{mode} {number(mean)}" for mode, mean in row.mean_loss.items())
    viable = ", ".join(mode for mode, better in row.viable.items() if better) or "no mode"
    return row.cell, row.loss, means, number(row.constant_velocity), viable


def _sections(rows: Sequence[Any], texts: Any) -> tuple[tuple[tuple[TableCell, ...], ...], ...]:
    """Rows of one cell, or pair of cells, together; its name stands in the first of them."""
    sections = []
    for _, group in groupby([texts(row) for row in rows], key=lambda row: row[0]):
        first, *others = group
        sections.append(tuple(tuple(map(TableCell, row)) for row in (first, *(("", *row[1:]) for row in others))))
    return tuple(sections)
