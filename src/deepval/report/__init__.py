"""Result -> text that a person or a program reads: one module per form, each with `render(result) -> str`."""

from collections.abc import Callable

from deepval.report import console, csv, latex, markdown
from deepval.results import Result


def _json(result: Result) -> str:
    return result.to_json()


FORMS: dict[str, Callable[[Result], str]] = {
    "console": console.render,
    "csv": csv.render,
    "markdown": markdown.render,
    "latex": latex.render,
    "json": _json,
}
"""Every form by the name that the command takes."""
