"""Walks -> the answer to "as good, for less": a record of a result, and its words."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deepval.judge.answers.answer import is_own
from deepval.judge.answers.floors import Floor, Qualities
from deepval.judge.answers.keep import ERROR, Walk, families, walk
from deepval.judge.answers.leads import FEW_UNITS, Scale
from deepval.judge.answers.sentences import RESOURCES, signed
from deepval.judge.bootstrap import Bootstrap
from deepval.judge.group_tables import ALL
from deepval.judge.intervals import ROUNDING
from deepval.judge.judgement import Contest
from deepval.judge.mode_charges import Charged
from deepval.judge.policies import Policy
from deepval.judge.results import ALWAYS_MODE, Keep, KeepMode, KeepOption


def as_good(
    bootstrap: Bootstrap,
    contests: Sequence[Contest],
    floor_words: tuple[object, object],
    *,
    columns: Sequence[str] = (),
    own: Collection[str] = (),
    never: Collection[str] = (),
) -> Keep:
    """The cheapest option that is shown to reach a floor.

    Args:
        bootstrap: The resamples.
        contests: The allocators under every budget, of which only the kind counts: what
            a spend is of.
        floor_words: The floor as the user states it: what to keep, or what to reach.
        columns: Columns by which tables choose the mode.
        own: The user's own allocators, which alone may be named; of none all.
        never: Diagnostics, which cannot be deployed.
    """
    stated = [one.allowance for one in contests if one.allowance.spender is None]
    # Money, time and energy are worth more to know than a number of escalations.
    measured = [one for one in stated if one.is_measured]
    allowance = [*measured, *stated][0]
    policies: dict[str, Policy] = {}
    for contest in contests:
        for entry in contest.entries:
            name = entry.policy.name
            is_able = name not in never and name not in allowance.unpriced
            # Tables are asked for by their columns.
            is_named = is_own(name, own) and not entry.policy.is_by_groups
            if is_able and is_named and not entry.policy.is_reference:
                policies.setdefault(name, entry.policy)
    table = bootstrap.table
    modes = table.modes
    charged = Charged.of(table, allowance)
    dearest = modes[charged.dearest]
    floor = Floor.of(*floor_words, modes, dearest)
    qualities = Qualities.of(bootstrap)
    qualities.check(floor, modes)

    found = families(bootstrap, charged, allowance, [*policies.values()], columns)
    # Every family has its part of the error, so that all statements hold together.
    error = ERROR / len(found)
    walks = [walk(bootstrap, charged, one, floor, error=error) for one in found]
    reached = qualities.reached(floor, modes, bootstrap.mode_gains[:, :1])[:, 0]
    cost = charged.blind.mean(axis=0) / charged.per_input
    fixed = tuple(
        KeepMode(mode, float(cost[number]), float(reached[number]))
        for number, mode in enumerate(modes)
    )
    # What a floor is relative to reaches it for certain, and may cost less than others.
    limit = float(cost[modes.index(floor.mode or dearest)])
    options = tuple(_option(modes, charged, one, limit) for one in walks)
    words = KeepWords(bootstrap, floor, dearest, allowance.budget.kind)
    shown = [one for one in options if one.is_shown]
    best = min(shown, key=lambda one: one.spend, default=None)
    return Keep(
        floor=words.floor_words,
        share=floor.share,
        mode=floor.mode,
        target=floor.target,
        kind=allowance.budget.kind,
        dearest=dearest,
        option=None if best is None else best.family,
        spend=limit if best is None else best.spend,
        families=options,
        fixed=fixed,
        sentence=words.sentence(best, options, fixed),
        doubt=words.doubt(options),
    )


def _option(
    modes: Sequence[str], charged: Charged, one: Walk, limit: float
) -> KeepOption:
    """The cheapest option of a family that is shown, or the first that is not.

    What costs as much as the limit is no option.
    """
    is_shown = one.passed > 0 and bool(one.spend[one.passed - 1] < limit - ROUNDING)
    at = min(one.passed, len(one.low) - 1)
    if is_shown:
        at = one.passed - 1
    low = float(one.low[at])
    shares: dict[str, dict[str, float]] = {}
    default: dict[str, float] = {}
    tables = one.family.tables
    groups = one.family.groups
    if tables is not None and groups is not None:
        shares, default = tables.named(at, groups, modes)
    return KeepOption(
        family=one.family.name,
        words=_words(modes, charged, one, at),
        is_shown=is_shown,
        spend=float(one.spend[at]),
        reached=float(one.reached[at]),
        lower=low if np.isfinite(low) else None,
        options=len(one.low),
        passed=one.passed,
        shares=shares,
        default=default,
    )


def _words(modes: Sequence[str], charged: Charged, one: Walk, at: int) -> str:
    """What to run: `mine at 38 %`, `always yi-34b`, `gpt-4 on a random 15 % ...`."""
    family = one.family
    if family.escalated is not None and family.base is not None:
        percent = f"{100 * family.escalated[at]:.0f} %"
        base = modes[family.base[at]]
        on = "" if family.base[at] == 0 else f" on {base}"
        return f"{family.name}{on} at {percent}"
    if family.tables is None or family.name != "blind":
        return family.name
    assert family.groups is not None
    groups, _ = family.tables.named(at, family.groups, modes)
    named = groups[ALL]
    if len(named) == 1:
        return f"always {next(iter(named))}"
    # Of the two modes of a mixture, the dearer one is named first.
    cost = charged.blind.mean(axis=0)
    low, high = sorted(named, key=lambda mode: cost[modes.index(mode)])
    return f"{high} on a random {100 * named[high]:.0f} % and {low} on the rest"


# --- words ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KeepWords:
    """Sentences about one floor.

    Attributes:
        bootstrap: The resamples.
        floor: The floor.
        dearest: The mode that costs most.
        kind: The kind of budget that a spend is of.
    """

    bootstrap: Bootstrap
    floor: Floor
    dearest: str
    kind: str

    @property
    def reference(self) -> str:
        """The mode that is run where nothing cheaper is shown."""
        return self.floor.mode or self.dearest

    @cached_property
    def scale(self) -> str:
        """What a quality is: right, reward or gain."""
        kind = Scale.of(self.bootstrap).kind
        return kind if kind in ("right", "reward") else "gain"

    @property
    def floor_words(self) -> str:
        """The floor: `99 % of gpt-4's right answers`."""
        floor = self.floor
        if floor.share is not None:
            percent = f"{100 * floor.share:.4g} %"
            wholes = {"right": "'s right answers", "reward": "'s reward"}
            if self.scale == "gain":
                return f"{percent} of what {floor.mode} gains"
            return f"{percent} of {floor.mode}{wholes[self.scale]}"
        if floor.mode is None:
            if self.scale == "right":
                return f"{100 * floor.quality:.4g} % right"
            return f"a reward of {floor.quality:.4g}"
        if not floor.quality:
            return f"the quality of {floor.mode}"
        below = f"{-floor.quality:.4g} below"
        if self.scale == "right":
            below = f"{-100 * floor.quality:.4g} points below"
        return f"at most {below} {floor.mode}"

    def sentence(
        self,
        best: KeepOption | None,
        options: Sequence[KeepOption],
        fixed: Sequence[KeepMode],
    ) -> str:
        """The answer in one sentence."""
        if best is not None:
            verb = "Keep" if self.floor.share is not None else "Reach"
            head = f"{verb} {self.floor_words} {self._for(best.spend)}: {best.words}"
            return f"{head} {self._bound(best)}{self._fixed(best, fixed)}."
        head = f"Keep {self.reference}"
        if self.floor.mode is None and not any(one.passed for one in options):
            head = f"Nothing is shown to reach {self.floor_words}"
        nearest = max(options, key=self._distance)
        value = self.value(nearest.reached)
        return (
            f"{head}: {nearest.words} is the nearest, {value} {self._bound(nearest)}."
        )

    def _distance(self, option: KeepOption) -> float:
        """How near to the floor the bound of an option that is not shown comes."""
        if option.lower is None:
            return option.reached - 1e3
        return option.lower

    def _for(self, spend: float) -> str:
        """What it costs: `for 41 % of its money`."""
        percent = f"{100 * spend:.0f} %"
        if self.kind == "selection":
            return f"on {percent} of the {self.bootstrap.table.nouns[0]}s"
        whose = f"{self.dearest}'s"
        if self.floor.mode == self.dearest:
            whose = "its"
        return f"for {percent} of {whose} {RESOURCES[self.kind]}"

    def _bound(self, option: KeepOption) -> str:
        if option.lower is None:
            return "[no bound]"
        return f"[lower bound {self.value(option.lower)}]"

    def _fixed(self, best: KeepOption, fixed: Sequence[KeepMode]) -> str:
        """What the best fixed mode of that price reaches; nothing where it is best."""
        affordable = [mode for mode in fixed if mode.spend <= best.spend]
        if not affordable:
            return ""
        other = max(affordable, key=lambda mode: mode.reached)
        if best.words == f"{ALWAYS_MODE}{other.mode}":
            return ""
        verb = "keeps" if self.floor.share is not None else "reaches"
        return f"; {ALWAYS_MODE}{other.mode} {verb} {self.value(other.reached)}"

    def value(self, reached: float) -> str:
        """What is reached of what the floor is about."""
        if self.floor.share is not None:
            return signed(100 * reached, 1) + " %"
        if self.scale == "reward":
            return signed(reached, 3)
        unit = "%" if self.floor.mode is None else "points"
        if self.scale == "gain":
            return f"{signed(reached, 3)} per input"
        return f"{signed(100 * reached, 1)} {unit}"

    def doubt(self, options: Sequence[KeepOption]) -> str:
        """The one thing most worth knowing before trusting it."""
        bootstrap = self.bootstrap
        unit = bootstrap.table.nouns[1]
        units = len(bootstrap.unit_ids)
        if units == 1:
            return f"One {unit} says nothing about others."
        if not bootstrap.has_intervals:
            return "Without draws there is no bound, and nothing is shown."
        if bootstrap.effective_units < FEW_UNITS:
            few = max(1, round(bootstrap.effective_units))
            return f"Most of what can be gained lies in {few} of {units} {unit}s."
        if len(options) > 1:
            return f"It was picked among {len(options)} families; the bound allows it."
        return f"Other {unit}s may differ."
