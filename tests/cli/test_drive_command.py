import json
import re

import pytest

from commands import call
from deepval.basics.errors import InputError
from deepval.cli import drive as driving
from deepval.driving.datasets import DATASETS
from drives import Cruise, TwoLogs


@pytest.fixture(autouse=True)
def _yard(monkeypatch):
    monkeypatch.setitem(DATASETS, "yard", TwoLogs)
    monkeypatch.setitem(driving.PLANNERS, "cruise", Cruise)
    monkeypatch.setitem(driving.PLANNERS, "careful", lambda: Cruise(room_m=25.0))


def run(*words, dataset="yard", planner="cruise"):
    return call(
        "drive", "--dataset", dataset, "--root", ".", "--planner", planner, *words
    )


def test_a_row_for_each_scene():
    lines = [
        line.split()
        for line in run().splitlines()
        if re.match(r" ?(far|near) +0 ", line)
    ]
    assert lines[0][:7] == ["far", "0", "4.0", "20.0", "20.0", "0", "0"]
    assert lines[1][:7] == ["near", "0", "6.0", "30.0", "30.0", "0", "0"]


def test_a_contact_is_told():
    printed = run("--seconds", "1000", "--units", "near")
    (line,) = [
        line.split() for line in printed.splitlines() if re.match(r" ?near +0 ", line)
    ]
    assert line[:3] == ["near", "0", "12.0"]
    assert line[5:7] == ["1", "1"]
    # 20 - 3.244 - 2 t metres are left to its middle, and its nearest corner, turned by
    # 3 + t / 2, is 2.23 m nearer.
    assert (
        "near from 0: car after 7.3 s, ahead, at fault (5.0 m/s, the other 3.0 m/s)"
        in printed
    )


def test_the_planner_is_given_what_a_mode_perceives():
    some = ("--units", "far", "--seconds", "2", "--json")
    ways = {
        mode: json.loads(run(*words, *some, planner="careful"))[0]["way_m"]
        for mode, words in (
            ("logged", ()),
            ("reference", ("--mode", "reference")),
            ("none", ("--mode", "none", "--geometry", "oracle")),
        )
    }
    assert ways["logged"] < 6
    assert ways["reference"] < 6
    assert ways["none"] == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--threshold", "0.3"), "--threshold"),
        (("--mode", "none", "--geometry", "x"), "--geometry"),
        (("--mode", "radar"), "A mode without"),
        (("--from", "x"), "--from"),
        (("--from", "99"), "must start at"),
        (("--seconds", "0"), "--seconds"),
        (("--units", "none"), "units must be"),
    ],
)
def test_wrong_words_are_refused_in_a_sentence(words, message):
    with pytest.raises(InputError) as refused:
        run(*words)
    assert message in str(refused.value)


def test_planners_and_data_sets_are_named_where_another_is_asked_for():
    with pytest.raises(InputError, match="--planner must be one of idm, pdm-closed"):
        run(planner="pdm")
    with pytest.raises(InputError, match="scenarionet, yard"):
        run(dataset="kitti")


WORLD = (
    "drive",
    "--dataset",
    "synthetic",
    "--system",
    "braking",
    "--scenes",
    3,
    "--calibrate",
    2,
    "--seconds",
    2,
)


def test_allocators_drive_the_synthetic_world_and_the_same_seed_gives_the_same_bytes(
    tmp_path,
):
    arms = ("--allocator", "random", "--allocator", "lost", "--seed", 3, "--draws", 20)
    written = []
    for workers in (1, 2):
        out = tmp_path / f"{workers}.csv"
        call(
            *WORLD,
            *arms,
            "--workers",
            workers,
            "--out",
            out,
            "--page",
            tmp_path / f"{workers}.html",
        )
        written.append((out.read_bytes(), (tmp_path / f"{workers}.html").read_bytes()))
    assert written[0] == written[1]
    lines = written[0][0].decode().splitlines()
    assert lines[0].startswith("unit,start,allocator,seconds,collisions,at_fault")
    assert [line.split(",")[2] for line in lines[1:]] == [
        "random",
        "lost",
        "perfect",
    ] * 3


def test_allocators_are_compared_on_logs_with_the_steps_off_the_log():
    logged = (
        "--mode",
        "none",
        "--mode",
        "reference",
        "--planner",
        "careful",
        "--units",
        "far",
        "--draws",
        20,
    )
    arms = (
        "--allocator",
        "always",
        "--allocator",
        "never",
        "--allocator",
        "criticality",
        "--calibrate",
        "near",
    )
    call_words = ("drive", "--dataset", "yard", "--root", ".", *logged, *arms)
    content = json.loads(call(*call_words, "--json"))
    by_arm = {row["allocator"]: row for row in content["drives"]}
    assert by_arm["always"]["progress_m"] == pytest.approx(
        by_arm["perfect"]["progress_m"], abs=0.1
    )
    assert by_arm["never"]["progress_m"] > 2 * by_arm["perfect"]["progress_m"]
    assert by_arm["always"]["off_log"] > 0
    assert by_arm["never"]["loss"] is None
    assert "off the log" in call(*call_words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--allocator", "lots"), "did you mean 'lost'"),
        (("--allocator", "never", "--allocator", "never"), "'never' is given twice"),
        (("--allocator", "never", "--calibrate", "x"), "a number for --calibrate"),
        (("--allocator", "never", "--planner", "idm"), "--system"),
        (("--allocator", "never", "--policy", "causal cup"), "did you mean"),
        (("--out", "rows.csv"), "--calibrate"),
    ],
)
def test_what_the_synthetic_world_refuses(words, message):
    with pytest.raises(InputError, match=re.escape(message)):
        call(*WORLD, *words)
