"""How closely scores agree with answers: shipped allocators on units they were not
fitted on, and answers with noise.

Run: python studies/calibrate_notes.py --data DATA --work FOLDER. Cells of the tracks
kitti-public and synthetic are built in the folder. Prints the table of docs/notes.md.
"""

import argparse
import math
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from deepval.basics.errors import InputError, InputWarning
from deepval.deploy.allocators import RECIPES
from deepval.deploy.allocators.allocator import SIGNALS
from deepval.deploy.board.cell_builds import find_cells
from deepval.deploy.fitting import fit_on, score_on
from deepval.driving.cells.folder import BuiltCell
from deepval.judge.extras import notes
from deepval.judge.extras.notes import (
    HiddenQuantity,
    Suspect,
    Suspicion,
    hidden_quantities,
    rank_agreement,
)
from deepval.judge.tables.values import ValueTable

TRACKS = ("kitti-public", "synthetic")
NOISE = (0.0, 0.01, 0.03, 0.1)
"""Standard deviation of the noise on an answer, as a share of the standard deviation of
the nonzero answers.
"""
DRAWS = 20
"""Times that noise is drawn."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore", InputWarning)
    cells = find_cells(TRACKS, data=options.data, work=options.work).cells
    highest: dict[str, tuple[float, str, str]] = {}
    noted: dict[tuple[str, float], float] = defaultdict(float)
    scores = 0
    for name, cell in cells.items():
        for allocator, table, score in held_out(cell):
            scores += 1
            for answer in hidden_quantities(suspicion(table, score)):
                near = agreement(answer, score)
                if near > highest.get(answer.words, (0.0,))[0]:
                    highest[answer.words] = near, allocator, Path(name).name
        for words, noise, share in noted_shares(cell.table):
            noted[words, noise] += share
        print(f"{Path(name).name}: done", flush=True)
    print(
        f"\n{len(cells)} cells, {scores} scores of allocators on units that they were "
        "not fitted on"
    )
    print(
        "| answer | highest agreement of such a score | "
        + " | ".join(f"noise {noise:.0%}" for noise in NOISE)
        + " |"
    )
    for words, (near, allocator, cell) in highest.items():
        shares = " | ".join(
            f"{noted[words, noise] / len(cells):.0%}" for noise in NOISE
        )
        print(f"| {words} | {near:.2f} ({allocator}, {cell}) | {shares} |")


def held_out(cell: BuiltCell) -> Iterator[tuple[str, ValueTable, np.ndarray]]:
    """Scores of the test units by every signal and by every recipe that can be fitted
    on the other units.
    """
    for name in (*SIGNALS, *RECIPES):
        try:
            scored = score_on(
                cell, name if name in SIGNALS else fit_on(cell, name), units="test"
            ).over(cell.table)
        except InputError:  # a recipe that needs columns that this cell does not have
            continue
        values = scored.values[scored.covered]
        yield (
            name,
            cell.table.keep(scored.covered),
            values if values.ndim == 1 else values[:, -1],
        )


def suspicion(table: ValueTable, score: np.ndarray) -> Suspicion:
    """What the notes check of a score."""
    following = notes.next_rows(table.unit, table.order)
    everything = np.ones(len(score), dtype=bool)
    suspect = Suspect("score", "deployable", score, everything, missing=0.0)
    return Suspicion(
        table.modes, None, table.losses[:, 0], table.losses[:, -1], following, [suspect]
    )


def agreement(answer: HiddenQuantity, score: np.ndarray) -> float:
    """The rank agreement that the check compares with its limit; 0 where there are too
    few answers.
    """
    some = answer.values != 0
    if np.count_nonzero(some) < notes.LEAST:
        return 0.0
    own = score[answer.rows]
    near = (
        rank_agreement(own, answer.values),
        rank_agreement(own[some], answer.values[some]),
    )
    return 0.0 if any(map(math.isnan, near)) else min(near)


def noted_shares(table: ValueTable) -> Iterator[tuple[str, float, float]]:
    """Per answer and noise level, the share of noisy answers that get a note."""
    rng = np.random.default_rng(0)
    value, following = table.decision_values, notes.next_rows(table.unit, table.order)
    later = np.where(following >= 0, value[following], 0.0)
    known = (value, -table.losses[:, -1], table.losses[:, 0], later)
    for answer, column in zip(
        hidden_quantities(suspicion(table, value)), known, strict=True
    ):
        for noise in NOISE:
            spread = noise * column[column != 0].std()
            hits = 0
            for _ in range(DRAWS if noise else 1):
                score = column + spread * rng.normal(size=len(column))
                hits += bool(notes.notes_on_mistakes(suspicion(table, score)))
            yield answer.words, noise, hits / (DRAWS if noise else 1)


if __name__ == "__main__":
    main()
