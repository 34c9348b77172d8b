"""Units of a data set -> their roles: train, validation and test.

Hashes of the names order the units at random and without a seed, so the same units have
the same roles everywhere.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deepval.basics.errors import InputError, few
from deepval.basics.files import reading
from deepval.basics.files.canonical import digest_of, json_content, json_text, sha256
from deepval.basics.files.reading import check_file_form

TEST_SHARE, VALIDATION_SHARE = 0.285, 0.15
"""Shares of the units; numbers are rounded half up: 6 of KITTI's 21 sequences and 24 of
85 scenes are test units.
"""
FEWEST = 3
"""Smallest number of units that are split."""
ROLES = ("train", "validation", "test", "fit", "all")


@dataclass(frozen=True)
class Split:
    """Units by role, each list sorted as text."""

    dataset: str
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    @property
    def fit(self) -> tuple[str, ...]:
        """Training and validation units: learned allocators are fitted on them."""
        return tuple(sorted((*self.train, *self.validation)))

    @property
    def units(self) -> tuple[str, ...]:
        """All units of the data set."""
        return tuple(sorted((*self.fit, *self.test)))

    @property
    def too_few(self) -> str | None:
        """Why there are no units to fit on, as part of a sentence; None where there are
        some.
        """
        if self.fit:
            return None
        number = len(self.test)
        return (
            f"{number} unit{' is' if number == 1 else 's are'} too few "
            f"for a split, which needs {FEWEST}"
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the split."""
        return digest_of(asdict(self))

    def to_json(self) -> str:
        """The split as a file, with its hash."""
        return json_text(asdict(self) | {"sha256": self.digest}, ensure_ascii=True)


def split(
    dataset: str, units: Iterable[str], *, test_units: int | None = None
) -> Split:
    """The split of a data set's units; `test_units` overrides how many are test."""
    ordered = sorted(
        set(units), key=lambda unit: sha256(f"deepval:{dataset}:{unit}".encode())
    )
    number = len(ordered)
    if not number:
        raise InputError(f"A split needs units; data set {dataset!r} has none.")
    if number < FEWEST and test_units is None:
        return Split(dataset, (), (), tuple(sorted(ordered)))
    test = (
        max(1, math.floor(TEST_SHARE * number + 0.5))
        if test_units is None
        else test_units
    )
    validation = max(1, math.floor(VALIDATION_SHARE * number + 0.5))
    if test < 1 or test + validation >= number:
        raise InputError(
            f"A split needs units of every kind; {test} test units of {number} leave "
            "none to train on."
        )
    roles = (
        ordered[test + validation :],
        ordered[test : test + validation],
        ordered[:test],
    )
    return Split(dataset, *(tuple(sorted(role)) for role in roles))


def read_split(path: Path | str, text: bytes | None = None) -> Split:
    """The split in a file, whose hash must be right; `text` is the content if it was
    read already.
    """
    what = "a split as `deepval build` writes it"
    content = json_content(
        reading.content(path, what) if text is None else text, path, what
    )
    fields = check_file_form(dict[str, Any], content, path, what)
    sha = fields.pop("sha256", None)
    units_by_role = check_file_form(Split, fields, path, what)
    if units_by_role.digest != sha:
        raise InputError(
            f"{path}: the split was altered: its hash does not "
            "fit. Build the cell again."
        )
    return units_by_role


def units_of(roles: Split, text: str | Sequence[str]) -> tuple[str, ...]:
    """Units by role (train, validation, test, fit = train and validation, all), by
    name, or both: "validation,test".
    """
    parts = (
        [part.strip() for part in text.split(",")]
        if isinstance(text, str)
        else list(text)
    )
    all_units = set(roles.units)
    by_role = {
        role: all_units if role == "all" else getattr(roles, role) for role in ROLES
    }
    named = [unit for part in parts for unit in by_role.get(part, (part,))]
    empty = [part for part in parts if part in by_role and not by_role[part]]
    if empty and not named:
        why = roles.too_few or "the split gives it none"
        raise InputError(
            f"The cell has no {' or '.join(empty)} units: {why}. Name units, or build "
            "it from more of them."
        )
    unknown = [unit for unit in named if unit not in all_units]
    if unknown or not named:
        raise InputError(
            f"Units must be {', '.join(ROLES)}, or among those "
            f"of the cell; found {few(unknown) or 'none'}."
        )
    return tuple(sorted(set(named)))
