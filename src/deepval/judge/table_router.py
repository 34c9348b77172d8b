"""A table with a mode for each group -> the mode of each input as it arrives."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepval.basics.errors import InputError, quote
from deepval.basics.files import reading
from deepval.basics.files.canonical import json_content, json_text, plain
from deepval.basics.files.writing import file_path, write_atomically

SCHEMA = "deepval/table-router/1"
WHAT = "a table router's file"
PARTS = ("schema", "column", "modes", "groups", "default")
TOLERANCE = 1e-6
"""What a sum of shares may lack."""

Shares = Mapping[str, float]
"""The share of the inputs that each mode gets."""


@dataclass(frozen=True, eq=False)
class TableRouter:
    """Names the mode of an input by its group: its task, tenant or route.

    Where a group is divided between modes, each gets its share of the inputs in turn,
    without chance.

    >>> groups = {"code": {"large": 1.0}, "chat": {"small": 0.5, "large": 0.5}}
    >>> router = TableRouter("task", ("small", "large"), groups, {"large": 1.0})
    >>> [router.decide(task) for task in ("code", "chat", "chat", "chat", "other")]
    ['large', 'small', 'large', 'small', 'large']

    Attributes:
        column: What a group is a value of.
        modes: Names of the modes, cheap first.
        groups: What each group gets.
        default: What unknown groups get.
        about: Facts about the choice; they affect no decision.
    """

    column: str
    modes: tuple[str, ...]
    groups: Mapping[str, Shares]
    default: Shares
    about: Mapping[str, Any] = field(default_factory=dict)
    _inputs: dict[str | None, dict[str, int]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name, shares in [*self.groups.items(), ("default", self.default)]:
            self._check(name, shares)

    def _check(self, group: str, shares: object) -> None:
        are_numbers = isinstance(shares, Mapping) and all(
            isinstance(share, int | float) and 0 < share <= 1
            for share in shares.values()
        )
        if not isinstance(shares, Mapping) or not are_numbers:
            raise InputError(
                f"group {group!r} must have a share from 0 to 1 for each of its modes; "
                f"found {quote(shares)}."
            )
        unknown = [mode for mode in shares if mode not in self.modes]
        if unknown or abs(sum(shares.values()) - 1) > TOLERANCE:
            raise InputError(
                f"group {group!r} must divide its inputs between the modes "
                f"{', '.join(self.modes)}, with shares whose sum is 1; found "
                f"{quote(dict(shares))}."
            )

    def decide(self, group: object) -> str:
        """The mode of the next input of a group."""
        known = None if str(group) not in self.groups else str(group)
        shares = self.default if known is None else self.groups[known]
        taken = self._inputs.setdefault(known, dict.fromkeys(shares, 0))
        coming = 1 + sum(taken.values())

        # The mode that is furthest behind its share; of several, the first.
        def behind(mode: str) -> float:
            return shares[mode] * coming - taken[mode]

        mode = max(shares, key=behind)
        taken[mode] += 1
        return mode

    def save(self, path: Path | str) -> None:
        """Write the table to a plain JSON file."""
        write_atomically(file_path(path), self.to_json())

    def to_json(self) -> str:
        """The text of its file."""
        content = {
            "schema": SCHEMA,
            "column": self.column,
            "modes": list(self.modes),
            "groups": plain(self.groups),
            "default": plain(self.default),
            "about": plain(self.about),
        }
        return json_text(content)

    @classmethod
    def load(cls, path: Path | str) -> "TableRouter":
        """The router in a file."""
        source = file_path(path)
        content = json_content(reading.content(source, WHAT), source, WHAT)
        schema = content.get("schema") if isinstance(content, Mapping) else content
        if schema != SCHEMA:
            raise InputError(
                f"{source}: must be a router of schema {SCHEMA!r}; found "
                f"{quote(schema)}."
            )
        lacking = [part for part in PARTS if part not in content]
        if lacking:
            raise InputError(f"{source}: {WHAT} has {', '.join(PARTS)}; add {lacking}.")
        modes = content["modes"]
        are_names = isinstance(modes, list) and all(isinstance(m, str) for m in modes)
        if not are_names or not isinstance(content["groups"], Mapping):
            raise InputError(
                f"{source}: modes must be a list of names, and groups must be by name; "
                f"found {quote(modes)} and {quote(content['groups'])}."
            )
        try:
            return cls(
                str(content["column"]),
                tuple(modes),
                content["groups"],
                content["default"],
                content.get("about", {}),
            )
        except InputError as error:
            raise InputError(f"{source}: {error}") from error

    def to_litellm(self) -> str:
        """The table as the configuration of a LiteLLM proxy.

        A client asks for its group as the model, or for `default`. Deployments of one
        name share its requests by their weights.
        """
        lines = ["model_list:"]
        for name, shares in [*self.groups.items(), ("default", self.default)]:
            for mode, share in shares.items():
                # A text in JSON is a text in YAML, whatever is in it.
                lines.append(f"  - model_name: {quoted(name)}")
                lines.append("    litellm_params:")
                lines.append(f"      model: {quoted(mode)}")
                if len(shares) > 1:
                    lines.append(f"      weight: {share:.6f}")
        # Weights count under this strategy alone.
        lines.append("router_settings:")
        lines.append('  routing_strategy: "simple-shuffle"')
        return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """A text in quotes."""
    return json.dumps(text, ensure_ascii=False)
