"""`deepval report`: cells or saved results, and frames -> one HTML page, or figures for
a paper.
"""

import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from deepval.basics.errors import InputError
from deepval.cli import options
from deepval.cli.terminal import say

PAGE = Path("report.html")


def report(
    results: tuple[str, ...],
    /,
    *,
    scores: options.ScoreFiles = (),
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    figures: Path | None = None,
    frames: tuple[str, ...] = (),
    images: bool = False,
    image_root: Path | None = None,
    keep: str | None = None,
    at_least: str | None = None,
    highlight: str | None = None,
    open_page: Annotated[bool, Parameter(name="--open")] = False,
) -> None:
    """The page has verdicts, charts, tables and frames, and opens from disk. For a
    cell, it has the results in its folder (result*.json), or else the judgement of the
    scores there; for a values file, the judgement of --scores, or whether the dearer
    mode helps. With --figures, figures for a paper are written instead, or too if --out
    is given.

    Example: deepval report demo/braking-monocular/result.json
    demo/braking-oracle/result.json --out report.html

    Args:
        results: Folders of cells, values files (.csv, .parquet), or saved results:
            CELL, FILE or NAME=FILE.
        out: HTML file. Default: report.html; no page with --figures.
        figures: Folder for figures (PDF, PNG): gap to the oracle, budget curves, sign
            scatter, bird's-eye views, allocators with and without their own cost (also
            from two results of a cell).
        frames: Frames of a cell: FILE or NAME=FILE. Default: frames.json in its folder.
        images: Include the pictures of the frames.
        image_root: Folder of the data set that the pictures lie in.
        keep: Also answer what the cheapest option is that is shown to keep this share
            of the dearest mode's quality, such as 99%, as `evaluate` does.
        at_least: The same for a quality per input, such as 0.83, or for that of a mode:
            MODE or MODE-1pt.
        highlight: Allocator that pictures emphasise, instead of the recommended one.
        open_page: Open the page in the browser when it is written.
    """
    from deepval.basics.files import reading
    from deepval.basics.files.writing import check_writable, write_atomically
    from deepval.cli.report_page import (
        RESULT,
        files_by_cell,
        frame_files,
        page_text,
        results_by_name,
        write_figures,
    )
    from deepval.judge.report.answers import check_highlight
    from deepval.judge.report.text_tables import quantity

    files = files_by_cell(results, RESULT)
    page = PAGE if out is None and figures is None else out
    if images and page is None:
        raise InputError(
            "--images puts pictures into the page, and --figures alone writes no "
            "page: give --out too."
        )
    if image_root is not None and not images:
        raise InputError(
            "--image-root applies only to --images: give --images too, or leave it out."
        )
    if image_root is not None and not reading.is_folder(image_root):
        raise InputError(
            f"--image-root must be a folder of pictures; found {str(image_root)!r}."
        )
    if open_page and page is None:
        raise InputError(
            "--open opens the page, and --figures alone writes no page: give --out too."
        )
    if page is not None:
        check_writable(page)
    if figures is not None:
        check_writable(figures, folder=True)
    loaded = results_by_name(
        files, options.score_files(scores), keep=keep, at_least=at_least
    )
    check_highlight((item.result for item in loaded.values()), highlight)
    named_frames = frame_files(frames, list(loaded))
    # Rendered before figures are written: a fault of the page is reported before any
    # file exists.
    text = None
    if page is not None:
        text = page_text(
            loaded,
            frames=named_frames,
            images=images,
            image_root=image_root,
            highlight=highlight,
        )
    if figures is not None:
        write_figures(figures, loaded, frames=named_frames, highlight=highlight)
    if page is not None and text is not None:
        write_atomically(page, text)
        cells = quantity(len(loaded), "cell")
        say(f"{page}: {cells}, {len(text.encode()) / 1e6:.1f} MB")
    if open_page and page is not None:
        webbrowser.open(page.absolute().as_uri())
