"""A format of logs that another program writes: how it is recognised, and what its
fields are.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Record = Mapping[str, Any]


def _itself(record: Record) -> Iterator[Record]:
    yield record


@dataclass(frozen=True)
class Owner:
    """The format of a program's logs.

    Attributes:
        name: The program.
        has: Fields, one set per variant, all of which a record of that variant has.
        names: Fields by role (`names.ROLES`), the first that is there counts.
        advice: How to come by what the log lacks, as a sentence; {quality} and {right}
            stand for the arguments.
        rows: Rows in a record, one per run of a model.
        private: Fields with texts, beside those of `names.TEXTS`.
    """

    name: str
    has: tuple[frozenset[str], ...]
    names: Mapping[str, tuple[str, ...]]
    advice: str
    rows: Callable[[Record], Iterator[Record]] = _itself
    private: frozenset[str] = field(default_factory=frozenset)

    def wrote(self, fields: frozenset[str]) -> bool:
        """Whether a record, or a table, with these fields is of this format."""
        return any(variant <= fields for variant in self.has)
