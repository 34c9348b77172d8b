"""Findings of the paper on allocators: held out, on other labels, and charged with
their cost.
"""

from collections.abc import Sequence
from statistics import median

from deepval.paper.analyses.contrasts import ALL
from deepval.paper.findings.rules import (
    CONTROLLERS,
    OPEN,
    PUBLISHED,
    Outcome,
    Row,
    RunRows,
    at_most,
    of_every,
    of_mean,
    of_most,
    span,
)
from deepval.results import lists_by_key

HEURISTICS = ("uncertainty", "criticality")


def _held_out(run: RunRows, **fields: object) -> list[Row]:
    """Allocators on test units at 20 %, allocators free."""
    rows = run.of("held-out", alpha=0.2, **{"system": CONTROLLERS, **fields})
    return [
        row
        for row in rows
        if row.get("kind", "selection") == "selection" and row.get("verdict")
    ]


def _verdicts(rows: Sequence[Row]) -> str:
    verdicts = [row["verdict"] for row in rows]
    return (
        "better than random "
        f"in {verdicts.count('better')} "
        f"of {len(verdicts)} rows, worse in {verdicts.count('worse')}"
    )


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
    return (
        of_mean(False if rows and better < worse else mark, _verdicts(rows))
        if rows
        else None
    )


def none_wins_everywhere(run: RunRows) -> Outcome | None:
    """No allocator beats random in more than half of the cells."""
    by_name = lists_by_key(
        (row["allocator"], row) for row in _held_out(run, allocator=PUBLISHED)
    )
    wins = {
        name: sum(row["verdict"] == "better" for row in rows) / len(rows)
        for name, rows in by_name.items()
    }
    words = ", ".join(f"{name} {100 * share:.0f} %" for name, share in wins.items())
    return (
        of_every((share <= 0.5 for share in wins.values()), f"cells won: {words}")
        if wins
        else None
    )


def ego_speed(run: RunRows) -> Outcome | None:
    """Ego speed is strong on KITTI braking."""
    rows = _held_out(run, allocator="ego-speed", system="braking")
    marks = ({"better": True, "worse": False}.get(row["verdict"]) for row in rows)
    return (
        of_most(marks, f"nDG {span(rows, 'ndg', percent=False)}; {_verdicts(rows)}")
        if rows
        else None
    )


def ego_speed_leads(run: RunRows) -> Outcome | None:
    """Ego speed has the best point estimate of the paper's deployable signals on KITTI
    braking.
    """
    by_cell: dict[str, dict[str, float]] = {}
    for row in _held_out(
        run, allocator=("ego-speed", *HEURISTICS, *PUBLISHED), system="braking"
    ):
        if row["ndg"] is not None:
            by_cell.setdefault(row["cell"], {})[row["allocator"]] = row["ndg"]
    asked = [entry for entry in by_cell.values() if "ego-speed" in entry]
    leads = [max(entry, key=lambda name: entry[name]) for entry in asked]
    names = sorted(dict.fromkeys(leads), key=leads.count, reverse=True)
    words = ", ".join(f"{name} {leads.count(name)}" for name in names)
    return (
        of_most((name == "ego-speed" for name in leads), f"leading: {words}")
        if leads
        else None
    )


def more_benefit(run: RunRows) -> Outcome | None:
    """Learned allocators capture more benefit than random."""
    return _against_random(run, "benefit", better=True)


def as_much_harm(run: RunRows) -> Outcome | None:
    """Learned allocators select nearly as much harm as random."""
    return _against_random(run, "harm", better=None)


def _against_random(run: RunRows, of: str, *, better: bool | None) -> Outcome | None:
    """Benefit or harm of each allocator less that of random, as means over cells."""
    rows = [
        row
        for row in run.of("benefit-harm", alpha=0.2, allocator=PUBLISHED)
        if not row.get("cell")
    ]
    field = f"{of}_difference"
    rows = [
        row
        for row in rows
        if row["kind"] == "selection" and row[f"{field}_lo"] is not None
    ]
    resolved = [(row[f"{field}_lo"] > 0) - (row[f"{field}_hi"] < 0) for row in rows]
    words = f"{of} less random's {span(rows, field)} of the all-cheap loss; "
    words += (
        f"more for {resolved.count(1)} of {len(rows)}, less for {resolved.count(-1)}"
    )
    marks = [
        (True if sign > 0 else False if sign < 0 else None) if better else sign == 0
        for sign in resolved
    ]
    return of_most(marks, words) if rows else None


def trees_ignore_seeds(run: RunRows) -> Outcome | None:
    """Boosted fits are the same for every seed."""
    rows = run.of(
        "seeds", allocator=("gate-gbm", "router-gbm-value", "router-gbm-binary")
    )
    return (
        of_every((row["identical"] for row in rows), "same bits for six seeds")
        if rows
        else None
    )


def networks_vary(run: RunRows) -> Outcome | None:
    """Networks depend on the seed, and so do their verdicts."""
    rows = run.of("seeds", allocator=("router-mlp-value", "router-mlp-binary"))
    spans = [
        {"span": max(known) - min(known), "split": len(set(row["verdicts"])) > 1}
        for row in rows
        if (known := [value for value in row["ndg"] if value is not None])
    ]
    words = f"span of nDG over six seeds {span(spans, 'span', percent=False)}; "
    words += (
        f"the verdict depends on the seed in {sum(entry['split'] for entry in spans)}"
    )
    marks = (
        True if entry["span"] >= 0.05 else at_most(-entry["span"], -0.05, -0.01)
        for entry in spans
    )
    return of_most(marks, words) if spans else None


def _transferred(run: RunRows) -> tuple[list[Row], list[Row]]:
    rows = run.of("transfer", allocator=PUBLISHED)
    return [r for r in rows if r["source"] == r["target"]], [
        r for r in rows if r["source"] != r["target"]
    ]


def transfer_costs_little(run: RunRows) -> Outcome | None:
    """Fitting for another consumer costs little in the median."""
    _, apart = _transferred(run)
    regrets = [row["regret"] for row in apart if row["regret"] is not None]
    if not regrets:
        return None
    middle = median(regrets)
    words = f"median regret {middle:+.3f} over {len(regrets)} entries"
    return of_mean(
        True if abs(middle) <= 0.02 else False if middle < -0.05 else None, words
    )


def own_consumer_wins_more(run: RunRows) -> Outcome | None:
    """Allocators beat random more often for the consumer they were fitted for."""
    own, apart = (
        [row for row in rows if row["alpha"] == 0.2] for rows in _transferred(run)
    )
    if not own or not apart:
        return None
    wins = [
        sum(row["verdict"] == "better" for row in rows) / len(rows)
        for rows in (own, apart)
    ]
    words = (
        f"own: better in {100 * wins[0]:.0f} % "
        f"of {len(own)}; transferred: in {100 * wins[1]:.0f} % of {len(apart)}"
    )
    return of_mean(None if wins[0] == wins[1] else wins[0] > wins[1], words)


def objective_swap(run: RunRows) -> Outcome | None:
    """Training on perception gain instead makes no resolved difference on average."""
    rows = [
        row
        for row in run.of("objective-swap", alpha=0.2, recipe=PUBLISHED, cell=ALL)
        if row["lo"] is not None
    ]
    texts = [
        (
            f"{r['recipe']}, {r['against']} "
            f"{r['difference']:+.3f} [{r['lo']:.3f}, {r['hi']:.3f}]"
        )
        for r in rows
    ]
    marks = (row["lo"] <= 0 <= row["hi"] for row in rows)
    return (
        of_every(marks, f"decision value less the gain: {'; '.join(texts)}")
        if rows
        else None
    )


def published_objectives(run: RunRows) -> Outcome | None:
    """Published routing objectives win less often than decision value."""
    rows = [row for row in run.of("published-objectives") if row["cell"] != ALL]
    verdicts: dict[str, dict[tuple[str, str, float], str | None]] = {}
    for row in rows:
        place = (row["recipe"], row["cell"], row["alpha"])
        verdicts.setdefault(row["against"], {})[place] = row["against_versus_random"]
        verdicts.setdefault(row["label"], {})[place] = row["versus_random"]
    wins = {
        label: list(entry.values()).count("better") for label, entry in verdicts.items()
    }
    own, others = wins.pop("value", None), list(wins.values())
    if own is None or not others:
        return None
    words = f"wins against random: value {own} of {len(verdicts['value'])}"
    words += "".join(
        f", {label} {number} of {len(verdicts[label])}"
        for label, number in wins.items()
    )
    return of_mean(
        True if own > max(others) else False if own < min(others) else None, words
    )


def out_of_fold_flatters(run: RunRows) -> Outcome | None:
    """Out of fold over all units, gates look stronger than held out."""
    rows = run.of("out-of-fold", alpha=0.2, allocator=("gate-ridge", "gate-gbm"))
    pairs = [(row["ndg"], row["held_out_ndg"]) for row in rows]
    more = [{"more": a - b} for a, b in pairs if a is not None and b is not None]
    return (
        of_most(
            (row["more"] > 0 for row in more),
            f"out of fold less held out {span(more, 'more', percent=False)}",
        )
        if more
        else None
    )


def wins_rest_on_many_units(run: RunRows) -> Outcome | None:
    """Wins on the core track do not rest on one unit."""
    better = {
        (row["cell"], row["allocator"])
        for row in _held_out(run, allocator=PUBLISHED)
        if row["verdict"] == "better"
    }
    rows = [
        row
        for row in run.of("concentration", alpha=0.2)
        if (row["cell"], row["allocator"]) in better
    ]
    rows = [row for row in rows if row["ndg_without_lo"] is not None and row["ndg"]]
    kept = [{"kept": row["ndg_without_lo"] / row["ndg"]} for row in rows]
    words = f"least nDG with one unit left out, of the whole {span(kept, 'kept')}"
    marks = (
        True if entry["kept"] >= 0.5 else False if entry["kept"] <= 0 else None
        for entry in kept
    )
    if not run.of("concentration"):
        return None
    return (
        of_every(marks, words)
        if kept
        else Outcome(OPEN, "no allocator is better than random")
    )


LIGHT = ("router-mlp-value", "router-mlp-binary")
SMALL = {"kind": "latency", "alpha": 0.2}


def only_light_routers(run: RunRows) -> Outcome | None:
    """Charged, only the light routers beat random."""
    rows = [
        row
        for row in run.of("budgets", **SMALL, allocator=PUBLISHED)
        if row.get("cell")
    ]
    if not rows:
        return None
    wins = {
        name: sum(r["verdict"] == "better" for r in rows if r["allocator"] == name)
        for name in PUBLISHED
    }
    heavy = sum(number for name, number in wins.items() if name not in LIGHT)
    light, runs = (
        sum(wins[name] for name in LIGHT),
        sum(row["allocator"] in LIGHT for row in rows),
    )
    words = (
        f"the light ones beat random in {light} of {runs} "
        f"rows, the others in {heavy} of {len(rows) - runs}"
    )
    return of_mean(heavy <= 0.05 * (len(rows) - runs) and light > 0.05 * runs, words)


def gates_cannot_run(run: RunRows) -> Outcome | None:
    """Ridge and single-call boosted models cannot pay for themselves."""
    heavy = tuple(name for name in PUBLISHED if name not in LIGHT)
    rows = [
        row for row in run.of("budgets", **SMALL, allocator=heavy) if row.get("cell")
    ]
    words = (
        "by the paper's own costs of its board, so that only the arithmetic is checked"
    )
    return (
        of_every((row["verdict"] == "infeasible" for row in rows), words)
        if rows
        else None
    )


def break_even(run: RunRows) -> Outcome | None:
    """An allocator may cost 1.6 to 3.0 ms before it loses to random."""
    rows = [
        row
        for row in run.of("break-even", **SMALL, allocator=PUBLISHED)
        if not row.get("cell")
    ]
    rows = [row for row in rows if row.get("cells")]
    medians = [{"median": row["median"]} for row in rows if row["median"] is not None]
    words = (
        "median over cells "
        f"{span(medians, 'median', percent=False)} ms; "
        f"{len(rows) - len(medians)} have none"
    )
    marks = (
        True
        if row["median"] is not None and 1.6 <= row["median"] <= 3.0
        else False
        if row["median"] is None or row["median"] < 0.8 or row["median"] > 6.0
        else None
        for row in rows
    )
    return of_most(marks, words) if rows else None


def light_routers_inside(run: RunRows) -> Outcome | None:
    """The light routers' own cost is below the break-even cost in most cells."""
    rows = [
        row
        for row in run.of("break-even", **SMALL, allocator=LIGHT)
        if not row.get("cell") and row.get("priced")
    ]
    words = ", ".join(
        f"{row['allocator']} in {row['inside']} of {row['priced']} cells"
        for row in rows
    )
    marks = (2 * row["inside"] > row["priced"] for row in rows)
    return of_every(marks, f"inside: {words}") if rows else None


def uniform_leads(run: RunRows) -> Outcome | None:
    """Where uniform full fidelity fits the budget, it leads the best feasible
    allocator.
    """
    rows = [
        row
        for row in run.of("uniform", kind="latency", alpha=0.5)
        if row.get("cell") and row["leader"]
    ]
    marks = [{"better": True, "worse": False}.get(row["verdict"]) for row in rows]
    leads = sum(row["leader"] == "uniform" for row in rows)
    words = (
        f"ahead in {leads} of {len(rows)} cells; less the best of them "
        f"{span(rows, 'difference')} of the all-cheap loss"
    )
    return (
        of_most(
            [row["leader"] == "uniform" for row in rows],
            f"{words}; resolved in {sum(m is not None for m in marks)}",
        )
        if rows
        else None
    )


def exceptions_are_harm(run: RunRows) -> Outcome | None:
    """Where uniform full fidelity does not lead, it raises the loss."""
    rows = [
        row
        for row in run.of("uniform", kind="latency", alpha=0.5)
        if row.get("cell") and row["leader"]
    ]
    behind = [row for row in rows if row["leader"] != "uniform"]
    words = f"of {len(behind)} cells in which it does not lead"
    return of_every((row["uniform"] < 0 for row in behind), words) if behind else None


def _streams(run: RunRows, policy: str) -> Row | None:
    rows = run.of(
        "streams", kind="selection", alpha=0.2, allocator="all", policy=policy
    )
    return rows[0] if rows else None


def thresholds_miss_the_rate(run: RunRows) -> Outcome | None:
    """Frozen thresholds miss the rate."""
    row = _streams(run, "frozen threshold")
    if row is None or not row["rows"]:
        return None
    words = (
        f"{row['missed']} of {row['rows']} miss the rate by more "
        f"than 5 points; median rate {100 * row['rate']:.0f} %"
    )
    return of_mean(
        None if 2 * row["missed"] == row["rows"] else 2 * row["missed"] > row["rows"],
        words,
    )


def thresholds_keep_value(run: RunRows) -> Outcome | None:
    """Frozen thresholds lose nothing in nDG on average."""
    row = _streams(run, "frozen threshold")
    if row is None or row["lo"] is None:
        return None
    words = (
        "nDG less that "
        f"in hindsight {row['difference']:+.3f} [{row['lo']:.3f}, {row['hi']:.3f}]"
    )
    return of_mean(row["lo"] <= 0 <= row["hi"], words)


def cap_costs(run: RunRows) -> Outcome | None:
    """The causal cap lowers nDG."""
    row = _streams(run, "causal cap")
    if row is None or row["lo"] is None:
        return None
    words = (
        "nDG less that "
        f"in hindsight {row['difference']:+.3f} [{row['lo']:.3f}, {row['hi']:.3f}]"
    )
    return of_mean(True if row["hi"] < 0 else False if row["lo"] > 0 else None, words)


def ranking_is_the_gap(run: RunRows) -> Outcome | None:
    """Ranking, not overhead or causal enforcement, makes most of the gap."""
    rows = [
        row
        for row in run.of("gaps", **SMALL, allocator=LIGHT)
        if not row.get("cell") and row.get("gap")
    ]
    parts = [{"share": row["ranking"] / row["gap"]} for row in rows if row["gap"] > 0]
    words = f"ranking is {span(parts, 'share')} of the gap"
    marks = (entry["share"] > 0.5 for entry in parts)
    return of_every(marks, words) if parts else None


def quota_is_capacity(run: RunRows) -> Outcome | None:
    """Quota and capacity have the same oracle."""
    rows = [row for row in run.of("capacity") if row.get("cell")]
    words = f"at {len({row['alpha'] for row in rows})} budgets"
    return of_every((row["coincide"] for row in rows), words) if rows else None


def fidelities_matter(run: RunRows) -> Outcome | None:
    """Choosing among fidelities is worth more than choosing whether to escalate."""
    rows = [
        row for row in run.of("ladder", alpha=0.2) if row["top_only_share"] is not None
    ]
    words = (
        "the best plan of the top "
        f"mode alone gains {span(rows, 'top_only_share')} of the best plan"
    )
    marks = (
        True
        if row["top_only_share"] <= 0.8
        else False
        if row["top_only_share"] >= 0.95
        else None
        for row in rows
    )
    return of_every(marks, words) if rows else None
