"""Worlds whose truth is known -> how often the promises on what comes next are kept.

    python studies/promises.py rate [FOLDER]      rate of a threshold on new units
    python studies/promises.py harm FOLDER        certificates of harm
    python studies/promises.py watch              false alarms of dependent units

FOLDER has the public tables of routers (RouteLLM). Each takes a minute;
docs/statistics.md and docs/guarantees.md quote the tables.
"""

import sys
from pathlib import Path

import numpy as np

import deepval
from deepval.judge.priced_policies import harm_shares, safe_threshold
from deepval.judge.streaming import FrozenThreshold
from deepval.judge.unit_blocks import block_length, block_means
from deepval.judge.watching import CAPPED, HORIZON, RISK, Claim, evidence

ALPHA = 0.2
SPLITS = 300
CALIBRATIONS = 400
BOUND = 0.1
STREAMS = 400
GOOD = 0.5
"""Mean gain of a good unit, in standard deviations."""
NEVER = np.inf


def rate_on_new_units(
    units: tuple[np.ndarray, np.ndarray], score: tuple[np.ndarray, np.ndarray]
) -> tuple[bool, float, float, bool]:
    """Whether a threshold of the first units covers its rate on the second ones, the
    interval's width, the effective units, and whether few units decide.
    """
    table = deepval.ValueTable.from_columns(
        unit=units[0], losses={"cheap": np.ones(len(units[0])), "full": score[0] * 0.0}
    )
    found = deepval.evaluate(
        table, {"s": score[0]}, ALPHA, draws=50, thresholds=True
    ).threshold("s")
    cut = FrozenThreshold(found.threshold, found.tie_acceptance)
    rate = float(cut.expected(score[1]).mean())
    covered = found.rate_lo - 1e-12 <= rate <= found.rate_hi + 1e-12
    few = 3 * found.effective_units < found.rate_units / 2
    return covered, found.rate_hi - found.rate_lo, found.effective_units, few


def simulated(
    units: int, rng: np.random.Generator, *, uneven: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Units with effects of their own on scores, of equal or lognormal sizes."""
    sizes = np.full(units, 40)
    if uneven:
        sizes = np.maximum(1, np.round(40 * rng.lognormal(0, 1, units))).astype(int)
    unit = np.repeat(np.arange(units), sizes)
    return unit, rng.normal(size=len(unit)) + rng.normal(size=units)[unit]


def print_rates(folder: str | None) -> None:
    """Coverage, median width and effective units of the rate's interval."""
    rng = np.random.default_rng(0)
    worlds = {
        f"simulated, {kind}, {units} units": [
            (simulated(units, rng, uneven=uneven), simulated(units, rng, uneven=uneven))
            for _ in range(200)
        ]
        for kind, uneven in (("even", False), ("lognormal", True))
        for units in (9, 24, 100)
    }
    if folder is not None:
        worlds["RouteLLM, prompt length"] = list(halves(Path(folder), rng))
    print("world | coverage % | median width, points | mean U_eff | few units named %")
    for name, pairs in worlds.items():
        rows = [
            rate_on_new_units((one[0], other[0]), (one[1], other[1]))
            for one, other in pairs
        ]
        covered, width, effective, few = np.array(rows, dtype=float).T
        print(
            f"{name} | {100 * covered.mean():.1f} | {100 * np.median(width):.0f} | "
            f"{effective.mean():.1f} | {100 * few.mean():.0f}",
            flush=True,
        )


def halves(folder: Path, rng: np.random.Generator):
    """Random halves of RouteLLM's units, with the length of the prompt as the score."""
    group, length, _ = routellm(folder)
    units = group.max() + 1
    for _ in range(SPLITS):
        is_first = np.isin(group, rng.permutation(units)[: units // 2])
        yield (
            (group[is_first], length[is_first]),
            (group[~is_first], length[~is_first]),
        )


def routellm(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Units, lengths of prompts, and the losses of the two models."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "routellm_mmlu_gsm8k.parquet")
    group = np.unique(table["group"].to_pylist(), return_inverse=True)[1]
    length = table["prompt_chars"].to_numpy().astype(float)
    models = ("weak_mixtral_8x7b", "strong_gpt4_1106")
    right = [table[name].to_numpy(zero_copy_only=False) for name in models]
    return group, length, 1.0 - np.stack(right)


def print_harms(folder: str | None) -> None:
    """Shares of certificates whose true expected harm is above their target."""
    assert folder is not None
    group, length, losses = routellm(Path(folder))
    value = losses[0] - losses[1]
    share = harm_shares(value, group, losses[0], bound=BOUND)
    by_unit = [np.flatnonzero(group == unit) for unit in range(group.max() + 1)]
    rng = np.random.default_rng(0)
    print("target % | units | certainty | above % | rate % | gain, % of the loss")
    for target, units in ((0.01, 30), (0.01, 58), (0.02, 58), (0.02, 100)):
        draws = [rng.integers(0, len(by_unit), units) for _ in range(CALIBRATIONS)]
        for certainty in (None, 0.9):
            rows = []
            for drawn in draws:
                own = np.concatenate([by_unit[unit] for unit in drawn])
                sizes = [len(by_unit[unit]) for unit in drawn]
                theta = safe_threshold(
                    length[own],
                    np.repeat(np.arange(units), sizes),
                    share[own],
                    target=target,
                    bound=BOUND,
                    certainty=certainty,
                )
                taken = length > theta
                harms = np.minimum(np.bincount(group, share * taken), BOUND)
                gain = value[taken].sum() / losses[0].sum()
                rows.append((harms.mean() > target + 1e-12, taken.mean(), gain))
            above, rate, gain = 100 * np.array(rows, dtype=float).mean(axis=0)
            promise = "average" if certainty is None else f"{certainty:.0%}"
            figures = f"{above:.1f} | {rate:.1f} | {gain:.2f}"
            print(f"{100 * target:.0f} | {units} | {promise} | {figures}", flush=True)


def print_alarms(folder: str | None) -> None:
    """False alarms within 1,000 units of autoregressive gains, alone and in blocks, and
    units to the alarm once the gain is gone.
    """
    del folder  # these worlds are simulated
    rng = np.random.default_rng(0)
    print("correlation | blocks | alone: claim 1, .8 | blocks: claim 1, .8 | delay")
    for correlation in (0.0, 0.3, 0.5, 0.7, 0.85):
        lengths, alarms, delays = [], [], []
        for _ in range(STREAMS):
            reference, good, bad = (
                GOOD + autoregressive(rng, correlation, units)
                for units in (80, HORIZON, HORIZON)
            )
            cap = float(np.quantile(np.abs(reference), CAPPED))
            block = block_length(np.clip(reference, -cap, cap))
            # The mean of what counts, over many streams.
            many = GOOD + rng.normal(size=100_000)
            mean = float(np.clip(many, -cap, cap).mean())
            claims = [Claim("gain", share * mean) for share in (1.0, 0.8)]
            seen = np.clip(good, -cap, cap)
            alarms.append(
                [
                    alarm_after(claim, seen, cap, length) < NEVER
                    for length in (1, block)
                    for claim in claims
                ]
            )
            gone = np.clip(bad - GOOD, -cap, cap)
            delays.append(alarm_after(claims[1], gone, cap, block))
            lengths.append(block)
        figures = ", ".join(f"{100 * share:.1f}" for share in np.mean(alarms, axis=0))
        print(
            f"{correlation} | {np.median(lengths):.0f} | {figures} | "
            f"{np.median(delays):.0f}",
            flush=True,
        )


def autoregressive(
    rng: np.random.Generator, correlation: float, units: int
) -> np.ndarray:
    """Gains of a standard deviation of 1 that resemble their neighbours."""
    noise = rng.normal(size=units)
    noise[1:] *= np.sqrt(1 - correlation**2)
    for at in range(1, units):
        noise[at] += correlation * noise[at - 1]
    return noise


def alarm_after(claim: Claim, seen: np.ndarray, cap: float, block: int) -> float:
    """Units up to the alarm; `NEVER` without one."""
    path = evidence(claim.against(block_means(seen, block), cap))
    hit = np.flatnonzero(path >= HORIZON / block / RISK)
    return (hit[0] + 1) * block if len(hit) else NEVER


STUDIES = {"rate": print_rates, "harm": print_harms, "watch": print_alarms}

if __name__ == "__main__":
    name, *folder = sys.argv[1:]
    STUDIES[name](folder[0] if folder else None)
