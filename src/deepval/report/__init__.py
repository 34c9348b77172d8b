"""Result -> text for people and programs, by the name of a format."""

from collections.abc import Callable

from deepval.report import console, forms
from deepval.results import Result

FORMS: dict[str, Callable[[Result], str]] = {
    "text": console.render,
    "csv": forms.result_csv,
    "markdown": forms.result_markdown,
    "latex": forms.result_latex,
    "json": Result.to_json,
}
"""Name of the format on the command line -> function from a result to text."""
