"""A values file or a cell's folder -> what scores are judged on: table, loss terms, units by role, scores beside it."""

import errno
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deepval.cells.spec import ROLES, units_of
from deepval.errors import InputError, InputWarning
from deepval.files import reading
from deepval.files.canonical import MANIFEST, json_canonical, json_content
from deepval.files.writing import append_line
from deepval.judging.budgets import Budget, Selection, conventions
from deepval.judging.notes import MissingCosts
from deepval.results import Result
from deepval.tables.columns import parquet_files
from deepval.tables.costs import Convention, Costs
from deepval.tables.parts import OnDisk, Parts
from deepval.tables.scores import Fit, Kind, Scores, align_all, kind_of
from deepval.tables.values import ValueTable, read_values

if TYPE_CHECKING:
    from deepval.cells.folder import BuiltCell

LEDGER = "opened.jsonl"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a disk says that takes no more."""


def note(
    cell: "BuiltCell", *, by: str, units: Sequence[str] | None, scores: Mapping[str, Scores], plan: str | None = None
) -> None:
    """Append that a command judged scores on these units (all where None), where test units are among them.

    Args:
        cell: The cell.
        by: The command.
        units: Units judged on.
        scores: What was judged.
        plan: SHA-256 of the plan that was followed, if any.

    Raises:
        InputError: The disk is full. A cell that this user may not write to, say, is a warning instead.
    """
    test = sorted(set(cell.split.test) & set(cell.split.units if units is None else units))
    if not test:
        return
    judged = {name: item.digest for name, item in scores.items()}
    line = {"cell": cell.id, "by": by, "test_units": test, "scores": judged, "plan": plan}
    try:
        append_line(cell.folder / LEDGER, json_canonical(line))
    except InputError as error:
        if getattr(error.__cause__, "errno", None) in FULL:
            raise
        warnings.warn(f"This look at test units is not counted: {error}", InputWarning, stacklevel=2)


def note_looks(cells: Iterable["BuiltCell"], *, by: str) -> None:
    """Append to each cell's ledger that an analysis judged allocators of its own on the test units."""
    for cell in cells:
        note(cell, by=by, units=cell.split.test, scores={})


def openings(folder: Path, cell: str) -> int:
    """How often test units of a cell were judged on in this folder; a cell built there before has its own count."""
    path = folder / LEDGER
    lines = reading.content(path, "a ledger").splitlines() if reading.exists(path) else []
    return sum(_cell_of(line, path, number) == cell for number, line in enumerate(lines, 1))


def _cell_of(line: bytes, path: Path, number: int) -> str:
    """The cell that a line of a ledger is about."""
    try:
        content = json_content(line, path)
        if isinstance(content, dict) and isinstance(content.get("cell"), str):
            return content["cell"]
    except InputError:
        pass
    raise InputError(
        f"{path}: must be a ledger that deepval wrote; line {number} is no look at test units. It may have been cut "
        f"off on a full disk: remove it with `sed -i {number}d {path}`, and count that look yourself."
    )


if TYPE_CHECKING:
    from deepval.cells.folder import BuiltCell

ALLOCATORS, SCORES = "allocators", "scores"
"""Folders beside a cell's files: what was fitted on it, and scores of its inputs."""


@dataclass(frozen=True, eq=False)
class Case:
    """What scores are judged on.

    Attributes:
        source: Where it was read from.
        table: The losses; a cell's with every unit of its split listed, so that its cells share their draws.
        cell: The cell, None where there is only a values file.
        own_costs: Whether the costs are those in the cell's folder, not of a file that the caller names.
    """

    source: Path
    table: ValueTable
    cell: "BuiltCell | None" = None
    own_costs: bool = False

    @property
    def terms(self) -> Any:
        """The cell's loss terms."""
        return None if self.cell is None else self.cell.terms

    @property
    def roles(self) -> tuple[str, ...]:
        """Words that stand for units."""
        return () if self.cell is None else ROLES

    @property
    def not_held_out(self) -> str | None:
        """What must be said of a judgement on a cell of too few units for a split; None where there is a split."""
        too_few = None if self.cell is None else self.cell.split.too_few
        return None if too_few is None else f"{self.source.name}: {too_few}: all are judged on, nothing was held out."

    def labelled(self, result: Result, note: str | None = None) -> Result:
        """The result with a note where nothing was held out: the one passed, or that of too few units for a split."""
        note = note or self.not_held_out
        return result if note is None else replace(result, warnings=(note, *result.warnings))

    def judged_units(
        self,
        named: Sequence[str] | None,
        scores: Mapping[str, Scores],
        *,
        calibration: Sequence[str] | None = None,
    ) -> tuple[list[str] | None, str | None]:
        """Units to judge and a note where those are all of a cell: with no fitted scores nothing has to be held out.

        Args:
            named: Units by name or role, which are taken as they are.
            scores: The scores to judge.
            calibration: Units that are not judged.
        """
        if named is not None or self._held_out(scores):
            return self.units(named, usual="test"), None
        units = [unit for unit in self.units(None, usual="all") or () if unit not in set(calibration or ())]
        number = f"all {len(units)}{' other' if calibration else ''} units"
        note = (
            f"{self.source.name}: {', '.join(scores)} {'was' if len(scores) == 1 else 'were'} not fitted, so no units "
            f"are held out: {number} are judged. --units test judges the test units alone."
        )
        warnings.warn(note, InputWarning, stacklevel=2)
        return units, note

    def _held_out(self, scores: Mapping[str, Scores]) -> bool:
        """Whether test units alone are judged: not if all scores state that nothing was fitted and cover all inputs."""
        if self.cell is None or self.not_held_out is not None or not scores:
            return True
        return any(s.fit is None or s.fit.units.any() or not s.covered.all() for s in scores.values())

    @property
    def scored(self) -> bool:
        """Whether scores lie beside the cell."""
        return self.cell is not None and any(reading.matching(self.source / SCORES, "*.csv"))

    def units(self, given: Sequence[str] | None, *, usual: str | None = None) -> list[str] | None:
        """Units by name or role; without any, those of a cell that have the usual role. A values file has no roles."""
        if self.cell is not None:
            wanted = usual if given is None else given
            if usual == "test" and self.not_held_out is not None:
                warnings.warn(self.not_held_out, InputWarning, stacklevel=2)
            return None if wanted is None else list(units_of(self.cell.split, wanted))
        known = set(self.table.unit_ids.tolist())
        roles = [name for name in given or () if name in ROLES and name not in known]
        if roles:
            raise InputError(
                f"{self.source}: units by role ({', '.join(roles)}) need a cell, whose split says who has it, and this "
                "is a values file: give the cell's folder, or name the units."
            )
        return None if given is None else list(given)

    def scores(self, given: Mapping[str, Path]) -> dict[str, Scores]:
        """Scores in files, aligned with the table; of a cell, also by their name beside it, or all that lie there."""
        files = dict(given) if self.cell is None else self._beside(given)
        if not files:
            raise InputError(f"{self.source}: at least one scores file must be given to judge; found none: give -s.")
        aligned = align_all(self.table, files)
        return {item.name: self._with_fit(item, files[item.name]) for item in aligned}

    def _with_fit(self, scores: Scores, file: Path) -> Scores:
        """The scores, with the units that the allocator of this name was fitted on where their file does not state it.

        Files that `deepval score` wrote before it stated them are of the allocator of the same name beside the cell.
        """
        fitted = self.source / ALLOCATORS / f"{file.stem}.json"
        if scores.fit is not None or file.parent != self.source / SCORES or not reading.is_file(fitted):
            return scores
        from deepval.allocators.allocator import file_content

        try:
            units = file_content(fitted)["training"]["units"]
            inside = np.isin(self.table.unit_ids, list(map(str, units)))[self.table.unit]
        except (InputError, KeyError, TypeError):
            return scores  # a file that is no allocator's says nothing about these scores
        return replace(scores, fit=Fit(np.full(len(inside), len(units)), inside))

    def _beside(self, given: Mapping[str, Path]) -> dict[str, Path]:
        """The files given, each of them a file or the name of one beside the cell; all that lie there if none are."""
        folder = self.source / SCORES
        beside = {path.stem: path for path in sorted(reading.matching(folder, "*.csv"))}
        if not given and not beside:
            raise InputError(
                f"{self.source}: there must be scores to judge, and none lie in {folder}: write some with "
                f"`deepval score {self.source} ego-speed`, or give -s FILE."
            )
        for file in given.values():
            if not file.suffix and not reading.exists(file) and str(file) not in beside:
                raise InputError(
                    f"{file}: must be a scores file or the name of one in {folder} ({', '.join(beside) or 'empty'}); "
                    "there is neither."
                )
        chosen = {name: file if reading.exists(file) else beside.get(str(file), file) for name, file in given.items()}
        return chosen or beside

    def kinds(self, scores: Mapping[str, Scores], convention: Convention, *, every: bool = False) -> list[str]:
        """Kinds of budgets that the costs allow: those that charge some of the scores, or all of them where `every`.

        Where a costs file charges none of them, every kind whose modes have a cost is returned.
        """
        costs, each, measured = self.table.costs, self.table.input_costs, conventions(convention)
        if costs is None:
            unpaid = [kind for kind, unit in measured.items() if unit in each]
            if unpaid:
                note = (
                    f"No {' and no '.join(unpaid)} budgets: nothing says what {', '.join(scores)} costs. Give --costs "
                    "with [allocators.NAME] of each; 0 is a claim, too."
                )
                warnings.warn(InputWarning(note), stacklevel=2)
            return ["selection"]
        modes = list(costs.modes.values())
        possible = [
            kind for kind, unit in measured.items() if unit in each or (modes and all(unit in entry for entry in modes))
        ]
        unpriced = {
            kind: [name for name, item in scores.items() if not _charged(costs, item, measured[kind])]
            for kind in possible
        }
        most = 0 if every else max(len(scores) - 1, 0)
        chosen = [kind for kind in possible if len(unpriced[kind]) <= most]
        left_out = [kind for kind in possible if kind not in chosen]
        if every and self.own_costs and left_out:
            names = dict.fromkeys(name for kind in left_out for name in unpriced[kind])
            note = (
                f"No {' and no '.join(left_out)} budgets: the cell's costs have no cost of {', '.join(names)}. "
                "`deepval profile` measures it; pass the costs file with --costs."
            )
            warnings.warn(InputWarning(note), stacklevel=2)
            return ["selection", *chosen]
        return ["selection", *(chosen or possible)]

    def missing_costs(
        self, scores: Mapping[str, Scores], budgets: Sequence[Budget], *, requested: bool = False
    ) -> MissingCosts:
        """Whether allocators without a cost are listed: not where none has one and measured budgets were requested."""
        costs = self.table.costs
        units: set[Convention] = {budget.convention for budget in budgets if not isinstance(budget, Selection)}
        charged = costs is not None and any(_charged(costs, item, unit) for item in scores.values() for unit in units)
        return "list" if charged or (self.own_costs and not requested) else "error"


def note_unknown_fits(scores: Mapping[str, Scores]) -> None:
    """Warn of scores to calibrate by that do not state which units their allocator was fitted on."""
    unknown = [name for name, item in scores.items() if item.fit is None]
    if unknown:
        note = (
            f"{', '.join(unknown)}: the scores do not state which units they were fitted on (columns fit_units and "
            "in_fit, as `deepval score` writes them); calibrate on units that were not fitted on."
        )
        warnings.warn(InputWarning(note), stacklevel=2)


def _charged(costs: Costs, scores: Scores, unit: Convention) -> bool:
    """Whether there is a cost to charge for an allocator."""
    return scores.kind == "deployable" and unit in costs.allocators.get(scores.name, {})


def read_case(source: Path, *, costs: Path | None = None, modes: Sequence[str] | None = None) -> Case:
    """The cell in a folder, or the losses in a values file or several; with these costs, if any, and these modes."""
    if reading.is_folder(source) and (reading.exists(source / MANIFEST) or not parquet_files(source)):
        from deepval.cells.folder import read_cell

        cell = read_cell(source)
        table = cell.listed if modes is None else cell.listed.with_modes(modes)
        table = table if costs is None else replace(table, costs=Costs.of(costs))
        return Case(source, table, cell, own_costs=costs is None)
    if not reading.exists(source) and not source.suffix:
        raise InputError(f"{source}: must be a values file (.csv, .parquet) or a cell's folder; there is neither.")
    return Case(source, read_values(source, costs=costs, modes=modes))


def head_of(files: OnDisk, costs: Path | None = None) -> Case:
    """The first input of a table that is not read into memory: what its modes are, and what they cost."""
    parts = Parts.of(files.source)
    parts.require("unit", "input")
    return Case(files.source, read_values(parts.head(), costs=costs))


def heads_of(case: Case, given: Mapping[str, Path]) -> dict[str, Scores]:
    """The first score of each file beside the first input of a table that is not read into memory."""
    if not given:
        raise InputError(f"{case.source}: at least one scores file must be given to judge; found none: give -s.")
    heads = {name: Parts.of(path, name).head() for name, path in given.items()}
    kinds: dict[str, Kind] = {name: kind_of(head) for name, head in heads.items()}
    return {name: Scores(name, np.zeros(1), np.ones(1, dtype=bool), kind=kinds[name]) for name in given}
