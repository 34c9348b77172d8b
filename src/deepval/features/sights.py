"""View -> Sight: what a unit shows, lifted to the ego frame, all frames at once.

Boxes are put into one canonical order, so that the order in which they are reported never matters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.errors import InputError
from deepval.features.images import grey
from deepval.features.quantities import Objects, demand_mps2, quantities
from deepval.features.segments import Segments, segments
from deepval.features.tracks import WINDOW, Links, links
from deepval.geometry.classes import CLASSES, HEIGHT_M
from deepval.geometry.lift import lift
from deepval.views import View, picture

CODES = {name: code for code, name in enumerate(CLASSES)}
HEIGHTS_M = np.array([HEIGHT_M[name] for name in CLASSES])


class Boxes(NamedTuple):
    """Boxes that the cheap mode reports, by frame, in each frame sorted by falling score, then by box and class.

    `code` is the class (a place in CLASSES), `probability` NaN where the mode does not say, `used` whether a box is
    used downstream. `near_m` and `aside_m` are as in Objects, by the monocular lift.
    """

    frames: Segments
    code: Int[np.ndarray, "det"]
    box_px: Float[np.ndarray, "det 4"]
    probability: Float[np.ndarray, "det"]
    used: Bool[np.ndarray, "det"]
    near_m: Float[np.ndarray, "det"]
    aside_m: Float[np.ndarray, "det"]


@dataclass(frozen=True)
class Sight:
    """What the frames of a unit show.

    Attributes:
        view: The view.
        boxes: All boxes that the cheap mode reports.
        objects: Those that are used downstream, as objects in the ego frame.
        age: In how many frames in a row each object has been seen, at most the window.
        lost: Objects seen within the window and missing now, their ranges less the way travelled since.
        lost_age: In how many frames in a row each of them had been seen.
        missing: For how many frames each of them has not been seen.
        rows: The quantities of the frames, after as many rows of NaN as the window reaches back.
        greys: Small grey pictures of the frames, None where there is none.
    """

    view: View
    boxes: Boxes
    objects: Objects
    age: Int[np.ndarray, "obj"]
    lost: Objects
    lost_age: Int[np.ndarray, "lost"]
    missing: Int[np.ndarray, "lost"]
    rows: Float[np.ndarray, "row quantity"]
    greys: Sequence[Float[np.ndarray, "h w"] | None] = field(repr=False)

    def __len__(self) -> int:
        return len(self.view)

    def ago(self, frames: int) -> Float[np.ndarray, "time quantity"]:
        """The quantities `frames` frames before each frame, NaN where there was none; 0 gives those of now."""
        begin = WINDOW - 1 - frames
        return self.rows[begin : begin + len(self)]


def look(view: View, *, images: bool = True) -> Sight:
    """The sight of a unit; pictures are not opened where `images` is False."""
    scene, boxes = view.scene, _boxes(view)
    frame, box_px = boxes.frames.frame[boxes.used], boxes.box_px[boxes.used]
    near_m, aside_m = boxes.near_m[boxes.used], boxes.aside_m[boxes.used]
    link = links(frame, box_px, code=boxes.code[boxes.used], frames=len(view))
    closing_mps = near_m * np.maximum(_growth_per_s(box_px, link, scene.dt_s[frame]), 0.0)
    demand = demand_mps2(near_m, closing_mps, ego_mps=scene.ego_speed_mps[frame])
    objects = Objects(segments(frame, len(view)), near_m, aside_m, closing_mps, demand)
    rows = quantities(objects, scene.ego_speed_mps, run=view.detections.run)
    pictured = scene.has_image if images else np.zeros(len(scene), dtype=bool)
    return Sight(
        view=view,
        boxes=boxes,
        objects=objects,
        age=link.age,
        lost=_moved_on(objects, link, view),
        lost_age=link.age[link.lost],
        missing=link.missing,
        rows=np.concatenate([np.full((WINDOW - 1, rows.shape[1]), np.nan), rows]),
        greys=[grey(picture(scene, place)) if there else None for place, there in enumerate(pictured.tolist())],
    )


def _boxes(view: View) -> Boxes:
    """The reported boxes in canonical order, lifted."""
    found = view.detections
    box_px, score = np.asarray(found.box_px, float), np.asarray(found.score, float)
    check_boxes(box_px)
    code = np.array(codes(found.cls), dtype=np.intp)
    order = np.lexsort((code, *box_px.T[::-1], -score, found.frame))
    frame, code, box_px, score = found.frame[order], code[order], box_px[order], score[order]
    lifted = lift(box_px, HEIGHTS_M[code], camera=view.scene.camera)
    return Boxes(
        frames=segments(frame, len(view)),
        code=code,
        box_px=box_px,
        probability=view.mode.probability(score),
        used=view.mode.used(score),
        near_m=lifted.range_m,
        aside_m=np.maximum(lifted.lateral_m[:, 0], -lifted.lateral_m[:, 1]),
    )


def check_boxes(box_px: Float[np.ndarray, "det 4"]) -> None:
    """Raise where a box is not known."""
    if np.isnan(box_px).any():
        raise InputError("a view needs image boxes; this source has none: project its cuboids into the image first.")


def codes(cls: Shaped[np.ndarray, "det"]) -> list[int]:
    """The place of each class in CLASSES."""
    try:
        return [CODES[name] for name in cls.tolist()]
    except KeyError as error:
        raise InputError(f"classes must be among {', '.join(CLASSES)}; found {error}: give a class map.") from error


def _growth_per_s(
    box_px: Float[np.ndarray, "obj 4"], link: Links, dt_s: Float[np.ndarray, "obj"]
) -> Float[np.ndarray, "obj"]:
    """Growth rate of a box's height since the box that it continues, 0 where there is none."""
    height_px = box_px[:, 3] - box_px[:, 1]
    found = link.partner >= 0
    before_px = np.where(found, height_px[link.partner], 1.0)
    return np.where(found, (height_px / before_px - 1.0) / np.where(found, dt_s, 1.0), 0.0)


def _moved_on(objects: Objects, link: Links, view: View) -> Objects:
    """The missing objects of each frame, as near as the way travelled since has brought them."""
    speed_mps, seen = view.scene.ego_speed_mps, objects.frames.frame[link.lost]
    step_m = speed_mps * view.scene.dt_s
    odometer_m = np.cumsum(np.concatenate([[0.0], step_m[1:]]))
    near_m = objects.near_m[link.lost] - (odometer_m[link.lost_frame] - odometer_m[seen])
    closing_mps = objects.closing_mps[link.lost]
    demand = demand_mps2(near_m, closing_mps, ego_mps=speed_mps[link.lost_frame])
    return Objects(segments(link.lost_frame, len(view)), near_m, objects.aside_m[link.lost], closing_mps, demand)
