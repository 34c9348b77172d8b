"""Recipes fitted on other labels: the paper's designs counted, and twins in plain loops
on its tiny cells.
"""

import json
import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

import deepval
from commands import call
from deepval.basics.errors import InputError
from deepval.deploy.allocators import RowRecipe
from deepval.deploy.fitting import fit_on, score_on
from deepval.deploy.labels import TARGETS, labels
from deepval.judge.cases import openings
from deepval.judge.draws import make_draws, seeds_by_units
from deepval.paper.analyses import (
    contrasts,
    objective_swap,
    published_objectives,
    target_transforms,
)
from deepval.paper.analyses.contrasts import LABELS, VALUE, judged_on_labels
from paper_cells import ALPHAS, CORE, LIGHT, POOLED, Slopes, paper_cells
from reference.evaluation import best_gain, expected_top
from small_cells import build_cells
from tidy_rows import flat_rows, study_cells
from worlds import quietly

PIXEL = RowRecipe("router-pixel", "detection-list", "value-binary", Slopes())
"""In place of the pixel router, which needs pictures and an extra."""
ROUTERS = (*(recipe for recipe in LIGHT if recipe.name.startswith("router")), PIXEL)
REGRESSORS = tuple(
    recipe
    for recipe in LIGHT
    if recipe.name in ("router-mlp-value", "router-gbm-value")
)
DRAWS = 30


@pytest.fixture(scope="module", autouse=True)
def ledgers(tmp_path_factory):
    """Ledgers of cells that lie nowhere are written beside the tests' other files."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path_factory.mktemp("ledgers"))
        for cell in paper_cells().values():
            cell.folder.mkdir(parents=True, exist_ok=True)
        yield


def judged(names, recipes, wanted, alphas):
    found = judged_on_labels(
        paper_cells(names),
        recipes,
        wanted,
        alphas=alphas,
        by="test",
        draws=DRAWS,
        seed=3,
        watch=lambda items, _: items,
    )
    return quietly(dict, found)


@pytest.fixture(scope="module")
def swapped():
    return flat_rows(
        objective_swap.OBJECTIVE_SWAP,
        study_cells(relabelled=judged(POOLED, LIGHT, objective_swap.LABELS, (0.2,))),
    )


@pytest.fixture(scope="module")
def published():
    """The results, and the rows of the analysis."""
    found = judged(CORE, ROUTERS, published_objectives.LABELS, ALPHAS)
    return found, flat_rows(
        published_objectives.PUBLISHED_OBJECTIVES, study_cells(relabelled=found)
    )


@pytest.fixture(scope="module")
def transformed():
    return flat_rows(
        target_transforms.TARGET_TRANSFORMS,
        study_cells(
            relabelled=judged(CORE, REGRESSORS, target_transforms.LABELS, (0.2,))
        ),
    )


def test_200_combinations_are_counted_for_each_published_objective(published):
    results, rows = published
    counts = {
        (row["label"], row["recipe"]): row for row in published_objectives.counts(rows)
    }
    assert len(counts) == 2 * (1 + 5)
    for label in ("oric", "ap-swap"):
        seen = Counter()
        for result in results.values():
            for recipe in ROUTERS:
                names = f"{recipe.name} on {label}", f"{recipe.name} on value"
                for pair in deepval.compare(result, *names):
                    one, other = (
                        result.row(name, "selection", pair.alpha).verdict
                        for name in names
                    )
                    seen["combinations"] += 1
                    seen["wins"] += one == "better"
                    seen["decision_wins"] += other == "better"
                    seen["only"] += one == "better" != other
                    seen["only_decision"] += other == "better" != one
                    seen["ahead"] += pair.verdict == "better"
                    seen["behind"] += pair.verdict == "worse"
        every = counts[label, "all"]
        each = [counts[label, recipe.name] for recipe in ROUTERS]
        assert (every["combinations"], {row["combinations"] for row in each}) == (
            200,
            {40},
        )
        assert {name: every[name] for name in seen} == seen
        assert {name: sum(row[name] for row in each) for name in seen} == seen


def test_any_two_labels_of_a_transform_are_compared(transformed):
    rows = transformed
    names = [label.name for label in target_transforms.LABELS]
    pairs = [(later, earlier) for earlier, later in combinations(names, 2)]
    assert [
        (row.label, row.against) for row in rows if row.cell == contrasts.ALL
    ] == 2 * pairs
    assert {row.cells for row in rows if row.cell == contrasts.ALL} == {10}
    by = {
        (row.recipe, row.label, row.against): row.ndg_difference
        for row in rows
        if row.cell == contrasts.ALL
    }
    for recipe in (recipe.name for recipe in REGRESSORS):
        for one, two, three in combinations(names, 3):
            round_about = by[recipe, three, two] + by[recipe, two, one]
            assert by[recipe, three, one] == pytest.approx(round_about)


def gains(cell, scores, values, counts, alpha):
    """Gain, prize and all-cheap loss in the sample and in every draw, input by
    input.
    """
    test = cell.listed.restrict(list(cell.split.test))
    for count in [np.ones(len(test.unit_ids)), *counts]:
        rows = np.repeat(np.arange(len(test)), count[test.unit].astype(int))
        slots = math.floor(alpha * len(rows) + 0.5)
        own = values[rows].tolist()
        loss = test.losses[rows, 0].sum()
        yield (
            [float(expected_top(s[rows].tolist(), own, slots)) for s in scores],
            best_gain(own, slots),
            loss,
        )


def test_a_mean_over_cells_is_that_of_plain_loops_over_fits_and_draws(transformed):
    """Fitted here one by one, ranked draw by draw; cells of a data set share their
    draws, data sets do not.
    """
    cells, alpha, recipe = paper_cells(CORE), 0.2, REGRESSORS[0]
    seeds = seeds_by_units({name: cell.split.test for name, cell in cells.items()}, 3)
    assert len(set(seeds.values())) == 2
    shares, ndgs, kept = [], [], []
    for name, cell in cells.items():
        test = cell.listed.restrict(list(cell.split.test))
        counts = make_draws(len(test.unit_ids), DRAWS, seeds[name]).counts
        scores = []
        for target in ("value-rank", "value"):
            item = score_on(cell, fit_on(cell, recipe, target=target)).over(cell.table)
            scores.append(item.values[np.isin(cell.table.input, test.input)])
        found = list(gains(cell, scores, test.decision_values, counts, alpha))
        shares.append([(one - other) / loss for (one, other), _, loss in found])
        ndgs.append([(one - other) / prize for (one, other), prize, _ in found])
        kept.append([prize >= found[0][1] / 4 for _, prize, _ in found[1:]])
    share, ndg, kept = (
        np.mean(shares, axis=0),
        np.mean(ndgs, axis=0),
        np.all(kept, axis=0),
    )
    (row,) = [
        row
        for row in transformed
        if (row.recipe, row.label, row.against, row.cell)
        == (recipe.name, "value-rank", "value", contrasts.ALL)
    ]
    assert (row.difference, row.ndg_difference) == pytest.approx((share[0], ndg[0]))
    assert (row.lo, row.hi) == pytest.approx(
        tuple(np.percentile(share[1:], [2.5, 97.5]))
    )
    assert (row.ndg_lo, row.ndg_hi) == pytest.approx(
        tuple(np.percentile(ndg[1:][kept], [2.5, 97.5]))
    )
    single = [
        each
        for each in transformed
        if (each.recipe, each.label, each.against)
        == (recipe.name, "value-rank", "value")
        and each.cell != contrasts.ALL
    ]
    assert [each.difference for each in single] == pytest.approx(
        [share[0] for share in shares]
    )


def test_labels_are_fitted_in_the_form_of_the_recipe():
    regress, classify = LIGHT[0], PIXEL
    assert [label.target(regress) for label in LABELS] == [
        *(
            "value",
            "gain-E1",
            "gain-E5",
            "gain-E8",
            "oric-cdf",
            "ap-swap-cdf",
            "value-rank",
            "value-signed-cdf",
        )
    ]
    assert [label.target(classify) for label in LABELS if label.classified] == [
        *(
            "value-binary",
            "gain-E1-binary",
            "gain-E5-binary",
            "gain-E8-binary",
            "oric-binary",
            "ap-swap-binary",
        )
    ]
    for label in LABELS:
        assert not TARGETS[label.regressed].classifies
        assert label.classified is None or TARGETS[label.classified].classifies
    with pytest.raises(
        InputError, match="router-pixel classifies, and value-rank is a number"
    ):
        contrasts.RANK.target(classify)


def test_results_without_two_labels_are_refused():
    found = judged(("kitti braking oracle",), REGRESSORS[:1], (VALUE,), (0.2,))
    with pytest.raises(
        InputError,
        match="named 'RECIPE on LABEL'; none of kitti braking oracle has two of",
    ):
        flat_rows(objective_swap.OBJECTIVE_SWAP, study_cells(relabelled=found))


def test_rows_are_plain_data_with_tables_and_charts(swapped, published, transformed):
    for analysis, rows in (
        (objective_swap.OBJECTIVE_SWAP, swapped),
        (published_objectives.PUBLISHED_OBJECTIVES, published[1]),
        (target_transforms.TARGET_TRANSFORMS, transformed),
    ):
        json.dumps(analysis.flat(rows), allow_nan=False)
        *_, last = analysis.report_tables(rows)
        assert len(last.sections[0]) == len(contrasts.single(rows))
        chart = analysis.chart(rows)
        at = [row for row in rows if row.cell == contrasts.ALL and row.alpha == 0.2]
        assert [dot.point for dot in chart.dots] == [row.difference for row in at]


def test_the_label_of_a_fit_is_that_of_its_units():
    """What a recipe learns is made from the fit units alone: test values could be
    anything.
    """
    (cell,) = paper_cells(("kitti braking oracle",)).values()
    fitted = fit_on(cell, REGRESSORS[0], target="value-rank")
    assert set(fitted.training.units) == set(cell.split.fit)
    own = cell.evidence.restrict(list(cell.split.fit))
    values = own.table.decision_values
    ranks = [
        (sum(v < one for v in values) + sum(v <= one for v in values))
        / (2 * len(values))
        for one in values
    ]
    assert labels("value-rank", own).values.tolist() == pytest.approx(ranks)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return (
        build_cells(tmp_path_factory.mktemp("cells"), systems=("braking",))
        / "braking-monocular"
    )


@pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
@pytest.mark.parametrize(
    ("name", "recipe", "pairs"),
    [
        ("objective-swap", "gate-ridge", 3),
        ("published-objectives", "gate-ridge", 2),
        ("target-transforms", "gate-ridge", 10),
    ],
)
def test_commands_fit_judge_and_count_their_look(name, recipe, pairs, built, capsys):
    cell = deepval.driving.cells.folder.read_cell(built)
    before = openings(built, cell.id)
    words = [
        "analyse",
        name,
        str(built),
        "-a",
        recipe,
        "--alpha",
        "0.2",
        "--draws",
        "20",
    ]
    call(*words, "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [(row["cell"], row["recipe"]) for row in rows] == pairs * [
        ("all cells", recipe),
        ("braking-monocular", recipe),
    ]
    assert openings(built, cell.id) == before + 1
