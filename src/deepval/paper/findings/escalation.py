"""What the paper finds that escalation does -> how that is told from the rows of a run."""

from collections.abc import Sequence

from deepval.paper.findings.finding import CONTROLLERS, LEAST_AFFECTED, MONOCULAR, ORACLE, RunRows
from deepval.paper.findings.verdicts import Outcome, Row, above, apart, at_most, below, of_every, of_most, span, within

SOME = 0.10
"""What counts as a substantial share: one in ten."""


def _harm(run: RunRows, geometry: str, system: tuple[str, ...] = CONTROLLERS) -> list[Row]:
    return run.controlled("signs", geometry=geometry, system=system)


def _shares(rows: Sequence[Row]) -> str:
    return f"harmed {span(rows, 'harm_rate')} (least / median / largest)"


def signs_vary(run: RunRows) -> Outcome | None:
    """Harm in every monocular cell."""
    rows = _harm(run, MONOCULAR)
    return of_every((above(row, "harm_rate", SOME) for row in rows), _shares(rows)) if rows else None


def signs_range(run: RunRows) -> Outcome | None:
    """34 to 54 % in every monocular cell."""
    rows = _harm(run, MONOCULAR)
    return of_every((within(row, "harm_rate", 0.34, 0.54) for row in rows), _shares(rows)) if rows else None


def net_benefit(run: RunRows) -> Outcome | None:
    """Harm ratios below 1 in most monocular cells."""
    rows = _harm(run, MONOCULAR)
    words = f"harm ratio {span(rows, 'harm_ratio', percent=False)}"
    return of_most((below(row, "harm_ratio", 1.0) for row in rows), words) if rows else None


def no_upper_bound(run: RunRows) -> Outcome | None:
    """The oracle at 20 % removes more than escalating everything."""
    rows = [row for row in run.controlled("signs") if row["oracle_share"] is not None]
    more = [{"more": row["oracle_share"] - row["all_full_share"]} for row in rows]
    words = f"Oracle@20 less all-full {span(more, 'more')} of the all-cheap loss"
    return of_every((row["more"] > 0 for row in more), words) if rows else None


def oracle_geometry_braking(run: RunRows) -> Outcome | None:
    """Braking is harmed with reference geometry too."""
    rows = _harm(run, ORACLE, ("braking",))
    return of_every((above(row, "harm_rate", SOME) for row in rows), _shares(rows)) if rows else None


def oracle_geometry_trajectory(run: RunRows) -> Outcome | None:
    """The trajectory controller's harm ratio falls with reference geometry."""
    mono = {(r["cheap"], r["full"]): r for r in _harm(run, MONOCULAR, ("receding-horizon",))}
    rows = [r for r in _harm(run, ORACLE, ("receding-horizon",)) if (r["cheap"], r["full"]) in mono]
    small = sum(row["harm_ratio"] is not None and row["harm_ratio"] < 0.06 for row in rows)
    words = f"harm ratio {span(rows, 'harm_ratio', percent=False)} with oracle geometry, below 0.06 in {small}; "
    words += f"{span(mono.values(), 'harm_ratio', percent=False)} with monocular"
    marks = (apart(mono[row["cheap"], row["full"]], row, "harm_ratio") for row in rows)
    return of_most(marks, words) if rows else None


def _by_effect(run: RunRows, **fields: str) -> list[tuple[Row, Row]]:
    """Rows of harmed and of helped inputs of each braking cell that has both."""
    rows = run.of("mechanism", system="braking", **fields)
    by_cell: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_cell.setdefault(row["cell"], {})[row["effect"]] = row
    pairs = [(entry["harmed"], entry["helped"]) for entry in by_cell.values() if {"harmed", "helped"} <= set(entry)]
    return [(a, b) for a, b in pairs if min(a["inputs"], b["inputs"]) >= 10]


def reacted_false_positives(run: RunRows) -> Outcome | None:
    """Most harmed inputs have an added false positive that the controller reacts to."""
    rows = [harmed for harmed, _ in _by_effect(run, geometry=ORACLE)]
    words = f"on harmed inputs {span(rows, 'reacted')}"
    return of_every((above(row, "reacted", 0.5) for row in rows), words) if rows else None


def harmed_against_helped(run: RunRows) -> Outcome | None:
    """Reactions to false positives are more frequent on harmed inputs than on helped ones."""
    pairs = _by_effect(run, geometry=ORACLE)
    words = f"harmed {span((a for a, _ in pairs), 'reacted')}, helped {span((b for _, b in pairs), 'reacted')}"
    return of_every((apart(a, b, "reacted") for a, b in pairs), words) if pairs else None


def needed_misses(run: RunRows) -> Outcome | None:
    """Recovered misses that are needed are more frequent on helped inputs."""
    pairs = _by_effect(run, geometry=ORACLE)
    words = f"helped {span((b for _, b in pairs), 'needed')}, harmed {span((a for a, _ in pairs), 'needed')}"
    return of_every((apart(b, a, "needed") for a, b in pairs), words) if pairs else None


def changes_by_sign(run: RunRows) -> Outcome | None:
    """Harmed inputs add more false positives and recover fewer misses."""
    pairs = _by_effect(run)
    fp = [{"d": a["false_positives"] - b["false_positives"]} for a, b in pairs]
    fn = [{"d": a["misses"] - b["misses"]} for a, b in pairs]
    words = f"false positives, harmed less helped {span(fp, 'd', percent=False)}; misses {span(fn, 'd', percent=False)}"
    marks = [
        True if x["d"] > 0 and y["d"] > 0 else False if x["d"] < 0 and y["d"] < 0 else None
        for x, y in zip(fp, fn, strict=True)
    ]
    return of_most(marks, words) if pairs else None


def _harm_of(run: RunRows, system: str, terms: tuple[str, ...]) -> list[Row]:
    """Share of the harm that some terms make, by cell."""
    shares: dict[str, list[float | None]] = {}
    asked = {row["cell"] for row in run.controlled("signs", system=system)}
    for row in run.of("composition", system=system, term=terms):
        if row["cell"] in asked:
            shares.setdefault(row["cell"], []).append(row["harm_share"])
    return [{"share": sum(map(float, entry))} for entry in shares.values() if None not in entry]  # pyright: ignore


def over_braking(run: RunRows) -> Outcome | None:
    """Harm to braking is over-braking."""
    rows = _harm_of(run, "braking", ("excess",))
    marks = (True if row["share"] >= 0.73 else False if row["share"] < 0.5 else None for row in rows)
    return of_every(marks, f"share of the harm {span(rows, 'share')}") if rows else None


def collision_and_clearance(run: RunRows) -> Outcome | None:
    """Harm to the trajectory controller is collision and clearance."""
    rows = _harm_of(run, "receding-horizon", ("collision", "clearance"))
    marks = (True if row["share"] >= 0.9 else False if row["share"] < 0.5 else None for row in rows)
    return of_every(marks, f"share of the harm {span(rows, 'share')}") if rows else None


def own_operating_points(run: RunRows) -> Outcome | None:
    """Harm persists where each mode has its own threshold."""
    rows = run.controlled("operating-points", geometry=MONOCULAR, scheme=("S1", "S2", "S3"))
    rows = [row for row in rows if row["harm_rate"] is not None]
    words = f"{_shares(rows)}, harm ratio {span(rows, 'harm_ratio', percent=False)}"
    return of_every((above(row, "harm_rate", SOME) for row in rows), words) if rows else None


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
        entry for entry in by_cell.values() if len(entry) == 2 and None not in (e["harm_rate"] for e in entry.values())
    ]
    rows = [{"moved": abs(entry[True]["harm_rate"] - entry[False]["harm_rate"])} for entry in both]
    words = f"harmed share moves by {span(rows, 'moved')}"
    return of_every((at_most(row["moved"], 0.068, 0.15) for row in rows), words) if rows else None


def loss_weights(run: RunRows) -> Outcome | None:
    """Loss weights and corridor do not make the harm."""
    by_cell: dict[str, list[float]] = {}
    for row in run.controlled("sensitivity", geometry=MONOCULAR):
        if row["harm_rate"] is not None:
            by_cell.setdefault(row["cell"], []).append(row["harm_rate"])
    rows = [{"span": max(entry) - min(entry), "least": min(entry)} for entry in by_cell.values()]
    words = f"span of the harmed share over variants {span(rows, 'span')}, least share {span(rows, 'least')}"
    marks = (at_most(row["span"], 0.05, 0.15) for row in rows)
    return of_every(marks, words) if rows else None


def over_braking_weight(run: RunRows) -> Outcome | None:
    """The harm ratio rises with the over-braking weight."""
    by_cell: dict[str, list[tuple[float, float]]] = {}
    for row in run.controlled("sensitivity", system="braking", constant="excess_weight"):
        if row["harm_ratio"] is not None:
            by_cell.setdefault(row["cell"], []).append((row["value"], row["harm_ratio"]))
    ordered = [[ratio for _, ratio in sorted(entry)] for entry in by_cell.values() if len(entry) > 1]
    rows = [{"times": entry[-1] / entry[0]} for entry in ordered if entry[0]]
    marks = (entry == sorted(entry) and entry[0] < entry[-1] for entry in ordered)
    words = f"harm ratio at the largest weight over that at the smallest {span(rows, 'times', percent=False)}"
    return of_every(marks, words) if ordered else None


def published_planners(run: RunRows) -> Outcome | None:
    """Escalation harms PDM-Closed too."""
    rows = run.of("signs", system=("pdm-closed-safety", "pdm-closed-scalar"))
    rows = [row for row in rows if row["affected"] >= LEAST_AFFECTED]
    words = f"{_shares(rows)}, harm ratio {span(rows, 'harm_ratio', percent=False)}"
    return of_every((above(row, "harm_rate", SOME) for row in rows), words) if rows else None


def planners_differ(run: RunRows) -> Outcome | None:
    """IDM responds to fewer states than PDM-Closed."""
    by_loss = {row["system"]: row for row in run.of("signs", system=("pdm-closed-safety", "idm-safety"))}
    if len(by_loss) < 2:
        return None
    pdm, idm = by_loss["pdm-closed-safety"]["affected"], by_loss["idm-safety"]["affected"]
    states = by_loss["idm-safety"]["inputs"]
    words = f"safety loss changes on {idm} of {states:,} states for IDM, on {pdm} for PDM-Closed"
    return of_every([idm < pdm / 2 or (None if idm < pdm else False)], words)


def viable(run: RunRows) -> Outcome | None:
    """The controllers beat what looks at nothing."""
    rows = run.of("viability", system=CONTROLLERS)
    words = f"margin over the best trivial predictor {span(rows, 'margin', percent=False)}"
    return of_every((above(row, "margin", 0.0) for row in rows), words) if rows else None


def _bands(run: RunRows) -> list[Row]:
    return [
        row for row in run.of("lift") if row["mean_m"] is not None and row["to_m"] <= 30 and row["detections"] >= 30
    ]


def lift_overestimates(run: RunRows) -> Outcome | None:
    """The lift overestimates range up to 30 m."""
    rows = _bands(run)
    words = f"mean error up to 30 m {span(rows, 'mean_m', percent=False)} m"
    marks = (row["mean_m"] > 0 for row in rows)
    return of_every(marks, words) if rows else None


def lift_shared(run: RunRows) -> Outcome | None:
    """Both modes share the lift's bias."""
    by_band: dict[tuple[object, ...], list[float]] = {}
    for row in _bands(run):
        by_band.setdefault((row["cell"], row["cls"], row["from_m"]), []).append(row["mean_m"])
    rows = [{"apart": max(entry) - min(entry)} for entry in by_band.values() if len(entry) > 1]
    words = f"modes differ by {span(rows, 'apart', percent=False)} m"
    return of_every((at_most(row["apart"], 0.12, 0.5) for row in rows), words) if rows else None
