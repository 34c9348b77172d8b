"""A nuPlan folder in the real schema, small but complete: a log of three scenarios on a
map of two streets.

The street runs east from (0, 0) in metres of `ORIGIN_M`: lanes 1 (y = 0) and 2 (y =
3.5) of group 100 to x = 100, connectors 11 and 12 of connector group 200 to x = 120,
lanes 3 and 4 of group 101 to x = 400; connector 13 of group 201 turns north to lane 5
of group 102. The ego drives along y = 0 from x = 20 at 5 m/s: scenarios of 12, 12 and 3
s.
"""

import json
import pickle
import sqlite3
import struct
import sys
import types
from contextlib import closing
from pathlib import Path

import numpy as np

from deepval.driving.datasets.logs.geopackage import (
    ECCENTRICITY,
    FALSE_EASTING_M,
    RECTIFYING_M,
    SCALE,
    N,
)

LOCATION, VERSION, ZONE = "us-ma-boston", "9.12.1817", 19
ORIGIN_M = np.array([330_000.0, 4_690_000.0])
LOG = "2021.08.16.14.00.00_veh-45_00000_00200"
START_US, SWEEP_US = 1_629_122_400_000_000, 50_000
SCENES = (240, 240, 60)
ROUTES = ("100 200", "100 200 101", "100 200 101")
START_X_M, SPEED_MPS = 20.0, 5.0
BETA = (
    N / 2
    - 2 / 3 * N**2
    + 37 / 96 * N**3
    - 1 / 360 * N**4
    - 81 / 512 * N**5
    + 96199 / 604800 * N**6,
    1 / 48 * N**2
    + 1 / 15 * N**3
    - 437 / 1440 * N**4
    + 46 / 105 * N**5
    - 1118711 / 3870720 * N**6,
    17 / 480 * N**3 - 37 / 840 * N**4 - 209 / 4480 * N**5 + 5569 / 90720 * N**6,
    4397 / 161280 * N**4 - 11 / 504 * N**5 - 830251 / 7257600 * N**6,
    4583 / 161280 * N**5 - 108847 / 3991680 * N**6,
    20648693 / 638668800 * N**6,
)
"""Karney 2011, eq. 36: the series backwards, which is not the reader's."""

LINE, POLYGON, LINES, POLYGONS = 2, 3, 5, 6


def lon_lat_deg(place_m, zone=ZONE):
    """Longitude and latitude of eastings and northings."""
    place_m = np.asarray(place_m, dtype=float)
    eta = (place_m[..., 0] - FALSE_EASTING_M) / (SCALE * RECTIFYING_M)
    xi = place_m[..., 1] / (SCALE * RECTIFYING_M)
    xi1, eta1 = xi.copy(), eta.copy()
    for order, beta in enumerate(BETA, start=1):
        xi1 = xi1 - beta * np.sin(2 * order * xi) * np.cosh(2 * order * eta)
        eta1 = eta1 - beta * np.cos(2 * order * xi) * np.sinh(2 * order * eta)
    conformal = np.sin(xi1) / np.hypot(np.sinh(eta1), np.cos(xi1))
    lon = np.degrees(np.arctan2(np.sinh(eta1), np.cos(xi1))) + 6 * zone - 183
    tan = conformal.copy()
    for _ in range(6):
        # Newton's method for the latitude whose conformal latitude this is.
        sigma = np.sinh(
            ECCENTRICITY * np.arctanh(ECCENTRICITY * tan / np.hypot(1, tan))
        )
        off = conformal - (tan * np.hypot(1, sigma) - sigma * np.hypot(1, tan))
        e2 = ECCENTRICITY**2
        tan = tan + off / np.hypot(1, conformal) * (1 + (1 - e2) * tan**2) / (
            (1 - e2) * np.hypot(1, tan)
        )
    return np.stack([lon, np.degrees(np.arctan(tan))], axis=-1)


def wkb(kind, parts, *, order="<", z=False):
    """Well-known binary of lines or polygons (outer rings only)."""
    head = (b"\x01" if order == "<" else b"\x00") + struct.pack(
        f"{order}I", kind + (1000 if z else 0)
    )
    if kind in (LINES, POLYGONS):
        inner = [wkb(kind - 3, [part], order=order, z=z) for part in parts]
        return head + struct.pack(f"{order}I", len(parts)) + b"".join(inner)
    (part,) = parts
    points = np.column_stack([part, np.full(len(part), 7.0)]) if z else np.asarray(part)
    body = struct.pack(f"{order}I", len(part)) + points.astype(f"{order}f8").tobytes()
    return head + (struct.pack(f"{order}I", 1) + body if kind == POLYGON else body)


def blob(kind, parts, *, order="<", z=False, envelope=False):
    """A GeoPackage geometry."""
    flags = (1 if order == "<" else 0) | (2 if envelope else 0)
    head = b"GP\x00" + bytes([flags]) + struct.pack(f"{order}i", 4326)
    box = np.concatenate(parts) if envelope else None
    bounds = (
        b""
        if box is None
        else np.ravel([box.min(0), box.max(0)], order="F")
        .astype(f"{order}f8")
        .tobytes()
    )
    return head + bounds + wkb(kind, parts, order=order, z=z)


def rectangle(x0, x1, y0, y1):
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]], dtype=float)


def line(*points, count=11):
    return np.linspace(points[0], points[1], count)


LANES = {
    1: (100, line((0, 0), (100, 0)), rectangle(0, 100, -1.75, 1.75), 15.0),
    2: (100, line((0, 3.5), (100, 3.5)), rectangle(0, 100, 1.75, 5.25), 15.0),
    3: (101, line((120, 0), (400, 0)), rectangle(120, 400, -1.75, 1.75), None),
    4: (101, line((120, 3.5), (400, 3.5)), rectangle(120, 400, 1.75, 5.25), 13.4),
    5: (102, line((110, 20), (110, 90)), rectangle(108.25, 111.75, 20, 90), 11.0),
    6: (103, line((5000, 0), (5100, 0)), rectangle(5000, 5100, -1.75, 1.75), 11.0),
}
"""Lane: group, baseline, outline, speed limit. Lane 6 is far away."""
CONNECTORS = {
    11: (200, 1, 3, line((100, 0), (120, 0)), rectangle(100, 120, -1.75, 1.75), 10.0),
    12: (
        200,
        2,
        4,
        line((100, 3.5), (120, 3.5)),
        rectangle(100, 120, 1.75, 5.25),
        10.0,
    ),
    13: (201, 1, 5, line((100, 0), (110, 20)), rectangle(102, 112, 3, 20), 8.0),
}
"""Connector: group, the lane that it comes from, the one that it leads to, baseline,
outline, speed limit.
"""
AREAS = {
    "carpark_areas": [rectangle(20, 40, 6, 26)],
    "generic_drivable_areas": [rectangle(50, 60, -12, -2)],
    "intersections": [rectangle(100, 120, -5, 20)],
    "crosswalks": [rectangle(95, 99, -2, 6), rectangle(5000, 5004, -2, 6)],
}


def write_map(path, *, projected=False, meta=True):
    """The map: layers in longitude and latitude, or already in metres of the zone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    epsg = 32600 + ZONE if projected else 4326

    def drawn(kind, part, **options):
        place_m = part + ORIGIN_M
        return blob(kind, [place_m if projected else lon_lat_deg(place_m)], **options)

    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "CREATE TABLE gpkg_spatial_ref_sys (srs_name TEXT, srs_id INTEGER PRIMARY "
            "KEY, organization TEXT, organization_coordsys_id INTEGER, definition "
            "TEXT, description TEXT)"
        )
        db.execute(
            "CREATE TABLE gpkg_geometry_columns (table_name TEXT PRIMARY KEY, "
            "column_name TEXT, geometry_type_name TEXT, srs_id "
            "INTEGER, z TINYINT, m TINYINT)"
        )
        db.execute(
            "INSERT INTO gpkg_spatial_ref_sys VALUES ('system', ?, 'EPSG', ?, "
            "'undefined', '')",
            (epsg, epsg),
        )

        def layer(name, columns, rows, geometry=True):
            told = (["geom BLOB"] if geometry else []) + [
                f"{column} {kind}" for column, kind in columns.items()
            ]
            db.execute(
                f"CREATE TABLE {name} (fid INTEGER PRIMARY KEY, {', '.join(told)})"
            )
            if geometry:
                db.execute(
                    "INSERT INTO gpkg_geometry_columns VALUES (?, "
                    "'geom', 'GEOMETRY', ?, 0, 0)",
                    (name, epsg),
                )
            for row in rows:
                db.execute(
                    f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row
                )

        whole = {
            "lane_fid": "INTEGER",
            "lane_group_fid": "INTEGER",
            "lane_index": "INTEGER",
            "speed_limit_mps": "REAL",
        }
        layer(
            "lanes_polygons",
            whole,
            [
                (
                    key + 1000,
                    drawn(POLYGONS, outline, envelope=key % 2 == 0),
                    key,
                    group,
                    1,
                    limit,
                )
                for key, (group, _, outline, limit) in LANES.items()
            ],
        )
        layer(
            "lane_connectors",
            {
                "exit_lane_fid": "INTEGER",
                "entry_lane_fid": "INTEGER",
                "lane_group_connector_fid": "INTEGER",
                "speed_limit_mps": "REAL",
            },
            [
                (key, drawn(LINE, middle), before, after, group, limit)
                for key, (group, before, after, middle, _, limit) in CONNECTORS.items()
            ],
        )
        layer(
            "gen_lane_connectors_scaled_width_polygons",
            {"lane_connector_fid": "INTEGER"},
            [
                (key + 2000, drawn(POLYGON, each[4], order=">", z=True), key)
                for key, each in CONNECTORS.items()
            ],
        )
        # Real maps leave one of the two numbers empty; tools that write tables of
        # floats turn the other into one.
        layer(
            "baseline_paths",
            {"lane_fid": "REAL", "lane_connector_fid": "REAL"},
            [
                *(
                    (
                        key,
                        drawn(LINES if key == 1 else LINE, each[1], z=key == 2),
                        float(key),
                        None,
                    )
                    for key, each in LANES.items()
                ),
                *(
                    (key + 50, drawn(LINE, each[3]), None, float(key))
                    for key, each in CONNECTORS.items()
                ),
            ],
        )
        for name, outlines in AREAS.items():
            layer(
                name,
                {},
                [
                    (number, drawn(POLYGON, each))
                    for number, each in enumerate(outlines, 1)
                ],
            )
        if meta:
            db.execute(
                "CREATE TABLE meta (fid INTEGER PRIMARY KEY, key TEXT, value TEXT)"
            )
            db.execute(
                "INSERT INTO meta VALUES (1, 'projectedCoordSystem', "
                f"'EPSG:{32600 + ZONE}')"
            )
        db.commit()


def token(kind, number):
    return struct.pack(">II", kind, number)


def pickled(name, values, protocol=4):
    """A pickle as nuPlan's writers make it: a list under a name of theirs."""
    module = types.ModuleType("nuplan.database.common.data_types")
    kind = type(name, (list,), {"__module__": module.__name__})
    setattr(module, name, kind)
    parents = ["nuplan", "nuplan.database", "nuplan.database.common", module.__name__]
    before = {key: sys.modules.get(key) for key in parents}
    sys.modules.update(dict.fromkeys(parents, module))
    try:
        return pickle.dumps(kind(values), protocol=protocol)
    finally:
        for key, old in before.items():
            sys.modules.pop(key)
            if old is not None:
                sys.modules[key] = old


SCHEMA = """
CREATE TABLE log (token BLOB PRIMARY KEY, vehicle_name VARCHAR(64), date VARCHAR(64), timestamp INTEGER,
  logfile VARCHAR(64), location VARCHAR(64), map_version VARCHAR(64));
CREATE TABLE ego_pose (token BLOB PRIMARY KEY, timestamp INTEGER, x FLOAT, y FLOAT, z FLOAT, qw FLOAT, qx FLOAT,
  qy FLOAT, qz FLOAT, vx FLOAT, vy FLOAT, vz FLOAT, acceleration_x FLOAT, acceleration_y FLOAT, acceleration_z FLOAT,
  angular_rate_x FLOAT, angular_rate_y FLOAT, angular_rate_z FLOAT, epsg INTEGER, log_token BLOB NOT NULL);
CREATE TABLE lidar_pc (token BLOB PRIMARY KEY, next_token BLOB, prev_token BLOB, ego_pose_token BLOB NOT NULL,
  lidar_token BLOB NOT NULL, scene_token BLOB, filename VARCHAR(128), timestamp INTEGER);
CREATE TABLE lidar_box (token BLOB PRIMARY KEY, lidar_pc_token BLOB NOT NULL, track_token BLOB NOT NULL,
  next_token BLOB, prev_token BLOB, x FLOAT, y FLOAT, z FLOAT, width FLOAT, length FLOAT, height FLOAT, vx FLOAT,
  vy FLOAT, vz FLOAT, yaw FLOAT, confidence FLOAT);
CREATE TABLE track (token BLOB PRIMARY KEY, category_token BLOB NOT NULL, width FLOAT, length FLOAT, height FLOAT);
CREATE TABLE category (token BLOB PRIMARY KEY, name VARCHAR(64), description TEXT);
CREATE TABLE scene (token BLOB PRIMARY KEY, log_token BLOB NOT NULL, name TEXT, goal_ego_pose_token BLOB,
  roadblock_ids TEXT);
CREATE TABLE scenario_tag (token BLOB PRIMARY KEY, lidar_pc_token BLOB NOT NULL, type TEXT, agent_track_token BLOB);
CREATE TABLE traffic_light_status (token BLOB PRIMARY KEY, lidar_pc_token BLOB NOT NULL, lane_connector_id INTEGER,
  status VARCHAR(8));
CREATE TABLE lidar (token BLOB PRIMARY KEY, log_token BLOB NOT NULL, channel VARCHAR(64), model VARCHAR(64),
  translation BLOB, rotation BLOB);
CREATE TABLE camera (token BLOB PRIMARY KEY, log_token BLOB NOT NULL, channel VARCHAR(64), model VARCHAR(64),
  translation BLOB, rotation BLOB, intrinsic BLOB, distortion BLOB, width FLOAT, height FLOAT);
CREATE TABLE image (token BLOB PRIMARY KEY, next_token BLOB, prev_token BLOB, ego_pose_token BLOB NOT NULL,
  camera_token BLOB NOT NULL, filename_jpg VARCHAR(128), timestamp INTEGER);
"""  # noqa: E501
CATEGORIES = (
    "vehicle",
    "bicycle",
    "pedestrian",
    "traffic_cone",
    "barrier",
    "czone_sign",
    "generic_object",
)
SIZE_M = {
    "vehicle": (4.5, 1.9, 1.6),
    "bicycle": (1.8, 0.6, 1.7),
    "pedestrian": (0.7, 0.7, 1.8),
}
"""Length, width, height; 0.5 m all round for the others."""


def write_log(path, *, camera=True):
    """The log: one track of each category; the vehicle keeps 20 m ahead, the pedestrian
    is seen for 2 s only.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    log = token(0, 0)
    with closing(sqlite3.connect(path)) as db:
        db.executescript(SCHEMA)

        def put(table, *row):
            db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

        put("log", log, "veh-45", "2021-08-16", START_US, path.stem, "boston", LOCATION)
        put("lidar", token(8, 0), log, "MergedPointCloud", "merged", b"", b"")
        for number, name in enumerate(CATEGORIES):
            length, width, height = SIZE_M.get(name, (0.5, 0.5, 0.5))
            put("category", token(6, number), name, "")
            put("track", token(5, number), token(6, number), width, length, height)
        if camera:
            # Looks ahead, from 1.5 m ahead of the rear axle and 1.6 m above it.
            put(
                "camera",
                token(9, 0),
                log,
                "CAM_F0",
                "m",
                pickled("Translation", [1.5, 0.0, 1.6]),
                pickled("Rotation", [0.5, -0.5, 0.5, -0.5]),
                pickled(
                    "CameraIntrinsic",
                    [[1500.0, 0, 950.0], [0, 1510.0, 550.0], [0, 0, 1]],
                ),
                pickle.dumps([0.0] * 5),
                1920.0,
                1080.0,
            )
            put(
                "camera",
                token(9, 1),
                log,
                "CAM_B0",
                "m",
                b"",
                b"",
                b"",
                b"",
                1920.0,
                1080.0,
            )
        sweep = 0
        for scene, count in enumerate(SCENES):
            put(
                "scene",
                token(1, scene),
                log,
                f"scene-{scene:03d}",
                token(2, sweep + count - 1),
                ROUTES[scene],
            )
            put(
                "scenario_tag",
                token(7, scene),
                token(3, sweep),
                "following_lane_with_lead",
                None,
            )
            for at in range(count):
                _write_sweep(put, sweep, scene=scene, at=at, camera=camera)
                sweep += 1
        db.commit()


def _write_sweep(put, sweep, *, scene, at, camera):
    east, north = ORIGIN_M
    time_us = START_US + sweep * SWEEP_US
    ego_x = east + START_X_M + SPEED_MPS * sweep * SWEEP_US * 1e-6
    # Another clock in ego_pose: the sweep's is the one that counts.
    put(
        "ego_pose",
        token(2, sweep),
        time_us - 333,
        ego_x,
        north,
        10.0,
        1.0,
        0.0,
        0.0,
        0.0,
        SPEED_MPS,
        0.1,
        0.0,
        0.25,
        0.0,
        9.8,
        0.0,
        0.0,
        0.0,
        32600 + ZONE,
        token(0, 0),
    )
    put(
        "lidar_pc",
        token(3, sweep),
        None,
        None,
        token(2, sweep),
        token(8, 0),
        token(1, scene),
        f"{sweep}.pcd",
        time_us,
    )
    put("traffic_light_status", token(10, 2 * sweep), token(3, sweep), 12, "green")
    put(
        "traffic_light_status",
        token(10, 2 * sweep + 1),
        token(3, sweep),
        11,
        "red" if scene == 0 and at < 80 else "unknown",
    )
    places = {
        "vehicle": (ego_x - east + 20, 0.0, SPEED_MPS),
        "bicycle": (60 + at * 0.1, 3.5, 2.0),
        "pedestrian": (97.0, 4.0, 0.0),
    }
    for number, name in enumerate(CATEGORIES):
        if name == "pedestrian" and not 40 <= at < 80:
            continue
        x, y, speed = places.get(name, (30.0 + 5 * number, -4.0, None))
        length, width, height = SIZE_M.get(name, (0.5, 0.5, 0.5))
        still = speed is None
        put(
            "lidar_box",
            token(11, sweep * 10 + number),
            token(3, sweep),
            token(5, number),
            None,
            None,
            east + x,
            north + y,
            10.0 + height / 2,
            width,
            length,
            height,
            speed,
            None if still else 0.0,
            None,
            0.0,
            1.0,
        )
    if camera and sweep % 2 == 0:
        put(
            "image",
            token(12, sweep),
            None,
            None,
            token(2, sweep),
            token(9, 0),
            f"{LOG}/CAM_F0/{sweep:06d}.jpg",
            time_us + 20_000,
        )
        put(
            "image",
            token(13, sweep),
            None,
            None,
            token(2, sweep),
            token(9, 1),
            f"{LOG}/CAM_B0/{sweep:06d}.jpg",
            time_us,
        )


def write_folder(root, **options):
    """Log and map where nuPlan has them; returns the root."""
    root = Path(root)
    write_log(root / "data" / "cache" / "mini" / f"{LOG}.db", **options)
    write_map(root / "maps" / LOCATION / VERSION / "map.gpkg")
    index = {LOCATION: {"version": VERSION, "layers": {}}}
    (root / "maps" / "nuplan-maps-v1.0.json").write_text(json.dumps(index))
    return root
