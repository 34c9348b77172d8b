"""Small trees in the layouts that the owners of KITTI, nuScenes and nuPlan publish,
with tiny detectors and a planner.

Pictures have a bright spot of some size; the detectors report a car ahead if they see
one, and at a low resolution they miss small spots. Where the truth has no car in the
way, a spot is a false alarm.
"""

import json
import shutil
from pathlib import Path
from unittest import mock

import cv2
import numpy as np
import torch

import kitti_files
import nuplan_files
import onnx_models
from deepval.driving.datasets.nuscenes import NuScenes
from learned_worlds import fan, small_weights

OXTS = " ".join(["0"] * 8 + ["11.0"] + ["0"] * 21) + "\n"
SIZES = (320, 384, 512, 640)
SCENES, OUTSIDE, KEYFRAMES = (
    NuScenes("").unit_lists["trainval01"][::7],
    ("scene-0103", "scene-0916"),
    12,
)
"""13 scenes of the first archive and two of others; 4 of 12 keyframes have 4 s ahead of
them.
"""
LOGS, SWEEPS = 4, (128, 128)
CITIES = (
    "us-ma-boston",
    "us-nv-las-vegas-strip",
    "us-pa-pittsburgh-hazelwood",
    "sg-one-north",
)
IDENTITY, AHEAD = [1.0, 0.0, 0.0, 0.0], [0.5, -0.5, 0.5, -0.5]


def write_weights(folder: Path) -> None:
    """yolov8s.onnx and rtdetr-l.onnx, which report a car in the middle of the picture
    where they see a spot.
    """
    folder.mkdir(parents=True)
    # A box of YOLOv8 is in pixels of the input: one for each size. Its padding is as
    # bright as 0.45.
    boxes = [
        [size / 2, 0.34 * size, 0.09 * size, size * (0.06 + size / 40_000)]
        for size in SIZES
    ]
    constant = np.array([[*box, -0.7, 0.0] for box in boxes]).T
    slope = np.zeros_like(constant)
    slope[4] = 1.5
    queries = np.tile([0.05, 0.55, 0.1, 0.12, 0.0, 0.0], (300, 1))
    queries[0, 0] = 0.5
    seen = np.zeros_like(queries)
    seen[0, 4] = 0.9
    for name, output in {
        "yolov8s": (constant, slope),
        "rtdetr-l": (queries, seen),
    }.items():
        onnx_models.save(
            folder / f"{name}.onnx",
            {"output0": (output[0][None], output[1][None])},
            shapes={"output0": ["batch", "rows", "anchors"]},
            metadata={"names": "{0: 'car', 1: 'person'}"},
            statistic="ReduceMax",
        )


def write_picture(
    path: Path, rng: np.random.Generator, wide_px: int, high_px: int
) -> None:
    """A dark picture without a bright spot, with one of 2 px or one of 9 px."""
    picture = np.full((high_px, wide_px, 3), 60, dtype=np.uint8)
    side = int(rng.choice([0, 2, 9]))
    x, y = rng.integers(wide_px - 9), rng.integers(high_px - 9)
    picture[y : y + side, x : x + side] = 255
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), picture)


def write_kitti(data: Path) -> None:
    """kitti_tracking/training with PNG pictures and OXTS."""
    kitti_files.write_kitti(data / "written")
    training = (
        shutil.move(data / "written" / "kitti_tracking", data / "kitti_tracking")
        / "training"
    )
    shutil.rmtree(data / "written")
    shutil.rmtree(training / "poses")
    (training / "oxts").mkdir()
    rng = np.random.default_rng(1)
    for unit in kitti_files.UNITS:
        (training / "oxts" / f"{unit}.txt").write_text(OXTS * kitti_files.FRAMES)
        for frame in range(kitti_files.FRAMES):
            write_picture(
                training / "image_02" / unit / f"{frame:06d}.png", rng, 1242, 375
            )


def write_nuscenes(root: Path) -> None:
    """v1.0-trainval, samples/CAM_FRONT of the first archive, maps and
    maps/expansion.
    """
    rng = np.random.default_rng(2)
    places = ("singapore-onenorth", "boston-seaport")
    rows: dict[str, list[dict]] = {
        "attribute": [{"token": "at", "name": "vehicle.moving", "description": ""}],
        "visibility": [{"token": "4", "level": "v80-100", "description": ""}],
        "category": [{"token": "c0", "name": "vehicle.car", "description": ""}],
        "sensor": [
            {"token": "cam", "channel": "CAM_FRONT", "modality": "camera"},
            {"token": "lid", "channel": "LIDAR_TOP", "modality": "lidar"},
        ],
        "calibrated_sensor": [
            {
                "token": "cc",
                "sensor_token": "cam",
                "translation": [1.7, 0.0, 1.5],
                "rotation": AHEAD,
                "camera_intrinsic": [[1266.0, 0, 816.0], [0, 1266.0, 491.0], [0, 0, 1]],
            },
            {
                "token": "cl",
                "sensor_token": "lid",
                "translation": [0.9, 0.0, 1.8],
                "rotation": IDENTITY,
                "camera_intrinsic": [],
            },
        ],
        "log": [
            {
                "token": f"lo{number}",
                "logfile": f"n0{number}",
                "vehicle": "n015",
                "date_captured": "2018-07-24",
                "location": place,
            }
            for number, place in enumerate(places)
        ],
        "map": [
            {
                "token": f"ma{number}",
                "log_tokens": [f"lo{number}"],
                "category": "semantic_prior",
                "filename": f"maps/ma{number}.png",
            }
            for number in range(len(places))
        ],
    }
    for name in (
        "scene",
        "sample",
        "sample_data",
        "ego_pose",
        "instance",
        "sample_annotation",
    ):
        rows[name] = []
    for number, scene in enumerate((*SCENES, *OUTSIDE)):
        _add_scene(rows, scene, number, root if scene in SCENES else None, rng)
    (root / "v1.0-trainval").mkdir(parents=True)
    for name, table in rows.items():
        (root / "v1.0-trainval" / f"{name}.json").write_text(json.dumps(table))
    (root / "maps" / "expansion").mkdir(parents=True)
    for number, place in enumerate(places):
        (root / "maps" / "expansion" / f"{place}.json").write_text(
            json.dumps(_expansion())
        )
        cv2.imwrite(
            str(root / "maps" / f"ma{number}.png"), np.zeros((8, 8), dtype=np.uint8)
        )


def _add_scene(
    rows: dict, scene: str, number: int, pictures: Path | None, rng: np.random.Generator
) -> None:
    """Add a scene: the ego drives east at 5 to 9 m/s; a car drives ahead of it, in its
    lane in two of three scenes.
    """
    speed_mps, gap_m, side_m = (
        5 + number % 5,
        rng.uniform(8, 25),
        0.0 if number % 3 else 5.0,
    )
    instance, first_us = f"i{number}", 1_532_402_927_000_000 + 10**9 * number
    token = [f"{scene}-{k}" for k in range(KEYFRAMES)]
    rows["scene"].append(
        {
            "token": scene,
            "log_token": f"lo{number % 2}",
            "nbr_samples": KEYFRAMES,
            "name": scene,
            "first_sample_token": token[0],
            "last_sample_token": token[-1],
            "description": "",
        }
    )
    rows["instance"].append(
        {
            "token": instance,
            "category_token": "c0",
            "nbr_annotations": KEYFRAMES,
            "first_annotation_token": f"{instance}-0",
            "last_annotation_token": f"{instance}-{KEYFRAMES - 1}",
        }
    )
    for k in range(KEYFRAMES):
        linked = {
            "prev": token[k - 1] if k else "",
            "next": token[k + 1] if k + 1 < KEYFRAMES else "",
        }
        time_us, x_m = first_us + 500_000 * k, 100 + 0.5 * speed_mps * k
        rows["sample"].append(
            {"token": token[k], "timestamp": time_us, "scene_token": scene, **linked}
        )
        gap_m = max(3.0, gap_m + rng.normal(-0.8, 0.8))
        annotated = {
            way: other and f"{instance}-{other.rpartition('-')[2]}"
            for way, other in linked.items()
        }
        rows["sample_annotation"].append(
            {
                "token": f"{instance}-{k}",
                "sample_token": token[k],
                "instance_token": instance,
                "visibility_token": "4",
                "attribute_tokens": ["at"],
                "translation": [x_m + gap_m + 4, 200 + side_m, 0.8],
                "size": [1.9, 4.5, 1.6],
                "rotation": IDENTITY,
                "num_lidar_pts": 9,
                "num_radar_pts": 0,
                **annotated,
            }
        )
        for sensor, folder, key in (
            ("cam", "CAM_FRONT", True),
            ("lid", "LIDAR_TOP", True),
            ("cam", "CAM_FRONT", False),
        ):
            sweep = f"{sensor}-{token[k]}-{key}"
            kind = "jpg" if sensor == "cam" else "pcd"
            name = (
                f"{'samples' if key else 'sweeps'}/{folder}/n015__{folder}__"
                f"{time_us + 40_000 * (not key)}.{kind}"
            )
            rows["ego_pose"].append(
                {
                    "token": sweep,
                    "timestamp": time_us,
                    "rotation": IDENTITY,
                    "translation": [x_m + 0.2 * (not key), 200.0, 0.0],
                }
            )
            rows["sample_data"].append(
                {
                    "token": sweep,
                    "sample_token": token[k],
                    "ego_pose_token": sweep,
                    "timestamp": time_us,
                    "calibrated_sensor_token": f"c{sensor[0]}",
                    "fileformat": kind,
                    "is_key_frame": key,
                    "height": 900,
                    "width": 1600,
                    "filename": name,
                    "prev": "",
                    "next": "",
                }
            )
            if pictures is not None and sensor == "cam" and key:
                write_picture(pictures / name, rng, 1600, 900)


def _expansion() -> dict:
    """Two lanes that run east, as a file of the map expansion."""
    corners = {"a": (-2, 2), "b": (2, 6)}
    ends = {
        lane: [(0, low), (600, low), (600, high), (0, high)]
        for lane, (low, high) in corners.items()
    }
    node = [
        {"token": f"{lane}{k}", "x": x, "y": 200 + y}
        for lane, outline in ends.items()
        for k, (x, y) in enumerate(outline)
    ]
    piece = {
        "shape": "LSR",
        "radius": 999.0,
        "segment_length": [0.0, 600.0, 0.0],
        "end_pose": [600.0, 200.0, 0.0],
    }
    return {
        "version": "1.3",
        "node": node,
        "line": [{"token": "l", "node_tokens": ["b0", "b1"]}],
        "polygon": [
            {
                "token": lane,
                "exterior_node_tokens": [f"{lane}{k}" for k in range(4)],
                "holes": [],
            }
            for lane in ends
        ],
        "lane": [
            {"token": f"lane-{lane}", "polygon_token": lane, "lane_type": "CAR"}
            for lane in ends
        ],
        "road_segment": [
            {
                "token": "r",
                "polygon_token": "a",
                "is_intersection": False,
                "drivable_area_token": "",
            }
        ],
        "lane_divider": [
            {"token": "d", "line_token": "l", "lane_divider_segments": []}
        ],
        "connectivity": {
            f"lane-{lane}": {"incoming": [], "outgoing": []} for lane in ends
        },
        "arcline_path_3": {
            f"lane-{lane}": [
                {**piece, "start_pose": [0.0, 200.0 + sum(corners[lane]) / 2, 0.0]}
            ]
            for lane in ends
        },
        **{
            name: []
            for name in (
                "lane_connector",
                "road_divider",
                "ped_crossing",
                "carpark_area",
                "walkway",
            )
        },
    }


def write_nuplan(root: Path) -> None:
    """nuplan-v1.1/splits/mini, maps and sensor_blobs; every second picture is missing,
    and all of the last log.
    """
    rng = np.random.default_rng(3)
    made_token = nuplan_files.token
    for number in range(LOGS):
        log = f"2021.08.16.14.00.{number:02d}_veh-45_00000_00200"
        changed = {
            "LOG": log,
            "SCENES": SWEEPS,
            "START_X_M": 10.0 + 5 * number,
            "token": lambda kind, of, number=number: made_token(
                kind, of + 100_000 * number
            ),
        }
        with mock.patch.multiple(nuplan_files, **changed):
            nuplan_files.write_log(
                root / "nuplan-v1.1" / "splits" / "mini" / f"{log}.db"
            )
        for sweep in range(0, sum(SWEEPS) if number + 1 < LOGS else 0, 4):
            # the 24 states are every second sweep up to here
            if sweep % SWEEPS[0] < 48:
                picture = (
                    root
                    / "nuplan-v1.1"
                    / "sensor_blobs"
                    / log
                    / "CAM_F0"
                    / f"{sweep:06d}.jpg"
                )
                write_picture(picture, rng, 1920, 1080)
    for city in CITIES:
        nuplan_files.write_map(root / "maps" / city / nuplan_files.VERSION / "map.gpkg")
    index = {city: {"version": nuplan_files.VERSION, "layers": {}} for city in CITIES}
    (root / "maps" / "nuplan-maps-v1.0.json").write_text(json.dumps(index))


def write_planner(folder: Path) -> None:
    """planner.pt and masks_trainval.json in the formats of the published files, of a
    narrow network.
    """
    folder.mkdir(parents=True)
    tensors = {
        name: torch.from_numpy(np.array(array))
        for name, array in small_weights().arrays.items()
    }
    torch.save(tensors, folder / "planner.pt")
    (folder / "masks_trainval.json").write_text(
        json.dumps(fan().cells.astype(int).tolist())
    )


def write_data(data: Path) -> None:
    """Everything that docs/official.md lists."""
    write_kitti(data)
    write_nuscenes(data / "nuscenes")
    write_nuplan(data / "nuplan")
    write_weights(data / "weights")
    write_planner(data / "pkl")
