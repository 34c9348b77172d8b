"""Small Argoverse 2 files in the real schema: a motion-forecasting scenario and a
sensor log on a two-lane road.
"""

import json

import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet

START_NS = 315986559459579008


def points(*rows):
    return [{"x": float(x), "y": float(y), "z": 20.0} for x, y in rows]


def segment(
    key,
    x,
    y,
    *,
    after=(),
    left=None,
    right=None,
    kind="VEHICLE",
    inside=False,
    back=False,
    width=3.5,
):
    """A straight lane segment over x = (begin, end), `y` its right edge; `back` turns
    it round.
    """
    edges = [
        points((x[0], y + width), (x[1], y + width)),
        points((x[0], y), ((x[0] + x[1]) / 2, y), (x[1], y)),
    ]
    if back:
        edges = [edge[::-1] for edge in edges[::-1]]
    return {
        "id": key,
        "is_intersection": inside,
        "lane_type": kind,
        "left_lane_boundary": edges[0],
        "left_lane_mark_type": "DASHED_WHITE",
        "left_neighbor_id": left,
        "right_lane_boundary": edges[1],
        "right_lane_mark_type": "SOLID_WHITE",
        "right_neighbor_id": right,
        "predecessors": [],
        "successors": list(after),
    }


def map_content():
    """Two lanes forward (1 right, 2 left), one back (3), then an intersection (4) and a
    bike lane (5).
    """
    segments = [
        segment(1, (-20, 60), -1.75, after=(4,), left=2, right=5),
        segment(2, (-20, 60), 1.75, left=3, right=1),
        segment(3, (-20, 60), 5.25, left=2, back=True),
        segment(4, (60, 90), -1.75, after=(9,), inside=True, left=2),
        segment(5, (-20, 60), -3.5, kind="BIKE", left=1, width=1.75),
    ]
    return {
        "drivable_areas": {
            "7": {
                "id": 7,
                "area_boundary": points((-20, -4), (90, -4), (90, 9), (-20, 9)),
            }
        },
        "lane_segments": {str(one["id"]): one for one in segments},
        "pedestrian_crossings": {
            "8": {
                "id": 8,
                "edge1": points((50, -2), (50, 6)),
                "edge2": points((53, -2), (53, 6)),
            }
        },
    }


def write_map(folder, content=None):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"log_map_archive_{folder.parent.name}.json").write_text(
        json.dumps(content or map_content())
    )


def scenario_rows(steps=20):
    rows = []
    for step in range(steps):
        rows.append(("7", "vehicle", step, 20.0, 0.0, 0.0, 0.0, 0.0))
        if step != 5:
            rows.append(
                ("8", "pedestrian", step, 15.0, 5.0 - step / 10, -np.pi / 2, 0.0, -1.0)
            )
        rows.append(("AV", "vehicle", step, 0.5 * step, 0.1, 0.0, 5.0, 0.0))
    return rows


def write_scenario(root, rows=None, *, steps=20, content=None, drop=None):
    folder = root / "val" / "made-scenario"
    write_map(folder, content)
    rows = scenario_rows(steps) if rows is None else rows
    names = (
        "track_id",
        "object_type",
        "timestep",
        "position_x",
        "position_y",
        "heading",
        "velocity_x",
        "velocity_y",
    )
    table = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    table |= {
        "observed": [True] * len(rows),
        "object_category": [0] * len(rows),
        "scenario_id": ["made-scenario"] * len(rows),
        "start_timestamp": [float(START_NS)] * len(rows),
        "end_timestamp": [float(START_NS + (steps - 1) * 100_000_000)] * len(rows),
        "num_timestamps": [steps] * len(rows),
        "focal_track_id": ["7"] * len(rows),
        "city": ["austin"] * len(rows),
    }
    table.pop(drop, None)
    parquet.write_table(pa.table(table), folder / "scenario_made-scenario.parquet")
    return folder


def turned(yaw):
    return {"qw": np.cos(yaw / 2), "qx": 0.0, "qy": 0.0, "qz": np.sin(yaw / 2)}


def write_sensor_log(
    root,
    *,
    steps=20,
    late=(),
    category="REGULAR_VEHICLE",
    poses=None,
    sensor="ring_front_center",
):
    """The ego drives along x at 5 m/s, turned by 0; a car stands at (30, 0), told from
    the ego's frame.
    """
    folder = root / "sensor" / "val" / "made-log"
    write_map(folder / "map")
    stamps = [
        START_NS + 100_000_000 * step + (700_000_000 if step in late else 0)
        for step in range(steps)
    ]
    rows, ego = [], []
    for step, stamp in enumerate(stamps):
        ego.append(
            {
                "timestamp_ns": stamp,
                **turned(0.0),
                "tx_m": 0.5 * step,
                "ty_m": 0.0,
                "tz_m": 20.33,
            }
        )
        # Poses come more often than sweeps.
        ego.append(
            {
                "timestamp_ns": stamp + 1,
                **turned(0.0),
                "tx_m": 0.5 * step,
                "ty_m": 0.0,
                "tz_m": 20.33,
            }
        )
        box = {
            "length_m": 4.2,
            "width_m": 1.8,
            "height_m": 1.6,
            **turned(0.3),
            "num_interior_pts": 9,
        }
        shift = {"tx_m": 30 - 0.5 * step, "ty_m": 0.0, "tz_m": 0.47}
        rows.append(
            {
                "timestamp_ns": stamp,
                "track_uuid": "car",
                "category": category,
                **box,
                **shift,
            }
        )
        walk = {"tx_m": 10.0, "ty_m": 3.0, "tz_m": 0.5}
        if step < 3:
            rows.append(
                {
                    "timestamp_ns": stamp,
                    "track_uuid": "walker",
                    "category": "PEDESTRIAN",
                    **box,
                    **walk,
                }
            )
    ego = ego if poses is None else ego[: 2 * poses]
    feather.write_feather(
        pa.Table.from_pylist(rows), str(folder / "annotations.feather")
    )
    feather.write_feather(
        pa.Table.from_pylist(ego), str(folder / "city_SE3_egovehicle.feather")
    )
    (folder / "calibration").mkdir(exist_ok=True)
    inside = {
        "fx_px": 1700.0,
        "fy_px": 1690.0,
        "cx_px": 770.0,
        "cy_px": 1020.0,
        "k1": 0.0,
        "k2": 0.0,
        "k3": 0.0,
    }
    inside |= {"sensor_name": sensor, "height_px": 2048, "width_px": 1550}
    # Camera axes in the vehicle frame: z forward, x right, y down.
    mounted = {
        "sensor_name": sensor,
        "qw": 0.5,
        "qx": -0.5,
        "qy": 0.5,
        "qz": -0.5,
        "tx_m": 1.6,
        "ty_m": 0.0,
        "tz_m": 1.4,
    }
    feather.write_feather(
        pa.Table.from_pylist([inside]),
        str(folder / "calibration" / "intrinsics.feather"),
    )
    feather.write_feather(
        pa.Table.from_pylist([mounted]),
        str(folder / "calibration" / "egovehicle_SE3_sensor.feather"),
    )
    return folder
