"""What users tripped over: each once, with the sentence or the figure that they get
now.
"""

import warnings

import numpy as np
import pytest

import deepval
from commands import call, refusal
from deepval.basics.errors import InputError, InputWarning, NothingToLearnError
from deepval.deploy import fitting
from deepval.deploy.allocators.allocator import SIGNALS
from deepval.driving.cells import sources
from deepval.driving.cells.folder import read_cell
from deepval.driving.datasets.kitti import Kitti
from deepval.driving.metering.timing import Timing
from deepval.driving.perception.reported import cache as store
from deepval.driving.perception.running import mode_costs
from deepval.judge import evaluation
from deepval.judge.report import console
from deepval.judge.report.figures import write_figures
from deepval.judge.report.tables.overview import overview
from deepval.judge.tables.scores import REFERENCES
from deepval.judge.tables.split import Split, split, units_of
from kitti_files import FRAMES, UNITS, write_kitti
from small_cells import build_cells
from whole_sets import write_unit


def table_of(value, *, units=6, cheap=2.0, **more):
    value = np.asarray(value, dtype=float)
    losses = {"cheap": np.full(len(value), cheap), "full": cheap - value}
    return deepval.ValueTable.from_columns(
        unit=np.arange(len(value)) % units, losses=losses, **more
    )


def quietly(table, scores, budgets=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        return deepval.evaluate(
            table, scores, budgets or [deepval.Selection(0.5)], **options
        )


VALUE = np.tile([1.0, 0.0, -0.5, 2.0], 6)


def test_an_empty_list_of_units_is_said_to_be_empty():
    with pytest.raises(InputError, match="At least one"):
        deepval.evaluate(table_of(VALUE), {"mine": VALUE}, units=[])


def test_a_role_without_units_is_a_sentence():
    with pytest.raises(InputError, match="The cell has"):
        units_of(split("d", ["a", "b"]), "train")
    with pytest.raises(InputError, match="The cell has"):
        units_of(Split("d", ("a",), ("b",), ()), "test")


def test_a_small_demo_leaves_out_what_cannot_be_fitted(monkeypatch, tmp_path):
    cell = read_cell(build_cells(tmp_path, systems=("braking",)) / "braking-monocular")
    fit = fitting.fit_on

    def taught(cell, name, **options):
        if name == "gate-gbm":
            raise NothingToLearnError("gate-gbm: all 120 have label 0.")
        return fit(cell, name, **options)

    monkeypatch.setattr(fitting, "fit_on", taught)
    with pytest.warns(InputWarning, match="braking-monocular"):
        found = fitting.scored_by_all(cell, ["gate-gbm", "gate-ridge"])
    assert list(found) == [*SIGNALS, "gate-ridge"]


def test_a_missing_order_is_said_before_anything_is_judged(monkeypatch):
    monkeypatch.setattr(
        evaluation, "judge", lambda *_, **__: pytest.fail("judged first")
    )
    with pytest.raises(InputError, match="add a column 'order' to the table"):
        deepval.evaluate(table_of(VALUE), {"mine": VALUE}, calibration=["0"])


def test_two_results_of_one_name_are_told_apart_by_their_folders(tmp_path):
    result = quietly(table_of(VALUE), {"mine": VALUE}, draws=20)
    for place in ("one", "two"):
        (tmp_path / place / "braking").mkdir(parents=True)
        result.save(tmp_path / place / "braking" / "result.json")
    files = [tmp_path / place / "braking" / "result.json" for place in ("one", "two")]
    call("report", *files, "--figures", tmp_path / "figures")
    assert {path.name for path in (tmp_path / "figures").glob("gap-*.pdf")} == {
        "gap-one-braking.pdf",
        "gap-two-braking.pdf",
    }
    with pytest.raises(
        InputError, match="differ as file names; 'a\\?b' and 'a b' do not"
    ):
        write_figures(tmp_path / "none", {"a b": result, "a?b": result})
    assert not (tmp_path / "none").exists()


def test_the_ladder_s_oracle_is_no_allocator():
    losses = {"cheap": np.full(24, 2.0), "mid": 2 - 0.6 * VALUE, "full": 2 - VALUE}
    table = deepval.ValueTable.from_columns(unit=np.arange(24) % 6, losses=losses)
    per_mode = {"input": table.input, "score_mid": 0.6 * VALUE, "score_full": VALUE}
    result = quietly(table, {"mine": per_mode}, draws=20)
    assert "oracle-ladder" in {row.allocator for row in result.rows}
    listed = {
        row[0].text
        for section in overview({"cell": result}, alpha=0.5).sections
        for row in section
    }
    assert not listed & {"oracle", "oracle-ladder", "all-full", "never"}
    answer = result.answer(0.5)
    assert (answer.verdict, answer.candidate) == ("run", "mine")
    shown = str(result)
    assert shown.startswith("Run mine at 50 %: ")
    assert "oracle" not in shown
    closing = " ".join(console.render(result).split())
    assert closing.endswith(answer.sentence)
    assert "oracle-ladder" in REFERENCES


def nothing():
    return store.FrameDetections(
        np.zeros((0, 4)), np.zeros(0), np.zeros(0, dtype="<U3")
    )


def test_a_cache_of_some_units_is_split_among_them(tmp_path):
    write_kitti(tmp_path)
    cache = tmp_path / "cache"
    for mode in "ab":
        for unit in UNITS[:3]:
            records = [
                store.FrameRecord(f, f"{f:06d}.png", "0" * 64, (40, 60), nothing())
                for f in range(FRAMES)
            ]
            write_unit(cache, mode, unit=unit, records=records)
    files = [sources.ModeFile(name, cache / name) for name in "ab"]
    kitti = Kitti(tmp_path / "kitti_tracking")
    told = (
        "1 of 4 units of kitti are in no cache: the cell is made "
        f"of the 3 that are, .* {', '.join(UNITS[:3])}"
    )
    with pytest.warns(InputWarning, match=told):
        material = sources.from_files(kitti, files)
    assert material.units == UNITS[:3]
    found = split("kitti", material.units)
    assert [len(found.test), len(found.validation), len(found.train)] == [1, 1, 1]
    assert sources.from_files(kitti, files, units=UNITS[:2]).units == UNITS[:2]


def test_the_written_page_is_opened_in_the_browser(tmp_path, monkeypatch):
    quietly(table_of(VALUE), {"mine": VALUE}, draws=20).save(tmp_path / "result.json")
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.chdir(tmp_path)
    call("report", "result.json")
    assert opened == []
    call("report", "result.json", "--open")
    assert opened == [(tmp_path / "report.html").as_uri()]
    assert "--figures alone writes no page" in refusal(
        "report", "result.json", "--open", "--figures", "figures"
    )


def test_perceive_says_where_its_timings_are_not_tight(monkeypatch, tmp_path):
    pytest.importorskip("onnxruntime")
    import cv2

    import onnx_models

    (tmp_path / "images").mkdir()
    cv2.imwrite(
        str(tmp_path / "images" / "000000.png"),
        np.full((40, 60, 3), 200, dtype=np.uint8),
    )
    weights = onnx_models.yolov8(tmp_path / "tiny.onnx")

    def timed(spread):
        times = 10.0 + np.linspace(0, spread, 60)
        stages = dict.fromkeys(
            ("decode", "preprocess", "inference", "postprocess"), times / 4
        )
        return lambda *_, **__: Timing(times, stages)

    for spread, said in ((8.0, True), (0.0, False)):
        monkeypatch.setattr(mode_costs, "measure", timed(spread))
        cache = tmp_path / f"cache{spread}"
        printed = call(
            "detect", tmp_path / "images", "-w", weights, "--size", 64, "-o", cache
        )
        assert ("note: Timing is noisy: " in printed) is said
        assert "frame of 1 unit (1 run now, 0 frames failed)" in printed
