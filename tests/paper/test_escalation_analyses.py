"""What escalation does, over built cells, against plain loops over their files."""

import json
from itertools import combinations, product
from math import factorial, isclose, prod

import numpy as np
import pyarrow.parquet as pq
import pytest

from commands import call
from deepval.basics.errors import InputError
from deepval.judge.cases import EvaluationData
from deepval.judge.tables.split import units_of
from deepval.paper.analyses import (
    agreement,
    composition,
    consumers,
    optima,
    optimality,
    signs,
    ties,
)
from small_cells import build_cells, read_cells
from tidy_rows import flat, flat_rows, study_cells

# few units, to be quick
pytestmark = pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
SYSTEMS = ("braking", "receding-horizon")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return build_cells(
        tmp_path_factory.mktemp("cells"),
        systems=SYSTEMS,
        geometries=("monocular", "oracle"),
    )


@pytest.fixture(scope="module")
def cells(folder):
    return read_cells(*sorted(folder.iterdir()))


def plain(cell, file):
    """The rows of a cell's file as dictionaries."""
    return pq.read_table(cell.folder / file).to_pylist()


def losses(cell, units):
    cheap, full = cell.table.modes[0], cell.table.modes[-1]
    named = set(units_of(cell.split, units))
    return [
        (row["unit"], row["input"], row[f"loss_{cheap}"] - row[f"loss_{full}"])
        for row in plain(cell, "values.parquet")
        if row["unit"] in named
    ]


def percentile(weighted, level):
    """Smallest value whose weight, with that of all below, reaches the level."""
    total, reached = sum(weight for _, weight in weighted), 0.0
    for value, weight in sorted(weighted):
        reached += weight
        if reached >= level * total - 1e-12:
            return value
    raise AssertionError


def ratio_interval(parts, units):
    """Exact 95 % interval of sum(part) / sum(whole) over all draws of units, by
    enumeration.
    """
    weighted = []
    for counts in product(range(len(units) + 1), repeat=len(units)):
        if sum(counts) == len(units):
            whole = sum(
                n * parts[unit][1] for n, unit in zip(counts, units, strict=True)
            )
            if whole > 0:
                weight = (
                    factorial(len(units))
                    / prod(map(factorial, counts))
                    / len(units) ** len(units)
                )
                part = sum(
                    n * parts[unit][0] for n, unit in zip(counts, units, strict=True)
                )
                weighted.append((part / whole, weight))
    return percentile(weighted, 0.025), percentile(weighted, 0.975)


@pytest.mark.parametrize("units", ["all", "fit"])
def test_signs_are_those_of_a_loop_over_inputs(cells, units):
    found = signs.SIGNS.run(study_cells(cells), units=units, draws="exact")
    rows = {row["cell"]: row for row in found}
    for row in flat(signs.SIGNS, found):
        cell = cells[row.cell]
        found = losses(cell, units)
        named = sorted(units_of(cell.split, units))
        positive, negative = (
            [v for *_, v in found if v > 0],
            [v for *_, v in found if v < 0],
        )
        assert (row.inputs, row.affected, row.harmed) == (
            len(found),
            len(positive) + len(negative),
            len(negative),
        )
        assert row.harm_rate == len(negative) / (len(positive) + len(negative))
        assert isclose(row.harm_ratio, -sum(negative) / sum(positive), rel_tol=1e-12)
        harm = {
            u: (
                sum(-v for w, _, v in found if w == u and v < 0),
                sum(v for w, _, v in found if w == u and v > 0),
            )
            for u in named
        }
        rate = {
            u: (
                sum(w == u and v < 0 for w, _, v in found),
                sum(w == u and v != 0 for w, _, v in found),
            )
            for u in named
        }
        assert (row.harm_ratio_lo, row.harm_ratio_hi) == pytest.approx(
            ratio_interval(harm, named), rel=1e-9
        )
        assert (row.harm_rate_lo, row.harm_rate_hi) == pytest.approx(
            ratio_interval(rate, named), rel=1e-9
        )
        (line,) = signs.SIGNS.report_tables([rows[row.cell]])[0].sections[0]
        assert line[1].text == f"{row.cheap} -> {row.full}"


def test_a_harm_ratio_without_benefit_is_undefined(cells):
    quiet = next(iter(cells.values()))
    (row,) = flat_rows(
        signs.SIGNS, study_cells({"one": quiet}), units=[quiet.split.test[0]], draws=10
    )
    assert row.harm_ratio_lo is None  # a single unit has no interval
    assert row.units == 1


def test_signs_say_where_the_all_cheap_loss_is_almost_zero(cells):
    (row,) = signs.SIGNS.run(study_cells(cells)[:1], draws=10)
    assert row["cheap_loss"] > 0
    almost = row | {"cheap_loss": 1.1e-9, "all_full_share": -9.9e6}
    told = str(signs.SIGNS.report_tables([almost])[0])
    assert (
        f"{row['cell']}: the all-cheap loss is almost zero (1.1e-09), "
        "so shares of it mean nothing."
    ) in " ".join(told.split())
    assert "< -1000%" in told


@pytest.mark.parametrize("units", ["all", "validation"])
def test_composition_is_that_of_a_loop_over_terms(cells, units):
    rows = flat_rows(composition.COMPOSITION, study_cells(cells), units=units)
    for name, cell in cells.items():
        values = {key: value for _, key, value in losses(cell, units)}
        cheap, full = cell.table.modes[0], cell.table.modes[-1]
        mine = [row for row in rows if row.cell == name]
        for row in mine:
            gains = {
                item["input"]: row.weight
                * (item[f"term_{row.term}_{cheap}"] - item[f"term_{row.term}_{full}"])
                for item in plain(cell, "terms.parquet")
                if item["input"] in values
            }
            assert row.benefit == pytest.approx(
                sum(g for key, g in gains.items() if values[key] > 0), abs=1e-9
            )
            assert row.harm == pytest.approx(
                sum(-g for key, g in gains.items() if values[key] < 0), abs=1e-9
            )
        harm = sum(-value for value in values.values() if value < 0)
        assert sum(row.harm for row in mine) == pytest.approx(harm, abs=1e-9)
        if harm:
            assert sum(row.harm_share for row in mine) == pytest.approx(1)
        else:
            assert all(row.harm_share is None for row in mine)


def test_ties_are_those_of_a_sorted_list(cells, folder, capsys):
    cell = cells["braking-monocular"]
    call("score", cell.folder, "ego-speed")
    beside = list(EvaluationData(cell.folder, cell.table, cell).scores({}).values())
    with pytest.raises(
        InputError, match="ego-speed has none for 80 of 160: look at --units test"
    ):
        flat_rows(ties.TIES, study_cells({"one": cell}, aligned={"one": beside}))
    rows = flat_rows(
        ties.TIES,
        study_cells({"one": cell}, aligned={"one": beside}),
        alphas=[0.1, 0.25, 0.5],
        units="test",
    )
    assert [row.ranking for row in rows] == ["decision value"] * 3 + ["ego-speed"] * 3
    named = set(units_of(cell.split, "test"))
    speeds = [
        row["ego_speed_mps"]
        for row in plain(cell, "values.parquet")
        if row["unit"] in named
    ]
    by_name = {
        "decision value": [value for *_, value in losses(cell, "test")],
        "ego-speed": speeds,
    }
    for row in rows:
        ordered = sorted(by_name[row.ranking], reverse=True)
        k = int(row.alpha * len(ordered) + 0.5)
        cut = ordered[k - 1]
        above, tied = sum(v > cut for v in ordered), sum(v == cut for v in ordered)
        assert (row.quota, row.above, row.tied, row.slots) == (
            k,
            above,
            tied,
            k - above,
        )
        assert row.cut == pytest.approx(cut)
        assert row.share == (0 if k - above == tied else (k - above) / k)
    capsys.readouterr()
    call(
        "analyse",
        "ties",
        cell.folder,
        "--scores",
        "--alpha",
        "0.25",
        "--units",
        "test",
        "--json",
    )
    told = json.loads(capsys.readouterr().out)
    assert [(row["ranking"], row["share"]) for row in told] == [
        (r.ranking, r.share) for r in rows if r.alpha == 0.25
    ]


def top_gain(pairs, k):
    """Expected sum of the values with the k highest scores, (score, value) pairs, ties
    shared out.
    """
    total, left = 0.0, k
    for level in sorted({score for score, _ in pairs}, reverse=True):
        group = [value for score, value in pairs if score == level]
        taken = min(left, len(group))
        total, left = total + taken / len(group) * sum(group), left - taken
    return total


@pytest.mark.parametrize("abstain", [None, 5.0])
def test_optimality_is_that_of_a_loop_over_budgets(cells, abstain, capsys):
    cell = cells["braking-monocular"]
    call("score", cell.folder, "ego-speed")
    beside = list(EvaluationData(cell.folder, cell.table, cell).scores({}).values())
    own, speed = flat_rows(
        optimality.OPTIMALITY,
        study_cells({"one": cell}, aligned={"one": beside}),
        alphas=[0.25],
        abstain=abstain,
    )
    assert (own.optimal, own.ranking, speed.ranking) == (
        abstain is None,
        "decision value",
        "ego-speed",
    )
    named = set(units_of(cell.split, "test"))
    speeds = {
        row["input"]: row["ego_speed_mps"]
        for row in plain(cell, "values.parquet")
        if row["unit"] in named
    }
    values = {key: value for _, key, value in losses(cell, "test")}
    pairs = [
        (speeds[key], value)
        for key, value in values.items()
        if abstain is None or speeds[key] >= abstain
    ]
    reach = (
        sum(value >= 0 for value in values.values()) if abstain is None else len(values)
    )
    best = [
        sum(sorted((v for v in values.values() if v > 0), reverse=True)[:k])
        for k in range(reach + 1)
    ]
    lack = [best[k] - top_gain(pairs, min(k, len(pairs))) for k in range(reach + 1)]
    assert speed.short_from == next(k for k, short in enumerate(lack) if short > 1e-9)
    assert speed.shortfall == pytest.approx(lack[speed.short_from])
    assert speed.regret == pytest.approx(lack[speed.quota])
    assert speed.bound is None or speed.bound == pytest.approx(
        speed.swapped * speed.margin
    )
    assert (speed.bound or 0.0) <= speed.regret + 1e-9
    taken = 0.0 if speed.selected is None else values[speed.selected]
    assert (0.0 if speed.left_out is None else values[speed.left_out]) > taken
    helpful = [(speeds[key], value) for key, value in values.items() if value >= 0]
    assert speed.harmless_regret == pytest.approx(
        best[speed.quota] - top_gain(helpful, min(speed.quota, len(helpful)))
    )
    capsys.readouterr()
    words = () if abstain is None else ("--abstain-below", abstain)
    call(
        "analyse",
        "optimality",
        cell.folder,
        "--scores",
        "--alpha",
        "0.25",
        *words,
        "--json",
    )
    row = json.loads(capsys.readouterr().out)[1]
    assert (row["regret"], row["short_from"]) == (speed.regret, speed.short_from)


@pytest.mark.parametrize(
    "name", ["signs", "composition", "ties", "agreement", "optimality"]
)
def test_commands_tell_all_cells_of_a_folder(name, folder, cells, capsys):
    call("analyse", name, folder, "--json")
    assert {row["cell"] for row in json.loads(capsys.readouterr().out)} == set(cells)
    call("analyse", name, folder)
    assert "braking-oracle" in capsys.readouterr().out


def ranks(numbers):
    return [
        sum(o < n for o in numbers) + (sum(o == n for o in numbers) - 1) / 2
        for n in numbers
    ]


def correlation(one, other):
    a, b = (np.array(ranks(numbers)) for numbers in (one, other))
    return np.corrcoef(a, b)[0, 1]


def test_agreement_is_that_of_a_loop_over_inputs(cells):
    cell = cells["braking-monocular"]
    rows = flat_rows(
        agreement.AGREEMENT, study_cells({"one": cell}), units="fit", draws="exact"
    )
    assert [row.loss for row in rows] == [f"E{n}" for n in range(1, 9)]
    evidence = {row["input"]: row for row in plain(cell, "evidence.parquet")}
    named = sorted(units_of(cell.split, "fit"))
    for row in rows:
        found = [
            (
                unit,
                evidence[key][f"cheap_{row.loss}"] - evidence[key][f"full_{row.loss}"],
                value,
            )
            for unit, key, value in losses(cell, "fit")
            if value != 0
        ]
        improved = [(u, v) for u, g, v in found if g > 0]
        moved = [(u, g, v) for u, g, v in found if g != 0]
        assert (row.affected, row.improved, row.both) == (
            len(found),
            len(improved),
            len(moved),
        )
        assert row.spearman == pytest.approx(
            correlation([g for _, g, _ in found], [v for *_, v in found])
        )
        assert row.harm_given_gain == sum(v < 0 for _, v in improved) / len(improved)
        assert row.disagree == sum(g * v < 0 for _, g, v in moved) / len(moved)
        apart = {
            u: (
                sum(w == u and g * v < 0 for w, g, v in moved),
                sum(w == u for w, *_ in moved),
            )
            for u in named
        }
        assert (row.disagree_lo, row.disagree_hi) == pytest.approx(
            ratio_interval(apart, named), rel=1e-9
        )


def test_consumers_are_compared_input_by_input_and_pair_by_pair(cells):
    rows = flat_rows(
        consumers.CONSUMERS, study_cells(cells), units="fit", draws="exact"
    )
    assert [(row.first, row.second) for row in rows] == [
        (f"braking-{geometry}", f"receding-horizon-{geometry}")
        for geometry in ("monocular", "oracle")
    ]
    for row in rows:
        one, other = (
            {key: v for _, key, v in losses(cells[name], "fit")}
            for name in (row.first, row.second)
        )
        both = [key for key in one if one[key] != 0 and other[key] != 0]
        assert (row.inputs, row.both) == (len(one), len(both))
        assert row.opposite == sum(one[key] * other[key] < 0 for key in both)
        assert row.opposite_share == (row.opposite / len(both) if both else None)
        products = [
            (one[a] - one[b]) * (other[a] - other[b]) for a, b in combinations(one, 2)
        ]
        concordant, discordant = (
            sum(p > 0 for p in products),
            sum(p < 0 for p in products),
        )
        assert row.ranked_pairs == concordant + discordant
        assert row.ordered_differently == discordant / (concordant + discordant)
        assert row.gamma == (concordant - discordant) / (concordant + discordant)
        helped = [key for key in one if one[key] > 0 and other[key] > 0]
        turned = any(
            (one[a] - one[b]) * (other[a] - other[b]) < 0
            for a, b in combinations(helped, 2)
        )
        assert (row.reversal is not None) == turned
        if row.reversal is not None:
            a, b = row.reversal
            assert one[a] > one[b] > 0
            assert 0 < other[a] < other[b]


def test_cells_of_one_consumer_have_nothing_to_compare(cells):
    alone = {name: cell for name, cell in cells.items() if name.startswith("braking")}
    with pytest.raises(
        InputError,
        match="the same data set, modes and geometry are needed to compare consumers",
    ):
        flat_rows(consumers.CONSUMERS, study_cells(alone))


def test_the_optima_of_one_consumer_bound_every_way_to_break_its_ties(cells):
    unit = cells["braking-monocular"].split.test[0]
    rows = flat_rows(
        optima.OPTIMA, study_cells(cells), alphas=[0.05, 0.1], units=[unit]
    )
    assert len(rows) == 8
    for row in rows:
        one, other = (
            [v for *_, v in losses(cells[name], [unit])]
            for name in (row.source, row.target)
        )
        best = sum(sorted((v for v in one if v > 0), reverse=True)[: row.quota])
        prize = sum(sorted((v for v in other if v > 0), reverse=True)[: row.quota])
        assert row.helped == sum(v > 0 for v in one)
        if prize == 0:
            assert row.best is None
            continue
        worth = [
            sum(other[i] for i in chosen)
            for size in range(row.quota + 1)
            for chosen in combinations(range(len(one)), size)
            if isclose(sum(one[i] for i in chosen), best, rel_tol=1e-12, abs_tol=1e-12)
        ]
        assert (row.best, row.worst) == pytest.approx(
            (max(worth) / prize, min(worth) / prize), abs=1e-9
        )
