"""Bootstrap, policies -> quality against cost, point by point, for every view to draw.

The band of an allocator is the interval of its lead, drawn on the blind line. So it
touches that line exactly where the answer is not settled, which an interval of the
allocator's own quality would not.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from deepval.basics.arrays import PerResample
from deepval.judge.allowances import Allowance
from deepval.judge.answers.answer import fixed_modes, is_own
from deepval.judge.answers.blind import (
    BlindModes,
    OnTop,
    allowed,
    charged_name,
    spent_under,
)
from deepval.judge.answers.leads import Lead, Scale, leads, quality
from deepval.judge.bootstrap import Bootstrap, Gains
from deepval.judge.draws import make_draws
from deepval.judge.extras.recovery import Fresh
from deepval.judge.policies import Policy, Ranking
from deepval.judge.results import (
    HEADLINE,
    SCALES,
    Answer,
    BudgetKey,
    Picture,
    PictureMark,
    PicturePoints,
    cost_axis,
    shown_cost,
)

STEPS = 24
"""Budgets from nothing to everything at which every curve is computed."""


@dataclass(frozen=True, eq=False)
class PictureAxes:
    """Gains and spends -> figures of the two axes.

    Attributes:
        bootstrap: The resamples.
        allowance: The budget, which names the prices.
    """

    bootstrap: Bootstrap
    allowance: Allowance

    @cached_property
    def scale(self) -> Scale:
        """The unit in which gains are shown."""
        return Scale.of(self.bootstrap)

    @cached_property
    def base(self) -> float:
        """Quality of the cheap mode; where only gains are known, 0."""
        if self.scale.kind in ("right", "reward"):
            return quality(self.bootstrap, 0.0)
        return 0.0

    def quality(self, gain: float) -> float:
        """The quality after a gain in the scale."""
        return self.scale.percent * (self.base + gain)

    def quality_of_sum(self, total: float) -> float:
        """The quality after a gain in units of the loss, over all inputs."""
        shown = self.scale.samples(self.bootstrap, np.array([[total]]))
        return self.quality(float(shown[0, 0]))

    def cost(self, spend: float) -> float:
        """What an input costs in all, from what it spends beyond the cheap mode."""
        if self.allowance.is_measured:
            spend += self.allowance.cheap
        return shown_cost(self.allowance.convention, spend)

    @property
    def cost_axis(self) -> str:
        """Name and unit of the cost."""
        rows = self.bootstrap.rows
        noun = "input" if rows is None else rows.nouns[0]
        return cost_axis(self.allowance.convention, noun)

    def points(
        self, name: str, found: Sequence[Lead], start: tuple[float, float] | None
    ) -> PicturePoints:
        """One allocator at rising budgets, with the band of its lead.

        Args:
            name: Its name.
            found: Its lead under each budget.
            start: Cost and quality where it escalates nothing; None where its own cost
                is paid there already.
        """
        ordered = sorted(found, key=lambda lead: lead.spend)
        costs = [self.cost(lead.spend) for lead in ordered]
        qualities = [self.quality(lead.gain) for lead in ordered]
        low: list[float | None] = []
        high: list[float | None] = []
        if start is not None:
            costs.insert(0, start[0])
            qualities.insert(0, start[1])
            # There it is a blind choice itself, so it leads by nothing.
            low.append(start[1])
            high.append(start[1])
        for lead in ordered:
            bounds = lead.margin.bounds
            if bounds is None:
                low.append(None)
                high.append(None)
            else:
                low.append(self.quality(lead.blind + bounds.low))
                high.append(self.quality(lead.blind + bounds.high))
        return PicturePoints(
            name=name,
            cost=tuple(costs),
            quality=tuple(qualities),
            low=tuple(low),
            high=tuple(high),
        )


def picture(fresh: Fresh, answers: Sequence[Answer]) -> Picture | None:
    """The picture of a result, for the kind of budget of its headline answer.

    None where the table was too large to be in memory as a whole.
    """
    bootstrap = fresh.bootstrap
    if bootstrap.rows is None or not fresh.allowances:
        return None
    allowance = _headline(fresh.allowances, [one.budget for one in answers])
    alike = [one for one in fresh.allowances if _is_alike(one, allowance)]
    axes = PictureAxes(bootstrap, allowance)
    judged = [one.budget.alpha for one in alike]
    steps = _steps(allowance, judged)

    allocators = [one for one in fresh.policies if not one.is_reference]
    compared = [
        one
        for one in allocators
        if is_own(one.name, fresh.own) and one.name not in fresh.diagnostics
    ]
    rest = [one for one in allocators if one not in compared]
    answer = _answer_under(answers, allowance)
    hinted: list[Policy] = []
    if answer is not None and answer.on_top is not None:
        hinted = [
            OnTop(one, answer.on_top)
            for one in allocators
            if isinstance(one, Ranking) and one.name == answer.on_top_score
        ]

    routers = [
        *_curves(axes, steps, compared),
        *_curves(axes, steps, rest),
    ]
    on_top = _curves(axes, steps, hinted)
    return Picture(
        budget=allowance.key,
        cost_axis=axes.cost_axis,
        quality_axis=SCALES[axes.scale.kind].axis,
        share=tuple(judged),
        share_cost=tuple(_limit(axes, one) for one in alike),
        fixed=tuple(_marks(axes)),
        blind=_blind(axes),
        oracle=_oracle(axes, fresh, steps),
        routers=tuple(routers),
        on_top=on_top[0] if on_top else None,
    )


def _headline(
    allowances: Sequence[Allowance], keys: Collection[BudgetKey]
) -> Allowance:
    """The budget of the answer that is shown first."""
    answered = [one for one in allowances if one.key in keys] or list(allowances)
    kind = answered[0]
    alike = [one for one in answered if _is_alike(one, kind)]
    return min(alike, key=lambda one: abs(one.budget.alpha - HEADLINE))


def _is_alike(one: Allowance, other: Allowance) -> bool:
    """Whether two budgets are of one kind, in one unit and accounting."""
    return replace(one.key, alpha=0.0) == replace(other.key, alpha=0.0)


def _answer_under(answers: Sequence[Answer], allowance: Allowance) -> Answer | None:
    for answer in answers:
        if answer.budget == allowance.key:
            return answer
    return None


def _steps(allowance: Allowance, judged: Sequence[float]) -> list[Allowance]:
    """Budgets from nothing to everything, with the judged ones among them."""
    most = 1.0
    if allowance.is_measured and allowance.is_skipping:
        most = min(1.0, allowance.uniform_from)
    shares = np.union1d(most * np.arange(1, STEPS + 1) / STEPS, np.array(judged))
    steps = []
    for share in shares.tolist():
        budget = replace(allowance.budget, alpha=share)
        steps.append(replace(allowance, budget=budget))
    return steps


def _limit(axes: PictureAxes, allowance: Allowance) -> float:
    """The cost up to which a budget goes."""
    limit = allowed(axes.bootstrap, allowance)[0] / axes.bootstrap.inputs[0]
    return axes.cost(float(limit))


def _curves(
    axes: PictureAxes, steps: Sequence[Allowance], policies: Sequence[Policy]
) -> list[PicturePoints]:
    """Allocators that are compared with each other, at every budget."""
    bootstrap = axes.bootstrap
    entrants: list[list[tuple[Policy, Gains]]] = [[] for _ in steps]
    spends: list[list[PerResample]] = [[] for _ in steps]
    for policy in policies:
        # Who chooses alone spends the same under every budget: no curve.
        if policy.has_own_budget:
            continue
        able = [
            (place, outcome.gains)
            for place, outcome in enumerate(policy.outcomes(bootstrap, steps))
            if outcome.gains is not None
        ]
        if not able:
            continue
        # At once, because the inputs are put into order once.
        spent = spent_under(
            policy,
            [gains for _, gains in able],
            bootstrap,
            [steps[place] for place, _ in able],
        )
        for (place, gains), cost in zip(able, spent, strict=True):
            entrants[place].append((policy, gains))
            spends[place].append(cost)
    found: dict[str, list[Lead]] = {policy.name: [] for policy in policies}
    for step, named, costs in zip(steps, entrants, spends, strict=True):
        for lead in leads(bootstrap, step, named, costs):
            found[lead.name].append(lead)
    curves = []
    for policy in policies:
        curve = found[policy.name]
        if curve:
            curves.append(axes.points(policy.name, curve, _start(axes, policy)))
    return curves


def _start(axes: PictureAxes, policy: Policy) -> tuple[float, float] | None:
    """Where a policy escalates nothing: at its base, if choosing costs nothing."""
    name = charged_name(policy)
    base = policy.base if isinstance(policy, OnTop) else axes.bootstrap.modes[0]
    if axes.allowance.is_measured and axes.allowance.cost_of(name) > 0:
        return None
    for mark in _marks(axes):
        if mark.name == base:
            return mark.cost, mark.quality
    return None


def _marks(axes: PictureAxes) -> list[PictureMark]:
    """The fixed modes, with intervals of their own quality."""
    marks = []
    for mode in fixed_modes(axes.bootstrap, axes.allowance):
        bounds = mode.gain.interval
        if mode.gain.value is None:
            continue
        marks.append(
            PictureMark(
                name=mode.mode,
                cost=axes.cost(mode.spend),
                quality=axes.quality(mode.gain.value),
                low=None if bounds is None else axes.quality(bounds.low),
                high=None if bounds is None else axes.quality(bounds.high),
            )
        )
    return marks


def _blind(axes: PictureAxes) -> PicturePoints:
    """The best blind mixture; between the costs of two modes its line is straight."""
    modes = BlindModes.of(axes.bootstrap, axes.allowance)
    spends = np.unique(modes.cost[:, 0])
    # The kernel takes a spend in every resample; the sample is the first.
    rows = np.broadcast_to(spends[:, None], (len(spends), modes.cost.shape[1]))
    gains = modes.mixtures(rows).gain[:, 0].tolist()
    inputs = float(axes.bootstrap.inputs[0])
    return PicturePoints(
        name="best blind mixture",
        cost=tuple(axes.cost(spend / inputs) for spend in spends.tolist()),
        quality=tuple(axes.quality_of_sum(gain) for gain in gains),
    )


def _oracle(
    axes: PictureAxes, fresh: Fresh, steps: Sequence[Allowance]
) -> PicturePoints | None:
    """The perfect router at every budget, on the sample alone: it has no band."""
    names = ["oracle-ladder", "oracle"]
    named = {policy.name: policy for policy in fresh.policies if policy.name in names}
    policy = next((named[name] for name in names if name in named), None)
    if policy is None:
        return None
    table = axes.bootstrap.table
    no_draws = make_draws(len(table.unit_ids), 0, 0)
    sample = Bootstrap.of(table, no_draws, leave_out=False)
    costs = [axes.cost(0.0)]
    qualities = [axes.quality(0.0)]
    outcomes = policy.outcomes(sample, steps)
    for step, outcome in zip(steps, outcomes, strict=True):
        if outcome.gains is not None:
            costs.append(_limit(axes, step))
            qualities.append(axes.quality_of_sum(float(outcome.gains.gain[0])))
    return PicturePoints("perfect router", tuple(costs), tuple(qualities))
