"""Tables that are read piece by piece against the same tables in memory, with every
branch made to happen.
"""

import json
import math
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deepval
from commands import run
from deepval.basics.errors import InputError
from deepval.judge import kernel, out_of_core
from deepval.judge import sieve as sieves
from deepval.judge.tables import chunks, columns, joins, keys, scans
from deepval.judge.tables.joins import Spill
from deepval.judge.tie_expectations import inclusion, tie_audit
from worlds import COSTS, quietly

INPUTS = 700


def world(
    folder: Path,
    *,
    units: int = 6,
    seed: int = 0,
    share: float = 0.5,
    text: bool = False,
    **more,
) -> Path:
    """A values file: losses in tenths, so that values are tied, and `share` of them
    affected.
    """
    rng = np.random.default_rng(seed)
    unit = rng.integers(0, units, INPUTS)
    value = np.where(
        rng.random(INPUTS) < share, rng.integers(-20, 25, INPUTS) / 10, 0.0
    )
    cheap = np.maximum(value, 0.0) + rng.integers(1, 9, INPUTS) / 10
    columns = {
        "unit": [f"u{u}" for u in unit],
        "input": ids(text),
        "loss_cheap": cheap,
        "loss_full": cheap - value,
    }
    pq.write_table(
        pa.table(columns | more), folder / "values.parquet", row_group_size=130
    )
    return folder / "values.parquet"


def ids(text: bool) -> list:
    return [f"frame {i}" for i in range(INPUTS)] if text else list(range(INPUTS))


def scores(
    folder: Path, seed: int = 1, *, text: bool = False, order=None
) -> dict[str, Path]:
    """Continuous, whole, constant, heavily tied and infinite scores, in the order of
    the table or in another.
    """
    rng = np.random.default_rng(seed)
    plain = rng.normal(size=INPUTS)
    held = {
        "continuous": plain,
        "whole": np.floor(3 * plain).astype(np.int64),
        "constant": np.zeros(INPUTS),
        "tied": np.where(rng.random(INPUTS) < 0.7, -0.0, plain),
        "endless": np.where(
            rng.random(INPUTS) < 0.3, rng.choice([-math.inf, math.inf], INPUTS), plain
        ),
    }
    order = np.arange(INPUTS) if order is None else order
    for name, score in held.items():
        table = pa.table(
            {"input": np.array(ids(text))[order].tolist(), "score": score[order]}
        )
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=150)
    return {name: folder / f"{name}.parquet" for name in held}


def tiny(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Pieces so small, and a sample so poor, that every branch is taken; returns a list
    of further readings.
    """
    for module in (chunks, scans, out_of_core):
        monkeypatch.setattr(module, "CHUNK", 64)
    monkeypatch.setattr(scans, "SAMPLE", 30)
    monkeypatch.setattr(out_of_core, "QUANTILES", 28)
    monkeypatch.setattr(sieves, "SORTED", 40)
    monkeypatch.setattr(sieves, "TAKEN", 400)
    monkeypatch.setattr(kernel, "WALK_ELEMENTS", 16)
    monkeypatch.setattr(joins, "AT_ONCE", 90)
    again, readings = out_of_core.Scan.read_again, []
    monkeypatch.setattr(
        out_of_core.Scan,
        "read_again",
        lambda scan: (readings.append(1), again(scan))[1],
    )
    return readings


def assert_same(one, other, where: str = "") -> None:
    if isinstance(one, dict):
        assert list(one) == list(other), where
        for name in one:
            assert_same(one[name], other[name], f"{where}/{name}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for at, pair in enumerate(zip(one, other, strict=True)):
            assert_same(*pair, f"{where}[{at}]")
    elif isinstance(one, float):
        assert other == pytest.approx(one, rel=1e-12, abs=1e-12), where
    else:
        assert one == other, where


def assert_judged_alike(source: Path, files, budgets=None, **options) -> deepval.Result:
    whole = quietly(deepval.evaluate, source, files, budgets, memory="1TB", **options)
    found = quietly(deepval.evaluate, source, files, budgets, memory=0, **options)
    assert_same(whole.to_dict(), found.to_dict())
    for name in (
        "gain",
        "benefit",
        "escalated",
        "prize",
        "versus_random",
        "cheap_loss",
    ):
        one, other = (getattr(result.samples, name) for result in (whole, found))
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-9, err_msg=name)
    return found


@pytest.mark.parametrize("seed", range(30))
def test_sifted_sums_and_cuts_are_those_of_all_rows(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(sieves, "SORTED", int(rng.integers(1, 60)))
    monkeypatch.setattr(sieves, "TAKEN", int(rng.integers(1, 500)))
    rows, units = int(rng.integers(1, 300)), int(rng.integers(1, 9))
    score = rng.choice(
        [rng.normal(size=rows), rng.integers(0, 4, rows) / 2, np.full(rows, 3.0)]
    )
    score = np.where(rng.random(rows) < 0.05, rng.choice([-math.inf, math.inf]), score)
    value, unit = rng.normal(size=rows), rng.integers(0, units, rows)
    counts = np.vstack([np.ones(units), rng.integers(0, 4, (6, units))]).astype(float)
    slots = rng.integers(0, rows + 2, (7, 3))
    step = int(rng.integers(1, rows + 5))
    sieve = kernel.Sieve.over(
        score[::step],
        unit[::step],
        step=step,
        counts=counts,
        slots=slots,
        quantities=2,
        quantiles=5,
        widest=1,
    )

    def again() -> None:
        found.again(score, value, unit)
        found.read()

    found = sieves.Sifting(sieve, signed=True, read_again=again)
    for part in np.array_split(np.arange(rows), 3):
        found.add(score[part], value[part], unit[part])
    found.read()
    quantities = [value, np.maximum(value, 0.0)]
    expected = kernel.top_sums(score, quantities, unit, counts=counts, slots=slots)
    np.testing.assert_allclose(
        found.sums(counts, slots), expected, rtol=1e-12, atol=1e-12
    )
    for k in {1, rows, int(rng.integers(1, rows + 1))}:
        cut, lowest = found.cut(k), np.sort(score)[rows - k]
        assert cut.score == lowest
        assert cut.audit(k) == tie_audit(score, k)
        np.testing.assert_allclose(
            cut.taken(k)[1],
            np.bincount(unit, inclusion(score, k) * value, minlength=units),
            rtol=1e-12,
            atol=1e-12,
        )


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(
    ("units", "share", "draws"),
    [
        (6, 0.5, 40),
        (1, 0.5, 20),
        (120, 0.5, 30),
        (4, 0.05, "exact"),
        (6, 0.0, 10),
        (3, 1.0, 0),
    ],
    ids=["few", "one", "many", "slack", "nothing", "no draws"],
)
def test_a_table_on_disk_is_judged_as_in_memory(
    tmp_path, monkeypatch, small, units, share, draws
):
    if small:
        tiny(monkeypatch)
    source = world(tmp_path, units=units, share=share)
    assert_judged_alike(
        source, scores(tmp_path), draws=draws, simultaneous_intervals=bool(draws)
    )


def test_cuts_that_the_sample_missed_are_read_again(tmp_path, monkeypatch):
    readings = tiny(monkeypatch)
    source, files = world(tmp_path, units=200), scores(tmp_path)
    for draws in (0, 3, 200):
        assert_judged_alike(source, files, [0.13, 0.5], draws=draws)
    assert_judged_alike(source, files, [0.01, 0.3, 0.77, 1.0], draws=60, seed=3)
    assert len(readings) >= 2


def test_many_edges_are_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel, "MOST_COMPARED", 3)
    monkeypatch.setattr(out_of_core, "WIDEST", 1)
    assert_judged_alike(world(tmp_path), scores(tmp_path), draws=20)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("text", [False, True])
def test_scores_in_another_order_are_joined(tmp_path, monkeypatch, text, small):
    if small:
        tiny(monkeypatch)
    order = np.random.default_rng(5).permutation(INPUTS)
    assert_judged_alike(
        world(tmp_path, text=text), scores(tmp_path, text=text, order=order), draws=15
    )


def test_texts_of_one_hash_are_told_apart(tmp_path, monkeypatch):
    real = keys.keys_of
    monkeypatch.setattr(
        joins, "keys_of", lambda ids, seed=0: real(ids, seed) if seed else real(ids) % 7
    )
    files = scores(tmp_path, text=True, order=np.arange(INPUTS)[::-1])
    assert_judged_alike(world(tmp_path, text=True), files, draws=5)


def test_ids_are_the_same_as_text_and_as_integers(tmp_path):
    source, files = world(tmp_path), scores(tmp_path)
    for name in files:
        table = pq.read_table(files[name])
        pq.write_table(
            table.set_column(0, "input", table["input"].cast(pa.string())), files[name]
        )
    found = assert_judged_alike(source, files, draws=5)
    as_text = pq.read_table(source)
    pq.write_table(
        as_text.set_column(1, "input", as_text["input"].cast(pa.string())), source
    )
    assert (
        assert_judged_alike(source, files, draws=5).provenance.table
        == found.provenance.table
    )


def test_folders_of_files_are_one_table(tmp_path, monkeypatch):
    tiny(monkeypatch)
    source, files = world(tmp_path), scores(tmp_path)
    table = pq.read_table(source)
    (tmp_path / "parts").mkdir()
    for number, (first, size) in enumerate(
        [(0, 100), (100, 1), (101, 400), (501, INPUTS)]
    ):
        piece = table.slice(first, size)
        if number == 1:
            piece = piece.set_column(1, "input", piece["input"].cast(pa.int32()))
        pq.write_table(piece, tmp_path / "parts" / f"{number}.parquet")
    (tmp_path / "parts" / ".0.parquet.0123abcd.tmp").write_bytes(b"left by a kill")
    one = assert_judged_alike(tmp_path / "parts", files, draws=10)
    assert (
        one.to_dict()
        == quietly(deepval.evaluate, source, files, draws=10, memory=0).to_dict()
    )
    pq.write_table(
        table.rename_columns(["unit", "input", "loss_a", "loss_b"]),
        tmp_path / "parts" / "9.parquet",
    )
    for size in (0, "1TB"):
        with pytest.raises(InputError, match="loss_a"):
            deepval.evaluate(tmp_path / "parts", files, memory=size)


def test_some_units_are_judged_and_missing_scores_rank_last(tmp_path, monkeypatch):
    tiny(monkeypatch)
    source, files = world(tmp_path, units=7), scores(tmp_path)
    lacking = pq.read_table(files["continuous"]).slice(20, INPUTS - 90)
    pq.write_table(lacking, files["continuous"])
    found = assert_judged_alike(
        source, files, draws=10, units=["u5", "u1", "u3"], missing="worst"
    )
    assert found.provenance.scores["continuous"].coverage < 1
    with pytest.raises(InputError, match="'0'"):
        deepval.evaluate(source, files, memory=0)
    for units in (["u9"], []):
        messages = set()
        for size in (0, "1TB"):
            with pytest.raises(InputError) as error:
                deepval.evaluate(source, files, units=units, memory=size)
            messages.add(str(error.value))
        assert len(messages) == 1


@pytest.mark.parametrize("accounting", ["cascade", "skipping"])
def test_measured_budgets_have_all_but_a_break_even(tmp_path, accounting):
    source, files = world(tmp_path), scores(tmp_path)
    named = {
        "dear": files["continuous"],
        "light": files["whole"],
        "free": files["tied"],
    }
    budgets = [deepval.Latency(a, COSTS, accounting) for a in (0.2, 0.5, 0.9)] + [
        deepval.Energy(0.3, COSTS),
        0.2,
    ]
    whole = quietly(
        deepval.evaluate, source, named, budgets, draws=20, memory="1TB"
    ).to_dict()
    found = quietly(
        deepval.evaluate, source, named, budgets, draws=20, memory=0
    ).to_dict()
    for one, other in zip(whole["gaps"], found["gaps"], strict=True):
        if one["break_even_set"] is not None:
            assert other["reason"] == "the table is larger than memory: no break-even"
            other |= {
                name: one[name] for name in ("break_even", "break_even_set", "reason")
            }
    assert_same(whole, found)


def test_rewards_order_and_how_they_were_estimated_are_read(tmp_path):
    source = world(
        tmp_path, order=np.arange(INPUTS)[::-1], estimated=["by a model"] * INPUTS
    )
    table = pq.read_table(source)
    names = [name.replace("loss", "reward") for name in table.column_names]
    pq.write_table(table.rename_columns(names), source)
    found = assert_judged_alike(
        source, scores(tmp_path), draws=5, modes=["full", "cheap"]
    )
    assert "by a model" in found.warnings


@pytest.mark.parametrize("name", ["loss", "reward"])
@pytest.mark.parametrize("kind", ["right or wrong", "both signs", "one in part"])
def test_answers_have_the_unit_of_the_table_in_memory(tmp_path, name, kind):
    source = world(tmp_path)
    table = pq.read_table(source)
    rng = np.random.default_rng(4)
    for at, column in enumerate(table.column_names):
        if column.startswith("loss_"):
            values = rng.integers(0, 2, INPUTS).astype(float)
            # Every piece of the rows is right or wrong; all together are not.
            if kind == "both signs" and column == "loss_full":
                values = -values
            if kind == "one in part":
                values[-1] = 0.5
            table = table.set_column(at, column, pa.array(values))
    names = [column.replace("loss", name) for column in table.column_names]
    pq.write_table(table.rename_columns(names), source)
    found = assert_judged_alike(
        source, scores(tmp_path), draws=5, modes=["cheap", "full"]
    )
    graded = {"loss": "right", "reward": "right"}
    others = {"loss": "share", "reward": "reward"}
    expected = (graded if kind == "right or wrong" else others)[name]
    assert {answer.scale for answer in found.answers} == {expected}
    shows_quality = expected in ("right", "reward")
    assert (found.row("whole", alpha=0.2).quality is not None) == shows_quality


def test_huge_losses_do_not_overflow(tmp_path):
    source = world(tmp_path)
    table = pq.read_table(source)
    for at in (2, 3):
        table = table.set_column(
            at, table.column_names[at], pa.array(table.column(at).to_numpy() * 1e149)
        )
    pq.write_table(table, source)
    files = scores(tmp_path)
    whole, found = (
        quietly(deepval.evaluate, source, files, draws=0, memory=size)
        for size in (0, "1TB")
    )
    assert found.setting.concentration.effective_inputs == pytest.approx(
        whole.setting.concentration.effective_inputs
    )
    assert found.row("whole", alpha=0.2).ndg == pytest.approx(
        whole.row("whole", alpha=0.2).ndg, rel=1e-12
    )


def altered(path: Path, column: str, values) -> None:
    table = pq.read_table(path)
    pq.write_table(
        table.set_column(table.column_names.index(column), column, pa.array(values)),
        path,
    )


ORDER = np.arange(INPUTS)
TEXT = [f"frame {i}" for i in range(INPUTS)]
BROKEN = {
    "repeated value": lambda v, s: altered(
        v, "input", np.where(ORDER == 600, 5, ORDER)
    ),
    "repeated score": lambda v, s: altered(
        s, "input", np.where(ORDER == 600, 5, ORDER)
    ),
    "repeated text": lambda v, s: altered(
        v, "input", [*TEXT[:600], TEXT[5], *TEXT[601:]]
    ),
    "unknown": lambda v, s: altered(
        s, "input", np.where(ORDER > 690, ORDER + 1000, ORDER)
    ),
    "nan score": lambda v, s: altered(
        s, "score", np.where(ORDER == 300, math.nan, 0.0)
    ),
    "nan loss": lambda v, s: altered(
        v, "loss_full", np.where(ORDER == 300, math.nan, 0.0)
    ),
    "huge loss": lambda v, s: altered(
        v, "loss_full", np.where(ORDER == 300, 1e300, 0.0)
    ),
    "no unit": lambda v, s: altered(
        v, "unit", [None if i == 300 else "u" for i in ORDER]
    ),
    "no id": lambda v, s: altered(
        v, "input", [None if i == 300 else str(i) for i in ORDER]
    ),
    "ids that are numbers": lambda v, s: altered(v, "input", np.zeros(INPUTS)),
    "values for scores": lambda v, s: s.write_bytes(v.read_bytes()),
    "scores for values": lambda v, s: v.write_bytes(s.read_bytes()),
    "no column": lambda v, s: pq.write_table(
        pq.read_table(s).rename_columns(["input", "points"]), s
    ),
    "cut": lambda v, s: s.write_bytes(s.read_bytes()[:-20]),
}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("repeated value", "'5'"),
        ("repeated score", "'5'"),
        ("repeated text", "input ids must"),
        ("unknown", "'1691'"),
        ("nan score", "'score'"),
        ("nan loss", "'loss_full'"),
        ("huge loss", "'loss_full'"),
        ("no unit", "'unit'"),
        ("no id", "'input'"),
        ("ids that are numbers", "'input'"),
        ("values for scores", "Are values and"),
        ("scores for values", "Are values and"),
        ("no column", "column 'score' is needed"),
        ("cut", "must be a"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path, monkeypatch, name, words):
    tiny(monkeypatch)
    source, files = world(tmp_path), scores(tmp_path)
    BROKEN[name](source, files["whole"])
    with pytest.raises(InputError, match=words):
        quietly(deepval.evaluate, source, {"whole": files["whole"]}, memory=0)


def test_a_file_that_changes_meanwhile_is_refused(tmp_path, monkeypatch):
    source, files = world(tmp_path), scores(tmp_path)
    read = out_of_core.Scan.read

    def changed(scan, *given):
        pq.write_table(pq.read_table(source).slice(0, 9), source)
        read(scan, *given)

    monkeypatch.setattr(out_of_core.Scan, "read", changed)
    with pytest.raises(InputError, match="must stay as"):
        deepval.evaluate(source, files, draws=5, memory=0)


def test_a_change_that_hides_behind_size_and_time_is_noticed(tmp_path):
    """As by `cp -p`, or where a clock was set back."""
    source = world(tmp_path)
    found, seen, other = chunks.Parts.of(source), source.stat(), tmp_path / "other"
    other.write_bytes(source.read_bytes())
    os.utime(other, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    other.replace(source)
    with pytest.raises(InputError, match="must stay as"):
        next(found.chunks("input"))


def test_files_must_have_the_rows_that_they_say(tmp_path, monkeypatch):
    source, files = world(tmp_path), scores(tmp_path)
    head = chunks._head
    monkeypatch.setattr(
        chunks,
        "_head",
        lambda path, name: (10**9 + head(path, name)[0], head(path, name)[1]),
    )
    with pytest.raises(InputError, match="their headers declare"):
        deepval.evaluate(source, files, draws=5, memory=0)


def test_what_needs_the_rows_is_refused_by_its_name(tmp_path):
    source, files = world(tmp_path, speed=np.arange(INPUTS)), scores(tmp_path)
    for options, words in [
        ({"by": "speed"}, "by needs"),
        ({"calibration": ["u1"]}, "calibration needs"),
        ({"curve_points": 5}, "curve_points needs"),
        ({"terms": {"input": [1]}}, "terms needs"),
    ]:
        with pytest.raises(InputError, match=words):
            deepval.evaluate(source, files, memory=0, **options)
    with pytest.raises(InputError, match="must be a"):
        deepval.evaluate(source, {"mine": np.zeros(INPUTS)}, memory=0)
    (tmp_path / "a.csv").write_text("input,score\n1,2\n")
    with pytest.raises(InputError, match=r"a\.csv: must be a \.parquet file"):
        deepval.evaluate(source, {"mine": tmp_path / "a.csv"}, memory=0)
    found = quietly(deepval.evaluate, source, files, draws=5, memory=0)
    for asked in (found.apgr, lambda: found.area("whole")):
        with pytest.raises(InputError, match="needs the scores"):
            asked()
    three = world(tmp_path, loss_middle=np.ones(INPUTS))
    with pytest.raises(InputError, match="more than two"):
        deepval.evaluate(three, files, memory=0)
    assert_judged_alike(three, files, draws=5, modes=["middle", "full"])
    priced = world(tmp_path, cost_cheap=np.ones(INPUTS), cost_full=np.full(INPUTS, 2.0))
    with pytest.raises(InputError, match="cost_cheap"):
        deepval.evaluate(priced, files, memory=0)
    by_mode = {
        "input": ids(False),
        "score_middle": np.zeros(INPUTS),
        "score_full": np.zeros(INPUTS),
    }
    pq.write_table(pa.table(by_mode), files["whole"])
    with pytest.raises(
        InputError, match=r"scores per mode .* need the table in memory"
    ):
        deepval.evaluate(world(tmp_path), files, memory=0)


def test_memory_is_a_size(tmp_path, monkeypatch):
    source, files = world(tmp_path), scores(tmp_path)
    assert [chunks.memory_limit(given) for given in ("1.5GB", "800 mb", 0, "0", 7)] == [
        1_500_000_000,
        800_000_000,
        0,
        0,
        7,
    ]
    for given in ("much", "-1", True, "1e3", "1500", "1 pint", "9" * 30):
        with pytest.raises(InputError, match=r"memory must be a size such as 1.5GB"):
            chunks.memory_limit(given)
    assert chunks.on_disk(source, files, "1GB") is None
    assert chunks.on_disk(source, files, "1KB") is not None
    monkeypatch.setenv(chunks.VARIABLE, "1KB")
    assert chunks.on_disk(source, files) is not None
    assert chunks.on_disk(source, files, "1GB") is None
    monkeypatch.setenv(chunks.VARIABLE, "")
    monkeypatch.setattr(chunks, "available_memory", lambda: 1000)
    assert chunks.on_disk(source, files) is not None
    monkeypatch.setattr(chunks, "available_memory", lambda: 10**12)
    assert chunks.on_disk(source, files) is None
    (tmp_path / "manifest.json").write_text("{}")
    # a cell's file is read whole, and verified
    assert chunks.on_disk(source, files, 0) is None
    assert chunks.available_memory() == 10**12


def test_temporary_files_have_no_name(tmp_path, monkeypatch):
    held = tmp_path / "held"
    held.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(held))
    spill = Spill(np.float64)
    spill.append(np.arange(5.0))
    assert spill.read(1, 3).tolist() == [1, 2, 3]
    assert list(held.iterdir()) == []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    with pytest.raises(InputError, match="must have room"):
        Spill(np.float64)


def test_the_command_reads_piece_by_piece(tmp_path, monkeypatch):
    source, files = world(tmp_path), scores(tmp_path)
    given = [
        "evaluate",
        source,
        "-s",
        files["whole"],
        files["tied"],
        "--draws",
        "20",
        "--json",
    ]
    whole = json.loads(run(*given).out)
    monkeypatch.setenv("DEEPVAL_MEMORY", "0")
    assert_same(whole, json.loads(run(*given).out))


def test_inputs_that_are_their_own_units_are_asked_about_in_nouns_of_the_file(tmp_path):
    content = {
        "unit": np.array(["a", "b"]),
        "input": np.array(["1", "2"]),
        "loss_s": np.array([1.0, 2.0]),
        "loss_l": np.zeros(2),
    }
    path = tmp_path / "values.parquet"
    path.write_bytes(
        columns.parquet_bytes(content, {"input": "request", "unit": "tenant"})
    )
    scores_file = tmp_path / "mine.parquet"
    score = {"input": content["input"], "score": np.zeros(2)}
    scores_file.write_bytes(columns.parquet_bytes(score))
    for memory in ("1GB", 0):
        with pytest.warns(deepval.InputWarning, match="each request is a tenant"):
            deepval.evaluate(path, {"mine": scores_file}, draws=2, memory=memory)
