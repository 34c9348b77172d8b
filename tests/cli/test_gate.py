"""The regression gate: `deepval compare --fail-if` with its files, the GitHub Action's
shell, and the test helper.
"""

import json
import re
import subprocess
import textwrap
from pathlib import Path

import numpy as np
import pytest

import deepval
from commands import SCRIPT, run
from deepval.basics.errors import InputError
from deepval.judge.pairs import compare
from deepval.judge.report.gate import Gate
from deepval.testing import assert_not_worse
from doc_blocks import run_page
from project import ROOT
from worlds import COSTS, judge, table_of

ACTION = ROOT / "action.yml"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """values.csv, good.csv (noisy decision values), bad.csv (their negatives),
    noise.csv; a folder with a space.
    """
    folder = tmp_path_factory.mktemp("a gate")
    rng = np.random.default_rng(0)
    value = rng.normal(0.3, 1, 240)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat(np.arange(12), 20),
        losses={"cheap": np.full(240, 5.0), "full": 5.0 - value},
    )
    deepval.write_values(table, folder / "values.csv")
    good = value + rng.normal(0, 1, 240)
    scores = {"good": good, "bad": -good, "noise": good + rng.normal(0, 0.01, 240)}
    for name, score in scores.items():
        rows = [f"{i},{number!r}" for i, number in enumerate(score.tolist())]
        (folder / f"{name}.csv").write_text("\n".join(["input,score", *rows]) + "\n")
    return folder


def test_markdown_of_a_gate_that_passes(files):
    words = (
        "compare",
        "values.csv",
        "good.csv",
        "bad.csv",
        "--alpha",
        "0.2",
        "--alpha",
        "0.5",
        "--fail-if",
        "not-better",
    )
    done = run(*words, "--format", "markdown", cwd=files)
    assert done.code == 0
    first, *rest = done.out.splitlines()
    assert (
        first == "Gate passed: good is better than bad at selection 20%, selection 50%."
    )
    assert (
        rest[1]
        == "**good against bad, shares of the all-cheap loss, over all 12 units**"
    )
    assert sum(line.startswith("| selection") for line in rest) == 2


def test_markdown_of_a_gate_that_fails(files):
    words = (
        "compare",
        "values.csv",
        "bad.csv",
        "good.csv",
        "--alpha",
        "0.2",
        "--fail-if",
        "worse",
    )
    done = run(*words, "--format", "markdown", cwd=files)
    assert done.code == 3
    (row,) = json.loads(run(*words, "--json", cwd=files).out)
    numbers = (
        f"{100 * row['difference']:.2f}% of the all-cheap "
        f"loss, 95 % interval [{100 * row['lo']:.2f}%, "
    )
    assert (
        f"deepval: bad is worse than good at selection 20% (worse: {numbers}"
        in done.err
    )
    assert done.out.startswith(
        "Gate failed: bad is worse than good at selection 20% (worse: "
    )


def test_areas_have_the_same_formats(files):
    words = (
        "compare",
        "values.csv",
        "bad.csv",
        "good.csv",
        "--of",
        "area",
        "--fail-if",
        "worse",
    )
    done = run(*words, "--format", "markdown", cwd=files)
    assert done.code == 3
    assert "**Area between gain curves, over all " in done.out
    assert json.loads(run(*words[:-2], "--json", cwd=files).out)["verdict"] == "worse"


def test_several_tables_are_gated_by_their_mean(files, tmp_path):
    twin = tmp_path / "twin.csv"
    twin.write_text((files / "values.csv").read_text())
    words = (
        "compare",
        "values.csv",
        twin,
        "bad.csv",
        "good.csv",
        "--alpha",
        "0.2",
        "--fail-if",
        "worse",
        "--draws",
        "50",
    )
    done = run(*words, cwd=files)
    assert done.code == 3
    assert re.search(r"\(worse: -\d.*% of the all-cheap loss, 95 % interval", done.err)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--format", "markdow"), 'Did you mean "markdown"?'),
        (
            ("--draws", "0", "--fail-if", "worse"),
            "needs a verdict",
        ),
    ],
)
def test_bad_options_write_nothing(files, words, sentence):
    before = {path: path.read_bytes() for path in files.iterdir()}
    done = run("compare", "values.csv", "good.csv", "bad.csv", *words, cwd=files)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert {path: path.read_bytes() for path in files.iterdir()} == before


def test_a_candidate_that_cannot_pay_for_itself_fails_and_one_without_a_verdict_is_skipped(  # noqa: E501
    tmp_path,
):
    table = table_of(
        np.tile([1.0, -1.0], 30),
        unit=np.repeat(np.arange(6), 10),
        cheap=2.0,
        costs=COSTS,
    )
    scores = {"dear": np.arange(60.0), "free": np.arange(60.0)}
    result = judge(
        table, scores, [deepval.Selection(0.2), deepval.Latency(0.2)], draws=20
    )
    gate = Gate("worse", compare(result, "dear", "free"))
    assert [row.verdict for row in gate.rows] == ["unresolved", "infeasible"]
    assert [row.budget.label for row in gate.failures] == ["latency 20% (ms)"]
    assert (
        "dear is worse than free at latency 20% (ms) (infeasible: dear: "
        in gate.sentence
    )
    other = Gate("worse", compare(result, "free", "dear"))
    assert other.failures == []
    with pytest.raises(InputError, match="there is none"):
        Gate("worse", [])


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / "docs" / "gate.md", shown=("yaml",))


# The helper for tests.


def test_assert_not_worse_states_the_numbers(files):
    values, good, bad = (files / f"{name}.csv" for name in ("values", "good", "bad"))
    (row,) = assert_not_worse(good, bad, values, budgets=0.2)
    assert row.verdict == "better"
    with pytest.raises(AssertionError) as caught:
        assert_not_worse(bad, good, values, budgets=[0.2, 0.5])
    (same, _) = compare(
        deepval.evaluate(values, {"new": bad, "old": good}, [0.2, 0.5]), "new", "old"
    )
    bounds = f"[{100 * same.lo:.2f}%, {100 * same.hi:.2f}%]"
    text = f"{100 * same.difference:.2f}% of the all-cheap loss, 95 % interval {bounds}"
    assert str(caught.value).startswith(
        "new is worse than old at selection 20% (worse: "
        f"{text}), selection 50% (worse: "
    )


# The action: its own shell, as GitHub runs it.


def step(name: str) -> str:
    """The shell of a step of the action."""
    text = ACTION.read_text(encoding="utf-8")
    (block,) = re.findall(
        rf"    - id: {name}\n(?:      .*\n|\n)*?      run: \|\n((?:        .*\n)+)",
        text,
    )
    return textwrap.dedent(block)


def inputs() -> dict[str, str]:
    """The inputs that the step `compare` passes on, by environment variable: their
    names.
    """
    return dict(
        re.findall(
            r"^        ([A-Z_]+): \$\{\{ inputs\.([a-z-]+) \}\}$",
            ACTION.read_text(),
            flags=re.MULTILINE,
        )
    )


def defaults() -> dict[str, str]:
    """The default of every input, empty if there is none."""
    block = (
        ACTION.read_text(encoding="utf-8")
        .partition("inputs:\n")[2]
        .partition("outputs:\n")[0]
    )
    parts = re.split(r"^  ([a-z-]+):\n", block, flags=re.MULTILINE)[1:]
    found = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        default = re.search(r'^    default: "?(.*?)"?$', body, flags=re.MULTILINE)
        found[name] = default[1] if default else ""
    return found


def run_action(folder: Path, work: Path, **chosen: str):
    """Run the step `compare` in a folder with these inputs: the process, the outputs
    and the summary.
    """
    temporary = work / "temp"
    temporary.mkdir(exist_ok=True)
    names, usual = inputs(), defaults()
    env = {
        variable: chosen.get(name.replace("-", "_"), usual[name])
        for variable, name in names.items()
    }
    env |= {
        "PROGRAM": SCRIPT[0],
        "RUNNER_TEMP": str(temporary),
        "PATH": "/usr/bin:/bin",
        "HOME": str(work),
    }
    env |= {name: str(work / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    script = work / "step.sh"
    script.write_text(step("compare"))
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    output = dict(
        line.split("=", 1) for line in (work / "GITHUB_OUTPUT").read_text().splitlines()
    )
    return done, output, (work / "GITHUB_STEP_SUMMARY").read_text()


def action_inputs(
    work: Path, candidate: str, baseline: str, **more: str
) -> dict[str, str]:
    written = {"comment": str(work / "my gate.md")}
    return (
        {
            "values": "values.csv\n",
            "candidate": candidate,
            "baseline": baseline,
            "alpha": "0.2 0.5",
        }
        | written
        | more
    )


def test_the_action_passes(files, tmp_path):
    done, output, summary = run_action(
        files, tmp_path, **action_inputs(tmp_path, "good.csv", "bad.csv")
    )
    assert done.returncode == 0, done.stderr
    assert output == {
        "outcome": "passed",
        "comment": f"{tmp_path}/my gate.md",
    }
    assert summary == (tmp_path / "my gate.md").read_text()
    assert summary.startswith(
        "### deepval gate: passed\n\nGate passed: good is not worse than bad at "
        "selection 20%, "
    )


def test_the_action_reports_bad_input(files, tmp_path):
    done, output, summary = run_action(
        files, tmp_path, **action_inputs(tmp_path, "god.csv", "bad.csv", costs="c.toml")
    )
    assert done.returncode == 2
    assert output["outcome"] == "error"
    assert summary.startswith("### deepval gate: error\n\n    deepval: ")


def test_inputs_of_the_action_are_never_run(files, tmp_path):
    words = action_inputs(
        tmp_path,
        "$(touch owned).csv",
        "`touch owned`.csv",
        alpha="0.2; touch owned",
        options="*\n$(id)",
    )
    done, output, _ = run_action(files, tmp_path, **words)
    assert (done.returncode, output["outcome"]) == (2, "error")
    assert not list(files.glob("*owned*"))
    # text of inputs is in no script
    assert "${{" not in step("compare") + step("install")


@pytest.mark.parametrize(
    "chosen",
    [
        {"candidate": "--help"},
        {"baseline": "--version"},
        {"values": "-h\nvalues.csv"},
        {"fail_if": "--help"},
        {"alpha": "--help"},
        {"costs": "--help"},
        {"options": "--help"},
    ],
)
def test_a_word_with_a_dash_does_not_pass_the_action(files, tmp_path, chosen):
    words = action_inputs(tmp_path, "bad.csv", "good.csv")
    done, output, summary = run_action(files, tmp_path, **words | chosen)
    assert (done.returncode, output["outcome"]) == (2, "error")
    assert summary.startswith("### deepval gate: error\n\n    deepval: ")


def test_a_file_whose_name_begins_with_a_dash_is_judged(files, tmp_path):
    candidate = files / "-bad.csv"
    candidate.write_bytes((files / "bad.csv").read_bytes())
    done, output, _ = run_action(
        files, tmp_path, **action_inputs(tmp_path, "-bad.csv", "good.csv")
    )
    candidate.unlink()
    assert (done.returncode, output["outcome"]) == (3, "failed")


def test_a_line_end_in_an_input_adds_no_output(files, tmp_path):
    comment = f"{tmp_path}/gate.md\noutcome=passed"
    words = action_inputs(tmp_path, "bad.csv", "good.csv", comment=comment)
    done, output, _ = run_action(files, tmp_path, **words)
    assert (done.returncode, output["outcome"]) == (2, "error")
    assert "comment must be a file name in one line" in done.stderr
