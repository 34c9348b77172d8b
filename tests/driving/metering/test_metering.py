import json
import math
import tomllib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import call
from deepval import InputError, read_costs
from deepval.basics.errors import InputWarning
from deepval.cli import fit_allocators
from deepval.driving.metering import cost_cards as cards_module
from deepval.driving.metering.cost_cards import (
    CostCard,
    Meter,
    add_cards,
    measure_cards,
)
from deepval.driving.metering.energy import (
    EnergyUse,
    Rail,
    conventions,
    energy_over_idle,
    rails,
    used_mj,
)
from deepval.driving.metering.timing import Timing, measure, median_interval
from sensor_files import RAPL, XAVIER, FakeNvml, hwmon_tree, iio_tree, write_tree

MODES = "[modes.cheap]\nms = 10\n[modes.full]\nms = 20\n"


class FakeClock:
    """Time passes only where `pass_ms` is called."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def pass_ms(self, ms: float) -> float:
        self.now_ns += round(ms * 1e6)
        return ms


def timing_of(times_ms, **changes) -> Timing:
    return Timing(np.array(times_ms, dtype=float), {}, **changes)


# Timing


def test_median_percentile_interval_and_stages_by_hand():
    clock = FakeClock()
    stages = {
        "preprocess": clock.pass_ms,
        "inference": lambda ms: clock.pass_ms(2 * ms),
    }
    timing = measure(
        stages, list(range(1, 11)), warmup=0, least=10, tolerance=1.0, clock=clock
    )
    assert timing.calls == 10
    assert timing.ms == pytest.approx(3 * 5.5, rel=1e-12)
    # Linear between the 9th and the 10th value: 1 + 0.95 * 9 = 9.55.
    assert timing.p95_ms == pytest.approx(3 * 9.55, rel=1e-12)
    # P(Binomial(10, 1/2) < 2) = 11/1024 and P(... < 3) = 56/1024: the second smallest
    # and the second largest.
    assert timing.interval_ms == pytest.approx((3 * 2, 3 * 9))
    assert np.median(timing.stages["preprocess"]) == pytest.approx(5.5)
    assert np.median(timing.stages["inference"]) == pytest.approx(11)
    np.testing.assert_allclose(sum(timing.stages.values()), timing.total_ms)
    assert timing.tight
    assert timing.note is timing.limit is None


def test_a_batch_is_divided_by_its_size_and_holds_a_slice():
    clock, seen = FakeClock(), []

    def run(part: np.ndarray) -> None:
        seen.append(part.tolist())
        clock.pass_ms(1 + float(part.sum()))

    timing = measure(
        {"all": run},
        np.arange(7.0),
        warmup=0,
        least=6,
        tolerance=2.0,
        batch=3,
        clock=clock,
    )
    assert seen == [[0, 1, 2], [3, 4, 5]] * 3
    assert sorted(set(timing.total_ms)) == pytest.approx([(1 + 3) / 3, (1 + 12) / 3])
    assert timing.batch == 3


def test_it_goes_on_until_the_median_is_tight():
    clock = FakeClock()
    # Every other call takes 1 or 3 ms, until the many calls of 2 ms make the order
    # statistics around the median 2.
    times = iter([1, 3] * 10 + [2] * 1000)
    timing = measure(
        {"all": lambda _: clock.pass_ms(next(times))},
        [0],
        warmup=0,
        least=6,
        tolerance=0.01,
        clock=clock,
    )
    assert timing.tight
    assert timing.interval_ms == (2, 2)
    assert 20 < timing.calls < 60
    assert timing.limit is None


def twin_rank(number: int) -> int:
    rank, below = 0, Fraction(0)
    while below + Fraction(math.comb(number, rank), 2**number) <= Fraction(1, 40):
        below += Fraction(math.comb(number, rank), 2**number)
        rank += 1
    return rank


@pytest.mark.parametrize("number", [*range(1, 60), 100, 999, 1000])
def test_the_interval_s_ranks_are_those_of_the_binomial(number):
    low, high = median_interval(np.arange(1.0, number + 1))
    rank = twin_rank(number)
    assert (rank == 0) == (number < 6)
    if rank:
        assert (low, high) == (rank, number + 1 - rank)
    else:
        assert math.isnan(low)
        assert math.isnan(high)


@given(
    st.lists(st.integers(1, 10**6), min_size=6, max_size=80),
    st.sampled_from([0.5, 2.0, 8.0]),
)
@settings(max_examples=60)
def test_laws_of_the_interval(times, scale):
    array = np.array(times, dtype=float)
    low, high = median_interval(array)
    assert low <= np.median(array) <= high
    assert median_interval(array[::-1]) == (low, high)
    assert median_interval(scale * array) == (scale * low, scale * high)


def test_the_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    found = [median_interval(draw) for draw in rng.exponential(size=(2000, 30))]
    covered = np.mean([low <= math.log(2) <= high for low, high in found])
    # Exactly 1 - 2 P(Binomial(30, 1/2) < 10) = 0.957; three standard errors are 0.014.
    assert covered == pytest.approx(0.957, abs=0.014)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"items": []}, "needs a stage and an item; found 1 and 0"),
        ({"stages": {}}, "needs a stage and an item; found 0 and 2"),
        ({"batch": 3}, "A batch must hold 1 to 2 items, as there are; found 3"),
        ({"batch": 0}, "found 0"),
        ({"least": 5}, "6 <= least <= most; found warmup 5, least 5, most 100000"),
        ({"most": 10}, "least 50, most 10"),
        ({"warmup": -1}, "found warmup -1"),
        ({"calls": 0}, "needs a call or more; found 0"),
        ({"seconds": 0}, "seconds must be a positive number; found 0"),
        ({"tolerance": math.nan}, "tolerance must be a positive number; found nan"),
    ],
)
def test_measurements_that_cannot_be(changes, sentence):
    arguments = {"stages": {"all": abs}, "items": [1, 2]} | changes
    with pytest.raises(InputError, match=sentence):
        measure(arguments.pop("stages"), arguments.pop("items"), **arguments)


# The meter


def test_a_meter_measures_inputs_stages_and_what_is_between():
    clock = FakeClock()
    meter = Meter("mine", warmup=1, clock=clock)

    @meter.stage("preprocess")
    def preprocess(ms: float) -> float:
        return clock.pass_ms(ms)

    for ms in (50, 1, 2, 3):
        with meter:
            preprocess(ms)
            preprocess(ms)
            clock.pass_ms(4)
            with meter.stage("inference"):
                clock.pass_ms(10)
    timing = meter.timing()
    assert timing.total_ms.tolist() == [2 * 1 + 14, 2 * 2 + 14, 2 * 3 + 14]
    assert timing.stages["preprocess"].tolist() == [2, 4, 6]
    assert timing.stages["inference"].tolist() == [10, 10, 10]


def test_a_meter_refuses_what_it_cannot_charge():
    meter = Meter("mine", warmup=2)
    with (
        pytest.raises(InputError, match="Stage 'x' must run inside an input"),
        meter.stage("x"),
    ):
        pass
    with meter, pytest.raises(InputError, match="must come one after the other"), meter:
        pass
    with pytest.raises(
        InputError, match="Meter 'mine' needs an input after 2 to warm up; it saw 1"
    ):
        meter.timing()


# Energy


def power(label: str, feeds: set[str], read) -> Rail:
    return Rail(label, frozenset(feeds), read, counts=False)


def counter(readings, **changes) -> Rail:
    read = iter(readings).__next__
    return Rail(
        "counter",
        frozenset({"GPU", "CPU", "SOC"}),
        read,
        **({"counts": True} | changes),
    )


def test_rapl_zones_and_their_wrap_around(tmp_path):
    root = write_tree(tmp_path, RAPL)
    package, memory = rails(root)
    assert (package.label, memory.label) == ("RAPL intel-rapl:0", "RAPL intel-rapl:0:1")
    assert package.read() == pytest.approx(262143000.850)
    assert conventions((package, memory)) == {
        "mj": (package,),
        "mj_all": (package, memory),
    }
    before = package.read()
    write_tree(root, {"class/powercap/intel-rapl:0/energy_uj": 2000})
    # 328,000 uJ to the end of the range and 2,000 uJ from zero on.
    assert used_mj(package, [0, 1], [before, package.read()]) == pytest.approx(328 + 2)
    assert conventions((package,)) == {"mj": (package,)}


def test_a_counter_that_goes_back_without_reason_is_refused():
    with pytest.raises(InputError, match="counter counter must not go backwards"):
        used_mj(counter([]), [0, 1], [5, 4])


def test_power_is_integrated_by_trapezoids():
    rail = power("GPU", {"GPU"}, float)
    # 1000 mW rising to 3000 mW within 2 s, then 3000 mW for 1 s.
    assert used_mj(rail, [0, 2, 3], [1000, 3000, 3000]) == 2 * 2000 + 3000


@pytest.mark.parametrize(
    "files", [hwmon_tree(XAVIER.values()), iio_tree()], ids=["hwmon", "iio"]
)
def test_jetson_rails_in_both_layouts(tmp_path, files):
    found = rails(write_tree(tmp_path, files))
    assert [rail.label for rail in found] == [
        "GPU",
        "CPU",
        "SOC",
        "CV",
        "VDDRQ",
        "SYS5V",
    ]
    # 19 V times 0.1 A, 0.2 A, 0.3 A on the first chip and twice that on the second.
    assert [rail.read() for rail in found] == pytest.approx(
        [1900, 3800, 5700, 3800, 7600, 11400]
    )
    sums = {
        key: [rail.label for rail in part] for key, part in conventions(found).items()
    }
    assert sums == {
        "mj": ["GPU", "CPU", "SOC"],
        "mj_gpu": ["GPU"],
        "mj_all": ["GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"],
    }


@pytest.mark.parametrize(
    ("labels", "sums"),
    [
        (
            ("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"),
            {"mj": ["VDD_CPU_GPU_CV", "VDD_SOC"], "mj_all": ["VDD_IN"]},
        ),
        (
            ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),
            {
                "mj": ["VDD_GPU_SOC", "VDD_CPU_CV"],
                "mj_all": ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"],
            },
        ),
        (
            ("POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"),
            {"mj_gpu": ["POM_5V_GPU"], "mj_all": ["POM_5V_IN"]},
        ),
    ],
)
def test_rails_of_other_boards_serve_what_they_can(tmp_path, labels, sums):
    found = rails(write_tree(tmp_path, hwmon_tree([labels])))
    assert {
        key: [rail.label for rail in part] for key, part in conventions(found).items()
    } == sums


def test_graphics_cards_count_or_show_power(tmp_path):
    library = FakeNvml()
    first, second = rails(tmp_path, library=library)
    assert (first.counts, first.read(), second.counts, second.read()) == (
        True,
        500,
        False,
        7000,
    )
    assert conventions((first, second)) == {"mj_gpu": (first, second)}
    package, memory, *cards = rails(write_tree(tmp_path, RAPL), library=library)
    assert conventions((package, memory, *cards))["mj"] == (package, *cards)


def test_no_sensor_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(InputError) as caught:
        rails(tmp_path)
    assert str(caught.value) == (
        "Energy needs a sensor, and this machine shows none (no INA3221 rails or RAPL "
        f"zones under {tmp_path}, no libnvidia-ml.so.1): measure without energy, or "
        "on a machine that has one."
    )


def test_a_sensor_that_may_not_be_read_is_refused_or_noted(tmp_path, monkeypatch):
    root = write_tree(tmp_path, RAPL)
    plain = Path.read_text

    def guarded(path: Path, *words, **options) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path, *words, **options)

    monkeypatch.setattr(Path, "read_text", guarded)
    with pytest.raises(
        InputError,
        match=(
            r"readable by this user, and RAPL intel-rapl:0 \(Permission denied\), RAPL"
        ),
    ):
        rails(root)
    with pytest.warns(InputWarning, match="cannot be read; the others are"):
        found = rails(root, library=FakeNvml())
    assert list(conventions(found)) == ["mj_gpu"]


def test_idle_is_subtracted():
    clock = FakeClock()
    # Idle: 3,000 mJ in 2 s. Run: 9,000 mJ in 4 s, of which 4 s * 1,500 mW are idle.
    rail = counter([0, 3_000, 3_000, 12_000])

    def run() -> int:
        clock.pass_ms(4000)
        return 100

    spent = energy_over_idle(
        run, [rail], idle_s=2, clock=clock, sleep=lambda s: clock.pass_ms(1000 * s)
    )
    assert spent.idle_mw == {"mj": 1500}
    assert spent.mj == {"mj": pytest.approx((9000 - 4 * 1500) / 100)}
    assert spent.note is None


def test_what_does_not_rise_above_idle_has_no_figure_but_a_note():
    clock = FakeClock()
    found = [
        power("GPU", {"GPU"}, lambda: 500.0),
        power("CPU", {"CPU"}, lambda: 1000.0 if clock.now_ns < 10**9 else 1500.0),
        power("SOC", {"SOC"}, lambda: 100.0),
    ]

    def run() -> int:
        clock.pass_ms(2000)
        return 10

    spent = energy_over_idle(
        run,
        found,
        settle_s=0,
        idle_s=0.999,
        clock=clock,
        sleep=lambda s: clock.pass_ms(1000 * s),
    )
    assert spent.idle_mw == {"mj": pytest.approx(1600), "mj_gpu": 500}
    # The fake clock stands at 0.999 s until the run is over: a ramp from 1,000 to 1,500
    # mW over 2 s, 500 mJ over idle.
    assert spent.mj == {"mj": pytest.approx(500 / 10)}
    assert spent.note == "No energy above idle was measured on mj_gpu in 2 s."


# Cards


def spent(**mj: float) -> EnergyUse:
    return EnergyUse(
        mj, dict.fromkeys(mj, 1000.0), 10, {"mj": ("GPU", "CPU"), "mj_gpu": ("GPU",)}
    )


def test_a_card_goes_through_a_costs_file(tmp_path):
    path = tmp_path / "costs.toml"
    path.write_text(MODES)
    timing = Timing(
        np.full(8, 0.5), {"preprocess": np.full(8, 0.3), "inference": np.full(8, 0.2)}
    )
    card = CostCard(
        "gate ä", timing, threads=2, device='a "chip"', energy=spent(mj=2.5, mj_gpu=0.5)
    )
    add_cards(
        path, [card, CostCard("other", timing_of([1, 2, 3]), threads=1, device="chip")]
    )
    costs = read_costs(path)
    assert [costs.of_allocator("gate ä", key) for key in ("ms", "mj", "mj_gpu")] == [
        0.5,
        2.5,
        0.5,
    ]
    assert costs.served == {"gate ä": "single", "other": "single"}
    assert costs.of_mode("full", "ms") == 20
    table = tomllib.loads(path.read_text())["allocators"]
    assert table["gate ä"] == card.entry()
    assert card.entry() == {
        "ms": 0.5,
        "mj": 2.5,
        "mj_gpu": 0.5,
        "served": "single",
        "p95_ms": 0.5,
        "ms_lo": 0.5,
        "ms_hi": 0.5,
        "preprocess_ms": 0.3,
        "preprocess_p95_ms": 0.3,
        "inference_ms": 0.2,
        "inference_p95_ms": 0.2,
        "calls": 8,
        "tight": True,
        "threads": 2,
        "device": 'a "chip"',
        "energy": "above idle; mj: GPU + CPU; mj_gpu: GPU",
    }
    assert table["other"]["energy"] == "not requested"
    assert not table["other"]["tight"]
    assert (
        table["other"]["note"]
        == "Timing is uncertain: 3 calls are too few for a 95 % interval (target 2 %)."
    )
    assert "ms_lo" not in table["other"]
    with pytest.raises(InputError, match="needs 'mj' of allocator 'other'"):
        costs.of_allocator("other", "mj")


def test_a_card_takes_the_place_of_the_one_before_and_nothing_else(tmp_path):
    path = tmp_path / "costs.toml"
    above = f"# the board\n{MODES}"
    below = (
        '# by hand\n[allocators."b.c"]\nms = 2  # kept\n[other]\nlist = [\n  [1, 2],\n'
        "]\n"
    )
    path.write_text(
        f"{above}[allocators.a] # old\nms = 1\n# about ms\nx = [\n  1,\n]\n"
        f"[allocators.a.more]\ny = 1\n\n{below}"
    )
    add_cards(path, [CostCard("a", timing_of([3.0]), threads=1, device="chip")])
    text = path.read_text()
    assert text.startswith(f"{above}\n{below}\n[allocators.a]\nms = 3.0\n")
    add_cards(path, [CostCard("b.c", timing_of([4.0]), threads=1, device="chip")])
    found = tomllib.loads(path.read_text())
    assert (found["allocators"]["a"]["ms"], found["allocators"]["b.c"]["ms"]) == (3, 4)
    assert found["other"] == {"list": [[1, 2]]}
    assert not list(tmp_path.glob("*.tmp"))


def test_a_stage_may_not_be_read_as_another_figure():
    timing = Timing(np.ones(6), {"p95": np.ones(6)})
    with pytest.raises(InputError, match="'p95' would be read as another figure"):
        CostCard.of("mine", timing).entry()


def test_cards_of_single_calls_and_batches_with_energy(monkeypatch):
    monkeypatch.setattr(cards_module, "rails", lambda: (counter([]),))
    monkeypatch.setattr(
        cards_module, "energy_over_idle", lambda run, rails: spent(mj=float(run() > 0))
    )
    made = measure_cards(
        "mine",
        {"all": np.sum},
        np.ones((8, 3)),
        batch=4,
        seconds=0.05,
        tolerance=0.5,
        threads=1,
        energy=True,
    )
    assert [(card.name, card.served, card.threads) for card in made] == [
        ("mine", "single", 1),
        ("mine-batched", "batched", 1),
    ]
    assert [card.energy.mj for card in made] == [{"mj": 1.0}] * 2


# The command


def test_the_command_writes_and_prints_cards(tmp_path, monkeypatch):
    path = tmp_path / "costs.toml"
    path.write_text(MODES)
    asked = []

    def stages_of(target: str, cell: Path | None):
        asked.append((target, cell))
        return target, {"preprocess": np.sqrt, "inference": np.sum}, np.ones((8, 3))

    monkeypatch.setattr(fit_allocators, "stages_of", stages_of)
    words = [
        "profile",
        "here",
        "gate-ridge",
        "--out",
        path,
        "--seconds",
        "0.05",
        "--batch",
        "4",
    ]
    printed = call(*words)
    assert asked == [("gate-ridge", Path("here"))]
    assert "gate-ridge (single): " in printed
    assert "gate-ridge-batched (batched 4): " in printed
    assert "energy: not requested" in printed
    again = call(*words, "--json")
    costs = read_costs(path)
    for name, entry in json.loads(again).items():
        assert costs.of_allocator(name, "ms") == entry["ms"] > 0
        assert entry["preprocess_ms"] <= entry["p95_ms"]
    assert costs.served == {"gate-ridge": "single", "gate-ridge-batched": "batched"}


def test_the_command_prints_all_allocators_as_shares_of_a_full_pass(
    tmp_path, monkeypatch
):
    path = tmp_path / "costs.toml"
    path.write_text(MODES)
    (tmp_path / "cell/allocators").mkdir(parents=True)
    (tmp_path / "cell/allocators/gate-own.json").write_text("{}")
    monkeypatch.setattr(
        fit_allocators, "stages_of", lambda target, _: (target, {"all": abs}, [1])
    )

    def cards(name, *_, **__) -> list[CostCard]:
        return [
            CostCard(
                name,
                timing_of([5.0] * 8 if name == "gate-own" else [0.4, 0.5, 0.6]),
                threads=1,
                device="x",
            )
        ]

    monkeypatch.setattr(fit_allocators, "measure_cards", cards)
    printed = call("profile", tmp_path / "cell", "all", "--out", path)
    rows = {
        words[0]: words[1:] for line in printed.splitlines() if (words := line.split())
    }
    assert rows["full"] == ["20.0000", "100.00%"]
    assert rows["gate-own"] == ["5.0000", "5.0000", "25.00%"]
    assert rows["lost"] == ["0.5000", "0.5900", "2.50%"]
    assert list(read_costs(path).allocators) == [
        "ego-speed",
        "uncertainty",
        "criticality",
        "memory",
        "lost",
        "gate-own",
    ]
    assert (
        "Not within the tolerance: ego-speed, uncertainty, criticality, memory, lost."
        in printed
    )
