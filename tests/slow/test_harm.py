"""Units of a known world, or of a cell -> the harm that certified and plain thresholds
do to new units.

Run: python tests/slow/test_harm.py [REPLICATIONS [CELL SCORE ...]] prints the tables of
docs/guarantees.md. Of a cell, the fit units are drawn: without replacement where they
are enough for the calibration and a new one, else with it.
"""

import math
import sys

import numpy as np
import pytest

from deepval.judge.priced_policies import harm_shares, safe_threshold
from deepval.judge.streaming import FrozenThreshold
from intervals import SIZES, SPREADS, World

pytestmark = pytest.mark.slow
BOUND, RATE, NEW = 0.1, 0.5, 10
TARGETS = (0.01, 0.02)


def trial(values, losses, scores, units, target):
    """Mean harm of the new units, share of their inputs escalated and gain: certified,
    and plain at the same budget.
    """
    unit = np.repeat(np.arange(len(values)), [len(own) for own in values])
    value, loss, score = (np.concatenate(of) for of in (values, losses, scores))
    share, known = harm_shares(value, unit, loss, bound=BOUND), unit < units
    plain = FrozenThreshold.calibrate(score[known], RATE).theta
    safe = safe_threshold(
        score[known], unit[known], share[known], target=target, bound=BOUND
    )
    for theta in (max(safe, plain), plain):
        taken = ~known & (score > theta)
        harm = np.minimum(
            np.bincount(unit, share * taken, minlength=len(values))[units:], BOUND
        )
        yield (
            harm.mean(),
            taken.sum() / (~known).sum(),
            value[taken].sum() / loss[~known].sum(),
        )


def realised(draw, units, target, replications):
    """Mean of every figure over replications, and the standard error of the certified
    harm.
    """
    figures = np.array(
        [[*trial(*draw(seed), units, target)] for seed in range(replications)]
    )
    return figures.mean(axis=0), figures[:, 0, 0].std() / math.sqrt(replications)


def world_draw(world, units):
    def draw(seed):
        value, loss, score = world.sample(
            units + NEW, np.random.default_rng([seed, units])
        )
        return value, loss, score

    return draw


def cell_draw(folder, name, units):
    from deepval.driving.cells.folder import read_cell
    from deepval.judge.cases import case_of

    cell = read_cell(folder)
    own = case_of(cell).scores({})[name]
    table = cell.table
    rows = [
        np.flatnonzero(table.unit_ids[table.unit] == unit) for unit in cell.split.fit
    ]

    def draw(seed):
        rng = np.random.default_rng([seed, units])
        chosen = [
            rows[n]
            for n in rng.choice(len(rows), units + 1, replace=units + 1 > len(rows))
        ]
        return [
            [of[at] for at in chosen]
            for of in (table.decision_values, table.losses[:, 0], own.values)
        ]

    return draw


CASES = [
    (target, units)
    for target in TARGETS
    for units in SIZES
    if units >= round(BOUND / target) - 1
]


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize(("target", "units"), CASES)
def test_new_units_are_harmed_by_no_more_than_certified_on_average(
    spread, target, units
):
    (certified, _), error = realised(
        world_draw(World(SPREADS[spread], "noise"), units), units, target, 200
    )
    assert certified[0] <= target + 2.5 * error


def table(name, draw_for, replications):
    lines = [
        (
            f"{name}: harm certified / harm plain / rate certified / rate plain / gain "
            "certified / gain plain, %"
        ),
        "",
    ]
    for target, units in CASES:
        figures, error = realised(draw_for(units), units, target, replications)
        texts = " | ".join(f"{100 * value:.2f}" for value in figures.T.ravel())
        lines.append(f"| {target:.0%} | {units} | {texts} | ± {100 * error:.3f} |")
    return "\n".join(lines)


def main(replications="1000", folder="", *scores):
    for spread, size in SPREADS.items():
        for score in ("skilled", "noise"):
            world = World(size, score)
            print(
                table(
                    f"{spread}, {score}",
                    lambda units, of=world: world_draw(of, units),
                    int(replications),
                ),
                flush=True,
            )
    for score in scores:
        print(
            table(
                score,
                lambda units, of=score: cell_draw(folder, of, units),
                int(replications),
            ),
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
