"""A computation and its inputs -> a folder with its files, computed once and named by
the hash of those inputs.

Each file is written atomically, and the list of their hashes is written last. A killed
run therefore leaves no valid result, and a damaged result is computed again.
`code_digest` is the part of a key that stands for our own code.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import deepval
from deepval.basics.errors import InputError
from deepval.basics.files.canonical import (
    digest_of,
    file_digest,
    json_text,
    read_json,
    sha256,
)
from deepval.basics.files.writing import write_atomically
from deepval.version import __version__

ROOT = Path(deepval.__file__).parent
IMPORT = re.compile(
    r"^\s*(?:from (deepval[\w.]*) import (\([^)]*\)|[^\n]*)|import (deepval[\w.]*))",
    re.MULTILINE,
)
DATA = ".toml"
"""Ending of the data files that computations depend on; other files beside the code
change no result.
"""


@cache
def code_digest(*names: str) -> str:
    """SHA-256 over the sources of modules, the modules of this package that they
    import, and data files beside them.
    """
    paths = {path for name in names for path in _closure(name)}
    files = paths | {file for path in paths for file in _data(path.parent)}
    return digest_of(
        {path.relative_to(ROOT).as_posix(): _digest(path) for path in sorted(files)}
    )


@cache
def _closure(name: str) -> frozenset[Path]:
    """Source files of a module and of every module of the package that it imports,
    directly or not.
    """
    paths: dict[str, Path] = {}
    queue = [name]
    while queue:
        module = queue.pop()
        path = _path(module)
        if module in paths or path is None:
            continue
        paths[module] = path
        queue += _imported(path)
    return frozenset(paths.values())


@cache
def _imported(path: Path) -> tuple[str, ...]:
    """Modules of the package that a source file imports, at its top or inside a
    function.
    """
    modules: list[str] = []
    for module, names, alone in IMPORT.findall(path.read_text(encoding="utf-8")):
        # A name imported from a package may be a module. `_path` drops it where no such
        # file exists.
        modules += (
            [module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))]
            if module
            else [alone]
        )
    return tuple(modules)


@cache
def _path(module: str) -> Path | None:
    """The source file of a module; None if there is none."""
    base = ROOT.joinpath(*module.split(".")[1:])
    candidates = (base / "__init__.py", base.with_suffix(".py"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


@cache
def _data(folder: Path) -> tuple[Path, ...]:
    """Data files in a folder of modules and in those of its subfolders that contain no
    modules.
    """
    data_folders = [
        path
        for path in folder.iterdir()
        if path.is_dir() and not (path / "__init__.py").exists()
    ]
    return tuple(
        file
        for parent in (folder, *data_folders)
        for file in parent.iterdir()
        if file.suffix == DATA
    )


@cache
def _digest(path: Path) -> str:
    return file_digest(path)


LIST, REFUSED = "kept.json", "refused.txt"
"""Files of a folder: the list of the other files with their hashes; the reason why a
computation was refused.
"""
LIBRARIES = ("numpy", "scipy", "scikit-learn", "pyarrow")
"""Libraries whose versions may change a number."""


@cache
def versions() -> dict[str, str]:
    """Versions that every result depends on, besides its own code and data."""
    return {"deepval": __version__, **{name: version(name) for name in LIBRARIES}}


def result_folder(root: Path, kind: str, rests_on: Mapping[str, Any]) -> Path:
    """The folder of the result that depends on these inputs."""
    return root / kind / digest_of({**rests_on, "versions": versions()})[:24]


def is_stored(folder: Path) -> bool:
    """Whether a folder still contains all its files, unaltered."""
    try:
        listing = read_json(folder / LIST)
        return all(
            file_digest(folder / str(name)) == digest
            for name, digest in listing["files"].items()
        )
    except (InputError, KeyError, TypeError, AttributeError):
        return False


def store_result(
    root: Path,
    kind: str,
    rests_on: Mapping[str, Any],
    make: Callable[[], Mapping[str, bytes]],
) -> Path:
    """The folder of the result that depends on these inputs; `make` computes it if it
    is missing or altered.
    """
    folder = result_folder(root, kind, rests_on)
    if not is_stored(folder):
        files = dict(make())
        for name, data in files.items():
            write_atomically(folder / name, data, make_folder=True, durable=False)
        # The list goes last: `is_stored` accepts a folder only if it is there.
        listing = {
            "rests_on": dict(rests_on),
            "files": {name: sha256(data) for name, data in files.items()},
        }
        write_atomically(
            folder / LIST,
            json_text(listing, sort_keys=True),
            make_folder=True,
            durable=False,
        )
    return folder
