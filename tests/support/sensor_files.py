"""Energy sensors in tests: files in the format of /sys, and a stand-in for NVML."""

import ctypes
from pathlib import Path


def write_tree(root: Path, files: dict[str, object]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}\n")
    return root


RAPL = {
    "class/powercap/intel-rapl/enabled": 1,
    "class/powercap/intel-rapl:0/name": "package-0",
    "class/powercap/intel-rapl:0/max_energy_range_uj": 262143328850,
    "class/powercap/intel-rapl:0/energy_uj": 262143000850,
    "class/powercap/intel-rapl:0:0/name": "core",
    "class/powercap/intel-rapl:0:0/max_energy_range_uj": 262143328850,
    "class/powercap/intel-rapl:0:0/energy_uj": 11,
    "class/powercap/intel-rapl:0:1/name": "dram",
    "class/powercap/intel-rapl:0:1/max_energy_range_uj": 65712999613,
    "class/powercap/intel-rapl:0:1/energy_uj": 5000,
    "class/powercap/intel-rapl-mmio:0/name": "package-0",
    "class/powercap/intel-rapl-mmio:0/max_energy_range_uj": 262143328850,
    "class/powercap/intel-rapl-mmio:0/energy_uj": 77,
}
XAVIER = {"1-0040": ("GPU", "CPU", "SOC"), "1-0041": ("CV", "VDDRQ", "SYS5V")}


def hwmon_tree(chips) -> dict[str, object]:
    files: dict[str, object] = {"class/hwmon/hwmon0/name": "thermal-fan-est"}
    for number, labels in enumerate(chips, start=1):
        folder = f"class/hwmon/hwmon{number}"
        files |= {
            f"{folder}/name": "ina3221",
            f"{folder}/in7_label": "sum of shunt voltages",
            f"{folder}/in7_input": 3,
        }
        for channel, label in enumerate(labels, start=1):
            files |= {
                f"{folder}/in{channel}_label": label,
                f"{folder}/in{channel}_input": 19000,
                f"{folder}/curr{channel}_input": 100 * channel * number,
            }
    return files


def iio_tree() -> dict[str, object]:
    files: dict[str, object] = {}
    for number, (address, labels) in enumerate(XAVIER.items()):
        folder = f"bus/i2c/drivers/ina3221x/{address}/iio:device{number}"
        for channel, label in enumerate(labels):
            files |= {
                f"{folder}/rail_name_{channel}": label,
                f"{folder}/in_power{channel}_input": 1900
                * (channel + 1)
                * (number + 1),
                f"{folder}/in_voltage{channel}_input": 19000,
            }
    return files


class FakeNvml:
    """Two cards: one that counts energy, one that only shows power."""

    def __init__(self) -> None:
        self.energy_mj = 500

    def nvmlInit_v2(self) -> int:  # noqa: N802
        return 0

    def nvmlDeviceGetCount_v2(self, count) -> int:  # noqa: N802
        count._obj.value = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle) -> int:  # noqa: N802
        handle._obj.value = index.value + 1
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle, value) -> int:  # noqa: N802
        assert isinstance(value._obj, ctypes.c_ulonglong)
        value._obj.value = self.energy_mj
        return 0 if handle.value == 1 else 3

    def nvmlDeviceGetPowerUsage(self, handle, value) -> int:  # noqa: N802
        assert isinstance(value._obj, ctypes.c_uint)
        value._obj.value = 7000
        return 0
