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
    "text": ("judge.report.console", "brief_text"),
    "html": ("judge.report.console", "brief_html"),
    "figure": ("judge.report.figures.gain_figures", "figure"),
    "page": ("judge.report.html", "write"),
    "latex": ("judge.report.forms", "result_latex"),
    "cell": ("driving.cells.folder", "read_cell"),
    "recovery": ("judge.extras.recovery", "recoveries"),
    "picture": ("judge.answers.picture", "picture"),
    "area": ("judge.extras.recovery", "area"),
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
