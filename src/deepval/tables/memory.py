"""A table's files and how much memory may be used -> whether the table is read whole or piece by piece."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepval.errors import InputError, quoted
from deepval.files import reading
from deepval.files.manifests import MANIFEST
from deepval.tables.columns import parquet_files
from deepval.tables.costs import Costs
from deepval.tables.parts import Parts
from deepval.tables.values import LOSS_PREFIX, REWARD_PREFIX

VARIABLE = "DEEPVAL_MEMORY"
"""The environment's word for how much memory may be used."""
USABLE = 0.8
"""Part of the memory that is available which may be used where nobody says how much."""
SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
PER_ROW, PER_LOSS, PER_SCORE, PER_CHARACTER = 80, 16, 24, 8
"""Bytes that judging in memory takes of every row, loss and score, and of every byte of a text id: a little above what
is measured (docs/scale.md)."""


@dataclass(frozen=True, eq=False)
class OnDisk:
    """A values file, or a folder of them, that is read piece by piece, and what its modes cost where known."""

    source: Path
    costs: Costs | None = None
    why: str = ""


def on_disk(source: Any, scores: Any, memory: Any = None) -> OnDisk | None:
    """The table to be read piece by piece; None where it and its scores fit in memory, or are no Parquet files.

    Args:
        source: What the table is read from.
        scores: Per allocator, what its scores are read from.
        memory: Bytes that may be used, or text such as "1.5GB"; what the environment says, or most of what is
            available where None. 0 reads every Parquet file piece by piece.
    """
    allowed = bound(memory)
    if not isinstance(source, str | Path) or not _is_parquet(Path(source)):
        return None
    try:
        needed = _needed(Path(source), scores)
    except InputError:  # whoever reads it says why
        return None
    if needed <= (available() * USABLE if allowed is None else allowed):
        return None
    limit = "most of what is free" if allowed is None else f"{_said(allowed)} allowed"
    return OnDisk(Path(source), why=f"about {_said(needed)} in memory, {limit}")


def bound(memory: Any) -> int | None:
    """The bytes that may be used, None where neither the argument nor the environment says."""
    given = os.environ.get(VARIABLE) if memory is None else memory
    if given is None or given == "":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(given).lower().strip())
    unclear = found is not None and isinstance(given, str) and not found[2] and float(found[1]) > 0
    if isinstance(given, bool) or found is None or found[2] not in SIZES or len(found[1]) > 20 or unclear:
        raise InputError(f"memory must be a size such as 1.5GB, 800MB or 0; found {quoted(given)}.")
    return int(float(found[1]) * SIZES[found[2]])


def available() -> int:
    """Bytes that can be used without others having to give way; in a container at most what it may have."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path, pattern in (("/proc/meminfo", r"MemAvailable:\s+(\d+) kB"), ("/sys/fs/cgroup/memory.max", r"(\d+)")):
        try:
            told = re.search(pattern, Path(path).read_text())
        except OSError:
            continue
        if told:
            found.append(int(told[1]) * (1024 if "MemAvailable" in pattern else 1))
    return min(found)


def _is_parquet(path: Path) -> bool:
    """Whether a path is a Parquet file or a folder of them, and no part of a cell, which is read whole and verified."""
    if reading.is_folder(path):
        return not reading.exists(path / MANIFEST) and bool(parquet_files(path))
    return path.suffix.lower() == ".parquet" and reading.is_file(path) and not reading.exists(path.parent / MANIFEST)


def _needed(source: Path, scores: Any) -> int:
    """Bytes that judging in memory would take, about."""
    parts = Parts.of(source)
    losses = sum(name.startswith((LOSS_PREFIX, REWARD_PREFIX)) for name in parts.types)
    number = len(scores) if isinstance(scores, Mapping) else 1
    text = PER_CHARACTER * parts.width("input") if "input" in parts.types and parts.has_text("input") else 0
    return int(len(parts) * (PER_ROW + PER_LOSS * losses + PER_SCORE * number + text))


def _said(size: float) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
