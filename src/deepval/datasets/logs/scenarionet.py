"""A folder of ScenarioNet records -> a data set: the scenes and truths at the keyframes of its logs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepval.datasets.dataset import Dataset
from deepval.datasets.logs.log import Log
from deepval.datasets.logs.scenarionet_records import log_of, read_record, records_below
from deepval.datasets.logs.states import unit_of
from deepval.errors import InputError
from deepval.world.scene import Scene
from deepval.world.truth import Truth


@dataclass(frozen=True)
class ScenarioNet(Dataset):
    """The records `sd_*.pkl` anywhere below a folder; a unit is a scene.

    Attributes:
        root: The folder.
    """

    root: Path | str

    @property
    def name(self) -> str:
        """Name of the data set; it seeds the splits."""
        return "scenarionet"

    @property
    def records(self) -> dict[str, Path]:
        """The record of each unit."""
        return records_below(self.root)

    def files(self, unit: str) -> dict[str, Path]:
        """The record of a scene."""
        path = self._record(unit)
        return {path.name: path}

    def beside(self, unit: str) -> dict[str, Any]:
        """Nothing: a unit depends on its record only."""
        return {}

    def unit_ids(self) -> tuple[str, ...]:
        """Names of the scenes, such as scene-0103."""
        return tuple(self.records)

    def read_log(self, unit: str) -> Log:
        """All steps of a scene."""
        path = self._record(unit)
        record = read_record(path)
        try:
            return log_of(record, unit)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """The scene at the keyframes, and its reference."""
        return unit_of(self.read_log(unit))

    def _record(self, unit: str) -> Path:
        records = self.records
        if unit not in records:
            raise InputError(f"units must be among {', '.join(records)}; found {unit}.")
        return records[unit]
