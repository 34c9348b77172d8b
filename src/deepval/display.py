"""Tables, costs and results -> their views as text, HTML, figures and pages, by
functions of higher layers.

A module of its own, because tables, costs and results are in layers below `report`, yet
a notebook calls methods of the data itself: these functions are looked up by name and
imported at the first use. Besides the names in the package's `__init__`, they are the
only references to higher layers.
"""

from importlib import import_module
from typing import Any

VIEWS = {
    "text": ("report.console", "brief_text"),
    "html": ("report.console", "brief_html"),
    "figure": ("report.figures.gain_figures", "figure"),
    "page": ("report.html", "write"),
    "latex": ("report.forms", "result_latex"),
    "cell": ("cells.folder", "read_cell"),
    "recovery": ("judging.extras.recovery", "recoveries"),
    "picture": ("judging.answers.picture", "picture"),
    "area": ("judging.extras.recovery", "area"),
}
"""Module and function of each kind of view."""


def view(kind: str, *arguments: Any, **options: Any) -> Any:
    """The view of this kind of the arguments."""
    module, name = VIEWS[kind]
    return getattr(import_module(f"deepval.{module}"), name)(*arguments, **options)


class Printable:
    """Base class of data that prints as a short table, in the terminal and in
    notebooks.
    """

    def __repr__(self) -> str:
        return view("text", self)

    def _repr_html_(self) -> str:
        return view("html", self)
