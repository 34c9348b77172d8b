"""Small made-up views for tests: cars set down at a given place in front of the camera,
and random units.
"""

from dataclasses import fields, replace

import numpy as np

from deepval.driving.perception.reported.detections import Calibration
from deepval.driving.views import CheapMode, Past, View, frames_of
from deepval.driving.world.objects import Objects, box_objects
from driving import camera, detections, scene

CAR_M, FOCAL_PX, HORIZON_PX, MIDDLE_PX, CAMERA_M = (
    1.53,
    720.0,
    173.0,
    610.0,
    0.73 + 0.93,
)
AHEAD_M, ASIDE_M = 1.1, -0.25
CLASSES = (
    "Car",
    "Car",
    "Car",
    "Van",
    "Pedestrian",
    "Person_sitting",
    "Cyclist",
    "Truck",
)
CALIBRATION = Calibration(
    np.array([-1.0, 0.0, 2.0, 5.0]), np.array([0.05, 0.2, 0.7, 0.95])
)
MODES = (
    CheapMode("probabilities", 0.25),
    CheapMode("probabilities", 0.5),
    CheapMode("probabilities"),
    CheapMode("none"),
    CheapMode("raw"),
    CheapMode("raw", 0.5, CALIBRATION),
    CheapMode("raw", None, CALIBRATION),
)


def car_px(range_m, low_m, high_m):
    """Box of a car whose near face is at this range and that reaches from low to high
    (y, left is positive).

    Ground and height cue agree on the depth, so the lift gives the range back.
    """
    depth = range_m - AHEAD_M
    bottom = HORIZON_PX + FOCAL_PX * CAMERA_M / depth
    left, right = (
        MIDDLE_PX - (y - ASIDE_M) * FOCAL_PX / depth for y in (high_m, low_m)
    )
    return left, bottom - FOCAL_PX * CAR_M / depth, right, bottom


def car_view(rows, frames=1, *, mode=MODES[0], speed_mps=10.0, status=None, **more):
    """Rows are (frame, probability, range, low, high), sorted by frame."""
    boxes = [
        (frame, "Car", p, *car_px(range_m, low, high))
        for frame, p, range_m, low, high in rows
    ]
    drive = scene(frames, speed_mps=speed_mps, camera=camera(), **more)
    return View(drive, detections(boxes, frames, status=status), mode)


def random_view(
    rng, frames=12, *, mode=None, images=False, rounded=False, failures=True
):
    """A unit of objects that come, grow, drift, hide and leave; rounded, so that ties
    occur, where asked.
    """
    mode = MODES[rng.integers(len(MODES))] if mode is None else mode
    rows = []
    for _ in range(rng.integers(0, 9)):
        begin, length = rng.integers(0, frames), rng.integers(1, frames + 1)
        box = np.array([*rng.uniform((450, 150), (700, 190)), 0.0, 0.0])
        box[2:] = box[:2] + rng.uniform((15, 15), (130, 110))
        cls = CLASSES[rng.integers(len(CLASSES))]
        for frame in range(begin, min(begin + length, frames)):
            box += rng.normal(0, 4, 4)
            if rng.random() < 0.75 and box[2] > box[0] + 2 and box[3] > box[1] + 2:
                score = (
                    rng.uniform(-1, 5) if mode.scores == "raw" else rng.uniform(0, 1)
                )
                shown = np.round(box, -1) + np.array([0, 0, 1, 1]) if rounded else box
                rows.append((frame, cls, round(score, 1) if rounded else score, *shown))
    rows.sort(key=lambda row: row[0])
    status = (
        np.where(rng.random(frames) < 0.1, rng.integers(1, 3, frames), 0)
        if failures
        else np.zeros(frames, int)
    )
    found = detections(
        [row for row in rows if status[row[0]] == 0], frames, status=status
    )
    if mode.scores == "none":
        found = replace(found, score=np.full(len(found), np.nan))
    speed = np.maximum(rng.normal(9, 6, frames), 0.0)
    drive = scene(
        frames,
        speed_mps=speed,
        images=rng.integers(0, 256, (frames, 9, 14, 3), np.uint8) if images else None,
    )
    return View(
        replace(drive, time_s=np.cumsum(rng.uniform(0.05, 0.3, frames))), found, mode
    )


def observed(rows, frames=1, *, speed_mps=10.0, status=None, mode=None, **more):
    """A view of objects; rows are (frame, class, track, (near, far, low, high), (vx,
    vy)), sorted by frame.
    """
    ground = np.array([row[3] for row in rows], float).reshape(-1, 4)
    drive = scene(frames, speed_mps=speed_mps, **more)
    things = box_objects(
        frames,
        np.array([row[0] for row in rows], int),
        near_m=ground[:, 0],
        far_m=ground[:, 1],
        lateral_m=ground[:, 2:],
        closing_mps=np.zeros(len(rows)),
        names=np.array([row[1] for row in rows], "<U14"),
        track=np.array([row[2] for row in rows], int),
    )
    velocity = np.array([row[4] for row in rows], float).reshape(-1, 2)
    bare = View(
        drive,
        detections([], frames, status=status),
        CheapMode("none") if mode is None else mode,
    )
    return bare.observing(replace(things, velocity_mps=velocity))


def random_observed(rng, frames=12, *, mode=None, rounded=False, **more):
    """A unit of observed objects of every kind that come, move and go, some without a
    track or a velocity.
    """
    rows = []
    for track in range(rng.integers(0, 40)):
        begin, length = rng.integers(0, frames), rng.integers(1, frames + 1)
        place, v = rng.uniform((-20, -12), (70, 12)), rng.normal(0, 5, 2)
        size, cls = (
            rng.uniform((0.3, 0.3), (9, 3)),
            ("Car", "Bus", "Pedestrian", "Cyclist", "Barrier", "")[track % 6],
        )
        for frame in range(begin, min(begin + length, frames)):
            place = place + 0.3 * v
            if rng.random() < 0.8:
                x, y = np.round(place) if rounded else place
                told = (np.nan, np.nan) if track % 7 == 6 else v
                number = -1 if track % 5 == 4 else track
                rows.append(
                    (frame, cls, number, (x, x + size[0], y, y + size[1]), told)
                )
    rows.sort(key=lambda row: row[0])
    status = np.where(rng.random(frames) < 0.1, 1, 0)
    speed = np.maximum(rng.normal(9, 6, frames), 0.0)
    return observed(rows, frames, speed_mps=speed, status=status, mode=mode, **more)


def shuffled(view, rng):
    """The view with the boxes of each frame reported in another order."""
    found = view.detections
    order = np.lexsort((rng.random(len(found)), found.frame))
    things = view.objects
    if things is not None:
        turned = np.lexsort((rng.random(len(things)), things.frame))
        things = Objects(
            frames=things.frames,
            **{name: column[turned] for name, column in columns_of(things).items()},
        )
    return replace(
        view,
        objects=things,
        detections=replace(
            found,
            cls=found.cls[order],
            score=found.score[order],
            box_px=found.box_px[order],
            frame=found.frame[order],
        ),
    )


def columns_of(things):
    """The columns of objects by name."""
    return {
        field.name: getattr(things, field.name)
        for field in fields(things)
        if field.name != "frames"
    }


def glances_of(view, *, images=True, past=Past()):  # noqa: B008 a tuple
    """What each frame of the unit shows as it arrives."""
    from deepval.deploy.features import glance

    for frame in frames_of(view, images=images):
        seen = glance(frame, past, mode=view.mode)
        yield seen
        past = seen.after


def until(view, frames):
    """The view of the unit's first `frames` frames, without any later information."""
    detections = view.detections
    selected = detections.where(detections.frame < frames)
    scene, report = (
        view.scene.part(slice(frames)),
        replace(selected, status=detections.status[:frames]),
    )
    if view.objects is None or view.connector_m is None:
        return View(scene, report, view.mode)
    objects = view.objects.where(view.objects.frame < frames)
    return View(
        scene,
        report,
        view.mode,
        replace(objects, frames=len(scene)),
        view.connector_m[:frames],
    )
