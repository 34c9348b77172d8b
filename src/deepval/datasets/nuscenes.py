"""nuScenes tables (plain JSON) -> scenes and truths, with the geometry of docs/definitions.md, nuScenes.

Layout: `v1.0-mini/*.json` (or v1.0-trainval), where there are pictures `samples/CAM_FRONT/*.jpg`. A unit is a scene, a
frame is a keyframe (sample), named by its token as in results files. No devkit is needed. Lane maps come from the map
expansion or from ScenarioNet records of the same scenes.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Float
from deepval.datasets.dataset import Dataset
from deepval.datasets.logs.log import route_of
from deepval.datasets.logs.scenarionet_records import lane_map_of, read_record, records_below
from deepval.datasets.nuscenes_tables import Annotations, Tables, read_tables
from deepval.errors import InputError, InputWarning, quote
from deepval.files import reading
from deepval.files.canonical import read_json
from deepval.geometry.camera import Camera, cuboid_corners_m, image_boxes_px
from deepval.geometry.classes import IN_NUSCENES
from deepval.geometry.vehicle import ZOE, ground_corners_m, ground_poses, headings_rad, transforms
from deepval.world.lanes import LONGEST_M, Lane, LaneMap, Outline
from deepval.world.objects import Objects, track_closing_mps
from deepval.world.scene import Scene
from deepval.world.truth import Future, Truth

STEP_M = 1.0
CLOSEST_M = 1e-3
"""Points of a centreline closer than this to the previous point are left out."""
BENDS = {"L": 1.0, "R": -1.0, "S": 0.0}


def read_expansion(path: Path) -> LaneMap:
    """The lane map in a file of the map expansion."""
    content = read_json(path, "a nuScenes map expansion")
    try:
        return expansion_lane_map(content)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: must be a nuScenes map expansion (version 1.3, JSON); it is not ({error!r}): get the file again."
        ) from error


def expansion_lane_map(content: Mapping[str, Any]) -> LaneMap:
    """The lane map of an expansion's content; every lane is a roadblock, since the expansion has no groups."""
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
                raise ValueError(f"tokens of lanes must be texts; those of {token!r} and after it are not")
            polygon = shapes.outline(row["polygon_token"]) if row.get("polygon_token") else np.zeros((0, 2))
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
        dividers_m={kind: shapes.lines(content.get(f"{kind}_divider", ())) for kind in ("road", "lane")},
    )


def centreline_m(path: Sequence[Mapping[str, Any]]) -> Float[np.ndarray, "point 2"]:
    """Points at most `STEP_M` apart on a chain of arcs and straight pieces, with the end of each piece."""
    points = [np.asarray(path[0]["start_pose"][:2], float)[None]]
    for piece in path:
        pose = np.asarray(piece["start_pose"], float)
        for bend, length_m in zip(piece["shape"], piece["segment_length"], strict=True):
            if not 0 <= length_m <= LONGEST_M:
                raise ValueError(f"a piece of a centreline may be {LONGEST_M:g} m long; found {length_m!r}")
            curvature = BENDS[bend] / piece["radius"]
            steps = max(int(np.ceil(length_m / STEP_M)), 1)
            along = _along(pose, curvature, np.linspace(0.0, length_m, steps + 1)[1:])
            points.append(along[:, :2])
            pose = along[-1]
    line = np.concatenate(points)
    apart = np.hypot(*np.diff(line, axis=0).T)
    return line[np.concatenate([[True], apart >= CLOSEST_M])]


def _along(
    pose: Float[np.ndarray, "3"], curvature: float, distance_m: Float[np.ndarray, "point"]
) -> Float[np.ndarray, "point 3"]:
    """Poses at distances along an arc; along a straight line where the curvature is 0."""
    x, y, heading = pose
    headings = heading + curvature * distance_m
    if curvature:
        shift = (np.sin(headings) - np.sin(heading)) / curvature, (np.cos(heading) - np.cos(headings)) / curvature
    else:
        shift = distance_m * np.cos(heading), distance_m * np.sin(heading)
    return np.stack([x + shift[0], y + shift[1], headings], axis=-1)


class _Shapes:
    """Nodes, lines and polygons by token."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.nodes = {row["token"]: (float(row["x"]), float(row["y"])) for row in content["node"]}
        self.polygons = {row["token"]: row["exterior_node_tokens"] for row in content["polygon"]}
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
STEP_S, AHEAD = 0.5, 8
"""Keyframes are half a second apart; the logged future is the next eight keyframes."""


@dataclass(frozen=True)
class NuScenes(Dataset):
    """The scenes under a folder.

    Attributes:
        root: The folder that holds the folder of tables, such as `v1.0-trainval`.
        version: Name of the folder of tables; None takes the only one.
        maps: Folder of lane maps: the map expansion (such as `singapore-onenorth.json`) or ScenarioNet records of the
            scenes; None takes `maps/expansion` below the root, if there is one. Other scenes have no lane map.
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
    def words(self) -> tuple[str, ...]:
        """The folder of lane maps, as a command line option."""
        return () if self.maps is None else (f"--maps {self.maps}",)

    @property
    def folder(self) -> Path:
        """The folder with the tables."""
        root = Path(self.root)
        folders = sorted(path for path in reading.find(root, "v1.0-*") if reading.is_folder(path))
        if self.version is not None:
            folders = [path for path in folders if path.name == self.version]
        if reading.is_file(root / "scene.json"):
            folders = [root]
        if len(folders) != 1:
            names = ", ".join(path.name for path in folders) or "none"
            raise InputError(
                f"a nuScenes folder must hold one folder of tables such as v1.0-trainval; {root} has {names}: "
                "give that folder itself."
            )
        return folders[0]

    def files(self, unit: str) -> dict[str, Path]:
        """The tables, and the map of the scene where there is one."""
        tables = {f"{self.folder.name}/{path.name}": path for path in _tables(self.folder).paths}
        path = self._map_path(unit)
        return tables if path is None else tables | {f"maps/{path.name}": path}

    def _map_path(self, unit: str) -> Path | None:
        """The file with the lane map of a scene."""
        folder = self.folder.parent / "maps" / "expansion" if self.maps is None else Path(self.maps)
        expansion = folder / f"{_tables(self.folder).location_of(unit)}.json"
        if reading.is_file(expansion):
            return expansion
        return None if self.maps is None else records_below(folder).get(unit)

    def without_map(self, units: Sequence[str]) -> tuple[str, ...]:
        """Scenes that neither the map expansion nor a record covers."""
        return tuple(unit for unit in units if self._map_path(unit) is None)

    def unit_ids(self) -> tuple[str, ...]:
        """Names of the scenes, such as scene-0103."""
        scenes = tuple(sorted(_tables(self.folder).scenes))
        if not scenes:
            raise InputError(f"{self.folder}: the table scene must have a scene or more; it is empty.")
        return scenes

    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """One scene, and its reference."""
        scene, truth = read_unit(_tables(self.folder), unit, images=self.folder.parent)
        path = self._map_path(unit)
        return (scene if path is None else on_road(scene, _lane_map(path))), truth


@lru_cache(maxsize=2)
def _tables(folder: Path) -> Tables:
    """The tables of a folder, read once in each process."""
    return read_tables(folder)


@lru_cache(maxsize=4)
def _lane_map(path: Path) -> LaneMap:
    """The lane map in a file, read once in each process."""
    return read_expansion(path) if path.suffix == ".json" else lane_map_of(read_record(path))


def on_road(scene: Scene, lane_map: LaneMap) -> Scene:
    """A scene with its lane map and the route of the driven path."""
    assert scene.world_from_ego is not None
    route = route_of(lane_map, ground_poses(scene.world_from_ego))
    return replace(scene, lane_map=lane_map, route=route.roadblocks, route_starts=route.starts)


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
        image_paths=tuple(_picture(images, name) for name in tables.pictures_of(unit, CHANNEL)),
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
    """Distance since the previous keyframe along its heading, over time; at least 0, and 0 at the first keyframe."""
    moved_m, ahead = np.diff(world_from_ego[:, :2, 3], axis=0), world_from_ego[:-1, :2, 0]
    ahead = ahead / np.linalg.norm(ahead, axis=1, keepdims=True)
    along_m = (moved_m * ahead).sum(axis=1)
    return np.concatenate([[0.0], np.maximum(along_m / np.diff(time_s), 0.0)])


class EgoBoxes(NamedTuple):
    """Annotations in ego frames: ground corners, heights of bottom and top, and velocity."""

    corners_m: Float[np.ndarray, "obj 4 2"]
    low_m: Float[np.ndarray, "obj"]
    high_m: Float[np.ndarray, "obj"]
    velocity_mps: Float[np.ndarray, "obj 2"]


def boxes_in_ego_frame(labels: Annotations, ego_from_world: Float[np.ndarray, "obj 4 4"]) -> EgoBoxes:
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
    """Annotated objects of every keyframe in its ego frame, with closing speed since the previous keyframe."""
    boxes = boxes_in_ego_frame(labels, _ego_from_world(scene)[labels.frame])
    near_m = boxes.corners_m[..., 0].min(axis=-1)
    closing = track_closing_mps(labels.frame, labels.track, range_m=near_m, dt_s=scene.dt_s)
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
        scene.camera, cuboid_corners_m(seen.corners_m, bottom_m=seen.low_m, height_m=seen.high_m - seen.low_m)
    )


def logged_future(labels: Annotations, scene: Scene) -> Future:
    """Poses of ego and others at the next eight keyframes, by index, in the ego frame of each keyframe."""
    assert scene.world_from_ego is not None
    frames, ego_from_world = len(scene), _ego_from_world(scene)
    later = np.arange(frames)[:, None] + np.arange(1, AHEAD + 1)
    valid = later < frames
    world_from_later = scene.world_from_ego[np.minimum(later, frames - 1)]
    relative = ego_from_world[:, None] @ world_from_later
    pose = ground_poses(relative)
    pose[~valid] = np.nan
    others = tuple(_objects_ahead(labels, ego_from_world, steps) for steps in range(1, AHEAD + 1))
    return Future(np.arange(1, AHEAD + 1) * STEP_S, pose, valid, others)


def _objects_ahead(labels: Annotations, ego_from_world: Float[np.ndarray, "time 4 4"], steps: int) -> Objects:
    """The objects `steps` keyframes later, in the ego frame of each keyframe."""
    later = labels.where(labels.frame >= steps)
    frame = later.frame - steps
    boxes = boxes_in_ego_frame(later, ego_from_world[frame])
    return Objects.of(
        len(ego_from_world),
        frame,
        corners_m=boxes.corners_m,
        closing_mps=np.zeros(len(later)),
        names=later.cls,
        track=later.track,
        velocity_mps=boxes.velocity_mps,
    )


def _camera(tables: Tables, unit: str) -> tuple[Camera, Float[np.ndarray, "time 4 4"] | None]:
    """The front camera of a scene, and the ego poses at its pictures; None where the tables lack a picture."""
    calibration, rotation, translation = tables.camera_of(unit, CHANNEL)
    turn = transforms(np.array(calibration.rotation, float), np.array(calibration.translation, float))
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
        f"some scenes have no {CHANNEL} pictures in the tables of {folder}: the first {CHANNEL} calibration stands in.",
        InputWarning,
        stacklevel=3,
    )


def _picture(root: Path, name: str | None) -> Path | None:
    """A picture's file, if it exists; raises where a table names a file outside the root."""
    if not name:
        return None
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise InputError(f"pictures of nuScenes must lie below {root}; the table sample_data names {quote(name)}.")
    return root / name if reading.is_file(root / name) else None
