"""Groups of inputs, and that a slice's rows are those of its inputs judged with the
draws of the whole.
"""

import numpy as np
import pytest

import deepval
from deepval.judge.extras.groups import groups
from reference import evaluation as slow
from worlds import judge, random_losses, random_scores, random_units, table_of


def grouped(column, by) -> dict[str, list[int]]:
    table = table_of(np.zeros(len(column)), attributes={"kind": column})
    return {
        label: np.flatnonzero(members).tolist() for label, members in groups(table, by)
    }


def test_text_is_grouped_by_value():
    assert grouped(np.array(["rain", "sun", "rain"]), "kind") == {
        "kind=rain": [0, 2],
        "kind=sun": [1],
    }
    missing = np.array(["rain", None, "sun"], dtype=object)
    assert grouped(missing, "kind") == {
        "kind=(none)": [1],
        "kind=rain": [0],
        "kind=sun": [2],
    }
    assert grouped(np.array([True, False, True]), "kind") == {
        "kind=False": [1],
        "kind=True": [0, 2],
    }


def test_few_numbers_are_grouped_by_value_in_their_order():
    assert list(grouped(np.array([10, 9, 10, 2]), "kind")) == [
        "kind=2",
        "kind=9",
        "kind=10",
    ]
    assert list(grouped(np.array([10.5, 9.0, 10.5, 2.0]), "kind")) == [
        "kind=2.0",
        "kind=9.0",
        "kind=10.5",
    ]
    missing = grouped(np.array([10.0, np.nan, 2.0, np.nan]), "kind")
    assert missing == {"kind=2.0": [2], "kind=10.0": [0], "kind=(none)": [1, 3]}
    assert grouped(np.array([0.0, -0.0, 1.0]), "kind") == {
        "kind=0.0": [0, 1],
        "kind=1.0": [2],
    }


def test_many_numbers_are_cut_at_quartiles():
    # Quartiles of 0..19: 4.75, 9.5, 14.25.
    found = grouped(np.arange(20.0), "kind")
    assert list(found) == [
        "kind<4.75",
        "4.75<=kind<9.5",
        "9.5<=kind<14.25",
        "kind>=14.25",
    ]
    assert [len(members) for members in found.values()] == [5, 5, 5, 5]


def test_numbers_are_cut_at_given_edges():
    found = grouped(np.array([0.0, 5.0, 7.0, 10.0, 99.0]), "kind:10,5")
    assert found == {"kind<5": [0], "5<=kind<10": [1, 2], "kind>=10": [3, 4]}
    assert list(grouped(np.array([1.0, 2.0]), "kind:50,60")) == ["kind<50"]


def test_every_input_is_in_one_group():
    rng = np.random.default_rng(1)
    for _ in range(100):
        size = int(rng.integers(1, 40))
        column = (
            rng.normal(size=size),
            rng.integers(0, 30, size),
            rng.choice(["a", "b", "c"], size),
        )[rng.integers(3)]
        by = "kind" if column.dtype.kind == "U" or rng.random() < 0.5 else "kind:-0.5,3"
        members = [
            rows
            for _, rows in groups(
                table_of(np.zeros(size), attributes={"kind": column}), by
            )
        ]
        assert np.sum(members, axis=0).tolist() == [1] * size


def test_bad_columns_are_refused():
    with pytest.raises(deepval.InputError, match="'speed'"):
        grouped(np.arange(3.0), "speed")
    with pytest.raises(deepval.InputError, match="at most 24 groups"):
        grouped(np.array([f"v{i}" for i in range(25)]), "kind")
    with pytest.raises(deepval.InputError, match="edges must be"):
        grouped(np.arange(3.0), "kind:five")
    with pytest.raises(deepval.InputError, match="edges must be"):
        grouped(np.arange(3.0), "kind:nan")
    for column in (np.array(["a", "b"]), np.array([np.nan, 1.0])):
        with pytest.raises(deepval.InputError, match="numbers only"):
            grouped(column, "kind:1")


def test_slices_share_the_draws_of_the_whole():
    rng = np.random.default_rng(2)
    for _ in range(15):
        inputs = 9
        units = random_units(rng, inputs, 4)
        loss = random_losses(rng, inputs)
        kind = rng.choice(["x", "y"], inputs)
        score = random_scores(rng, inputs)
        table = table_of(
            loss[:, 0] - loss[:, 1],
            unit=units,
            cheap=loss[:, 0],
            attributes={"kind": kind},
        )
        result = judge(
            table,
            {"mine": score},
            [deepval.Selection(0.3)],
            draws=20,
            seed=3,
            by="kind",
        )
        assert len(result.slices) == 5 * len(set(kind))
        for label in sorted(set(kind)):
            rows = [
                (units[i], *table.losses[i].tolist(), {"mine": float(score[i])})
                for i in range(inputs)
                if kind[i] == label
            ]
            measures, costs = [slow.Measure("selection", 0.3)], {"mine": [0.0]}
            expected = slow.judge(
                rows,
                sorted(set(units)),
                ["mine"],
                measures,
                costs=costs,
                draws=20,
                seed=3,
            )
            own = [row for row in result.slices if row.slice == f"kind={label}"]
            for row, other in zip(own, expected, strict=True):
                assert (row.allocator, row.inputs) == (other["allocator"], len(rows))
                if other["on_edge"]:
                    continue
                assert (row.verdict, row.draws_dropped) == (
                    other["verdict"],
                    other["draws_dropped"],
                )
                for name in (
                    "gain",
                    "harm",
                    "ndg",
                    "ndg_lo",
                    "versus_random",
                    "versus_random_lo",
                    "versus_random_hi",
                ):
                    assert (row[name] is None) == (other[name] is None)
                    if row[name] is not None:
                        assert row[name] == pytest.approx(
                            float(other[name]), rel=1e-9, abs=1e-12
                        )


def test_comparisons_count_slices_too():
    table = table_of(
        [1.0, -1.0, 2.0, 0.0],
        unit=["a", "a", "b", "b"],
        attributes={"kind": np.array(["x", "y"] * 2)},
    )
    result = judge(
        table, {"mine": np.arange(4.0)}, [deepval.Selection(0.5)], draws=10, by=["kind"]
    )
    assert result.comparisons == 1 + 2
    assert (
        judge(
            table, {"mine": np.arange(4.0)}, [deepval.Selection(0.5)], draws=10
        ).comparisons
        == 1
    )
