"""A values file or a cell's folder -> what scores are judged on: table, loss terms, units by role, scores beside it."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deepval.cells.splits import ROLES, units_of
from deepval.errors import InputError, InputWarning
from deepval.files import reading
from deepval.files.manifests import MANIFEST
from deepval.judging.budgets import conventions
from deepval.results import Result
from deepval.tables.columns import parquet_files
from deepval.tables.costs import Convention, Costs
from deepval.tables.memory import OnDisk
from deepval.tables.parts import Parts
from deepval.tables.scores import Fit, Kind, Scores, align_all, kind_of
from deepval.tables.values import ValueTable, read_values

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
        own_costs: Whether the costs are the cell's and nobody asked for them.
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

    def labelled(self, result: Result) -> Result:
        """The result, which says where nothing was held out."""
        note = self.not_held_out
        return result if note is None else replace(result, warnings=(note, *result.warnings))

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
        from deepval.allocators.files import file_content

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

    def kinds(self, scores: Mapping[str, Scores], convention: Convention) -> list[str]:
        """Kinds of budgets that the costs allow; of a cell's own costs, those that charge all that is judged."""
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
        charged = [] if self.own_costs else list(costs.allocators.values())
        modes = list(costs.modes.values())
        found = [
            kind
            for kind, unit in measured.items()
            if (unit in each or (modes and all(unit in entry for entry in modes)))
            and all(unit in entry for entry in charged)
        ]
        free = {kind: [s.name for s in scores.values() if not _charged(costs, s, measured[kind])] for kind in found}
        left_out = [kind for kind in found if self.own_costs and free[kind]]
        if left_out:
            names = dict.fromkeys(name for kind in left_out for name in free[kind])
            note = (
                f"No {' and no '.join(left_out)} budgets: the cell's costs do not charge {', '.join(names)}. Name "
                "others with -s, or give --costs that do."
            )
            warnings.warn(InputWarning(note), stacklevel=2)
        return ["selection", *(kind for kind in found if kind not in left_out)]


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
