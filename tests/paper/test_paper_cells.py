"""Counts that pin the paper's designs come out of the code for the paper's own list of
cells.
"""

from collections import Counter
from statistics import median

import pytest

import deepval
from deepval.cells.fitting import fit_on, score_on
from deepval.paper.analyses import half_widths, transfer, wins
from paper_cells import (
    ALPHAS,
    CHOSEN,
    CORE,
    HELD_OUT,
    LEARNED,
    LIGHT,
    POOLED,
    SCORED,
    UNSCORED,
    paper_cells,
    place,
)
from tidy_rows import flat_rows, study_cells
from worlds import judge, quietly


def test_the_lists_are_as_long_as_the_papers():
    lengths = [len(names) for names in (HELD_OUT, SCORED, POOLED, CHOSEN, CORE)]
    assert lengths == [14, 13, 12, 11, 10]
    assert Counter(place(name)[0] for name in HELD_OUT) == {
        "nuscenes": 6,
        "kitti": 4,
        "nuplan": 4,
    }
    assert len(SCORED) * len(ALPHAS) == 52
    assert len(SCORED) * len(LEARNED) == 78


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


def test_there_are_528_transfers_between_consumers(transferred):
    """Consumers of the same views: 22 ordered pairs of cells, six allocators, four
    budgets; 78 stay at home.
    """
    away = [row for row in transferred if row.source != row.target]
    assert len(away) == 528
    assert {
        alpha: sum(row.alpha == alpha for row in away) for alpha in ALPHAS
    } == dict.fromkeys(ALPHAS, 132)
    assert (
        sum(row.alpha == 0.2 for row in transferred if row.source == row.target) == 78
    )
    pairs = {(row.source, row.target) for row in away}
    assert len(pairs) == 22
    assert Counter(place(one)[0] for one, _ in pairs) == {
        "nuscenes": 12,
        "kitti": 4,
        "nuplan": 6,
    }
    for one, other in pairs:
        assert (place(one)[0], place(one)[2]) == (place(other)[0], place(other)[2])


def test_transfers_from_the_planner_to_braking_have_fewer_inputs_in_common(transferred):
    """Braking is judged on every frame, the planner where there is a future: 8 of
    10.
    """
    partly = [row for row in transferred if row.common < 1]
    assert {(place(row.source)[1], place(row.target)[1]) for row in partly} == {
        ("ade", "braking"),
        ("fde", "braking"),
    }
    assert len(partly) == 4 * len(LEARNED) * len(ALPHAS)
    assert {row.common for row in partly} == {0.8}
    # The paper's gates score every frame, its four routers those of the planner alone:
    # 4 pairs x 4 routers x 4 budgets.
    assert len([row for row in partly if row.allocator.startswith("router")]) == 64


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


def test_wins_and_half_widths_count_cells_and_budgets(held_out):
    scored = {name: held_out[name] for name in SCORED}
    assert {
        row.combinations for row in flat_rows(wins.WINS, study_cells(results=scored))
    } == {52}
    assert len(flat_rows(half_widths.HALF_WIDTHS, study_cells(results=scored))) == 52
