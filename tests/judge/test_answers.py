"""What should I run: leads, answers and their words, by hand and by other roads."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import deepval
from deepval.basics.errors import InputError
from deepval.judge.answers.blind import BlindModes
from deepval.judge.answers.leads import Margin
from deepval.judge.differences import Figure
from deepval.judge.intervals import Interval
from deepval.judge.report.answers import Typed, answer_text, next_command

ABOVE = Interval(0.1, 0.3)
ACROSS = Interval(-0.1, 0.3)
BELOW = Interval(-0.3, -0.1)


def quiet(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", deepval.InputWarning)
        return deepval.evaluate(*arguments, **options)


def skilled(units=30, noise=0.5, seed=0):
    """Two modes, a score that knows much of the value, and one that knows nothing."""
    rng = np.random.default_rng(seed)
    inputs = 20 * units
    value = np.where(rng.random(inputs) < 0.4, rng.normal(0.3, 1, inputs), 0)
    cheap = np.maximum(value, 0) + rng.gamma(0.5, 1, inputs)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat(np.arange(units), 20),
        losses={"small": cheap, "big": cheap - value},
    )
    scores = {
        "good": value + rng.normal(0, noise, inputs),
        "idle": rng.normal(size=inputs),
    }
    return table, scores


def models(*, rewards=True, seed=1):
    """Three models: the second costs a fifteenth of the third and is nearly as good."""
    rng = np.random.default_rng(seed)
    inputs = 1500
    right = (rng.random((inputs, 3)) < [0.5, 0.75, 0.8]).astype(float)
    by_model = dict(zip("abc", right.T, strict=True))
    prices = {"a": np.full(inputs, 1e-3), "b": np.full(inputs, 2e-3)}
    prices["c"] = np.full(inputs, 3e-2)
    outcome = {"rewards": by_model}
    if not rewards:
        outcome = {"losses": {name: 1 - column for name, column in by_model.items()}}
    table = deepval.ValueTable.from_columns(
        unit=np.repeat(np.arange(50), 30), input_costs=prices, **outcome
    )
    score = right[:, 2] - right[:, 0] + rng.normal(0, 1, inputs)
    return table, {"mine": score}


# --- the best blind mixture -----------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-9, 9), min_size=1, max_size=5),
    st.lists(st.integers(0, 9), min_size=5, max_size=5),
    st.floats(0, 10),
)
def test_the_best_mixture_is_the_optimum_of_a_linear_program(values, costs, spend):
    gain = np.array([0.0, *values])
    cost = np.array([0.0, *costs[: len(values)]])
    modes = BlindModes(tuple(map(str, range(len(gain)))), gain[:, None], cost[:, None])
    found = modes.mixtures(np.array([[spend]])).gain[0, 0]
    program = linprog(-gain, [cost], [spend], [np.ones(len(gain))], [1.0])
    assert found == pytest.approx(-program.fun, abs=1e-9)


def test_the_best_mixture_never_falls_below_a_fixed_mode_that_fits():
    rng = np.random.default_rng(5)
    gain, cost = rng.normal(size=(4, 7)), rng.uniform(0, 2, (4, 7))
    cost[0] = gain[0] = 0
    best = BlindModes(tuple("abcd"), gain, cost).mixtures(cost)
    assert (best.gain >= gain - 1e-12).all()


def test_with_more_to_spend_it_gains_no_less():
    rng = np.random.default_rng(6)
    modes = BlindModes(
        tuple("abc"), rng.normal(size=(3, 1)), np.array([[0], [1], [2.0]])
    )
    gains = modes.mixtures(np.linspace(0, 3, 50)[:, None]).gain[:, 0]
    assert (np.diff(gains) >= -1e-12).all()


# --- leads ----------------------------------------------------------------------------


def test_a_lead_by_hand():
    # Two of four inputs, each of value 3 and 1: random gains 2 of 4, always needs all.
    table = deepval.ValueTable.from_columns(
        unit=["a", "a", "b", "b"],
        losses={"cheap": [4.0, 1, 2, 1], "full": [1.0, 1, 1, 1]},
    )
    result = quiet(table, {"mine": [2, 1, 2, 1]}, 0.5, draws="exact")
    row = result.row("mine")
    assert (row.gain, row.spend) == (4.0, 0.5)
    assert row.lead == pytest.approx((4 - 2) / 8)
    assert result.answer().gain == 4.0


def test_a_lead_is_measured_at_its_own_spend():
    # Free inputs are escalated first, so that half of the money stays unspent.
    table, scores = models()
    result = quiet(table, scores, [deepval.Money(0.5, accounting="skipping")], draws=50)
    row = result.row("mine")
    price = table.input_costs["usd"].mean(axis=0)
    gain = table.mode_values.sum(axis=0)
    spend = (row.spend - price[0]) * len(table)
    program = linprog(
        -gain, [(price - price[0]) * len(table)], [spend], [np.ones(3)], [1.0]
    )
    assert row.lead == pytest.approx((row.gain + program.fun) / len(table), abs=1e-9)


def test_fixed_modes_have_rows_where_they_fit_and_lie_on_no_lead():
    table, scores = models()
    result = quiet(table, scores, draws=50)
    names = {
        alpha: {row.allocator for row in result.rows if row.alpha == alpha}
        for alpha in (0.1, 0.5)
    }
    assert {"always a", "always b"} <= names[0.1]
    assert "always c" not in names[0.5]
    fixed = result.row("always b", alpha=0.2)
    assert (fixed.verdict, fixed.answer, fixed.ndg) == (None, None, None)
    assert fixed.lead == pytest.approx(0, abs=1e-12)
    assert fixed.quality == pytest.approx(-table.losses[:, 1].mean())
    assert (
        fixed.versus_never_lo < fixed.versus_never < fixed.versus_never_hi
        if (fixed.versus_never is not None)
        else fixed.versus_never_loss_lo < fixed.versus_never_loss
    )


# --- answers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at_once", "own", "second", "is_on_few", "verdict"),
    [
        (ABOVE, ABOVE, ABOVE, False, "run"),
        (ABOVE, ABOVE, ACROSS, False, "run"),
        (ABOVE, ABOVE, ACROSS, True, "not settled"),
        (ABOVE, ABOVE, ABOVE, True, "run"),
        (ACROSS, ABOVE, ABOVE, False, "not settled"),
        (ACROSS, ACROSS, ACROSS, False, "not settled"),
        (BELOW, BELOW, BELOW, False, "do not run"),
        (BELOW, BELOW, ACROSS, False, "not settled"),
        (None, None, None, False, "not settled"),
    ],
)
def test_the_words_of_intervals(at_once, own, second, is_on_few, verdict):
    value = 0.2 if own is None else (own.low + own.high) / 2
    margin = Margin(Figure(value, own, second, 0.1), at_once, is_on_few)
    assert margin.verdict == verdict
    # The interval that is shown is above 0 exactly where the answer is `run`.
    if margin.bounds is not None:
        assert (margin.bounds.low > 0) == (verdict == "run")
        assert (margin.bounds.high < 0) == (verdict == "do not run")


def test_a_skilled_score_is_run_and_a_random_one_is_not():
    table, scores = skilled()
    result = quiet(table, scores)
    answer = result.answer(0.2)
    assert (answer.verdict, answer.candidate, answer.best_fixed) == (
        "run",
        "good",
        "small",
    )
    row = result.row("good", alpha=0.2)
    assert (answer.lead, answer.lead_lo, row.answer) == (row.lead, row.lead_lo, "run")
    assert result.row("idle", alpha=0.2).answer == "not settled"
    assert answer.sentence.startswith("Run good at 20 %: ")
    assert row.lead_words in answer.sentence


def test_a_dearer_router_is_not_run_where_one_fixed_model_is_better_for_less():
    for rewards in (True, False):
        table, scores = models(rewards=rewards)
        result = quiet(table, scores)
        answer = result.answer()
        assert answer.budget.label == "money 20% (USD, skipping)"
        assert (answer.verdict, answer.best_fixed) == ("do not run", "b")
        right = (
            100 * float(np.mean(1 - np.abs(table.losses[:, 1])))
            if not rewards
            else (-100 * float(table.losses[:, 1].mean()))
        )
        assert f"always b is right in {right:.1f} % for 2.00 USD per 1,000" in (
            answer.sentence
        )
        assert answer.best_fixed_spend == pytest.approx(1e-3)


def test_rewards_and_losses_of_the_same_answers_give_the_same_sentences():
    one, other = (
        [answer.sentence for answer in quiet(*models(rewards=rewards)).answers]
        for rewards in (True, False)
    )
    assert one == other


def test_a_score_that_helps_on_a_better_base_is_hinted_at():
    rng = np.random.default_rng(2)
    table, _ = models()
    value = table.mode_values[:, 2] - table.mode_values[:, 1]
    result = quiet(table, {"mine": value + rng.normal(0, 0.6, len(table))})
    answer = result.answer()
    assert answer.on_top == "b"
    assert answer.hint.startswith("Run mine on b instead: ")
    # The table has prices, so that threshold counts money without being told.
    typed = Typed("v.csv", {"mine": "my file.csv"}, has_prices=True)
    assert next_command(result, typed) == (
        "deepval threshold v.csv -s 'my file.csv' --alpha 0.2 --base b"
    )
    assert Typed.of(result) == Typed("VALUES", {"mine": "SCORES"}, [], has_prices=True)


def test_the_next_command_names_the_score_that_helps_on_a_better_base():
    rng = np.random.default_rng(2)
    table, _ = models()
    value = table.mode_values
    scores = {
        "one": value[:, 2] + rng.normal(0, 0.8, len(table)),
        "other": value[:, 2] - value[:, 1] + rng.normal(0, 0.4, len(table)),
    }
    result = quiet(table, scores, draws=200)
    answer = result.answer()
    assert (answer.candidate, answer.on_top) == ("one", "b")
    assert answer.hint.startswith("Run other on b instead: ")
    files = {name: f"{name}.csv" for name in scores}
    assert next_command(result, Typed("v.csv", files, has_prices=True)) == (
        "deepval threshold v.csv -s other.csv --alpha 0.2 --base b"
    )


def test_one_of_many_random_scores_is_not_run():
    table, _ = skilled(units=40)
    runs = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        scores = {f"s{i}": rng.normal(size=len(table)) for i in range(10)}
        answer = quiet(table, scores, 0.2, draws=200, seed=seed).answer()
        runs += answer.verdict == "run"
    assert runs <= 2


def test_only_own_allocators_become_the_candidate():
    table, scores = skilled()
    answer = quiet(table, scores, 0.2, own="idle").answer()
    assert answer.candidate == "idle"
    assert "Of the 1 others, 1 could be run, first good" in answer.hint
    with pytest.raises(InputError, match="did you mean 'idle'"):
        quiet(table, scores, 0.2, own="idel")


def test_copies_of_a_score_cost_nothing():
    table, scores = skilled()
    alone = quiet(table, {"good": scores["good"]}, 0.2)
    copies = {name: scores["good"] for name in ("good", "x", "y")}
    together = quiet(table, copies, 0.2)
    assert together.row("good").lead_lo == pytest.approx(alone.row("good").lead_lo)
    # For one allocator, the bounds for all at once are its own interval.
    assert alone.row("good").lead_lo == pytest.approx(
        alone.row("good").versus_random_lo
    )


def test_a_router_whose_cost_is_not_known_is_not_settled():
    table, scores = skilled()
    costs = {"modes": {"small": {"ms": 1}, "big": {"ms": 10}}}
    budget = deepval.Latency(0.2, costs)
    result = quiet(table, {"good": scores["good"]}, [budget], missing_costs="list")
    answer = result.answer()
    assert (answer.verdict, answer.candidate) == ("not settled", None)
    assert "good" in answer.sentence


def test_a_router_that_cannot_pay_for_itself_is_not_run():
    table, scores = skilled()
    costs = {
        "modes": {"small": {"ms": 1}, "big": {"ms": 10}},
        "allocators": {"good": {"ms": 5}},
    }
    result = quiet(table, {"good": scores["good"]}, [deepval.Latency(0.2, costs)])
    answer = result.answer()
    assert (answer.verdict, answer.candidate, answer.lead) == ("do not run", None, None)
    assert "Do not run good at 20 % of the time" in answer.sentence
    assert result.row("good").answer == "do not run"


@pytest.mark.parametrize("options", [{"draws": 0}, {"draws": 50, "units": ["3"]}])
def test_without_an_interval_nothing_is_settled(options):
    table, scores = skilled()
    answer = quiet(table, scores, 0.2, **options).answer()
    assert answer.verdict == "not settled"
    assert answer.lead is not None
    assert answer.lead_lo is None


def test_answers_survive_the_file_and_are_found_by_budget(tmp_path):
    result = quiet(*skilled())
    result.save(tmp_path / "r.json")
    assert deepval.Result.load(tmp_path / "r.json") == result
    content = json.loads((tmp_path / "r.json").read_text())
    assert [one["budget"]["alpha"] for one in content["answers"]] == [
        0.1,
        0.2,
        0.3,
        0.5,
    ]
    assert set(content["answers"][0]) >= {
        "verdict",
        "candidate",
        "gain",
        "lead",
        "lead_lo",
        "lead_hi",
        "best_fixed",
        "best_fixed_gain",
        "best_fixed_spend",
        "sentence",
    }
    assert result.answer(0.3).budget.alpha == 0.3
    with pytest.raises(InputError, match="no answer under that budget"):
        result.answer(0.4)


def test_a_table_in_files_has_the_same_answers(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table, scores = skilled()
    ids = np.arange(len(table))
    columns = {"unit": table.unit_ids[table.unit], "input": ids}
    losses = {"loss_small": table.losses[:, 0], "loss_big": table.losses[:, 1]}
    parquet.write_table(pa.table(columns | losses), tmp_path / "v.parquet")
    parquet.write_table(
        pa.table({"input": ids, "score": scores["good"]}), tmp_path / "good.parquet"
    )
    files = tmp_path / "v.parquet", {"good": tmp_path / "good.parquet"}
    one, other = (quiet(*files, draws=50, memory=memory) for memory in (None, 0))
    for first, second in zip(one.answers, other.answers, strict=True):
        assert first.sentence == second.sentence


# --- without a score ------------------------------------------------------------------


def test_without_a_score_the_answer_is_whether_the_dearer_mode_helps():
    table, _ = skilled()
    result = quiet(table, {})
    effect = result.effect
    assert effect.verdict == "helps"
    assert effect.gain == pytest.approx(table.full_gain / table.cheap_loss)
    assert effect.changed == table.affected
    by_unit = np.bincount(table.unit, weights=table.decision_values)
    assert len(effect.worse) == np.count_nonzero(by_unit < 0)
    assert effect.largest == table.unit_ids[by_unit.argmax()]
    assert effect.sentences[0].startswith("big helps: it removes ")
    assert result.answer().candidate is None


def test_what_is_so_on_these_units_is_told_apart_from_new_ones():
    losses = {"small": [5.0, 4.0, 1.0, 1.0], "big": [1.0, 0.0, 1.0, 1.2]}
    table = deepval.ValueTable.from_columns(unit=["a", "a", "b", "c"], losses=losses)
    effect = quiet(table, {}).effect
    assert effect.verdict == "not settled"
    assert effect.sentences[0].startswith("On these 3 units big removes 70.9 %")
    assert effect.sentences[0].endswith("for new units not settled.")


def test_the_next_command_follows_the_answer_and_says_how_files_are_read():
    table, scores = skilled()
    options = ["--missing=worst", "--units=a,b"]
    typed = Typed("v.csv", {"good": "good.csv", "idle": "idle.csv"}, options)
    result = quiet(table, scores, 0.2)
    assert result.answer().candidate == "good"
    assert next_command(result, typed) == (
        "deepval threshold v.csv --missing=worst -s good.csv --alpha 0.2"
    )
    result = quiet(table, scores, 0.2, own="idle")
    assert result.answer().verdict == "not settled"
    plain = Typed("v.csv", typed.scores)
    assert next_command(result, plain) == "deepval report v.csv -s idle.csv"
    # A report reads files that have our columns.
    assert next_command(result, typed) == (
        "deepval evaluate v.csv --missing=worst --units=a,b -s idle.csv --all"
    )
    assert next_command(quiet(table, {}, 0.2), plain) == (
        "deepval evaluate v.csv -s SCORES.csv"
    )


# --- text -----------------------------------------------------------------------------


@pytest.mark.parametrize("case", [skilled(), models(), (skilled()[0], {})])
def test_the_answer_stands_first_in_fifteen_lines(case):
    result = quiet(*case)
    lines = answer_text(result, typed=Typed("v.csv", {"good": "good.csv"})).splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 80
    first = " ".join(lines[:3])
    told = result.effect.sentences[0] if result.effect else result.answer().sentence
    assert told in first


def test_the_highlighted_allocator_comes_first():
    names = [f"s{i}" for i in range(8)]
    table, scores = skilled()
    noise = np.random.default_rng(0).normal(size=(8, len(table)))
    result = quiet(table, scores | dict(zip(names, noise, strict=True)))

    def first(**options):
        lines = answer_text(result, **options).splitlines()
        heading = next(i for i, line in enumerate(lines) if "against blind" in line)
        return lines[heading + 1].split()[0]

    assert first() == result.answer().candidate
    assert first(highlight="s7") == "s7"


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_narrow_terminals_lose_columns_and_no_answer(width):
    result = quiet(*models())
    text = answer_text(result, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "do not run" in text


def test_where_the_cheap_output_is_always_needed_no_fixed_mode_saves_it():
    rng = np.random.default_rng(3)
    losses = {"small": rng.gamma(1, 1, 200), "big": rng.gamma(0.5, 1, 200)}
    costs = {
        "modes": {"small": {"ms": 6}, "big": {"ms": 10}},
        "allocators": {"mine": {"ms": 0}},
    }
    budget = deepval.Latency(0.5, costs)
    fits = []
    for needed in (False, True):
        table = deepval.ValueTable.from_columns(
            unit=np.arange(200) // 10, losses=losses, cheap_always_runs=needed
        )
        result = quiet(table, {"mine": rng.normal(size=200)}, [budget], draws=50)
        fits.append([mode.fits for mode in result.answer().fixed])
    # The big mode alone takes 10 ms, after the small one 16; the budget is 6 + 5.
    assert fits == [[True, True], [True, False]]


def test_even_units_are_no_doubt_about_some_of_them():
    """Where all of three units are alike, it says nothing that three hold the gain."""
    columns = {
        "unit": ["a", "a", "b", "b", "c", "c"],
        "input": [1, 2, 3, 4, 5, 6],
        "loss_cheap": [4.0, 1.0, 4.0, 1.0, 4.0, 1.0],
        "loss_full": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    }
    doubt = quiet(columns, {"mine": [2, 1, 2, 1, 2, 1]}, 0.5).answer(0.5).doubt
    assert "3 of 3" not in doubt
    assert "3 units" in doubt
    columns["loss_cheap"][2] = columns["loss_cheap"][4] = 1.01
    doubt = quiet(columns, {"mine": [2, 1, 2, 1, 2, 1]}, 0.5).answer(0.5).doubt
    assert "1 of 3" in doubt
