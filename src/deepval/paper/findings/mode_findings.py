"""Findings of the paper on modes: what escalation does, and whether perception predicts
decisions.
"""

from collections.abc import Sequence
from itertools import groupby
from statistics import median

from deepval.paper.findings.rules import (
    CONTROLLERS,
    LEAST_AFFECTED,
    MONOCULAR,
    OPEN,
    ORACLE,
    Outcome,
    Row,
    RunRows,
    above,
    apart,
    at_most,
    below,
    of_every,
    of_mean,
    of_most,
    span,
    within,
)
from deepval.results import lists_by_key

SOME = 0.10
"""What counts as a substantial share: one in ten."""


def _harm(
    run: RunRows, geometry: str, system: tuple[str, ...] = CONTROLLERS
) -> list[Row]:
    return run.controlled("signs", geometry=geometry, system=system)


def _shares(rows: Sequence[Row]) -> str:
    return f"harmed {span(rows, 'harm_rate')} (least / median / largest)"


def signs_vary(run: RunRows) -> Outcome | None:
    """A substantial share of the affected inputs is harmed in every monocular cell."""
    rows = _harm(run, MONOCULAR)
    return (
        of_every((above(row, "harm_rate", SOME) for row in rows), _shares(rows))
        if rows
        else None
    )


def signs_range(run: RunRows) -> Outcome | None:
    """34 to 54 % of the affected inputs are harmed in every monocular cell."""
    rows = _harm(run, MONOCULAR)
    return (
        of_every((within(row, "harm_rate", 0.34, 0.54) for row in rows), _shares(rows))
        if rows
        else None
    )


def net_benefit(run: RunRows) -> Outcome | None:
    """Harm ratios below 1 in most monocular cells."""
    rows = _harm(run, MONOCULAR)
    words = f"harm ratio {span(rows, 'harm_ratio', percent=False)}"
    return (
        of_most((below(row, "harm_ratio", 1.0) for row in rows), words)
        if rows
        else None
    )


def no_upper_bound(run: RunRows) -> Outcome | None:
    """The oracle at 20 % removes more than escalating everything."""
    rows = [row for row in run.controlled("signs") if row["oracle_share"] is not None]
    more = [{"more": row["oracle_share"] - row["all_full_share"]} for row in rows]
    words = f"Oracle@20 less all-full {span(more, 'more')} of the all-cheap loss"
    return of_every((row["more"] > 0 for row in more), words) if rows else None


def oracle_geometry_braking(run: RunRows) -> Outcome | None:
    """Braking is harmed with reference geometry too."""
    rows = _harm(run, ORACLE, ("braking",))
    return (
        of_every((above(row, "harm_rate", SOME) for row in rows), _shares(rows))
        if rows
        else None
    )


def oracle_geometry_trajectory(run: RunRows) -> Outcome | None:
    """The trajectory controller's harm ratio falls with reference geometry."""
    mono = {
        (r["cheap"], r["full"]): r for r in _harm(run, MONOCULAR, ("receding-horizon",))
    }
    rows = [
        r
        for r in _harm(run, ORACLE, ("receding-horizon",))
        if (r["cheap"], r["full"]) in mono
    ]
    small = sum(
        row["harm_ratio"] is not None and row["harm_ratio"] < 0.06 for row in rows
    )
    words = (
        f"harm ratio {span(rows, 'harm_ratio', percent=False)} with oracle geometry, "
        f"below 0.06 in {small}; "
    )
    words += f"{span(mono.values(), 'harm_ratio', percent=False)} with monocular"
    marks = (apart(mono[row["cheap"], row["full"]], row, "harm_ratio") for row in rows)
    return of_most(marks, words) if rows else None


def _by_effect(run: RunRows, **fields: str) -> list[tuple[Row, Row]]:
    """Rows of harmed and of helped inputs of each braking cell that has both."""
    rows = run.of("mechanism", system="braking", **fields)
    by_cell: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_cell.setdefault(row["cell"], {})[row["effect"]] = row
    pairs = [
        (entry["harmed"], entry["helped"])
        for entry in by_cell.values()
        if {"harmed", "helped"} <= set(entry)
    ]
    return [(a, b) for a, b in pairs if min(a["inputs"], b["inputs"]) >= 10]


def reacted_false_positives(run: RunRows) -> Outcome | None:
    """Most harmed inputs have an added false positive that the controller reacts to."""
    rows = [harmed for harmed, _ in _by_effect(run, geometry=ORACLE)]
    words = f"on harmed inputs {span(rows, 'reacted')}"
    return (
        of_every((above(row, "reacted", 0.5) for row in rows), words) if rows else None
    )


def harmed_against_helped(run: RunRows) -> Outcome | None:
    """Reactions to false positives are more frequent on harmed inputs than on helped
    ones.
    """
    pairs = _by_effect(run, geometry=ORACLE)
    words = (
        "harmed "
        f"{span((a for a, _ in pairs), 'reacted')}, "
        f"helped {span((b for _, b in pairs), 'reacted')}"
    )
    return (
        of_every((apart(a, b, "reacted") for a, b in pairs), words) if pairs else None
    )


def needed_misses(run: RunRows) -> Outcome | None:
    """Recovered misses that are needed are more frequent on helped inputs."""
    pairs = _by_effect(run, geometry=ORACLE)
    words = (
        "helped "
        f"{span((b for _, b in pairs), 'needed')}, "
        f"harmed {span((a for a, _ in pairs), 'needed')}"
    )
    return of_every((apart(b, a, "needed") for a, b in pairs), words) if pairs else None


def changes_by_sign(run: RunRows) -> Outcome | None:
    """Harmed inputs add more false positives and recover fewer misses."""
    pairs = _by_effect(run)
    fp = [{"d": a["false_positives"] - b["false_positives"]} for a, b in pairs]
    fn = [{"d": a["misses"] - b["misses"]} for a, b in pairs]
    words = (
        "false positives, harmed "
        "less "
        f"helped {span(fp, 'd', percent=False)}; misses {span(fn, 'd', percent=False)}"
    )
    marks = [
        True
        if x["d"] > 0 and y["d"] > 0
        else False
        if x["d"] < 0 and y["d"] < 0
        else None
        for x, y in zip(fp, fn, strict=True)
    ]
    return of_most(marks, words) if pairs else None


def _harm_of(run: RunRows, system: str, terms: tuple[str, ...]) -> list[Row]:
    """Share of the harm that some terms make, by cell."""
    asked = {row["cell"] for row in run.controlled("signs", system=system)}
    rows = run.of("composition", system=system, term=terms)
    shares = lists_by_key(
        (row["cell"], row["harm_share"]) for row in rows if row["cell"] in asked
    )
    return [
        {"share": sum(map(float, entry))}
        for entry in shares.values()
        if None not in entry
    ]  # pyright: ignore


def over_braking(run: RunRows) -> Outcome | None:
    """Harm to braking is over-braking."""
    rows = _harm_of(run, "braking", ("excess",))
    marks = (
        True if row["share"] >= 0.73 else False if row["share"] < 0.5 else None
        for row in rows
    )
    return of_every(marks, f"share of the harm {span(rows, 'share')}") if rows else None


def collision_and_clearance(run: RunRows) -> Outcome | None:
    """Harm to the trajectory controller is collision and clearance."""
    rows = _harm_of(run, "receding-horizon", ("collision", "clearance"))
    marks = (
        True if row["share"] >= 0.9 else False if row["share"] < 0.5 else None
        for row in rows
    )
    return of_every(marks, f"share of the harm {span(rows, 'share')}") if rows else None


def own_operating_points(run: RunRows) -> Outcome | None:
    """Harm persists where each mode has its own threshold."""
    rows = run.controlled(
        "operating-points", geometry=MONOCULAR, scheme=("S1", "S2", "S3")
    )
    rows = [row for row in rows if row["harm_rate"] is not None]
    words = f"{_shares(rows)}, harm ratio {span(rows, 'harm_ratio', percent=False)}"
    return (
        of_every((above(row, "harm_rate", SOME) for row in rows), words)
        if rows
        else None
    )


def no_pair_of_thresholds(run: RunRows) -> Outcome | None:
    """No pair of thresholds removes harm."""
    least: dict[str, float] = {}
    for row in run.controlled("operating-points", geometry=MONOCULAR, scheme="pair"):
        if row["harm_rate"] is not None:
            least[row["cell"]] = min(row["harm_rate"], least.get(row["cell"], 1.0))
    rows = [{"least": value} for value in least.values()]
    words = f"least harmed share over a cell's pairs {span(rows, 'least')}"
    return of_every((row["least"] >= SOME for row in rows), words) if rows else None


def persistent_detections(run: RunRows) -> Outcome | None:
    """Harm does not come from transient detections."""
    by_cell: dict[str, dict[bool, Row]] = {}
    for row in run.controlled("persistence"):
        by_cell.setdefault(row["cell"], {})[row["persistence"]] = row
    both = [
        entry
        for entry in by_cell.values()
        if len(entry) == 2 and None not in (e["harm_rate"] for e in entry.values())
    ]
    rows = [
        {"moved": abs(entry[True]["harm_rate"] - entry[False]["harm_rate"])}
        for entry in both
    ]
    words = f"harmed share moves by {span(rows, 'moved')}"
    return (
        of_every((at_most(row["moved"], 0.068, 0.15) for row in rows), words)
        if rows
        else None
    )


def loss_weights(run: RunRows) -> Outcome | None:
    """Loss weights and corridor do not make the harm."""
    judged = [
        row
        for row in run.controlled("sensitivity", geometry=MONOCULAR)
        if row["harm_rate"] is not None
    ]
    by_cell = lists_by_key((row["cell"], row["harm_rate"]) for row in judged)
    rows = [
        {"span": max(entry) - min(entry), "least": min(entry)}
        for entry in by_cell.values()
    ]
    words = (
        "span of the harmed share over variants "
        f"{span(rows, 'span')}, least share {span(rows, 'least')}"
    )
    marks = (at_most(row["span"], 0.05, 0.15) for row in rows)
    return of_every(marks, words) if rows else None


def over_braking_weight(run: RunRows) -> Outcome | None:
    """The harm ratio rises with the over-braking weight."""
    varied = run.controlled("sensitivity", system="braking", constant="excess_weight")
    defined = [row for row in varied if row["harm_ratio"] is not None]
    by_cell = lists_by_key(
        (row["cell"], (row["value"], row["harm_ratio"])) for row in defined
    )
    ordered = [
        [ratio for _, ratio in sorted(entry)]
        for entry in by_cell.values()
        if len(entry) > 1
    ]
    rows = [{"times": entry[-1] / entry[0]} for entry in ordered if entry[0]]
    marks = (entry == sorted(entry) and entry[0] < entry[-1] for entry in ordered)
    words = (
        "harm ratio at the largest weight over "
        f"that at the smallest {span(rows, 'times', percent=False)}"
    )
    return of_every(marks, words) if ordered else None


def published_planners(run: RunRows) -> Outcome | None:
    """Escalation harms PDM-Closed too."""
    rows = run.of("signs", system=("pdm-closed-safety", "pdm-closed-scalar"))
    rows = [row for row in rows if row["affected"] >= LEAST_AFFECTED]
    words = f"{_shares(rows)}, harm ratio {span(rows, 'harm_ratio', percent=False)}"
    return (
        of_every((above(row, "harm_rate", SOME) for row in rows), words)
        if rows
        else None
    )


def planners_differ(run: RunRows) -> Outcome | None:
    """IDM responds to escalation in fewer states than PDM-Closed."""
    by_loss = {
        row["system"]: row
        for row in run.of("signs", system=("pdm-closed-safety", "idm-safety"))
    }
    if len(by_loss) < 2:
        return None
    pdm, idm = (
        by_loss["pdm-closed-safety"]["affected"],
        by_loss["idm-safety"]["affected"],
    )
    states = by_loss["idm-safety"]["inputs"]
    words = (
        f"safety loss changes on {idm} of {states:,} states "
        f"for IDM, on {pdm} for PDM-Closed"
    )
    return of_every([idm < pdm / 2 or (None if idm < pdm else False)], words)


def viable(run: RunRows) -> Outcome | None:
    """The controllers beat predictors that look at nothing."""
    rows = run.of("viability", system=CONTROLLERS)
    words = (
        f"margin over the best trivial predictor {span(rows, 'margin', percent=False)}"
    )
    return (
        of_every((above(row, "margin", 0.0) for row in rows), words) if rows else None
    )


def _bands(run: RunRows) -> list[Row]:
    return [
        row
        for row in run.of("lift")
        if row["mean_m"] is not None and row["to_m"] <= 30 and row["detections"] >= 30
    ]


def lift_overestimates(run: RunRows) -> Outcome | None:
    """The lift overestimates range up to 30 m."""
    rows = _bands(run)
    words = f"mean error up to 30 m {span(rows, 'mean_m', percent=False)} m"
    marks = (row["mean_m"] > 0 for row in rows)
    return of_every(marks, words) if rows else None


def lift_shared(run: RunRows) -> Outcome | None:
    """Both modes share the lift's bias."""
    by_band = lists_by_key(
        ((row["cell"], row["cls"], row["from_m"]), row["mean_m"]) for row in _bands(run)
    )
    rows = [
        {"apart": max(entry) - min(entry)}
        for entry in by_band.values()
        if len(entry) > 1
    ]
    words = f"modes differ by {span(rows, 'apart', percent=False)} m"
    return (
        of_every((at_most(row["apart"], 0.12, 0.5) for row in rows), words)
        if rows
        else None
    )


GAINS = ("E1", "E3", "E5", "E8")
"""The four gains of the paper's table: misses, misses and false positives, combined
error, risk-weighted.
"""
MISSES, RISK = "E1", "E8"
FIXED = "target-free"
"""The pool of signals that are fitted to neither of the two objectives."""


def _agreement(run: RunRows) -> list[Row]:
    rows = run.controlled("agreement", loss=GAINS)
    return [row for row in rows if row["both"] >= LEAST_AFFECTED]


def signs_disagree(run: RunRows) -> Outcome | None:
    """Signs of perception gain and decision value differ often."""
    rows = _agreement(run)
    return (
        of_every(
            (above(row, "disagree", 0.10) for row in rows),
            f"signs differ on {span(rows, 'disagree')}",
        )
        if rows
        else None
    )


def signs_disagree_range(run: RunRows) -> Outcome | None:
    """Signs of perception gain and decision value differ on 25 to 51 % of the
    inputs.
    """
    rows = _agreement(run)
    marks = (within(row, "disagree", 0.25, 0.51) for row in rows)
    return (
        of_every(marks, f"signs differ on {span(rows, 'disagree')}") if rows else None
    )


def weak_correlation(run: RunRows) -> Outcome | None:
    """Gain hardly correlates with value."""
    rows = [row for row in _agreement(run) if row["spearman"] is not None]
    words = f"Spearman's correlation {span(rows, 'spearman', percent=False)}"
    return (
        of_every((at_most(row["spearman"], 0.11, 0.30) for row in rows), words)
        if rows
        else None
    )


def harm_with_gain(run: RunRows) -> Outcome | None:
    """Where perception improves, decisions get worse on some inputs."""
    rows = [row for row in _agreement(run) if row["improved"] >= LEAST_AFFECTED]
    words = f"harmed where perception improves {span(rows, 'harm_given_gain')}"
    return (
        of_every((above(row, "harm_given_gain", 0.10) for row in rows), words)
        if rows
        else None
    )


def opposite_consumers(run: RunRows) -> Outcome | None:
    """One perception change has opposite values for two consumers."""
    rows = [row for row in run.of("consumers") if row["both"] >= LEAST_AFFECTED]
    words = (
        f"opposite signs on {span(rows, 'opposite_share')} of "
        "the inputs that both respond to"
    )
    return (
        of_every((above(row, "opposite_share", 0.10) for row in rows), words)
        if rows
        else None
    )


def unordered_consumers(run: RunRows) -> Outcome | None:
    """The rankings of two consumers are unrelated."""
    rows = [
        row
        for row in run.of("consumers")
        if row["gamma"] is not None and row["both"] >= LEAST_AFFECTED
    ]
    words = (
        f"gamma {span(rows, 'gamma', percent=False)}, "
        f"ordered differently {span(rows, 'ordered_differently')}"
    )
    return (
        of_every((at_most(abs(row["gamma"]), 0.10, 0.30) for row in rows), words)
        if rows
        else None
    )


def _diagnostics(run: RunRows) -> list[list[Row]]:
    """Diagnostics at 20 %, target by target."""
    rows = [
        row
        for row in run.of("targets", kind="diagnostic", alpha=0.2)
        if row["ndg"] is not None
    ]
    return [
        list(group)
        for _, group in groupby(
            sorted(rows, key=lambda r: str(r["target"])), lambda r: r["target"]
        )
    ]


def no_diagnostic(run: RunRows) -> Outcome | None:
    """No perception diagnostic comes near the oracle."""
    best = [max(rows, key=lambda row: row["ndg"]) for rows in _diagnostics(run)]
    words = f"best diagnostic of a cell: nDG {span(best, 'ndg', percent=False)}"
    return (
        of_every((at_most(row["ndg"], 0.7, 0.9) for row in best), words)
        if best
        else None
    )


def best_diagnostic_depends(run: RunRows) -> Outcome | None:
    """The best diagnostic differs from consumer to consumer."""
    leaders: dict[tuple[object, ...], list[str]] = {}
    for rows in _diagnostics(run):
        top = max(rows, key=lambda row: row["ndg"])
        about = run.cells.get(top["target"], {})
        if about.get("system") in CONTROLLERS:
            leaders.setdefault(
                (about["cheap"], about["full"], about["geometry"]), []
            ).append(top["score"])
    pairs = [names for names in leaders.values() if len(names) == 2]
    every = [name for pair in pairs for name in pair]
    names = sorted(dict.fromkeys(every), key=every.count, reverse=True)
    words = (
        "leading "
        "most "
        f"often: {', '.join(f'{name} ({every.count(name)})' for name in names[:3])}"
    )
    return of_most((one != other for one, other in pairs), words) if pairs else None


def _sweep(run: RunRows, field: str) -> list[Row]:
    """Configurations of the paper's two tasks in which a field is defined, with enough
    affected inputs.
    """
    rows = run.of("robustness", task=("longitudinal", "lateral"))
    return [
        row
        for row in rows
        if row[field] is not None and row["affected"] >= LEAST_AFFECTED
    ]


def misses_recover_little(run: RunRows) -> Outcome | None:
    """The false-negative gain recovers at most a third of the oracle's value."""
    rows = _sweep(run, "fn_ndg")
    negative = sum(row["fn_ndg"] < 0 for row in rows)
    words = f"nDG {span(rows, 'fn_ndg', percent=False)}, negative in {negative}"
    marks = (
        True
        if row["fn_ndg"] <= 0.337
        else False
        if above(row, "fn_ndg", 0.337)
        else None
        for row in rows
    )
    return of_every(marks, words) if rows else None


def multi_metric(run: RunRows) -> Outcome | None:
    """A model of all perception errors seldom passes half of the oracle's value."""
    rows = _sweep(run, "multi_ndg")
    words = (
        "nDG "
        f"{span(rows, 'multi_ndg', percent=False)}, "
        f"above 0.5 in {sum(row['multi_ndg'] > 0.5 for row in rows)}"
    )
    return of_most((row["multi_ndg"] <= 0.5 for row in rows), words) if rows else None


def no_shared_optimum(run: RunRows) -> Outcome | None:
    """Perception and decision gain have different winners."""
    rows = run.of("perception-ranking", pool=FIXED, loss=MISSES)
    rows = [row for row in rows if row.get("cell")]
    taus = [row["tau"] for row in rows if row["tau"] is not None]
    words = f"median Kendall's tau {median(taus):.2f}" if taus else "no tau is defined"
    return of_most((not row["common"] for row in rows), words) if rows else None


def _regret(run: RunRows, loss: str) -> Outcome | None:
    rows = [
        row
        for row in run.of("selection-regret", pool=FIXED, loss=loss, alpha=0.2)
        if not row.get("cell")
    ]
    if not rows or rows[0]["regret_lo"] is None:
        return None
    row = rows[0]
    lo, hi = 100 * row["regret_lo"], 100 * row["regret_hi"]
    words = (
        f"{100 * row['regret']:.1f} % [{lo:.1f}, {hi:.1f}] of the all-cheap loss over "
        f"{row['cells']} cells; both choose the same in {row['alike']}"
    )
    return of_mean(above(row, "regret", 0.0), words)


def selection_regret(run: RunRows) -> Outcome | None:
    """Choosing by the false-negative gain costs decision value."""
    return _regret(run, MISSES)


def risk_regret(run: RunRows) -> Outcome | None:
    """The cost of choosing by the risk-weighted gain is not resolved, as in the
    paper.
    """
    outcome = _regret(run, RISK)
    if outcome is None:
        return None
    same = (
        "unresolved here as in the paper"
        if outcome.verdict == OPEN
        else "resolved here, not in the paper"
    )
    return Outcome(
        "holds" if outcome.verdict == OPEN else "does not hold",
        f"{outcome.words}; {same}",
    )
