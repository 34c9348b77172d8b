"""Work for tests of workers, in a module of its own, so that other processes can
import it.
"""

import os
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from deepval.basics.errors import InputError, InputWarning
from deepval.basics.workers import Map, mapping


def square(item: str) -> int:
    return int(item) ** 2


def process(item: str) -> int:
    return os.getpid()


def killed_once(folder: str, item: str) -> int:
    """The first worker that gets an item of five ends by kill -9; the next one finds
    its mark.
    """
    mark = Path(folder) / item
    if int(item) % 5 == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return int(item) ** 2


def killed_first(mark: str, command: int, work: Callable[[Any], Any], item: Any) -> Any:
    """The first unit ends its worker by kill -9, once for a mark; never the command
    itself, which may work alone on a single unit.
    """
    if os.getpid() == command:
        return work(item)
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return work(item)
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def losing(mark: Path) -> Iterator[Map]:
    """Two processes of this machine, the first of which is lost at its first unit."""
    with mapping(2) as two:

        def mapped(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InputWarning)
                work = partial(killed_first, str(mark), os.getpid(), work)
                yield from two(work, items)

        yield mapped


def always_killed(item: str) -> int:
    if item == "3":
        os._exit(7)
    return int(item)


def refused(item: str) -> int:
    if item in ("2", "7"):
        raise InputError(f"unit {item} must hold frames; it holds none.")
    if item == "4":
        raise ValueError("four")
    return int(item)


def too_large(item: str) -> int:
    if item == "1":
        raise MemoryError
    return int(item)


def in_folder(item: str) -> str:
    return Path(item).read_text(encoding="utf-8")
