"""The paper's arithmetic, re-done through the public interface: shares, feasibility,
slack cells, gallery, counts.
"""

import numpy as np
import pytest

import deepval
from worlds import judge, table_of

CELLS = {"nuscenes": (12.71, 19.35), "kitti": (13.18, 18.47), "nuplan": (14.4, 23.6)}
INPUTS = 10_000


def priced(dataset: str, **allocators: float) -> dict:
    cheap, full = CELLS[dataset]
    return {
        "modes": {"cheap": {"ms": cheap}, "full": {"ms": full}},
        "allocators": {name: {"ms": ms} for name, ms in allocators.items()},
    }


def under(
    dataset: str,
    alpha: float,
    *,
    accounting="cascade",
    inputs: int = INPUTS,
    **allocators: float,
) -> dict:
    """Rows by allocator on a table of many inputs, so that slots / inputs is the share
    that a cost leaves.
    """
    values = np.where(np.arange(inputs) % 2, 1.0, -0.5)
    table = table_of(values, unit=np.arange(inputs) % 5)
    budget = deepval.Latency(alpha, priced(dataset, **allocators), accounting)
    result = deepval.evaluate(
        table,
        {name: np.arange(inputs, dtype=float) for name in allocators},
        [budget],
        draws=0,
    )
    return {row.allocator: row for row in result.rows}


@pytest.mark.parametrize(
    ("dataset", "allocator", "cost", "at_20", "at_50"),
    [
        ("nuscenes", "mlp", 0.65, 16.64, 46.64),
        ("kitti", "mlp", 0.65, 16.48, 46.48),
        ("nuscenes", "ridge", 3.93, None, 29.69),
        ("kitti", "ridge", 3.93, None, 28.72),
        ("nuscenes", "batched", 3.54, 1.71, 31.71),
        ("kitti", "batched", 3.54, 0.83, 30.83),
        ("nuscenes", "criticality", 1.47, 12.40, 42.40),
        ("kitti", "criticality", 1.30, 12.96, 42.96),
        ("nuscenes", "uncertainty", 0.29, 18.50, 48.50),
        ("kitti", "uncertainty", 0.21, 18.86, 48.86),
        ("nuscenes", "pixel", 9.8, None, None),
        ("kitti", "pixel", 4.82, None, 23.9),
        ("kitti", "single call", 21.4, None, None),
    ],
)
def test_1_share_that_an_allocator_leaves(dataset, allocator, cost, at_20, at_50):
    for alpha, percent in ((0.2, at_20), (0.5, at_50)):
        row = under(dataset, alpha, **{allocator: cost})[allocator]
        if percent is None:
            assert (row.verdict, row.gain, row.slots) == ("infeasible", None, None)
            assert row.reason
        else:
            assert row.slots == int(INPUTS * (alpha - cost / CELLS[dataset][1]) + 1e-9)
            assert 100 * row.slots / INPUTS == pytest.approx(percent, abs=0.011)


@pytest.mark.parametrize(
    ("dataset", "percent"), [("nuscenes", 34.32), ("kitti", 28.64), ("nuplan", 38.98)]
)
def test_2_uniform_full_is_feasible_from(dataset, percent):
    cheap, full = CELLS[dataset]
    assert 100 * (full - cheap) / full == pytest.approx(percent, abs=0.005)
    assert under(dataset, percent / 100 - 1e-4, inputs=10)["all-full"].gain is None
    above = under(dataset, percent / 100 + 1e-4, inputs=10)["all-full"]
    assert above.gain == pytest.approx(5 * 1 - 5 * 0.5)


def test_3_skipping_router():
    skipping = under("kitti", 0.5, accounting="skipping", pixel=4.82)["pixel"]
    assert 100 * skipping.slots / INPUTS == pytest.approx(83.5, abs=0.05)
    assert 100 * under("kitti", 0.5, pixel=4.82)[
        "pixel"
    ].slots / INPUTS == pytest.approx(23.9, abs=0.05)
    feasible = [
        (dataset, alpha)
        for dataset, cost in (("nuscenes", 9.8), ("kitti", 4.82))
        for alpha in (0.1, 0.2, 0.3, 0.5)
        if under(dataset, alpha, accounting="skipping", inputs=10, pixel=cost)[
            "pixel"
        ].verdict
        != "infeasible"
    ]
    assert feasible == [("kitti", 0.3), ("kitti", 0.5)]
    assert len(feasible) * 4 == 8  # on each of KITTI's four core cells


def test_4_cost_of_the_384_pixel_mode_against_640():
    costs = deepval.read_costs(
        {"modes": {"384": {"ms": 14.38, "mj": 47.8}, "640": {"ms": 18.47, "mj": 84.4}}}
    )
    for convention, ratio in (("ms", 0.7786), ("mj", 0.5664)):
        assert costs.of_mode("384", convention) / costs.of_mode(
            "640", convention
        ) == pytest.approx(ratio, abs=5e-5)


def slack_cell(
    all_full: float, oracle: float, *, inputs: int = 1000, units: int = 4
) -> deepval.ValueTable:
    """A cell in which all-full and the oracle reach these percentages of the all-cheap
    loss, with few positives.
    """
    values = np.zeros(inputs)
    values[:50] = oracle / 50
    values[50:130] = (all_full - oracle) / 80
    return table_of(values, unit=np.arange(inputs) % units, cheap=100 / inputs)


@pytest.mark.parametrize(
    ("all_full", "oracle", "ratio"),
    [
        (14.01, 24.07, 0.418),
        (16.47, 27.77, 0.407),
        (12.78, 17.81, 0.282),
        (5.97, 11.03, 0.459),
        (-0.59, 5.16, 1.114),
        (2.94, 6.98, 0.579),
        (9.81, 14.74, 0.334),
        (8.26, 12.68, 0.349),
        (68.34, 68.58, 0.003),
        (1.42, 1.50, 0.053),
    ],
)
def test_5_harm_ratio_of_a_slack_cell(all_full, oracle, ratio):
    table = slack_cell(all_full, oracle)
    summary = table.summary(0.2)
    assert not summary.budget_binds
    assert summary.all_full_share == pytest.approx(all_full / 100)
    assert summary.oracle_share == pytest.approx(oracle / 100)
    assert table.harm_ratio == pytest.approx(1 - all_full / oracle)
    assert round(table.harm_ratio, 3) == ratio


@pytest.mark.parametrize(
    ("ratio", "printed"),
    [(0.002, (0.100, 0.199, 0.299, 0.499)), (0.34, (0.066, 0.132, 0.198, 0.330))],
)
def test_6_random_in_a_slack_cell(ratio, printed):
    table = slack_cell(10 * (1 - ratio), 10.0)
    assert table.harm_ratio == pytest.approx(ratio)
    result = deepval.evaluate(table, {}, draws=0)
    for alpha, expected in zip((0.1, 0.2, 0.3, 0.5), printed, strict=True):
        row = result.row("random", alpha=alpha)
        assert row.ndg == pytest.approx(alpha * (1 - ratio))
        assert row.ndg == pytest.approx(expected, abs=0.0011)


def braking_loss(action: float, needed: float, previous: float = 0.0) -> float:
    short, over = max(needed - action, 0.0), max(action - needed, 0.0)
    return short**2 + 0.12 * over**2 + 0.02 * abs(action - previous) + 6 * (short >= 8)


def braking_value(cheap: float, full: float, needed: float) -> float:
    losses = {
        "cheap": [braking_loss(cheap, needed)] * 2,
        "full": [braking_loss(full, needed)] * 2,
    }
    table = deepval.ValueTable.from_columns(
        unit=["a", "a"], input=["x", "y"], losses=losses
    )
    return float(table.decision_values[0])


def test_7_braking_gallery():
    assert (
        braking_value(0.0, 6.0, needed=0.0)
        == pytest.approx(-(0.12 * 36 + 0.02 * 6))
        == pytest.approx(-4.44)
    )
    # Printed to two digits, the required deceleration lies within half a hundredth.
    for printed, action, needed in (
        (6.19, 6.0, 2.75),
        (4.95, 2.5, 2.24),
        (5.35, 2.5, 2.32),
        (4.52, 2.5, 2.14),
    ):
        low, high = (
            braking_value(0.0, action, needed=needed + d) for d in (-0.005, 0.005)
        )
        assert low < printed < high


def test_8_largest_braking_value():
    assert (
        braking_value(0.0, 6.0, needed=9.0)
        == pytest.approx((81 + 6) - (9 + 0.12))
        == pytest.approx(77.88)
    )


def comparisons(allocators: int, budgets: int) -> int:
    """How many comparisons with random one cell makes."""
    table = table_of([1.0, -1.0, 2.0, 0.0], unit=["a", "a", "b", "b"])
    scores = {f"router {i}": np.arange(4.0) for i in range(allocators)}
    return judge(
        table,
        scores,
        [deepval.Selection(a) for a in (0.1, 0.2, 0.3, 0.5)[:budgets]],
        draws=5,
    ).comparisons


def test_9_counts():
    assert 13 * comparisons(1, 4) == 52
    assert 13 * comparisons(6, 1) == 78
    assert 22 * comparisons(6, 1) == 132
    assert 22 * comparisons(6, 4) == 528
    assert 12 * comparisons(6, 1) == 72
    assert 10 * comparisons(5, 4) == 200
    assert 10 * comparisons(10, 1) == 100


def test_9_feasible_rows_of_the_gap_table():
    # Two MLP routers and the ridge gate at 20 and 50 %, on 6 nuScenes, 4 KITTI and 2
    # PDM-Closed cells.
    rows = 0
    for dataset, cells in (("nuscenes", 6), ("kitti", 4), ("nuplan", 2)):
        for alpha in (0.2, 0.5):
            found = under(
                dataset, alpha, inputs=10, mlp_v=0.65, mlp_cls=0.65, ridge=3.93
            )
            rows += cells * sum(
                found[name].verdict != "infeasible"
                for name in ("mlp_v", "mlp_cls", "ridge")
            )
    assert rows == 2 * 12 * 2 + 12 + 2 == 62


@pytest.mark.parametrize(("inputs", "slots"), [(3376, 675), (2655, 531)])
def test_10_quota(inputs, slots):
    table = table_of(np.ones(inputs), unit=np.arange(inputs) % 3)
    row = deepval.evaluate(
        table,
        {"mine": np.arange(inputs, dtype=float)},
        [deepval.Selection(0.2)],
        draws=0,
    ).row("mine")
    assert (row.slots, row.escalated) == (slots, slots)


def test_share_of_a_selection_that_ties_decide():
    # 3,376 inputs: 326 strictly above the cut, 366 tied at it: 675 - 326 = 349 of 675.
    score = np.repeat([2.0, 1.0, 0.0], [326, 366, 3376 - 326 - 366])
    table = table_of(np.ones(3376), unit=np.arange(3376) % 3)
    row = deepval.evaluate(
        table, {"missed": score}, [deepval.Selection(0.2)], draws=0
    ).row("missed")
    assert row.ties == pytest.approx(349 / 675)
    assert round(100 * row.ties) == 52
