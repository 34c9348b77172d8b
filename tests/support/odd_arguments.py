"""Public functions called with odd arguments, one at a time -> what was raised that is
no sentence of ours, as JSON.

Run as a process of its own, without the run-time checks of the tests: `python
tests/support/odd_arguments.py FOLDER`.
"""

import datetime
import json
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

import deepval

LONGEST = 700
"""Characters of a sentence."""
RNG = np.random.default_rng(0)
VALUE = np.where(RNG.random(60) < 0.5, RNG.normal(0.3, 1, 60), 0.0)
UNIT = np.arange(60) % 6
LOSSES = {"cheap": np.full(60, 2.0), "full": 2 - VALUE}
COSTS = {
    "modes": {"cheap": {"ms": 10}, "full": {"ms": 20}},
    "allocators": {"mine": {"ms": 1}, "other": {"ms": 2}},
}


class Odd:
    """Nothing that anybody expects."""


def odd_values(result, table):
    """What is passed instead of what is meant."""
    plain = [
        None,
        "",
        "x",
        "0.2",
        0,
        -1,
        1.5,
        0.2,
        float("nan"),
        float("inf"),
        10**400,
        True,
        1j,
        b"x",
        "a\0b",
        ...,
    ]
    several = [
        [],
        [None],
        ["x"],
        [1, 2],
        [[1, 2], [3]],
        (),
        (1,),
        {"x"},
        range(3),
        [deepval.Selection(0.2), None],
    ]
    named = [
        {},
        {"x": 1},
        {1: 2},
        {"mine": None},
        {"cheap": None, "full": None},
        {"input": 1},
        {"mine": "x"},
    ]
    named += [
        {"cheap": {}, "full": {}},
        {"mine": []},
        {"mine": {}},
        {"mine": 3.0},
        {"a": result},
        {"a": 3},
    ]
    objects = [
        Odd(),
        Odd,
        lambda: 1,
        iter([]),
        slice(1),
        datetime.datetime(2020, 1, 1),
        np.datetime64("2020"),
        pd.NA,
    ]
    arrays = [
        np.zeros((2, 2)),
        np.zeros(60),
        np.full(60, np.nan),
        np.zeros(0),
        np.array("x"),
        np.array(0.2),
    ]
    arrays += [
        np.array(["a"] * 60),
        np.array([None] * 60),
        np.zeros(60, dtype=complex),
        np.array([Odd()] * 60),
    ]
    frames = [
        pd.DataFrame(),
        pd.DataFrame({"a": [1]}),
        pd.Series([1.0]),
        pa.table({"a": [1]}),
        np.ma.masked,
    ]
    files = [Path("nope"), Path("/"), "nope.csv", "nope/"]
    words = ["exact", "random", "mine", "mine@causal-cap", "@"]
    ours = [deepval.Selection(0.2), result, table, [result]]
    return [*plain, *several, *named, *objects, *arrays, *frames, *files, *words, *ours]


def calls(result, table):
    """Public functions with arguments that they take."""
    columns = {"unit": UNIT, "input": np.arange(60)} | {
        f"loss_{mode}": loss for mode, loss in LOSSES.items()
    }
    scores = {"mine": VALUE + 1, "other": -VALUE}
    judged = {
        "table": table,
        "scores": scores,
        "budgets": 0.2,
        "draws": 2,
        "seed": 0,
        "modes": None,
        "units": None,
    }
    judged |= {
        "calibration": None,
        "by": (),
        "missing": "error",
        "missing_costs": "error",
    }
    judged |= {"simultaneous_intervals": False, "curve_points": 0, "thresholds": True}
    judged |= {"terms": None, "weights": None}
    optional = dict.fromkeys(("modes", "input", "order", "attributes", "costs"))
    pair = {"candidate": "mine", "baseline": "other", "of": "gain"}
    budget = {"alpha": 0.2, "costs": COSTS, "accounting": "cascade"}
    routed = {
        "scores": VALUE,
        "alpha": 0.2,
        "policy": "causal cap",
        "parameter": None,
        "modes": None,
        "costs": None,
    }
    routed |= {"reset": True, "about": None}
    router = deepval.Router.from_scores(VALUE, 0.2)
    router.save("router.json")
    row = {"allocator": "mine"} | dict.fromkeys(
        ("kind", "alpha", "convention", "accounting")
    )
    return {
        "from_columns": (
            deepval.ValueTable.from_columns,
            {"unit": UNIT, "losses": LOSSES} | optional,
        ),
        "rewards": (deepval.ValueTable.from_columns, {"unit": UNIT, "rewards": LOSSES}),
        "read_values": (
            deepval.read_values,
            {"source": columns, "costs": None, "modes": None},
        ),
        "read_costs": (deepval.read_costs, {"source": COSTS}),
        "Costs": (deepval.Costs, COSTS | {"served": {}}),
        "Selection": (deepval.Selection, {"alpha": 0.2}),
        "Latency": (deepval.Latency, budget),
        "Energy": (deepval.Energy, budget | {"convention": "mj"}),
        "evaluate": (deepval.evaluate, judged),
        "one score": (
            lambda mine: deepval.evaluate(table, {"mine": mine}, 0.2, draws=2),
            {"mine": VALUE},
        ),
        "one group": (
            lambda by: deepval.evaluate(table, scores, 0.2, draws=2, by=[by]),
            {"by": "w"},
        ),
        "compare": (deepval.compare, {"result": result} | pair),
        "compare_over": (deepval.compare_over, {"cells": {"a": result}} | pair),
        "pool": (deepval.pool, {"cells": {"a": result}}),
        "units_to_resolve": (
            deepval.units_to_resolve,
            {"spread": 0.1, "units": 10, "difference": 0.05, "power": 0.8},
        ),
        "row": (result.row, row),
        "threshold": (
            result.threshold,
            {key: row[key] for key in ("allocator", "alpha", "kind")},
        ),
        "apgr": (result.apgr, {"levels": None}),
        "cpt": (result.cpt, {"allocator": "mine", "recovered": 0.5}),
        "area": (result.area, {"candidate": "mine", "baseline": "other"}),
        "from_scores": (deepval.Router.from_scores, routed),
        "calibrated": (
            deepval.Router.calibrated,
            {"allocator": "ego-speed", "validation_scores": VALUE, "alpha": 0.2},
        ),
        "load router": (deepval.Router.load, {"path": "router.json"}),
        "decide": (router.decide, {"arrived": 0.3}),
        "Money": (deepval.Money, budget),
        "save": (result.save, {"path": "r.json", "samples": False}),
        "load": (deepval.Result.load, {"path": "result.json"}),
        "plot": (result.plot, {"kind": "forest"}),
        "report": (result.report, {"path": "p.html", "name": None}),
        "with_modes": (table.with_modes, {"modes": ["cheap", "full"]}),
        "restrict": (table.restrict, {"units": ["1", "2"]}),
        "with_units": (table.with_units, {"units": ["1", "z"]}),
        "keep": (table.keep, {"rows": VALUE > 0}),
        "summary": (table.summary, {"alpha": 0.2}),
    }


def complaints(result, table):
    """What was raised that is no InputError, or one of several lines."""
    for name, (function, given) in calls(result, table).items():
        function(**given)
        for argument in given:
            for odd in odd_values(result, table):
                if name == "plot" and odd is None:
                    continue  # both kinds, which takes its time
                try:
                    function(**given | {argument: odd})
                except deepval.InputError as error:
                    if "\n" in str(error) or len(str(error)) > LONGEST:
                        yield (
                            f"{name}({argument}={type(odd).__name__}): "
                            f"{str(error)[:200]!r}"
                        )
                except Exception as error:  # noqa: BLE001  (that is what is looked for)
                    at = traceback.extract_tb(error.__traceback__)[-1]
                    yield (
                        f"{name}({argument}={type(odd).__name__}): "
                        f"{type(error).__name__}: {str(error)[:100]} "
                        f"({Path(at.filename).name}:{at.lineno})"
                    )


def main() -> None:
    """Print the complaints."""
    import os

    warnings.simplefilter("ignore")
    os.chdir(sys.argv[1])
    table = deepval.ValueTable.from_columns(
        unit=UNIT,
        losses=LOSSES,
        order=np.arange(60),
        attributes={"w": VALUE > 0},
        costs=COSTS,
    )
    result = deepval.evaluate(table, {"mine": VALUE + 1, "other": -VALUE}, 0.2, draws=3)
    result.save("result.json")
    print(json.dumps(sorted(set(complaints(result, table)))))


if __name__ == "__main__":
    main()
