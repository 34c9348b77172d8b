"""A scene and objects in it -> the raster of every frame: what the learned planner sees of them."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from deepval.arrays import Bool, Float
from deepval.errors import InputError
from deepval.geometry.rotations import ground_poses
from deepval.geometry.vehicle import Vehicle
from deepval.planners.learned.grid import PlanGrid
from deepval.planners.learned.rasters import RoadDrawing, box_raster, own_corners_m, road_drawing, road_raster
from deepval.world.lanes import LaneMap
from deepval.world.objects import Objects
from deepval.world.scene import Scene


def road_rasters(scene: Scene, grid: PlanGrid) -> list[Bool[np.ndarray, "3 x y"]]:
    """The channels of the road, frame by frame."""
    drawing = drawn_map(scene)
    return [road_raster(drawing, pose, grid=grid) for pose in ego_poses(scene)]


def scene_rasters(
    scene: Scene, objects: Objects, grid: PlanGrid, *, roads: Sequence[Bool[np.ndarray, "3 x y"]] | None = None
) -> Iterator[Bool[np.ndarray, "5 x y"]]:
    """The raster of each frame, with the objects of that frame; the road is drawn unless it was."""
    own = own_size_m(scene)
    bounds = np.searchsorted(objects.frame, np.arange(len(scene) + 1))
    for frame, road in enumerate(road_rasters(scene, grid) if roads is None else roads):
        seen = objects.corners_m[bounds[frame] : bounds[frame + 1]]
        yield whole_raster(road, seen, own, grid=grid)


def whole_raster(
    road: Bool[np.ndarray, "3 x y"],
    others_m: Float[np.ndarray, "obj 4 2"],
    own_size_m: tuple[float, float],
    *,
    grid: PlanGrid,
) -> Bool[np.ndarray, "5 x y"]:
    """All channels, from those of the road, the others' corners in the vehicle's frame, and its length and width."""
    return np.stack([*road, box_raster(others_m, grid=grid), box_raster(own_corners_m(*own_size_m), grid=grid)])


def drawn_map(scene: Scene) -> RoadDrawing:
    """What is drawn of the scene's map, which it must have."""
    if scene.lane_map is None:
        raise InputError(
            f"unit {scene.unit}: the learned planner draws the road, and there is no lane map: give the data set's "
            "map, or name the units that have one."
        )
    return _drawn(scene.lane_map)


def ego_poses(scene: Scene) -> Float[np.ndarray, "time 3"]:
    """Pose (x, y, heading) of the ego vehicle in the world, frame by frame; the scene must know it."""
    if scene.world_from_ego is None:
        raise InputError(f"unit {scene.unit}: the learned planner needs the vehicle's poses in the world; found none.")
    pose = scene.world_from_ego
    return ground_poses(pose)


def own_size_m(scene: Scene) -> tuple[float, float]:
    """Length and width of the ego vehicle, which the scene must say."""
    vehicle: Vehicle | None = scene.vehicle
    if vehicle is None:
        raise InputError(f"unit {scene.unit}: the learned planner draws the ego vehicle, whose size is not known.")
    return vehicle.length_m, vehicle.width_m


@lru_cache(maxsize=4)
def _drawn(lane_map: LaneMap) -> RoadDrawing:
    return road_drawing(lane_map)
