"""Plain data -> the text and the hash of it: JSON, SHA-256 and TOML reading, for every file that deepval has."""

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from deepval.errors import InputError


def plain(value: Any) -> Any:
    """A value as JSON holds it: dataclasses and mappings as dicts, tuples and arrays as lists, numbers as numbers."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return plain(asdict(value))
    if isinstance(value, tuple | list | frozenset):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def json_text(content: Any, *, sort_keys: bool = False, ensure_ascii: bool = False) -> str:
    """JSON as files hold it that people read."""
    return json.dumps(content, indent=1, sort_keys=sort_keys, ensure_ascii=ensure_ascii, allow_nan=False) + "\n"


def json_packed(content: Any) -> str:
    """JSON without a space to spare, as pages carry it."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def json_canonical(content: Any) -> str:
    """JSON that is the same whatever the order of keys: what is hashed."""
    return json.dumps(content, sort_keys=True, allow_nan=False)


def digest_of(content: Any) -> str:
    """SHA-256 of plain data, whatever the order of its keys."""
    return sha256(json_canonical(content).encode())


def sha256(data: bytes | memoryview) -> str:
    """SHA-256 of bytes, in hexadecimal."""
    return joint_sha256([data])


def joint_sha256(parts: Iterable[bytes | memoryview]) -> str:
    """SHA-256 of bytes that follow each other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def file_digest(path: Path | str) -> str:
    """SHA-256 of a file."""
    with Path(path).open("rb") as file:
        return stream_digest(file)


def stream_digest(file: BufferedIOBase) -> str:
    """SHA-256 of what is left to read of an open file."""
    return hashlib.file_digest(file, "sha256").hexdigest()


def folder_digests(folder: Path | str, patterns: Iterable[str]) -> dict[str, str]:
    """SHA-256 of the files under a folder that match, by their name in it; hidden ones, which kills leave, do not."""
    folder = Path(folder)
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    files = sorted(path for path in found if not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}


def read_toml(path: Path | str) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: must be a TOML file that can be read; {error.strerror or error}.") from error
    return toml_content(data, path)


def toml_content(data: bytes, source: Path | str) -> dict[str, Any]:
    """The content of a TOML file's bytes; errors name the source."""
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
        raise InputError(f"{source}: text must be UTF-8; line {line} holds the byte 0x{byte:02x}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: must be a TOML file; {str(error).splitlines()[0].rstrip('.')}.") from error
