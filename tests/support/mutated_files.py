"""A saved result or the frames of a cell with one place changed -> refused in a
sentence, or shown: nothing else.
"""

import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import deepval
from deepval.basics.errors import InputError
from deepval.driving.cells.view_files import read_frames
from deepval.judge.report import html
from deepval.judge.report.forms import FORMS
from deepval.judge.results import Result
from mutations import mutated
from worlds import judge, random_table


def result_content() -> dict[str, Any]:
    """A result with slices, streams, curves, a ladder, thresholds, infeasible rows and
    nulls, as plain data.
    """
    rng = np.random.default_rng(1)
    modes = ("cheap", "middle", "full")
    table = random_table(
        rng,
        inputs=14,
        units=4,
        modes=modes,
        order=np.arange(14),
        attributes={"kind": rng.choice(["x", "y"], 14)},
    )
    costs = {
        "modes": {"cheap": {"ms": 5.0}, "middle": {"ms": 6.0}, "full": {"ms": 8.0}},
        "allocators": {"mine": {"ms": 0.5}, "dear": {"ms": 7.0}},
    }
    scores = {"mine": rng.normal(size=14), "dear": rng.normal(size=14)}
    budgets = [
        deepval.Selection(0.2),
        deepval.Latency(0.5, costs),
        deepval.Latency(0.5, costs, "skipping"),
    ]
    options = {
        "by": "kind",
        "curve_points": 3,
        "simultaneous_intervals": True,
        "draws": 15,
        "thresholds": True,
    }
    return json.loads(
        judge(
            table, scores, budgets, calibration=[str(table.unit_ids[0])], **options
        ).to_json()
    )


def show_result(path: Path) -> None:
    """Show a saved result in every form there is."""
    show_quickly(path)
    FORMS["text"](Result.load(path))


def show_quickly(path: Path) -> None:
    """Show a saved result in every form but the console's, which lays out the tables of
    the others at length.
    """
    result = Result.load(path)
    for name in FORMS.keys() - {"text"}:
        FORMS[name](result)
    html.render({"cell": result}, {})


def show_frames(result: Result) -> Callable[[Path], None]:
    """Show frames on the page of a result."""
    return lambda path: void(html.render({"cell": result}, {"cell": read_frames(path)}))


def void(_: object) -> None:
    """Nothing."""


def try_mutations(
    content: Any, show: Callable[[Path], None], path: Path, *, times: int, seed: int
) -> int:
    """How many of so many changes are refused; whatever else is raised names what was
    changed.
    """
    rng, refused = random.Random(seed), 0
    for number in range(times):
        changed, what = mutated(content, rng)
        path.write_text(json.dumps(changed), encoding="utf-8")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                show(path)
        except InputError as error:
            refused += str(error).isprintable()
        except Exception as error:
            raise AssertionError(
                "number "
                f"{number} of seed {seed}: {what}: {type(error).__name__}: {error}"
            ) from error
    return refused
