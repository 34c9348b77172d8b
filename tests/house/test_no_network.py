"""No command uses the network or writes outside the folders that it is given, whatever
library it loads.
"""

import platform
import re
import signal
import sys
import warnings
from pathlib import Path

import pytest

from commands import run_process
from deepval.cli import COMMANDS
from deepval.driving.cells import build, sources
from deepval.driving.cells import folder as folders
from deepval.driving.datasets.synthetic import WorldSettings
from fault_worlds import commands, write_beside_cells
from no_network import SOCKET, offline
from project import ROOT

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in SOCKET,
    reason="the filter is one of Linux on these processors",
)
YARD = (
    "from deepval.driving.datasets import DATASETS; from drives import TwoLogs; "
    "DATASETS['yard'] = TwoLogs"
)
FITTED = ("gate-ridge", "gate-gbm", "router-mlp-value", "router-pixel")
"""One allocator for each kind of model."""
LOADED = {"cv2", "matplotlib", "onnxruntime", "shapely"}
"""Libraries that the commands must load for the test to show anything."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A tiny cell with pictures, allocators fitted on it without a network, and what
    other commands take.
    """
    home = tmp_path_factory.mktemp("offline")
    material = sources.synthetic(settings=WorldSettings(scenes=4, frames=6), seed=5)
    cell = home / "cells" / "braking-monocular"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (made,) = build.cells(material, systems=("braking",))
    folders.write(made, cell, costs=None, pictures=True)
    write_beside_cells(home)
    for name in ("fit", "score a signal", "evaluate"):
        done = offline(words_of(name, home, home), home / f"watched-{name}")
        assert (done.code, done.left) == (0, []), done.err
        assert name != "fit" or {"torch", "sklearn"} <= set(done.loaded)
    return home


def words_of(name: str, world: Path, out: Path) -> tuple[object, ...]:
    """A command of this name that writes to `out`."""
    cell, fitted = world / "cells" / "braking-monocular", world / "fitted"
    others = {
        "fit": (
            "fit",
            cell,
            *(word for recipe in FITTED for word in ("-a", recipe)),
            "--out",
            out / "fitted",
        ),
        "score a signal": ("score", cell, "ego-speed"),
        "score": (
            "score",
            cell,
            fitted / "router-pixel.json",
            "--out",
            out / "s.parquet",
        ),
        "export": (
            "export",
            cell,
            fitted / "gate-gbm.json",
            "--out",
            out / "gate.onnx",
        ),
        "profile": (
            "profile",
            cell,
            fitted / "gate-gbm.json",
            "--seconds",
            0.05,
            "--out",
            out / "costs.toml",
        ),
        "import": ("import", log(out), "--out", out / "values.parquet"),
        "compare": (
            "compare",
            world / "values.csv",
            world / "x.csv",
            f"other={world / 'x.csv'}",
            "--draws",
            20,
        ),
        "analyse": (
            *(
                "analyse",
                "budgets",
                cell,
                "--costs",
                "jetson-agx-xavier",
                "--draws",
                20,
            ),
            *("--figure", out / "budgets.pdf", "--out", out / "budgets.json"),
        ),
        "drive": (
            "drive",
            "--dataset",
            "yard",
            "--root",
            out,
            "--planner",
            "idm",
            "--seconds",
            0.5,
            "--units",
            "far",
        ),
        "shadow": (
            "shadow",
            world / "values.csv",
            "-s",
            world / "x.csv",
            "--share",
            0.3,
            "--out",
            out / "plan.json",
        ),
        "watch": (
            "watch",
            out / "watch.json",
            "--reference",
            world / "values.csv",
            "-s",
            world / "x.csv",
        ),
        "cells": ("cells",),
        "check": ("check", world / "subs" / "s0", "--cells", world / "cells"),
        "example": ("example", "--out", out),
        "table": (
            "table",
            "ceiling",
            cell,
            "--work",
            out / "work",
            "--workers",
            1,
            "--out",
            out / "ceiling.tex",
        ),
        "demo": ("demo", "--scenes", 8, "--out", out / "demo"),
    }
    return others[name] if name in others else tuple(commands(world)[name](out))


def log(folder: Path) -> Path:
    path = folder / "log.csv"
    rows = "".join(f"q{i},{'ab'[i % 2]},{i % 2},1,0.1,0.9\n" for i in range(8))
    head = "sample_id,eval_name,small,large,small|total_cost,large|total_cost\n"
    path.write_text(head + rows, encoding="utf-8")
    return path


def test_the_filter_kills_whoever_uses_the_network(tmp_path):
    killed = offline(
        (), tmp_path / "inet", main="import socket; socket.socket(); print('alive')"
    )
    assert (killed.code, killed.out) == (-signal.SIGSYS, "")
    local = offline(
        (), tmp_path / "unix", main="import socket; socket.socketpair(); print('alive')"
    )
    assert (local.code, local.out) == (0, "alive\n")
    looked_up = offline(
        (),
        tmp_path / "name",
        main="import socket; socket.getaddrinfo('localhost.invalid', 80)",
    )
    assert looked_up.code == -signal.SIGSYS


@pytest.mark.slow
def test_the_demo_needs_no_network_and_leaves_nothing_behind(world, tmp_path):
    (tmp_path / "out").mkdir()
    done = offline(words_of("demo", world, tmp_path / "out"), tmp_path / "watched")
    assert (done.code, done.left) == (0, []), done.err


def test_no_command_needs_a_network_or_leaves_anything_behind(world, tmp_path):
    """One after the other in one process."""
    (tmp_path / "out").mkdir()
    names = [name for name in COMMANDS if name not in {"fit", "demo"}]
    lines = [list(map(str, words_of(name, world, tmp_path / "out"))) for name in names]
    main = f"""
{YARD}
from deepval.cli import main
for words in {lines!r}:
    sys.argv = ["deepval", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""
    done = offline((), tmp_path / "watched", main=main)
    assert (done.code, done.left) == (0, []), done.err
    assert set(done.loaded) >= LOADED


def test_onnx_runtime_is_imported_in_one_place():
    """Nowhere else, since its telemetry has to be switched off before."""
    tracked = run_process(
        "ls-files",
        "src",
        "tools",
        "studies",
        "benchmarks",
        program=("git",),
        cwd=ROOT,
    )
    files = [ROOT / name for name in tracked.out.split() if name.endswith(".py")]
    assert files
    direct = re.compile(
        r"^\s*(?:import|from) onnxruntime|import_module\(.onnxruntime", re.MULTILINE
    )
    assert [
        path.name for path in files if direct.search(path.read_text(encoding="utf-8"))
    ] == []
