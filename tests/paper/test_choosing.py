"""Choosing by perception gain: against loops that try everything, and the paper's
designs on made-up values.
"""

import itertools
import json
import math
from fractions import Fraction
from statistics import fmean, median
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from choosing_worlds import paper_cells, random_cell
from commands import call
from deepval.basics.errors import InputError
from deepval.driving.cells.folder import read_cell
from deepval.judge.cases import openings
from deepval.judge.draws import seeds_by_units
from deepval.paper.analyses import arbiter, perception_ranking, selection_regret
from deepval.paper.analyses.selection_regret import ranked
from small_cells import build_cells
from tidy_rows import flat_rows, study_cells

# tiny cells
pytestmark = pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
ALPHAS = (0.1, 0.2, 0.3, 0.5)


def realised(score, worth, k):
    """Mean over every order that a ranking allows of what its first k are worth; random
    allows every order.
    """
    if score is None:
        return Fraction(k, len(worth)) * sum(worth)
    total, left = Fraction(0), k
    for level in sorted(set(score), reverse=True):
        group = [w for s, w in zip(score, worth, strict=True) if s == level]
        taken = min(left, len(group))
        total += Fraction(taken, len(group)) * sum(group)
        left -= taken
    return total


def part_of(cell, scored, units, loss=None):
    """Scores by signal and what an objective is worth, of some units, as exact
    numbers.
    """
    rows = [i for i, u in enumerate(cell.table.unit_ids[cell.table.unit]) if u in units]
    worth = (
        cell.table.decision_values if loss is None else cell.evidence.losses[0][loss]
    )
    scores = {
        n: [Fraction(float(s)) for s in item.score[rows]] for n, item in scored.items()
    }
    return {"random": None, **scores}, [Fraction(float(w)) for w in worth[rows]]


def winners(cell, scored, units, loss, alpha):
    scores, worth = part_of(cell, scored, units, loss)
    k = math.floor(alpha * len(worth) + 0.5)
    found = {name: realised(score, worth, k) for name, score in scores.items()}
    return found, sorted(name for name in found if found[name] == max(found.values()))


@given(st.integers(0, 10_000))
def test_a_ranking_is_that_of_exact_sums_over_all_orders(seed):
    rng = np.random.default_rng(seed)
    number = int(rng.integers(2, 5))
    worth, k = rng.integers(-2, 3, number) / 2, int(rng.integers(0, number + 1))
    pool = {"random": None} | {
        name: rng.integers(0, 3, number).astype(float) for name in "abc"
    }
    found = ranked(worth, pool, k)
    exact = []
    for score in pool.values():
        orders = [
            o for o in itertools.permutations(range(number)) if _descends(score, o)
        ]
        exact.append(
            sum(sum(Fraction(float(worth[i])) for i in o[:k]) for o in orders)
            / len(orders)
        )
    assert found.realised == pytest.approx([float(each) for each in exact])
    assert found.level.tolist() == [sorted(set(exact)).index(each) for each in exact]
    assert found.best == tuple(
        sorted(n for n, each in zip(pool, exact, strict=True) if each == max(exact))
    )


def _descends(score, order):
    return score is None or all(
        score[one] >= score[other] for one, other in itertools.pairwise(order)
    )


def tau_b(one, other):
    """Kendall's tau-b by looking at every pair."""
    signs = [
        (np.sign(one[i] - one[j]), np.sign(other[i] - other[j]))
        for i, j in itertools.combinations(range(len(one)), 2)
    ]
    untied = math.sqrt(sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs))
    return sum(a * b for a, b in signs) / untied if untied else None


@pytest.mark.parametrize("seed", range(6))
def test_perception_ranking_matches_a_loop_over_everything(seed):
    rng = np.random.default_rng(seed)
    made = {str(i): random_cell(rng) for i in range(2)}
    cells = {name: cell for name, (cell, _) in made.items()}
    scores = {name: scored for name, (_, scored) in made.items()}
    rows = flat_rows(
        perception_ranking.PERCEPTION_RANKING, study_cells(cells, scores=scores)
    )
    assert rows == flat_rows(
        perception_ranking.PERCEPTION_RANKING, study_cells(cells, scores=scores)
    )
    assert len(rows) == 2 * 2 * 4
    for row in rows:
        cell, scored = made[row.cell]
        by_loss, perceived = winners(cell, scored, cell.split.test, row.loss, row.alpha)
        by_value, decided = winners(cell, scored, cell.split.test, None, row.alpha)
        assert (list(row.best_perception), list(row.best_decision)) == (
            perceived,
            decided,
        )
        assert row.common == bool(set(perceived) & set(decided))
        exact = tau_b(
            [float(by_loss[n]) for n in by_loss], [float(by_value[n]) for n in by_loss]
        )
        assert row.tau == (None if exact is None else pytest.approx(exact))
        assert (row.pool, row.signals) == ("target-free", 4)
    for mean in counts_of(rows):
        own = [row for row in rows if row.loss == mean.loss]
        taus = [row.tau for row in own if row.tau is not None]
        assert (mean.cells, mean.pairs, mean.ranked) == (2, 8, len(taus))
        assert mean.apart == sum(not row.common for row in own)
        assert (mean.share, mean.tau) == (
            mean.apart / 8,
            median(taus) if taus else None,
        )


def counts_of(rows):
    counts = perception_ranking.counts_over_cells(rows)
    return [SimpleNamespace(**count) for count in counts]


def test_the_papers_cells_make_52_pairs_of_cell_and_budget():
    cells, scores = paper_cells()
    assert len(cells) == 14
    rows = flat_rows(
        perception_ranking.PERCEPTION_RANKING,
        study_cells(cells, scores=scores),
        losses=["E1"],
    )
    assert len(rows) == 52
    (out,) = set(cells) - {row.cell for row in rows}
    assert "idm" in out
    assert out.endswith("safety")
    assert {row.signals for row in rows if "nuplan" in row.cell} == {3}
    (mean,) = counts_of(rows)
    assert (mean.cells, mean.pairs) == (13, 52)
    first = perception_ranking.table(rows).sections[0][0]
    assert [cell.text for cell in first][2:4] == ["13", "52"]


def test_the_papers_regret_is_over_its_ten_core_cells_and_pdm_closed():
    cells, scores = paper_cells()
    rows = flat_rows(
        selection_regret.SELECTION_REGRET,
        study_cells(cells, train_scores=scores),
        losses=["E1", "E8"],
        draws=20,
    )
    means = [row for row in rows if row.cell is None]
    assert [(row.loss, row.alpha) for row in means] == [
        (loss, a) for a in ALPHAS for loss in ("E1", "E8")
    ]
    assert {row.cells for row in means} == {11}
    chosen = {row.cell for row in rows if row.cell is not None and row.cells}
    assert [name for name in chosen if "nuplan" in name] == [
        name for name in cells if "pdm" in name and "scalar" in name
    ]
    assert {row.reason for row in rows if row.cell is not None and not row.cells} == {
        "7 affected validation inputs, fewer than 8"
    }


def drawn_regret(cell, scored, chosen, counts, alpha):
    """Mean over the chosen signals of what they gain in a draw of test units, ties
    shared out, as a share.
    """
    scores, worth = part_of(cell, scored, cell.split.test)
    units = cell.table.unit_ids[cell.table.unit]
    unit = [u for u in units if u in cell.split.test]
    times = [int(counts[cell.split.test.index(u)]) for u in unit]
    many = [i for i, n in enumerate(times) for _ in range(n)]
    k = math.floor(alpha * len(many) + 0.5)
    gains = [
        realised(
            None if scores[n] is None else [scores[n][i] for i in many],
            [worth[i] for i in many],
            k,
        )
        for n in chosen
    ]
    rows = [i for i, u in enumerate(units) if u in cell.split.test]
    loss = sum(Fraction(float(cell.table.losses[rows[i], 0])) for i in many)
    return fmean(map(float, gains)) / float(loss)


@pytest.mark.parametrize("seed", range(3))
def test_selection_regret_matches_a_loop_over_cells_draws_and_inputs(seed):
    """Two data sets: the cells of one share their draws, the other has its own."""
    rng = np.random.default_rng(100 + seed)
    made = {
        "one": random_cell(rng),
        "two": random_cell(rng),
        "other": random_cell(rng, data="other", prefix="x-"),
    }
    cells = {name: cell for name, (cell, _) in made.items()}
    scores = {name: scored for name, (_, scored) in made.items()}
    rows = flat_rows(
        selection_regret.SELECTION_REGRET,
        study_cells(cells, train_scores=scores),
        alphas=(0.2, 0.5),
        draws=15,
        seed=4,
    )
    assert rows == flat_rows(
        selection_regret.SELECTION_REGRET,
        study_cells(cells, train_scores=scores),
        alphas=(0.2, 0.5),
        draws=15,
        seed=4,
    )
    seeds = seeds_by_units({name: cell.split.test for name, cell in cells.items()}, 4)
    assert seeds["one"] == seeds["two"] != seeds["other"]
    shared = {
        s: np.random.Generator(np.random.PCG64(s)).integers(0, 3, (15, 3))
        for s in set(seeds.values())
    }
    for mean in (row for row in rows if row.cell is None):
        differences = []
        for name, (cell, scored) in made.items():
            own = next(
                row
                for row in rows
                if (row.cell, row.loss, row.alpha) == (name, mean.loss, mean.alpha)
            )
            chosen = [
                winners(cell, scored, cell.split.validation, loss, mean.alpha)[1]
                for loss in (None, mean.loss)
            ]
            assert [list(own.by_decision), list(own.by_perception)] == chosen
            counts = [
                np.ones(3),
                *(np.bincount(draw, minlength=3) for draw in shared[seeds[name]]),
            ]
            gains = [
                [drawn_regret(cell, scored, each, c, mean.alpha) for c in counts]
                for each in chosen
            ]
            differences.append(np.array(gains[0]) - np.array(gains[1]))
            assert (own.gain_decision, own.gain_perception) == pytest.approx(
                (gains[0][0], gains[1][0])
            )
            assert own.regret == pytest.approx(differences[-1][0], abs=1e-12)
            assert (own.regret_lo, own.regret_hi) == pytest.approx(
                np.percentile(differences[-1][1:], [2.5, 97.5]), abs=1e-12
            )
            assert (own.cells, own.alike) == (1, int(chosen[0] == chosen[1]))
        over = np.mean(differences, axis=0)
        assert mean.regret == pytest.approx(over[0], abs=1e-12)
        assert mean.regret == pytest.approx(
            mean.gain_decision - mean.gain_perception, abs=1e-12
        )
        low, high = np.percentile(over[1:], [2.5, 97.5])
        assert (mean.regret_lo, mean.regret_hi) == pytest.approx((low, high), abs=1e-12)
        assert mean.verdict == (
            "better" if low > 1e-12 else "worse" if high < -1e-12 else "unresolved"
        )
        assert (mean.cells, mean.draws, mean.dropped) == (3, 15, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return build_cells(
        tmp_path_factory.mktemp("cells"),
        systems=("braking",),
        units=tuple(f"scene-0{i}" for i in range(8)),
    )


def test_commands_tell_rows_and_count_the_look(folder, capsys):
    cell = read_cell(folder / "braking-monocular")
    before = openings(cell.folder, cell.id)
    words = [
        str(folder),
        "-a",
        "gate-ridge",
        "--loss",
        "E1",
        "--alpha",
        "0.2",
        "--json",
    ]
    call("analyse", "perception-ranking", *words)
    ranking = json.loads(capsys.readouterr().out)
    assert [(row["pool"], row["loss"], row["alpha"]) for row in ranking] == [
        (pool, "E1", 0.2) for pool in ("target-free", "learned", "diagnostics")
    ]
    call("analyse", "selection-regret", *words, "--draws", "20")
    regret = json.loads(capsys.readouterr().out)
    assert [(row["cell"], row["pool"]) for row in regret] == [
        (cell, pool)
        for pool in ("target-free", "learned")
        for cell in (None, "braking-monocular")
    ]
    assert openings(cell.folder, cell.id) == before + 2
    call("analyse", "selection-regret", folder, "--loss", "E1", "--draws", "20")
    told = capsys.readouterr().out
    assert "Selection regret: what choosing by perception gain costs" in told
    assert "What each objective chooses at 20%, cell by cell" in told
    with pytest.raises(InputError, match="A perception loss must be one of E1"):
        call("analyse", "selection-regret", folder, "--loss", "E9")


@pytest.mark.parametrize("seed", range(3))
def test_the_arbiter_chooses_on_validation_units_and_is_judged_on_test_units(seed):
    cell, scored = random_cell(np.random.default_rng(seed))
    rows = flat_rows(
        arbiter.ARBITER,
        study_cells({"one": cell}, train_scores={"one": scored}),
        alphas=ALPHAS,
        draws=5,
    )
    assert [(row.pool, row.alpha) for row in rows] == list(
        itertools.product(dict.fromkeys(row.pool for row in rows), ALPHAS)
    )
    for row in rows:
        gains = {}
        for role in ("validation", "test"):
            scores, worth = part_of(cell, scored, getattr(cell.split, role))
            for alpha in ALPHAS:
                k = math.floor(alpha * len(worth) + 0.5)
                gains[role, alpha] = {
                    name: realised(scores[name], worth, k) for name in row.candidates
                }
                best = sum(sorted((w for w in worth if w > 0), reverse=True)[:k])
                gains[role, alpha, "best"] = best
        own = gains["validation", row.alpha]
        assert own[row.choice] == pytest.approx(max(own.values()))
        summed = {
            name: sum(gains["validation", alpha][name] for alpha in ALPHAS)
            for name in row.candidates
        }
        assert summed[row.fixed] == pytest.approx(max(summed.values()))
        judged = gains["test", row.alpha]
        assert judged[row.best] == pytest.approx(max(judged.values()))
        if (possible := gains["test", row.alpha, "best"]) > 0:
            assert row.ndg == pytest.approx(float(judged[row.choice] / possible))
            assert row.fixed_ndg == pytest.approx(float(judged[row.fixed] / possible))
            assert row.best_ndg == pytest.approx(float(judged[row.best] / possible))
    assert "random" not in {name for row in rows for name in row.candidates}
