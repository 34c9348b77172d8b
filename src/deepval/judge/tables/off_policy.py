"""A log in which one mode ran on each input, or both on some -> estimated losses of
every mode on every input.

Formulas: docs/definitions.md, Logs with one mode per input.
"""

from collections.abc import Sequence

import numpy as np

from deepval.basics.arrays import Bool, Float, InputFloats, InputInts, ModeFloats
from deepval.basics.errors import InputError, argument
from deepval.judge.tables import columns, keys

METHOD_NAMES = {
    "doubly-robust": "doubly robust estimates",
    "ipw": "inverse-propensity estimates",
    "self-normalised": "self-normalised inverse-propensity estimates",
}
METHODS = tuple(METHOD_NAMES)
PREDICTED = "predicted_"
LEAST, LEAST_SHADOWED = 0.01, 0.001
"""Smallest propensity that is accepted without clipping, where one mode ran and in a
shadow log.
"""
FOLDS, RIDGE, STEADY = 5, 1.0, 30.0
"""Number of folds of the units for cross-fitting, and the ridge penalties of the
standardised features: of logs, and of shadow logs, whose few runs may hold a rare large
value."""
LEAST_RUNS = 30
"""Fewest effective runs of a mode that estimates may rest on: with fewer, neither is
the mean of the weights near normal, nor do intervals over units know how uncertain it
is (the ridge of shadow logs counts as many).
"""


def one_mode_estimates(
    log: columns.Columns,
    modes: Sequence[str],
    *,
    method: str,
    features: Sequence[str],
    clip: float | None,
    least_runs: float = LEAST_RUNS,
) -> tuple[ModeFloats, str]:
    """Estimated losses from a log in which one mode ran on each input, and the note on
    them.
    """
    reward = "reward" in log.data
    log.require("unit", "input", "mode", "reward" if reward else "loss", "propensity")
    if method not in METHODS:
        raise InputError(
            f"The method must be one of {', '.join(METHODS)}; found {method!r}."
        )
    ids, ran = log.ids("input"), _modes_run(log, modes)
    observed = log.numbers("reward" if reward else "loss")
    observed = 0.0 - observed if reward else observed
    if not np.isfinite(observed).all():
        row = int(np.flatnonzero(~np.isfinite(observed))[0])
        raise InputError(
            f"{log.source}: the loss of the mode that "
            f"ran must be finite; {columns.row_name(row, ids)} is not."
        )
    propensities, clipped_number = _propensity(log, ids, clip)
    mode_ran = ran[:, None] == np.arange(len(modes))
    weight = mode_ran / propensities[:, None]
    effective = effective_inputs(weight)
    fewest = int(np.argmin(effective))
    if effective[fewest] < least_runs:
        raise InputError(
            f"{log.source}: estimates must rest on {least_runs:g} effective runs of "
            f"every mode; {modes[fewest]!r} has {effective[fewest]:.1f} (runs with a "
            "small propensity count as few): log more of them."
        )
    if method == "doubly-robust":
        predicted = _predicted_losses(
            log, modes, features, mode_ran=mode_ran, observed=observed
        )
        losses = predicted + weight * (observed[:, None] - predicted)
    else:
        losses = weight * observed[:, None]
        losses = losses / weight.mean(axis=0) if method == "self-normalised" else losses
    return losses, _estimation_note(
        method, weight, modes, float(propensities.min()), clipped_number
    )


def shadow_estimates(log: columns.Columns, names: Sequence[str]) -> columns.Columns:
    """A log in which all modes ran on some inputs, with every gap of its columns of
    losses filled by an estimate.

    An estimate is m(x) + 1[all ran] (loss - m(x)) / propensity; m is the last loss
    without gaps (or 0) and a ridge regression of the rest, fitted on other units with
    weights 1 / propensity, on the rank of the score (if the log has one), the losses
    without gaps and their products with the rank.
    """
    log.require("unit", "input")
    ids, losses = (
        log.ids("input"),
        np.column_stack([log.numbers(name) for name in names]),
    )
    propensity, _ = _propensity(log, ids, None, least=LEAST_SHADOWED)
    gaps = np.isnan(losses)
    partial: Bool[np.ndarray, "mode"] = np.asarray(gaps.any(axis=0))
    ran: Bool[np.ndarray, "input"] = np.asarray(~gaps.any(axis=1))
    for what, bad in (
        (
            "a row must hold all losses, or only those that every row holds",
            (gaps != (~ran)[:, None])[:, partial].any(axis=1),
        ),
        ("a row with propensity 1 must hold all losses", ~ran & (propensity == 1)),
    ):
        if bad.any():
            row = columns.row_name(int(np.flatnonzero(bad)[0]), ids)
            raise InputError(f"{log.source}: {what}; {row} does not.")
    if not ran.any():
        raise InputError(
            f"{log.source}: all modes must have run on some input; {names[-1]!r} is "
            "empty everywhere."
        )
    whole = list(losses[:, ~partial].T)
    if "score" in log.data:
        score = log.numbers("score")
        if np.isnan(score).any():
            row = columns.row_name(int(np.flatnonzero(np.isnan(score))[0]), ids)
            raise InputError(
                f"{log.source}: column 'score' must hold a number "
                f"in every row; {row} does not."
            )
        ordered = np.sort(score)
        rank = (
            np.searchsorted(ordered, score)
            + np.searchsorted(ordered, score, side="right")
        ) / (2 * len(score))
        whole = [rank, *whole, *(rank * column for column in whole)]
    weight = (ran / propensity)[:, None]
    base = losses[:, ~partial][:, -1:] if not partial.all() else 0.0
    outcome = np.where(gaps, 0.0, losses)[:, partial]
    every = np.repeat(ran[:, None], partial.sum(), axis=1)
    predicted = base + _cross_fitted(
        log, whole, outcome - base, every, 1 / propensity, STEADY
    )
    filled = predicted + weight * (outcome - predicted)
    estimated = dict(zip(np.asarray(names)[partial].tolist(), filled.T, strict=True))
    note = (
        "Values are difference estimates from a log in which all modes ran on "
        f"{ran.sum()} of {len(ran)} inputs, not measured. Effective inputs: "
        f"{effective_inputs(weight)[0]:.0f}; smallest propensity "
        f"{propensity.min():.3g}. {columns.LIMITS}"
    )
    return columns.Columns(
        log.source,
        {**log.data, **estimated, columns.ESTIMATED: np.full(len(log), note)},
    )


def effective_inputs(weight: ModeFloats) -> Float[np.ndarray, "mode"]:
    """Effective number of inputs of each mode, (sum w)^2 / sum w^2: so many equal
    weights have the same variance.
    """
    return weight.sum(axis=0) ** 2 / np.maximum((weight**2).sum(axis=0), 1e-300)


def _estimation_note(
    method: str, weight: ModeFloats, modes: Sequence[str], least: float, clipped: int
) -> str:
    counts = ", ".join(
        f"{mode} {count:.0f}"
        for mode, count in zip(modes, effective_inputs(weight), strict=True)
    )
    clip_note = f", {clipped} clipped up to it, which biases" if clipped else ""
    return (
        f"Values are {METHOD_NAMES[method]} from a log in which one mode ran on each "
        f"of {len(weight)} inputs, not measured. Effective inputs: {counts}; smallest "
        f"propensity {least:.3g}{clip_note}. {columns.LIMITS}"
    )


def _modes_run(log: columns.Columns, modes: Sequence[str]) -> InputInts:
    """Index in `modes` of the mode that ran on each input."""
    if isinstance(modes, str) or len(modes) < 2 or len(set(modes)) < len(modes):
        raise InputError(
            f"{log.source}: two or more different modes must be "
            f"named, cheap first; found {modes!r}."
        )
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
        raise InputError(
            f"{log.source}: every mode must have "
            f"run on some input; {never[0]!r} never did."
        )
    return ran


def _propensity(
    log: columns.Columns, ids: np.ndarray, clip: float | None, *, least: float = LEAST
) -> tuple[InputFloats, int]:
    """Propensity of the mode that ran on each input, and the number of clipped
    propensities.
    """
    propensity = log.numbers("propensity")
    if clip is not None and not 0 < clip < 1:
        raise InputError(
            f"Propensities are clipped at a number between 0 and 1; found {clip!r}."
        )
    bad = np.flatnonzero(~((propensity > 0) & (propensity <= 1)))
    if len(bad):
        raise InputError(
            f"{log.source}: column 'propensity' must be the probability with which "
            "the mode that ran was chosen (in a shadow log, with which all modes "
            "run), above 0 and "
            "at most "
            f"1; {columns.row_name(int(bad[0]), ids)} holds {propensity[bad[0]]:g}."
        )
    low = np.flatnonzero(propensity < (least if clip is None else clip))
    if clip is None and len(low):
        raise InputError(
            f"{log.source}: a propensity near 0 makes an input count for "
            f"{1 / propensity[low[0]]:.0f}; {columns.row_name(int(low[0]), ids)} "
            f"holds {propensity[low[0]]:g}, and {len(low) - 1} more are below "
            f"{least:g}. Clip them ({argument('clip', 0.01)}), which biases, or leave "
            "such inputs out of what is judged."
        )
    return (propensity, 0) if clip is None else (np.maximum(propensity, clip), len(low))


def _predicted_losses(
    log: columns.Columns,
    modes: Sequence[str],
    features: Sequence[str],
    *,
    mode_ran: Bool[np.ndarray, "input mode"],
    observed: InputFloats,
) -> ModeFloats:
    """Predicted losses: the columns of the log, or a ridge regression on the features,
    cross-fitted by unit.
    """
    names = [f"{PREDICTED}{mode}" for mode in modes]
    if any(name in log.data for name in names):
        log.require(*names)
        predicted = np.column_stack([log.numbers(name) for name in names])
        if not np.isfinite(predicted).all():
            raise InputError(
                f"{log.source}: predicted losses must be finite; found others."
            )
        return predicted
    log.require(*features)
    predictors = [log.numbers(name) for name in features]
    losses = np.repeat(observed[:, None], len(modes), axis=1)
    return _cross_fitted(log, predictors, losses, mode_ran, np.ones(len(log)), RIDGE)


def _cross_fitted(
    log: columns.Columns,
    predictors: Sequence[InputFloats],
    losses: ModeFloats,
    mode_ran: Bool[np.ndarray, "input mode"],
    importance: InputFloats,
    penalty: float,
) -> ModeFloats:
    """Losses of every mode by a weighted ridge regression on the predictors, fitted
    where it ran on other units.
    """
    features = np.column_stack(predictors) if predictors else np.zeros((len(log), 0))
    if not np.isfinite(features).all():
        raise InputError(
            f"{log.source}: features must be finite numbers; found others."
        )
    _, unit = np.unique(keys.as_text(log.ids("unit")), return_inverse=True)
    fold = unit % min(FOLDS, max(int(unit.max()) + 1, 1))
    predicted = np.zeros(losses.shape)
    for m, ran in enumerate(mode_ran.T):
        for test_fold in np.unique(fold):
            others = ran & (fold != test_fold)
            others = others if others.any() else ran
            own = fold == test_fold
            predicted[own, m] = _ridge(
                features[others],
                losses[others, m],
                features[own],
                importance[others],
                penalty,
            )
    return predicted


def _ridge(
    features: Float[np.ndarray, "row feature"],
    losses: Float[np.ndarray, "row"],
    new: Float[np.ndarray, "new feature"],
    importance: Float[np.ndarray, "row"],
    penalty: float,
) -> Float[np.ndarray, "new"]:
    """Losses of new rows by a weighted ridge regression on standardised features; the
    mean has no penalty.

    Weights add up to the effective number of rows, so that the penalty counts rows.
    """
    weight = importance * importance.sum() / (importance @ importance)
    centre, mean = (weight @ x / weight.sum() for x in (features, losses))
    spread = np.sqrt(weight @ (features - centre) ** 2 / weight.sum())
    scale = np.where(spread > 0, spread, 1.0)
    standard = (features - centre) / scale
    gram = (standard.T * weight) @ standard + penalty * np.eye(len(scale))
    slopes = np.linalg.solve(gram, (standard.T * weight) @ (losses - mean))
    return mean + (new - centre) / scale @ slopes
