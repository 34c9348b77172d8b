"""Every benchmark runs at a tiny size and returns figures; the table is printed and
misses are reported.
"""

import shutil
import sys
from pathlib import Path

import pytest

from commands import run_process
from project import ROOT

FOLDER = ROOT / "benchmarks"
NAMES = sorted(path.stem for path in FOLDER.glob("bench_*.py"))
HEAD = "from figures import Figure\n\n\ndef main(*, tiny=False):\n    return "


def bench(folder: Path, *words: str) -> tuple[int, str, str]:
    """Exit code of run.py, its output above the table, and the table."""
    done = run_process(*words, program=(sys.executable, str(folder / "run.py")))
    above, head, table = done.out.partition("\ntask ")
    return done.code, done.err + above, (head + table).lstrip()


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with the runner and no benchmark yet."""
    for name in ("run.py", "figures.py"):
        shutil.copy(FOLDER / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_runs_and_returns_figures(name):
    code, above, table = bench(FOLDER, "--tiny", name)
    assert code == 0, above + table
    lines = table.splitlines()[2:]
    assert lines, above
    assert all(line.endswith("not judged") for line in lines)


@pytest.mark.parametrize(
    ("body", "row"),
    [
        ('[Figure("a task", "4 s", "2 s", "< 3 s", False)]', "a task"),
    ],
)
def test_a_missed_target_and_a_crash_fail_after_the_others_ran(folder, body, row):
    (folder / "bench_a.py").write_text(HEAD + body + "\n")
    (folder / "bench_b.py").write_text(
        HEAD + '[Figure("another task", "1 s", "2 s", "< 3 s", True)]\n'
    )
    code, _, table = bench(folder)
    assert code == 1
    first, second = table.splitlines()[2:]
    assert row in first
    assert first.endswith("MISSED")
    assert second.startswith("another task")
    assert second.endswith("met")


def test_peak_memory_is_that_of_the_command_alone(folder):
    (folder / "bench_memory.py").write_text(
        "from figures import Figure, run_alone\n\n\n"
        "def main(*, tiny=False):\n"
        "    ballast = bytearray(b'1' * 400_000_000)\n"
        "    little = run_alone('-c', 'print(1)')\n"
        "    much = run_alone('-c', \"len(bytearray(b'1' * 200_000_000))\")\n"
        "    del ballast\n"
        "    right = little.peak_gb < 0.1 < 0.2 <= much.peak_gb < 0.6 and "
        "little.output == '1\\n'\n"
        "    return [Figure('memory', f'{little.peak_gb} GB', f'{much.peak_gb} GB', "
        "'its own', right)]\n"
    )
    code, above, table = bench(folder)
    assert code == 0, above + table
