"""A cell's folder belongs to one cell at a time: for writers side by side, for readers,
and for files given by path.
"""

import io
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import deepval
from commands import run
from deepval.basics.errors import InputError
from deepval.deploy.board.tracks import read_cells
from deepval.driving.cells import build as building
from deepval.driving.cells import folder as folders
from deepval.driving.cells import sources
from deepval.driving.datasets.kitti import Kitti
from deepval.driving.datasets.synthetic import WorldSettings
from deepval.driving.perception import modes
from deepval.judge.tables.costs import PROFILES
from kitti_files import UNITS, write_kitti

SMALL = WorldSettings(scenes=5, frames=12)
BOARD = PROFILES["jetson-agx-xavier"]


def cell_of(seed: int) -> building.Cell:
    found = sources.synthetic(settings=SMALL, seed=seed)
    return next(iter(building.cells(found)))


@pytest.fixture(scope="module")
def pair() -> tuple[building.Cell, building.Cell]:
    made = cell_of(0), cell_of(1)
    for place, cell in enumerate(made):
        out = io.BytesIO()
        np.save(out, np.full((SMALL.frames, 4, 6, 3), place, dtype=np.uint8))
        # Drawing takes long, and what pictures show does not matter here.
        vars(cell.shared)["picture_files"] = {
            f"view/pictures/{unit}.npy": out.getvalue() for unit in cell.spec.units
        }
    return made


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def refused(*words: object) -> str:
    done = run(*words)
    assert (done.code, done.out) == (2, ""), done
    assert len(done.err.strip().splitlines()) == 1
    return done.err


WRITER = """
import sys
from deepval.driving.cells import folder
from deepval.driving.cells import build, sources
from deepval.judge.tables.costs import PROFILES
from deepval.driving.datasets.synthetic import WorldSettings
from deepval.basics.errors import InputError
place, seed, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
found = sources.synthetic(settings=WorldSettings(scenes=5, frames=12), seed=seed)
(cell,) = build.cells(found)
costs = PROFILES["jetson-agx-xavier"] if seed else None
done = 0
for _ in range(times):
    try:
        folder.write(cell, place, costs=costs)
        done += 1
    except InputError as error:
        assert "another process is building a cell there" in str(error), error
print(done)
"""


def test_two_builders_and_a_reader_share_a_folder_and_nobody_sees_a_mixture(
    pair, tmp_path
):
    place = tmp_path / "cell"
    expected = {cell.id: (cell.table.digest, cell is pair[1]) for cell in pair}
    folders.write(pair[0], place)
    words = [sys.executable, "-c", WRITER, str(place)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen([*words, seed, "12"], **pipes) for seed in ("0", "1")]
    whole = 0
    while any(writer.poll() is None for writer in writers):
        try:
            found = folders.read_cell(place)
            seen = found.table.digest, found.table.costs is not None
            views = found.views
        except InputError as error:
            assert "must be as it was built" in str(error), error  # noqa: PT017  (any other error is a failure)
            continue
        assert seen == expected[found.id]
        assert len(views) == SMALL.scenes
        whole += 1
    told = [writer.communicate() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], told
    assert sum(int(out) for out, _ in told) >= 1
    folders.write(pair[0], place)
    folders.write(pair[0], tmp_path / "alone")
    assert contents(place) == contents(tmp_path / "alone")


def test_what_is_read_later_is_what_was_checked_or_nothing(pair, tmp_path):
    folders.write(pair[0], tmp_path, pictures=True)
    early, late = folders.read_cell(tmp_path), folders.read_cell(tmp_path)
    shown = early.views[0].scene.images
    assert isinstance(shown, np.memmap)
    kept = np.load(tmp_path / "view" / "pictures" / "scene-00.npy")
    table = early.table
    folders.write(pair[1], tmp_path, costs=BOARD, pictures=True)
    assert early.table is table
    assert np.array_equal(shown, kept)
    for part in ("table", "terms", "split", "views", "evidence"):
        if part != "split":  # the same in both cells
            with pytest.raises(InputError, match="must be as it was built, and is not"):
                getattr(late, part)
    assert folders.read_cell(tmp_path).id == pair[1].id


def test_a_rebuild_replaces_the_cell_as_a_whole_and_leaves_what_is_not_of_it(
    pair, tmp_path
):
    place = tmp_path / "cells" / "mine"
    folders.write(pair[0], place, costs=BOARD, pictures=True)
    foreign = {
        "result.json": "{}",
        "scores/mine.csv": "input,score\n",
        "view/notes.txt": "x",
        "costs.toml.bak": "y",
    }
    for name, text in foreign.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    folders.write(pair[0], place)
    folders.write(pair[0], tmp_path / "plain")
    plain = contents(tmp_path / "plain")
    assert contents(place) == plain | {
        name: text.encode() for name, text in foreign.items()
    }
    assert not (place / "view" / "pictures").exists()
    found = folders.read_cell(place)
    assert found.table.costs is None
    assert found.views[0].scene.images is None


def test_files_that_the_manifest_does_not_name_are_never_used(pair, tmp_path):
    place = tmp_path / "cells" / "mine"
    folders.write(pair[0], place)
    shutil.copy(BOARD, place / "costs.toml")
    folders.write(pair[0], tmp_path / "pictured", pictures=True)
    shutil.copytree(
        tmp_path / "pictured" / "view" / "pictures", place / "view" / "pictures"
    )
    found = folders.read_cell(place)
    assert found.table.costs is None
    assert found.views[0].scene.images is None
    assert read_cells(tmp_path / "cells")["mine"].profile is None
    with pytest.raises(
        InputError,
        match=r"costs.toml: must be a file of the cell in its folder, synthetic-",
    ):
        deepval.read_values(place / "values.parquet", costs=place / "costs.toml")
    folders.write(pair[0], place)
    assert (place / "costs.toml").exists()  # no manifest ever named it: it is a user's


def altered_cell(folder: Path, name: str) -> None:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(folder / name)
    column = next(
        c for c in table.column_names if "yolov8s-640" in c or c.startswith("full_")
    )
    place = table.column_names.index(column)
    pq.write_table(
        table.set_column(place, column, pc.multiply(table.column(place), 0.5)),
        folder / name,
    )


def test_a_cell_s_file_given_by_its_path_is_checked(pair, tmp_path):
    place = tmp_path / "cell"
    folders.write(pair[0], place, costs=BOARD)
    scores = tmp_path / "speed.csv"
    speed = pair[0].table.attributes["ego_speed_mps"]
    rows = zip(pair[0].table.input.tolist(), speed.tolist(), strict=True)
    scores.write_text("input,score\n" + "".join(f"{i},{s!r}\n" for i, s in rows))
    values, result = place / "values.parquet", place / "result.json"
    judge = ("evaluate", values, "-s", scores, "--draws", "20")
    assert run(*judge, "--out", result).code == 0
    (tmp_path / "link.parquet").symlink_to(values)
    whole = {
        name: (place / name).read_bytes()
        for name in ("values.parquet", "terms.parquet", "costs.toml")
    }
    sentence = "must be as it was built, and is not: build the cell again"

    altered_cell(place, "values.parquet")
    assert f"{values}: {sentence}" in refused(*judge, "--out", tmp_path / "out.json")
    assert sentence in refused("compare", values, scores, f"b={scores}")
    with pytest.raises(InputError, match=sentence):
        deepval.read_values(tmp_path / "link.parquet")
    values.write_bytes(whole["values.parquet"])

    altered_cell(place, "terms.parquet")
    with pytest.raises(InputError, match=sentence):
        deepval.evaluate(values, {"speed": scores}, terms=place / "terms.parquet")
    (place / "costs.toml").write_bytes(whole["costs.toml"].replace(b"ms = ", b"ms = 1"))
    assert f"{place / 'costs.toml'}: {sentence}" in refused(
        *judge, "--costs", place / "costs.toml"
    )
    (place / "frames.json").write_bytes((place / "frames.json").read_bytes() + b" ")
    assert sentence in refused("report", result, "--out", tmp_path / "page.html")
    altered_cell(place, "evidence.parquet")
    assert sentence in refused("report", result, "--figures", tmp_path / "figures")
    assert not (tmp_path / "out.json").exists()

    (place / "manifest.json").write_text("{")
    assert "manifest.json cannot be read" in refused(*judge)
    (place / "manifest.json").write_text('{"some": "other program\'s"}')
    assert run(*judge).code == 0


def test_detections_that_change_while_they_are_read_are_refused(tmp_path, monkeypatch):
    write_kitti(tmp_path)
    plain = modes.open_detections

    def changed(path, *words, **options):
        found = plain(path, *words, **options)
        shutil.copy(tmp_path / "small.parquet", path)
        return found

    monkeypatch.setattr(modes, "open_detections", changed)
    with pytest.raises(
        InputError, match=r"large.parquet: must not change while it is read, and did"
    ):
        sources.from_files(
            Kitti(tmp_path / "kitti_tracking"),
            [sources.ModeFile("large", tmp_path / "large.parquet")],
        )


def test_a_unit_whose_file_changed_is_read_again_in_the_same_process(tmp_path):
    write_kitti(tmp_path)
    files = [
        sources.ModeFile(name, tmp_path / f"{name}.parquet")
        for name in ("small", "large")
    ]
    losses = []
    for labels in (None, ""):
        if labels is not None:
            (
                tmp_path / "kitti_tracking" / "training" / "label_02" / "0000.txt"
            ).write_text(labels)
        material = sources.from_files(
            Kitti(tmp_path / "kitti_tracking"), files, units=UNITS[:1]
        )
        (cell,) = building.cells(material)
        losses.append(cell.outcomes.loss.sum())
    assert losses[0] != losses[1]
