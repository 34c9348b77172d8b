"""One analysis, declared: what it takes, how its rows are computed and printed, and
what the paper calls it.

`deepval analyse NAME`, `deepval reproduce` and docs/analyses.md are made from these
declarations. To add an analysis, write `analyses/NAME.py` with a docstring that ends in
the paragraph for its users (`details`), a row class (`paper.row_columns`), functions
`rows(...)` and `table(...)`, and `declare`, and add its name to `GROUPS` below.
"""

import inspect
import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import import_module
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    get_args,
    get_origin,
    get_type_hints,
)

from deepval.cells.folder import BuiltCell
from deepval.files.canonical import json_content, plain
from deepval.judging.allowances import Selection
from deepval.paper.row_columns import columns
from deepval.paper.stored_files import rows_from_bytes, rows_to_bytes
from deepval.paper.tidy import Column, Dots, Row, from_records, printed, records
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart
from deepval.report.text_tables import Table
from deepval.results import Record

if TYPE_CHECKING:
    from deepval.paper.analyses.contrasts import Label

GROUPS: Mapping[str, tuple[str, ...]] = {
    "What escalation does": (
        *(
            "signs",
            "composition",
            "ties",
            "mechanism",
            "gallery",
            "observations",
            "viability",
            "lift",
        ),
        *("operating-points", "persistence", "sensitivity", "robustness", "external"),
    ),
    "Perception against decision": (
        *(
            "agreement",
            "consumers",
            "optima",
            "targets",
            "perception-ranking",
            "selection-regret",
        ),
    ),
    "Allocators": (
        *(
            "held-out",
            "benefit-harm",
            "wins",
            "half-widths",
            "concentration",
            "optimality",
            "arbiter",
        ),
        *(
            "seeds",
            "out-of-fold",
            "transfer",
            "objective-swap",
            "published-objectives",
            "target-transforms",
        ),
        *("overview", "pooled"),
    ),
    "Cost": (
        *(
            "charged",
            "budgets",
            "break-even",
            "gaps",
            "uniform",
            "capacity",
            "ladder",
            "skipping",
            "streams",
        ),
        *("deadlines",),
    ),
}
"""Every analysis, by part of the report and in its order."""
ANALYSES = tuple(name for names in GROUPS.values() for name in names)
REPORT_ONLY = ("overview", "pooled", "charged")
"""Analyses that appear in a report and are not commands; one module declares them."""


def _is_first_of_pair(cell: BuiltCell) -> bool:
    return (cell.spec.system, cell.spec.geometry) == ("braking", "monocular")


FIRST_OF_PAIR = (_is_first_of_pair, "no cell of braking with monocular geometry")
"""One cell of each pair of modes, for analyses that take long."""


@dataclass(frozen=True)
class Option:
    """An argument of `rows` that a user may set, declared as `name: Annotated[type,
    Option(...)] = default`.

    Attributes:
        help: One phrase.
        flags: Its names on the command line; if empty, the name is `--name`.
        limits: Smallest and largest value allowed.
        read: Checks or converts the value from the command line.
    """

    help: str
    flags: tuple[str, ...] = ()
    limits: tuple[float, float] | None = None
    read: Callable[[Any], Any] | None = None


ALPHAS = Option(
    "Share of inputs that may be escalated. Repeatable.",
    ("--alpha",),
    (-math.inf, math.inf),
    lambda alphas: [Selection(alpha).alpha for alpha in alphas],
)


@dataclass(frozen=True)
class PartOption:
    """An option of a command for a part: the type of its value, its declaration, its
    default.
    """

    kind: Any
    option: Option
    default: Any = None


@dataclass(frozen=True)
class Part:
    """A part of a cell that analyses take (`paper.study.PARTS`).

    Attributes:
        meaning: What it is.
        make: Makes it from a cell.
        groups: Option groups that a command needs for it: draws, charges (measured
            budgets), data (to read the data
        set).
        options: Single options that a command needs for it, by the field of `Choices`
            that they set.
        saved: Help text of the argument that names cells, if saved results are accepted
            instead of cells.
        verb: Label of the progress bar while a command makes it.
        turn: In which turn a reproduction makes it. Parts of turns 1 and 2 need
            separate fits, on fewer units or other
        labels.
        ready: Whether it needs no computation.
        has_costs: Whether it depends on costs.
        reproduced_as: The part that a reproduction supplies instead.
        joined: Combines the parts of all cells into one value.
    """

    meaning: str
    make: Callable[[Any, Watch], Any]
    groups: tuple[str, ...] = ()
    options: Mapping[str, PartOption] = field(default_factory=dict)
    saved: str | None = None
    verb: str | None = None
    turn: int = 0
    ready: bool = False
    has_costs: bool = False
    reproduced_as: str | None = None
    joined: Callable[[Mapping[str, Any]], Any] | None = None

    def argument(
        self, name: str, cells: Sequence[Any], *, watch: Watch = unwatched
    ) -> Any:
        """The part of each cell by label; cells that it does not apply to are left
        out.
        """
        every = watch(cells, self.verb) if self.verb else cells
        parts = {at.name: part for at in every if (part := at.part(name)) is not None}
        return parts if self.joined is None else self.joined(parts)


def settings_of(
    rows: Callable[..., Any], *, without: Collection[str]
) -> dict[str, Any]:
    """Defaults of the arguments of `rows` that a user may set."""
    settings = {}
    for name, parameter in inspect.signature(rows).parameters.items():
        is_supplied = name in without or name in PASSED
        if not is_supplied and parameter.default is not parameter.empty:
            settings[name] = parameter.default
    return settings


def declared_options(rows: Callable[..., Any]) -> dict[str, tuple[Any, Option]]:
    """Type and declaration of the arguments of `rows` that are declared with an
    Option.
    """
    declared = {}
    for name, hint in get_type_hints(rows, include_extras=True).items():
        if get_origin(hint) is Annotated and isinstance(hint.__metadata__[0], Option):
            declared[name] = (hint.__origin__, hint.__metadata__[0])
    return declared


@dataclass(frozen=True)
class Summary:
    """A second table of an analysis: its rows summarised over cells.

    Attributes:
        rows: Computes it from the rows.
        columns: Its columns, in order.
        title: Title of the printed table.
        notes: Sentences below the table, from its rows.
        tables: Its printed tables, if one table of all rows is not what to print.
        is_record: Whether a report stores it with the rows.
    """

    rows: Callable[[Sequence[Row]], Iterable[Row]]
    columns: Sequence[Column]
    title: str = ""
    notes: Callable[[Sequence[Row]], Iterable[str]] | None = None
    tables: Callable[[Sequence[Row]], list[Table]] | None = None
    is_record: bool = False

    def printed(self, rows: Sequence[Row]) -> list[Table]:
        """The summary of some rows as tables to print."""
        return as_tables(self, list(self.rows(rows)))


@dataclass(frozen=True)
class Analysis:
    """One analysis: its rows are dicts, and `columns` says what is in them.

    Most print one table of all rows: a `title`, and `notes` if it needs any. The others
    print a part of the rows, several tables, or a table with sections. They give
    `tables`, an ordinary function that calls `tidy.printed` once per table.

    Attributes:
        name: Its name on the command line.
        shows: What it shows, in one line of at most 52 characters.
        details: What its rows show, in one or two sentences, for the docs.
        paper: What the paper calls it.
        example: Arguments of an example command.
        rows: Computes the rows from cells. Its keyword arguments become options.
        columns: The columns of its rows, in order.
        title: Title of the printed table.
        notes: Sentences below the table, from its rows.
        tables: All printed tables, if one table of all rows is not what to print.
        charts: What to draw.
        figure: Draws the rows for a file (`--figure`).
        over_cells: The rows summarised over cells.
        see: Page and section of the docs with its definitions.
        asks: Parts of the cells that it asks for (`study.PARTS`): they become option
            groups, and a reproduction prepares them.
        by: Which cells one call takes in a report: single cells, cells that share data
            set, modes and geometry ("view"), cells that share data set and modes
            ("pair"), or all cells of a data set.
        judges: Whether it judges scores by itself, or the losses of test units alone;
            ledgers of cells count it.
        long: Whether it takes long, so that workers start with it.
        least: Smallest number of cells that it needs.
        needs_data: Whether it needs the data that the cells were built from.
        among: Which cells it applies to, and what a report says if there are none.
        names: Whether cells are named by folder name or by path.
        recipes: Recipes that the command fits.
        labels: Labels that the command fits them on.
        budgets: Kinds of budgets that the command judges by default.
        empty: Message if there are no rows.
        table_rows: Computes the rows from tables and their scores; the command then
            takes values files, too.
    """

    name: str
    shows: str
    details: str
    paper: str
    example: str
    rows: Callable[..., Iterable[Row]]
    columns: Sequence[Column]
    title: str = ""
    notes: Callable[[Sequence[Row]], Iterable[str]] | None = None
    tables: Callable[[Sequence[Row]], list[Table]] | None = None
    charts: Sequence[Dots] = ()
    figure: Callable[[Sequence[Row]], Any] | None = None
    over_cells: Summary | None = None
    see: str | None = None
    asks: Sequence[str] = ()
    by: Literal["cell", "view", "pair", "set"] = "set"
    judges: bool = False
    long: bool = False
    least: int = 1
    needs_data: bool = False
    among: tuple[Callable[[BuiltCell], bool], str] | None = None
    names: Literal["folder", "path"] = "folder"
    recipes: Sequence[str] = ()
    labels: Sequence["Label"] = ()
    budgets: Sequence[str] = ("latency",)
    empty: str | None = None
    table_rows: Callable[..., Iterable[Row]] | None = None
    whole: bool = field(default=False, init=False)

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The arguments of `rows`."""
        return inspect.signature(self.rows).parameters

    @property
    def settings(self) -> dict[str, Any]:
        """Defaults of the arguments of `rows` that a user may set."""
        return settings_of(self.rows, without=("cells",))

    @property
    def declared(self) -> dict[str, tuple[Any, Option]]:
        """The arguments that are declared with an Option: their type and their
        declaration.
        """
        return declared_options(self.rows)

    def run(self, cells: Sequence[Any], **settings: Any) -> list[Row]:
        """The rows of some cells (`study.Cell`)."""
        return self.checked(self.rows(cells, **settings))

    def checked(self, rows: Iterable[Row]) -> list[Row]:
        """The rows.

        Raises:
            ValueError: A row has other columns than those declared.
        """
        listed = list(rows)
        names = {column.name for column in self.columns}
        for row in listed:
            if row.keys() != names:
                differ = ", ".join(sorted(row.keys() ^ names))
                raise ValueError(f"{self.name}: rows and columns differ in {differ}.")
        return listed

    def report_tables(
        self, rows: Sequence[Row], *, summary_first: bool = True, **_: Any
    ) -> list[Table]:
        """The rows as tables, with their summary over cells before or after them."""
        tables = as_tables(self, rows)
        if self.over_cells is None:
            return tables
        summary = self.over_cells.printed(rows)
        if summary_first:
            return [*summary, *tables]
        return [*tables, *summary]

    def chart(self, rows: Sequence[Row]) -> Chart | None:
        """Its first chart, if it has any."""
        if not self.charts:
            return None
        return self.charts[0].chart(rows)

    def flat(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with one value per field, as CSV and JSON have them."""
        return records(self.columns, rows)

    def means(self, rows: Sequence[Row]) -> list[Row] | None:
        """The summary over cells with one value per field; None if it has none."""
        if self.over_cells is None:
            return None
        return records(self.over_cells.columns, self.over_cells.rows(rows))

    def stored(self, rows: Sequence[Row]) -> list[Row]:
        """The rows of a report as records, every field unrounded."""
        if self.over_cells is not None and self.over_cells.is_record:
            return [*self.flat(rows), *(self.means(rows) or ())]
        return self.flat(rows)

    def to_bytes(self, rows: Sequence[Row]) -> bytes:
        """The rows as the content of a file."""
        return json.dumps(plain(self.flat(rows)), allow_nan=False).encode()

    def from_bytes(self, content: bytes) -> list[Row]:
        """The rows in the content of a file."""
        return from_records(self.columns, json_content(content, "stored rows"))

    @property
    def meanings(self) -> dict[str, dict[str, str]]:
        """What each column means, by name of the table."""
        meanings = {"rows": meanings_of(self.columns)}
        if self.over_cells is not None:
            meanings["over cells"] = meanings_of(self.over_cells.columns)
        return meanings


def as_tables(declared: Analysis | Summary, rows: Sequence[Row]) -> list[Table]:
    """The rows as tables to print."""
    if declared.tables is not None:
        return declared.tables(rows)
    notes: Iterable[str] = ()
    if declared.notes is not None:
        notes = declared.notes(rows)
    return [printed(declared.title, declared.columns, rows, notes=notes)]


def meanings_of(columns: Sequence[Column]) -> dict[str, str]:
    """What each field of CSV and JSON means."""
    meanings = {}
    for column in columns:
        meanings[column.name] = column.meaning
        if column.bounds is not None:
            _, low, high = column.fields
            meanings[low] = "Lower end of its 95 % interval over units"
            meanings[high] = "Upper end of the interval"
    return meanings


@dataclass(frozen=True)
class Declared:
    """One analysis whose rows are dataclasses, still to be written as an `Analysis`.

    Attributes:
        name: Its name on the command line.
        shows: What it shows, in one line of at most 52 characters.
        details: What it shows, in a sentence or two.
        paper: What the paper calls it.
        example: Arguments of an example command.
        rows: Computes the rows from the parts in `takes` and the settings in its
            signature.
        kind: The row class, or several.
        see: Page and section of the docs with its definitions.
        table: The table of the rows.
        tables: The tables of the rows, if there are several; its arguments may include
            settings of `rows`.
        chart: The rows as a chart.
        figure: Draws the rows for a file (`--figure`).
        table_rows: Computes the rows from tables and their scores; the command then
            takes values files, too.
        over_cells: Summarises the rows over cells.
        over_cells_table: The table of the summary.
        summary_is_record: Whether a report stores the summary rows with the rows.
        takes: For each argument of `rows` that is a part of the cells, the name of the
            part (`parts.PARTS`).
        by: Which cells one call takes in a report: single cells, cells that share data
            set, modes and geometry ("view"), cells that share data set and modes
            ("pair"), or all cells of a data set.
        whole: Whether `rows` returns one record with several tables instead of rows.
        records: Selects the rows that a report stores.
        judges: Whether it judges scores by itself, or the losses of test units alone;
            ledgers of cells count it.
        long: Whether it takes long, so that workers start with it.
        least: Smallest number of cells that it needs.
        needs_data: Whether it needs the data that the cells were built from.
        among: Which cells it applies to, and what a report says if there are none.
        names: Whether cells are labelled by folder name or by path.
        recipes: Recipes that the command fits.
        labels: Labels that the command fits them on.
        budgets: Kinds of budgets that the command judges by default.
        empty: Message if there are no rows.
    """

    name: str
    shows: str
    details: str
    paper: str
    example: str
    rows: Callable[..., Any]
    kind: type | tuple[type, ...]
    see: str | None = None
    table: Callable[[Sequence[Any]], Table] | None = None
    tables: Callable[..., list[Table]] | None = None
    chart: Callable[[Sequence[Any]], Chart] | None = None
    figure: Callable[[Any], Any] | None = None
    table_rows: Callable[..., Sequence[Any]] | None = None
    over_cells: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    over_cells_table: Callable[[Sequence[Any]], Table] | None = None
    summary_is_record: bool = False
    takes: Mapping[str, str] = field(default_factory=lambda: {"cells": "cells"})
    by: Literal["cell", "view", "pair", "set"] = "set"
    whole: bool = False
    records: Callable[[Any], Sequence[Any]] | None = None
    judges: bool = False
    long: bool = False
    least: int = 1
    needs_data: bool = False
    among: tuple[Callable[[BuiltCell], bool], str] | None = None
    names: Literal["folder", "path"] = "folder"
    recipes: Sequence[str] = ()
    labels: Sequence["Label"] = ()
    budgets: Sequence[str] = ("latency",)
    empty: str | None = None

    def __post_init__(self) -> None:
        lacking = next(
            (name for name in self.takes if name not in self.parameters), None
        )
        if lacking is not None:
            raise TypeError(
                f"Analysis {self.name}: rows(...) must have the argument {lacking!r} "
                "that it takes."
            )
        if self.table is None and self.tables is None:
            raise TypeError(
                f"Analysis {self.name}: a table or tables must be declared."
            )
        if (self.over_cells is None) != (self.over_cells_table is None):
            raise TypeError(
                f"Analysis {self.name}: over_cells and over_cells_table "
                "belong together."
            )

    @property
    def asks(self) -> tuple[str, ...]:
        """Names of the parts that it takes."""
        return tuple(self.takes.values())

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The arguments of `rows`."""
        return inspect.signature(self.rows).parameters

    @property
    def settings(self) -> dict[str, Any]:
        """Defaults of the arguments that are not parts."""
        return settings_of(self.rows, without=self.takes)

    @property
    def declared(self) -> dict[str, tuple[Any, Option]]:
        """The arguments that are declared with an Option: their type and their
        declaration.
        """
        return declared_options(self.rows)

    def flat(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """The rows with one value per field."""
        return [asdict(row) for row in rows]

    def to_bytes(self, rows: Sequence[Any]) -> bytes:
        """The rows as the content of a file."""
        return rows_to_bytes(rows)

    def from_bytes(self, content: bytes) -> list[Any]:
        """The rows in the content of a file."""
        return rows_from_bytes(content)

    def means(self, rows: Sequence[Any]) -> list[dict[str, Any]] | None:
        """The summary over cells with one value per field; None if it has none."""
        if self.over_cells is None:
            return None
        return [asdict(row) for row in self.over_cells(rows)]

    @property
    def meanings(self) -> dict[str, dict[str, str]]:
        """What each column means, by name of the row."""
        kinds = self.kind if isinstance(self.kind, tuple) else (self.kind,)
        if self.whole or self.name in REPORT_ONLY:
            return {}
        return {
            kind.__name__: {
                name: column.meaning for name, column in columns(kind).items()
            }
            for kind in kinds
        }

    def run(self, parts: Mapping[str, Any], **settings: Any) -> list[Any]:
        """The rows of some cells, from their parts."""
        outcome = self.rows(**parts, **settings)
        return [outcome] if self.whole else list(outcome)

    def report_tables(
        self, rows: Sequence[Any], *, summary_first: bool = True, **settings: Any
    ) -> list[Table]:
        """The rows as tables, with their summary over cells before or after them."""
        if self.tables is not None:
            every = self.settings | settings
            own = {
                name: every[name]
                for name in inspect.signature(self.tables).parameters
                if name in every
            }
            parts = rows if self.whole else [rows]
            return [table for part in parts for table in self.tables(part, **own)]
        assert self.table is not None
        if self.over_cells is None or self.over_cells_table is None:
            return [self.table(rows)]
        both = [self.table(rows), self.over_cells_table(self.over_cells(rows))]
        return both[::-1] if summary_first else both

    def stored(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """The rows of a report as records, every field unrounded."""
        if self.records is not None:
            chosen = [
                row
                for part in (rows if self.whole else [rows])
                for row in self.records(part)
            ]
        else:
            means = (
                self.over_cells(rows)
                if self.summary_is_record and self.over_cells
                else ()
            )
            chosen = [*rows, *means]
        return [dict(row) if isinstance(row, Record) else asdict(row) for row in chosen]


FUNCTIONS = (
    "rows",
    "table",
    "tables",
    "chart",
    "figure",
    "table_rows",
    "over_cells",
    "over_cells_table",
)
"""Fields of an analysis that are functions; its module has them under the same
names.
"""


def declare(module: str, **about: Any) -> Declared:
    """The analysis of a module, with its name and the functions in it; `about` has the
    other fields.

    Unless they are in `about`: its details are the last paragraph of the module's
    docstring, its row class is the one that `rows` returns, and it takes the cells,
    their located specifications and the results that `rows` has as arguments. A module
    with `tables` may use `table` as it likes.
    """
    content = vars(sys.modules[module]) | about
    functions = {name: content[name] for name in FUNCTIONS if name in content}
    if "tables" in functions:
        functions.pop("table", None)
    arguments, returned = (
        inspect.signature(content["rows"]).parameters,
        content["rows"].__annotations__["return"],
    )
    usual = {
        "details": " ".join((content["__doc__"] or "").split("\n\n")[-1].split()),
        "kind": (*get_args(returned), returned)[0],
        "takes": {
            part: part for part in ("cells", "located", "results") if part in arguments
        },
    }
    return Declared(
        module.rpartition(".")[2].replace("_", "-"), **usual | about | functions
    )


PASSED = frozenset({"watch", "map_fits"})
"""Arguments of `rows` that the runner supplies: progress, and a map over workers."""


@cache
def analysis(name: str) -> Analysis | Declared:
    """The analysis of this name, from its module.

    Raises:
        TypeError: The module does not declare it.
    """
    module = import_module(
        "deepval.paper.analyses."
        f"{'overview' if name in REPORT_ONLY else name.replace('-', '_')}"
    )
    declared = getattr(module, name.replace("-", "_").upper(), None)
    if not isinstance(declared, Analysis | Declared) or declared.name != name:
        raise TypeError(
            f"{module.__name__} must declare {name.replace('-', '_').upper()} = "
            "Analysis(...), as paper/analysis.py describes."
        )
    return declared
