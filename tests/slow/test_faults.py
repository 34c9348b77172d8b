"""What happens to long jobs, made to happen: nothing finished is lost, nothing
half-written is read; prints a table.

Commands run in forks of the test's process, so that hundreds of them can be stopped;
see docs/faults.md.
"""

import random
import resource
import shutil
import signal
import subprocess
import time
import warnings
from functools import partial

import pytest

from alterations import missed
from deepval.cli import commands as command_line
from deepval.driving.cells.folder import read_cell
from fault_worlds import commands, write_fault_world
from faulty import (
    Tally,
    a_worker_is_lost,
    begun,
    clocks_jump,
    digests,
    done,
    ended,
    heard,
    redate,
    refused,
    stopped,
    temporary,
)

pytestmark = pytest.mark.slow
NAMES = ("build", "fit", "evaluate", "detect", "leaderboard", "reproduce")
OTHERS = ("score", "export", "threshold", "analyse", "report")
KILLS, FEW, ALTERATIONS = 18, 5, 1_000
TABLE: list[Tally] = []
SECOND = {"fit": ("-a", "router-recall"), "reproduce": ("--analysis", "gaps")}
"""What gives two workers something to do: a single unit starts none."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    home = tmp_path_factory.mktemp("faults")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_fault_world(home)
    for name in command_line.COMMANDS:
        _ = command_line.app[name]
    for name in ("fit", "evaluate"):
        assert done(commands(home)[name](home)) == 0
    yield home
    print("\n| fault | times tried | lost | recovered by |\n|---|---|---|---|")
    for tally in TABLE:
        print(tally.line())


def judged(tally: Tally) -> None:
    TABLE.append(tally)
    assert tally.amiss == []
    assert tally.tried > 0


@pytest.mark.parametrize(
    ("by", "name", "times"),
    [
        *((signal.SIGKILL, name, KILLS) for name in NAMES),
        *((signal.SIGKILL, name, FEW) for name in OTHERS),
        *((by, name, FEW) for by in (signal.SIGTERM, signal.SIGINT) for name in NAMES),
    ],
)
def test_stopped_at_random_moments(world, tmp_path, by, name, times):
    judged(
        stopped(
            name, commands(world)[name], tmp_path, kills=times, seed=len(TABLE), by=by
        )
    )


@pytest.mark.parametrize("name", NAMES)
def test_clocks_that_jump(world, tmp_path, name):
    """Clocks jump while a command is killed and run again, and files come from long ago
    and from years ahead.
    """
    home = tmp_path / "world"
    shutil.copytree(world, home)

    def between(out):
        redate(home)
        redate(out)

    tally = stopped(
        name,
        commands(home)[name],
        tmp_path,
        kills=FEW,
        seed=len(TABLE),
        before=clocks_jump,
        between=between,
    )
    tally.fault = f"clocks and times of files jump, and `{name}` is killed"
    judged(tally)


@pytest.mark.parametrize("name", ["build", "fit", "detect", "reproduce"])
def test_a_worker_is_lost(world, tmp_path, name):
    """One of two processes is killed at a random moment: the command says so and goes
    on to the same bytes.
    """
    tally = Tally(
        f"loss of a worker of `{name}` at a random moment",
        recovered="another worker; the same bytes",
    )

    def words(out):
        out.mkdir()
        return *commands(world)[name](out), *SECOND.get(name, ()), "--workers", 2

    start = time.monotonic()
    assert done(words(tmp_path / "whole")) == 0
    took, expected = time.monotonic() - start, digests(tmp_path / "whole")
    rng, turn = random.Random(name), 0
    while tally.tried < FEW and turn < 4 * FEW:
        turn += 1
        out = tmp_path / f"lost-{turn}"
        start, after_s = time.monotonic(), rng.random() * took
        code, told = heard(words(out), before=partial(a_worker_is_lost, after_s))
        took = time.monotonic() - start  # by the load of now
        tally.tried += "A worker was lost" in told
        if code or digests(out) != expected:
            tally.lost += 1
            tally.amiss.append(f"{name}: exit code {code}: {told[-300:]}")
    judged(tally)
    assert tally.tried == FEW


def test_alterations_of_a_cell(world, tmp_path):
    shutil.copytree(world / "cells" / "braking-monocular", tmp_path / "cell")
    cell = tmp_path / "cell"
    files = [cell / name for name in read_cell(cell).manifest.files]
    left = missed(cell, files, times=ALTERATIONS, seed=1)
    tally = Tally(
        "a file of a cell cut, emptied, swapped, gone or with a turned bit",
        ALTERATIONS,
        len(left),
    )
    tally.recovered, tally.amiss = (
        "it is refused when it is read; `deepval build` again",
        left,
    )
    judged(tally)


@pytest.mark.parametrize("name", NAMES)
def test_no_room(world, tmp_path, name):
    """Files may not grow beyond a bound: what a full disk and a quota say."""
    words, tally = commands(world)[name], Tally(f"no room for files of `{name}`")
    (tmp_path / "whole").mkdir()
    assert done(words(tmp_path / "whole")) == 0
    expected = digests(tmp_path / "whole")
    for bound in (0, 100, 2_000):
        refused(
            f"{bound}",
            words,
            tmp_path,
            expected=expected,
            tally=tally,
            before=lambda bound=bound: resource.setrlimit(
                resource.RLIMIT_FSIZE, (bound, bound)
            ),
        )
    judged(tally)


def mounted(place, options):
    place.mkdir()
    return subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", place],
        check=False,
        capture_output=True,
    )


@pytest.mark.parametrize(
    ("fault", "options"), [("a full disk", "size=16k"), ("a read-only folder", "ro")]
)
def test_disks(world, tmp_path, fault, options):
    """A file system that is full, or read-only, for every command."""
    place = tmp_path / "disk"
    if not shutil.which("mount") or mounted(place, options).returncode:
        pytest.skip("no file system can be mounted here")
    tally = Tally(
        f"{fault}, each command",
        recovered="one sentence and exit code 2; nothing half-written",
    )
    try:
        for name in NAMES:
            out = place / name
            if options != "ro":
                out.mkdir()
            tally.tried += 1
            code, told = heard(commands(world)[name](out))
            whole = options != "ro" and code == 0  # what is small enough fits
            if not (
                whole or (code == 2 and "deepval: " in told and told.count("\n") <= 3)
            ) or temporary(place):
                tally.lost += 1
                tally.amiss.append(
                    f"{name}: exit code {code}: {told[-300:]}; left {temporary(place)}"
                )
            shutil.rmtree(out, ignore_errors=True)
    finally:
        subprocess.run(["umount", place], check=True)
    judged(tally)


def test_a_corrupt_image(world, tmp_path):
    shutil.copytree(world / "images", tmp_path / "images")
    shutil.copy(world / "tiny.onnx", tmp_path)
    words, tally = (
        commands(tmp_path)["detect"],
        Tally("a corrupt image", recovered="named; mended and run again"),
    )
    (tmp_path / "whole").mkdir()
    assert done(words(tmp_path / "whole")) == 0
    rng = random.Random(0)
    for number, path in enumerate(sorted(tmp_path.glob("images/*/*.png"))):
        data, out = path.read_bytes(), tmp_path / f"out-{number}"
        path.write_bytes(data[: rng.randrange(40)])
        tally.tried += 1
        code, told = heard(words(out))
        path.write_bytes(data)
        again = done(words(out))
        if (
            code != 2
            or path.name not in told
            or again
            or digests(out) != digests(tmp_path / "whole")
        ):
            tally.lost += 1
            tally.amiss.append(f"{path.name}: {code}, {again}: {told[-300:]}")
    judged(tally)


def failing_session(after):
    """Sessions of ONNX Runtime raise after so many runs."""
    import onnxruntime

    real, runs = onnxruntime.InferenceSession.run, []

    def run(self, *words, **options):
        runs.append(1)
        if len(runs) > after:
            raise RuntimeError("the device was lost\nin the middle")
        return real(self, *words, **options)

    onnxruntime.InferenceSession.run = run


def test_a_session_that_raises(world, tmp_path):
    words, tally = commands(world)["detect"], Tally("a detector session that raises")
    (tmp_path / "whole").mkdir()
    assert done(words(tmp_path / "whole")) == 0
    for after in range(5):
        refused(
            f"{after}",
            words,
            tmp_path,
            expected=digests(tmp_path / "whole"),
            tally=tally,
            before=lambda after=after: failing_session(after),
        )
    judged(tally)


@pytest.mark.parametrize("name", ["build", "detect", "fit", "leaderboard", "reproduce"])
def test_two_writers(world, tmp_path, name):
    """Two of the same command into one folder: one may be told to wait; what is there
    is whole.
    """
    words, tally = (
        commands(world)[name],
        Tally(f"two writers: `{name}` twice into one folder"),
    )
    tally.recovered = (
        "each its own temporary names, or the second is told to wait; the same bytes"
    )
    (tmp_path / "whole").mkdir()
    assert done(words(tmp_path / "whole")) == 0
    for number in range(3):
        out = tmp_path / f"both-{number}"
        out.mkdir()
        codes = [ended(process) for process in [begun(words(out)), begun(words(out))]]
        tally.tried += 1
        if (
            not set(codes) <= {0, 2}
            or 0 not in codes
            or digests(out) != digests(tmp_path / "whole")
        ):
            tally.lost += 1
            whole, found = digests(tmp_path / "whole"), digests(out)
            differ = sorted(
                key
                for key in whole.keys() | found.keys()
                if whole.get(key) != found.get(key)
            )
            tally.amiss.append(f"{name}: exit codes {codes}, other files {differ[:5]}")
    judged(tally)
