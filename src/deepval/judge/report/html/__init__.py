"""Results -> one self-contained HTML page: verdict, charts, tables, sliders for loss
weights, frames to look at.

Scripts of ours draw the page in the browser from the data inside it. The page loads
nothing, and its policy names these scripts by their hashes, so that no other runs. The
data are in a JSON block that cannot end early, and become text by textContent only.
"""

import html
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from deepval.basics.errors import InputError
from deepval.basics.files.canonical import json_packed, plain
from deepval.basics.files.writing import file_path, write_atomically
from deepval.judge.report import forms
from deepval.judge.report.answers import Typed, next_words
from deepval.judge.report.forms import content_policy
from deepval.judge.report.pictures import pictures
from deepval.judge.report.tables import result_tables
from deepval.judge.report.text_tables import Table
from deepval.judge.results import Inputs, Result
from deepval.version import __version__

PARTS = (
    "text",
    "recombine",
    "picture",
    "charts",
    "saving",
    "tables",
    "sections",
    "weights",
    "road",
    "explorer",
    "page",
)
SCRIPTS = tuple(f"{name}.js" for name in PARTS)
"""Scripts of the page, in the order of their concatenation."""


def render(
    results: Mapping[str, Result],
    frames: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    images: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
    highlight: str | None = None,
) -> str:
    """The page as text; the order of the results does not matter.

    Args:
        results: Cell name -> result.
        frames: Cell name -> frames for the explorer (the content of a frames.json).
        images: Data set and input (synthetic/scene-01/000039) -> JPEG picture as a data
            URL.
        dates: Cell name -> day of its judgement (2026-11-18).
        highlight: The allocator that pictures emphasise, instead of the candidate.
    """
    if not results:
        raise InputError("A report needs one result or more; none was given.")
    frames = frames or {}
    unknown = sorted(set(frames) - set(results))
    if unknown:
        raise InputError(
            "Frames must be of a cell "
            f"of the report, {', '.join(sorted(results))}; found {unknown[0]!r}."
        )
    names = sorted(results)
    cells = [
        _cell(name, results[name], frames.get(name)) | {"date": (dates or {}).get(name)}
        for name in names
    ]
    _share(cells)
    data = {
        "cells": cells,
        "words": json.loads(_file("words.json")),
        "images": dict(sorted((images or {}).items())),
        "highlight": highlight,
    }
    plain = "\n\n".join(
        f"# {name}\n\n{forms.result_markdown(results[name])}" for name in names
    )
    style, head = (f"\n{_file(name)}" for name in ("style.css", "head.js"))
    script = (
        '\n"use strict";\n(() => {\n'
        f"{''.join(_file(name) for name in SCRIPTS)}}})();\n"
    )
    parts = {
        "policy": content_policy(
            styles=[style], scripts=[head, script], images="data:"
        ),
        "style": style,
        "head": head,
        "script": script,
        "plain": html.escape(plain),
        "version": html.escape(__version__),
        "data": _json(data),
    }
    # A single pass, so that a placeholder inside the data stays text.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _file("page.html"))


def render_drive(playback: Mapping[str, Any]) -> str:
    """The page that plays two drives side by side from above: docs/closed-loop.md."""
    text = (
        files("deepval.judge.report").joinpath("drive.html").read_text(encoding="utf-8")
    )
    (style,), (script,) = (
        re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        for tag in ("style", "script")
    )
    policy = content_policy(styles=[style], scripts=[script], images="data:")
    return text.replace("{{policy}}", policy).replace("{{data}}", _json(playback))


def write(result: Result, path: str | Path, *, name: str | None = None) -> Path:
    """Write the page of one result, named after its file if `name` is None; returns the
    path.
    """
    page = file_path(path)
    write_atomically(page, render({page.stem if name is None else str(name): result}))
    return page


def _cell(
    name: str, result: Result, frames: Mapping[str, Any] | None
) -> dict[str, Any]:
    content = {
        key: value
        for key, value in result.to_dict().items()
        if key not in ("thresholds", "samples", "inputs", "picture")
    }
    content |= {key: _by_column(content[key]) for key in ("rows", "gaps", "streams")}
    return {
        "name": name,
        "result": content,
        "inputs": _pack(result.inputs) if result.inputs else None,
        "next": _next(result),
        "pictures": [plain(picture) for picture in pictures(result)],
        "tables": [_table(table) for table in result_tables(result)],
        "csv": forms.result_csv(result),
        "latex": forms.result_latex(result).partition("\\begin{table}")[0],
        "frames": frames,
    }


def _next(result: Result) -> list[list[str]]:
    """The words of the next command of every answer; of an effect, of that alone."""
    typed = Typed.of(result)
    if result.effect is not None:
        return [next_words(result, typed)]
    return [
        next_words(result, typed, answer=answer, is_on_page=True)
        for answer in result.answers
    ]


def _by_column(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Records of the same fields, with the names once."""
    names = list(records[0]) if records else []
    return {
        "names": names,
        "rows": [[record[name] for name in names] for record in records],
    }


def _share(cells: list[dict[str, Any]]) -> None:
    """Replace inputs and frames that an earlier cell has by the name of that cell."""
    for part in ("inputs", "frames"):
        first: dict[str, str] = {}
        for cell in cells:
            owner = first.setdefault(json_packed(cell[part]), cell["name"])
            cell[part] = (
                cell[part] if owner == cell["name"] or cell[part] is None else owner
            )


def _pack(inputs: Inputs) -> dict[str, Any]:
    """The inputs without losses, which follow from the terms; terms as changes, because
    most are zero or equal.
    """
    nothing = (0.0,) * len(inputs.input)
    packed = {}
    for name, modes in inputs.terms.items():
        cheap = next(iter(modes.values()))
        packed[name] = {
            m: _changes(part, nothing if part is cheap else cheap)
            for m, part in modes.items()
        }
    return {key: value for key, value in inputs.items() if key != "losses"} | {
        "terms": packed
    }


def _changes(
    column: Sequence[float], usual: Sequence[float]
) -> dict[str, Sequence[float]]:
    """The indices at which a column differs from the usual one, and its values
    there.
    """
    at = [
        i
        for i, (one, other) in enumerate(zip(column, usual, strict=True))
        if one != other
    ]
    return {"at": at, "is": [column[i] for i in at]}


def _table(table: Table) -> dict[str, Any]:
    starts, rows = [], []
    for section in table.sections:
        starts.append(len(rows))
        rows += [[[cell.text, cell.mark] for cell in row] for row in section]
    return {
        "title": table.title,
        "header": table.header,
        "rows": rows,
        "rules": starts[1:],
        "notes": table.notes,
        "latex": forms.table_latex(table),
    }


def _json(data: Any) -> str:
    """JSON that is safe inside a script element: every <, > and & and line separator is
    escaped.
    """
    text = json_packed(data)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


@cache
def _file(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
