"""A verdict and what it rests on -> words that say how far it carries."""

FEW_UNITS = 3.0
"""Effective units below which a verdict is one on few units (docs/statistics.md, How far to trust 95 %)."""


def in_words(verdict: str | None, *, effective_units: float | None, rests_on: str | None = None) -> str | None:
    """The verdict; a decided one with what weakens it: `better on few units, but rests on 0007`.

    Args:
        verdict: As in `Row`.
        effective_units: Over how many equal units the value to gain would be as uneven; None or NaN without any.
        rests_on: The unit without which the verdict is another, if there is one.
    """
    if verdict not in ("better", "worse"):
        return verdict
    few = " on few units" if effective_units is not None and effective_units < FEW_UNITS else ""
    return f"{verdict}{few}" + (f", but rests on {rests_on}" if rests_on is not None else "")
