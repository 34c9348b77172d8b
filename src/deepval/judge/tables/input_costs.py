"""Columns with the cost of each mode on each input -> checked arrays by convention.

A values file has them as `cost_<mode>` or `usd_<mode>` (dollars), `ms_<mode>`,
`mj_<mode>`, `mj_gpu_<mode>` or `mj_all_<mode>`, one column per mode. Where a table has
them, they replace the costs file for the modes.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from deepval.basics.arrays import ModeFloats
from deepval.basics.errors import InputError
from deepval.judge.tables import columns
from deepval.judge.tables.costs import CONVENTIONS, LARGEST_COST, Convention
from deepval.judge.tables.keys import refuse_rows

COST: Convention = "usd"
"""Convention of `cost_<mode>`."""
NAMES: Mapping[str, Convention] = {
    "cost": COST,
    **{convention: convention for convention in CONVENTIONS},
}
"""Convention of a cost column by its prefix, which stands before `_<mode>`."""

InputCosts = Mapping[Convention, ModeFloats]


def cost_columns(
    names: Collection[str], modes: Collection[str]
) -> dict[str, dict[str, str]]:
    """Names of the cost columns of these modes, by prefix and mode; other columns are
    ignored.
    """
    by_prefix = {
        name: {mode: f"{name}_{mode}" for mode in modes if f"{name}_{mode}" in names}
        for name in NAMES
    }
    return {name: by_mode for name, by_mode in by_prefix.items() if by_mode}


def by_name(costs: Any, source: str) -> dict[str, Mapping[Any, Any]]:
    """Costs by prefix and mode, {"ms": {"small": ..., "large": ...}}; costs by mode
    alone are in dollars.
    """
    if not isinstance(costs, Mapping) or not costs:
        raise InputError(
            f'{source}: costs per input must be columns by mode, {{"small": [...], '
            '"large": [...]} in dollars, or {"ms": {"small": '
            f"[...], ...}}}}; found {type(costs).__name__}."
        )
    if not all(isinstance(part, Mapping) for part in costs.values()):
        costs = {"cost": costs}
    unknown = [name for name in costs if name not in NAMES]
    if unknown:
        raise InputError(
            f"{source}: costs per input must "
            f"be in one of {', '.join(NAMES)}; found {unknown[0]!r}."
        )
    return {str(name): part for name, part in costs.items()}


def cost_arrays(
    raw: columns.Columns,
    priced_modes: Mapping[str, Collection[str]],
    modes: Sequence[str],
    ids: np.ndarray,
) -> InputCosts:
    """The costs of these modes by convention; every mode needs a finite cost of at
    least 0 on every input.
    """
    if {"cost", COST} <= set(priced_modes):
        raise InputError(
            f"{raw.source}: costs per input are given twice "
            f"in {COST}: as 'cost' and as {COST!r}."
        )
    arrays = {}
    for name, priced in priced_modes.items():
        missing = [mode for mode in modes if mode not in priced]
        if missing:
            others = ", ".join(f"{name}_{mode}" for mode in priced)
            raise InputError(
                f"{raw.source}: every mode needs what it costs per input, or none; "
                f"{missing[0]!r} has no column '{name}_{missing[0]}', others have "
                f"{others}."
            )
        arrays[NAMES[name]] = _cost_array(raw, name, modes, ids)
    return arrays


def _cost_array(
    raw: columns.Columns, name: str, modes: Sequence[str], ids: np.ndarray
) -> ModeFloats:
    costs = np.empty((len(raw), len(modes)), order="F")
    for number, mode in enumerate(modes):
        column = raw.numbers(f"{name}_{mode}")
        requirement = (
            f"{raw.source}: column '{name}_{mode}' must hold costs, finite, not "
            f"negative and of at most {LARGEST_COST:g}"
        )
        bad = ~((column >= 0) & (column <= LARGEST_COST))
        refuse_rows(bad, column, requirement, ids)
        costs[:, number] = column
    low = float(costs[:, 0].mean())
    high = float(costs[:, -1].mean())
    if not high > low:
        raise InputError(
            f"{raw.source}: the full mode must cost more than the cheap one on "
            f"average, and the cheap one come first; found {NAMES[name]} = {high:g} "
            f"for {modes[-1]!r} and {low:g} for {modes[0]!r}."
        )
    return costs
