"""A model and one row -> its prediction, by whatever is fastest here and gives the same bits.

Trees of a single row are walked by ONNX Runtime where it is installed (from 1.20 on), several times faster than NumPy,
which pays for every call. It adds leaves one tree after the other as we do, on one thread, so the sum is the same to
the bit. Sums of columns it would add in another order, so linear models and networks stay with NumPy.
"""

from collections.abc import Callable
from importlib.util import find_spec
from weakref import WeakKeyDictionary

import numpy as np

from deepval.allocators.models import Model, Trees
from deepval.allocators.models.links import linked_one
from deepval.allocators.tree_graph import RAW, ROW, tree_graph
from deepval.arrays import Float
from deepval.errors import InputError
from deepval.perception.running.onnx_model import open_session

Call = Callable[[Float[np.ndarray, "column"]], float]
_CALLS: WeakKeyDictionary[Trees, Call | None] = WeakKeyDictionary()
"""What walks each model's trees; apart from the models, which are plain numbers and can be sent elsewhere."""


def predict_row(model: Model, row: Float[np.ndarray, "column"]) -> float:
    """The prediction of a model for one row, to the bit that of a batch."""
    if not isinstance(model, Trees):
        return model.predict_row(row)
    if model not in _CALLS:
        _CALLS[model] = _walk(model)
    call = _CALLS[model]
    return model.predict_row(row) if call is None else call(row)


def _walk(model: Trees) -> Call | None:
    """The walk of one row through trees by ONNX Runtime, None where that is not installed or too old for them."""
    if find_spec("onnxruntime") is None:
        return None
    try:
        session = open_session(tree_graph(model), name="that of trees", threads=1)
    except InputError:
        return None
    run, link, outputs = session.run, model.link, [RAW]

    def walked(row: Float[np.ndarray, "column"]) -> float:
        return linked_one(run(outputs, {ROW: row.reshape(1, -1)})[0].item(), link)

    return walked
