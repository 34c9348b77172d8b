"""What the documents say is run: examples, the README's five lines, the schema."""

import doctest
import json
import re
import runpy
import warnings
from pathlib import Path
from unittest import mock

import jsonschema
import numpy as np
import pytest

import deepval
from deepval.datasets import read_dataset
from deepval.perception.detection_files import read_detections
from deepval.report import FORMS
from deepval.systems import SYSTEMS
from doc_blocks import run_page
from kitti_files import write_kitti

ROOT = Path(__file__).parent.parent


def code_of(page: Path) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL))


def test_readme_example_prints_what_the_readme_says(capsys):
    code = code_of(ROOT / "README.md")
    assert len([line for line in code.splitlines() if line.strip() and not line.startswith("import")]) == 5
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == "better\n"
    assert "It prints `better`" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_shows_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
    for link in re.findall(r"\]\((docs/[^)]+)\)", text):
        assert (ROOT / link).is_file(), link


def test_definitions_hold():
    failed, tried = doctest.testfile(str(ROOT / "docs" / "definitions.md"), module_relative=False)
    assert tried > 12
    assert failed == 0


def test_costs_are_measured_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(ROOT / "docs" / "costs.md"), module_relative=False)
    assert tried > 10
    assert failed == 0


def test_routing_between_language_models(capsys):
    names: dict = {}
    exec(compile(code_of(ROOT / "docs" / "llm-routing.md"), "llm-routing.md", "exec"), names)
    out = capsys.readouterr().out
    assert "selection judge" in out
    judge = next(gap for gap in names["result"].gaps if (gap.allocator, gap.kind) == ("judge", "latency"))
    assert judge.break_even < 160
    free = names["result"].row("judge")
    charged = names["result"].row("judge", kind="latency")
    assert free.verdict == "better"
    assert charged.verdict == "unresolved"
    assert charged.slots == int(free.inputs * (0.2 - 160 / 1400) + 1e-9)


def test_published_schema_is_the_code_s():
    made = runpy.run_path(str(ROOT / "tools" / "make_schema.py"))["schema"]()
    assert json.loads((ROOT / "docs" / "result.schema.json").read_text(encoding="utf-8")) == made


@pytest.mark.parametrize("bare", [False, True])
def test_results_follow_the_schema(bare):
    rng = np.random.default_rng(1)
    value = np.zeros(60) if bare else rng.normal(size=60).round(1)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat(["a", "b", "c"], 20),
        losses={"c": np.full(60, 3.0), "m": 3 - value / 2, "f": 3 - value},
        order=np.tile(np.arange(20), 3),
        costs={"modes": {"c": {"ms": 1}, "m": {"ms": 2}, "f": {"ms": 3}}, "allocators": {"x": {"ms": 0.1}}},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", deepval.InputWarning)
        result = deepval.evaluate(
            table, {"x": rng.normal(size=60)}, [deepval.Selection(0.3), deepval.Latency(0.3)],
            draws="exact", calibration=["a"], curve_points=3,
        )  # fmt: skip
    schema = json.loads((ROOT / "docs" / "result.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(FORMS["json"](result)), schema)


def test_own_losses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page(ROOT / "docs" / "own-losses.md")
    assert names["result"].row("coin", alpha=0.2).verdict == "unresolved"
    assert (tmp_path / "report.html").is_file()


def test_own_detections(tmp_path, monkeypatch):
    write_kitti(tmp_path)
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / "docs" / "own-detections.md")
    (mine,) = (
        read_detections(tmp_path / "mine.parquet", read_dataset("kitti", "kitti_tracking").scenes).units["0001"].cls
    )
    assert mine == "Pedestrian"


def test_adding_a_system(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with mock.patch.dict(SYSTEMS):
        run_page(ROOT / "docs" / "add-a-system.md")
