"""The regression gate: `deepval compare --fail-if` with its files, the GitHub Action's
shell, and the test helper.
"""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import deepval
from commands import PYTHON, SCRIPT, run, run_process
from deepval.errors import InputError
from deepval.judging.pairs import compare
from deepval.report.gate import Gate
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


def cases_of(path: Path) -> dict[str, ElementTree.Element]:
    """The test cases of a JUnit file by name; counts must match."""
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    (suite,) = root
    cases = {case.get("name"): case for case in suite}
    for element in (root, suite):
        assert int(element.get("tests")) == len(cases)
        assert int(element.get("failures")) == sum(
            case.find("failure") is not None for case in cases.values()
        )
        assert int(element.get("skipped")) == sum(
            case.find("skipped") is not None for case in cases.values()
        )
        assert element.get("errors") == "0"
    assert [root.tag, suite.tag, *{case.tag for case in suite}] == [
        "testsuites",
        "testsuite",
        "testcase",
    ]
    return cases


def test_markdown_and_junit_of_a_gate_that_passes(files, tmp_path):
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
    done = run(
        *words, "--format", "markdown", "--junit", tmp_path / "gate.xml", cwd=files
    )
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
    cases = cases_of(tmp_path / "gate.xml")
    assert list(cases) == ["selection 20%", "selection 50%"]
    assert all(case.get("classname") == "good against bad" for case in cases.values())
    assert re.match(
        r"better: \d.* of the all-cheap loss, 95 % interval \[",
        cases["selection 20%"][0].text,
    )


def test_markdown_and_junit_of_a_gate_that_fails(files, tmp_path):
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
    done = run(
        *words, "--format", "markdown", "--junit", tmp_path / "gate.xml", cwd=files
    )
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
    (failure,) = cases_of(tmp_path / "gate.xml")["selection 20%"]
    assert numbers in failure.get("message")
    assert failure.get("message") == failure.text


def test_areas_have_the_same_formats(files, tmp_path):
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
    done = run(
        *words, "--format", "markdown", "--junit", tmp_path / "gate.xml", cwd=files
    )
    assert done.code == 3
    assert "**Area between gain curves, over all " in done.out
    assert cases_of(tmp_path / "gate.xml")["all shares"].find("failure") is not None
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
    done = run(*words, "--junit", tmp_path / "gate.xml", cwd=files)
    assert done.code == 3
    assert re.search(r"\(worse: -\d.*% of the all-cheap loss, 95 % interval", done.err)
    assert len(cases_of(tmp_path / "gate.xml")) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--junit", "gate.xml"), "--junit"),
        (("--junit", "good.csv", "--fail-if", "worse"), "--junit"),
        (("--junit", "none/gate.xml", "--fail-if", "worse"), "none is no folder"),
        (("--format", "markdow"), "did you mean 'markdown'?"),
        (("--format", "markdown", "--json"), "--json"),
        (
            ("--draws", "0", "--fail-if", "worse", "--junit", "gate.xml"),
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
    (tmp_path / "gate.xml").write_text(other.junit())
    assert "dear" in cases_of(tmp_path / "gate.xml")["latency 20% (ms)"].find(
        "skipped"
    ).get("message")
    with pytest.raises(InputError, match="there is none"):
        Gate("worse", [])


def test_odd_names_stay_well_formed():
    table = table_of(
        np.tile([1.0, -1.0], 10), unit=np.repeat(np.arange(4), 5), cheap=2.0
    )
    result = judge(
        table,
        {'a<&"\x01': np.arange(20.0), "b": np.arange(20.0)},
        [deepval.Selection(0.5)],
        draws=20,
    )
    gate = Gate("not-better", compare(result, 'a<&"\x01', "b"))
    ((case,),) = ElementTree.fromstring(gate.junit())
    assert case.get("classname") == 'a<&"\\x01 against b'


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / "docs" / "gate.md", shown=("yaml",))
    assert cases_of(tmp_path / "gate.xml")["selection 20%"].find("failure") is not None


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


def test_assert_not_worse_takes_arrays_and_can_demand_more():
    rng = np.random.default_rng(1)
    value, score = rng.normal(0.3, 1, 200), rng.random(200)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat(np.arange(10), 20),
        losses={"cheap": np.full(200, 5.0), "full": 5.0 - value},
    )
    assert_not_worse(score, score, table, budgets=0.2, draws=50)
    with pytest.raises(AssertionError, match="new is not"):
        assert_not_worse(
            score, score, table, budgets=0.2, draws=50, fail_if="not-better"
        )
    with pytest.raises(InputError, match="needs a verdict"):
        assert_not_worse(score, score, table, draws=0)


def test_pytest_shows_the_line_of_the_test(tmp_path, files):
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent(f"""
        import deepval

        def test_router():
            deepval.testing.assert_not_worse({str(files / "bad.csv")!r}, {str(files / "good.csv")!r},
                                             {str(files / "values.csv")!r}, budgets=0.2)
        """)  # noqa: E501
    )
    done = run_process(
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        tmp_path,
        program=(sys.executable,),
        cwd=tmp_path,
    )
    assert done.code == 1
    assert (
        "AssertionError: new is worse than old at selection 20% (worse: -" in done.out
    )
    assert "raise AssertionError" not in done.out


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
    written = {"junit": str(work / "my gate.xml"), "comment": str(work / "my gate.md")}
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
        "junit": f"{tmp_path}/my gate.xml",
    }
    assert summary == (tmp_path / "my gate.md").read_text()
    assert summary.startswith(
        "### deepval gate: passed\n\nGate passed: good is not worse than bad at "
        "selection 20%, "
    )
    assert list(cases_of(tmp_path / "my gate.xml")) == [
        "selection 20%",
        "selection 50%",
    ]


def test_the_action_fails(files, tmp_path):
    options = {
        "fail_if": "not-better",
        "options": "--draws\n50\n",
        "budget": "selection",
    }
    done, output, summary = run_action(
        files, tmp_path, **action_inputs(tmp_path, "noise.csv", "good.csv", **options)
    )
    assert done.returncode == 3
    assert output["outcome"] == "failed"
    assert (
        "### deepval gate: failed\n\nGate failed: noise is not better than good at "
        in summary
    )
    assert (
        cases_of(tmp_path / "my gate.xml")["selection 20%"].find("failure") is not None
    )
    assert "deepval: noise is not better than good" in done.stderr


def test_the_action_reports_bad_input(files, tmp_path):
    done, output, summary = run_action(
        files, tmp_path, **action_inputs(tmp_path, "god.csv", "bad.csv", costs="c.toml")
    )
    assert done.returncode == 2
    assert (output["outcome"], output["junit"]) == ("error", "")
    assert summary.startswith("### deepval gate: error\n\n    deepval: ")
    assert not (tmp_path / "my gate.xml").exists()


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


def test_the_action_installs_itself_apart(tmp_path):
    fake = tmp_path / "bin" / "python3"
    fake.parent.mkdir()
    log = 'echo "$0 $*" >> "$LOG"\n'
    venv = 'if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi\n'
    fake.write_text(f"#!/bin/bash\n{log}{venv}")
    fake.chmod(0o755)
    names = {
        "RUNNER_TEMP": tmp_path,
        "GITHUB_ACTION_PATH": ROOT,
        "GITHUB_OUTPUT": tmp_path / "out",
        "LOG": tmp_path / "log",
    }
    env = {name: str(path) for name, path in names.items()} | {
        "PATH": f"{fake.parent}:/usr/bin:/bin"
    }
    subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step("install")],
        env=env,
        check=True,
        cwd=tmp_path,
    )
    environment = tmp_path / "deepval-gate"
    assert (tmp_path / "log").read_text().splitlines() == [
        f"{fake} -m venv {environment}",
        (
            f"{environment}/bin/python -m pip install --quiet "
            f"--disable-pip-version-check {ROOT}[parquet]"
        ),
    ]
    assert (tmp_path / "out").read_text() == f"program={environment}/bin/deepval\n"


def test_every_input_of_the_action_is_used_and_described():
    assert {*inputs().values(), "install"} == set(defaults())
    for name in ("worse", "not-better"):
        assert name in ACTION.read_text()


def test_a_parser_of_yaml_reads_the_action_alike():
    code = (
        f"import yaml, json; print(json.dumps(yaml.safe_load(open({str(ACTION)!r}))))"
    )
    pythons = [PYTHON, ("/usr/bin/python3", "-c"), ("python3", "-c")]
    parsed = next(
        (
            done.out
            for program in pythons
            if (done := run_process(code, program=program)).code == 0
        ),
        None,
    )
    if parsed is None:
        pytest.skip("no Python on this machine has PyYAML")
    action = json.loads(parsed)
    assert {
        name: item.get("default", "") for name, item in action["inputs"].items()
    } == defaults()
    assert all(
        item["description"]
        for part in ("inputs", "outputs")
        for item in action[part].values()
    )
    steps = {item["id"]: item for item in action["runs"]["steps"]}
    assert action["runs"]["using"] == "composite"
    assert {name: item["run"] for name, item in steps.items()} == {
        name: step(name) for name in ("install", "compare")
    }
    assert all(item["shell"] == "bash" for item in steps.values())
    expected = {
        variable: f"${{{{ inputs.{name} }}}}" for variable, name in inputs().items()
    }
    program = {"PROGRAM": "${{ steps.install.outputs.program || 'deepval' }}"}
    assert steps["compare"]["env"] == expected | program
