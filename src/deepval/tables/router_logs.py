"""Public logs of model routers (RouterBench, RouterArena, LLMRouterBench, RouteLLM) -> a value table.

Wide: a row per prompt, a column of quality per model, and `<model>|total_cost` beside it (RouterBench), or columns of
right and wrong alone (RouteLLM). Long: a row per prompt and model with score and cost (RouterArena, LLMRouterBench), in
one file, or in a folder `<dataset>/<split>/<model>/*.json` whose files hold `records`. The loss of a model is the best
possible quality minus its quality. Pickles are never read.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Float, Int
from deepval.errors import InputError, InputWarning
from deepval.files import reading
from deepval.files.canonical import json_content, read_json
from deepval.files.writing import write_atomically
from deepval.tables import columns, keys
from deepval.tables.columns import LOSS_PREFIX, csv_text, parquet_bytes
from deepval.tables.input_costs import NAMES, cost_columns
from deepval.tables.values import ESTIMATED, ValueTable

METHOD_NAMES = {
    "doubly-robust": "doubly robust estimates",
    "ipw": "inverse-propensity estimates",
    "self-normalised": "self-normalised inverse-propensity estimates",
}
METHODS = tuple(METHOD_NAMES)
PREDICTED = "predicted_"
LEAST = 0.01
"""Smallest propensity that is accepted without clipping."""
FOLDS, RIDGE = 5, 1.0
"""Number of folds of the units for cross-fitting, and the ridge penalty of the standardised features."""


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
        source: A file or anything columnar: `unit`, `input`, `mode`, `loss` (or `reward`), `propensity` of the mode
            that ran; optionally `predicted_<mode>` of every mode, `order`, and further columns.
        modes: The modes, cheap first and full last.
        method: doubly-robust, ipw or self-normalised.
        features: Numeric columns that predict the losses where the log has no `predicted_<mode>`: a ridge regression
            per mode, fitted on other units; without features, the mean loss of the mode on other units.
        clip: Propensities below this are raised to it, which biases the estimates; None refuses those below 0.01.
    """
    log = columns.read(source)
    reward = "reward" in log.data
    log.require("unit", "input", "mode", "reward" if reward else "loss", "propensity")
    if method not in METHODS:
        raise InputError(f"The method must be one of {', '.join(METHODS)}; found {method!r}.")
    ids, ran = log.ids("input"), _modes_run(log, modes)
    observed = log.numbers("reward" if reward else "loss")
    observed = 0.0 - observed if reward else observed
    if not np.isfinite(observed).all():
        row = int(np.flatnonzero(~np.isfinite(observed))[0])
        raise InputError(
            f"{log.source}: the loss of the mode that ran must be finite; {columns.row_name(row, ids)} is not."
        )
    propensities, clipped_number = _propensity(log, ids, clip)
    mode_ran = ran[:, None] == np.arange(len(modes))
    weight = mode_ran / propensities[:, None]
    if method == "doubly-robust":
        predicted = _predicted_losses(log, modes, features, ran=ran, observed=observed)
        losses = predicted + weight * (observed[:, None] - predicted)
    else:
        losses = weight * observed[:, None]
        losses = losses / weight.mean(axis=0) if method == "self-normalised" else losses
    by_prefix = cost_columns(log.data, modes)
    table = ValueTable.from_columns(
        unit=log.data["unit"],
        input=ids,
        losses={mode: losses[:, m] for m, mode in enumerate(modes)},
        order=log.data.get("order"),
        input_costs={n: {m: log.data[c] for m, c in by_mode.items()} for n, by_mode in by_prefix.items()} or None,
        source=log.source,
    )
    return replace(table, estimated=_estimation_note(method, weight, modes, float(propensities.min()), clipped_number))


def effective_inputs(weight: Float[np.ndarray, "input mode"]) -> Float[np.ndarray, "mode"]:
    """Effective number of inputs of each mode, (sum w)^2 / sum w^2: so many equal weights have the same variance."""
    return weight.sum(axis=0) ** 2 / np.maximum((weight**2).sum(axis=0), 1e-300)


def _estimation_note(
    method: str, weight: Float[np.ndarray, "input mode"], modes: Sequence[str], least: float, clipped: int
) -> str:
    counts = ", ".join(f"{mode} {count:.0f}" for mode, count in zip(modes, effective_inputs(weight), strict=True))
    clip_note = f", {clipped} clipped up to it, which biases" if clipped else ""
    return (
        f"Values are {METHOD_NAMES[method]} from a log in which one mode ran on each of {len(weight)} inputs, not "
        f"measured. Effective inputs: {counts}; smallest propensity {least:.3g}{clip_note}. Gains and differences are "
        "estimates of what the measured ones would be; the oracle, nDG and counts of affected and harmed inputs are of "
        "noise, too."
    )


def _modes_run(log: columns.Columns, modes: Sequence[str]) -> Int[np.ndarray, "input"]:
    """Index in `modes` of the mode that ran on each input."""
    if isinstance(modes, str) or len(modes) < 2 or len(set(modes)) < len(modes):
        raise InputError(f"{log.source}: two or more different modes must be named, cheap first; found {modes!r}.")
    names = [str(name) for name in log.data["mode"].tolist()]
    index_of = {mode: m for m, mode in enumerate(modes)}
    unknown = next((i for i, name in enumerate(names) if name not in index_of), None)
    if unknown is not None:
        raise InputError(
            f"{log.source}: column 'mode' must hold modes of {', '.join(modes)}; "
            f"{columns.row_name(unknown, log.data['input'])} holds {names[unknown]!r}."
        )
    ran = np.array([index_of[name] for name in names])
    never = [mode for m, mode in enumerate(modes) if not (ran == m).any()]
    if never:
        raise InputError(f"{log.source}: every mode must have run on some input; {never[0]!r} never did.")
    return ran


def _propensity(log: columns.Columns, ids: np.ndarray, clip: float | None) -> tuple[Float[np.ndarray, "input"], int]:
    """Propensity of the mode that ran on each input, and the number of clipped propensities."""
    propensity = log.numbers("propensity")
    if clip is not None and not 0 < clip < 1:
        raise InputError(f"Propensities are clipped at a number between 0 and 1; found {clip!r}.")
    bad = np.flatnonzero(~((propensity > 0) & (propensity <= 1)))
    if len(bad):
        raise InputError(
            f"{log.source}: column 'propensity' must be the probability with which the mode that ran was chosen, "
            f"above 0 and at most 1; {columns.row_name(int(bad[0]), ids)} holds {propensity[bad[0]]:g}."
        )
    low = np.flatnonzero(propensity < (LEAST if clip is None else clip))
    if clip is None and len(low):
        raise InputError(
            f"{log.source}: a propensity near 0 makes an input count for {1 / propensity[low[0]]:.0f}; "
            f"{columns.row_name(int(low[0]), ids)} holds {propensity[low[0]]:g}, and {len(low) - 1} more are below "
            f"{LEAST:g}. Clip them (clip=0.01, --clip 0.01), which biases, or leave such inputs out of what is judged."
        )
    return (propensity, 0) if clip is None else (np.maximum(propensity, clip), len(low))


def _predicted_losses(
    log: columns.Columns,
    modes: Sequence[str],
    features: Sequence[str],
    *,
    ran: Int[np.ndarray, "input"],
    observed: Float[np.ndarray, "input"],
) -> Float[np.ndarray, "input mode"]:
    """Predicted losses: the columns of the log, or a ridge regression on the features, cross-fitted by unit."""
    predicted_columns = [f"{PREDICTED}{mode}" for mode in modes if f"{PREDICTED}{mode}" in log.data]
    if predicted_columns:
        log.require(*(f"{PREDICTED}{mode}" for mode in modes))
        predicted = np.column_stack([log.numbers(f"{PREDICTED}{mode}") for mode in modes])
        if not np.isfinite(predicted).all():
            raise InputError(f"{log.source}: predicted losses must be finite; found others.")
        return predicted
    log.require(*features)
    design = np.column_stack([np.ones(len(log)), *(log.numbers(name) for name in features)])
    if not np.isfinite(design).all():
        raise InputError(f"{log.source}: features must be finite numbers; found others.")
    _, unit = np.unique(keys.as_text(log.ids("unit")), return_inverse=True)
    fold = unit % min(FOLDS, max(int(unit.max()) + 1, 1))
    predicted = np.zeros((len(log), len(modes)))
    for m, mode in enumerate(modes):
        for test_fold in np.unique(fold):
            others = (ran == m) & (fold != test_fold)
            others = others if others.any() else ran == m
            if not others.any():
                raise InputError(f"{log.source}: mode {mode!r} ran on no input to predict from.")
            predicted[fold == test_fold, m] = design[fold == test_fold] @ _ridge(design[others], observed[others])
    return predicted


def _ridge(
    features: Float[np.ndarray, "row feature"], losses: Float[np.ndarray, "row"]
) -> Float[np.ndarray, "feature"]:
    """Ridge weights of the features; the first feature is the constant and has no penalty."""
    spread = features.std(axis=0)
    # A penalty of spread^2 on raw features equals a penalty of 1 on standardised ones.
    penalty = RIDGE * np.where(spread > 0, spread**2, 1.0)
    penalty[0] = 0.0
    centre = features.mean(axis=0)
    # Centred features leave the constant uncorrelated with the others; it is corrected below.
    shifted = features - np.where(np.arange(features.shape[1]) > 0, centre, 0.0)
    weights = np.linalg.solve(shifted.T @ shifted + np.diag(penalty), shifted.T @ losses)
    weights[0] -= weights[1:] @ centre[1:]
    return weights


COST = "|total_cost"
"""Suffix of a model's column of costs in RouterBench."""
DATASET = ("eval_name", "dataset_id", "dataset", "dataset_name", "benchmark", "task", "domain", "category")
PROMPT_ID = (
    *("sample_id", "global index", "global_index", "record_index", "index", "prompt_id", "query_id", "question_id"),
    *("id", "input"),
)
MODEL = ("model_name", "model", "model_id", "prediction")
SCORE = ("score", "accuracy", "performance", "quality", "correct", "reward")
PRICE = ("cost", "total_cost", "usd")
PROMPT = ("prompt", "origin_query", "query", "question")
"""Names that public logs use for each column, the most common first."""
PICKLES = (".pkl", ".pickle", ".joblib")
SCALARS = (str, int, float, bool, type(None))


class _Answers(NamedTuple):
    """Quality and cost by prompt and model; NaN where the log has no answer or no price."""

    prompts: list[str]
    units: list[str]
    models: list[str]
    quality: Float[np.ndarray, "prompt model"]
    cost: Float[np.ndarray, "prompt model"]
    length: Float[np.ndarray, "prompt"] | None


def import_router_log(
    source: Any, *, models: Sequence[str] | None = None, unit: str | None = None, best: float | None = None
) -> ValueTable:
    """A value table from a public router log.

    Args:
        source: A file (.csv, .parquet, .json, .jsonl), a folder of LLMRouterBench's results, or anything columnar.
        models: Models to select, cheap first and full last; None selects all, by rising mean cost.
        unit: Column that names the unit of each row; the dataset where None.
        best: The best possible quality: loss = best - quality; 1 where None, if no quality exceeds 1.
    """
    log = _records(Path(source)) if isinstance(source, str | Path) else columns.read(source)
    priced_models = [name.removesuffix(COST) for name in log.data if name.endswith(COST)]
    named_models = [model for model in models or () if model in log.data]
    is_wide = bool(priced_models) or (bool(models) and len(named_models) == len(models or ()))
    answers = _wide_answers(log, priced_models or named_models, unit) if is_wide else _long_answers(log, unit)
    return _value_table(answers, models, best, log.source)


def _value_table(answers: _Answers, models: Sequence[str] | None, best: float | None, source: str) -> ValueTable:
    chosen = _selected_models(answers, models, source)
    indices = [answers.models.index(model) for model in chosen]
    quality, cost = answers.quality[:, indices], answers.cost[:, indices]
    complete = np.logical_not(np.isnan(quality).any(axis=1))
    if not complete.any():
        raise InputError(f"{source}: some prompt must have an answer of every model of {', '.join(chosen)}; none has.")
    if not complete.all():
        note = (
            f"{source}: {np.count_nonzero(~complete)} of {len(complete)} prompts lack a score of some model of "
            f"{', '.join(chosen)}, and are left out."
        )
        warnings.warn(InputWarning(note), stacklevel=3)
    top = float(quality[complete].max())
    if best is None and top > 1:
        raise InputError(
            f"{source}: quality must lie within [0, 1], or the best there is be named; found {top:g}: give best= "
            "(--best), such as 10."
        )
    best = 1.0 if best is None else float(best)
    if top > best:
        raise InputError(f"{source}: no quality can exceed the best, {best:g}; found {top:g}.")
    priced = not np.isnan(cost[complete]).any()
    rows = np.flatnonzero(complete)
    length = {} if answers.length is None else {"prompt_length": answers.length[complete]}
    return ValueTable.from_columns(
        unit=[answers.units[i] for i in rows],
        input=[answers.prompts[i] for i in rows],
        losses={model: best - quality[complete, m] for m, model in enumerate(chosen)},
        input_costs={model: cost[complete, m] for m, model in enumerate(chosen)} if priced else None,
        attributes=length,
        source=source,
    )


def _selected_models(answers: _Answers, models: Sequence[str] | None, source: str) -> list[str]:
    """The selected models, cheap first."""
    if models is not None:
        unknown = [model for model in models if model not in answers.models]
        if unknown:
            raise InputError(f"{source}: models must be among {', '.join(answers.models)}; found {unknown[0]!r}.")
        return list(models)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a model without prices has no mean
        mean = np.nanmean(answers.cost, axis=0)
    if np.isnan(mean).any() or len(answers.models) < 2:
        raise InputError(
            f"{source}: models are ordered by their cost, and the log has none: name them cheap first, models=[...] "
            f"(--modes). It has {', '.join(answers.models)}."
        )
    return [answers.models[i] for i in np.argsort(mean, kind="stable")]


def _wide_answers(log: columns.Columns, models: Sequence[str], unit: str | None) -> _Answers:
    """Answers from a log with a row per prompt (RouterBench, RouteLLM)."""
    missing = [model for model in models if model not in log.data]
    if missing:
        raise InputError(
            f"{log.source}: beside {missing[0] + COST!r} a column {missing[0]!r} of its quality is needed; there is "
            "none."
        )
    number = len(log)
    units = _texts(log, unit or _first_column(log, DATASET))
    ids = _texts(log, _first_column(log, PROMPT_ID)) or [str(i) for i in range(number)]
    if units and len(set(ids)) < number:
        ids = [f"{dataset}/{prompt}" for dataset, prompt in zip(units, ids, strict=True)]
    quality = np.column_stack([_numbers(log, model) for model in models])
    cost = np.column_stack([_numbers(log, model + COST) for model in models])
    return _Answers(ids, units or [Path(log.source).stem] * number, list(models), quality, cost, _lengths(log))


def _long_answers(log: columns.Columns, unit: str | None) -> _Answers:
    """Answers from a log with a row per prompt and model (RouterArena, LLMRouterBench)."""
    model, score = _first_column(log, MODEL), _first_column(log, SCORE)
    index = _first_column(log, PROMPT_ID) or _first_column(log, PROMPT)
    if model is None or score is None or index is None:
        raise InputError(
            f"{log.source}: a router log has a column per model beside '<model>{COST}', or rows with a model "
            f"({', '.join(MODEL)}), a score ({', '.join(SCORE)}) and an id of the prompt ({', '.join(PROMPT_ID[:3])}); "
            f"found {', '.join(log.data) or 'no columns'}."
        )
    ids, dataset = _texts(log, index), unit or _first_column(log, DATASET)
    units = _texts(log, dataset) if dataset else [name.rpartition("_")[0] or name for name in ids]
    if dataset:
        ids = [
            name if name.startswith(f"{group}_") else f"{group}/{name}" for group, name in zip(units, ids, strict=True)
        ]
    rows, prompts = _indices(ids)
    column, models = _indices(_texts(log, model))
    if len(set(zip(rows, column, strict=True))) < len(rows):
        pairs: set[tuple[int, int]] = set()
        row = next(i for i, pair in enumerate(zip(rows, column, strict=True)) if pair in pairs or pairs.add(pair))
        raise InputError(
            f"{log.source}: a prompt has one row per model; {ids[row]!r} and {models[column[row]]!r} are there twice "
            f"({columns.row_name(row)})."
        )
    price = _first_column(log, PRICE)
    tables = []
    for values in (_numbers(log, score), _numbers(log, price)):
        table = np.full((len(prompts), len(models)), np.nan)
        table[rows, column] = values
        tables.append(table)
    last_row = dict(zip(rows, range(len(rows)), strict=True))
    prompt_row = [last_row[i] for i in range(len(prompts))]
    lengths = _lengths(log)
    return _Answers(
        prompts,
        [units[i] for i in prompt_row],
        models,
        *tables,
        length=None if lengths is None else lengths[prompt_row],
    )


def _indices(names: Sequence[str]) -> tuple[list[int], list[str]]:
    """Index of each name among the distinct names, and the distinct names in order of first occurrence."""
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
    """A column of numbers; true and false are 1 and 0; empty cells and a missing column are NaN."""
    if name is None or name not in log.data:
        return np.full(len(log), np.nan)
    column = log.data[name]
    if column.dtype.kind not in "fiub":
        words = {"true": 1.0, "false": 0.0, "": np.nan, "nan": np.nan, "none": np.nan}
        column = np.array([words.get(str(v).strip().lower(), v) for v in column.tolist()], dtype=object)
    return columns.number_array(column, f"{log.source}: column {name!r}")


def _lengths(log: columns.Columns) -> Float[np.ndarray, "row"] | None:
    name = _first_column(log, PROMPT)
    return None if name is None else np.array([len(text) for text in _texts(log, name)], dtype=float)


def _records(path: Path) -> columns.Columns:
    """The columns of a file, or of a folder of files with records."""
    if path.suffix.lower() in PICKLES:
        raise InputError(
            f"{path}: a pickle can run code, so none is read. Convert it where you trust it, with its own environment: "
            f'python -c "import pandas; pandas.read_pickle({path.name!r}).to_parquet({path.stem + ".parquet"!r})".'
        )
    if reading.is_folder(path):
        return _folder_columns(path)
    if path.suffix.lower() not in (".json", ".jsonl"):
        return columns.read(path)
    if path.suffix == ".jsonl":
        content: Any = [json_content(line, path) for line in reading.content(path).splitlines() if line.strip()]
    else:
        content = read_json(path)
    return _as_columns(_record_list(content, str(path)), str(path))


def _folder_columns(path: Path) -> columns.Columns:
    """LLMRouterBench's results, <dataset>/<split>/<model>/<time>.json: the latest file of each model."""
    latest: dict[Path, Path] = {}
    for file in sorted(reading.find(path, "**/*.json")):
        latest[file.parent] = file
    rows: list[Mapping[str, Any]] = []
    for folder, file in sorted(latest.items()):
        *_, dataset, _split, model = ("", "", *folder.relative_to(path).parts)
        content = read_json(file)
        folder_names = {"dataset_id": dataset, "model_name": model}
        rows += [folder_names | dict(record) for record in _record_list(content, str(file))]
    if not rows:
        raise InputError(f"{path}: must hold <dataset>/<split>/<model>/*.json with records; found none.")
    return _as_columns(rows, str(path))


def _record_list(content: Any, source: str) -> list[Mapping[str, Any]]:
    records = content.get("records") if isinstance(content, Mapping) else content
    if not isinstance(records, list) or not all(isinstance(record, Mapping) for record in records):
        raise InputError(f"{source}: must be a list of records, or have one as 'records'; found neither.")
    return records


def _as_columns(records: Sequence[Mapping[str, Any]], source: str) -> columns.Columns:
    """Records as columns of plain values; nested values are left out, missing values are None."""
    names = dict.fromkeys(name for record in records for name, value in record.items() if isinstance(value, SCALARS))
    by_name = {
        name: np.array([_scalar(record.get(name)) for record in records], dtype=object)
        for name in names
        if name != "prediction" or not any("model_name" in record or "model" in record for record in records)
    }
    return columns.Columns(source, by_name)


def _scalar(value: Any) -> Any:
    return value if isinstance(value, SCALARS) else None


def write_values(table: ValueTable, path: str | Path) -> None:
    """Write a table as a values file, .csv or .parquet; the file is complete or not there."""
    path = Path(path)
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"{path}: the name must end in .csv or .parquet; found {path.suffix or 'no ending'!r}.")
    content = dict(_columns_of(table))
    parquet = path.suffix.lower() == ".parquet"
    write_atomically(path, parquet_bytes(content) if parquet else csv_text(content))


def _columns_of(table: ValueTable) -> Iterator[tuple[str, np.ndarray]]:
    yield "unit", table.unit_ids[table.unit]
    yield "input", keys.as_text(table.input)
    if table.order is not None:
        yield "order", table.order
    for mode, column in zip(table.modes, table.losses.T, strict=True):
        yield f"{LOSS_PREFIX}{mode}", column
    names = {convention: name for name, convention in reversed(list(NAMES.items()))}
    for convention, costs in table.input_costs.items():
        for mode, column in zip(table.modes, costs.T, strict=True):
            yield f"{names[convention]}_{mode}", column
    yield from table.attributes.items()
    if table.estimated is not None:
        yield ESTIMATED, np.full(len(table), table.estimated)
