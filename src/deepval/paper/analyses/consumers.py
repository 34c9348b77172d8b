"""How far the decision values of two downstream systems agree in sign and order.

Only cells that share data set, modes and geometry are paired; they are compared on the
inputs that both judge.
"""

from collections.abc import Iterator, Sequence

from deepval.basics.errors import InputError
from deepval.judge.concordance import pair_counts, reversal, spearman
from deepval.judge.report.text_tables import number
from deepval.judge.results import known
from deepval.paper.analysis import Analysis
from deepval.paper.study import Cell, DrawCount, Inputs, Units, consumer_pairs
from deepval.paper.tidy import Column, Dots, Row, count, share


def rows(
    cells: Sequence[Cell],
    *,
    units: Units = "all",
    draws: DrawCount = 1000,
    seed: int = 0,
) -> Iterator[Row]:
    """One row per pair of cells that differ in the downstream system alone."""
    for first, second in consumer_pairs(cells):
        one, other = shared_inputs(
            first.inputs(units, draws, seed), second.inputs(units, draws, seed)
        )
        # An input that one of them ignores has no sign to compare.
        both = one.affected & other.affected
        opposite = both & ((one.value > 0) != (other.value > 0))
        # Ties of either consumer are no order, so they count neither way.
        pairs = pair_counts(one.value, other.value)
        yield {
            "first": first.name,
            "second": second.name,
            "inputs": len(one.table),
            "both": int(both.sum()),
            "opposite": int(opposite.sum()),
            "opposite_share": one.share(opposite, of=both),
            "ranked_pairs": pairs.concordant + pairs.discordant,
            "ordered_differently": known(pairs.ordered_differently),
            "gamma": known(pairs.gamma),
            "spearman": known(spearman(one.value, other.value)),
            "reversal": reversed_inputs(one, other),
        }


def shared_inputs(one: Inputs, other: Inputs) -> tuple[Inputs, Inputs]:
    """The inputs that both cells judge, in the same order."""
    shared = one.only_those_of(other), other.only_those_of(one)
    if not len(shared[0].table):
        raise InputError(
            f"{one.cell.folder} and {other.cell.folder}: two consumers "
            "need inputs in common; there are none."
        )
    return shared


def reversed_inputs(one: Inputs, other: Inputs) -> tuple[str, str] | None:
    """Two inputs that help both and that the two rank in opposite order."""
    turn = reversal(one.value, other.value)
    if turn is None:
        return None
    return str(one.table.input[turn.first]), str(one.table.input[turn.second])


def notes(rows: Sequence[Row]) -> Iterator[str]:
    """In how many pairs no ranking serves both."""
    reversals = sum(row["reversal"] is not None for row in rows)
    yield (
        f"In {reversals} of {len(rows)} pairs two inputs that help both stand in "
        "opposite order, so that no ranking is optimal for both at every budget."
    )


CONSUMERS = Analysis(
    name="consumers",
    shows="Compare two consumers of the same perception",
    paper="cross-consumer signs, pairwise disagreement",
    example="cells/braking-monocular cells/receding-horizon-monocular",
    by="view",
    least=2,
    details=(
        "Opposite signs, pairs of inputs in opposite order, and gamma for two "
        "consumers."
    ),
    rows=rows,
    columns=(
        Column("first", "One cell", heading="one"),
        Column("second", "The other cell", heading="the other"),
        Column("inputs", "Inputs that both judge", heading="inputs", text=count),
        Column(
            "both", "Inputs that both respond to", heading="both respond", text=count
        ),
        Column(
            "opposite",
            "Inputs that help one and harm the other",
            heading="opposite",
            text=count,
        ),
        Column(
            "opposite_share",
            "Their share of the inputs that both respond to",
            heading="share",
            text=share,
            bounds="95 %",
        ),
        Column("ranked_pairs", "Pairs of inputs that both rank strictly"),
        Column(
            "ordered_differently",
            "Share of these pairs that the two rank in opposite order",
            heading="ordered differently",
            text=number,
        ),
        Column(
            "gamma",
            "Goodman-Kruskal gamma of the two values",
            heading="gamma",
            text=number,
        ),
        Column("spearman", "Rank correlation of the two values"),
        Column(
            "reversal",
            "Two inputs that help both and that the two rank in opposite order, so "
            "that no ranking is optimal for both at every budget; None if there are "
            "none",
        ),
    ),
    title="Two consumers of the same perception",
    notes=notes,
    charts=[
        Dots(
            "Inputs that one consumer finds helped and the other harmed",
            {"": "opposite_share"},
            label="{first} / {second}",
            line=0.5,
        )
    ],
)
