"""Plain data -> what an annotation says: dataclasses, tuples, mappings and numbers, or a sentence about what is amiss.

Whatever deepval reads as JSON is given its form here, so that no reader trusts a file further than it has looked.
"""

import dataclasses
import math
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from deepval.errors import InputError, quoted

PLAIN = {str: "a text", bool: "true or false", int: "a whole number", float: "a finite number", type(None): "null"}


def formed(form: Any, content: Any, at: str = "it") -> Any:
    """Plain data in a form; an InputError says where it is not.

    Args:
        form: An annotation: str, bool, int, float, None, Any, a Literal, a union, tuple, list or Mapping of forms, or
            a dataclass (an object has its fields, those with a default or not, and no others) or a TypedDict (what it
            does not name stays as it is).
        content: Plain data, as JSON gives it.
        at: What the content is called, such as `rows[3]`.
    """
    if form is Any:
        return content
    if form in PLAIN:
        return _plain(form, content, at)
    if isinstance(form, type) and dataclasses.is_dataclass(form):
        return _record(form, content, at)
    if is_typeddict(form):
        return _typed_dict(form, content, at)
    origin, parts = get_origin(form), get_args(form)
    if origin is Literal:
        if content not in parts or type(content) is not type(parts[parts.index(content)]):
            raise InputError(f"{at} must be one of {', '.join(map(str, parts))}; found {quoted(content)}.")
        return content
    if origin in (Union, types.UnionType):
        return _one_of(parts, content, at)
    if origin in (tuple, list, Sequence):
        return _row(origin, parts, content, at)
    if origin in (Mapping, dict):
        named = _object(content, at)
        return {name: formed(parts[1], item, f"{at}.{name}") for name, item in named.items()}
    raise TypeError(form)


def formed_file(form: Any, content: Any, source: object, what: str) -> Any:
    """The content of a file in its form; the sentence names the file and `what` it must be."""
    try:
        return formed(form, content)
    except InputError as error:
        raise InputError(f"{source}: must be {what}; {error}") from error


def _plain(form: type, content: Any, at: str) -> Any:
    number = isinstance(content, int | float) and not isinstance(content, bool)
    if form is int and number and (isinstance(content, int) or content.is_integer()):
        return int(content)
    if form is float and number and _finite(content):
        return content
    if form in (str, bool, type(None)) and isinstance(content, form):
        return content
    raise InputError(f"{at} must be {PLAIN[form]}; found {quoted(content)}.")


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


@cache
def _hints(form: Any) -> dict[str, Any]:
    return get_type_hints(form)


def _record(form: Any, content: Any, at: str) -> Any:
    named, known, hints = _object(content, at), dataclasses.fields(form), _hints(form)
    unknown = sorted(named.keys() - {item.name for item in known})
    if unknown:
        raise InputError(f"{at} may have {', '.join(item.name for item in known)}; found {quoted(unknown[0])}.")
    none = dataclasses.MISSING
    needed = [item.name for item in known if item.default is none and item.default_factory is none]
    missing = [name for name in needed if name not in named]
    if missing:
        raise InputError(f"{at} must have {missing[0]!r}; it has none.")
    return form(**{name: formed(hints[name], item, f"{at}.{name}") for name, item in named.items()})


def _typed_dict(form: Any, content: Any, at: str) -> dict[str, Any]:
    named, hints = _object(content, at), _hints(form)
    missing = sorted(form.__required_keys__ - named.keys())
    if missing:
        raise InputError(f"{at} must have {missing[0]!r}; it has none.")
    return {name: formed(hints.get(name, Any), item, f"{at}.{name}") for name, item in named.items()}


def _one_of(parts: Sequence[Any], content: Any, at: str) -> Any:
    if content is None and type(None) in parts:
        return None
    forms = [part for part in parts if part is not type(None)]
    complaints = []
    for form in forms:
        try:
            return formed(form, content, at)
        except InputError as error:
            complaints.append(error)
    if len(forms) == 1:
        raise complaints[0]
    told = " or ".join(PLAIN.get(form, "another form") for form in forms)
    raise InputError(f"{at} must be {told}; found {quoted(content)}.")


def _row(origin: Any, parts: tuple[Any, ...], content: Any, at: str) -> Any:
    if not isinstance(content, list | tuple):
        raise InputError(f"{at} must be a list; found {quoted(content)}.")
    endless = origin is not tuple or parts[-1] is Ellipsis
    if endless and _all_plain(parts[0], content):
        return tuple(content) if origin is tuple else list(content)
    if not endless and len(parts) != len(content):
        raise InputError(f"{at} must be a list of {len(parts)}; found {len(content)}.")
    forms = [parts[0]] * len(content) if endless else parts
    made = [formed(form, item, f"{at}[{i}]") for i, (form, item) in enumerate(zip(forms, content, strict=True))]
    return tuple(made) if origin is tuple else made


def _all_plain(form: Any, content: Sequence[Any]) -> bool:
    """Whether a long column is in its form as it stands, seen in one pass."""
    kinds = set(map(type, content))
    if form is str or form is int:
        return kinds <= {form}
    return form is float and kinds <= {float} and all(map(math.isfinite, content))


def _object(content: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise InputError(f"{at} must be an object; found {quoted(content)}.")
    return content
