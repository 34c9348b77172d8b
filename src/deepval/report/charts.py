"""Rows of an analysis -> a chart in plain data: named rows of dots with intervals. `report/figures` draws it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from deepval.results import HEADLINE, BudgetRecord

Record = TypeVar("Record", bound=BudgetRecord)


@dataclass(frozen=True)
class Dot:
    """One figure with its interval.

    Attributes:
        row: The row that it stands in.
        series: What it is a figure of, where a row has several.
        point: The figure; None where it is undefined.
        lo: Lower end of its interval.
        hi: Upper end.
    """

    row: str
    series: str
    point: float | None
    lo: float | None = None
    hi: float | None = None


@dataclass(frozen=True)
class Chart:
    """Dots along one axis, a row for each name, in the order in which they are met.

    Attributes:
        axis: What the axis measures, with its unit.
        dots: The dots.
        line: A value to compare with, such as 0; None where there is none.
        percent: Whether figures are shares, drawn in percent.
    """

    axis: str
    dots: tuple[Dot, ...]
    line: float | None = None
    percent: bool = False

    @property
    def rows(self) -> list[str]:
        """Names of the rows, each once."""
        return list(dict.fromkeys(dot.row for dot in self.dots))

    @property
    def series(self) -> list[str]:
        """Names of the series, each once."""
        return list(dict.fromkeys(dot.series for dot in self.dots))


def shares(axis: str, dots: Iterable[Dot], *, line: float | None = None) -> Chart:
    """A chart of shares."""
    return Chart(axis, tuple(dots), line, percent=True)


def plain(axis: str, dots: Iterable[Dot], *, line: float | None = None) -> Chart:
    """A chart of numbers as they are."""
    return Chart(axis, tuple(dots), line)


def at_headline(rows: Sequence[Record]) -> list[Record]:
    """The rows whose share is nearest to the headline's, the smaller of two: what a chart has room for."""
    shares_of = {row["alpha"] for row in rows}
    at = min(shares_of, key=lambda alpha: (round(abs(alpha - HEADLINE), 9), alpha), default=HEADLINE)
    return [row for row in rows if row["alpha"] == at]
