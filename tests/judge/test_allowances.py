import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepval
from deepval import Energy, InputError, Latency, Selection, ValueTable, read_costs
from deepval.judge.allowances import allowance

MODES = ("cheap", "full")
# End-to-end milliseconds and module millijoules on the paper's board, and what its
# allocators cost there.
NUSCENES = {
    "modes": {"cheap": {"ms": 12.71, "mj": 54.6}, "full": {"ms": 19.35, "mj": 132.7}},
    "allocators": {
        "mlp": {"ms": 0.65},
        "ridge": {"ms": 3.93},
        "gbm": {"ms": 3.54},
        "gbm-single": {"ms": 21.4},
        "criticality": {"ms": 1.47},
        "uncertainty": {"ms": 0.29},
        "pixel": {"ms": 9.8},
        "random": {"ms": 0},
    },
}
KITTI = {
    "modes": {
        "cheap": {"ms": 13.18, "mj": 41.1},
        "384": {"ms": 14.38, "mj": 47.8},
        "512": {"ms": 16.72, "mj": 62.0},
        "full": {"ms": 18.47, "mj": 84.4},
    },
    "allocators": NUSCENES["allocators"]
    | {"criticality": {"ms": 1.30}, "uncertainty": {"ms": 0.21}, "pixel": {"ms": 4.82}},
}
NUPLAN = {
    "modes": {"cheap": {"ms": 14.4, "mj": 69.5}, "full": {"ms": 23.6, "mj": 143.8}}
}


def latency(profile, alpha, accounting="cascade"):
    return allowance(Latency(alpha, profile, accounting), MODES)


def percent(profile, name, alpha, accounting="cascade") -> float:
    allowed = latency(profile, alpha, accounting)
    return 100 * allowed.share(allowed.cost_of(name))


@pytest.mark.parametrize(
    ("name", "alpha", "nuscenes", "kitti"),
    [
        ("mlp", 0.2, 16.64, 16.48),
        ("ridge", 0.2, -0.31, -1.28),
        ("ridge", 0.5, 29.69, 28.72),
        ("gbm", 0.2, 1.71, 0.83),
        ("gbm", 0.5, 31.71, 30.83),
        ("criticality", 0.2, 12.40, 12.96),
        ("uncertainty", 0.2, 18.50, 18.86),
        ("random", 0.2, 20.00, 20.00),
    ],
)
def test_paper_escalatable_shares(name, alpha, nuscenes, kitti):
    for profile, expected in ((NUSCENES, nuscenes), (KITTI, kitti)):
        assert percent(profile, name, alpha) == pytest.approx(
            expected, abs=0.005 + 1e-9
        )
        allowed = latency(profile, alpha)
        assert allowed.feasible(allowed.cost_of(name)) == (expected >= 0)


def test_paper_shares_of_the_pixel_router_and_of_single_calls():
    assert percent(KITTI, "pixel", 0.5) == pytest.approx(23.9, abs=0.05)
    for alpha in (0.1, 0.2, 0.3, 0.5):
        assert not latency(NUSCENES, alpha).feasible(9.8)
        for profile in (NUSCENES, KITTI):
            assert not latency(profile, alpha).feasible(21.4)


@pytest.mark.parametrize(
    ("profile", "expected"), [(NUSCENES, 34.32), (KITTI, 28.64), (NUPLAN, 38.98)]
)
def test_paper_alpha_from_which_uniform_full_fidelity_fits(profile, expected):
    assert 100 * latency(profile, 0.5).uniform_from == pytest.approx(
        expected, abs=0.005 + 1e-9
    )
    fits = [
        alpha for alpha in (0.1, 0.2, 0.3, 0.5) if latency(profile, alpha).uniform_fits
    ]
    assert fits == [alpha for alpha in (0.1, 0.2, 0.3, 0.5) if 100 * alpha > expected]


def test_paper_skipping_router():
    assert percent(KITTI, "pixel", 0.5, "skipping") == pytest.approx(83.5, abs=0.05)
    feasible = {
        (place, alpha)
        for place, profile in (("nuscenes", NUSCENES), ("kitti", KITTI))
        for alpha in (0.1, 0.2, 0.3, 0.5)
        if percent(profile, "pixel", alpha, "skipping") > 0
    }
    assert feasible == {("kitti", 0.3), ("kitti", 0.5)}


def test_paper_cost_of_384_pixels_beside_640():
    costs = read_costs(KITTI)
    assert costs.of_mode("384", "ms") / costs.of_mode("full", "ms") == pytest.approx(
        0.7786, abs=5e-5
    )
    assert costs.of_mode("384", "mj") / costs.of_mode("full", "mj") == pytest.approx(
        0.5664, abs=5e-5
    )


def test_paper_numbers_of_escalated_inputs():
    allowed = allowance(Selection(0.2), MODES)
    assert allowed.slots(3376) == 675
    assert allowed.slots(2655) == 531


def test_a_selection_budget_counts_and_charges_nothing():
    allowed = allowance(Selection(0.25), MODES)
    assert allowed.slots(10) == 3  # floor(2.5 + 0.5)
    assert allowed.slots(np.array([2, 3, 4])).tolist() == [1, 1, 1]
    assert allowed.cost_of("whoever") == 0
    assert allowed.costs is None
    assert allowed.convention is None
    assert allowed.accounting is None
    assert allowed.share() == 0.25


def test_a_measured_budget_never_rounds_up():
    allowed = latency({"modes": {"cheap": {"ms": 1}, "full": {"ms": 10}}}, 0.25)
    # floor(2.5): a zero-cost allocator may differ by one from a selection budget
    assert allowed.slots(10) == 2
    assert allowed.slots(10, 0.5) == math.floor(10 * (0.25 - 0.05))
    assert allowed.slots(np.array([10, 100]), 0.5).tolist() == [2, 20]
    assert allowed.slots(10, 2.5) == 0
    assert allowed.slots(10, 99.0) == 0
    assert math.floor(100 * 0.29) == 28
    # the last digit of 28.999999999999996 costs no slot
    assert latency(KITTI, 0.29).slots(100) == 29


def test_feasible_up_to_the_whole_budget():
    allowed = latency({"modes": {"cheap": {"ms": 1}, "full": {"ms": 8}}}, 0.25)
    assert allowed.feasible(2.0)
    assert allowed.share(2.0) == 0
    assert not allowed.feasible(2.0 + 1e-9)
    assert allowed.share(3.0) < 0


def test_the_last_digit_of_a_product_decides_nothing():
    assert 0.29 * 100 < 29
    allowed = latency({"modes": {"cheap": {"ms": 1}, "full": {"ms": 100}}}, 0.29)
    assert allowed.feasible(29.0)
    assert allowed.slots(1000, 29.0) == 0
    assert (1 - 0.7) / 1 > 0.3
    uniform = {"modes": {"cheap": {"ms": 0.7}, "full": {"ms": 1}}}
    assert latency(uniform, 0.3).uniform_fits
    assert not latency(uniform, 0.2999999).uniform_fits


def test_a_skipping_router_escalates_at_most_everything():
    profile = {"modes": {"cheap": {"ms": 6}, "full": {"ms": 8}}}
    allowed = latency(profile, 0.25, "skipping")
    assert allowed.share() == 1  # 0.25 * 8 / (8 - 6)
    assert allowed.share(1.0) == (0.25 * 8 - 1) / (8 - 6)
    assert latency(profile, 0.9, "skipping").share() == 1
    assert latency(profile, 0.9, "skipping").slots(7) == 7


RAILS = {
    "modes": {
        "cheap": {"ms": 1, "mj": 40, "mj_gpu": 10, "mj_all": 60},
        "full": {"ms": 2, "mj": 80, "mj_gpu": 50, "mj_all": 100},
    },
    "allocators": {"mine": {"ms": 0, "mj": 8, "mj_gpu": 0, "mj_all": 20}},
}


@pytest.mark.parametrize(
    ("convention", "share"),
    [("mj", 0.5 - 8 / 80), ("mj_gpu", 0.5), ("mj_all", 0.5 - 20 / 100)],
)
def test_energy_under_three_conventions(convention, share):
    allowed = allowance(Energy(0.5, RAILS, convention=convention), MODES)
    assert allowed.convention == convention
    assert allowed.share(allowed.cost_of("mine")) == pytest.approx(share, rel=1e-9)
    assert allowed.slots(100, allowed.cost_of("mine")) == round(100 * share)


def test_energy_counts_the_module_by_default():
    assert Energy(0.2).convention == "mj"
    assert Energy(0.2).kind == "energy"
    assert Latency(0.2).convention == "ms"


def test_a_budget_brings_its_costs_or_takes_those_of_the_table():
    own, of_table = read_costs(RAILS), read_costs(KITTI)
    assert allowance(Latency(0.2, own), MODES, of_table).full == 2
    assert allowance(Latency(0.2), MODES, of_table).full == 18.47
    with pytest.raises(
        InputError, match=r"A latency budget needs costs; none were given"
    ):
        allowance(Latency(0.2), MODES)
    with pytest.raises(
        InputError, match=r"An energy budget needs costs; none were given"
    ):
        allowance(Energy(0.2), MODES)


def test_a_budget_reads_its_costs_from_a_file(tmp_path):
    path = tmp_path / "costs.toml"
    path.write_text("[modes.cheap]\nms = 1\n[modes.full]\nms = 4\n")
    assert allowance(Latency(0.2, path), MODES).full == 4
    assert allowance(Latency(0.2, str(path)), MODES).cheap == 1


def test_the_modes_of_the_table_are_charged():
    assert allowance(Latency(0.2, KITTI), ("384", "512")).full == 16.72
    with pytest.raises(InputError, match="'384'"):
        allowance(Latency(0.2, KITTI), ("512", "384"))
    with pytest.raises(InputError, match="'ms'"):
        allowance(Latency(0.2, KITTI), ("cheap", "strong"))


@pytest.mark.parametrize("alpha", [1, 1.0, 0.2, 1e-9, np.float64(0.2)])
def test_shares_that_are_allowed(alpha):
    for budget in (Selection(alpha), Latency(alpha), Energy(alpha)):
        assert budget.alpha == alpha
        assert isinstance(budget.alpha, float)


def test_rows_are_charged_by_the_public_evaluate():
    rng = np.random.default_rng(1)
    n = 1000
    table = ValueTable.from_columns(
        unit=np.arange(n) // 100,
        losses={"cheap": rng.random(n) + 1, "full": rng.random(n) + 1},
        costs=KITTI,
    )
    mine = {"mlp": rng.random(n), "ridge": rng.random(n), "pixel": rng.random(n)}
    budgets = [Latency(0.2), Latency(0.5), Latency(0.5, accounting="skipping")]
    rows = deepval.evaluate(table, mine, budgets, draws=0).rows
    found = {(row.allocator, row.alpha, row.accounting): row for row in rows}
    assert found["mlp", 0.2, "cascade"].slots == math.floor(1000 * (0.2 - 0.65 / 18.47))
    assert found["mlp", 0.2, "cascade"].cost == 0.65
    assert found["ridge", 0.2, "cascade"].verdict == "infeasible"
    assert found["ridge", 0.2, "cascade"].gain is None
    assert found["ridge", 0.5, "cascade"].slots == 287
    assert found["pixel", 0.5, "cascade"].slots == 239
    assert found["pixel", 0.5, "skipping"].slots == 834
    assert found["random", 0.2, "cascade"].slots == 200
    assert found["all-full", 0.2, "cascade"].gain is None
    assert found["all-full", 0.5, "cascade"].gain == pytest.approx(
        table.decision_values.sum(), rel=1e-9
    )


@given(
    st.floats(0.01, 1),
    st.floats(0.1, 100),
    st.floats(0.1, 100),
    st.floats(0, 50),
    st.integers(0, 10_000),
    st.floats(0.1, 10),
)
def test_laws_of_an_allowance(alpha, cheap, more, cost, inputs, scale):
    def profile(factor):
        return {
            "modes": {
                "cheap": {"ms": cheap * factor},
                "full": {"ms": (cheap + more) * factor},
            }
        }

    cascade = latency(profile(1), alpha)
    skipping = latency(profile(1), alpha, "skipping")
    assert 0 <= cascade.slots(inputs, cost) <= inputs
    assert cascade.slots(inputs, cost) <= cascade.slots(inputs)
    # Running full instead of cheap leaves at least as much, and neither spends more
    # than the budget.
    if cascade.feasible(cost):
        assert cascade.slots(inputs, cost) <= skipping.slots(inputs, cost) <= inputs
        spent = inputs * (cheap + cost) + cascade.slots(inputs, cost) * (cheap + more)
        assert (
            spent
            <= inputs * (cheap + alpha * (cheap + more)) * (1 + 1e-9)
            + (cheap + more) * 1e-9
        )
    # The unit of cost does not matter.
    assert latency(profile(scale), alpha).share(cost * scale) == pytest.approx(
        cascade.share(cost), rel=1e-9, abs=1e-9
    )
