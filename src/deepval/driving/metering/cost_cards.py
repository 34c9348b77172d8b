"""A timing and an energy -> a cost card: the cost of an allocator per input, its mode
of service and its device.
"""

import json
import math
import re
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ContextDecorator, contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import cycle
from pathlib import Path
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Literal

import numpy as np

from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.basics.files.canonical import read_toml
from deepval.basics.files.writing import write_atomically
from deepval.driving.metering.energy import EnergyUse, energy_over_idle, rails
from deepval.driving.metering.timing import (
    DEFAULT_TOLERANCE,
    Clock,
    Entry,
    Items,
    Stages,
    Timing,
    figures,
    measure,
    processor,
    processors,
    thread_limit,
    turns_of,
)

Kind = Literal["modes", "allocators"]


def read_entries(path: Path, kind: Kind) -> dict[str, Mapping[str, object]]:
    """The tables of one kind in a costs file, by name; empty where there is no file
    yet.
    """
    if not reading.exists(path):
        return {}
    tables = read_toml(path).get(kind, {})
    if not isinstance(tables, dict) or not all(
        isinstance(entry, dict) for entry in tables.values()
    ):
        raise InputError(
            f"The costs of {kind} must be tables [{kind}.<name>], "
            f"and are not in {path}."
        )
    return tables


def write_entries(path: Path, kind: Kind, entries: Mapping[str, Entry]) -> None:
    """Write one `[<kind>.<name>]` table per entry at the end, without older ones of
    that name; keep all other text.
    """
    entries_before = read_entries(path, kind)
    before = reading.text(path) if reading.exists(path) else ""
    expected = tomllib.loads(before)
    expected[kind] = {**entries_before, **entries}
    rest = _without(before, kind, set(entries_before) & set(entries)).strip()
    tables = [
        f"[{kind}.{_key(name)}]\n{_lines(entry)}" for name, entry in entries.items()
    ]
    text = (rest + "\n\n" if rest else "") + "\n".join(tables)
    # Tables are removed line by line, so the content of the whole file is compared with
    # the expected one.
    try:
        written = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _cannot(path, entries, str(error)) from error
    if written != expected:
        raise _cannot(path, entries, "its tables are not written one by one")
    write_atomically(path, text, make_folder=True)


def _cannot(path: Path, entries: Mapping[str, Entry], why: str) -> InputError:
    return InputError(
        f"The costs of {', '.join(entries)} cannot be added to {path} ({why}): use "
        "another costs file."
    )


def _without(text: str, kind: Kind, names: set[str]) -> str:
    """The text without the tables of those names; comments right above the next table
    stay.
    """
    lines: list[str] = []
    inside, pending = False, []
    for line in text.splitlines(keepends=True):
        path = _header(line)
        if path is not None:
            lines += pending
            pending, inside = [], len(path) > 1 and path[0] == kind and path[1] in names
        if not inside:
            lines.append(line)
        elif line.strip() and not line.lstrip().startswith("#"):
            pending = []
        else:
            pending.append(line)
    return "".join(lines + pending)


def _header(line: str) -> list[str] | None:
    """The names in a line such as [allocators.mine], or None if it opens no table."""
    if not line.lstrip().startswith("["):
        return None
    try:
        table: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    path = []
    while isinstance(table, dict) and table:
        ((name, table),) = table.items()
        path.append(name)
    return path


def _key(name: str) -> str:
    return (
        name
        if re.fullmatch(r"[A-Za-z0-9_-]+", name)
        else json.dumps(name, ensure_ascii=False)
    )


def _lines(entry: Entry) -> str:
    return "".join(
        (
            f"{_key(key)} = "
            f"{json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)}"  # noqa: E501
            "\n"
        )
        for key, value in entry.items()
    )


NOT_REQUESTED = "not requested"


@dataclass(frozen=True)
class CostCard:
    """The cost of an allocator per input.

    Attributes:
        name: Name of the allocator in the costs file.
        timing: Its times, in total and by stage.
        threads: Number of threads that it could use.
        device: Name of its device.
        energy: Its energy over idle, or the reason why there is none.
    """

    name: str
    timing: Timing
    threads: int
    device: str
    energy: EnergyUse | str = NOT_REQUESTED

    @classmethod
    def of(
        cls,
        name: str,
        timing: Timing,
        *,
        threads: int | None = None,
        device: str | None = None,
        energy: EnergyUse | str = NOT_REQUESTED,
    ) -> "CostCard":
        """A card with the threads and the device of this machine, unless others are
        passed.
        """
        return cls(name, timing, threads or processors(), device or processor(), energy)

    @property
    def served(self) -> Literal["single", "batched"]:
        """Whether inputs were served one per call or in batches."""
        return "single" if self.timing.batch is None else "batched"

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that qualify the figures."""
        spent = self.energy.note if isinstance(self.energy, EnergyUse) else None
        return tuple(note for note in (self.timing.note, spent) if note)

    def entry(self) -> Entry:
        """The table `[allocators.<name>]` of a costs file: first the charged figures,
        then the measurement.
        """
        timing = self.timing
        low, high = timing.interval_ms
        entry: Entry = {"ms": timing.ms}
        if isinstance(self.energy, EnergyUse):
            entry |= self.energy.entry()
        entry |= {"served": self.served, "p95_ms": timing.p95_ms}
        entry |= {} if math.isnan(low) else {"ms_lo": low, "ms_hi": high}
        for stage, times in timing.stages.items():
            parts = figures(f"{stage}_", times)
            if entry.keys() & parts.keys():
                raise InputError(
                    f"A stage needs a name of its own, and {stage!r} would be read as "
                    "another figure."
                )
            entry |= parts
        entry |= {"calls": timing.calls} | (
            {} if timing.batch is None else {"batch": timing.batch}
        )
        entry |= {"tight": timing.tight, "threads": self.threads, "device": self.device}
        entry |= {
            "energy": self.energy.words
            if isinstance(self.energy, EnergyUse)
            else self.energy
        }
        return entry | ({"note": " ".join(self.notes)} if self.notes else {})


def add_cards(path: str | Path, cards: Sequence[CostCard]) -> None:
    """Write cards to a costs file, in place of cards of the same names; keep all other
    text.
    """
    write_entries(Path(path), "allocators", {card.name: card.entry() for card in cards})


def measure_cards(
    name: str,
    stages: Stages,
    items: Items,
    *,
    batch: int | None = None,
    seconds: float = 5.0,
    tolerance: float = DEFAULT_TOLERANCE,
    threads: int | None = None,
    energy: bool = False,
) -> list[CostCard]:
    """The card of single calls and, with a batch size, the card of batches under the
    name `<name>-batched`.

    Args:
        name: The allocator.
        stages: Steps of a call, see `timing.measured`.
        items: Inputs of the calls.
        batch: Number of inputs in a batch; None measures single calls only.
        seconds: Time limit of each measurement.
        tolerance: How tight the median must be, see `timing.measured`.
        threads: Limit on the threads of BLAS, OpenMP and OpenCV; None sets no limit.
        energy: Whether to measure energy as well; an error without a sensor.
    """
    sensors = rails() if energy else ()
    cards = []
    with thread_limit(threads) as used_threads:
        for size in (None,) if batch is None else (None, batch):
            timing = measure(
                stages, items, tolerance=tolerance, seconds=seconds, batch=size
            )
            spent: EnergyUse | str = NOT_REQUESTED
            if sensors:
                spent = energy_over_idle(
                    lambda size=size: _serve(
                        stages, items, seconds=seconds, batch=size
                    ),
                    sensors,
                )
            called = name if size is None else f"{name}-batched"
            cards.append(
                CostCard.of(called, timing, threads=used_threads, energy=spent)
            )
    return cards


def _serve(stages: Stages, items: Items, *, seconds: float, batch: int | None) -> int:
    """Number of inputs served while the stages run over the items repeatedly for some
    seconds.
    """
    served, until = 0, time.perf_counter() + seconds
    for turn in cycle(turns_of(items, batch)):
        reduce(lambda result, stage: stage(result), stages.values(), turn)
        served += batch or 1
        if time.perf_counter() >= until:
            break
    return served


class Meter(ContextDecorator):
    """Measures each input that runs inside it: `with meter: ...` is one input, and so
    is a call of `@meter`.

    `meter.stage(name)` measures a part of an input, as a context or a decorator; a
    stage that is entered several times adds up. The total is the whole of the input, in
    stages or not. An input that raises does not count.
    """

    def __init__(
        self,
        name: str,
        *,
        warmup: int = 0,
        batch: int | None = None,
        clock: Clock = perf_counter_ns,
    ) -> None:
        """A meter of this name that leaves out the first `warmup` inputs (or batches of
        `batch` inputs).
        """
        self.name, self.warmup, self.batch = name, warmup, batch
        self._clock = clock
        self._rows: list[dict[str, int]] = []
        self._totals: list[int] = []
        self._row: dict[str, int] | None = None
        self._began = 0

    def __enter__(self) -> "Meter":
        if self._row is not None:
            raise InputError(
                f"Inputs of meter {self.name!r} must come one after the other; one is "
                "still running."
            )
        self._row = {}
        self._began = self._clock()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        took, row = self._clock() - self._began, self._row or {}
        self._row = None
        if kind is None:
            self._rows.append(row)
            self._totals.append(took)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A part of an input: `with meter.stage("inference"): ...`, or a decorator."""
        if self._row is None:
            raise InputError(
                f"Stage {name!r} must run inside an input: write `with meter:` around "
                "the work on one input."
            )
        row, began = self._row, self._clock()
        try:
            yield
        finally:
            row[name] = row.get(name, 0) + self._clock() - began

    def timing(self, *, tolerance: float = DEFAULT_TOLERANCE) -> Timing:
        """Milliseconds per input so far; a stage that an input did not enter took
        none.
        """
        rows, totals = self._rows[self.warmup :], self._totals[self.warmup :]
        if not rows:
            raise InputError(
                f"Meter {self.name!r} needs an input "
                f"after {self.warmup} to warm up; it saw {len(self._rows)}."
            )
        scale = 1e6 * (self.batch or 1)
        names = dict.fromkeys(name for row in rows for name in row)
        stages = {
            name: np.array([row.get(name, 0) for row in rows]) / scale for name in names
        }
        return Timing(np.array(totals) / scale, stages, self.batch, tolerance)

    def card(
        self,
        *,
        threads: int | None = None,
        device: str | None = None,
        energy: EnergyUse | str = NOT_REQUESTED,
        tolerance: float = DEFAULT_TOLERANCE,
    ) -> CostCard:
        """The cost card of the measured inputs; `threads` and `device` are those of
        this machine unless passed.
        """
        return CostCard.of(
            self.name,
            self.timing(tolerance=tolerance),
            threads=threads,
            device=device,
            energy=energy,
        )
