"""A build that is asked for again makes what changed and leaves the rest as it
stands.
"""

import json
from pathlib import Path

import pytest

from commands import call
from deepval.deploy.board import cell_builds
from deepval.driving.cells import build

WORDS = (
    "build",
    "--system",
    "braking",
    "--system",
    "receding-horizon",
    "--units",
    "scene-00,scene-01,scene-02",
)


@pytest.fixture
def parts(monkeypatch):
    """The systems whose parts of a unit are made, one entry per unit."""
    found = []
    make = build.unit_parts
    monkeypatch.setattr(
        build,
        "unit_parts",
        lambda specs, unit: (
            found.append([s.system for s in specs]) or make(specs, unit)
        ),
    )
    return found


def rebuild(out: Path, *words: str) -> str:
    return call(*WORDS, "--out", out, *words)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_only_what_depends_on_a_change_is_built_again(tmp_path, parts, monkeypatch):
    first = json.loads(rebuild(tmp_path, "--json"))
    assert parts == [["braking", "receding-horizon"]] * 3
    before = contents(tmp_path)
    assert json.loads(rebuild(tmp_path, "--json")) == first
    assert rebuild(tmp_path).count("unchanged since it was built; ") == 2
    assert len(parts) == 3
    assert contents(tmp_path) == before
    # A file that was altered makes its cell anew, and so do other costs.
    altered = tmp_path / "braking-monocular" / "terms.parquet"
    altered.write_bytes(altered.read_bytes()[:-1] + b"?")
    assert rebuild(tmp_path).count("unchanged since it was built; ") == 1
    assert parts[3:] == [["braking"]] * 3
    assert contents(tmp_path) == before
    rebuild(tmp_path, "--costs", "jetson-agx-xavier")
    assert len(parts) == 9
    # A constant of one system makes its cell anew, another version makes all.
    rebuild(tmp_path, "--costs", "jetson-agx-xavier", "--set", "horizon_s=2")
    assert parts[9:] == [["receding-horizon"]] * 3
    monkeypatch.setattr(cell_builds, "versions", lambda: {"deepval": "another"})
    rebuild(tmp_path)
    assert parts[12:] == [["braking", "receding-horizon"]] * 3
