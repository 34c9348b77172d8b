"""Runs the worlds of `golden_worlds.py` and compares the outcomes with tests/golden.

    python tools/renew_golden.py [WORLD ...]          compare, print what differs
    python tools/renew_golden.py --renew [WORLD ...]  store, print what changed

A golden file belongs to one command or analysis and has its outcomes in all worlds, by
case. Numbers are stored unrounded and compared within 1e-9. Tables of many rows are
stored as a digest for each column, of values rounded to seven digits. Sentences are not
frozen: they may be written better at any time. `files.json.gz` has the SHA-256 of every
file of the cells, with digests of columns and keys, which name what differs.

The metrics of the learned planner (`*_TIP` in a file that has `*_PKL`) come from torch,
whose digits change with the processor, and no setting fixes them: rounding thousands of
figures would only make it rarer that one lies on an edge. Of these columns the golden
has the gaps and the mean to three digits, of their file no SHA-256, and of the scores
in a cell's ledger not those that are made of them.

Last digits of floats depend on the instructions that NumPy and OpenBLAS choose for the
processor at hand, so the commands run with this choice fixed.
"""

import argparse
import gzip
import hashlib
import io
import json
import math
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import Any

from golden_worlds import GOLDEN, ROOT, WORLDS, Step, World

TOLERANCE = 1e-9
"""Largest difference of equal numbers, relative to the larger if it is above 1."""
LARGE = 2_000_000
"""Characters of JSON above which the tables of an outcome are stored as digests."""
LIBRARIES = ("numpy", "scipy", "scikit-learn")
SAME_DIGITS = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
NOT_FROZEN = frozenset({"deepval", "warnings", "made_with", "python", "seconds"})
"""Keys of what depends on the version or the machine, and of sentences."""
CHANGES_WITH_THE_CODE = frozenset({"built-by.json", "read-from.json"})
OF_TORCH = ("_PKL", "_TIP")
"""Endings of the columns of the learned planner; the first is no other planner's."""
SCORES_OF_TORCH = ("gain-PKL", "gain-TIP")
"""Scores made of these columns, where a cell has the first."""
LEDGER = "opened.jsonl"
SENTENCE = "(sentence)"
BESIDE_THE_PAPER = (
    *("table", "quantity", "analysis", "cell"),
    *("here", "here_lo", "here_hi", "paper_lo", "paper_hi"),
)

Outcomes = dict[str, dict[str, Any]]
"""By golden file and case."""


# --- run ------------------------------------------------------------------------------


def run_world(name: str, shared: Path, work: Path) -> Outcomes:
    """The outcomes of a world, made by a process of its own in an empty folder."""
    outcomes = work / "outcomes.json"
    (work / "world").mkdir()
    words = [
        sys.executable,
        __file__,
        "--child",
        name,
        "--shared",
        str(shared.resolve()),
    ]
    done = subprocess.run(
        [*words, "--outcomes", str(outcomes)],
        cwd=work / "world",
        env={**os.environ, **SAME_DIGITS},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"The world {name} failed:\n{done.stdout}{done.stderr}")
    # Where the shared data stand is the machine's affair: pictures name it.
    text = outcomes.read_text(encoding="utf-8")
    return json.loads(text.replace(str(shared.resolve()), "../shared"))


def outcomes_of(world: World, shared: Path) -> Outcomes:
    """Run the steps of a world in the current folder."""
    outcomes: Outcomes = {}
    for step in world.steps(shared):
        printed = _run(step)
        if step.golden:
            label = f"{world.name}: {step.case}"
            outcomes.setdefault(step.golden, {})[label] = _outcome(step, printed)
    folders = [folder for pattern in world.cells for folder in Path().glob(pattern)]
    for folder in sorted(folders):
        if (folder / "manifest.json").is_file():
            label = f"{world.name}: {folder.as_posix()}"
            outcomes.setdefault("files", {})[label] = _file_digests(folder)
    return outcomes


def _run(step: Step) -> str:
    """What a command prints, or a function returns; it must succeed."""
    if step.act is not None:
        result = step.act(Path())
        return result.to_json() if step.golden else ""

    from deepval.cli import main

    sys.argv = ["deepval", *shlex.split(step.words)]
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
    if code and not (
        step.golden == "watch" and code == 3
    ):  # 3: the watch raised an alarm
        raise RuntimeError(f"deepval {step.words}\n{out.getvalue()}{err.getvalue()}")
    return out.getvalue()


def _outcome(step: Step, printed: str) -> Any:
    if not step.writes:
        content = json.loads(printed)
    elif len(step.writes) == 1:
        content = _content(Path(step.writes[0]))
    else:
        content = {name: _content(Path(name)) for name in step.writes}
    if step.golden == "diagnose":
        content = content["diagnosis"]
    content = _numbers(content)
    large = len(json.dumps(content)) > LARGE
    return _digested(content) if large else content


def _content(path: Path) -> Any:
    if path.suffix == ".json":
        content = json.loads(path.read_text(encoding="utf-8"))
        return _reported(content) if path.name == "report.json" else content
    if path.suffix == ".parquet":
        return _parts(path)
    return {"sha256": _digest(path.read_bytes())}


def _reported(report: dict[str, Any]) -> dict[str, Any]:
    """The figures of a reproduction, without its texts and its printed tables."""
    figures = [
        {name: figure[name] for name in BESIDE_THE_PAPER}
        for figure in report["beside_the_paper"]["figures"]
    ]
    return {
        "cells": report["cells"],
        "figures": figures,
        "analyses": report["analyses"],
    }


def _numbers(content: Any) -> Any:
    """The content without sentences and without what depends on the machine."""
    if isinstance(content, dict):
        kept = {key: value for key, value in content.items() if key not in NOT_FROZEN}
        return {key: _numbers(value) for key, value in kept.items()}
    if isinstance(content, list):
        return [_numbers(value) for value in content]
    if isinstance(content, str) and _is_sentence(content):
        return SENTENCE
    return content


def _is_sentence(text: str) -> bool:
    return " " in text and (text.endswith((".", "?")) or ". " in text or len(text) > 80)


def _digested(content: Any) -> Any:
    """The content, its tables of more than twenty rows as a digest for each column."""
    if isinstance(content, dict):
        return {key: _digested(value) for key, value in content.items()}
    if not isinstance(content, list):
        return content
    if len(content) <= 20:
        return [_digested(value) for value in content]
    rows = [row if isinstance(row, dict) else {"value": row} for row in content]
    names = sorted({name for row in rows for name in row})
    columns = {name: [_rounded(row.get(name)) for row in rows] for name in names}
    digests = {name: _digest(_json(column))[:16] for name, column in columns.items()}
    return {"rows": len(rows), "digests": digests}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6e}" if abs(value) > 1e-12 else "0"
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value


# --- files of cells -------------------------------------------------------------------


def _file_digests(folder: Path) -> dict[str, Any]:
    """A cell's id, and digests of its files: of the bytes, and of columns and keys."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    digests: dict[str, Any] = {"id": manifest["id"]}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not path.is_file() or hidden or path.name in CHANGES_WITH_THE_CODE:
            continue
        if name.startswith(("result", "judgement", "scores/")):
            continue  # judgements are frozen by the commands that print them
        digests[name] = _parts(path)
        if path.suffix == ".parquet" and not _of_torch(digests[name]):
            digests[name]["sha256"] = _digest(path.read_bytes())
    return digests


def _parts(path: Path) -> dict[str, str]:
    """Digests of a file's columns or keys."""
    if path.suffix == ".parquet":
        return _column_digests(path)
    if path.name == LEDGER:
        return {"text": _digest(_exact_lines(path.read_bytes()))[:16]}
    if path.suffix != ".json":
        return {"text": _digest(path.read_bytes())[:16]}
    content = _numbers(json.loads(path.read_text(encoding="utf-8")))
    if path.name == "manifest.json":
        content["files"] = sorted(content["files"])
    return {key: _digest(_json(value))[:16] for key, value in content.items()}


def _column_digests(path: Path) -> dict[str, str]:
    """A digest for each column of type, values and gaps, as they lie in memory."""
    import numpy as np
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    digests = {}
    for name in table.column_names:
        column = table.column(name)
        values = column.to_numpy()
        if values.dtype.kind == "O":
            raw = json.dumps(values.tolist()).encode()
        else:
            raw = np.ascontiguousarray(values).tobytes()
        gaps = column.is_valid().to_numpy().tobytes()
        if name.endswith(OF_TORCH) and _of_torch(table.column_names):
            raw = f"{np.nanmean(values.astype(float)):.2e}".encode()
        digests[name] = _digest(str(column.type).encode() + raw + gaps)[:16]
    return digests


def _of_torch(columns: Iterable[str]) -> bool:
    """Whether the columns are those of the learned planner."""
    return any(name.endswith(OF_TORCH[0]) for name in columns)


def _exact_lines(ledger: bytes) -> bytes:
    """The lines of a ledger without the scores that come from torch."""
    lines = []
    for line in ledger.splitlines(keepends=True):
        look = json.loads(line)
        if SCORES_OF_TORCH[0] not in look["scores"]:
            lines.append(line)
            continue
        for name in SCORES_OF_TORCH:
            look["scores"].pop(name, None)
        lines.append(_json(look))
    return b"".join(lines)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- compare --------------------------------------------------------------------------


def differences(stored: Outcomes, outcomes: Outcomes) -> Iterator[str]:
    """A line for each value that differs: file, case, row and field, both values."""
    for golden in sorted({*stored, *outcomes}):
        before = stored.get(golden, {})
        after = outcomes.get(golden, {})
        for label in sorted({*before, *after}):
            if label not in after:
                yield f"{golden}, {label}: is missing"
            elif label not in before:
                yield f"{golden}, {label}: is new"
            else:
                for line in _differ(before[label], after[label], ""):
                    yield f"{golden}, {label}{line}"


def _differ(before: Any, after: Any, where: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            if key not in after or key not in before:
                yield f"{where}, {key}: is {'missing' if key in before else 'new'}"
            else:
                yield from _differ(before[key], after[key], f"{where}, {key}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{where}: had {len(before)} rows and has {len(after)}"
        for at, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from _differ(old, new, f"{where} row {at}{_called(old)}")
    elif not _equal(before, after):
        yield f"{where}: was {before!r} and is {after!r}"


def _called(row: Any) -> str:
    """The words that name a row."""
    if not isinstance(row, dict):
        return ""
    names = [value for value in row.values() if isinstance(value, str)]
    return f" ({', '.join(names[:3])})" if names else ""


def _equal(before: Any, after: Any) -> bool:
    if _is_number(before) and _is_number(after):
        return math.isclose(before, after, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(before) is type(after) and before == after


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- store ----------------------------------------------------------------------------


def stored_outcomes(world: str) -> Outcomes:
    """The stored outcomes of a world."""
    outcomes: Outcomes = {}
    for path in sorted(GOLDEN.glob("*.json.gz")):
        cases = _read(path)
        own = {label: cases[label] for label in cases if label.startswith(f"{world}: ")}
        if own:
            outcomes[path.name.removesuffix(".json.gz")] = own
    return outcomes


def store(world: str, outcomes: Outcomes) -> None:
    """Replace the stored outcomes of a world."""
    before = stored_outcomes(world)
    for golden in {*before, *outcomes}:
        path = GOLDEN / f"{golden}.json.gz"
        cases = _read(path) if path.exists() else {}
        others = {
            label: cases[label] for label in cases if not label.startswith(f"{world}: ")
        }
        cases = others | outcomes.get(golden, {})
        if not cases:
            path.unlink()
            continue
        text = json.dumps(dict(sorted(cases.items())), separators=(",", ":"))
        path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    (GOLDEN / "made_with.json").write_text(json.dumps(made_with(), indent=1) + "\n")


def _read(path: Path) -> dict[str, Any]:
    return json.loads(gzip.decompress(path.read_bytes()))


def made_with() -> dict[str, str]:
    """The machine and the libraries on which last digits depend."""
    libraries = {library: version(library) for library in LIBRARIES}
    return {"machine": platform.machine(), **libraries}


def read_made_with() -> dict[str, str]:
    """The machine and the libraries that the goldens were made with."""
    return json.loads((GOLDEN / "made_with.json").read_text(encoding="utf-8"))


def available(world: World, shared: Path) -> bool:
    """Whether the shared data of a world are present."""
    return all((shared / "data" / folder).is_dir() for folder in world.needs)


def main(words: Iterable[str] | None = None) -> None:
    """Compare the goldens of some worlds, or renew them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("worlds", nargs="*", metavar="WORLD", help=", ".join(WORLDS))
    parser.add_argument("--renew", action="store_true")
    shared = os.environ.get("DEEPVAL_SHARED", ROOT.parent / "shared")
    parser.add_argument("--shared", type=Path, default=shared)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--outcomes", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(None if words is None else list(words))
    if options.child:
        outcomes = outcomes_of(WORLDS[options.child], options.shared)
        options.outcomes.write_text(json.dumps(outcomes), encoding="utf-8")
        return
    unknown = [name for name in options.worlds if name not in WORLDS]
    if unknown:
        parser.error(f"WORLD must be one of {', '.join(WORLDS)}; found {unknown[0]!r}")
    differing = 0
    for name in options.worlds or WORLDS:
        if not available(WORLDS[name], options.shared):
            print(f"{name}: left out, there are no shared data in {options.shared}")
            continue
        with tempfile.TemporaryDirectory() as work:
            outcomes = run_world(name, options.shared, Path(work))
        lines = list(differences(stored_outcomes(name), outcomes))
        differing += len(lines)
        print(f"{name}: {sum(map(len, outcomes.values()))} outcomes, ", end="")
        print(f"{len(lines)} differences{_summary(lines)}", flush=True)
        if options.renew:
            store(name, outcomes)
    if differing and not options.renew:
        sys.exit(1)


def _summary(lines: list[str], most: int = 40) -> str:
    """The first differences, and in how many fields of which goldens the others are."""
    text = "".join(f"\n  {line}" for line in lines[:most])
    if len(lines) <= most:
        return text
    goldens = Counter(line.split(",")[0] for line in lines[most:])
    rest = ", ".join(f"{golden} {number}" for golden, number in goldens.items())
    return f"{text}\n  and further: {rest}"


if __name__ == "__main__":
    main()
