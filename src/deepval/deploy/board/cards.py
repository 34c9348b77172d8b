"""card.toml -> a submission's description of itself, or every fault in the file.

A name is plain ASCII, so that it can be neither a formula nor markup. Free text is
bounded and displayed as text.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deepval.basics.errors import InputError, quote
from deepval.basics.files.canonical import toml_content
from deepval.judge.tables.costs import CONVENTIONS, Convention
from deepval.judge.tables.scores import REFERENCES

CARD = "card.toml"
LARGEST_CARD = 64 * 2**10
LONGEST_NOTES = 2000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+()-]{0,59}")
HANDLE = re.compile(r"(?=.{1,39}$)[a-z0-9]+(-[a-z0-9]+)*")
RULES = {
    "name": (
        "of at most 60 letters, digits and the signs ._+()- with "
        "single spaces between words"
    ),
    "handle": (
        "of at most 39 lower-case letters, digits and single hyphens between them"
    ),
}
DEPLOYABLE = (
    "image",
    "cheap-detections",
    "previous-frames",
    "calibration",
    "ego",
)
"""Inputs that an allocator may use: they exist before escalation."""
DIAGNOSTIC = ("full-detections", "reference", "future-frames", "decision-values")
ENTRIES = ("name", "handle", "inputs", "cells", "notes", "costs")
SERVED = ("single", "batched")
DEEPEST = 16
"""Most parts of a key in a line, and deepest nesting of lists and tables."""
STRINGS = re.compile(
    r"""\"{3}(?:\\.?|[^\\])*?(?:\"{3,5}|\Z)|'{3}.*?(?:'{3,5}|\Z)|\"(?:\\.?|[^\"\\\n])*+\"?|'[^'\n]*+'?|\#[^\n]*+""",
    re.DOTALL,
)
"""Strings and comments of a TOML file; dots and brackets in them do not count.

A string without an end, which the parser refuses, extends to the end of its line or of
the file. No quote is matched twice, so that the time grows linearly with the length of
the file.
"""


@dataclass(frozen=True)
class Card:
    """A submission's description of itself.

    Attributes:
        name: The allocator's name.
        handle: The submitter's handle.
        inputs: The inputs that the allocator uses.
        cells: Cells that it declares to score; None if it declares none.
        costs: Per cost profile, its cost per input by convention.
        measured: Per cost profile, how the cost was measured, and whether in single
            calls or batches.
        notes: Free text.
    """

    name: str
    handle: str
    inputs: tuple[str, ...]
    cells: tuple[str, ...] | None
    costs: Mapping[str, Mapping[Convention, float]]
    measured: Mapping[str, str]
    notes: str

    @property
    def key(self) -> str:
        """Handle and name: its name on a leaderboard."""
        return f"{self.handle}/{self.name}"


def folded(text: str) -> str:
    """A handle, a name or both in the form for comparison: without case, spaces, dots,
    hyphens and underscores.
    """
    return re.sub(r"[ ._-]", "", text.lower())


def card_content(data: bytes) -> dict[str, Any]:
    """The entries of a card, unchecked; the depth of their nesting is bounded before
    they are parsed.
    """
    try:
        _check_depth(data.decode("utf-8-sig"))
    except ValueError as error:
        raise InputError(
            f"{CARD}: must be a TOML file in UTF-8; {str(error).rstrip('.')}."
        ) from error
    return toml_content(data, CARD)


def _check_depth(text: str) -> None:
    """Refuse deep keys and lists: the parser's memory grows with the square of the
    number of parts of a key.
    """
    depth = 0
    for number, line in enumerate(STRINGS.sub(_line_ends, text).split("\n"), 1):
        depth += sum(map(line.count, "[{")) - sum(map(line.count, "]}"))
        if max(depth, line.count("."), *map(line.count, "[{")) > DEEPEST:
            raise InputError(
                f"keys and lists may nest {DEEPEST} deep; line {number} goes deeper"
            )


def _line_ends(string: re.Match[str]) -> str:
    """The line ends of a string or comment, which keep the line numbers of messages
    right.
    """
    return "\n" * string[0].count("\n")


def card_of(content: Mapping[str, Any]) -> tuple[Card | None, list[str]]:
    """The card with these entries, or None and one sentence for each fault."""
    problems = [f"{CARD}: {problem}" for problem in _faults(content)]
    return (None if problems else _card(content)), problems


def _card(content: Mapping[str, Any]) -> Card:
    costs = content.get("costs", {})
    return Card(
        name=content["name"],
        handle=content["handle"],
        inputs=tuple(content["inputs"]),
        cells=tuple(content["cells"]) if "cells" in content else None,
        costs={
            p: {c: float(entry[c]) for c in CONVENTIONS if c in entry}
            for p, entry in costs.items()
        },
        measured={
            profile: f"{entry['measured']} ({entry['served']})"
            for profile, entry in costs.items()
        },
        notes=content.get("notes", ""),
    )


def _faults(content: Mapping[str, Any]) -> Iterator[str]:
    for entry in content:
        if entry not in ENTRIES:
            yield (
                f"entries are {', '.join(ENTRIES)}; found {_quoted(entry)} (results "
                "are computed, never reported)."
            )
    for entry, pattern in (("name", NAME), ("handle", HANDLE)):
        value = content.get(entry)
        if not isinstance(value, str) or not _plain(value, pattern):
            taken = ", ".join(REFERENCES)
            yield (
                f"{entry!r} must be text {RULES[entry]}, and "
                f"be none of {taken}; found {_quoted(value)}."
            )
    yield from _faults_of_inputs(content.get("inputs"))
    if "cells" in content and not _is_list_of_names(content["cells"]):
        yield (
            "'cells' must be a list of "
            f"names of cells; found {_quoted(content['cells'])}."
        )
    notes = content.get("notes", "")
    if (
        not isinstance(notes, str)
        or len(notes) > LONGEST_NOTES
        or _has_control_characters(notes)
    ):
        yield (
            f"'notes' must be text of at most {LONGEST_NOTES:,} characters without "
            "control characters."
        )
    costs = content.get("costs", {})
    if not isinstance(costs, dict):
        yield (
            "'costs' must be tables, such as [costs.jetson-agx-xavier] with ms = 0.65."
        )
        return
    for profile, entry in costs.items():
        yield from _faults_of_costs(profile, entry)


def _plain(text: str, pattern: re.Pattern[str]) -> bool:
    """Whether a text has this form, has single spaces between words, and does not
    resemble a reference's name.
    """
    single = text.split(" ") == text.split()
    return (
        bool(pattern.fullmatch(text))
        and single
        and folded(text) not in {*map(folded, REFERENCES)}
    )


def _faults_of_inputs(inputs: Any) -> Iterator[str]:
    if not _is_list_of_names(inputs):
        yield (
            "'inputs' must list what the allocator "
            f"looks at, among {', '.join(DEPLOYABLE)}; found {_quoted(inputs)}."
        )
        return
    for word in inputs:
        if word in DIAGNOSTIC:
            yield (
                f"'inputs' declares {word!r}, unknown before escalation: diagnostic "
                "signals are not ranked."
            )
        elif word not in DEPLOYABLE:
            yield (
                "'inputs' must "
                f"be among {', '.join(DEPLOYABLE)}; found {_quoted(word)}."
            )


def _faults_of_costs(profile: str, entry: Any) -> Iterator[str]:
    what = f"costs of profile {_quoted(profile)}"
    if not NAME.fullmatch(profile) or not isinstance(entry, dict):
        yield (
            f"{what} must be a table under a plain name, such as "
            "[costs.jetson-agx-xavier]."
        )
        return
    for convention in CONVENTIONS:
        cost = entry.get(convention, 0.0)
        if (
            isinstance(cost, bool)
            or not isinstance(cost, int | float)
            or not 0 <= cost < 1e9
        ):
            yield (
                f"{what}: {convention} must be a number, "
                f"not negative; found {_quoted(cost)}."
            )
    if entry.get("served") not in SERVED:
        yield (
            f"{what}: 'served' must "
            f"be one of {', '.join(SERVED)}; found {_quoted(entry.get('served'))}."
        )
    measured = entry.get("measured")
    if (
        not isinstance(measured, str)
        or not 0 < len(measured) <= LONGEST_NOTES
        or _has_control_characters(measured)
    ):
        yield (
            f"{what}: 'measured' must say in a line how the cost "
            f"was measured; found {_quoted(measured)}."
        )
    unknown = sorted(set(entry) - {*CONVENTIONS, "served", "measured"})
    if unknown:
        yield (
            f"{what}: entries are {', '.join(CONVENTIONS)}, served, "
            f"measured; found {_quoted(unknown[0])}."
        )


def _quoted(value: Any) -> str:
    try:
        return quote(value)
    except ValueError:  # Python prints no integer of more than 4,300 digits
        return "a number without end"


def _is_list_of_names(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, str) and NAME.fullmatch(item) for item in value
    )


def _has_control_characters(text: str) -> bool:
    return any(
        unicodedata.category(sign) in ("Cc", "Cf", "Cs") and sign not in "\n\t"
        for sign in text
    )
