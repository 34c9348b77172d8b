"""A path -> what the file there holds: regular files only, of bounded size, text in UTF-8. All else is one sentence.

Every file is read through here: a pipe without a writer, a device without an end, a name that no file can have, a loop
of links or a file that may not be read are then the same everywhere.
"""

import codecs
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from deepval.errors import InputError, reason

LARGEST = 2**32
"""Bytes of a file that is read as a whole."""
BLOCK = 2**20
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def is_file(path: Path | str) -> bool:
    """Whether a regular file, or a link to one, is there; no path is too odd to ask."""
    return os.path.isfile(path)  # noqa: PTH113 - pathlib's raises for names that no file can have


def is_folder(path: Path | str) -> bool:
    """Whether a folder is there."""
    return os.path.isdir(path)  # noqa: PTH112


def is_link(path: Path | str) -> bool:
    """Whether a link is there, wherever it leads."""
    return os.path.islink(path)  # noqa: PTH114


def exists(path: Path | str) -> bool:
    """Whether anything is there."""
    return os.path.exists(path)  # noqa: PTH110


def resolved(path: Path | str) -> Path:
    """The path without links; a loop of links stays as it is."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        return Path(path).absolute()


def inside(folder: Path | str) -> list[Path]:
    """What lies in a folder, in the order of names."""
    try:
        return sorted(Path(folder).iterdir())
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: must be a folder that can be read; {reason(error)}.") from error


def matching(folder: Path | str, pattern: str) -> Iterator[Path]:
    """What matches a pattern in a folder, in no order; nothing where there is none."""
    try:
        Path(folder).stat()  # a name that no folder can have is an empty folder to globs of Python 3.13
        yield from Path(folder).glob(pattern)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: must be a folder that can be read; {reason(error)}.") from error


def opened(path: Path | str, what: str = "a file") -> BufferedReader:
    """A regular file, open to be read; `what` it must be is said where it is none."""
    try:
        # Not blocking: a pipe without a writer would be waited for.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        mode = os.fstat(handle).st_mode
        if stat.S_ISREG(mode):
            return os.fdopen(handle, "rb")
        os.close(handle)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: must be {what} that can be read; {reason(error)}.") from error
    kind = KINDS.get(stat.S_IFMT(mode), "no regular file")
    raise InputError(f"{path}: must be {what} that can be read; it is {kind}.")


def checked(path: Path | str, what: str = "a file") -> Path:
    """The path, which must be one that `opened` opens: for libraries that open files themselves."""
    opened(path, what).close()
    return Path(path)


def content(path: Path | str, what: str = "a file", *, largest: int = LARGEST) -> bytes:
    """What a file holds."""
    with opened(path, what) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            data = b"" if size > largest else file.read(size + 1)
            while (
                len(data) > size and len(data) <= largest and (more := file.read(BLOCK))
            ):  # it grows, or hides its size
                data += more
        except OSError as error:
            raise InputError(f"{path}: must be {what} that can be read; {reason(error)}.") from error
    if max(size, len(data)) > largest:
        raise InputError(f"{path}: must be {what} of at most {largest:,} bytes; it has {max(size, len(data)):,}.")
    return data


def text(path: Path | str, what: str = "a file") -> str:
    """The text of a file in UTF-8; the mark that Windows editors put in front is left out."""
    return decoded(content(path, what), path)


def decoded(data: bytes, source: Path | str) -> str:
    """Bytes as text, which must be UTF-8; errors name the source and the line."""
    body = data.removeprefix(codecs.BOM_UTF8)
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        line, byte = body.count(b"\n", 0, error.start) + 1, body[error.start]
        raise InputError(
            f"{source}: text must be UTF-8; line {line} holds the byte 0x{byte:02x}. Save it as UTF-8."
        ) from error
