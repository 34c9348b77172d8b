"""How often the next unit lies within what was seen, and how often second opinions with
and without draws hold.

Nominal against realised, in the worlds of intervals.py and by resampling the units of a
KITTI cell that are not test units: printed by `make slow`, quoted in
docs/guarantees.md.
"""

import json
import subprocess
import sys

import numpy as np
import pytest

import intervals
from deepval.judge.extras.units import jackknife
from deepval.judge.intervals import second_opinion
from deepval.judge.tables.scores import align_all
from deepval.judge.tables.values import read_values
from shared import shared_data

pytestmark = pytest.mark.slow
REPLICATIONS, DRAWS, NEW = 400, 300, 10


def beyond(units):
    """The chance that a new unit is worse than the worst of these."""
    return 1 / (units + 1)


def at_cut(value, score, cut, share):
    """The differences of units with random if every score from the cut on is
    escalated.
    """
    return (value * (score >= cut)).sum(axis=-1) - share * value.sum(axis=-1)


def opinions(point, spread, left_out, effective):
    """The second opinions with draws, of which the spread is known, and without."""
    units = len(left_out)
    drawn = second_opinion(point, spread, units=units, effective_units=effective)
    return [drawn, jackknife(point, left_out, effective)]


def judge(value, cheap, score, rng):
    """Differences of units, the cut, and the two second opinions."""
    units = len(value)
    ranked = intervals.Ranked(value, cheap, score)
    slots = int(np.floor(intervals.ALPHA * value.size + 0.5))
    cut = -np.partition(-score.ravel(), slots - 1)[slots - 1]
    difference = at_cut(value, score, cut, slots / value.size)
    counts = rng.multinomial(units, np.full(units, 1 / units), size=DRAWS).astype(float)
    own = opinions(
        difference.sum() / ranked.loss.sum(),
        float(ranked.difference(counts)[0].std()),
        ranked.difference(1 - np.eye(units))[0],
        intervals.effective_units(np.maximum(value, 0).sum(axis=1)),
    )
    return difference, cut, own


def coverage(rows, truth):
    """The share of intervals that hold the truth."""
    return np.mean([row.low <= truth <= row.high for row in rows])


def summary(rows, truth):
    """Coverage and median width of one interval over replications, in percent."""
    width = np.median([row.high - row.low for row in rows])
    return f"{100 * coverage(rows, truth):.1f} ({100 * width:.1f})"


@pytest.mark.parametrize("spread", intervals.SPREADS)
@pytest.mark.parametrize("score", ["skilled", "balanced"])
@pytest.mark.parametrize("units", intervals.SIZES)
def test_nominal_against_realised(spread, score, units):
    world = intervals.World(intervals.SPREADS[spread], score)
    rng = np.random.default_rng([units, sum(map(ord, score)), int(10 * world.spread)])
    within, worse, rows = [], [], []
    for _ in range(REPLICATIONS):
        difference, cut, own = judge(*world.sample(units, rng), rng)
        value, _, scored = world.sample(NEW, rng)
        new = at_cut(value, scored, cut, intervals.ALPHA)
        within.append(np.mean((new >= difference.min()) & (new <= difference.max())))
        worse.append(np.mean(new < difference.min()))
        rows.append(own)
    texts = [summary(column, world.truth) for column in zip(*rows, strict=True)]
    print(
        f"\n| {spread}, {score} | {units} | {100 * (1 - 2 * beyond(units)):.1f} | "
        f"{100 * np.mean(within):.1f} | {100 * beyond(units):.1f} | "
        f"{100 * np.mean(worse):.1f} | {' | '.join(texts)} |"
    )
    for realised, nominal in ((within, 1 - 2 * beyond(units)), (worse, beyond(units))):
        error = np.std(realised) / np.sqrt(REPLICATIONS)
        assert abs(np.mean(realised) - nominal) < 4 * error
    drawn, free = zip(*rows, strict=True)
    assert coverage(free, world.truth) >= coverage(drawn, world.truth) - 0.04


@pytest.fixture(scope="module")
def kitti_units(tmp_path_factory):
    """Values, all-cheap losses and criticality of the 15 sequences of CIWT and RRC that
    are not test units.
    """
    work, data = tmp_path_factory.mktemp("kitti"), shared_data("kitti_tracking")
    modes = [
        f"--mode={name}={data}/detections/{name}.parquet" for name in ("CIWT", "RRC")
    ]
    options = [
        "--geometry=monocular",
        "--system=braking",
        "--class=Car",
        "--scores-are=CIWT=raw",
        "--threshold=RRC=0.25",
    ]
    cell = ["build", "--out=.", "--dataset=kitti", f"--root={data}", *modes, *options]
    for words in (cell, ["score", "braking-monocular", "criticality", "--units=fit"]):
        subprocess.run([sys.executable, "-m", "deepval", *words], cwd=work, check=True)
    folder = work / "braking-monocular"
    table, split = (
        read_values(folder / "values.parquet"),
        json.loads((folder / "split.json").read_text("utf-8")),
    )
    table = table.restrict(
        [name for name in table.unit_ids if str(name) not in split["test"]]
    )
    (scores,) = align_all(table, {"criticality": folder / "scores" / "criticality.csv"})
    columns = table.decision_values, table.losses[:, 0], scores.values
    return [
        [column[table.unit == u] for u in range(len(table.unit_ids))]
        for column in columns
    ]


@pytest.mark.shared
@pytest.mark.parametrize("units", intervals.SIZES)
def test_on_kitti_units(units, kitti_units):
    """The fit units as a population: those judged are drawn with replacement, a next
    one without where they suffice.
    """
    value, cheap, score = kitti_units
    rng, number = np.random.default_rng(units), len(value)
    loss = np.array([one.sum() for one in cheap])
    gains = np.array([np.maximum(one, 0).sum() for one in value])

    def differences(seen, new):
        """The differences of units at the cut of those seen, and of a new one at the
        same cut.
        """
        pooled = np.concatenate([score[u] for u in seen])
        slots = int(np.floor(intervals.ALPHA * len(pooled) + 0.5))
        cut = -np.partition(-pooled, slots - 1)[slots - 1]
        by_unit = {
            u: at_cut(value[u], score[u], cut, np.mean(pooled >= cut))
            for u in {*seen, new}
        }
        return np.array([by_unit[u] for u in seen]), by_unit[new]

    truth = differences(range(number), 0)[0].sum() / loss.sum()
    within, worse, rows = [], [], []
    for _ in range(REPLICATIONS):
        *seen, new = (
            rng.permutation(number)[: units + 1]
            if units < number
            else rng.integers(0, number, units + 1)
        )
        difference, following = differences(seen, new)
        within.append(difference.min() <= following <= difference.max())
        worse.append(following < difference.min())
        seen = rng.integers(0, number, units)
        difference, own = differences(seen, seen[0])[0], loss[seen]
        drawn = (rng.choice(seen, units) for _ in range(DRAWS // 3))
        spread = float(
            np.std(
                [
                    differences(again, again[0])[0].sum() / loss[again].sum()
                    for again in drawn
                ]
            )
        )
        others = (np.delete(seen, u) for u in range(units))
        left_out = [
            differences(other, other[0])[0].sum() / loss[other].sum()
            for other in others
        ]
        effective = intervals.effective_units(gains[seen])
        point = difference.sum() / own.sum()
        rows.append(opinions(point, spread, np.array(left_out), effective))
    texts = [summary(column, truth) for column in zip(*rows, strict=True)]
    print(
        f"\n| KITTI, {number} fit units | {units} | "
        f"{100 * (1 - 2 * beyond(units)):.1f} | {100 * np.mean(within):.1f} | "
        f"{100 * beyond(units):.1f} | "
        f"{100 * np.mean(worse):.1f} | {' | '.join(texts)} |"
    )
    # ties make it smaller
    assert np.mean(worse) <= beyond(units) + 4 * np.sqrt(beyond(units) / REPLICATIONS)
    if units < number:
        assert abs(np.mean(within) - 1 + 2 * beyond(units)) < 0.1
