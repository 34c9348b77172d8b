"""View: all that an allocator may look at before escalation, for a whole unit (View) or one frame (Frame and Past).

A view holds the scene (ego motion, calibration, time, images) and what the cheap mode reports; where the placing
observes, also the objects that the planner is given for that report. No reference but this observation and no higher
mode is in it, so nothing that reads a view can leak an answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.reading import check_pixels
from deepval.geometry.camera import Camera
from deepval.geometry.vehicle import Vehicle
from deepval.perception.reported.detections import Calibration, Detections, ScoreKind
from deepval.world.objects import Objects
from deepval.world.scene import FASTEST_MPS, LaneMap, Scene

FARTHEST_M = 80.0
OFF_ROUTE_M = 5.0


def connectors_m(scene: Scene) -> Float[np.ndarray, "time"]:
    """Way to the next connector at each frame."""
    found = np.full(len(scene), np.nan)
    if scene.lane_map is None or scene.world_from_ego is None:
        return found
    starts = np.zeros(len(scene), dtype=int) if scene.route_starts is None else scene.route_starts
    ends = np.full(len(scene), len(scene.route)) if scene.route_ends is None else scene.route_ends
    pieces = {end: _pieces(scene.lane_map, scene.route[:end]) for end in np.unique(ends).tolist()}
    for frame, pose in enumerate(scene.world_from_ego):
        found[frame] = _way_m(pieces[int(ends[frame])], pose, int(starts[frame]))
    return found


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Straight pieces of the route's lanes: where each begins, its vector, its roadblock's place in the route.

    `rest_m` is the rest of its lane from its beginning, `connector` whether that is one, `beyond_m` the way from the
    end of its roadblock to the next connector.
    """

    begin_m: Float[np.ndarray, "piece 2"]
    along_m: Float[np.ndarray, "piece 2"]
    place: Int[np.ndarray, "piece"]
    rest_m: Float[np.ndarray, "piece"]
    connector: Bool[np.ndarray, "piece"]
    beyond_m: Float[np.ndarray, "piece"]


def _pieces(lane_map: LaneMap, route: tuple[str, ...]) -> _Pieces:
    begin, along, place, rest, connector, beyond = [np.zeros((0, 2))], [np.zeros((0, 2))], [], [], [], []
    further_m = inf
    for number in reversed(range(len(route))):
        lanes = [lane_map.lanes[lane] for lane in lane_map.roadblocks.get(route[number], ())]
        lengths = []
        for lane in lanes:
            steps = np.diff(lane.centreline_m, axis=0)
            length = np.hypot(*steps.T)
            lengths.append(float(length.sum()))
            begin.append(lane.centreline_m[:-1])
            along.append(steps)
            place += [number] * len(steps)
            rest += (lengths[-1] - np.concatenate([[0.0], np.cumsum(length)[:-1]])).tolist()
            connector += [lane.connector] * len(steps)
            beyond += [further_m] * len(steps)
        # What lies beyond a roadblock that the map does not have is not known.
        further_m = inf if not lanes else 0.0 if any(lane.connector for lane in lanes) else lengths[0] + further_m
    return _Pieces(
        np.concatenate(begin),
        np.concatenate(along),
        np.array(place, dtype=int),
        np.array(rest, dtype=float),
        np.array(connector, dtype=bool),
        np.array(beyond, dtype=float),
    )


def _way_m(pieces: _Pieces, pose: Float[np.ndarray, "4 4"], start: int) -> float:
    """Way to the next connector from a pose, on the route from roadblock number `start` on."""
    offset = pose[:2, 3] - pieces.begin_m
    square = (pieces.along_m**2).sum(axis=1)
    share = np.divide((offset * pieces.along_m).sum(axis=1), square, out=np.zeros(len(square)), where=square > 0)
    share = np.clip(share, 0.0, 1.0)
    apart_m = np.hypot(*(offset - share[:, None] * pieces.along_m).T)
    leads = (pieces.along_m @ pose[:2, 0] > 0) & (pieces.place >= start)
    apart_m = np.where(leads, apart_m, inf)
    if not (apart_m <= OFF_ROUTE_M).any():
        return np.nan
    # Of equally near pieces (the end of a lane is the beginning of the next) the one further along counts.
    nearest = np.flatnonzero(apart_m == apart_m.min())
    here = int(nearest[np.lexsort((pieces.rest_m[nearest], -pieces.place[nearest]))[0]])
    if pieces.connector[here]:
        return 0.0
    left_m = pieces.rest_m[here] - share[here] * np.sqrt(square[here])
    return float(min(left_m + pieces.beyond_m[here], FARTHEST_M))


LARGEST_PX = 1e7
"""No picture is larger: a box beyond it is a fault of the detector."""


@dataclass(frozen=True)
class CheapMode:
    """How the cheap mode's report is read.

    Attributes:
        scores: What its scores are.
        threshold: Boxes with a score of at least this much are used downstream; all are where it is None.
        calibration: The map from raw scores to probabilities that was fitted on training units, if there is one.
        observes: Whether views hold the objects that its report comes to, and allocators look at these, not at boxes.
    """

    scores: ScoreKind = "probabilities"
    threshold: float | None = None
    calibration: Calibration | None = None
    observes: bool = False

    def __post_init__(self) -> None:
        if self.scores == "none" and self.threshold is not None:
            raise InputError("a cheap mode without scores cannot have a threshold: leave the threshold out.")
        if self.calibration is not None and self.scores != "raw":
            raise InputError(f"only raw scores are calibrated; those of the cheap mode are {self.scores}.")

    @property
    def has_probabilities(self) -> bool:
        """Whether the scores are probabilities, or can be turned into them."""
        return self.scores == "probabilities" or self.calibration is not None

    def probability(self, score: Float[np.ndarray, "det"]) -> Float[np.ndarray, "det"]:
        """Probability that a box with this score is right; NaN where the scores do not say."""
        if self.calibration is not None:
            return np.interp(score, self.calibration.raw, self.calibration.probability)
        return score if self.scores == "probabilities" else np.full(len(score), np.nan)

    def used(self, score: Float[np.ndarray, "det"]) -> Bool[np.ndarray, "det"]:
        """Whether a box with this score is used downstream."""
        return np.ones(len(score), dtype=bool) if self.threshold is None else score >= self.threshold

    @cached_property
    def threshold_probability(self) -> float:
        """The threshold as a probability, NaN where there is none."""
        if self.threshold is None or not self.has_probabilities:
            return np.nan
        return float(self.probability(np.array([float(self.threshold)]))[0])


@dataclass(frozen=True)
class Frame:
    """One frame as a deployed router receives it; the box arrays are in any order.

    Attributes:
        ego_speed_mps: Forward speed.
        dt_s: Time since the unit's frame before; whatever is given at its first frame is not read.
        camera: Calibration.
        cls: Class name of each box that the cheap mode reports.
        score: Score of each box, NaN where the mode has none.
        box_px: The boxes.
        image: The picture (RGB), where a router looks at it.
        run: Whether the cheap mode was run to its end; boxes and objects are empty where it was not.
        objects: What the report comes to for the planner, a single frame in the ego frame, where the mode observes.
        vehicle: The ego vehicle's size, where somebody says.
        connector_m: Way along the route to the next connector; NaN where there is no map, no route or no pose.
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
            found = len(self.cls), len(self.score), len(self.box_px)
            raise InputError(f"a frame needs a class, a score and a box for each detection; found {found}.")
        if not 0 <= self.ego_speed_mps <= FASTEST_MPS:
            raise InputError(
                f"a frame's ego speed must be finite and not negative, and at most {FASTEST_MPS:g} m/s; "
                f"found {self.ego_speed_mps}."
            )
        if (np.abs(self.box_px) > LARGEST_PX).any():
            raise InputError(
                f"a frame's boxes must be finite, with edges of at most {LARGEST_PX:g} px; found others: check the "
                "cheap mode's output."
            )
        if not self.run and len(self.box_px):
            raise InputError(f"a frame on which the cheap mode was not run has no boxes; found {len(self.box_px)}.")
        if self.objects is not None:
            _check_objects(self.objects, frames=1, run=np.array([self.run]))


class Remembered(NamedTuple):
    """An object as it was last seen: its box, its place, and for how long it had been seen.

    `aside_m` is the distance of its nearer side from the middle of the corridor, `odometer_m` the way travelled by
    then, `age` in how many frames in a row it had been seen, `seen` the number of the frame in which it was seen last.
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


class Past(NamedTuple):
    """What is remembered of the earlier frames of a unit: `Past()` at its first frame. It does not grow with time.

    Attributes:
        frames: How many frames there have been.
        tracks: Objects seen within the window and not seen again since, those of the last frame first.
        rows: The quantities of the last frames, oldest first, one less than the window at most.
        odometer_m: Way travelled since the unit's first frame.
        grey: Small grey picture of the last frame.
        ids: Tracks observed in the last frame; None where there is no such frame or the cheap mode was not run on it.
    """

    frames: int = 0
    tracks: tuple[Remembered, ...] = ()
    rows: tuple[tuple[float, ...], ...] = ()
    odometer_m: float = 0.0
    grey: np.ndarray | None = None
    ids: frozenset[int] | None = None


@dataclass(frozen=True)
class View:
    """One unit before escalation: what the vehicle knows, what its cheap mode reports, and how that is read.

    Attributes:
        scene: What the vehicle knows.
        detections: What its cheap mode reports.
        mode: How that is read.
        objects: What the report comes to for the planner, where the mode observes; None otherwise.
        connector_m: Way along the route to the next connector at each frame, likewise.
    """

    scene: Scene
    detections: Detections
    mode: CheapMode = field(default_factory=CheapMode)
    objects: Objects | None = None
    connector_m: Float[np.ndarray, "time"] | None = None

    def __post_init__(self) -> None:
        if not self.mode.observes == (self.objects is not None) == (self.connector_m is not None):
            raise InputError(
                f"unit {self.scene.unit}: a view holds objects and the way to the next connector iff its mode observes."
            )
        if self.objects is not None:
            _check_objects(self.objects, frames=len(self.scene), run=self.detections.run)
        if self.scene.unit != self.detections.unit or len(self.scene) != len(self.detections.status):
            raise InputError(
                f"a view needs a scene and detections of one unit; found {self.scene.unit} ({len(self.scene)} frames) "
                f"and {self.detections.unit} ({len(self.detections.status)} frames)."
            )

    def __len__(self) -> int:
        return len(self.scene)

    def until(self, frames: int) -> "View":
        """The view of the unit's first `frames` frames: what was known when the last of them arrived."""
        found = self.detections
        kept = found.where(found.frame < frames)
        scene, report = self.scene.part(slice(frames)), replace(kept, status=found.status[:frames])
        if self.objects is None or self.connector_m is None:
            return View(scene, report, self.mode)
        objects = self.objects.where(self.objects.frame < frames)
        return View(scene, report, self.mode, replace(objects, frames=len(scene)), self.connector_m[:frames])

    def observing(self, objects: Objects, connector_m: Float[np.ndarray, "time"] | None = None) -> "View":
        """The view with the objects that the report comes to; what was not run reports nothing, so none are kept.

        The way to the next connector is found on the scene's lane map where it is not given.
        """
        kept = objects.where(self.detections.run[objects.frame])
        mode = replace(self.mode, observes=True)
        way_m = connectors_m(self.scene) if connector_m is None else connector_m
        return View(self.scene, self.detections, mode, kept, way_m)


def _check_objects(objects: Objects, *, frames: int, run: Bool[np.ndarray, "time"]) -> None:
    if objects.frames != frames:
        raise InputError(f"observed objects must be of the same frames ({frames}); these are of {objects.frames}.")
    if not (np.isfinite(objects.corners_m).all() and np.isfinite(objects.closing_mps).all()):
        raise InputError("observed objects must have finite corners and closing speeds: check the cheap mode's output.")
    if np.isinf(objects.velocity_mps).any():
        raise InputError("observed objects must have finite velocities, NaN where they are not known; found infinity.")
    if not run[objects.frame].all():
        raise InputError("where the cheap mode was not run nothing is observed; found objects there.")


def frames_of(view: View, *, images: bool = True) -> Iterator[Frame]:
    """The unit's frames one after the other, as a deployed router would receive them."""
    scene, found = view.scene, view.detections
    bounds = np.searchsorted(found.frame, np.arange(len(view) + 1)).tolist()
    dt_s, run = scene.dt_s, found.run
    pictured = scene.has_image if images else np.zeros(len(view), dtype=bool)
    objects = _objects_of(view)
    for place, (begin, end) in enumerate(pairwise(bounds)):
        yield Frame(
            ego_speed_mps=float(scene.ego_speed_mps[place]),
            dt_s=float(dt_s[place]),
            camera=scene.camera,
            cls=found.cls[begin:end],
            score=found.score[begin:end],
            box_px=found.box_px[begin:end],
            image=picture(scene, place) if pictured[place] else None,
            run=bool(run[place]),
            objects=next(objects, None),
            vehicle=scene.vehicle,
            connector_m=float("nan") if view.connector_m is None else float(view.connector_m[place]),
        )


def _objects_of(view: View) -> Iterator[Objects]:
    """The observed objects of each frame; none at all where the mode does not observe."""
    found = view.objects
    if found is None:
        return
    bounds = np.searchsorted(found.frame, np.arange(len(view) + 1)).tolist()
    for begin, end in pairwise(bounds):
        here = slice(begin, end)
        yield Objects(
            frames=1,
            frame=np.zeros(end - begin, dtype=int),
            corners_m=found.corners_m[here],
            closing_mps=found.closing_mps[here],
            cls=found.cls[here],
            track=found.track[here],
            velocity_mps=found.velocity_mps[here],
        )


def picture(scene: Scene, frame: int) -> Shaped[np.ndarray, "h w 3"]:
    """The picture of a frame (RGB, 8 bit), decoded where it lies in a file."""
    source = scene.image_source(frame)
    if not isinstance(source, Path):
        return source
    try:
        import cv2
    except ImportError as error:
        raise InputError("reading pictures needs OpenCV: install deepval with the extra `vision`.") from error
    data = reading.content(source, "a picture")
    check_pixels(data, source)
    image = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), cv2.IMREAD_COLOR) if data else None
    if image is None:
        raise InputError(f"the picture of frame {scene.frame_ids[frame]} must be an image file; {source} is not.")
    return np.ascontiguousarray(image[:, :, ::-1])
