"""`deepval analyse`: built cells -> the rows of one analysis, as a table or a file."""

import typer

from deepval.cli.lazy import LOOK, lazy_group

ANALYSES = {
    "signs": "analysing.escalation",
    "composition": "analysing.escalation",
    "ties": "analysing.escalation",
    "mechanism": "analysing.escalation",
    "viability": "analysing.escalation",
    "lift": "analysing.escalation",
    "operating-points": "analysing.variants",
    "persistence": "analysing.variants",
    "sensitivity": "analysing.variants",
    "robustness": "analysing.variants",
    "external": "analysing.planners",
    "agreement": "analysing.perceiving",
    "consumers": "analysing.perceiving",
    "optima": "analysing.perceiving",
    "targets": "analysing.perceiving",
    "perception-ranking": "analysing.choosing",
    "selection-regret": "analysing.choosing",
    "held-out": "analysing.judged",
    "benefit-harm": "analysing.judged",
    "wins": "analysing.judged",
    "half-widths": "analysing.judged",
    "concentration": "analysing.judged",
    "budgets": "analysing.costing",
    "break-even": "analysing.costing",
    "gaps": "analysing.costing",
    "uniform": "analysing.costing",
    "capacity": "analysing.costing",
    "ladder": "analysing.costing",
    "skipping": "analysing.costing",
    "streams": "analysing.costing",
    "objective-swap": "analysing.labels",
    "published-objectives": "analysing.labels",
    "target-transforms": "analysing.labels",
    "seeds": "analysing.allocators",
    "transfer": "analysing.allocators",
    "out-of-fold": "analysing.allocators",
}
"""The module of the command line that holds each analysis; it is imported when the analysis is asked for."""


analyse = typer.Typer(cls=lazy_group(ANALYSES), no_args_is_help=True, **LOOK)


@analyse.callback()
def _analyse() -> None:
    """Run an analysis of the paper on built cells.

    Example: deepval analyse seeds cells/braking-monocular -a router-mlp-value -a gate-gbm
    On a whole track: deepval analyse signs kitti-public --data data --work work
    """
