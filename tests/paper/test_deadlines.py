"""`analyse deadlines`: losses of old outputs from a cell, average budgets against
deadlines, and the order of both.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from commands import call
from deepval.basics.errors import InputError, InputWarning
from deepval.judge.allowances import Latency
from deepval.judge.tables.costs import Costs
from deepval.judge.tables.values import ValueTable
from deepval.paper.analyses import deadlines
from small_cells import build_cells, read_cells
from tidy_rows import flat, flat_rows, study_cells

# few units, to be quick
pytestmark = pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
COSTS = Costs.of(
    {
        "modes": {"cheap": {"ms": 20.0}, "full": {"ms": 60.0}},
        "allocators": {"good": {"ms": 0.0}, "bad": {"ms": 0.0}, "slow": {"ms": 5.0}},
    }
)


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    return build_cells(tmp_path_factory.mktemp("cells"))


@pytest.mark.parametrize("system", ["braking", "receding-horizon"])
def test_old_outputs_are_judged_by_the_loss_of_the_cell(cells, system, monkeypatch):
    (cell,) = read_cells(cells / f"{system}-monocular").values()
    table = deadlines.with_old_outputs(cell, cell.listed)
    full, one = table.losses[:, 1], table.losses[:, 2]
    assert table.modes[2] == f"{cell.table.modes[-1]}-1"
    assert len(table.modes) == 2 + deadlines.OLDEST
    first = table.order == 0
    assert (one[first] == table.losses[first, 0]).all()
    assert (one[~first] != full[~first]).any()
    monkeypatch.setattr(deadlines, "OLDEST", 3)
    fewer = deadlines.with_old_outputs(cell, cell.listed)
    assert np.array_equal(fewer.losses, table.losses[:, :5])


def world(units=6, frames=40, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=units * frames)
    table = ValueTable.from_columns(
        unit=np.repeat(np.arange(units), frames),
        order=np.tile(np.arange(frames), units),
        losses={
            "cheap": np.full(len(values), 3.0),
            "full": 3 - values,
            "full-1": 3 - values / 2,
        },
        costs=COSTS,
    )
    return table, {
        "good": values + 0.5 * rng.normal(size=len(values)),
        "bad": -values,
        "slow": values,
    }


def of_tables(tables, **settings):
    rows = deadlines.table_rows(tables, [Latency(0.2)], **settings)
    return flat(deadlines.DEADLINES, rows)


def rows_of(periods, **settings):
    return of_tables({"w": world()}, periods=periods, draws=50, **settings)


def test_without_pressure_both_gains_are_equal():
    for row in rows_of([100.0]):
        assert row.gain == pytest.approx(row.average)
        assert (row.late, row.tau) == (0.0, 1.0)
        assert row.oracle == pytest.approx(row.oracle_average)


def test_late_outputs_gain_less_and_p95_shows_the_backlog():
    free, tight = (
        {row.allocator: row for row in rows_of([period])} for period in (100.0, 50.0)
    )
    assert tight["good"].late == 1.0
    assert (free["good"].verdict, tight["good"].verdict) == ("unresolved", "worse")
    assert tight["good"].oracle < free["good"].oracle
    assert tight["good"].gain < tight["good"].oracle
    # an escalation leaves 20 + 60 - 50 ms, for which the next frame waits
    assert tight["good"].p95_ms == 20.0 + 30.0
    assert tight["slow"].escalated <= 0.2 - 5 / 60  # the allocator pays for itself
    kept = {row.allocator: row for row in rows_of([40.0], keep="p95")}
    assert all(row.p95_ms <= 40.0 for row in kept.values())


def test_cells_of_the_same_units_are_averaged():
    every = of_tables({"a": world(), "b": world(seed=1)}, periods=[50.0], draws=50)
    gains = {(row.cell, row.allocator): row.gain for row in every}
    assert gains["all 2 cells", "good"] == pytest.approx(
        (gains["a", "good"] + gains["b", "good"]) / 2
    )


def test_draws_without_any_loss_have_no_share():
    table, scores = world(units=2)
    losses = np.where(table.unit[:, None] == 0, 0.0, table.losses)
    rows = of_tables(
        {"w": (replace(table, losses=losses), scores)}, periods=[50.0], draws="exact"
    )
    for row in rows:
        assert np.isfinite([row.gain_lo, row.gain_hi, row.tau_lo, row.tau_hi]).all()
    assert rows[0].gain_lo <= rows[0].gain <= rows[0].gain_hi
    with pytest.raises(InputError, match="must be positive; it is 0"):
        of_tables({"w": (replace(table, losses=0 * losses), scores)}, periods=[50.0])


def written(folder, name, table, scores):
    """The table as a CSV file without times and its scores as files; their paths."""
    losses = zip(table.unit_ids[table.unit], table.input, *table.losses.T, strict=True)
    lines = [",".join(map(str, row)) for row in losses]
    heading = ",".join(["unit", "input", *(f"loss_{mode}" for mode in table.modes)])
    (folder / f"{name}.csv").write_text("\n".join([heading, *lines]))
    for own, score in scores.items():
        rows = [f"{one},{value}" for one, value in zip(table.input, score, strict=True)]
        (folder / f"{own}.csv").write_text("\n".join(["input,score", *rows]))
    (folder / "costs.toml").write_text(
        "[modes.cheap]\nms = 20\n[modes.full]\nms = 60\n[allocators.good]\nms = 0\n"
        "[allocators.bad]\nms = 0"
    )
    return folder / f"{name}.csv"


def test_a_values_file_is_replayed_in_the_order_of_its_rows(tmp_path):
    table, scores = world()
    file = written(
        tmp_path, "w", table, {name: scores[name] for name in ("good", "bad")}
    )
    words = (
        "--alpha",
        0.2,
        "--period",
        50,
        "--draws",
        50,
        "--costs",
        tmp_path / "costs.toml",
        "--json",
    )
    given = [
        word for name in ("good", "bad") for word in ("-s", tmp_path / f"{name}.csv")
    ]
    with pytest.warns(
        InputWarning,
        match="w: has no column 'order', so inputs of a unit arrive in the order",
    ):
        shown = json.loads(call("analyse", "deadlines", file, *given, *words))
    of_python = {row.allocator: row for row in rows_of([50.0])}
    assert {row["allocator"]: row["gain"] for row in shown} == {
        name: pytest.approx(of_python[name].gain) for name in ("good", "bad")
    }
    assert set(shown[0]["provenance"]["w"]) == {"table", "role"}
    for wrong, sentence in (
        (("-a", "lost"), "--allocator applies to cells"),
        (("--folds", 3), "--folds applies to cells"),
        ((tmp_path,), "is a folder, and values files are analysed without cells"),
    ):
        with pytest.raises(InputError, match=sentence):
            call("analyse", "deadlines", file, *wrong, *given, *words)
    with pytest.raises(
        InputError,
        match="a deadline needs the costs of modes and allocators; there are none",
    ):
        call("analyse", "deadlines", file, *given)
    with pytest.raises(InputError, match="at least one scores file must be given"):
        call("analyse", "deadlines", file, *words)


def test_scores_files_are_of_values_files(cells, tmp_path):
    with pytest.raises(
        InputError, match="-s has scores of values files, and cells were named"
    ):
        call("analyse", "deadlines", cells, "-s", tmp_path / "mine.csv")


def test_the_command_gives_the_rows_of_the_python_call(cells, capsys):
    folder = cells / "braking-monocular"
    words = (
        "--costs",
        "jetson-agx-xavier",
        "-a",
        "ego-speed",
        "-a",
        "criticality",
        "--alpha",
        "0.2",
        "--draws",
        "20",
    )
    call(
        "analyse",
        "deadlines",
        folder,
        *words,
        "--period",
        "30",
        "--units",
        "all",
        "--json",
    )
    shown = json.loads(capsys.readouterr().out)
    with_costs = [
        replace(cell, costs=Costs.of("jetson-agx-xavier"))
        for cell in study_cells(read_cells(folder))
    ]
    found = flat_rows(
        deadlines.DEADLINES,
        with_costs,
        allocators=["ego-speed", "criticality"],
        periods=[30.0],
        units="all",
        draws=20,
    )
    assert [row["gain"] for row in shown] == [row.gain for row in found]
    assert [row["allocator"] for row in shown] == ["ego-speed", "criticality"]
