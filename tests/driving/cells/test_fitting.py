"""Fitting and scoring on built cells: who may be fitted on, what repeats, what
transfers, what is refused.
"""

import json
import pickle
import shutil
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import deepval
from allocator_worlds import (
    LADDER,
    LEARNED,
    PAIR,
    built,
    failing_cell,
    ladder_cell,
    learned,
    material,
    pair_cell,
    reporting,
)
from commands import call, refusal, run_process
from deepval.basics.errors import InputError, InputWarning
from deepval.basics.files.canonical import digest_of
from deepval.deploy.allocators import FEATURE_SETS, RECIPES, read_allocator
from deepval.deploy.allocators.allocator import SIGNALS
from deepval.deploy.allocators.models import Boosting
from deepval.deploy.features import Sight
from deepval.deploy.fitting import (
    allocator_named,
    calibration_scores,
    fit_on,
    out_of_fold,
    refit,
    score_on,
    sights_of,
    units_of,
)
from deepval.deploy.labels import TARGETS, labels
from deepval.driving.cells.folder import read_cell
from deepval.driving.cells.view_files import read_views
from deepval.driving.evidence import ROUTING, RoutingObjective
from deepval.driving.perception.reported.ap_swap import graded_frames, join_units
from deepval.driving.perception.reported.losses import (
    LOSSES,
    perception_gains,
    perception_losses,
)
from deepval.judge.cases import judge
from deepval.judge.tables.split import split
from evidence_worlds import shared_of
from worker_tasks import losing
from worlds import parquet_columns

FAST = replace(
    RECIPES["router-gbm-value"], learner=Boosting(trees=5, least_per_leaf=10)
)


def test_units_by_role_or_name():
    roles = pair_cell().split
    assert units_of(roles, "fit") == tuple(sorted((*roles.train, *roles.validation)))
    assert set(units_of(roles, "all")) == {f"scene-0{place}" for place in range(8)}
    assert units_of(roles, "scene-03, scene-02,scene-02") == ("scene-02", "scene-03")
    for text in ("", "scene-99", "scene-02,nobody", ()):
        with pytest.raises(
            InputError, match="Units must be train, validation, test, fit, all"
        ):
            units_of(roles, text)


@pytest.mark.parametrize("units", ["test", "all", "scene-02,scene-05"])
def test_a_fit_on_test_units_is_refused(units):
    with pytest.raises(
        InputError,
        match=r"fitted on training and validation units only.*scene-05 are test units",
    ):
        fit_on(pair_cell(), FAST, units=units)


def test_labels_are_those_of_the_fit_units_alone():
    cell = pair_cell()
    held = np.isin(cell.table.unit_ids[cell.table.unit], cell.split.test)
    altered = replace(
        cell.table, losses=np.where(held[:, None], 99.0, cell.table.losses)
    )
    other = replace(cell)
    other.__dict__["table"] = altered
    assert fit_on(other, FAST).to_json() == fit_on(cell, FAST).to_json()


def test_a_refit_gives_the_same_bytes_and_needs_the_same_cell():
    made = learned("router-mlp-binary")
    assert refit(ladder_cell(), made).to_json() == made.to_json()
    with pytest.raises(
        InputError, match=r"was fitted on cell synthetic-.*: give that cell"
    ):
        refit(pair_cell(), made)


def test_a_refit_takes_the_learner_s_settings_from_the_file():
    made = fit_on(pair_cell(), FAST)
    assert (
        refit(pair_cell(), made).to_json()
        == made.to_json()
        != fit_on(pair_cell(), FAST.name).to_json()
    )
    other = replace(made, training=replace(made.training, settings={"learner": "Mlp"}))
    with pytest.raises(
        InputError,
        match=(
            "router-gbm-value is fitted by Boosting; this allocator was fitted by Mlp"
        ),
    ):
        refit(pair_cell(), other)


def heads(cell, recipe, seed):
    return [head.to_dict() for head in fit_on(cell, recipe, seed=seed).heads]


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_fits(target):
    made = fit_on(pair_cell(), FAST, target=target)
    scores = score_on(pair_cell(), made).score
    assert made.training.target == target
    assert np.isfinite(scores).all()
    if TARGETS[target].classifies:
        assert made.heads[0].link == "logistic"
        assert ((scores > 0) & (scores < 1)).all()


def test_a_multi_fidelity_gate_scores_every_mode_above_cheap():
    found = score_on(ladder_cell(), learned("gate-multi-fidelity"))
    assert (found.modes, found.score.shape) == (LADDER[1:], (48, 2))
    assert list(found.columns()) == [
        "input",
        "score_yolov8s-512",
        "score_yolov8s-640",
        "fit_units",
        "in_fit",
    ]
    # Each column is what a gate for that mode alone predicts.
    alone = score_on(ladder_cell(), learned("gate-gbm"))
    assert found.score[:, 1].tobytes() == alone.score.tobytes()


def test_a_multi_fidelity_gate_is_for_its_own_modes():
    with pytest.raises(
        InputError,
        match="scores the modes yolov8s-320, yolov8s-512, yolov8s-640; the cell has",
    ):
        score_on(pair_cell(), learned("gate-multi-fidelity"))


def test_a_model_of_one_consumer_scores_the_cell_of_another():
    other = built(material(PAIR), "lateral", system="lateral")
    made = fit_on(pair_cell(), "gate-gbm")
    assert other.id != pair_cell().id
    assert (
        score_on(other, made).score.tobytes()
        == score_on(pair_cell(), made).score.tobytes()
    )
    own = fit_on(other, "gate-gbm")
    assert own.to_json() != made.to_json()
    assert score_on(pair_cell(), own).coverage == 1.0


def test_frames_on_which_the_cheap_mode_failed_are_no_inputs():
    cell = failing_cell()
    made = fit_on(cell, "gate-gbm")
    assert made.training.inputs == 6 * (24 - 4)
    for scores in (made, SIGNALS["memory"]):
        found = score_on(cell, scores, units="all")
        assert (found.inputs, found.coverage, found.reason) == (8 * (24 - 4), 1.0, None)
        assert not any(
            str(name).endswith(("/000004", "/000009")) for name in found.input
        )


def test_units_without_inputs_are_reported():
    cell = replace(pair_cell())
    empty = (*cell.split.train[:1], *cell.split.test[:1])
    held = [unit for unit in cell.split.units if unit not in empty]
    cell.__dict__["table"] = pair_cell().table.restrict(held)
    with pytest.warns(
        InputWarning,
        match=f"no inputs in {empty[0]}; the other {len(cell.split.fit) - 1} are used",
    ):
        made = fit_on(cell, FAST)
    assert made.training.units == tuple(
        unit for unit in cell.split.fit if unit != empty[0]
    )
    with pytest.warns(InputWarning, match=f"no inputs in {empty[1]}; the other"):
        found = score_on(cell, made)
    with pytest.raises(
        InputError, match=f"units must hold inputs; none of {empty[0]} does"
    ):
        fit_on(cell, FAST, units=empty[:1])
    # Judged in the split's own list, so that the draws are those of every other cell of
    # the data set.
    result = judge(
        cell, {"gate": found}, [deepval.Selection(0.2)], command=None, draws=5
    )
    assert tuple(result.provenance["units"]) == cell.split.test


def test_who_fits_changes_no_byte_even_where_a_worker_is_lost(tmp_path):
    names = ["gate-ridge", FAST.name]
    with losing(tmp_path / "killed") as two:
        made = list(two(partial(fit_on, pair_cell()), names))
        folds = out_of_fold(pair_cell(), "gate-ridge", folds=3, map_fits=two)
    assert [each.to_json() for each in made] == [
        fit_on(pair_cell(), name).to_json() for name in names
    ]
    alone = out_of_fold(pair_cell(), "gate-ridge", folds=3)
    assert (folds.input.tolist(), folds.score.tolist()) == (
        alone.input.tolist(),
        alone.score.tolist(),
    )


def test_a_cell_that_was_built_anew_is_not_fitted_on(tmp_path):
    sent = pickle.dumps(pair_cell())
    assert pickle.loads(sent).digest == pair_cell().digest
    shutil.copytree(pair_cell().folder, tmp_path / "cell")
    sent = pickle.dumps(replace(read_cell(tmp_path / "cell"), digest="0" * 64))
    with pytest.raises(
        InputError, match="the cell must stay as it is while it is worked on"
    ):
        pickle.loads(sent)


def test_fit_and_score_by_command(tmp_path):
    cell, model = pair_cell().folder, tmp_path / "gate.json"
    done = run_process("fit", cell, "--allocator", "gate-ridge", "--out", model)
    assert (done.code, done.err) == (0, "")
    assert (
        done.out == f"{model}: gate-ridge for value, fitted on 144 inputs of 6 units.\n"
    )
    assert model.read_text() == fit_on(pair_cell(), "gate-ridge").to_json()
    call("fit", cell, "--like", model, "--out", tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == model.read_bytes()
    told = json.loads(
        call(
            "fit",
            cell,
            "-a",
            "gate-ridge",
            "--units",
            "train",
            "-o",
            tmp_path / "b.json",
            "--json",
        )
    )
    assert (told["allocator"], told["target"], told["inputs"], told["seed"]) == (
        "gate-ridge",
        "value",
        120,
        0,
    )
    assert told["units"] == list(pair_cell().split.train)
    line = call("score", cell, model, "--out", tmp_path / "scores.csv")
    assert line == (
        f"{tmp_path / 'scores.csv'}: 72 of 72 inputs scored by gate-ridge (coverage "
        "100.0%); 24 validation inputs by a fit on 5 units without theirs.\n"
    )
    told = json.loads(
        call("score", cell, model, "--out", tmp_path / "scores.parquet", "--json")
    )
    assert (told["kind"], told["inputs"], told["scored"], told["coverage"]) == (
        "deployable",
        72,
        72,
        1.0,
    )
    assert told["fits"] == [
        {"units": 5, "inputs": 24, "inputs_in_fit": 0},
        {"units": 6, "inputs": 48, "inputs_in_fit": 0},
    ]
    expected = calibration_scores(pair_cell(), model)
    kept = parquet_columns(tmp_path / "scores.parquet")
    assert kept["score"].tobytes() == expected.score.tobytes()
    lines = [
        line.split(",") for line in (tmp_path / "scores.csv").read_text().splitlines()
    ]
    assert lines[0] == ["input", "score", "fit_units", "in_fit"]
    assert [(name, float(score)) for name, score, *_ in lines[1:]] == list(
        zip(expected.input.tolist(), expected.score.tolist(), strict=True)
    )


def test_validation_units_are_scored_by_a_fit_that_did_not_use_them():
    cell = pair_cell()
    split, unit = cell.split, cell.table.unit_ids[cell.table.unit]
    made, trained = (
        fit_on(cell, "gate-ridge"),
        fit_on(cell, "gate-ridge", units="train"),
    )
    found = calibration_scores(cell, made, units="all").over(cell.table)
    validation, train = np.isin(unit, split.validation), np.isin(unit, split.train)
    own, other = (
        score_on(cell, each, units="all").over(cell.table) for each in (made, trained)
    )
    assert found.values[~validation].tobytes() == own.values[~validation].tobytes()
    assert found.values[validation].tobytes() == other.values[validation].tobytes()
    assert (found.values[validation] != own.values[validation]).any()
    assert found.fit.inside.tolist() == train.tolist()
    assert found.fit.units.tolist() == np.where(validation, 5, 6).tolist()
    # A fit on training units, and a signal, need no second fit.
    assert calibration_scores(cell, trained).fit.units.tolist() == [5] * 72
    assert calibration_scores(cell, "ego-speed").fit.units.tolist() == [0] * 72


def test_an_allocator_is_not_calibrated_on_units_that_it_was_fitted_on(tmp_path):
    cell = pair_cell()
    scores = score_on(cell, fit_on(cell, "gate-ridge"), units="all").over(cell.table)
    sentence = (
        r"calibration units must be units that the allocator was not fitted on.*fitted "
        r"on 1 of these 1 \("
    )
    asked = {
        "units": list(cell.split.test),
        "calibration": list(cell.split.validation),
        "draws": 0,
    }
    with pytest.raises(InputError, match=sentence):
        deepval.evaluate(cell.table, {"gate-ridge": scores}, **asked)
    fitted = calibration_scores(cell, fit_on(cell, "gate-ridge")).over(cell.table)
    assert deepval.evaluate(cell.table, {"gate-ridge": fitted}, **asked).streams


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"in_fit": [0, 1]}, "there is no 'fit_units'"),
        ({"fit_units": [3, 3], "in_fit": [0, 2]}, "in_fit.*row 2.*holds 2"),
        ({"fit_units": [3, 0], "in_fit": [0, 1]}, "in_fit.*row 2.*holds 1"),
        ({"fit_units": [1.5, 3], "in_fit": [0, 1]}, "fit_units.*row 1.*holds 1.5"),
    ],
)
def test_odd_fit_columns_are_refused(columns, sentence):
    table = deepval.ValueTable.from_columns(
        unit=["a", "a"], losses={"cheap": [1, 2], "full": [0, 3]}
    )
    scores = {"input": table.input, "score": [1.0, 2.0], **columns}
    with pytest.raises(InputError, match=sentence):
        deepval.evaluate(table, {"mine": scores}, draws=0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("fit", "--out", "x.json"),
            "Give either --allocator or --like",
        ),
        (
            ("fit", "--out", "x.json", "-a", "gate-gbm", "--like", "y"),
            "Give either --allocator or --like",
        ),
        (("fit", "--out", "x.json", "-a", "gate"), "A recipe must be one of"),
        (
            ("fit", "--out", "x.json", "-a", "gate-gbm", "--target", "speed"),
            "a target must be one of",
        ),
        (
            ("fit", "--out", "x.json", "-a", "gate-gbm", "--units", "mars"),
            "Units must be",
        ),
        (
            ("fit", "--out", "x.json", "--like", "nowhere.json"),
            "must be an allocator's file that can be read",
        ),
        (
            ("score", "ego-speed", "--out", "x.txt"),
            "the name must end in .csv or .parquet",
        ),
        (("score", "ego", "--out", "x.csv"), "What scores must be a signal (ego-speed"),
        (("score", "ego-speed", "--out", "x.csv", "--units", "mars"), "Units must be"),
        (
            ("fit", "gate-gbm"),
            "There is no argument for 'gate-gbm': see deepval fit -h.",
        ),
        (("profile", "al", "--out", "x.toml"), "found 'al'; did you mean 'all'?"),
        (
            ("score", "router-pixel"),
            "found 'router-pixel', which is not fitted: `deepval fit ",
        ),
    ],
)
def test_bad_words_are_one_sentence(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sentence in refusal(words[0], pair_cell().folder, *words[1:])
    assert not list(tmp_path.iterdir())


def rewritten(content, **changes):
    """The text of a file with parts replaced and its hash made to fit."""
    content = {
        key: value for key, value in (content | changes).items() if key != "sha256"
    }
    return json.dumps(content | {"sha256": digest_of(content)})


def bad_files():
    """Content of files that are no allocator of this version, and a part of the
    sentence that says so.
    """
    text = learned("gate-ridge").to_json()
    content = json.loads(text)
    names = list(FEATURE_SETS["cheap"].columns)
    head = content["heads"][0]
    altered = [
        json.dumps(content | {"heads": [head | {"intercept": number}]})
        for number in (0.5, float("nan"))
    ]
    return {
        "another version": (
            rewritten(content, version=2),
            "reads version 1 of allocator files; found version 2",
        ),
        "truncated": (text[: len(text) // 2], "must be an allocator"),
        "empty": ("", "must be an allocator"),
        "altered": (altered[0], "the file was altered after it was written"),
        "no hash": (
            json.dumps({k: v for k, v in content.items() if k != "sha256"}),
            "the file was altered",
        ),
        "other columns": (
            rewritten(content, columns=["speed", *names[1:]]),
            "column 0 is 'speed' and should be",
        ),
        "fewer columns": (
            rewritten(content, columns=names[:-1]),
            f"column 64 is None and should be {names[-1]!r}",
        ),
        "more columns": (
            rewritten(content, columns=[*names, "x"]),
            "column 65 is 'x' and should be None",
        ),
        "no columns": (rewritten(content, columns=None), "column 0 is None"),
        "another front": (
            rewritten(content, front="radar"),
            "'front' must be one of cheap, cheap+memory, det",
        ),
        "a list of fronts": (
            rewritten(content, front=["cheap"]),
            "'front' must be one of cheap",
        ),
        "not JSON": ("hello", "must be an allocator"),
        "a list": ("[1, 2]", "must be an allocator as `deepval fit` writes it"),
        "a number": ("5", "must be an allocator as `deepval fit` writes it"),
        "another format": (
            '{"format": "model"}',
            "must be an allocator as `deepval fit` writes it",
        ),
        "deep": ("[" * 100_000, "may nest 100 deep"),
        "NaN": (altered[1], "the file was altered"),
        "another rule": (
            rewritten(content, rule="best"),
            "must contain models in plain numbers",
        ),
        "two heads": (
            rewritten(content, heads=[head, head]),
            "the rule 'value' needs 1 models; found 2",
        ),
        "no heads": (
            rewritten(content, heads=None),
            "must contain models in plain numbers",
        ),
        "another model": (
            rewritten(content, heads=[{"model": "os.system"}]),
            "must contain models in plain numbers",
        ),
        "too narrow": (
            rewritten(
                content,
                heads=[
                    head | {"mean": [0.0], "inverse_spread": [1.0], "weight": [1.0]}
                ],
            ),
            "a model must take the 65 columns",
        ),
        "no training": (
            rewritten(content, training={}),
            "training must have 'cell'; it has none",
        ),
        "more training": (
            rewritten(content, training=content["training"] | {"x": 1}),
            "training may have cell, recipe",
        ),
    }


@pytest.mark.parametrize("name", bad_files())
def test_a_bad_file_is_refused_in_one_sentence(name, tmp_path):
    text, sentence = bad_files()[name]
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_allocator(path)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


class Trap:
    def __reduce__(self):
        return print, ("executed",)


def test_a_pickle_is_never_opened(tmp_path):
    path = tmp_path / "gate.json"
    path.write_bytes(pickle.dumps(Trap()))
    done = run_process("score", pair_cell().folder, path, "--out", tmp_path / "x.csv")
    assert (done.code, done.out) == (2, "")
    assert "text must be UTF-8; line 1 holds the byte 0x80" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("name", LEARNED)
def test_a_saved_allocator_is_the_one_that_was_fitted(name, tmp_path):
    made = learned(name)
    made.save(tmp_path / "a.json")
    again = allocator_named(tmp_path / "a.json")
    assert again.to_json() == made.to_json()
    found = score_on(ladder_cell(), again)
    assert found.score.tobytes() == score_on(ladder_cell(), made).score.tobytes()


def test_views_read_back_are_the_views_written():
    for cell, found in ((ladder_cell(), material()), (failing_cell(), None)):
        made = shared_of(found).views if found else cell.views
        assert [view.scene.unit for view in read_views(cell.manifest)] == [
            f"scene-0{place}" for place in range(8)
        ]
        for one, other in zip(cell.views, made, strict=True):
            assert one.detections.status.tolist() == other.detections.status.tolist()
            assert (one.mode, one.scene.inputs.tolist()) == (
                other.mode,
                other.scene.inputs.tolist(),
            )
            sights = Sight(one), Sight(other)
            for front in FEATURE_SETS.values():
                assert (
                    front.rows(sights[0]).tobytes() == front.rows(sights[1]).tobytes()
                )
    assert not np.isnan(
        FEATURE_SETS["cheap"].rows(sights_of(ladder_cell())[0])[1]
    ).all()


def used(mode, unit):
    """What is used of a mode's report of a unit."""
    part = mode.reader.report[unit]
    return part.where(part.score >= mode.threshold)


def test_evidence_read_back_is_what_each_unit_and_each_role_give_alone():
    cell, found = ladder_cell(), material()
    kept, truths = cell.evidence, {truth.unit: truth for truth in found.source.truths}
    ends = found.modes[0], found.modes[-1]
    assert cell.table.input.tolist() == [
        name for scene in found.source.scenes for name in scene.inputs
    ]
    alone = [
        [perception_losses(used(mode, unit), truths[unit]) for unit in found.units]
        for mode in ends
    ]
    alone = [
        {name: np.concatenate([unit[name] for unit in end]) for name in LOSSES}
        for end in alone
    ]
    for one, other in zip(kept.losses, alone, strict=True):
        for name in LOSSES:
            assert one[name].tobytes() == other[name].tobytes()
    gains = perception_gains(*kept.losses)
    assert gains["E1"].tobytes() == perception_gains(*alone)["E1"].tobytes()
    for role, end in (("fit", ""), ("train", "_train")):
        units = getattr(cell.split, role)
        inside = np.isin(cell.table.unit_ids[cell.table.unit], units)
        graded = [
            join_units(
                [
                    graded_frames(mode.reader.report[unit], truths[unit])
                    for unit in units
                ]
            )
            for mode in ends
        ]
        for objective in ROUTING:
            name, values = objective.column + end, objective.frame_values(*graded)
            assert kept.columns[name][inside].tobytes() == values.tobytes()
            assert np.isnan(kept.columns[name][~inside]).all()
            assert kept.restrict(units).column(name).tobytes() == values.tobytes()


def without_validation(found):
    """The material with both modes blind, and nothing there, on validation units."""
    blind = set(split(found.source.name, found.units).validation)
    return reporting(
        found, lambda part: part.where(np.full(len(part), part.unit not in blind))
    )


@pytest.mark.parametrize(
    "target",
    [
        name
        for name, target in TARGETS.items()
        if isinstance(target.objective, RoutingObjective)
    ],
)
def test_a_fit_on_training_units_has_not_seen_validation_frames(target):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        blind = built(without_validation(material(PAIR)), "blind", pictures=False)
    one, other = (
        fit_on(cell, FAST, target=target, units="train").heads
        for cell in (pair_cell(), blind)
    )
    assert [head.to_dict() for head in one] == [head.to_dict() for head in other]
    one, other = (
        labels(target, cell.evidence.restrict(cell.split.fit))
        for cell in (pair_cell(), blind)
    )
    assert not np.array_equal(one.objective, other.objective)
    train = pair_cell().evidence.restrict(pair_cell().split.train)
    whole = labels(target, train).objective
    assert not np.array_equal(
        labels(
            target, train.from_role("train", TARGETS[target].objective.column)
        ).objective,
        whole,
    )
