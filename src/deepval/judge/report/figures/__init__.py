"""Results -> figures for a paper: vector PDF and PNG at the width of a column or of the
text, without titles but for the answer.

`answer-<cell>` shows quality against cost, `gap-<cell>` the lost value by cause,
`curves-<cell>` gain against budget,
`sign-<cell>` the effect of escalation on each input, `birds-eye-<cell>` a harmed and a
helped frame from above, `dumbbells-<cell>` allocators without and with their own cost.
The same results give the same bytes in any order.
"""

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from deepval.basics.errors import InputError
from deepval.basics.files.writing import write_atomically
from deepval.judge.report.figures import gain_figures, inputs, style
from deepval.judge.report.figures.answer_figure import answer_figure
from deepval.judge.report.figures.style import Figure, draw_or_reason, leave_out
from deepval.judge.results import MEASURED, Result, lists_by_key

METADATA: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
"""Format -> metadata that is left out, so that files do not depend on the time or the
version of matplotlib.
"""


def figures(
    results: Mapping[str, Result],
    frames: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    gains: Mapping[str, Mapping[str, float]] | None = None,
) -> dict[str, Figure]:
    """Every figure that the results allow: name -> matplotlib Figure.

    Args:
        results: Cell name -> result.
        frames: Cell name -> frames to draw (the content of a frames.json).
        gains: Cell name -> perception gain of each input (cheap error minus full
            error).
    """
    drawn = {}
    for name, draw in _drawings(results, frames or {}, gains or {}):
        figure = draw_or_reason(draw)
        if not isinstance(figure, str):
            drawn[name] = figure
    return drawn


def write_figures(
    folder: str | Path,
    results: Mapping[str, Result],
    frames: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    gains: Mapping[str, Mapping[str, float]] | None = None,
    formats: Sequence[str] = tuple(METADATA),
    highlight: str | None = None,
) -> tuple[list[Path], dict[str, str]]:
    """Write every figure in every format; returns the files, and the reasons for
    figures that are left out, by name.
    """
    for form in formats:
        _check_format(form, form)
    stems: dict[str, str] = {}
    for name in sorted(results):
        other = stems.setdefault(_stem(f"gap-{name}"), name)
        if name != other:
            raise InputError(
                "Cells need names that differ "
                f"as file names; {name!r} and {other!r} do not."
            )
    written: list[Path] = []
    left_out: dict[str, str] = {}
    for name, draw in _drawings(results, frames or {}, gains or {}, highlight):
        figure = draw_or_reason(draw)
        if isinstance(figure, str):
            left_out[name] = figure
            continue
        for form in formats:
            path = Path(folder) / f"{_stem(name)}.{form}"
            write_atomically(path, _bytes(figure, form), make_folder=True)
            written.append(path)
    return written, left_out


def _check_format(form: str, named: str) -> None:
    if form not in METADATA:
        raise InputError(
            "A format of figures must "
            f"be one of {', '.join(METADATA)}; found {named!r}."
        )


def _stem(name: str) -> str:
    """The file name of a figure, without its ending."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).rstrip("-.")


def write_figure(path: Path, draw: Callable[[], Figure]) -> None:
    """Draw one figure and write it in the format of the file name's ending."""
    form = path.suffix.removeprefix(".")
    _check_format(form, path.name)
    figure = draw_or_reason(draw)
    if isinstance(figure, str):
        raise InputError(f"{path}: the figure cannot be drawn; {figure}.")
    write_atomically(path, _bytes(figure, form), make_folder=True)


def _bytes(figure: Figure, form: str) -> bytes:
    buffer = io.BytesIO()
    with style.house_style():
        figure.savefig(buffer, format=form, metadata=METADATA[form])
    return buffer.getvalue()


def _drawings(
    results: Mapping[str, Result],
    frames: Mapping[str, Mapping[str, Any]],
    gains: Mapping[str, Mapping[str, float]],
    highlight: str | None = None,
) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """The name of every figure, and a function that draws it."""
    if not results:
        raise InputError("Figures need one result or more; none was given.")
    for by_cell, what in ((frames, "Frames"), (gains, "Gains")):
        unknown = sorted(set(by_cell) - set(results))
        if unknown:
            raise InputError(
                f"{what} must "
                f"be of one of {', '.join(sorted(results))}; found {unknown[0]!r}."
            )
    for name in sorted(results):
        result = results[name]
        yield f"answer-{name}", partial(answer_figure, result, highlight)
        yield f"gap-{name}", partial(gain_figures.gap, result)
        yield f"curves-{name}", partial(gain_figures.curves, result)
        yield f"sign-{name}", partial(inputs.sign, result, gains.get(name))
        yield f"birds-eye-{name}", partial(inputs.birds_eye, frames.get(name))
    yield from _dumbbells(results)


def _dumbbells(
    results: Mapping[str, Result],
) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """A figure for every judged table, from its first results by name with selection
    and with measured budgets.
    """
    tables = lists_by_key(
        (results[name].provenance.table, name) for name in sorted(results)
    )
    for names in tables.values():
        kinds = {name: {row.kind for row in results[name].rows} for name in names}
        free = [name for name in names if "selection" in kinds[name]]
        charged = [name for name in names if kinds[name].intersection(MEASURED)]
        # A result that has both is compared with itself.
        both = [name for name in free if name in charged]
        if free and charged:
            one = [*both, *free][0]
            other = [*both, *charged][0]
            draw = partial(gain_figures.dumbbells, results[one], results[other])
            yield f"dumbbells-{one}", draw
        else:
            missing = "a selection budget"
            if free:
                missing = "a latency, energy or money budget"
            why = f"no result of this cell has {missing}"
            yield f"dumbbells-{names[0]}", partial(leave_out, why)
