"""Columns and scores that JSON has no form for: judged, shown, or refused."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import call, refusal

SIX = {
    "unit": ["a", "a", "b", "b", "c", "c"],
    "input": ["1", "2", "3", "4", "5", "6"],
    "loss_cheap": [4.0, 1.0, 4.0, 1.0, 4.0, 1.0],
    "loss_full": [1.0] * 6,
}
ODD = {
    "time": dt.datetime(2026, 1, 1),
}


@pytest.fixture
def scores(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("input,score\n1,2\n2,1\n3,2\n4,1\n5,2\n6,1\n")
    return path


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
def test_a_column_that_json_has_no_form_for_is_shown_as_text(kind, tmp_path, scores):
    values = tmp_path / "values.parquet"
    pq.write_table(pa.table({**SIX, "odd": pa.array([ODD[kind]] * 6)}), values)
    result = tmp_path / "result.json"
    call("evaluate", values, "-s", scores, "--alpha", "0.5", "--out", result)
    call("report", result, "--out", tmp_path / "page.html")
    assert "odd" in (tmp_path / "page.html").read_text()


def test_a_mode_without_a_name_is_refused(tmp_path, scores):
    values = tmp_path / "values.parquet"
    nameless = {**SIX, "loss_": SIX["loss_cheap"]}
    pq.write_table(pa.table(nameless), values)
    assert "every mode needs a name" in refusal("evaluate", values, "-s", scores)


def test_units_that_are_lists_are_refused(tmp_path, scores):
    values = tmp_path / "values.parquet"
    pq.write_table(pa.table({**SIX, "unit": pa.array([[]] * 6)}), values)
    assert str(values) in refusal("evaluate", values, "-s", scores)


def test_a_footer_that_is_no_text_is_refused(tmp_path, scores):
    values = tmp_path / "values.parquet"
    pq.write_table(pa.table(SIX), values)
    broken = values.read_bytes().replace(b"loss_full", b"\xffoss_full")
    values.write_bytes(broken)
    assert str(values) in refusal("evaluate", values, "-s", scores)


def test_infinite_scores_have_no_shadow_plan(tmp_path):
    values = tmp_path / "values.parquet"
    pq.write_table(pa.table(SIX), values)
    scores = tmp_path / "mine.csv"
    scores.write_text("input,score\n1,inf\n2,1\n3,-inf\n4,1\n5,2\n6,1\n")
    plan = tmp_path / "plan.json"
    message = refusal("shadow", values, "-s", scores, "--share", "0.5", "--out", plan)
    assert "finite score" in message
    assert not plan.exists()


def test_a_watch_needs_a_finite_threshold(tmp_path):
    reference = tmp_path / "reference.parquet"
    columns = {**SIX, "score": np.array([np.inf] * 3 + [1.0, 0.0, -np.inf])}
    pq.write_table(pa.table(columns), reference)
    state = tmp_path / "watch.json"
    message = refusal("watch", state, "--reference", reference, "--alpha", "0.3")
    assert "finite score" in message
    assert not state.exists()
