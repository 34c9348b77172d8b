"""Counts that pin the paper's designs come out of the code for the paper's own list of
cells.
"""

from statistics import median

import pytest

import deepval
from deepval.deploy.fitting import fit_on, score_on
from deepval.paper.analyses import transfer
from paper_cells import (
    ALPHAS,
    LIGHT,
    SCORED,
    UNSCORED,
    paper_cells,
)
from tidy_rows import flat_rows, study_cells
from worlds import judge, quietly


@pytest.fixture(scope="module")
def transferred():
    return quietly(
        flat_rows,
        transfer.TRANSFER,
        study_cells(paper_cells(SCORED)),
        recipes=LIGHT,
        alphas=ALPHAS,
        draws=0,
    )


def test_regret_is_the_difference_with_the_router_fitted_there(transferred):
    """A plain loop over fits and judgements, for one pair of cells and one
    allocator.
    """
    one, other = "kitti braking oracle", "kitti receding-horizon oracle"
    cells = paper_cells((one, other))
    ndg = {}
    for source, cell in cells.items():
        scores = score_on(cells[other], fit_on(cell, LIGHT[0])).over(cells[other].table)
        result = judge(
            cells[other].listed,
            {"it": scores},
            draws=0,
            units=list(cells[other].split.test),
        )
        ndg[source] = result.row("it", "selection", 0.2).ndg
    (row,) = [
        row
        for row in transferred
        if (row.source, row.target, row.allocator, row.alpha)
        == (one, other, "gate-ridge", 0.2)
    ]
    assert (row.ndg, row.regret) == pytest.approx((ndg[one], ndg[one] - ndg[other]))
    assert median(row.regret for row in transferred if row.source == row.target) == 0


@pytest.fixture(scope="module")
def held_out():
    """Every held-out cell, judged at the four budgets by two signals made up for the
    purpose.
    """
    budgets = [deepval.Selection(alpha) for alpha in ALPHAS]
    found = {}
    for name, cell in paper_cells().items():
        scores = {
            "mine": cell.table.decision_values,
            "other": -cell.table.decision_values,
        }
        found[name] = judge(
            cell.listed, scores, budgets, draws=20, units=list(cell.split.test)
        )
    return found


def test_nobody_can_be_scored_where_there_is_nothing_to_gain(held_out):
    defined = {
        name for name, result in held_out.items() if result.row("mine").ndg is not None
    }
    assert defined == set(SCORED)
    assert held_out[UNSCORED].row("mine").ndg is None
    assert (
        sum(
            row.ndg is not None
            for result in held_out.values()
            for row in result.rows
            if row.allocator == "mine"
        )
        == 52
    )
