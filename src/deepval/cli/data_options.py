"""Options that name a data set on disk and the units to read."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter

from deepval.basics.errors import InputError
from deepval.cli import options

if TYPE_CHECKING:
    from deepval.driving.datasets import Dataset

Geometry = Literal[
    "monocular", "oracle", "cuboids", "tracks", "tracks-no-fp", "tracks-iou-05"
]


@Parameter(name="*")
@dataclass(frozen=True)
class DataFiles:
    """A data set on disk and the units to read.

    Attributes:
        dataset: Data set: kitti, nuplan, nuscenes, scenarionet, synthetic, or your own:
            FILE.py:NAME.
        root: Folder of the data set's files.
    """

    dataset: str | None = None
    root: Path | None = None
    units: options.UnitNames = None

    @property
    def kind(self) -> str:
        """Name of the data set."""
        from deepval.basics import plugins
        from deepval.driving.datasets import DATASETS

        if self.dataset is None:
            raise InputError(f"--dataset must be given: one of {', '.join(DATASETS)}.")
        if plugins.names_code(self.dataset):
            return self.dataset
        allowed = (*DATASETS, *plugins.installed("datasets"))
        return options.one_of(self.dataset, allowed, "--dataset")

    @property
    def unit_names(self) -> list[str] | None:
        """The units to read; None for all."""
        return options.unit_list(self.units)

    def open(self, **settings: Any) -> "Dataset":
        """The data set, with these further settings of its reader."""
        from deepval.driving.datasets import DATASETS, open_dataset, own_dataset

        opened = None
        if self.kind not in DATASETS:
            opened = own_dataset(self.kind, self.root)
        if opened is None:
            opened = open_dataset(self.kind, self.root, **settings)
        return opened.for_units(self.unit_names)


@Parameter(name="*")
@dataclass(frozen=True)
class MappedFiles(DataFiles):
    """A data set on disk with its lane maps; without any, the synthetic world.

    Attributes:
        dataset: Data set: kitti, nuplan, nuscenes, scenarionet, synthetic, or your own:
            FILE.py:NAME.
        maps: Folder of lane maps: nuScenes' map expansion, or ScenarioNet records.
    """

    dataset: str | None = "synthetic"
    maps: Path | None = None

    def check_maps(self) -> None:
        """Raise if --maps has no effect; only nuScenes has maps apart from its own
        files.
        """
        if self.maps is not None and self.kind != "nuscenes":
            raise InputError(
                f"--maps changes nothing with --dataset {self.kind}: leave it out, or "
                "give another --dataset."
            )

    def open(self, **settings: Any) -> "Dataset":
        """The data set, with its lane maps."""
        self.check_maps()
        if self.maps is not None:
            settings["maps"] = self.maps
        return super().open(**settings)


# The groups where no option of them is stated.
NO_DATA = DataFiles()
SYNTHETIC = MappedFiles()
