"""One analysis, declared: how its rows are computed, what their columns mean and how
they print, and what the paper calls it.

`deepval analyse NAME`, `deepval reproduce` and docs/analyses.md are made from these
declarations. To add an analysis, write `analyses/NAME.py` with `rows(cells, *,
options)`, which yields a dict for each row, `COLUMNS`, which declare what is in it
(`paper.tidy`), and one `Analysis(...)`, and add its name to `GROUPS` below.
"""

import inspect
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    get_origin,
    get_type_hints,
)

from deepval.basics.files.canonical import json_content, plain
from deepval.driving.cells.folder import BuiltCell
from deepval.judge.allowances import Selection
from deepval.judge.report.charts import Chart
from deepval.judge.report.text_tables import Table
from deepval.paper.tidy import Column, Dots, Row, from_records, printed, records

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
        tables: All printed tables, if one table of all rows is not what to print; its
            further arguments are settings of `rows`.
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
        whole: Whether its only row is a record that holds several tables.
        records: The rows of that record that a report stores.
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
    tables: Callable[..., list[Table]] | None = None
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
    whole: bool = False
    records: Callable[[Row], Sequence[Row]] | None = None

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
        self, rows: Sequence[Row], *, summary_first: bool = True, **settings: Any
    ) -> list[Table]:
        """The rows as tables, with their summary over cells before or after them."""
        tables = as_tables(self, rows, **(self.settings | settings))
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
        if self.records is not None:
            return [record for row in rows for record in self.records(row)]
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
        if self.whole:
            return {}
        meanings = {"rows": meanings_of(self.columns)}
        if self.over_cells is not None:
            meanings["over cells"] = meanings_of(self.over_cells.columns)
        return meanings


def as_tables(
    declared: Analysis | Summary, rows: Sequence[Row], **settings: Any
) -> list[Table]:
    """The rows as tables to print."""
    if declared.tables is not None:
        arguments = inspect.signature(declared.tables).parameters
        own = {name: settings[name] for name in arguments if name in settings}
        return declared.tables(rows, **own)
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


PASSED = frozenset({"map_fits"})
"""Arguments of `rows` that the runner supplies: a map over workers."""


@cache
def analysis(name: str) -> Analysis:
    """The analysis of this name, from its module.

    Raises:
        TypeError: The module does not declare it.
    """
    module = import_module(
        "deepval.paper.analyses."
        f"{'overview' if name in REPORT_ONLY else name.replace('-', '_')}"
    )
    declared = getattr(module, name.replace("-", "_").upper(), None)
    if not isinstance(declared, Analysis) or declared.name != name:
        raise TypeError(
            f"{module.__name__} must declare {name.replace('-', '_').upper()} = "
            "Analysis(...), as paper/analysis.py describes."
        )
    return declared
