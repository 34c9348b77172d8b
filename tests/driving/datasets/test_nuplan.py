"""nuPlan logs and maps: files in the real schema are read as they were written, and
faults are told in a sentence.
"""

import hashlib
import os
import pickle
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import nuplan_files as files
from deepval.basics.errors import InputError, InputWarning
from deepval.driving.datasets import open_dataset
from deepval.driving.datasets.logs.nuplan import NOMINAL, Nuplan, read_drives
from deepval.driving.datasets.logs.nuplan_tables import map_file, read_lane_map
from deepval.driving.geometry.vehicle import PACIFICA, rotations
from nuplan_files import LOCATION, LOG, ORIGIN_M, VERSION, token

DB = f"data/cache/mini/{LOG}.db"
GPKG = f"maps/{LOCATION}/{VERSION}/map.gpkg"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return files.write_folder(tmp_path_factory.mktemp("nuplan"))


@pytest.fixture
def root(written, tmp_path):
    return shutil.copytree(written, tmp_path / "nuplan")


@pytest.fixture(scope="module")
def unit(written):
    return Nuplan(written).read_unit(LOG)


def changed(path, *statements):
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def test_a_log_is_a_unit_of_its_scenarios(written, unit):
    scene, truth = unit
    dataset = open_dataset("nuplan", written)
    assert dataset.unit_ids() == (LOG,)
    assert set(dataset.files(LOG)) == {f"{LOG}.db", GPKG}
    # Scenarios of 120, 120 and 30 steps; 79 steps of the first two have 4 s ahead: 24
    # of them are 3 apart.
    assert len(scene) == truth.frames == 2 * 24
    assert scene.frame_ids[[0, 1, 24]].tolist() == [
        f"{token(1, 0).hex()}-0000",
        f"{token(1, 0).hex()}-0003",
        f"{token(1, 1).hex()}-0000",
    ]
    np.testing.assert_allclose(scene.time_s[:24], np.arange(24) * 0.3, atol=1e-9)
    np.testing.assert_allclose(scene.time_s[24:], 12 + np.arange(24) * 0.3, atol=1e-9)
    assert truth.future is not None
    assert truth.future.valid.all()


def test_ego_states_are_those_of_the_sweeps(unit):
    scene, truth = unit
    assert scene.vehicle == PACIFICA
    np.testing.assert_allclose(scene.ego_speed_mps, 5.0)
    np.testing.assert_allclose(scene.ego_acceleration_mps2, 0.25)
    x = ORIGIN_M[0] + 20 + 5 * scene.time_s
    np.testing.assert_allclose(scene.world_from_ego[:, 0, 3], x, atol=1e-6)
    np.testing.assert_allclose(scene.world_from_ego[:, 2, 3], 10.0)
    np.testing.assert_allclose(
        truth.future.pose[..., 0],
        np.broadcast_to(5 * truth.future.times_s, (48, 8)),
        atol=1e-6,
    )


def test_red_lights_shut_their_connector_at_their_time(unit):
    scene, _ = unit
    # Red for the first 80 sweeps, 4 s.
    assert [shut == {"11"} for shut in scene.red_lights] == [
        time < 4 - 1e-9 for time in scene.time_s
    ]
    assert set(scene.red_lights) == {frozenset(), frozenset({"11"})}


def test_tracks_are_where_and_what_they_were(unit):
    _, truth = unit
    first = truth.objects.at(0)
    assert first.cls.tolist() == [
        "Car",
        "Cyclist",
        "Traffic_cone",
        "Barrier",
        "Static",
        "Static",
    ]
    np.testing.assert_allclose(first.centre_m[0], [20, 0], atol=1e-6)
    np.testing.assert_allclose(
        [first.near_m[0], first.far_m[0]], [20 - 2.25, 20 + 2.25], atol=1e-6
    )
    np.testing.assert_allclose(first.velocity_mps[:2], [[5, 0], [2, 0]], atol=1e-9)
    np.testing.assert_allclose(first.velocity_mps[2:], 0, atol=1e-9)
    walked = truth.cls == "Pedestrian"
    # Seen from 2 to 4 s of each scenario: steps 20 to 39, and every third is a state.
    assert np.unique(truth.frame[walked]).tolist() == [*range(7, 14), *range(31, 38)]


def test_lanes_are_those_of_the_map(unit):
    lane_map = unit[0].lane_map
    # Lane 6 is kilometres away.
    assert list(lane_map.lanes) == ["1", "2", "3", "4", "5", "11", "12", "13"]
    assert lane_map.roadblocks == {
        "100": ("1", "2"),
        "101": ("3", "4"),
        "102": ("5",),
        "200": ("11", "12"),
        "201": ("13",),
    }
    for key, (group, line, outline, limit) in list(files.LANES.items())[:5]:
        lane = lane_map.lanes[str(key)]
        np.testing.assert_allclose(lane.centreline_m, line + ORIGIN_M, atol=1e-6)
        np.testing.assert_allclose(lane.polygon_m, outline + ORIGIN_M, atol=1e-6)
        assert (lane.roadblock, lane.speed_limit_mps, lane.connector) == (
            str(group),
            limit,
            False,
        )
    for key, (group, before, after, line, outline, limit) in files.CONNECTORS.items():
        lane = lane_map.lanes[str(key)]
        np.testing.assert_allclose(lane.centreline_m, line + ORIGIN_M, atol=1e-6)
        np.testing.assert_allclose(lane.polygon_m, outline + ORIGIN_M, atol=1e-6)
        assert (lane.roadblock, lane.speed_limit_mps, lane.connector) == (
            str(group),
            limit,
            True,
        )
        assert lane.successors == (str(after),)
        assert str(key) in lane_map.lanes[str(before)].successors
    areas = files.AREAS
    drivable = [*areas["carpark_areas"], *areas["generic_drivable_areas"]]
    for found, expected in [
        (lane_map.drivable_m, drivable),
        (lane_map.intersections_m, areas["intersections"]),
        (lane_map.crosswalks_m, areas["crosswalks"][:1]),
    ]:
        assert len(found) == len(expected)
        for outline, told in zip(found, expected, strict=True):
            np.testing.assert_allclose(outline, told + ORIGIN_M, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [{"projected": True}, {"meta": False}, {"projected": True, "meta": False}],
)
def test_a_map_in_metres_or_without_its_zone_is_the_same_map(unit, tmp_path, options):
    path = tmp_path / "map.gpkg"
    files.write_map(path, **options)
    drive_m = ORIGIN_M + np.array([[5.0, 0.0], [120.0, 0.0]])
    lane_map = read_lane_map(path, LOCATION, drive_m=drive_m, routes=frozenset({"103"}))
    # The far lane is on the route, so it stays.
    assert set(lane_map.lanes) - set(unit[0].lane_map.lanes) == {"6"}
    for key, lane in unit[0].lane_map.lanes.items():
        np.testing.assert_allclose(
            lane_map.lanes[key].centreline_m, lane.centreline_m, atol=1e-6
        )


@pytest.mark.parametrize("z", [False, True])
def test_areas_of_many_points_are_read(unit, root, z):
    """A car park of two parts with 3,000 points each."""
    turn = np.linspace(0, 2 * np.pi, 3000)
    rings = [
        ORIGIN_M + [x, 16] + 8 * np.column_stack([np.cos(turn), np.sin(turn)])
        for x in (30, 60)
    ]
    parts = [files.lon_lat_deg(np.concatenate([ring[:-1], ring[:1]])) for ring in rings]
    with closing(sqlite3.connect(root / GPKG)) as db:
        db.execute(
            "UPDATE carpark_areas SET geom = ?",
            (files.blob(files.POLYGONS, parts, z=z),),
        )
        db.commit()
    areas = Nuplan(root).read_unit(LOG)[0].lane_map.drivable_m
    assert [len(area) for area in areas[:2]] == [3000, 3000]
    assert len(areas) == len(unit[0].lane_map.drivable_m) + 1


def test_scenarios_with_a_gap_are_left_out_with_a_note(root, unit):
    changed(root / DB, "DELETE FROM lidar_pc WHERE rowid BETWEEN 50 AND 53")
    with pytest.warns(
        InputWarning,
        match=r"in 1 of 3 scenarios they do not, .* these scenarios are left out",
    ):
        scene, _ = Nuplan(root).read_unit(LOG)
    np.testing.assert_array_equal(scene.frame_ids, unit[0].frame_ids[24:])
    # A chosen scenario does not depend on the others.
    chosen = open_dataset("nuplan", root).for_units([scene.frame_ids[0].split("-")[0]])
    np.testing.assert_array_equal(chosen.read_unit(LOG)[0].frame_ids, scene.frame_ids)


def test_the_camera_is_the_one_of_the_log(unit, tmp_path):
    camera = unit[0].camera
    assert (camera.fx_px, camera.fy_px, camera.cx_px, camera.cy_px) == (
        1500,
        1510,
        950,
        550,
    )
    assert (camera.width_px, camera.height_px) == (1920, 1080)
    # It looks along x, its own y is down.
    expected = [[0, 0, 1, 1.5], [-1, 0, 0, 0], [0, -1, 0, 1.6], [0, 0, 0, 1]]
    np.testing.assert_allclose(camera.ego_from_cam, expected, atol=1e-12)
    root = files.write_folder(tmp_path, camera=False)
    assert Nuplan(root).read_unit(LOG)[0].camera is NOMINAL


def test_rotations_are_those_of_scipy():
    from scipy.spatial.transform import Rotation

    quaternions = np.random.default_rng(0).normal(size=(20, 4))
    expected = Rotation.from_quat(quaternions[:, [1, 2, 3, 0]]).as_matrix()
    np.testing.assert_allclose(rotations(quaternions), expected, atol=1e-12)
    # a power of two as the length changes no digit, however large
    for power in (-1000, 515, 1020):
        longer = np.ldexp(quaternions, power)
        np.testing.assert_array_equal(rotations(longer), rotations(quaternions))


def test_pictures_are_the_nearest_of_the_front_camera(root):
    assert Nuplan(root).read_unit(LOG)[0].image_paths == ()
    folder = root / "nuplan-v1.1" / "sensor_blobs" / LOG / "CAM_F0"
    folder.mkdir(parents=True)
    for sweep in range(0, sum(files.SCENES), 2):
        (folder / f"{sweep:06d}.jpg").write_bytes(b"")
    (folder / "000006.jpg").unlink()
    # Of sweep 12 the picture is gone from the log: those 20 ms after sweeps 10 and 14
    # are 80 and 120 ms away.
    changed(root / DB, "DELETE FROM image WHERE filename_jpg LIKE '%CAM_F0/000012.jpg'")
    whole = read_drives(root / DB, root / "maps")[0].log
    with pytest.warns(
        InputWarning, match="2 of 48 states have no CAM_F0 picture and are left out"
    ):
        scene, truth = Nuplan(root).read_unit(LOG)
    # The second and third state are left out, with their truth.
    assert [path.name for path in scene.image_paths][:3] == [
        "000000.jpg",
        "000018.jpg",
        "000024.jpg",
    ]
    assert (len(scene), truth.frames, scene.image_paths[22].name) == (
        46,
        46,
        "000240.jpg",
    )
    assert scene.frame_ids[:3].tolist() == [
        whole.frame_ids[state] for state in (0, 3, 4)
    ]


def logs_of(root, count):
    """More logs of the same scenarios, with tokens of their own."""
    for number in range(count):
        path = (root / DB).with_name(f"log-{number}.db")
        shutil.copy(root / DB, path)
        for table, column in (("scene", "token"), ("lidar_pc", "scene_token")):
            changed(
                path,
                f"UPDATE {table} SET {column} = CAST(x'{number:08x}' || "
                f"substr({column}, 5) AS BLOB)",
            )


def test_a_sample_follows_the_rule(root):
    logs_of(root, 4)
    (root / DB).unlink()
    data = open_dataset("nuplan", root).for_units(["sample:5"])

    def rank(name):
        return hashlib.sha256(b"deepval:nuplan:" + name.encode()).hexdigest()

    expected, left = {}, 5
    for log in sorted((f"log-{number}" for number in range(4)), key=rank):
        with closing(sqlite3.connect((root / DB).with_name(f"{log}.db"))) as db:
            rows = db.execute(
                "SELECT hex(scene_token) FROM lidar_pc GROUP BY scene_token HAVING "
                "COUNT(*) > 126"
            )
            tokens = sorted((row[0].lower() for row in rows), key=rank)[: min(2, left)]
        left -= len(tokens)
        expected |= {log: set(tokens)} if tokens else {}
    assert set(data.unit_ids()) == set(expected)
    assert data.select(["sample:5"]) == data.unit_ids()
    read = {
        unit: {name.split("-")[0] for name in data.read_unit(unit)[0].frame_ids}
        for unit in data.unit_ids()
    }
    assert read == expected
    assert {
        unit: set(data.choice(unit)["scenes"]) for unit in data.unit_ids()
    } == expected


def test_scenarios_are_chosen_by_token_and_type(root):
    data = open_dataset("nuplan", root)
    whole = data.read_unit(LOG)[0]
    scenes = list(dict.fromkeys(name.split("-")[0] for name in whole.frame_ids))
    one = data.for_units([scenes[1]]).read_unit(LOG)[0]
    np.testing.assert_array_equal(one.frame_ids, whole.frame_ids[24:])
    # A token of a sweep, as nuPlan names its scenarios, chooses the scene that the
    # sweep is in.
    sweep = token(3, 250).hex()
    np.testing.assert_array_equal(
        data.for_units([sweep]).read_unit(LOG)[0].frame_ids, one.frame_ids
    )
    tagged = data.for_units(["type:following_lane_with_lead"])
    assert len(tagged.read_unit(LOG)[0]) == len(whole)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["sample:0"], "a sample must be given alone, as sample:60; found 'sample:0'"),
        (["sample:2", "type:x"], "a sample must be given alone"),
        (["type:flying"], "a scenario of type flying is in none of 1"),
        (["00" * 8], "token 0000000000000000 is in none of 1"),
        ([LOG, "sample:2"], "names of logs or a choice of scenarios, not both"),
    ],
)
def test_a_wrong_choice_is_refused(root, names, sentence):
    with pytest.raises(InputError, match=sentence):
        open_dataset("nuplan", root).for_units(names).unit_ids()


def test_a_sample_of_too_few_is_noted(root):
    data = open_dataset("nuplan", root).for_units(["sample:60"])
    with pytest.warns(InputWarning, match="the sample has 2 of 60 scenarios"):
        assert data.unit_ids() == (LOG,)


def test_a_scenario_without_a_route_takes_the_driven_one(root, unit):
    changed(root / DB, "UPDATE scene SET roadblock_ids = NULL WHERE name = 'scene-001'")
    scene, _ = Nuplan(root).read_unit(LOG)
    assert scene.route_at(0) == ("100", "200")
    assert scene.route_at(24) == ("100", "200", "101")


def test_without_the_index_the_only_version_is_taken(root):
    (root / "maps" / "nuplan-maps-v1.0.json").unlink()
    assert map_file(root / "maps", LOCATION) == root / GPKG
    shutil.copytree(root / f"maps/{LOCATION}/{VERSION}", root / f"maps/{LOCATION}/9.99")
    with pytest.raises(InputError, match=r"found 2 and no .*nuplan-maps-v1\.0\.json"):
        map_file(root / "maps", LOCATION)


DAMAGE = {
    "no table": (DB, ["DROP TABLE lidar_box"], "must have a table lidar_box"),
    "no column": (
        DB,
        ["ALTER TABLE ego_pose DROP COLUMN vx"],
        "table ego_pose must have a column vx",
    ),
    "no log": (DB, ["DELETE FROM log"], "table log must have one row; it has 0"),
    "no scenario": (
        DB,
        ["DELETE FROM scene"],
        r"must have a scenario of 6\.3 s or more; it has none",
    ),
    "unknown map": (
        DB,
        ["UPDATE log SET map_version = 'us-tx-austin'"],
        "must be one of sg-one-north.*us-tx-austin",
    ),
    "no map": (
        DB,
        ["UPDATE log SET map_version = 'sg-one-north'"],
        "must name the version of sg-one-north",
    ),
    "a hole": (
        DB,
        ["DELETE FROM lidar_pc WHERE rowid % 240 BETWEEN 50 AND 53"],
        (
            r"at 20 Hz; in 3 of 3 scenarios they do not, first after timestamp "
            r"1629122402400000: leave the log out"
        ),
    ),
    "no pose": (
        DB,
        ["DELETE FROM ego_pose WHERE rowid = 5"],
        "every sweep must have a timestamp and an ego pose",
    ),
    "words": (
        DB,
        ["UPDATE ego_pose SET x = 'east' WHERE rowid = 5"],
        "ego poses: must be numbers",
    ),
    "no rotation": (
        DB,
        ["UPDATE ego_pose SET qw = 0"],
        "a quaternion must not be all zeros",
    ),
    "no speed": (
        DB,
        ["UPDATE lidar_box SET vx = NULL"],
        "track .* where it is valid it must be finite",
    ),
    "no size": (
        DB,
        ["UPDATE lidar_box SET width = 0"],
        "its length and width must be positive",
    ),
    "category": (
        DB,
        ["UPDATE category SET name = 'ufo' WHERE name = 'vehicle'"],
        "category must be one of vehicle.*'ufo'",
    ),
    "token": (
        DB,
        [
            "UPDATE scene SET token = 'a' || name",
            "UPDATE lidar_pc SET scene_token = 'ascene-000'",
        ],
        "must be blobs; found 'ascene-000'",
    ),
    "camera": (
        DB,
        ["UPDATE camera SET intrinsic = x'00'"],
        "intrinsic of CAM_F0 must be a pickle of",
    ),
    "camera shape": (
        DB,
        ["UPDATE camera SET intrinsic = translation"],
        r"intrinsic of CAM_F0 .* found \(3,\)",
    ),
    "no geometry": (
        GPKG,
        ["UPDATE crosswalks SET geom = x'1234'"],
        "layer crosswalks, row 1: .* GeoPackage blob",
    ),
    "cut geometry": (
        GPKG,
        ["UPDATE intersections SET geom = substr(geom, 1, length(geom) - 1)"],
        "layer intersections, row 1: a geometry must be whole",
    ),
    "a point": (
        GPKG,
        [
            "UPDATE crosswalks SET geom = x'"
            + "4750000100000000"
            + "0101000000"
            + "00" * 16
            + "'"
        ],
        "lines or polygons; found one of type 1",
    ),
    "envelope": (
        GPKG,
        ["UPDATE crosswalks SET geom = x'4750000F0000000000'"],
        "envelope must be of kind 0 to 4; found 7",
    ),
    "nested geometry": (
        GPKG,
        [
            "UPDATE crosswalks SET geom = x'"
            + "4750000100000000"
            + "010600000001000000"
            + "010600000001000000" * 15000
            + "'"
        ],
        "parts of a geometry must be single lines or polygons; found type 6",
    ),
    "no columns listed": (
        GPKG,
        ["DELETE FROM gpkg_geometry_columns"],
        "one geometry column; .* lists 0",
    ),
    "system": (
        GPKG,
        ["UPDATE gpkg_spatial_ref_sys SET organization_coordsys_id = 3857"],
        "found 3857",
    ),
    "zone": (
        GPKG,
        ["UPDATE meta SET value = 'EPSG:2154'"],
        "must be a UTM zone such as EPSG:32619; it is EPSG:2154",
    ),
    "no baseline": (
        GPKG,
        ["DELETE FROM baseline_paths WHERE lane_fid = 3"],
        "every lane must have a baseline path; 3 has",
    ),
    "one number": (
        GPKG,
        [
            "UPDATE lane_connectors SET fid = 4 WHERE fid = 13",
            "UPDATE baseline_paths SET lane_connector_fid = 4 WHERE fid = 63",
        ],
        "no lane may have the number of a lane connector; 4 is both",
    ),
    "far pose": (DB, ["UPDATE ego_pose SET y = 1e308"], "coordinates of at most 1e"),
    "late": (DB, ["UPDATE lidar_pc SET timestamp = 1e155"], "times of at most 1e"),
    "acceleration": (
        DB,
        ["UPDATE ego_pose SET acceleration_x = 1e308"],
        "accelerations of the ego must be finite",
    ),
    "half a lane": (
        GPKG,
        ["UPDATE lanes_polygons SET lane_fid = 1.5 WHERE lane_fid = 1"],
        "must be whole; found 1.5",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_wrong_is_told_in_a_sentence(root, name):
    path, statements, sentence = DAMAGE[name]
    changed(root / path, *statements)
    with pytest.raises(InputError, match=sentence):
        Nuplan(root).read_unit(LOG)


@pytest.mark.parametrize("path", [DB, GPKG])
def test_a_damaged_file_is_told(root, path):
    (root / path).write_bytes(b"no database" * 1000)
    with pytest.raises(InputError, match="must be a whole SQLite file"):
        Nuplan(root).read_unit(LOG)


def test_a_missing_map_is_told_with_its_place(root):
    (root / GPKG).unlink()
    with pytest.raises(
        InputError, match=f"must be at .*{GPKG}, according to .*nuplan-maps-v1.0.json"
    ):
        Nuplan(root).read_unit(LOG)


def test_a_version_is_no_way_out_of_the_folder(root):
    (root / "maps" / "nuplan-maps-v1.0.json").write_text(
        f'{{"{LOCATION}": {{"version": "../../.."}}}}'
    )
    with pytest.raises(InputError, match=r"must name the version .* found '\.\./"):
        Nuplan(root).read_unit(LOG)


def test_pictures_must_lie_in_their_folder(root):
    (root / "sensor_blobs").mkdir()
    changed(root / DB, "UPDATE image SET filename_jpg = '../../secret.jpg'")
    with pytest.raises(InputError, match="pictures must lie below"):
        Nuplan(root).read_unit(LOG)


class Asks:
    def __reduce__(self):
        return os.system, ("touch was_run",)


def test_a_camera_that_asks_to_run_something_is_refused(root, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect(root / DB)) as db:
        db.execute("UPDATE camera SET translation = ?", (pickle.dumps(Asks()),))
        db.commit()
    with pytest.raises(
        InputError, match=r"translation of CAM_F0 must be .* asks for posix\.system"
    ):
        Nuplan(root).read_unit(LOG)
    assert not (tmp_path / "was_run").exists()


def test_units_are_logs_that_are_there_once(root, tmp_path):
    with pytest.raises(InputError, match=r"there is no other\.db"):
        Nuplan(root).read_unit("other")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="must hold logs"):
        Nuplan(tmp_path / "empty").unit_ids()
    shutil.copytree(root / "data/cache/mini", root / "data/cache/train")
    with pytest.raises(InputError, match="must be there once"):
        Nuplan(root).unit_ids()
    with pytest.raises(InputError, match="there is no such file"):
        read_drives(root / "nothing.db", root / "maps")
