"""Result: everything that a report reads, as plain records with a versioned JSON form.

Undefined is None with a reason, never 0. `gain`, `benefit`, `harm` and `oracle_gain` are in units of the loss,
`harm` a positive number, so that gain = benefit - harm; `gain_share` and `versus_random*` are shares of the all-cheap
loss. There is no time of day in a result: the same inputs give the same bytes.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, get_args

from deepval import checks
from deepval.errors import InputError, meant, quoted
from deepval.files import reading
from deepval.files.canonical import json_content, plain, sha256
from deepval.files.forms import formed_file
from deepval.files.writing import file_path, write_atomically
from deepval.results.facts import HalfWidth, Optimum, Provenance, Setting
from deepval.results.recovery import Area, CallShare, Recovery
from deepval.results.rows import Curve, Gap, Inputs, Row, Stream, Threshold, Unit
from deepval.results.samples import Samples, read_samples, samples_path
from deepval.results.whole import check_whole
from deepval.showing import SelfShown, shown

SCHEMA = "deepval/result/1"
WHAT = "a result saved by deepval"
HEADLINE = 0.2
"""The share that is meant where several are there and none is named."""


@dataclass(frozen=True, repr=False)
class Result(SelfShown):
    """A judgement: the setting, the rows, and what is needed to trust and to repeat them.

    Attributes:
        provenance: Version, digests of table, scores and costs, how the units were drawn, and the seed.
        setting: What escalation does on the judged inputs, whatever the allocator.
        comparisons: Number of comparisons with random that `rows` and `slices` make.
        half_widths: Per budget, the median half-width of the paired interval over the allocators.
        rows: Every allocator under every budget.
        slices: The same within groups of inputs, where asked for.
        gaps: Where each allocator's gap to the oracle goes.
        streams: Causal policies, where calibration units are given.
        thresholds: Where each allocator escalates from; of results of the command where asked for, absent else.
        units: Per unit at the headline budget.
        curves: Gain against budget, where asked for.
        ladder: Multi-fidelity optima, where the table has more than two modes and costs are known.
        warnings: Sentences that the reader must see.
        inputs: Every judged input with its loss terms, where terms are given; absent else.
        recovery: APGR and call-performance thresholds, where asked for; absent else.
        samples: What the rows rest on, draw by draw, for comparing and pooling; saved where asked for.
        fresh: What `apgr` and `area` work on, in results fresh from evaluate(); never saved. Of a
            table larger than memory, why they cannot.
    """

    provenance: Provenance
    setting: Setting
    comparisons: int
    half_widths: tuple[HalfWidth, ...]
    rows: tuple[Row, ...]
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
    samples: Samples | None = field(default=None, repr=False, compare=False)
    fresh: Any = field(default=None, repr=False, compare=False)

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

        Only as much of the budget need be named as tells it from the result's others: nothing where there is one.
        Where several are left, what is not named is the headline: selection, and 20 %; an error lists them otherwise.
        """
        asked = {"kind": kind, "alpha": alpha, "convention": convention, "accounting": accounting}
        return _meant(self.rows, allocator, asked)

    def threshold(
        self,
        allocator: str,
        alpha: float | None = None,
        *,
        kind: str | None = None,
        convention: str | None = None,
        accounting: str | None = None,
    ) -> Threshold:
        """The score above which an allocator escalates under a judged budget, and the rate to expect of it.

        A budget is named as for `row`. `deepval.Router.from_scores` decides by it input by input.
        """
        if not self.thresholds:
            raise InputError(
                "The result has no thresholds: take it fresh from evaluate(), or save it with `deepval evaluate "
                "--thresholds --out`."
            )
        asked = {"kind": kind, "alpha": alpha, "convention": convention, "accounting": accounting}
        return _meant(self.thresholds, allocator, asked)

    def apgr(self, levels: Sequence[float] | None = None) -> tuple[Recovery, ...]:
        """RouteLLM's average performance gap recovered of every allocator, and call-performance thresholds.

        Args:
            levels: Parts of the gap at which calls are told; 20, 50 and 80 % where None.
        """
        if self.recovery and levels is None:
            return self.recovery
        if levels is not None and not isinstance(levels, Sequence):
            raise InputError(f"levels must be a list of shares; found {quoted(levels)}.")
        return shown("recovery", self._fresh("APGR"), *([] if levels is None else [levels]))

    def cpt(self, allocator: str, recovered: float = 0.5) -> CallShare:
        """CPT(x): the smallest share of the inputs whose escalation recovers the part x of the gap."""
        checks.text(allocator, "An allocator")
        found = {row.allocator: row for row in self.apgr([recovered])}
        if allocator not in found:
            raise InputError(f"The result has no CPT of {allocator!r}; it has {', '.join(found)}.")
        return found[allocator].calls[0]

    def area(self, candidate: str, baseline: str = "random") -> Area:
        """The area between two gain curves over all shares of the inputs, with its paired interval."""
        checks.text(candidate, "An allocator")
        checks.text(baseline, "An allocator")
        return shown("area", self._fresh("An area between gain curves"), candidate, baseline)

    def _fresh(self, what: str) -> Any:
        if isinstance(self.fresh, str):
            raise InputError(f"{what} needs the scores in memory, and {self.fresh}: allow more (memory=..., --memory).")
        if self.fresh is None:
            raise InputError(f"{what} needs the scores: take the result fresh from evaluate(), not from a file.")
        return self.fresh

    def to_dict(self) -> dict[str, Any]:
        """The result as plain lists, dicts and numbers, in the published schema."""
        absent = {"samples", "fresh"}
        absent |= {name for name in ("inputs", "thresholds", "recovery") if not getattr(self, name)}
        saved = [item.name for item in dataclasses.fields(self) if item.name not in absent]
        return {"schema": SCHEMA} | {name: plain(getattr(self, name)) for name in saved}

    def to_json(self) -> str:
        """The result as JSON text, the same bytes for the same result."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def save(self, path: str | Path, *, samples: bool = False) -> None:
        """Write the JSON form; the file is complete or not there.

        Args:
            path: The file.
            samples: Whether to keep what the rows rest on too, in `<name>.samples.npz` beside it, so that the result
                can be compared and pooled after it is loaded.
        """
        file, text = file_path(path), self.to_json()
        if checks.flag(samples, "samples"):
            if self.samples is None:
                raise InputError(f"{path}: the result has no samples to save; it must be fresh from evaluate().")
            write_atomically(samples_path(file), self.samples.to_bytes(sha256(text.encode())))
        write_atomically(file, text)

    def to_arrow(self) -> Any:
        """Rows and slices as a pyarrow Table."""
        import pyarrow as pa

        kinds = {str: pa.string(), float: pa.float64(), int: pa.int64()}
        fields = [
            pa.field(item.name, kinds[(get_args(item.type) or (item.type,))[0]]) for item in dataclasses.fields(Row)
        ]
        return pa.Table.from_pylist([dict(row) for row in (*self.rows, *self.slices)], schema=pa.schema(fields))

    def to_pandas(self) -> Any:
        """Rows and slices as a pandas DataFrame, where pandas is installed."""
        _library("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Rows and slices as a polars DataFrame, where polars is installed."""
        return _library("polars").from_arrow(self.to_arrow())

    def plot(self, kind: str | None = None) -> Any:
        """A matplotlib Figure, which notebooks show and `savefig` writes.

        Args:
            kind: "gain" (share of the all-cheap loss that is removed, against the budget) or "forest" (difference with
                random and its interval at the headline budget); both, one below the other, where None.
        """
        return shown("figure", self, kind)

    def report(self, path: str | Path, *, name: str | None = None) -> Path:
        """Write one HTML page that opens from disk: verdicts, charts, sortable tables. Returns its path.

        Args:
            path: The page to write.
            name: What the page calls the result; the name of the file where None.
        """
        return shown("page", self, path, name=name)

    @classmethod
    def load(cls, path: str | Path) -> "Result":
        """A saved result, with its samples where they lie beside it; it must be in the published schema."""
        file = file_path(path)
        data = reading.content(file, WHAT)
        content = json_content(data, path, WHAT)
        found = content.get("schema") if isinstance(content, dict) else type(content).__name__
        if found != SCHEMA:
            raise InputError(f"{path}: must be a result of schema {SCHEMA!r}; found {quoted(found)}.")
        told = {name: part for name, part in content.items() if name != "schema"}
        if "samples" in told:
            raise InputError(f"{path}: must be {WHAT}, whose samples lie beside it; it holds samples itself.")
        loaded = formed_file(cls, told, path, WHAT)
        check_whole(loaded, path)
        samples = read_samples(samples_path(file), sha256(data), rows=len(loaded.rows), streams=len(loaded.streams))
        return dataclasses.replace(loaded, samples=samples)


def _library(name: str) -> Any:
    """A library that deepval does not ask for."""
    try:
        return import_module(name)
    except ImportError:
        raise InputError(
            f"to_{name} needs {name}, which is not installed: pip install {name}, or take to_arrow()."
        ) from None


Found = TypeVar("Found", Row, Threshold)


def _meant(records: Sequence[Found], allocator: str, asked: Mapping[str, Any]) -> Found:
    """The one record of an allocator under the budget that is asked for, or the headline where several are left."""
    checks.text(allocator, "An allocator")
    asked = {
        part: named if named is None else checks.number(named, part) if part == "alpha" else checks.text(named, part)
        for part, named in asked.items()
    }
    held = {record.budget: record for record in reversed(records) if record.allocator == allocator}
    left = {key: record for key, record in held.items() if key.holds(**asked)}
    if len(left) > 1:
        kind, alpha = asked["kind"] or "selection", HEADLINE if asked["alpha"] is None else asked["alpha"]
        left = {key: record for key, record in left.items() if key.holds(kind=kind, alpha=alpha)}
    if len(left) == 1:
        return next(iter(left.values()))
    if not held:
        names = dict.fromkeys(record.allocator for record in records)
        raise InputError(
            f"The result has no allocator {allocator!r}; it has {', '.join(names)}{meant(allocator, names)}"
        )
    named = ", ".join(f"{k} = {v!r}" for k, v in asked.items() if v is not None) or "no budget named"
    budgets = ", ".join(key.label for key in reversed(held))
    raise InputError(f"One budget of {allocator!r} must be meant; found {named} and the budgets {budgets}.")
