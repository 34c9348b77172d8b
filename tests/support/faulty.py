"""Commands in forks of this process, stopped at random moments and run again: what is
left, and is it the same?
"""

import hashlib
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Words = Callable[[Path], Sequence[object]]
"""A command, given the folder that it writes to."""


@dataclass
class Tally:
    """One line of the table of faults."""

    fault: str
    tried: int = 0
    lost: int = 0
    recovered: str = "the same command again: the same bytes"
    amiss: list[str] = field(default_factory=list)

    def line(self) -> str:
        """The line in Markdown."""
        return f"| {self.fault} | {self.tried} | {self.lost} | {self.recovered} |"


def begun(
    words: Sequence[object],
    *,
    told: int | None = None,
    before: Callable[[], None] | None = None,
) -> int:
    """A fork that runs a command and ends with its exit code; what it says of errors
    goes to a pipe where given.
    """
    process = os.fork()
    if process:
        return process
    code = 99
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for place in (0, 1, 2):
            os.dup2(nowhere, place)
        if told is not None:
            os.dup2(told, 2)
        sys.stdout, sys.stderr = (
            open(place, "w", closefd=False, buffering=1)  # noqa: SIM115
            for place in (1, 2)
        )
        from deepval import cli

        sys.argv = ["deepval", *map(str, words)]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        if before is not None:
            before()
        cli.main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
        os.write(2, f"traceback: {type(error).__name__}: {error}".encode())
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(process: int) -> int:
    """How a fork ended."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def done(words: Sequence[object], *, before: Callable[[], None] | None = None) -> int:
    """Run a command to its end."""
    return heard(words, before=before)[0]


def heard(
    words: Sequence[object], *, before: Callable[[], None] | None = None
) -> tuple[int, str]:
    """Run a command to its end; its exit code and what it said of errors, by a pipe,
    which no full disk touches.
    """
    listening, told = os.pipe()
    process = begun(words, told=told, before=before)
    os.close(told)
    with os.fdopen(listening, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    return ended(process), said


def refused(
    fault: str,
    words: Words,
    home: Path,
    *,
    before: Callable[[], None] | None,
    expected: dict[str, str],
    tally: Tally,
) -> None:
    """Run a command under a fault that it must say in a sentence; then without, which
    must give the same bytes.
    """
    out = home / f"out-{tally.tried}-{fault}"
    out.mkdir()
    tally.tried += 1
    code, told = heard(words(out), before=before)
    left = temporary(out)
    again = done(words(out))
    if (
        code not in (0, 2)
        or left
        or again
        or digests(out) != expected
        or (code == 2) != ("deepval: " in told)
    ):
        tally.lost += 1
        tally.amiss.append(
            f"{fault}: exit code {code}, "
            f"then {again}; left {left[:3]}; said {told[-300:]!r}"
        )


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def temporary(folder: Path) -> list[str]:
    """Left-over temporary files."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.tmp"))


def stopped(
    name: str,
    words: Words,
    home: Path,
    *,
    kills: int,
    seed: int,
    by: int = signal.SIGKILL,
    before: Callable[[], None] | None = None,
    between: Callable[[Path], None] = lambda _: None,
) -> Tally:
    """Stop a command at random moments, up to five times before it may end; compare
    with one that nobody stopped.

    `before` is called in every run that may be stopped and in the last one, `between`
    after each with where it writes.
    """
    rng, tally = (
        random.Random(seed),
        Tally(f"{signal.Signals(by).name} of `{name}` at a random moment"),
    )
    whole = home / f"{name}-whole"
    whole.mkdir()
    start = time.monotonic()
    assert done(words(whole)) == 0, name
    took, expected = time.monotonic() - start, digests(whole)
    turn = 0
    while tally.tried < kills and turn < 4 * kills:
        cut = home / f"{name}-cut-{turn}"
        cut.mkdir()
        turn += 1
        for _ in range(rng.randint(1, 5)):
            process = begun(words(cut), before=before)
            time.sleep(rng.random() * took)
            if os.waitpid(process, os.WNOHANG)[0] == 0:
                os.kill(process, by)
                tally.tried += ended(process) != 0
            between(cut)
        code = done(words(cut), before=before)
        found = digests(cut)
        if code or found != expected or temporary(cut):
            differ = sorted(
                key
                for key in found.keys() | expected.keys()
                if found.get(key) != expected.get(key)
            )
            tally.lost += 1
            tally.amiss.append(
                f"{name}: exit code {code}, "
                f"other files {differ[:5]}, left {temporary(cut)[:5]}"
            )
    return tally


def clocks_jump() -> None:
    """From now on clocks jump, by seconds to decades: the time of day both ways, others
    ahead, as after a pause.

    Files that are written bear times of that sort; see `redate`.
    """
    rng, replace, ahead = random.Random(os.getpid()), os.replace, [0]

    def jumping(
        clock: Callable[[], float], *, unit: int, both: bool
    ) -> Callable[[], float]:
        def told() -> float:
            jump = int(10 ** rng.uniform(0, 9))
            ahead[0] += jump
            return clock() + unit * (rng.choice((-1, 1)) * jump if both else ahead[0])

        return told

    for name in ("time", "monotonic", "perf_counter"):
        for end, unit in {"": 1, "_ns": 10**9}.items():
            setattr(
                time,
                name + end,
                jumping(getattr(time, name + end), unit=unit, both=name == "time"),
            )

    def redated(source, target, **options):
        replace(source, target, **options)
        then = time.time()
        os.utime(target, (then, then))

    os.replace = redated


def redate(folder: Path) -> None:
    """Files of times long ago and years ahead."""
    rng = random.Random(str(folder))
    for path in folder.rglob("*"):
        then = rng.randrange(2**32)  # 1970 to 2106
        os.utime(path, (then, then), follow_symlinks=False)


def a_worker_is_lost(after_s: float) -> None:
    """A worker is killed so many seconds after the first ones started, and what is said
    of it is heard.
    """
    from joblib.externals.loky import reusable_executor

    from deepval.basics.errors import InputWarning

    warnings.simplefilter("always", InputWarning)

    def kill():
        while not getattr(reusable_executor._executor, "_processes", None):
            time.sleep(0.01)
        time.sleep(after_s)
        for process in list(reusable_executor._executor._processes)[:1]:
            os.kill(process, signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
