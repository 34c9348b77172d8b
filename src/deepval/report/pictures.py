"""Result -> pictures of quality against cost, one for every kind of its budgets.

A fresh result computes the picture of its headline at many budgets. A saved one may
hold only rows: then every router is drawn at the judged budgets, and the best blind
mixture through the points that the rows name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from deepval.results import (
    ALWAYS_MODE,
    BudgetKey,
    Picture,
    PictureMark,
    PicturePoints,
    Result,
    Row,
)
from deepval.tables.scores import is_reference

Point = tuple[float, float]


def pictures(result: Result) -> list[Picture]:
    """A picture for every kind of budget, that of the headline answer first."""
    drawn = result.with_picture()
    found = [] if drawn.picture is None else [drawn.picture]
    for key in _kinds(result):
        if any(_kind_of(one.budget) == key for one in found):
            continue
        picture = _from_rows(result, key)
        if picture is not None:
            found.append(picture)
    return found


def _kinds(result: Result) -> list[BudgetKey]:
    """The kinds of budget of the answers, then of all rows; with an alpha of 0."""
    answered = [answer.budget for answer in result.answers]
    rows = [row.budget for row in result.rows if row.spender is None]
    return list(dict.fromkeys(map(_kind_of, [*answered, *rows])))


def _kind_of(budget: BudgetKey) -> BudgetKey:
    return replace(budget, alpha=0.0)


def _from_rows(result: Result, key: BudgetKey) -> Picture | None:
    """The picture that rows, and curves where there are some, allow."""
    rows = [
        row
        for row in result.rows
        if row.spender is None and _kind_of(row.budget) == key
    ]
    if not rows:
        return None
    axes = RowAxes.of(result, rows)
    fixed = axes.marks(result, rows)
    if not fixed:
        return None
    routers: dict[str, list[Row]] = {}
    limits: dict[float, float] = {}
    turns: list[Point] = [(mark.cost, mark.quality) for mark in fixed]
    for row in rows:
        if row.spend is None or row.gain is None or is_reference(row.allocator):
            continue
        routers.setdefault(row.allocator, []).append(row)
        cost = axes.cost(row.spend)
        # A ranking spends what it may, so the dearest one shows what that is.
        limits[row.alpha] = max(limits.get(row.alpha, cost), cost)
        if row.lead is not None:
            blind = row.gain - axes.total(row, float(row.lead))
            turns.append((cost, axes.quality(blind)))
    lines = [axes.points(name, own) for name, own in routers.items()]
    oracle = _oracle(axes, rows, limits)
    if key.kind == "selection":
        limits = {row.alpha: 100 * row.alpha for row in rows}
        lines, oracle = _over_all_shares(axes, result, rows, lines)
    shares = sorted(limits)
    headline = min(shares or [0.2], key=lambda share: abs(share - 0.2))
    hull = _upper_hull(turns)
    return Picture(
        budget=replace(key, alpha=headline),
        cost_axis=axes.cost_axis,
        quality_axis=axes.quality_axis,
        share=tuple(shares),
        share_cost=tuple(limits[share] for share in shares),
        fixed=tuple(fixed),
        blind=PicturePoints(
            name="best blind mixture",
            cost=tuple(cost for cost, _ in hull),
            quality=tuple(quality for _, quality in hull),
        ),
        oracle=oracle,
        routers=tuple(lines),
    )


def _over_all_shares(
    axes: "RowAxes",
    result: Result,
    rows: Sequence[Row],
    lines: Sequence[PicturePoints],
) -> tuple[list[PicturePoints], PicturePoints | None]:
    """Routers and the oracle from no input to all inputs, where the rest is known.

    Whoever escalates every input runs the full mode alone. Between the judged shares
    there are curves, where they were asked for.
    """
    loss = result.setting.cheap_loss
    qualities: dict[str, dict[float, float]] = {}
    for curve in result.curves:
        by_cost = qualities.setdefault(curve.allocator, {})
        for alpha, gain in zip(curve.alpha, curve.gain_share, strict=True):
            if gain is not None:
                by_cost[100 * alpha] = axes.quality(gain * loss)
    share = result.setting.all_full_share
    # With several modes, everything may be escalated to any of them.
    if share is not None and len(result.setting.modes) == 2:
        for line in lines:
            by_cost = qualities.setdefault(line.name, {})
            by_cost[100.0] = axes.quality(share * loss)
    whole = [_with_points(line, qualities.get(line.name, {})) for line in lines]
    best = _oracle(axes, rows, {row.alpha: 100 * row.alpha for row in rows})
    if best is None:
        return whole, None
    # The oracle never escalates what harms, so beyond its last share it stays.
    ends = {100.0: max(best.quality), **qualities.get("oracle", {})}
    return whole, _with_points(best, ends)


def _with_points(line: PicturePoints, more: dict[float, float]) -> PicturePoints:
    """A line with further points, which have no band."""
    own = {round(cost, 6): place for place, cost in enumerate(line.cost)}
    costs = sorted({*own, *(round(cost, 6) for cost in more)})
    further = {round(cost, 6): quality for cost, quality in more.items()}
    quality: list[float] = []
    low: list[float | None] = []
    high: list[float | None] = []
    for cost in costs:
        place = own.get(cost)
        if place is None:
            quality.append(further[cost])
            low.append(None)
            high.append(None)
        else:
            quality.append(line.quality[place])
            low.append(line.low[place] if line.low else None)
            high.append(line.high[place] if line.high else None)
    return PicturePoints(
        line.name, tuple(costs), tuple(quality), tuple(low), tuple(high)
    )


def _oracle(
    axes: "RowAxes", rows: Sequence[Row], limits: dict[float, float]
) -> PicturePoints | None:
    """The oracle at the judged budgets; over all modes where there are several."""
    names = {row.allocator for row in rows}
    name = "oracle-ladder" if "oracle-ladder" in names else "oracle"
    points = [
        (limits[row.alpha], axes.quality(row.gain))
        for row in rows
        if row.allocator == name and row.gain is not None and row.alpha in limits
    ]
    if not points:
        return None
    start = (axes.cost(axes.cheap_spend), axes.quality(0.0))
    costs, qualities = zip(start, *sorted(points), strict=True)
    return PicturePoints("perfect router", tuple(costs), tuple(qualities))


@dataclass(frozen=True)
class RowAxes:
    """Figures of rows -> figures of the two axes.

    Attributes:
        kind: right answers, reward, share of the loss removed, or loss per input.
        base: Quality of the cheap mode; 0 where only gains are known.
        per: What a gain over all inputs is divided by.
        convention: Unit of the cost; None for shares of the inputs.
        cheap_spend: What the cheap mode costs per input.
    """

    kind: str
    base: float
    per: float
    convention: str | None
    cheap_spend: float

    @classmethod
    def of(cls, result: Result, rows: Sequence[Row]) -> "RowAxes":
        """The axes of the rows of one kind of budget."""
        first = rows[0]
        cheap = ALWAYS_MODE + result.setting.modes[0]
        of_cheap = [row for row in rows if row.allocator == cheap]
        base = next((row.quality for row in of_cheap if row.quality is not None), None)
        spends = [row.spend for row in of_cheap if row.spend is not None]
        words = " ".join(row.lead_words or "" for row in rows)
        kind = "share"
        if base is not None:
            kind = "right" if " points " in words else "reward"
        elif first.versus_random_unit == "loss":
            kind = "loss"
        cheap_loss = result.setting.cheap_loss
        per = float(result.setting.inputs)
        if kind == "share" and cheap_loss > 0:
            per = cheap_loss
        return cls(
            kind=kind,
            base=base or 0.0,
            per=per,
            convention=first.convention,
            cheap_spend=spends[0] if spends else 0.0,
        )

    @property
    def cost_axis(self) -> str:
        """Name and unit of the cost."""
        if self.convention is None:
            return "inputs escalated, %"
        if self.convention == "usd":
            return "USD per 1,000 inputs"
        return "ms per input" if self.convention == "ms" else "mJ per input"

    @property
    def quality_axis(self) -> str:
        """Name and unit of the quality."""
        names = {
            "right": "right answers, %",
            "reward": "reward",
            "share": "loss removed, %",
            "loss": "loss removed per input",
        }
        return names[self.kind]

    @property
    def percent(self) -> float:
        """What a figure is multiplied by where it is shown."""
        return 100.0 if self.kind in ("right", "share") else 1.0

    def cost(self, spend: float) -> float:
        """The cost of an input in all."""
        if self.convention is None:
            return 100 * spend
        return 1000 * spend if self.convention == "usd" else spend

    def quality(self, gain: float) -> float:
        """The quality after a gain over all inputs, in units of the loss."""
        return self.percent * (self.base + gain / self.per)

    def total(self, row: Row, lead: float) -> float:
        """A lead of a row in units of the loss, over all inputs."""
        if row.versus_random_unit == "share" and self.kind != "reward":
            return lead * (row.cheap_loss or 0.0)
        return lead * row.inputs

    def points(self, name: str, rows: Iterable[Row]) -> PicturePoints:
        """A router at the judged budgets, with the band of its lead."""
        ordered = sorted(rows, key=lambda row: row.spend or 0.0)
        costs: list[float] = []
        qualities: list[float] = []
        low: list[float | None] = []
        high: list[float | None] = []
        if not any(row.cost for row in ordered):
            # Who pays nothing to choose begins at the cheap mode, a blind choice.
            start = self.quality(0.0)
            costs.append(self.cost(self.cheap_spend))
            qualities.append(start)
            low.append(start)
            high.append(start)
        for row in ordered:
            costs.append(self.cost(row.spend or 0.0))
            qualities.append(self.quality(row.gain or 0.0))
            if row.lead is None or row.lead_lo is None or row.lead_hi is None:
                low.append(None)
                high.append(None)
                continue
            blind = (row.gain or 0.0) - self.total(row, float(row.lead))
            low.append(self.quality(blind + self.total(row, row.lead_lo)))
            high.append(self.quality(blind + self.total(row, row.lead_hi)))
        return PicturePoints(
            name=name,
            cost=tuple(costs),
            quality=tuple(qualities),
            low=tuple(low),
            high=tuple(high),
        )

    def marks(self, result: Result, rows: Sequence[Row]) -> list[PictureMark]:
        """The fixed modes that the rows know; of the full one, its share of the loss
        is known under every budget of inputs.
        """
        found: dict[str, PictureMark] = {}
        for row in rows:
            mode = row.allocator.removeprefix(ALWAYS_MODE)
            if mode == row.allocator or row.spend is None or row.gain is None:
                continue
            cost = self.cost(row.spend)
            found[mode] = PictureMark(mode, cost, self.quality(row.gain), None, None)
        full = result.setting.modes[-1]
        share = result.setting.all_full_share
        if full not in found and self.convention is None and share is not None:
            quality = self.quality(share * result.setting.cheap_loss)
            low, high = self.bounds_of_effect(result)
            found[full] = PictureMark(full, 100.0, quality, low, high)
        return [found[mode] for mode in result.setting.modes if mode in found]

    def bounds_of_effect(self, result: Result) -> tuple[float | None, float | None]:
        """The interval of the full mode's quality, where no allocator was judged."""
        effect = result.effect
        if effect is None or effect.gain_lo is None or effect.gain_hi is None:
            return None, None
        # An effect is in the unit of the axis but for percent and the cheap mode.
        low = self.percent * (self.base + effect.gain_lo)
        return low, self.percent * (self.base + effect.gain_hi)


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
