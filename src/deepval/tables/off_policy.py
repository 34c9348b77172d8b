"""A log in which one mode ran on each input, with the chance that it did -> estimated losses of every mode.

With M_i the mode that ran, L_i its loss and p_i the probability with which it was chosen, the loss of mode m on input i
is estimated by 1[M_i = m]*L_i/p_i (inverse propensity), by that over the mean of 1[M = m]/p (self-normalised), or by
mu_m(x_i) + 1[M_i = m]*(L_i - mu_m(x_i))/p_i (doubly robust), where mu_m predicts the loss of mode m. Sums over inputs
that are chosen without looking at losses are unbiased; a single value is no loss, and an oracle over them picks noise.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from deepval.arrays import Float, Int
from deepval.errors import InputError
from deepval.tables import columns, input_costs
from deepval.tables.values import ValueTable

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
