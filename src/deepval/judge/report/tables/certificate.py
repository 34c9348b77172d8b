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
    at_most = percent(certified.at_most)
    units = f"{certified.units:,}"
    average = (
        f"Over many such calibrations, the harm of a new unit is at most {at_most} of "
        f"its loss on average, counted up to {most}; this one may be above (simulated: "
        f"in up to 42 % of cases it is). (Sum of the harms + {most}) / ({units} + 1) = "
        f"{percent(certified.figure)}."
    )
    certain = (
        f"With {percent(certified.certainty)} certainty over which units were drawn, "
        f"the expected harm of a new unit, counted up to {most}, is at most {at_most}."
    )
    notes = [
        average if certified.certainty is None else certain,
        f"Beyond {most} of a unit's loss, harm takes another "
        f"{percent(certified.beyond)} of it on average, which is not counted: "
        f"{tenths(certified.clipped_share)} of the harm, in "
        f"{quantity(certified.clipped_units, 'unit')}. The chance that harm takes "
        f"{most} or more of a new unit's loss is at most "
        f"{tenths(certified.at_most / certified.bound)}.",
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
