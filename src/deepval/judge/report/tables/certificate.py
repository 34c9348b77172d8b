"""A certificate of harm -> its table."""

from collections.abc import Sequence

from deepval.judge.deployment import PolicyReplay
from deepval.judge.priced_policies import HarmCertificate
from deepval.judge.report.text_tables import (
    Table,
    lines_of,
    number,
    percent,
    quantity,
    tenths,
)


def certificate_table(
    certified: HarmCertificate, replays: Sequence[PolicyReplay]
) -> Table:
    """The harm of the certified and of the plain threshold (the two replays), and the
    price of certainty.
    """
    own, plain = replays
    rows = []
    for name, replay, harm in (
        ("certified", own, certified.harm),
        ("plain", plain, certified.plain_harm),
    ):
        rows.append((name, tenths(replay.rate), number(replay.gain), percent(harm)))
    least = "any threshold"
    if certified.lowest is not None:
        least = f"thresholds from {certified.lowest:.6g}"
    most = percent(certified.bound)
    units = f"{certified.units:,}"
    notes = [
        f"A new unit like these {units} loses on average at most "
        f"{percent(certified.at_most)} of its all-cheap loss by escalations that "
        f"harm, of which at most {most} of a unit's loss count: (sum of the harms + "
        f"{most}) / ({units} + 1) = {percent(certified.figure)}.",
        f"Not counted here: {tenths(certified.clipped_share)} of the harm, in "
        f"{quantity(certified.clipped_units, 'unit')}. The chance that harm takes "
        f"{most} or more of a new unit's "
        f"loss is at most {tenths(certified.at_most / certified.bound)}.",
        f"Price of the certificate: rate {100 * (own.rate - plain.rate):+.1f} points, "
        f"gain {own.gain - plain.gain:+.3f}. Without "
        f"a budget, {least} would be certified.",
    ]
    if not own.rate:
        notes.append(
            "No calibration input is escalated: allow more harm, "
            "or calibrate on more units."
        )
    header = ("threshold", "rate", "gain", "harm per unit")
    return Table("Harm on the calibration units", header, lines_of(rows), tuple(notes))
