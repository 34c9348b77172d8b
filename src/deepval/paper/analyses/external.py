"""Cells of published planners -> the external track: five losses each, the planners'
agreement, and viability.

docs/definitions.md, External track. All five losses are recombined from the terms of
one plan, so the cells of a planner that differ only in the weights of the loss give the
same rows, and one of them is enough.

Published planners under five losses, their agreement, and their viability against
constant velocity.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from typing import Any

import numpy as np

from deepval.basics.arrays import Bool, Float
from deepval.basics.errors import InputError, UnsuitableError
from deepval.basics.files.canonical import digest_of
from deepval.basics.progress import Watch, unwatched
from deepval.driving.cells.build import Cell as MemoryCell
from deepval.driving.cells.folder import BuiltCell
from deepval.driving.cells.spec import CellSpec
from deepval.driving.systems import SYSTEMS
from deepval.driving.systems.driving import TRIVIAL, Driving
from deepval.judge.concordance import affected, pair_counts, sign_disagreement, spearman
from deepval.judge.report.text_tables import Table, number, percent
from deepval.judge.results import known
from deepval.judge.tables.terms import align, weighted_loss
from deepval.judge.tables.values import ValueTable
from deepval.paper.analysis import Analysis
from deepval.paper.columns import NAME
from deepval.paper.study import Cell
from deepval.paper.tidy import Column, Row, decimals, only, printed, share

PARTS = ("collision", "shortfall", "deviation")
"""Terms of a planner's loss, as `driving/systems/driving.py` names them."""
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


def _or_undefined(form: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: UNDEFINED if value is None else form(value)


COLUMNS = (
    NAME,
    Column("planner", "The planner"),
    Column("dataset", "The data set"),
    Column("modes", "The modes, cheap first"),
    Column(
        "thresholds",
        "Threshold of each mode: the lowest score of a detection that is used",
    ),
    Column("geometry", "How detections become the objects that the planner observes"),
    Column("judged_on", "The units that the row is over"),
    Column("units", "Number of units"),
    Column("inputs", "Number of states"),
    Column("loss", "The loss", heading="loss"),
    Column(
        "affected",
        "States whose loss changes by more than 1e-9",
        heading="affected",
        text_of_row=lambda row: f"{row['affected']} of {row['inputs']}",
    ),
    Column(
        "harmed",
        "Share of the affected states whose loss rises",
        heading="harmed",
        text=_or_undefined(share),
    ),
    Column(
        "harm_ratio",
        "Total harm over total benefit",
        heading="harm ratio",
        text=_or_undefined(number),
    ),
    Column(
        "cheap_loss",
        "Total loss of the cheap mode",
        heading="cheap loss",
        text=decimals(2),
    ),
    Column(
        "all_full",
        "Share of that loss that escalating everything removes",
        heading="all-full / Oracle@20",
        text_of_row=lambda row: (
            UNDEFINED
            if None in (row["all_full"], row["oracle_20"])
            else f"{percent(row['all_full'])} / {percent(row['oracle_20'])}"
        ),
    ),
    Column("oracle_20", "Share of that loss that the oracle removes at 20 %"),
)
"""What escalation does under one loss: a row of the paper's table.

None: undefined.
"""


AGREEMENT_COLUMNS = (
    Column(
        "first",
        "Cell of one planner",
        heading="cells",
        text_of_row=lambda row: f"{row['first']}, {row['second']}",
    ),
    Column("second", "Cell of the other planner"),
    Column("loss", "The loss", heading="loss"),
    Column(
        "affected",
        "States on which each is affected",
        heading="affected",
        text=lambda numbers: f"{numbers[0]}, {numbers[1]}",
    ),
    Column("both", "States on which both are affected", heading="both"),
    Column(
        "spearman",
        "Rank correlation of their decision values",
        heading="Spearman",
        text=_or_undefined(decimals(2)),
    ),
    Column(
        "gamma",
        "Goodman-Kruskal gamma",
        heading="gamma",
        text=_or_undefined(decimals(2)),
    ),
    Column(
        "ordered_differently",
        "Share ranked in opposite order, of the pairs that both rank strictly",
        heading="ordered differently",
        text=_or_undefined(decimals(2)),
    ),
    Column(
        "opposite",
        "States of opposite sign",
        heading="opposite signs",
        text_of_row=lambda row: (
            UNDEFINED
            if row["sign_disagreement"] is None
            else f"{row['opposite']} of {row['both']}"
        ),
    ),
    Column("sign_disagreement", "Their share"),
)
"""How far two planners agree on the same states, over those on which both are
affected. None: undefined.
"""


VIABILITY_COLUMNS = (
    NAME,
    Column("planner", "The planner"),
    Column("loss", "The loss", heading="loss"),
    Column(
        "mean_loss",
        "Mean loss by mode",
        heading="mean loss",
        text=lambda means: ", ".join(
            f"{mode} {number(mean)}" for mode, mean in means.items()
        ),
    ),
    Column(
        "constant_velocity",
        "Mean loss of constant velocity",
        heading="constant velocity",
        text=number,
    ),
    Column(
        "viable",
        "Whether each mode is viable",
        heading="viable",
        text=lambda viable: (
            ", ".join(mode for mode, better in viable.items() if better) or "no mode"
        ),
    ),
)
"""Mean loss of each mode and of constant velocity; a viable mode loses less than
constant velocity.
"""


WHOLE = (
    Column("losses", "What escalation does under each loss (`COLUMNS`)"),
    Column("agreement", "Pairs of planners (`AGREEMENT_COLUMNS`)"),
    Column("viability", "Modes against constant velocity (`VIABILITY_COLUMNS`)"),
)
"""The analysis: one record of three tables."""


def external_track(cells: Sequence[PlannerCell], *, watch: Watch = unwatched) -> Row:
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
    return {
        "losses": tuple(losses),
        "agreement": tuple(agreed),
        "viability": tuple(viable),
    }


def loss_row(cell: PlannerCell, loss: str) -> Row:
    """The row of one cell under one loss."""
    table = cell.under(loss)
    summary, values = table.summary(ALPHA), table.decision_values
    # a rounding residue is not a benefit to divide by
    helped = bool((values > TOLERANCE).any())
    return {
        "cell": cell.name,
        "planner": cell.planner,
        "dataset": cell.spec.dataset,
        "modes": cell.spec.order,
        "thresholds": tuple(mode.threshold for mode in cell.spec.modes),
        "geometry": cell.spec.geometry,
        "judged_on": cell.judged_on,
        "units": summary.units,
        "inputs": summary.inputs,
        "loss": loss,
        "affected": summary.affected,
        "harmed": known(summary.harm_rate),
        "harm_ratio": known(summary.harm_ratio) if helped else None,
        "cheap_loss": summary.cheap_loss,
        "all_full": known(summary.all_full_share),
        "oracle_20": known(summary.oracle_share),
    }


def agreement_row(one: PlannerCell, other: PlannerCell, loss: str) -> Row:
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
    return {
        "first": one.name,
        "second": other.name,
        "loss": loss,
        "affected": (int(moved[0].sum()), int(moved[1].sum())),
        "both": int(both.sum()),
        "spearman": known(spearman(*values, among=both)),
        "gamma": known(counts.gamma),
        "ordered_differently": known(counts.ordered_differently),
        "opposite": signs.count,
        "sign_disagreement": known(signs.share),
    }


def viability_row(cell: PlannerCell, loss: str) -> Row:
    """Whether planning on each mode's observation loses less than driving straight on
    at the present speed.
    """
    if not cell.trivial:
        raise UnsuitableError(
            "a cell of a planner must keep the losses of constant velocity; it was "
            "built before this version: build it again."
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
    return {
        "cell": cell.name,
        "planner": cell.planner,
        "loss": loss,
        "mean_loss": means,
        "constant_velocity": trivial,
        "viable": viable,
    }


def planner_cell(cell: BuiltCell | MemoryCell, name: str | None = None) -> PlannerCell:
    """A built cell or a cell in memory, as this analysis takes it; an error if its
    system is no published planner.
    """
    if isinstance(cell, MemoryCell):
        label, terms = cell.id, dict(cell.outcomes.terms)
        stored = cell.system_evidence
    else:
        label, terms = str(cell.folder), dict(align(cell.table, cell.terms).parts)
        stored = cell.evidence.columns
    label = name or label
    if set(terms) != set(PARTS):
        raise UnsuitableError(
            "the system must be a published planner, whose loss has the terms "
            f"{', '.join(PARTS)}: build a cell with --system pdm-closed-safety or "
            "idm-safety."
        )
    trivial = {
        part: stored[f"{TRIVIAL}{part}"]
        for part in PARTS
        if f"{TRIVIAL}{part}" in stored
    }
    return PlannerCell(label, cell.spec, cell.table, terms, trivial)


def rows(cells: Sequence[Cell]) -> Iterator[Row]:
    """The analysis of built cells; `external_tables` makes its tables."""
    planned = [planner_cell(cell.cell, cell.name) for cell in cells]
    yield external_track(planned, watch=cells[0].watch)


def _comparable(one: PlannerCell, other: PlannerCell) -> bool:
    return one.setting == other.setting and one.planner != other.planner


def external_tables(records: Sequence[Row]) -> list[Table]:
    """One table for losses, one for agreement if planners can be compared, one for
    viability.
    """
    tables = []
    for track in records:
        tables.append(_losses(track["losses"]))
        tables.append(_agreement(track["agreement"]))
        tables.append(_viability(track["viability"]))
    return [table for table in tables if table.sections]


def _losses(rows: Sequence[Row]) -> Table:
    cells = [next(group) for _, group in groupby(rows, key=lambda row: row["cell"])]
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
    return printed(
        title, only(COLUMNS, *order), rows, notes=_descriptions(cells), group=("cell",)
    )


def _descriptions(cells: Iterable[Row]) -> tuple[str, ...]:
    """Each cell in words, with the units that it is judged on."""
    return tuple(
        (
            f"{row['cell']}: {row['planner']} on {row['dataset']}, "
            f"{_modes(row)}, {row['geometry']}; {row['judged_on']} ({row['units']})."
        )
        for row in cells
    )


def _modes(row: Row) -> str:
    limits = [
        "" if limit is None else f" from {limit:g}" for limit in row["thresholds"]
    ]
    return " -> ".join(
        f"{mode}{limit}" for mode, limit in zip(row["modes"], limits, strict=True)
    )


def _agreement(rows: Sequence[Row]) -> Table:
    note = (
        "Over the states on which both planners are affected; undefined "
        "where too few are ranked."
    )
    return printed(
        "Agreement of planners",
        AGREEMENT_COLUMNS,
        rows,
        notes=(note,),
        group=("first",),
    )


def _viability(rows: Sequence[Row]) -> Table:
    note = (
        "A mode is viable where planning on it loses less than straight on at the "
        "present speed."
    )
    return printed("Viability", VIABILITY_COLUMNS, rows, notes=(note,), group=("cell",))


EXTERNAL = Analysis(
    name="external",
    shows="Compare published planners under five losses",
    see="definitions.md#external-track",
    paper="external planners",
    example="cells/pdm-closed-safety-tracks cells/idm-safety-tracks",
    tables=external_tables,
    whole=True,
    records=lambda track: track["losses"],
    names="path",
    among=(
        lambda cell: isinstance(cell.spec.rule, Driving),
        "no cell of a published planner",
    ),
    details=(
        "Published planners under five losses, their agreement, and their viability "
        "against constant velocity."
    ),
    rows=rows,
    columns=WHOLE,
)
