"""Tracks on a user's own data: small trees in the owners' layouts, run by the commands
of docs/official.md.
"""

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import doc_blocks
import track_trees
from commands import MODULE, SCRIPT, run_process
from project import ROOT

SMALL = " --analysis signs --workers 1"
KITTI = "kitti-yolov8s-320-yolov8s-640-monocular-braking"
NUSCENES = "nuscenes-yolov8s-320-yolov8s-640-oracle-learned-planner-final-displacement"
NUPLAN = "nuplan-yolov8s-320-yolov8s-640-tracks-idm-scalar"
FILES = ("report.html", "report.json", "report.md")


def shell(command: str, cwd: Path) -> str:
    """What a command prints, run by a shell that finds deepval."""
    done = run_process(
        f'PATH="{Path(SCRIPT[0]).parent}:$PATH"; {command}',
        program=("bash", "-c"),
        cwd=cwd,
    )
    assert done.code == 0, f"{command}\n{done.err}"
    return done.err + done.out


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A folder with data, in which every command of the page was run, with one analysis
    instead of all.
    """
    home = tmp_path_factory.mktemp("user")
    track_trees.write_data(home / "data")
    text = "".join(
        content for _, content in doc_blocks.blocks_of(ROOT / "docs" / "official.md")
    )
    commands = re.findall(r"^\$ (.*)$", text, flags=re.MULTILINE)
    assert [command.split()[1] for command in commands] == [
        "cells",
        *["reproduce"] * 3,
        "analyse",
    ]
    printed = [
        shell(command + SMALL * (" reproduce " in command), home)
        for command in commands
    ]
    return home, dict(zip(commands, printed, strict=True))


def reports(home: Path, out: str) -> dict[str, bytes]:
    return {name: (home / out / name).read_bytes() for name in FILES}


@pytest.mark.long
def test_the_page_runs_from_nothing_to_the_reports(ran):
    home, printed = ran
    listed, core, external, one, signs = printed.values()
    assert "can be built  " + NUSCENES in listed
    assert "incomplete" not in listed
    # KITTI: 4 x 8 frames at 4 sizes of YOLOv8s and 3 of RT-DETR; nuScenes: 13 scenes of
    # 12 keyframes at 2 sizes.
    assert f"Expected, roughly: 26 cells, {4 * 8 * 7 + 13 * 12 * 2} frames" in core
    assert "26 cells, 1 analysis, " in core
    assert (
        "nuscenes: pictures of 156 frames in 13 units; left out for lack of one: none"
        in core
    )
    # Three logs of two scenarios of 24 states, half of them with a picture.
    left = (
        "nuplan: pictures of 72 frames in 3 units; left out for lack of one: 72 "
        "frames, among them 0 whole units"
    )
    assert left in listed
    assert left in external
    assert "1 cell," in one
    assert "rtdetr-l-480" in signs
    for out, cells in (("core", 26), ("external", 4)):
        content = json.loads((home / out / "report.json").read_text())
        assert [cell["track"] for cell in content["cells"]] == ["local"] * cells
        for page in ("report.md", "report.html"):
            assert "local, never official" in (home / out / page).read_text()
    assert left in (home / "external" / "report.md").read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    ("track", "begun"),
    [
        ("core", "detections/nuscenes-yolov8s/manifest.json"),
        ("external", "cells/*/manifest.json"),
    ],
)
def test_a_killed_run_continues_and_ends_with_the_same_bytes(
    ran, tmp_path, track, begun
):
    home, _ = ran
    (tmp_path / "data").symlink_to(home / "data")
    words = ("reproduce", track, "--data", "data", *SMALL.split(), "--out", "cut")
    process = subprocess.Popen(
        [*MODULE, *words],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not list((tmp_path / "deepval-work").glob(begun)) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "cut" / "report.json").exists()
    done = run_process(*words, cwd=tmp_path)
    assert done.code == 0, done.err
    assert reports(tmp_path, "cut") == reports(home, track)


@pytest.mark.long
def test_the_listed_commands_run_in_a_shell_and_build_the_same_cells(ran, tmp_path):
    home, _ = ran
    data = tmp_path / "my data"
    data.symlink_to(home / "data")
    listed = json.loads(
        shell(
            "deepval cells core external --data 'my data' --json 2>/dev/null", tmp_path
        )
    )
    cells = {cell["name"]: cell for track in listed for cell in track["cells"]}
    assert {cell["id"] for cell in cells.values()} == set(cells), (
        "no hash that the built cell does not have"
    )
    for name in (KITTI, NUSCENES, NUPLAN):
        for command in (*cells[name]["perceive"], cells[name]["build"]):
            shell(command, tmp_path)
    built = {
        json.loads(path.read_text())["id"]
        for path in (tmp_path / "cells").glob("*/*/manifest.json")
    }
    assert len(built) == 3
    assert built <= {path.name for path in (home / "deepval-work" / "cells").iterdir()}
    # Patterns of a shell match cells only; the cell of chosen scenarios can be read
    # again from its folder of data.
    assert "idm-scalar" in shell("deepval analyse signs cells/*/*", tmp_path)
    seen = shell("deepval analyse observations cells/nuplan-*/*", tmp_path)
    assert "idm-scalar" in seen


@pytest.mark.long
def test_frames_and_units_without_pictures_are_left_out_and_counted(ran, tmp_path):
    home, _ = ran
    shutil.copytree(
        home / "data" / "kitti_tracking", tmp_path / "data" / "kitti_tracking"
    )
    shutil.copytree(home / "data" / "weights", tmp_path / "data" / "weights")
    pictures = tmp_path / "data" / "kitti_tracking" / "training" / "image_02"
    shutil.rmtree(pictures / "0001")
    (pictures / "0000" / "000003.png").unlink()
    (cells,) = json.loads(shell("deepval cells core --data data --json", tmp_path))
    note = (
        "kitti: pictures of 23 frames in 3 units; left out for lack of one: 9 frames, "
        "among them 1 whole unit"
    )
    assert cells["pictures"] == {"kitti": note}
    cell = next(cell for cell in cells["cells"] if cell["name"] == KITTI)
    for command in (*cell["perceive"], cell["build"]):
        assert "--units 0000,0002,0003" in command
        shell(command, tmp_path)
    done = shell(f"deepval reproduce {KITTI} --data data --out out{SMALL}", tmp_path)
    assert note in done
    (same,) = (tmp_path / "deepval-work" / "cells").iterdir()
    (built,) = (tmp_path / "cells").glob("*/*/manifest.json")
    assert json.loads(built.read_text())["id"] == same.name
