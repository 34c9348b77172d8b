"""Words of the command line, such as my_file.py:Mine -> the objects that they name;
errors of their code -> a sentence.

Only commands call this module, with a word that the user typed. Nothing that is read
from a cell, a submission or another file gets here, so no file causes code to be
loaded. An installed package adds names by entry points of the groups
deepval.allocators, deepval.systems and deepval.datasets; a name is loaded when it is
typed.
"""

import hashlib
import inspect
import re
import sys
import traceback
from abc import ABCMeta
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from deepval.basics.errors import InputError, quote, suggestion
from deepval.basics.files import reading

FORM = "FILE.py:NAME or MODULE:NAME"
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Code:
    """Own code as a cell records it.

    Attributes:
        word: The word by which the user named it.
        sha256: SHA-256 of its file.
    """

    word: str
    sha256: str

    @property
    def name(self) -> str:
        """The word as part of a file's name: FILE-NAME, or the installed name."""
        return code_name(self.word)


class OwnCode(NamedTuple):
    """An object that the user named, with its code."""

    value: Any
    code: Code


class LoadedCode(NamedTuple):
    """Loaded code: its source as the user typed it, its file, the SHA-256 of that file,
    and its module.
    """

    typed: str
    file: Path
    digest: str
    module: ModuleType


_LOADED: dict[str, LoadedCode] = {}
"""Loaded code by its module's name."""


def names_code(text: str) -> bool:
    """Whether a word has the form of a name of code, FILE.py:NAME or MODULE:NAME; a
    file without a name is one too.
    """
    return (
        text.endswith(".py") or re.fullmatch(r".+\.py:.*|[\w.]+:\w*", text) is not None
    )


def installed(group: str) -> list[str]:
    """Names that installed packages add to allocators, systems or datasets."""
    return sorted(_entries(group))


def _entries(group: str) -> dict[str, str]:
    """Words of the code that installed packages add to a group, by name."""
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=f"deepval.{group}")}


def code_name(word: str) -> str:
    """The name of what a word of code names: FILE-NAME; an installed name stays."""
    source, _, name = word.rpartition(":")
    return f"{Path(source).name.removesuffix('.py')}-{name}" if source else word


def find(text: str, group: str) -> OwnCode | None:
    """The object that a typed word names, as code or as an installed package's name;
    None for any other word.
    """
    word = text
    if not names_code(text):
        entries = _entries(group)
        if text not in entries:
            return None
        # what follows a bracket are extras of the package
        word = entries[text].partition("[")[0].replace(" ", "")
    value = load(word)
    return OwnCode(value, Code(text, _LOADED[_module_name(word)].digest))


def _module_name(word: str) -> str:
    """The name of the module that a word of code names."""
    source = word.rpartition(":")[0]
    return Path(source).stem if source.endswith(".py") else source


def confirmed(code: Code, words: Iterable[str], group: str) -> OwnCode | None:
    """Own code that a file records, loaded by the word that the user typed for it; None
    where the user typed none.

    Only a typed word is loaded, never the recorded one.
    """
    word = typed_word(code.word, words)
    own = None if word is None else find(word, group)
    if own is not None and own.code.sha256 != code.sha256:
        raise InputError(
            f"{word}: must be the code that was recorded; its file has changed since "
            "then: build again, or name the old file."
        )
    return own


def refuse_namesake(recorded: Code | None, code: Code, place: Path) -> None:
    """Raise where code would replace what another file of the same name made at a
    place; the same file may have changed since.
    """
    if recorded is None or recorded.sha256 == code.sha256:
        return
    if _source(recorded.word) != _source(code.word):
        raise InputError(
            f"{place}: must not be replaced by what another file made; it is of "
            f"{recorded.word}, not of {code.word}: give another --out, rename one "
            "file, or remove the old result."
        )


def _source(word: str) -> str:
    """What a word of code names it in: the whole path of a file, or a module's name."""
    source = word.rpartition(":")[0]
    return str(reading.resolve(source)) if source.endswith(".py") else source


def typed_word(word: str, words: Iterable[str]) -> str | None:
    """The word that the user typed for code that a file names, wherever its file lies;
    None where there is none.
    """
    return next((typed for typed in words if code_name(typed) == code_name(word)), None)


def load(word: str) -> Any:
    """The object that FILE.py:NAME or MODULE:NAME names."""
    source, _, name = (word, "", "") if word.endswith(".py") else word.rpartition(":")
    if not re.fullmatch(r"\w+(\.\w+)*", name):
        raise InputError(
            f"Code must be named as {FORM}; found {word!r}: add the name of a "
            "function, class or object."
        )
    try:
        value: Any = _file_module(source) if source.endswith(".py") else _module(source)
    except Exception as error:
        sentence = complaint(error)
        if sentence is None:
            raise
        raise InputError(sentence) from error
    except SystemExit as error:
        raise InputError(
            f"{source}: must define {name!r} and return; it ends "
            "the program when it is loaded."
        ) from error
    for part in name.split("."):
        names = [other for other in vars(value) if not other.startswith("_")]
        if not hasattr(value, part):
            raise InputError(
                f"{source}: must define {part!r}; it does not{suggestion(part, names)}"
            )
        value = getattr(value, part)
    return value


def _file_module(source: str) -> ModuleType:
    """The module of a file, executed unless this very content is loaded; its name must
    be free for other processes.
    """
    content, path, name = (
        reading.content(Path(source), "a file of code"),
        reading.resolve(source),
        Path(source).stem,
    )
    if not name.isidentifier():
        raise InputError(
            f"{source}: the name of a file of code must be a Python name, such as "
            "my_file.py: rename it."
        )
    loaded, digest = _LOADED.get(name), hashlib.sha256(content).hexdigest()
    if loaded is not None and (loaded.file, loaded.digest) == (path, digest):
        return loaded.module
    other = None if loaded is not None else find_spec(name)
    if other is not None and Path(other.origin or "").resolve() != path:
        raise InputError(
            f"{source}: Python has another "
            f"module {name!r} ({other.origin}): rename the file."
        )
    try:
        code = compile(content, str(path), "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line, text = (
            getattr(error, "lineno", None) or 1,
            getattr(error, "msg", None) or error,
        )
        raise InputError(
            f"{source}, line {line}: the "
            f"code fails with {type(error).__name__}: {text}."
        ) from error
    module = ModuleType(name)
    module.__file__, module.__spec__ = str(path), spec_from_file_location(name, path)
    _LOADED[name] = LoadedCode(source, path, digest, module)
    sys.modules[name] = module  # pickle and dataclasses look it up
    _add_folder(path.parent)
    try:
        exec(code, vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _module(name: str) -> ModuleType:
    """The module of a name, in the current folder or on Python's path."""
    _add_folder(Path.cwd())
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise InputError(
                f"{name}: no such module in the current folder or on Python's path; a "
                "file is named with its .py."
            ) from error
        raise
    except SyntaxError as error:
        raise InputError(
            f"{error.filename}, line {error.lineno}: the code fails "
            f"with SyntaxError: {error.msg}."
        ) from error
    file = Path(getattr(module, "__file__", None) or "")
    if file.suffix != ".py":
        raise InputError(
            f"{name}: must be a module of Python code; it is a part of Python or "
            "compiled: write a function of your own that calls it."
        )
    _LOADED[name] = LoadedCode(
        name,
        file,
        hashlib.sha256(reading.content(file, "a file of code")).hexdigest(),
        module,
    )
    return module


def _add_folder(folder: Path) -> None:
    """Let code import its neighbours, and other processes find it; last, so that it
    hides no library.
    """
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def create(word: str, value: Any, *arguments: Any) -> Any:
    """The object of a class, or of a function without required parameters; any other
    value as it is.
    """
    if not isinstance(value, type) and (
        not inspect.isroutine(value) or required_parameters(value) != len(arguments)
    ):
        return value
    if isinstance(value, ABCMeta) and value.__abstractmethods__:
        lacking = ", ".join(sorted(value.__abstractmethods__))
        raise InputError(f"{word}: must define {lacking}; it does not.")
    try:
        inspect.signature(value).bind(*arguments)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{word}: must be created from {len(arguments) or 'no'} "
            f"argument{'s' * (len(arguments) != 1)}; {error}: give the other "
            "parameters defaults, or name an object."
        ) from error
    return value(*arguments)


def required_parameters(function: Callable[..., Any]) -> int:
    """Number of positional parameters without a default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError as error:
        raise InputError(
            f"{quote(function)} does not say how it is called: write a function of "
            "your own that calls it."
        ) from error
    return sum(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in parameters
    )


def checked(word: str, value: Any, kind: type[Kind], description: str) -> Kind:
    """The value, which must be of a kind."""
    if not isinstance(value, kind):
        raise InputError(f"{word}: must be {description}; found {quote(value)}.")
    return value


def complaint(error: BaseException) -> str | None:
    """An error of loaded code in one sentence with its file and line; None if no loaded
    code is involved.
    """
    lines = re.findall(
        r'File "(.+?)", line (\d+)', "".join(traceback.format_exception(error))
    )
    typed = {
        str(source.file): source.typed
        if source.typed.endswith(".py")
        else str(source.file)
        for source in _LOADED.values()
    }
    own = [(typed[file], line) for file, line in lines if file in typed]
    if not own:
        return None
    file, line = own[-1]
    return (
        f"{file}, line {line}: "
        "the code "
        f"fails with {type(error).__name__}{f': {error}' if str(error) else ''}."
    )


def digest() -> dict[str, str]:
    """SHA-256 of every loaded file of code, by the name of its module: part of the keys
    of stored work.
    """
    return {name: source.digest for name, source in _LOADED.items()}
