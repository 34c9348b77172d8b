"""Frames that matter: the extremes, one per unit, with what decided them."""

import json

import numpy as np
import pytest

from deepval.basics.errors import InputError
from deepval.driving.cells import build, sources, view_files
from deepval.driving.cells.explorer import extremes, frames, frames_file, pictures
from deepval.driving.cells.unit import objects_by_mode, unit_data
from deepval.driving.datasets.synthetic import WorldSettings
from deepval.driving.frames import corridor_m, decisive, path_m, words
from deepval.driving.systems import SYSTEMS, Driving, RecedingHorizon
from deepval.driving.systems.outcomes import branches, unit_outcomes
from driving import objects, scene
from yard import Follow

MAPLESS = tuple(
    name for name, system in SYSTEMS.items() if not isinstance(system, Driving)
)
"""Systems that need no map; frames of the others are in test_road_view.py."""


@pytest.fixture(scope="module")
def made():
    world = sources.synthetic(settings=WorldSettings(scenes=12, frames=30))
    return {cell.spec.system: cell for cell in build.cells(world, systems=MAPLESS)}


def drawn(cell, unit):
    """What would be shown of a unit, were it a test unit."""
    spec, seen = cell.spec, unit_data(cell.spec, unit)
    objects = objects_by_mode(spec, seen)
    plans = branches(spec.rule, seen.scene, objects, seen.run)
    outcomes = unit_outcomes(
        spec.rule, seen.scene, seen.truth, branches=plans, run=seen.run
    )
    return extremes(
        spec,
        seen.scene,
        seen.truth,
        used=seen.used,
        objects=objects,
        branches=plans,
        outcomes=outcomes,
    )


def every_frame(cell, **options):
    """Frames of all units, not of the test units only."""
    return frames(cell.spec, [drawn(cell, unit) for unit in cell.spec.units], **options)


def road(*rows: tuple[float, float, float, float]):
    """Standing objects in a single frame."""
    return objects([(0, *row, 0.0) for row in rows])


def test_the_worst_and_best_input_of_every_unit(made):
    cell = made["braking"]
    every = every_frame(cell, most=99)["frames"]
    found = cell.outcomes
    for unit in cell.spec.units:
        values = found.values[found.unit == unit]
        for sign, extreme in (("harmed", values.min()), ("helped", values.max())):
            shown = [
                frame["value"]
                for frame in every
                if (frame["sign"], frame["unit"]) == (sign, unit)
            ]
            assert shown == (
                [extreme] if (extreme < 0 if sign == "harmed" else extreme > 0) else []
            )
    sizes = [abs(frame["value"]) for frame in every if frame["sign"] == "helped"]
    assert sizes == sorted(sizes, reverse=True)
    few = every_frame(cell, most=2)["frames"]
    assert [frame["sign"] for frame in few] == ["harmed"] * 2 + ["helped"] * 2


@pytest.mark.parametrize("name", MAPLESS)
def test_a_frame_says_what_led_to_its_value(made, name):
    cell = made[name]
    shown = every_frame(cell)
    assert shown["frames"]
    for frame in shown["frames"]:
        losses = []
        for mode in frame["modes"].values():
            assert (
                len(mode["boxes"])
                == len(mode["objects_m"])
                == len(mode["classes"])
                == len(mode["scores"])
            )
            assert sum(
                shown["weights"][term] * mode["terms"][term] for term in mode["terms"]
            ) == pytest.approx(mode["loss"])
            losses.append(mode["loss"])
        assert frame["value"] == losses[0] - losses[-1]
        assert frame["input"] == f"{frame['unit']}/{frame['frame']}"
    assert json.loads(frames_file(cell.spec, cell.shown)) == frames(
        cell.spec, cell.shown
    )
    assert frames_file(cell.spec, cell.shown) == frames_file(cell.spec, cell.shown)


def test_the_decisive_object_of_a_planner_is_one_without_which_it_would_act_otherwise():
    now, before, planner = (
        scene(1, speed_mps=10.0),
        np.full((1, 2), np.nan),
        RecedingHorizon(),
    )
    assert decisive(planner, road((60, 64, 8, 9), (15, 19, -4, 4)), now, before) == 1
    # Two walls of the same kind: neither is needed, the nearest is enough.
    assert decisive(planner, road((15, 19, -4, 4), (15, 19, -4, 4)), now, before) == 0


def test_every_system_is_described_without_a_word_of_its_own_and_by_a_registered_one():
    follow, now = Follow(), scene(1, speed_mps=10.0)
    plan = follow.plan(road((6, 9, -1, 1)), now)[0]
    # four positions (x, y), 4 m ahead at most: 6 m less the gap of 2 m
    assert words(follow, plan) == "4, 0, 4, 0, 4, 0, 4, 0"
    assert corridor_m(follow) is path_m(follow, plan, 10.0) is None

    class Talker(Follow):
        pass

    words.register(Talker)(lambda system, plan: "follow")
    assert words(Talker(), plan) == "follow"


def test_pictures_are_drawn_again_or_read_from_the_folder_alone(made, tmp_path):
    from PIL import Image

    shown = every_frame(made["braking"], most=1)
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
    for unit, folder in (
        ("scene-0103", "samples/CAM_FRONT"),
        ("2021.05.12", "sensor_blobs/2021.05.12/CAM_F0"),
        ("log-token", "nuplan-v1.1/sensor_blobs/2021.05.12/CAM_F0"),
    ):
        path = tmp_path / unit / folder / "n015[x]__1.jpg"
        path.parent.mkdir(parents=True)
        Image.new("RGB", (1600, 900)).save(path)
        there = filed | {
            "frames": [shown["frames"][0] | {"image": f"{unit}/{path.name}"}]
        }
        assert len(pictures(there, root=tmp_path / unit)) == 1
        with pytest.raises(InputError, match="must hold the picture"):
            pictures(there, root=path.parent)
    outside = filed | {
        "frames": [shown["frames"][0] | {"image": "../image_02/0000/1.png"}]
    }
    with pytest.raises(InputError, match="must hold the picture"):
        pictures(outside, root=tmp_path / "image_02" / "0000")


def test_of_a_long_file_the_most_harmed_and_most_helped_frames_are_checked_and_counted(
    made, tmp_path, monkeypatch
):
    content = every_frame(made["braking"])
    frame = content["frames"][0]
    number = 25 * view_files.MOST
    values = [float((7 * i) % number - number // 2) for i in range(number)]
    content["frames"] = [
        frame | {"input": f"i{i}", "value": value} for i, value in enumerate(values)
    ]
    path = tmp_path / "frames.json"
    path.write_text(json.dumps(content))
    checked = []
    amiss = view_files._amiss
    monkeypatch.setattr(
        view_files, "_amiss", lambda *parts: checked.append(parts) or amiss(*parts)
    )
    whole = []
    extremes = view_files._extremes
    monkeypatch.setattr(
        view_files,
        "_extremes",
        lambda *parts: whole.extend(map(len, parts[0])) or extremes(*parts),
    )
    part = view_files.read_frames(path)
    assert part["frames_in_file"] == number
    # the others were emptied
    assert sum(keys > 1 for keys in whole) < 10 * view_files.MOST + view_files.MOST
    assert len(checked) == len(part["frames"]) == view_files.MOST
    extreme = sorted(values)[:100] + sorted(values)[-100:]
    assert [f["value"] for f in part["frames"]] == [
        value for value in values if value in extreme
    ]
    content["frames"][5] |= {"value": "large"}
    path.write_text(json.dumps(content))
    with pytest.raises(
        InputError,
        match=(
            r"frames written by deepval build; it\[5\]\.value must be a finite number"
        ),
    ):
        view_files.read_frames(path)
    content["frames"] = content["frames"][:3]
    path.write_text(json.dumps(content))
    assert view_files.read_frames(path) == content
