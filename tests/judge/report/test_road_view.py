"""Frames on a road: what is kept of lanes, plans and the drive, and how the page shows
them.
"""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from browser import Browser
from deepval.driving.cells import build
from deepval.driving.cells.explorer import REACH_M, TRUE_TO_M, frames, road, thinned
from deepval.driving.cells.spec import Material, ModeSpec, specs
from deepval.driving.geometry.vehicle import ZOE
from deepval.driving.systems.driving import Driving
from deepval.judge.report import html
from deepval.judge.report.figures.inputs import birds_eye
from driving import Lidar, known
from roads import FRAMES, Roads, Stopper, driven, things
from roads import road as drive
from worlds import judge

SYSTEM = Driving(Stopper(), deviation_weight=0.1)


@pytest.fixture(scope="module")
def cell():
    modes = tuple(
        ModeSpec(f"lidar-{m:g}", Lidar(m).definition, reader=Lidar(m))
        for m in (12.0, 60.0)
    )
    material = Material(Roads(), modes, Roads().unit_ids())
    (made,) = build.built(specs(material, geometries=["cuboids"], systems=[SYSTEM]))
    return made


@pytest.fixture(scope="module")
def shown(cell):
    return json.loads(json.dumps(frames(cell.spec, cell.shown)))


def test_the_road_is_in_the_ego_frame_and_near():
    found = road(drive(), 2, known(things([]), future=driven()))
    assert len(found["lanes"]) == 2
    own = found["lanes"][0]
    # A straight centreline is two points; it runs through the ego, and ends where it
    # leaves the reach.
    assert len(own["centre_m"]) == 2
    np.testing.assert_allclose([p[1] for p in own["centre_m"]], 0, atol=0.01)
    assert all(abs(p[0]) < REACH_M + 6 for p in own["centre_m"])
    np.testing.assert_allclose(
        sorted({p[1] for p in found["lanes"][1]["outline_m"]}), [2, 6], atol=0.01
    )
    assert found["driven_m"][-1] == [32.0, 0.0]
    assert found["ego_m"][0] == [ZOE.front_m.__round__(2), 0.86]
    assert road(replace(drive(), lane_map=None), 0, known(things([]))) is None
    assert road(drive(), 0, known(things([])))["driven_m"] == []


def test_a_line_is_thinned_and_stays_true():
    turn = np.linspace(0, 3, 400)
    bend = np.column_stack([20 * np.sin(turn), 20 * np.cos(turn)])
    few = thinned(bend)
    assert 4 < len(few) < 30
    np.testing.assert_array_equal(few[[0, -1]], bend[[0, -1]])
    from_few = np.array(
        [
            np.interp(
                turn, turn[[np.argmin(np.abs(bend - p).sum(1)) for p in few]], few[:, k]
            )
            for k in (0, 1)
        ]
    )
    assert np.abs(np.linalg.norm(from_few, axis=0) - 20).max() <= TRUE_TO_M
    assert len(thinned(np.array([(0.0, 0.0), (4, 0), (4, 4), (0, 4), (0, 0)]))) == 5


def test_a_frame_on_a_road_tells_poses_corners_and_lanes(shown):
    assert shown["frames"]
    for frame in shown["frames"]:
        assert frame["road"]["lanes"]
        for mode in frame["modes"].values():
            assert (
                len(mode["corners_m"]) == len(mode["classes"]) == len(mode["objects_m"])
            )
            assert [pose[0] for pose in mode["poses"]] == [
                0.5,
                1,
                1.5,
                2,
                2.5,
                3,
                3.5,
                4,
            ]
            assert mode["path_m"][-1] == pytest.approx(mode["poses"][-1][1:3], abs=0.01)
            nose = ZOE.front_m + mode["poses"][-1][1]
            assert max(corner[0] for corner in mode["footprint_m"]) == pytest.approx(
                nose, abs=0.02
            )
        assert frame["reference"]["poses"]


def test_the_figure_shows_the_road(shown):
    figure = birds_eye(shown)
    labels = {patch.get_label() for axes in figure.axes for patch in axes.patches}
    assert {"ego", "reference", "lane", "full"} <= labels


@pytest.fixture(scope="module")
def page(cell, shown, tmp_path_factory):
    scores = {"ego-speed": cell.table.attributes["ego_speed_mps"].astype(float)}
    result = judge(cell.table, scores, draws=20)
    path = tmp_path_factory.mktemp("road") / "road.html"
    path.write_text(
        html.render({"road": result}, frames={"road": shown}), encoding="utf-8"
    )
    return path


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_draws_lanes_plans_and_the_decisive_object(page, shown, scheme):
    if not shutil.which("chromium"):
        pytest.skip("tests of the page need chromium: apt-get install chromium")
    browser = Browser()
    try:
        browser.size(1200, 900, scheme=scheme)
        frame = shown["frames"][0]
        browser.open(page, f"#frame=road/{frame['input']}")
        many = {
            name: browser.run(
                f"document.querySelectorAll('#frame-detail svg .{name}').length"
            )
            for name in (
                "lane",
                "centreline",
                "planned",
                "footprint",
                "asked",
                "driven",
                "truth",
                "seen",
            )
        }
        seen = sum(len(mode["corners_m"]) for mode in frame["modes"].values())
        assert many == {
            "lane": 2,
            "centreline": 2,
            "planned": 2,
            "footprint": 2,
            "asked": 1,
            "driven": 1,
        } | {
            "truth": len(frame["reference"]["corners_m"]),
            "seen": seen,
        }
        decided = sum(mode["decisive"] is not None for mode in frame["modes"].values())
        assert (
            browser.run(
                "document.querySelectorAll('#frame-detail svg .decisive').length"
            )
            == decided
            > 0
        )
        # There is neither a picture nor a box in one, so no empty camera frame is
        # shown.
        assert (
            browser.run("document.querySelectorAll('#frame-detail .view svg').length")
            == 1
        )
        assert "NaN" not in browser.run(
            "document.getElementById('frame-detail').outerHTML"
        )
        assert "as it was driven" in browser.run(
            "document.getElementById('frame-detail').textContent"
        )
        browser.size(390, 844, scheme=scheme)
        browser.open(page, f"#frame=road/{frame['input']}")
        assert browser.run("document.documentElement.scrollWidth") <= 390
        assert browser.messages == []
    finally:
        browser.close()


def test_frames_without_a_map_say_nothing_of_a_road():
    modes = tuple(
        ModeSpec(f"lidar-{m:g}", Lidar(m).definition, reader=Lidar(m))
        for m in (12.0, 60.0)
    )

    class Bare(Roads):
        def read_unit(self, unit):
            scene, truth = super().read_unit(unit)
            return replace(scene, lane_map=None), truth

    material = Material(Bare(), modes, Bare().unit_ids())
    (made,) = build.built(specs(material, geometries=["cuboids"], systems=["braking"]))
    for frame in frames(made.spec, made.shown)["frames"]:
        assert "road" not in frame
        assert all("poses" not in mode for mode in frame["modes"].values())
    assert len(made.table) == 6 * FRAMES
