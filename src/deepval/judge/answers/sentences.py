"""Answers -> the sentences that every view prints: console, page, notebook, threshold.

`sentence` is the answer, `instead` what simply running a fixed mode gives, `doubt` the
one thing most worth knowing before trusting it. Each names what a reader would do, in
the reader's own units; none names a statistic.
"""

from dataclasses import dataclass
from functools import cached_property

from deepval.basics.errors import few
from deepval.judge.answers.answer import Decision, Fixed, Help
from deepval.judge.answers.leads import FEW_UNITS, Lead, Mixture, Scale, quality
from deepval.judge.bootstrap import Bootstrap
from deepval.judge.intervals import Interval
from deepval.judge.results import SCALES

DIGITS = {"right": 1, "reward": 3, "share": 1, "loss": 3}
RESOURCES = {"money": "money", "latency": "time", "energy": "energy"}
"""What a measured budget is a share of, by its kind."""
LARGE_SHARE = 0.1
"""A unit with more of the gain than this is named."""


@dataclass(frozen=True, eq=False)
class Words:
    """Sentences about one table, in the words of its reader.

    Attributes:
        bootstrap: The resamples.
        input: What the reader calls an input, such as frame.
        unit: What the reader calls a unit, such as drive.
    """

    bootstrap: Bootstrap
    input: str = "input"
    unit: str = "unit"

    @property
    def units(self) -> str:
        """Several units."""
        return f"{self.unit}s"

    @cached_property
    def scale(self) -> Scale:
        """The unit in which gains are told."""
        return Scale.of(self.bootstrap)

    # --- the answer -------------------------------------------------------------------

    def sentence(self, decision: Decision) -> str:
        """The answer in one sentence."""
        return f"{self.head(decision)}: {self.reason(decision)}."

    def head(self, decision: Decision) -> str:
        """What to do: `Do not run router2 at 20 % of the money`."""
        budget = budget_words(decision)
        candidate = decision.candidate
        if candidate is None and decision.verdict == "do not run":
            names = ", ".join(name for name, _ in decision.refused)
            return f"Do not run {names} {budget}"
        if candidate is None and decision.refused:
            return f"Not settled {budget}"
        if candidate is None:
            return f"No router is judged {budget}"
        if decision.verdict == "run":
            return f"Run {candidate.name} {budget}"
        if decision.verdict == "not settled":
            return f"Not settled {budget}"
        # This verdict is about all compared allocators.
        compared = len(decision.judged)
        if compared > 1:
            return f"Do not run any of these {compared} {budget}"
        return f"Do not run {candidate.name} {budget}"

    def reason(self, decision: Decision) -> str:
        """Why, in what a reader would get and pay instead."""
        candidate = decision.candidate
        if candidate is None:
            fixed = decision.best_fixed
            best = f"the best fixed mode that fits is {fixed.mode}"
            return "; ".join([*_refusals(decision), best])
        if decision.verdict == "do not run":
            return self._better(decision, candidate)
        lead = self.lead(candidate)
        blind = self.mixture(candidate.mixture)
        if decision.verdict == "run":
            best = f"the best fixed mode that fits is {decision.best_fixed.mode}"
            return f"{lead} above {blind}; {best}"
        more = self._more_units(decision)
        return f"{candidate.name} against {blind} is {lead}; {more}"

    def _better(self, decision: Decision, candidate: Lead) -> str:
        """What to do instead: a fixed mode that is better for less, else a mixture."""
        fixed = decision.best_fixed
        own = self._figure(decision, candidate.total, candidate.spend, is_second=True)
        if fixed.total >= candidate.total and fixed.spend <= candidate.spend:
            figure = self.mode(fixed, decision)
            return f"always {fixed.mode} {figure}; {candidate.name} {own}"
        mixture = self._mixture_advice(candidate.mixture)
        total = candidate.blind * float(self.scale.per[0])
        figure = self._figure(decision, total, candidate.spend)
        return f"{mixture} {figure}; {candidate.name} {own}"

    def _more_units(self, decision: Decision) -> str:
        more = decision.more_units
        if not self.bootstrap.has_intervals:
            if len(self.bootstrap.unit_ids) > 1:
                return "draws are needed for an interval"
            return f"one {self.unit} settles nothing about others"
        if more is None:
            return "more of the same data will hardly settle it"
        if more == 1:
            return f"about 1 more {self.unit} would settle it"
        return f"about {more:,} more {self.units} would settle it"

    def instead(self, decision: Decision) -> str:
        """What simply running a fixed mode gives."""
        cheap = decision.fixed[0]
        full = decision.fixed[-1]
        best = decision.best_fixed
        # "Simply always cheap" is no advice where the dear mode was not affordable.
        if best.mode == cheap.mode and not full.fits:
            figure = self.mode(full, decision)
            return f"If you can afford it, always {full.mode} {figure}."
        return f"Simply always {best.mode} {self.mode(best, decision)}."

    def hint(self, decision: Decision) -> str | None:
        """The same score on a better base, where that is worth running."""
        on_top = decision.on_top
        if on_top is None:
            return None
        lead = self.lead(on_top)
        return f"Run {on_top.name} instead: {lead} above the best blind mixture."

    def rivals(self, decision: Decision) -> str | None:
        """Which allocators that are not the user's own are better than blind."""
        to_run = [one for one in decision.others if one.verdict == "run"]
        if not to_run:
            return None
        return (
            f"Of the {len(decision.others)} others, {len(to_run)} could be run, first "
            f"{to_run[0].name}: {self.lead(to_run[0])} above blind."
        )

    def doubt(self, decision: Decision) -> str:
        """The one thing most worth knowing before trusting the answer."""
        effective_units = self.bootstrap.effective_units
        units = len(self.bootstrap.unit_ids)
        if units == 1:
            return f"One {self.unit} says nothing about others."
        if effective_units < FEW_UNITS:
            few = max(1, round(effective_units))
            if few == units:  # the gain is even, and still the units are few
                return f"{units} {self.units} say little about others."
            return f"Most of what can be gained lies in {few} of {units} {self.units}."
        # Only `run` claims what a cautious interval might deny.
        candidate = decision.candidate
        if (
            decision.verdict == "run"
            and candidate is not None
            and _reaches_zero(candidate.margin.figure.second)
        ):
            return self._cautious_doubt()
        compared = len(decision.judged)
        if compared > 1:
            return f"It was picked among {compared}; the interval allows for that."
        return self._common_doubt()

    def _cautious_doubt(self) -> str:
        return f"A cautious interval for so few {self.units} includes 0."

    def _common_doubt(self) -> str:
        return f"Other {self.units} may differ."

    # --- the answer without a score ---------------------------------------------------

    def help_sentences(self, effect: Help) -> list[str]:
        """Whether the full mode helps, where not, and what a router could gain."""
        sentences = [self.effect(effect), self.worse(effect), self.changed(effect)]
        room = self.room(effect)
        if room is not None:
            sentences.append(room)
        return sentences

    def effect(self, effect: Help) -> str:
        """Whether the full mode helps: `big helps: it removes 63.4 % ...`.

        What is so in these units is told apart from what is shown for others.
        """
        cheap = self.bootstrap.modes[0]
        full = self.bootstrap.modes[-1]
        amount = self._effect_words(effect, cheap)
        if effect.verdict != "not settled":
            return f"{full} {effect.verdict}: it {amount}."
        units = len(self.bootstrap.unit_ids)
        noun = self.units if units > 1 else self.unit
        these = f"On these {units:,} {noun}" if units > 1 else f"On this {noun}"
        return f"{these} {full} {amount}; for new {self.units} not settled."

    def worse(self, effect: Help) -> str:
        """In how many units the full mode is worse, and whether one has the gain."""
        units = len(self.bootstrap.unit_ids)
        words = f"It is worse in {len(effect.worse)} of {units:,} {self.units}"
        largest = effect.largest
        if largest is None or largest.share is None or largest.share <= LARGE_SHARE:
            return f"{words}."
        percent = f"{100 * largest.share:.0f} %"
        return f"{words}; {percent} of the gain is one {self.unit} ({largest.unit})."

    def changed(self, effect: Help) -> str:
        """How many inputs the full mode changes, for better and for worse."""
        inputs = int(self.bootstrap.inputs[0])
        harmed = effect.changed - effect.helped
        return (
            f"Of {inputs:,} {self.input}s it changes {effect.changed:,}: "
            f"better on {effect.helped:,}, worse on {harmed:,}."
        )

    def room(self, effect: Help) -> str | None:
        """What a perfect router and a blind choice gain at about 20 %."""
        if not effect.room:
            return None
        room = min(effect.room, key=lambda one: abs(one.alpha - 0.2))
        kind = self.scale.kind
        # The sentence before it says of what loss a share is.
        unit = SCALES[kind].unit.removesuffix(" of the loss")
        perfect = self.number(room.perfect)
        blind = self.number(room.blind)
        return (
            f"At {100 * room.alpha:.4g} %, a perfect router could gain {perfect} "
            f"{unit}, a blind choice {blind}."
        )

    def help_doubt(self, effect: Help) -> str:
        """The one thing most worth knowing before trusting that it helps."""
        if _reaches_zero(effect.gain.second):
            return self._cautious_doubt()
        return self._common_doubt()

    def _effect_words(self, effect: Help, cheap: str) -> str:
        """The gain of the full mode over the cheap one, with its interval."""
        kind = self.scale.kind
        value = effect.gain.value or 0.0
        bounds = self.bounds(effect.gain.interval)
        if kind in ("right", "reward"):
            before = quality(self.bootstrap, 0.0)
            after = before + value
            if kind == "right":
                return (
                    f"is right in {100 * after:.1f} %, {cheap} in {100 * before:.1f} % "
                    f"({self.number(value)} points {bounds})"
                )
            change = f"{self.number(value)} {bounds}"
            return f"earns {after:.3g}, {cheap} {before:.3g} ({change})"
        if kind == "loss":
            return f"gains {value:.3g} {bounds} per input"
        if value < 0:
            added = self.bounds(_negated(effect.gain.interval))
            return f"adds {self.number(-value)} % {added} to the loss of {cheap}"
        return f"removes {self.number(value)} % {bounds} of the loss of {cheap}"

    # --- parts of sentences -----------------------------------------------------------

    def lead(self, lead: Lead) -> str:
        """A lead with the interval that decides: `4.2 points [1.1, 7.0]`."""
        number = self.number(lead.margin.value)
        bounds = self.bounds(lead.margin.bounds)
        unit = SCALES[self.scale.kind].unit
        if unit == "per input":
            return f"{number} {bounds} {unit}"
        return f"{number} {unit} {bounds}"

    def number(self, value: float) -> str:
        """A figure of the scale: in percent or points, or as it is."""
        return signed(value * self.scale.percent, DIGITS[self.scale.kind])

    def bounds(self, bounds: Interval | None) -> str:
        """Bounds in brackets: `[1.1, 7.0]`."""
        if bounds is None:
            return "[no interval]"
        return f"[{self.number(bounds.low)}, {self.number(bounds.high)}]"

    def mode(self, fixed: Fixed, decision: Decision) -> str:
        """What one fixed mode gives: `is right in 83.2 % for 0.35 USD per 1,000`."""
        return self._figure(decision, fixed.total, fixed.spend)

    def _figure(
        self, decision: Decision, total: float, spend: float, *, is_second: bool = False
    ) -> str:
        """What something gives and costs; a second figure shares verb and unit."""
        words = self._gain_words(total)
        if is_second:
            words = words.removeprefix("is right ")
        if not decision.allowance.is_measured:
            return words
        cost = cost_words(decision, spend)
        if is_second:
            cost = cost.partition(" ")[0]
        return f"{words} for {cost}"

    def _gain_words(self, total: float) -> str:
        """A gain as the quality that it leads to: `is right in 83.2 %`."""
        kind = self.scale.kind
        if kind == "right":
            return f"is right in {100 * quality(self.bootstrap, total):.1f} %"
        if kind == "reward":
            return f"earns {quality(self.bootstrap, total):.3g} per input"
        value = total / float(self.scale.per[0])
        if kind == "loss":
            return f"gains {value:.3g} per input"
        if value < 0:
            return f"adds {self.number(-value)} % to the loss"
        return f"removes {self.number(value)} % of the loss"

    def mixture(self, mixture: Mixture) -> str:
        """The best blind choice at the same spend, as something to compare with."""
        modes = self.bootstrap.modes
        number = _only_mode(mixture)
        if number is not None:
            return f"always {modes[number]}"
        if len(modes) == 2:
            return f"{100 * mixture.share:.0f} % at random"
        return "the best blind mixture"

    def _mixture_advice(self, mixture: Mixture) -> str:
        """The same as something to do."""
        modes = self.bootstrap.modes
        number = _only_mode(mixture)
        if number is not None:
            return f"always {modes[number]}"
        percent = f"{100 * mixture.share:.0f} %"
        if len(modes) == 2:
            return f"choosing {percent} at random"
        high = modes[mixture.high]
        low = modes[mixture.low]
        return f"{high} on a random {percent} and {low} on the rest"


def budget_words(decision: Decision) -> str:
    """The budget: `at 20 %`, `at 20 % of the money`."""
    budget = decision.allowance.budget
    share = f"at {100 * budget.alpha:.4g} %"
    resource = RESOURCES.get(budget.kind)
    if decision.allowance.spender is not None:
        share = f"at its own {100 * budget.alpha:.4g} %"
    if resource is None:
        return share
    return f"{share} of the {resource}"


def _refusals(decision: Decision) -> list[str]:
    """Why no allocator is judged, each reason once."""
    names: dict[str, list[str]] = {}
    for name, reason in decision.refused:
        names.setdefault(reason, []).append(name)
    # `Do not run` names the allocators itself.
    if decision.verdict == "do not run":
        return list(names)
    return [f"{reason} ({few(of, 3)})" for reason, of in names.items()]


def cost_words(decision: Decision, spend: float) -> str:
    """What an input costs in all, the cheap mode included."""
    allowance = decision.allowance
    cost = allowance.cheap + spend
    if allowance.convention == "usd":
        return f"{1000 * cost:.2f} USD per 1,000"
    unit = "ms" if allowance.convention == "ms" else "mJ"
    return f"{cost:.4g} {unit} per input"


def _only_mode(mixture: Mixture) -> int | None:
    """The number of the mode that runs everywhere; None where two are mixed."""
    if mixture.share == 1.0:
        return mixture.high
    if mixture.share == 0.0 or mixture.low == mixture.high:
        return mixture.low
    return None


def _reaches_zero(bounds: Interval | None) -> bool:
    """Whether a part of an interval is not above 0; without an interval, no."""
    return bounds is not None and bounds.low <= 0


def _negated(bounds: Interval | None) -> Interval | None:
    """The interval of a loss, from that of a gain."""
    if bounds is None:
        return None
    return Interval(-bounds.high, -bounds.low)


def signed(value: float, digits: int) -> str:
    """A number with a minus sign as wide as a plus sign."""
    text = f"{abs(value):.{digits}f}"
    # What rounds to 0 has no sign.
    if value < 0 and float(text) != 0:
        return f"\N{MINUS SIGN}{text}"
    return text
