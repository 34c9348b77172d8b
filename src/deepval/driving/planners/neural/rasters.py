"""Road and boxes around a vehicle -> the learned planner's raster: 5 channels of 0 and
1 on its grid.

Channels: road (road segments, then lanes, filled), road dividers, lane dividers (lines
one cell thick), boxes of all other agents, the vehicle's own box. Drawn by OpenCV's
fillPoly and polylines with their usual arguments, as published.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.basics.errors import InputError, library
from deepval.driving.geometry.vehicle import Vehicle, ground_poses
from deepval.driving.planners.neural.plan_metrics import PlanGrid
from deepval.driving.world.lanes import Lane, LaneMap, Outline
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import Scene

ROAD, ROAD_DIVIDER, LANE_DIVIDER, OTHERS, EGO = range(5)
STRETCH_M = 70.0
"""Road is drawn where it meets the square that reaches this far from the vehicle along
the world's axes.
"""
PUBLISHED_ORDER = [2, 1, 0, 3]
"""From our corners (front left, front right, rear right, rear left) to the published
order; lines depend on it.
"""


@dataclass(frozen=True, eq=False)
class RoadDrawing:
    """Shapes of a road in the world frame and in drawing order: outlines to fill, lines
    to draw.
    """

    road_segments_m: tuple[Outline, ...] = ()
    lanes_m: tuple[Outline, ...] = ()
    road_dividers_m: tuple[Outline, ...] = ()
    lane_dividers_m: tuple[Outline, ...] = ()

    def __post_init__(self) -> None:
        every = (
            *self.road_segments_m,
            *self.lanes_m,
            *self.road_dividers_m,
            *self.lane_dividers_m,
        )
        if not all(np.isfinite(points).all() for points in every):
            raise InputError(
                "a road to draw must be finite; found NaN or infinity "
                "in its outlines or lines."
            )


def road_drawing(lane_map: LaneMap) -> RoadDrawing:
    """The shapes of a lane map: road segments, or connectors where it has none; lanes;
    dividers by kind.

    A lane without an outline is drawn as its middle, widened to both sides and cut off
    flat at its ends.
    """
    lanes = list(lane_map.lanes.values())
    segments = lane_map.road_segments_m or tuple(
        outline_m(lane) for lane in lanes if lane.connector
    )
    return RoadDrawing(
        road_segments_m=segments,
        lanes_m=tuple(outline_m(lane) for lane in lanes if not lane.connector),
        road_dividers_m=tuple(lane_map.dividers_m.get("road", ())),
        lane_dividers_m=tuple(lane_map.dividers_m.get("lane", ())),
    )


def outline_m(lane: Lane) -> Outline:
    """A lane's outline; where the map has none, the outline of the ground within half
    its width of its middle.
    """
    if len(lane.polygon_m):
        return lane.polygon_m
    # shapely is loaded only for maps whose lanes have no outline.
    from deepval.driving.planners.roads import lane_polygon

    return np.asarray(lane_polygon(lane).exterior.coords, dtype=float)


def road_raster(
    drawing: RoadDrawing, pose: Float[np.ndarray, "3"], *, grid: PlanGrid | None = None
) -> Bool[np.ndarray, "3 x y"]:
    """The first three channels around a vehicle at a pose (x, y, heading) in the
    world.
    """
    grid = grid or PlanGrid()
    layers = np.zeros((3, grid.cells, grid.cells))
    for outlines in (drawing.road_segments_m, drawing.lanes_m):
        _fill(
            layers[ROAD],
            [
                to_vehicle_frame(shape_m, pose)
                for shape_m in outlines
                if meets_square(shape_m, pose[:2])
            ],
            grid,
        )
    for layer, lines in (
        (ROAD_DIVIDER, drawing.road_dividers_m),
        (LANE_DIVIDER, drawing.lane_dividers_m),
    ):
        _draw(
            layers[layer],
            [to_vehicle_frame(shape_m, pose) for shape_m in lines if len(shape_m)],
            grid,
        )
    return layers > 0


def box_raster(
    corners_m: Float[np.ndarray, "obj 4 2"], *, grid: PlanGrid | None = None
) -> Bool[np.ndarray, "x y"]:
    """One channel with filled boxes, from their corners in the vehicle's frame.

    Corners are front left, front right, rear right, rear left, as everywhere in this
    package.
    """
    grid = grid or PlanGrid()
    if not np.isfinite(corners_m).all():
        raise InputError(
            "boxes to draw must have finite corners; found NaN or infinity."
        )
    layer = np.zeros((grid.cells, grid.cells))
    _fill(layer, corners_m[:, PUBLISHED_ORDER], grid)
    return layer > 0


def own_corners_m(length_m: float, width_m: float) -> Float[np.ndarray, "1 4 2"]:
    """The vehicle's own box, drawn around its origin: for the ego vehicle around its
    rear axle, as published.
    """
    half = np.array([length_m, width_m]) / 2
    return (np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]]) * half)[None]


def meets_square(
    outline_m: Outline, centre_m: Float[np.ndarray, "2"], *, reach_m: float = STRETCH_M
) -> bool:
    """Whether a filled outline and the square around a point have a point in common."""
    points = outline_m - centre_m
    if (
        not len(points)
        or (points.min(axis=0) > reach_m).any()
        or (points.max(axis=0) < -reach_m).any()
    ):
        return False
    if (np.abs(points) <= reach_m).all(axis=1).any():
        return True
    after = np.roll(points, -1, axis=0)
    return _crosses(points, after, reach_m) or _holds_origin(points, after)


def to_vehicle_frame(points_m: Outline, pose: Float[np.ndarray, "3"]) -> Outline:
    """Points of the world in the vehicle's frame."""
    cos, sin = np.cos(pose[2]), np.sin(pose[2])
    return (points_m - pose[:2]) @ np.array([[cos, -sin], [sin, cos]])


def _crosses(
    begin: Float[np.ndarray, "edge 2"], end: Float[np.ndarray, "edge 2"], reach_m: float
) -> bool:
    """Whether an edge whose ends are outside the square passes through it: each pair of
    sides clips it.
    """
    step = end - begin
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = (-reach_m - begin) / step, (reach_m - begin) / step
    level = step == 0
    inside = np.abs(begin) <= reach_m
    low = np.where(level, np.where(inside, 0.0, 2.0), np.minimum(first, second)).max(
        axis=1
    )
    high = np.where(level, np.where(inside, 1.0, -1.0), np.maximum(first, second)).min(
        axis=1
    )
    return bool((np.maximum(low, 0.0) <= np.minimum(high, 1.0)).any())


def _holds_origin(
    begin: Float[np.ndarray, "edge 2"], end: Float[np.ndarray, "edge 2"]
) -> bool:
    """Whether the square lies wholly within the outline: no edge enters it, and its
    centre is inside.
    """
    spans = (begin[:, 1] > 0) != (end[:, 1] > 0)
    a, b = begin[spans], end[spans]
    x = a[:, 0] - a[:, 1] * (b[:, 0] - a[:, 0]) / (b[:, 1] - a[:, 1])
    return bool(np.count_nonzero(x > 0) % 2)


def _fill(
    layer: Float[np.ndarray, "x y"], outlines_m: Iterable[np.ndarray], grid: PlanGrid
) -> None:
    opencv = library("cv2", purpose="The learned planner", extra="torch")
    for cells in _inside(outlines_m, grid):
        opencv.fillPoly(layer, [cells], 1.0)


def _draw(
    layer: Float[np.ndarray, "x y"], lines_m: Iterable[np.ndarray], grid: PlanGrid
) -> None:
    opencv = library("cv2", purpose="The learned planner", extra="torch")
    for cells in _inside(lines_m, grid):
        opencv.polylines(layer, [cells], False, 1.0)  # noqa: FBT003 (OpenCV's own order: open lines)


def _inside(
    shapes_m: Iterable[np.ndarray], grid: PlanGrid
) -> Iterable[Int[np.ndarray, "point 2"]]:
    """Shapes as OpenCV takes them, (y cell, x cell), without shapes that reach no cell
    of the grid.
    """
    for shape in shapes_m:
        cells = grid.cell_of(shape)
        if (cells.max(axis=0) >= 0).all() and (cells.min(axis=0) < grid.cells).all():
            yield np.ascontiguousarray(cells[:, ::-1])


def road_rasters(scene: Scene, grid: PlanGrid) -> list[Bool[np.ndarray, "3 x y"]]:
    """The channels of the road, frame by frame."""
    drawing = scene_drawing(scene)
    return [road_raster(drawing, pose, grid=grid) for pose in ego_poses(scene)]


def scene_rasters(
    scene: Scene,
    objects: Objects,
    grid: PlanGrid,
    *,
    roads: Sequence[Bool[np.ndarray, "3 x y"]] | None = None,
) -> Iterator[Bool[np.ndarray, "5 x y"]]:
    """The raster of each frame, with the objects of that frame; the road is drawn where
    `roads` is None.
    """
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
    """All channels, from the road channels, the agents' corners in the vehicle's frame,
    and its length and width.
    """
    return np.stack(
        [
            *road,
            box_raster(others_m, grid=grid),
            box_raster(own_corners_m(*own_size_m), grid=grid),
        ]
    )


def scene_drawing(scene: Scene) -> RoadDrawing:
    """The shapes of the scene's map; InputError without a map."""
    if scene.lane_map is None:
        raise InputError(
            f"unit {scene.unit}: the learned planner draws the road, and there is no "
            "lane map: give the data set's map, or name the units that have one."
        )
    return _cached_drawing(scene.lane_map)


def ego_poses(scene: Scene) -> Float[np.ndarray, "time 3"]:
    """Pose (x, y, heading) of the ego vehicle in the world, frame by frame; InputError
    without poses.
    """
    if scene.world_from_ego is None:
        raise InputError(
            f"unit {scene.unit}: the learned planner needs the vehicle's poses in the "
            "world; found none."
        )
    pose = scene.world_from_ego
    return ground_poses(pose)


def own_size_m(scene: Scene) -> tuple[float, float]:
    """Length and width of the ego vehicle; InputError where the scene lacks them."""
    vehicle: Vehicle | None = scene.vehicle
    if vehicle is None:
        raise InputError(
            f"unit {scene.unit}: the learned planner draws the ego vehicle, whose "
            "size is not known."
        )
    return vehicle.length_m, vehicle.width_m


@lru_cache(maxsize=4)
def _cached_drawing(lane_map: LaneMap) -> RoadDrawing:
    return road_drawing(lane_map)
