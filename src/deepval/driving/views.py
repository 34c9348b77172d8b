"""Scene and cheap report -> View: all that an allocator may read before escalation, by
unit or frame by frame.

A view holds the scene (ego motion, calibration, time, images) and the cheap mode's
report. If the placing observes, it also holds the objects that the planner receives for
that report. It contains no other reference and no higher mode's output, so code that
reads a view cannot leak an answer. Allocators read only a few numbers from pictures:
brightness, contrast, edges, sharpness, change since the previous picture.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError, library
from deepval.basics.files import reading
from deepval.basics.files.reading import check_pixels
from deepval.driving.geometry.camera import Camera
from deepval.driving.geometry.vehicle import Vehicle
from deepval.driving.perception.reported.detections import (
    Calibration,
    Detections,
    ScoreKind,
)
from deepval.driving.world.lanes import LaneMap
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import FASTEST_MPS, Scene

FARTHEST_M = 80.0
OFF_ROUTE_M = 5.0


def connectors_m(scene: Scene) -> Float[np.ndarray, "time"]:
    """Way along the route to the next connector at each frame, in m; NaN without a map,
    a pose or a near route.
    """
    way_m = np.full(len(scene), np.nan)
    if scene.lane_map is None or scene.world_from_ego is None:
        return way_m
    starts = (
        np.zeros(len(scene), dtype=int)
        if scene.route_starts is None
        else scene.route_starts
    )
    ends = (
        np.full(len(scene), len(scene.route))
        if scene.route_ends is None
        else scene.route_ends
    )
    pieces = {
        end: _pieces(scene.lane_map, scene.route[:end])
        for end in np.unique(ends).tolist()
    }
    for frame, pose in enumerate(scene.world_from_ego):
        way_m[frame] = _way_m(pieces[int(ends[frame])], pose, int(starts[frame]))
    return way_m


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Straight pieces of the route's lanes: start point, vector, and `block`, the index
    of the roadblock in the route.

    `rest_m` is the length of the lane from the start of the piece to its end,
    `connector` whether the lane is a connector, `beyond_m` the way from the end of the
    roadblock to the next connector.
    """

    begin_m: Float[np.ndarray, "piece 2"]
    along_m: Float[np.ndarray, "piece 2"]
    block: Int[np.ndarray, "piece"]
    rest_m: Float[np.ndarray, "piece"]
    connector: Bool[np.ndarray, "piece"]
    beyond_m: Float[np.ndarray, "piece"]


def _pieces(lane_map: LaneMap, route: tuple[str, ...]) -> _Pieces:
    begin, along, block, rest, connector, beyond = (
        [np.zeros((0, 2))],
        [np.zeros((0, 2))],
        [],
        [],
        [],
        [],
    )
    further_m = inf
    # Backwards, so that the way beyond a roadblock is complete when its pieces are
    # added.
    for number in reversed(range(len(route))):
        lanes = [
            lane_map.lanes[lane] for lane in lane_map.roadblocks.get(route[number], ())
        ]
        lengths = []
        for lane in lanes:
            steps = np.diff(lane.centreline_m, axis=0)
            length = np.hypot(*steps.T)
            lengths.append(float(length.sum()))
            begin.append(lane.centreline_m[:-1])
            along.append(steps)
            block += [number] * len(steps)
            rest += (
                lengths[-1] - np.concatenate([[0.0], np.cumsum(length)[:-1]])
            ).tolist()
            connector += [lane.connector] * len(steps)
            beyond += [further_m] * len(steps)
        # The map lacks this roadblock, so the way through it has no known length.
        further_m = (
            inf
            if not lanes
            else 0.0
            if any(lane.connector for lane in lanes)
            else lengths[0] + further_m
        )
    return _Pieces(
        np.concatenate(begin),
        np.concatenate(along),
        np.array(block, dtype=int),
        np.array(rest, dtype=float),
        np.array(connector, dtype=bool),
        np.array(beyond, dtype=float),
    )


def _way_m(pieces: _Pieces, pose: Float[np.ndarray, "4 4"], start: int) -> float:
    """Way to the next connector from a pose, on the route from roadblock number `start`
    on.
    """
    offset = pose[:2, 3] - pieces.begin_m
    square = (pieces.along_m**2).sum(axis=1)
    share = np.divide(
        (offset * pieces.along_m).sum(axis=1),
        square,
        out=np.zeros(len(square)),
        where=square > 0,
    )
    share = np.clip(share, 0.0, 1.0)
    apart_m = np.hypot(*(offset - share[:, None] * pieces.along_m).T)
    leads = (pieces.along_m @ pose[:2, 0] > 0) & (pieces.block >= start)
    apart_m = np.where(leads, apart_m, inf)
    if not (apart_m <= OFF_ROUTE_M).any():
        return np.nan
    # Among equally near pieces (the end of a lane is the start of the next), take the
    # one farther along the route.
    nearest = np.flatnonzero(apart_m == apart_m.min())
    here = int(nearest[np.lexsort((pieces.rest_m[nearest], -pieces.block[nearest]))[0]])
    if pieces.connector[here]:
        return 0.0
    left_m = pieces.rest_m[here] - share[here] * np.sqrt(square[here])
    return float(min(left_m + pieces.beyond_m[here], FARTHEST_M))


LARGEST_PX = 1e7
"""Largest edge coordinate of a box: no picture is larger, so a box beyond it is a fault
of the detector.
"""


@dataclass(frozen=True)
class CheapMode:
    """How to read the cheap mode's report.

    Attributes:
        scores: The kind of its scores.
        threshold: Boxes with at least this score are used downstream; None uses all
            boxes.
        calibration: The map from raw scores to probabilities, fitted on training units;
            None if there is none.
        observes: Whether views hold the planner's objects for the report, and
            allocators read these, not the boxes.
    """

    scores: ScoreKind = "probabilities"
    threshold: float | None = None
    calibration: Calibration | None = None
    observes: bool = False

    def __post_init__(self) -> None:
        if self.scores == "none" and self.threshold is not None:
            raise InputError(
                "a cheap mode without scores cannot have a threshold: leave the "
                "threshold out."
            )
        if self.calibration is not None and self.scores != "raw":
            raise InputError(
                "only raw scores are calibrated; those "
                f"of the cheap mode are {self.scores}."
            )

    @property
    def has_probabilities(self) -> bool:
        """Whether the scores are probabilities, or a calibration turns them into
        probabilities.
        """
        return self.scores == "probabilities" or self.calibration is not None

    def probability(self, score: Float[np.ndarray, "det"]) -> Float[np.ndarray, "det"]:
        """Probability that a box with this score is right; NaN without probabilities
        and without a calibration.
        """
        if self.calibration is not None:
            return np.interp(score, self.calibration.raw, self.calibration.probability)
        return score if self.scores == "probabilities" else np.full(len(score), np.nan)

    def used(self, score: Float[np.ndarray, "det"]) -> Bool[np.ndarray, "det"]:
        """Whether a box with this score is used downstream."""
        return (
            np.ones(len(score), dtype=bool)
            if self.threshold is None
            else score >= self.threshold
        )

    @cached_property
    def threshold_probability(self) -> float:
        """The threshold as a probability; NaN if there is no threshold or no
        probability.
        """
        if self.threshold is None or not self.has_probabilities:
            return np.nan
        return float(self.probability(np.array([float(self.threshold)]))[0])


@dataclass(frozen=True)
class Frame:
    """One frame as a deployed router receives it; the box arrays are in any order.

    Attributes:
        ego_speed_mps: Forward speed.
        dt_s: Time since the unit's previous frame; ignored at its first frame.
        camera: Calibration.
        cls: Class name of each box that the cheap mode reports.
        score: Score of each box, NaN if the mode has none.
        box_px: The boxes.
        image: The picture (RGB), for routers that read it.
        run: Whether the cheap mode ran to its end; if not, boxes and objects are empty.
        objects: The planner's objects for the report, one frame in ego coordinates;
            None if the mode does not observe.
        vehicle: The ego vehicle's size, if the source has it.
        connector_m: Way along the route to the next connector; NaN without a map, a
            route or a pose.
    """

    ego_speed_mps: float
    dt_s: float
    camera: Camera
    cls: Shaped[np.ndarray, "det"]
    score: Float[np.ndarray, "det"]
    box_px: Float[np.ndarray, "det 4"]
    image: Shaped[np.ndarray, "h w 3"] | None = field(default=None, repr=False)
    run: bool = True
    objects: Objects | None = None
    vehicle: Vehicle | None = None
    connector_m: float = np.nan

    def __post_init__(self) -> None:
        if not len(self.cls) == len(self.score) == len(self.box_px):
            lengths = len(self.cls), len(self.score), len(self.box_px)
            raise InputError(
                "a frame needs a class, a score and a box for "
                f"each detection; found {lengths}."
            )
        if not 0 <= self.ego_speed_mps <= FASTEST_MPS:
            raise InputError(
                "a frame's ego speed must be finite and not negative, and at most "
                f"{FASTEST_MPS:g} m/s; found {self.ego_speed_mps}."
            )
        if (np.abs(self.box_px) > LARGEST_PX).any():
            raise InputError(
                "a frame's boxes must be finite, with edges of at most "
                f"{LARGEST_PX:g} px; found others: check the cheap mode's output."
            )
        if not self.run and len(self.box_px):
            raise InputError(
                "a frame on which the cheap mode was not run "
                f"has no boxes; found {len(self.box_px)}."
            )
        if self.objects is not None:
            _check_objects(self.objects, frames=1, run=np.array([self.run]))


class Remembered(NamedTuple):
    """An object at its last sighting: its box, its position and its age.

    `aside_m` is the distance of its nearer side from the middle of the corridor,
    `odometer_m` the way travelled until its last sighting, `age` the number of
    consecutive frames with the object, `seen` the number of the last frame with it.
    """

    x1: float
    y1: float
    x2: float
    y2: float
    area: float
    code: int
    near_m: float
    aside_m: float
    closing_mps: float
    odometer_m: float
    age: int
    seen: int


class OwnMemory(ABC):
    """A further memory of a unit's frames, for allocators that need more than the
    window.
    """

    @abstractmethod
    def after(self, glance: Any) -> "OwnMemory":
        """The memory after a glance at the next frame; this one stays as it is."""


class Past(NamedTuple):
    """The memory of a unit's earlier frames: `Past()` at its first frame.

    Its size is bounded.

    Attributes:
        frames: Number of earlier frames.
        tracks: Objects last seen within the window, those of the last frame first.
        rows: The quantities of the last frames, oldest first, at most one less than the
            window.
        odometer_m: Way travelled since the unit's first frame.
        grey: Small grey picture of the last frame.
        ids: Tracks observed in the last frame; None if there is no such frame or the
            cheap mode did not run on it.
        memory: What an allocator remembers besides, if it needs it: `Allocator.past`.
    """

    frames: int = 0
    tracks: tuple[Remembered, ...] = ()
    rows: tuple[tuple[float, ...], ...] = ()
    odometer_m: float = 0.0
    grey: np.ndarray | None = None
    ids: frozenset[int] | None = None
    memory: OwnMemory | None = None


@dataclass(frozen=True)
class View:
    """One unit before escalation: the scene, the cheap mode's report, and how to read
    this report.

    Attributes:
        scene: Ego motion, calibration, time, images and map.
        detections: The cheap mode's report.
        mode: How to read the report.
        objects: The planner's objects for the report; None if the mode does not
            observe.
        connector_m: Way along the route to the next connector at each frame; None if
            the mode does not observe.
    """

    scene: Scene
    detections: Detections
    mode: CheapMode = field(default_factory=CheapMode)
    objects: Objects | None = None
    connector_m: Float[np.ndarray, "time"] | None = None

    def __post_init__(self) -> None:
        if (
            not self.mode.observes
            == (self.objects is not None)
            == (self.connector_m is not None)
        ):
            raise InputError(
                f"unit {self.scene.unit}: a view holds objects and the way to the "
                "next connector iff its mode observes."
            )
        if self.objects is not None:
            _check_objects(
                self.objects, frames=len(self.scene), run=self.detections.run
            )
        if self.scene.unit != self.detections.unit or len(self.scene) != len(
            self.detections.status
        ):
            raise InputError(
                "a view needs a scene and detections of one unit; found "
                f"{self.scene.unit} ({len(self.scene)} frames) and "
                f"{self.detections.unit} ({len(self.detections.status)} frames)."
            )

    def __len__(self) -> int:
        return len(self.scene)

    def observing(
        self, objects: Objects, connector_m: Float[np.ndarray, "time"] | None = None
    ) -> "View":
        """The view with the planner's objects for the report; frames without a cheap
        run have no objects.

        Without `connector_m`, the way to the next connector is measured on the scene's
        lane map.
        """
        selected = objects.where(self.detections.run[objects.frame])
        mode = replace(self.mode, observes=True)
        way_m = connectors_m(self.scene) if connector_m is None else connector_m
        return View(self.scene, self.detections, mode, selected, way_m)


def _check_objects(
    objects: Objects, *, frames: int, run: Bool[np.ndarray, "time"]
) -> None:
    if objects.frames != frames:
        raise InputError(
            "observed objects must be of the same frames "
            f"({frames}); these are of {objects.frames}."
        )
    if not (
        np.isfinite(objects.corners_m).all() and np.isfinite(objects.closing_mps).all()
    ):
        raise InputError(
            "observed objects must have finite corners and closing speeds: check the "
            "cheap mode's output."
        )
    if np.isinf(objects.velocity_mps).any():
        raise InputError(
            "observed objects must have finite velocities, NaN where they are not "
            "known; found infinity."
        )
    if not run[objects.frame].all():
        raise InputError(
            "where the cheap mode was not run, there must be "
            "no observed objects; found some."
        )


def frames_of(view: View, *, images: bool = True) -> Iterator[Frame]:
    """The unit's frames in order, as a deployed router receives them."""
    scene, detections = view.scene, view.detections
    bounds = np.searchsorted(detections.frame, np.arange(len(view) + 1)).tolist()
    dt_s, run = scene.dt_s, detections.run
    pictured = scene.has_image if images else np.zeros(len(view), dtype=bool)
    objects = iter(()) if view.objects is None else view.objects.by_frame()
    for frame, (begin, end) in enumerate(pairwise(bounds)):
        yield Frame(
            ego_speed_mps=float(scene.ego_speed_mps[frame]),
            dt_s=float(dt_s[frame]),
            camera=scene.camera,
            cls=detections.cls[begin:end],
            score=detections.score[begin:end],
            box_px=detections.box_px[begin:end],
            image=picture(scene, frame) if pictured[frame] else None,
            run=bool(run[frame]),
            objects=next(objects, None),
            vehicle=scene.vehicle,
            connector_m=float("nan")
            if view.connector_m is None
            else float(view.connector_m[frame]),
        )


def picture(scene: Scene, frame: int) -> Shaped[np.ndarray, "h w 3"]:
    """The picture of a frame (RGB, 8 bit), decoded if it is a file."""
    source = scene.image_source(frame)
    if not isinstance(source, Path):
        return source
    cv2 = library("cv2")
    data = reading.content(source, "a picture")
    check_pixels(data, source)
    image = (
        cv2.imdecode(np.frombuffer(data, dtype=np.uint8), cv2.IMREAD_COLOR)
        if data
        else None
    )
    if image is None:
        raise InputError(
            f"the picture of frame {scene.frame_ids[frame]} must "
            f"be an image file; {source} is not."
        )
    return np.ascontiguousarray(image[:, :, ::-1])


WIDTH_PX = 256
"""Every s-th pixel is taken, s = ceil(width / 256), and blocks of two by two are
averaged.
"""
EDGE_STEP = 16.0
"""Smallest difference of grey levels between neighbours at an edge."""


def sample_pixels(image: Shaped[np.ndarray, "h w 3"]) -> Shaped[np.ndarray, "h2 w2 3"]:
    """Every s-th pixel of a picture, s = ceil(width / 256); a sampled picture stays as
    it is.
    """
    step = -(-image.shape[1] // WIDTH_PX)
    return image[::step, ::step]


def grey(image: Shaped[np.ndarray, "h w 3"]) -> Float[np.ndarray, "h2 w2"]:
    """Small grey picture, 0 to 255: (77 R + 150 G + 29 B) / 256 of every s-th pixel,
    averaged two by two.
    """
    if (
        image.dtype != np.uint8
        or image.ndim != 3
        or image.shape[2] != 3
        or min(image.shape[:2]) < 1
    ):
        raise InputError(
            "a picture must be height x width x "
            f"RGB of 8 bit; found {image.dtype} {image.shape}."
        )
    part = sample_pixels(image).astype(np.int64)
    level = 77 * part[..., 0] + 150 * part[..., 1] + 29 * part[..., 2]
    rows, columns = (max(side - side % 2, 1) for side in level.shape)
    level = level[:rows, :columns]
    high, wide = (2 if side > 1 else 1 for side in level.shape)
    summed = np.add.reduce(
        [level[i::high, j::wide] for i in range(high) for j in range(wide)]
    )
    return summed / (256.0 * high * wide)


IMAGE_STATISTICS = (
    "brightness",
    "contrast",
    "edge_density",
    "sharpness",
    "difference_mean",
    "difference_max",
)


def image_statistics(
    now: Float[np.ndarray, "h w"] | None, before: Float[np.ndarray, "h2 w2"] | None
) -> list[float]:
    """Brightness, contrast, edge density, sharpness, mean and largest change since the
    previous frame.

    Brightness is the mean level, contrast its standard deviation, edge density the
    share of pixels whose level differs from the right or lower neighbour by more than
    16, sharpness the standard deviation of the Laplacian (low for a blurred picture).
    NaN without a picture; changes are NaN without a previous picture of the same size.
    """
    if now is None:
        return [np.nan] * len(IMAGE_STATISTICS)
    right, down = now[:-1, 1:] - now[:-1, :-1], now[1:, :-1] - now[:-1, :-1]
    edges = np.maximum(np.abs(right), np.abs(down)) > EDGE_STEP
    centre = now[1:-1, 1:-1]
    laplacian = (
        now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4.0 * centre
    )
    statistics = [
        float(now.mean()),
        float(now.std()),
        float(edges.mean()) if edges.size else np.nan,
        float(laplacian.std()) if laplacian.size else np.nan,
    ]
    if before is None or before.shape != now.shape:
        return [*statistics, np.nan, np.nan]
    change = np.abs(now - before)
    return [*statistics, float(change.mean()), float(change.max())]
