"""Cells -> how many escalations help and how many harm, and how much: docs/analyses.md.

The paper's tables of signs and, over cells that differ in geometry alone, its oracle-geometry control.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from deepval.analyses.judged import Units, harm, judged, place
from deepval.cells.folder import BuiltCell
from deepval.judging.draws import make_draws
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.table import Table, almost_zero, interval, lines_of, number, percent
from deepval.results import known


@dataclass(frozen=True)
class SignRow:
    """What escalating every input of a cell does.

    Attributes:
        cell: The cell.
        cheap: Its cheap mode.
        full: Its full mode.
        geometry: How detections become objects.
        system: The downstream system.
        inputs: Number of inputs.
        units: Number of units.
        affected: Inputs whose loss the full mode changes.
        harmed: Those that it makes worse.
        harm_rate: Share of the affected inputs that are harmed, with its 95 % interval over units.
        harm_ratio: Total harm over total benefit, with its 95 % interval over units.
        draws: Number of draws.
        draws_dropped: Draws without any benefit, left out of the interval of the harm ratio.
        cheap_loss: The all-cheap loss.
        all_full_share: Share of the all-cheap loss that escalating everything removes.
        alpha: Share of inputs that the oracle may escalate.
        oracle_share: Share of the all-cheap loss that it removes.
    """

    cell: str
    cheap: str
    full: str
    geometry: str
    system: str
    inputs: int
    units: int
    affected: int
    harmed: int
    harm_rate: float | None
    harm_rate_lo: float | None
    harm_rate_hi: float | None
    harm_ratio: float | None
    harm_ratio_lo: float | None
    harm_ratio_hi: float | None
    draws: int
    draws_dropped: int
    cheap_loss: float
    all_full_share: float | None
    alpha: float
    oracle_share: float | None


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    units: Units = "all",
    alpha: float = 0.2,
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[SignRow]:
    """One row per cell, over the inputs of the named units."""
    return [
        _row(name, cell, units=units, alpha=alpha, draws=draws, seed=seed)
        for name, cell in watch(list(cells.items()), "signs")
    ]


def _row(
    name: str, cell: BuiltCell, *, units: Units, alpha: float, draws: int | Literal["exact"], seed: int
) -> SignRow:
    table = judged(cell, units)
    summary = table.summary(alpha)
    return SignRow(
        cell=name,
        **place(cell),
        inputs=len(table),
        units=len(table.unit_ids),
        **harm(table, make_draws(len(table.unit_ids), draws, seed)),
        cheap_loss=summary.cheap_loss,
        all_full_share=known(summary.all_full_share),
        alpha=alpha,
        oracle_share=known(summary.oracle_share),
    )


def table(rows: Sequence[SignRow]) -> Table:
    """The rows as a table."""
    header = ("cell", "modes", "affected", "harmed", "95 %", "harm ratio", "95 %", "all-full", "oracle")
    texts = [
        (
            row.cell,
            f"{row.cheap} -> {row.full}",
            f"{row.affected:,}",
            percent(row.harm_rate, 1),
            interval(row.harm_rate_lo, row.harm_rate_hi, lambda share: percent(share, 1)),
            number(row.harm_ratio),
            interval(row.harm_ratio_lo, row.harm_ratio_hi),
            percent(row.all_full_share),
            percent(row.oracle_share),
        )
        for row in rows
    ]
    notes = [
        f"{row.cell}: {row.draws_dropped} of {row.draws} draws without any benefit are left out of the harm ratio's "
        "interval."
        for row in rows
        if row.draws_dropped
    ]
    notes += [
        f"{row.cell}: {why}."
        for row in rows
        if (why := almost_zero(row.cheap_loss, row.all_full_share, row.oracle_share))
    ]
    return Table("What escalating everything does", header, lines_of(texts), tuple(notes))


def chart(rows: Sequence[SignRow]) -> Chart:
    """Harm rate and harm ratio of each cell."""
    return shares(
        "Harmed share of affected inputs",
        (Dot(row.cell, "harm rate", row.harm_rate, row.harm_rate_lo, row.harm_rate_hi) for row in rows),
        line=0.5,
    )
