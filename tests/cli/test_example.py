"""`deepval example`: the same bytes everywhere, and the commands that it prints give
the answers for which the files were drawn.
"""

import csv
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import deepval
from commands import PYTHON, call, refusal, run, run_process
from deepval.cli.example import EXAMPLES

DIGESTS = {
    "requests.csv": "346c47005c9d6f0d",
    "router.csv": "2c9d6a152e504bfb",
    "length.csv": "083697ee898232f4",
    "drives.csv": "831058b51a81aa3c",
    "speed.csv": "aff2b82925ce4f8d",
    "values.csv": "c56a4fe46d952c48",
    "old.csv": "930768b5629c29b7",
    "new.csv": "bdb05f7f09975730",
}
ANSWERS = {
    "routing": (
        (
            0,
            "Run router at 20 % of the money: 9.4 points [4.3, 13.9] above the best "
            "blind mixture; the best fixed mode that fits is medium.",
        ),
        (
            0,
            "Do not run length at 20 % of the money: always medium is right in 74.2 % "
            "for 0.82 USD per 1,000; length in 68.8 % for 1.44.",
        ),
        (0, "Run router at 20 % of the money: 9.4 points [4.3, 13.9] above the best"),
    ),
    "driving": (
        (
            0,
            "On these 9 units large removes 4.1 % [−3.6, 11.2] of the loss of small; "
            "for new units not settled.",
        ),
        (0, "Not settled at 20 %: speed against 20 % at random is 0.2 % of the loss"),
    ),
    "gate": (
        (3, "new against old, shares of the all-cheap loss, over all 30 units"),
        (0, "Run old at 20 %: 5.1 % of the loss [3.5, 6.9] above 20 % at random; "),
    ),
}
"""Of each example, exit code and first line of the commands, in order."""


def printed_commands(text: str) -> list[list[str]]:
    return [
        line.split()[1:] for line in text.splitlines() if line.startswith("  deepval ")
    ]


def columns(path: str) -> dict[str, np.ndarray]:
    """The columns of a CSV file as text."""
    head, *rows = csv.reader(Path(path).read_text("utf-8").splitlines())
    return dict(zip(head, np.array(rows).T, strict=True))


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_files_are_the_same_everywhere():
    for name in EXAMPLES:
        call("example", name)
    files = {file.name: sha256(file.read_bytes()) for file in Path().iterdir()}
    assert {name: digest.hexdigest()[:16] for name, digest in files.items()} == DIGESTS


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_printed_commands_run_and_answer(name):
    commands = printed_commands(call("example", name))
    for words, (code, line) in zip(commands, ANSWERS[name], strict=True):
        done = run(*words, notes=True)
        assert done.code == code, done.err
        assert " ".join(done.out.split()).startswith(line)


def test_routing_is_the_default_and_needs_the_base_install_alone():
    # What the extras bring cannot be imported.
    main = """
import runpy, sys
for name in ("pyarrow", "scipy", "sklearn", "matplotlib", "PIL", "torch"):
    sys.modules[name] = None
sys.argv[0] = "deepval"
runpy.run_module("deepval", run_name="__main__")
"""
    text = run_process(main, "example", program=PYTHON).out
    assert text == call("example", "routing")
    for words in printed_commands(text):
        assert run_process(main, *words, program=PYTHON).code == 0


def test_what_the_answers_say_holds_by_hand():
    call("example", "routing")
    requests = columns("requests.csv")
    right = {
        mode: 100 * requests[f"reward_{mode}"].astype(float).mean()
        for mode in ("small", "medium", "large")
    }
    usd = {mode: requests[f"usd_{mode}"].astype(float) for mode in right}
    # The longest prompts go to the large model until the money is spent.
    length = columns("length.csv")["score"].astype(int)
    longest = np.argsort(-length, kind="stable")
    dearer = usd["large"] - usd["small"]
    bought = longest[np.cumsum(dearer[longest]) <= 0.2 * dearer.sum()]
    rewards = requests["reward_small"].astype(float)
    rewards[bought] = requests["reward_large"].astype(float)[bought]
    spent = usd["small"].sum() + dearer[bought].sum()

    assert 100 * rewards.mean() < right["medium"] < right["large"]
    assert spent > usd["medium"].sum()

    call("example", "driving")
    drives = columns("drives.csv")
    gain = drives["loss_small"].astype(float) - drives["loss_large"].astype(float)
    by_drive = [gain[drives["unit"] == drive].sum() for drive in set(drives["unit"])]
    assert sum(by_drive) > 0 > min(by_drive)
    assert np.sum(np.array(by_drive) < 0) == 3


def test_a_file_with_other_content_stays():
    call("example", "gate")
    call("example", "gate")  # its own files may be written again
    Path("new.csv").write_text("input,score\n", encoding="utf-8")
    before = Path("values.csv").stat().st_mtime_ns
    assert "new.csv must be a file of this example or absent" in refusal(
        "example", "gate"
    )
    assert Path("new.csv").read_text(encoding="utf-8") == "input,score\n"
    assert Path("values.csv").stat().st_mtime_ns == before


def test_commands_name_the_files_in_another_folder():
    (words, _) = printed_commands(call("example", "driving", "-o", "to/here"))
    assert words == ["evaluate", "to/here/drives.csv"]
    assert deepval.read_values("to/here/drives.csv").unit_ids[0] == "drive-1"
