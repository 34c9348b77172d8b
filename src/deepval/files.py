"""Content -> a file that is either complete or not there: written under a temporary name, then renamed."""

import os
import tempfile
from pathlib import Path

from deepval.errors import InputError


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Write text (UTF-8) or bytes to a file in one step; devices and pipes, such as /dev/stdout, are written to."""
    data = content.encode() if isinstance(content, str) else content
    try:
        if Path(path).exists() and not Path(path).is_file():
            Path(path).write_bytes(data)
        else:
            _replace(Path(path).resolve(), data)
    except OSError as error:
        raise InputError(f"{path}: must be a file that can be written; {error.strerror or error}.") from error


def _replace(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
