"""The answer of a row: one true sentence from the verdicts against random, never and
always escalating.
"""

import itertools
import json
import warnings

import numpy as np
import pytest

import deepval
from deepval.report import console, forms
from deepval.report.console import closing_sentences
from deepval.results import answer
from worlds import COSTS, judge, table_of

WORDS = ("better", "unresolved", "worse")
BOTH = {
    ("better", "better"): "better than random and worth it",
    (
        "better",
        "unresolved",
    ): (
        "better than random; not shown to be worth it (never escalating "
        "is within the interval)"
    ),
    ("better", "worse"): "better than random, but never escalating is better",
    ("unresolved", "better"): "worth it, but not shown to be better than random",
    (
        "unresolved",
        "unresolved",
    ): "shown neither to be better than random nor to be worth it",
    (
        "unresolved",
        "worse",
    ): "not shown to be better than random, and never escalating is better",
    ("worse", "better"): "worth it, but worse than random",
    ("worse", "unresolved"): "worse than random, and not shown to be worth it",
    ("worse", "worse"): "worse than random, and never escalating is better",
}
FITS = {
    "better": "; better than always escalating",
    "unresolved": "; not distinguishable from always escalating, which fits the budget",
    "worse": "; always escalating is better and fits the budget",
}
DEARER = {
    "better": "; better than always escalating, which costs 3 times as much",
    "unresolved": (
        "; not distinguishable from always escalating, which costs 3 times as much"
    ),
    "worse": "",
}


def fields(verdict, never, always, *, fits, **more):
    verdicts = {
        "verdict": verdict,
        "verdict_words": verdict,
        "never_verdict": never,
        "always_verdict": always,
    }
    return (
        verdicts
        | {
            "kind": "money",
            "chance": "random",
            "always_fits": fits,
            "always_cost_ratio": 3.0,
        }
        | more
    )


@pytest.mark.parametrize(
    ("verdict", "never", "always"), list(itertools.product(WORDS, repeat=3))
)
def test_every_combination_of_verdicts_has_its_sentence(verdict, never, always):
    both = BOTH[verdict, never]
    fitting = answer(fields(verdict, never, always, fits=True))
    dearer = answer(fields(verdict, never, always, fits=False))
    worthy = (verdict, never) == ("better", "better")
    assert fitting == both + (
        FITS[always].replace("; always", ", but always") if worthy else FITS[always]
    )
    # Beyond the budget, always escalating matters to an allocator that is worth it and
    # gains no less.
    assert dearer == both + (DEARER[always] if never == "better" else "")


def test_an_answer_names_its_chance_its_weakness_and_the_effort_of_always():
    weak = answer(
        fields(
            "better",
            "worse",
            "better",
            fits=False,
            verdict_words="better on few units, but rests on 7",
        )
    )
    assert weak == (
        "better than random (on few units, but rests on 7), "
        "but never escalating is better"
    )
    mixed = answer(
        fields("better", "better", "worse", fits=False, chance="random-ladder")
    )
    assert mixed == "better than random-ladder and worth it"
    counted = answer(
        fields(
            "worse",
            "better",
            "better",
            fits=False,
            kind="selection",
            always_cost_ratio=10 / 3,
        )
    )
    assert counted.endswith(
        "; better than always escalating, which escalates 3.33 times as many inputs"
    )
    assert answer({"verdict": "infeasible"}) == "cannot run within the budget"
    assert answer({"verdict": None}) is None
    assert answer({"verdict": "better"}) is None  # a result of an older version


@pytest.fixture(scope="module")
def harmful():
    rng = np.random.default_rng(0)
    cheap, hurt = rng.gamma(1, 1, 400), rng.gamma(1, 0.5, 400)
    losses = {"cheap": cheap, "full": cheap + hurt}
    table = deepval.ValueTable.from_columns(unit=np.arange(400) // 20, losses=losses)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", deepval.InputWarning)
        return deepval.evaluate(table, {"mine": -hurt, "bad": hurt}, [0.2], draws=100)


def test_what_harms_least_is_no_good_news(harmful):
    row = harmful.row("mine")
    assert (row.verdict, row.never_verdict, row.always_verdict) == (
        "better",
        "worse",
        "better",
    )
    assert row.versus_never == row.gain_share < row.versus_never_hi < 0
    assert (row.always_fits, row.always_cost_ratio, row.surpassed, row.marked) == (
        False,
        5.0,
        "never",
        None,
    )
    words = "Better than random, but never escalating is better: mine."
    assert words in closing_sentences(harmful.rows)[0]
    for text in (str(harmful), console.render(harmful, width=80)):
        assert words in " ".join(text.split())
    assert "better, but never is better" in forms.result_markdown(harmful)
    assert (
        "**"
        not in forms.table_markdown(
            next(iter(console.result_tables(harmful)))
        ).partition("|")[2]
    )


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_gain_is_in_every_table_however_narrow(harmful, width):
    text = console.render(harmful, width=width)
    table = text[text.index("Verdicts (") :]
    assert "-1.09%" in table or f"{100 * harmful.row('mine').gain_share:.2f}%" in table
    assert all(len(line) <= width for line in table.splitlines())


def test_always_costs_what_its_budget_says():
    table = table_of([1.0, -1.0, 2.0, 0.5], unit=["a", "b", "b", "c"])
    budgets = [
        deepval.Latency(0.3, COSTS),
        deepval.Latency(0.5, COSTS, "skipping"),
        deepval.Selection(1.0),
    ]
    tight, loose, everything = (
        judge(table, {"light": np.arange(4.0)}, [b], draws=20).row("light")
        for b in budgets
    )
    cheap, full = (COSTS["modes"][mode]["ms"] for mode in ("cheap", "full"))
    assert (tight.always_fits, loose.always_fits, everything.always_fits) == (
        False,
        True,
        True,
    )
    assert tight.always_cost_ratio == pytest.approx(full / (cheap + 0.3 * full))
    assert loose.always_cost_ratio == pytest.approx(full / (cheap + 0.5 * full))
    assert loose.always_cost_ratio <= 1 < tight.always_cost_ratio
    assert (
        everything.always_cost_ratio,
        everything.versus_always_loss,
        everything.always_verdict,
    ) == (
        1.0,
        0.0,
        "unresolved",
    )


def test_a_result_without_the_new_fields_still_loads(harmful, tmp_path):
    content = json.loads(harmful.to_json())
    new = [name for name in content["rows"][0] if "never" in name or "always" in name]
    assert len(new) == 16
    for row in content["rows"]:
        for name in (*new, "answer", "spender"):
            del row[name]
    content["rows"] = [row for row in content["rows"] if row["allocator"] != "never"]
    (tmp_path / "old.json").write_text(json.dumps(content))
    old = deepval.Result.load(tmp_path / "old.json")
    assert (
        old.row("mine").verdict,
        old.row("mine").answer,
        old.row("always").allocator,
    ) == (
        "better",
        None,
        "all-full",
    )
    words = "selection 20%. Better, against random: mine. Worse, against random: bad."
    assert closing_sentences(old.rows)[0].startswith(words)
    assert "mine" in str(old)
    old.plot()
    old.report(tmp_path / "old.html")


def test_never_and_always_are_no_names_of_allocators():
    for name in ("never", "always"):
        with pytest.raises(deepval.InputError, match="name of its own"):
            judge(
                table_of([1.0, 2.0], unit=["a", "b"]),
                {name: np.arange(2.0)},
                [deepval.Selection(0.5)],
            )
