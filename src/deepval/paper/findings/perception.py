"""What the paper finds on perception against decision -> how that is told from the rows of a run."""

from itertools import groupby
from statistics import median

from deepval.paper.findings.finding import CONTROLLERS, LEAST_AFFECTED, RunRows
from deepval.paper.findings.verdicts import (
    OPEN,
    Outcome,
    Row,
    above,
    at_most,
    of_every,
    of_mean,
    of_most,
    span,
    within,
)

GAINS = ("E1", "E3", "E5", "E8")
"""The four gains of the paper's table: misses, misses and false positives, combined error, risk-weighted."""
MISSES, RISK = "E1", "E8"
FIXED = "target-free"
"""The pool of signals that are fitted to neither objective."""


def _agreement(run: RunRows) -> list[Row]:
    rows = run.controlled("agreement", loss=GAINS)
    return [row for row in rows if row["both"] >= LEAST_AFFECTED]


def signs_disagree(run: RunRows) -> Outcome | None:
    """Signs of perception gain and decision value differ often."""
    rows = _agreement(run)
    return (
        of_every((above(row, "disagree", 0.10) for row in rows), f"signs differ on {span(rows, 'disagree')}")
        if rows
        else None
    )


def signs_disagree_range(run: RunRows) -> Outcome | None:
    """On 25 to 51 % of the inputs."""
    rows = _agreement(run)
    marks = (within(row, "disagree", 0.25, 0.51) for row in rows)
    return of_every(marks, f"signs differ on {span(rows, 'disagree')}") if rows else None


def weak_correlation(run: RunRows) -> Outcome | None:
    """Gain hardly correlates with value."""
    rows = [row for row in _agreement(run) if row["spearman"] is not None]
    words = f"Spearman's correlation {span(rows, 'spearman', percent=False)}"
    return of_every((at_most(row["spearman"], 0.11, 0.30) for row in rows), words) if rows else None


def harm_with_gain(run: RunRows) -> Outcome | None:
    """Where perception improves, decisions get worse on some inputs."""
    rows = [row for row in _agreement(run) if row["improved"] >= LEAST_AFFECTED]
    words = f"harmed where perception improves {span(rows, 'harm_given_gain')}"
    return of_every((above(row, "harm_given_gain", 0.10) for row in rows), words) if rows else None


def opposite_consumers(run: RunRows) -> Outcome | None:
    """One perception change has opposite values for two consumers."""
    rows = [row for row in run.of("consumers") if row["both"] >= LEAST_AFFECTED]
    words = f"opposite signs on {span(rows, 'opposite_share')} of the inputs that both respond to"
    return of_every((above(row, "opposite_share", 0.10) for row in rows), words) if rows else None


def unordered_consumers(run: RunRows) -> Outcome | None:
    """The orders of two consumers have nothing to do with each other."""
    rows = [row for row in run.of("consumers") if row["gamma"] is not None and row["both"] >= LEAST_AFFECTED]
    words = f"gamma {span(rows, 'gamma', percent=False)}, ordered differently {span(rows, 'ordered_differently')}"
    return of_every((at_most(abs(row["gamma"]), 0.10, 0.30) for row in rows), words) if rows else None


def _diagnostics(run: RunRows) -> list[list[Row]]:
    """Diagnostics at 20 %, target by target."""
    rows = [row for row in run.of("targets", kind="diagnostic", alpha=0.2) if row["ndg"] is not None]
    return [list(group) for _, group in groupby(sorted(rows, key=lambda r: str(r["target"])), lambda r: r["target"])]


def no_diagnostic(run: RunRows) -> Outcome | None:
    """No perception diagnostic comes near the oracle."""
    best = [max(rows, key=lambda row: row["ndg"]) for rows in _diagnostics(run)]
    words = f"best diagnostic of a cell: nDG {span(best, 'ndg', percent=False)}"
    return of_every((at_most(row["ndg"], 0.7, 0.9) for row in best), words) if best else None


def best_diagnostic_depends(run: RunRows) -> Outcome | None:
    """The best diagnostic is another for another consumer."""
    leaders: dict[tuple[object, ...], list[str]] = {}
    for rows in _diagnostics(run):
        top = max(rows, key=lambda row: row["ndg"])
        about = run.cells.get(top["target"], {})
        if about.get("system") in CONTROLLERS:
            leaders.setdefault((about["cheap"], about["full"], about["geometry"]), []).append(top["score"])
    pairs = [names for names in leaders.values() if len(names) == 2]
    every = [name for pair in pairs for name in pair]
    names = sorted(dict.fromkeys(every), key=every.count, reverse=True)
    words = f"leading most often: {', '.join(f'{name} ({every.count(name)})' for name in names[:3])}"
    return of_most((one != other for one, other in pairs), words) if pairs else None


def _sweep(run: RunRows, field: str) -> list[Row]:
    """The configurations of the paper's two tasks in which something is defined, of those with enough to go by."""
    rows = run.of("robustness", task=("longitudinal", "lateral"))
    return [row for row in rows if row[field] is not None and row["affected"] >= LEAST_AFFECTED]


def misses_recover_little(run: RunRows) -> Outcome | None:
    """The false-negative gain recovers at most a third of the oracle's value."""
    rows = _sweep(run, "fn_ndg")
    negative = sum(row["fn_ndg"] < 0 for row in rows)
    words = f"nDG {span(rows, 'fn_ndg', percent=False)}, negative in {negative}"
    marks = (True if row["fn_ndg"] <= 0.337 else False if above(row, "fn_ndg", 0.337) else None for row in rows)
    return of_every(marks, words) if rows else None


def multi_metric(run: RunRows) -> Outcome | None:
    """A model of all perception errors seldom passes half of the oracle's value."""
    rows = _sweep(run, "multi_ndg")
    words = f"nDG {span(rows, 'multi_ndg', percent=False)}, above 0.5 in {sum(row['multi_ndg'] > 0.5 for row in rows)}"
    return of_most((row["multi_ndg"] <= 0.5 for row in rows), words) if rows else None


def no_shared_optimum(run: RunRows) -> Outcome | None:
    """Perception and decision gain have different winners."""
    rows = run.of("perception-ranking", pool=FIXED, loss=MISSES)
    rows = [row for row in rows if row.get("cell")]
    taus = [row["tau"] for row in rows if row["tau"] is not None]
    words = f"median Kendall's tau {median(taus):.2f}" if taus else "no tau is defined"
    return of_most((not row["common"] for row in rows), words) if rows else None


def _regret(run: RunRows, loss: str) -> Outcome | None:
    rows = [row for row in run.of("selection-regret", pool=FIXED, loss=loss, alpha=0.2) if not row.get("cell")]
    if not rows or rows[0]["regret"] is None:
        return None
    row = rows[0]
    lo, hi = 100 * row["regret_lo"], 100 * row["regret_hi"]
    words = (
        f"{100 * row['regret']:.1f} % [{lo:.1f}, {hi:.1f}] of the all-cheap loss over {row['cells']} cells; both "
        f"choose the same in {row['alike']}"
    )
    return of_mean(above(row, "regret", 0.0), words)


def selection_regret(run: RunRows) -> Outcome | None:
    """Choosing by the false-negative gain costs decision value."""
    return _regret(run, MISSES)


def risk_regret(run: RunRows) -> Outcome | None:
    """Choosing by the risk-weighted gain: not resolved in the paper."""
    told = _regret(run, RISK)
    if told is None:
        return None
    same = "unresolved here as in the paper" if told.verdict == OPEN else "resolved here, not in the paper"
    return Outcome("holds" if told.verdict == OPEN else "does not hold", f"{told.words}; {same}")
