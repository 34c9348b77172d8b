"""Pickle files -> plain containers and NumPy arrays, without running anything that a file asks for.

A pickle is a program. Here it is carried out by a machine of our own that knows values, containers and how NumPy writes
arrays, and nothing else: names are looked up in a table of this module, never imported, and any other name is refused.
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
"""A larger file is refused before it is read; nothing that it holds can become much larger than the file."""
MOST_AXES = 32
ARRAY_TYPES = re.compile(r"[biufSU][0-9]{1,9}")
"""Bool, integers, floats and text. Arrays of objects are refused: their elements would be another program."""
VALUES = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"),
        *("FLOAT", "BINFLOAT", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
        *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_SET": set}
LISTS = tuple(f"nuplan.database.common.data_types.{name}" for name in ("Translation", "Rotation", "CameraIntrinsic"))
"""Lists of numbers, under the names that nuPlan's databases have for them."""
SHORT_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(frozen=True)
class Name:
    """A name that a pickle may use: only ever a word, never the thing that it names elsewhere."""

    told: str


@dataclass
class ElementType:
    """A NumPy element type that is being told; `order` is its byte order."""

    code: str
    order: str = "|"

    @property
    def dtype(self) -> np.dtype:
        """The type itself."""
        return np.dtype(self.code).newbyteorder(self.order)  # pyright: ignore[reportArgumentType]


@dataclass
class Shell:
    """An array before its content was told."""

    value: np.ndarray | None = None


MARK = object()


def _known(module: str, name: str) -> Name:
    """The name if it is one of those that plain containers and NumPy arrays need."""
    told = f"{module.replace('numpy._core', 'numpy.core').replace('__builtin__', 'builtins')}.{name}"
    if told not in MAKERS and told not in ("builtins.int", "numpy.ndarray", *LISTS):
        raise InputError(
            f"it asks for {module}.{name}; only plain containers and NumPy arrays are read, and nothing was run"
        )
    return Name(told)


def _array(shape: Any, element: Any, *, content: Any, fortran: Any) -> np.ndarray:
    """An array of a shape from its bytes."""
    if not isinstance(element, ElementType) or not isinstance(content, bytes | bytearray):
        raise InputError("it holds an array of objects; only numbers and text are read, and nothing was run")
    if not (isinstance(shape, tuple) and len(shape) <= MOST_AXES and all(type(size) is int for size in shape)):
        raise InputError("it holds an array without a proper shape")
    if min(shape, default=0) < 0 or math.prod(shape) * element.dtype.itemsize != len(content):
        raise InputError(f"it holds an array whose shape does not fit its {len(content)} bytes")
    # A view, not a copy: a file that tells the same bytes a thousand times does not fill the memory.
    flat = np.frombuffer(content, dtype=element.dtype) if len(content) else np.zeros(0, dtype=element.dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def _element_type(code: Any, *_: Any) -> ElementType:
    if not (isinstance(code, str) and ARRAY_TYPES.fullmatch(code)):
        told = code if isinstance(code, str) else type(code).__name__
        raise InputError(f"it holds an array of element type {told}; only numbers and text are read")
    return ElementType(code)


def _scalar(element: Any, content: Any) -> Any:
    return _array((), element, content=content, fortran=False)[()]


def _from_buffer(content: Any, element: Any, shape: Any, order: Any) -> np.ndarray:
    return _array(shape, element, content=content, fortran=order == "F")


def _shell(kind: Any, *_: Any) -> Shell:
    if kind != Name("numpy.ndarray"):
        raise InputError("it holds an array of a class of its own; only NumPy's arrays are read")
    return Shell()


def _empty(*_: Any) -> dict[Any, Any]:
    # Items follow one by one; a container that is made from another at once could double what it holds at each step.
    return {}


MAKERS: dict[str, Callable[..., Any]] = {
    "numpy.core.multiarray._reconstruct": _shell,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy.core.numeric._frombuffer": _from_buffer,
    "numpy.dtype": _element_type,
    "collections.defaultdict": _empty,
    "collections.OrderedDict": _empty,
}
"""What stands in for each name that may be called: functions of this module only."""


def _keys(items: list[Any]) -> list[Any]:
    """Items that may be keys: plain values and flat tuples, so that nothing deep is hashed."""
    for item in items:
        parts = item if isinstance(item, tuple) else (item,)
        if not all(part is None or isinstance(part, str | bytes | int | float) for part in parts):
            raise InputError("it holds a key that is no plain value")
    return items


@dataclass
class Machine:
    """The stack and the memory of a pickle that is being carried out."""

    stack: list[Any] = field(default_factory=list)
    memory: dict[int, Any] = field(default_factory=dict)

    def marked(self) -> list[Any]:
        """What lies above the last mark, taken off together with it."""
        place = len(self.stack) - 1
        while self.stack[place] is not MARK:
            place -= 1
            if place < 0:
                raise InputError("it is damaged: a mark is missing")
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items

    def add(self, items: list[Any]) -> None:
        """Put items into the list, set or dict (keys and values in turn) on top of the stack."""
        if any(isinstance(item, Shell | ElementType | Name) for item in items):
            raise InputError("it holds a name or an unfinished array where a value is needed")
        into = self.stack[-1]
        if isinstance(into, list):
            into.extend(items)
        elif isinstance(into, set):
            into.update(_keys(items))
        elif isinstance(into, dict):
            into.update(zip(_keys(items[::2]), items[1::2], strict=True))
        else:
            raise InputError(f"it puts items into {type(into).__name__}, which is no container")

    def make(self) -> None:
        """Carry out a call: the name and its arguments become what stands in for it."""
        arguments, name = self.stack.pop(), self.stack.pop()
        if not (isinstance(name, Name) and name.told in MAKERS and isinstance(arguments, tuple)):
            told = name.told if isinstance(name, Name) else type(name).__name__
            raise InputError(f"it calls {told}; only plain containers and NumPy arrays are read, and nothing was run")
        self.stack.append(MAKERS[name.told](*arguments))

    def fill(self) -> None:
        """Tell an array or an element type its content."""
        state, thing = self.stack.pop(), self.stack[-1]
        if isinstance(thing, Shell) and isinstance(state, tuple) and len(state) == 5:
            thing.value = _array(state[1], state[2], content=state[4], fortran=state[3])
            self.stack[-1] = thing.value
        elif isinstance(thing, ElementType) and isinstance(state, tuple) and state[2:5] == (None, None, None):
            if state[1] not in ("<", ">", "|", "="):
                raise InputError("it holds an array of an unknown byte order")
            thing.order = state[1]
        else:
            raise InputError(f"it sets the state of {type(thing).__name__}; only NumPy arrays may have one")

    def recall(self, place: int) -> None:
        """Push what was remembered."""
        thing = self.memory[place]
        self.stack.append(thing.value if isinstance(thing, Shell) and thing.value is not None else thing)

    def carry_out(self, code: str, argument: Any) -> None:
        """One step of the program that is more than a value."""
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
            raise InputError(f"it uses {code}; only plain containers and NumPy arrays are read, and nothing was run")


def _tuple(machine: Machine, _: Any) -> None:
    machine.stack.append(tuple(machine.marked()))


def _new(kind: Callable[[], Any]) -> Callable[[Machine, Any], None]:
    def step(machine: Machine, _: Any) -> None:
        items = machine.marked()
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
    if not (isinstance(name, Name) and name.told in LISTS and arguments == ()):
        raise InputError(
            f"it uses NEWOBJ on {name!r}; only plain containers and NumPy arrays are read, and nothing was run"
        )
    machine.stack.append([])


def _stack_name(machine: Machine, _: Any) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(_known(str(module), str(name)))


def _remember(machine: Machine, place: Any) -> None:
    machine.memory[len(machine.memory) if place is None else place] = machine.stack[-1]


STEPS: dict[str, Callable[[Machine, Any], Any]] = {
    "PROTO": lambda machine, _: None,
    "FRAME": lambda machine, _: None,
    "STOP": lambda machine, _: None,
    "MARK": lambda machine, _: machine.stack.append(MARK),
    "POP": lambda machine, _: machine.stack.pop(),
    "POP_MARK": lambda machine, _: machine.marked(),
    "TUPLE": _tuple,
    "LIST": _new(list),
    "DICT": _new(dict),
    "FROZENSET": _new(set),
    "APPEND": _one(1),
    "SETITEM": _one(2),
    "APPENDS": lambda machine, _: machine.add(machine.marked()),
    "SETITEMS": lambda machine, _: machine.add(machine.marked()),
    "ADDITEMS": lambda machine, _: machine.add(machine.marked()),
    "PUT": _remember,
    "BINPUT": _remember,
    "LONG_BINPUT": _remember,
    "MEMOIZE": _remember,
    "GET": lambda machine, place: machine.recall(place),
    "BINGET": lambda machine, place: machine.recall(place),
    "LONG_BINGET": lambda machine, place: machine.recall(place),
    "GLOBAL": lambda machine, told: machine.stack.append(_known(*told.split(" ", 1))),
    "STACK_GLOBAL": _stack_name,
    "REDUCE": lambda machine, _: machine.make(),
    "NEWOBJ": _new_list,
    "BUILD": lambda machine, _: machine.fill(),
}


def unpickled(content: bytes) -> Any:
    """What a pickle holds, if that is plain containers, numbers, text and NumPy arrays; else InputError, unrun."""
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
    """What a pickle file holds, by `unpickled`."""
    content = reading.content(path, "a pickle", largest=MOST_BYTES)
    try:
        return unpickled(content)
    except InputError as error:
        raise InputError(f"{path}: must be a pickle of plain containers and NumPy arrays; {error}.") from error
