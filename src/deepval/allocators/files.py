"""What a fitted allocator holds <-> the text of its file.

The file is JSON: what is looked at, what was learned in plain numbers, what it was fitted on, and the hash of all of
it. It loads without the library that fitted it, and nothing in it is executed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import digest_of, json_canonical, json_content

FORMAT, VERSION = "deepval allocator", 1
LARGEST_BYTES = 64 * 2**20


def file_text(content: Mapping[str, Any]) -> str:
    """The text of an allocator's file: format and version, the content, and the hash of all of it."""
    whole = {"format": FORMAT, "version": VERSION, **content}
    hashed = whole | {"sha256": digest_of(whole)}
    lines = [f"{json_canonical(key)}: {json_canonical(value)}" for key, value in hashed.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def file_content(path: Path | str) -> dict[str, Any]:
    """What an allocator's file holds; a file that is not one, of another version or cut off is refused."""
    data = reading.content(path, "an allocator's file", largest=LARGEST_BYTES)
    return _checked_format(json_content(data, path, "an allocator as `deepval fit` writes it"), str(path))


def _checked_format(content: Any, source: str) -> dict[str, Any]:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f'{source}: must be an allocator as `deepval fit` writes it, with "format": "{FORMAT}".')
    if content.get("version") != VERSION:
        raise InputError(
            f"{source}: this deepval reads version {VERSION} of allocator files; found version "
            f"{content.get('version')!r}. Fit it again, or install the deepval that wrote it."
        )
    return content


def check_hash(content: Mapping[str, Any], source: str) -> None:
    """Raise where an allocator's file is not as it was written."""
    try:
        found = digest_of({name: value for name, value in content.items() if name != "sha256"})
    except (ValueError, RecursionError):
        # No file of ours holds NaN, infinity or lists without end.
        found = None
    if found is None or content.get("sha256") != found:
        raise InputError(f"{source}: the file was altered after it was written: its hash does not fit. Fit it again.")
