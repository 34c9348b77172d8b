"""Judging a values file loads nothing of cells, data sets, planners and detectors."""

import subprocess
import sys

import pytest

ABOVE = {"driving", "deploy", "paper"}
"""Packages that know of driving, of allocators or of the paper."""
MOST = 66
"""Modules of ours that one judgement may load."""
PROGRAM = """
import sys
sys.argv = ["deepval", *{words!r}]
from deepval.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*(name for name in sys.modules if name.startswith("deepval.")), file=sys.stderr)
"""


def loaded_by(words, folder):
    """The modules of ours that a command loads."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(words=words)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.splitlines()[-1].split()


@pytest.mark.parametrize("form", ["text", "json"])
def test_judging_a_values_file_loads_the_core_alone(tmp_path, form):
    (tmp_path / "values.csv").write_text(
        "unit,input,loss_cheap,loss_full\na,1,4,1\na,2,1,1\nb,3,4,1\nb,4,1,1\n"
    )
    (tmp_path / "mine.csv").write_text("input,score\n1,2\n2,1\n3,2\n4,1\n")
    words = ["evaluate", "values.csv", "-s", "mine.csv", "--format", form]
    modules = loaded_by(words, tmp_path)
    packages = {name.split(".")[1] for name in modules}
    assert not packages & ABOVE
    assert len(modules) <= MOST


def test_the_list_of_commands_loads_none_of_them(tmp_path):
    modules = loaded_by(["-h"], tmp_path)
    assert "deepval.judge" not in modules
    assert "deepval.cli.evaluate" not in modules
