"""A log in which one mode ran on each input -> a value table with estimated losses of every mode.

Formulas: docs/definitions.md, Logs with one mode per input.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from deepval.arrays import Float, InputFloats, InputInts, ModeFloats
from deepval.errors import InputError
from deepval.tables import columns, keys
from deepval.tables.input_costs import cost_columns
from deepval.tables.values import ValueTable

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


def effective_inputs(weight: ModeFloats) -> Float[np.ndarray, "mode"]:
    """Effective number of inputs of each mode, (sum w)^2 / sum w^2: so many equal weights have the same variance."""
    return weight.sum(axis=0) ** 2 / np.maximum((weight**2).sum(axis=0), 1e-300)


def _estimation_note(method: str, weight: ModeFloats, modes: Sequence[str], least: float, clipped: int) -> str:
    counts = ", ".join(f"{mode} {count:.0f}" for mode, count in zip(modes, effective_inputs(weight), strict=True))
    clip_note = f", {clipped} clipped up to it, which biases" if clipped else ""
    return (
        f"Values are {METHOD_NAMES[method]} from a log in which one mode ran on each of {len(weight)} inputs, not "
        f"measured. Effective inputs: {counts}; smallest propensity {least:.3g}{clip_note}. Gains and differences are "
        "estimates of what the measured ones would be; the oracle, nDG and counts of affected and harmed inputs are of "
        "noise, too."
    )


def _modes_run(log: columns.Columns, modes: Sequence[str]) -> InputInts:
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


def _propensity(log: columns.Columns, ids: np.ndarray, clip: float | None) -> tuple[InputFloats, int]:
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
    log: columns.Columns, modes: Sequence[str], features: Sequence[str], *, ran: InputInts, observed: InputFloats
) -> ModeFloats:
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
