"""Result: everything that a report reads, as plain records with a versioned JSON form.

Undefined is None with a reason, never 0. `gain`, `benefit`, `harm` and `oracle_gain`
are in units of the loss, `harm` a positive number, so that gain = benefit - harm;
`gain_share` and `versus_random*` are shares of the all-cheap loss. There is no time of
day in a result: the same inputs give the same bytes.
"""

import dataclasses
import io
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np

from deepval import checks
from deepval.arrays import Float
from deepval.display import Printable, view
from deepval.errors import InputError, InputWarning, library, quote, suggestion
from deepval.files import reading
from deepval.files.canonical import json_content, plain, sha256
from deepval.files.reading import check_file_form
from deepval.files.writing import file_path, npz_arrays, write_atomically
from deepval.results.facts import (
    Area,
    CallShare,
    Curve,
    Gap,
    HalfWidth,
    Inputs,
    Optimum,
    Provenance,
    Recovery,
    Setting,
    Stream,
    Threshold,
    Unit,
)
from deepval.results.pictures import Picture
from deepval.results.records import (
    ALWAYS_MODE,
    KINDS,
    UNITS,
    Answer,
    Effect,
    Row,
)

NUMBERS = "fiu"
AXES = {
    "unit_ids": ("U", ("unit",)),
    "counts": (NUMBERS, ("draw", "unit")),
    "weights": (NUMBERS, ("draw",)),
    "seed": ("iu", ()),
    **{
        name: (NUMBERS, ("resample",))
        for name in ("cheap_loss", "full_gain", "full_benefit")
    },
    **{
        name: (NUMBERS, ("row", "resample"))
        for name in ("gain", "benefit", "escalated", "prize", "versus_random")
    },
    **{
        f"stream_{name}": (NUMBERS, ("stream", "resample"))
        for name in ("gain", "benefit", "escalated", "prize")
    },
}
"""Kinds of dtype and axes of the arrays of a file; an axis has the same length in every
array.
"""


@dataclass(frozen=True, eq=False)
class Samples:
    """Every row over every resample, for comparing and pooling.

    Attributes:
        unit_ids: Ids of the units, in the order of `counts`.
        counts: How often each draw holds each unit.
        weights: Probability of each draw where they are enumerated, None where they are
            equally likely.
        seed: Seed of the draws, None where they are not random.
        cheap_loss: All-cheap loss in each resample.
        full_gain: Gain of escalating everything in each.
        full_benefit: Its positive part.
        gain: Gain of each row of the result in each resample; NaN where it cannot run.
        benefit: Its positive part.
        escalated: Expected number of inputs that it escalates.
        prize: Denominator of its nDG.
        versus_random: Gain minus the gain of its random reference, in units of the
            loss.
        stream_gain: Gain of each stream of the result in each resample; NaN where it
            cannot run; None without streams.
        stream_benefit: Its positive part.
        stream_escalated: Expected number of inputs that it escalates.
        stream_prize: Denominator of its nDG.
    """

    unit_ids: tuple[str, ...]
    counts: Float[np.ndarray, "draw unit"]
    weights: Float[np.ndarray, "draw"] | None
    seed: int | None
    cheap_loss: Float[np.ndarray, "resample"]
    full_gain: Float[np.ndarray, "resample"]
    full_benefit: Float[np.ndarray, "resample"]
    gain: Float[np.ndarray, "row resample"]
    benefit: Float[np.ndarray, "row resample"]
    escalated: Float[np.ndarray, "row resample"]
    prize: Float[np.ndarray, "row resample"]
    versus_random: Float[np.ndarray, "row resample"]
    stream_gain: Float[np.ndarray, "stream resample"] | None = None
    stream_benefit: Float[np.ndarray, "stream resample"] | None = None
    stream_escalated: Float[np.ndarray, "stream resample"] | None = None
    stream_prize: Float[np.ndarray, "stream resample"] | None = None

    def to_bytes(self, result: str) -> bytes:
        """Content of the samples file of the result with this SHA-256: .npz without
        pickles; None is left out.
        """
        arrays = {item.name: getattr(self, item.name) for item in fields(self)}
        file = io.BytesIO()
        np.savez_compressed(
            file,
            result=result,
            **{name: array for name, array in arrays.items() if array is not None},
        )
        return file.getvalue()


def samples_path(result: str | Path) -> Path:
    """Path of the samples of a saved result."""
    return Path(result).with_suffix(".samples.npz")


def _check_shapes(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise a ValueError where an array has other axes than its name requires, or an
    axis has several lengths.
    """
    lengths: dict[str, int] = {}
    for name, (kinds, axes) in AXES.items():
        if name not in arrays:
            continue
        array = arrays[name]
        if array.dtype.kind not in kinds or array.ndim != len(axes):
            raise ValueError(
                f"{name} has to have "
                f"{len(axes)} axes; it holds {array.dtype} of shape {array.shape}"
            )
        for axis, length in zip(axes, array.shape, strict=True):
            if lengths.setdefault(axis, length) != length:
                raise ValueError(
                    f"{name} has {length} of axis "
                    f"{axis}, and others have {lengths[axis]}"
                )


def read_samples(
    path: Path, result: str, *, rows: int, streams: int = 0
) -> Samples | None:
    """The samples beside the result with this SHA-256; None where there are none, or
    they are of another result.
    """
    if not reading.is_file(path):
        return None
    try:
        arrays: dict[str, Any] = dict(npz_arrays(reading.content(path)))
        digest = str(arrays.pop("result"))
        _check_shapes(arrays)
        arrays["unit_ids"] = tuple(map(str, arrays["unit_ids"]))
        arrays |= {
            "weights": arrays.get("weights"),
            "seed": int(arrays["seed"]) if "seed" in arrays else None,
        }
        samples = Samples(**arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: must be samples saved by deepval; {error}. Save the result again."
        ) from error
    if digest != result:
        note = (
            f"{path}: must be the samples of the result beside it; they are of "
            "another, and are left out."
        )
        warnings.warn(InputWarning(note), stacklevel=4)
        return None
    if samples.gain.shape != (rows, len(samples.cheap_loss)):
        raise InputError(
            f"{path}: must have a sample for "
            f"each of {rows} rows; found {len(samples.gain)}."
        )
    if samples.stream_gain is not None and samples.stream_gain.shape != (
        streams,
        len(samples.cheap_loss),
    ):
        raise InputError(
            f"{path}: must have a sample for each "
            f"of {streams} streams; found {len(samples.stream_gain)}."
        )
    return samples


ACCOUNTINGS = ("cascade", "skipping")
BUDGETED = ("half_widths", "rows", "slices", "gaps", "streams", "thresholds", "ladder")
"""Parts of a result whose records have a budget."""
BUDGET_WORDS = {
    "kind": KINDS,
    "convention": (None, *UNITS),
    "accounting": (None, *ACCOUNTINGS),
}
ANSWER_WORDS = {
    "verdict": ("run", "do not run", "not settled"),
    "scale": ("right", "reward", "share", "loss"),
}
"""Words of the parts of a budget, and of an answer."""


def check_whole(result: Any, source: object) -> None:
    """Raise where parts of a loaded result contradict each other or themselves."""
    for problem in (
        *_setting_problems(result.setting),
        *_budget_problems(result),
        *_answer_problems(result),
        *_spending_problems(result.ladder),
        *_curve_problems(result.curves),
        *_input_problems(result.inputs),
    ):
        raise InputError(f"{source}: must be a result saved by deepval; {problem}.")


def _setting_problems(setting: Setting) -> Iterator[str]:
    if not 0 <= setting.affected <= setting.inputs:
        yield (
            "setting.affected must be between "
            f"0 and the {setting.inputs} inputs; found {setting.affected}"
        )


def _budget_problems(result: Any) -> Iterator[str]:
    for part in BUDGETED:
        for index, record in enumerate(getattr(result, part)):
            budget = {name: record.get(name) for name in BUDGET_WORDS}
            yield from _word_problems(f"{part}[{index}]", budget, BUDGET_WORDS)
    nested = {
        f"answers[{index}].budget": answer.budget
        for index, answer in enumerate(result.answers)
    }
    if result.picture is not None:
        nested["picture.budget"] = result.picture.budget
    for place, key in nested.items():
        yield from _word_problems(place, vars(key), BUDGET_WORDS)


def _answer_problems(result: Any) -> Iterator[str]:
    """Words that reports look up or choose by."""
    for index, answer in enumerate(result.answers):
        place = f"answers[{index}]"
        yield from _word_problems(place, vars(answer), ANSWER_WORDS)
        names = [mode.mode for mode in answer.fixed]
        if answer.best_fixed not in names:
            words = ", ".join(names) or "none"
            yield (
                f"{place}.best_fixed must be one of {words}; "
                f"found {quote(answer.best_fixed)}"
            )


def _word_problems(
    place: str, values: Mapping[str, Any], allowed: Mapping[str, tuple[Any, ...]]
) -> Iterator[str]:
    """Values that are none of the words that there are."""
    for name, words in allowed.items():
        if values[name] not in words:
            listed = ", ".join(map(str, words))
            yield f"{place}.{name} must be one of {listed}; found {quote(values[name])}"


def _spending_problems(ladder: tuple[Optimum, ...]) -> Iterator[str]:
    for index, optimum in enumerate(ladder):
        for position, spending in enumerate(optimum.spent):
            if spending.convention not in UNITS:
                words, value = ", ".join(UNITS), quote(spending.convention)
                yield (
                    f"ladder[{index}].spent[{position}].convention "
                    f"must be one of {words}; found {value}"
                )


def _curve_problems(curves: tuple[Curve, ...]) -> Iterator[str]:
    for index, curve in enumerate(curves):
        if (
            len({len(curve.alpha), len(curve.gain_share), len(curve.lo), len(curve.hi)})
            > 1
        ):
            yield (
                f"alpha, gain_share, lo and hi of curves[{index}] must be equally "
                "long; they are not"
            )


def _input_problems(inputs: Inputs | None) -> Iterator[str]:
    if inputs is None:
        return
    columns = {
        "unit": inputs.unit,
        **{f"losses.{mode}": part for mode, part in inputs.losses.items()},
    }
    columns |= {f"ranks.{name}": part for name, part in inputs.ranks.items()}
    columns |= {
        f"terms.{name}.{mode}": part
        for name, by in inputs.terms.items()
        for mode, part in by.items()
    }
    for name, column in columns.items():
        if len(column) != len(inputs.input):
            yield (
                f"inputs.{name} must have an entry for each of {len(inputs.input)} "
                f"inputs; it has {len(column)}"
            )
    if inputs.unit and not 0 <= min(inputs.unit) <= max(inputs.unit) < len(
        inputs.units
    ):
        yield (
            "inputs.unit must name places in "
            f"a list of {len(inputs.units)} units; it does not"
        )
    for name, by in inputs.terms.items():
        if list(by) != list(inputs.losses):
            modes, names = ", ".join(inputs.losses), ", ".join(by) or "none"
            yield f"inputs.terms.{name} must have the modes {modes}; it has {names}"
    if set(inputs.terms) != set(inputs.weights) or not set(inputs.free) <= set(
        inputs.weights
    ):
        yield (
            "inputs.weights must name the loss terms, and inputs.free "
            "some of them; they do not"
        )


SCHEMA = "deepval/result/1"
WHAT = "a result saved by deepval"
ABSENT = ("inputs", "thresholds", "recovery", "effect", "picture")
"""Parts that a saved result has only where they hold something."""
HEADLINE = 0.2
"""Share of the headline budget, the default where a result has several budgets."""


def share_of(part: float | None, whole: float | None) -> float | None:
    """The part of a whole as a share; None where one of them is unknown or the whole is
    not positive.
    """
    return None if part is None or whole is None or not whole > 0 else part / whole


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
                f"{what} needs the scores in memory, and {self.fresh}: allow more "
                "(memory=..., --memory)."
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
    requested = {
        part: value
        if value is None
        else checks.number(value, part)
        if part == "alpha"
        else checks.text(value, part)
        for part, value in requested.items()
    }
    by_budget = {
        record.budget: record
        for record in reversed(records)
        if allocator in (record.allocator, record.name)
    }
    matching = {
        key: record for key, record in by_budget.items() if key.holds(**requested)
    }
    if len(matching) > 1:
        kinds = {key.kind for key in matching}
        # A result of one kind of budget has its headline in that kind.
        usual = "selection" if "selection" in kinds or len(kinds) > 1 else min(kinds)
        kind, alpha = (
            requested["kind"] or usual,
            HEADLINE if requested["alpha"] is None else requested["alpha"],
        )
        matching = {
            key: record
            for key, record in matching.items()
            if key.holds(kind=kind, alpha=alpha)
        }
    if len(matching) == 1:
        return next(iter(matching.values()))
    if not by_budget:
        names = dict.fromkeys(record.allocator for record in records)
        raise InputError(
            "The result has no "
            "allocator "
            f"{allocator!r}; it has {', '.join(names)}{suggestion(allocator, names)}"
        )
    description = (
        ", ".join(f"{k} = {v!r}" for k, v in requested.items() if v is not None)
        or "no budget named"
    )
    budgets = ", ".join(key.label for key in reversed(by_budget))
    raise InputError(
        f"Name one budget of {allocator!r}, such as alpha=0.2; found {description} "
        f"and the budgets {budgets}."
    )
