"""The paper's own figures, as its tables and its text give them: `published.csv` -> records.

Source: The Decision Value of Perception Compute. A column says which rows of which analysis here a figure is to be
laid beside: its field, and what must hold in a row. Shares are shares, not percent.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("published.csv")
SOURCE = "The Decision Value of Perception Compute"
INPUTS = {"kitti": 8008, "nuscenes": 3376, "nuplan": 1440}
"""Inputs of a whole data set of the paper's; the learned planner judges fewer of nuScenes."""


@dataclass(frozen=True)
class Figure:
    """One figure of the paper.

    Attributes:
        table: Its table, or the paragraph that has it.
        row: Its row there.
        column: Its column.
        dataset: Data set of its cell; empty where it is over many cells.
        pair: Modes of the cell, cheap -> full.
        geometry: Geometry of the cell.
        system: Downstream system of the cell; two joined by + where it is of two consumers.
        analysis: The analysis that makes the like of it here.
        field: The field of its rows: a name, or the ratio of two as a/b.
        where: What must hold in a row: name=value pairs joined by ;, with != for other than, @name for another field.
        over: How many rows become one: empty where one is meant; span for those of a cell, from least to largest;
            median, share, or pooled (a row that is pooled already) over all cells.
        value: The figure; None where only a range is published.
        lo: Lower end of its interval or range.
        hi: Upper end.
        neutral: What divides its two signs, such as 0; None where it has none.
        verdict: Its verdict against random; empty where it has none.
    """

    table: str
    row: str
    column: str
    dataset: str
    pair: str
    geometry: str
    system: str
    analysis: str
    field: str
    where: str
    over: str
    value: float | None
    lo: float | None
    hi: float | None
    neutral: float | None
    verdict: str

    @property
    def kind(self) -> tuple[str, str, str]:
        """What a cell must share to be like its own: data set, geometry and system."""
        return self.dataset, self.geometry, self.system

    @property
    def asked(self) -> tuple[str, str, str]:
        """What it is a figure of, whatever the cell."""
        return self.analysis, self.field, self.where


@cache
def published() -> tuple[Figure, ...]:
    """Every figure."""
    numbers = ("value", "lo", "hi", "neutral")
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(
        Figure(**{n: (float(t) if t else None) if n in numbers else t for n, t in row.items()})  # pyright: ignore
        for row in rows
    )
