"""Exact multiple-choice knapsack beside HiGHS on one instance, at a million inputs, and
in every draw of units.

Run: python benchmarks/bench_knapsack.py. CPU seconds of this process (HiGHS solves in
it too), medians for ours; every plan must pass its check as optimal, and both solvers
must agree. HiGHS gets the costs without their common divisor, which helps it, and of
the seeds 0 to 7 the one that it was done with soonest. Scores per mode are judged with
1,000 draws beside the relaxed (LP) path of each draw in NumPy, which sorts its steps
again and stops at the budget: run on a few draws and extrapolated; it is no whole plan,
so its believed value may only be larger. Three models whose calls replace each other,
each input at its own prices, are judged beside the same relaxed paths, two per draw:
one for the oracle, one for the scores.
"""

import contextlib
import os
import sys
import time
from pathlib import Path

import numpy as np
from bench_bootstrap import DRAWS, SIZES
from figures import Figure, finish

import deepval
from deepval.judge import fills, knapsack, mode_plans
from deepval.judge.draws import make_draws
from deepval.judge.mode_plans import steps

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from reference.knapsack import highs

COSTS = np.array([0, 14380, 16720, 18470])
"""Microseconds of three modes above cheap."""
SEED, LEAST_RATIO, MOST_SECONDS, TOLERANCE = 4, 500, 8.0, 1e-9
CASES = (
    # inputs, alpha, share of the inputs that have a value, repeats
    (8_008, 0.2, 1.0, 15),
    (8_008, 0.1, 1.0, 15),
    (8_008, 0.5, 1.0, 15),
    (8_008, 0.2, 0.08, 101),
    (8_008, 0.05, 0.08, 101),
    (100_000, 0.2, 1.0, 7),
    (1_000_000, 0.2, 1.0, 5),
    (1_000_000, 0.5, 1.0, 5),
)
TINY_CASES = ((200, 0.2, 1.0, 1), (1_000, 0.2, 1.0, 1))


def instance(inputs: int, alpha: float, share: float) -> tuple[np.ndarray, int]:
    """Values of three modes above cheap, and the budget of a zero-cost allocator."""
    rng = np.random.default_rng(SEED)
    values = np.column_stack(
        [np.zeros(inputs), rng.normal(0.2, 1, (inputs, 3)).cumsum(axis=1)]
    )
    values[rng.random(inputs) >= share] = 0.0
    return values, int(1000 * inputs * alpha * 18.47 + 1e-6)


def solved(
    values: np.ndarray, budget: int, repeats: int
) -> tuple[float, float, mode_plans.ModePlan, mode_plans.Verification]:
    """Median CPU seconds of the solution and CPU seconds of its check, the plan and
    what the check says.
    """
    times = []
    for _ in range(repeats):
        began = time.process_time()
        plan = knapsack.solve(values, COSTS, budget)
        times.append(time.process_time() - began)
    began = time.process_time()
    proof = mode_plans.check(plan, values, COSTS)
    return float(np.median(times)), time.process_time() - began, plan, proof


@contextlib.contextmanager
def silence():
    """No output, not even what compiled code writes: HiGHS tells thousands of times
    that it found a solution.
    """
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def draws_case() -> tuple[deepval.ValueTable, np.ndarray, np.ndarray]:
    """KITTI's shape with three modes: the table, an allocator's estimates of both
    values, and what the modes cost.
    """
    rng, costs = np.random.default_rng(SEED), np.array([0, 14380, 18470])
    unit = np.repeat(np.arange(len(SIZES)), SIZES)
    values = rng.normal(0.2, 1, (len(unit), 2)).cumsum(axis=1)
    cheap = np.maximum(values.max(axis=1), 0.0) + rng.gamma(0.5, 1.0, len(unit))
    losses = {
        "cheap": cheap,
        "middle": cheap - values[:, 0],
        "full": cheap - values[:, 1],
    }
    modes = {"cheap": {"ms": 5.0}, "middle": {"ms": 14.38}, "full": {"ms": 18.47}}
    table = deepval.ValueTable.from_columns(
        unit=np.array([f"{u:04d}" for u in unit]),
        input=np.arange(len(unit)),
        losses=losses,
        costs={"modes": modes, "allocators": {"mine": {"ms": 0.0}}},
    )
    return table, values + rng.normal(size=values.shape), costs


def path(wanted: np.ndarray, costs: np.ndarray, budget: float) -> float:
    """The relaxed optimum of one draw: its hull steps sorted, and taken until the
    budget is spent.
    """
    prices, rows = np.broadcast_to(costs, wanted.shape), np.arange(len(wanted))
    found = steps(wanted, prices)
    order = np.argsort(-found.slope, kind="stable")
    spent, gained = (
        np.cumsum(found.cost[order]),
        np.cumsum((found.slope * found.cost)[order]),
    )
    begun, saved = wanted[rows, found.start].sum(), prices[rows, found.start].sum()
    return float(
        begun + np.interp(budget - saved, np.append(0, spent), np.append(0.0, gained))
    )


def in_draws(alpha: float, draws: int, repeated: int) -> Figure:
    """Judging scores per mode in many draws, beside the relaxed path of some of
    them.
    """
    table, score, costs = draws_case()
    began = time.process_time()
    deepval.evaluate(
        table, {"mine": score}, [deepval.Latency(alpha)], draws=draws, seed=SEED
    )
    whole = time.process_time() - began
    wanted = np.column_stack([np.zeros(len(score)), np.maximum(score, 0.0)])
    counts = make_draws(len(SIZES), draws, SEED).counts
    budgets = np.floor(1000 * (counts @ np.array(SIZES)) * alpha * 18.47 + 1e-6).astype(
        np.int64
    )
    began = time.process_time()
    rows = [
        np.repeat(wanted, count[table.unit].astype(int), axis=0)
        for count in counts[:repeated]
    ]
    relaxed = [
        path(row, costs, budget) for row, budget in zip(rows, budgets, strict=False)
    ]
    obvious = (time.process_time() - began) * draws / repeated
    began = time.process_time()
    sums, solved = fills.plan_sums(
        wanted,
        costs,
        table.unit,
        quantities=wanted[:, :, None],
        counts=counts,
        budgets=budgets,
    )
    planned = time.process_time() - began
    for least, upper, one in zip(sums[:, 0], relaxed, solved, strict=False):
        if one and not upper * (1 - 1e-3) <= least <= upper * (1 + 1e-12):
            raise SystemExit(
                "a plan must lie within 0.1 % below "
                f"the relaxed path: {least!r}, {upper!r}"
            )
    print(
        f"{len(score):,} inputs, 3 modes, {draws:,} draws, alpha {alpha}: evaluate "
        f"{whole:.2f} s, plans of the scores {planned:.2f} s ({solved.mean():.1%} at "
        f"once), a relaxed path per draw {obvious:.2f} s (extrapolated)"
    )
    task, beside = (
        f"per-mode scores, {draws:,} draws, alpha {alpha}",
        f"relaxed path per draw {obvious:.2f} s",
    )
    return Figure(task, f"{whole:.2f} s CPU", beside, "not slower", whole <= obvious)


def own_prices(inputs: int, draws: int, repeated: int) -> Figure:
    """Judging three models with prices per input, one call each, beside relaxed paths
    of the drawn inputs.
    """
    rng, units = np.random.default_rng(SEED), 50
    values = rng.normal(0.2, 1, (inputs, 2)).cumsum(axis=1)
    cheap = np.maximum(values.max(axis=1), 0.0) + rng.gamma(0.5, 1.0, inputs)
    names, unit = ("small", "medium", "large"), np.arange(inputs) % units
    prices = {
        name: mean * rng.gamma(2.0, 0.5, inputs)
        for name, mean in zip(names, (1e-4, 1e-3, 1e-2), strict=True)
    }
    table = deepval.ValueTable.from_columns(
        unit=np.array([f"{u:02d}" for u in unit]),
        losses=dict(
            zip(names, (cheap, *(cheap - value for value in values.T)), strict=True)
        ),
        input_costs=prices,
        costs={"allocators": {"mine": {"usd": 0.0}}},
    )
    score, budget = (
        values + rng.normal(size=values.shape),
        deepval.Money(0.2, accounting="skipping"),
    )
    began = time.process_time()
    result = deepval.evaluate(table, {"mine": score}, [budget], draws=draws, seed=SEED)
    whole = time.process_time() - began
    costs = np.column_stack([prices[name] - prices["small"] for name in names])
    estimates = [table.mode_values, np.column_stack([np.zeros(inputs), score])]
    began, gains = time.process_time(), []
    for count in make_draws(units, draws, SEED).counts[:repeated]:
        rows = np.repeat(np.arange(inputs), count[unit].astype(int))
        purse = 0.2 * prices["large"][rows].sum()
        gains.append([path(wanted[rows], costs[rows], purse) for wanted in estimates])
    obvious = (time.process_time() - began) * draws / repeated
    place = [row.allocator for row in result.rows].index("oracle-ladder")
    assert result.samples is not None
    if not np.allclose(
        result.samples.gain[place, 1 : repeated + 1], np.array(gains)[:, 0], rtol=1e-9
    ):
        raise SystemExit(
            "the oracle of every draw must be the relaxed path of the drawn inputs"
        )
    task = f"3 models, own prices, {inputs:,} inputs, {draws:,} draws"
    beside = f"two sorted paths per draw {obvious:.2f} s: {obvious / whole:.1f} times"
    return Figure(
        task, f"{whole:.2f} s CPU", beside, "at least 10 times", obvious >= 10 * whole
    )


def main(*, tiny: bool = False) -> list[Figure]:
    print("exact multiple-choice knapsack, three modes above cheap, CPU milliseconds")
    print(
        "   inputs  alpha  with value   solve   check  core inputs  states  gap "
        "before the search log  proven"
    )
    cases = TINY_CASES if tiny else CASES
    proven, seconds, optima = True, {}, {}
    for inputs, alpha, share, repeats in cases:
        solve_s, check_s, plan, proof = solved(*instance(inputs, alpha, share), repeats)
        print(
            f"{inputs:9,}  {alpha:5}  {share:10.0%}  {1000 * solve_s:6.2f}  "
            f"{1000 * check_s:6.1f}  {plan.core:11,} "
            f" {plan.states:6,}  {proof.gap:25.2e}  {'yes' if proof.optimal else 'NO'}"
        )
        proven &= proof.optimal
        seconds[inputs, alpha, share], optima[inputs, alpha, share] = solve_s, plan
    case = cases[0][:3]
    values, budget = instance(*case)
    divisor = int(np.gcd.reduce(COSTS))
    began = time.process_time()
    with silence():
        theirs = highs(values, COSTS // divisor, budget // divisor)
    slow = time.process_time() - began
    ours, value = seconds[case], optima[case].value
    if abs(value - theirs) > TOLERANCE * theirs or not proven:
        raise SystemExit(
            "every plan must be proven optimal and "
            f"equal HiGHS: {value!r}, HiGHS {theirs!r}"
        )
    most = max(inputs for inputs, *_ in cases)
    largest = max(
        solve_s for (inputs, *_), solve_s in seconds.items() if inputs == most
    )
    print(f"value at {case[0]:,} inputs, alpha {case[1]}: {value!r}, HiGHS {theirs!r}")
    beside = f"HiGHS {slow:.2f} s: {slow / ours:,.0f} times"
    fast, soon = slow / ours >= LEAST_RATIO, largest < MOST_SECONDS
    task = f"exact plan, {case[0]:,} x 3 modes"
    small = Figure(
        task, f"{1000 * ours:.1f} ms CPU", beside, f"at least {LEAST_RATIO} times", fast
    )
    task = f"exact plan, {most:,} x 3 modes"
    large = Figure(
        task, f"{largest:.2f} s CPU", "-", f"under {MOST_SECONDS:.0f} s, proven", soon
    )
    draws, repeated = (20, 2) if tiny else (DRAWS, 20)
    one_call = own_prices(300 if tiny else 5_000, draws, repeated)
    return [
        small,
        large,
        *(in_draws(alpha, draws, repeated) for alpha in (0.1, 0.2, 0.5)),
        one_call,
    ]


if __name__ == "__main__":
    finish(main())
