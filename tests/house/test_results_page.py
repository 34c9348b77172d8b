"""The commands of docs/results.md on real KITTI, run literally from a folder beside the
shared data.
"""

import os
import re
import sys
from pathlib import Path

import pytest

import deepval
from commands import run_process
from project import ROOT
from shared import shared_data


@pytest.mark.shared
@pytest.mark.slow
def test_one_cell_by_hand(tmp_path):
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```sh\n(K=.*?)```", page, flags=re.DOTALL)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "data").symlink_to(shared_data())
    work = tmp_path / "work"
    work.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = run_process(
        block, program=("bash", "-euc"), cwd=work, env=os.environ | {"PATH": path}
    )
    assert done.code == 0, done.err
    result = deepval.Result.load(work / "cells" / "braking-monocular" / "result.json")
    assert {row.allocator for row in result.rows} >= {
        "router-recall",
        "lost",
        "random",
        "oracle",
    }
    assert len(result.provenance["units"]) == 6
    page = (work / "report.html").read_text(encoding="utf-8")
    assert "router-recall" in page
