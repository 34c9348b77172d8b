"""A result whose parts are in their forms -> whether they fit together: what no annotation says of a saved result."""

from collections.abc import Iterator
from typing import Any

from deepval.errors import InputError, quoted
from deepval.results.budget_key import KINDS, UNITS
from deepval.results.facts import Optimum
from deepval.results.rows import Curve, Inputs

ACCOUNTINGS = ("cascade", "skipping")
BUDGETED = ("half_widths", "rows", "slices", "gaps", "streams", "thresholds", "ladder")
"""Parts of a result whose records say their budget."""


def check_whole(result: Any, source: object) -> None:
    """Raise where parts of a loaded result contradict each other or themselves."""
    for amiss in (*_budgets(result), *_spent(result.ladder), *_curves(result.curves), *_inputs(result.inputs)):
        raise InputError(f"{source}: must be a result saved by deepval; {amiss}.")


def _budgets(result: Any) -> Iterator[str]:
    for part in BUDGETED:
        for place, record in enumerate(getattr(result, part)):
            said = {"kind": (record.kind, KINDS), "convention": (record.get("convention"), (None, *UNITS))}
            said["accounting"] = (record.get("accounting"), (None, *ACCOUNTINGS))
            for name, (found, allowed) in said.items():
                if found not in allowed:
                    words = ", ".join(map(str, allowed))
                    yield f"{part}[{place}].{name} must be one of {words}; found {quoted(found)}"


def _spent(ladder: tuple[Optimum, ...]) -> Iterator[str]:
    for place, optimum in enumerate(ladder):
        for each, spending in enumerate(optimum.spent):
            if spending.convention not in UNITS:
                words, found = ", ".join(UNITS), quoted(spending.convention)
                yield f"ladder[{place}].spent[{each}].convention must be one of {words}; found {found}"


def _curves(curves: tuple[Curve, ...]) -> Iterator[str]:
    for place, curve in enumerate(curves):
        if len({len(curve.alpha), len(curve.gain_share), len(curve.lo), len(curve.hi)}) > 1:
            yield f"alpha, gain_share, lo and hi of curves[{place}] must be equally long; they are not"


def _inputs(inputs: Inputs | None) -> Iterator[str]:
    if inputs is None:
        return
    columns = {"unit": inputs.unit, **{f"losses.{mode}": part for mode, part in inputs.losses.items()}}
    columns |= {f"ranks.{name}": part for name, part in inputs.ranks.items()}
    columns |= {f"terms.{name}.{mode}": part for name, by in inputs.terms.items() for mode, part in by.items()}
    for name, column in columns.items():
        if len(column) != len(inputs.input):
            yield f"inputs.{name} must have an entry for each of {len(inputs.input)} inputs; it has {len(column)}"
    if inputs.unit and not 0 <= min(inputs.unit) <= max(inputs.unit) < len(inputs.units):
        yield f"inputs.unit must name places in a list of {len(inputs.units)} units; it does not"
    for name, by in inputs.terms.items():
        if list(by) != list(inputs.losses):
            modes, found = ", ".join(inputs.losses), ", ".join(by) or "none"
            yield f"inputs.terms.{name} must have the modes {modes}; it has {found}"
    if set(inputs.terms) != set(inputs.weights) or not set(inputs.free) <= set(inputs.weights):
        yield "inputs.weights must name the loss terms, and inputs.free some of them; they do not"
