"""Loss terms in a result: they add up, recombine exactly, and are refused where they do
not belong.
"""

import numpy as np
import pytest

import deepval
from deepval.judge.results import Inputs
from worlds import judge

UNIT = ["a", "a", "b", "b"]
IDS = ["i1", "i2", "i3", "i4"]
MISS, LATE = (
    np.array([[3.0, 0.0], [1.0, 1.0], [0.0, 2.0], [5.0, 1.0]]),
    np.array([[0.0, 4.0], [0, 0], [2, 0], [0, 0]]),
)
SCORE = np.array([2.0, 1.0, 2.0, 0.0])


def columns(*, fixed: bool = False) -> dict:
    terms = {"miss": MISS, "late": LATE}
    found = {
        f"term_{name}_{mode}": part[:, m]
        for name, part in terms.items()
        for m, mode in enumerate(("c", "f"))
    }
    late = {"fixed_weight_late" if fixed else "weight_late": np.full(4, 0.5)}
    return {"input": IDS, **found, "weight_miss": np.full(4, 2.0), **late}


def table() -> deepval.ValueTable:
    losses = 2.0 * MISS + 0.5 * LATE
    return deepval.ValueTable.from_columns(
        unit=UNIT, input=IDS, losses={"c": losses[:, 0], "f": losses[:, 1]}
    )


def judged(**options) -> deepval.Result:
    return judge(
        table(), {"mine": SCORE}, [deepval.Selection(0.5)], draws=20, **options
    )


def test_terms_change_no_number_and_are_kept_in_columns():
    plain, rich = judged(), judged(terms=columns())
    assert rich.rows == plain.rows
    assert plain.inputs is None
    assert "inputs" not in plain.to_dict()
    assert rich.inputs == Inputs(
        input=tuple(IDS),
        unit=(0, 0, 1, 1),
        units=("a", "b"),
        losses={"c": (6.0, 2.0, 1.0, 10.0), "f": (2.0, 2.0, 4.0, 2.0)},
        terms={
            "miss": {"c": (3.0, 1.0, 0.0, 5.0), "f": (0.0, 1.0, 2.0, 1.0)},
            "late": {"c": (0.0, 0.0, 2.0, 0.0), "f": (4.0, 0.0, 0.0, 0.0)},
        },
        weights={"miss": 2.0, "late": 0.5},
        free=("miss", "late"),
        ranks={"mine": (1, 2, 1, 3)},
    )


def test_a_result_with_terms_survives_its_file(tmp_path):
    result = judged(terms=columns())
    result.save(tmp_path / "r.json")
    assert deepval.Result.load(tmp_path / "r.json") == result


def test_weights_that_make_a_loss_too_large_are_refused():
    sentence = (
        r"loss of mode 'c' must be at most 1e\+150 in size; row "
        r"3 \(input 'i3'\) holds 2e\+200\."
    )
    with pytest.raises(deepval.InputError, match=sentence):
        judged(terms=columns(), weights={"late": 1e200})
    with pytest.raises(deepval.InputError, match="'i3'"):
        judged(terms=columns(), weights={"late": 1.7e308})


def test_other_weights_are_as_if_the_losses_had_been_so():
    losses = 2.0 * MISS + 3.0 * LATE
    other = deepval.ValueTable.from_columns(
        unit=UNIT, input=IDS, losses={"c": losses[:, 0], "f": losses[:, 1]}
    )
    expected = judge(other, {"mine": SCORE}, [deepval.Selection(0.5)], draws=20)
    found = judged(terms=columns(), weights={"late": 3.0})
    assert found.rows == expected.rows
    assert found.provenance["table"] == expected.provenance["table"]
    # i1: 6 - 12, i3: 6 - 4; both are escalated.
    assert found.row("mine", alpha=0.5).gain == (6 - 12) + (6 - 4)
    assert found.inputs.weights == {"miss": 2.0, "late": 3.0}


def test_rows_may_come_in_any_order_and_units_be_left_out():
    shuffled = {
        name: np.asarray(column)[[2, 0, 3, 1]] for name, column in columns().items()
    }
    assert judged(terms=shuffled) == judged(terms=columns())
    assert judged(terms=columns(), units=["b"]).inputs.terms["miss"]["f"] == (2.0, 1.0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"weights": {"miss": 1.0}}, "Other weights need"),
        ({"terms": columns(), "weights": {"x": 1.0}}, "'x'"),
        ({"terms": columns(fixed=True), "weights": {"late": 1.0}}, "'late'"),
        ({"terms": columns(), "weights": {"late": np.inf}}, "A weight must be finite"),
        ({"terms": columns() | {"weight_late": np.ones(4)}}, "'i1'"),
        ({"terms": columns() | {"weight_late": np.arange(4.0)}}, "same finite number"),
        (
            {"terms": columns() | {"input": ["i1", "i2", "i3", "x"]}},
            "input 'i4' has none",
        ),
        ({"terms": {"input": IDS}}, "'weight_<term>'"),
        ({"terms": columns() | {"term_miss_c": [np.nan, 1, 0, 5]}}, "'miss'"),
    ],
)
def test_what_does_not_belong_is_refused(options, sentence):
    with pytest.raises(deepval.InputError, match=sentence):
        judged(**options)


def test_files_give_the_same(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.chdir(tmp_path)
    losses = table().losses
    values = {
        "unit": UNIT,
        "input": IDS,
        "loss_c": losses[:, 0],
        "loss_f": losses[:, 1],
    }
    pq.write_table(pa.table(columns()), "terms.parquet")
    pq.write_table(pa.table(values), "values.parquet")
    pq.write_table(pa.table({"input": IDS, "score": SCORE}), "mine.parquet")
    result = deepval.evaluate(
        "values.parquet",
        {"mine": "mine.parquet"},
        0.5,
        draws=20,
        terms="terms.parquet",
        weights={"late": 3.0},
        thresholds=True,
    )
    same = judged(terms=columns(), weights={"late": 3.0}, thresholds=True)
    assert result.to_dict() == same.to_dict()
