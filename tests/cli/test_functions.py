"""Plain functions as commands: their words, what is wrong with them, and their help."""

from typing import get_args

import pytest

from commands import call, refusal
from deepval.cli import compare, evaluate, options, routers
from deepval.judging import deployment, diagnosis, pairs, routing, watching
from deepval.judging.allowances import LEVELS, RAILS
from deepval.report import FORMS
from deepval.report.gate import GATES
from deepval.results import KINDS
from deepval.tables import costs, off_policy, scores

POLICIES = (deployment.BEST, *(name.replace(" ", "-") for name in routing.POLICIES))


@pytest.mark.parametrize(
    ("words", "of_the_library"),
    [
        (options.BudgetKind, KINDS),
        (options.RailsName, RAILS),
        (options.Missing, get_args(scores.Missing)),
        (evaluate.Format, FORMS),
        (compare.Statistic, (*pairs.STATISTICS, "area")),
        (compare.GateName, GATES),
        (routers.Policy, POLICIES),
        (routers.Method, off_policy.METHODS),
    ],
)
def test_an_option_takes_the_words_that_the_library_knows(words, of_the_library):
    """They are written twice, so that help loads none of the library."""
    assert get_args(words) == tuple(of_the_library)


def test_defaults_in_the_help_are_those_of_the_library():
    judging = call("evaluate", "-h")
    assert ", ".join(map(str, LEVELS)) in " ".join(judging.split())
    for profile in costs.PROFILES:
        assert profile in judging
    assert f"Default: {diagnosis.DIFFERENCE}." in " ".join(judging.split())
    watch = call("watch", "-h")
    assert f"[default: {watching.RISK}]" in watch
    assert f"[default: {watching.HORIZON}]" in watch


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("evaluate",), "values must be given: see deepval evaluate -h."),
        (("shadow", "v.csv"), "--out must be given: see deepval shadow -h."),
        (("evaluate", "v.csv", "--out"), "--out must have a value: see"),
        (("evaluate", "v.csv", "-s"), "-s must have a value: see"),
        (
            ("evaluate", "v.csv", "--budgt", "latency"),
            "deepval evaluate has no option --budgt; did you mean '--budget'?",
        ),
        (("evaluate", "v.csv", "-x"), "has no option -x: see deepval evaluate -h."),
        (("evaluate", "v.csv", "--json=3"), "--json must stand alone; found '3'"),
        (("evaluate", "v.csv", "--seed", "1.5"), "must be a whole number; found '1.5'"),
        (("evaluate", "v.csv", "--seed", ""), "must be a whole number; found ''"),
        (("evaluate", "v.csv", "--curve", "x"), "--curve must be a whole number"),
        (("threshold", "v.csv", "--alpha", "x"), "--alpha must be a number; found 'x'"),
        (("watch", "a", "--horizon", "0"), "--horizon must be 1 or more; found 0."),
        (
            ("evaluate", "v.csv", "--budget", "selection", "late"),
            "--budget must be one of selection, latency, energy, money; found 'late'; "
            "did you mean 'latency'?",
        ),
        (
            ("evaluate", "v.csv", "w.csv"),
            "takes the argument values alone; found 'w.csv' as well: did you mean "
            "-s w.csv?",
        ),
        (
            ("evaluate", "v.csv", "markdown"),
            "found 'markdown' as well: did you mean --format markdown?",
        ),
    ],
)
def test_wrong_words_are_a_sentence(words, sentence):
    assert sentence in refusal(*words)


def test_the_last_of_several_values_counts_and_a_hyphen_may_begin_one():
    assert "--seed must be 0 or more; found -1." in refusal(
        "evaluate", "v.csv", "--seed", "3", "--seed", "-1"
    )
    assert "-h.csv: no such file" in refusal("evaluate", "--", "-h.csv")
