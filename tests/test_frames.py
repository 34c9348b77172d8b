"""Frames that matter: the extremes, one per unit, with what decided them."""

import json

import numpy as np
import pytest

from deepval.benchmark import build, sources
from deepval.benchmark.frames import decisive, frames, frames_file
from deepval.benchmark.pictures import pictures
from deepval.benchmark.splits import split
from deepval.datasets.synthetic import WorldSettings
from deepval.errors import InputError
from deepval.geometry.objects import Objects
from deepval.scenes import Ego
from deepval.systems import SYSTEMS, Braking, RecedingHorizon


@pytest.fixture(scope="module")
def made():
    world = sources.synthetic(settings=WorldSettings(scenes=12, frames=30))
    return {
        cell.definition["system"]["name"]: cell
        for cell in build.cells(world.dataset, world.modes, systems=tuple(SYSTEMS))
    }


def objects(*rows: tuple[float, float, float, float]) -> Objects:
    near, far, low, high = np.array(rows, dtype=float).reshape(-1, 4).T
    nothing = np.zeros(len(rows))
    return Objects(1, nothing.astype(int), near, far, np.column_stack([low, high]), nothing)


def test_the_worst_and_best_input_of_every_unit(made):
    cell = made["braking"]
    every = frames(cell, most=99, units=cell.dataset.units)["frames"]
    found = cell.outcomes
    for unit in cell.dataset.units:
        values = found.values[found.unit == unit]
        for sign, extreme in (("harmed", values.min()), ("helped", values.max())):
            shown = [frame["value"] for frame in every if (frame["sign"], frame["unit"]) == (sign, unit)]
            assert shown == ([extreme] if (extreme < 0 if sign == "harmed" else extreme > 0) else [])
    sizes = [abs(frame["value"]) for frame in every if frame["sign"] == "helped"]
    assert sizes == sorted(sizes, reverse=True)
    few = frames(cell, most=2, units=cell.dataset.units)["frames"]
    assert [frame["sign"] for frame in few] == ["harmed"] * 2 + ["helped"] * 2


def test_only_test_units_are_shown_unless_asked(made):
    cell = made["braking"]
    test = set(split("synthetic", cell.dataset.units).test)
    assert {frame["unit"] for frame in frames(cell)["frames"]} <= test


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_frame_says_what_led_to_its_value(made, name):
    cell = made[name]
    shown = frames(cell, units=cell.dataset.units)
    assert shown["frames"]
    for frame in shown["frames"]:
        losses = []
        for mode in frame["modes"].values():
            assert len(mode["boxes"]) == len(mode["objects_m"]) == len(mode["classes"]) == len(mode["scores"])
            assert sum(shown["weights"][term] * mode["terms"][term] for term in mode["terms"]) == pytest.approx(
                mode["loss"]
            )
            losses.append(mode["loss"])
        assert frame["value"] == losses[0] - losses[-1]
        assert frame["input"] == f"{frame['unit']}/{frame['frame']}"
    assert json.loads(frames_file(cell)) == frames(cell)
    assert frames_file(cell) == frames_file(cell)


def test_the_decisive_object_of_a_braking_controller_is_the_most_demanding():
    ego, before = Ego(np.array([10.0]), np.array([True])), np.full((1, 1), np.nan)
    # At 10 m/s and 20 m: 100 / (2 (20 - 2 - 4)) = 3.6 > 3.5, hard. At 40 m: 100 / 68 = 1.5. Beside the road: nothing.
    road = objects((40, 44, -1, 1), (20, 24, -1, 1), (5, 9, 3, 5))
    assert decisive(Braking(), road, ego, previous=before) == 1
    assert decisive(Braking(), objects((5, 9, 3, 5)), ego, previous=before) is None
    assert decisive(Braking(), objects(), ego, previous=before) is None


def test_the_decisive_object_of_a_planner_is_one_without_which_it_would_act_otherwise():
    ego, before = Ego(np.array([10.0]), np.array([True])), np.full((1, 2), np.nan)
    assert decisive(RecedingHorizon(), objects((60, 64, 8, 9), (15, 19, -4, 4)), ego, previous=before) == 1
    # Two walls of the same kind: neither is needed, the nearest is enough.
    assert decisive(RecedingHorizon(), objects((15, 19, -4, 4), (15, 19, -4, 4)), ego, previous=before) == 0


def test_pictures_are_drawn_again_or_read_from_the_folder_alone(made, tmp_path):
    from PIL import Image

    shown = frames(made["braking"], most=1, units=made["braking"].dataset.units)
    drawn = pictures(shown)
    assert set(drawn) == {f"synthetic/{frame['input']}" for frame in shown["frames"]}
    assert pictures(shown) == drawn
    filed = shown | {"pictures": None, "dataset": "kitti"}
    assert pictures(filed) == {}
    one = filed | {"frames": [shown["frames"][0] | {"image": "0000/1.png"}]}
    with pytest.raises(InputError, match="needs --image-root"):
        pictures(one)
    with pytest.raises(InputError, match=r"must hold the picture '0000/1\.png'"):
        pictures(one, root=tmp_path)
    (tmp_path / "image_02" / "0000").mkdir(parents=True)
    Image.new("RGB", (1000, 500)).save(tmp_path / "image_02" / "0000" / "1.png")
    assert len(pictures(one, root=tmp_path)) == 1
    outside = filed | {"frames": [shown["frames"][0] | {"image": "../image_02/0000/1.png"}]}
    with pytest.raises(InputError, match="must hold the picture"):
        pictures(outside, root=tmp_path / "image_02" / "0000")


def test_pictures_of_another_traffic_are_not_drawn():
    from dataclasses import replace

    settings = WorldSettings(scenes=4, frames=10)
    other = replace(settings, traffic=replace(settings.traffic, farthest_m=settings.traffic.farthest_m - 1))
    for chosen, known in ((settings, True), (other, False)):
        world = sources.synthetic(settings=chosen)
        (cell,) = build.cells(world.dataset, world.modes)
        assert (frames(cell)["pictures"] is not None) == known
