"""How gains and costs are shown: names of axes, units and headings, for every view."""

from dataclasses import dataclass

from deepval.judge.results.records import UNITS


@dataclass(frozen=True)
class Scale:
    """How a gain is shown.

    Attributes:
        unit: What follows its figure in a sentence.
        heading: Heading of a column.
        axis: Name of the axis of quality.
        percent: What a figure is multiplied by: shares are shown in percent.
    """

    unit: str
    heading: str
    axis: str
    percent: float = 1.0


SCALES = {
    "right": Scale("points", "right, %", "right answers, %", 100.0),
    "reward": Scale("per input", "reward", "reward"),
    "share": Scale("% of the loss", "removed, %", "loss removed, %", 100.0),
    "loss": Scale("per input", "gain", "loss removed per input"),
}
"""By `Answer.scale`."""


def without_unit(lead: str, scale: str) -> str:
    """The figure and interval of `Row.lead_words`: `4.2 [1.1, 7.0]`."""
    return lead.replace(f" {SCALES[scale].unit}", "")


def cost_axis(convention: str | None, noun: str) -> str:
    """Name and unit of what an input costs; `noun` is the reader's word for input."""
    if convention is None:
        return f"{noun}s escalated, %"
    if convention == "usd":
        return f"USD per 1,000 {noun}s"
    return f"{cost_unit(convention)} per {noun}"


def cost_unit(convention: str) -> str:
    """The unit of a cost; all rails are in mJ."""
    return UNITS[convention].partition(",")[0]


def shown_cost(convention: str | None, spend: float) -> float:
    """What an input costs, in the unit of the axis; without a convention, `spend` is
    the share of the inputs that is escalated.
    """
    factors = {None: 100.0, "usd": 1000.0}
    return factors.get(convention, 1.0) * spend
