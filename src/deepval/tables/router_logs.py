"""Public logs of model routers (RouterBench, RouterArena, LLMRouterBench, RouteLLM) -> a value table.

Wide: a row per prompt, a column of quality per model, and `<model>|total_cost` beside it (RouterBench), or columns of
right and wrong alone (RouteLLM). Long: a row per prompt and model with score and cost (RouterArena, LLMRouterBench), in
one file, or in a folder `<dataset>/<split>/<model>/*.json` whose files hold `records`. The loss is the best quality
there is less that of the model. Nothing is ever unpickled.
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
from deepval.tables import columns, input_costs
from deepval.tables.column_files import csv_text, parquet_bytes
from deepval.tables.input_costs import NAMES
from deepval.tables.values import ESTIMATED, LOSS_PREFIX, ValueTable

SAID = {
    "doubly-robust": "doubly robust estimates",
    "ipw": "inverse-propensity estimates",
    "self-normalised": "self-normalised inverse-propensity estimates",
}
METHODS = tuple(SAID)
PREDICTED = "predicted_"
LEAST = 0.01
"""Propensities below this are refused, or clipped where asked for."""
FOLDS, RIDGE = 5, 1.0
"""Parts of the units for cross-fitting, and the penalty of the standardised features."""


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
        features: Numeric columns from which losses are predicted where there is no `predicted_<mode>`: a ridge per
            mode, fitted on other units; without any, the mean of the mode on other units.
        clip: Propensities below this are raised to it, which biases; where None, those below 0.01 are an error.
    """
    found = columns.read(source)
    reward = "reward" in found.data
    found.require("unit", "input", "mode", "reward" if reward else "loss", "propensity")
    if method not in METHODS:
        raise InputError(f"The method must be one of {', '.join(METHODS)}; found {method!r}.")
    ids, ran = found.ids("input"), _ran(found, modes)
    seen = found.numbers("reward" if reward else "loss")
    seen = 0.0 - seen if reward else seen
    if not np.isfinite(seen).all():
        row = int(np.flatnonzero(~np.isfinite(seen))[0])
        raise InputError(
            f"{found.source}: the loss of the mode that ran must be finite; {columns.place(row, ids)} is not."
        )
    chance, clipped = _propensity(found, ids, clip)
    taken = ran[:, None] == np.arange(len(modes))
    weight = taken / chance[:, None]
    if method == "doubly-robust":
        guess = _guess(found, modes, features, ran=ran, seen=seen)
        losses = guess + weight * (seen[:, None] - guess)
    else:
        losses = weight * seen[:, None]
        losses = losses / weight.mean(axis=0) if method == "self-normalised" else losses
    priced = input_costs.found_in(found.data, modes)
    table = ValueTable.from_columns(
        unit=found.data["unit"],
        input=ids,
        losses={mode: losses[:, m] for m, mode in enumerate(modes)},
        order=found.data.get("order"),
        input_costs={n: {m: found.data[c] for m, c in named.items()} for n, named in priced.items()} or None,
        source=found.source,
    )
    return replace(table, estimated=_said(method, weight, modes, float(chance.min()), clipped))


def effective_inputs(weight: Float[np.ndarray, "input mode"]) -> Float[np.ndarray, "mode"]:
    """(sum w)^2 / sum w^2 of the weights of each mode: as many inputs as would tell as much if all weighed the same."""
    return weight.sum(axis=0) ** 2 / np.maximum((weight**2).sum(axis=0), 1e-300)


def _said(
    method: str, weight: Float[np.ndarray, "input mode"], modes: Sequence[str], least: float, clipped: int
) -> str:
    told = ", ".join(f"{mode} {each:.0f}" for mode, each in zip(modes, effective_inputs(weight), strict=True))
    cut = f", {clipped} clipped up to it, which biases" if clipped else ""
    return (
        f"Values are {SAID[method]} from a log in which one mode ran on each of {len(weight)} inputs, not measured. "
        f"Effective inputs: {told}; smallest propensity {least:.3g}{cut}. Gains and differences are estimates of "
        "what the measured ones would be; the oracle, nDG and counts of affected and harmed inputs are of noise, too."
    )


def _ran(found: columns.Columns, modes: Sequence[str]) -> Int[np.ndarray, "input"]:
    """The place of the mode that ran on each input."""
    if isinstance(modes, str) or len(modes) < 2 or len(set(modes)) < len(modes):
        raise InputError(f"{found.source}: two or more different modes must be named, cheap first; found {modes!r}.")
    names = [str(name) for name in found.data["mode"].tolist()]
    place = {mode: m for m, mode in enumerate(modes)}
    unknown = next((i for i, name in enumerate(names) if name not in place), None)
    if unknown is not None:
        raise InputError(
            f"{found.source}: column 'mode' must hold modes of {', '.join(modes)}; "
            f"{columns.place(unknown, found.data['input'])} holds {names[unknown]!r}."
        )
    ran = np.array([place[name] for name in names])
    never = [mode for m, mode in enumerate(modes) if not (ran == m).any()]
    if never:
        raise InputError(f"{found.source}: every mode must have run on some input; {never[0]!r} never did.")
    return ran


def _propensity(found: columns.Columns, ids: np.ndarray, clip: float | None) -> tuple[Float[np.ndarray, "input"], int]:
    """The chance of the mode that ran, and how many were clipped."""
    chance = found.numbers("propensity")
    if clip is not None and not 0 < clip < 1:
        raise InputError(f"Propensities are clipped at a number between 0 and 1; found {clip!r}.")
    bad = np.flatnonzero(~((chance > 0) & (chance <= 1)))
    if len(bad):
        raise InputError(
            f"{found.source}: column 'propensity' must be the probability with which the mode that ran was chosen, "
            f"above 0 and at most 1; {columns.place(int(bad[0]), ids)} holds {chance[bad[0]]:g}."
        )
    low = np.flatnonzero(chance < (LEAST if clip is None else clip))
    if clip is None and len(low):
        raise InputError(
            f"{found.source}: a propensity near 0 makes an input count for {1 / chance[low[0]]:.0f}; "
            f"{columns.place(int(low[0]), ids)} holds {chance[low[0]]:g}, and {len(low) - 1} more are below {LEAST:g}. "
            "Clip them (clip=0.01, --clip 0.01), which biases, or leave such inputs out of what is judged."
        )
    return (chance, 0) if clip is None else (np.maximum(chance, clip), len(low))


def _guess(
    found: columns.Columns,
    modes: Sequence[str],
    features: Sequence[str],
    *,
    ran: Int[np.ndarray, "input"],
    seen: Float[np.ndarray, "input"],
) -> Float[np.ndarray, "input mode"]:
    """Predicted losses: those of the log, or of a ridge on the features, cross-fitted by unit."""
    given = [f"{PREDICTED}{mode}" for mode in modes if f"{PREDICTED}{mode}" in found.data]
    if given:
        found.require(*(f"{PREDICTED}{mode}" for mode in modes))
        guess = np.column_stack([found.numbers(f"{PREDICTED}{mode}") for mode in modes])
        if not np.isfinite(guess).all():
            raise InputError(f"{found.source}: predicted losses must be finite; found others.")
        return guess
    found.require(*features)
    looks = np.column_stack([np.ones(len(found)), *(found.numbers(name) for name in features)])
    if not np.isfinite(looks).all():
        raise InputError(f"{found.source}: features must be finite numbers; found others.")
    _, unit = np.unique(columns.as_text(found.ids("unit")), return_inverse=True)
    fold = unit % min(FOLDS, max(int(unit.max()) + 1, 1))
    guess = np.zeros((len(found), len(modes)))
    for m, mode in enumerate(modes):
        for part in np.unique(fold):
            others = (ran == m) & (fold != part)
            others = others if others.any() else ran == m
            if not others.any():
                raise InputError(f"{found.source}: mode {mode!r} ran on no input to predict from.")
            guess[fold == part, m] = looks[fold == part] @ _ridge(looks[others], seen[others])
    return guess


def _ridge(looks: Float[np.ndarray, "row look"], seen: Float[np.ndarray, "row"]) -> Float[np.ndarray, "look"]:
    """Weights of the features, the first of which is constant and free; the others are penalised when standardised."""
    spread = looks.std(axis=0)
    penalty = RIDGE * np.where(spread > 0, spread**2, 1.0)
    penalty[0] = 0.0
    centre = looks.mean(axis=0)
    shifted = looks - np.where(np.arange(looks.shape[1]) > 0, centre, 0.0)
    weights = np.linalg.solve(shifted.T @ shifted + np.diag(penalty), shifted.T @ seen)
    weights[0] -= weights[1:] @ centre[1:]
    return weights


COST = "|total_cost"
"""What RouterBench calls a model's column of costs, after its name."""
DATASET = ("eval_name", "dataset_id", "dataset", "dataset_name", "benchmark", "task", "domain", "category")
PROMPT_ID = (
    *("sample_id", "global index", "global_index", "record_index", "index", "prompt_id", "query_id", "question_id"),
    *("id", "input"),
)
MODEL = ("model_name", "model", "model_id", "prediction")
SCORE = ("score", "accuracy", "performance", "quality", "correct", "reward")
PRICE = ("cost", "total_cost", "usd")
PROMPT = ("prompt", "origin_query", "query", "question")
"""What columns of a log are called, the likelier first."""
PICKLES = (".pkl", ".pickle", ".joblib")
SCALARS = (str, int, float, bool, type(None))


class _Answers(NamedTuple):
    """Quality and cost by prompt and model, NaN where a model did not answer or its price is not known."""

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
        models: Models to keep, cheap first and full last; all by rising mean cost where None.
        unit: Column whose values are the units; the dataset where None.
        best: The best quality there is: loss = best - quality; 1 where no quality exceeds it.
    """
    found = _records(Path(source)) if isinstance(source, str | Path) else columns.read(source)
    wide = [name.removesuffix(COST) for name in found.data if name.endswith(COST)]
    named = [model for model in models or () if model in found.data]
    is_wide = bool(wide) or (bool(models) and len(named) == len(models or ()))
    answers = _wide(found, wide or named, unit) if is_wide else _long(found, unit)
    return _table(answers, models, best, found.source)


def _table(answers: _Answers, models: Sequence[str] | None, best: float | None, source: str) -> ValueTable:
    chosen = _chosen(answers, models, source)
    places = [answers.models.index(model) for model in chosen]
    quality, cost = answers.quality[:, places], answers.cost[:, places]
    whole = np.logical_not(np.isnan(quality).any(axis=1))
    if not whole.any():
        raise InputError(f"{source}: some prompt must have an answer of every model of {', '.join(chosen)}; none has.")
    if not whole.all():
        note = (
            f"{source}: {np.count_nonzero(~whole)} of {len(whole)} prompts lack a score of some model of "
            f"{', '.join(chosen)}, and are left out."
        )
        warnings.warn(InputWarning(note), stacklevel=3)
    top = float(quality[whole].max())
    if best is None and top > 1:
        raise InputError(
            f"{source}: quality must lie within [0, 1], or the best there is be named; found {top:g}: give best= "
            "(--best), such as 10."
        )
    best = 1.0 if best is None else float(best)
    if top > best:
        raise InputError(f"{source}: no quality can exceed the best, {best:g}; found {top:g}.")
    priced = not np.isnan(cost[whole]).any()
    rows = np.flatnonzero(whole)
    length = {} if answers.length is None else {"prompt_length": answers.length[whole]}
    return ValueTable.from_columns(
        unit=[answers.units[i] for i in rows],
        input=[answers.prompts[i] for i in rows],
        losses={model: best - quality[whole, m] for m, model in enumerate(chosen)},
        input_costs={model: cost[whole, m] for m, model in enumerate(chosen)} if priced else None,
        attributes=length,
        source=source,
    )


def _chosen(answers: _Answers, models: Sequence[str] | None, source: str) -> list[str]:
    """The models to keep, cheap first."""
    if models is not None:
        unknown = [model for model in models if model not in answers.models]
        if unknown:
            raise InputError(f"{source}: models must be among {', '.join(answers.models)}; found {unknown[0]!r}.")
        return list(models)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a model without any price
        mean = np.nanmean(answers.cost, axis=0)
    if np.isnan(mean).any() or len(answers.models) < 2:
        raise InputError(
            f"{source}: models are ordered by their cost, and the log has none: name them cheap first, models=[...] "
            f"(--modes). It has {', '.join(answers.models)}."
        )
    return [answers.models[i] for i in np.argsort(mean, kind="stable")]


def _wide(found: columns.Columns, models: Sequence[str], unit: str | None) -> _Answers:
    """RouterBench's or RouteLLM's: a row per prompt."""
    missing = [model for model in models if model not in found.data]
    if missing:
        raise InputError(
            f"{found.source}: beside {missing[0] + COST!r} a column {missing[0]!r} of its quality is needed; there is "
            "none."
        )
    number = len(found)
    units = _texts(found, unit or _first(found, DATASET))
    ids = _texts(found, _first(found, PROMPT_ID)) or [str(i) for i in range(number)]
    if units and len(set(ids)) < number:
        ids = [f"{one}/{other}" for one, other in zip(units, ids, strict=True)]
    quality = np.column_stack([_numbers(found, model) for model in models])
    cost = np.column_stack([_numbers(found, model + COST) for model in models])
    return _Answers(ids, units or [Path(found.source).stem] * number, list(models), quality, cost, _lengths(found))


def _long(found: columns.Columns, unit: str | None) -> _Answers:
    """RouterArena's or LLMRouterBench's: a row per prompt and model."""
    model, score = _first(found, MODEL), _first(found, SCORE)
    index = _first(found, PROMPT_ID) or _first(found, PROMPT)
    if model is None or score is None or index is None:
        raise InputError(
            f"{found.source}: a router log has a column per model beside '<model>{COST}', or rows with a model "
            f"({', '.join(MODEL)}), a score ({', '.join(SCORE)}) and an id of the prompt ({', '.join(PROMPT_ID[:3])}); "
            f"found {', '.join(found.data) or 'no columns'}."
        )
    ids, dataset = _texts(found, index), unit or _first(found, DATASET)
    units = _texts(found, dataset) if dataset else [name.rpartition("_")[0] or name for name in ids]
    if dataset:
        ids = [name if name.startswith(f"{one}_") else f"{one}/{name}" for one, name in zip(units, ids, strict=True)]
    rows, prompts = _numbered(ids)
    column, models = _numbered(_texts(found, model))
    if len(set(zip(rows, column, strict=True))) < len(rows):
        seen: set[tuple[int, int]] = set()
        row = next(i for i, pair in enumerate(zip(rows, column, strict=True)) if pair in seen or seen.add(pair))
        raise InputError(
            f"{found.source}: a prompt has one row per model; {ids[row]!r} and {models[column[row]]!r} are there twice "
            f"({columns.place(row)})."
        )
    price = _first(found, PRICE)
    tables = []
    for values in (_numbers(found, score), _numbers(found, price)):
        table = np.full((len(prompts), len(models)), np.nan)
        table[rows, column] = values
        tables.append(table)
    of_prompt = dict(zip(rows, range(len(rows)), strict=True))
    first = [of_prompt[i] for i in range(len(prompts))]
    lengths = _lengths(found)
    return _Answers(
        prompts, [units[i] for i in first], models, *tables, length=None if lengths is None else lengths[first]
    )


def _numbered(names: Sequence[str]) -> tuple[list[int], list[str]]:
    """The place of each name among the different ones, in the order in which they come."""
    place: dict[str, int] = {}
    at = [place.setdefault(name, len(place)) for name in names]
    return at, list(place)


def _first(found: columns.Columns, names: Iterable[str]) -> str | None:
    return next((name for name in names if name in found.data), None)


def _texts(found: columns.Columns, name: str | None) -> list[str]:
    if name is None:
        return []
    found.require(name)
    return [str(value) for value in found.data[name].tolist()]


def _numbers(found: columns.Columns, name: str | None) -> Float[np.ndarray, "row"]:
    """A column of numbers; true and false are 1 and 0, nothing at all is NaN."""
    if name is None or name not in found.data:
        return np.full(len(found), np.nan)
    column = found.data[name]
    if column.dtype.kind not in "fiub":
        words = {"true": 1.0, "false": 0.0, "": np.nan, "nan": np.nan, "none": np.nan}
        column = np.array([words.get(str(v).strip().lower(), v) for v in column.tolist()], dtype=object)
    return columns.number_array(column, f"{found.source}: column {name!r}")


def _lengths(found: columns.Columns) -> Float[np.ndarray, "row"] | None:
    name = _first(found, PROMPT)
    return None if name is None else np.array([len(text) for text in _texts(found, name)], dtype=float)


def _records(path: Path) -> columns.Columns:
    """The columns of a file or of a folder of files with records."""
    if path.suffix.lower() in PICKLES:
        raise InputError(
            f"{path}: a pickle can run code, so none is read. Convert it where you trust it, with its own environment: "
            f'python -c "import pandas; pandas.read_pickle({path.name!r}).to_parquet({path.stem + ".parquet"!r})".'
        )
    if reading.is_folder(path):
        return _folder(path)
    if path.suffix.lower() not in (".json", ".jsonl"):
        return columns.read(path)
    if path.suffix == ".jsonl":
        content: Any = [json_content(line, path) for line in reading.content(path).splitlines() if line.strip()]
    else:
        content = read_json(path)
    return _as_columns(_listed(content, str(path)), str(path))


def _folder(path: Path) -> columns.Columns:
    """LLMRouterBench's results: <dataset>/<split>/<model>/<time>.json, of several times the last."""
    latest: dict[Path, Path] = {}
    for file in sorted(reading.matching(path, "**/*.json")):
        latest[file.parent] = file
    rows: list[Mapping[str, Any]] = []
    for folder, file in sorted(latest.items()):
        *_, dataset, _split, model = ("", "", *folder.relative_to(path).parts)
        content = read_json(file)
        told = {"dataset_id": dataset, "model_name": model}
        rows += [told | dict(record) for record in _listed(content, str(file))]
    if not rows:
        raise InputError(f"{path}: must hold <dataset>/<split>/<model>/*.json with records; found none.")
    return _as_columns(rows, str(path))


def _listed(content: Any, source: str) -> list[Mapping[str, Any]]:
    records = content.get("records") if isinstance(content, Mapping) else content
    if not isinstance(records, list) or not all(isinstance(record, Mapping) for record in records):
        raise InputError(f"{source}: must be a list of records, or have one as 'records'; found neither.")
    return records


def _as_columns(records: Sequence[Mapping[str, Any]], source: str) -> columns.Columns:
    """Records as columns of plain values; what is nested is left out, what is missing is empty."""
    names = dict.fromkeys(name for record in records for name, value in record.items() if isinstance(value, SCALARS))
    kept = {
        name: np.array([_scalar(record.get(name)) for record in records], dtype=object)
        for name in names
        if name != "prediction" or not any("model_name" in record or "model" in record for record in records)
    }
    return columns.Columns(source, kept)


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
    yield "input", columns.as_text(table.input)
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
