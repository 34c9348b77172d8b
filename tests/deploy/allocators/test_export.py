"""Fitted allocators as ONNX graphs: what ONNX Runtime answers is what we answer, trees
to the bit.
"""

import json
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
import onnx
import pytest

from allocator_worlds import LEARNED, ladder_cell, learned
from deepval.basics.errors import InputError
from deepval.deploy.allocators import RECIPES, row_allocator
from deepval.deploy.allocators import row_allocator as serving
from deepval.deploy.allocators.models import Trees
from deepval.deploy.allocators.row_allocator import RowRecipe, export, onnx_of
from deepval.deploy.fitting import rows_on
from deepval.driving.perception.running.onnx_model import open_session


@pytest.mark.parametrize(
    "name", [name for name in LEARNED if isinstance(RECIPES[name], RowRecipe)]
)
def test_every_recipe_is_exported_and_scores_as_ours(name):
    made = learned(name)
    found = export(made, rows_on(ladder_cell(), made))
    assert found.difference <= 1e-12
    if all(isinstance(head, Trees) and head.link == "identity" for head in made.heads):
        assert (found.difference, found.equal) == (0.0, found.rows)
    assert onnx_of(made) == found.graph
    graph = onnx.load_from_string(found.graph)
    onnx.checker.check_model(graph, full_check=False)
    told = {item.key: item.value for item in graph.metadata_props}
    assert json.loads(told["deepval.columns"]) == list(made.feature_set.columns)
    assert json.loads(told["deepval.modes"]) == list(made.modes)
    assert (told["deepval.allocator"], told["deepval.front"]) == (
        made.name,
        made.feature_set.name,
    )


def walked(trees, row):
    """The sum of a row's leaves, tree by tree: slow and obvious."""
    total = trees.baseline
    for tree in range(len(trees.leaf)):
        node, inner = 0, trees.feature.shape[1]
        while node < inner:
            value = row[trees.feature[tree, node]]
            left = (
                trees.gap_left[tree, node]
                if np.isnan(value)
                else value <= trees.threshold[tree, node]
            )
            node = 2 * node + (1 if left else 2)
        total = total + trees.leaf[tree, node - inner]
    return total


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_trees_go_the_way_of_the_obvious_walk_also_on_thresholds_and_gaps(depth):
    rng, inner = np.random.default_rng(depth), 2**depth - 1
    made = learned("gate-gbm")
    columns = len(made.feature_set.columns)
    threshold = rng.choice([0.1, 1 / 3, np.nextafter(1 / 3, 1), np.inf], (9, inner))
    head = Trees(
        baseline=0.1,
        link="identity",
        feature=rng.integers(0, 3, (9, inner)),
        threshold=threshold,
        gap_left=rng.random((9, inner)) < 0.5,
        leaf=rng.normal(size=(9, inner + 1)),
        columns=columns,
    )
    rows = np.zeros((200, columns))
    rows[:, :3] = rng.choice(
        [0.0, 0.1, 1 / 3, np.nextafter(1 / 3, 0), np.nextafter(1 / 3, 1), 2.0, np.nan],
        (200, 3),
    )
    session = open_session(onnx_of(replace(made, heads=(head,))), name="it", threads=1)
    found = session.run(None, {"row": rows})[0][:, 0].tolist()
    assert found == [walked(head, row) for row in rows]
    assert found == [
        float(session.run(None, {"row": row[None]})[0][0, 0]) for row in rows
    ]


def test_a_graph_that_scores_otherwise_is_not_handed_out(monkeypatch):
    made = learned("gate-ridge")
    other = replace(
        made, heads=(replace(made.heads[0], intercept=made.heads[0].intercept + 1e-6),)
    )
    monkeypatch.setattr(row_allocator, "onnx_of", lambda _: onnx_of(other))
    with pytest.raises(InputError, match=r"differs by 1e-06 on one of"):
        export(made, rows_on(ladder_cell(), made))


@pytest.mark.parametrize(
    "name", ["gate-gbm", "router-gbm-binary", "router-two-head", "gate-multi-fidelity"]
)
@pytest.mark.parametrize("installed", [True, False])
def test_a_row_alone_scores_as_in_a_batch_whoever_serves_it(
    name, installed, monkeypatch
):
    made = learned(name)
    monkeypatch.setattr(serving, "_CALLS", WeakKeyDictionary())
    monkeypatch.setattr(serving, "find_spec", lambda _: "there" if installed else None)
    rows = rows_on(ladder_cell(), made)[::5]
    rows = np.concatenate(
        [
            rows,
            np.where(np.arange(rows.size).reshape(rows.shape) % 3 == 0, np.nan, rows),
        ]
    )
    alone = np.array([made.score_row(row) for row in rows])
    assert alone.tobytes() == made.score_rows(rows).tobytes()
    walks = [serving._CALLS[head] for head in made.heads if isinstance(head, Trees)]
    assert walks
    assert all((walk is not None) == installed for walk in walks)


def test_an_old_runtime_leaves_trees_to_numpy(monkeypatch):
    def refused(*_, **__):
        raise InputError("no such operator")

    made = learned("gate-gbm")
    monkeypatch.setattr(serving, "_CALLS", WeakKeyDictionary())
    monkeypatch.setattr(serving, "open_session", refused)
    row = rows_on(ladder_cell(), made)[0]
    assert made.score_row(row) == made.score_rows(row[None])[0]
    assert serving._CALLS[made.heads[0]] is None
