"""Recovered performance gaps -> their table."""

from collections.abc import Callable, Sequence

from deepval.judge.report.text_tables import (
    MISSING,
    Column,
    Table,
    interval,
    number,
    percent,
    tabulate,
    tenths,
)
from deepval.judge.results import Recovery

MEANING = (
    "APGR: recovered part of the gap between cheap and full, averaged over all "
    "shares of calls to full; random has 0.5. CPT(x): smallest share of calls "
    "that recovers x; random needs x."
)


def recovery_table(rows: Sequence[Recovery]) -> Table:
    """APGR and call-performance thresholds, allocator by allocator."""
    columns = list(COLUMNS)
    for place, call in enumerate(rows[0].calls):
        columns.append(
            Column(f"CPT({percent(call.recovered, 0)})", _calls(place), rank=1)
        )
    reasons = sorted({f"{row.allocator}: {row.reason}." for row in rows if row.reason})
    title = "Performance gap recovered"
    return tabulate(title, columns, rows, notes=[MEANING, *reasons])


def _calls(place: int) -> Callable[[Recovery], str]:
    def text(row: Recovery) -> str:
        call = row.calls[place]
        bounds = interval(call.lo, call.hi, tenths)
        return f"{tenths(call.share)} {bounds}".strip()

    return text


COLUMNS = (
    Column("allocator", lambda row: row.allocator),
    Column("APGR", lambda row: number(row.apgr)),
    Column("95 %", lambda row: interval(row.apgr_lo, row.apgr_hi)),
    Column("verdict", lambda row: row.verdict or MISSING),
)
