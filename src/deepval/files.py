"""Content -> a file that is either complete or not there: written under a temporary name, then renamed.

The temporary name is always the same, so that what a kill leaves behind goes with the next run.
"""

import os
from contextlib import suppress
from pathlib import Path

from deepval.errors import InputError


def write_atomically(path: str | Path, content: str | bytes, *, make_folder: bool = False) -> None:
    """Write text (UTF-8) or bytes to a file in one step; devices and pipes, such as /dev/stdout, are written to."""
    data = content.encode() if isinstance(content, str) else content
    try:
        if make_folder:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        if Path(path).exists() and not Path(path).is_file():
            Path(path).write_bytes(data)
        else:
            _replace(Path(path).resolve(), data)
    except OSError as error:
        raise InputError(f"{path}: must be a file that can be written; {error.strerror or error}.") from error


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        # Whatever stopped it, the reason that is told is the first one.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
