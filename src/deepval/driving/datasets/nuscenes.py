"""nuScenes tables (plain JSON) -> scenes and truths, with the geometry of
docs/definitions.md, nuScenes.

Layout: `v1.0-mini/*.json` (or v1.0-trainval), where there are pictures
`samples/CAM_FRONT/*.jpg`. A unit is a scene, a frame is a keyframe (sample), named by
its token as in results files. No devkit is needed. Lane maps come from the map
expansion or from ScenarioNet records of the same scenes.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.basics.errors import InputError, InputWarning, quote
from deepval.basics.files import reading
from deepval.basics.files.canonical import read_json, read_toml
from deepval.driving.datasets.dataset import Dataset
from deepval.driving.datasets.logs.log import route_of
from deepval.driving.datasets.logs.scenarionet_records import (
    lane_map_of,
    read_record,
    records_below,
)
from deepval.driving.datasets.nuscenes_tables import (
    Annotations,
    Tables,
    read_tables,
    scene_names,
)
from deepval.driving.geometry.camera import Camera, cuboid_corners_m, image_boxes_px
from deepval.driving.geometry.classes import IN_NUSCENES
from deepval.driving.geometry.vehicle import (
    ZOE,
    ground_corners_m,
    ground_poses,
    headings_rad,
    transforms,
    wrap_rad,
)
from deepval.driving.world.lanes import LONGEST_M, Lane, LaneMap, Outline
from deepval.driving.world.objects import Objects, track_closing_mps
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Future, Truth

STEP_M = 1.0
CLOSEST_M = 1e-3
"""Points of a centreline closer than this to the previous point are left out."""
BENDS = {"L": 1.0, "R": -1.0, "S": 0.0}


def read_expansion(path: Path) -> LaneMap:
    """The lane map in a file of the map expansion."""
    content = read_json(path, "a nuScenes map expansion")
    try:
        return expansion_lane_map(content)
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        OverflowError,
    ) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: must be a nuScenes map expansion (version 1.3, JSON); it is not "
            f"({error!r}): get the file again."
        ) from error


def expansion_lane_map(content: Mapping[str, Any]) -> LaneMap:
    """The lane map of an expansion's content; every lane is a roadblock, since the
    expansion has no groups.
    """
    shapes = _Shapes(content)
    leads, arcs = content["connectivity"], content["arcline_path_3"]
    lanes = {}
    for layer in ("lane", "lane_connector"):
        for row in content[layer]:
            token = row["token"]
            if token not in arcs:
                continue
            after = leads.get(token, {}).get("outgoing", ())
            if not all(isinstance(lane, str) for lane in (token, *after)):
                raise ValueError(
                    "tokens of lanes must be texts; those "
                    f"of {token!r} and after it are not"
                )
            polygon = (
                shapes.outline(row["polygon_token"])
                if row.get("polygon_token")
                else np.zeros((0, 2))
            )
            lanes[token] = Lane(
                id=token,
                centreline_m=centreline_m(arcs[token]),
                roadblock=f"rb_{token}",
                polygon_m=polygon,
                successors=tuple(after),
                connector=layer == "lane_connector",
            )
    return LaneMap(
        lanes=lanes,
        drivable_m=shapes.outlines(content.get("carpark_area", ())),
        crosswalks_m=shapes.outlines(content.get("ped_crossing", ())),
        road_segments_m=shapes.outlines(content.get("road_segment", ())),
        dividers_m={
            kind: shapes.lines(content.get(f"{kind}_divider", ()))
            for kind in ("road", "lane")
        },
    )


def centreline_m(path: Sequence[Mapping[str, Any]]) -> Float[np.ndarray, "point 2"]:
    """Points at most `STEP_M` apart on a chain of arcs and straight pieces, with the
    end of each piece.
    """
    points = [np.asarray(path[0]["start_pose"][:2], float)[None]]
    for piece in path:
        pose = np.asarray(piece["start_pose"], float)
        for bend, length_m in zip(piece["shape"], piece["segment_length"], strict=True):
            if not 0 <= length_m <= LONGEST_M:
                raise ValueError(
                    "a piece of a centreline may "
                    f"be {LONGEST_M:g} m long; found {length_m!r}"
                )
            curvature = BENDS[bend] / piece["radius"]
            steps = max(int(np.ceil(length_m / STEP_M)), 1)
            along = _along(pose, curvature, np.linspace(0.0, length_m, steps + 1)[1:])
            points.append(along[:, :2])
            pose = along[-1]
    line = np.concatenate(points)
    apart = np.hypot(*np.diff(line, axis=0).T)
    return line[np.concatenate([[True], apart >= CLOSEST_M])]


def _along(
    pose: Float[np.ndarray, "3"],
    curvature: float,
    distance_m: Float[np.ndarray, "point"],
) -> Float[np.ndarray, "point 3"]:
    """Poses at distances along an arc; along a straight line where the curvature is
    0.
    """
    x, y, heading = pose
    headings = heading + curvature * distance_m
    if curvature:
        shift = (
            (np.sin(headings) - np.sin(heading)) / curvature,
            (np.cos(heading) - np.cos(headings)) / curvature,
        )
    else:
        shift = distance_m * np.cos(heading), distance_m * np.sin(heading)
    return np.stack([x + shift[0], y + shift[1], headings], axis=-1)


class _Shapes:
    """Nodes, lines and polygons by token."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.nodes = {
            row["token"]: (float(row["x"]), float(row["y"])) for row in content["node"]
        }
        self.polygons = {
            row["token"]: row["exterior_node_tokens"] for row in content["polygon"]
        }
        self.line_nodes = {row["token"]: row["node_tokens"] for row in content["line"]}

    def _points(self, tokens: Sequence[str]) -> Outline:
        return np.array([self.nodes[token] for token in tokens], float).reshape(-1, 2)

    def outline(self, token: str) -> Outline:
        """The exterior of a polygon."""
        return self._points(self.polygons[token])

    def outlines(self, rows: Sequence[Mapping[str, Any]]) -> tuple[Outline, ...]:
        """The exteriors of a layer's polygons."""
        return tuple(self.outline(row["polygon_token"]) for row in rows)

    def lines(self, rows: Sequence[Mapping[str, Any]]) -> tuple[Outline, ...]:
        """The lines of a layer; empty ones are left out."""
        polylines = [self._points(self.line_nodes[row["line_token"]]) for row in rows]
        return tuple(line for line in polylines if len(line))


CHANNEL = "CAM_FRONT"
IMAGE_PX = (1600, 900)
AHEAD_S = np.arange(1, 17) * 0.25
"""Times ahead of the logged future."""
STAMP_S = 1e-6
"""Resolution of time stamps."""


@dataclass(frozen=True)
class NuScenes(Dataset):
    """The scenes under a folder.

    Attributes:
        root: The folder that holds the folder of tables, such as `v1.0-trainval`.
        version: Name of the folder of tables; None takes the only one, or the only one
            that has the units in use.
        maps: Folder of lane maps: the map expansion (such as `singapore-onenorth.json`)
            or ScenarioNet records of the scenes; None takes `maps/expansion` below the
            root, if there is one. Other scenes have no lane map.
    """

    root: Path | str
    version: str | None = None
    maps: Path | str | None = None

    @property
    def name(self) -> str:
        """Name of the data set; it seeds the splits."""
        return "nuscenes"

    @property
    def classes(self) -> Mapping[str, str]:
        """Names of nuScenes and of COCO -> names of nuScenes."""
        return IN_NUSCENES

    @property
    def unit_lists(self) -> Mapping[str, Sequence[str]]:
        """Scenes of published parts, such as trainval01: those with pictures in the
        archive v1.0-trainval01_blobs.
        """
        return _scene_lists()

    @property
    def _folders(self) -> list[Path]:
        """The folders of tables: the root itself, or those below it that have a table
        of scenes.
        """
        root = Path(self.root)
        if reading.is_file(root / "scene.json"):
            return [root]
        folders = sorted(
            path
            for path in reading.find(root, self.version or "v1.0-*")
            if reading.is_folder(path)
        )
        return [
            path for path in folders if reading.is_file(path / "scene.json")
        ] or folders

    @property
    def folder(self) -> Path:
        """The folder with the tables."""
        folders = self._folders
        if len(folders) > 1:
            raise InputError(
                f"one folder of tables must be meant; {self.root} has "
                f"{', '.join(path.name for path in folders)}: give one as --root, "
                f"such as {folders[-1]}, or --units that only one of them has."
            )
        if not folders:
            raise InputError(
                "a nuScenes folder must hold a folder of tables such as "
                f"v1.0-trainval; {self.root} has none: give the folder that holds it."
            )
        return folders[0]

    def for_units(self, units: Sequence[str] | None) -> "NuScenes":
        """The data set with the only folder of tables that has all these scenes; itself
        if that does not decide.
        """
        folders = self._folders
        if units is None or len(folders) < 2:
            return self
        fitting = [path for path in folders if self.expand(units) <= scene_names(path)]
        return replace(self, version=fitting[0].name) if len(fitting) == 1 else self

    def files(self, unit: str) -> dict[str, Path]:
        """The tables, and the map of the scene where there is one."""
        tables = {
            f"{self.folder.name}/{path.name}": path
            for path in _tables(reading.resolve(self.folder)).paths
        }
        path = self._map_path(unit)
        return tables if path is None else tables | {f"maps/{path.name}": path}

    def _map_path(self, unit: str) -> Path | None:
        """The file with the lane map of a scene."""
        folder = (
            self.folder.parent / "maps" / "expansion"
            if self.maps is None
            else Path(self.maps)
        )
        expansion = (
            folder / f"{_tables(reading.resolve(self.folder)).location_of(unit)}.json"
        )
        if reading.is_file(expansion):
            return expansion
        return None if self.maps is None else records_below(folder).get(unit)

    def without_map(self, units: Sequence[str]) -> tuple[str, ...]:
        """Scenes that neither the map expansion nor a record covers."""
        return tuple(unit for unit in units if self._map_path(unit) is None)

    def unit_ids(self) -> tuple[str, ...]:
        """Names of the scenes, such as scene-0103."""
        scenes = tuple(sorted(_tables(reading.resolve(self.folder)).scenes))
        if not scenes:
            raise InputError(
                f"{self.folder}: the table scene must have a "
                "scene or more; it is empty."
            )
        return scenes

    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """One scene, and its reference."""
        scene, truth = read_unit(
            _tables(reading.resolve(self.folder)).of_scene(unit),
            unit,
            images=self.folder.parent,
        )
        path = self._map_path(unit)
        return (
            scene if path is None else on_road(scene, _lane_map(reading.resolve(path)))
        ), truth


@lru_cache(maxsize=1)
def _scene_lists() -> Mapping[str, Sequence[str]]:
    return read_toml(Path(__file__).with_name("nuscenes_scenes.toml"))


@lru_cache(maxsize=2)
def _tables(folder: Path) -> Tables:
    """The tables of a folder, read once in each process."""
    return read_tables(folder)


@lru_cache(maxsize=4)
def _lane_map(path: Path) -> LaneMap:
    """The lane map in a file, read once in each process."""
    return (
        read_expansion(path)
        if path.suffix == ".json"
        else lane_map_of(read_record(path))
    )


def on_road(scene: Scene, lane_map: LaneMap) -> Scene:
    """A scene with its lane map and the route of the driven path."""
    assert scene.world_from_ego is not None
    route = route_of(lane_map, ground_poses(scene.world_from_ego))
    return replace(
        scene, lane_map=lane_map, route=route.roadblocks, route_starts=route.starts
    )


def read_unit(tables: Tables, unit: str, *, images: Path) -> tuple[Scene, Truth]:
    """One scene, and its reference."""
    samples = tables.samples_of(unit)
    time_s = (samples.timestamp_us - samples.timestamp_us[0]) / 1e6
    world_from_ego = transforms(samples.rotation, samples.translation_m)
    camera, camera_pose = _camera(tables, unit)
    scene = Scene(
        unit=unit,
        frame_ids=samples.token,
        time_s=time_s,
        ego_speed_mps=ego_speed_mps(world_from_ego, time_s),
        cameras={CHANNEL: camera},
        image_paths=tuple(
            _picture(images, name) for name in tables.pictures_of(unit, CHANNEL)
        ),
        world_from_ego=world_from_ego,
        vehicle=ZOE,
    )
    labels = tables.annotations_of(unit)
    labels = labels.where(labels.points > 0)
    objects = reference_objects(labels, scene)
    boxes = _boxes_px(labels, scene, camera_pose)
    truth = Truth(
        unit=unit,
        objects=objects,
        box_px=boxes,
        occlusion=np.zeros(len(objects), dtype=int),
        ignored_frame=np.zeros(0, dtype=int),
        ignored_box_px=np.zeros((0, 4)),
        future=logged_future(labels, scene),
    )
    return scene, truth


def ego_speed_mps(
    world_from_ego: Float[np.ndarray, "time 4 4"], time_s: Float[np.ndarray, "time"]
) -> Float[np.ndarray, "time"]:
    """Distance since the previous keyframe along its heading, over time; at least 0,
    and 0 at the first keyframe.
    """
    moved_m, ahead = (
        np.diff(world_from_ego[:, :2, 3], axis=0),
        world_from_ego[:-1, :2, 0],
    )
    ahead = ahead / np.linalg.norm(ahead, axis=1, keepdims=True)
    along_m = (moved_m * ahead).sum(axis=1)
    return np.concatenate([[0.0], np.maximum(along_m / np.diff(time_s), 0.0)])


class EgoBoxes(NamedTuple):
    """Annotations in ego frames: ground corners, heights of bottom and top, and
    velocity.
    """

    corners_m: Float[np.ndarray, "obj 4 2"]
    low_m: Float[np.ndarray, "obj"]
    high_m: Float[np.ndarray, "obj"]
    velocity_mps: Float[np.ndarray, "obj 2"]


def boxes_in_ego_frame(
    labels: Annotations, ego_from_world: Float[np.ndarray, "obj 4 4"]
) -> EgoBoxes:
    """Every annotation in its own ego frame; boxes stand upright."""
    turn = ego_from_world[:, :3, :3]
    centre = np.einsum("oij,oj->oi", turn, labels.centre_m) + ego_from_world[:, :3, 3]
    yaw = headings_rad(turn @ transforms(labels.rotation, labels.centre_m)[:, :3, :3])
    corners = ground_corners_m(centre[:, :2], labels.size_m[:, :2], yaw_rad=yaw)
    half = labels.size_m[:, 2] / 2
    velocity = np.einsum("oij,oj->oi", turn, labels.velocity_mps)[:, :2]
    return EgoBoxes(corners, centre[:, 2] - half, centre[:, 2] + half, velocity)


def _ego_from_world(scene: Scene) -> Float[np.ndarray, "time 4 4"]:
    assert scene.world_from_ego is not None
    return np.linalg.inv(scene.world_from_ego)


def reference_objects(labels: Annotations, scene: Scene) -> Objects:
    """Annotated objects of every keyframe in its ego frame, with closing speed since
    the previous keyframe.
    """
    boxes = boxes_in_ego_frame(labels, _ego_from_world(scene)[labels.frame])
    near_m = boxes.corners_m[..., 0].min(axis=-1)
    closing = track_closing_mps(
        labels.frame, labels.track, range_m=near_m, dt_s=scene.dt_s
    )
    return Objects.of(
        len(scene),
        labels.frame,
        corners_m=boxes.corners_m,
        closing_mps=closing,
        names=labels.cls,
        track=labels.track,
        velocity_mps=boxes.velocity_mps,
    )


def _boxes_px(
    labels: Annotations, scene: Scene, camera_pose: Float[np.ndarray, "time 4 4"] | None
) -> Float[np.ndarray, "obj 4"]:
    """Image boxes, from the ego pose at the time of the picture."""
    pose = _ego_from_world(scene) if camera_pose is None else np.linalg.inv(camera_pose)
    seen = boxes_in_ego_frame(labels, pose[labels.frame])
    return image_boxes_px(
        scene.camera,
        cuboid_corners_m(
            seen.corners_m, bottom_m=seen.low_m, height_m=seen.high_m - seen.low_m
        ),
    )


class _Ahead(NamedTuple):
    """A time after every keyframe: the keyframes around it, and its position between
    them (1: at the later one).
    """

    before: Int[np.ndarray, "time"]
    after: Int[np.ndarray, "time"]
    share: Float[np.ndarray, "time"]
    valid: Bool[np.ndarray, "time"]


def _ahead(time_s: Float[np.ndarray, "time"], ahead_s: float) -> _Ahead:
    target_s = time_s + ahead_s
    after = np.minimum(np.searchsorted(time_s, target_s - STAMP_S / 2), len(time_s) - 1)
    exact = np.abs(time_s[after] - target_s) < STAMP_S / 2
    valid = exact | (target_s < time_s[-1])
    before = np.where(exact, after, np.maximum(after - 1, 0))
    step_s = time_s[after] - time_s[before]
    share = np.where(
        step_s > 0, (target_s - time_s[before]) / np.where(step_s > 0, step_s, 1.0), 1.0
    )
    return _Ahead(before, after, np.where(valid, share, 1.0), valid)


def logged_future(labels: Annotations, scene: Scene) -> Future:
    """Poses of ego and others at times up to 4 s after each keyframe, linear between
    keyframes, in its ego frame.
    """
    ahead = [_ahead(scene.time_s, ahead_s) for ahead_s in AHEAD_S]
    pose = np.stack([_driven(scene, time) for time in ahead], axis=1)
    others = tuple(
        _objects_ahead(labels, _ego_from_world(scene), time) for time in ahead
    )
    return Future(
        AHEAD_S, pose, np.stack([time.valid for time in ahead], axis=1), others
    )


def _driven(scene: Scene, ahead: _Ahead) -> Float[np.ndarray, "time 3"]:
    """Position and heading of the vehicle, NaN where they were not logged."""
    assert scene.world_from_ego is not None
    ends = scene.world_from_ego[np.stack([ahead.before, ahead.after])]
    first, last = ground_poses(_ego_from_world(scene) @ ends)
    step = last - first
    step[:, 2] = wrap_rad(step[:, 2])
    return np.where(ahead.valid[:, None], first + ahead.share[:, None] * step, np.nan)


def _objects_ahead(
    labels: Annotations, ego_from_world: Float[np.ndarray, "time 4 4"], ahead: _Ahead
) -> Objects:
    """The objects annotated at both keyframes around a time, in the ego frame of each
    keyframe.
    """
    row = np.full((len(ego_from_world), labels.track.max(initial=-1) + 1), -1)
    row[labels.frame, labels.track] = np.arange(len(labels))
    first, last = row[ahead.before], row[ahead.after]
    frame, track = np.nonzero((first >= 0) & (last >= 0) & ahead.valid[:, None])
    between = labels.where(first[frame, track]).towards(
        labels.where(last[frame, track]), ahead.share[frame]
    )
    boxes = boxes_in_ego_frame(between, ego_from_world[frame])
    return Objects.of(
        len(ego_from_world),
        frame,
        corners_m=boxes.corners_m,
        closing_mps=np.zeros(len(frame)),
        names=between.cls,
        track=track,
        velocity_mps=boxes.velocity_mps,
    )


def _camera(
    tables: Tables, unit: str
) -> tuple[Camera, Float[np.ndarray, "time 4 4"] | None]:
    """The front camera of a scene, and the ego poses at its pictures; None where the
    tables lack a picture.
    """
    calibration, rotation, translation = tables.camera_of(unit, CHANNEL)
    turn = transforms(
        np.array(calibration.rotation, float), np.array(calibration.translation, float)
    )
    k = np.array(calibration.intrinsic, float)
    camera = Camera(k[0, 0], k[1, 1], k[0, 2], k[1, 2], turn, 0.0, *IMAGE_PX)
    if rotation is None or translation is None:
        _note_missing_pictures(tables.folder)
        return camera, None
    return camera, transforms(rotation, translation)


@lru_cache(maxsize=2)
def _note_missing_pictures(folder: Path) -> None:
    """Warn, once per folder, that a calibration is not the scene's own."""
    warnings.warn(
        f"some scenes have no {CHANNEL} pictures in the tables of {folder}: the first "
        f"{CHANNEL} calibration stands in.",
        InputWarning,
        stacklevel=3,
    )


def _picture(root: Path, name: str | None) -> Path | None:
    """A picture's file, if it exists; raises where a table names a file outside the
    root.
    """
    if not name:
        return None
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise InputError(
            f"pictures of nuScenes must lie below {root}; the table "
            f"sample_data names {quote(name)}."
        )
    return root / name if reading.is_file(root / name) else None
