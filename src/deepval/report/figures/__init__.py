"""Results -> figures for a paper: vector PDF and PNG at the width of a column or of the text, without titles.

`gap-<cell>` where value is lost, `curves-<cell>` gain against budget, `sign-<cell>` what escalation does to each input,
`birds-eye-<cell>` a harmed and a helped frame from above, `dumbbells-<cell>` allocators free and charged. The same
results give the same bytes, whatever their order.
"""

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deepval.errors import InputError
from deepval.files.writing import write_atomically
from deepval.report.figures import budgets, inputs, style
from deepval.report.figures.style import Figure, LeftOutError
from deepval.results import MEASURED, Result

METADATA: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
"""What a file says of when and by what it was made: nothing. By the formats there are."""


def figures(
    results: Mapping[str, Result],
    frames: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    gains: Mapping[str, Mapping[str, float]] | None = None,
) -> dict[str, Figure]:
    """Every figure that can be drawn, by name, as matplotlib Figures.

    Args:
        results: Results by the name of their cell.
        frames: Frames to look at (the content of a frames.json), by the same names.
        gains: Perception gain of each input (cheap error minus full error), by the same names.
    """
    return {name: made for name, made in _every(results, frames, gains) if not isinstance(made, str)}


def write_figures(
    folder: str | Path,
    results: Mapping[str, Result],
    frames: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    gains: Mapping[str, Mapping[str, float]] | None = None,
    formats: Sequence[str] = ("pdf", "png"),
) -> tuple[list[Path], dict[str, str]]:
    """Write every figure in every format; returns the files, and by name why figures were left out."""
    unknown = [form for form in formats if form not in METADATA]
    if unknown:
        raise InputError(f"A format of figures must be one of {', '.join(METADATA)}; found {unknown[0]!r}.")
    stems: dict[str, str] = {}
    for name in sorted(results):
        if name != stems.setdefault(_stem(f"gap-{name}"), name):
            raise InputError(
                f"Cells need names that differ as file names; {name!r} and {stems[_stem(f'gap-{name}')]!r} do not."
            )
    written: list[Path] = []
    left_out: dict[str, str] = {}
    for name, made in _every(results, frames, gains):
        if isinstance(made, str):
            left_out[name] = made
            continue
        for form in formats:
            path = Path(folder) / f"{_stem(name)}.{form}"
            write_atomically(path, _bytes(made, form), make_folder=True)
            written.append(path)
    return written, left_out


def _stem(name: str) -> str:
    """The name of a figure as a file's."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).rstrip("-.")


def write_figure(path: Path, draw: Callable[[], Figure]) -> None:
    """Draw one figure and write it in the format that the file's name ends with."""
    form = path.suffix.removeprefix(".")
    if form not in METADATA:
        raise InputError(f"A format of figures must be one of {', '.join(METADATA)}; found {path.name!r}.")
    made = drawn(draw)
    if isinstance(made, str):
        raise InputError(f"{path}: the figure cannot be drawn; {made}.")
    write_atomically(path, _bytes(made, form), make_folder=True)


def _bytes(figure: Figure, form: str) -> bytes:
    buffer = io.BytesIO()
    with style.applied():
        figure.savefig(buffer, format=form, metadata=METADATA[form])
    return buffer.getvalue()


def _every(
    results: Mapping[str, Result],
    frames: Mapping[str, Mapping[str, Any]] | None,
    gains: Mapping[str, Mapping[str, float]] | None,
) -> Iterator[tuple[str, Figure | str]]:
    """Names with figures, or with the reason why there is none."""
    if not results:
        raise InputError("Figures need one result or more; none was given.")
    for given, what in ((frames, "Frames"), (gains, "Gains")):
        unknown = sorted(set(given or ()) - set(results))
        if unknown:
            raise InputError(f"{what} must be of one of {', '.join(sorted(results))}; found {unknown[0]!r}.")
    for name in sorted(results):
        result, seen, gain = results[name], (frames or {}).get(name), (gains or {}).get(name)
        yield f"gap-{name}", drawn(lambda result=result: budgets.gap(result))
        yield f"curves-{name}", drawn(lambda result=result: budgets.curves(result))
        yield f"sign-{name}", drawn(lambda result=result, gain=gain: inputs.sign(result, gain))
        if seen is None:
            yield f"birds-eye-{name}", "there is no frames.json beside the result: deepval build writes one"
        else:
            yield f"birds-eye-{name}", drawn(lambda seen=seen: inputs.birds_eye(seen))
    yield from _dumbbells(results)


def _dumbbells(results: Mapping[str, Result]) -> Iterator[tuple[str, Figure | str]]:
    """A figure for every judged table: its first results by name with selection and with measured budgets."""
    tables: dict[str, list[str]] = {}
    for name in sorted(results):
        tables.setdefault(results[name].provenance["table"], []).append(name)
    for names in tables.values():
        free = [name for name in names if any(row.kind == "selection" for row in results[name].rows)]
        charged = [name for name in names if any(row.kind in MEASURED for row in results[name].rows)]
        if not free or not charged:
            missing = "a latency, energy or money budget" if free else "a selection budget"
            yield f"dumbbells-{names[0]}", f"no result of this cell has {missing}"
            continue
        both = [name for name in free if name in charged]
        one, other = (both[0], both[0]) if both else (free[0], charged[0])
        yield f"dumbbells-{one}", drawn(lambda a=one, b=other: budgets.dumbbells(results[a], results[b]))


def drawn(draw: Callable[[], Figure]) -> Figure | str:
    """A figure in the style of all, or the reason why there is none."""
    with style.applied():
        try:
            figure = draw()
        except LeftOutError as missing:
            return str(missing)
        # Ticks and places are fixed now, in this style, whatever the settings are when it is saved.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        return figure
