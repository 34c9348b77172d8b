"""`deepval report`: saved results, and the frames of their cells -> one HTML page."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from deepval.errors import InputError
from deepval.files import write_atomically
from deepval.results import Result

RESULT, FRAMES = "result", "frames"
"""Files of these names are named after their folder."""


def report(
    results: Annotated[list[str], typer.Argument(help="Saved results: FILE or NAME=FILE, one per cell.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
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

    Example: deepval report demo/braking-monocular/result.json demo/braking-oracle/result.json --out report.html
    """
    files = _named(results, RESULT)
    size = write_page(files, out, frames=_given(frames, list(files)), images=images, image_root=image_root)
    typer.echo(f"{out}: {'1 cell' if len(files) == 1 else f'{len(files)} cells'}, {size / 1e6:.1f} MB")


def write_page(
    results: Mapping[str, Path],
    out: Path,
    *,
    frames: Mapping[str, Path] | None = None,
    images: bool = False,
    image_root: Path | None = None,
) -> int:
    """Write the page of saved results by cell and return its size in bytes; frames beside a result are taken."""
    from deepval.report import html

    loaded = {name: Result.load(path) for name, path in results.items()}
    beside = {name: path.parent / "frames.json" for name, path in results.items()}
    chosen = {name: path for name, path in beside.items() if path.is_file()} | dict(frames or {})
    shown = {name: _frames(path) for name, path in chosen.items()}
    page = html.render(loaded, shown, images=_pictures(shown, image_root) if images else None)
    write_atomically(out, page)
    return len(page.encode())


def _named(texts: list[str], usual: str) -> dict[str, Path]:
    """Files by cell: NAME=FILE, or the name of the file, or of its folder where the file has the usual name."""
    named: dict[str, Path] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        path = Path(file if equals else text)
        if not equals:
            name = path.resolve().parent.name if path.stem == usual else path.stem
        if name in named:
            raise InputError(f"Cells need different names; {name!r} is given twice. Write NAME=FILE.")
        named[name] = path
    return named


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

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
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
