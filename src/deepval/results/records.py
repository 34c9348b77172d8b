"""Records: frozen dataclasses that read as mappings."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

KINDS = ("selection", "latency", "energy", "money")
"""Kinds of budgets: the first counts escalations, the others charge what modes and allocators cost."""
MEASURED = KINDS[1:]
UNITS = {"ms": "ms", "mj": "mJ", "mj_gpu": "mJ, GPU rail", "mj_all": "mJ, all rails", "usd": "USD"}
"""Unit of each convention, as written in reports."""


@dataclass(frozen=True)
class BudgetKey:
    """The fields that identify a budget; different budgets have different labels.

    Attributes:
        kind: selection, latency, energy or money.
        alpha: Share of the inputs that a zero-cost allocator could escalate.
        convention: ms, mj, mj_gpu, mj_all or usd under a measured budget.
        accounting: cascade or skipping under a measured budget.
    """

    kind: str
    alpha: float
    convention: str | None = None
    accounting: str | None = None

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "BudgetKey":
        """The key of a row, or of anything else that names its budget."""
        return cls(entry["kind"], entry["alpha"], entry.get("convention"), entry.get("accounting"))

    def holds(self, **requested: Any) -> bool:
        """Whether the budget matches the requested fields; None matches any value, and shares match up to rounding."""
        alpha = requested.pop("alpha", None)
        near = alpha is None or math.isclose(self.alpha, alpha)
        return near and all(value is None or getattr(self, part) == value for part, value in requested.items())

    @property
    def fields(self) -> dict[str, Any]:
        """The key as fields of a row."""
        return dict(vars(self))

    @property
    def share(self) -> str:
        """Alpha in percent."""
        return f"{100 * self.alpha:.6g}%"

    @property
    def unit(self) -> str:
        """The unit of the budget, with `skipping` unless it charges a cascade; empty for a selection budget."""
        counted = [] if self.convention is None else [UNITS[self.convention]]
        return ", ".join(counted + (["skipping"] if self.accounting == "skipping" else []))

    @property
    def label(self) -> str:
        """The budget in words, such as `latency 20% (ms, skipping)`."""
        return f"{self.kind} {self.share}" + (f" ({self.unit})" if self.unit else "")


class Record(Mapping[str, Any]):
    """A frozen dataclass whose fields can also be read by name, as those of a dict."""

    def __getitem__(self, key: str) -> Any:
        if key in self.__dataclass_fields__:
            return getattr(self, key)
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dataclass_fields__)

    def __len__(self) -> int:
        return len(self.__dataclass_fields__)

    __dataclass_fields__: dict[str, Any]


class BudgetRecord(Record):
    """A record under one budget, identified by its kind, alpha, convention and accounting."""

    @property
    def budget(self) -> BudgetKey:
        """The key of its budget."""
        return BudgetKey.of(self)


def known(value: float) -> float | None:
    """A number, or None where it is NaN."""
    return None if math.isnan(value) else float(value)
