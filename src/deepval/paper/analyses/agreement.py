"""How far perception gain and decision value agree in sign and order.

Perception gain is how far a perception loss falls from the cheap to the full mode, and
decision value V how far the downstream loss falls. If perception were all that matters,
both would have one sign on every input. Three figures say how far that holds: the rank
correlation, the harmed inputs (V < 0) among those with a positive gain, and the inputs
with opposite signs.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from deepval.judge.concordance import spearman
from deepval.judge.results import known
from deepval.paper.analysis import Analysis
from deepval.paper.columns import DESCRIBED, loss_title
from deepval.paper.study import Cell, DrawCount, Units
from deepval.paper.tidy import Column, Dots, Row, count, share, two_digits


def rows(
    cells: Sequence[Cell],
    *,
    units: Units = "all",
    draws: DrawCount = 1000,
    seed: int = 0,
) -> Iterator[Row]:
    """One row per cell and perception loss that its modes define."""
    for cell in cells:
        inputs = cell.inputs(units, draws, seed)
        tolerance = inputs.table.tolerance
        for loss, gain in inputs.perception_gains.items():
            # Only affected inputs count: elsewhere there is no decision to agree with.
            improved = inputs.affected & (gain > tolerance)
            both = inputs.affected & (np.abs(gain) > tolerance)
            # A positive gain on a harmed input, or a negative one on a helped input.
            disagree = (gain > 0) == inputs.harmed
            yield {
                **cell.description,
                "loss": loss,
                "affected": int(inputs.affected.sum()),
                "spearman": known(spearman(gain, inputs.value, among=inputs.affected)),
                "improved": int(improved.sum()),
                "harm_given_gain": inputs.share(inputs.harmed, of=improved),
                "both": int(both.sum()),
                "disagree": inputs.share(disagree, of=both),
            }


AGREEMENT = Analysis(
    name="agreement",
    shows="Compare perception gain with decision value",
    see="definitions.md#agreement",
    paper="sign agreement",
    example="cells/braking-monocular",
    by="cell",
    details=(
        "Perception gain (E1 to E8) against decision value: rank correlation, harm "
        "where perception improves, signs that differ."
    ),
    rows=rows,
    columns=(
        *DESCRIBED,
        Column(
            "loss",
            "The perception loss whose decrease is the gain: E1 to E8",
            heading="perception gain",
            text=loss_title,
        ),
        Column("affected", "Inputs with a decision value other than 0"),
        Column(
            "spearman",
            "Rank correlation of gain and decision value over the affected inputs; "
            "None if either is constant",
            heading="Spearman",
            text=two_digits,
        ),
        Column(
            "improved",
            "Affected inputs with a positive gain",
            heading="gain > 0",
            text=count,
        ),
        Column(
            "harm_given_gain",
            "Share of the improved inputs that escalation harms",
            heading="harmed of these",
            text=share,
            bounds="95 %",
        ),
        Column(
            "both",
            "Inputs on which neither gain nor decision value is 0",
            heading="both not 0",
            text=count,
        ),
        Column(
            "disagree",
            "Share of these inputs on which the two signs differ",
            heading="disagree",
            text=share,
            bounds="95 %",
        ),
    ),
    title="Perception gain against decision value",
    notes=lambda rows: ["Over inputs whose loss escalation changes."],
    charts=[
        Dots(
            "Perception gain and decision value of opposite sign",
            {"{loss}": "disagree"},
            line=0.5,
        )
    ],
)
