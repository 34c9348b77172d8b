"""How often the rule for copies mistakes independently fitted allocators for copies,
and how many disguises it detects.

Every shipped allocator is fitted to four targets on all but one of four folds of the
training and validation units, and on all of them, with a seed per fold; the small
networks with three more seeds. Each pair of these and of the untrained signals is
honest. Recipes that give the same fit for the same target are fitted once:
gate-multi-fidelity is gate-gbm on cells of two modes, and the -binary routers are the
-value ones. router-pixel needs pictures, and the scores of router-voi-feedback depend
on the policy: both are left out.

Run: python studies/honest_pairs.py CELL... (folders made by `deepval build`)
"""

import argparse
import warnings
from collections.abc import Callable, Mapping

import numpy as np

from deepval.allocators import RECIPES
from deepval.allocators.allocator import SIGNALS
from deepval.cells.fitting import fit_on, score_on
from deepval.cells.folder import BuiltCell, read_cell
from deepval.errors import InputError, InputWarning
from deepval.files.canonical import sha256
from deepval.protocol import integrity
from deepval.protocol.submissions import LONGEST_SKETCH

NOT_FITTED = (
    "gate-multi-fidelity",
    "router-mlp-binary",
    "router-gbm-binary",
    "router-pixel",
    "router-voi-feedback",
)
TARGETS = ("value", "value-binary", "value-rank", "value-signed-cdf")
FOLDS = 4
Scores = Mapping[str, np.ndarray]
DISGUISES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "2 s + 1": lambda s, noise: 2 * s + 1,
    "exp": lambda s, noise: np.exp(np.clip(s / s.std(), -50, 50)),
    "noise, 1e-9 of the standard deviation": lambda s, noise: (
        s + 1e-9 * s.std() * noise
    ),
    "noise, 1 %": lambda s, noise: s + 0.01 * s.std() * noise,
    "noise, 5 %": lambda s, noise: s + 0.05 * s.std() * noise,
    "noise, 10 %": lambda s, noise: s + 0.1 * s.std() * noise,
    "each score times 1 +- 1 %": lambda s, noise: s * (1 + 0.01 * noise),
    "two digits": lambda s, noise: np.array([float(f"{score:.1e}") for score in s]),
    "steps of 1/100 of the range": lambda s, noise: np.round(100 * s / np.ptp(s)),
    "steps of 1/10 of the standard deviation": lambda s, noise: np.round(
        10 * s / s.std()
    ),
    "exp, then noise of 1 %": lambda s, noise: (
        np.exp(np.clip(s / s.std(), -50, 5)) * (1 + 0.01 * noise)
    ),
}


def honest_scores(cell: BuiltCell) -> dict[str, np.ndarray]:
    """Scores of the cell's test inputs by all independently fitted allocators, and by
    the signals.
    """
    units = list(cell.split.fit)
    folds = [
        [unit for i, unit in enumerate(units) if i % FOLDS != fold]
        for fold in range(FOLDS)
    ]
    jobs = [
        (n, t, k)
        for n in RECIPES
        if n not in NOT_FITTED
        for t in TARGETS
        for k in range(FOLDS + 1)
    ]
    jobs += [("router-mlp-value", "value", seed) for seed in (101, 102, 103)]
    scores = {}
    for name, target, seed in jobs:
        try:
            fitted = fit_on(
                cell,
                name,
                target=target,
                units=[*folds, units][min(seed, FOLDS)],
                seed=seed,
            )
        except InputError:  # ridge regression has no binary target
            continue
        scores[f"{name}, {target}, {seed}"] = score_on(cell, fitted).score
    scores |= {name: score_on(cell, name).score for name in SIGNALS}
    number = len(cell.table.restrict(cell.split.test))
    return {
        name: values
        for name, values in scores.items()
        if len(values) == number and np.ptp(values) > 0
    }


def alike(scores: Scores) -> np.ndarray:
    """Which pairs the rule flags as copies."""
    rows = integrity.Rankings.of([*scores.values()])
    values = np.array(
        [integrity.standardised(row) for row in scores.values()], dtype=np.float32
    )
    return integrity.alike_pairs(rows, rows, values, values)


def alike_in_history(scores: Scores) -> np.ndarray:
    """Which pairs the rule flags by the sketches in a history; which inputs they sample
    does not matter here.
    """
    number = len(next(iter(scores.values())))
    sample = np.argsort([sha256(str(i).encode()) for i in range(number)])[
        :LONGEST_SKETCH
    ]
    rows = integrity.Rankings.of(
        [np.frombuffer(integrity.sketch(s[sample]), np.uint8) for s in scores.values()]
    )
    return rows.alike(rows)


def report(cell: str, scores: Scores) -> tuple[int, int]:
    """Print the figures of a cell; returns the number of honest pairs, and how many of
    them are flagged.
    """
    upper = np.triu_indices(len(scores), 1)
    flagged, before = alike(scores)[upper], alike_in_history(scores)[upper]
    print(
        f"{cell}: {flagged.size:,} honest pairs, {flagged.sum()} "
        f"flagged; by sketches {before.sum()}"
    )
    names = [*scores]
    for one, other in zip(upper[0][flagged], upper[1][flagged], strict=True):
        print(f"  flagged: {names[one]} and {names[other]}")
    rng = np.random.default_rng(0)
    for disguise, change in DISGUISES.items():
        copies = [(s, change(s, rng.normal(size=len(s)))) for s in scores.values()]
        seen = [
            alike({"own": own, "copy": copy})[0, 1]
            for own, copy in copies
            if np.ptp(copy) > 0
        ]
        print(f"  {disguise}: {np.mean(seen):.1%} of {len(seen)} copies flagged")
    return flagged.size, int(flagged.sum())


def main() -> None:
    """Print figures per cell and over all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cells", nargs="+")
    folders = parser.parse_args().cells
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        totals = [
            report(folder, honest_scores(read_cell(folder))) for folder in folders
        ]
    pairs, flagged = np.sum(totals, axis=0)
    print(
        f"over all: {flagged} of {pairs:,} "
        f"honest pairs flagged, {1000 * flagged / pairs:.2f} of 1,000"
    )


if __name__ == "__main__":
    main()
