"""Rows of numbers -> one prediction per row, by models that need NumPy only: linear,
trees, network, quantile.

A module contains a model, its learner and its plain form for files. To add a model,
write a Model and add a row to MODELS.
"""

from collections.abc import Mapping
from typing import Any

from deepval.deploy.allocators.models.layers import (
    Linear,
    Mlp,
    Network,
    Quantile,
    Ridge,
)
from deepval.deploy.allocators.models.model import Learner, Model
from deepval.deploy.allocators.models.trees import Boosting, Trees

__all__ = [
    "MODELS",
    "Boosting",
    "Learner",
    "Linear",
    "Mlp",
    "Model",
    "Network",
    "Quantile",
    "Ridge",
    "Trees",
    "model_of",
]

MODELS: dict[str, type[Model]] = {
    "linear": Linear,
    "trees": Trees,
    "network": Network,
    "quantile": Quantile,
}
"""Name in model files -> model."""


def model_of(content: Mapping[str, Any]) -> Model:
    """The model from a file's content; KeyError, TypeError or ValueError if the content
    is malformed.
    """
    return MODELS[content["model"]].of(content)
