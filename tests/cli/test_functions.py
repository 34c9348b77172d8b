"""Plain functions as commands: their words, what is wrong with them, and their help."""

from typing import get_args

import pytest

from commands import call, refusal
from deepval.cli import compare, data_options, detect, drive, options, routers
from deepval.deploy import drives
from deepval.deploy.allocators import RECIPES
from deepval.deploy.allocators.allocator import SIGNALS
from deepval.deploy.board import tracks
from deepval.driving.datasets import DATASETS
from deepval.driving.datasets.synthetic import MODES
from deepval.driving.geometry.classes import CLASSES
from deepval.driving.perception.placing import PLACINGS
from deepval.driving.perception.running.decoding import STYLES
from deepval.driving.perception.running.onnx_model import PROVIDERS
from deepval.driving.systems import LEARNED, SYSTEMS
from deepval.judge import deployment, pairs, routing
from deepval.judge.report.forms import FORMS
from deepval.judge.report.gate import GATES
from deepval.judge.results import KINDS
from deepval.judge.tables import off_policy, scores
from deepval.judge.tables.costs import PROFILES

POLICIES = (deployment.BEST, *(name.replace(" ", "-") for name in routing.NAMED))


@pytest.mark.parametrize(
    ("words", "of_the_library"),
    [
        (options.BudgetKind, KINDS),
        (options.Missing, get_args(scores.Missing)),
        (options.Format, FORMS),
        (compare.Statistic, (*pairs.STATISTICS, "area")),
        (compare.GateName, GATES),
        (routers.Policy, POLICIES),
        (routers.Method, off_policy.METHODS),
        (detect.Provider, PROVIDERS),
        (detect.Style, ("auto", *STYLES)),
        (data_options.Geometry, PLACINGS),
        (drive.SystemName, drives.CONTROLLERS),
    ],
)
def test_an_option_takes_the_words_that_the_library_knows(words, of_the_library):
    """They are written twice, so that help loads none of the library."""
    assert get_args(words) == tuple(of_the_library)


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("evaluate", PROFILES),
        ("build", (*DATASETS, *SYSTEMS, *LEARNED, *CLASSES, *PROFILES)),
        ("detect", DATASETS),
        (
            "drive",
            (
                *DATASETS,
                *drives.PLAIN,
                *SIGNALS,
                *MODES,
                *drive.BY_SCORES,
                *drive.PLANNERS,
            ),
        ),
        ("fit", RECIPES),
        ("reproduce", tracks.NAMES),
        ("cells", tracks.NAMES),
    ],
)
def test_help_names_what_the_library_has(command, names, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    text = call(command, "-h")
    assert [name for name in names if name not in text] == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("evaluate",), "VALUES must be given, before any option that takes a list"),
        (("shadow", "v.csv"), "--out must be given: see deepval shadow -h."),
        (("evaluate", "v.csv", "--out"), "--out must have a value: see"),
        (("evaluate", "v.csv", "-s"), "-s must have a value: see"),
        (
            ("evaluate", "v.csv", "--budgt", "latency"),
            "Unknown option: --budgt. Did you mean --budget?",
        ),
        (("evaluate", "v.csv", "--seed", "1.5"), "must be a whole number; found '1.5'"),
        (("watch", "a", "--horizon", "0"), "--horizon must be 1 or more; found 0."),
        (
            ("evaluate", "v.csv", "--budget", "selection", "late"),
            'Invalid value "late" for --budget. Choose from: "selection", "latency", '
            '"energy", "money". Did you mean "latency"?',
        ),
        (
            ("evaluate", "v.csv", "w.csv"),
            "There is no argument for 'w.csv': see deepval evaluate -h.",
        ),
        (("evaluate", "v.csv", "--alpha", "20%"), "found '20%': write --alpha 0.2."),
        (("perceive", "images"), "`deepval perceive` is now `deepval detect`"),
        (("fit", "cell", "--export", "a"), "is now `deepval export`"),
        (("leaderboard", "mine", "--check"), "is now `deepval check`"),
    ],
)
def test_wrong_words_are_a_sentence(words, sentence):
    assert sentence in refusal(*words)
