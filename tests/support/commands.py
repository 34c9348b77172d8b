"""The command line in tests: in this process, or in a process of its own."""

import io
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from deepval import cli
from deepval.basics.errors import InputError

SCRIPT = (str(Path(sys.executable).parent / "deepval"),)
PYTHON = (sys.executable, "-c")
MODULE = (sys.executable, "-m", "deepval")


class Done(NamedTuple):
    """A command that has ended: its exit code and what it printed."""

    code: int
    out: str
    err: str


def call(*words: object) -> str:
    """Run a command in this process: raises its refusal; returns its output, and prints
    it too.
    """
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            code = cli.call(list(map(str, words)))
    finally:
        print(printed.getvalue(), end="")
    assert not code, f"exit code {code}: {printed.getvalue()}"
    return printed.getvalue()


def refusal(*words: object) -> str:
    """The one sentence with which a command refuses, in this process."""
    with pytest.raises(InputError) as caught:
        call(*words)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def run(*words: object, cwd: Path | None = None, notes: bool = False) -> Done:
    """Run a command in this process, as its script does.

    Args:
        words: The words after `deepval`.
        cwd: The folder to run it in.
        notes: Print warnings as the script does; otherwise a warning is what it is for
            the test.
    """
    with (
        warnings.catch_warnings(),
        mock.patch.object(sys, "argv", ["deepval", *map(str, words)]),
        chdir(cwd or Path.cwd()),
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        if notes:
            warnings.simplefilter("always")
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def run_process(
    *words: object,
    program: Sequence[str] = MODULE,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Done:
    """Run a command, or another program, in a process of its own."""
    done = subprocess.run(
        [*program, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=env,
        timeout=1800,
    )
    return Done(done.returncode, done.stdout, done.stderr)
