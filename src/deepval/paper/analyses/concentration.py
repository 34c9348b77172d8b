"""Results of several cells -> how much of a result hangs on one unit: the prize, the realised gain, the nDG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deepval.report.charts import Chart, Dot, plain
from deepval.report.text_table import Table, lines_of, number, percent
from deepval.results import Result


@dataclass(frozen=True)
class ConcentrationRow:
    """One allocator of a cell at the headline budget, with and without single units.

    Attributes:
        cell: The cell.
        allocator: The allocator.
        alpha: Share of inputs that may be escalated.
        effective_units: 1 / sum of squared shares of the benefit; None without any benefit.
        top_unit: Unit that holds most of the oracle's gain; None where the oracle gains nothing.
        top_share: Its share of the oracle's gain.
        gain: Realised gain over all units, in units of the loss.
        gain_elsewhere: The part of it that is realised in the other units, under the same allocation.
        ndg: The nDG.
        ndg_without_lo: Smallest nDG when any one unit is left out and the rest is ranked anew.
        ndg_without_unit: The unit whose absence gives it.
    """

    cell: str
    allocator: str
    alpha: float
    effective_units: float | None
    top_unit: str | None
    top_share: float | None
    gain: float
    gain_elsewhere: float
    ndg: float | None
    ndg_without_lo: float | None
    ndg_without_unit: str | None


def rows(results: Mapping[str, Result]) -> list[ConcentrationRow]:
    """One row per cell and allocator; none of a cell with more units than a result lists."""
    found = []
    for name, result in results.items():
        if not result.units:
            continue
        alpha = result.units[0].alpha
        kind = "selection" if any(row.kind == "selection" for row in result.rows) else result.rows[0].kind
        prize = sum(unit.oracle_gain for unit in result.units)
        top = max(result.units, key=lambda unit: unit.oracle_gain) if prize > 0 else None
        for allocator in result.units[0].gains:
            row = next(r for r in result.rows if (r.allocator, r.kind, r.alpha) == (allocator, kind, alpha))
            gain = sum(unit.gains[allocator] for unit in result.units)
            found.append(
                ConcentrationRow(
                    cell=name,
                    allocator=allocator,
                    alpha=alpha,
                    effective_units=result.setting.concentration.effective_units,
                    top_unit=None if top is None else top.unit,
                    top_share=None if top is None else top.oracle_gain / prize,
                    gain=gain,
                    gain_elsewhere=gain if top is None else gain - top.gains[allocator],
                    ndg=row.ndg,
                    ndg_without_lo=row.ndg_without_lo,
                    ndg_without_unit=row.ndg_without_unit,
                )
            )
    return found


def table(rows: Sequence[ConcentrationRow]) -> Table:
    """The rows as a table."""
    header = (
        *("cell", "allocator", "budget", "effective units", "top unit", "of the prize", "gain", "elsewhere", "nDG"),
        *("least nDG", "without"),
    )
    texts = [
        (
            row.cell,
            row.allocator,
            percent(row.alpha, 0),
            number(row.effective_units, 1),
            row.top_unit or "",
            percent(row.top_share, 1),
            number(row.gain, 1),
            number(row.gain_elsewhere, 1),
            number(row.ndg),
            number(row.ndg_without_lo),
            row.ndg_without_unit or "",
        )
        for row in rows
    ]
    notes = ("elsewhere: realised outside the top unit by the same allocation; least nDG: any one unit left out.",)
    return Table("What hangs on one unit", header, lines_of(texts), notes)


def chart(rows: Sequence[ConcentrationRow]) -> Chart:
    """The nDG of each allocator over all units, and the least with any one left out."""
    dots = [
        Dot(f"{row.cell}: {row.allocator}", what, value)
        for row in rows
        for what, value in (("all units", row.ndg), ("least with one left out", row.ndg_without_lo))
    ]
    return plain("nDG", dots, line=0.0)
