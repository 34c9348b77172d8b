"""Result -> pictures of quality against cost, one for every kind of its budgets.

A fresh result computes the picture of its headline at many budgets, and a file holds
it. Under other kinds of budgets every router is drawn at the judged budgets, and the
best blind mixture through the points that the rows name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from deepval.judge.results import (
    SCALES,
    Answer,
    BudgetKey,
    Picture,
    PictureMark,
    PicturePoints,
    Result,
    Row,
    cost_axis,
    lists_by_key,
    shown_cost,
)
from deepval.judge.tables.scores import is_reference

Point = tuple[float, float]
Line = dict[float, tuple[float, float | None, float | None]]
"""Cost -> quality, and the ends of the band there."""


def pictures(result: Result) -> list[Picture]:
    """A picture for every kind of budget, that of the headline answer first."""
    drawn = result.with_picture().picture
    found = [] if drawn is None else [drawn]
    kinds = lists_by_key((_kind_of(one.budget), one) for one in result.answers)
    for kind, answers in kinds.items():
        if drawn is None or _kind_of(drawn.budget) != kind:
            found.append(_from_rows(result, answers))
    return found


def _kind_of(budget: BudgetKey) -> BudgetKey:
    return replace(budget, alpha=0.0)


def _from_rows(result: Result, answers: Sequence[Answer]) -> Picture:
    """The picture that rows, and curves where there are some, allow."""
    axes = RowAxes(result, answers[0])
    kind = _kind_of(answers[0].budget)
    rows = [row for row in result.rows if _kind_of(row.budget) == kind]
    rows = [row for row in rows if row.spender is None and row.gain is not None]
    routers = lists_by_key(
        (row.allocator, row)
        for row in rows
        if row.spend is not None and not is_reference(row.allocator)
    )
    limits = _limits(axes, answers, [row for own in routers.values() for row in own])
    shares = sorted(limits)
    headline = min(answers, key=lambda one: abs(one.budget.alpha - 0.2))
    return Picture(
        budget=headline.budget,
        cost_axis=cost_axis(kind.convention, result.setting.nouns[0]),
        quality_axis=SCALES[axes.scale].axis,
        share=tuple(shares),
        share_cost=tuple(limits[share] for share in shares),
        fixed=tuple(axes.marks()),
        blind=_blind(axes, rows),
        oracle=_oracle(axes, rows, limits),
        routers=tuple(_points(name, axes.line(own)) for name, own in routers.items()),
    )


def _limits(
    axes: "RowAxes", answers: Sequence[Answer], rows: Sequence[Row]
) -> dict[float, float]:
    """The cost up to which each judged budget goes."""
    if axes.convention is None:
        alphas = [answer.budget.alpha for answer in answers]
        return {alpha: axes.cost(alpha) for alpha in alphas}
    limits: dict[float, float] = {}
    for row in rows:
        # A ranking spends what it may, so the dearest one shows what that is.
        cost = axes.cost(row.spend or 0.0)
        limits[row.alpha] = max(limits.get(row.alpha, cost), cost)
    return limits


def _blind(axes: "RowAxes", rows: Sequence[Row]) -> PicturePoints:
    """The best blind mixture, through the modes and where rows are compared with it."""
    turns = [(mark.cost, mark.quality) for mark in axes.marks()]
    for row in rows:
        if row.spend is not None and row.lead is not None:
            blind = axes.quality((row.gain or 0.0) - axes.total(row, float(row.lead)))
            turns.append((axes.cost(row.spend), blind))
    line: Line = {cost: (quality, None, None) for cost, quality in _upper_hull(turns)}
    return replace(_points("best blind mixture", line), low=(), high=())


def _oracle(
    axes: "RowAxes", rows: Sequence[Row], limits: dict[float, float]
) -> PicturePoints | None:
    """The oracle at the judged budgets; over all modes where there are several."""
    named = lists_by_key((row.allocator, row) for row in rows if row.alpha in limits)
    found = named.get("oracle-ladder") or named.get("oracle")
    if found is None:
        return None
    line = axes.start()
    for row in found:
        line[limits[row.alpha]] = (axes.quality(row.gain or 0.0), None, None)
    if axes.convention is None:
        # It never escalates what harms, so beyond its last share it stays.
        best = max(quality for quality, _, _ in line.values())
        line = {100.0: (best, None, None)} | axes.curve("oracle") | line
    return replace(_points("perfect router", line), low=(), high=())


def _points(name: str, line: Line) -> PicturePoints:
    costs = sorted(line)
    return PicturePoints(
        name=name,
        cost=tuple(costs),
        quality=tuple(line[cost][0] for cost in costs),
        low=tuple(line[cost][1] for cost in costs),
        high=tuple(line[cost][2] for cost in costs),
    )


@dataclass(frozen=True)
class RowAxes:
    """Figures of rows -> figures of the two axes.

    Attributes:
        result: The result.
        answer: An answer under the kind of budget, which knows the modes.
    """

    result: Result
    answer: Answer

    @property
    def scale(self) -> str:
        """How gains are shown."""
        return self.answer.scale

    @property
    def convention(self) -> str | None:
        """Unit of the cost; None for shares of the inputs."""
        return self.answer.budget.convention

    def cost(self, spend: float) -> float:
        """The cost of an input in all; the last digits must not part equal costs."""
        return round(shown_cost(self.convention, spend), 6)

    def quality(self, gain: float) -> float:
        """The quality after a gain over all inputs, in units of the loss."""
        per = float(self.result.setting.inputs)
        if self.scale == "share":
            per = self.result.setting.cheap_loss
        base = self.answer.fixed[0].quality or 0.0
        return SCALES[self.scale].percent * (base + gain / per)

    def total(self, row: Row, lead: float) -> float:
        """A lead of a row in units of the loss, over all inputs."""
        if row.versus_random_unit == "share" and self.scale != "reward":
            return lead * (row.cheap_loss or 0.0)
        return lead * row.inputs

    def start(self) -> Line:
        """The cheap mode, a blind choice: there every lead is 0."""
        quality = self.quality(0.0)
        return {self.cost(self.answer.fixed[0].spend): (quality, quality, quality)}

    def line(self, rows: Iterable[Row]) -> Line:
        """A router at the judged budgets, with the band of its lead."""
        own = list(rows)
        # Who pays nothing to choose begins at the cheap mode.
        line = {} if any(row.cost for row in own) else self.start()
        for row in own:
            gain = row.gain or 0.0
            low = None
            high = None
            if row.lead is not None and row.lead.low is not None:
                blind = gain - self.total(row, float(row.lead))
                low = self.quality(blind + self.total(row, row.lead.low))
                high = self.quality(blind + self.total(row, row.lead.high or 0.0))
            line[self.cost(row.spend or 0.0)] = (self.quality(gain), low, high)
        if self.convention is not None:
            return line
        further = self.curve(own[0].allocator)
        # With several modes, everything may be escalated to any of them.
        if len(self.answer.fixed) == 2:
            further[100.0] = (self.quality(self.answer.fixed[1].gain), None, None)
        return further | line

    def curve(self, allocator: str) -> Line:
        """Points between the judged shares of the inputs, where curves were asked
        for.
        """
        loss = self.result.setting.cheap_loss
        line: Line = {}
        for curve in self.result.curves:
            if curve.allocator == allocator:
                for alpha, share in zip(curve.alpha, curve.gain_share, strict=True):
                    if share is not None:
                        quality = self.quality(share * loss)
                        line[self.cost(alpha)] = (quality, None, None)
        return line

    def marks(self) -> list[PictureMark]:
        """The fixed modes; the interval of the full one where no allocator was
        judged.
        """
        marks = [
            PictureMark(
                mode.mode, self.cost(mode.spend), self.quality(mode.gain), None, None
            )
            for mode in self.answer.fixed
        ]
        effect = self.result.effect
        if effect is None or effect.gain is None or effect.gain.low is None:
            return marks
        # An effect is in the unit of the axis but for percent and the cheap mode.
        percent = SCALES[self.scale].percent
        base = self.quality(0.0)
        low = base + percent * effect.gain.low
        high = base + percent * (effect.gain.high or 0.0)
        return [*marks[:-1], replace(marks[-1], low=low, high=high)]


def _upper_hull(points: Sequence[Point]) -> list[Point]:
    """The corners of the best mixture of points: concave, and never falling.

    >>> _upper_hull([(0.0, 0.0), (1.0, 3.0), (2.0, 2.0), (3.0, 4.0)])
    [(0.0, 0.0), (1.0, 3.0), (3.0, 4.0)]
    """
    hull: list[Point] = []
    for cost, quality in sorted(points):
        if hull and quality <= hull[-1][1]:
            continue
        while len(hull) > 1 and _is_below(hull[-1], hull[-2], (cost, quality)):
            hull.pop()
        if hull and hull[-1][0] == cost:
            hull.pop()
        hull.append((cost, quality))
    dearest = max((cost for cost, _ in points), default=0.0)
    if hull and hull[-1][0] < dearest:
        hull.append((dearest, hull[-1][1]))
    return hull


def _is_below(middle: Point, left: Point, right: Point) -> bool:
    """Whether a point is not above the line between two others."""
    rise = (right[1] - left[1]) * (middle[0] - left[0])
    return (middle[1] - left[1]) * (right[0] - left[0]) <= rise
