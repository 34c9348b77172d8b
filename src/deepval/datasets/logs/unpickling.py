"""Pickle files -> plain containers and NumPy arrays, without running any code that a
file names.

A pickle is a program. `Machine` interprets it with the few operations that values,
containers and NumPy arrays need. Names are looked up in a table of this module and
never imported; any other name is refused.
"""

import math
import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deepval.errors import InputError
from deepval.files import reading

MOST_BYTES = 1 << 30
"""A larger file is refused before it is read; the values of a file cannot become much
larger than the file.
"""
MOST_AXES = 32
ARRAY_TYPES = re.compile(r"[biufSU][0-9]{1,9}")
"""Bool, integers, floats and text.

Arrays of objects are refused: their elements would be another program.
"""
VALUES = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"),
        *(
            "FLOAT",
            "BINFLOAT",
            "UNICODE",
            "SHORT_BINUNICODE",
            "BINUNICODE",
            "BINUNICODE8",
        ),
        *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": set,
}
LISTS = tuple(
    f"nuplan.database.common.data_types.{name}"
    for name in ("Translation", "Rotation", "CameraIntrinsic")
)
"""nuPlan's classes for lists of numbers, as its databases name them."""
SHORT_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(frozen=True)
class Name:
    """A name that a pickle may use, as text; the object behind the name is never
    loaded.
    """

    text: str


@dataclass
class ElementType:
    """A NumPy element type; a later step of the pickle may set `order`, its byte
    order.
    """

    code: str
    order: str = "|"

    @property
    def dtype(self) -> np.dtype:
        """The type itself."""
        return np.dtype(self.code).newbyteorder(self.order)  # pyright: ignore[reportArgumentType]


@dataclass
class Shell:
    """An array before the pickle has set its content."""

    value: np.ndarray | None = None


MARK = object()


def _allowed_name(module: str, name: str) -> Name:
    """The full name if plain containers or NumPy arrays need it; raises for any other
    name.
    """
    full_name = (
        f"{module.replace('numpy._core', 'numpy.core').replace('__builtin__', 'builtins')}"  # noqa: E501
        f".{name}"
    )
    if full_name not in MAKERS and full_name not in (
        "builtins.int",
        "numpy.ndarray",
        *LISTS,
    ):
        raise InputError(
            f"it asks for {module}.{name}; only plain containers and NumPy arrays are "
            "read, and nothing was run"
        )
    return Name(full_name)


def _array(shape: Any, element: Any, *, content: Any, fortran: Any) -> np.ndarray:
    """An array of a shape from its bytes."""
    if not isinstance(element, ElementType) or not isinstance(
        content, bytes | bytearray
    ):
        raise InputError(
            "it holds an array of objects; only numbers and text are read, and "
            "nothing was run"
        )
    if not (
        isinstance(shape, tuple)
        and len(shape) <= MOST_AXES
        and all(type(size) is int for size in shape)
    ):
        raise InputError("it holds an array without a proper shape")
    if min(shape, default=0) < 0 or math.prod(shape) * element.dtype.itemsize != len(
        content
    ):
        raise InputError(
            f"it holds an array whose shape does not fit its {len(content)} bytes"
        )
    # A view, not a copy: a file that refers to the same bytes a thousand times does not
    # fill the memory.
    flat = (
        np.frombuffer(content, dtype=element.dtype)
        if len(content)
        else np.zeros(0, dtype=element.dtype)
    )
    return flat.reshape(shape, order="F" if fortran else "C")


def _element_type(code: Any, *_: Any) -> ElementType:
    if not (isinstance(code, str) and ARRAY_TYPES.fullmatch(code)):
        kind = code if isinstance(code, str) else type(code).__name__
        raise InputError(
            f"it holds an array of element type {kind}; only numbers and text are read"
        )
    return ElementType(code)


def _scalar(element: Any, content: Any) -> Any:
    return _array((), element, content=content, fortran=False)[()]


def _from_buffer(content: Any, element: Any, shape: Any, order: Any) -> np.ndarray:
    return _array(shape, element, content=content, fortran=order == "F")


def _shell(kind: Any, *_: Any) -> Shell:
    if kind != Name("numpy.ndarray"):
        raise InputError(
            "it holds an array of a class of its own; only NumPy's arrays are read"
        )
    return Shell()


def _empty(*_: Any) -> dict[Any, Any]:
    # Arguments are ignored; items follow one by one. Copying a container could double
    # its content at every step.
    return {}


MAKERS: dict[str, Callable[..., Any]] = {
    "numpy.core.multiarray._reconstruct": _shell,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy.core.numeric._frombuffer": _from_buffer,
    "numpy.dtype": _element_type,
    "collections.defaultdict": _empty,
    "collections.OrderedDict": _empty,
}
"""The replacement of each name that a pickle may call: functions of this module
only.
"""


def _keys(items: list[Any]) -> list[Any]:
    """The items, if all may be keys: plain values and flat tuples, since hashing a deep
    one could exhaust the stack.
    """
    for item in items:
        parts = item if isinstance(item, tuple) else (item,)
        if not all(
            part is None or isinstance(part, str | bytes | int | float)
            for part in parts
        ):
            raise InputError("it holds a key that is no plain value")
    return items


@dataclass
class Machine:
    """Stack and memory of the interpreter of a pickle."""

    stack: list[Any] = field(default_factory=list)
    memory: dict[int, Any] = field(default_factory=dict)

    def pop_marked(self) -> list[Any]:
        """Remove the last mark and the items above it from the stack; return the
        items.
        """
        index = len(self.stack) - 1
        while self.stack[index] is not MARK:
            index -= 1
            if index < 0:
                raise InputError("it is damaged: a mark is missing")
        items = self.stack[index + 1 :]
        del self.stack[index:]
        return items

    def add(self, items: list[Any]) -> None:
        """Put items into the list, set or dict (keys and values in turn) on top of the
        stack.
        """
        if any(isinstance(item, Shell | ElementType | Name) for item in items):
            raise InputError(
                "it holds a name or an unfinished array where a value is needed"
            )
        into = self.stack[-1]
        if isinstance(into, list):
            into.extend(items)
        elif isinstance(into, set):
            into.update(_keys(items))
        elif isinstance(into, dict):
            into.update(zip(_keys(items[::2]), items[1::2], strict=True))
        else:
            raise InputError(
                f"it puts items into {type(into).__name__}, which is no container"
            )

    def make(self) -> None:
        """Replace a name and its arguments on the stack by the result of the name's
        replacement in `MAKERS`.
        """
        arguments, name = self.stack.pop(), self.stack.pop()
        if not (
            isinstance(name, Name)
            and name.text in MAKERS
            and isinstance(arguments, tuple)
        ):
            called = name.text if isinstance(name, Name) else type(name).__name__
            raise InputError(
                f"it calls {called}; only plain containers and NumPy arrays are read, "
                "and nothing was run"
            )
        self.stack.append(MAKERS[name.text](*arguments))

    def fill(self) -> None:
        """Set the content of an array, or the byte order of an element type."""
        state, thing = self.stack.pop(), self.stack[-1]
        if isinstance(thing, Shell) and isinstance(state, tuple) and len(state) == 5:
            thing.value = _array(state[1], state[2], content=state[4], fortran=state[3])
            self.stack[-1] = thing.value
        elif (
            isinstance(thing, ElementType)
            and isinstance(state, tuple)
            and state[2:5] == (None, None, None)
        ):
            if state[1] not in ("<", ">", "|", "="):
                raise InputError("it holds an array of an unknown byte order")
            thing.order = state[1]
        else:
            raise InputError(
                f"it sets the state of {type(thing).__name__}; "
                "only NumPy arrays may have one"
            )

    def recall(self, slot: int) -> None:
        """Push the value of a memory slot."""
        thing = self.memory[slot]
        self.stack.append(
            thing.value
            if isinstance(thing, Shell) and thing.value is not None
            else thing
        )

    def carry_out(self, code: str, argument: Any) -> None:
        """Run one step of the program other than pushing a value."""
        if code in CONSTANTS:
            self.stack.append(CONSTANTS[code])
        elif code in EMPTY:
            self.stack.append(EMPTY[code]())
        elif code in SHORT_TUPLES:
            size = SHORT_TUPLES[code]
            items = tuple(self.stack[-size:])
            del self.stack[-size:]
            self.stack.append(items)
        elif code in STEPS:
            STEPS[code](self, argument)
        else:
            raise InputError(
                f"it uses {code}; only plain containers and NumPy arrays are read, "
                "and nothing was run"
            )


def _tuple(machine: Machine, _: Any) -> None:
    machine.stack.append(tuple(machine.pop_marked()))


def _new(kind: Callable[[], Any]) -> Callable[[Machine, Any], None]:
    def step(machine: Machine, _: Any) -> None:
        items = machine.pop_marked()
        machine.stack.append(kind())
        machine.add(items)

    return step


def _one(count: int) -> Callable[[Machine, Any], None]:
    def step(machine: Machine, _: Any) -> None:
        items = machine.stack[-count:]
        del machine.stack[-count:]
        machine.add(items)

    return step


def _new_list(machine: Machine, _: Any) -> None:
    arguments, name = machine.stack.pop(), machine.stack.pop()
    if not (isinstance(name, Name) and name.text in LISTS and arguments == ()):
        raise InputError(
            f"it uses NEWOBJ on {name!r}; only plain containers and NumPy arrays are "
            "read, and nothing was run"
        )
    machine.stack.append([])


def _stack_name(machine: Machine, _: Any) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(_allowed_name(str(module), str(name)))


def _remember(machine: Machine, slot: Any) -> None:
    machine.memory[len(machine.memory) if slot is None else slot] = machine.stack[-1]


STEPS: dict[str, Callable[[Machine, Any], Any]] = {
    "PROTO": lambda machine, _: None,
    "FRAME": lambda machine, _: None,
    "STOP": lambda machine, _: None,
    "MARK": lambda machine, _: machine.stack.append(MARK),
    "POP": lambda machine, _: machine.stack.pop(),
    "POP_MARK": lambda machine, _: machine.pop_marked(),
    "TUPLE": _tuple,
    "LIST": _new(list),
    "DICT": _new(dict),
    "FROZENSET": _new(set),
    "APPEND": _one(1),
    "SETITEM": _one(2),
    "APPENDS": lambda machine, _: machine.add(machine.pop_marked()),
    "SETITEMS": lambda machine, _: machine.add(machine.pop_marked()),
    "ADDITEMS": lambda machine, _: machine.add(machine.pop_marked()),
    "PUT": _remember,
    "BINPUT": _remember,
    "LONG_BINPUT": _remember,
    "MEMOIZE": _remember,
    "GET": lambda machine, slot: machine.recall(slot),
    "BINGET": lambda machine, slot: machine.recall(slot),
    "LONG_BINGET": lambda machine, slot: machine.recall(slot),
    "GLOBAL": lambda machine, name: machine.stack.append(
        _allowed_name(*name.split(" ", 1))
    ),
    "STACK_GLOBAL": _stack_name,
    "REDUCE": lambda machine, _: machine.make(),
    "NEWOBJ": _new_list,
    "BUILD": lambda machine, _: machine.fill(),
}


def unpickle(content: bytes) -> Any:
    """The value of a pickle of plain containers, numbers, text and NumPy arrays; raises
    for others and runs nothing.
    """
    machine = Machine()
    try:
        for code, argument, _ in pickletools.genops(content):
            if code.name in VALUES:
                machine.stack.append(argument)
            else:
                machine.carry_out(code.name, argument)
        (result,) = machine.stack
    except (ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"it is damaged: {error}") from error
    return result


def read_pickle(path: Path) -> Any:
    """The value of a pickle file, by `unpickle`."""
    content = reading.content(path, "a pickle", largest=MOST_BYTES)
    try:
        return unpickle(content)
    except InputError as error:
        raise InputError(
            f"{path}: must be a pickle of plain containers and NumPy arrays; {error}."
        ) from error
