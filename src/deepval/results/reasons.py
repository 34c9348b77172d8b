"""Reasons why a value of a result is None, with their wording in reports."""

from collections.abc import Iterable
from enum import Enum


class Reason(Enum):
    """A reason; `said` replaces the fields in braces with figures."""

    NO_PRIZE = "the oracle gains nothing: no nDG"
    NO_SLOT = "the budget of {percent:.4g} % of {inputs} inputs allows no escalation: no nDG"
    NO_PRIZED_DRAW = "no draw has a quarter of the prize: no nDG interval"
    NO_SHARE = "the all-cheap loss is not positive: no share of it"
    NO_SHARE_DRAWN = "no draw has a positive all-cheap loss: no interval of a share of it"
    SINGLE_UNIT = "a single unit: no interval"
    NO_DRAWS = "no draws: no interval"
    BEYOND_SELECTION = "escalating everything does not respect a selection budget: no nDG"
    FULL_TOO_DEAR = "infeasible: the full mode alone fits from alpha = {alpha:.4g}"
    TOO_DEAR = "infeasible: costs {cost:g} {convention} per input, the budget leaves {limit:.4g}"
    NO_COST = "no cost known"
    DIAGNOSTIC = "no cost known: a diagnostic knows what no vehicle could, so there is no cost to charge"
    NOTHING_LEFT = "the allocator's own cost leaves nothing to escalate"
    NO_SKIPPING = "per-mode scores have no skipping router: use a cascade"
    RATE_ONLY = "streaming policies keep a rate of inputs, and here each input has its own cost: none is judged"
    INFINITE_CUT = "the cut is at {cut}: no threshold tells these inputs apart"
    OWN_PRICES = "each input has its own cost: no one price per mode"
    NO_GAP = "the full mode is no better than the cheap one in all: no gap to recover"
    NO_RANKING = "per-mode scores are not one ranking"
    NOT_IN_MEMORY = "the table is larger than memory: no break-even"
    OTHER_ORACLES = "nDG of {one} and nDG of {other} have no difference"

    def said(self, **figures: float | str | None) -> str:
        """The reason in words."""
        return self.value.format(**figures)


def joined(reasons: Iterable[Reason | str | None]) -> str | None:
    """The distinct reasons as one text; None without any."""
    texts = (reason.said() if isinstance(reason, Reason) else reason for reason in reasons if reason)
    return "; ".join(dict.fromkeys(texts)) or None
