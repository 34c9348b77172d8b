"""The records of `deepval.judge.results` -> docs/result.schema.json, the published
form of a result.

Run: python tools/make_schema.py
"""

import dataclasses
import json
import re
import types
from collections.abc import Mapping
from inspect import cleandoc
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from deepval.basics.files.writing import write_atomically
from deepval.judge import results
from deepval.judge.results.result import ABSENT

TARGET = Path(__file__).resolve().parent.parent / "docs" / "result.schema.json"
PLAIN = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def schema() -> dict[str, Any]:
    """The JSON schema of a result."""
    records = sorted(
        _records(results.Result) - {results.Samples}, key=lambda record: record.__name__
    )
    top = {
        item.name: item
        for item in dataclasses.fields(results.Result)
        if item.name not in ("samples", "fresh")
    }
    described = _descriptions(results.Result)
    properties = {"schema": {"const": results.SCHEMA}}
    properties |= {
        name: _form(item.type) | {"description": described[name]}
        for name, item in top.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A result of deepval",
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in ABSENT],
        "additionalProperties": False,
        "$defs": {record.__name__: _record(record) for record in records},
    }


def _records(form: Any) -> set[type]:
    """Every record that an annotation names, directly or through the fields of such a
    record.
    """
    if not (isinstance(form, type) and dataclasses.is_dataclass(form)):
        return {record for part in get_args(form) for record in _records(part)}
    inside = {record for part in _forms(form).values() for record in _records(part)}
    return inside | ({form} - {results.Result})


def _forms(form: type) -> dict[str, Any]:
    """The form of each column of a record, or of each field of another dataclass."""
    if issubclass(form, results.Record):
        return {name: column.form for name, column in form.columns().items()}
    return {item.name: item.type for item in dataclasses.fields(form)}


def _record(record: type) -> dict[str, Any]:
    described = _descriptions(record)
    properties = {
        name: _form(form)
        | ({"description": described[name]} if name in described else {})
        for name, form in _forms(record).items()
    }
    summary = " ".join(cleandoc(record.__doc__ or "").partition("\n\n")[0].split())
    return {
        "description": summary,
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _form(annotation: Any) -> dict[str, Any]:
    if annotation in PLAIN:
        return {"type": PLAIN[annotation]}
    if annotation is Any:
        return {}
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return {"$ref": f"#/$defs/{annotation.__name__}"}
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_form(part) for part in parts]}
    if origin is tuple:
        if parts[-1] is Ellipsis:
            return {"type": "array", "items": _form(parts[0])}
        return {
            "type": "array",
            "prefixItems": [_form(p) for p in parts],
            "minItems": len(parts),
            "maxItems": len(parts),
        }
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _form(parts[1])}
    raise TypeError(annotation)


def _descriptions(record: type) -> dict[str, str]:
    """The description of each attribute in the class docstring."""
    text = cleandoc(record.__doc__ or "").partition("Attributes:")[2]
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", text, flags=re.MULTILINE)
    return {name: " ".join(words.split()) for name, words in found}


def main() -> None:
    """Write the schema."""
    write_atomically(TARGET, json.dumps(schema(), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
