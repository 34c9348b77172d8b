"""Rows of numbers -> one prediction each, by models that need NumPy alone: linear, trees, network, quantile.

Each module holds a model, what makes it from a fit, and its plain form for files. To add one: a Model, and a row of
MODELS.
"""

from collections.abc import Mapping
from typing import Any

from deepval.allocators.models.linear import Linear, Quantile, Ridge
from deepval.allocators.models.model import Learner, Model
from deepval.allocators.models.training import Mlp, Network
from deepval.allocators.models.trees import Boosting, Trees

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

MODELS: dict[str, type[Model]] = {"linear": Linear, "trees": Trees, "network": Network, "quantile": Quantile}
"""Models by the name that a file gives them."""


def model_of(content: Mapping[str, Any]) -> Model:
    """The model that a file describes; KeyError, TypeError or ValueError where it describes none."""
    return MODELS[content["model"]].of(content)
