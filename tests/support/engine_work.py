"""Work for engines' tests: it lies in a module of its own, so that other processes can
import it.
"""

import os
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from deepval.engines import Engine
from deepval.engines.driver import LocalCrew
from deepval.errors import InputError, InputWarning


def square(item: str) -> int:
    return int(item) ** 2


def killed_once(folder: str, item: str) -> int:
    """The first worker that gets an item of five ends by kill -9; the next one finds
    its mark.
    """
    mark = Path(folder) / item
    if int(item) % 5 == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return int(item) ** 2


def killed_first(mark: str, work: Callable[[Any], Any], item: Any) -> Any:
    """Whatever is done first ends its worker by kill -9, once for a mark."""
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return work(item)
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly(Engine):
    """Two processes of this machine; the first that is given anything is lost."""

    def __init__(self, mark: Path) -> None:
        super().__init__(LocalCrew(2))
        self.mark = mark

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            yield from super().map(partial(killed_first, str(self.mark), work), items)


def always_killed(item: str) -> int:
    if item == "3":
        os._exit(7)
    return int(item)


def refused(item: str) -> int:
    if item == "2":
        raise InputError("unit 2 must hold frames; it holds none.")
    if item == "4":
        raise ValueError("four")
    return int(item)


def filled_mb(item: str) -> int:
    """Takes so much memory and lets it go again."""
    return len(bytearray(int(item) * 10**6)) // 10**6
