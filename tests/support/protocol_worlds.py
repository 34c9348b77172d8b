"""A few small cells and folders of submissions on them: what tests of the protocol are
made of.
"""

import csv
import json
import warnings
from pathlib import Path

import numpy as np

from deepval.basics.errors import InputWarning
from deepval.deploy.board.tracks import TrackedCell
from deepval.driving.cells import build, sources
from deepval.driving.cells import folder as folders
from deepval.driving.datasets.synthetic import WorldSettings
from deepval.judge.tables.costs import PROFILES

COSTS = PROFILES["jetson-agx-xavier"]
CARD = {"name": "Mine", "handle": "lab", "inputs": ["ego"], "notes": ""}
PAID = {
    "jetson-agx-xavier": {
        "ms": 0.65,
        "mj": 2.1,
        "served": "single",
        "measured": "1,000 calls on the board",
    }
}


def write_cells(
    folder: Path,
    *,
    scenes=20,
    frames=16,
    costs: Path | None = COSTS,
    systems=("braking", "receding-horizon"),
) -> None:
    """Cells `<system>-monocular` of a small synthetic world: 20 scenes are 6 test, 3
    validation and 11 training.
    """
    material = sources.synthetic(settings=WorldSettings(scenes=scenes, frames=frames))
    with warnings.catch_warnings():
        # short scenes in which a mode sees nothing
        warnings.simplefilter("ignore", InputWarning)
        made = list(build.cells(material, systems=systems))
    for cell in made:
        folders.write(
            cell, folder / f"{cell.spec.system}-{cell.spec.geometry}", costs=costs
        )


def toml(content: dict, prefix: str = "") -> str:
    """A mapping of texts, numbers, lists and tables as TOML."""
    lines = [
        f"{key} = {json.dumps(value)}"
        for key, value in content.items()
        if not isinstance(value, dict)
    ]
    for key, value in content.items():
        if isinstance(value, dict):
            lines += [f"[{prefix}{key}]"] * bool(prefix) + [
                toml(value, f"{prefix}{key}.")
            ]
    return "\n".join(lines) + "\n"


def write_card(folder: Path, *, costs=PAID, **entries) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "card.toml").write_text(
        toml({**CARD, **entries, "costs": costs}), encoding="utf-8"
    )


def write_scores(folder: Path, cell: TrackedCell, scores) -> Path:
    """scores/<cell>.csv: one score per validation and test input, in the table's
    order.
    """
    path = folder / "scores" / f"{cell.name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_rows(
        path, zip(cell.scored.input, np.asarray(scores, dtype=float), strict=True)
    )
    return path


def write_rows(path: Path, rows) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["input", "score"])
        writer.writerows((name, repr(float(score))) for name, score in rows)


def write_submission(folder: Path, cells, score, /, **entries) -> Path:
    """A submission whose scores on a cell are score(cell)."""
    write_card(folder, **entries)
    for cell in cells.values():
        write_scores(folder, cell, score(cell))
    return folder


def noisy(seed: int, *, signal: float = 0.0):
    """Scores that know `signal` of the decision value among noise of a seed."""

    def score(cell: TrackedCell):
        value = cell.scored.decision_values
        noise = np.random.default_rng(seed).normal(size=len(value))
        return noise + signal * value / (value.std() or 1.0)

    return score


def speed(cell: TrackedCell):
    return cell.scored.attributes["ego_speed_mps"]
