"""The unit bootstrap: deepval.evaluate and its kernel beside the obvious NumPy version,
which sorts in every draw.

The obvious version computes gains, benefits and the oracle's gains in every draw.
`evaluate` computes these, and the figures, intervals and verdicts of all rows. What it
leaves until somebody reads it (rows as records, answers, the units that verdicts rest
on, gaps, samples) is timed with it in a line of its own.

Run: python benchmarks/bench_bootstrap.py. CPU seconds of fresh processes with BLAS on
one thread, so that they count work and not threads that wait. The obvious version is
run on a few draws and extrapolated; on those draws both must give the same numbers.
Before the large case another process touches as much memory, so that its figures do not
hold what a virtual machine takes to find memory for the first time; the system's part
of the CPU seconds is shown.
"""

import dataclasses
import json
import resource
import sys
import time
from collections.abc import Sequence

import numpy as np
from figures import Figure, finish, run_alone

import deepval
from deepval.judge.draws import make_draws
from deepval.judge.kernel import top_sums
from deepval.judge.pairs import basis
from deepval.judge.tables.values import quota

SIZES = (
    154,
    447,
    233,
    144,
    314,
    297,
    270,
    800,
    390,
    803,
    294,
    373,
    78,
    340,
    106,
    376,
    209,
    145,
    339,
    1059,
    837,
)
"""Frames of KITTI's 21 tracking sequences."""
ALPHAS = (0.1, 0.2, 0.3, 0.5)
DRAWS, SEED = 1000, 0
SCORES, CHECKED, REPEATS = 20, 10, 5
INPUTS, UNITS = 10_000_000, 1_000
KINDS = ("continuous", "unit-correlated", "heavily tied")
LEAST_RATIO, TOLERANCE = 100, 1e-9


def obvious(
    score: np.ndarray,
    value: np.ndarray,
    rows_of: Sequence[np.ndarray],
    draw: np.ndarray,
) -> list[tuple[float, float]]:
    """Gain and benefit in one draw: its rows written out, sorted, and ties at the cut
    taken in expectation.
    """
    rows = np.concatenate([rows_of[unit] for unit in draw])
    drawn, gained = score[rows], value[rows]
    order = np.argsort(-drawn)
    down, gained = -drawn[order], gained[order]
    totals = [
        np.concatenate([[0.0], np.cumsum(part)])
        for part in (gained, np.maximum(gained, 0.0))
    ]
    sums = []
    for alpha in ALPHAS:
        k = int(np.floor(alpha * len(rows) + 0.5))
        first, last = (
            np.searchsorted(down, down[k - 1]),
            np.searchsorted(down, down[k - 1], side="right"),
        )
        share = (k - first) / (last - first)
        sums.append(
            tuple(
                float(total[first] + share * (total[last] - total[first]))
                for total in totals
            )
        )
    return sums


def obvious_oracle(
    value: np.ndarray, rows_of: Sequence[np.ndarray], draw: np.ndarray
) -> list[float]:
    """The oracle's gain in one draw."""
    rows = np.concatenate([rows_of[unit] for unit in draw])
    best = np.concatenate(
        [[0.0], np.cumsum(np.sort(np.maximum(value[rows], 0.0))[::-1])]
    )
    return [float(best[int(np.floor(alpha * len(rows) + 0.5))]) for alpha in ALPHAS]


def small_case() -> tuple[deepval.ValueTable, dict[str, np.ndarray]]:
    """KITTI's shape: 8,008 inputs in 21 units, 8.5 % affected; continuous, discrete and
    70 %-tied scores.
    """
    rng = np.random.default_rng(1)
    unit = np.repeat(np.arange(len(SIZES)), SIZES)
    value = np.where(
        rng.random(len(unit)) < 0.085, rng.normal(0.2, 1.0, len(unit)), 0.0
    )
    cheap = np.maximum(value, 0.0) + rng.gamma(0.5, 1.0, len(unit))
    names = np.array([f"{u:04d}" for u in range(len(SIZES))])
    table = deepval.ValueTable.from_columns(
        unit=names[unit],
        input=np.arange(len(unit)),
        losses={"cheap": cheap, "full": cheap - value},
    )
    scores = {}
    for number in range(SCORES):
        score = (
            rng.uniform(0, 2) * value
            + rng.normal(size=len(unit))
            + rng.normal(size=len(SIZES))[unit]
        )
        tied = np.where(rng.random(len(unit)) < 0.7, 0.0, score)
        scores[f"score{number:02d}"] = (score, np.floor(4 * np.abs(score)), tied)[
            number % 3
        ]
    return table, scores


def cpu_s(function, *arguments) -> tuple[float, object]:
    start = time.process_time()
    value = function(*arguments)
    return time.process_time() - start, value


def small(draws: int, repeats: int) -> dict[str, float]:
    table, scores = small_case()
    value, budgets, evaluate = (
        table.decision_values,
        [deepval.Selection(alpha) for alpha in ALPHAS],
        deepval.evaluate,
    )
    rows_of = [np.flatnonzero(table.unit == u) for u in range(len(table.unit_ids))]
    numbers = np.random.Generator(np.random.PCG64(SEED)).integers(
        0, len(rows_of), (draws, len(rows_of))
    )

    def by_sorting() -> tuple[list, list]:
        ranked = [
            [obvious(score, value, rows_of, draw) for draw in numbers[:CHECKED]]
            for score in scores.values()
        ]
        return ranked, [
            obvious_oracle(value, rows_of, draw) for draw in numbers[:CHECKED]
        ]

    def by_evaluate() -> deepval.Result:
        return evaluate(table, scores, budgets, draws=draws, seed=SEED)

    def by_everything() -> None:
        result = by_evaluate()
        for item in dataclasses.fields(result):
            getattr(result, item.name)

    def by_kernel() -> None:
        counts = make_draws(len(rows_of), draws, SEED).counts
        inputs = counts @ np.bincount(table.unit)
        slots = np.column_stack([quota(inputs, alpha) for alpha in ALPHAS])
        quantities, positive = (
            (value, np.maximum(value, 0.0)),
            np.flatnonzero(value > 0),
        )
        for score in scores.values():
            top_sums(score, quantities, table.unit, counts=counts, slots=slots)
        top_sums(
            value[positive],
            value[None, positive],
            table.unit[positive],
            counts=counts,
            slots=slots,
        )

    taken = {name: [] for name in ("obvious", "evaluate", "everything", "kernel")}
    for _ in range(repeats):
        seconds, expected = cpu_s(by_sorting)
        taken["obvious"].append(seconds * draws / CHECKED)
        seconds, result = cpu_s(by_evaluate)
        taken["evaluate"].append(seconds)
        taken["everything"].append(cpu_s(by_everything)[0])
        taken["kernel"].append(cpu_s(by_kernel)[0])
    return {"first": taken["evaluate"][0], "error": small_error(result, expected)} | {
        name: min(seconds) for name, seconds in taken.items()
    }


def small_error(result: deepval.Result, expected: tuple[list, list]) -> float:
    """Largest relative difference between both versions' gain, benefit and oracle gain
    on the draws that both ran.
    """
    judged = {
        (item.row.allocator, item.row.alpha): item.gains
        for item in basis(result).judged
    }
    ranked, oracle = np.array(expected[0]), np.array(expected[1])
    pairs = []
    for b, alpha in enumerate(ALPHAS):
        pairs.append((judged["oracle", alpha].gain[1 : 1 + CHECKED], oracle[:, b]))
        for s in range(SCORES):
            sample = judged[f"score{s:02d}", alpha]
            pairs.append((sample.gain[1 : 1 + CHECKED], ranked[s, :, b, 0]))
            pairs.append((sample.benefit[1 : 1 + CHECKED], ranked[s, :, b, 1]))
    return max(
        float(np.max(np.abs(one - two) / np.maximum(np.abs(two), 1e-300)))
        for one, two in pairs
    )


def large(kind: str, inputs: int, units: int, draws: int) -> dict[str, float]:
    rng = np.random.default_rng(2)
    unit = np.sort(rng.integers(0, units, inputs))
    full = rng.standard_normal(inputs)
    full[rng.random(inputs) >= 0.085] = 0.0
    cheap = np.maximum(full, 0.0)
    cheap += rng.random(inputs)
    np.subtract(cheap, full, out=full)
    score = rng.standard_normal(inputs)
    if kind == "unit-correlated":
        score += rng.standard_normal(units)[unit]
    if kind == "heavily tied":
        score[rng.random(inputs) < 0.7] = 0.0
    ids, evaluate = np.arange(inputs), deepval.evaluate
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.process_time()
    table = deepval.ValueTable.from_columns(
        unit=unit, input=ids, losses={"cheap": cheap, "full": full}
    )
    built = time.process_time()
    result = evaluate(
        table,
        {"score": score},
        [deepval.Selection(alpha) for alpha in ALPHAS],
        draws=draws,
    )
    end, after = time.process_time(), resource.getrusage(resource.RUSAGE_SELF)
    draw = np.random.Generator(np.random.PCG64(SEED)).integers(
        0, units, (draws, units)
    )[0]
    bounds = np.searchsorted(unit, np.arange(units + 1))
    rows_of = [np.arange(bounds[u], bounds[u + 1]) for u in table.unit_ids.astype(int)]
    seconds, expected = cpu_s(obvious, score, table.decision_values, rows_of, draw)
    judged = {
        item.row.alpha: item.gains
        for item in basis(result).judged
        if item.row.allocator == "score"
    }
    error = max(
        max(
            abs(judged[alpha].gain[1] / gain - 1),
            abs(judged[alpha].benefit[1] / benefit - 1),
        )
        for alpha, (gain, benefit) in zip(ALPHAS, expected, strict=True)
    )
    return {
        "evaluate": end - start,
        "build": built - start,
        "system": after.ru_stime - before.ru_stime,
        "data_gb": before.ru_maxrss * 1024 / 1e9,
        "obvious": seconds * draws,
        "error": error,
    }


def touch_memory(inputs: int) -> None:
    run_alone("-c", f"import numpy; numpy.ones({20 * inputs})")


def small_figures(draws: int, repeats: int) -> list[Figure]:
    case = json.loads(run_alone(__file__, "small", draws, repeats).output)
    if case["error"] >= TOLERANCE:
        raise SystemExit(f"both versions must agree, differ by {case['error']}")
    ratio, kernel = case["obvious"] / case["evaluate"], case["obvious"] / case["kernel"]
    print(
        f"{SCORES} scores x {len(ALPHAS)} budgets x {draws:,} draws, {sum(SIZES):,} "
        f"inputs, {len(SIZES)} units"
    )
    print(
        f"  obvious           {case['obvious']:8.3f} s  extrapolated from {CHECKED} "
        "draws of every score"
    )
    print(
        f"  deepval.evaluate  {case['evaluate']:8.3f} s  {ratio:.0f} times faster "
        f"(first call {case['first']:.3f} s)"
    )
    every = case["obvious"] / case["everything"]
    print(
        f"  and all read      {case['everything']:8.3f} s  {every:.0f} times faster, "
        "with answers, units and samples"
    )
    print(f"  kernel alone      {case['kernel']:8.3f} s  {kernel:.0f} times faster")
    print(
        f"  CPU seconds, least of {repeats} runs; equal "
        f"on those draws to {case['error']:.1e}"
    )
    task = f"evaluate: {SCORES} scores, {sum(SIZES):,} inputs, {len(SIZES)} units"
    beside = f"obvious {case['obvious']:.1f} s (extrapolated): {ratio:.0f} times"
    fast = case["evaluate"] < 0.5 and ratio >= LEAST_RATIO
    target = f"< 0.5 s, at least {LEAST_RATIO} times"
    return [Figure(task, f"{case['evaluate']:.3f} s CPU", beside, target, fast)]


def large_figure(kind: str, inputs: int, units: int, draws: int) -> Figure:
    touch_memory(inputs)
    run = run_alone(__file__, "large", kind, inputs, units, draws)
    case = json.loads(run.output)
    if case["error"] >= TOLERANCE:
        raise SystemExit(f"both versions must agree, differ by {case['error']}")
    ratio = case["obvious"] / case["evaluate"]
    print(f"  {kind}")
    print(
        f"    obvious           {case['obvious']:8,.0f} s  extrapolated from one draw"
    )
    print(f"    deepval.evaluate  {case['evaluate']:8.2f} s  {ratio:,.0f} times faster")
    print(
        f"    of which building {case['build']:.2f} "
        f"s, the system's part {case['system']:.2f} s"
    )
    print(
        f"    peak memory       {run.peak_gb:8.2f} "
        f"GB, of which the data {case['data_gb']:.2f} GB"
    )
    print(f"    CPU seconds of one run; equal on that draw to {case['error']:.1e}")
    return Figure(
        f"evaluate: 1 {kind} score, {inputs:.0e} inputs",
        f"{case['evaluate']:.2f} s CPU, {run.peak_gb:.2f} GB",
        f"obvious {case['obvious']:,.0f} s (extrapolated): {ratio:,.0f} times",
        "< 3 s, < 1.8 GB",
        case["evaluate"] < 3 and run.peak_gb < 1.8,
    )


def main(*, tiny: bool = False) -> list[Figure]:
    inputs, units, draws = (20_000, 50, 20) if tiny else (INPUTS, UNITS, DRAWS)
    figures = small_figures(draws, 1 if tiny else REPEATS)
    print(
        f"1 score x {len(ALPHAS)} budgets x {draws:,} draws, {inputs:,} inputs, "
        f"{units:,} units; table from arrays"
    )
    return figures + [large_figure(kind, inputs, units, draws) for kind in KINDS]


if __name__ == "__main__":
    if sys.argv[1:2] == ["small"]:
        print(json.dumps(small(*map(int, sys.argv[2:]))))
    elif sys.argv[1:2] == ["large"]:
        print(json.dumps(large(sys.argv[2], *map(int, sys.argv[3:]))))
    else:
        finish(main())
