"""Energy counters and power sensors of this machine -> rails that can be read, and what each convention sums.

Found are INA3221 rails of a Jetson (sysfs: hwmon, or iio of older systems); otherwise RAPL zones of the processor
(sysfs) and NVIDIA graphics cards (NVML). `mj` sums the rails that feed GPU, CPU and SoC; `mj_gpu` those that feed
the GPU alone; `mj_all` every rail, or the input rail where there is one. A RAPL package stands for CPU, SoC and
integrated graphics.
"""

import ctypes
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepval.errors import InputError, InputWarning
from deepval.tables.costs import ALL_RAILS, GPU_RAIL, MODULE, Convention

PARTS = frozenset({"GPU", "CPU", "SOC"})
"""What the module convention counts."""
INPUT = "IN"
"""The rail that feeds all others."""
NVML = "libnvidia-ml.so.1"


@dataclass(frozen=True)
class Rail:
    """One sensor.

    Attributes:
        label: Its name on the machine.
        feeds: What it supplies, such as {"GPU"}.
        read: Millijoules so far if it counts, milliwatts now if not.
        counts: Whether it counts energy by itself.
        wrap_mj: Where a counter starts again from zero; None if it does not.
    """

    label: str
    feeds: frozenset[str]
    read: Callable[[], float]
    counts: bool
    wrap_mj: float | None = None


def rails(root: Path = Path("/sys"), *, library: Any = None) -> tuple[Rail, ...]:
    """The rails of this machine that can be read; none, or none that may be read, is an error.

    Args:
        root: Where sysfs is mounted.
        library: NVML, if it is not to be looked for.
    """
    found: list[Rail] = []
    closed: list[str] = []
    for rail in _hwmon(root) or _iio(root) or [*_rapl(root), *_nvml(library)]:
        try:
            rail.read()
            found.append(rail)
        except OSError as error:
            closed.append(f"{rail.label} ({error.strerror})")
    if not found and not closed:
        raise InputError(
            f"Energy needs a sensor, and this machine shows none (no INA3221 rails or RAPL zones under {root}, no "
            f"{NVML}): measure without energy, or on a machine that has one."
        )
    if closed:
        sentence = f"Energy sensors must be readable by this user, and {', '.join(closed)} cannot be read"
        if not found:
            raise InputError(f"{sentence}: allow it, or measure without energy.")
        warnings.warn(f"{sentence}; the others are.", InputWarning, stacklevel=2)
    return tuple(found)


def conventions(found: tuple[Rail, ...]) -> dict[Convention, tuple[Rail, ...]]:
    """The rails that each energy convention sums; a convention that they cannot serve is left out."""
    inner = tuple(rail for rail in found if INPUT not in rail.feeds)
    module = tuple(rail for rail in inner if rail.feeds & PARTS)
    sums: dict[Convention, tuple[Rail, ...]] = {
        GPU_RAIL: tuple(rail for rail in inner if rail.feeds == {"GPU"}),
        MODULE: module if frozenset().union(*(rail.feeds for rail in module)) >= PARTS else (),
        ALL_RAILS: tuple(rail for rail in found if INPUT in rail.feeds) or (inner if module != inner else ()),
    }
    return {convention: rails for convention, rails in sums.items() if rails}


def _rapl(root: Path) -> list[Rail]:
    """Packages and their memory; cores are parts of a package, and the memory-mapped twins count the same again."""
    found = []
    for zone in sorted((root / "class/powercap").glob("intel-rapl:*")):
        kind = _text(zone / "name").partition("-")[0]
        if kind not in ("package", "dram"):
            continue
        feeds = PARTS if kind == "package" else frozenset({"DRAM"})
        wrap_mj = float(_text(zone / "max_energy_range_uj")) / 1e3
        found.append(Rail(f"RAPL {zone.name}", feeds, _reader(zone / "energy_uj", 1e-3), counts=True, wrap_mj=wrap_mj))
    return found


def _hwmon(root: Path) -> list[Rail]:
    found = []
    for chip in sorted((root / "class/hwmon").glob("hwmon*")):
        if not (chip / "name").is_file() or _text(chip / "name") != "ina3221":
            continue
        for label in sorted(chip.glob("in[123]_label")):
            volts, amperes = chip / f"{label.stem[:3]}_input", chip / f"curr{label.stem[2]}_input"
            if volts.is_file() and amperes.is_file():
                found += _rail(_text(label), _product(volts, amperes))
    return found


def _iio(root: Path) -> list[Rail]:
    found = []
    for label in sorted((root / "bus/i2c/drivers/ina3221x").glob("*/iio:device*/rail_name_*")):
        power = label.with_name(f"in_power{label.name.rpartition('_')[2]}_input")
        if power.is_file():
            found += _rail(_text(label), _reader(power, 1.0))
    return found


def _rail(label: str, read: Callable[[], float]) -> list[Rail]:
    words = frozenset(re.split(r"[^A-Z0-9]+", label.upper()))
    return [] if words & {"NC", "SUM"} else [Rail(label, words & {*PARTS, "CV", INPUT}, read, counts=False)]


def _nvml(library: Any) -> list[Rail]:
    """The graphics cards: their energy counters, or their power where a card has none."""
    try:
        nvml = library or ctypes.CDLL(NVML)
        count = ctypes.c_uint()
        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return []
    except OSError:
        return []
    found = []
    for index in range(count.value):
        handle = ctypes.c_void_p()
        if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)):
            continue
        counter = _asked(nvml.nvmlDeviceGetTotalEnergyConsumption, handle, ctypes.c_ulonglong, f"NVML card {index}")
        power = _asked(nvml.nvmlDeviceGetPowerUsage, handle, ctypes.c_uint, f"NVML card {index}")
        counts = _answers(counter)
        found.append(Rail(f"NVML card {index}", frozenset({"GPU"}), counter if counts else power, counts=counts))
    return found


def _asked(function: Any, handle: ctypes.c_void_p, kind: Any, label: str) -> Callable[[], float]:
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
