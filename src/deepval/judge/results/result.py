"""Result: everything that a report reads, as plain records with a versioned JSON form.

Undefined is None with a reason, never 0. `gain`, `benefit`, `harm` and `oracle_gain`
are in units of the loss, `harm` a positive number, so that gain = benefit - harm;
`gain_share` and `versus_random*` are shares of the all-cheap loss. There is no time of
day in a result: the same inputs give the same bytes.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

from deepval.basics import checks
from deepval.basics.display import Printable, view
from deepval.basics.errors import InputError, argument, library, quote, suggestion
from deepval.basics.files import reading
from deepval.basics.files.canonical import json_content, plain, sha256
from deepval.basics.files.reading import check_file_form
from deepval.judge.results.facts import (
    Area,
    CallShare,
    Curve,
    Gap,
    HalfWidth,
    Inputs,
    Optimum,
    Picture,
    Provenance,
    Recovery,
    Setting,
    Stream,
    Threshold,
    Unit,
)
from deepval.judge.results.records import (
    ALWAYS_MODE,
    Answer,
    BudgetKey,
    Effect,
    Keep,
    Row,
)
from deepval.judge.results.samples import Samples, read_samples, samples_path

SCHEMA = "deepval/result/1"
WHAT = "a result saved by deepval"
ABSENT = ("inputs", "thresholds", "recovery", "effect", "picture", "keep")
"""Parts that a saved result has only where they hold something."""
HEADLINE = 0.2
"""Share of the headline budget, the default where a result has several budgets."""


def share_of(part: float | None, whole: float | None) -> float | None:
    """The part of a whole as a share; None where one of them is unknown or the whole is
    not positive.
    """
    return None if part is None or whole is None or not whole > 0 else part / whole


class Later(NamedTuple):
    """What stands for a part of a result until the part is first read."""

    compute: Callable[[], Any]


@dataclass(frozen=True, repr=False)
class Result(Printable):
    """A judgement: the setting, the rows, and what is needed to trust and to repeat
    them.

    Attributes:
        provenance: Version, digests of table, scores and costs, how the units were
            drawn, and the seed.
        setting: What escalation does on the judged inputs, whatever the allocator.
        comparisons: Number of comparisons with random that `rows` and `slices` make.
        half_widths: Per budget, the median half-width of the paired interval over the
            allocators.
        rows: Every allocator under every budget.
        answers: What to run under every budget.
        effect: Whether the dearer mode helps, where no allocator was judged; absent
            else.
        keep: The cheapest option that is shown to reach a floor, where one was named;
            absent else.
        slices: The same within groups of inputs, where asked for.
        gaps: Where each allocator's gap to the oracle goes.
        streams: Causal policies, where calibration units are given.
        thresholds: Where each allocator escalates from, where asked for; absent
            else.
        units: Per unit at the headline budget.
        curves: Gain against budget, where asked for.
        ladder: Multi-fidelity optima, where the table has more than two modes and costs
            are known.
        warnings: Sentences that the reader must see.
        inputs: Every judged input with its loss terms, where terms are given; absent
            else.
        recovery: APGR and call-performance thresholds, where asked for; absent else.
        picture: Quality against cost, where asked for by `with_picture`; absent else.
        samples: What the rows rest on, draw by draw, for comparing and pooling; saved
            where asked for.
        fresh: What `apgr` and `area` work on, in results fresh from evaluate(); never
            saved. Of a table larger than memory, why they cannot.
    """

    provenance: Provenance
    setting: Setting
    comparisons: int
    half_widths: tuple[HalfWidth, ...]
    rows: tuple[Row, ...]
    answers: tuple[Answer, ...] = ()
    effect: Effect | None = None
    keep: Keep | None = None
    slices: tuple[Row, ...] = ()
    gaps: tuple[Gap, ...] = ()
    streams: tuple[Stream, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    units: tuple[Unit, ...] = ()
    curves: tuple[Curve, ...] = ()
    ladder: tuple[Optimum, ...] = ()
    warnings: tuple[str, ...] = ()
    inputs: Inputs | None = None
    recovery: tuple[Recovery, ...] = ()
    picture: Picture | None = None
    samples: Samples | None = field(default=None, repr=False, compare=False)
    fresh: Any = field(default=None, repr=False, compare=False)

    if not TYPE_CHECKING:  # the types of the parts are those of the fields

        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if isinstance(value, Later):
                value = value.compute()
                vars(self)[name] = value
            return value

    def __getstate__(self) -> dict[str, Any]:
        # Functions that compute parts cannot be pickled or copied, so the parts are.
        return {
            item.name: getattr(self, item.name) for item in dataclasses.fields(self)
        }

    def postpone(self, **parts: Callable[[], Any]) -> None:
        """Compute these parts when they are first read: few are, in a loop over many
        results.
        """
        for name, compute in parts.items():
            vars(self)[name] = Later(compute)

    @property
    def choosers(self) -> tuple[Row, ...]:
        """The rows of allocators and references, without those of fixed modes."""
        return tuple(
            row for row in self.rows if not row.allocator.startswith(ALWAYS_MODE)
        )

    def row(
        self,
        allocator: str,
        kind: str | None = None,
        alpha: float | None = None,
        *,
        convention: str | None = None,
        accounting: str | None = None,
    ) -> Row:
        """The row of an allocator under a budget.

        Name as much of the budget as identifies it: nothing where the result has one
        budget. Where several match, the headline is taken (selection, 20 %); if that
        does not identify one, an error lists the budgets.
        """
        requested = {
            "kind": kind,
            "alpha": alpha,
            "convention": convention,
            "accounting": accounting,
        }
        return _record_under(self.rows, allocator, requested)

    def __getitem__(self, allocator: str) -> Row:
        """The row of an allocator under the headline budget: `result["mine"]`."""
        return self.row(allocator)

    def answer(self, alpha: float | None = None, *, kind: str | None = None) -> Answer:
        """What to run under a judged budget: run, do not run, or not settled.

        Args:
            alpha: Its share; the headline, 20 %, where None and there are several.
            kind: selection, latency, energy or money; that of the first answer where
                None and there are several.
        """
        requested = {
            "alpha": None if alpha is None else checks.number(alpha, "alpha"),
            "kind": None if kind is None else checks.text(kind, "kind"),
        }
        matching = [one for one in self.answers if one.budget.holds(**requested)]
        if alpha is None:
            headline = [one for one in matching if one.budget.holds(alpha=HEADLINE)]
            matching = headline or matching
        if not matching:
            budgets = ", ".join(one.budget.label for one in self.answers) or "none"
            raise InputError(
                "The result has no answer under that budget; it has answers under: "
                f"{budgets}."
            )
        return matching[0]

    def threshold(
        self,
        allocator: str,
        alpha: float | None = None,
        *,
        kind: str | None = None,
        convention: str | None = None,
        accounting: str | None = None,
    ) -> Threshold:
        """The score above which an allocator escalates under a judged budget, and its
        expected rate.

        Name a budget as for `row`. `deepval.Router.from_scores` applies the threshold
        input by input.
        """
        found = self.thresholds or self._fresh("A threshold").thresholds()
        requested = {
            "kind": kind,
            "alpha": alpha,
            "convention": convention,
            "accounting": accounting,
        }
        return _record_under(found, allocator, requested)

    def apgr(self, levels: Sequence[float] | None = None) -> tuple[Recovery, ...]:
        """RouteLLM's average performance gap recovered of every allocator, and
        call-performance thresholds.

        Args:
            levels: Parts of the gap for which the share of calls is reported; 20, 50
                and 80 % where None.
        """
        if self.recovery and levels is None:
            return self.recovery
        if levels is not None and not isinstance(levels, Sequence):
            raise InputError(f"levels must be a list of shares; found {quote(levels)}.")
        return view(
            "recovery", self._fresh("APGR"), *([] if levels is None else [levels])
        )

    def cpt(self, allocator: str, recovered: float = 0.5) -> CallShare:
        """CPT(x): the smallest share of the inputs whose escalation recovers the part x
        of the gap.
        """
        checks.text(allocator, "An allocator")
        by_allocator = {row.allocator: row for row in self.apgr([recovered])}
        if allocator not in by_allocator:
            raise InputError(
                "The result has "
                f"no CPT of {allocator!r}; it has {', '.join(by_allocator)}."
            )
        return by_allocator[allocator].calls[0]

    def with_picture(self) -> "Result":
        """The result with quality against cost at many budgets, which pages draw.

        A result from a file keeps what it has: the scores are needed.
        """
        if (
            self.picture is not None
            or self.fresh is None
            or isinstance(self.fresh, str)
        ):
            return self
        found = view("picture", self.fresh, self.answers)
        return dataclasses.replace(self, picture=found)

    def area(self, candidate: str, baseline: str = "random") -> Area:
        """The area between two gain curves over all shares of the inputs, with its
        paired interval.
        """
        checks.text(candidate, "An allocator")
        checks.text(baseline, "An allocator")
        return view(
            "area", self._fresh("An area between gain curves"), candidate, baseline
        )

    def _fresh(self, what: str) -> Any:
        if isinstance(self.fresh, str):
            raise InputError(
                f"{what} needs the scores in memory, and {self.fresh}: allow more, "
                f"{argument('memory', '8GB')}."
            )
        if self.fresh is None:
            raise InputError(
                f"{what} needs the scores: take the result fresh "
                "from evaluate(), not from a file."
            )
        return self.fresh

    def to_dict(self) -> dict[str, Any]:
        """The result as plain lists, dicts and numbers, in the published schema."""
        absent = {"samples", "fresh"}
        absent |= {name for name in ABSENT if not getattr(self, name)}
        saved = [
            item.name for item in dataclasses.fields(self) if item.name not in absent
        ]
        return {"schema": SCHEMA} | {name: plain(getattr(self, name)) for name in saved}

    def to_json(self) -> str:
        """The result as JSON text, the same bytes for the same result."""
        return (
            json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
            + "\n"
        )

    def save(self, path: str | Path, *, samples: bool = False) -> None:
        """Write the JSON form; the file is complete or not there.

        Args:
            path: The file.
            samples: Whether to save the samples, too, in `<name>.samples.npz` beside
                it, so that the result can be compared and pooled after it is loaded.
        """
        # Few results are saved or loaded: writers of files are imported here and there.
        from deepval.basics.files.writing import file_path, write_atomically

        file, text = file_path(path), self.to_json()
        if checks.flag(samples, "samples"):
            if self.samples is None:
                raise InputError(
                    f"{path}: the result has no samples to save; it must be fresh "
                    "from evaluate()."
                )
            write_atomically(
                samples_path(file), self.samples.to_bytes(sha256(text.encode()))
            )
        write_atomically(file, text)

    def to_arrow(self) -> Any:
        """Rows and slices as a pyarrow Table."""
        pa = library("pyarrow")

        kinds = {
            str: pa.string(),
            float: pa.float64(),
            int: pa.int64(),
            bool: pa.bool_(),
        }
        forms = {
            name: get_args(column.form) or (column.form,)
            for name, column in Row.columns().items()
        }
        fields = [pa.field(name, kinds[form]) for name, (form, *_) in forms.items()]
        return pa.Table.from_pylist(
            [dict(row) for row in (*self.rows, *self.slices)], schema=pa.schema(fields)
        )

    def to_pandas(self) -> Any:
        """Rows and slices as a pandas DataFrame, where pandas is installed."""
        library("pandas", purpose="to_pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Rows and slices as a polars DataFrame, where polars is installed."""
        return library("polars", purpose="to_polars").from_arrow(self.to_arrow())

    def to_latex(self) -> str:
        """The verdicts as LaTeX tables, as `--format latex` prints them."""
        return view("latex", self)

    def plot(self, kind: str | None = None, *, highlight: str | None = None) -> Any:
        """A matplotlib Figure, which notebooks show and `savefig` writes.

        Args:
            kind: "answer" (quality against cost, with the answer as title) or "forest"
                (difference with random and its interval at the headline budget); the
                answer where None.
            highlight: The allocator that the picture of the answer emphasises, instead
                of the recommended one.
        """
        return view("figure", self, kind, highlight=highlight)

    def report(self, path: str | Path, *, name: str | None = None) -> Path:
        """Write one HTML page that opens from disk: verdicts, charts, sortable tables.
        Returns its path.

        Args:
            path: The page to write.
            name: Name of the result on the page; the name of the file where None.
        """
        return view("page", self, path, name=name)

    @classmethod
    def load(cls, path: str | Path) -> "Result":
        """A saved result, with its samples if they are beside it; it must be in the
        published schema.
        """
        from deepval.basics.files.writing import file_path

        file = file_path(path)
        data = reading.content(file, WHAT)
        content = json_content(data, path, WHAT)
        schema = (
            content.get("schema")
            if isinstance(content, dict)
            else type(content).__name__
        )
        if schema != SCHEMA:
            raise InputError(
                f"{path}: must be a result of schema {SCHEMA!r}; found {quote(schema)}."
            )
        parts = {name: part for name, part in content.items() if name != "schema"}
        if "samples" in parts:
            raise InputError(
                f"{path}: must be {WHAT}, whose samples lie beside it; it holds "
                "samples itself."
            )
        loaded = check_file_form(cls, parts, path, WHAT)
        # A result that was just computed needs no such check.
        from deepval.judge.results.consistency import check_whole

        check_whole(loaded, path)
        samples = read_samples(
            samples_path(file),
            sha256(data),
            rows=len(loaded.rows),
            streams=len(loaded.streams),
        )
        return dataclasses.replace(loaded, samples=samples)


AnyRecord = TypeVar("AnyRecord", Row, Threshold)


def _record_under(
    records: Sequence[AnyRecord], allocator: str, requested: Mapping[str, Any]
) -> AnyRecord:
    """The record of an allocator under the requested budget, or under the headline
    budget where several match.
    """
    checks.text(allocator, "An allocator")
    named: dict[str, Any] = {}
    for part, value in requested.items():
        if value is not None:
            check = checks.number if part == "alpha" else checks.text
            named[part] = check(value, part)
    # Of several records under one budget, the first.
    by_budget: dict[BudgetKey, AnyRecord] = {}
    for record in records:
        if allocator in (record.allocator, record.name):
            by_budget.setdefault(record.budget, record)
    if not by_budget:
        names = dict.fromkeys(record.allocator for record in records)
        raise InputError(
            f"The result has no allocator {allocator!r}; it has {', '.join(names)}"
            f"{suggestion(allocator, names)}"
        )
    matching = [key for key in by_budget if key.holds(**named)]
    if len(matching) > 1:
        kinds = {key.kind for key in matching}
        # A result of one kind of budget has its headline in that kind.
        usual = "selection" if "selection" in kinds or len(kinds) > 1 else min(kinds)
        headline = {"kind": usual, "alpha": HEADLINE} | named
        matching = [key for key in matching if key.holds(**headline)]
    if len(matching) == 1:
        return by_budget[matching[0]]
    stated = [f"{part} = {value!r}" for part, value in named.items()]
    budgets = ", ".join(key.label for key in by_budget)
    raise InputError(
        f"Name one budget of {allocator!r}, such as alpha=0.2; found "
        f"{', '.join(stated) or 'no budget named'} and the budgets {budgets}."
    )
