"""Leaderboards of 300 and of 5,000 submissions: processor time and memory, anew and with judgements kept.

Run: python benchmarks/bench_leaderboard.py [SUBMISSIONS CELLS ...]. Cells are synthetic (40 scenes of 40 frames, 11
test units, 680 scored inputs), with selection budgets of four shares and 1,000 draws. Every leaderboard is made by the
command in a process of its own, whose time and memory, with those of the readers that it starts, are told.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from figures import Figure

from deepval.cells import build, sources
from deepval.cells import folder as folders
from deepval.datasets.synthetic import WorldSettings
from deepval.protocol.cell_folders import TrackedCell, read_cells

SIZES = ((300, 1), (300, 4))
CPU_S, MEMORY_GB = 300.0, 2.0


def write_cells(folder: Path) -> None:
    """Four cells of a synthetic world."""
    material = sources.synthetic(settings=WorldSettings(scenes=40, frames=40))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cell in build.cells(material, systems=("braking", "receding-horizon"), geometries=("monocular", "oracle")):
            folders.write(cell, folder / f"{cell.spec.system}-{cell.spec.geometry}")


def write_submission(folder: Path, number: int, cells: dict[str, TrackedCell]) -> None:
    """Scores that know a little, or much, or nothing of the signs of decision values."""
    rng = np.random.default_rng(number)
    signal = rng.choice([0.0, 0.2, 0.5, 1.0])
    (folder / "scores").mkdir(parents=True)
    card = f'name = "Submission {number}"\nhandle = "lab-{number % 97}"\ninputs = ["ego"]\nnotes = ""\n'
    (folder / "card.toml").write_text(card, encoding="utf-8")
    for name, cell in cells.items():
        scores = signal * np.sign(cell.scored.decision_values) + rng.normal(size=len(cell.scored))
        rows = "".join(f"{i},{s:.6f}\n" for i, s in zip(cell.scored.input, scores, strict=True))
        (folder / "scores" / f"{name}.csv").write_text(f"input,score\n{rows}", encoding="utf-8")


def measured(words: Sequence[object]) -> tuple[float, float, float]:
    """CPU seconds, seconds on the clock and GB at the peak of a command, with what it starts."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "deepval.cli", *map(str, words)], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"deepval {' '.join(map(str, words))}: ended with {os.waitstatus_to_exitcode(status)}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - start, used.ru_maxrss * 1024 / 1e9


def size(home: Path, number: int, cells: int) -> list[Figure]:
    """A leaderboard of so many submissions on so many cells, anew and again."""
    all_cells = home / "all"
    if not all_cells.exists():
        write_cells(all_cells)
    chosen = home / f"cells-{cells}"
    chosen.mkdir(exist_ok=True)
    for path in sorted(all_cells.iterdir())[:cells]:
        if not (chosen / path.name).exists():
            (chosen / path.name).symlink_to(path)
    entries = home / f"submissions-{number}-{cells}"
    if not entries.exists():
        wanted = read_cells(chosen)
        for i in range(number):
            write_submission(entries / f"s{i:05d}", i, wanted)
    words = ("leaderboard", entries, "--cells", chosen, "--cache", home / f"cache-{number}-{cells}", "--out")
    figures = []
    for turn in ("anew", "again, judgements kept"):
        out = home / f"out-{number}-{cells}-{turn.split(',')[0]}"
        cpu, wall, memory = measured([*words, out])
        found = f"{cpu:.0f} s CPU, {memory:.2f} GB"
        beside = f"{wall:.0f} s on the clock at load {os.getloadavg()[0]:.1f}"
        target = f"{CPU_S:.0f} s, {MEMORY_GB:g} GB"
        figures.append(
            Figure(f"{number} x {cells} {turn}", found, beside, target, cpu <= CPU_S and memory <= MEMORY_GB)
        )
        print(*figures[-1][:3], sep="; ", flush=True)
    first, again = (home / f"out-{number}-{cells}-{turn}" / "leaderboard.json" for turn in ("anew", "again"))
    if first.read_bytes() != again.read_bytes():
        raise SystemExit(f"{first} and {again} must have the same bytes")
    return figures


def main() -> list[Figure]:
    """Figures of the small sizes, or of those that are asked for."""
    asked = list(map(int, sys.argv[1:]))
    sizes = list(zip(asked[::2], asked[1::2], strict=True)) or list(SIZES)
    kept = os.environ.get("DEEPVAL_BENCH_HOME")
    with tempfile.TemporaryDirectory() as made:
        home = Path(kept or made)
        return [figure for number, cells in sizes for figure in size(home, number, cells)]


if __name__ == "__main__":
    main()
