"""`deepval report`: saved results, and the frames of their cells -> one HTML page, or figures for a paper."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from deepval.cli.options import named_files
from deepval.errors import InputError
from deepval.files import check_writable, write_atomically
from deepval.manifests import cell_content
from deepval.results import Result

RESULT, FRAMES = "result", "frames"
"""Files of these names are named after their folder."""
PAGE = Path("report.html")
PERCEPTION_LOSS = "E5"
"""The combined error, whose gain the paper sets against decision value."""


def report(
    results: Annotated[list[str], typer.Argument(help="Saved results: FILE or NAME=FILE, one per cell.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The page to write. Default: report.html, or none with --figures."),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures",
            help="Folder for figures of a paper as PDF and PNG: gap to the oracle, budget curves, sign scatter, "
            "bird's-eye views, allocators free against charged (also from two results of a cell).",
        ),
    ] = None,
    frames: Annotated[
        list[str] | None,
        typer.Option("--frames", help="Frames of a cell: FILE or NAME=FILE. Default: frames.json beside its result."),
    ] = None,
    images: Annotated[bool, typer.Option("--images", help="Put the pictures of the frames into the page.")] = False,
    image_root: Annotated[
        Path | None, typer.Option("--image-root", help="Folder of the data set's pictures, where it is on disk.")
    ] = None,
) -> None:
    """Make one HTML page of results that opens from disk: verdicts, charts, sliders, tables, frames to look at.

    With --figures, make figures for a paper instead, or as well where --out is given.

    Example: deepval report demo/braking-monocular/result.json demo/braking-oracle/result.json --out report.html
    """
    files = _named(results, RESULT)
    shown = _given(frames, list(files))
    page = PAGE if out is None and figures is None else out
    if images and page is None:
        raise InputError("--images puts pictures into the page, and --figures alone makes none: give --out as well.")
    if image_root is not None and not images:
        raise InputError("--image-root is where --images finds pictures: give --images too, or leave it out.")
    if page is not None:
        check_writable(page)
    if figures is not None:
        check_writable(figures, folder=True)
    # Made before figures are written: what is wrong with the page is said while nothing is there yet.
    text = None if page is None else page_text(files, frames=shown, images=images, image_root=image_root)
    if figures is not None:
        _write_figures(figures, files, frames=shown)
    if page is not None and text is not None:
        write_atomically(page, text)
        cells = "1 cell" if len(files) == 1 else f"{len(files)} cells"
        typer.echo(f"{page}: {cells}, {len(text.encode()) / 1e6:.1f} MB")


def page_text(
    results: Mapping[str, Path],
    *,
    frames: Mapping[str, Path] | None = None,
    images: bool = False,
    image_root: Path | None = None,
) -> str:
    """The page of saved results by cell; frames beside a result are taken."""
    from deepval.report import html

    loaded = {name: Result.load(path) for name, path in results.items()}
    shown = _shown(results, frames or {})
    return html.render(loaded, shown, images=_pictures(shown, image_root) if images else None)


def _write_figures(folder: Path, results: Mapping[str, Path], *, frames: Mapping[str, Path]) -> None:
    from deepval.report.figures import write_figures

    loaded = {name: Result.load(path) for name, path in results.items()}
    gains = {name: _gains(path) for name, path in _beside(results, "evidence.parquet").items()}
    written, left_out = write_figures(folder, loaded, _shown(results, frames), gains=gains)
    for path in written:
        typer.echo(str(path))
    for name, reason in left_out.items():
        typer.echo(f"Left out {name}: {reason}.")


def _gains(path: Path) -> dict[str, float]:
    """The perception gain of every input, from the evidence of a cell."""
    from deepval.columns import read

    found = read(path)
    cheap, full = f"cheap_{PERCEPTION_LOSS}", f"full_{PERCEPTION_LOSS}"
    found.require("input", cheap, full)
    gains = found.numbers(cheap) - found.numbers(full)
    return dict(zip(map(str, found.ids("input").tolist()), gains.tolist(), strict=True))


def _beside(results: Mapping[str, Path], file: str) -> dict[str, Path]:
    """Files of a name that lie beside results, by cell."""
    found = {name: path.parent / file for name, path in results.items()}
    return {name: path for name, path in found.items() if path.is_file()}


def _shown(results: Mapping[str, Path], frames: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    return {name: _frames(path) for name, path in (_beside(results, "frames.json") | dict(frames)).items()}


def _named(texts: list[str], usual: str) -> dict[str, Path]:
    """Files by cell: NAME=FILE, or the name of the file, or of its folder where the file has the usual name."""
    return named_files(texts, "Cells", lambda path: path.resolve().parent.name if path.stem == usual else path.stem)


def _given(texts: list[str] | None, cells: list[str]) -> dict[str, Path]:
    found = _named(texts or [], FRAMES)
    if len(found) == len(cells) == 1:
        return {cells[0]: next(iter(found.values()))}
    unknown = [name for name in found if name not in cells]
    if unknown:
        raise InputError(f"--frames must be of one of {', '.join(cells)}; found {unknown[0]!r}. Write NAME=FILE.")
    return found


def _frames(path: Path) -> dict[str, Any]:
    from deepval.benchmark.frames import FRAME_KEYS, KEYS, SCHEMA

    built = cell_content(path)
    try:
        content = json.loads(path.read_bytes() if built is None else built)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: must be frames written by deepval build; {error}.") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise InputError(f"{path}: must be frames of schema {SCHEMA!r}; it is not: build the cell again.")
    whole = set(content) >= KEYS and all(set(frame) >= FRAME_KEYS for frame in content["frames"])
    if not whole:
        raise InputError(f"{path}: frames must be whole; a field is missing: build the cell again.")
    return content


def _pictures(frames: dict[str, dict[str, Any]], root: Path | None) -> dict[str, str]:
    from deepval.benchmark.pictures import pictures

    found: dict[str, str] = {}
    for item in frames.values():
        missing = [frame for frame in item["frames"] if f"{item['dataset']}/{frame['input']}" not in found]
        found |= pictures(item | {"frames": missing}, root=root)
    return found
