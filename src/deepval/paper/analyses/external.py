"""Cells of published planners -> the external track: five losses each, the planners'
agreement, and viability.

docs/definitions.md, External track. All five losses are recombined from the terms of
one plan, so the cells of a planner that differ only in the weights of the loss give the
same rows, and one of them is enough.

Published planners under five losses, their agreement, and their viability against
constant velocity.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby

import numpy as np

from deepval.arrays import Bool, Float
from deepval.cells.build import Cell
from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec
from deepval.errors import InputError
from deepval.files.canonical import digest_of
from deepval.judging.concordance import (
    affected,
    pair_counts,
    sign_disagreement,
    spearman,
)
from deepval.paper.analysis import declare
from deepval.paper.row_columns import CellName, Form, column, declared_table
from deepval.paper.tidy import decimals, share
from deepval.progress import Watch, unwatched
from deepval.report.text_tables import Table, number, percent
from deepval.results import known
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
UNDEFINED = "undefined"


def loss_named(name: str, terms: Mapping[str, np.ndarray]) -> np.ndarray:
    """One of the five losses from the terms.

    The clearance shortfall is c itself; the loss term is its square.
    """
    if name == "clearance shortfall":
        return np.sqrt(terms["shortfall"])
    return weighted_loss(terms, WEIGHED[name]) if name in WEIGHED else terms[name]


@dataclass(frozen=True, eq=False)
class PlannerCell:
    """A cell of a planner, from a folder or from memory.

    Attributes:
        name: Its name in the rows.
        spec: The specification of the cell.
        table: Its inputs, with the loss that it was built with.
        terms: Loss terms of each mode, before weighting.
        trivial: Loss terms of constant velocity; empty if the cell was built without
            them.
    """

    name: str
    spec: CellSpec
    table: ValueTable
    terms: Mapping[str, Float[np.ndarray, "input mode"]]
    trivial: Mapping[str, Float[np.ndarray, "input"]]

    @property
    def planner(self) -> str:
        """The planner: the name of the system without its loss."""
        return self.spec.system.removesuffix("-safety").removesuffix("-scalar")

    @property
    def judged_on(self) -> str:
        """The units that the rows are over: always all units, with a remark if the cell
        has no split.
        """
        return "all units" if self.spec.roles.fit else NO_SPLIT

    def under(self, loss: str) -> ValueTable:
        """Its inputs under one of the five losses."""
        losses = np.asfortranarray(loss_named(loss, self.terms))
        return replace(self.table, losses=losses, tolerance=TOLERANCE)

    @property
    def setting(self) -> str:
        """A hash of what comparable cells of two planners share: data set, modes and
        placing.
        """
        return digest_of(
            {part: value for part, value in self.spec.key.items() if part != "system"}
        )

    @property
    def key(self) -> tuple[str, str]:
        """What cells share that differ only in the weights of the loss: setting,
        planner and its constants.
        """
        constants = dict(self.spec.definition["system"]["constants"] or {})
        plans = {
            name: value
            for name, value in constants.items()
            if name not in Driving.loss_fields
        }
        return self.setting, digest_of({"planner": self.planner, "constants": plans})


def _or_undefined(form: Form) -> Form:
    return lambda value: UNDEFINED if value is None else form(value)


@dataclass(frozen=True)
class LossRow(CellName):
    """What escalation does under one loss: a row of the paper's table.

    None: undefined.
    """

    planner: str = column("The planner")
    dataset: str = column("The data set")
    modes: tuple[str, ...] = column("The modes, cheap first")
    thresholds: tuple[float | None, ...] = column(
        "Threshold of each mode: the lowest score of a detection that is used"
    )
    geometry: str = column(
        "How detections become the objects that the planner observes"
    )
    judged_on: str = column("The units that the row is over")
    units: int = column("Number of units")
    inputs: int = column("Number of states")
    loss: str = column("The loss", "loss")
    affected: int = column(
        "States whose loss changes by more than 1e-9",
        "affected",
        of_row=lambda row: f"{row.affected} of {row.inputs}",
    )
    harmed: float | None = column(
        "Share of the affected states whose loss rises", "harmed", _or_undefined(share)
    )
    harm_ratio: float | None = column(
        "Total harm over total benefit", "harm ratio", _or_undefined(number)
    )
    cheap_loss: float = column(
        "Total loss of the cheap mode", "cheap loss", decimals(2)
    )
    all_full: float | None = column(
        "Share of that loss that escalating everything removes",
        "all-full / Oracle@20",
        of_row=lambda row: (
            UNDEFINED
            if None in (row.all_full, row.oracle_20)
            else f"{percent(row.all_full)} / {percent(row.oracle_20)}"
        ),
    )
    oracle_20: float | None = column(
        "Share of that loss that the oracle removes at 20 %"
    )


@dataclass(frozen=True)
class AgreementRow:
    """How far two planners agree on the same states, over those on which both are
    affected. None: undefined.
    """

    first: str = column(
        "Cell of one planner", "cells", of_row=lambda row: f"{row.first}, {row.second}"
    )
    second: str = column("Cell of the other planner")
    loss: str = column("The loss", "loss")
    affected: tuple[int, int] = column(
        "States on which each is affected",
        "affected",
        lambda numbers: f"{numbers[0]}, {numbers[1]}",
    )
    both: int = column("States on which both are affected", "both")
    spearman: float | None = column(
        "Rank correlation of their decision values",
        "Spearman",
        _or_undefined(decimals(2)),
    )
    gamma: float | None = column(
        "Goodman-Kruskal gamma", "gamma", _or_undefined(decimals(2))
    )
    ordered_differently: float | None = column(
        "Share ranked in opposite order, of the pairs that both rank strictly",
        "ordered differently",
        _or_undefined(decimals(2)),
    )
    opposite: int = column(
        "States of opposite sign",
        "opposite signs",
        of_row=lambda row: (
            UNDEFINED
            if row.sign_disagreement is None
            else f"{row.opposite} of {row.both}"
        ),
    )
    sign_disagreement: float | None = column("Their share")


@dataclass(frozen=True)
class ViabilityRow(CellName):
    """Mean loss of each mode and of constant velocity; a viable mode loses less than
    constant velocity.
    """

    planner: str = column("The planner")
    loss: str = column("The loss", "loss")
    mean_loss: Mapping[str, float] = column(
        "Mean loss by mode",
        "mean loss",
        lambda means: ", ".join(
            f"{mode} {number(mean)}" for mode, mean in means.items()
        ),
    )
    constant_velocity: float = column(
        "Mean loss of constant velocity", "constant velocity", number
    )
    viable: Mapping[str, bool] = column(
        "Whether each mode is viable",
        "viable",
        lambda viable: (
            ", ".join(mode for mode, better in viable.items() if better) or "no mode"
        ),
    )


@dataclass(frozen=True)
class ExternalTrack:
    """The rows of the analysis."""

    losses: tuple[LossRow, ...]
    agreement: tuple[AgreementRow, ...]
    viability: tuple[ViabilityRow, ...]


def external_track(
    cells: Sequence[PlannerCell], *, watch: Watch = unwatched
) -> ExternalTrack:
    """The external track's rows over cells of planners; of cells that differ only in
    weights, the first counts.
    """
    alone = list({cell.key: cell for cell in reversed(cells)}.values())[::-1]
    losses, viable = [], []
    for cell in watch(alone, "losses"):
        losses += [loss_row(cell, loss) for loss in LOSSES]
        viable += [viability_row(cell, loss) for loss in LOSSES]
    pairs = [
        (one, other) for one, other in combinations(alone, 2) if _comparable(one, other)
    ]
    agreed = [
        agreement_row(one, other, loss)
        for one, other in watch(pairs, "agreement")
        for loss in LOSSES
    ]
    return ExternalTrack(tuple(losses), tuple(agreed), tuple(viable))


def loss_row(cell: PlannerCell, loss: str) -> LossRow:
    """The row of one cell under one loss."""
    table = cell.under(loss)
    summary, values = table.summary(ALPHA), table.decision_values
    # a rounding residue is not a benefit to divide by
    helped = bool((values > TOLERANCE).any())
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
        harmed=known(summary.harm_rate),
        harm_ratio=known(summary.harm_ratio) if helped else None,
        cheap_loss=summary.cheap_loss,
        all_full=known(summary.all_full_share),
        oracle_20=known(summary.oracle_share),
    )


def agreement_row(one: PlannerCell, other: PlannerCell, loss: str) -> AgreementRow:
    """How far two cells of one setting agree under one loss."""
    if not np.array_equal(one.table.input, other.table.input):
        raise InputError(
            f"{one.name} and {other.name} must judge the same states to be compared; "
            "build both again."
        )
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
        spearman=known(spearman(*values, among=both)),
        gamma=known(counts.gamma),
        ordered_differently=known(counts.ordered_differently),
        opposite=signs.count,
        sign_disagreement=known(signs.share),
    )


def viability_row(cell: PlannerCell, loss: str) -> ViabilityRow:
    """Whether planning on each mode's observation loses less than driving straight on
    at the present speed.
    """
    if not cell.trivial:
        raise InputError(
            f"{cell.name}: a cell of a planner must keep the losses of constant "
            "velocity; it was built before this version: build it again."
        )
    trivial = float(loss_named(loss, cell.trivial).mean())
    means = dict(
        zip(
            cell.table.modes,
            loss_named(loss, cell.terms).mean(axis=0).tolist(),
            strict=True,
        )
    )
    viable = {mode: mean < trivial for mode, mean in means.items()}
    return ViabilityRow(cell.name, cell.planner, loss, means, trivial, viable)


def planner_cell(cell: BuiltCell | Cell, name: str | None = None) -> PlannerCell:
    """A built cell or a cell in memory, as this analysis takes it; an error if its
    system is no published planner.
    """
    if isinstance(cell, Cell):
        label, terms, stored = cell.id, dict(cell.outcomes.terms), cell.told
    else:
        label, terms = str(cell.folder), dict(align(cell.table, cell.terms).parts)
        stored = cell.evidence.columns
    label = name or label
    if set(terms) != set(PARTS):
        raise InputError(
            f"{label}: must be a cell of a published planner, whose loss has the "
            f"terms {', '.join(PARTS)}; this one has {', '.join(terms)}: build one "
            "with --system pdm-closed-safety or idm-safety."
        )
    trivial = {
        part: stored[f"{TRIVIAL}{part}"]
        for part in PARTS
        if f"{TRIVIAL}{part}" in stored
    }
    return PlannerCell(label, cell.spec, cell.table, terms, trivial)


def rows(cells: Mapping[str, BuiltCell], *, watch: Watch = unwatched) -> ExternalTrack:
    """The analysis of built cells by name; `external_tables` makes its tables."""
    return external_track(
        [planner_cell(cell, name) for name, cell in cells.items()], watch=watch
    )


def _comparable(one: PlannerCell, other: PlannerCell) -> bool:
    return one.setting == other.setting and one.planner != other.planner


def external_tables(found: ExternalTrack) -> list[Table]:
    """One table for losses, one for agreement if planners can be compared, one for
    viability.
    """
    tables = [
        _losses(found.losses),
        _agreement(found.agreement),
        _viability(found.viability),
    ]
    return [table for table in tables if table.sections]


def _losses(rows: Sequence[LossRow]) -> Table:
    cells = [next(group) for _, group in groupby(rows, key=lambda row: row.cell)]
    title = "Published planners: what escalation does"
    order = (
        "cell",
        "loss",
        "affected",
        "harmed",
        "harm_ratio",
        "all_full",
        "cheap_loss",
    )
    return declared_table(
        LossRow, rows, title, notes=_descriptions(cells), order=order, group=("cell",)
    )


def _descriptions(cells: Iterable[LossRow]) -> tuple[str, ...]:
    """Each cell in words, with the units that it is judged on."""
    return tuple(
        (
            f"{row.cell}: {row.planner} on {row.dataset}, "
            f"{_modes(row)}, {row.geometry}; {row.judged_on} ({row.units})."
        )
        for row in cells
    )


def _modes(row: LossRow) -> str:
    limits = ["" if limit is None else f" from {limit:g}" for limit in row.thresholds]
    return " -> ".join(
        f"{mode}{limit}" for mode, limit in zip(row.modes, limits, strict=True)
    )


def _agreement(rows: Sequence[AgreementRow]) -> Table:
    note = (
        "Over the states on which both planners are affected; undefined "
        "where too few are ranked."
    )
    return declared_table(
        AgreementRow, rows, "Agreement of planners", notes=(note,), group=("first",)
    )


def _viability(rows: Sequence[ViabilityRow]) -> Table:
    note = (
        "A mode is viable where planning on it loses less than straight on at the "
        "present speed."
    )
    return declared_table(
        ViabilityRow, rows, "Viability", notes=(note,), group=("cell",)
    )


EXTERNAL = declare(
    __name__,
    shows="Compare published planners under five losses",
    see="definitions.md#external-track",
    paper="external planners",
    example="cells/pdm-closed-safety-tracks cells/idm-safety-tracks",
    tables=external_tables,
    whole=True,
    records=lambda track: track.losses,
    names="path",
    among=(
        lambda cell: isinstance(cell.spec.rule, Driving),
        "no cell of a published planner",
    ),
)
