"""How much depends on one unit: the oracle's gain, the realised gain, the nDG.

The top unit is that with the largest share of the gain of the oracle. What an allocator
gains without it, and the least nDG with any one unit left out, show what would remain.
"""

from collections.abc import Iterator, Sequence

from deepval.judge.report.text_tables import number
from deepval.paper.analysis import Analysis
from deepval.paper.columns import NAME
from deepval.paper.study import Cell, of_each
from deepval.paper.tidy import Column, Dots, Row, decimals, level, or_nothing, share


def rows(cells: Sequence[Cell]) -> Iterator[Row]:
    """One row per cell and allocator."""
    for name, result in of_each(cells, "results").items():
        units = result.units
        # A result lists its units only if they are few enough to read.
        if not units:
            continue
        prize = sum(unit.oracle_gain for unit in units)
        # Where nothing can be gained, no unit has the largest share of it.
        top = None
        if prize > 0:
            top = max(units, key=lambda unit: unit.oracle_gain)
        # A result without selection budgets lists its units under the first other kind.
        kinds = [row.kind for row in result.choosers]
        kind = kinds[0]
        if "selection" in kinds:
            kind = "selection"
        for allocator in units[0].gains:
            row = next(
                row
                for row in result.choosers
                if (row.allocator, row.kind, row.alpha)
                == (allocator, kind, units[0].alpha)
            )
            gain = sum(unit.gains[allocator] for unit in units)
            of_top: Row = {"top_unit": None, "top_share": None, "gain_elsewhere": gain}
            if top is not None:
                of_top = {
                    "top_unit": top.unit,
                    "top_share": top.oracle_gain / prize,
                    "gain_elsewhere": gain - top.gains[allocator],
                }
            yield {
                "cell": name,
                "allocator": allocator,
                "alpha": units[0].alpha,
                "effective_units": result.setting.concentration.effective_units,
                **of_top,
                "gain": gain,
                "ndg": row.ndg,
                "ndg_without_lo": row.ndg_without_lo,
                "ndg_without_unit": row.ndg_without_unit,
            }


CONCENTRATION = Analysis(
    name="concentration",
    shows="Show how much depends on one unit",
    paper="leave-one-out, concentration audit",
    example="cells/braking-monocular",
    details=(
        "The unit with the largest share of the possible gain, the gain realised "
        "elsewhere, and the least nDG with any one unit left out."
    ),
    rows=rows,
    asks=("results",),
    columns=(
        NAME,
        Column("allocator", "The allocator", heading="allocator"),
        Column(
            "alpha",
            "Share of inputs that may be escalated",
            heading="budget",
            text=level,
        ),
        Column(
            "effective_units",
            "1 / sum of squared shares of the benefit; None without any benefit",
            heading="effective units",
            text=decimals(1),
        ),
        Column(
            "top_unit",
            "Unit with the largest part of the oracle's gain; None without any",
            heading="top unit",
            text=or_nothing,
        ),
        Column(
            "top_share",
            "Its share of the oracle's gain",
            heading="of the prize",
            text=share,
        ),
        Column(
            "gain", "Realised gain, in loss units", heading="gain", text=decimals(1)
        ),
        Column(
            "gain_elsewhere",
            "Part of the gain that the same choice realises in the other units",
            heading="elsewhere",
            text=decimals(1),
        ),
        Column("ndg", "nDG over all units", heading="nDG", text=number),
        Column(
            "ndg_without_lo",
            "Smallest nDG over leaving out one unit at a time and ranking the rest "
            "again",
            heading="least nDG",
            text=number,
        ),
        Column(
            "ndg_without_unit",
            "The unit whose omission gives that nDG",
            heading="without",
            text=or_nothing,
        ),
    ),
    title="What hangs on one unit",
    notes=lambda rows: [
        "elsewhere: realised outside the top unit by the same allocation; least nDG: "
        "any one unit left out."
    ],
    charts=[
        Dots(
            "nDG",
            {"all units": "ndg", "least with one left out": "ndg_without_lo"},
            label="{cell}: {allocator}",
            percent=False,
            line=0.0,
        )
    ],
)
