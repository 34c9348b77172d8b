"""Cells with their data -> how far the monocular range is from the reference, mode by mode and band by band.

docs/definitions.md, Lift bias.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec, units_of
from deepval.cells.unit import unit_data
from deepval.errors import InputError
from deepval.paper.analyses.judged import Units
from deepval.perception.placing.reference_geometry import lift_bias
from deepval.perception.reported.detections import DetectionSet
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, plain
from deepval.report.table import Table, lines_of, number
from deepval.results import known


@dataclass(frozen=True)
class LiftRow:
    """Overestimate of range by the lift over matched detections of one band of reference ranges.

    Attributes:
        cell: The cell whose data set and modes they are.
        mode: The mode.
        cls: Class of the detections and of their reference objects.
        from_m: Start of the band.
        to_m: Its end, excluded.
        detections: Matched detections in it.
        mean_m: Mean of lifted less reference range; None without any.
        median_m: Median of the same.
    """

    cell: str
    mode: str
    cls: str
    from_m: float
    to_m: float
    detections: int
    mean_m: float | None
    median_m: float | None


def rows(
    cells: Mapping[str, BuiltCell],
    located: Mapping[str, CellSpec],
    *,
    cls: str = "Car",
    units: Units = "all",
    watch: Watch = unwatched,
) -> list[LiftRow]:
    """One row per cell, mode and band; of cells that share data set and modes, the first counts.

    Args:
        cells: Cells by name.
        located: Their specifications with the data at hand, by the same names (`cells.located`).
        cls: Class that is looked at.
        units: Units whose frames are looked at.
        watch: Who is told how far it is.
    """
    found, done = [], []
    for name, cell in cells.items():
        spec = located[name]
        rests_on = {part: cell.definition[part] for part in ("dataset", "modes")}
        if rests_on in done:
            continue
        done.append(rests_on)
        chosen = units_of(cell.split, units)
        seen = [unit_data(spec, unit) for unit in watch(chosen, f"lift on {name}")]
        for mode in spec.order:
            used = {unit: each.used[mode] for unit, each in zip(chosen, seen, strict=True)}
            if not all(each.has_boxes for each in used.values()):
                raise InputError(f"{name}: the lift is of image boxes, and mode {mode} has none: choose other modes.")
            scenes, truths = [each.scene for each in seen], [each.truth for each in seen]
            bands = lift_bias(DetectionSet(mode, "none", used), scenes, truths=truths, cls=cls)
            found += [
                LiftRow(name, mode, cls, b.from_m, b.to_m, b.detections, known(b.mean_m), known(b.median_m))
                for b in bands
            ]
    return found


def table(rows: Sequence[LiftRow]) -> Table:
    """The rows as a table."""
    header = ("cell", "mode", "class", "range", "detections", "mean excess", "median excess")
    texts = [
        (
            row.cell,
            row.mode,
            row.cls,
            f"{row.from_m:g}-{row.to_m:g} m",
            f"{row.detections:,}",
            number(row.mean_m, 2),
            number(row.median_m, 2),
        )
        for row in rows
    ]
    return Table("Lifted range less reference range, in metres", header, lines_of(texts))


def chart(rows: Sequence[LiftRow]) -> Chart:
    """Median overestimate of range by band, for each mode and class."""
    dots = (Dot(f"{row.from_m:g} to {row.to_m:g} m", f"{row.mode}, {row.cls}", row.median_m) for row in rows)
    return plain("Lifted less reference range, median (m)", dots, line=0.0)
