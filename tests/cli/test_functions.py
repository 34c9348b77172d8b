"""Plain functions as commands: their words, what is wrong with them, and their help."""

from typing import get_args

import pytest

from commands import refusal
from deepval.cli import compare, evaluate, options, routers
from deepval.judging import deployment, pairs, routing
from deepval.judging.allowances import RAILS
from deepval.report import FORMS
from deepval.report.gate import GATES
from deepval.results import KINDS
from deepval.tables import off_policy, scores

POLICIES = (deployment.BEST, *(name.replace(" ", "-") for name in routing.NAMED))


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
