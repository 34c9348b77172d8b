"""Options that name a data set: its files, its units and its lane maps."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from deepval.cli import options
from deepval.cli.arguments import OptionGroup
from deepval.datasets import DATASETS, Dataset, open_dataset
from deepval.errors import InputError

DatasetName = Annotated[
    str | None,
    typer.Option("--dataset", help=f"Data set: {', '.join(DATASETS)}.", autocompletion=options.completion(*DATASETS)),
]
Root = Annotated[Path | None, typer.Option("--root", help="Folder of the data set's files.")]


@dataclass(frozen=True)
class DataFiles(OptionGroup):
    """A data set on disk and the units to read."""

    dataset: DatasetName = None
    root: Root = None
    units: options.Units = None

    @property
    def kind(self) -> str:
        """Name of the data set."""
        if self.dataset is None:
            raise InputError(f"--dataset must be given: one of {', '.join(DATASETS)}.")
        return options.one_of(self.dataset, tuple(DATASETS), "--dataset")

    @property
    def unit_names(self) -> list[str] | None:
        """The units to read; None for all."""
        return options.unit_list(self.units)

    def open(self) -> Dataset:
        """The data set."""
        return open_dataset(self.kind, self.root)


@dataclass(frozen=True)
class MappedFiles(DataFiles):
    """A data set on disk with its lane maps."""

    maps: Annotated[
        Path | None,
        typer.Option("--maps", help="Folder of lane maps: nuScenes' map expansion, or ScenarioNet records."),
    ] = None

    def check_maps(self) -> None:
        """Raise if --maps has no effect; only nuScenes has maps apart from its own files."""
        if self.maps is not None and self.kind != "nuscenes":
            raise InputError(
                f"--maps changes nothing with --dataset {self.kind}: leave it out, or give another --dataset."
            )

    def open(self) -> Dataset:
        """The data set, with its lane maps."""
        self.check_maps()
        return open_dataset(self.kind, self.root, **({} if self.maps is None else {"maps": self.maps}))


def check_roads(source: Dataset, units: Sequence[str]) -> None:
    """Raise unless every unit may have a lane map, for systems that draw the road."""
    lacking = source.without_map(units)
    if lacking:
        others = ",".join(unit for unit in units if unit not in lacking)
        advice = f" or name the other{'s' if ',' in others else ''}: --units {others}" if others else ""
        raise InputError(
            f"the learned planner draws the road, and {len(lacking)} of {len(units)} units have no lane map "
            f"({', '.join(lacking)}): give --maps with their maps{',' if advice else ''}{advice}."
        )
