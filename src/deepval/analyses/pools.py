"""A cell's scores -> pools of signals to choose among, and how an objective ranks them.

Formulas: docs/definitions.md, Choosing an allocator. An objective is what escalation is worth on each input: the
decision value, or a perception gain.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deepval.allocators.signals import SIGNALS
from deepval.arrays import Float, Int
from deepval.cells.fitting import Scored
from deepval.cells.folder import BuiltCell
from deepval.errors import InputError
from deepval.judging.ties import inclusion
from deepval.perception.reported.losses import LOSSES, perception_gains
from deepval.tables.columns import positions
from deepval.tables.values import ValueTable

ALPHAS = (0.1, 0.2, 0.3, 0.5)
RANDOM = "random"
FREE = (RANDOM, "uncertainty", "criticality", "ego-speed")
"""Signals that were fitted to nothing."""
POOLS = ("target-free", "learned", "diagnostics")
"""Each holds those before it: signals fitted to nothing, then allocators that were fitted, then what nobody may see."""
HEADLINES = ("E1", "E8")
"""Perception losses that the paper looks at: missed objects, and their risk."""
TIED = 1e-9
"""Signals whose sums are nearer than this, as a part of all that there is to gain or lose, are tied."""
FEWEST_TEST, FEWEST_VALIDATION = 5, 8
"""Affected inputs that a cell needs to be judged, and to be chosen on: the paper leaves out cells with 4 and with 7."""

Pool = Mapping[str, Float[np.ndarray, "input"] | None]
"""Scores by signal; random has none."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Signals by what they realise of an objective at one budget.

    Attributes:
        names: The signals.
        realised: Sum of the objective over what each escalates, ties at the cut in exact expectation.
        level: Their ranks from 0 up, equal where they are tied.
    """

    names: tuple[str, ...]
    realised: Float[np.ndarray, "signal"]
    level: Int[np.ndarray, "signal"]

    @property
    def best(self) -> tuple[str, ...]:
        """The signals of the highest rank, sorted by name."""
        top = self.level.max()
        return tuple(sorted(name for name, level in zip(self.names, self.level, strict=True) if level == top))


def ranked(worth: Float[np.ndarray, "input"], pool: Pool, slots: int) -> Ranking:
    """The signals of a pool by what they realise of an objective with so many slots."""
    realised = np.array([_realised(worth, score, slots) for score in pool.values()])
    order = np.argsort(realised, kind="stable")
    steps = np.diff(realised[order]) > TIED * np.abs(worth).sum()
    level = np.empty(len(realised), dtype=np.int64)
    level[order] = np.concatenate([[0], np.cumsum(steps)])
    return Ranking(tuple(pool), realised, level)


def _realised(worth: Float[np.ndarray, "input"], score: Float[np.ndarray, "input"] | None, slots: int) -> float:
    if score is None:
        return slots / len(worth) * float(worth.sum())
    return float(inclusion(score, slots) @ worth)


def objectives(
    cell: BuiltCell, table: ValueTable, losses: Sequence[str] | None = None
) -> dict[str, Float[np.ndarray, "input"]]:
    """Perception gains of a table's inputs by loss, those that the cell's modes define, all or the named ones."""
    kept = positions(table.input, cell.table.input)
    gains = {name: gain[kept] for name, gain in perception_gains(*cell.evidence.losses).items()}
    wanted = LOSSES if losses is None else losses
    return {name: gains[name] for name in wanted if name in gains and not np.isnan(gains[name]).any()}


def checked_losses(losses: Iterable[str]) -> list[str]:
    """Names of perception losses."""
    named = list(dict.fromkeys(losses))
    unknown = next((name for name in named if name not in LOSSES), None)
    if unknown is not None:
        raise InputError(f"A perception loss must be one of {', '.join(LOSSES)}; found {unknown!r}.")
    return named


def pools(scored: Mapping[str, Scored], table: ValueTable) -> dict[str, Pool]:
    """The pools by name; one that would add nothing to those before it is left out.

    Signals that do not score every input of the table, and per-mode scores, are in none.
    """
    plain = {name: item.over(table) for name, item in scored.items() if not item.modes}
    whole = {name: item for name, item in plain.items() if item.covered.all()}
    kinds = {
        "target-free": [name for name in FREE if name in whole],
        "learned": [name for name, item in whole.items() if name not in SIGNALS and item.kind == "deployable"],
        "diagnostics": [name for name, item in whole.items() if item.kind == "diagnostic"],
    }
    found: dict[str, Pool] = {}
    members: dict[str, Float[np.ndarray, "input"] | None] = {RANDOM: None}
    for kind, names in kinds.items():
        if names:
            members = members | {name: whole[name].values for name in names}
            found[kind] = members
    return found


def too_few(table: ValueTable, fewest: int, units: str) -> str | None:
    """Why a table is not judged on, in words: too few of its inputs are affected; None where it is."""
    number = table.affected
    return None if number >= fewest else f"{number} affected {units} inputs, fewer than {fewest}"
