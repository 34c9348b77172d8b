"""`deepval reproduce` on a tiny world: restarted, repeated to the byte, made anew only
where something changed.
"""

import errno
import json
import os
import re
from dataclasses import replace
from functools import wraps
from pathlib import Path

import pytest

from commands import call
from deepval.basics.errors import InputError
from deepval.basics.files.canonical import sha256
from deepval.deploy.board import store as digests
from deepval.deploy.board.cell_builds import cell_sources, find_cells
from deepval.deploy.board.store import REFUSED
from deepval.judge.cases import openings
from deepval.paper import published_figures, run, study_report
from deepval.paper.analyses import signs
from deepval.paper.analyses.seeds import RANDOMIZED
from deepval.paper.analysis import ANALYSES, analysis
from deepval.paper.published_figures import (
    PublishedFigure,
    compare_with_paper,
    published,
)
from tidy_rows import flat_rows, study_cells
from worker_tasks import losing

# few units, to be quick
pytestmark = pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")

SPECIFICATION = """
dataset = "synthetic"
scenes = 6
frames = 12
geometry = "monocular"
system = ["braking", "receding-horizon"]
"""
CHOSEN = (
    "signs",
    "ties",
    "consumers",
    "wins",
    "half-widths",
    "overview",
    "pooled",
    "charged",
)
SETTINGS = {"recipes": ("gate-ridge",), "analyses": CHOSEN}


@pytest.fixture(scope="module")
def specification(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("specification") / "tiny.toml"
    path.write_text(SPECIFICATION, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def whole(specification, tmp_path_factory):
    """A run that nobody disturbed: its work folder and its report."""
    folder = tmp_path_factory.mktemp("whole")
    done = run.run([specification], work=folder / "work", **SETTINGS)
    study_report.write_report(done, folder / "out")
    return done, folder


@pytest.fixture
def made(monkeypatch):
    """The analyses that are made, by name, in order."""
    found = []
    make = run._answer
    monkeypatch.setattr(
        run, "_answer", lambda job: found.append(job.analysis) or make(job)
    )
    return found


def report(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_every_analysis_has_rows_tables_and_a_chart(whole):
    done, folder = whole
    assert set(done.outcomes) == set(CHOSEN)
    assert not any(
        each.refused for found in done.outcomes.values() for each in found.values()
    )
    content = json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))
    stated = [
        {name: item[name] for name in ("cell", "id", "split")}
        for item in content["cells"]
    ]
    assert stated == [
        {"cell": at.name, "id": at.cell.id, "split": at.cell.split.digest}
        for at in done.cells
    ]
    for name in ("report.md", "report.html"):
        page = (folder / "out" / name).read_text(encoding="utf-8")
        assert all(
            at.cell.id[-12:] in page and at.cell.split.digest[:12] in page
            for at in done.cells
        )
    labels = [cell["cell"] for cell in content["cells"]]
    assert labels == [
        "yolov8s-320-640 braking monocular",
        "yolov8s-320-640 receding-horizon monocular",
    ]
    own = flat_rows(signs.SIGNS, study_cells({at.name: at.cell for at in done.cells}))
    assert [row["harm_rate"] for row in content["analyses"]["signs"]["synthetic"]] == [
        row.harm_rate for row in own
    ]
    assert {"versus_random", "versus_random_lo", "ndg_hi"} <= content["analyses"][
        "pooled"
    ]["synthetic"][0].keys()
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "script-src 'sha256-" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "## What was run" in (folder / "out" / "report.md").read_text(
        encoding="utf-8"
    )


def test_a_repeat_makes_nothing_and_gives_the_same_bytes(
    whole, specification, made, tmp_path
):
    _, folder = whole
    again = run.run([specification], work=folder / "work", **SETTINGS)
    study_report.write_report(again, tmp_path)
    assert made == []
    assert report(tmp_path) == report(folder / "out")


def test_a_lost_worker_costs_nothing_and_changes_no_byte(
    whole, specification, tmp_path
):
    with losing(tmp_path / "killed") as two:
        done = run.run(
            [specification], work=tmp_path / "work", map_units=two, **SETTINGS
        )
    assert (tmp_path / "killed").exists()
    study_report.write_report(done, tmp_path / "out")
    assert report(tmp_path / "out") == report(whole[1] / "out")


def test_a_run_that_was_stopped_goes_on_and_ends_with_the_same_bytes(
    whole, specification, made, tmp_path
):
    def stops(items, label):
        for place, item in enumerate(items):
            if label == "analyses" and place == 4:
                raise KeyboardInterrupt
            yield item

    with pytest.raises(KeyboardInterrupt):
        run.run([specification], work=tmp_path / "work", watch=stops, **SETTINGS)
    before = len(made)
    assert before
    (half,) = list((tmp_path / "work" / "kept" / "analyses" / "ties").iterdir())[:1]
    (half / "kept.json").unlink()  # as a kill leaves it: files, and no list of them
    done = run.run([specification], work=tmp_path / "work", **SETTINGS)
    every = len(list((tmp_path / "work" / "kept" / "analyses").glob("*/*")))
    assert len(made) == every + 1
    study_report.write_report(done, tmp_path / "out")
    assert report(tmp_path / "out") == report(whole[1] / "out")


def test_what_is_damaged_is_made_anew_and_nothing_else(whole, specification, made):
    _, folder = whole
    (rows,) = (folder / "work" / "kept" / "analyses" / "pooled").glob("*/rows.json")
    good = rows.read_bytes()
    rows.write_bytes(good.replace(b"0", b"1", 1))
    run.run([specification], work=folder / "work", **SETTINGS)
    assert made == ["pooled"]
    assert rows.read_bytes() == good


def test_other_costs_and_other_code_make_anew_what_rests_on_them(
    whole, specification, made, monkeypatch
):
    _, folder = whole
    run.run(
        [specification],
        work=folder / "work",
        costs="jetson-agx-xavier-nuscenes",
        **SETTINGS,
    )
    assert made == ["charged"]
    made.clear()
    digest = digests._digest
    changed = Path(signs.__file__)
    monkeypatch.setattr(
        digests, "_digest", lambda path: "other" if path == changed else digest(path)
    )
    digests.code_digest.cache_clear()
    try:
        run.run([specification], work=folder / "work", **SETTINGS)
    finally:
        digests.code_digest.cache_clear()
    assert made == ["signs", "signs"]


def figure(**changes) -> PublishedFigure:
    plain = {
        "table": "a table",
        "row": "a row",
        "column": "rho",
        "dataset": "synthetic",
        "pair": "a -> b",
    }
    plain |= {
        "geometry": "monocular",
        "system": "braking",
        "analysis": "signs",
        "field": "harm_ratio",
        "where": "",
    }
    numbers = {
        "over": "",
        "value": 0.5,
        "lo": None,
        "hi": None,
    }
    return PublishedFigure(**(plain | numbers | changes))


def rows_like(**changes):
    row = {
        "cell": "yolov8s-320-640 braking monocular",
        "harm_ratio": 0.4,
        "harm_ratio_lo": 0.3,
        "harm_ratio_hi": 0.6,
    }
    other = {"cell": "yolov8s-320-640 receding-horizon monocular", "harm_ratio": 0.9}
    return {"signs": {"synthetic": [row | changes, other]}}


def few_are_enough(monkeypatch):
    """The limits on affected inputs and units, so low that every figure is compared."""
    monkeypatch.setattr(published_figures, "LEAST_AFFECTED", 0)
    monkeypatch.setattr(published_figures, "LEAST_UNITS", 0)


@pytest.mark.parametrize(
    ("figures", "row", "inside"),
    [
        # the interval here goes from 0.3 to 0.6
        ([figure()], {}, "yes"),
        ([figure(value=0.6)], {}, "yes"),
        ([figure(value=0.7)], {}, "no"),
        ([figure(value=0.2)], {}, "no"),
        ([figure()], {"harm_ratio_hi": None}, None),
        # the paper's own interval does not count
        ([figure(value=0.7, lo=0.35, hi=0.9)], {}, "no"),
        # several figures, or a range, lie inside if they share a value with it
        ([figure(), figure(pair="c -> d", value=0.2)], {}, "yes"),
        ([figure(value=0.7), figure(pair="c -> d", value=1.2)], {}, "no"),
        ([figure(value=None, lo=0.5, hi=0.8)], {}, "yes"),
        ([figure(value=None, lo=0.5, hi=0.8)], {"harm_ratio_hi": 0.45}, "no"),
    ],
)
def test_a_published_figure_lies_inside_the_interval_here_or_not(
    whole, monkeypatch, figures, row, inside
):
    few_are_enough(monkeypatch)
    monkeypatch.setattr(published_figures, "published", lambda: tuple(figures))
    (entry,) = compare_with_paper(whole[0], rows_like(**row)).figures
    assert entry.kinship == "like"
    assert entry.inside == inside


def test_the_same_modes_make_the_same_cell_and_only_its_figure_counts(
    whole, monkeypatch
):
    own = figure(pair="yolov8s-320 -> yolov8s-640", value=0.35)
    monkeypatch.setattr(published_figures, "published", lambda: (figure(), own))
    (found,) = compare_with_paper(whole[0], rows_like()).figures
    assert (found.kinship, found.paper_lo, found.paper_hi) == ("same", 0.35, 0.35)


def test_the_paper_s_figures_are_whole_and_of_analyses_and_cells_that_exist():
    figures = published()
    assert len(
        {(f.kind, f.quantity_key, f.over, f.pair, f.table, f.row) for f in figures}
    ) == len(figures)
    assert all(
        f.value is not None or (f.lo is not None and f.hi is not None) for f in figures
    )
    assert {f.dataset for f in figures} == {"kitti", "nuscenes", "nuplan", ""}
    traj = [
        f
        for f in figures
        if f.kind == ("kitti", "monocular", "receding-horizon")
        and f.field == "harm_rate"
    ]
    assert min(f.value for f in traj if f.table == "sign variation") == 0.434
    assert {f.analysis for f in figures if f.table == "sign variation"} <= set(ANALYSES)


def test_the_command_writes_the_report(
    whole, specification, tmp_path, capsys, monkeypatch
):
    done, folder = whole
    monkeypatch.setattr(run, "ANALYSES", ANALYSES[:2])
    words = [
        "reproduce",
        specification,
        "--work",
        folder / "work",
        "--out",
        tmp_path,
        "--workers",
        "1",
    ]
    call(*words)
    told = capsys.readouterr().out
    assert "2 cells, 2 analyses, 0 figures beside the paper's" in told
    for at in done.cells:
        assert (
            f"{at.cell.id}: {openings(at.folder, at.cell.id)} looks at its test "
            "units on record"
        ) in told
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    linked = re.findall(r"analyses/[a-z-]+\\?\.md", page)
    assert linked
    assert all((tmp_path / name.replace("\\", "")).is_file() for name in linked)


def test_the_command_runs_what_is_named(whole, specification, tmp_path, capsys):
    _, folder = whole
    words = [
        "reproduce",
        specification,
        "--work",
        folder / "work",
        "--out",
        tmp_path,
        "--workers",
        "1",
    ]
    call(*words, "--analysis", "signs", "-a", "gate-ridge")
    assert "2 cells, 1 analysis, " in capsys.readouterr().out
    with pytest.raises(
        InputError, match=r"--analysis must be one of signs, .*; found 'sings'"
    ):
        call(*words, "--analysis", "sings")
    with pytest.raises(
        InputError, match=r"--allocator must be one of gate-ridge, .*; found 'gate'"
    ):
        call(*words, "-a", "gate")


def test_analyses_that_fit_take_no_recipes_but_those_of_the_run(whole):
    some = replace(whole[0].cells[0], recipes=("gate-gbm", "router-gbm-value"))
    for cell, recipes in (
        (some, ("gate-gbm", "router-gbm-value")),
        (replace(some, recipes=None), RANDOMIZED),
    ):
        assert run._settings(run.Job("seeds", (cell,)))["recipes"] == recipes
    assert "recipes" not in run._settings(run.Job("signs", (some,)))


def test_a_cell_is_built_once_and_again_where_it_is_damaged(whole, specification):
    _, folder = whole
    cells = list(find_cells([specification], work=folder / "work").cells.values())
    built = [(cell.folder / "manifest.json").stat().st_mtime_ns for cell in cells]
    (cells[0].folder / "values.parquet").write_bytes(b"")
    again = list(find_cells([specification], work=folder / "work").cells.values())
    assert [cell.digest for cell in again] == [cell.digest for cell in cells]
    assert (again[1].folder / "manifest.json").stat().st_mtime_ns == built[1]
    one = cells[0].folder / "manifest.json"
    assert [cell.id for cell in find_cells([one]).cells.values()] == [cells[0].id]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            'dataset = "moon"\ngeometry = "oracle"\nsystem = "braking"',
            "a data set must be one of",
        ),
        (
            'dataset = "synthetic"\ngeometry = "oracle"',
            "must name its system; found none",
        ),
        (
            (
                'dataset = "synthetic"\ngeometry = "oracle"\nsystem = "braking"\n'
                'root = "x"'
            ),
            "root changes nothing with",
        ),
        (
            'dataset = "kitti"\ngeometry = "oracle"\nsystem = "braking"',
            "data set kitti needs root",
        ),
        (
            'dataset = "synthetic"\ngeometry = "oracle"\nsystem = "braking"\nspeed = 1',
            "found 'speed'",
        ),
        (
            'dataset = "synthetic"\ngeometry = 3\nsystem = "braking"',
            "geometry of a specification has the wrong type",
        ),
        (
            'dataset = "synthetic"\ngeometry = "oracle"\nsystem = "braking"\n'
            f"[modes.yolov8s-320]\nthreshold = 1{'0' * 400}",
            "must be a finite number",
        ),
    ],
)
def test_a_wrong_specification_is_refused_in_a_sentence(text, sentence, tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"wrong\.toml") as told:
        cell_sources([path])
    assert sentence in str(told.value)


FAILURES = {
    "a full disk": OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
}


def answers(work: Path, name: str) -> list[str]:
    return sorted(
        path.name for path in (work / "kept" / "analyses" / name).glob("*/*.*")
    )


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_of_the_machine_stops_the_run_and_is_not_kept(
    failure, specification, tmp_path, monkeypatch
):
    """Once there is room, the same command gives the answer."""
    settings = {"recipes": (), "analyses": ("signs",), "work": tmp_path}

    def failing(*_, **__):
        try:
            raise FAILURES[failure]
        except OSError as error:
            raise InputError(
                f"x: must be a file that can be written; {error.strerror}."
            ) from error

    with monkeypatch.context() as patch:
        patch.setitem(vars(analysis("signs")), "rows", wraps(signs.rows)(failing))
        with pytest.raises((InputError, MemoryError)):
            run.run([specification], **settings)
    assert answers(tmp_path, "signs") == []
    (outcome,) = run.run([specification], **settings).outcomes["signs"].values()
    assert outcome.rows
    assert outcome.refused == ()


def test_only_an_analysis_s_own_refusal_is_kept(made, tmp_path, monkeypatch):
    """A failure of the machine that an earlier version kept is made anew."""
    one_cell = tmp_path / "one.toml"
    one_cell.write_text(
        SPECIFICATION.replace('["braking", "receding-horizon"]', '"braking"'),
        encoding="utf-8",
    )
    settings = {"recipes": (), "analyses": ("signs",), "work": tmp_path}

    def refusing(*_, **__):
        raise InputError("There must be three cells; found two.")

    with monkeypatch.context() as patch:
        patch.setitem(vars(analysis("signs")), "rows", wraps(signs.rows)(refusing))
        for _ in range(2):
            (outcome,) = run.run([one_cell], **settings).outcomes["signs"].values()
            assert outcome.refused == ("There must be three cells; found two.",)
    assert made == ["signs"]
    (listed,) = (tmp_path / "kept" / "analyses" / "signs").glob("*/kept.json")
    sentence = b"/x: must be a file that can be written; No space left on device."
    (listed.parent / REFUSED).write_bytes(sentence)
    content = json.loads(listed.read_text())
    listed.write_text(json.dumps(content | {"files": {REFUSED: sha256(sentence)}}))
    (outcome,) = run.run([one_cell], **settings).outcomes["signs"].values()
    assert outcome.rows
    assert made == ["signs", "signs"]
