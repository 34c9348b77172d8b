"""Output of commands: sentences, tables and JSON on stdout, progress on stderr; Ctrl-C
and caches of libraries.

Libraries are imported in functions, because `loading` runs before any of them is
imported.
"""

import os
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from deepval.basics.errors import one_line

if TYPE_CHECKING:
    from deepval.judge.report.text_tables import Table

NARROWEST = 40
"""Columns of the narrowest terminal that output is folded to."""
ENDLESS = 10_000
"""Columns of a pipe or a file without COLUMNS: every line stays whole."""
BAR_DELAY_S, LINE_S = 2.0, 60.0
"""Shorter work shows no progress bar; a file or a pipe gets a line in every such time
instead of a bar.
"""


def say(text: str, *, err: bool = False) -> None:
    """Print lines; a terminal gets each one folded at spaces, with its indent and two
    more columns.
    """
    columns = _columns(err=err)
    if columns < ENDLESS:
        text = "\n".join(_fold(line, columns) for line in text.split("\n"))
    write(f"{text}\n", err=err)


def write(text: str, *, err: bool = False) -> None:
    """Write text as it is, at once."""
    stream = sys.stderr if err else sys.stdout
    stream.write(text)
    stream.flush()


_waiting: list[list[str]] = []


def say_note(text: str) -> None:
    """Print a line on stderr, or let it wait for `print_notes`."""
    _waiting[-1].append(text) if _waiting else say(text, err=True)


def hold_notes(*, hold: bool) -> None:
    """Let notes wait until it is known which of them the output has too."""
    _waiting[:] = [[]] * hold


def print_notes(repeated: Sequence[str] = ()) -> None:
    """Print the notes that wait, except those that the output has too; later ones are
    printed at once.
    """
    for text in _waiting.pop() if _waiting else ():
        if not text.endswith(tuple(f"note: {note}" for note in repeated)):
            say(text, err=True)


def _fold(line: str, columns: int) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line.strip(),
        columns,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_tables(tables: Sequence["Table"], *, err: bool = False) -> None:
    """Print tables at the width of the terminal."""
    from deepval.judge.report.console import render_tables

    write(render_tables(tables, **look(err=err)), err=err)


def print_json(content: Any) -> None:
    """Print content as JSON."""
    write(as_json(content))


def as_json(content: Any) -> str:
    """Content as JSON text."""
    import json

    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def look(*, err: bool = False) -> dict[str, Any]:
    """Width and colour of tables: those of the terminal; a file or a pipe gets no
    colour.
    """
    return {
        "width": _columns(),
        "color": sys.stdout.isatty() and not err and not os.environ.get("NO_COLOR"),
    }


def _columns(*, err: bool = False) -> int:
    """Columns of a terminal; on stdout COLUMNS counts in a file or a pipe too, where
    lines otherwise stay whole.
    """
    if (sys.stderr if err else sys.stdout).isatty() or (
        not err and os.environ.get("COLUMNS", "").isdecimal()
    ):
        return max(NARROWEST, get_terminal_size().columns)
    return ENDLESS


@contextmanager
def step_bar(began: float | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """A function to call with (label, done, total) during the work; its bar on stderr
    appears after `BAR_DELAY_S`.

    The delay counts from `began`, a time of the monotonic clock; from now where None.
    """
    start, bar, task = time.monotonic() if began is None else began, None, None
    line_s = start

    def show(label: str, done: int, total: int) -> None:
        nonlocal bar, task, line_s
        if not sys.stderr.isatty():
            if time.monotonic() - line_s > LINE_S:
                line_s = time.monotonic()
                say(f"{one_line(label)}: {done:,} of {total:,}", err=True)
            return
        if bar is None and time.monotonic() - start <= BAR_DELAY_S:
            return
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import Progress

        if bar is None:
            bar = Progress(console=Console(stderr=True), transient=True)
            bar.start()
            task = bar.add_task("", total=total)
        assert task is not None
        bar.update(
            task, description=escape(one_line(label)), completed=done, total=total
        )
        if done == total:
            bar.stop()
            bar = None

    try:
        yield show
    finally:
        if bar is not None:
            bar.stop()


def watch(items: Any, label: str) -> Iterable[Any]:
    """The items, with a progress bar on stderr if they take longer than
    `BAR_DELAY_S`.
    """
    began = time.monotonic()
    with ExitStack() as stack:
        step = None
        for done, item in enumerate(items):
            if step is None and time.monotonic() - began > BAR_DELAY_S:
                step = stack.enter_context(step_bar(began))
            if step is not None:
                step(label, done, len(items))
            yield item


STOPPED = 130
"""Exit code of a command that was stopped by Ctrl-C: 128 and the number of the
signal.
"""


@contextmanager
def loading() -> Iterator[None]:
    """End the process at once where Ctrl-C stops it meanwhile: some libraries swallow
    an interrupt as they load.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        or not in_main_thread
    ):
        yield
        return
    signal.signal(signal.SIGINT, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop(*_: object) -> None:
    os.write(2, b"\ndeepval: stopped. Nothing was begun: run it again.\n")
    os._exit(STOPPED)


CACHES = ("MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR")
"""Environment variables with the cache folders of libraries."""


@contextmanager
def temporary_caches() -> Iterator[None]:
    """Put the caches of libraries into a temporary folder and remove it at the end,
    unless the user names others.

    Without it, matplotlib writes to the user's cache and configuration folders, and
    torch leaves a folder among the temporary files. The libraries create their folders
    on import, so that commands without them create none.
    """
    import secrets
    import shutil
    import tempfile
    from pathlib import Path

    try:
        folder = Path(tempfile.gettempdir(), f"deepval-{secrets.token_hex(8)}")
        missing = [name for name in CACHES if name not in os.environ]
    except FileNotFoundError:
        # no temporary folder is writable, which matters only to commands that need one
        folder, missing = Path(), []
    os.environ.update({name: str(folder / name) for name in missing})
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]
        if missing:
            shutil.rmtree(folder, ignore_errors=True)
