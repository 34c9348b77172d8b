"""The commands of a floor and of tables by groups: files, words and exit codes."""

import csv
import json
import shlex

import numpy as np
import pytest

import deepval
from commands import run


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    """In task a the small model is as good as the large one, in task b it is bad."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("floor") / "values.csv"
    names = ["unit", "input", "task", "reward_small", "reward_large"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "usd_small", "usd_large"])
        for number in range(400):
            task = "ab"[number % 2]
            large = int(rng.random() < 0.9)
            small = large if task == "a" else large * int(rng.random() < 0.2)
            unit = f"u{number // 4}"
            writer.writerow([unit, number, task, small, large, 0.1, 1])
    return path


def test_evaluate_answers_the_floor_first(values):
    words = run("evaluate", values, "--keep", "95%", "--table-by", "task")
    assert words.code == 0
    assert words.out.startswith("Keep 95 % of large's right answers for ")
    content = run("evaluate", values, "--at-least", "large-3pt", "--json")
    assert json.loads(content.out)["keep"]["mode"] == "large"


def test_the_next_command_writes_what_reaches_the_floor(values, tmp_path):
    for floor in (["--keep", "95%"], ["--at-least", "large-3pt"]):
        words = run("evaluate", values, "--table-by", "task", *floor)
        (line,) = words.out.replace(" \\\n", "").split("Next: deepval ")[1:]
        *command, _, out = shlex.split(line)
        assert command[0] == "threshold"
        assert command[-2:] == floor
        out = tmp_path / out
        assert run(*command, "--out", out).code == 0
        assert out.exists()


def test_threshold_writes_a_table(values, tmp_path):
    out = tmp_path / "router.json"
    options = ["--table-by", "task", "--keep", "95%", "--out", out]
    assert run("threshold", values, *options).code == 0
    router = deepval.TableRouter.load(out)
    assert router.groups["a"] == {"small": 1.0}
    out = tmp_path / "proxy.yaml"
    options = ["--table-by", "task", "--alpha", "0.5", "--export", "litellm"]
    assert run("threshold", values, *options, "-o", out).code == 0
    assert '  - model_name: "a"\n    litellm_params:\n' in out.read_text()


def test_nothing_is_written_that_is_not_shown(values, tmp_path):
    out = tmp_path / "router.json"
    options = ["--table-by", "task", "--at-least", "0.99", "--out", out]
    assert run("threshold", values, *options).code == 3
    assert not out.exists()
    assert run("threshold", values, *options, "--force").code == 0
    assert out.exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["evaluate", "--keep", "95%", "--at-least", "0.9"], "give one"),
        (["evaluate", "--at-least", "lagre-1pt"], "the modes are"),
        (["evaluate", "--table-by", "taks"], "did you mean 'task'"),
        (["evaluate", "--keep", "950%"], "from 0 to 1"),
        (["threshold", "--keep", "95%"], "--table-by COLUMN"),
        (["threshold", "--table-by", "task", "--base", "small"], "no use for --base"),
    ],
)
def test_refused(values, command, words):
    name, *options = command
    refused = run(name, values, *options)
    assert refused.code == 2
    assert words in refused.err
