"""What the answers say on real router tables, and how often they are wrong on noise.

Run: make slow, or pytest -m slow -s tests/slow/test_answers_on_real_tables.py. It
prints the tables of docs/answers.md.
"""

import warnings
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.optimize import linprog

import deepval
from shared import shared_data

SMALL = "mistralai/mistral-7b-chat"
LARGE = "gpt-4-1106-preview"
MIDDLE = (
    "mistralai/mixtral-8x7b-chat",
    "zero-one-ai/Yi-34B-Chat",
    "gpt-3.5-turbo-1106",
    "meta/llama-2-70b-chat",
    "meta/code-llama-instruct-34b-chat",
)
SHARES = (0.1, 0.2, 0.3, 0.5)
MOST_INPUTS = 4000
DRAWS = 300
SAMPLES = 300


def quiet(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", deepval.InputWarning)
        return deepval.evaluate(*arguments, **options)


def tables() -> Iterator[tuple[str, deepval.ValueTable]]:
    """Public tables of language models and of image and text services, with prices."""
    folder = shared_data("routing")
    for file in sorted(folder.glob("*.parquet")):
        choices: list[list[str] | None] = []
        options = {}
        if file.name.startswith("frugalml"):
            choices = [None]
            dataset = file.stem.removeprefix("frugalml_")
            options = {"prices": folder / "frugalml_costs.csv", "dataset": dataset}
        elif file.name.startswith("routerbench"):
            choices = [[SMALL, middle, LARGE] for middle in MIDDLE]
            choices.append([SMALL, *MIDDLE[:3], LARGE])
        for models in choices:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", deepval.InputWarning)
                table = deepval.import_router_log(file, models=models, **options)
            if len(table) > MOST_INPUTS:
                table = table.restrict(table.unit_ids[:MOST_INPUTS])
            if "usd" in table.input_costs:
                yield f"{file.stem}, {len(table.modes)} models", table


def made_scores(table: deepval.ValueTable, rng: np.random.Generator):
    """A skilled score, noise, and skilled scores per mode."""
    value = table.decision_values
    per_mode = table.mode_values[:, 1:]
    return {
        "skilled": value + rng.normal(0, value.std() + 1e-9, len(table)),
        "noise": rng.normal(size=len(table)),
        "per mode": per_mode + rng.normal(0, per_mode.std() + 1e-9, per_mode.shape),
    }


def blind_optimum(table: deepval.ValueTable, spend: float) -> float:
    """What the best blind mixture gains per input, by a solver of linear programs."""
    prices = table.input_costs["usd"].mean(axis=0)
    found = linprog(
        -table.mode_values.mean(axis=0),
        A_ub=[prices - prices[0]],
        b_ub=[spend],
        A_eq=np.ones((1, len(prices))),
        b_eq=[1],
        method="highs",
    )
    return -found.fun if found.success else float("nan")


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("accounting", ["skipping", "cascade"])
def test_no_answer_on_real_tables_recommends_less_than_a_blind_choice(accounting):
    rng = np.random.default_rng(2)
    counts: Counter[str] = Counter()
    by_score: dict[str, Counter[str]] = {}
    said: Counter[str] = Counter()
    largest_error = 0.0
    for _, table in tables():
        budgets = [deepval.Money(share, accounting=accounting) for share in SHARES]
        for name, score in made_scores(table, rng).items():
            if name == "per mode" and len(table.modes) == 2:
                score = score[:, 0]
            result = quiet(table, {name: score}, budgets, draws=DRAWS)
            for answer in result.answers:
                row = result.row(name, alpha=answer.budget.alpha)
                if row.gain is None:
                    counts["cannot run"] += 1
                    continue
                counts[answer.verdict] += 1
                by_score.setdefault(name, Counter())[answer.verdict] += 1
                price = table.input_costs["usd"].mean(axis=0)
                best = blind_optimum(table, row.spend - price[0])
                gain = row.gain / len(table)
                fitting = [one.gain for one in answer.fixed if one.fits]
                if answer.verdict == "run":
                    assert gain > best - 1e-9
                    assert row.gain >= max(fitting) - 1e-9
                if row.verdict == "better" and row.never_verdict == "better":
                    said[answer.verdict] += 1
                loss_share = table.cheap_loss / len(table)
                if np.isfinite(best) and loss_share > 0 and row.lead is not None:
                    error = abs(gain - best - row.lead * loss_share)
                    largest_error = max(largest_error, error)
    print(f"\n{accounting}: {sum(counts.values())} rows, {dict(counts)}")
    for name, own in by_score.items():
        print(f"  {name}: {dict(own)}")
    print(f"  better than random and than never: {dict(said)}")
    print(f"  lead against a solver, largest error: {largest_error:.1e}")
    assert by_score["noise"]["run"] == 0
    assert largest_error < 1e-9


def populations(rng: np.random.Generator):
    """Units with 30 inputs each, whose effects have heavy tails."""
    for mean in (0.5, 0.0, -0.5):
        unit = np.repeat(np.arange(400), 30)
        effect = rng.standard_t(3, 400)[unit] + mean
        full = 5.0 - effect + rng.normal(0, 1, len(unit))
        yield f"mean effect {mean}", unit, np.full(len(unit), 5.0), full


@pytest.mark.slow
@pytest.mark.parametrize("units", [20, 100])
def test_noise_is_seldom_run_and_the_best_of_ten_is_not_run_more_often(units):
    rng = np.random.default_rng(5)
    print()
    for title, unit, cheap, full in populations(rng):
        runs: Counter[str] = Counter()
        for _ in range(SAMPLES):
            drawn = rng.integers(0, 400, units)
            rows = np.concatenate([np.flatnonzero(unit == one) for one in drawn])
            table = deepval.ValueTable.from_columns(
                unit=np.repeat(np.arange(units), 30),
                losses={"cheap": cheap[rows], "full": full[rows]},
            )
            scores = {f"s{i}": rng.normal(size=len(rows)) for i in range(10)}
            seed = int(rng.integers(1 << 30))
            ten = quiet(table, scores, 0.2, draws=DRAWS, seed=seed)
            one = quiet(table, {"s0": scores["s0"]}, 0.2, draws=DRAWS, seed=seed)
            runs["one"] += one.answer().verdict == "run"
            runs["best of ten"] += ten.answer().verdict == "run"
            runs["best of ten by own intervals"] += any(
                ten.row(name).versus_random_lo > 0 for name in scores
            )
        shares = {name: f"{100 * n / SAMPLES:.1f} %" for name, n in runs.items()}
        print(f"{units} units, {title}: {shares}")
        # Nominal 2.5 %; four standard errors of such a share above it.
        assert runs["one"] <= 0.062 * SAMPLES
        assert runs["best of ten"] <= 0.062 * SAMPLES
