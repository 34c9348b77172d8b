"""Cells or saved results, and frames -> one HTML page, or figures for a paper."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.errors import InputError, InputWarning
from deepval.basics.files import reading
from deepval.basics.files.canonical import MANIFEST, SCORES
from deepval.cli import options, terminal
from deepval.cli.terminal import say
from deepval.judge.cases import judge, read_evaluation_data, with_note
from deepval.judge.results import Provenance, Result
from deepval.judge.tables.scores import align, on_part
from deepval.judge.tables.values import ValueTable, read_values

RESULT, FRAMES = "result", "frames"
"""Files of these names are named after their folder."""
TABLES = (".csv", ".parquet")
"""Endings of values files."""
PERCEPTION_LOSS = "E5"
"""The combined error; the paper compares its gain with decision value."""
CURVE_POINTS = 20
"""Points of the budget curves, if the result is computed for the page."""


class ResultInFolder(NamedTuple):
    """A result and the folder of its cell, whose frames appear with it."""

    folder: Path
    result: Result
    date: str | None = None
    """The day of the result's file; None where there is none."""


def read_result(path: Path) -> ResultInFolder:
    """The result in a file, which is shown as it is, with a note where the table that
    it names has changed.
    """
    result = Result.load(path)
    changed = _changed_table(path, result)
    if changed is not None:
        result = with_note(result, changed)
        warnings.warn(InputWarning(changed), stacklevel=2)
    return ResultInFolder(
        path.parent,
        _of_cell(path.parent, result),
        date.fromtimestamp(path.stat().st_mtime).isoformat(),
    )


def _changed_table(path: Path, result: Result) -> str | None:
    """What to say where the table that a saved result names is not what it judged."""
    named = (result.provenance.files or {}).get("values")
    options_of_files = (result.provenance.files or {}).get("options")
    # With other names of columns or modes, only the command can read the table.
    if named is None or options_of_files:
        return None
    places = [Path(named), path.parent / named]
    values = next((place for place in places if reading.is_file(place)), None)
    if values is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            table = read_values(values).restrict(result.provenance.units)
        is_judged = table.digest == result.provenance.table
    except InputError:  # other columns, or not its units
        is_judged = False
    if is_judged:
        return None
    return (
        f"{path} is a saved result of another table than {values} holds now: its "
        f"figures are shown as saved. `deepval evaluate {values}` judges anew."
    )


def _of_cell(folder: Path, result: Result) -> Result:
    """The result, whose cell is the one in the folder, if there is one."""
    if result.provenance.cell is None or not reading.is_file(folder / MANIFEST):
        return result
    files = {**(result.provenance.files or {}), "values": str(folder)}
    return replace(result, provenance=replace(result.provenance, files=files))


def results_by_name(
    files: Mapping[str, Path],
    scores: Mapping[str, Path] | None = None,
    *,
    keep: str | None = None,
    at_least: str | None = None,
) -> dict[str, ResultInFolder]:
    """Results by name; of a cell's folder all results in it, or else the judgement of
    the scores beside the cell; of a values file, the judgement of these scores. A floor
    is judged anew.
    """
    floors = {"keep": keep, "at_least": at_least}
    has_floor = keep is not None or at_least is not None
    results: dict[str, ResultInFolder] = {}
    for name, path in files.items():
        if has_floor and path.suffix.lower() == ".json":
            raise InputError(
                f"{path}: --keep and --at-least need a values file or a cell, and this "
                "is a saved result: leave them out, or give its table."
            )
        if path.suffix.lower() in TABLES or scores or has_floor:
            result = _of_cell(path, _judgement(path, scores or {}, **floors))
            results[name] = ResultInFolder(path.parent, result)
            continue
        saved = (
            sorted(reading.find(path, f"{RESULT}*.json"))
            if reading.is_folder(path)
            else [path]
        )
        more = {
            _title(name, file) if reading.is_folder(path) else name: read_result(file)
            for file in saved
        }
        twice = sorted(more.keys() & results)
        if twice:
            raise InputError(
                f"Cells need different names; {twice[0]!r} "
                "is given twice. Write NAME=FILE."
            )
        results |= more or {
            name: ResultInFolder(path, _of_cell(path, _judgement(path, {})))
        }
    return results


def _title(cell: str, file: Path) -> str:
    """Name of a result in a cell's folder: `cell, board` for result-board.json."""
    more = file.stem.removeprefix(RESULT).strip("-_.")
    return f"{cell}, {more}" if more else cell


def _judgement(source: Path, files: Mapping[str, Path], **floors: Any) -> Result:
    """The judgement of scores on a values file or a cell, with curves; for a cell, of
    the scores in its folder where no files are named.
    """
    case = read_evaluation_data(source)
    scores = case.scores(files, needed=False)
    units, held_out_note = case.judged_units(None, scores)
    budgets = options.CHARGED_DEFAULTS.of(case, scores)
    named = {name: str(path) for name, path in files.items()}
    result = judge(
        case,
        scores,
        budgets,
        command="report",
        units=units,
        missing_costs=case.missing_costs(scores, budgets),
        terms=None if case.cell is None else case.cell.terms,
        curve_points=CURVE_POINTS,
        **floors,
        watch=terminal.watch,
    )
    provenance = replace(
        result.provenance, files={**named, "options": "", "values": str(source)}
    )
    return with_note(replace(result, provenance=provenance), held_out_note)


def page_text(
    results: Mapping[str, ResultInFolder],
    *,
    frames: Mapping[str, Path] | None = None,
    images: bool = False,
    image_root: Path | None = None,
    highlight: str | None = None,
) -> str:
    """The page of results by cell; frames in the folder of a result are taken."""
    from deepval.judge.report import html

    loaded = {name: item.result for name, item in results.items()}
    frames_by_cell = _frames_by_cell(results, frames or {})
    frames_by_cell |= _inputs_by_cell(
        {name: item for name, item in results.items() if name not in frames_by_cell}
    )
    dates = {name: item.date for name, item in results.items() if item.date}
    pictures = _pictures(frames_by_cell, image_root) if images else None
    return html.render(
        loaded, frames_by_cell, images=pictures, dates=dates, highlight=highlight
    )


def write_figures(
    folder: Path,
    results: Mapping[str, ResultInFolder],
    *,
    frames: Mapping[str, Path],
    highlight: str | None = None,
) -> None:
    """Write figures for a paper and print their names."""
    from deepval.judge.report import figures

    loaded = {name: item.result for name, item in results.items()}
    gains = {
        name: _gains(path)
        for name, path in _beside(results, "evidence.parquet").items()
    }
    written, left_out = figures.write_figures(
        folder,
        loaded,
        _frames_by_cell(results, frames),
        gains=gains,
        highlight=highlight,
    )
    for path in written:
        terminal.write(f"{path}\n")
    for name, why in left_out.items():
        say(f"Left out {name}: {why}.")


def _gains(path: Path) -> dict[str, float]:
    """The perception gain of every input, from the evidence of a cell."""
    from deepval.judge.tables.columns import read

    evidence = read(path)
    cheap, full = f"cheap_{PERCEPTION_LOSS}", f"full_{PERCEPTION_LOSS}"
    evidence.require("input", cheap, full)
    gains = evidence.numbers(cheap) - evidence.numbers(full)
    return dict(
        zip(map(str, evidence.ids("input").tolist()), gains.tolist(), strict=True)
    )


def _beside(results: Mapping[str, ResultInFolder], file: str) -> dict[str, Path]:
    """The existing files of this name beside results, by cell."""
    candidates = {name: item.folder / file for name, item in results.items()}
    return {name: path for name, path in candidates.items() if reading.is_file(path)}


def _frames_by_cell(
    results: Mapping[str, ResultInFolder], frames: Mapping[str, Path]
) -> dict[str, dict[str, Any]]:
    from deepval.driving.cells.view_files import read_frames

    return {
        name: read_frames(path)
        for name, path in (_beside(results, "frames.json") | dict(frames)).items()
    }


def _inputs_by_cell(results: Mapping[str, ResultInFolder]) -> dict[str, dict[str, Any]]:
    """The inputs that matter most, where the file of values beside a result is what it
    judged.
    """
    from deepval.driving.cells.explorer import notable_inputs

    inputs = {}
    for file in ("values.csv", "values.parquet"):
        for name, path in _beside(results, file).items():
            judged = results[name].result.provenance
            # a file of other columns or units is not what was judged
            with suppress(InputError):
                whole = read_values(path)
                table = whole.restrict(judged.units)
                if table.digest == judged.table:
                    inputs[name] = notable_inputs(
                        table, _scores_beside(path.parent, whole, table, judged)
                    )
    return inputs


def _scores_beside(
    folder: Path, whole: ValueTable, table: ValueTable, judged: Provenance
) -> dict[str, np.ndarray]:
    """The judged scores by allocator, from files of its name in the folder or in its
    folder of scores.
    """
    scores = {}
    for file in (
        file for home in (folder, folder / SCORES) for file in reading.find(home, "*.*")
    ):
        # a file of another name, or of other inputs, is not what was judged
        with suppress(InputError, KeyError):
            digest = judged.scores[file.stem].digest
            part = on_part(table, align(whole, file.stem, file), whole, "error")
            scores |= (
                {file.stem: part.values}
                if part.digest == digest and part.values.ndim == 1
                else {}
            )
    return scores


def files_by_cell(texts: Sequence[str], usual: str) -> dict[str, Path]:
    """Files by cell: NAME=FILE, or the name of the file, or of its folder where the
    file has the usual name.
    """

    def name_of(path: Path) -> str:
        if reading.is_folder(path):
            return reading.resolve(path).name
        return reading.resolve(path).parent.name if path.stem == usual else path.stem

    paths = [Path(text) for text in texts if "=" not in text]
    names = {path: name_of(path) for path in dict.fromkeys(paths)}
    alike = [
        path for path, name in names.items() if list(names.values()).count(name) > 1
    ]
    apart = dict(zip(alike, _distinct_names(alike), strict=True))
    return options.named_files(
        texts, "Cells", lambda path: apart.get(path) or name_of(path)
    )


def _distinct_names(paths: list[Path]) -> list[str]:
    """Names from as many last parts of each path as distinguish them: one/braking,
    two/braking.
    """
    parts = [reading.resolve(path).parts for path in paths]
    most = max(map(len, parts), default=0)
    depth = next(
        (d for d in range(2, most) if len({own[-d:] for own in parts}) == len(parts)),
        most,
    )
    return [
        "/".join(own[-depth:]).removesuffix(f"/{RESULT}.json").removesuffix(".json")
        for own in parts
    ]


def frame_files(texts: Sequence[str], cells: list[str]) -> dict[str, Path]:
    """The files of frames by cell; a single file belongs to a single cell."""
    files = files_by_cell(texts, FRAMES)
    if len(files) == len(cells) == 1:
        return {cells[0]: next(iter(files.values()))}
    unknown = [name for name in files if name not in cells]
    if unknown:
        raise InputError(
            f"--frames must be of one of {', '.join(cells)}; found {unknown[0]!r}. "
            "Write NAME=FILE."
        )
    return files


def _pictures(frames: dict[str, dict[str, Any]], root: Path | None) -> dict[str, str]:
    from deepval.driving.cells.explorer import pictures

    images_by_input: dict[str, str] = {}
    for item in frames.values():
        missing = [
            frame
            for frame in item["frames"]
            if f"{item['dataset']}/{frame['input']}" not in images_by_input
        ]
        images_by_input |= pictures(item | {"frames": missing}, root=root)
    if not images_by_input:
        number = sum(len(item["frames"]) for item in frames.values())
        why = (
            f"the {number} frames to look at name none"
            if number
            else "there are no frames to look at"
        )
        warnings.warn(
            f"--images found no picture: {why}. The page is made without.",
            InputWarning,
            stacklevel=2,
        )
    return images_by_input
