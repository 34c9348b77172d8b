"""Scores from arrays, files or frames -> one number per input of a table, aligned by
id.

Higher means escalate first. Equal numbers are ties; +inf and -inf mean always and
never; NaN is an error. Columns `score_<mode>` instead of `score` are an allocator's own
estimate of every mode's value. A column `choice` names the mode that a router runs, and
nothing else is ranked. Columns `fit_units` and `in_fit`, which `deepval score` writes,
state which inputs are of units that the allocator was fitted on.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from deepval.basics.arrays import (
    Float,
    InputFlags,
    InputInts,
    PerRow,
    RowInts,
    RowValues,
)
from deepval.basics.errors import InputError, argument, few, quote
from deepval.basics.files.canonical import sha256
from deepval.judge.results import ALWAYS, ALWAYS_MODE
from deepval.judge.tables import columns, keys
from deepval.judge.tables.columns import LOSS_PREFIX, REWARD_PREFIX
from deepval.judge.tables.values import ValueTable

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


JUDGE, CALIBRATE = "units", "calibration"
"""Roles of units, by the argument that names them."""
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


def align_all(table: ValueTable, scores: Any) -> list[Scores]:
    """Every allocator's scores by its name, aligned with the table; inputs without a
    score are marked, not filled.
    """
    check_names(scores)
    return [align(table, name, source) for name, source in scores.items()]


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


def align(table: ValueTable, name: str, source: Any) -> Scores:
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
    frame_like = any(
        hasattr(source, name) for name in ("columns", "column_names", "schema")
    )
    has_array = hasattr(source, "__array__") and not frame_like
    if isinstance(source, list | tuple) or has_array:
        labels = getattr(source, "index", None)
        if getattr(labels, "name", None) != "input":
            return _from_array(table, name, source)
        source = {"input": labels, "score": source}
    try:
        raw = columns.read(source, texts=(*columns.ID_COLUMNS, table.id_column))
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    title = name if raw.source == name else f"{name}: {raw.source}"
    return _from_columns(table, name, columns.Columns(title, raw.data))


def _from_columns(table: ValueTable, name: str, raw: columns.Columns) -> Scores:
    """Scores from columns, aligned by id."""
    refuse_values(raw.data, raw.source)
    if table.id_column in raw.data and "input" not in raw.data:
        data = {**raw.data, "input": raw.data[table.id_column]}
        raw = columns.Columns(raw.source, data)
    raw.require("input")
    by_mode = [SCORE_PREFIX + mode for mode in table.modes[1:]]
    present = [column for column in raw.data if column.startswith(SCORE_PREFIX)]
    names = by_mode
    is_choice = False
    if "score" in raw.data:
        names = ["score"]
    elif set(present) != set(by_mode):
        is_choice = CHOICE in raw.data and not present
        if not is_choice:
            raise InputError(
                f"{raw.source}: a column 'score' is needed, or all of "
                f"{', '.join(by_mode)}, or 'choice'; found {', '.join(raw.data)}."
            )
    rows = _rows_of(table, raw)
    ids = raw.ids("input")
    # Inputs without a score stay NaN.
    values = np.full((len(table), len(names)), np.nan)
    if is_choice:
        what = f"{raw.source}: column {CHOICE!r}"
        values[rows] = _choices(table, raw.ids(CHOICE), ids, what)
    else:
        for number, column in enumerate(names):
            scores = raw.numbers(column)
            _refuse_nan(scores, ids, f"{raw.source}: column {column!r}")
            values[rows, number] = scores
    covered = np.zeros(len(table), dtype=bool)
    covered[rows] = True
    fit = None
    if FIT_UNITS in raw.data or IN_FIT in raw.data:
        fit = fit_of(raw).on_table(rows, len(table))
    modes = table.modes[1:]
    if names == ["score"]:
        values = values[:, 0]
        modes = ()
    return Scores(name, values, covered, modes, kind_of(raw), fit, is_choice)


def refuse_values(names: Collection[str], source: str) -> None:
    """Raise where the columns of a scores file are those of values."""
    if "score" not in names and any(
        name.startswith((LOSS_PREFIX, REWARD_PREFIX)) for name in names
    ):
        raise InputError(
            f"{source}: scores are needed here (input, score), and this looks like "
            f"values: it has {', '.join(names)}. Are values and scores exchanged? "
            "Values come first, then scores."
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
        others = f", nor have {len(absent) - 1} more" if len(absent) > 1 else ""
        raise InputError(
            f"{scores.name}: every input needs a score; input "
            f"{str(table.input[absent[0]])!r} has none{others}. "
            f"{_advice(scores, table, role)}"
        )
    values = scores.values.copy()
    # A choice that is missing is the cheap mode.
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
    raise InputError(
        f"{scores.name}: calibration units must be units that the allocator was not "
        "fitted on, so that its scores are like those on new units; it was fitted on "
        f"{len(names)} of these {len(table.unit_ids)} ({few(names)}). Fit it with "
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
    unscored = (inputs > 0) & (scored == 0)
    last = f"{argument('missing', 'worst')} to rank them last"
    if not unscored.any():
        return f"Use {last}."
    if not scored.any():
        return "No input of these units has a score: name the units that are scored."
    names = table.unit_ids[scored > 0].tolist()
    named = f"{argument(role)} must name those that are scored, {few(names)}"
    if few(names) == ", ".join(names):
        named = f"use {argument(role, names)}, those that are scored"
    lacking = int((inputs - scored)[scored > 0].sum())
    also = f", with {last}: {lacking} there lack one" if lacking else ""
    return (
        f"No input of {np.count_nonzero(unscored)} of the {units} units has one: "
        f"{named}{also}."
    )


def kind_of(raw: columns.Columns) -> Kind:
    """The value of the column `kind`, the same for all inputs; deployable where there
    is no such column.
    """
    if "kind" not in raw.data:
        return "deployable"
    return one_kind(map(str, np.unique(raw.ids("kind"))), raw.source)


def one_kind(names: Iterable[str], source: str) -> Kind:
    """The kind that a column of kinds names for every input."""
    kinds = set(names)
    if kinds == {"deployable"}:
        return "deployable"
    if kinds == {"diagnostic"}:
        return "diagnostic"
    raise InputError(
        f"{source}: column 'kind' must be 'deployable' or 'diagnostic', the same "
        f"for every input; found {', '.join(sorted(kinds)[:3])}."
    )


def fit_of(raw: columns.Columns) -> Fit:
    """The fit in the columns `fit_units` and `in_fit`."""
    for name in (FIT_UNITS, IN_FIT):
        if name not in raw.data:
            raise InputError(
                f"{raw.source}: {FIT_UNITS!r} and {IN_FIT!r} belong together, and "
                f"there is no {name!r}: write the scores again with `deepval score`, "
                "or leave the other column out."
            )
    units = raw.numbers(FIT_UNITS)
    inside = raw.numbers(IN_FIT)
    is_number = (units >= 0) & (units <= 2**53) & (np.floor(units) == units)
    is_flag = (inside == 0) | ((inside == 1) & (units >= 1))
    ids = raw.ids("input")
    what = f"{raw.source}: column {FIT_UNITS!r} must hold a number of units"
    keys.refuse_rows(~is_number, units, what, ids)
    what = (
        f"{raw.source}: column {IN_FIT!r} must hold 0, or 1 where the allocator was "
        "fitted on the input's unit"
    )
    keys.refuse_rows(~is_flag, inside, what, ids)
    return Fit(units.astype(np.int64), inside == 1)


def _from_array(table: ValueTable, name: str, source: Any) -> Scores:
    """Scores in the table's order: one per input, or per input and mode where there are
    modes between.
    """
    what = f"{name}: the array of scores"
    labels = getattr(source, "index", None)
    ascending = getattr(labels, "is_monotonic_increasing", None)
    if ascending is not None:
        is_integer = np.asarray(labels).dtype.kind in "iu"
        if not (is_integer and ascending):
            raise InputError(
                f"{what} is a Series whose index is not ascending numbers; name the "
                "index 'input' to align it by id."
            )
    array = columns.as_array(source, what, axes=2)
    modes = table.modes[1:]
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
    covered = np.ones(len(table), dtype=bool)
    is_text = array.ndim == 1 and array.dtype.kind in "UO" and isinstance(array[0], str)
    if is_text:
        chosen = _choices(table, array.astype(str), table.input, what)
        return Scores(name, chosen, covered, modes, choice=True)
    if array.ndim == 1:
        scores = columns.number_array(array, what, ids=table.input)
        _refuse_nan(scores, table.input, what)
        # A copy: a result reads scores later, when the array may hold others.
        return Scores(name, scores.copy(), covered)
    values = np.empty(array.shape)
    for number, mode in enumerate(modes):
        what_of_mode = f"{what} of mode {mode!r}"
        column = columns.number_array(array[:, number], what_of_mode, ids=table.input)
        _refuse_nan(column, table.input, what_of_mode)
        values[:, number] = column
    return Scores(name, values, covered, modes)


def _choices(
    table: ValueTable, names: RowValues, ids: RowValues, what: str
) -> Float[np.ndarray, "row mode"]:
    """For each mode above cheap, 1 where it is chosen."""
    requirement = f"{what} must name one of the modes {', '.join(table.modes)}"
    keys.refuse_rows(~np.isin(names, table.modes), names, requirement, ids)
    return (names[:, None] == np.array(table.modes[1:])).astype(np.float64)


def _refuse_nan(scores: PerRow, ids: RowValues, what: str) -> None:
    keys.refuse_rows(np.isnan(scores), scores, f"{what} must hold numbers", ids)


def _rows_of(table: ValueTable, raw: columns.Columns) -> RowInts:
    ids = raw.ids("input")
    rows = keys.positions(ids, table.input)
    unknown = np.flatnonzero(rows < 0)
    if len(unknown) > 0 or np.bincount(rows).max() > 1:
        columns.refuse_repeated(ids, raw.source)
    requirement = f"{raw.source}: every scored input must be in the table"
    keys.refuse_rows(rows < 0, ids, requirement, ids)
    return rows
