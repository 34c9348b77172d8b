"""Pickles -> plain containers, numbers, text and NumPy arrays.

A pickle is a program: it may load any function of any module and call it. So a child
process with limits (`bounded`) runs it, and loads only the names in `ALLOWED`. The
child answers with JSON and the bytes of the arrays; this process runs no part of the
pickle. docs/security.md states what this stops, and what it does not.
"""

import atexit
import collections
import json
import math
import os
import pickle
import re
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from deepval.basics.errors import InputError, reason
from deepval.basics.files import reading
from deepval.basics.files.bounded import Limits, Reader

LARGEST = 2**28
"""Largest size of a file in bytes; a larger one is refused before it is read."""
LARGEST_ANSWER = 2**30
"""Largest size in bytes of the values of a pickle; they may be larger than the file,
which may refer to the same value many times.
"""
REQUIREMENT = "must be a pickle of plain containers and NumPy arrays"
ARRAY_KINDS = "biufSU"
"""Kinds of arrays that are read: bool, integers, floats and text."""
ARRAY_TYPE = re.compile(f"[<>|][{ARRAY_KINDS}][0-9]+")
PLAIN = (dict, list, tuple, set, frozenset, str, int, float, bool)
NUPLAN_LISTS = ("Translation", "Rotation", "CameraIntrinsic")
"""nuPlan's classes for lists of numbers, as its databases name them."""

# NumPy's own functions that restore an array of protocol 4, a number, and an array of
# protocol 5, as its pickles name them.
_RECONSTRUCT = np.zeros(0).__reduce__()[0]
_SCALAR = np.float64(0).__reduce__()[0]
_FROM_BUFFER = np.zeros(0).__reduce_ex__(5)[0]

ALLOWED: dict[str, Any] = {
    **{f"builtins.{kind.__name__}": kind for kind in PLAIN},
    **{f"nuplan.database.common.data_types.{name}": list for name in NUPLAN_LISTS},
    "collections.defaultdict": collections.defaultdict,
    "collections.OrderedDict": collections.OrderedDict,
    "numpy.ndarray": np.ndarray,
    "numpy.dtype": np.dtype,
    "numpy.core.multiarray._reconstruct": _RECONSTRUCT,
    "numpy.core.multiarray.scalar": _SCALAR,
    "numpy.core.numeric._frombuffer": _FROM_BUFFER,
}
"""What a pickle may load, by name; NumPy 2 writes numpy._core for numpy.core."""


def read_pickle(path: Path) -> Any:
    """The value of a pickle file, by `unpickle`."""
    content = reading.content(path, "a pickle", largest=LARGEST)
    try:
        return unpickle(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def unpickle(
    content: bytes, limits: Limits | None = None, *, most: int = LARGEST_ANSWER
) -> Any:
    """The value of a pickle: plain containers, numbers, text and NumPy arrays; raises
    for any other.

    Tuples and sets come back as lists.

    Args:
        content: The pickle.
        limits: Limits of the process that reads it.
        most: Largest size of its values in bytes.
    """
    with tempfile.NamedTemporaryFile(prefix="deepval-") as file:
        file.write(content)
        file.flush()
        child = _child(os.getpid())
        answer = child.answer(file.name, limits or Limits(), most)
    try:
        value, problem = _read_answer(answer)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise InputError(
            "must be readable; the answer of its reader is malformed."
        ) from error
    if problem is not None:
        raise InputError(f"{REQUIREMENT}; {problem}.")
    return value


@cache
def _child(process: int) -> Reader:
    """The child of this process that reads all its pickles, because a start takes
    longer than a file; a fork of this process gets a child of its own.
    """
    child = Reader(__name__)
    atexit.register(child.close)
    return child


def _read_answer(answer: bytes) -> tuple[Any, str | None]:
    """The value in an answer of the child, and the reason why it has none."""
    head, _, numbers = answer.partition(b"\n")
    content = json.loads(head)
    if "problem" in content:
        return None, content["problem"]
    arrays = _arrays(content["arrays"], numbers)
    return _decoded(content["value"], arrays), None


def _arrays(heads: Sequence[Sequence[Any]], numbers: bytes) -> list[np.ndarray]:
    """The arrays of an answer from their types and shapes, and the bytes of all."""
    arrays = []
    start = 0
    for code, shape in heads:
        if not ARRAY_TYPE.fullmatch(code):
            raise ValueError(code)
        count = math.prod(shape)
        dtype = np.dtype(code)
        flat = np.zeros(0, dtype)
        if count:
            flat = np.frombuffer(numbers, dtype, count, start)
        # a copy, so that one array does not keep the bytes of all
        arrays.append(flat.reshape(shape).copy())
        start += count * dtype.itemsize
    return arrays


def _decoded(value: Any, arrays: list[np.ndarray]) -> Any:
    """The value that `encoded` wrote."""
    if isinstance(value, list):
        return [_decoded(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    values = [_decoded(item, arrays) for item in value["values"]]
    return dict(zip(value["keys"], values, strict=True))


# The rest runs in the child.


def reader(_: str) -> Callable[[str, IO[bytes]], None]:
    """What answers a request to read a file (`child.serve`)."""
    return write_value


def write_value(path: str, out: IO[bytes]) -> None:
    """Write the value of a pickle file as a line of JSON and the bytes of its arrays,
    or the reason why it is refused.
    """
    arrays: list[np.ndarray] = []
    try:
        with reading.open_file(path) as file:
            value = Unpickler(file).load()
        content = {"value": encoded(value, arrays)}
        content["arrays"] = [[array.dtype.str, array.shape] for array in arrays]
        head = json.dumps(content)
    except MemoryError:
        raise
    except InputError as error:
        arrays = []
        head = json.dumps({"problem": str(error)})
    except Exception as error:  # noqa: BLE001 - damaged pickles fail in any way
        arrays = []
        head = json.dumps({"problem": f"it is damaged ({reason(error)})"})
    out.write(head.encode() + b"\n")
    for array in arrays:
        out.write(np.ascontiguousarray(array).tobytes())
    out.flush()


class Unpickler(pickle.Unpickler):
    """Loads the names in `ALLOWED` and no others."""

    def find_class(self, module: str, name: str) -> Any:
        """The object of a name."""
        known = f"{module.replace('numpy._core', 'numpy.core')}.{name}"
        if known not in ALLOWED:
            raise InputError(f"it asks for {module}.{name}, which is not loaded")
        return ALLOWED[known]


def encoded(value: Any, arrays: list[np.ndarray]) -> Any:
    """A value as JSON holds it; its arrays are appended to `arrays`, and their numbers
    stand for them.

    An array is an object `array`, and a dict is one of `keys` and `values`, so that a
    key need not be text, or may be "array".
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return [encoded(item, arrays) for item in value]
    if isinstance(value, set | frozenset):
        # in an order that does not differ from run to run
        return [encoded(item, arrays) for item in sorted(value, key=repr)]
    if isinstance(value, dict):
        if not all(isinstance(key, str | int | float) for key in value):
            raise InputError("it holds a key that is no text and no number")
        values = [encoded(item, arrays) for item in value.values()]
        return {"keys": list(value), "values": values}
    if isinstance(value, np.ndarray) and value.dtype.kind in ARRAY_KINDS:
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic) and value.dtype.kind in ARRAY_KINDS:
        return encoded(value.item(), arrays)
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        kind = f"array of {value.dtype.name}"
    raise InputError(f"it holds a value of type {kind}")
