"""Options that several commands share, each declared once, and the values that their
words stand for.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from deepval import checks
from deepval.cli.commands import OptionGroup, check_number, option
from deepval.errors import InputError, suggestion
from deepval.files import reading
from deepval.judging.allowances import (
    LEVELS,
    RAILS,
    Accounting,
    Budget,
    Selection,
    measured,
)
from deepval.judging.cases import EvaluationData, read_evaluation_data
from deepval.results import KINDS
from deepval.tables.columns import TAB, Form
from deepval.tables.costs import PROFILES
from deepval.tables.scores import Missing, Scores
from deepval.tables.split import ROLES
from deepval.workers import BACKENDS, LOCAL, Map, mapping

MOST_DRAWS = 10_000_000
LONGEST_NUMBER = 20
"""Digits of a whole number that are read."""

SUBJECT, BUDGETS, INTERVALS = "What is judged", "Budgets", "Intervals"
FILES, MORE, OUTPUT, WORKERS = (
    "Files of another form",
    "Further tables",
    "Output",
    "Workers",
)
"""Headings of options in the help of a command."""


Values = Annotated[
    Path,
    typer.Argument(
        help=(
            "A cell's folder, or a values file (.csv, .parquet): unit, input, [order], "
            "loss_<mode> or reward_<mode>."
        )
    ),
]
ScoreFiles = Annotated[
    list[str] | None,
    option(
        "--scores",
        "Scores files with columns input, score: -s a.csv b.csv, or NAME=FILE. "
        "Repeatable. For a cell also names of files in its folder "
        "scores; default: all of them.",
        short="-s",
        panel=SUBJECT,
    ),
]
CostFile = Annotated[
    Path | None,
    option(
        "--costs",
        "Costs of modes and allocators: a .toml file or a profile "
        f"({', '.join(PROFILES)}). Default: the cell's.",
        panel=SUBJECT,
    ),
]
Alphas = Annotated[
    list[float] | None,
    option(
        "--alpha",
        "Budget share in (0, 1]. Repeatable. Default: 0.1, 0.2, 0.3, 0.5.",
        within=(-math.inf, math.inf),  # a share, which the budget checks
        panel=BUDGETS,
    ),
]
Rails = Annotated[
    str | None,
    option(
        "--rails",
        "Energy convention: mj (module, the default), mj_gpu, mj_all.",
        words=RAILS,
        panel=BUDGETS,
    ),
]
Skipping = Annotated[
    bool,
    option(
        "--skipping",
        "Charge the full mode instead of the cheap one, not after it.",
        panel=BUDGETS,
    ),
]
Seed = Annotated[
    int, option("--seed", "Random seed.", within=(0, 2**63 - 1), panel=INTERVALS)
]
Units = Annotated[
    str | None, option("--units", "Units: a,b,c or a file with one per line.")
]
Calibration = Annotated[
    str | None,
    option(
        "--calibrate",
        "Units that set thresholds, such as validation. For a cell also by role.",
        words=ROLES,
        panel=SUBJECT,
    ),
]
DataFolder = Annotated[
    Path | None,
    option(
        "--data", "Folder with the data sets of tracks: kitti_tracking, nuscenes, ..."
    ),
]
WorkFolder = Annotated[
    Path,
    option(
        "--work", "Folder for cells and stored work; a stopped run continues there."
    ),
]
Json = Annotated[bool, option("--json", "Print JSON.", panel=OUTPUT)]


@dataclass(frozen=True)
class DrawOptions(OptionGroup):
    """The draws of units behind intervals."""

    draws: Annotated[
        str,
        option(
            "--draws",
            "Number of bootstrap draws of units, or 'exact'.",
            panel=INTERVALS,
        ),
    ] = "1000"
    seed: Seed = 0
    number: int | Literal["exact"] = field(init=False)
    """Number of draws, or "exact"."""

    def __post_init__(self) -> None:
        number: int | Literal["exact"] = "exact"
        if self.draws != "exact":
            if not self.draws.isdecimal():
                raise InputError(
                    f"--draws must be a number or 'exact'; found {self.draws!r}."
                )
            number = int(self.draws[:LONGEST_NUMBER])
            check_number("--draws", number, (0, MOST_DRAWS))
        object.__setattr__(self, "number", number)


@dataclass(frozen=True)
class Budgets(OptionGroup):
    """Budget shares and kinds of budgets."""

    alpha: Alphas = None
    budget: Annotated[
        list[str] | None,
        option(
            "--budget",
            f"{', '.join(KINDS)}. Repeatable. Default: those that the costs allow.",
            words=KINDS,
            panel=BUDGETS,
        ),
    ] = None

    def of(
        self, case: EvaluationData, scores: Mapping[str, Scores], *, every: bool = False
    ) -> list[Budget]:
        """Budgets for a case; without --budget, selection and the kinds that charge
        some scores, or `every` score.
        """
        # of ChargedBudgets
        rails, skipping = getattr(self, "rails", None), getattr(self, "skipping", False)
        convention: Any = one_of(rails or RAILS[0], RAILS, "--rails")
        accounting: Accounting = "skipping" if skipping else "cascade"
        kinds = self.budget or case.kinds(scores, convention, every=every)
        for kind in kinds:
            one_of(kind, KINDS, "--budget")
        if rails is not None and "energy" not in kinds:
            raise InputError(
                "--rails applies only to energy budgets; none was requested: give "
                f"--costs with {rails!r} for every mode."
            )
        if skipping and set(kinds) == {"selection"}:
            raise InputError(
                "--skipping applies only to latency, energy and money budgets; none "
                "was requested: give --costs."
            )
        return [
            Selection(a)
            if kind == "selection"
            else measured(kind, a, accounting=accounting, rails=convention)
            for kind in kinds
            for a in self.alpha or LEVELS
        ]


@dataclass(frozen=True)
class ChargedBudgets(Budgets):
    """Budgets, and how they charge."""

    rails: Rails = None
    skipping: Skipping = False


@dataclass(frozen=True)
class SubjectOptions(OptionGroup):
    """The costs, modes, units and inputs that are judged."""

    costs: CostFile = None
    modes: Annotated[
        str | None,
        option(
            "--modes",
            "Modes to judge, cheap first: small,large. Default: the file's order.",
            panel=SUBJECT,
        ),
    ] = None
    units: Annotated[
        str | None,
        option(
            "--units",
            "Units to judge: a,b,c or a file with one per line; for a cell also test, "
            "validation, train, fit or all. Default: test, or "
            "all if no scores were fitted.",
            words=ROLES,
            panel=SUBJECT,
        ),
    ] = None
    missing: Annotated[
        str,
        option(
            "--missing",
            "Inputs without a score: error, or worst (ranked last).",
            words=("error", "worst"),
            panel=SUBJECT,
        ),
    ] = "error"
    column: Annotated[
        list[str] | None,
        option(
            "--column",
            "OURS=YOURS: your name of a column, such as unit=drive "
            "or score=conf. Repeatable.",
            panel=FILES,
        ),
    ] = None
    losses: Annotated[
        str | None,
        option(
            "--losses",
            "Columns of losses that are named after the "
            "modes, cheap first: small,large.",
            panel=FILES,
        ),
    ] = None
    rewards: Annotated[
        str | None,
        option(
            "--rewards",
            "The same with rewards, such as 1 for a right answer and 0.",
            panel=FILES,
        ),
    ] = None
    sep: Annotated[
        str,
        option(
            "--sep",
            "Sign between cells, or tab; files without it have commas.",
            panel=FILES,
        ),
    ] = ","
    decimal: Annotated[
        str, option("--decimal", "Decimal sign of files with --sep.", panel=FILES)
    ] = "."
    missing_rule: Missing = field(init=False)
    """What happens to inputs without a score."""
    form: Form = field(init=False)
    """How files differ from ours."""

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "missing_rule", one_of(self.missing, get_args(Missing), "--missing")
        )
        pairs = {
            name: own
            for name, _, own in (text.partition("=") for text in self.column or ())
        }
        if not all(pairs.values()) or len(pairs) < len(self.column or ()):
            raise InputError(
                "--column must be OURS=YOURS, "
                f"each once; found {' '.join(self.column or ())!r}."
            )
        sep = TAB if self.sep in ("tab", "\\t") else self.sep
        modes = (name_list(self.losses) or (), name_list(self.rewards) or ())
        object.__setattr__(self, "form", Form(pairs, sep, self.decimal, *modes))

    def case(self, values: Path) -> EvaluationData:
        """The cell or values file with these costs and modes."""
        return read_evaluation_data(
            values, costs=self.costs, modes=name_list(self.modes), form=self.form
        )


@dataclass(frozen=True)
class Workers(OptionGroup):
    """How many workers share the units, and where they run."""

    workers: Annotated[
        int,
        option("--workers", "Number of workers.", within=(1, 1_024), panel=WORKERS),
    ] = 1
    backend: Annotated[
        str,
        option(
            "--backend",
            "loky (processes of this machine) or ray (a cluster).",
            words=BACKENDS,
            panel=WORKERS,
        ),
    ] = LOCAL

    def start(self) -> AbstractContextManager[Map]:
        """The map over units, to be used in a `with` statement."""
        return mapping(self.workers, self.backend)


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


def format_name(
    form: str | None, *, json: bool, allowed: tuple[str, ...], usual: str
) -> str:
    """The output format that --format or --json asks for, otherwise the usual one; two
    formats are refused.
    """
    name = one_of(form or ("json" if json else usual), allowed, "--format")
    if json and name != "json":
        raise InputError(
            f"--json and --format {name} are two formats: give one of them."
        )
    return name


def share(text: str, option: str) -> float:
    """A share in the text of an option, 1% or 0.01."""
    plain = text.strip().removesuffix("%")
    return checks.number_in(plain, option) / (1 if plain == text.strip() else 100)
