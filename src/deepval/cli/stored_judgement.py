"""The last judgement of a cell by `deepval evaluate` with default options, stored in its folder for `deepval report`.

The name of the file is a hash of all inputs of the judgement and of the code, so a changed score, cost or program finds
no file.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from deepval.cells.evaluation_data import EvaluationData
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import digest_of, plain, sha256
from deepval.results import Result
from deepval.tables.scores import Scores

PREFIX = "judgement-"
CODE = "deepval.cells.judgement"
"""Module whose code a judgement depends on, with all modules that it imports."""


def store_judgement(case: EvaluationData, scores: Mapping[str, Scores], result: Result) -> None:
    """Write the judgement and remove older ones; a folder that cannot be written to stays as it is."""
    file = _file(case, scores)
    with suppress(InputError, OSError):
        result.save(file)
        for older in reading.find(case.source, f"{PREFIX}*.json"):
            if older != file:
                older.unlink(missing_ok=True)


def stored_judgement(case: EvaluationData, scores: Mapping[str, Scores]) -> Result | None:
    """The stored judgement of these scores; None if there is none or it is damaged."""
    file = _file(case, scores)
    if not reading.is_file(file):
        return None
    with suppress(InputError):
        return Result.load(file)
    return None


def _file(case: EvaluationData, scores: Mapping[str, Scores]) -> Path:
    from deepval.protocol.store import code_digest, versions

    inputs = {
        "code": code_digest(CODE),
        "versions": versions(),
        "cell": None if case.cell is None else case.cell.id,
        "table": case.table.digest,
        "costs": plain(case.table.costs),
        "scores": [[name, *_facts(item)] for name, item in scores.items()],
    }
    return case.source / f"{PREFIX}{digest_of(inputs)[:16]}.json"


def _facts(scores: Scores) -> list[str]:
    """Everything about scores that a judgement may depend on."""
    arrays = [scores.covered, *(() if scores.fit is None else (scores.fit.units, scores.fit.inside))]
    return [scores.digest, scores.kind, ",".join(scores.modes), *(sha256(np.ascontiguousarray(a).data) for a in arrays)]
