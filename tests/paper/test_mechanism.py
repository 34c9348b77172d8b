"""Analyses that read a built cell's data again, against plain loops: harm mechanism,
viability, lift bias.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from commands import call, refusal
from deepval.basics.progress import unwatched
from deepval.deploy import thresholds
from deepval.driving.cells.sources import located
from deepval.driving.cells.unit import objects_by_mode, unit_data
from deepval.driving.perception.placing import monocular_objects
from deepval.driving.systems.outcomes import branches
from deepval.paper.analyses import (
    gallery,
    lift,
    mechanism,
    observations,
    persistence,
    viability,
)
from deepval.paper.analyses.mechanism import unit_reactions
from kitti_files import write_kitti
from reference.driving import iou
from reference.matching import best_assignment, excused, group
from small_cells import build_cells, read_cells
from tidy_rows import flat_rows, study_cells

# few units, to be quick
pytestmark = pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
UNITS = ("scene-00", "scene-01", "scene-04")


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    out = build_cells(
        tmp_path_factory.mktemp("cells"),
        systems=("braking", "receding-horizon"),
        geometries=("oracle",),
        units=UNITS,
    )
    return read_cells(*sorted(out.iterdir()))


def boxes_at(found, frame):
    return [
        (i, (str(found.cls[i]), tuple(found.box_px[i])))
        for i in np.flatnonzero(found.frame == frame)
    ]


def judged_at(truth, frame):
    kept = truth.judged(least_height_px=25.0, most_occluded=2)
    every = [
        (j, (str(truth.cls[j]), tuple(truth.box_px[j])))
        for j in np.flatnonzero(truth.frame == frame)
    ]
    return [r for r in every if kept[r[0]]], [r[1] for r in every if not kept[r[0]]]


def slow_reactions(spec, unit):
    """The twin: frame by frame, with every assignment tried and one frame's objects
    taken away at a time.
    """
    seen = unit_data(spec, unit)
    scene, truth, rule = seen.scene, seen.truth, spec.rule
    cheap, full = seen.used[spec.order[0]], seen.used[spec.order[-1]]
    objects = objects_by_mode(spec, seen)
    plans = branches(rule, scene, objects, seen.run)
    told = {
        "reacted": [],
        "needed": [],
        "lost": [],
        "alike": [],
        "shared_value": [],
        "recovered": [],
    }
    for frame in range(len(scene)):
        refs, ignored = judged_at(truth, frame)
        regions = [
            tuple(box) for box in truth.ignored_box_px[truth.ignored_frame == frame]
        ]
        at = {
            end: boxes_at(found, frame)
            for end, found in (("cheap", cheap), ("full", full))
        }
        pairs = {
            end: dict(best_assignment([d for _, d in dets], [r for _, r in refs])[1])
            for end, dets in at.items()
        }
        invented, found = {}, {}
        for one, other in (("cheap", "full"), ("full", "cheap")):
            missed = set(range(len(refs))) - set(pairs[other].values())
            invented[one] = {
                i
                for place, (i, det) in enumerate(at[one])
                if place not in pairs[one]
                and not excused(det, ignored, regions)
                and not any(
                    group(det[0]) == group(o[0]) and iou(det[1], o[1]) >= 0.5
                    for _, o in at[other]
                )
            }
            found[one] = {
                at[one][place][0] for place, j in pairs[one].items() if j in missed
            }

        def loss(plan, frame=frame):
            terms = rule.terms(plan, scene, truth, previous=plans.before)
            return sum(
                weight * terms[name][frame] for name, weight in rule.weights.items()
            )

        def without(mode, gone):
            after = objects[mode]
            return rule.plan(
                after.where(~np.isin(np.arange(len(after)), list(gone))),
                scene,
                previous=plans.before,
            )

        def changed(mode, gone, frame=frame):
            plan, made = without(mode, gone), plans.plans[mode]
            return (plan[frame] != made[frame]).any(), loss(plan) > loss(
                made
            ) + rule.tolerance

        told["reacted"].append(
            bool(invented["full"]) and changed(spec.order[-1], invented["full"])[0]
        )
        told["needed"].append(
            bool(found["full"]) and changed(spec.order[-1], found["full"])[1]
        )
        told["lost"].append(
            bool(found["cheap"]) and changed(spec.order[0], found["cheap"])[1]
        )
        told["alike"].append(not any(invented.values()) and not any(found.values()))
        told["recovered"].append(bool(found["full"]))
        left = [
            loss(without(spec.order[place], invented[end] | found[end]))
            for place, end in ((0, "cheap"), (-1, "full"))
        ]
        told["shared_value"].append(left[0] - left[1])
    return told


def test_reactions_are_those_of_a_loop_over_frames(cells):
    ever = set()
    for cell in cells.values():
        spec = located(cell)
        for unit in UNITS:
            found, told = unit_reactions(spec, unit), slow_reactions(spec, unit)
            for name, marks in told.items():
                assert getattr(found, name).tolist() == pytest.approx(marks, abs=1e-12)
                ever |= {name} if any(marks) else set()
    assert ever == {"reacted", "needed", "lost", "alike", "shared_value", "recovered"}


def test_rows_are_means_over_inputs_by_sign(cells):
    name, cell = "braking-oracle", cells["braking-oracle"]
    spec = located(cell)
    rows = flat_rows(
        mechanism.MECHANISM,
        study_cells({name: cell}, located={name: spec}),
        draws="exact",
    )
    assert [row.effect for row in rows] == ["helped", "harmed", "unaffected"]
    assert sum(row.inputs for row in rows) == len(cell.table)
    values = dict(zip(cell.table.input, cell.table.decision_values, strict=True))
    kept = {
        key: dict(zip(cell.table.input, column, strict=True))
        for key, column in cell.evidence.columns.items()
    }
    told = [unit_reactions(spec, unit) for unit in UNITS]
    boxes = {
        i: f - c
        for part in told
        for i, c, f in zip(part.input, part.cheap_boxes, part.full_boxes, strict=True)
    }
    reacted = {
        i: r for part in told for i, r in zip(part.input, part.reacted, strict=True)
    }
    recovered = {
        i: r for part in told for i, r in zip(part.input, part.recovered, strict=True)
    }
    net = dict(
        zip(
            cell.table.input,
            cell.evidence.column("full_E1") - cell.evidence.column("cheap_E1"),
            strict=True,
        )
    )
    # recovers a miss and makes as many others
    assert any(recovered[key] and net[key] >= 0 for key in net)
    shared = {
        i: v
        for part in told
        for i, v in zip(part.input, part.shared_value, strict=True)
    }
    for row, sign in zip(rows, (1, -1, 0), strict=True):
        mine = [key for key, value in values.items() if np.sign(value) == sign]
        extra = [kept["full_E2"][key] - kept["cheap_E2"][key] for key in mine]
        lost = [kept["full_E1"][key] - kept["cheap_E1"][key] for key in mine]
        assert row.false_positives == pytest.approx(sum(extra) / len(mine))
        assert row.misses == pytest.approx(sum(lost) / len(mine))
        assert row.detections == pytest.approx(
            sum(boxes[key] for key in mine) / len(mine)
        )
        assert row.more_false_positives == sum(n > 0 for n in extra) / len(mine)
        assert row.no_miss_recovered == sum(not recovered[key] for key in mine) / len(
            mine
        )
        assert row.reacted == sum(reacted[key] for key in mine) / len(mine)
        assert row.placed == sum(np.sign(shared[key]) == sign for key in mine) / len(
            mine
        )


def test_without_the_data_what_needs_them_is_undefined_and_a_note_says_so(cells):
    rows = flat_rows(mechanism.MECHANISM, study_cells(cells))
    assert all(
        row.detections
        is row.no_miss_recovered
        is row.reacted
        is row.needed
        is row.lost
        is row.alike
        is row.placed
        is None
        for row in rows
    )
    assert all(row.misses is not None for row in rows if row.inputs)
    assert "not where they were" in mechanism.tables(rows)[0].notes[-1]


def test_viability_is_that_of_a_loop_over_constant_plans(cells):
    found = flat_rows(
        viability.VIABILITY,
        study_cells(
            cells, located={name: located(cell) for name, cell in cells.items()}
        ),
        units="fit",
        draws=20,
    )
    for row in found:
        cell = cells[row.cell]
        spec, means = located(cell), {}
        units = cell.split.fit
        for choice in spec.rule.choices:
            losses = []
            for unit in units:
                seen = unit_data(spec, unit)
                plans = np.array([choice] * len(seen.scene))
                before = np.array([np.full_like(choice, np.nan), *plans[1:]])
                terms = spec.rule.terms(plans, seen.scene, seen.truth, previous=before)
                losses += [
                    sum(w * terms[n][t] for n, w in spec.rule.weights.items())
                    for t in range(len(seen.scene))
                ]
            means[tuple(choice.ravel())] = sum(losses) / len(losses)
        mode = cell.table.modes.index(row.mode)
        mine = [
            loss
            for loss, unit in zip(
                cell.table.losses[:, mode],
                cell.table.unit_ids[cell.table.unit],
                strict=True,
            )
            if unit in units
        ]
        assert row.trivial_loss == pytest.approx(min(means.values()))
        assert row.mean_loss == pytest.approx(sum(mine) / len(mine))
        assert row.viable == (row.mean_loss < row.trivial_loss)
        assert row.margin == pytest.approx(row.trivial_loss - row.mean_loss)
        assert row.margin_lo <= row.margin_hi
    assert [row.mode for row in found] == list(cell.table.modes) * len(cells)


def test_lift_bias_is_that_of_a_loop_over_detections(cells):
    specs = {name: located(cell) for name, cell in cells.items()}
    found = flat_rows(lift.LIFT, study_cells(cells, located=specs))
    # cells of the same data set and modes tell the same
    (name,) = {row.cell for row in found}
    spec = specs[name]
    for row in found:
        excess = []
        for unit in UNITS:
            seen = unit_data(spec, unit)
            used, truth = seen.used[row.mode], seen.truth
            lifted = monocular_objects(used, seen.scene).near_m
            for i in np.flatnonzero(used.cls == row.cls):
                near = [
                    (iou(tuple(used.box_px[i]), tuple(truth.box_px[j])), -j)
                    for j in np.flatnonzero(truth.frame == used.frame[i])
                ]
                overlap, j = max(near, default=(0.0, 0))
                range_m = truth.objects.near_m[-j] if near else np.nan
                if (
                    overlap > 0.5
                    and truth.cls[-j] == row.cls
                    and row.from_m <= range_m < row.to_m
                ):
                    excess.append(lifted[i] - range_m)
        assert row.detections == len(excess)
        assert row.mean_m == (pytest.approx(np.mean(excess)) if excess else None)
        assert row.median_m == (pytest.approx(np.median(excess)) if excess else None)


def test_frames_that_a_specification_leaves_out_are_not_counted(cells):
    # To leave out every frame of a unit, all of them perceived, is to name the other
    # units.
    name, cell = next(iter(cells.items()))
    spec = located(cell)
    first, *others = UNITS
    without = replace(
        spec, left_out={first: tuple(range(len(unit_data(spec, first).scene)))}
    )
    for analysis in (lift.LIFT, observations.OBSERVATIONS):

        def rows_of(chosen, analysis=analysis, **settings):
            cells = study_cells({name: cell}, located={name: chosen})
            return analysis.run(cells, **settings)

        rows = rows_of(without)
        assert rows == rows_of(spec, units=others)
        assert rows != rows_of(spec)
    ends = thresholds.ends_of(spec)
    grids = ends.cheap.grid, ends.full.grid
    some = thresholds.counted(without, ends, grids, UNITS)
    for own, other in zip(
        some, thresholds.counted(spec, ends, grids, others), strict=True
    ):
        np.testing.assert_equal(own, other)
    assert thresholds.tuned(without, ends, UNITS) == thresholds.tuned(
        spec, ends, others
    )
    kept, filtered = (
        persistence._filtered(*pair, unwatched)[True]
        for pair in ((without, UNITS), (spec, others))
    )
    assert kept == filtered


@pytest.mark.parametrize("name", ["viability", "lift"])
def test_commands_that_read_the_data_again(name, cells, capsys):
    folder = next(iter(cells.values())).folder
    call("analyse", name, folder, "--json")
    assert {row["cell"] for row in json.loads(capsys.readouterr().out)} == {folder.name}
    call("analyse", name, folder)
    assert folder.name in capsys.readouterr().out


def test_data_on_disk_are_read_again_and_must_be_the_same(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    write_kitti(tmp_path)
    modes = ("--mode", "small=small.parquet", "--mode", "large=large.parquet")
    build = ("build", "--dataset", "kitti", "--threshold", "small=0.3")
    build += ("--set", "hard_mps2=7", "--out", "out")
    call(*build, "--root", "kitti_tracking", *modes)
    capsys.readouterr()
    call("analyse", "mechanism", "out", "--json")
    rows = json.loads(capsys.readouterr().out)
    assert any(row["detections"] is not None for row in rows)

    # Where the data moved, the same build notes the new place.
    Path("kitti_tracking").rename("moved")
    call("analyse", "mechanism", "out", "--json")
    rows = json.loads(capsys.readouterr().out)
    assert all(row["detections"] is None for row in rows)
    assert "there is no " in refusal("analyse", "viability", "out")
    told = call(*build, "--root", "moved", *modes)
    assert "unchanged since it was built" in told
    capsys.readouterr()
    call("analyse", "mechanism", "out", "--json")
    rows = json.loads(capsys.readouterr().out)
    assert any(row["detections"] is not None for row in rows)

    Path("small.parquet").rename("middle.parquet")
    Path("large.parquet").rename("small.parquet")
    Path("middle.parquet").rename("large.parquet")
    sentence = "the data given must be those that the cell was built from"
    assert sentence in refusal("analyse", "mechanism", "out")


def test_the_gallery_has_the_largest_values_one_per_unit(cells):
    specs = {name: located(cell) for name, cell in cells.items()}
    for name, cell in cells.items():
        rows = flat_rows(
            gallery.GALLERY, study_cells({name: cell}, located=specs), frames=2, most=1
        )
        for effect, way in (("harmed", -1), ("helped", 1)):
            table = cell.table
            best = {}
            for value, unit in zip(
                table.decision_values, table.unit_ids[table.unit], strict=True
            ):
                if way * value > table.tolerance:
                    best[unit] = max(best.get(unit, 0.0), way * value)
            own = [row for row in rows if row.effect == effect]
            assert [way * row.value for row in own] == sorted(
                best.values(), reverse=True
            )[:2]
            assert sum(row.drawn for row in own) <= 1
            assert all(row.change in gallery.SHOWN_CHANGES for row in own if row.drawn)


def test_observations_count_what_a_mode_detects(cells):
    (name, cell), *_ = cells.items()
    spec = located(cell)
    for row in flat_rows(
        observations.OBSERVATIONS, study_cells({name: cell}, located={name: spec})
    ):
        seen = [unit_data(spec, unit) for unit in UNITS]
        used = [item.used[row.mode] for item in seen]
        assert row.frames == sum(len(item.scene) for item in seen)
        # Every detection is of an object in view or a false positive.
        assert (row.detected + row.false_positives) * row.frames == pytest.approx(
            sum(map(len, used))
        )
        assert row.recall == pytest.approx(row.detected / row.objects)
        loose = 0
        for item, found in zip(seen, used, strict=True):
            for frame in range(len(item.scene)):
                refs = [
                    tuple(box) for box in item.truth.box_px[item.truth.frame == frame]
                ]
                boxes = [tuple(box) for box in found.box_px[found.frame == frame]]
                loose += any(all(iou(box, ref) <= 0.5 for ref in refs) for box in boxes)
        assert row.unmatched == pytest.approx(loose / row.frames)
