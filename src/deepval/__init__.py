"""deepval: is the expensive perception mode worth it on this input, for the decision that follows?

The flow, from losses and scores to a verdict:

    table = deepval.read_values("values.parquet")          # or ValueTable.from_columns(...)
    result = deepval.evaluate(table, {"mine": scores}, budgets=[deepval.Selection(0.2)])
    print(result.row("mine").verdict)                        # better, worse or unresolved against random

`values` holds losses, `budgets` and `costs` say what may be spent, `selection` and `oracle` what is escalated,
`resampling` how sure we are, `scoring` puts them together and `report` shows the result.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deepval.version import __version__

if TYPE_CHECKING:
    from deepval.allocators.router import Router
    from deepval.budgets import Energy, Latency, Selection
    from deepval.comparison import compare, pool
    from deepval.costs import Costs, read_costs
    from deepval.errors import InputError, InputWarning
    from deepval.resampling import units_to_resolve
    from deepval.results import Result, Row
    from deepval.scoring import evaluate
    from deepval.values import ValueTable, read_values

__all__ = [
    "Costs",
    "Energy",
    "InputError",
    "InputWarning",
    "Latency",
    "Result",
    "Router",
    "Row",
    "Selection",
    "ValueTable",
    "__version__",
    "compare",
    "evaluate",
    "pool",
    "read_costs",
    "read_values",
    "units_to_resolve",
]

_HOME = {
    "allocators.router": ("Router",),
    "budgets": ("Energy", "Latency", "Selection"),
    "comparison": ("compare", "pool"),
    "costs": ("Costs", "read_costs"),
    "errors": ("InputError", "InputWarning"),
    "resampling": ("units_to_resolve",),
    "results": ("Result", "Row"),
    "scoring": ("evaluate",),
    "values": ("ValueTable", "read_values"),
}
"""Where each public name lives; it is loaded when first used, so that importing the package costs nothing."""


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            value = getattr(import_module(f"deepval.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'deepval' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
