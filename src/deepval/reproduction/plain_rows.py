"""Rows of an analysis (frozen dataclasses) <-> the JSON that keeps them, every field unrounded."""

import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any, Union, get_args, get_origin, get_type_hints

from deepval.files.canonical import json_content, plain


def as_bytes(rows: Sequence[Any]) -> bytes:
    """Rows, all of one kind, as a file."""
    kind = f"{type(rows[0]).__module__}:{type(rows[0]).__qualname__}" if rows else None
    return json.dumps({"kind": kind, "rows": [plain(row) for row in rows]}, allow_nan=False).encode()


def of_bytes(data: bytes) -> list[Any]:
    """The rows in a file."""
    told = json_content(data, "rows that are kept")
    if told["kind"] is None:
        return []
    module, _, name = told["kind"].partition(":")
    if not module.startswith("deepval."):
        raise ValueError(f"rows must be of deepval; found {module}")
    kind = getattr(import_module(module), name)
    return [_typed(kind, row) for row in told["rows"]]


def _typed(form: Any, content: Any) -> Any:
    origin, parts = get_origin(form), get_args(form)
    if origin in (Union, types.UnionType):
        forms = [part for part in parts if part is not types.NoneType]
        return None if content is None else _typed(forms[0], content) if len(forms) == 1 else content
    if isinstance(form, type) and is_dataclass(form):
        forms = get_type_hints(form)
        return form(**{item.name: _typed(forms[item.name], content[item.name]) for item in fields(form) if item.init})
    if origin is tuple:
        forms = [parts[0]] * len(content) if parts[-1] is Ellipsis else parts
        return tuple(_typed(part, item) for part, item in zip(forms, content, strict=True))
    if origin is frozenset:
        return frozenset(content)
    if origin in (list, Sequence):
        return [_typed(parts[0], item) for item in content]
    if origin in (dict, Mapping):
        return {key: _typed(parts[1], item) for key, item in content.items()}
    return content
