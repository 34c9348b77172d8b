"""Content -> a file that is complete or absent; a folder -> a lock for one writer at a
time.

A file is written under a temporary name in its folder and then renamed, so writers of
one file never mix and no file of another name is touched. A killed writer leaves a
hidden file (`.NAME.xxxxxxxx.tmp`), which the next write of the file removes.
"""

import errno
import io
import math
import os
import secrets
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from deepval.basics.errors import InputError, UnfinishedError, quote, reason
from deepval.basics.files import reading
from deepval.basics.files.canonical import joint_sha256, json_content, json_packed

LARGEST = 2**33
"""Largest total size in bytes of the arrays of an archive."""
MOST = 100_000
"""Largest number of arrays of an archive."""
AMISS = (
    *(
        ValueError,
        OSError,
        EOFError,
        KeyError,
        TypeError,
        SyntaxError,
        OverflowError,
        RuntimeError,
    ),
    *(
        IndexError,
        AttributeError,
        MemoryError,
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        tokenize.TokenError,
    ),
)
"""Errors that the libraries raise on bytes that are not an archive of arrays."""
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Content of an .npz file with these arrays, with fast compression: the same arrays
    give the same bytes.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return out.getvalue()


def npz_arrays(data: bytes, *, largest: int = LARGEST) -> dict[str, np.ndarray]:
    """The arrays in an .npz file by name; a ValueError where it is not one, or too
    large.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = archive.infolist()
            size = sum(entry.file_size for entry in listed)
            if len(listed) > MOST or size > largest:
                raise ValueError(
                    f"{len(listed)} arrays of {size:,} "
                    f"bytes are more than {MOST:,} of {largest:,}"
                )
            return {
                entry.filename.removesuffix(".npy"): _array(archive, entry)
                for entry in listed
            }
    except AMISS as error:
        raise ValueError(
            "it is not an archive "
            f"of plain arrays ({str(error) or type(error).__name__})"
        ) from error


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        if version not in HEADERS:
            raise ValueError(f"{entry.filename} has a header of version {version}")
        shape, fortran, dtype = HEADERS[version](file)
        body = file.read()
    if (
        dtype.hasobject
        or math.prod(shape) * dtype.itemsize != len(body)
        or min(shape, default=0) < 0
    ):
        raise ValueError(
            f"{entry.filename} must hold {shape} plain values; it does not"
        )
    return (
        np.frombuffer(body, dtype).reshape(shape, order="F" if fortran else "C").copy()
    )


NAME_LENGTH = 40
"""Characters of a file's name in its temporary name: file systems bound the length of
names.
"""


def file_path(path: object) -> Path:
    """The path of a file from a user's argument, text or a path."""
    if isinstance(path, str | Path) and str(path).strip() and "\0" not in str(path):
        return Path(path)
    raise InputError(f"A file must be named by text or a path; found {quote(path)}.")


def write_atomically(
    path: str | Path,
    content: str | bytes,
    *,
    make_folder: bool = False,
    durable: bool = True,
) -> None:
    """Write text (UTF-8) or bytes to a file in one step; devices and pipes, such as
    /dev/stdout, are written directly.

    Args:
        path: The file; a link stays, and the file that it points to is replaced.
        content: The new content.
        make_folder: Whether to create a missing folder.
        durable: Whether to wait for the disk, so that the file survives a loss of
            power; not needed if readers check its hash.
    """
    try:
        data = content.encode() if isinstance(content, str) else content
        if make_folder:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        if reading.exists(path) and not reading.is_file(path):
            _write_through(Path(path), data)
        else:
            target = reading.resolve(path)
            _replace(target, data, durable=durable)
            _sweep(target)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: must be a file that can be written; {reason(error)}."
        ) from error


def append_line(
    path: str | Path,
    text: str,
    *,
    header: str | None = None,
    unless: Callable[[], bool] | None = None,
) -> None:
    """Append a line to a file, completely or not at all, below a header if it is new;
    several processes never mix.

    Args:
        path: The file.
        text: The line.
        header: First line of a new file.
        unless: Called when no other process writes; where it is true, nothing is
            appended.

    Raises:
        InputError: The line cannot be written, as on a full disk; the file is as it was
            before.
    """
    try:
        handle = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | reading.FLAGS, 0o666
        )
        try:
            with suppress(OSError):  # a file system without locks
                _flock(handle, "LOCK_EX")
            if unless is not None and unless():
                return
            new = header is not None and not os.fstat(handle).st_size
            _write_whole(
                handle, (f"{header}\n{text}\n" if new else f"{text}\n").encode()
            )
        finally:
            os.close(handle)
    except OSError as error:
        raise InputError(
            f"{path}: must be a file that can be written; {reason(error)}."
        ) from error


def _write_whole(handle: int, data: bytes) -> None:
    """Append all bytes to an open file, or none: one call may write a part, and the
    next one may fail.
    """
    before = os.fstat(handle).st_size
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(handle, left) :]
        if stat.S_ISREG(os.fstat(handle).st_mode):
            os.fsync(handle)  # some file systems report only now that there is no room
    except BaseException:
        with suppress(OSError):  # a pipe or a device
            os.ftruncate(handle, before)
        raise


def check_writable(path: str | Path, *, folder: bool = False) -> None:
    """Raise where a file (or a folder) cannot be written, before any work is done for
    it.
    """
    at, kind = Path(path), "folder" if folder else "file"
    try:
        if reading.exists(at) and not folder:
            if at.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        else:
            with suppress(FileNotFoundError, NotADirectoryError):
                at.stat()  # a name that no file can have, or a loop of links
            at = at if folder else at.parent
            while folder and not at.exists():
                at = at.parent
            if not at.is_dir():
                raise NotADirectoryError(
                    errno.ENOTDIR, f"{at} is {'a file' if at.exists() else 'no folder'}"
                )
        _check_access(at if folder or not reading.is_file(path) else Path(path).parent)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{path}: must be a {kind} that can be written; {reason(error)}."
        ) from error


def _check_access(path: Path) -> None:
    """Raise where the user has no permission to write to a folder or a device."""
    if not os.access(path, os.W_OK | (os.X_OK if path.is_dir() else 0)):
        raise PermissionError(errno.EACCES, f"{path} may not be written to")


@contextmanager
def lock(folder: Path, busy: str | None = None) -> Iterator[None]:
    """Lock a folder, creating it if missing; an UnfinishedError with the text `busy`
    where another process has it.

    Without `busy` the lock is shared, and the function waits for an exclusive one. The
    system releases the lock of a killed process.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Windows has neither such locks nor handles of folders.
        handle = os.open(
            folder if hasattr(os, "O_DIRECTORY") else os.devnull, os.O_RDONLY
        )
    except OSError as error:
        raise InputError(
            f"{folder}: must be a folder that can be written; {reason(error)}."
        ) from error
    with _locked(handle, busy):
        yield


@contextmanager
def lock_of_file(path: Path, busy: str) -> Iterator[None]:
    """Lock a file that is replaced as a whole; an UnfinishedError with the text `busy`
    where another process has it.

    The lock is a file beside it while it is held, because the replaced file is another
    one.
    """
    beside = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | reading.FLAGS, 0o666)
    except OSError as error:
        raise InputError(
            f"{beside}: must be a file that can be written; {reason(error)}."
        ) from error
    with _locked(handle, busy):
        # Opened before another process removed it: the next one would lock a new file.
        if os.name == "posix" and not os.fstat(handle).st_nlink:
            raise UnfinishedError(busy)
        try:
            yield
        finally:
            with suppress(OSError):  # Windows removes no open file
                beside.unlink()


@contextmanager
def _locked(handle: int, busy: str | None) -> Iterator[None]:
    """Hold the lock of an open file or folder, and close it."""
    try:
        try:
            _flock(handle, *(("LOCK_SH",) if busy is None else ("LOCK_EX", "LOCK_NB")))
        except BlockingIOError as error:
            raise UnfinishedError(busy) from error
        except OSError:
            # A file system without locks: temporary names and hashes still protect
            # readers from mixed content.
            pass
        yield
    finally:
        os.close(handle)


def _flock(handle: Any, *flags: str) -> None:
    """Lock an open file until it is closed; an OSError where the file system has no
    locks. Windows has none at all.
    """
    with suppress(ImportError):
        import fcntl

        fcntl.flock(handle, sum(getattr(fcntl, flag) for flag in flags))


def _write_through(path: Path, data: bytes) -> None:
    """Write to a pipe or a device; a pipe without a reader is an error."""
    try:
        handle = os.open(path, os.O_WRONLY | reading.FLAGS)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(
                errno.ENXIO, "no process reads this pipe: start its reader first"
            ) from error
        raise
    with os.fdopen(handle, "wb") as file:
        os.set_blocking(handle, True)
        file.write(data)


def _replace(path: Path, data: bytes, *, durable: bool) -> None:
    if path.is_symlink():  # links were resolved before, so this one is part of a loop
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    temporary, file = _temporary(path)
    try:
        with file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
            if os.name == "nt":  # an open file cannot be renamed there
                file.close()
            temporary.replace(path)
    except BaseException:
        # An error of the clean-up must not hide the first error.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _temporary(path: Path) -> tuple[Path, BinaryIO]:
    """A new temporary file beside a path, locked until it is closed, so that `_sweep`
    does not remove it.
    """
    while True:
        temporary = path.with_name(
            f".{path.name[:NAME_LENGTH]}.{secrets.token_hex(4)}.tmp"
        )
        # Exclusive: neither a file nor a link of that name is ever opened.
        file = temporary.open("xb")
        # a file system without locks: `_sweep` removes nothing there
        with suppress(OSError):
            _flock(file, "LOCK_EX")
        if os.fstat(file.fileno()).st_nlink:
            return temporary, file
        file.close()  # another process removed it before it was locked


def _sweep(path: Path) -> None:
    """Remove temporary files of killed writers: those without a lock."""
    for leftover in path.parent.glob(
        f".{escape(path.name[:NAME_LENGTH])}.????????.tmp"
    ):
        with suppress(OSError, InputError), reading.open_file(leftover) as file:
            _flock(file, "LOCK_EX", "LOCK_NB")
            leftover.unlink()


def write_sealed(
    path: Path, schema: str, data: Any, following: Iterable[bytes | memoryview] = ()
) -> None:
    """Write a sealed file: a line with schema and SHA-256, then plain data, then the
    bytes that follow.
    """
    body = [json_packed(data).encode(), b"\n", *following]
    first = json_packed({"schema": schema, "sha256": joint_sha256(body)})
    write_atomically(path, b"".join([first.encode(), b"\n", *body]), make_folder=True)


def read_sealed(path: Path, schema: str, what: str) -> tuple[Any, bytes]:
    """The data and bytes of a sealed file; an InputError where the file was changed, or
    has another schema.
    """
    first, data, following = (*reading.content(path, what).split(b"\n", 2), b"", b"")[
        :3
    ]
    header = json_content(first, path, what)
    expected = {"schema": schema, "sha256": joint_sha256([data, b"\n", following])}
    if header != expected:
        raise InputError(
            f"{path}: must be {what}, and its content has changed: delete it and run "
            "the command again."
        )
    return json_content(data, path, what), following


def sealed_or_none(path: Path, schema: str, what: str) -> tuple[Any, bytes] | None:
    """The data and bytes of a sealed file; None where there is no such file, or it was
    changed.
    """
    try:
        return read_sealed(path, schema, what) if reading.is_file(path) else None
    except InputError:
        return None
