"""Options that several commands share, each declared once, and the values that their
words stand for.

A group of options is a frozen dataclass: its fields become options of the command, and
its docstring is their help. A command passes the group on as one value. The library is
imported inside functions, so that help loads none of it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_origin

from cyclopts import Group, Parameter

from deepval.basics.errors import InputError, few, suggestion
from deepval.basics.files import reading

if TYPE_CHECKING:
    from deepval.basics.workers import Map
    from deepval.judge.allowances import Budget
    from deepval.judge.cases import EvaluationData
    from deepval.judge.tables.scores import Scores

MOST_DRAWS = 10_000_000
LONGEST_NUMBER = 20
"""Digits of a whole number that are read."""

SUBJECT = Group.create_ordered("What is judged")
COLUMNS = Group.create_ordered("Columns of the log")
BUDGETS = Group.create_ordered("Budgets")
INTERVALS = Group.create_ordered("Intervals")
TABLES = Group.create_ordered("Further tables")
BEGIN = Group.create_ordered("To begin")
OTHERS = Group.create_ordered("Options")
WORKERS = Group.create_ordered("Workers")
OUTPUT = Group.create_ordered("Output")
# Headings of options in a help, in this order.

BudgetKind = Literal["selection", "latency", "energy", "money"]
Missing = Literal["error", "worst"]
Format = Literal["text", "csv", "markdown", "latex", "json"]
"""Words that an option takes; the library has the same ones (tests/cli)."""


@dataclass(frozen=True)
class Between:
    """The least and the greatest value of a number, or of every number in a list."""

    least: float = -math.inf
    greatest: float = math.inf

    def __call__(self, _kind: Any, value: Any) -> None:
        """Raise if a number lies outside; the option's name is put before the text."""
        for number in value if isinstance(value, list | tuple) else (value,):
            fault = number_fault(number, self.least, self.greatest)
            if fault is not None:
                raise ValueError(fault)


def number_fault(number: Any, least: float, greatest: float) -> str | None:
    """What is wrong with a number outside of its limits; None for other values."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    if isinstance(number, float) and not math.isfinite(number):
        return f"must be a finite number; found {number:g}."
    if number < least:
        return f"must be {least:,} or more; found {number:,}."
    if number > greatest:
        return f"must be at most {greatest:,}; found {number:,}."
    return None


def whole_number(kind: Any, tokens: Sequence[Any]) -> int | tuple[int, ...]:
    """The number in a word, or in several; cyclopts alone would round 1.5."""
    numbers = []
    for token in tokens:
        try:
            numbers.append(int(token.value))
        except ValueError:
            text = f"must be a whole number; found {token.value!r}."
            raise ValueError(text) from None
    if get_origin(kind) is tuple:
        return tuple(numbers)
    return numbers[0]


def whole(least: float, greatest: float, *, group: Group = OTHERS) -> Parameter:
    """The declaration of a whole number with limits."""
    return Parameter(
        converter=whole_number, validator=Between(least, greatest), group=group
    )


Values = Annotated[
    Path,
    Parameter(
        help=(
            "A cell's folder, or a values file (.csv, .parquet): unit, input, [order], "
            "loss_<mode> or reward_<mode>."
        )
    ),
]
ScoreFiles = Annotated[
    tuple[str, ...],
    Parameter(
        alias="-s",
        group=SUBJECT,
        help=(
            "Scores files with columns input, score: -s a.csv b.csv, or NAME=FILE, or "
            "a folder of .csv files. Repeatable. For a cell also names of files in "
            "its folder scores; default: all of them."
        ),
    ),
]
TableBy = Annotated[
    tuple[str, ...],
    Parameter(
        group=SUBJECT,
        help=(
            "Also judge a table that names a mode for each value of this column (task, "
            "tenant, unit), chosen out of fold. Repeatable."
        ),
    ),
]
Skipping = Annotated[
    bool,
    Parameter(
        group=BUDGETS,
        help="Charge the full mode instead of the cheap one, not after it.",
    ),
]
Seed = Annotated[
    int, whole(0, 2**63 - 1, group=INTERVALS), Parameter(help="Random seed.")
]
Calibration = Annotated[
    str | None,
    Parameter(
        group=SUBJECT,
        help=(
            "Units that set thresholds, such as validation. For a cell also by role."
        ),
    ),
]
UnitNames = Annotated[
    str | None, Parameter(help="Units: a,b,c or a file with one per line.")
]
DataFolder = Annotated[
    Path | None,
    Parameter(
        help="Folder with the data sets of tracks: kitti_tracking, nuscenes, ..."
    ),
]
WorkFolder = Annotated[
    Path,
    Parameter(help="Folder for cells and stored work; a stopped run continues there."),
]
Out = Annotated[Path | None, Parameter(alias="-o", group=OUTPUT)]


@Parameter(name="*")
@dataclass(frozen=True)
class DrawOptions:
    """The draws of units behind intervals.

    Attributes:
        draws: Number of bootstrap draws of units, or 'exact'.
    """

    draws: Annotated[
        str,
        Parameter(validator=lambda _, text: draw_number(text), group=INTERVALS),
    ] = "1000"
    seed: Seed = 0

    @property
    def number(self) -> int | Literal["exact"]:
        """Number of draws, or "exact"."""
        return draw_number(self.draws)


@Parameter(name="*")
@dataclass(frozen=True)
class Budgets:
    """Budget shares and kinds of budgets.

    Attributes:
        alpha: Budget share in (0, 1]. Repeatable. Default: 0.1, 0.2, 0.3, 0.5.
        budget: What the budget counts. Repeatable. Default: those that the costs allow.
    """

    # Each budget checks that its share lies in (0, 1].
    alpha: Annotated[
        tuple[float, ...], Parameter(validator=Between(), group=BUDGETS)
    ] = ()
    budget: Annotated[tuple[BudgetKind, ...], Parameter(group=BUDGETS)] = ()


@Parameter(name="*")
@dataclass(frozen=True)
class ChargedBudgets(Budgets):
    """Budgets, and how they charge."""

    skipping: Skipping = False

    def of(
        self,
        case: "EvaluationData",
        scores: "Mapping[str, Scores]",
        *,
        every: bool = False,
    ) -> "list[Budget]":
        """Budgets for a case; without --budget, selection and the kinds that charge
        some scores, or `every` score.
        """
        from deepval.judge.allowances import LEVELS, Selection, measured

        kinds = self.budget or case.kinds(scores, every=every)
        if self.skipping and set(kinds) == {"selection"}:
            raise InputError(
                "--skipping applies only to latency, energy and money budgets; none "
                "was requested: give --costs."
            )

        # Prices in a table are those of calls: the one that runs is charged.
        is_priced = not self.budget and case.table.costs is None and "money" in kinds
        accounting = "skipping" if self.skipping or is_priced else "cascade"
        budgets: list[Budget] = []
        for kind in kinds:
            for share in self.alpha or LEVELS:
                if kind == "selection":
                    budget = Selection(share)
                else:
                    budget = measured(
                        kind,
                        share,
                        accounting=accounting,
                        rails=case.energy_convention,
                    )
                budgets.append(budget)
        return budgets


@Parameter(name="*")
@dataclass(frozen=True)
class SubjectOptions:
    """The costs, modes, units and inputs that are judged.

    Attributes:
        costs: Costs of modes and allocators: a .toml file or a profile
            (jetson-agx-xavier, jetson-agx-xavier-nuplan, jetson-agx-xavier-nuscenes).
            Default: the cell's.
        modes: Modes to judge, cheap first: small,large. Default: the file's order.
        units: Units to judge: a,b,c or a file with one per line; for a cell also test,
            validation, train, fit or all. Default: test, or all if no scores were
            fitted.
        missing: Inputs without a score: error, or worst (ranked last).
        cheap_always_runs: The cheap output is needed on every input, so that running
            another mode alone saves nothing.
    """

    costs: Annotated[Path | None, Parameter(group=SUBJECT)] = None
    modes: Annotated[str | None, Parameter(group=SUBJECT)] = None
    units: Annotated[str | None, Parameter(group=SUBJECT)] = None
    missing: Annotated[Missing, Parameter(group=SUBJECT)] = "error"
    cheap_always_runs: Annotated[bool, Parameter(group=SUBJECT)] = False

    def case(self, values: Path) -> "EvaluationData":
        """The cell or values file with these costs and modes."""
        from deepval.judge.cases import read_evaluation_data

        case = read_evaluation_data(
            values, costs=self.costs, modes=name_list(self.modes)
        )
        if not self.cheap_always_runs:
            return case
        return replace(case, table=replace(case.table, cheap_always_runs=True))


@Parameter(name="*")
@dataclass(frozen=True)
class Printing:
    """How to print.

    Attributes:
        form: Output format.
    """

    form: Annotated[
        Literal["text", "json"], Parameter(name="--format", group=OUTPUT)
    ] = "text"

    @property
    def is_json(self) -> bool:
        """Whether JSON is printed instead of text."""
        return self.form == "json"


@Parameter(name="*")
@dataclass(frozen=True)
class Workers:
    """How many processes share the units.

    Attributes:
        workers: Number of processes.
    """

    workers: Annotated[int, whole(1, 1_024, group=WORKERS)] = 1

    def start(self) -> "AbstractContextManager[Map]":
        """The map over units, to be used in a `with` statement."""
        from deepval.basics.workers import mapping

        return mapping(self.workers)


# The groups where no option of them is stated.
PRINTING_DEFAULTS = Printing()
WORKERS_DEFAULTS = Workers()
SUBJECT_DEFAULTS = SubjectOptions()
DRAWS_DEFAULTS = DrawOptions()
CHARGED_DEFAULTS = ChargedBudgets()


OTHER_NAMES = {
    "calibration": "--calibrate",
    "memory": "DEEPVAL_MEMORY",
    "models": "--modes",
}
"""Options, or variables, that have another name than the argument that they set."""
IN_PYTHON = ("curve_points", "terms", "weights")
"""Arguments that only Python has."""


def option_of(name: str, value: object = None) -> str:
    """The option that sets an argument of the library, for `errors.arguments_as`."""
    if name in IN_PYTHON:
        return f"{name} in Python"
    option = OTHER_NAMES.get(name, "--" + name.replace("_", "-"))
    if value is None:
        return option
    if isinstance(value, list):
        value = ",".join(map(str, value))
    return f"{option} {value}"


def draw_number(text: str) -> int | Literal["exact"]:
    """The number of draws in the text of --draws."""
    if text == "exact":
        return "exact"
    if not text.isdecimal():
        raise InputError(f"--draws must be a number or 'exact'; found {text!r}.")
    number = int(text[:LONGEST_NUMBER])
    fault = number_fault(number, 0, MOST_DRAWS)
    if fault is not None:
        raise InputError(f"--draws {fault}")
    return number


def named_files(
    texts: Iterable[str] | None,
    owners: str = "Allocators",
    name_of: Callable[[Path], str] = lambda path: path.stem,
) -> dict[str, Path]:
    """Files by name: NAME=FILE, or a bare FILE under `name_of(FILE)`; a repeated name
    is refused.
    """
    files: dict[str, Path] = {}
    for text in texts or ():
        name, equals, file = text.partition("=")
        path = Path(file if equals else text)
        name = name if equals else name_of(path)
        if not name:
            raise InputError(
                f"{owners} need files, as FILE or NAME=FILE; {text!r} names none."
            )
        if name in files:
            raise InputError(
                f"{owners} need different names; {name!r} "
                "is given twice. Write NAME=FILE."
            )
        files[name] = path
    return files


def score_files(texts: Iterable[str]) -> dict[str, Path]:
    """Scores files by allocator; a folder of .csv files stands for each of them.

    A folder of .parquet files is one file in parts.
    """
    files: list[str] = []
    for text in texts:
        inside = []
        if reading.is_folder(text):
            inside = sorted(reading.find(Path(text), "*.csv"))
            others = sorted(reading.find(Path(text), "*.parquet"))
            if not inside and not others:
                raise InputError(
                    f"{text}: a folder of scores must have a .csv file for each "
                    "allocator; it has none."
                )
            if inside and others:
                raise InputError(
                    f"{text}: a folder of scores must have one .csv file per "
                    "allocator, or .parquet files that are the parts of one; it has "
                    f"{few([inside[0].name, others[0].name])}: name the files, "
                    f"-s {inside[0]}."
                )
        files += map(str, inside or [text])
    return named_files(files)


def unit_list(text: str | None, roles: Sequence[str] = ()) -> list[str] | None:
    """Units from a,b,c or from a file with one per line; a role stays a role even if a
    file has its name.
    """
    if text is None:
        return None
    parts = text.split(",")
    if text not in roles and reading.is_file(text):
        parts = reading.text(text, "a list of units, one per line,").splitlines()
    units = [part.strip() for part in parts if part.strip()]
    if not units:
        raise InputError(f"At least one unit must be named; found none in {text!r}.")
    return units


def name_list(text: str | None) -> list[str] | None:
    """Names from comma-separated text, such as small,large."""
    return (
        None
        if text is None
        else [part.strip() for part in text.split(",") if part.strip()]
    )


def one_of(text: str, allowed: tuple[str, ...], option: str) -> Any:
    """The word, if it is one of those allowed."""
    if text not in allowed:
        raise InputError(
            f"{option} must "
            "be one "
            f"of {', '.join(allowed)}; found {text!r}{suggestion(text, allowed)}"
        )
    return text


def share(text: str, option: str) -> float:
    """A share in the text of an option, 1% or 0.01."""
    from deepval.basics import checks

    plain = text.strip().removesuffix("%")
    return checks.number_in(plain, option) / (1 if plain == text.strip() else 100)
