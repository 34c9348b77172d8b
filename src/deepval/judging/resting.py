"""Decided verdicts and their draws -> the unit that each verdict rests on, if there is one, and the verdict in words.

A verdict rests on a unit if judging the other units alone, with as many draws of the same seed, gives another verdict.
Judging again without every unit would be slow. Draws that contain no copy of a unit indicate whether it matters: only
units without which the bound comes near 0 are left out and judged again, so every reported unit is verified.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from deepval.arrays import Float
from deepval.judging import selections
from deepval.judging.budgets import Allowance
from deepval.judging.draws import LEVEL
from deepval.judging.resamples import LEAVE_OUT_UP_TO, Allocator, Resampling, in_memory
from deepval.judging.rows import Judged, ranked_samples
from deepval.results import BudgetKey, Row, in_words

FEWEST = 3
"""Smallest number of units at which one can be left out and the others drawn."""
NEAR = 0.5
"""Distance from 0, in spreads, of a near bound: three standard errors of a bound over the draws that miss a unit."""
TRIED = 3
"""Largest number of units to leave out for one row, the most influential first."""
FEW = 8
"""Up to this many units there is no limit and one draw near 0 suffices: with so few, single draws set the bounds."""
SIGNS = {"better": 1.0, "worse": -1.0}


def with_words(
    judged: Sequence[Judged], resamples: Resampling, scores: Sequence[Allocator], allowances: Sequence[Allowance]
) -> list[Judged]:
    """The same rows with the unit that each decided verdict rests on, and with the verdict in words."""
    plain = {item.name: item for item in scores if not item.modes}
    units, enough = len(resamples.unit_ids), FEWEST <= len(resamples.unit_ids) <= LEAVE_OUT_UP_TO
    decided = [
        i for i, item in enumerate(judged) if enough and item.row.verdict in SIGNS and item.row.allocator in plain
    ]
    without = _Without(resamples, plain, allowances, [judged[i] for i in decided])
    rests_on: dict[int, str] = {}
    for i, suspects in zip(decided, _suspects([judged[i] for i in decided], resamples), strict=True):
        changing = (unit for unit in suspects if without.verdict(unit, judged[i]) != judged[i].row.verdict)
        unit = next(changing, None)
        if unit is not None:
            rests_on[i] = resamples.unit_ids[unit]
    rows = list(judged)
    for i in decided:
        row, unit = judged[i].row, rests_on.get(i)
        words = in_words(row.verdict, effective_units=resamples.effective_units, rests_on=unit)
        fields = vars(row) | {"verdict_words": words, "rests_on": unit, "units_left_out": units}
        rows[i] = replace(judged[i], row=Row(**fields))
    return rows


def _suspects(judged: Sequence[Judged], resamples: Resampling) -> Iterator[list[int]]:
    """Per row, units without which the bound may pass 0, by the share of draws without them in which the sign turns."""
    if not judged:
        return
    samples = np.stack([_towards(item, resamples) for item in judged])
    spread = resamples.draws.spreads(samples)[:, None]
    weights = np.ones(len(resamples.draws)) if resamples.draws.weights is None else resamples.draws.weights
    missing = (resamples.draws.counts == 0) * weights[:, None]
    defined = (~np.isnan(samples)).astype(np.float64) @ missing
    turned, near = (
        np.divide(
            (samples <= bound).astype(np.float64) @ missing, defined, out=np.ones_like(defined), where=defined > 0
        )
        for bound in (np.zeros_like(spread), NEAR * spread)
    )
    units = len(resamples.unit_ids)
    holding = resamples.per_unit[:, 0] > 0
    few = units <= FEW
    for own, close in zip(turned, near, strict=True):
        order = np.lexsort((-close, -own))
        enough = close > 0 if few else close >= (1 - LEVEL) / 2
        yield [int(unit) for unit in order if holding[unit] and enough[unit]][: None if few else TRIED]


def _towards(item: Judged, resamples: Resampling) -> Float[np.ndarray, "draw"]:
    """The difference in every draw, oriented so that values below 0 contradict the verdict."""
    difference = item.difference.loss if item.row.versus_random_lo is None else item.difference.share
    return SIGNS[item.row.verdict or ""] * difference[resamples.drawn]


@dataclass(frozen=True, eq=False)
class _Without:
    """Judges decided rows again without a unit; results are stored per unit and allocator."""

    resamples: Resampling
    scores: Mapping[str, Allocator]
    allowances: Sequence[Allowance]
    decided: Sequence[Judged]
    others: dict[int, Resampling] = field(default_factory=dict)
    verdicts: dict[tuple[int, str], dict[BudgetKey, str | None]] = field(default_factory=dict)

    def verdict(self, unit: int, item: Judged) -> str | None:
        """The verdict of a row on all other units."""
        key = unit, item.row.allocator
        if key not in self.verdicts:
            self.verdicts[key] = self._verdicts_without(unit, item.row.allocator)
        return self.verdicts[key][item.row.budget]

    def _verdicts_without(self, unit: int, allocator: str) -> dict[BudgetKey, str | None]:
        budget_keys = {item.row.budget for item in self.decided if item.row.allocator == allocator}
        allowances = [
            _on_others(self.resamples, unit, allowed) for allowed in self.allowances if allowed.key in budget_keys
        ]
        if unit not in self.others:
            self.others[unit] = self.resamples.without(unit)
        others = self.others[unit]
        own = ranked_samples(others, self.scores[allocator], allowances)
        pairs = [
            (allowed.key, one.gain, other.gain)
            for allowed, one, other in zip(allowances, own, selections.at_random(others, allowances), strict=True)
            if one
        ]
        verdicts: dict[BudgetKey, str | None] = dict.fromkeys(budget_keys, "infeasible")
        if pairs:
            keys, gains, chances = zip(*pairs, strict=True)
            decided = others.verdicts(others.paired(np.stack(gains), np.stack(chances)))
            verdicts |= dict(zip(keys, decided, strict=True))
        return verdicts


def _on_others(resamples: Resampling, unit: int, allowed: Allowance) -> Allowance:
    """The allowance on the inputs of all units but one."""
    if not allowed.each:
        return allowed
    table = in_memory(resamples).table
    return allowed.on(table.keep(table.unit != unit))
