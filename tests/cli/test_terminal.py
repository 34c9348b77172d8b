"""The command in a terminal: help, completion, widths, several files at once, exchanged
files, a stop.
"""

import re
import shlex
import signal

import numpy as np
import pytest

import deepval
from commands import call, refusal, run, run_process
from deepval.cli import terminal
from deepval.cli.commands import AFTER_STOP, AFTER_STOP_ELSEWHERE

NAMES = ("gate-gbm-value-of-all", "gate-gbm-harm", "mine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("terminal")
    rng = np.random.default_rng(0)
    value = np.where(rng.random(120) < 0.4, rng.normal(0.4, 1, 120), 0.0)
    lines = ["unit,input,loss_cheap,loss_full,weather"]
    lines += [
        f"u{i // 10:02d},f{i},2.0,{2 - v!r},{('sun', 'heavy snow')[i % 2]}"
        for i, v in enumerate(value.tolist())
    ]
    (home / "values.csv").write_text("\n".join(lines) + "\n")
    for name in NAMES:
        scores = (value + rng.normal(0, 0.5, 120)).tolist()
        rows = "".join(f"f{i},{score!r}\n" for i, score in enumerate(scores))
        (home / f"{name}.csv").write_text("input,score\n" + rows)
    return home


def judging(folder, *words):
    return (
        "evaluate",
        folder / "values.csv",
        "--alpha",
        "0.2",
        "--draws",
        "40",
        *words,
    )


def judged(folder, *words):
    return call(*judging(folder, *words))


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_evaluate_keeps_names_difference_and_verdict_at_every_width(
    folder, columns, monkeypatch
):
    monkeypatch.setattr(
        terminal, "look", lambda **_: {"width": columns, "color": False}
    )
    files = [folder / f"{name}.csv" for name in NAMES]
    words = ("-s", *files, "--by", "weather")
    answer = judged(folder, *words)
    assert max(map(len, answer.splitlines())) <= columns
    assert re.match(r"Run mine at 20 %: [\d.]+ % of the loss \[", answer)
    for name in NAMES:
        row = rf"(?m)^{name}\s.* -?[\d.]+ \[[\d.]+, [\d.]+\]  (run|not settled)$"
        assert re.search(row, answer)
    assert re.search(r"weather=heavy snow, selection 20%", answer)
    done = judged(folder, *words, "--all")
    lines = done.splitlines()
    assert max(map(len, lines)) <= columns
    verdicts = lines[
        next(i for i, line in enumerate(lines) if line.startswith("Verdicts (")) :
    ]
    for name in NAMES:
        row = next(line for line in verdicts if re.match(rf"\s*{name}\s", line))
        assert re.search(r"%\s+\[-?[\d.]+%, -?[\d.]+%\]", row)
        assert row.endswith(("better", "worse", "unresolved"))
    assert re.search(r"weather=heavy snow, selection 20%", done)
    assert "[low, high]: 95 % interval over units" in done
    # The answer is what is read last.
    sentence = " ".join(answer.partition("\nIf ")[0].split())
    assert " ".join(done.split()).endswith(sentence)


def test_the_next_command_is_folded_so_that_a_shell_joins_it(folder, monkeypatch):
    monkeypatch.setattr(terminal, "look", lambda **_: {"width": 80, "color": False})
    (folder / "my files").mkdir()
    scores = folder / "my files" / "mine.csv"
    scores.write_bytes((folder / "mine.csv").read_bytes())
    done = judged(folder, "-s", scores, "--missing", "worst")
    folded = done.partition("\nNext: ")[2]
    assert max(map(len, folded.splitlines())) <= 80
    assert shlex.split(folded.replace("\\\n", "")) == [
        *("deepval", "threshold", str(folder / "values.csv"), "--missing=worst"),
        *("-s", str(scores), "--alpha", "0.2"),
    ]


def test_a_pipe_is_as_wide_as_columns_says_and_otherwise_endless(folder, monkeypatch):
    words = judging(folder, "-s", folder / "mine.csv", "--by", "weather")
    monkeypatch.delenv("COLUMNS", raising=False)
    assert max(map(len, run_process(*words).out.splitlines())) > 140
    for columns in (80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert 60 < max(map(len, run_process(*words).out.splitlines())) <= columns
    monkeypatch.setenv("COLUMNS", "wide")
    assert max(map(len, run_process(*words).out.splitlines())) > 140
    # Messages stay one line each, so that a program can read them.
    monkeypatch.setenv("COLUMNS", "40")
    assert (
        run_process("evaluate", folder / "no-such-folder-of-this-name").err.count("\n")
        == 1
    )


def test_several_score_files_follow_one_option(folder):
    files = [folder / f"{name}.csv" for name in NAMES]
    once = judged(folder, "-s", *files, "--json")
    often = judged(folder, *(word for file in files for word in ("-s", file)), "--json")
    assert once == often


def test_exchanged_files_are_recognised(folder):
    assert "this looks like" in refusal(
        "evaluate", folder / "mine.csv", "-s", folder / "values.csv"
    )
    assert "loss_cheap" in refusal(
        "evaluate", folder / "values.csv", "-s", folder / "values.csv"
    )


@pytest.mark.parametrize(
    ("words", "place", "kept"),
    [
        (
            ("evaluate", "v.csv"),
            "deepval.judge.cases.read_evaluation_data",
            AFTER_STOP_ELSEWHERE,
        ),
        (
            ("analyse", "signs", "cell"),
            "deepval.cli.analyse.find_cells",
            AFTER_STOP_ELSEWHERE,
        ),
        (
            ("build", "--out", "x"),
            "deepval.cli.build_cells.sources.synthetic",
            AFTER_STOP["build"],
        ),
    ],
)
def test_a_stop_says_what_is_kept_and_how_to_go_on(
    words, place, kept, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(place, lambda *_, **__: signal.raise_signal(signal.SIGINT))
    done = run(*words)
    assert done.code == 130
    assert done.err == f"\ndeepval: stopped. {kept}\n"


@pytest.fixture(scope="module")
def crowd(folder):
    """The results of 70 allocators under four budgets: more rows than a terminal is
    for.
    """
    rng = np.random.default_rng(3)
    files = []
    for i in range(70):
        files.append(folder / f"crowd-{i:02d}.csv")
        rows = "".join(
            f"f{j},{score!r}\n" for j, score in enumerate(rng.random(120).tolist())
        )
        files[-1].write_text("input,score\n" + rows)
    return ["evaluate", folder / "values.csv", "--draws", "20", "-s", *files]


def test_a_long_result_is_one_answer_and_all_of_it_is_printed_on_request(
    crowd, tmp_path
):
    done = call(*crowd, "--out", tmp_path / "result.json")
    whole = call(*crowd, "--all")
    result = deepval.Result.load(tmp_path / "result.json")
    assert len(result.rows) == 4 * (70 + 4) + 4  # always cheap fits every budget
    assert len(done.splitlines()) <= 20 < 572 < len(whole.splitlines())
    assert "(66 more: --all)" in done
    answer = result.answer(0.2)
    assert " ".join(done.split()).startswith(answer.sentence)
    for budget in result.answers:
        assert f"{100 * budget.budget.alpha:g} % {budget.verdict}" in done
    for row in result.rows:
        assert row.name in whole
    at = [row for row in result.rows if row.budget.label == "selection 20%"]
    entered = [row for row in at if row.verdict]
    assert len(entered) == 70
    for row in entered:
        assert re.search(
            rf"(?m)^ *(selection 20%)? *{row.allocator} .*{row.verdict}", whole
        )


ABSENT = "build --dataset kitti --root /no/where --mode a=b --mode c=d --out x"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("evaluate v.csv --alpha 0.1 --alpha x", "--alpha"),
        ("evaluate v.csv --alpha=20%", "--alpha 0.2"),
        ("threshold v.csv --seed 1.5", "--seed"),
        ("evalute v.csv", "'evaluate'"),
        ("report", "RESULTS"),
        ("compare v.csv --formt csv", "--formt"),
        (ABSENT, "--root"),
        ("--foo", "--foo"),
    ],
)
def test_wrong_words_are_one_line_that_names_the_option(line, word):
    done = run(*line.split())
    assert (done.code, done.out) == (2, "")
    assert word in done.err
    assert done.err.count("\n") == 1
