"""Records: frozen dataclasses that read as mappings, made again from the plain data that they are saved as."""

import math
import types
from collections.abc import Iterator, Mapping
from typing import Any, Union, get_args, get_origin

from deepval.canonical import plain
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


def typed(form: Any, content: Any) -> Any:
    """Plain data as an annotation says: records, tuples and mappings of such; what has no form stays plain."""
    origin, parts = get_origin(form), get_args(form)
    if origin in (Union, types.UnionType):
        forms = [part for part in parts if part is not types.NoneType]
        return typed(forms[0], content) if len(forms) == 1 and content is not None else plain(content)
    if isinstance(form, type) and issubclass(form, Record):
        fields = form.__dataclass_fields__
        unknown = [name for name in content if name not in fields]
        if unknown:
            raise TypeError(f"{form.__name__} has no {unknown[0]!r}")
        return form(**{name: typed(fields[name].type, item) for name, item in content.items()})
    if origin is tuple:
        forms = [parts[0]] * len(content) if parts[-1] is Ellipsis else parts
        return tuple(typed(part, item) for part, item in zip(forms, content, strict=True))
    if origin is Mapping:
        return {str(name): typed(parts[1], item) for name, item in content.items()}
    return plain(content)
