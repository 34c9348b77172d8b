"""What the paper finds on cost -> how that is told from the rows of a run."""

from deepval.paper.findings.finding import PUBLISHED, RunRows
from deepval.paper.findings.verdicts import Outcome, Row, of_every, of_mean, of_most, span

LIGHT = ("router-mlp-value", "router-mlp-binary")
SMALL = {"kind": "latency", "alpha": 0.2}


def only_light_routers(run: RunRows) -> Outcome | None:
    """Charged, only the light routers beat random."""
    rows = [row for row in run.of("budgets", **SMALL, allocator=PUBLISHED) if row.get("cell")]
    if not rows:
        return None
    wins = {name: sum(r["verdict"] == "better" for r in rows if r["allocator"] == name) for name in PUBLISHED}
    heavy = sum(number for name, number in wins.items() if name not in LIGHT)
    light, runs = sum(wins[name] for name in LIGHT), sum(row["allocator"] in LIGHT for row in rows)
    words = f"the light ones beat random in {light} of {runs} rows, the others in {heavy} of {len(rows) - runs}"
    return of_mean(heavy <= 0.05 * (len(rows) - runs) and light > 0.05 * runs, words)


def gates_cannot_run(run: RunRows) -> Outcome | None:
    """Ridge and single-call boosted models cannot pay for themselves."""
    heavy = tuple(name for name in PUBLISHED if name not in LIGHT)
    rows = [row for row in run.of("budgets", **SMALL, allocator=heavy) if row.get("cell")]
    words = "by the paper's own costs of its board, so that only the arithmetic is checked"
    return of_every((row["verdict"] == "infeasible" for row in rows), words) if rows else None


def break_even(run: RunRows) -> Outcome | None:
    """An allocator may cost 1.6 to 3.0 ms before it loses to random."""
    rows = [row for row in run.of("break-even", **SMALL, allocator=PUBLISHED) if not row.get("cell")]
    rows = [row for row in rows if row.get("cells")]
    medians = [{"median": row["median"]} for row in rows if row["median"] is not None]
    words = f"median over cells {span(medians, 'median', percent=False)} ms; {len(rows) - len(medians)} have none"
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
    """The light routers' own cost is below that in most cells."""
    rows = [row for row in run.of("break-even", **SMALL, allocator=LIGHT) if not row.get("cell") and row.get("priced")]
    words = ", ".join(f"{row['allocator']} in {row['inside']} of {row['priced']} cells" for row in rows)
    marks = (2 * row["inside"] > row["priced"] for row in rows)
    return of_every(marks, f"inside: {words}") if rows else None


def uniform_leads(run: RunRows) -> Outcome | None:
    """Where it fits, uniform full fidelity leads the best feasible allocator."""
    rows = [row for row in run.of("uniform", kind="latency", alpha=0.5) if row.get("cell") and row["leader"]]
    marks = [{"better": True, "worse": False}.get(row["verdict"]) for row in rows]
    leads = sum(row["leader"] == "uniform" for row in rows)
    words = (
        f"ahead in {leads} of {len(rows)} cells; less the best of them {span(rows, 'difference')} of the all-cheap loss"
    )
    return (
        of_most(
            [row["leader"] == "uniform" for row in rows], f"{words}; resolved in {sum(m is not None for m in marks)}"
        )
        if rows
        else None
    )


def exceptions_are_harm(run: RunRows) -> Outcome | None:
    """Where it does not lead, it raises the loss."""
    rows = [row for row in run.of("uniform", kind="latency", alpha=0.5) if row.get("cell") and row["leader"]]
    behind = [row for row in rows if row["leader"] != "uniform"]
    words = f"of {len(behind)} cells in which it does not lead"
    return of_every((row["uniform"] < 0 for row in behind), words) if behind else None


def _streams(run: RunRows, policy: str) -> Row | None:
    rows = run.of("streams", kind="selection", alpha=0.2, allocator="all", policy=policy)
    return rows[0] if rows else None


def thresholds_miss_the_rate(run: RunRows) -> Outcome | None:
    """Frozen thresholds miss the rate."""
    row = _streams(run, "frozen threshold")
    if row is None or not row["rows"]:
        return None
    words = (
        f"{row['missed']} of {row['rows']} miss the rate by more than 5 points; median rate {100 * row['rate']:.0f} %"
    )
    return of_mean(None if 2 * row["missed"] == row["rows"] else 2 * row["missed"] > row["rows"], words)


def thresholds_keep_value(run: RunRows) -> Outcome | None:
    """Frozen thresholds lose nothing in nDG on average."""
    row = _streams(run, "frozen threshold")
    if row is None or row["lo"] is None:
        return None
    words = f"nDG less that in hindsight {row['difference']:+.3f} [{row['lo']:.3f}, {row['hi']:.3f}]"
    return of_mean(row["lo"] <= 0 <= row["hi"], words)


def cap_costs(run: RunRows) -> Outcome | None:
    """The causal cap lowers nDG."""
    row = _streams(run, "causal cap")
    if row is None or row["lo"] is None:
        return None
    words = f"nDG less that in hindsight {row['difference']:+.3f} [{row['lo']:.3f}, {row['hi']:.3f}]"
    return of_mean(True if row["hi"] < 0 else False if row["lo"] > 0 else None, words)


def ranking_is_the_gap(run: RunRows) -> Outcome | None:
    """Ranking, not overhead or causal enforcement, makes most of the gap."""
    rows = [row for row in run.of("gaps", **SMALL, allocator=LIGHT) if not row.get("cell") and row.get("gap")]
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
    rows = [row for row in run.of("ladder", alpha=0.2) if row["top_only_share"] is not None]
    words = f"the best plan of the top mode alone gains {span(rows, 'top_only_share')} of the best plan"
    marks = (True if row["top_only_share"] <= 0.8 else False if row["top_only_share"] >= 0.95 else None for row in rows)
    return of_every(marks, words) if rows else None
