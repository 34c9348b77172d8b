"""The command as a user runs it: through the script, through `python -m`, and in this
process.
"""

import atexit
import csv
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

import deepval
from commands import PYTHON, SCRIPT, Done, run, run_process
from deepval.cli import COMMANDS
from example_files import write_example

DEMO = Path(tempfile.mkdtemp(prefix="deepval-test-"))
atexit.register(shutil.rmtree, DEMO, ignore_errors=True)
write_example(DEMO)
HEAVY = {"torch", "matplotlib", "sklearn", "scipy", "onnxruntime", "pyarrow", "pandas"}


EVALUATE = ("evaluate", DEMO / "values.csv", "-s", DEMO / "scores" / "router.csv")


def run_here(*words: object, cwd: Path | None = None) -> Done:
    return run(*words, cwd=cwd, notes=True)


def evaluate(*words: object) -> Done:
    return run_here(*EVALUATE, *words)


CLOSED = {
    "| true": (141, ""),
    "2>&1 | true": (141, ""),
    ">&-": (0, ""),
    "<&- >&- 2>&-": (0, ""),
    "> /dev/full": (2, r"deepval: .*No space left on device\.\n"),
}
"""Exit code of a command that prints, and what it reports, by where its output goes."""


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is a device of Linux")
@pytest.mark.parametrize("redirection", CLOSED)
@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [
        ("--version", ""),
        ("evaluate --help", ""),
        *(("evaluate values.csv -s scores/router.csv", x) for x in ("", "1")),
    ],
)
def test_output_that_is_closed_no_longer_read_or_on_a_full_disk(
    words, redirection, unbuffered
):
    line = f"{shlex.quote(SCRIPT[0])} {words} {redirection}; exit ${{PIPESTATUS[0]}}"
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = run_process(line, program=("bash", "-c"), cwd=DEMO, env=environment)
    code, sentence = CLOSED[redirection]
    assert (done.code, done.out) == (code, "")
    assert re.fullmatch(sentence, done.err)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name):
    done = run_here(name, "--help")
    assert done.code == 0
    assert f"Example: deepval {name}" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("words", "unloaded"),
    [
        (("--version",), {"numpy", "deepval.cli.evaluate"}),
        *(((name, "--help"), HEAVY) for name in ("evaluate", "fit", "report")),
    ],
)
def test_a_command_loads_its_own_module_alone(words, unloaded):
    code = (
        "import sys; from deepval.cli import main; import atexit; "
        "atexit.register(lambda: print(*sys.modules)); main()"
    )
    done = run_process(code, *words, program=PYTHON)
    assert done.code == 0, done.err
    loaded = set(done.out.splitlines()[-1].split())
    assert "deepval.cli" in loaded
    assert not loaded & unloaded


def test_a_command_that_is_not_there_is_refused_with_the_nearest():
    done = run_process("evaluat", program=SCRIPT)
    assert done.code == 2
    assert "did you mean 'evaluate'?" in done.err


def test_json_equals_the_python_call():
    done = run_process(
        *EVALUATE,
        "--json",
        "--draws",
        "50",
        "--seed",
        "3",
        "--alpha",
        "0.2",
    )
    assert done.code == 0, done.err
    scores = {"router": DEMO / "scores" / "router.csv"}
    same = deepval.evaluate(
        DEMO / "values.csv",
        scores,
        [deepval.Selection(0.2)],
        draws=50,
        seed=3,
    )
    assert done.out == same.to_json()


def test_demo_writes_where_it_says(tmp_path):
    done = run_process(
        "demo", "--out", "here", "--scenes", "12", program=SCRIPT, cwd=tmp_path
    )
    assert done.code == 0, done.err
    cells = {
        f"{system}-{geometry}"
        for system in ("braking", "receding-horizon")
        for geometry in ("monocular", "oracle")
    }
    assert {path.name for path in (tmp_path / "here").iterdir()} == {
        *cells,
        "report.html",
        "results.md",
    }
    *_, simulated, effect, answer, certainty, following = done.out.splitlines()
    assert simulated.startswith("Simulated: 12 scenes of invented road traffic")
    result = deepval.Result.load(
        tmp_path / "here" / "braking-monocular" / "result.json"
    )
    assert {row.allocator for row in result.rows} >= {
        "random",
        "all-full",
        "oracle",
        "ego-speed",
    }
    assert len(result.provenance["units"]) == 3
    setting = result.setting
    assert (
        f"changes the loss of {setting['affected']} of {setting['inputs']} inputs"
        in effect
    )
    assert "3 test scenes" in effect
    told = result.answer(0.2)
    assert f"What to run: {told.sentence}" in answer
    assert told.doubt in certainty
    # The command that the page prints under "What next" runs on the demo's own fitted
    # scores.
    cell = tmp_path / "here" / "braking-monocular"
    chosen = run_here(
        "threshold",
        cell,
        "-s",
        "gate-ridge",
        "--alpha",
        "0.2",
        "--out",
        tmp_path / "router.json",
    )
    assert chosen.code == 0, chosen.err
    for path in re.findall(r"here/[\w./-]+", following):
        assert (tmp_path / path).exists()
    assert "mean    least" not in done.out


def write(path: Path, rows: list[list[object]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


BAD_OPTIONS = [
    (("--alpha", "1.5"), "alpha must be"),
    (("--draws", "many"), "--draws"),
    (("--draws", "exact"), "enumerates at most"),
    (("--budget", "honey"), "--budget"),
    (("--budget", "latency"), "A latency budget"),
    (("--by", "colour"), "--by"),
    (("--missing", "zero"), "--missing"),
    (("--format", "pdf"), "--format"),
    (("--units", "scene-99"), "scene-99 is not"),
    (("--out", "/nowhere/at/all.json"), "must be a"),
]


@pytest.mark.parametrize(("words", "sentence"), BAD_OPTIONS)
def test_bad_options_are_one_sentence_and_exit_code_2(words, sentence):
    done = evaluate(*words)
    assert done.code == 2
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert not done.out


def test_bad_files_are_one_sentence_and_leave_nothing(tmp_path):
    values = write(
        tmp_path / "v.csv",
        [
            ["unit", "input", "loss_a", "loss_b"],
            ["u", "i1", 1, 2],
            ["w", "i2", "nan", 1],
        ],
    )
    scores = write(tmp_path / "s.csv", [["input", "score"], ["i1", 1], ["i2", 2]])
    done = run_process(
        "evaluate", values, "-s", scores, "--out", tmp_path / "out.json", program=SCRIPT
    )
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"deepval: {values}: column 'loss_a' must be finite; "
        "row 2 (input 'i2') holds nan.\n"
    )
    assert not (tmp_path / "out.json").exists()


def test_unit_lists(tmp_path):
    units = sorted(
        {
            line.split(",")[0]
            for line in (DEMO / "values.csv").read_text().splitlines()[1:]
        }
    )
    wanted = evaluate("--json", "--draws", "20", "--units", ",".join(units[:5]))
    (tmp_path / "units.txt").write_text("\n".join(units[:5]), encoding="utf-8-sig")
    from_file = evaluate("--json", "--draws", "20", "--units", tmp_path / "units.txt")
    assert (from_file.code, from_file.out) == (0, wanted.out)
    assert json.loads(wanted.out)["provenance"]["units"] == units[:5]
    for option in ("--units", "--calibrate"):
        done = evaluate(option, f"{units[0]},scene-99,scene-98")
        assert (done.code, done.out) == (2, "")
        assert "scene-98, scene-99 are not" in done.err
    long = ",".join(units * 30)  # no file can have this name
    assert len(long) > 255
    done = evaluate("--json", "--draws", "20", "--units", long)
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["provenance"]["units"] == units
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    for bad in (tmp_path / "latin.txt", ",", " , "):
        done = evaluate("--units", bad)
        assert (done.code, "Traceback" in done.err) == (2, False)


def test_modes_in_another_order(tmp_path):
    header, *rows = csv.reader((DEMO / "values.csv").read_text().splitlines())
    # as a pivot sorts them
    kept = [header.index(name) for name in ("unit", "input", "loss_full", "loss_cheap")]
    with (tmp_path / "pivot.csv").open("w", newline="") as out:
        csv.writer(out).writerows([row[i] for i in kept] for row in (header, *rows))
    words = ("-s", DEMO / "scores" / "router.csv", "--draws", "50", "--alpha", "0.2")
    turned = run_here(
        "evaluate", tmp_path / "pivot.csv", *words, "--json", "--modes", "cheap,full"
    )
    assert (
        json.loads(turned.out)["rows"]
        == json.loads(evaluate(*words[2:], "--json").out)["rows"]
    )
    wrong = run_here("evaluate", tmp_path / "pivot.csv", *words)
    # a note stands once: above the tables, or on stderr where there are none
    question = "is 'cheap' really the full mode"
    assert question in wrong.err
    assert question not in wrong.out
    assert (
        question in run_here("evaluate", tmp_path / "pivot.csv", *words, "--json").err
    )
    tables = run_here("evaluate", tmp_path / "pivot.csv", *words, "--all")
    assert not tables.err
    assert question in tables.out
    refused = run_here(
        "compare",
        tmp_path / "pivot.csv",
        words[1],
        f"b={words[1]}",
        "--modes",
        "cheap,best",
    )
    assert (refused.code, refused.out) == (2, "")
    assert "modes must be" in refused.err
