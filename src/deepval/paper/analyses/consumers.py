"""Cells of several consumers -> how far their decision values agree in sign and order: docs/definitions.md, Agreement.

Only cells that share data set, modes and geometry are paired; they are compared on the inputs that both can judge.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from deepval.cells.folder import BuiltCell
from deepval.errors import InputError
from deepval.judging.agreement import affected, pair_counts, reversal, spearman
from deepval.judging.draws import make_draws
from deepval.judging.resamples import ratio
from deepval.paper.analyses.judged import Units, judged, sees_the_same
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.table import Table, interval, lines_of, number, percent
from deepval.results import known
from deepval.tables.columns import positions
from deepval.tables.values import ValueTable


@dataclass(frozen=True)
class ConsumerPair:
    """Decision values of two consumers on the inputs that both judge.

    Attributes:
        first: One cell.
        second: The other.
        inputs: Inputs that both judge.
        both: Inputs that both respond to.
        opposite: Those of them that one finds helped and the other harmed.
        opposite_share: Their share, with its 95 % interval over units.
        ranked_pairs: Pairs of inputs that both rank strictly.
        ordered_differently: Share of those that they rank in opposite order.
        gamma: Goodman-Kruskal gamma of the two values.
        spearman: Rank correlation of the two values.
        reversal: Two inputs that help both and that they rank in opposite order, so that no ranking is optimal for both
            at every budget; None where there are none.
    """

    first: str
    second: str
    inputs: int
    both: int
    opposite: int
    opposite_share: float | None
    opposite_share_lo: float | None
    opposite_share_hi: float | None
    ranked_pairs: int
    ordered_differently: float | None
    gamma: float | None
    spearman: float | None
    reversal: tuple[str, str] | None


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    units: Units = "all",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[ConsumerPair]:
    """One row per pair of cells that differ in the consumer alone."""
    found = []
    for first, second in watch(list(pairs(cells)), "consumers"):
        one, other = shared_inputs(cells[first], cells[second], units)
        drawn = make_draws(len(one.unit_ids), draws, seed)
        responds = [affected(table.decision_values, tolerance=table.tolerance) for table in (one, other)]
        both = responds[0] & responds[1]
        opposite = both & ((one.decision_values > 0) != (other.decision_values > 0))
        share = ratio(one, opposite, both, draws=drawn)
        counts = pair_counts(one.decision_values, other.decision_values)
        turned = reversal(one.decision_values, other.decision_values)
        found.append(
            ConsumerPair(
                first=first,
                second=second,
                inputs=len(one),
                both=int(both.sum()),
                opposite=int(opposite.sum()),
                opposite_share=share.value,
                opposite_share_lo=share.lo,
                opposite_share_hi=share.hi,
                ranked_pairs=counts.concordant + counts.discordant,
                ordered_differently=known(counts.ordered_differently),
                gamma=known(counts.gamma),
                spearman=known(spearman(one.decision_values, other.decision_values)),
                reversal=None if turned is None else (str(one.input[turned.first]), str(one.input[turned.second])),
            )
        )
    return found


def pairs(cells: Mapping[str, BuiltCell]) -> Iterator[tuple[str, str]]:
    """Pairs of cells that differ in the consumer alone; an error where there is none."""
    found = [(a, b) for a, b in combinations(cells, 2) if sees_the_same(cells[a], cells[b])]
    if not found:
        raise InputError(
            f"Two cells with the same data set, modes and geometry are needed to compare consumers; found none among "
            f"{', '.join(cells)}."
        )
    yield from found


def shared_inputs(one: BuiltCell, other: BuiltCell, units: Units) -> tuple[ValueTable, ValueTable]:
    """The inputs that both cells judge; cells of one data set keep them in one order."""
    first, second = judged(one, units), judged(other, units)
    kept = [mine.keep(positions(mine.input, theirs.input) >= 0) for mine, theirs in ((first, second), (second, first))]
    if not len(kept[0]):
        raise InputError(f"{one.folder} and {other.folder}: two consumers need inputs in common; there are none.")
    return kept[0], kept[1]


def table(rows: Sequence[ConsumerPair]) -> Table:
    """The rows as a table."""
    header = ("one", "the other", "inputs", "both respond", "opposite", "share", "95 %", "ordered differently", "gamma")
    texts = [
        (
            row.first,
            row.second,
            f"{row.inputs:,}",
            f"{row.both:,}",
            f"{row.opposite:,}",
            percent(row.opposite_share, 1),
            interval(row.opposite_share_lo, row.opposite_share_hi, lambda share: percent(share, 1)),
            number(row.ordered_differently),
            number(row.gamma),
        )
        for row in rows
    ]
    turned = sum(row.reversal is not None for row in rows)
    note = (
        f"In {turned} of {len(rows)} pairs two inputs that help both stand in opposite order, so that no ranking is "
        "optimal for both at every budget."
    )
    return Table("Two consumers of the same perception", header, lines_of(texts), (note,))


def chart(rows: Sequence[ConsumerPair]) -> Chart:
    """Share of opposite signs for each pair of consumers."""
    dots = (
        Dot(f"{row.first} / {row.second}", "", row.opposite_share, row.opposite_share_lo, row.opposite_share_hi)
        for row in rows
    )
    return shares("Inputs that one consumer finds helped and the other harmed", dots, line=0.5)
