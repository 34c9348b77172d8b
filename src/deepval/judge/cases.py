"""Scores and a cell or values file -> a Result: the one way to judge scores on a cell.

`EvaluationData` is a values file or a cell's folder: table, loss terms, units by role,
scores files. The table lists every unit of the cell's split, so that cells of a data
set share their draws. Test units are judged unless others are named, and a judgement on
test units is noted in the cell's ledger.
"""

import errno
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from deepval.basics.arrays import Shaped
from deepval.basics.display import view
from deepval.basics.errors import InputError, InputWarning, few, suggestion
from deepval.basics.files import reading
from deepval.basics.files.canonical import (
    MANIFEST,
    SCORES,
    json_canonical,
    json_content,
)
from deepval.judge.allowances import (
    DOLLARS,
    Budget,
    MissingCosts,
    conventions,
    energy_convention,
)
from deepval.judge.draws import seeds_by_units
from deepval.judge.evaluation import evaluate
from deepval.judge.results import Result
from deepval.judge.tables.chunks import OnDisk, Parts
from deepval.judge.tables.columns import Columns, parquet_files
from deepval.judge.tables.costs import Convention, Costs
from deepval.judge.tables.scores import Kind, Missing, Scores, align_all, kind_of
from deepval.judge.tables.values import ValueTable, read_values

if TYPE_CHECKING:
    from deepval.judge.tables.split import Split

LEDGER = "opened.jsonl"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Error numbers of a disk that accepts no more data."""


def note(
    cell: "JudgedCell | None",
    *,
    by: str,
    units: Sequence[str] | None,
    scores: Mapping[str, Scores],
) -> None:
    """Append a line to the cell's ledger: a command judged scores on test units.

    Args:
        cell: The cell; None for a values file, which has no ledger.
        by: The command.
        units: Units judged on, all where None; without a test unit among them, nothing
            is written.
        scores: The judged scores.

    Raises:
        InputError: The disk is full. Other write errors, such as a read-only cell, are
            warnings.
    """
    if cell is None:
        return
    test = sorted(
        set(cell.split.test) & set(cell.split.units if units is None else units)
    )
    if not test:
        return
    # Only a cell has a ledger; its split, too, is loaded where there is a cell.
    from deepval.basics.files.writing import append_line

    judged = {name: item.digest for name, item in scores.items()}
    line = {"cell": cell.id, "by": by, "test_units": test, "scores": judged}
    try:
        append_line(cell.folder / LEDGER, json_canonical(line))
    except InputError as error:
        if getattr(error.__cause__, "errno", None) in FULL:
            raise
        warnings.warn(
            f"This look at test units is not counted: {error}",
            InputWarning,
            stacklevel=2,
        )


def openings(folder: Path, cell: str) -> int:
    """Number of judgements on test units of a cell in this folder; another cell built
    there before is not counted.
    """
    path = folder / LEDGER
    lines = (
        reading.content(path, "a ledger").splitlines() if reading.exists(path) else []
    )
    return sum(
        _cell_of(line, path, number) == cell for number, line in enumerate(lines, 1)
    )


def _cell_of(line: bytes, path: Path, number: int) -> str:
    """The cell that a line of a ledger is about."""
    try:
        content = json_content(line, path)
        if isinstance(content, dict) and isinstance(content.get("cell"), str):
            return content["cell"]
    except InputError:
        pass
    raise InputError(
        f"{path}: must be a ledger that deepval wrote; line {number} is no look at "
        "test units. It may have been cut off on a full disk: remove it with `sed -i "
        f"{number}d {path}`, and count that look yourself."
    )


class JudgedCell(ABC):
    """What judging needs of a cell; the cells themselves are of a higher layer.

    Attributes:
        id: The id of the cell.
        folder: Its folder.
        split: Its units by role.
        listed: Its losses, with every unit of the split listed.
        terms: Its loss terms.
        provenance: What every result on it states.
    """

    @cached_property
    @abstractmethod
    def split(self) -> "Split":
        """Its units by role."""

    @cached_property
    @abstractmethod
    def terms(self) -> Columns:
        """Its loss terms."""

    @property
    @abstractmethod
    def id(self) -> str:
        """The id of the cell."""

    @property
    @abstractmethod
    def folder(self) -> Path:
        """Its folder."""

    @property
    @abstractmethod
    def listed(self) -> ValueTable:
        """Its losses, with every unit of the split listed."""

    @property
    @abstractmethod
    def provenance(self) -> dict[str, str | None]:
        """What every result on it states."""


class ScoredInputs(ABC):
    """Scores of some inputs of a cell, not aligned with a table.

    Attributes:
        input: The inputs that have a score.
    """

    input: Shaped[np.ndarray, "input"]

    @abstractmethod
    def over(self, table: ValueTable) -> Scores:
        """The scores, aligned with a table."""


@dataclass(frozen=True, eq=False)
class EvaluationData:
    """The data to judge scores on.

    Attributes:
        source: The file or folder read.
        table: The losses; a cell's with every unit of its split listed, so that cells
            of a data set share draws.
        cell: The cell; None for a values file.
        own_costs: Whether the costs are those in the cell's folder, not those of a file
            from the caller.
    """

    source: Path
    table: ValueTable
    cell: JudgedCell | None = None
    own_costs: bool = False

    @property
    def roles(self) -> tuple[str, ...]:
        """Words that stand for units."""
        if self.cell is None:
            return ()
        from deepval.judge.tables.split import ROLES

        return ROLES

    @property
    def provenance(self) -> dict[str, str | None]:
        """Id of the cell and SHA-256 of its split; None for a values file."""
        return (
            {"cell": None, "split": None} if self.cell is None else self.cell.provenance
        )

    @property
    def not_held_out(self) -> str | None:
        """Note on a judgement on a cell with too few units for a split; None where
        there is a split.
        """
        too_few = None if self.cell is None else self.cell.split.too_few
        return (
            None
            if too_few is None
            else (
                f"{self.source.name}: {too_few}: all are judged "
                "on, nothing was held out."
            )
        )

    def judged_units(
        self,
        named: Sequence[str] | None,
        scores: Mapping[str, Scores],
        *,
        calibration: Sequence[str] | None = None,
    ) -> tuple[list[str] | None, str | None]:
        """Units to judge, and a note where nothing is held out: unfitted scores need no
        held-out units.

        Args:
            named: Units by name or role; None chooses test units or all.
            scores: The scores to judge.
            calibration: Units that are not judged.
        """
        if self.cell is None:
            return None if named is None else self.units(named), None
        if named is None and not scores and calibration is None:
            return self.units(None, usual="all"), None
        # All units are judged only if all scores cover all inputs and state that
        # nothing was fitted.
        if (
            named is not None
            or self.not_held_out is not None
            or not scores
            or any(
                s.fit is None or s.fit.units.any() or not s.covered.all()
                for s in scores.values()
            )
        ):
            return self.units(named, usual="test"), self.not_held_out
        units = [
            unit
            for unit in self.units(None, usual="all") or ()
            if unit not in set(calibration or ())
        ]
        number = (
            f"all {len(units)}{' other' * bool(calibration)} units are"
            if len(units) > 1
            else "its only unit is"
        )
        note = (
            f"{self.source.name}: {', '.join(scores)} "
            f"{'was' if len(scores) == 1 else 'were'} not fitted, so no units are "
            f"held out: {number} judged. --units test judges the test units alone."
        )
        warnings.warn(note, InputWarning, stacklevel=2)
        return units, note

    @property
    def has_scores(self) -> bool:
        """Whether the cell's folder has scores files."""
        return self.cell is not None and any(
            reading.find(self.source / SCORES, "*.csv")
        )

    def units(
        self, named: Sequence[str] | None, *, usual: str | None = None
    ) -> list[str] | None:
        """Units by name or role; without names, the units of a cell with the usual
        role. A values file has no roles.
        """
        if self.cell is None and named is None:
            return None
        from deepval.judge.tables.split import ROLES, units_of

        if self.cell is not None:
            requested = usual if named is None else named
            if usual == "test" and self.not_held_out is not None:
                warnings.warn(self.not_held_out, InputWarning, stacklevel=2)
            return (
                None
                if requested is None
                else list(units_of(self.cell.split, requested))
            )
        # A unit of a values file may itself be called "test" or "all": then it is a
        # name, not a role.
        all_units = set(self.table.unit_ids.tolist())
        roles = [
            name for name in named or () if name in ROLES and name not in all_units
        ]
        if roles:
            raise InputError(
                f"{self.source}: units by role ({', '.join(roles)}) need a cell, "
                "whose split assigns roles, and this is a values file: give the "
                "cell's folder, or name the units."
            )
        return None if named is None else list(named)

    def scores(
        self, named: Mapping[str, Path], *, needed: bool = True
    ) -> dict[str, Scores]:
        """Scores in files, aligned with the table; for a cell, also by name in its
        folder, and all if none is named.

        Args:
            named: Files by allocator.
            needed: Whether there is nothing to judge without scores.
        """
        if self.cell is None or not (named or needed or self.has_scores):
            files = dict(named)
        else:
            files = self._score_files(named)
        if needed and not files:
            raise InputError(
                f"{self.source}: at least one scores file must be given to judge; "
                "found none."
            )
        aligned = align_all(self.table, files)
        return {item.name: item for item in aligned}

    def _score_files(self, named: Mapping[str, Path]) -> dict[str, Path]:
        """The named scores files, by path or by name in the cell's folder; all files
        there if none is named.
        """
        folder = self.source / SCORES
        stored = {path.stem: path for path in sorted(reading.find(folder, "*.csv"))}
        if not named and not stored:
            raise InputError(
                f"{self.source}: there must be scores to judge, and none lie in "
                f"{folder}: write some with `deepval score {self.source} ego-speed`, "
                "or give -s FILE."
            )
        for file in named.values():
            if not file.suffix and not reading.exists(file) and str(file) not in stored:
                raise InputError(
                    f"{file}: must be a scores file or the name of one in {folder} "
                    f"({few(list(stored)) or 'empty'}); "
                    f"there is neither{suggestion(file, stored)}"
                )
        chosen = {
            name: file if reading.exists(file) else stored.get(str(file), file)
            for name, file in named.items()
        }
        return chosen or stored

    @property
    def energy_convention(self) -> Convention:
        """What an energy budget on these data counts."""
        return energy_convention(self.table.costs, self.table.input_costs)

    def kinds(self, scores: Mapping[str, Scores], *, every: bool = False) -> list[str]:
        """Kinds of budgets that the costs allow: they charge one or more allocators, or
        all if `every`.

        Where a costs file charges no allocator, every kind whose modes have a cost is
        returned.
        """
        costs, per_input, measured = (
            self.table.costs,
            self.table.input_costs,
            conventions(self.energy_convention),
        )
        if costs is None:
            # Prices in the table mean that money is what counts.
            if DOLLARS in per_input:
                return ["money"]
            paid = [kind for kind, unit in measured.items() if unit in per_input]
            return ["selection", *paid]
        possible = [
            kind
            for kind, unit in measured.items()
            if unit in per_input or costs.has_all(unit)
        ]
        unpriced = {
            kind: [
                name
                for name, item in scores.items()
                if not _has_cost(costs, item, measured[kind])
            ]
            for kind in possible
        }
        most = 0 if every else max(len(scores) - 1, 0)
        chosen = [kind for kind in possible if len(unpriced[kind]) <= most]
        left_out = [kind for kind in possible if kind not in chosen]
        if every and self.own_costs and left_out:
            names = dict.fromkeys(name for kind in left_out for name in unpriced[kind])
            note = (
                f"No {' and no '.join(left_out)} budgets: the cell's costs have no "
                f"cost of {', '.join(names)}. `deepval profile` measures it; pass the "
                "costs file with --costs."
            )
            warnings.warn(InputWarning(note), stacklevel=2)
            return ["selection", *chosen]
        return ["selection", *(chosen or possible)]

    def missing_costs(
        self,
        scores: Mapping[str, Scores],
        budgets: Sequence[Budget],
        *,
        requested: bool = False,
    ) -> MissingCosts:
        """Treatment of allocators without a cost: error if none has a cost and a
        measured budget was requested.
        """
        costs = self.table.costs
        units: set[Convention] = {
            one.convention for one in budgets if one.convention is not None
        }
        charged = costs is not None and any(
            _has_cost(costs, item, unit) for item in scores.values() for unit in units
        )
        return "list" if charged or (self.own_costs and not requested) else "error"


def with_note(result: Result, note: str | None) -> Result:
    """The result with a note before its warnings, if there is one."""
    return (
        result if note is None else replace(result, warnings=(note, *result.warnings))
    )


def note_unknown_fits(scores: Mapping[str, Scores]) -> None:
    """Warn of calibration scores that do not state the units that their allocator was
    fitted on.
    """
    unknown = [name for name, item in scores.items() if item.fit is None]
    if unknown:
        note = (
            f"{', '.join(unknown)}: the scores do not state which units they were "
            "fitted on (columns fit_units and in_fit, as `deepval score` writes "
            "them); calibrate on units that were not fitted on."
        )
        warnings.warn(InputWarning(note), stacklevel=2)


def _has_cost(costs: Costs, scores: Scores, unit: Convention) -> bool:
    """Whether an allocator is deployable and has a cost in this unit."""
    return scores.kind == "deployable" and unit in costs.allocators.get(scores.name, {})


def read_evaluation_data(
    source: Path,
    *,
    costs: Path | None = None,
    modes: Sequence[str] | None = None,
) -> EvaluationData:
    """The cell in a folder, or the losses in one or several values files; with these
    costs and modes, if any.
    """
    if reading.is_folder(source) and (
        reading.exists(source / MANIFEST) or not parquet_files(source)
    ):
        cell = view("cell", source)
        table = cell.listed if modes is None else cell.listed.with_modes(modes)
        table = table if costs is None else replace(table, costs=Costs.of(costs))
        return EvaluationData(source, table, cell, own_costs=costs is None)
    if not source.suffix and not reading.exists(source):
        raise InputError(
            f"{source}: must be a values file (.csv, .parquet) or a cell's folder; "
            "there is neither."
        )
    try:
        table = read_values(source, costs=costs, modes=modes)
    except InputError as error:
        # The readers of logs are loaded only where one is needed.
        from deepval.judge.tables.logs.advice import import_advice

        advice = import_advice(source)
        if advice is not None:
            raise InputError(advice) from error
        raise
    return EvaluationData(source, table)


def head_of(files: OnDisk, costs: Path | None = None) -> EvaluationData:
    """Evaluation data with only the first input of a table on disk: enough to know its
    modes and costs.
    """
    parts = Parts.of(files.source)
    parts.require("unit", "input")
    return EvaluationData(files.source, read_values(parts.head(), costs=costs))


def heads_of(case: EvaluationData, files: Mapping[str, Path]) -> dict[str, Scores]:
    """Placeholder scores of the first input of a table on disk, with the names and
    kinds of the scores files.
    """
    if not files:
        raise InputError(
            f"{case.source}: at least one scores file must be given to judge a table "
            "that is read in pieces (without scores it must fit the memory); found "
            "none: give -s."
        )
    heads = {name: Parts.of(path, name).head() for name, path in files.items()}
    kinds: dict[str, Kind] = {name: kind_of(head) for name, head in heads.items()}
    return {
        name: Scores(name, np.zeros(1), np.ones(1, dtype=bool), kind=kinds[name])
        for name in files
    }


def case_of(cell: JudgedCell, costs: Costs | None = None) -> EvaluationData:
    """A built cell as the data to judge scores on; with other costs than its own, if
    any.
    """
    table = cell.listed if costs is None else replace(cell.listed, costs=costs)
    return EvaluationData(cell.folder, table, cell, own_costs=costs is None)


def shared_seeds(
    cells: Mapping[str, JudgedCell], seed: int, *, units: str | Sequence[str] = "test"
) -> dict[str, int]:
    """Per cell, the seed of its draws: cells with the same units of this role share
    it.
    """
    from deepval.judge.tables.split import units_of

    return seeds_by_units(
        {name: units_of(cell.split, units) for name, cell in cells.items()}, seed
    )


def judge(
    case: "EvaluationData | JudgedCell",
    scores: Mapping[str, Scores | ScoredInputs],
    budgets: Sequence[Budget] | None = None,
    *,
    command: str | None,
    units: Sequence[str] | None = None,
    missing: Missing = "error",
    **settings: Any,
) -> Result:
    """The judgement of scores on a cell or a values file.

    Args:
        case: A built cell, or the data of `read_evaluation_data` or `case_of`.
        scores: Scores by allocator.
        budgets: Budgets; selection at the default levels where None.
        command: Command that judges, for the ledger; None leaves the ledger as it is.
        units: Units by name; where None, the test units of a cell and all units of a
            values file.
        missing: Whether an input without a score is an error or ranked last ("worst");
            where it is an error, allocators without any score are left out.
        settings: More arguments of `evaluate`: draws, seed, calibration, by,
            missing_costs, terms, watch and so on.
    """
    case = case if isinstance(case, EvaluationData) else case_of(case)
    if units is None and case.cell is not None:
        units = list(case.cell.split.test)
    aligned = {
        name: item if isinstance(item, Scores) else item.over(case.table)
        for name, item in scores.items()
        if isinstance(item, Scores) or len(item.input) or missing == "worst"
    }
    result = evaluate(
        case.table, aligned, budgets, units=units, missing=missing, **settings
    )
    if case.cell is None:
        return result
    if command is not None:
        note(case.cell, by=command, units=units, scores=aligned)
    judged, split = set(result.provenance.units), case.cell.split
    role = (
        "all"
        if judged == set(split.units)
        else "test"
        if judged == set(split.test)
        else "chosen"
    )
    return replace(
        result, provenance=replace(result.provenance, **case.provenance, role=role)
    )


Item = TypeVar("Item", bound=Any)


def with_costs(scored: Mapping[str, Item], costs: Costs | None) -> dict[str, Item]:
    """The scores of allocators with a latency in the cost profile."""
    costs_by_allocator = {} if costs is None else costs.allocators
    return {
        name: item
        for name, item in scored.items()
        if "ms" in costs_by_allocator.get(name, {})
    }


def with_batched(scored: Mapping[str, Item], costs: Costs) -> dict[str, Item]:
    """The scores, and a copy as `<name>-batched` where the cost profile has a cost of
    scoring in batches.
    """
    batched = {f"{name}-batched": item for name, item in scored.items()}
    renamed = {
        name: replace(item, name=name)
        for name, item in batched.items()
        if name in costs.allocators
    }
    return {
        **scored,
        **{name: item for name, item in renamed.items() if name not in scored},
    }
