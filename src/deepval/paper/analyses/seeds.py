"""A cell and recipes -> how much a result depends on the seed of training:
docs/definitions.md, Seeds and transfer.

nDG and verdict of an allocator fitted with several seeds, and whether its scores are
the same bits.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from deepval.basics.errors import InputWarning, NothingToLearnError
from deepval.deploy.fitting import fit_on, score_on
from deepval.judge.allowances import Selection
from deepval.judge.cases import judge
from deepval.judge.report.text_tables import MISSING, Table, number
from deepval.paper.analysis import FIRST_OF_PAIR, Analysis, Option
from deepval.paper.columns import ALLOCATOR, NAME
from deepval.paper.study import Cell
from deepval.paper.tidy import Column, Dots, Row, printed, yes_no

RANDOMIZED = (
    "router-mlp-value",
    "router-mlp-binary",
    "gate-gbm",
    "router-gbm-value",
    "router-gbm-binary",
)
"""The recipes of the paper's study; no other recipe has a random fit."""


COLUMNS = (
    NAME,
    ALLOCATOR,
    Column("alpha", "Share of inputs that may be escalated"),
    Column("seeds", "The seeds"),
    Column(
        "ndg",
        "nDG by seed; None if undefined",
        heading="nDG by seed",
        text=lambda values: " ".join(map(number, values)),
    ),
    Column(
        "verdicts",
        "Verdict against random by seed",
        heading="better",
        text=lambda verdicts: str(verdicts.count("better")),
    ),
    Column(
        "identical",
        "Whether every seed gives the same scores to the bit",
        heading="same bits",
        text=yes_no,
    ),
)
"""One allocator fitted with several seeds, judged on the test units."""


def span(row: Row) -> str:
    """Largest nDG less the smallest; undefined if any of them is."""
    if None in row["ndg"]:
        return MISSING
    return number(max(row["ndg"]) - min(row["ndg"]))


def rows(
    cells: Sequence[Cell],
    recipes: Iterable[str] = RANDOMIZED,
    *,
    seeds: Annotated[int, Option("Number of seeds: 0, 1, ...", limits=(1, 1_000))] = 6,
    alpha: float = 0.2,
    draws: int = 1000,
) -> Iterator[Row]:
    """Each recipe fitted on each cell with seeds 0, 1, ... and judged on its test
    units.

    A cell that has nothing to learn is left out with a warning.
    """
    names = list(recipes)
    for at in cells:
        name = at.name
        cell = at.cell
        for recipe in at.watch(names, f"seeds on {name}"):
            try:
                scored = {
                    seed: score_on(cell, fit_on(cell, recipe, seed=seed))
                    for seed in range(seeds)
                }
            except NothingToLearnError as error:
                warnings.warn(f"{name}, left out: {error}", InputWarning, stacklevel=2)
                continue
            scores = {
                f"seed {seed}": item.over(cell.table) for seed, item in scored.items()
            }
            result = judge(cell, scores, [Selection(alpha)], command=None, draws=draws)
            judged_rows = [result.row(label) for label in scores]
            same = len({item.score.tobytes() for item in scored.values()}) == 1
            yield {
                "cell": name,
                "allocator": recipe,
                "alpha": alpha,
                "seeds": tuple(scored),
                "ndg": tuple(row.ndg for row in judged_rows),
                "verdicts": tuple(row.verdict for row in judged_rows),
                "identical": same,
            }


def tables(rows: Sequence[Row]) -> list[Table]:
    """The rows as a table."""
    spans = [span(row) for row in rows]
    return [
        printed("Training seeds", COLUMNS, rows).with_column(
            "nDG by seed", "span", spans
        )
    ]


SEEDS = Analysis(
    name="seeds",
    shows="Show how results depend on the training seed",
    see="definitions.md#seeds-and-transfer",
    paper="seed study",
    example="cells/braking-monocular -a router-mlp-value -a gate-gbm",
    by="cell",
    judges=True,
    long=True,
    among=FIRST_OF_PAIR,
    details=(
        "nDG and verdict of an allocator fitted with several seeds, and whether its "
        "scores are the same bits."
    ),
    rows=rows,
    columns=COLUMNS,
    charts=[
        Dots(
            "nDG by training seed",
            {"": "ndg"},
            label="{cell}: {allocator}",
            percent=False,
            line=0.0,
        )
    ],
    tables=tables,
)
