"""Result -> text for people and programs: one module per format, with `render(result) -> str`."""

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
"""Name of the format on the command line -> function from a result to text."""
