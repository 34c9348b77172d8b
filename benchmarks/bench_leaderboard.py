"""Leaderboards of 300 and of 5,000 submissions: CPU time and memory, from nothing and
again with a cache.

Run: python benchmarks/bench_leaderboard.py [SUBMISSIONS CELLS ...]. Cells are synthetic
(40 scenes of 40 frames, 11 test units, 680 scored inputs), with selection budgets of
four shares and 1,000 draws. The command makes every leaderboard in a process of its
own; CPU time is that of it and its readers together, memory that of the largest of
them. Both leaderboards must have the same bytes.
"""

import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from figures import Figure, finish, run_alone

from deepval.deploy.board.tracks import TrackedCell, read_cells
from deepval.driving.cells import build, sources
from deepval.driving.cells import folder as folders
from deepval.driving.datasets.synthetic import WorldSettings

SIZES = ((300, 1), (300, 4))
CPU_S, MEMORY_GB = 300.0, 2.0


def write_cells(folder: Path, settings: WorldSettings) -> None:
    """Four cells of a synthetic world."""
    material = sources.synthetic(settings=settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cell in build.cells(
            material,
            systems=("braking", "receding-horizon"),
            geometries=("monocular", "oracle"),
        ):
            folders.write(cell, folder / f"{cell.spec.system}-{cell.spec.geometry}")


def write_submission(folder: Path, number: int, cells: dict[str, TrackedCell]) -> None:
    """Scores that know a little, or much, or nothing of the signs of decision
    values.
    """
    rng = np.random.default_rng(number)
    signal = rng.choice([0.0, 0.2, 0.5, 1.0])
    (folder / "scores").mkdir(parents=True)
    card = (
        f'name = "Submission {number}"\nhandle = "lab-{number % 97}"\n'
        'inputs = ["ego"]\nnotes = ""\n'
    )
    (folder / "card.toml").write_text(card, encoding="utf-8")
    for name, cell in cells.items():
        scores = signal * np.sign(cell.scored.decision_values) + rng.normal(
            size=len(cell.scored)
        )
        rows = "".join(
            f"{i},{s:.6f}\n" for i, s in zip(cell.scored.input, scores, strict=True)
        )
        (folder / "scores" / f"{name}.csv").write_text(
            f"input,score\n{rows}", encoding="utf-8"
        )


def size(home: Path, number: int, cells: int, settings: WorldSettings) -> list[Figure]:
    """A leaderboard of so many submissions on so many cells, from nothing and again
    with its cache.
    """
    all_cells = home / "all"
    if not all_cells.exists():
        write_cells(all_cells, settings)
    chosen = home / f"cells-{cells}"
    chosen.mkdir(exist_ok=True)
    for path in sorted(all_cells.iterdir())[:cells]:
        if not (chosen / path.name).exists():
            (chosen / path.name).symlink_to(path)
    entries = home / f"submissions-{number}-{cells}"
    if not entries.exists():
        tracked = read_cells(chosen)
        for i in range(number):
            write_submission(entries / f"s{i:05d}", i, tracked)
    words = (
        "leaderboard",
        entries,
        "--cells",
        chosen,
        "--cache",
        home / f"cache-{number}-{cells}",
        "--out",
    )
    figures = []
    for turn in ("anew", "again"):
        run = run_alone("-m", "deepval", *words, home / f"out-{number}-{cells}-{turn}")
        figures.append(
            Figure(
                f"leaderboard, {number} submissions x {cells} cells, {turn}",
                f"{run.cpu_s:.0f} s CPU, {run.peak_gb:.2f} GB",
                f"{run.wall_s:.0f} s on the clock at load {os.getloadavg()[0]:.1f}",
                f"at most {CPU_S:.0f} s, {MEMORY_GB:g} GB",
                run.cpu_s <= CPU_S and run.peak_gb <= MEMORY_GB,
            )
        )
        print(*figures[-1][:3], sep="; ", flush=True)
    first, again = (
        home / f"out-{number}-{cells}-{turn}" / "leaderboard.json"
        for turn in ("anew", "again")
    )
    if first.read_bytes() != again.read_bytes():
        raise SystemExit(f"{first} and {again} must have the same bytes")
    return figures


def main(
    *, tiny: bool = False, sizes: Sequence[tuple[int, int]] = SIZES
) -> list[Figure]:
    """Figures of each number of submissions and of cells."""
    settings = (
        WorldSettings(scenes=12, frames=10)
        if tiny
        else WorldSettings(scenes=40, frames=40)
    )
    stored = None if tiny else os.environ.get("DEEPVAL_BENCH_HOME")
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(stored or temporary)
        return [
            figure
            for pair in ([(3, 1)] if tiny else sizes)
            for figure in size(home, *pair, settings)
        ]


if __name__ == "__main__":
    asked = list(map(int, sys.argv[1:]))
    finish(main(sizes=list(zip(asked[::2], asked[1::2], strict=True)) or SIZES))
