"""Public tables of models on the same inputs (router benchmarks, prediction APIs,
planners) -> a value table.

Wide: a row per input and a column of quality per model: `<model>` beside
`<model>|total_cost` (RouterBench), `correct|<model>` beside `conf|<model>` (FrugalML,
with a list of prices), `<model>|score` (NAVSIM), or right and wrong alone (RouteLLM,
RouterDC). Long: a row per input and model with score and cost (RouterArena,
LLMRouterBench), in one file, or in a folder `<dataset>/<split>/<model>/*.json` whose
files hold `records`. The format is recognised by its columns. The loss of a model is
the best possible quality minus its quality. Pickles are never read.
"""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError, InputWarning, quote
from deepval.files import reading
from deepval.files.canonical import json_content, read_json
from deepval.files.writing import write_atomically
from deepval.tables import columns, keys
from deepval.tables.columns import (
    ESTIMATED,
    LOSS_PREFIX,
    REWARD_PREFIX,
    csv_text,
    parquet_bytes,
)
from deepval.tables.input_costs import NAMES, cost_columns
from deepval.tables.off_policy import one_mode_estimates
from deepval.tables.values import ValueTable

COST, PLANNER_SCORE, CORRECT, CONFIDENCE = "|total_cost", "|score", "correct|", "conf|"
"""Endings of a model's columns in RouterBench and NAVSIM, and beginnings of those in
FrugalML.
"""
WEAK, STRONG = "weak_", "strong_"
"""Beginnings of the names of the two models in RouteLLM."""
PRICE_LIST = ("dataset", "model", "cost_per_10k")
"""Columns of a list of prices: dollars per 10,000 calls of a model on a data set."""
DATASET = (
    *(
        "log_name",
        "group",
        "eval_name",
        "dataset_id",
        "dataset",
        "dataset_name",
        "benchmark",
        "task",
        "domain",
    ),
    "category",
)
PROMPT_ID = (
    *(
        "sample_id",
        "global index",
        "global_index",
        "record_index",
        "index",
        "prompt_id",
        "query_id",
        "question_id",
    ),
    *("id", "input", "token", "i"),
)
MODEL = ("model_name", "model", "model_id", "prediction")
QUALITY = "correct"
"""Our name of the column that says whether an answer is right."""
SCORE = ("score", "accuracy", "performance", "quality", "correct", "reward")
PRICE = ("cost", "total_cost", "usd")
PROMPT = ("prompt", "origin_query", "query", "question")
ORDER = ("start_time",)
"""Names that public logs use for each column, the most common first."""
CHARACTERS = "_chars"
"""Ending of a column with the length of the prompt, where the prompt itself is not in
the log.
"""
ANSWERS = ("true", "label", "target")
"""Columns with the right answer: no router may look at them."""
PICKLES = (".pkl", ".pickle", ".joblib")
SCALARS = (str, int, float, bool, type(None))


class _Answers(NamedTuple):
    """Quality and cost by input and model; NaN where the log has no answer or no
    price.
    """

    inputs: list[str]
    units: list[str]
    models: list[str]
    quality: Float[np.ndarray, "input model"]
    cost: Float[np.ndarray, "input model"]
    attributes: Mapping[str, Float[np.ndarray, "input"]]
    order: Float[np.ndarray, "input"] | None = None


def import_router_log(
    source: Any,
    *,
    models: Sequence[str] | None = None,
    unit: str | None = None,
    best: float | None = None,
    prices: Any = None,
    dataset: str | None = None,
    right: str | None = None,
) -> ValueTable:
    """A value table from a public table of models on the same inputs.

    Args:
        source: A file (.csv, .parquet, .json, .jsonl), a folder of LLMRouterBench's
            results, or anything columnar.
        models: Models to select, cheap first and full last; None selects all, by rising
            mean cost.
        unit: Column that names the unit of each row; None takes the column of logs,
            groups or data sets. Where there is none, or it has one value, every input
            is its own unit.
        best: The best possible quality: loss = best - quality; 1 where None, if no
            quality exceeds 1.
        prices: A list of prices (dataset, model, cost_per_10k) for a log without; None
            takes the one in the log's folder that lists the log's models, if there is
            one.
        dataset: Name of the log's data set in that list; None takes the one that the
            file's name contains.
        right: Column that says whether an answer is right, or how good it is; None
            takes one of the usual names.
    """
    log = read_records(source)
    if right is not None:
        # A score of a router, beside it, is no quality.
        others = [name for name in SCORE if name in log.data and name != right]
        kept = {name: log.data[name] for name in log.data if name not in others}
        log = columns.Columns(log.source, kept).renamed({QUALITY: right})
    quality_columns = _quality_columns(log, models)
    answers = (
        _wide_answers(log, quality_columns, unit)
        if quality_columns
        else _long_answers(log, unit)
    )
    if np.isnan(answers.cost).all():
        listed = _listed_costs(log.source, answers.models, prices, dataset)
        cost = [listed.get(model, np.nan) for model in answers.models]
        answers = answers._replace(
            cost=np.broadcast_to(np.array(cost), answers.quality.shape)
        )
    elif prices is not None or dataset is not None:
        raise InputError(
            f"{log.source}: has its own costs, so it takes no "
            "list of prices: leave the list out."
        )
    if unit is None and len(set(answers.units)) == 1:
        answers = answers._replace(units=answers.inputs)
        note = (
            f"{log.source}: has no groups of inputs, so each input is its own unit; "
            "--unit names a column of groups."
        )
        warnings.warn(InputWarning(note), stacklevel=2)
    return _value_table(answers, models, best, log.source)


def _value_table(
    answers: _Answers, models: Sequence[str] | None, best: float | None, source: str
) -> ValueTable:
    chosen = _selected_models(answers, models, source)
    indices = [answers.models.index(model) for model in chosen]
    quality, cost = answers.quality[:, indices], answers.cost[:, indices]
    priced = not np.isnan(cost).all(axis=0).any()
    complete = np.logical_not(
        np.isnan(quality + cost if priced else quality).any(axis=1)
    )
    if not complete.any():
        raise InputError(
            f"{source}: some prompt must have an answer "
            f"of every model of {', '.join(chosen)}; none has."
        )
    if not complete.all():
        left_out = f"{np.count_nonzero(~complete)} of {len(complete)} prompts"
        note = (
            f"{source}: {left_out} lack a score or price of a "
            "chosen model, and are left out."
        )
        warnings.warn(InputWarning(note), stacklevel=3)
    top = float(quality[complete].max())
    if best is None and top > 1:
        raise InputError(
            f"{source}: quality must lie within [0, 1], or the best there is be "
            f"named; found {top:g}: give best= (--best), such as 10."
        )
    best = 1.0 if best is None else float(best)
    if top > best:
        raise InputError(
            f"{source}: no quality can exceed the best, {best:g}; found {top:g}."
        )
    # Only the cheap model's confidence is there before a dearer model is called.
    confidence = answers.attributes.get(CONFIDENCE + chosen[0])
    attributes = {
        name: column[complete]
        for name, column in answers.attributes.items()
        if "|" not in name
    }
    rows = np.flatnonzero(complete)
    with warnings.catch_warnings():
        # noted where units are chosen
        warnings.filterwarnings("ignore", ".*is different in every row", InputWarning)
        return ValueTable.from_columns(
            unit=[answers.units[i] for i in rows],
            input=[answers.inputs[i] for i in rows],
            losses={
                model: best - quality[complete, m] for m, model in enumerate(chosen)
            },
            order=None if answers.order is None else answers.order[complete],
            input_costs={model: cost[complete, m] for m, model in enumerate(chosen)}
            if priced
            else None,
            attributes=attributes
            | ({} if confidence is None else {"confidence": confidence[complete]}),
            source=source,
        )


def _selected_models(
    answers: _Answers, models: Sequence[str] | None, source: str
) -> list[str]:
    """The selected models, cheap first."""
    if models is not None:
        unknown = [model for model in models if model not in answers.models]
        if unknown:
            raise InputError(
                f"{source}: models must "
                f"be among {', '.join(answers.models)}; found {unknown[0]!r}."
            )
        return list(models)
    names = answers.models
    if len(names) < 2:
        raise InputError(
            f"{source}: two or more models are needed; found {', '.join(names)}."
        )
    unpriced = np.isnan(answers.cost).all(axis=0)
    if unpriced.any() and not unpriced.all():
        raise InputError(
            f"{source}: models are ordered by their cost, and "
            f"{names[int(unpriced.argmax())]!r} has none: name the models cheap "
            f"first, models=[...] (--modes). It has {', '.join(names)}."
        )
    if not unpriced.any():
        rank = np.nanmean(answers.cost, axis=0)
    elif all(name.startswith((WEAK, STRONG)) for name in names):
        rank = np.array([name.startswith(STRONG) for name in names])
    else:
        rank = np.nanmean(answers.quality, axis=0)
        order = (
            "ordered by rising mean quality; --modes sets another order, --prices "
            "names a list of prices"
        )
        note = f"{source}: has no costs, so models are {order}."
        warnings.warn(InputWarning(note), stacklevel=4)
    return [names[i] for i in np.argsort(rank, kind="stable")]


def _listed_costs(
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
        names = ", ".join(table.source for table in lists) or "none"
        raise InputError(
            f"{source}: one list of prices is needed; "
            f"found {names}: name it with --prices."
        )
    (listed,) = lists
    listed.require(*PRICE_LIST)
    by_set: dict[str, dict[str, float]] = {}
    cost = _numbers(listed, "cost_per_10k").tolist()
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
            "name one with --dataset, or another list with --prices."
        )
    return {model: of_set[model] / 10_000 for model in models}


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


def _quality_columns(
    log: columns.Columns, models: Sequence[str] | None
) -> dict[str, str]:
    """Column of quality by model; empty where the log has a row per prompt and model,
    or another format.
    """
    names = list(log.data)
    for first, last in (("", COST), (CORRECT, ""), ("", PLANNER_SCORE)):
        suffixed = [
            name for name in names if name.startswith(first) and name.endswith(last)
        ]
        if suffixed:
            by_model = {
                name.removeprefix(first).removesuffix(last): name for name in suffixed
            }
            return {model: model for model in by_model} if last == COST else by_model
    if models and all(model in log.data for model in models):
        return {model: model for model in models}
    if _first_column(log, MODEL) is not None:
        return {}
    other = (*DATASET, *PROMPT_ID, *PROMPT, *ORDER, *PRICE, *ANSWERS, "unit")
    prefixes = (LOSS_PREFIX, REWARD_PREFIX, *(f"{name}_" for name in NAMES))
    plain = [
        name for name in names if name not in other and not name.startswith(prefixes)
    ]
    by_model = {
        name: name
        for name in plain
        if not name.endswith(CHARACTERS) and _is_quality(log.data[name])
    }
    return by_model if len(by_model) > 1 else {}


def _is_quality(column: np.ndarray) -> bool:
    """Whether a column holds right and wrong, or numbers from 0 to 1."""
    if column.dtype.kind not in "fiub":
        return {str(value).strip().lower() for value in column.tolist()} <= set(
            keys.RIGHT_OR_WRONG
        )
    return bool(np.all((column >= 0) & (column <= 1) | np.isnan(column.astype(float))))


def _wide_answers(
    log: columns.Columns, quality_columns: Mapping[str, str], unit: str | None
) -> _Answers:
    """Answers from a log with a row per prompt (RouterBench, RouteLLM, RouterDC,
    FrugalML, NAVSIM).
    """
    missing = [column for column in quality_columns.values() if column not in log.data]
    if missing:
        raise InputError(
            f"{log.source}: beside {missing[0] + COST!r} a column {missing[0]!r} of "
            "its quality is needed; there is none."
        )
    number = len(log)
    group, index, order = (
        unit or _first_column(log, DATASET),
        *(_first_column(log, n) for n in (PROMPT_ID, ORDER)),
    )
    units = _texts(log, group)
    ids = _texts(log, index) or [str(i) for i in range(number)]
    if units and len(set(ids)) < number:
        ids = [
            f"{dataset}/{prompt}" for dataset, prompt in zip(units, ids, strict=True)
        ]
    quality = np.column_stack(
        [_numbers(log, column) for column in quality_columns.values()]
    )
    cost = np.column_stack([_numbers(log, model + COST) for model in quality_columns])
    used = {
        *quality_columns.values(),
        *DATASET,
        *PROMPT_ID,
        group,
        index,
        order,
        *ANSWERS,
    }
    plain = [
        name
        for name, column in log.data.items()
        if name not in used and column.dtype.kind in "fiu"
    ]
    extra = [
        name
        for name in plain
        if name.startswith(CONFIDENCE) or ("|" not in name and name[-6:] != CHARACTERS)
    ]
    attributes = _lengths(log) | {name: _numbers(log, name) for name in extra}
    times = None if order is None else _numbers(log, order)
    return _Answers(
        ids,
        units or [log.source] * number,
        list(quality_columns),
        quality,
        cost,
        attributes,
        times,
    )


def _long_answers(log: columns.Columns, unit: str | None) -> _Answers:
    """Answers from a log with a row per prompt and model (RouterArena,
    LLMRouterBench).
    """
    model, score = _first_column(log, MODEL), _first_column(log, SCORE)
    index = _first_column(log, PROMPT_ID) or _first_column(log, PROMPT)
    if model is None or score is None or index is None:
        raise InputError(
            f"{log.source}: a table of models has columns '<model>' and "
            f"'<model>{COST}', '{CORRECT}<model>', '<model>{PLANNER_SCORE}', columns "
            "of right and wrong or from 0 to 1 (else named by --modes), or rows with "
            f"a model ({', '.join(MODEL)}), a score ({', '.join(SCORE)}) and an id of "
            "the prompt "
            f"({', '.join(PROMPT_ID[:3])}); "
            f"found {quote(', '.join(log.data) or 'no columns')}."
        )
    ids, dataset = _texts(log, index), unit or _first_column(log, DATASET)
    units = (
        _texts(log, dataset)
        if dataset
        else [name.rpartition("_")[0] or name for name in ids]
    )
    if dataset:
        ids = [
            name if name.startswith(f"{group}_") else f"{group}/{name}"
            for group, name in zip(units, ids, strict=True)
        ]
    rows, prompts = _indices(ids)
    column, models = _indices(_texts(log, model))
    if len(set(zip(rows, column, strict=True))) < len(rows):
        pairs: set[tuple[int, int]] = set()
        row = next(
            i
            for i, pair in enumerate(zip(rows, column, strict=True))
            if pair in pairs or pairs.add(pair)
        )
        raise InputError(
            f"{log.source}: a prompt has one row per model; {ids[row]!r} and "
            f"{models[column[row]]!r} are there twice ({columns.row_name(row)})."
        )
    price = _first_column(log, PRICE)
    tables = []
    for values in (_numbers(log, score), _numbers(log, price)):
        table = np.full((len(prompts), len(models)), np.nan)
        table[rows, column] = values
        tables.append(table)
    last_row = dict(zip(rows, range(len(rows)), strict=True))
    prompt_row = [last_row[i] for i in range(len(prompts))]
    return _Answers(
        prompts,
        [units[i] for i in prompt_row],
        models,
        *tables,
        attributes={name: column[prompt_row] for name, column in _lengths(log).items()},
    )


def _indices(names: Sequence[str]) -> tuple[list[int], list[str]]:
    """Index of each name among the distinct names, and the distinct names in order of
    first occurrence.
    """
    index_of: dict[str, int] = {}
    indices = [index_of.setdefault(name, len(index_of)) for name in names]
    return indices, list(index_of)


def _first_column(log: columns.Columns, names: Iterable[str]) -> str | None:
    return next((name for name in names if name in log.data), None)


def _texts(log: columns.Columns, name: str | None) -> list[str]:
    if name is None:
        return []
    log.require(name)
    return [str(value) for value in log.data[name].tolist()]


def _numbers(log: columns.Columns, name: str | None) -> Float[np.ndarray, "row"]:
    """A column of numbers; true and false are 1 and 0; empty cells and a missing column
    are NaN.
    """
    if name is None or name not in log.data:
        return np.full(len(log), np.nan)
    return columns.quality_array(log.data[name], f"{log.source}: column {name!r}")


def _lengths(log: columns.Columns) -> dict[str, Float[np.ndarray, "row"]]:
    """Length of the prompts in characters, where the log has prompts or a column of
    lengths.
    """
    name = _first_column(log, PROMPT)
    if name is not None:
        return {
            "prompt_length": np.array(
                [len(text) for text in _texts(log, name)], dtype=float
            )
        }
    characters = next((name for name in log.data if name.endswith(CHARACTERS)), None)
    return {} if characters is None else {"prompt_length": _numbers(log, characters)}


def read_records(source: Any) -> columns.Columns:
    """The columns of a file, of a folder of files with records, or of anything
    columnar.
    """
    if not isinstance(source, str | Path):
        return columns.read(source)
    path = Path(source)
    if path.suffix.lower() in PICKLES:
        raise InputError(
            f"{path}: a pickle can run code, so none is read. Convert it where you "
            "trust it, with its own environment: "
            'python -c "import pandas; '
            f"pandas.read_pickle({path.name!r}).to_parquet({path.stem + '.parquet'!r})"
            '".'
        )
    if reading.is_folder(path):
        return _folder_columns(path)
    if path.suffix.lower() not in (".json", ".jsonl"):
        return columns.read(path)
    if path.suffix == ".jsonl":
        content: Any = [
            json_content(line, path)
            for line in reading.content(path).splitlines()
            if line.strip()
        ]
    else:
        content = read_json(path)
    return _as_columns(_record_list(content, str(path)), str(path))


def _folder_columns(path: Path) -> columns.Columns:
    """LLMRouterBench's results, <dataset>/<split>/<model>/<time>.json: the latest file
    of each model.
    """
    latest: dict[Path, Path] = {}
    for file in sorted(reading.find(path, "**/*.json")):
        latest[file.parent] = file
    rows: list[Mapping[str, Any]] = []
    for folder, file in sorted(latest.items()):
        *_, dataset, _split, model = ("", "", "", *folder.relative_to(path).parts)
        content = read_json(file)
        folder_names = {"dataset_id": dataset, "model_name": model}
        rows += [
            folder_names | dict(record) for record in _record_list(content, str(file))
        ]
    if not rows:
        raise InputError(
            f"{path}: must hold <dataset>/<split>/<model>/*.json "
            "with records; found none."
        )
    return _as_columns(rows, str(path))


def _record_list(content: Any, source: str) -> list[Mapping[str, Any]]:
    records = content.get("records") if isinstance(content, Mapping) else content
    if not isinstance(records, list) or not all(
        isinstance(record, Mapping) for record in records
    ):
        raise InputError(
            f"{source}: must be a list of records, or have one "
            "as 'records'; found neither."
        )
    return records


def _as_columns(records: Sequence[Mapping[str, Any]], source: str) -> columns.Columns:
    """Records as columns of plain values; nested values are left out, missing values
    are None.
    """
    names = dict.fromkeys(
        name
        for record in records
        for name, value in record.items()
        if isinstance(value, SCALARS)
    )
    by_name = {
        name: np.array(
            [
                v if isinstance(v, SCALARS) else None
                for v in (r.get(name) for r in records)
            ],
            dtype=object,
        )
        for name in names
        if name != "prediction"
        or not any("model_name" in record or "model" in record for record in records)
    }
    return columns.Columns(source, by_name)


def values_from_log(
    source: Any,
    modes: Sequence[str],
    *,
    method: str = "doubly-robust",
    features: Sequence[str] = (),
    clip: float | None = None,
) -> ValueTable:
    """Estimated losses from a log in which one mode ran on each input.

    Args:
        source: A file or anything columnar: `unit`, `input`, `mode`, `loss` (or
            `reward`), `propensity` of the mode that ran; optionally `predicted_<mode>`
            of every mode, `order`, and further columns.
        modes: The modes, cheap first and full last.
        method: doubly-robust, ipw or self-normalised.
        features: Numeric columns that predict the losses where the log has no
            `predicted_<mode>`: a ridge regression per mode, fitted on other units;
            without features, the mean loss of the mode on other units.
        clip: Propensities below this are raised to it, which biases the estimates; None
            refuses those below 0.01.
    """
    log = columns.read(source)
    losses, note = one_mode_estimates(
        log, modes, method=method, features=features, clip=clip
    )
    by_prefix = cost_columns(log.data, modes)
    table = ValueTable.from_columns(
        unit=log.data["unit"],
        input=log.ids("input"),
        losses={mode: losses[:, m] for m, mode in enumerate(modes)},
        order=log.data.get("order"),
        input_costs={
            n: {m: log.data[c] for m, c in by_mode.items()}
            for n, by_mode in by_prefix.items()
        }
        or None,
        source=log.source,
    )
    return replace(table, estimated=note)


def write_values(table: ValueTable, path: str | Path) -> None:
    """Write a table as a values file, .csv or .parquet; the file is complete or not
    there.
    """
    path = Path(path)
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(
            f"{path}: the name must end in .csv "
            f"or .parquet; found {path.suffix or 'no ending'!r}."
        )
    form = parquet_bytes if path.suffix.lower() == ".parquet" else csv_text
    write_atomically(path, form(_columns_of(table)))


def attribute_scores(table: ValueTable) -> dict[str, Float[np.ndarray, "input"]]:
    """Scores that an imported table brings along: 1 - confidence of the cheap model,
    and every other attribute.
    """
    scores = {
        name: column
        for name, column in table.attributes.items()
        if column.dtype.kind in "fiu"
    }
    if "confidence" in scores:
        scores["low_confidence"] = 1.0 - scores.pop("confidence")
    return {name: score for name, score in scores.items() if np.isfinite(score).all()}


def write_scores(table: ValueTable, folder: str | Path) -> list[Path]:
    """Write a scores file for each attribute of an imported table; the paths."""
    paths = []
    for name, score in attribute_scores(table).items():
        path = Path(folder) / f"{name}.parquet"
        write_atomically(
            path,
            parquet_bytes({"input": keys.as_text(table.input), "score": score}),
            make_folder=True,
        )
        paths.append(path)
    return paths


def _columns_of(table: ValueTable) -> dict[str, np.ndarray]:
    """The columns of a table, as in a values file."""
    content = {"unit": table.unit_ids[table.unit], "input": keys.as_text(table.input)}
    if table.order is not None:
        content["order"] = table.order
    content |= {
        f"{LOSS_PREFIX}{mode}": column
        for mode, column in zip(table.modes, table.losses.T, strict=True)
    }
    names = {convention: name for name, convention in reversed(list(NAMES.items()))}
    for convention, costs in table.input_costs.items():
        content |= {
            f"{names[convention]}_{mode}": column
            for mode, column in zip(table.modes, costs.T, strict=True)
        }
    content |= table.attributes
    if table.estimated is not None:
        content[ESTIMATED] = np.full(len(table), table.estimated)
    return content
