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
from pathlib import Path
from typing import Any

from deepval.errors import InputError
from deepval.files.writing import write_atomically
from deepval.report.figures import gain_figures, inputs, style
from deepval.report.figures.answer_figure import answer_figure
from deepval.report.figures.style import Figure, draw_or_reason
from deepval.results import MEASURED, Result

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
    return {
        name: figure
        for name, figure in _all_figures(results, frames, gains)
        if not isinstance(figure, str)
    }


def write_figures(
    folder: str | Path,
    results: Mapping[str, Result],
    frames: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    gains: Mapping[str, Mapping[str, float]] | None = None,
    formats: Sequence[str] = ("pdf", "png"),
) -> tuple[list[Path], dict[str, str]]:
    """Write every figure in every format; returns the files, and the reasons for
    figures that are left out, by name.
    """
    unknown = [form for form in formats if form not in METADATA]
    if unknown:
        raise InputError(
            "A format of figures must "
            f"be one of {', '.join(METADATA)}; found {unknown[0]!r}."
        )
    stems: dict[str, str] = {}
    for name in sorted(results):
        if name != stems.setdefault(_stem(f"gap-{name}"), name):
            raise InputError(
                "Cells need names that differ "
                f"as file names; {name!r} and {stems[_stem(f'gap-{name}')]!r} do not."
            )
    written: list[Path] = []
    left_out: dict[str, str] = {}
    for name, figure in _all_figures(results, frames, gains):
        if isinstance(figure, str):
            left_out[name] = figure
            continue
        for form in formats:
            path = Path(folder) / f"{_stem(name)}.{form}"
            write_atomically(path, _bytes(figure, form), make_folder=True)
            written.append(path)
    return written, left_out


def _stem(name: str) -> str:
    """The file name of a figure, without its ending."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).rstrip("-.")


def write_figure(path: Path, draw: Callable[[], Figure]) -> None:
    """Draw one figure and write it in the format of the file name's ending."""
    form = path.suffix.removeprefix(".")
    if form not in METADATA:
        raise InputError(
            "A format of figures must "
            f"be one of {', '.join(METADATA)}; found {path.name!r}."
        )
    figure = draw_or_reason(draw)
    if isinstance(figure, str):
        raise InputError(f"{path}: the figure cannot be drawn; {figure}.")
    write_atomically(path, _bytes(figure, form), make_folder=True)


def _bytes(figure: Figure, form: str) -> bytes:
    buffer = io.BytesIO()
    with style.house_style():
        figure.savefig(buffer, format=form, metadata=METADATA[form])
    return buffer.getvalue()


def _all_figures(
    results: Mapping[str, Result],
    frames: Mapping[str, Mapping[str, Any]] | None,
    gains: Mapping[str, Mapping[str, float]] | None,
) -> Iterator[tuple[str, Figure | str]]:
    """Names with figures, or with the reason for leaving a figure out."""
    if not results:
        raise InputError("Figures need one result or more; none was given.")
    for by_cell, what in ((frames, "Frames"), (gains, "Gains")):
        unknown = sorted(set(by_cell or ()) - set(results))
        if unknown:
            raise InputError(
                f"{what} must "
                f"be of one of {', '.join(sorted(results))}; found {unknown[0]!r}."
            )
    for name in sorted(results):
        result, seen, gain = (
            results[name],
            (frames or {}).get(name),
            (gains or {}).get(name),
        )
        yield (
            f"answer-{name}",
            draw_or_reason(lambda result=result: answer_figure(result)),
        )
        yield (
            f"gap-{name}",
            draw_or_reason(lambda result=result: gain_figures.gap(result)),
        )
        yield (
            f"curves-{name}",
            draw_or_reason(lambda result=result: gain_figures.curves(result)),
        )
        yield (
            f"sign-{name}",
            draw_or_reason(lambda result=result, gain=gain: inputs.sign(result, gain)),
        )
        if seen is None:
            yield (
                f"birds-eye-{name}",
                "there is no frames.json beside the result: deepval build writes one",
            )
        else:
            yield (
                f"birds-eye-{name}",
                draw_or_reason(lambda seen=seen: inputs.birds_eye(seen)),
            )
    yield from _dumbbells(results)


def _dumbbells(results: Mapping[str, Result]) -> Iterator[tuple[str, Figure | str]]:
    """A figure for every judged table, from its first results by name with selection
    and with measured budgets.
    """
    tables: dict[str, list[str]] = {}
    for name in sorted(results):
        tables.setdefault(results[name].provenance["table"], []).append(name)
    for names in tables.values():
        free = [
            name
            for name in names
            if any(row.kind == "selection" for row in results[name].rows)
        ]
        charged = [
            name
            for name in names
            if any(row.kind in MEASURED for row in results[name].rows)
        ]
        if not free or not charged:
            missing = (
                "a latency, energy or money budget" if free else "a selection budget"
            )
            yield f"dumbbells-{names[0]}", f"no result of this cell has {missing}"
            continue
        both = [name for name in free if name in charged]
        one, other = (both[0], both[0]) if both else (free[0], charged[0])
        yield (
            f"dumbbells-{one}",
            draw_or_reason(
                lambda a=one, b=other: gain_figures.dumbbells(results[a], results[b])
            ),
        )
