"""Findings of the paper, each with the rule that decides whether it holds: rows of a
run -> verdicts.
"""

from functools import cache
from pathlib import Path
from typing import Any

from deepval.files.canonical import read_toml
from deepval.paper.findings import allocator_findings, mode_findings
from deepval.paper.findings.rules import Finding, RunRows

FILE = Path(__file__).with_name("findings.toml")
MODULES = (mode_findings, allocator_findings)

__all__ = ["Finding", "RunRows", "findings"]


@cache
def findings() -> tuple[Finding, ...]:
    """Every finding, theme by theme."""
    return tuple(
        Finding(
            **{key: value for key, value in entry.items() if key != "told"},
            judge=_named(entry["told"]),
        )
        for entry in read_toml(FILE)["finding"]
    )


def _named(name: str) -> Any:
    return next(
        run for module in MODULES if (run := getattr(module, name, None)) is not None
    )
