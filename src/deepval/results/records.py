"""Records: frozen dataclasses that read as mappings."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from deepval.results.budget_key import BudgetKey


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
    """A record under one budget, which it says by kind, alpha, convention and accounting."""

    @property
    def budget(self) -> BudgetKey:
        """What tells its budget from the others."""
        return BudgetKey.of(self)


def known(value: float) -> float | None:
    """A number, or None where it is NaN."""
    return None if math.isnan(value) else float(value)
