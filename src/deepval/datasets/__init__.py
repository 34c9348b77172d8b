"""Readers that turn a data set's files into scenes (what the vehicle knows) and truths (the reference)."""

from collections.abc import Callable
from typing import Any

from deepval.datasets import kitti, synthetic
from deepval.datasets.dataset import Dataset

DATASETS: dict[str, Callable[..., Dataset]] = {"kitti": kitti.read, "synthetic": synthetic.read}

__all__ = ["DATASETS", "Dataset", "read_dataset"]


def read_dataset(name: str, root: Any = None, **options: Any) -> Dataset:
    """The data set of that name under the folder `root`; the synthetic world needs none."""
    from deepval.errors import InputError

    if name not in DATASETS:
        raise InputError(f"a data set must be one of {', '.join(DATASETS)}; found {name!r}.")
    if root is None and name != "synthetic":
        raise InputError(f"data set {name} must be read from a folder; found none: give its folder.")
    return DATASETS[name](root, **options)
