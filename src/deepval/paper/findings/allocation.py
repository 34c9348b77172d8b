"""What the paper finds on allocators -> how that is told from the rows of a run."""

from collections.abc import Sequence
from statistics import median

from deepval.paper.analyses.contrasts import ALL
from deepval.paper.findings.finding import CONTROLLERS, PUBLISHED, RunRows
from deepval.paper.findings.verdicts import OPEN, Outcome, Row, at_most, of_every, of_mean, of_most, span

HEURISTICS = ("uncertainty", "criticality")


def _held_out(run: RunRows, **fields: object) -> list[Row]:
    """Allocators on test units at 20 %, allocators free."""
    rows = run.of("held-out", alpha=0.2, **{"system": CONTROLLERS, **fields})
    return [row for row in rows if row.get("kind", "selection") == "selection" and row.get("verdict")]


def _verdicts(rows: Sequence[Row]) -> str:
    told = [row["verdict"] for row in rows]
    return f"better than random in {told.count('better')} of {len(told)} rows, worse in {told.count('worse')}"


def heuristics(run: RunRows) -> Outcome | None:
    """Heuristics never beat random."""
    rows = _held_out(run, allocator=HEURISTICS)
    marks = (row["verdict"] != "better" for row in rows)
    return of_every(marks, _verdicts(rows)) if rows else None


def learned_find_signal(run: RunRows) -> Outcome | None:
    """Some learned allocators beat random in some cells, beyond chance."""
    rows = _held_out(run, allocator=PUBLISHED)
    better = sum(row["verdict"] == "better" for row in rows)
    worse = sum(row["verdict"] == "worse" for row in rows)
    mark = None if better <= 0.05 * len(rows) else True if better > 2 * worse else None
    return of_mean(False if rows and better < worse else mark, _verdicts(rows)) if rows else None


def none_wins_everywhere(run: RunRows) -> Outcome | None:
    """No allocator beats random in every cell, nor does any in most."""
    by_name: dict[str, list[Row]] = {}
    for row in _held_out(run, allocator=PUBLISHED):
        by_name.setdefault(row["allocator"], []).append(row)
    wins = {name: sum(row["verdict"] == "better" for row in rows) / len(rows) for name, rows in by_name.items()}
    words = ", ".join(f"{name} {100 * share:.0f} %" for name, share in wins.items())
    return of_every((share <= 0.5 for share in wins.values()), f"cells won: {words}") if wins else None


def ego_speed(run: RunRows) -> Outcome | None:
    """Ego speed is strong on KITTI braking."""
    rows = _held_out(run, allocator="ego-speed", system="braking")
    marks = ({"better": True, "worse": False}.get(row["verdict"]) for row in rows)
    return of_most(marks, f"nDG {span(rows, 'ndg', percent=False)}; {_verdicts(rows)}") if rows else None


def ego_speed_leads(run: RunRows) -> Outcome | None:
    """Ego speed has the best point estimate of the paper's deployable signals on KITTI braking."""
    by_cell: dict[str, dict[str, float]] = {}
    for row in _held_out(run, allocator=("ego-speed", *HEURISTICS, *PUBLISHED), system="braking"):
        if row["ndg"] is not None:
            by_cell.setdefault(row["cell"], {})[row["allocator"]] = row["ndg"]
    asked = [entry for entry in by_cell.values() if "ego-speed" in entry]
    leads = [max(entry, key=lambda name: entry[name]) for entry in asked]
    names = sorted(dict.fromkeys(leads), key=leads.count, reverse=True)
    words = ", ".join(f"{name} {leads.count(name)}" for name in names)
    return of_most((name == "ego-speed" for name in leads), f"leading: {words}") if leads else None


def more_benefit(run: RunRows) -> Outcome | None:
    """Learned allocators capture more benefit than random."""
    return _against_random(run, "benefit", better=True)


def as_much_harm(run: RunRows) -> Outcome | None:
    """Learned allocators select nearly as much harm as random."""
    return _against_random(run, "harm", better=None)


def _against_random(run: RunRows, of: str, *, better: bool | None) -> Outcome | None:
    """Means over cells of benefit or harm less random's, by allocator."""
    rows = [row for row in run.of("benefit-harm", alpha=0.2, allocator=PUBLISHED) if not row.get("cell")]
    field = f"{of}_difference"
    rows = [row for row in rows if row["kind"] == "selection" and row[f"{field}_lo"] is not None]
    resolved = [(row[f"{field}_lo"] > 0) - (row[f"{field}_hi"] < 0) for row in rows]
    words = f"{of} less random's {span(rows, field)} of the all-cheap loss; "
    words += f"more for {resolved.count(1)} of {len(rows)}, less for {resolved.count(-1)}"
    marks = [(True if sign > 0 else False if sign < 0 else None) if better else sign == 0 for sign in resolved]
    return of_most(marks, words) if rows else None


def trees_ignore_seeds(run: RunRows) -> Outcome | None:
    """Boosted fits are the same for every seed."""
    rows = run.of("seeds", allocator=("gate-gbm", "router-gbm-value", "router-gbm-binary"))
    return of_every((row["identical"] for row in rows), "same bits for six seeds") if rows else None


def networks_vary(run: RunRows) -> Outcome | None:
    """Networks depend on the seed, and with them their verdicts."""
    rows = run.of("seeds", allocator=("router-mlp-value", "router-mlp-binary"))
    spans = [
        {"span": max(known) - min(known), "split": len(set(row["verdicts"])) > 1}
        for row in rows
        if (known := [value for value in row["ndg"] if value is not None])
    ]
    words = f"span of nDG over six seeds {span(spans, 'span', percent=False)}; "
    words += f"the verdict depends on the seed in {sum(entry['split'] for entry in spans)}"
    marks = (True if entry["span"] >= 0.05 else at_most(-entry["span"], -0.05, -0.01) for entry in spans)
    return of_most(marks, words) if spans else None


def _transferred(run: RunRows) -> tuple[list[Row], list[Row]]:
    rows = run.of("transfer", allocator=PUBLISHED)
    return [r for r in rows if r["source"] == r["target"]], [r for r in rows if r["source"] != r["target"]]


def transfer_costs_little(run: RunRows) -> Outcome | None:
    """Fitting for another consumer costs little in the median."""
    _, apart = _transferred(run)
    regrets = [row["regret"] for row in apart if row["regret"] is not None]
    if not regrets:
        return None
    middle = median(regrets)
    words = f"median regret {middle:+.3f} over {len(regrets)} entries"
    return of_mean(True if abs(middle) <= 0.02 else False if middle < -0.05 else None, words)


def own_consumer_wins_more(run: RunRows) -> Outcome | None:
    """Allocators beat random more often for the consumer they were fitted for."""
    own, apart = ([row for row in rows if row["alpha"] == 0.2] for rows in _transferred(run))
    if not own or not apart:
        return None
    wins = [sum(row["verdict"] == "better" for row in rows) / len(rows) for rows in (own, apart)]
    words = f"own: better in {100 * wins[0]:.0f} % of {len(own)}; transferred: in {100 * wins[1]:.0f} % of {len(apart)}"
    return of_mean(None if wins[0] == wins[1] else wins[0] > wins[1], words)


def objective_swap(run: RunRows) -> Outcome | None:
    """Training on perception gain instead makes no resolved difference on average."""
    rows = [row for row in run.of("objective-swap", alpha=0.2, recipe=PUBLISHED, cell=ALL) if row["lo"] is not None]
    told = [f"{r['recipe']}, {r['against']} {r['difference']:+.3f} [{r['lo']:.3f}, {r['hi']:.3f}]" for r in rows]
    marks = (row["lo"] <= 0 <= row["hi"] for row in rows)
    return of_every(marks, f"decision value less the gain: {'; '.join(told)}") if rows else None


def published_objectives(run: RunRows) -> Outcome | None:
    """Published routing objectives win less often than decision value."""
    rows = [row for row in run.of("published-objectives") if row["cell"] != ALL]
    verdicts: dict[str, dict[tuple[str, str, float], str | None]] = {}
    for row in rows:
        place = (row["recipe"], row["cell"], row["alpha"])
        verdicts.setdefault(row["against"], {})[place] = row["against_versus_random"]
        verdicts.setdefault(row["label"], {})[place] = row["versus_random"]
    wins = {label: list(entry.values()).count("better") for label, entry in verdicts.items()}
    own, others = wins.pop("value", None), list(wins.values())
    if own is None or not others:
        return None
    words = f"wins against random: value {own} of {len(verdicts['value'])}"
    words += "".join(f", {label} {number} of {len(verdicts[label])}" for label, number in wins.items())
    return of_mean(True if own > max(others) else False if own < min(others) else None, words)


def out_of_fold_flatters(run: RunRows) -> Outcome | None:
    """Out of fold over all units, gates look stronger than held out."""
    rows = run.of("out-of-fold", alpha=0.2, allocator=("gate-ridge", "gate-gbm"))
    pairs = [(row["ndg"], row["held_out_ndg"]) for row in rows]
    more = [{"more": a - b} for a, b in pairs if a is not None and b is not None]
    return (
        of_most((row["more"] > 0 for row in more), f"out of fold less held out {span(more, 'more', percent=False)}")
        if more
        else None
    )


def wins_rest_on_many_units(run: RunRows) -> Outcome | None:
    """Wins on the core track do not rest on one unit."""
    better = {
        (row["cell"], row["allocator"]) for row in _held_out(run, allocator=PUBLISHED) if row["verdict"] == "better"
    }
    rows = [row for row in run.of("concentration", alpha=0.2) if (row["cell"], row["allocator"]) in better]
    rows = [row for row in rows if row["ndg_without_lo"] is not None and row["ndg"]]
    kept = [{"kept": row["ndg_without_lo"] / row["ndg"]} for row in rows]
    words = f"least nDG with one unit left out, of the whole {span(kept, 'kept')}"
    marks = (True if entry["kept"] >= 0.5 else False if entry["kept"] <= 0 else None for entry in kept)
    if not run.of("concentration"):
        return None
    return of_every(marks, words) if kept else Outcome(OPEN, "no win to look at")
