"""Data that people hold in Python -> how it is shown, by functions that lie above it, found by name when asked for.

Tables, costs and results lie below `report`, which reads them; yet a notebook asks the data itself. These names are all
that leads upwards, as those of the package's `__init__` are: nothing is imported before something is shown.
"""

from importlib import import_module
from typing import Any

VIEWS = {
    "text": ("report.brief", "text"),
    "html": ("report.brief", "html"),
    "figure": ("report.figures.summary", "figure"),
    "page": ("report.html", "write"),
    "recovery": ("judging.recovery", "recoveries"),
    "area": ("judging.recovery", "area"),
}
"""What can be asked for: the module and the function that make it."""


def shown(view: str, *given: Any, **options: Any) -> Any:
    """The view of what is given."""
    module, name = VIEWS[view]
    return getattr(import_module(f"deepval.{module}"), name)(*given, **options)


class SelfShown:
    """What shows itself as a short table: when printed, and in notebooks."""

    def __repr__(self) -> str:
        return shown("text", self)

    def _repr_html_(self) -> str:
        return shown("html", self)
