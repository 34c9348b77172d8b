"""The sweep over configurations and the study of seeds against slow twins that build,
fit and judge by themselves.
"""

import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from deepval.deploy.allocators.feature_sets import Cheap, DetectionList
from deepval.deploy.allocators.models.model import one_thread
from deepval.deploy.fitting import sights_of
from deepval.driving.cells.build import built
from deepval.judge.report.text_tables import number
from deepval.paper.analyses import robustness, seeds
from reference import evaluation as slow
from small_cells import build_cells, read_cells, small_specs
from tidy_rows import flat_rows, study_cells
from worlds import quietly

UNITS = tuple(f"scene-{number:02}" for number in range(6))
DRAWS, ALPHA = 25, 0.2
TASKS = {"braking": "longitudinal", "lateral": "lateral"}


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    """A cell of the braking controller with monocular geometry."""
    folder = build_cells(
        tmp_path_factory.mktemp("sweep"), systems=("braking",), units=UNITS
    )
    return read_cells(folder / "braking-monocular")["braking-monocular"]


def judged(table, scores, units, *, draws):
    """The rows of scores, one per name, of inputs in some units, by the slow
    judgement.
    """
    unit = table.unit_ids[table.unit].tolist()
    rows = [
        (
            unit[place],
            table.losses[place, 0],
            table.losses[place, -1],
            {name: s[place] for name, s in scores.items()},
        )
        for place in range(len(unit))
        if unit[place] in units
    ]
    costs = {name: [0.0] for name in scores}
    found = slow.judge(
        rows,
        units,
        scores,
        [slow.Measure("selection", ALPHA)],
        costs=costs,
        draws=draws,
    )
    return {row["allocator"]: row for row in found}


def boosted():
    """The paper's gate: 200 trees of depth 3."""
    return HistGradientBoostingRegressor(
        max_iter=200,
        max_depth=3,
        learning_rate=0.08,
        min_samples_leaf=40,
        early_stopping=False,
    )


def out_of_fold(table, evidence):
    """Decision values foretold from all perception errors by models that have not seen
    the unit.
    """
    names = [f"E{number}" for number in range(1, 9) if f"cheap_E{number}" in evidence]
    cheap, full = (
        [evidence[f"{mode}_{name}"] for name in names] for mode in ("cheap", "full")
    )
    gains = [one - other for one, other in zip(cheap, full, strict=True)]
    errors = np.column_stack([*cheap, *full, *gains])
    unit, values = table.unit_ids[table.unit], table.losses[:, 0] - table.losses[:, -1]
    scores = np.full(len(unit), np.nan)
    for fold in range(5):
        held = np.isin(unit, sorted(set(unit.tolist()))[fold::5])
        with one_thread():
            scores[held] = (
                boosted().fit(errors[~held], values[~held]).predict(errors[held])
            )
    return scores


def test_the_sweep_judges_every_configuration_as_if_its_cell_had_been_built(cell):
    (located,) = small_specs(systems=("braking",), units=UNITS)
    found = quietly(
        lambda: flat_rows(
            robustness.ROBUSTNESS,
            study_cells({"mine": cell}, located={"mine": located}),
            alpha=ALPHA,
            draws=DRAWS,
        )
    )
    whole = quietly(
        lambda: list(
            built(
                small_specs(
                    systems=tuple(TASKS),
                    geometries=("monocular", "oracle"),
                    units=UNITS,
                )
            )
        )
    )
    cells = {(each.spec.geometry, each.spec.system): each for each in whole}
    assert (
        {(row.geometry, row.system) for row in found}
        == set(product(("monocular", "oracle"), TASKS))
        == set(cells)
    )
    told = 0
    for row in found:
        own = cells[row.geometry, row.system]
        table, evidence = own.table, own.evidence
        gain = evidence["cheap_E1"] - evidence["full_E1"]
        scores = {"fn": gain, "multi": out_of_fold(table, evidence)}
        for name, expected in judged(table, scores, UNITS, draws=DRAWS).items():
            if name not in scores:
                continue
            told += expected["ndg"] is not None
            for field in ("ndg", "ndg_lo", "ndg_hi"):
                assert getattr(row, f"{name}_{field}") == pytest.approx(
                    None if expected[field] is None else float(expected[field]),
                    abs=1e-9,
                )
            assert (
                getattr(row, f"{name}_verdict") == expected["verdict"]
                or expected["on_edge"]
            )
        values = table.losses[:, 0] - table.losses[:, -1]
        harmed, affected = (
            int((values < -1e-9).sum()),
            int((np.abs(values) > 1e-9).sum()),
        )
        assert (row.harmed, row.affected, row.inputs, row.units) == (
            harmed,
            affected,
            len(values),
            len(UNITS),
        )
        assert row.harm_rate == pytest.approx(harmed / affected)
        benefit = values[values > 0].sum()
        assert row.harm_ratio == (
            pytest.approx(-values[values < 0].sum() / benefit) if benefit else None
        )
        assert row.task == TASKS[row.system]
    assert told >= 4  # a configuration without benefit has no nDG; most have some


def seen(cell, front, units):
    """Rows of a front and the input ids, frame by frame."""
    rows, inputs = [], []
    for sight in sights_of(cell):
        if sight.view.scene.unit in units:
            rows += [front.row(glance) for glance in sight.glances]
            inputs += sight.view.scene.inputs.tolist()
    return np.array(rows), inputs


def fitted_scores(cell, recipe, seed):
    """Scores of the test inputs by a fit that the library makes, in the order of the
    table.
    """
    front = {"router-mlp-value": DetectionList(), "gate-gbm": Cheap()}[recipe]
    values = dict(
        zip(
            cell.table.input.tolist(),
            (cell.table.losses[:, 0] - cell.table.losses[:, -1]).tolist(),
            strict=True,
        )
    )
    rows, inputs = seen(cell, front, cell.split.fit)
    known = [place for place, name in enumerate(inputs) if name in values]
    rows, labels = rows[known], np.array([values[inputs[place]] for place in known])
    test_rows, test_inputs = seen(cell, front, cell.split.test)
    if recipe == "gate-gbm":
        empty = np.isnan(rows).all(axis=0)
        with one_thread():
            predicted = (
                boosted().fit(np.where(empty, 0.0, rows), labels).predict(test_rows)
            )
    else:
        mean, spread = rows.mean(axis=0), rows.std(axis=0)
        spread = np.where(spread > 1e-9, spread, np.inf)
        network = MLPRegressor(
            hidden_layer_sizes=(64, 64), max_iter=200, alpha=1e-4, random_state=seed
        )
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            network.fit((rows - mean) / spread, (labels - labels.mean()) / labels.std())
        predicted = network.predict((test_rows - mean) / spread)
    by_input = dict(zip(test_inputs, predicted.tolist(), strict=True))
    return np.array([by_input.get(name, np.nan) for name in cell.table.input.tolist()])


def test_seeds_are_fitted_and_judged_one_by_one(cell):
    found = quietly(
        lambda: flat_rows(
            seeds.SEEDS,
            study_cells({"mine": cell}),
            recipes=["gate-gbm", "router-mlp-value"],
            seeds=3,
            alpha=ALPHA,
            draws=DRAWS,
        )
    )
    assert [(row.cell, row.allocator, row.seeds) for row in found] == [
        ("mine", "gate-gbm", (0, 1, 2)),
        ("mine", "router-mlp-value", (0, 1, 2)),
    ]
    for row in found:
        expected = []
        for seed in row.seeds:
            scores = {"own": fitted_scores(cell, row.allocator, seed)}
            expected.append(
                judged(cell.table, scores, list(cell.split.test), draws=DRAWS)["own"]
            )
        assert list(row.ndg) == pytest.approx(
            [float(each["ndg"]) for each in expected], abs=1e-6
        )
        assert list(row.verdicts) == [each["verdict"] for each in expected]
        assert seeds.span(row) == number(max(row.ndg) - min(row.ndg))
    assert found[0].identical
    assert seeds.span(found[0]) == number(0.0)
    assert not found[1].identical
