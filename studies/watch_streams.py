"""Streams of units whose truth is known -> false alarms of `deepval.Watch`, and delays
beside an oracle CUSUM.

Run: python studies/watch_streams.py [STREAMS], with the word kitti and two cells, or
with the word references and a number of them. It prints the tables that
docs/guarantees.md quotes; test_watch_streams.py runs a part of it. Units are drawn from
a pool of each kind, so that the pool is the truth. The oracle knows the distribution of
a unit's gain before and after the change, and its threshold gives the same rate of
false alarms, 1 % within 1,000 good units.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deepval.cli.watch import _scored
from deepval.judge.watching import (
    CAPPED,
    HORIZON,
    RISK,
    Claim,
    Watch,
    _counted,
    evidence,
    usual_claims,
)
from intervals import ALPHA, SPREADS, World

POOL, GOOD_BEFORE, LONGEST = 100_000, 200, 1500
BINS = 300
NEVER = 10**9
SHADOWED = {
    "all": lambda escalated: np.ones(escalated.shape),
    "30 %": lambda escalated: np.full(escalated.shape, 0.3),
    "10 %": lambda escalated: np.full(escalated.shape, 0.1),
    "escalated, 10 % of others": lambda escalated: np.where(escalated, 1.0, 0.1),
}
"""Probability with which both modes run on an input."""
REFERENCES = (10, 20, 80, 300)


@dataclass(frozen=True)
class Pools:
    """Gain, harm and rate of units while the score is good, and after it became noise
    or was reversed.
    """

    good: np.ndarray
    noise: np.ndarray
    reversed: np.ndarray
    cap: float

    @classmethod
    def of(
        cls,
        spread: str,
        rng: np.random.Generator,
        *,
        units: int = POOL,
        shadowed: str = "all",
    ) -> "Pools":
        """Units of a world, by the inputs that are shadowed; units without any are left
        out, as in a log.
        """
        value, cheap, score = World(SPREADS[spread], "skilled").sample(units, rng)
        scores = {
            "good": score,
            "noise": rng.normal(size=score.shape),
            "reversed": -score,
        }
        pools = {}
        for name, own in scores.items():
            escalated = own >= np.quantile(own, 1 - ALPHA)
            chance = SHADOWED[shadowed](escalated)
            weight = (rng.random(own.shape) < chance) / chance
            seen = weight.any(axis=1)
            parts = (escalated - ALPHA) * value, escalated * np.maximum(-value, 0)
            means = [
                np.average(part[seen], axis=1, weights=weight[seen]) / cheap.mean()
                for part in parts
            ]
            # of all inputs in the log
            pools[name] = np.stack([*means, escalated[seen].mean(axis=1)], axis=-1)
        return cls(**pools, cap=float(np.quantile(np.abs(pools["good"][:, 0]), CAPPED)))

    def counted(self, name: str) -> np.ndarray:
        return capped(getattr(self, name), self.cap)

    def claim(self, kind: str, share: float) -> Claim:
        """This share of the mean of good units."""
        return Claim(
            kind,
            share
            * float(self.counted("good").mean(axis=0)[("gain", "harm").index(kind)]),
        )


def capped(units: np.ndarray, cap: float) -> np.ndarray:
    return np.column_stack([np.clip(units[:, :2], -cap, cap), units[:, 2]])


def by_reference(repetitions: int = 200) -> str:
    """Streams under the default claims of references of several sizes, shadowed alike:
    false alarms, and delays.
    """
    head = (
        "| world | shadowed | reference | false alarms | noise: found, after | "
        "reversed: found, after |"
    )
    lines = [head, "|---|---|---|---|---|---|"]
    for spread in SPREADS:
        for shadowed in SHADOWED:
            pools = Pools.of(spread, np.random.default_rng(7), shadowed=shadowed)
            for size in REFERENCES:
                lines.append(
                    f"| {spread} | {shadowed} | {size} | "
                    + defaults(pools, size, repetitions)
                    + " |"
                )
                print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def defaults(pools: Pools, size: int, repetitions: int) -> str:
    rng, after = np.random.default_rng(size), {"good": [], "noise": [], "reversed": []}
    for _ in range(repetitions):
        reference = pools.good[rng.integers(0, len(pools.good), size)]
        cap = float(np.quantile(np.abs(reference[:, 0]), CAPPED))
        if not cap > 0:
            continue  # the command refuses such a reference
        claims = [
            Claim.parse(text) for text in usual_claims(capped(reference, cap), cap)
        ]
        for name, first in after.items():
            pool = getattr(pools, name)
            units = capped(pool[rng.integers(0, len(pool), HORIZON)], cap)
            seen = dict(zip(("gain", "harm", "rate"), units.T, strict=True))
            paths = np.stack(
                [evidence(claim.against(seen[claim.kind], cap)) for claim in claims]
            )
            hit = (paths >= HORIZON / RISK).any(axis=0)
            first.append(int(hit.argmax()) + 1 if hit.any() else NEVER)
    share = {name: np.mean(np.array(first) < NEVER) for name, first in after.items()}
    texts = [f"{100 * share['good']:.1f} %"]
    for name in ("noise", "reversed"):
        median = np.median(after[name])
        texts.append(
            f"{100 * share[name]:.0f} %" + (f", {median:.0f}" if median < NEVER else "")
        )
    return " | ".join(texts)


def delays(path: np.ndarray, enough: float, before: int = 0) -> np.ndarray:
    """Units from the change to the alarm; streams with an alarm before the change are
    left out.
    """
    hit = path >= enough
    first = np.where(hit.any(axis=1), hit.argmax(axis=1) + 1, NEVER)
    return first[first > before] - before


def watched(
    claim: Claim, pools: Pools, parts: list[tuple[str, int]], streams: int, seed: int
) -> np.ndarray:
    """Evidence along streams whose parts are so many units of a pool each."""
    rng = np.random.default_rng(seed)
    column = ("gain", "harm").index(claim.kind)
    drawn = [
        pools.counted(name)[rng.integers(0, len(pools.good), (streams, units)), column]
        for name, units in parts
    ]
    return evidence(claim.against(np.concatenate(drawn, axis=1), pools.cap))


def false_alarms(claim: Claim, pools: Pools, streams: int, seed: int = 1) -> float:
    rate = [
        (
            watched(claim, pools, [("good", HORIZON)], min(1000, streams), seed + n)[
                :, :
            ].max(axis=1)
            >= HORIZON / RISK
        )
        for n in range(max(1, streams // 1000))
    ]
    return float(np.mean(rate))


class Oracle:
    """CUSUM of the log-likelihood ratio of a unit's gain, with a threshold for the same
    false alarms.
    """

    def __init__(self, pools: Pools, after: str, streams: int) -> None:
        self.pools, self.after = pools, after
        good, bad = pools.good[:, 0], getattr(pools, after)[:, 0]
        self.edges = np.unique(
            np.quantile(np.concatenate([good, bad]), np.linspace(0, 1, BINS + 1)[1:-1])
        )
        shares = [
            np.bincount(np.searchsorted(self.edges, p), minlength=len(self.edges) + 1)
            + 1.0
            for p in (good, bad)
        ]
        self.ratio = np.log(shares[1] / shares[0])
        most = [
            self.path([("good", HORIZON)], min(1000, streams), 50 + n).max(axis=1)
            for n in range(streams // 1000)
        ]
        self.enough = float(np.quantile(np.concatenate(most), 1 - RISK))

    def path(self, parts: list[tuple[str, int]], streams: int, seed: int) -> np.ndarray:
        rng, pieces = np.random.default_rng(seed), []
        for name, units in parts:
            own = self.ratio[
                np.searchsorted(self.edges, getattr(self.pools, name)[:, 0])
            ]
            pieces.append(own[rng.integers(0, len(own), (streams, units))])
        steps = np.concatenate(pieces, axis=1)
        total = np.cumsum(steps, axis=1)
        lowest = np.minimum.accumulate(
            np.concatenate([np.zeros((streams, 1)), total[:, :-1]], axis=1), axis=1
        )
        return total - lowest


def table(streams: int) -> str:
    lines = [
        "| world, change | oracle | gain>=0.5 | gain>=0.8 | gain>=1 | harm<=1.25 |",
        "|---|---|---|---|---|---|",
    ]
    for spread in SPREADS:
        pools = Pools.of(spread, np.random.default_rng(7))
        claims = [pools.claim("gain", share) for share in (0.5, 0.8, 1.0)] + [
            pools.claim("harm", 1.25)
        ]
        rates = [
            f"{100 * false_alarms(claim, pools, streams):.2f} %" for claim in claims
        ]
        lines.append(f"| {spread}: false alarms | 1 % | {' | '.join(rates)} |")
        for after in ("noise", "reversed"):
            oracle, few = Oracle(pools, after, streams), min(streams, 1000)
            for before in (0, GOOD_BEFORE):
                parts = [("good", before), (after, LONGEST)]
                best = np.median(
                    delays(oracle.path(parts, few, 3), oracle.enough, before)
                )
                own = [
                    np.median(
                        delays(
                            watched(claim, pools, parts, few, 3), HORIZON / RISK, before
                        )
                    )
                    for claim in claims
                ]
                texts = [
                    f"{d:.0f} ({d / best:.1f})" if d < NEVER / 2 else f"over {LONGEST}"
                    for d in own
                ]
                lines.append(
                    f"| {spread}: {after} "
                    f"after {before} | {best:.0f} | {' | '.join(texts)} |"
                )
    return "\n".join(lines)


def kitti(before: str, after: str, score: str = "lost", streams: int = 10_000) -> str:
    """Units of two cells drawn with replacement: the second detector's from the 501st
    unit on.
    """
    cells = [_scored(Path(folder), score) for folder in (before, after)]
    watch = Watch.begin(cells[0], [f"rate={ALPHA}+-0.5"], alpha=ALPHA, blocks=1)
    pools = [
        _counted(watch.read(sorted_by_unit(cell), end=True).units, watch.cap)
        for cell in cells
    ]
    lines, rng = (
        [
            (
                "cap "
                f"{watch.cap:.4f}, "
                f"means {pools[0].mean(axis=0)} and {pools[1].mean(axis=0)}"
            )
        ],
        np.random.default_rng(0),
    )
    means = pools[0].mean(axis=0)
    claims = (
        Claim("gain", means[0]),
        Claim("gain", 0.8 * means[0]),
        Claim("harm", 1.25 * means[1]),
    )
    for claim in (*claims, Claim("rate", means[2], 0.02)):
        good, bad = (
            pool[:, ("gain", "harm", "rate").index(claim.kind)] for pool in pools
        )
        quiet = rng.choice(good, (streams, HORIZON))
        false = (
            evidence(claim.against(quiet, watch.cap)).max(axis=1) >= HORIZON / RISK
        ).mean()
        changed = np.concatenate(
            [quiet[:1000, :500], rng.choice(bad, (len(quiet[:1000]), 500))], axis=1
        )
        delay = delays(evidence(claim.against(changed, watch.cap)), HORIZON / RISK, 500)
        lines.append(
            f"{claim}: false alarms "
            f"{100 * false:.2f} %, "
            f"found {np.mean(delay <= 500):.3f} after {np.median(delay):.0f}"
        )
    return "\n".join(lines)


def sorted_by_unit(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    order = np.argsort(np.asarray(rows["unit"]), kind="stable")
    return {name: np.asarray(column)[order] for name, column in rows.items()}


if __name__ == "__main__":
    if sys.argv[1:2] == ["kitti"]:
        print(kitti(*sys.argv[2:]))
    elif sys.argv[1:2] == ["references"]:
        print(by_reference(*map(int, sys.argv[2:])))
    else:
        print(table(int(sys.argv[1]) if sys.argv[1:] else 10_000))
