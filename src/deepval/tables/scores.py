"""Scores from arrays, files or frames -> one number per input of a table, aligned by
id.

Higher means escalate first. Equal numbers are ties; +inf and -inf mean always and
never; NaN is an error. Columns `score_<mode>` instead of `score` are an allocator's own
estimate of every mode's value. A column `choice` names the mode that a router runs, and
nothing else is ranked. Columns `fit_units` and `in_fit`, which `deepval score` writes,
state which inputs are of units that the allocator was fitted on.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from deepval.arrays import Float, InputFlags, InputInts, PerRow, RowInts, RowValues
from deepval.errors import InputError, quote
from deepval.files.canonical import sha256
from deepval.results import ALWAYS, ALWAYS_MODE
from deepval.tables import columns, keys
from deepval.tables.columns import LOSS_PREFIX, REWARD_PREFIX
from deepval.tables.values import ValueTable

SCORE_PREFIX = "score_"
FIT_UNITS, IN_FIT = "fit_units", "in_fit"
"""Columns of a scores file: on how many units the allocator behind a score was fitted,
and whether the input's unit is one of them (1) or not (0)."""
CHOICE = "choice"
"""Column of a scores file with the mode to run."""
REFERENCES = (
    "random",
    "never",
    "all-full",
    ALWAYS,
    "oracle",
    "oracle-ladder",
    "random-ladder",
)
"""Names of the reference rows of a result, and how one is shown; an allocator cannot
have one of them.
"""


def is_reference(name: str) -> bool:
    """Whether a row is a yardstick: a reference, or a fixed mode."""
    return name in REFERENCES or name.startswith(ALWAYS_MODE)


JUDGE, CALIBRATE = "judge on --units", "calibrate with --calibrate"
"""Roles of units, as worded in messages."""
LISTED, LISTED_FITTED = 100, 5
"""Largest number of units that a message lists: scored units, and units that an
allocator was fitted on.
"""
Missing = Literal["error", "worst"]
Kind = Literal["deployable", "diagnostic"]


@dataclass(frozen=True, eq=False)
class Fit:
    """Which inputs are of units that the allocator behind their scores was fitted on.

    Attributes:
        units: For each input, the number of units that the allocator was fitted on; 0
            where nothing was fitted.
        inside: Whether the input's own unit is one of them.
    """

    units: InputInts
    inside: InputFlags

    @classmethod
    def none(cls, inputs: int) -> "Fit":
        """The fit of a signal: nothing was fitted."""
        return cls(np.zeros(inputs, dtype=np.int64), np.zeros(inputs, dtype=bool))

    def keep(self, rows: InputFlags | RowInts) -> "Fit":
        """The fit behind the chosen inputs, in the chosen order."""
        return Fit(self.units[rows], self.inside[rows])

    def on_table(self, rows: InputInts, inputs: int) -> "Fit":
        """The fit on a table of `inputs` inputs, in which these inputs are `rows`;
        other inputs have no fit.
        """
        whole = Fit.none(inputs)
        whole.units[rows], whole.inside[rows] = self.units, self.inside
        return whole

    def columns(self) -> dict[str, InputInts]:
        """Columns of a scores file."""
        return {FIT_UNITS: self.units, IN_FIT: self.inside.astype(np.int64)}


@dataclass(frozen=True, eq=False)
class Scores:
    """An allocator's scores for every input of a table.

    Attributes:
        name: The allocator's name.
        values: One score per input, or one per input and mode above cheap.
        covered: Which inputs came with a score.
        modes: Names of the modes of the columns, empty for a plain score.
        kind: Whether a vehicle could compute the scores; a diagnostic has no cost, so
            measured budgets refuse it.
        fit: Which inputs are of units that it was fitted on; None where the scores do
            not state it.
        choice: Whether it names one mode per input instead: the score of that mode is
            1, all others are 0.
    """

    name: str
    values: Float[np.ndarray, "input *mode"]
    covered: InputFlags
    modes: tuple[str, ...] = ()
    kind: Kind = "deployable"
    fit: Fit | None = None
    choice: bool = False

    def keep(self, rows: InputFlags) -> "Scores":
        """The scores of the chosen inputs."""
        fit = None if self.fit is None else self.fit.keep(rows)
        return replace(
            self, values=self.values[rows], covered=self.covered[rows], fit=fit
        )

    @property
    def chosen(self) -> InputInts:
        """The mode that a choice names for each input; 0 for cheap."""
        return self.values.astype(np.int64) @ np.arange(1, self.values.shape[1] + 1)

    @cached_property
    def order(self) -> InputInts:
        """The inputs by falling plain score, sorted once."""
        return np.argsort(-self.values)

    @property
    def digest(self) -> str:
        """SHA-256 of the aligned scores."""
        return sha256(np.ascontiguousarray(self.values, dtype="<f8").reshape(-1).data)


def align_all(
    table: ValueTable, scores: Any, form: columns.Form = columns.OURS
) -> list[Scores]:
    """Every allocator's scores by its name, aligned with the table; inputs without a
    score are marked, not filled.
    """
    check_names(scores)
    return [align(table, name, source, form) for name, source in scores.items()]


def check_names(scores: Any) -> None:
    """Raise where scores are not a mapping from allocator names, or a name is not
    allowed.
    """
    if not isinstance(scores, Mapping):
        raise InputError(
            "Scores must be a mapping from allocator names, "
            f"{{'mine': ...}}; found {type(scores).__name__}."
        )
    for name in scores:
        if not isinstance(name, str) or not name.strip() or is_reference(name):
            raise InputError(
                "An allocator needs a name of its "
                f"own, not one of {REFERENCES}; found {quote(name)}."
            )
        # A file name that is not UTF-8 leaves lone surrogates.
        if len(name) > columns.LONGEST_ID or any(
            "\ud800" <= sign <= "\udfff" for sign in name
        ):
            raise InputError(
                f"An allocator's name must be text of at most {columns.LONGEST_ID:,} "
                f"characters; found {quote(name)}. Write NAME=FILE."
            )


def align(
    table: ValueTable, name: str, source: Any, form: columns.Form = columns.OURS
) -> Scores:
    """One allocator's scores from an array in the table's order, or from columns
    `input` and `score`.
    """
    if isinstance(source, Scores):
        if len(source.values) != len(table):
            raise InputError(
                f"{name}: scores must be aligned with the table, {len(table)} inputs; "
                f"these are with {len(source.values)}."
            )
        return source if source.name == name else replace(source, name=name)
    table_like = any(
        hasattr(source, name) for name in ("columns", "column_names", "schema")
    )
    if isinstance(source, list | tuple) or (
        hasattr(source, "__array__") and not table_like
    ):
        labels = getattr(source, "index", None)
        if getattr(labels, "name", None) != "input":
            return _from_array(table, name, source)
        source = {"input": labels, "score": source}
    try:
        raw = columns.read(source, form, scores=True)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    raw = columns.Columns(
        name if raw.source == name else f"{name}: {raw.source}", raw.data
    )
    refuse_values(raw.data, raw.source)
    if (
        form.modes
        and "input" not in raw.data
        and len(raw) == len(table)
        and table.input.dtype.kind == "i"
    ):
        # both files have a row per input
        raw = columns.Columns(raw.source, {**raw.data, "input": table.input})
    raw.require("input", advice=" --column NAME=COLUMN reads a column of another name.")
    names = (
        ["score"]
        if "score" in raw.data
        else [SCORE_PREFIX + mode for mode in table.modes[1:]]
    )
    plain = names == ["score"]
    choice = CHOICE in raw.data and not any(
        name.startswith("score") for name in raw.data
    )
    if (
        not plain
        and not choice
        and {column for column in raw.data if column.startswith(SCORE_PREFIX)}
        != set(names)
    ):
        raise InputError(
            f"{raw.source}: a column 'score' is needed, or all of {', '.join(names)}, "
            f"or 'choice'; found {', '.join(raw.data)}. --column score=COLUMN reads a "
            "column of another name."
        )
    rows = _rows_of(table, raw)
    if choice:
        numbers = _choices(
            table, raw.ids(CHOICE), raw.ids("input"), f"{raw.source}: column {CHOICE!r}"
        )
    else:
        numbers = [raw.numbers(column) for column in names]
        _refuse_nan(
            numbers,
            raw.ids("input"),
            [f"{raw.source}: column {column!r}" for column in names],
        )
    values = np.full((len(table), len(names)), np.nan)
    values[rows] = np.column_stack(numbers)
    covered = np.zeros(len(table), dtype=bool)
    covered[rows] = True
    fit = fit_of(raw) if FIT_UNITS in raw.data or IN_FIT in raw.data else None
    return Scores(
        name,
        values[:, 0] if plain else values,
        covered,
        () if plain else table.modes[1:],
        kind_of(raw),
        None if fit is None else fit.on_table(rows, len(table)),
        choice,
    )


def refuse_values(names: Collection[str], source: str) -> None:
    """Raise where the columns of a scores file are those of values."""
    if "score" not in names and any(
        name.startswith((LOSS_PREFIX, REWARD_PREFIX)) for name in names
    ):
        raise InputError(
            f"{source}: scores are needed here (input, score), and this looks like "
            f"values: it has {', '.join(names)}. Are values and scores exchanged? "
            "Values come first, scores after -s."
        )


def fill_missing(
    scores: Scores, table: ValueTable, missing: Missing, *, role: str = JUDGE
) -> Scores:
    """The scores of all inputs; a missing score is an error, or -inf (ranked last)
    where `missing` is "worst".

    `role` is the role of the units of the table, JUDGE or CALIBRATE.
    """
    check_missing(missing)
    absent = np.flatnonzero(~scores.covered)
    if not len(absent):
        return scores
    if missing == "error":
        raise InputError(
            f"{scores.name}: every input needs a score; input "
            f"{str(table.input[absent[0]])!r} has "
            f"none{f', nor have {len(absent) - 1} more' if len(absent) > 1 else ''}. "
            f"{_advice(scores, table, role)}"
        )
    values = scores.values.copy()
    # a choice that is missing is the cheap mode
    values[absent] = 0.0 if scores.choice else -np.inf
    return replace(scores, values=values)


def check_missing(missing: Any) -> None:
    """Raise where `missing` is not a rule for inputs without a score."""
    if not isinstance(missing, str) or missing not in ("error", "worst"):
        raise InputError(f"missing must be 'error' or 'worst'; found {quote(missing)}.")


def on_part(
    part: ValueTable,
    scores: Scores,
    whole: ValueTable,
    missing: Missing,
    *,
    role: str = JUDGE,
) -> Scores:
    """Scores of a part of the table that they are aligned with, completed by
    `fill_missing`.
    """
    if part is not whole:
        inside = np.isin(whole.unit_ids, part.unit_ids)
        scores = scores.keep(inside[whole.unit])
    if role == CALIBRATE:
        _refuse_fitted(scores, part)
    return fill_missing(scores, part, missing, role=role)


def _refuse_fitted(scores: Scores, table: ValueTable) -> None:
    """Raise where an allocator would be calibrated on units that it was fitted on."""
    if scores.fit is None or not scores.fit.inside.any():
        return
    fitted = np.unique(table.unit[scores.fit.inside])
    names = table.unit_ids[fitted].tolist()
    listed = ", ".join(names[:LISTED_FITTED]) + (
        f" and {len(names) - LISTED_FITTED} more" * (len(names) > LISTED_FITTED)
    )
    raise InputError(
        f"{scores.name}: calibration units must be units that the allocator was not "
        "fitted on, so that its scores are like those on new units; it was fitted on "
        f"{len(names)} of these {len(table.unit_ids)} ({listed}). Fit it with "
        "`deepval fit CELL -a RECIPE -o FILE`: `deepval score CELL FILE` then scores "
        "validation units by a fit on other units."
    )


def _advice(scores: Scores, table: ValueTable, role: str) -> str:
    """Advice on inputs without a score: leave out units without scores, rank single
    inputs last.
    """
    units = len(table.unit_ids)
    inputs = np.bincount(table.unit, minlength=units)
    scored = np.bincount(table.unit[scores.covered], minlength=units)
    unscored, has_scores = (inputs > 0) & (scored == 0), scored > 0
    last = "missing='worst' (--missing worst) to rank them last"
    if not unscored.any():
        return f"Use {last}."
    if not has_scores.any():
        return "No input of these units has a score: name the units that are scored."
    names = table.unit_ids[has_scores]
    listing = ",".join(names[:LISTED]) + (",..." if len(names) > LISTED else "")
    lacking = int((inputs - scored)[has_scores].sum())
    return (
        f"No input of {np.count_nonzero(unscored)} of the {units} units has one: "
        f"{role} {listing} (units "
        "that "
        f"are scored){f', with {last}: {lacking} there lack one' if lacking else ''}."
    )


def kind_of(raw: columns.Columns) -> Kind:
    """The value of the column `kind`, the same for all inputs; deployable where there
    is no such column.
    """
    return (
        one_kind(map(str, np.unique(raw.ids("kind"))), raw.source)
        if "kind" in raw.data
        else "deployable"
    )


def one_kind(names: Iterable[str], source: str) -> Kind:
    """The kind that a column of kinds names for every input."""
    kinds = set(names)
    if kinds not in ({"deployable"}, {"diagnostic"}):
        raise InputError(
            f"{source}: column 'kind' must be 'deployable' or 'diagnostic', the same "
            f"for every input; found {', '.join(sorted(kinds)[:3])}."
        )
    return "diagnostic" if kinds == {"diagnostic"} else "deployable"


def fit_of(raw: columns.Columns) -> Fit:
    """The fit in the columns `fit_units` and `in_fit`."""
    stated = [name for name in (FIT_UNITS, IN_FIT) if name in raw.data]
    if len(stated) == 1:
        raise InputError(
            f"{raw.source}: {FIT_UNITS!r} and {IN_FIT!r} belong together, and there "
            f"is only {stated[0]!r}: write the scores again with `deepval score`, or "
            "leave the column out."
        )
    units, inside = raw.numbers(FIT_UNITS), raw.numbers(IN_FIT)
    whole = (units >= 0) & (units <= 2**53) & (np.floor(units) == units)
    bad = np.flatnonzero(~(whole & np.isin(inside, (0, 1)) & (inside <= units)))
    if len(bad):
        row = int(bad[0])
        raise InputError(
            f"{raw.source}: {FIT_UNITS!r} must be a number of units and {IN_FIT!r} 0, "
            "or 1 where the allocator was fitted on the input's unit; "
            f"{columns.row_name(row, raw.ids('input'))} has "
            f"{units[row]:g} and {inside[row]:g}."
        )
    return Fit(units.astype(np.int64), inside == 1)


def _from_array(table: ValueTable, name: str, source: Any) -> Scores:
    """Scores in the table's order: one per input, or per input and mode where there are
    modes between.
    """
    what = f"{name}: the array of scores"
    labels = getattr(source, "index", None)
    ascending = getattr(labels, "is_monotonic_increasing", None)
    if ascending is not None and not (
        ascending and np.asarray(labels).dtype.kind in "iu"
    ):
        raise InputError(
            f"{what} is a Series whose index is not ascending numbers; name the index "
            "'input' to align it by id."
        )
    array = columns.as_array(source, what, axes=2)
    if (
        array.ndim == 1
        and array.dtype.kind in "UO"
        and len(array) == len(table)
        and isinstance(array[0], str)
    ):
        numbers = _choices(table, array.astype(str), table.input, what)
        return Scores(
            name,
            np.column_stack(numbers),
            np.ones(len(table), bool),
            table.modes[1:],
            choice=True,
        )
    modes = table.modes[1:] if array.ndim == 2 else ()
    if array.ndim == 2 and (len(modes) == 1 or array.shape[1] != len(modes)):
        raise InputError(
            f"{what} must have one dimension, or a column for each of "
            f"{', '.join(modes)} where there are modes between "
            f"cheap and full; found shape {array.shape}."
        )
    if len(array) != len(table):
        raise InputError(
            f"{name}: an array of scores must have one per input of the table, "
            f"{len(table)}; found {len(array)}. Columns 'input' and 'score' are "
            "aligned by id."
        )
    whats = [f"{what} of mode {mode!r}" for mode in modes] or [what]
    by_column = array.T if modes else [array]
    numbers = [
        columns.number_array(c, w, ids=table.input)
        for c, w in zip(by_column, whats, strict=True)
    ]
    _refuse_nan(numbers, table.input, whats)
    return Scores(
        name,
        np.column_stack(numbers) if modes else numbers[0],
        np.ones(len(table), dtype=bool),
        modes,
    )


def _choices(
    table: ValueTable,
    names: RowValues,
    ids: RowValues,
    what: str,
) -> list[PerRow]:
    """For each mode above cheap, 1 where it is chosen."""
    unknown = np.flatnonzero(~np.isin(names, table.modes))
    if len(unknown):
        row = int(unknown[0])
        raise InputError(
            f"{what} must name one of the modes {', '.join(table.modes)}; "
            f"{columns.row_name(row, ids)} names {quote(str(names[row]))}."
        )
    return [(names == mode).astype(np.float64) for mode in table.modes[1:]]


def _refuse_nan(
    scores: Sequence[PerRow],
    ids: RowValues,
    whats: Sequence[str],
) -> None:
    for numbers, what in zip(scores, whats, strict=True):
        bad = np.flatnonzero(np.isnan(numbers))
        if len(bad):
            more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
            raise InputError(
                f"{what} must hold "
                f"numbers; {columns.row_name(int(bad[0]), ids)} holds NaN{more}."
            )


def _rows_of(table: ValueTable, raw: columns.Columns) -> RowInts:
    ids = raw.ids("input")
    rows = keys.positions(ids, table.input)
    unknown = np.flatnonzero(rows < 0)
    if len(unknown) or np.bincount(rows).max() > 1:
        columns.refuse_repeated(ids, raw.source)
    if len(unknown):
        raise InputError(
            f"{raw.source}: every scored input must be in the table; "
            f"{columns.row_name(int(unknown[0]), ids)} is "
            f"not{f', nor are {len(unknown) - 1} more' if len(unknown) > 1 else ''}."
        )
    return rows
