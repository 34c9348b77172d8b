"""What the documents say is run: examples, the README's five lines, the schema."""

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
import typer

import deepval
import external_worlds
import make_gallery
from deepval import cli
from deepval.allocators import FEATURE_SETS, RECIPES, PixelRecipe, RowRecipe
from deepval.allocators.allocator import SIGNALS
from deepval.allocators.models import Boosting, Mlp, Ridge
from deepval.allocators.voi import SimulatedValueRecipe
from deepval.cli import COMMANDS
from deepval.fit_targets import TARGETS
from deepval.protocol import tracks
from deepval.report import FORMS
from deepval.systems import SYSTEMS
from doc_blocks import blocks_of, run_page
from in_memory import read_dataset, read_detections
from kitti_files import write_kitti
from project import ROOT
from shared import shared_data


def test_readme_examples_print_what_the_readme_says(capsys):
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (_, useless), (_, shown), *_, (language, code) = blocks_of(ROOT / "README.md")
    with pytest.warns(deepval.InputWarning, match="are these frames"):
        exec(compile(useless, "README.md", "exec"), {})
    assert capsys.readouterr().out == shown
    assert language == "python"
    assert (
        len(
            [
                line
                for line in code.splitlines()
                if line.strip() and not line.startswith("import")
            ]
        )
        == 5
    )
    exec(compile(code, "README.md", "exec"), {})
    shown = capsys.readouterr().out.strip()
    assert shown.startswith("Run mine at 20 %: ")
    assert f"It prints `{shown}`" in page
    assert f"```python\n{code}```\n\nIt prints `{shown}`" in (
        ROOT / "docs" / "start.md"
    ).read_text(encoding="utf-8")


def test_readme_shows_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
    for link in re.findall(r"\]\((docs/[^)]+)\)", text):
        assert (ROOT / link.partition("#")[0]).is_file(), link


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


def table_under(page: Path, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without its header."""
    below = (
        page.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    )
    rows = [line for line in below.splitlines() if line.startswith("|")]
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]
    ]


def test_the_table_of_allocators_is_the_code_s():
    learners = {
        Ridge: "ridge regression",
        Boosting: "boosted trees",
        Mlp: "small network",
    }
    rules = {
        "value": "the prediction",
        "difference": "P(helps) - P(harms)",
        "recall": "P(helps) - P(harms) + half the rank of `lost`",
        "modes": "one per mode above cheap",
    }
    shown = table_under(ROOT / "docs" / "allocators.md", "Available allocators")
    signals = [
        [f"`{name}`", ", ".join(sorted(signal.uses)), "nothing", "-"]
        for name, signal in SIGNALS.items()
    ]
    assert [row[:4] for row in shown[: len(signals)]] == signals
    assert shown[len(signals) : -2] == [
        [
            f"`{r.name}`",
            f"`{r.feature_set}`",
            learners[type(r.learner)],
            f"`{r.target}`",
            rules[r.rule],
        ]
        for r in RECIPES.values()
        if isinstance(r, RowRecipe)
    ]
    simulated = [r for r in RECIPES.values() if isinstance(r, SimulatedValueRecipe)]
    assert [row[0] for row in shown[-1 - len(simulated) : -1]] == [
        f"`{r.name}`" for r in simulated
    ]
    assert shown[-1 - len(simulated)][1:4] == [
        ", ".join(sorted(simulated[0].makes.uses)),
        learners[type(simulated[0].learner)],
        f"`{simulated[0].target}`",
    ]
    pixel = [
        f"`{PixelRecipe.name}`",
        "the picture",
        "convolutional network",
        f"`{PixelRecipe.target}`",
    ]
    assert shown[-1] == [*pixel, "the prediction"]


def test_the_page_on_allocators_names_every_target():
    told = re.findall(
        r"`([\w-]+)`",
        " ".join(
            row[0] for row in table_under(ROOT / "docs" / "allocators.md", "Targets")
        ),
    )
    names = [name for name in told if not name.startswith("-")]
    forms = [
        f"{name}{form}"
        for name in names
        if not name.startswith("value")
        for form in ("-cdf", "-binary")
    ]
    assert {*names, *forms} == set(TARGETS)


def test_every_command_has_a_line():
    shown = [row[0] for row in table_under(ROOT / "docs" / "commands.md", "Commands")]
    assert shown == [f"`{name}`" for name in COMMANDS]


def test_the_gallery_has_every_command_as_the_tool_runs_it():
    parts = re.split(
        r"^## ", make_gallery.TARGET.read_text(encoding="utf-8"), flags=re.MULTILINE
    )[1:]
    assert (
        [part.partition("\n")[0] for part in parts]
        == list(COMMANDS)
        == list(make_gallery.ENTRIES)
    )
    for part, entry in zip(parts, make_gallery.ENTRIES.values(), strict=True):
        assert entry.question in part
        assert all(f"$ {command}\n" in part for command in entry.lines.split("\n\n"))
        assert (
            not entry.picture
            or (ROOT / "docs" / "pictures" / make_gallery.picture_name(entry)).is_file()
        )


@pytest.mark.long
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


def test_messages_that_pages_explain_are_in_the_code():
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "src").rglob("*.py"))
    )
    code = re.sub(r'"\s*\n\s*f?"', "", code)
    told = [
        (page.name, message)
        for page in sorted((ROOT / "docs").glob("*.md"))
        for message in re.findall(
            r"^- \*(\w[^*]*)\*", page.read_text(encoding="utf-8"), flags=re.MULTILINE
        )
    ]
    assert len(told) > 12
    assert [item for item in told if item[1].removesuffix(" ...") not in code] == []


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


def test_definitions_that_code_cites_are_there():
    headings = set(
        re.findall(
            r"^## (.+)$",
            (ROOT / "docs" / "definitions.md").read_text(encoding="utf-8"),
            flags=re.MULTILINE,
        )
    )
    cited = {
        (path.name, heading)
        for path in sorted((ROOT / "src").rglob("*.py"))
        for text in [re.sub(r"\n *(# )?", " ", path.read_text(encoding="utf-8"))]
        for heading in re.findall(
            r"docs/definitions\.md, ([A-Z][A-Za-z -]*[a-zA-Z])", text
        )
    }
    assert len(cited) > 15
    assert [item for item in sorted(cited) if item[1] not in headings] == []


def test_code_refers_to_no_page_outside_the_repository():
    outside = re.compile(
        r"DEFINITIONS|FEATURES\.md|ALGORITHMS\.md|PLANNERS\.md|\b[MX]\d{2,3}\b"
    )
    code = [
        path
        for path in sorted((ROOT / "src").rglob("*"))
        if path.suffix in (".py", ".toml", ".js")
    ]
    assert [
        path.name for path in code if outside.search(path.read_text(encoding="utf-8"))
    ] == []


def test_modules_that_definitions_name_are_there():
    text = (ROOT / "docs" / "definitions.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+/[\w/]+\.py)`", text))
    assert len(named) > 40
    assert [
        name
        for name in sorted(named)
        if not (ROOT / "src" / "deepval" / name).is_file()
    ] == []


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
    "tables of public models": {"atlas.md"},
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
    command: Any = typer.main.get_command(cli.app)
    while hasattr(command, "get_command"):
        line, (name, *words) = " ".join(words), words
        command = command.get_command(None, name)
        assert command is not None, f"{page}: {line}"
    options = {"--help", *(name for part in command.declared for name in part.names)}
    assert [
        word for word in words if re.match("--?[a-zA-Z]", word) and word not in options
    ] == [], f"{page}: {line}"
