"""Long loops -> the same loops with somebody watching: a watcher is told how far each one is.

The library is silent; the command passes a watcher that draws a bar once a loop has taken two seconds.
"""

from collections.abc import Callable, Iterable
from typing import Any

Watch = Callable[[Any, str], Iterable[Any]]
"""Takes a sequence of items and what is done with them, and gives back the items one by one."""


def unwatched(items: Any, label: str) -> Iterable[Any]:
    """The items, with nobody looking."""
    return items
