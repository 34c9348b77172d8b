"""The function of a command -> its options: groups that commands share, limits of numbers, lists, outputs.

An output that would replace an input is refused before any work.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from deepval.errors import InputError
from deepval.files import reading

EXACT = 2**53
"""Whole numbers up to this are exact as floats; the limit of options that declare none."""
PANEL_ORDER = {"Arguments": 0, "Options": 2, "Workers": 3, "Output": 4}
"""Order of headings in the help; others come after the arguments."""

OUTPUTS = ("--out", "--figure", "--figures", "--work", "--cache")
"""Options that name output files or folders; every other path may be an input."""
WRITTEN = {
    "demo": ("report.html", "results.md"),
    "leaderboard": ("leaderboard.json", "leaderboard.md", "leaderboard.html", "history.json"),
    "perceive": ("manifest.json", "costs.toml"),
    "reproduce": ("report.html", "report.md", "report.json"),
    "train-planner": ("weights.npz", "masks.npz", "manifest.json"),
}
"""Files that a command writes into its output folder."""


@dataclass(frozen=True)
class OptionGroup:
    """Base of dataclasses whose fields are options that several commands share.

    Every field has the annotation of a typer option. A command takes the group as one parameter; a default value of
    that parameter replaces the defaults of the fields.
    """


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one parameter per field of its option groups, as typer needs it."""
    parameters = inspect.signature(command).parameters
    groups = {name: parameter.annotation for name, parameter in parameters.items() if _is_group(parameter.annotation)}
    if not groups:
        return command

    @wraps(command)
    def run(**values: Any) -> None:
        group_values = {
            name: kind(**{field.name: values.pop(field.name) for field in _init_fields(kind)})
            for name, kind in groups.items()
        }
        command(**values, **group_values)

    options = [option for parameter in parameters.values() for option in _options(parameter)]
    vars(run)["__signature__"] = inspect.Signature(options)
    run.__annotations__ = {option.name: option.annotation for option in options} | {"return": None}
    return run


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, OptionGroup)


def _init_fields(kind: type[OptionGroup]) -> list[Field[Any]]:
    return [field for field in fields(kind) if field.init]


def _options(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The options of a parameter; keyword-only, because typer takes arguments in order of declaration."""
    if not _is_group(parameter.annotation):
        return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    defaults: Mapping[str, Any] = {} if parameter.default is parameter.empty else vars(parameter.default)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(field.name, parameter.empty if field.default is MISSING else field.default),
            annotation=field.type,
        )
        for field in _init_fields(parameter.annotation)
    ]


class GroupedCommand(TyperCommand):
    """A command with options under headings, limits on numbers, and lists that take several words at once."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the help: arguments, then options under their headings, in the order of the first of each."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            usual = "Arguments" if param.param_type_name == "argument" else "Options"
            if record is not None:
                panels.setdefault(getattr(param, "rich_help_panel", None) or usual, []).append(record)
        for title in sorted(panels, key=lambda title: PANEL_ORDER.get(title, 1)):
            with formatter.section(title):
                formatter.write_dl(panels[title])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; a repeatable option needs its name only once: `-s a.csv b.csv`."""
        rest = super().parse_args(ctx, _repeated(self.params, args))
        for param in self.params:
            if param.param_type_name == "option" and param.callback is None:
                check_number(param.opts[0], ctx.params.get(param.name or ""), (-EXACT, EXACT))
        check_outputs(ctx.info_name or "", {p.opts[0]: ctx.params.get(p.name or "") for p in self.params})
        return rest


def limits(least: float = -math.inf, greatest: float = math.inf) -> Callable[..., Any]:
    """The least and the greatest value of a numeric option, as its `callback`."""

    def check(_ctx: Any, param: Any, value: Any) -> Any:
        check_number(param.opts[0], value, (least, greatest))
        return value

    return check


def check_number(option: str, value: Any, within: tuple[float, float]) -> None:
    """Raise if a number, or one in a list, lies outside the limits of its option."""
    least, greatest = within
    for number in value if isinstance(value, list | tuple) else (value,):
        if isinstance(number, bool) or not isinstance(number, int | float):
            continue
        if isinstance(number, float) and not math.isfinite(number):
            raise InputError(f"{option} must be a finite number; found {number:g}.")
        if number < least:
            raise InputError(f"{option} must be {least:,} or more; found {number:,}.")
        if number > greatest:
            raise InputError(f"{option} must be at most {greatest:,}; found {number:,}.")


def _repeated(params: Sequence[Any], words: Sequence[str]) -> list[str]:
    """The words with `-s a b` expanded to `-s a -s b`, once all required arguments are there."""
    arguments = [param for param in params if param.param_type_name == "argument"]
    required = sum(bool(param.required) for param in arguments)
    endless = any(param.nargs < 0 for param in arguments)
    options_by_name = {text: param for param in params if param.param_type_name == "option" for text in param.opts}
    expanded: list[str] = []
    remaining, bare, repeatable = list(words), 0, ""
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            return [*expanded, word, *remaining]
        if word.startswith("-") and len(word) > 1:
            option = options_by_name.get(word)
            takes = option is not None and not option.is_flag and not getattr(option, "count", False)
            repeatable = word if takes and option is not None and option.multiple else ""
            expanded.append(word)
            expanded += remaining[: int(takes)]
            remaining = remaining[int(takes) :]
        elif repeatable and bare >= required and not endless:
            expanded += [repeatable, word]
        else:
            bare, repeatable = bare + 1, ""
            expanded.append(word)
    return expanded


def check_outputs(command: str, values: Mapping[str, Any]) -> None:
    """Raise if an output of a command is one of its inputs, by any name or link.

    Args:
        command: Its name.
        values: Values of its arguments and options, by name.
    """
    inputs = [path for option, value in values.items() if option not in OUTPUTS for path in _paths(value)]
    for option in OUTPUTS:
        for output in _paths(values.get(option)):
            within = WRITTEN.get(command, ()) if reading.is_folder(output) else None
            for written in [output] if within is None else [output / name for name in within]:
                read = next((path for path in inputs if _reads(command, path, written)), None)
                if read is not None:
                    relation = "is one of the files of" if reading.is_folder(read) else "is the same file as"
                    raise InputError(
                        f"{option} must not replace a file that the command reads; {written} {relation} {read}: "
                        "write to another file."
                    )


def _paths(value: Any) -> Iterator[Path]:
    """The existing paths among the values of an option: PATH or NAME=PATH, one or several."""
    for item in value if isinstance(value, list | tuple) else (value,):
        if isinstance(item, str | Path):
            text = str(item)
            yield from (Path(part) for part in (text, text.partition("=")[2]) if part and reading.exists(part))


def _reads(command: str, read: Path, written: Path) -> bool:
    """Whether an input path is the output file, or a folder with that file among the inputs."""
    if not reading.is_file(written):
        return False
    if not reading.is_folder(read):
        return read.samefile(written)
    from deepval.files.canonical import MANIFEST

    target, folder = reading.resolve(written), reading.resolve(read)
    if folder not in target.parents:
        return False
    for cell in target.parents:
        if reading.is_file(cell / MANIFEST):
            name = target.relative_to(cell).as_posix()
            return name in _cell_files(cell) or (command != "score" and name.startswith("scores/"))
        if cell == folder:
            break
    # A folder of tables, or of a router's results.
    return target.suffix == ".parquet" or command == "import"


def _cell_files(cell: Path) -> set[str]:
    """The files of a cell that its manifest lists, the manifest and the ledger."""
    from deepval.cells.evaluation_data import LEDGER
    from deepval.files.canonical import MANIFEST, TOP, read_manifest

    try:
        listed = set(read_manifest(cell).files)
    except InputError:  # another kind of manifest, or a damaged one
        listed = set(TOP)
    return listed | {MANIFEST, LEDGER}
