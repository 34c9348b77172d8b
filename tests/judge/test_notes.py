"""Notes on honest mistakes: each mistake is noted in one sentence, and honest tables
and scores are not.
"""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

import deepval
from deepval.judge.extras import notes
from deepval.judge.report import html
from deepval.judge.report.forms import FORMS
from deepval.judge.tables.scores import Fit, Scores
from worlds import judge

UNITS, FRAMES = 12, 60
COSTS = {
    "modes": {"cheap": {"ms": 13.2, "mj": 41.0}, "full": {"ms": 18.5, "mj": 84.0}},
    "allocators": {"mine": {"ms": 0.65, "mj": 2.0}},
}


def world(seed: int = 0, **columns) -> deepval.ValueTable:
    """720 inputs in 12 units; escalation changes the loss of a third of them."""
    rng = np.random.default_rng(seed)
    inputs = UNITS * FRAMES
    cheap = rng.exponential(size=inputs)
    value = np.where(rng.random(inputs) < 1 / 3, rng.normal(0.2, 1.0, inputs), 0.0)
    columns = {
        "unit": np.repeat([f"u{number:02d}" for number in range(UNITS)], FRAMES),
        "input": np.array([f"i{number:04d}" for number in range(inputs)]),
        "order": np.tile(np.arange(float(FRAMES)), UNITS),
        "losses": {"cheap": cheap, "full": cheap - value},
    } | columns
    return deepval.ValueTable.from_columns(**columns)


def honest(table: deepval.ValueTable, seed: int = 1) -> np.ndarray:
    """A score that knows a little: it is better than any shipped allocator on a cell of
    its own.
    """
    noise = np.random.default_rng(seed).normal(size=len(table))
    return table.decision_values + table.decision_values.std() * noise


def noted(table, scores=None, budgets=(0.2,), **options) -> tuple[str, ...]:
    scores = {"mine": honest(table)} if scores is None else scores
    return judge(table, scores, list(budgets), draws=20, **options).warnings


def test_an_honest_table_has_no_notes():
    table = world()
    assert (
        noted(
            table,
            budgets=[0.2, deepval.Latency(0.3, COSTS)],
            calibration=["u00", "u01"],
        )
        == ()
    )


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda table: table.decision_values, "their decision values"),
        (lambda table: -table.losses[:, -1], "minus their full losses"),
        (lambda table: table.losses[:, 0], "their cheap losses"),
        (
            lambda table: np.roll(table.decision_values, -1),
            "the decision values of the next inputs",
        ),
    ],
)
def test_a_score_that_knows_the_answer_is_noted(answer, words, noise):
    table = world()
    rng = np.random.default_rng(2)
    # any increasing function of the answer
    score = np.exp(answer(table) + noise * rng.normal(size=len(table)))
    scores = {"mine": score, "fine": honest(table)}
    (note,) = noted(table, scores)
    assert note.startswith(f"mine orders inputs nearly as {words} do (rank agreement ")
    assert note.endswith(
        "check that no loss went into the scores, and that each is of the right input."
    )
    shuffled = rng.permutation(len(table))
    columns = {
        "unit": table.unit_ids[table.unit][shuffled],
        "input": table.input[shuffled],
    }
    columns |= {
        "losses": {
            mode: table.losses[shuffled, m] for m, mode in enumerate(table.modes)
        }
    }
    moved = world(**columns, order=table.order[shuffled])
    assert noted(
        moved, {name: column[shuffled] for name, column in scores.items()}
    ) == (note,)


def test_diagnostics_may_know_the_answer_and_few_inputs_are_no_evidence():
    table = world()
    everything = np.ones(len(table), dtype=bool)
    assert (
        noted(
            table,
            {
                "mine": Scores(
                    "mine", table.decision_values, everything, kind="diagnostic"
                )
            },
        )
        == ()
    )
    few = table.keep(np.arange(len(table)) < 2 * FRAMES).restrict(["u00", "u01"])
    assert np.count_nonzero(few.decision_values) < notes.LEAST / (1 - notes.SMALLEST)
    assert noted(few, {"mine": few.decision_values}) == ()


def test_answers_of_one_value_must_be_told_apart_almost_always():
    cheap = np.random.default_rng(0).integers(0, 2, UNITS * FRAMES).astype(float)
    table = world(losses={"cheap": cheap, "full": 0.0 * cheap})
    rng = np.random.default_rng(1)
    assert (
        "their decision values"
        in noted(table, {"mine": cheap + 0.1 * rng.normal(size=len(cheap))})[0]
    )
    assert noted(table, {"mine": cheap + 0.4 * rng.normal(size=len(cheap))}) == ()


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), levels=st.integers(2, 9))
def test_rank_agreement_is_spearmans_or_the_area_under_the_curve(seed, levels):
    rng = np.random.default_rng(seed)
    answer, score = rng.permutation(30).astype(float), rng.permutation(30).astype(float)
    assert notes.rank_agreement(score, answer) == pytest.approx(
        spearmanr(score, answer).statistic
    )
    split = np.arange(30) % 2.0
    wins = np.mean(score[split == 1][:, None] > score[split == 0][None])
    assert notes.rank_agreement(score, split) == pytest.approx(2 * wins - 1)
    coarse = np.floor(answer / 30 * levels)
    assert notes.rank_agreement(answer, coarse) == pytest.approx(1.0)
    assert -1 - 1e-12 <= notes.rank_agreement(coarse, score) <= 1 + 1e-12
    assert np.isnan(notes.rank_agreement(score, np.zeros(30)))


def test_units_that_are_copies_are_noted():
    table = world()
    losses = {
        mode: np.tile(table.losses[: 3 * FRAMES, m], 4)
        for m, mode in enumerate(table.modes)
    }
    (note,) = noted(world(losses=losses))
    assert note == (
        "Units 'u00' and 'u03' hold exactly the same losses in the same order, and so "
        "do 8 more pairs: check whether units were duplicated under other names, "
        "which makes intervals too narrow."
    )


def test_units_of_few_different_losses_are_no_copies():
    rng = np.random.default_rng(0)
    few = rng.integers(0, 2, FRAMES).astype(float)
    assert (
        noted(
            world(
                losses={"cheap": np.tile(few, UNITS), "full": np.zeros(UNITS * FRAMES)}
            )
        )
        == ()
    )
    steps = {
        "cheap": np.tile(np.arange(6.0).repeat(10), UNITS),
        "full": np.zeros(UNITS * FRAMES),
    }
    assert noted(world(losses=steps)) == ()
    idle = {mode: np.zeros(UNITS * FRAMES) for mode in ("cheap", "full")}
    assert not any(
        "same losses" in note
        for note in noted(world(losses=idle), {"mine": np.arange(UNITS * FRAMES)})
    )


@pytest.mark.parametrize("looked_at", [20_000, 200])
def test_inputs_that_are_copies_are_noted(monkeypatch, looked_at):
    monkeypatch.setattr(notes, "LOOKED_AT", looked_at)
    monkeypatch.setattr(notes, "COPIES", 20 if looked_at > 1000 else 5)
    table = world()
    rows = np.random.default_rng(0).permutation(np.tile(np.arange(len(table) // 2), 2))
    (note,) = noted(
        world(
            losses={mode: table.losses[rows, m] for m, mode in enumerate(table.modes)}
        )
    )
    assert (
        "different pairs of losses stand at several inputs to "
        "the last digit, such as 'i"
    ) in note
    assert note.endswith("check whether inputs were duplicated under other ids.")


def test_round_losses_and_vehicles_that_stand_still_are_no_copies():
    table = world()
    rounded = {
        mode: np.round(table.losses[:, m], 2) for m, mode in enumerate(table.modes)
    }
    assert noted(world(losses=rounded)) == ()
    still = {
        mode: np.repeat(table.losses[::4, m], 4) for m, mode in enumerate(table.modes)
    }
    assert noted(world(losses=still)) == ()


def test_judged_units_of_the_fit_are_noted():
    table = world()
    inside = np.isin(table.unit_ids, ["u03", "u04", "u05", "u07"])[table.unit]
    fit = Fit(np.full(len(table), 4), inside)
    scores = Scores("mine", honest(table), np.ones(len(table), dtype=bool), fit=fit)
    (note,) = noted(table, {"mine": scores})
    assert note == (
        "mine was fitted on 4 of the judged units (u03, u04, u05, ...): its gain "
        "there is no evidence for other units; judge it on "
        "units that it was not fitted on."
    )
    assert noted(table, {"mine": scores}, units=["u01", "u02", "u06"]) == ()


@pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
def costs_with(mode=None, allocator=None) -> dict:
    modes = {
        name: {key: figure * (mode or 1) for key, figure in entry.items()}
        for name, entry in COSTS["modes"].items()
    }
    return {
        "modes": modes,
        "allocators": {"mine": COSTS["allocators"]["mine"] | (allocator or {})},
    }


@pytest.mark.parametrize(
    ("costs", "figure"),
    [
        (costs_with(mode=1e-3), "0.0132 ms"),
        (costs_with(allocator={"ms": 0.00065, "mj": 0.002}), "0.00065 ms"),
        (costs_with(allocator={"ms": 650.0, "mj": 2000.0}), "35.1 times"),
        (costs_with(allocator={"mj": 0.002}), "0.00308 W"),
        (costs_with(), None),
        (costs_with(allocator={"ms": 0.0, "mj": 0.0}), None),
    ],
)
def test_costs_a_thousand_times_off_are_noted(costs, figure):
    found = noted(world(costs=costs))
    if figure is None:
        assert not found
    else:
        assert figure in found[0]


def test_shipped_costs_have_no_notes():
    for name, path in deepval.judge.tables.costs.PROFILES.items():
        costs = deepval.judge.tables.costs.Costs.of(path)
        modes = [*costs.modes]
        table = world(
            losses={mode: world().losses[:, int(mode == modes[-1])] for mode in modes},
            costs=costs,
        )
        assert (
            noted(table, {allocator: honest(table) for allocator in costs.allocators})
            == ()
        ), name


def test_times_with_gaps_in_mixed_units_or_repeated_are_noted():
    order = np.tile(np.arange(float(FRAMES)), UNITS)
    assert noted(world(order=0.1 * order + 1.6e9)) == ()
    gap = order.copy()
    gap[30:FRAMES] += 150
    assert noted(world(order=gap)) == (
        "Unit 'u00' has a step in 'order' of 151 where its usual step is 1: check for "
        "missing inputs, and for times in mixed units (seconds, milliseconds).",
    )
    mixed = np.where(np.arange(len(order)) < FRAMES, 1000 * order, order)
    assert noted(world(order=mixed)) == (
        "The usual step in 'order' is 1 in unit 'u01' and 1000 in unit 'u00': check "
        "for times in mixed units (seconds, milliseconds).",
    )
    repeated = order.copy()
    repeated[[1, 2]] = 0.0
    note = (
        "2 inputs have the order of another input of their unit (such as 0 in 'u00'): "
        "streaming takes these by id; check the column 'order'."
    )
    assert noted(world(order=repeated)) == (note,)
    repeated[[-1, -2]] = 0.0
    both = note.replace("2 inputs", "4 inputs")
    assert noted(world(order=repeated), calibration=["u00", "u01"]) == (both,)
    assert noted(world(order=None)) == ()


def test_sparse_frames_are_not_times_in_mixed_units():
    # KITTI frames with pictures: every frame of one sequence, three or four of another,
    # all numbered from 0 to 1,058.
    sparse = [
        np.arange(91.0),
        np.array([0.0, 362, 884]),
        np.array([5.0, 10, 317, 800]),
        np.arange(0.0, 1050, 6),
    ]
    sparse += [np.array([40.0, 41, 42, 43]), np.array([12.0, 500, 1000, 1058])]
    parts = [(f"{sequence:04}", order) for sequence, order in enumerate(sparse)]
    assert time_notes(parts) == []
    # The same drives with one clock in milliseconds and the others in seconds are
    # noted, whichever drive it is.
    for late in range(len(parts)):
        scaled = [
            (name, order * (100.0 if at == late else 0.1))
            for at, (name, order) in enumerate(parts)
        ]
        notes = time_notes(scaled)
        # two steps are too few to tell
        assert len(notes) == (len(sparse[late]) > 3), late
        assert all(
            f"in unit '{late:04}': check for times in mixed units" in note
            for note in notes
        )
    epoch = [
        ("a", 1.6e9 + 0.1 * np.arange(20.0)),
        ("b", 1.6e12 + 100 * np.arange(20.0)),
    ]
    assert len(time_notes(epoch)) == 1
    assert time_notes([epoch[0], ("b", epoch[0][1])]) == []


def time_notes(parts):
    """Notes on the times of units, which are pairs of name and order."""
    order = np.concatenate([own for _, own in parts])
    losses = np.random.default_rng(0).exponential(size=(2, len(order)))
    table = world(
        unit=np.repeat([name for name, _ in parts], [len(own) for _, own in parts]),
        input=np.arange(len(order)),
        order=order,
        losses=dict(zip(("cheap", "full"), losses, strict=True)),
    )
    scores = {"mine": np.arange(len(order))}
    return [note for note in noted(table, scores) if "mixed units" in note]


def test_inputs_without_a_score_are_noted():
    table = world()
    partial = {"input": table.input[90:], "score": honest(table)[90:]}
    assert noted(table, {"mine": partial}, missing="worst") == (
        "mine has no score for 12.5 % of the judged inputs, which are ranked last "
        "(--missing worst): check that these were meant to be left out.",
    )
    known = {"input": table.input[90:], "score": table.decision_values[90:]}
    assert [
        note.split(" ")[1] for note in noted(table, {"mine": known}, missing="worst")
    ] == ["orders", "has"]


def test_tables_in_files_have_the_notes_that_need_no_neighbours(tmp_path):
    table = world()
    columns = {"unit": table.unit_ids[table.unit], "input": table.input}
    losses = {f"loss_{mode}": table.losses[:, m] for m, mode in enumerate(table.modes)}
    pq.write_table(pa.table(columns | losses), tmp_path / "v.parquet")
    known = {"input": table.input[72:], "score": table.decision_values[72:]}
    pq.write_table(pa.table(known), tmp_path / "s.parquet")
    costs = costs_with(allocator={"ms": 0.00065})
    budgets = [deepval.Latency(0.2, costs)]
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        result = deepval.evaluate(
            tmp_path / "v.parquet",
            {"mine": tmp_path / "s.parquet"},
            budgets,
            draws=20,
            missing="worst",
            memory=0,
        )
    assert [str(item.message) for item in shown] == list(result.warnings)
    assert result.warnings == noted(
        world(order=None), {"mine": known}, budgets, missing="worst"
    )
    assert len(result.warnings) == 3


def test_of_a_long_table_whole_units_are_looked_at(monkeypatch):
    monkeypatch.setattr(notes, "LOOKED_AT", 5 * FRAMES + 7)
    table = world()
    (note,) = noted(table, {"mine": table.decision_values})
    assert note.startswith("mine orders inputs nearly as their decision values do")
    assert noted(table) == ()
    # not even one unit is whole: no neighbours in time
    monkeypatch.setattr(notes, "LOOKED_AT", FRAMES - 1)
    gap = np.tile(np.arange(float(FRAMES)), UNITS) ** 9
    assert noted(world(order=gap)) == ()


def test_notes_are_in_every_form_of_a_result():
    table = world()
    result = judge(table, {"mine": table.decision_values}, [0.2], draws=20)
    (note,) = result.warnings
    start = "mine orders inputs nearly as their decision values do"
    assert note.startswith(start)
    assert all(
        start in " ".join(form(result).split())
        for name, form in FORMS.items()
        if name != "csv"
    )
    assert start in html.render({"mine": result})
