"""Tables of public benchmarks, recognised by their columns; lists of prices beside
them.

Wide: `<model>` beside `<model>|total_cost` (RouterBench), `correct|<model>` beside
`conf|<model>` (FrugalML, with a list of prices), `<planner>|score` (NAVSIM), right and
wrong alone (RouteLLM, RouterDC). Long: RouterArena, LLMRouterBench, NAVSIM's own scores
of one planner. Losses are the best possible quality minus the quality.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.errors import InputError, argument
from deepval.basics.files import reading
from deepval.judge.tables import columns, keys
from deepval.judge.tables.input_costs import NAMES
from deepval.judge.tables.logs import names

COST, PLANNER_SCORE, CORRECT, CONFIDENCE = "|total_cost", "|score", "correct|", "conf|"
"""Endings of a model's columns in RouterBench and NAVSIM, and beginnings of those in
FrugalML.
"""
WEAK, STRONG = "weak_", "strong_"
"""Beginnings of the names of the two models in RouteLLM."""
PRICE_LIST = ("dataset", "model", "cost_per_10k")
"""Columns of a list of prices: dollars per 10,000 calls of a model on a data set."""
DATASET = (
    "log_name",
    "group",
    "eval_name",
    "dataset_id",
    "dataset",
    "dataset_name",
    "benchmark",
    "task",
    "domain",
    "category",
)
PROMPT_ID = (
    "sample_id",
    "global index",
    "record_index",
    "index",
    "prompt_id",
    "token",
    "i",
)
ORDER = "start_time"
ANSWERS = ("true", "label", "target")
"""Columns with the right answer: no router may look at them."""
NAVSIM = frozenset({"token", "valid", "score"})
NAVSIM_MEANS = ("average", "average_all_frames", "extended_pdm_score_combined")
"""Rows of NAVSIM's scores that are means."""
LONG = {
    "RouterArena": (
        frozenset({"global index", "prediction", "accuracy"}),
        ("global index", "prediction", "accuracy", "cost"),
    ),
    "LLMRouterBench": (
        frozenset({"dataset_id", "record_index", "model_name", "score"}),
        ("record_index", "model_name", "score", "cost"),
    ),
    "LLMRouterBench, folders": (
        frozenset({"dataset_id", "index", "model_name", "score"}),
        ("index", "model_name", "score", "cost"),
    ),
    "NAVSIM, scores of a planner": (
        NAVSIM | {"model"},
        ("token", "model", "score", "cost"),
    ),
}
"""Fields of each long table, and its id, model, quality and price."""


@dataclass(frozen=True)
class Public:
    """What the columns of a public table are (`roles.Roles`), and where it differs.

    Attributes:
        name: The benchmark.
        confidences: Column with the confidence of each model in its answer.
        units_of_ids: Units are the ids up to their last underscore.
        ids_within_units: Whether ids are unique only with their unit before them.
    """

    name: str
    id: str | None = None
    unit: str | None = None
    order: str | None = None
    scores: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    value: str | None = None
    cost: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[str, str] = field(default_factory=dict)
    confidences: Mapping[str, str] = field(default_factory=dict)
    units_of_ids: bool = False
    ids_within_units: bool = False


def navsim_scores(table: columns.Columns, planner: str) -> columns.Columns:
    """NAVSIM's scores of one planner, in which the planner has no column, without means
    and states that could not be scored; any other table as it is.
    """
    if not set(table.data) >= NAVSIM:
        return table
    tokens = keys.as_text(table.ids("token"))
    is_valid = keys.quality_array(table.data["valid"], f"{table.source}: 'valid'") > 0
    counts = is_valid & ~np.isin(tokens, NAVSIM_MEANS)
    data = {name: column[counts] for name, column in table.data.items()}
    return columns.Columns(
        table.source, {**data, "model": np.full(counts.sum(), planner)}
    )


def public_table(table: columns.Columns, modes: Sequence[str] | None) -> Public | None:
    """The public benchmark that a table is of; None where it is of none."""
    fields = set(table.data)
    for name, (has, (index, model, value, cost)) in LONG.items():
        if has <= fields:
            unit = _first(table, DATASET)
            return Public(
                name=name,
                id=index,
                unit=unit,
                scores=_prompt_length(table),
                model=model,
                value=value,
                cost=cost if cost in fields else None,
                units_of_ids=unit is None and not fields >= NAVSIM,
                ids_within_units=not fields >= NAVSIM,
            )
    name, values = _models(table, modes)
    if not values:
        return None
    missing = [column for column in values.values() if column not in fields]
    if missing:
        raise InputError(
            f"{table.source}: beside {missing[0] + COST!r} a column {missing[0]!r} of "
            "its quality is needed; there is none."
        )
    confidences = {
        m: f"{CONFIDENCE}{m}" for m in values if f"{CONFIDENCE}{m}" in fields
    }
    used = {*values.values(), *DATASET, *PROMPT_ID, *ANSWERS, ORDER}
    numbers = {
        name: name
        for name, column in table.data.items()
        if name not in used
        and column.dtype.kind in "fiu"
        and "|" not in name
        and not name.endswith(names.CHARACTERS)
    }
    return Public(
        name=name,
        id=_first(table, PROMPT_ID),
        unit=_first(table, DATASET),
        order=_first(table, (ORDER,)),
        scores=_prompt_length(table) | numbers,
        values=values,
        costs={m: f"{m}{COST}" for m in values if f"{m}{COST}" in fields},
        confidences=confidences,
        ids_within_units=True,
    )


def _models(
    table: columns.Columns, modes: Sequence[str] | None
) -> tuple[str, dict[str, str]]:
    """The benchmark that a wide table is of, and the column of quality by model."""
    fields = list(table.data)
    if any(name.endswith(COST) for name in fields) and "eval_name" in fields:
        models = [n.removesuffix(COST) for n in fields if n.endswith(COST)]
        return "RouterBench", {model: model for model in models}
    of_others = (
        ("FrugalML", CORRECT, "", any(n.startswith(CONFIDENCE) for n in fields)),
        ("NAVSIM", "", PLANNER_SCORE, "token" in fields),
    )
    for name, first, last, is_it in of_others:
        by_model = {
            column.removeprefix(first).removesuffix(last): column
            for column in fields
            if column.startswith(first) and column.endswith(last)
        }
        if by_model and is_it:
            return name, by_model
    lengths = [name for name in fields if name.endswith(names.CHARACTERS)]
    other = (*DATASET, *PROMPT_ID, ORDER, *ANSWERS, *lengths, "unit", "input")
    plain = [n for n in fields if n not in other and not n.endswith(names.DIGEST)]
    pairs = {n: n for n in plain if n.startswith((WEAK, STRONG))}
    if len(pairs) > 1:
        return "RouteLLM", pairs
    if len(plain) == 2 and lengths and all(_is_rated(table.data[n]) for n in plain):
        return "RouteLLM", {name: name for name in plain}
    if {"dataset", "i"} <= set(fields) and lengths:
        prefixes = tuple(f"{name}_" for name in NAMES)
        rated = {
            name: name
            for name in plain
            if not name.startswith(prefixes) and _is_rated(table.data[name])
        }
        if modes and all(mode in table.data for mode in modes):
            rated = {mode: mode for mode in modes}
        if len(rated) > 1:
            return "RouterDC", rated
    return "", {}


def _is_rated(column: np.ndarray) -> bool:
    """Whether a column holds right and wrong, or numbers from 0 to 1."""
    if column.dtype.kind not in "fiub":
        words = {str(value).strip().lower() for value in column.tolist()}
        return words <= set(keys.RIGHT_OR_WRONG)
    inside = (column >= 0) & (column <= 1)
    return bool(np.all(inside | np.isnan(column.astype(float))))


def _first(table: columns.Columns, usual: Sequence[str]) -> str | None:
    return next((name for name in usual if name in table.data), None)


def _prompt_length(table: columns.Columns) -> dict[str, str]:
    """The column with the length of the prompts, if there is one."""
    lengths = [name for name in table.data if name.endswith(names.CHARACTERS)]
    return {"prompt_length": lengths[0]} if lengths else {}


def listed_costs(
    source: str, models: Sequence[str], prices: Any, dataset: str | None
) -> dict[str, float]:
    """Dollars per call by model, from a list of prices; empty where there is no
    list.
    """
    if prices is not None:
        lists = [columns.read(prices)]
    else:
        beside = _price_lists(Path(source).parent) if reading.is_file(source) else []
        lists = [
            table
            for table in map(columns.read, beside)
            if set(models) <= set(_texts(table, "model"))
        ]
    if not lists and dataset is None:
        return {}
    if len(lists) != 1:
        found = ", ".join(table.source for table in lists) or "none"
        raise InputError(
            f"{source}: one list of prices is needed; "
            f"found {found}: name it with {argument('prices')}."
        )
    (listed,) = lists
    listed.require(*PRICE_LIST)
    by_set: dict[str, dict[str, float]] = {}
    cost = listed.numbers("cost_per_10k").tolist()
    for name, model, price in zip(
        _texts(listed, "dataset"), _texts(listed, "model"), cost, strict=True
    ):
        by_set.setdefault(name, {})[model] = price
    if dataset is None:
        stem = _words(Path(source).stem)
        inside = [name for name in by_set if _words(name) in stem]
        dataset = max(inside, key=len) if inside else None
    of_set = by_set.get(dataset or "", {})
    missing = [model for model in models if model not in of_set]
    if missing:
        raise InputError(
            f"{listed.source}: must list the price of {missing[0]!r} on data set "
            f"{dataset or 'of ' + source!r}; its data sets are {', '.join(by_set)}: "
            f"name one with {argument('dataset')}, or another list with "
            f"{argument('prices')}."
        )
    return {model: of_set[model] / 10_000 for model in models}


def _texts(table: columns.Columns, name: str) -> list[str]:
    table.require(name)
    return [str(value) for value in table.data[name].tolist()]


def _price_lists(folder: Path) -> list[Path]:
    """The CSV files of a folder whose header has the columns of a list of prices."""
    lists = []
    for file in reading.find(folder, "*.csv"):
        with reading.open_file(file) as handle:
            header = handle.readline(columns.LONGEST_HEADER).decode("utf-8", "replace")
        if set(PRICE_LIST) <= {name.strip().strip('"') for name in header.split(",")}:
            lists.append(file)
    return sorted(lists)


def _words(name: str) -> str:
    """A name as lower-case words between underscores, so that whole words are
    compared.
    """
    return f"_{re.sub(r'[^0-9a-z]+', '_', name.lower()).strip('_')}_"
