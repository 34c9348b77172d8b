"""Rails and a run -> millijoules per input over idle, by convention.

Idle power is measured first, with nothing running, and subtracted over the duration of
the run. Rails with an energy counter are read before and after. Rails that only report
power are sampled by a thread and integrated by trapezoids.
"""

import ctypes
import math
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.errors import InputError, InputWarning
from deepval.driving.metering.timing import Clock
from deepval.judge.tables.costs import ALL_RAILS, GPU_RAIL, MODULE, Convention

PARTS = frozenset({"GPU", "CPU", "SOC"})
"""Parts that the module convention counts."""
INPUT = "IN"
"""The rail that feeds all others."""
NVML = "libnvidia-ml.so.1"


@dataclass(frozen=True)
class Rail:
    """One sensor.

    Attributes:
        label: Its name on the machine.
        feeds: The parts that it supplies, such as {"GPU"}.
        read: Returns millijoules so far if the sensor counts energy, current milliwatts
            if not.
        counts: Whether the sensor counts energy.
        wrap_mj: Value at which a counter restarts from zero; None if it does not.
    """

    label: str
    feeds: frozenset[str]
    read: Callable[[], float]
    counts: bool
    wrap_mj: float | None = None


def rails(root: Path = Path("/sys"), *, library: Any = None) -> tuple[Rail, ...]:
    """The readable rails of this machine; raises where there is none, or none is
    readable.

    Args:
        root: Where sysfs is mounted.
        library: NVML; loaded from the system where None.
    """
    readable: list[Rail] = []
    closed: list[str] = []
    for rail in _hwmon(root) or _iio(root) or [*_rapl(root), *_nvml(library)]:
        try:
            rail.read()
            readable.append(rail)
        except OSError as error:
            closed.append(f"{rail.label} ({error.strerror})")
    if not readable and not closed:
        raise InputError(
            "Energy needs a sensor, and this machine shows none (no INA3221 rails or "
            f"RAPL zones under {root}, no {NVML}): measure without energy, or on a "
            "machine that has one."
        )
    if closed:
        sentence = (
            f"Energy sensors must be readable by this user, and {', '.join(closed)} "
            "cannot be read"
        )
        if not readable:
            raise InputError(f"{sentence}: allow it, or measure without energy.")
        warnings.warn(f"{sentence}; the others are.", InputWarning, stacklevel=2)
    return tuple(readable)


def conventions(rails_read: tuple[Rail, ...]) -> dict[Convention, tuple[Rail, ...]]:
    """The rails that each energy convention sums; a convention without the rails for it
    is left out.
    """
    inner = tuple(rail for rail in rails_read if INPUT not in rail.feeds)
    module = tuple(rail for rail in inner if rail.feeds & PARTS)
    sums: dict[Convention, tuple[Rail, ...]] = {
        GPU_RAIL: tuple(rail for rail in inner if rail.feeds == {"GPU"}),
        MODULE: module
        if frozenset().union(*(rail.feeds for rail in module)) >= PARTS
        else (),
        ALL_RAILS: tuple(rail for rail in rails_read if INPUT in rail.feeds)
        or (inner if module != inner else ()),
    }
    return {convention: rails for convention, rails in sums.items() if rails}


def _rapl(root: Path) -> list[Rail]:
    """Packages and their memory.

    Cores belong to a package, and memory-mapped zones count the same energy twice.
    """
    zones = []
    for zone in sorted((root / "class/powercap").glob("intel-rapl:*")):
        kind = _text(zone / "name").partition("-")[0]
        if kind not in ("package", "dram"):
            continue
        feeds = PARTS if kind == "package" else frozenset({"DRAM"})
        wrap_mj = float(_text(zone / "max_energy_range_uj")) / 1e3
        zones.append(
            Rail(
                f"RAPL {zone.name}",
                feeds,
                _reader(zone / "energy_uj", 1e-3),
                counts=True,
                wrap_mj=wrap_mj,
            )
        )
    return zones


def _hwmon(root: Path) -> list[Rail]:
    channels = []
    for chip in sorted((root / "class/hwmon").glob("hwmon*")):
        if not (chip / "name").is_file() or _text(chip / "name") != "ina3221":
            continue
        for label in sorted(chip.glob("in[123]_label")):
            volts, amperes = (
                chip / f"{label.stem[:3]}_input",
                chip / f"curr{label.stem[2]}_input",
            )
            if volts.is_file() and amperes.is_file():
                channels += _rail(_text(label), _product(volts, amperes))
    return channels


def _iio(root: Path) -> list[Rail]:
    channels = []
    for label in sorted(
        (root / "bus/i2c/drivers/ina3221x").glob("*/iio:device*/rail_name_*")
    ):
        power = label.with_name(f"in_power{label.name.rpartition('_')[2]}_input")
        if power.is_file():
            channels += _rail(_text(label), _reader(power, 1.0))
    return channels


def _rail(label: str, read: Callable[[], float]) -> list[Rail]:
    words = frozenset(re.split(r"[^A-Z0-9]+", label.upper()))
    return (
        []
        if words & {"NC", "SUM"}
        else [Rail(label, words & {*PARTS, "CV", INPUT}, read, counts=False)]
    )


def _nvml(library: Any) -> list[Rail]:
    """The graphics cards: their energy counters, or their power where a card has
    none.
    """
    try:
        nvml = library or ctypes.CDLL(NVML)
        count = ctypes.c_uint()
        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return []
    except OSError:
        return []
    cards = []
    for index in range(count.value):
        handle = ctypes.c_void_p()
        if nvml.nvmlDeviceGetHandleByIndex_v2(
            ctypes.c_uint(index), ctypes.byref(handle)
        ):
            continue
        counter = _nvml_reader(
            nvml.nvmlDeviceGetTotalEnergyConsumption,
            handle,
            ctypes.c_ulonglong,
            f"NVML card {index}",
        )
        power = _nvml_reader(
            nvml.nvmlDeviceGetPowerUsage, handle, ctypes.c_uint, f"NVML card {index}"
        )
        counts = _answers(counter)
        cards.append(
            Rail(
                f"NVML card {index}",
                frozenset({"GPU"}),
                counter if counts else power,
                counts=counts,
            )
        )
    return cards


def _nvml_reader(
    function: Any, handle: ctypes.c_void_p, kind: Any, label: str
) -> Callable[[], float]:
    def read() -> float:
        value = kind()
        code = function(handle, ctypes.byref(value))
        if code:
            raise OSError(code, f"NVML error {code}", label)
        return float(value.value)

    return read


def _answers(read: Callable[[], float]) -> bool:
    try:
        read()
    except OSError:
        return False
    return True


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()


def _reader(path: Path, scale: float) -> Callable[[], float]:
    return lambda: int(_text(path)) * scale


def _product(volts: Path, amperes: Path) -> Callable[[], float]:
    """Milliwatts from millivolts and milliamperes."""
    return lambda: int(_text(volts)) * int(_text(amperes)) / 1e3


PERIOD_S = 0.01
"""Time between samples of power."""
SHORT_RUN_S = 1.0
"""A shorter run has a note: sensors are some 10 to 100 ms apart."""


@dataclass(frozen=True)
class EnergyUse:
    """Energy of a run over idle.

    Attributes:
        mj: Millijoules per input by convention; only conventions that the rails serve
            and that rose above idle.
        idle_mw: Idle power by convention.
        inputs: Inputs of the run.
        sensors: Labels of the rails that each convention sums.
        note: Caveats: a short run, conventions that did not rise above idle; None if
            there are none.
    """

    mj: Mapping[Convention, float]
    idle_mw: Mapping[Convention, float]
    inputs: int
    sensors: Mapping[Convention, tuple[str, ...]]
    note: str | None = None

    @property
    def words(self) -> str:
        """The rails of every convention, as a costs file states them."""
        return "; ".join(
            [
                "above idle",
                *(
                    f"{key}: {' + '.join(labels)}"
                    for key, labels in self.sensors.items()
                ),
            ]
        )

    def entry(self) -> dict[str, float]:
        """The charged figures of a costs file."""
        return {str(convention): mj for convention, mj in self.mj.items()}


def energy_over_idle(
    run: Callable[[], int],
    to_read: Sequence[Rail] | None = None,
    *,
    settle_s: float = 1.0,
    idle_s: float = 3.0,
    clock: Clock = time.perf_counter_ns,
    sleep: Callable[[float], object] = time.sleep,
) -> EnergyUse:
    """Energy per input of a run over idle; `run` returns the number of inputs that it
    served.

    Args:
        run: The measured run; it should last seconds, because counters and samples are
            some milliseconds apart.
        to_read: Rails to read; those of this machine where None.
        settle_s: Wait before that, in which the power of earlier work falls.
        idle_s: Duration of the measurement of idle power.
        clock: Returns nanoseconds since a fixed moment.
        sleep: Waits for a number of seconds.
    """
    chosen = tuple(to_read) if to_read is not None else rails()
    sums = conventions(chosen)
    if settle_s:
        sleep(settle_s)
    idle, _ = _record(lambda: sleep(idle_s), chosen, clock)
    work, inputs = _record(run, chosen, clock)
    if not isinstance(inputs, int) or inputs < 1:
        raise InputError(
            "A measured run must return the number of inputs "
            f"it served, 1 or more; found {inputs!r}."
        )
    idle_mw: dict[Convention, float] = {}
    mj: dict[Convention, float] = {}
    for convention, part in sums.items():
        rail_mw = {rail: idle.mj[rail] / idle.rail_s[rail] for rail in part}
        idle_mw[convention] = sum(rail_mw.values())
        over = sum(work.mj[rail] - rail_mw[rail] * work.rail_s[rail] for rail in part)
        if over > 0:
            mj[convention] = over / inputs
    flat = [convention for convention in sums if convention not in mj]
    notes = (
        [
            (
                "No energy above idle "
                f"was measured on {', '.join(flat)} in {work.seconds:.3g} s."
            )
        ]
        if flat
        else []
    )
    if work.seconds < SHORT_RUN_S:
        notes.append(
            f"Energy is uncertain: the run lasted {work.seconds:.2g} s, and "
            f"{SHORT_RUN_S:g} s are needed."
        )
    labels: dict[Convention, tuple[str, ...]] = {
        convention: tuple(rail.label for rail in part)
        for convention, part in sums.items()
    }
    return EnergyUse(mj, idle_mw, inputs, labels, " ".join(notes) or None)


def used_mj(rail: Rail, times_s: Sequence[float], readings: Sequence[float]) -> float:
    """Millijoules between the first and the last reading: differences of a counter, or
    the integral of power.
    """
    if not rail.counts:
        return float(
            np.sum(np.diff(times_s) * (np.array(readings[:-1]) + readings[1:]) / 2)
        )
    steps = np.diff(readings)
    if np.any(steps < 0) and rail.wrap_mj is None:
        raise InputError(
            f"The energy counter {rail.label} must not go backwards, and it did: "
            "measure again."
        )
    return float(np.sum(np.where(steps < 0, steps + (rail.wrap_mj or math.nan), steps)))


@dataclass(frozen=True)
class _Record:
    """Millijoules by rail, the time between its first and last reading, and the
    duration of the action.
    """

    mj: Mapping[Rail, float]
    rail_s: Mapping[Rail, float]
    seconds: float


def _record(
    action: Callable[[], Any], to_read: tuple[Rail, ...], clock: Clock
) -> tuple[_Record, Any]:
    """The readings of the rails while the action runs, and its result."""
    seen: dict[Rail, list[tuple[float, float]]] = {rail: [] for rail in to_read}

    def look(part: Sequence[Rail]) -> None:
        for rail in part:
            seen[rail].append((clock() / 1e9, rail.read()))

    look(to_read)
    began = clock()
    with _sample_periodically(
        lambda: look([rail for rail in to_read if not rail.counts])
    ):
        result = action()
    seconds = (clock() - began) / 1e9
    look(to_read)
    mj = {
        rail: used_mj(rail, *zip(*pairs, strict=True)) for rail, pairs in seen.items()
    }
    # Readings take time themselves, so each rail has a duration of its own.
    rail_s = {rail: pairs[-1][0] - pairs[0][0] for rail, pairs in seen.items()}
    return _Record(mj, rail_s, seconds), result


@contextmanager
def _sample_periodically(look: Callable[[], None]) -> Iterator[None]:
    """Call `look` periodically inside the context; raises at the end if a sensor
    failed.
    """
    done, failed = threading.Event(), []

    def loop() -> None:
        try:
            while not done.wait(PERIOD_S):
                look()
        except OSError as error:
            failed.append(error)

    watcher = threading.Thread(target=loop, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    if failed:
        raise InputError(
            f"Energy sensors must stay readable, and one failed: {failed[0]}."
        )
