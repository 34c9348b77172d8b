"""Argoverse 2 motion-forecasting scenarios and sensor logs -> logs, and the scenes and truths of their states.

A scenario is a folder with `scenario_*.parquet` and `log_map_archive_*.json`; a sensor log one with
`annotations.feather`, `city_SE3_egovehicle.feather`, `calibration/` and `map/log_map_archive_*.json`. See
docs/external.md for what is real in them and what is nominal.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepval.datasets.dataset import Dataset
from deepval.datasets.logs.argoverse_scenarios import scenario_log
from deepval.datasets.logs.argoverse_sensors import sensor_log
from deepval.datasets.logs.log import Log
from deepval.datasets.logs.states import unit_of
from deepval.errors import InputError
from deepval.files import reading
from deepval.world.scene import Scene
from deepval.world.truth import Truth


@dataclass(frozen=True)
class Argoverse2(Dataset):
    """Scenarios and sensor logs anywhere below a folder; a unit is one of them, named by its folder.

    Attributes:
        root: The folder.
    """

    root: Path | str

    @property
    def name(self) -> str:
        """Its name; splits are drawn under it."""
        return "argoverse2"

    @property
    def folders(self) -> dict[str, Path]:
        """The folder of each unit."""
        root = Path(self.root)
        found = [
            path.parent
            for pattern in ("scenario_*.parquet", "annotations.feather")
            for path in reading.matching(root, f"**/{pattern}")
        ]
        units = {reading.resolved(folder).name: folder for folder in sorted(found)}
        if not units:
            raise InputError(
                f"an Argoverse 2 folder must hold scenario_*.parquet or annotations.feather; {root} has neither."
            )
        if len(units) != len(found):
            raise InputError(f"scenarios and logs must lie in folders of different names; in {root} some do not.")
        return dict(sorted(units.items()))

    def files(self, unit: str) -> dict[str, Path]:
        """All files that a unit is read from."""
        folder = self._folder(unit)
        wanted = ("scenario_*.parquet", "*.feather", "calibration/*.feather", "log_map_archive_*.json")
        found = [
            path
            for pattern in (*wanted, "map/log_map_archive_*.json")
            for path in sorted(reading.matching(folder, pattern))
        ]
        return {f"{unit}/{path.relative_to(folder).as_posix()}": path for path in found}

    def beside(self, unit: str) -> dict[str, Any]:
        """Nothing."""
        return {}

    def unit_ids(self) -> tuple[str, ...]:
        """Names of the folders: scenario ids and log ids."""
        return tuple(self.folders)

    def read_log(self, unit: str) -> Log:
        """All steps of a unit."""
        folder = self._folder(unit)
        if next(reading.matching(folder, "scenario_*.parquet"), None):
            return scenario_log(folder, unit)
        return sensor_log(folder, unit)

    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """What the vehicle knows every half second, and the reference."""
        return unit_of(self.read_log(unit))

    def _folder(self, unit: str) -> Path:
        folders = self.folders
        if unit not in folders:
            raise InputError(f"units must be among {', '.join(folders)}; found {unit}.")
        return folders[unit]
