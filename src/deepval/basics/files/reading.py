"""A path -> the content of its file: regular files only, of bounded size, text in
UTF-8; otherwise an InputError.

Every file is read through this module. So a pipe without a writer, an endless device,
an impossible name, a loop of links and a file without read permission give the same
error everywhere.
"""

import codecs
import dataclasses
import io
import math
import os
import stat
import types
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import (
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np

from deepval.basics.arrays import Shaped
from deepval.basics.errors import InputError, library, quote, reason

PLAIN = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    type(None): "null",
}


def check_form(form: Any, content: Any, at: str = "it") -> Any:
    """Plain data, checked against a form; an InputError names the first part that does
    not match.

    Args:
        form: An annotation: str, bool, int, float, None, Any, a Literal, a union,
            tuple, list or Mapping of forms, or a dataclass (an object has its fields
            and no others; fields with a default are optional) or a TypedDict (keys that
            it does not name are not checked).
        content: Plain data, as JSON gives it.
        at: Name of the content in messages, such as `rows[3]`.
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
        if content not in parts or type(content) is not type(
            parts[parts.index(content)]
        ):
            raise InputError(
                f"{at} must "
                f"be one of {', '.join(map(str, parts))}; found {quote(content)}."
            )
        return content
    if origin in (Union, types.UnionType):
        return _one_of(parts, content, at)
    if origin in (tuple, list, Sequence):
        return _row(origin, parts, content, at)
    if origin in (Mapping, dict):
        named = _object(content, at)
        return {
            name: check_form(parts[1], item, f"{at}.{name}")
            for name, item in named.items()
        }
    raise TypeError(form)


def check_file_form(form: Any, content: Any, source: object, what: str) -> Any:
    """The content of a file, checked against a form; errors name the file and `what` it
    must be.
    """
    try:
        return check_form(form, content)
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
    raise InputError(f"{at} must be {PLAIN[form]}; found {quote(content)}.")


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


@cache
def _hints(form: Any) -> dict[str, Any]:
    return get_type_hints(form)


def _record(form: Any, content: Any, at: str) -> Any:
    named, forms = _object(content, at), _entries(form)
    unknown = sorted(named.keys() - forms.keys())
    if unknown:
        raise InputError(
            f"{at} may have {', '.join(forms)}; found {quote(unknown[0])}."
        )
    missing = [
        name for name, (_, required) in forms.items() if required and name not in named
    ]
    if missing:
        raise InputError(f"{at} must have {missing[0]!r}; it has none.")
    entries = {
        name: check_form(forms[name][0], item, f"{at}.{name}")
        for name, item in named.items()
    }
    return form.of_columns(entries) if hasattr(form, "of_columns") else form(**entries)


@cache
def _entries(form: Any) -> dict[str, tuple[Any, bool]]:
    """Per entry of an object, its form and whether it is required: columns of a record,
    fields of other dataclasses.
    """
    if hasattr(form, "of_columns"):
        return {
            name: (column.form, column.required)
            for name, column in form.columns().items()
        }
    hints, none = _hints(form), dataclasses.MISSING
    items = dataclasses.fields(form)
    return {
        i.name: (hints[i.name], i.default is none and i.default_factory is none)
        for i in items
    }


def _typed_dict(form: Any, content: Any, at: str) -> dict[str, Any]:
    named, hints = _object(content, at), _hints(form)
    missing = sorted(form.__required_keys__ - named.keys())
    if missing:
        raise InputError(f"{at} must have {missing[0]!r}; it has none.")
    return {
        name: check_form(hints.get(name, Any), item, f"{at}.{name}")
        for name, item in named.items()
    }


def _one_of(parts: Sequence[Any], content: Any, at: str) -> Any:
    if content is None and type(None) in parts:
        return None
    forms = [part for part in parts if part is not type(None)]
    complaints = []
    for form in forms:
        try:
            return check_form(form, content, at)
        except InputError as error:
            complaints.append(error)
    if len(forms) == 1:
        raise complaints[0]
    options = " or ".join(PLAIN.get(form, "another form") for form in forms)
    raise InputError(f"{at} must be {options}; found {quote(content)}.")


def _row(origin: Any, parts: tuple[Any, ...], content: Any, at: str) -> Any:
    if not isinstance(content, list | tuple):
        raise InputError(f"{at} must be a list; found {quote(content)}.")
    endless = origin is not tuple or parts[-1] is Ellipsis
    if endless and _all_plain(parts[0], content):
        return tuple(content) if origin is tuple else list(content)
    if not endless and len(parts) != len(content):
        raise InputError(f"{at} must be a list of {len(parts)}; found {len(content)}.")
    forms = [parts[0]] * len(content) if endless else parts
    items = [
        check_form(form, item, f"{at}[{i}]")
        for i, (form, item) in enumerate(zip(forms, content, strict=True))
    ]
    return tuple(items) if origin is tuple else items


def _all_plain(form: Any, content: Sequence[Any]) -> bool:
    """Whether all entries of a long list have the form already; one pass over their
    types.
    """
    kinds = set(map(type, content))
    if form is str or form is int:
        return kinds <= {form}
    return form is float and kinds <= {float} and all(map(math.isfinite, content))


def _object(content: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise InputError(f"{at} must be an object; found {quote(content)}.")
    return content


MOST_PIXELS = 2**26
"""Largest number of pixels of a decoded picture: 8,192 x 8,192."""


PNG = b"\x89PNG\r\n\x1a\n"
"""The first bytes of a PNG file."""


def check_pixels(data: bytes, source: object) -> None:
    """Raise where a decoder would need more memory than a picture of MOST_PIXELS
    pixels; data that is no picture is left to the decoder.
    """
    fault = picture_fault(data)
    if fault is not None:
        raise InputError(f"{source}: must be a picture that can be decoded; {fault}.")


def picture_fault(data: bytes) -> str | None:
    """The reason why a picture must not be decoded, by its header; None for others."""
    size = size_px(data)
    if size is not None and size[0] * size[1] > MOST_PIXELS:
        return (
            f"it has {size[0]:,} x {size[1]:,} pixels, and at most {MOST_PIXELS:,} "
            "are decoded"
        )
    if data.startswith(PNG) and not _holds_its_chunks(data):
        return "the PNG file is truncated, or a length in it is wrong"
    return None


def _holds_its_chunks(data: bytes) -> bool:
    """Whether every chunk of a PNG file ends within the file: OpenCV allocates a chunk
    before it looks for its bytes.
    """
    at = len(PNG)
    while at + 8 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] == b"IEND":
            return True
        at += 12 + length  # length, kind and checksum take four bytes each
    return at == len(data)


def picture(path: Path) -> Shaped[np.ndarray, "height width 3"]:
    """The pixels of a picture file, RGB."""
    Image = library("PIL.Image")
    data = content(path, "a picture")
    check_pixels(data, path)
    try:
        with Image.open(io.BytesIO(data)) as opened:
            return np.asarray(opened.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(
            f"{path}: must be a picture; it cannot be read ({reason(error)})."
        ) from error


def size_px(data: bytes) -> tuple[int, int] | None:
    """Width and height of a picture; None where its header does not have them."""
    import warnings

    Image = library("PIL.Image")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data)) as opened:
                return opened.size
    except Image.DecompressionBombError:
        return MOST_PIXELS, MOST_PIXELS
    except Exception:  # noqa: BLE001 - heads are read by a dozen small parsers that fail in their own ways
        return None


LARGEST = 2**32
"""Largest size in bytes of a file that is read as a whole."""
BLOCK = 2**20
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


FLAGS = (
    getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
"""Flags of every file that is opened, as far as the system has them; not blocking,
because opening a pipe without a partner would wait for ever."""


def is_file(path: Path | str) -> bool:
    """Whether a path is a regular file or a link to one; False for impossible names."""
    return os.path.isfile(path)  # noqa: PTH113 - pathlib's raises for names that no file can have


def is_folder(path: Path | str) -> bool:
    """Whether a path is a folder."""
    return os.path.isdir(path)  # noqa: PTH112


def is_link(path: Path | str) -> bool:
    """Whether a path is a link, even a broken one."""
    return os.path.islink(path)  # noqa: PTH114


def exists(path: Path | str) -> bool:
    """Whether a path exists."""
    return os.path.exists(path)  # noqa: PTH110


def resolve(path: Path | str) -> Path:
    """The path without links; a loop of links stays as it is."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        return Path(path).absolute()


def entries(folder: Path | str) -> list[Path]:
    """Paths in a folder, in the order of names."""
    try:
        return sorted(Path(folder).iterdir())
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder}: must be a folder that can be read; {reason(error)}."
        ) from error


def find(folder: Path | str, pattern: str) -> Iterator[Path]:
    """Paths in a folder that match a pattern, in no order; none where there is no
    folder.
    """
    try:
        # a name that no folder can have is an empty folder to globs of Python 3.13
        Path(folder).stat()
        yield from Path(folder).glob(pattern)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder}: must be a folder that can be read; {reason(error)}."
        ) from error


def open_file(path: Path | str, what: str = "a file") -> BufferedReader:
    """A regular file, open to be read; errors name `what` the file must be."""
    try:
        handle = os.open(path, os.O_RDONLY | FLAGS)
        mode = os.fstat(handle).st_mode
        if stat.S_ISREG(mode):
            return os.fdopen(handle, "rb")
        os.close(handle)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: must be {what} that can be read; {reason(error)}."
        ) from error
    kind = KINDS.get(stat.S_IFMT(mode), "no regular file")
    raise InputError(f"{path}: must be {what} that can be read; it is {kind}.")


def content(path: Path | str, what: str = "a file", *, largest: int = LARGEST) -> bytes:
    """Content of a file."""
    with open_file(path, what) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            data = b"" if size > largest else file.read(size + 1)
            while (
                len(data) > size and len(data) <= largest and (more := file.read(BLOCK))
            ):  # the file grows, or reports no size (/proc)
                data += more
        except OSError as error:
            raise InputError(
                f"{path}: must be {what} that can be read; {reason(error)}."
            ) from error
    if max(size, len(data)) > largest:
        raise InputError(
            f"{path}: must be {what} of at "
            f"most {largest:,} bytes; it has {max(size, len(data)):,}."
        )
    return data


def text(path: Path | str, what: str = "a file") -> str:
    """The text of a file in UTF-8; a byte-order mark is left out."""
    return decode(content(path, what), path)


def decode(data: bytes, source: Path | str) -> str:
    """Bytes as text, which must be UTF-8; errors name the source and the line."""
    body = data.removeprefix(codecs.BOM_UTF8)
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        line, byte = body.count(b"\n", 0, error.start) + 1, body[error.start]
        raise InputError(
            f"{source}: text must be UTF-8; line {line} holds the byte 0x{byte:02x}. "
            "Save it as UTF-8."
        ) from error
