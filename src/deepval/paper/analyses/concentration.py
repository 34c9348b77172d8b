"""Results of several cells -> how much depends on one unit: the oracle's gain, the
realised gain, the nDG.

The unit with the largest share of the possible gain, the gain realised elsewhere, and
the least nDG with any one unit left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    AllocatorName,
    CellName,
    column,
    decimals,
    declared_table,
    level,
    or_nothing,
    share,
)
from deepval.report.charts import Chart, Dot, plain
from deepval.report.text_tables import Table, number
from deepval.results import Result, row_from


@dataclass(frozen=True)
class ConcentrationRow(AllocatorName, CellName):
    """One allocator of a cell at the headline budget, with and without single units."""

    alpha: float = column("Share of inputs that may be escalated", "budget", level)
    effective_units: float | None = column(
        "1 / sum of squared shares of the benefit; None without any benefit",
        "effective units",
        decimals(1),
    )
    top_unit: str | None = column(
        "Unit with the largest part of the oracle's gain; None "
        "if the oracle gains nothing",
        "top unit",
        or_nothing,
    )
    top_share: float | None = column(
        "Its share of the oracle's gain", "of the prize", share
    )
    gain: float = column(
        "Realised gain over all units, in units of the loss", "gain", decimals(1)
    )
    gain_elsewhere: float = column(
        "Part of the gain that the same allocation realises in the other units",
        "elsewhere",
        decimals(1),
    )
    ndg: float | None = column("nDG over all units", "nDG", number)
    ndg_without_lo: float | None = column(
        "Smallest nDG over leaving out one unit at a time and ranking the rest again",
        "least nDG",
        number,
    )
    ndg_without_unit: str | None = column(
        "The unit whose omission gives that nDG", "without", or_nothing
    )


def rows(results: Mapping[str, Result]) -> list[ConcentrationRow]:
    """One row per cell and allocator; none for a cell with more units than a result
    lists.
    """
    records = []
    for name, result in results.items():
        if not result.units:
            continue
        alpha = result.units[0].alpha
        kind = (
            "selection"
            if any(row.kind == "selection" for row in result.choosers)
            else result.choosers[0].kind
        )
        prize = sum(unit.oracle_gain for unit in result.units)
        top = (
            max(result.units, key=lambda unit: unit.oracle_gain) if prize > 0 else None
        )
        for allocator in result.units[0].gains:
            row = next(
                r
                for r in result.choosers
                if (r.allocator, r.kind, r.alpha) == (allocator, kind, alpha)
            )
            gain = sum(unit.gains[allocator] for unit in result.units)
            records.append(
                row_from(
                    row,
                    ConcentrationRow,
                    cell=name,
                    effective_units=result.setting.concentration.effective_units,
                    top_unit=None if top is None else top.unit,
                    top_share=None if top is None else top.oracle_gain / prize,
                    gain=gain,
                    gain_elsewhere=gain if top is None else gain - top.gains[allocator],
                )
            )
    return records


def table(rows: Sequence[ConcentrationRow]) -> Table:
    """The rows as a table."""
    notes = (
        (
            "elsewhere: realised outside the top unit by the same allocation; least "
            "nDG: any one unit left out."
        ),
    )
    return declared_table(ConcentrationRow, rows, "What hangs on one unit", notes=notes)


def chart(rows: Sequence[ConcentrationRow]) -> Chart:
    """The nDG of each allocator over all units, and the least with any one left out."""
    dots = [
        Dot(f"{row.cell}: {row.allocator}", what, value)
        for row in rows
        for what, value in (
            ("all units", row.ndg),
            ("least with one left out", row.ndg_without_lo),
        )
    ]
    return plain("nDG", dots, line=0.0)


CONCENTRATION = declare(
    __name__,
    shows="Show how much depends on one unit",
    paper="leave-one-out, concentration audit",
    example="cells/braking-monocular",
)
