"""Files of data sets -> scenes (the vehicle's information) and truths (the reference),
unit by unit.
"""

from collections.abc import Callable
from typing import Any

from deepval.basics import plugins
from deepval.basics.errors import InputError
from deepval.basics.plugins import OwnCode
from deepval.driving.datasets.dataset import Dataset
from deepval.driving.datasets.kitti import Kitti
from deepval.driving.datasets.logs.nuplan import Nuplan
from deepval.driving.datasets.logs.scenarionet import ScenarioNet
from deepval.driving.datasets.nuscenes import NuScenes
from deepval.driving.datasets.synthetic import Synthetic

DATASETS: dict[str, Callable[..., Dataset]] = {
    "kitti": Kitti,
    "nuplan": Nuplan,
    "nuscenes": NuScenes,
    "scenarionet": ScenarioNet,
    "synthetic": Synthetic,
}

__all__ = ["DATASETS", "Dataset", "open_dataset", "open_own", "own_dataset"]


def open_dataset(name: str, root: Any = None, **options: Any) -> Dataset:
    """The data set of that name under the folder `root`; the synthetic world needs
    none.
    """
    if name not in DATASETS:
        raise InputError(
            f"a data set must be one of {', '.join(DATASETS)}; found {name!r}."
        )
    if root is None and name != "synthetic":
        raise InputError(
            f"data set {name} must be read from a folder; found none: give its folder."
        )
    return DATASETS[name](root, **options)


def own_dataset(word: str, root: Any = None) -> Dataset | None:
    """The data set that a typed word names, as code or as an installed package's name;
    None for any other word.
    """
    own = plugins.find(word, "datasets")
    return None if own is None else open_own(own, root)


def open_own(own: OwnCode, root: Any = None) -> Dataset:
    """The data set of the user's own code."""
    word = own.code.word
    opened = plugins.create(word, own.value, *(() if root is None else (root,)))
    source = plugins.checked(
        word, opened, Dataset, "a data set (deepval.driving.datasets.Dataset)"
    )
    if source.name in DATASETS:
        raise InputError(
            f"{word}: deepval has a data set {source.name!r}: "
            "give this one another name."
        )
    return source
