"""Policies in time order -> their table."""

from collections.abc import Sequence

from deepval.judge.report.tables.verdicts import (
    SECOND,
    bounds_versus_random,
    second_opinion,
    versus_random,
)
from deepval.judge.report.text_tables import (
    Column,
    Table,
    interval,
    number,
    tabulate,
    tenths,
)
from deepval.judge.results import Stream

CALIBRATED = (
    "Policies are calibrated on other units; 'vs ranking' is the difference in nDG, "
    "the cost of causality."
)
KEPT = {None: "", True: "missed", False: "kept"}
"""Whether a rate was missed -> the word for it."""


def stream_table(streams: Sequence[Stream]) -> Table:
    """The rows of policies in time order."""
    notes = [CALIBRATED]
    for what in ("ranking", "random"):
        dropped = max(row[f"versus_{what}_dropped"] for row in streams)
        if dropped:
            notes.append(
                f"Up to {dropped} of {streams[0].draws} draws are left out of an "
                f"interval vs {what}."
            )
    return tabulate("Streaming", COLUMNS, streams, groups=GROUPS, notes=notes)


def _bounds_versus_ranking(row: Stream) -> str:
    return interval(row.versus_ranking_lo, row.versus_ranking_hi)


GROUPS = (
    Column("budget", lambda row: row.budget.label),
    Column("allocator", lambda row: row.allocator),
)
COLUMNS = (
    Column("policy", lambda row: row.policy),
    Column("rate", lambda row: tenths(row.rate)),
    Column("kept", lambda row: KEPT[row.rate_missed], rank=3),
    Column("nDG", lambda row: number(row.ndg), rank=6),
    Column("vs ranking", lambda row: number(row.versus_ranking), rank=2),
    Column("vs ranking 95 %", _bounds_versus_ranking, rank=1),
    Column("vs random", versus_random),
    Column("vs random 95 %", bounds_versus_random, rank=5),
    Column(SECOND, second_opinion, rank=4),
    Column("verdict", lambda row: row.verdict_words or row.verdict or ""),
)
