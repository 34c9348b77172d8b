"""The picture of an answer: quality against cost, as the points that are drawn."""

from dataclasses import dataclass

from deepval.results.records import BudgetKey, Record


@dataclass(frozen=True, eq=False)
class PicturePoints(Record):
    """A policy at rising costs, in the units of the two axes.

    Attributes:
        name: The policy.
        cost: What it costs per input in all.
        quality: What it comes to there.
        low: The blind mixture at that cost plus the lower bound of the lead; empty
            where there is no interval.
        high: The same with the upper bound.
    """

    name: str
    cost: tuple[float, ...]
    quality: tuple[float, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()


@dataclass(frozen=True, eq=False)
class PictureMark(Record):
    """One mode on every input.

    Attributes:
        name: The mode.
        cost: What it costs per input.
        quality: What it comes to.
        low: Lower bound of its 95 % interval.
        high: Upper bound.
    """

    name: str
    cost: float
    quality: float
    low: float | None
    high: float | None


@dataclass(frozen=True, eq=False)
class Picture(Record):
    """Quality against cost under one kind of budget.

    Attributes:
        budget: The budget of the headline answer.
        cost_axis: What the cost is, with its unit.
        quality_axis: What the quality is, with its unit.
        share: The judged budgets.
        share_cost: What each of them allows per input.
        fixed: Every mode on all inputs, cheap first.
        blind: The best choice that does not look at the inputs.
        oracle: A perfect router.
        routers: Every allocator, with the band of its lead around the blind line: it
            touches that line exactly where an interval of its lead includes 0.
        on_top: The candidate's score on a better base, where that is worth running.
    """

    budget: BudgetKey
    cost_axis: str
    quality_axis: str
    share: tuple[float, ...]
    share_cost: tuple[float, ...]
    fixed: tuple[PictureMark, ...]
    blind: PicturePoints
    oracle: PicturePoints | None
    routers: tuple[PicturePoints, ...]
    on_top: PicturePoints | None = None
