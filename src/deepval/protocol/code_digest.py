"""A module's name -> the SHA-256 of its source and of all in the package that it imports, directly or not.

What a computation rests on beside its data: where it changes, what was kept of the computation is made anew.
"""

import re
from functools import cache
from pathlib import Path

import deepval
from deepval.files.canonical import digest_of, file_digest

ROOT = Path(deepval.__file__).parent
IMPORT = re.compile(r"^\s*(?:from (deepval[\w.]*) import (\([^)]*\)|[^\n]*)|import (deepval[\w.]*))", re.MULTILINE)
DATA = ".toml"
"""Data that computations rest on; the paper's figures are laid beside and change nothing."""


@cache
def code_digest(*names: str) -> str:
    """SHA-256 over the sources of modules, of all that they import here, and of the data files beside those."""
    paths = {path for name in names for path in _closure(name)}
    files = paths | {each for path in paths for each in _data(path.parent)}
    return digest_of({path.relative_to(ROOT).as_posix(): _digest(path) for path in sorted(files)})


@cache
def _closure(name: str) -> frozenset[Path]:
    found: dict[str, Path] = {}
    waiting = [name]
    while waiting:
        module = waiting.pop()
        path = _path(module)
        if module in found or path is None:
            continue
        found[module] = path
        waiting += _imported(path)
    return frozenset(found.values())


@cache
def _imported(path: Path) -> tuple[str, ...]:
    """Modules of the package that a source file names in an import, wherever in it."""
    found: list[str] = []
    for module, names, alone in IMPORT.findall(path.read_text(encoding="utf-8")):
        # What is imported from a package may be a module; where it is a name, there is no such file.
        found += [module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))] if module else [alone]
    return tuple(found)


@cache
def _path(module: str) -> Path | None:
    inside = ROOT.joinpath(*module.split(".")[1:])
    places = (inside / "__init__.py", inside.with_suffix(".py"))
    return next((place for place in places if place.is_file()), None)


@cache
def _data(folder: Path) -> tuple[Path, ...]:
    """Data files in a folder of modules, and in folders in it that hold no modules."""
    plain = [inner for inner in folder.iterdir() if inner.is_dir() and not (inner / "__init__.py").exists()]
    return tuple(each for place in (folder, *plain) for each in place.iterdir() if each.suffix == DATA)


@cache
def _digest(path: Path) -> str:
    return file_digest(path)
