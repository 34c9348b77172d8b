"""deepval: is the expensive perception mode worth it on this input, for the decision
that follows?

The flow, from losses and scores to a verdict, a picture and a page:

    table = deepval.read_values("values.parquet")          # or a DataFrame, or ValueTable.from_columns(...)
    print(table)                                            # what the expensive mode does, mode by mode
    result = deepval.evaluate(table, {"mine": scores}, 0.2) # escalate 20 %; or [0.1, 0.2], Latency(0.2, costs), ...
    print(result)                                           # what to run, and what that rests on
    result.answer(0.2).verdict                              # run, do not run or not settled, for the user's budget
    result["mine"].versus_random.low                        # a row has all figures, with their intervals
    result.plot()                                           # quality against cost, with the answer as title
    result.report("page.html")                              # one page with charts and tables, opens from disk
    result.threshold("mine", 0.2)                           # the score to escalate above, and the rate to expect
    deepval.Router.from_scores(scores, 0.2).decide(0.7)     # the mode to run, input by input; save, load
    deepval.deployment(table, scores, harm_at_most=0.01)    # a threshold whose harm on a new unit is certified
    result.to_pandas()                                      # or to_polars(), to_arrow(), save("result.json")
    deepval.compare(result, "mine", "other")                # two allocators, paired; compare_over, pool: over cells
    deepval.units_to_resolve(...)                           # how many units would resolve a difference
    deepval.metrics.normalized_decision_gain(...)           # arrays in, a number out, for scikit-learn
    deepval.testing.assert_not_worse(new, old, table)       # a regression test of scores

A wrong argument raises an `InputError`: it states what must hold, what was found and
what to do.

All of this is in `judge`, which needs nothing of the rest. `driving` turns detections
and drives into losses, `deploy` has allocators and the board, `paper` the analyses;
docs/architecture.md has the whole flow.
"""  # noqa: E501

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deepval.version import __version__

if TYPE_CHECKING:
    from deepval import metrics, testing
    from deepval.basics.errors import InputError, InputWarning
    from deepval.deploy.allocators.router import Router
    from deepval.judge.allowances import Energy, Latency, Money, Selection
    from deepval.judge.deployment import deployment
    from deepval.judge.evaluation import evaluate
    from deepval.judge.extras.planning import units_to_resolve
    from deepval.judge.pairs import compare
    from deepval.judge.pooled import compare_over, pool
    from deepval.judge.results import Result, Row
    from deepval.judge.shadow import ShadowLog, ShadowPlan, shadow_plan
    from deepval.judge.table_router import TableRouter
    from deepval.judge.tables.costs import Costs, read_costs
    from deepval.judge.tables.logs.importing import import_router_log, values_from_log
    from deepval.judge.tables.logs.writing import write_values
    from deepval.judge.tables.values import ValueTable, read_values
    from deepval.judge.watching import Watch

__all__ = [
    "Costs",
    "Energy",
    "InputError",
    "InputWarning",
    "Latency",
    "Money",
    "Result",
    "Router",
    "Row",
    "Selection",
    "ShadowLog",
    "ShadowPlan",
    "TableRouter",
    "ValueTable",
    "Watch",
    "__version__",
    "compare",
    "compare_over",
    "deployment",
    "evaluate",
    "import_router_log",
    "metrics",
    "pool",
    "read_costs",
    "read_values",
    "shadow_plan",
    "testing",
    "units_to_resolve",
    "values_from_log",
    "write_values",
]

_HOME = {
    "deploy.allocators.router": ("Router",),
    "basics.errors": ("InputError", "InputWarning"),
    "judge.allowances": ("Energy", "Latency", "Money", "Selection"),
    "judge.pairs": ("compare",),
    "judge.deployment": ("deployment",),
    "judge.extras.planning": ("units_to_resolve",),
    "judge.evaluation": ("evaluate",),
    "judge.pooled": ("compare_over", "pool"),
    "judge.watching": ("Watch",),
    "judge.shadow": ("ShadowLog", "ShadowPlan", "shadow_plan"),
    "judge.table_router": ("TableRouter",),
    "judge.results": ("Result", "Row"),
    "judge.tables.costs": ("Costs", "read_costs"),
    "judge.tables.logs.importing": ("import_router_log", "values_from_log"),
    "judge.tables.logs.writing": ("write_values",),
    "judge.tables.values": ("ValueTable", "read_values"),
    "": ("metrics", "testing"),
}
"""Where each public name lives; it is loaded when first used, so that importing the
package costs nothing.
"""


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            value = (
                getattr(import_module(f"deepval.{module}"), name)
                if module
                else import_module(f"deepval.{name}")
            )
            globals()[name] = value
            return value
    raise AttributeError(f"module 'deepval' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
