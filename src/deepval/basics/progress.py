"""Progress reporting: wraps an iterable; does nothing by default.

The library prints nothing. The command passes a watcher that draws a bar once a loop
has taken two seconds. The module is apart because every layer takes a watcher.
"""

from collections.abc import Callable, Iterable
from typing import Any

Watch = Callable[[Any, str], Iterable[Any]]
"""Takes a sequence of items and a label of the work, and yields the items one by
one.
"""


def unwatched(items: Any, label: str) -> Iterable[Any]:
    """The items, without a report of progress."""
    return items
