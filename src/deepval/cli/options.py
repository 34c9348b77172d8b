"""Words of the command line -> what the library takes: options that several commands share."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import deepval
from deepval.cells.case import Case
from deepval.cells.spec import ROLES
from deepval.cli import bounds
from deepval.cli.saying import say
from deepval.engines import ENGINES
from deepval.errors import InputError, one_line, suggestion
from deepval.files import reading
from deepval.judging.budgets import LEVELS, RAILS, Accounting, Budget, Selection, measured
from deepval.report import FORMS, console
from deepval.results import KINDS, Result
from deepval.tables.costs import PROFILES
from deepval.tables.scores import REFERENCES, Scores

if TYPE_CHECKING:
    from deepval.datasets import Dataset

LEAST_WIDTH, ENDLESS = 40, 10_000
"""Columns of the narrowest terminal that tables are made for, and of what is none."""
MOST_ROWS = 200
"""Rows of a table on the console; a longer one is summarised."""

LONGEST_NUMBER = 20
"""Digits of a whole number that are looked at."""

SUBJECT, BUDGETS, INTERVALS = "What is judged", "Budgets", "Intervals"
MORE, OUTPUT, ENGINE = "Further tables", "Output", "Who does the work"
"""Headings of options in the help of a command."""


def offered(*words: str) -> Callable[[], list[str]]:
    """What a shell completes an option with."""
    return lambda: list(words)


Values = Annotated[
    Path,
    typer.Argument(
        help="A cell's folder, or a values file (.csv, .parquet): unit, input, [order], loss_<mode> or reward_<mode>."
    ),
]
ScoreFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--scores",
        "-s",
        help="Scores files: -s a.csv b.csv, each FILE or NAME=FILE with columns input, score. Repeatable. Of a cell "
        "also names of files in its folder scores; all of them if none is given.",
        rich_help_panel=SUBJECT,
    ),
]
CostFile = Annotated[
    Path | None,
    typer.Option(
        "--costs",
        help=f"Costs of modes and allocators: .toml, or one that ships ({', '.join(PROFILES)}). Default: the cell's.",
        rich_help_panel=SUBJECT,
    ),
]
Alphas = Annotated[
    list[float] | None,
    typer.Option(
        "--alpha", help="Budget share in (0, 1]. Repeatable. Default: 0.1, 0.2, 0.3, 0.5.", rich_help_panel=BUDGETS
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--budget",
        help=f"{', '.join(KINDS)}. Repeatable. Default: what costs allow.",
        rich_help_panel=BUDGETS,
        autocompletion=offered(*KINDS),
    ),
]
Rails = Annotated[
    str | None,
    typer.Option(
        "--rails",
        help="Energy convention: mj (module, the default), mj_gpu, mj_all.",
        rich_help_panel=BUDGETS,
        autocompletion=offered(*RAILS),
    ),
]
Skipping = Annotated[
    bool,
    typer.Option(
        "--skipping", help="Charge the full mode instead of, not after, the cheap one.", rich_help_panel=BUDGETS
    ),
]
DrawNumber = Annotated[
    str,
    typer.Option("--draws", help="Number of bootstrap draws of units, or 'exact'.", rich_help_panel=INTERVALS),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the draws.", rich_help_panel=INTERVALS)]
Modes = Annotated[
    str | None,
    typer.Option(
        "--modes",
        help="Modes to judge, cheap first: small,large. Default: the file's order.",
        rich_help_panel=SUBJECT,
    ),
]
Units = Annotated[str | None, typer.Option("--units", help="Units: a,b,c or a file with one per line.")]
JudgedUnits = Annotated[
    str | None,
    typer.Option(
        "--units",
        help="Units to judge: a,b,c or a file with one per line; of a cell also by role: test, validation, "
        "train, fit, all. Default: test, or all where no scores were fitted.",
        rich_help_panel=SUBJECT,
        autocompletion=offered(*ROLES),
    ),
]
Calibration = Annotated[
    str | None,
    typer.Option(
        "--calibrate",
        help="Units to calibrate streaming policies on, such as validation.",
        rich_help_panel=MORE,
        autocompletion=offered(*ROLES),
    ),
]
MissingRule = Annotated[
    str,
    typer.Option(
        "--missing",
        help="Inputs without a score: error, or worst (ranked last).",
        rich_help_panel=SUBJECT,
        autocompletion=offered("error", "worst"),
    ),
]
TermFile = Annotated[
    Path | None,
    typer.Option(
        "--terms",
        help="Loss terms (.parquet, .csv) of the inputs, to keep in the result. Default: the cell's.",
        rich_help_panel=SUBJECT,
    ),
]
Weights = Annotated[
    list[str] | None,
    typer.Option("--weight", help="NAME=NUMBER: weigh a loss term otherwise. Repeatable.", rich_help_panel=SUBJECT),
]
Maps = Annotated[
    Path | None, typer.Option("--maps", help="Folder of lane maps: nuScenes' map expansion, or ScenarioNet records.")
]
TableMemory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        help="How much memory may be used, such as 1.5GB: Parquet files that would take more are read piece by piece. "
        "Default: DEEPVAL_MEMORY, else most of what is free. 0: always piece by piece.",
        rich_help_panel=SUBJECT,
    ),
]
PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        help="A registered plan: say which comparisons were planned (beside --json: on stderr).",
        rich_help_panel=OUTPUT,
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        help=f"Who works: {' or '.join(ENGINES)} (a cluster, extra ray).",
        autocompletion=offered(*ENGINES),
        rich_help_panel=ENGINE,
    ),
]
Workers = Annotated[int, typer.Option("--workers", help="How many do it at once.", rich_help_panel=ENGINE)]
Memory = Annotated[
    int | None,
    typer.Option(
        "--worker-memory",
        help="Most MB that a worker may take beyond what it starts with (Linux).",
        rich_help_panel=ENGINE,
    ),
]
Address = Annotated[
    str | None,
    typer.Option("--address", help="Of a running Ray cluster. Default: one of this machine.", rich_help_panel=ENGINE),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=OUTPUT)]


def maps_of(dataset: str, maps: Path | None) -> dict[str, Path]:
    """What a data set is opened with to find its lane maps; only nuScenes has them apart from its own files."""
    if maps is not None and dataset != "nuscenes":
        raise InputError(f"--maps changes nothing with --dataset {dataset}: leave it out, or give another --dataset.")
    return {} if maps is None else {"maps": maps}


def check_roads(source: "Dataset", units: Sequence[str]) -> None:
    """An error unless every unit may have a lane map, for systems that draw the road."""
    lacking = source.without_map(units)
    if lacking:
        others = ",".join(unit for unit in units if unit not in lacking)
        advice = f" or name the other{'s' if ',' in others else ''}: --units {others}" if others else ""
        raise InputError(
            f"the learned planner draws the road, and {len(lacking)} of {len(units)} units have no lane map "
            f"({', '.join(lacking)}): give --maps with their maps{',' if advice else ''}{advice}."
        )


def score_files(texts: Iterable[str] | None) -> dict[str, Path]:
    """Score files by allocator: NAME=FILE, or the name of the file."""
    return named_files(texts or (), "Allocators", lambda path: path.stem)


def named_files(texts: Iterable[str], who: str, name_of: Callable[[Path], str]) -> dict[str, Path]:
    """Files by name: NAME=FILE, or what `name_of` calls a bare FILE; a name that is given twice is refused."""
    named: dict[str, Path] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        path = Path(file if equals else text)
        name = name if equals else name_of(path)
        if name in named:
            raise InputError(f"{who} need different names; {name!r} is given twice. Write NAME=FILE.")
        named[name] = path
    return named


def budgets(
    case: Case,
    scores: Mapping[str, Scores],
    alphas: list[float] | None = None,
    kinds: list[str] | None = None,
    *,
    rails: str | None = None,
    skipping: bool = False,
    every: bool = False,
) -> list[Budget]:
    """Budgets of the kinds asked for; by default selection and what charges some of the scores, or `every` one."""
    convention: Any = one_of(rails or RAILS[0], RAILS, "--rails")
    accounting: Accounting = "skipping" if skipping else "cascade"
    budget_kinds = [one_of(kind, KINDS, "--budget") for kind in kinds or case.kinds(scores, convention, every=every)]
    if rails is not None and "energy" not in budget_kinds:
        raise InputError(
            f"--rails is of energy budgets, and none is judged: give --costs that have {rails!r} throughout."
        )
    if skipping and set(budget_kinds) == {"selection"}:
        raise InputError(
            "--skipping is of measured budgets (latency, energy, money), and none is judged: give --costs."
        )
    levels = alphas or LEVELS
    return [
        Selection(a) if kind == "selection" else measured(kind, a, accounting=accounting, rails=convention)
        for kind in budget_kinds
        for a in levels
    ]


def difference(value: float | None, *, form: str, draws: int | Literal["exact"]) -> float | None:
    """The difference to resolve, checked before anything is judged."""
    if value is None:
        return None
    if not value:
        raise InputError(f"--resolve must be a difference other than 0; found {value:g}.")
    if form != "console" or draws == 0:
        raise InputError(
            "--resolve is a table on the console, and needs draws: leave --json, --format or --draws 0 out."
        )
    return value


def at_least(number: int, least: int, option: str) -> int:
    """The number, which must not be smaller."""
    if number < least:
        raise InputError(f"{option} must be {least} or more; found {number}.")
    return number


def draws(text: str) -> int | Literal["exact"]:
    """A number of draws, or "exact"."""
    if text == "exact":
        return "exact"
    if not text.isdecimal():
        raise InputError(f"--draws must be a number or 'exact'; found {text!r}.")
    number = int(text[:LONGEST_NUMBER])
    bounds.check("--draws", number)
    return number


def weights(texts: Iterable[str] | None) -> dict[str, float]:
    """Weights of loss terms from NAME=NUMBER."""
    weights_by_term = {}
    for text in texts or ():
        name, _, number = text.rpartition("=")
        if not name:
            raise InputError(f"--weight must be NAME=NUMBER; found {text!r}.")
        weights_by_term[name] = bounds.number(number, "--weight NAME=NUMBER")
    return weights_by_term


def unit_list(text: str | None, roles: Sequence[str] = ()) -> list[str] | None:
    """Units from a,b,c or from a file with one per line; a role is one, also where a file has its name."""
    if text is None:
        return None
    parts = text.split(",")
    if text not in roles and reading.is_file(text):
        parts = reading.text(text, "a list of units, one per line,").splitlines()
    named = [part.strip() for part in parts if part.strip()]
    if not named:
        raise InputError(f"At least one unit must be named; found none in {text!r}.")
    return named


def mode_list(text: str | None) -> list[str] | None:
    """Modes from small,large."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def one_of(text: str, allowed: tuple[str, ...], option: str) -> Any:
    """The word, which must be one of those allowed."""
    if text not in allowed:
        raise InputError(f"{option} must be one of {', '.join(allowed)}; found {text!r}{suggestion(text, allowed)}")
    return text


def show(result: Result, form: str, *, sections: Sequence[str] | None = None, whole: bool = True) -> None:
    """Print a result in a form; on the console the named tables, or all, a summary where they are long."""
    if form == "console":
        most = None if whole else MOST_ROWS
        text = console.render(result, width=width(), color=colored(), sections=sections, most=most)
        typer.echo(text, nl=False)
    else:
        typer.echo(FORMS[form](result), nl=False)


def width() -> int:
    """The terminal's width; a file or a pipe gets every column in one line."""
    from shutil import get_terminal_size

    return max(LEAST_WIDTH, get_terminal_size().columns) if sys.stdout.isatty() else ENDLESS


def colored() -> bool:
    """Whether what is printed may be coloured."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def print_resolution(result: Result, difference: float) -> None:
    """How many units would tell a difference of this size from nothing, row by row."""
    say(f"\nUnits that would resolve a difference of {difference:g} of the all-cheap loss with 80 % power:")
    for row in result.rows:
        if row.allocator in REFERENCES or row.verdict == "infeasible":
            continue
        if row.versus_random_spread is None:
            say(f"  {row.allocator}, {row.kind} {row.alpha:g}: unknown ({row.reason})")
        else:
            units_needed = deepval.units_to_resolve(row.versus_random_spread, row.units, difference)
            say(f"  {row.allocator}, {row.budget.label}: {units_needed:,} (there are {row.units})")


def as_json(content: Any) -> str:
    """Content as JSON text."""
    import json

    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def without_nan(content: Any) -> Any:
    """Content with None where a number is NaN, as JSON wants it."""
    if isinstance(content, dict):
        return {key: without_nan(value) for key, value in content.items()}
    return None if isinstance(content, float) and content != content else content


class _Bar:
    """A bar on stderr that appears once the work has taken two seconds."""

    def __init__(self) -> None:
        self.began, self.bar, self.task = time.monotonic(), None, None

    def at(self, label: str, done: int, total: int) -> None:
        """Show how far the work is."""
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import Progress

        if self.bar is None and time.monotonic() - self.began > 2:
            self.bar = Progress(console=Console(stderr=True), transient=True)
            self.bar.start()
            self.task = self.bar.add_task("", total=total)
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, description=escape(one_line(label)), completed=done, total=total)

    def stop(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()


@contextmanager
def step_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A function to call with (label, done, total) while work goes on."""
    bar = _Bar()
    try:
        yield bar.at
    finally:
        bar.stop()


def watch(items: Any, label: str) -> Iterable[Any]:
    """The items, with a bar on stderr once they have taken two seconds."""
    with step_bar() as step:
        for done, item in enumerate(items):
            step(label, done, len(items))
            yield item
