"""Columns of what each mode cost on each input -> checked arrays by convention.

A values file says so in `cost_<mode>` or `usd_<mode>` (dollars), `ms_<mode>`, `mj_<mode>`, `mj_gpu_<mode>` or
`mj_all_<mode>`, one column per mode. Where a table has them, modes are charged by them and not by a costs file.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.tables import columns
from deepval.tables.costs import CONVENTIONS, LARGEST_COST, Convention

COST: Convention = "usd"
"""What `cost_<mode>` is counted in."""
NAMES: Mapping[str, Convention] = {"cost": COST, **{convention: convention for convention in CONVENTIONS}}
"""What columns of costs are called, before the mode."""

InputCosts = Mapping[Convention, Float[np.ndarray, "input mode"]]


def found_in(names: Collection[str], modes: Collection[str]) -> dict[str, dict[str, str]]:
    """Columns of costs of these modes by what they are called and by mode; a column of no mode is none."""
    found = {name: {mode: f"{name}_{mode}" for mode in modes if f"{name}_{mode}" in names} for name in NAMES}
    return {name: named for name, named in found.items() if named}


def by_name(given: Any, source: str) -> dict[str, Mapping[Any, Any]]:
    """Costs by name and mode: {"ms": {"small": ..., "large": ...}}, or by mode alone, which are dollars."""
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            f'{source}: costs per input must be columns by mode, {{"small": [...], "large": [...]}} in dollars, or '
            f'{{"ms": {{"small": [...], ...}}}}; found {type(given).__name__}.'
        )
    if not all(isinstance(part, Mapping) for part in given.values()):
        given = {"cost": given}
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        raise InputError(f"{source}: costs per input must be in one of {', '.join(NAMES)}; found {unknown[0]!r}.")
    if {"cost", COST} <= set(given):
        raise InputError(f"{source}: costs per input are given twice in {COST}: as 'cost' and as {COST!r}.")
    return {str(name): part for name, part in given.items()}


def checked(
    found: columns.Columns, given: Mapping[str, Mapping[Any, Any]], modes: Sequence[str], ids: np.ndarray
) -> InputCosts:
    """The costs of these modes by convention; every mode needs some on every input, finite and not negative."""
    return {NAMES[name]: _stacked(found, name, part, modes, ids) for name, part in given.items()}


def _stacked(
    found: columns.Columns, name: str, part: Mapping[Any, Any], modes: Sequence[str], ids: np.ndarray
) -> Float[np.ndarray, "input mode"]:
    missing = [mode for mode in modes if mode not in set(map(str, part))]
    if missing:
        raise InputError(
            f"{found.source}: every mode needs what it costs per input, or none; {missing[0]!r} has no column "
            f"'{name}_{missing[0]}', others have {', '.join(f'{name}_{mode}' for mode in part)}."
        )
    costs = np.stack([found.numbers(f"{name}_{mode}") for mode in modes]).T
    row, mode = next(zip(*np.nonzero(~((costs >= 0) & (costs <= LARGEST_COST))), strict=True), (None, None))
    if row is not None and mode is not None:
        large = LARGEST_COST < costs[row, mode] < np.inf
        need = f"of at most {LARGEST_COST:g}" if large else "finite and not negative"
        raise InputError(
            f"{found.source}: column '{name}_{modes[mode]}' must hold costs, {need}; "
            f"{columns.place(int(row), ids)} holds {costs[row, mode]:g}."
        )
    row, mode = next(zip(*np.nonzero(costs > LARGEST_COST), strict=True), (None, None))
    if row is not None and mode is not None:
        raise InputError(
            f"{found.source}: column '{name}_{modes[mode]}' may hold costs of {LARGEST_COST:g} at most; "
            f"{columns.place(int(row), ids)} holds {costs[row, mode]:g}."
        )
    low, high = float(costs[:, 0].mean()), float(costs[:, -1].mean())
    if not high > low:
        raise InputError(
            f"{found.source}: the full mode must cost more than the cheap one on average, and the cheap one come "
            f"first; found {NAMES[name]} = {high:g} for {modes[-1]!r} and {low:g} for {modes[0]!r}."
        )
    return costs
