"""What the documents say is run: the README, examples, the schema."""

import doctest
import json
import re
import runpy
import shlex
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import jsonschema
import numpy as np
import pytest

import cli_functions
import deepval
import external_worlds
import make_gallery
from deepval.cli import COMMANDS
from deepval.deploy.allocators import FEATURE_SETS, RECIPES
from deepval.deploy.board import tracks
from deepval.driving.systems import SYSTEMS
from deepval.judge.report.forms import FORMS
from doc_blocks import blocks_of, run_page
from in_memory import read_dataset, read_detections
from kitti_files import write_kitti
from project import ROOT
from shared import shared_data


@pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
def test_the_readme_prints_what_it_says(tmp_path, monkeypatch, capsys):
    page = ROOT / "README.md"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    run_page(page, shown=("bash", "text"))
    (_, code), (_, printed) = blocks_of(page)[-2:]
    assert code.startswith("import numpy")
    assert capsys.readouterr().out.endswith(printed)
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 120


def test_the_start_in_five_lines_prints_what_it_says(capsys):
    page = ROOT / "docs" / "start.md"
    language, code = blocks_of(page)[0]
    assert language == "python"
    statements = [
        line for line in code.splitlines() if line and not line.startswith("import")
    ]
    assert len(statements) == 5
    exec(compile(code, "start.md", "exec"), {})
    printed = capsys.readouterr().out.strip()
    assert printed.startswith("Run mine at 20 %: ")
    assert f"```python\n{code}```\n\nIt prints `{printed}`" in page.read_text("utf-8")


def test_definitions_hold():
    failed, tried = doctest.testfile(
        str(ROOT / "docs" / "definitions.md"), module_relative=False
    )
    assert tried > 30
    assert failed == 0


def test_costs_are_measured_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(
        str(ROOT / "docs" / "costs.md"), module_relative=False
    )
    assert tried > 10
    assert failed == 0


@pytest.mark.shared
def test_routing_between_language_models(tmp_path, monkeypatch):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "data").symlink_to(shared_data("routing").parent)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with warnings.catch_warnings():
        names = run_page(ROOT / "docs" / "llm-routing.md")
    result = names["result"]
    assert result.row("quarters").budget.label == "money 20% (USD, skipping)"
    assert result.row("quarters").chance == "random-ladder"
    assert (tmp_path / "work" / "page.html").stat().st_size > 100_000
    assert (tmp_path / "work" / "router.json").is_file()


def test_published_schema_is_the_code_s():
    made = runpy.run_path(str(ROOT / "tools" / "make_schema.py"))["schema"]()
    assert (
        json.loads((ROOT / "docs" / "result.schema.json").read_text(encoding="utf-8"))
        == made
    )


@pytest.mark.parametrize("bare", [False, True])
def test_results_follow_the_schema(bare):
    rng = np.random.default_rng(1)
    value = np.zeros(60) if bare else rng.normal(size=60).round(1)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat(["a", "b", "c"], 20),
        losses={"c": np.full(60, 3.0), "m": 3 - value / 2, "f": 3 - value},
        order=np.tile(np.arange(20), 3),
        costs={
            "modes": {"c": {"ms": 1}, "m": {"ms": 2}, "f": {"ms": 3}},
            "allocators": {"x": {"ms": 0.1}},
        },
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", deepval.InputWarning)
        result = deepval.evaluate(
            table,
            {"x": rng.normal(size=60)},
            [deepval.Selection(0.3), deepval.Latency(0.3)],
            draws="exact",
            calibration=["a"],
            curve_points=3,
        )
    schema = json.loads(
        (ROOT / "docs" / "result.schema.json").read_text(encoding="utf-8")
    )
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
        read_detections(
            tmp_path / "mine.parquet", read_dataset("kitti", "kitti_tracking").scenes
        )
        .units["0001"]
        .cls
    )
    assert mine == "Pedestrian"


def test_adding_a_system(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    external_worlds.scenarionet(tmp_path / "logs")
    run_page(ROOT / "docs" / "add-a-system.md", shown=("toml",), shell=True)
    assert set(SYSTEMS) & {"Nervous", "nervous"} == set()


def test_allocators(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with mock.patch.dict(FEATURE_SETS), mock.patch.dict(RECIPES):
        names: dict[str, Any] = {}
        for page in ("allocators.md", "serve.md", "add-an-allocator.md"):
            names = run_page(ROOT / "docs" / page, shown=("toml",), shell=True, **names)
    assert names["mode"] in names["cell"].table.modes


@pytest.mark.slow
def test_the_gallery_shows_what_the_commands_print(tmp_path, monkeypatch):
    make_gallery.write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    run_page(make_gallery.TARGET, shell=True)


def test_every_page_is_in_the_index_and_every_link_leads_somewhere():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [
        page.name
        for page in (ROOT / "docs").glob("*.md")
        if f"({page.name})" not in index
    ] == ["index.md"]
    for page in pages:
        for link, anchor in re.findall(
            r"\]\(([^)#:]*)(#[^)]+)?\)", page.read_text(encoding="utf-8")
        ):
            target = page.parent / link if link else page
            assert target.is_file(), f"{page.name}: {link}"
            assert not anchor or anchor in anchors_of(target), (
                f"{page.name}: {link}{anchor}"
            )


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(
        r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    return {
        "#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


def test_the_page_on_submitting_builds_the_synthetic_track():
    (track,) = tracks.read_tracks(["synthetic"])
    wanted = {
        pair for cell in track.cells for pair in pairs(tracks.build_command(cell, None))
    }
    (line,) = re.findall(
        r"^deepval build .*",
        (ROOT / "docs" / "submit.md").read_text(encoding="utf-8"),
        flags=re.M,
    )
    assert set(pairs(line)) == wanted


def pairs(command: str) -> list[tuple[str, str]]:
    """Options of a command with their values."""
    return re.findall(r"(--\w+) (\S+)", command)


def test_the_site_has_every_page_and_the_reference_every_public_name():
    listed = set(
        re.findall(
            r"[\w/-]+\.md",
            (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1],
        )
    )
    pages = {
        page.relative_to(ROOT / "docs").as_posix()
        for page in (ROOT / "docs").rglob("*.md")
    }
    # made by tools/site_hooks.py
    assert listed - pages == {"readme.md", "two-arrays-to-threshold.md"}
    assert pages <= listed
    names = re.findall(
        r"^::: deepval\.(?:[\w.]+\.)?(\w+)$",
        (ROOT / "docs/reference.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert sorted(names) == sorted(set(deepval.__all__) - {"__version__"})


RUN = {
    "README.md",
    "start.md",  # tests/house/test_readme.py
    "definitions.md",
    "costs.md",
    "llm-routing.md",
    "own-losses.md",
    "own-detections.md",
    "add-a-system.md",
    "allocators.md",
    "serve.md",
    "add-an-allocator.md",
    "gallery.md",  # here
    # tests/cli/test_gate.py, tests/protocol, tests/judging
    "gate.md",
    "submit.md",
    "official.md",
    "guarantees.md",
}
READ = {
    "KITTI": {
        "analyses.md",
        "cells.md",
        "paper-checklist.md",
        "replication.md",
        "results.md",
        "statistics.md",
        "out-of-fold.md",
        "replication-one-detector.md",
    },
    "nuScenes, nuPlan or other logs": {
        "external.md",
        "external-formats.md",
        "learned-planner.md",
        "nuscenes.md",
        "results-logs.md",
        "results-nuscenes.md",
    },
    "tables of public models": {"as-good-for-less.md", "atlas.md"},
    "minutes, or another machine": {
        "closed-loop.md",
        "deadlines.md",
        "faults.md",
        "scale.md",
        "security.md",
    },
    "no commands, or those of an Action": {
        "architecture.md",
        "files.md",
        "host-a-board.md",
    },
}
"""Pages whose blocks are only read, by what it takes to run them."""


def test_every_block_is_run_or_its_commands_are_those_of_the_code():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    with_blocks = {page.name: page for page in pages if blocks_of(page)}
    assert set(with_blocks) == RUN | set().union(*READ.values())
    texts = [
        (page, text)
        for page in with_blocks.values()
        for language, text in blocks_of(page)
        if language != "pycon"
    ]
    checked = 0
    for page, text in texts:
        exec(
            "\n".join(
                re.findall(
                    r"^(?:import|from) \w[\w.]*(?: import .*)?$",
                    text,
                    flags=re.MULTILINE,
                )
            ),
            {},
        )
        for tool in re.findall(
            r"^python3? ((?:tools|studies|benchmarks|tests)/\S+)",
            text,
            flags=re.MULTILINE,
        ):
            assert (ROOT / tool).is_file(), f"{page.name}: {tool}"
        for line in re.findall(
            r"^(?:\$ )?deepval (.*)", text.replace("\\\n", " "), flags=re.MULTILINE
        ):
            if "$" not in line and "..." not in line:
                check_options(
                    shlex.split(re.split(r" (?:>|\||&&|;) ", line)[0], comments=True),
                    page.name,
                )
                checked += 1
    assert checked > 100


def check_options(words: list[str], page: str) -> None:
    """A command and its options must be those of the code."""
    line, path = " ".join(words), words[: 1 + (words[0] == "analyse")]
    assert path[0] in COMMANDS, f"{page}: {line}"
    options = {"--help", "--json", *cli_functions.names(*path)}
    assert [
        word for word in words if re.match("--?[a-zA-Z]", word) and word not in options
    ] == [], f"{page}: {line}"
