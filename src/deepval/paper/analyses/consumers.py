"""Cells of several consumers -> how far their decision values agree in sign and order:
docs/definitions.md, Agreement.

Only cells that share data set, modes and geometry are paired; they are compared on the
inputs that both can judge.

Opposite signs, pairs of inputs in opposite order, and gamma for two consumers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from deepval.cells.folder import BuiltCell
from deepval.errors import InputError
from deepval.judging.concordance import affected, pair_counts, reversal, spearman
from deepval.judging.draws import make_draws
from deepval.judging.ratios import ratio
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    Units,
    column,
    count,
    declared_table,
    high,
    loss_table,
    low,
    sees_the_same,
    share,
)
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import Table, number
from deepval.results import known
from deepval.tables.keys import positions
from deepval.tables.values import ValueTable


@dataclass(frozen=True)
class ConsumerPair:
    """Decision values of two consumers on the inputs that both judge."""

    first: str = column("One cell", "one")
    second: str = column("The other cell", "the other")
    inputs: int = column("Inputs that both judge", "inputs", count)
    both: int = column("Inputs that both respond to", "both respond", count)
    opposite: int = column("Inputs that help one and harm the other", "opposite", count)
    opposite_share: float | None = column(
        "Their share of the inputs that both respond to", "share", share
    )
    opposite_share_lo: float | None = low(heading="95 %", form=share)
    opposite_share_hi: float | None = high()
    ranked_pairs: int = column("Pairs of inputs that both rank strictly")
    ordered_differently: float | None = column(
        "Share of these pairs that the two rank in opposite order",
        "ordered differently",
        number,
    )
    gamma: float | None = column(
        "Goodman-Kruskal gamma of the two values", "gamma", number
    )
    spearman: float | None = column("Rank correlation of the two values")
    reversal: tuple[str, str] | None = column(
        "Two inputs that help both consumers and that the two rank in opposite order, "
        "so that no ranking is optimal for both at every budget; "
        "None if there are none"
    )


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    units: Units = "all",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[ConsumerPair]:
    """One row per pair of cells that differ in the consumer alone."""
    records = []
    for first, second in watch(list(pairs(cells)), "consumers"):
        one, other = shared_inputs(cells[first], cells[second], units)
        drawn = make_draws(len(one.unit_ids), draws, seed)
        responds = [
            affected(table.decision_values, tolerance=table.tolerance)
            for table in (one, other)
        ]
        both = responds[0] & responds[1]
        opposite = both & ((one.decision_values > 0) != (other.decision_values > 0))
        part = ratio(one, opposite, both, draws=drawn)
        counts = pair_counts(one.decision_values, other.decision_values)
        turn = reversal(one.decision_values, other.decision_values)
        records.append(
            ConsumerPair(
                first=first,
                second=second,
                inputs=len(one),
                both=int(both.sum()),
                opposite=int(opposite.sum()),
                **part.columns("opposite_share"),
                ranked_pairs=counts.concordant + counts.discordant,
                ordered_differently=known(counts.ordered_differently),
                gamma=known(counts.gamma),
                spearman=known(spearman(one.decision_values, other.decision_values)),
                reversal=None
                if turn is None
                else (str(one.input[turn.first]), str(one.input[turn.second])),
            )
        )
    return records


def pairs(cells: Mapping[str, BuiltCell]) -> Iterator[tuple[str, str]]:
    """Pairs of cells that differ in the consumer alone; an error if there is none."""
    members = [
        (a, b) for a, b in combinations(cells, 2) if sees_the_same(cells[a], cells[b])
    ]
    if not members:
        raise InputError(
            "Two cells with the same data set, modes and geometry are needed to "
            f"compare consumers; found none among {', '.join(cells)}."
        )
    yield from members


def shared_inputs(
    one: BuiltCell, other: BuiltCell, units: Units
) -> tuple[ValueTable, ValueTable]:
    """The inputs that both cells judge; cells of the same data set have them in the
    same order.
    """
    first, second = loss_table(one, units), loss_table(other, units)
    common = (
        first.keep(positions(first.input, second.input) >= 0),
        second.keep(positions(second.input, first.input) >= 0),
    )
    if not len(common[0]):
        raise InputError(
            f"{one.folder} and {other.folder}: two consumers need inputs in common; "
            "there are none."
        )
    return common


def table(rows: Sequence[ConsumerPair]) -> Table:
    """The rows as a table."""
    reversals = sum(row.reversal is not None for row in rows)
    note = (
        f"In {reversals} of {len(rows)} pairs two inputs that help both stand in "
        "opposite order, so that no ranking is optimal for both at every budget."
    )
    return declared_table(
        ConsumerPair, rows, "Two consumers of the same perception", notes=(note,)
    )


def chart(rows: Sequence[ConsumerPair]) -> Chart:
    """Share of opposite signs for each pair of consumers."""
    dots = (
        Dot(
            f"{row.first} / {row.second}",
            "",
            row.opposite_share,
            row.opposite_share_lo,
            row.opposite_share_hi,
        )
        for row in rows
    )
    return shares(
        "Inputs that one consumer finds helped and the other harmed", dots, line=0.5
    )


CONSUMERS = declare(
    __name__,
    shows="Compare two consumers of the same perception",
    paper="cross-consumer signs, pairwise disagreement",
    example="cells/braking-monocular cells/receding-horizon-monocular",
    by="view",
    least=2,
)
