"""Contests -> the part of each unit in the gain under the headline budget."""

from collections.abc import Sequence

from deepval.arrays import PerUnit
from deepval.judging.bootstrap import Bootstrap, sums_by_unit
from deepval.judging.judgement import Contest, judged_rankings
from deepval.results import HEADLINE, Unit


def headline(contests: Sequence[Contest]) -> Contest:
    """The contest to show where only one is: selection first, 20 % of the inputs."""
    of_users = [one for one in contests if one.allowance.spender is None]
    selection = [one for one in of_users if not one.allowance.is_measured]
    for contest in selection:
        if contest.allowance.budget.alpha == HEADLINE:
            return contest
    return (selection or of_users)[0]


def unit_parts(bootstrap: Bootstrap, contests: Sequence[Contest]) -> tuple[Unit, ...]:
    """Each unit with the gains of the oracle and of each ranking in it.

    Empty where units are too many to list.
    """
    if bootstrap.left_out.start == bootstrap.left_out.stop:
        return ()
    contest = headline(contests)
    allowance = contest.allowance
    gains = {
        ranking.name: ranking.gain_by_unit(bootstrap, allowance)
        for _, ranking, _ in judged_rankings([contest])
    }
    best = contest.oracle.gain_by_unit(bootstrap, allowance)
    modes = _gains_of_modes(bootstrap)
    sums = bootstrap.by_unit
    units = []
    for position, unit in enumerate(bootstrap.unit_ids):
        units.append(
            Unit(
                unit=unit,
                inputs=int(sums.inputs[position]),
                cheap_loss=float(sums.cheap_loss[position]),
                alpha=allowance.budget.alpha,
                oracle_gain=float(best[position]),
                gains={name: float(gain[position]) for name, gain in gains.items()},
                modes={name: float(gain[position]) for name, gain in modes.items()},
            )
        )
    return tuple(units)


def _gains_of_modes(bootstrap: Bootstrap) -> dict[str, PerUnit]:
    """What each mode but the cheap one gains in every unit, on all its inputs."""
    gains: dict[str, PerUnit] = {}
    # Of files larger than memory, only the two modes that are judged have totals.
    between = () if bootstrap.rows is None else bootstrap.modes[1:-1]
    for mode in between:
        number = bootstrap.modes.index(mode)
        gains[mode] = sums_by_unit(
            bootstrap.table, bootstrap.table.mode_values[:, number]
        )
    gains[bootstrap.modes[-1]] = bootstrap.by_unit.full_gain
    return gains
