"""The external track by hand-computed numbers, from folders and from specifications,
and on real scenes.
"""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from test_options import files

from commands import call
from deepval.basics.errors import InputError
from deepval.driving.cells import folder
from deepval.driving.cells.build import built
from deepval.driving.cells.spec import CellSpec, Material, ModeSpec, specs
from deepval.driving.systems.driving import Driving
from deepval.judge.tables.values import ValueTable
from deepval.paper.analyses import external
from deepval.paper.analyses.external import LOSSES, PlannerCell, planner_cell
from driving import Lidar
from roads import Roads, Stopper

__all__ = ["files"]  # a fixture

SAFETY = Driving(Stopper())
SCALAR = replace(SAFETY, deviation_weight=0.1)
MODES = tuple(
    ModeSpec(f"lidar-{reach:g}", Lidar(reach).definition, reader=Lidar(reach))
    for reach in (12.0, 60.0)
)
STATES = 10


def loss_row(cell, loss):
    return SimpleNamespace(**external.loss_row(cell, loss))


def agreement_row(one, other, loss):
    return SimpleNamespace(**external.agreement_row(one, other, loss))


def viability_row(cell, loss):
    return SimpleNamespace(**external.viability_row(cell, loss))


def external_track(cells):
    tables = {
        name: [SimpleNamespace(**row) for row in rows]
        for name, rows in external.external_track(cells).items()
    }
    return SimpleNamespace(**tables)


def made_up(
    system="idm-safety",
    *,
    name=None,
    deviation=(),
    units=("a", "b", "c"),
    geometry="tracks",
):
    """Ten states: a collision avoided, one caused, a clearance lost and one too small
    to count; deviations as given.
    """
    terms = {
        part: np.zeros((STATES, 2)) for part in ("collision", "shortfall", "deviation")
    }
    terms["collision"][0], terms["collision"][1] = (1, 0), (0, 1)
    terms["shortfall"][0], terms["shortfall"][1] = (4.0, 1.0), (0.25, 2.25)
    terms["shortfall"][2] = (0.0, 0.25)
    terms["shortfall"][3] = (1.0, 1.0 + 1e-12)
    terms["deviation"][:] = 2.0
    for state, pair in enumerate(deviation):
        terms["deviation"][state] = pair
    unit = np.array([units[i % len(units)] for i in range(STATES)])
    losses = dict(
        zip("sl", (10 * terms["collision"] + 1.5 * terms["shortfall"]).T, strict=True)
    )
    table = ValueTable.from_columns(unit=unit, input=np.arange(STATES), losses=losses)
    modes = tuple(
        ModeSpec(mode, {"scores": "none"}, threshold)
        for mode, threshold in (("s", 0.25), ("l", None))
    )
    spec = CellSpec(
        "made-up",
        {"x": "0"},
        tuple(units),
        modes,
        geometry,
        False,
        system,
        {"margin_m": 1.0},
    )
    trivial = {
        "collision": np.zeros(STATES),
        "shortfall": np.full(STATES, 0.16),
        "deviation": np.full(STATES, 3.0),
    }
    return PlannerCell(name or system, spec, table, terms, trivial)


def test_five_losses_by_hand():
    rows = {loss: loss_row(made_up(), loss) for loss in LOSSES}
    assert list(rows) == [
        "collision",
        "clearance shortfall",
        "deviation",
        "safety",
        "scalar",
    ]
    collision = rows["collision"]
    assert (collision.affected, collision.harmed, collision.harm_ratio) == (2, 0.5, 1.0)
    assert (collision.cheap_loss, collision.all_full, collision.oracle_20) == (
        1.0,
        0.0,
        1.0,
    )
    # c, not its square: 2 -> 1 helps by 1, 0.5 -> 1.5 harms by 1, 0 -> 0.5 by 0.5, and
    # 5e-13 is nothing.
    shortfall = rows["clearance shortfall"]
    assert (shortfall.affected, shortfall.harmed) == (3, pytest.approx(2 / 3))
    assert shortfall.harm_ratio == pytest.approx(1.5)
    assert (shortfall.cheap_loss, shortfall.all_full) == (
        3.5,
        pytest.approx(-0.5 / 3.5),
    )
    assert shortfall.oracle_20 == pytest.approx(1 / 3.5)
    # 10 + 4.5 against 10 + 3 and 0.375.
    safety = rows["safety"]
    assert (safety.affected, safety.harm_ratio) == (3, pytest.approx(13.375 / 14.5))
    assert safety.cheap_loss == 10 + 1.5 * 5.25
    assert rows["scalar"].cheap_loss == pytest.approx(
        safety.cheap_loss + 0.1 * 2.0 * STATES
    )
    assert rows["scalar"].harm_ratio == pytest.approx(safety.harm_ratio)


def test_what_nothing_changes_is_undefined_and_not_zero():
    row = loss_row(made_up(), "deviation")
    assert (row.affected, row.harmed, row.harm_ratio, row.all_full, row.oracle_20) == (
        0,
        None,
        None,
        0.0,
        0.0,
    )
    harmed = loss_row(made_up(deviation=[(1.0, 2.0), (1.0 + 1e-13, 1.0)]), "deviation")
    assert (harmed.affected, harmed.harmed, harmed.harm_ratio) == (1, 1.0, None)
    silent = made_up()
    free = replace(silent, terms={part: np.zeros((STATES, 2)) for part in silent.terms})
    assert loss_row(free, "safety").all_full is None


def test_agreement_is_over_the_states_that_both_are_affected_on():
    one = made_up(deviation=[(4, 1), (4, 2), (4, 3), (1, 2), (4, 1)])  # 3 2 1 -1 3
    # 2 3 -1 -3, then nothing
    other = made_up("pdm-closed-safety", deviation=[(4, 2), (4, 1), (1, 2), (1, 4)])
    row = agreement_row(one, other, "deviation")
    assert (row.affected, row.both) == ((5, 4), 4)
    # Six pairs, of which only the first two states are ordered differently.
    assert row.ordered_differently == pytest.approx(1 / 6)
    assert row.gamma == pytest.approx(4 / 6)
    assert row.spearman == pytest.approx(0.8)
    assert (row.opposite, row.sign_disagreement) == (1, 0.25)
    nothing = agreement_row(one, made_up("pdm-closed-safety"), "deviation")
    assert (
        nothing.both,
        nothing.spearman,
        nothing.gamma,
        nothing.sign_disagreement,
    ) == (0, None, None, None)
    fewer = replace(other, table=other.table.keep(np.arange(STATES) > 0))
    with pytest.raises(InputError, match="must judge the same states"):
        agreement_row(one, fewer, "deviation")


def test_only_planners_of_one_setting_are_compared_and_weights_make_no_second_cell():
    cells = [
        made_up(),
        made_up("idm-scalar"),
        made_up("pdm-closed-scalar"),
        made_up("pdm-closed-scalar", name="no fp", geometry="tracks-no-fp"),
    ]
    found = external_track(cells)
    assert [row.cell for row in found.losses[:: len(LOSSES)]] == [
        "idm-safety",
        "pdm-closed-scalar",
        "no fp",
    ]
    assert {(row.first, row.second) for row in found.agreement} == {
        ("idm-safety", "pdm-closed-scalar")
    }
    assert len(found.agreement) == len(LOSSES)
    assert len(found.viability) == 3 * len(LOSSES)


def test_viability_by_hand():
    row = viability_row(made_up(), "clearance shortfall")
    assert row.mean_loss == {"s": pytest.approx(0.35), "l": pytest.approx(0.4)}
    assert (row.constant_velocity, row.viable) == (
        pytest.approx(0.4),
        {"s": True, "l": False},
    )
    assert viability_row(made_up(), "scalar").constant_velocity == pytest.approx(
        1.5 * 0.16 + 0.3
    )
    with pytest.raises(
        InputError,
        match="must keep the losses of constant velocity; it was built before",
    ):
        viability_row(replace(made_up(), trivial={}), "safety")


@pytest.fixture(scope="module")
def wanted():
    material = Material(Roads(), MODES, Roads().unit_ids()[:3])
    systems = {
        "stop-safety": SAFETY,
        "stop-scalar": SCALAR,
        "wide": Driving(Stopper(half_width_m=9.0)),
    }
    wanted = []
    for name, system in systems.items():
        # One at a time: all three are of one name until they get their own.
        (spec,) = specs(material, geometries=["cuboids"], systems=[system])
        wanted.append(replace(spec, system=name))
    return wanted


def test_folders_and_specifications_give_the_same_rows(wanted, tmp_path, capsys):
    from_specs = external_track(
        [replace(c, name=c.spec.system) for c in map(planner_cell, built(wanted))]
    )
    assert [row.cell for row in from_specs.losses[:: len(LOSSES)]] == [
        "stop-safety",
        "wide",
    ]
    assert from_specs.losses[3].affected > 0
    for cell in built(wanted):
        folder.write(cell, tmp_path / cell.spec.system)
    read = {spec.system: folder.read_cell(tmp_path / spec.system) for spec in wanted}
    assert (
        external_track([planner_cell(cell, name) for name, cell in read.items()])
        == from_specs
    )
    assert all(
        np.isfinite(column).all() for column in read["wide"].evidence.columns.values()
    )
    call("analyse", "external", *(tmp_path / name for name in read), "--json")
    told = json.loads(capsys.readouterr().out)
    assert [row["affected"] for row in told["losses"]] == [
        row.affected for row in from_specs.losses
    ]
    assert told["viability"][3]["mean_loss"] == from_specs.viability[3].mean_loss
    call("analyse", "external", *(tmp_path / name for name in read))
    printed = capsys.readouterr().out
    assert all(
        words in printed
        for words in (
            "Oracle@20",
            "Agreement of planners",
            "Viability",
            "all units (3)",
        )
    )
