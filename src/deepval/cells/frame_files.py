"""frames.json of a cell -> the frames to draw, with the form of every part checked first."""

from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from deepval.cells.explorer import SCHEMA
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import cell_content, json_content
from deepval.files.reading import check_file_form

WHAT = "frames written by deepval build"
MOST = 200
"""Largest number of frames read from a file: half of them the most harmed, half the most helped."""
FRAME_KEYS = frozenset({"value", "modes", "reference", "camera"})
"""Keys by which a frame is recognised while its file is read."""
Known = float | None
"""A number, or null where it is undefined."""
Point = tuple[float, float]
Corners = tuple[tuple[Known, Known], ...]


class Decided(TypedDict):
    """A decision: the plan in words and as poses, and the objects behind it."""

    action: Any
    does: str
    decisive: int | None
    boxes: list[tuple[Known, Known, Known, Known]]
    classes: list[str]
    poses: NotRequired[list[list[float]] | None]
    footprint_m: NotRequired[list[Point] | None]


class ModeForm(Decided):
    """The objects, the decision and the losses of a mode."""

    loss: float
    terms: dict[str, float]
    path_m: list[Point] | None
    scores: list[Known]
    objects_m: list[tuple[Known, Known, Known, Known]]
    corners_m: NotRequired[list[Corners]]


class ReferenceForm(Decided):
    """The reference objects and the decision for them."""

    corners_m: list[Corners]


class LaneForm(TypedDict):
    """A lane."""

    centre_m: list[Point]
    outline_m: list[Point]
    width_m: float
    connector: bool
    red: bool


class RoadForm(TypedDict):
    """The road around the vehicle."""

    lanes: list[LaneForm]
    drivable_m: list[list[Point]]
    crosswalks_m: list[list[Point]]
    ego_m: list[Point]
    driven_m: list[Point]


class CameraForm(TypedDict):
    """Size, horizon and centre of a picture."""

    width_px: int | None
    height_px: int | None
    horizon_px: Known
    centre_px: Point


class ValueForm(TypedDict):
    """The value of a frame, without its other fields."""

    value: float


class FrameForm(TypedDict):
    """One frame."""

    sign: Literal["harmed", "helped"]
    input: str
    unit: str
    frame: str
    value: float
    speed_mps: float
    camera: CameraForm
    image: str | None
    modes: dict[str, ModeForm]
    reference: ReferenceForm
    road: NotRequired[RoadForm]


class CorridorForm(TypedDict):
    """The corridor in which objects count."""

    half_width: float
    far: float


class PicturesForm(TypedDict):
    """Seed and size from which the pictures of the synthetic world can be drawn again."""

    seed: int
    scenes: int
    frames: int


class FramesForm(TypedDict):
    """Content of frames.json."""

    cell: str
    dataset: str
    modes: list[str]
    weights: dict[str, float]
    corridor_m: CorridorForm | None
    pictures: PicturesForm | None
    frames: list[FrameForm]


def read_frames(path: Path) -> dict[str, Any]:
    """The frames in a file; of more than `MOST`, only the most harmed and most helped.

    Then `frames_in_file` is the number of all frames. A file in a cell's folder must be unchanged since the build.
    """
    built = cell_content(path)
    data = reading.content(path, WHAT) if built is None else built
    content = json_content(data, path, WHAT, finite=True, object_hook=_Thinned().add)
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise InputError(f"{path}: must be frames of schema {SCHEMA!r}; it is not: build the cell again.")
    frames = content.get("frames")
    content.pop("frames_in_file", None)
    if isinstance(frames, list) and len(frames) > MOST:
        content |= {"frames": _extremes(frames, path), "frames_in_file": len(frames)}
    check_file_form(FramesForm, content, path, WHAT)
    for number, frame in enumerate(content["frames"]):
        amiss = _amiss(frame, content["modes"])
        if amiss is not None:
            raise InputError(f"{path}: must be {WHAT}; frames[{number}] {amiss}: build the cell again.")
    return content


class _Thinned:
    """Empties frames that cannot be among the most harmed or helped while a file is read, to bound the memory.

    Of an emptied frame only `value` stays.
    """

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []

    def add(self, item: dict[str, Any]) -> dict[str, Any]:
        """The object itself; if it is a frame, it may be emptied later."""
        if item.keys() >= FRAME_KEYS and type(item["value"]) in (int, float):
            self.frames.append(item)
            if len(self.frames) >= 10 * MOST:
                self._thin()
        return item

    def _thin(self) -> None:
        extremes = set(_extreme_rows([frame["value"] for frame in self.frames]))
        for row, frame in enumerate(self.frames):
            if row not in extremes:
                value = frame["value"]
                frame.clear()
                frame["value"] = value
        self.frames = [self.frames[row] for row in sorted(extremes)]


def _extreme_rows(values: list[float]) -> list[int]:
    """Positions of the smallest and of the largest values, in order."""
    order = sorted(range(len(values)), key=values.__getitem__)
    return sorted(order[: MOST // 2] + order[-MOST // 2 :])


def _extremes(frames: list[Any], path: Path) -> list[Any]:
    """The frames of the smallest and of the largest values, in the order of the file."""
    values = check_file_form(list[ValueForm], frames, path, WHAT)
    return [frames[row] for row in _extreme_rows([frame["value"] for frame in values])]


def _amiss(frame: dict[str, Any], modes: list[str]) -> str | None:
    """The first inconsistency in a frame; None where there is none."""
    if len(modes) < 2 or not set(modes) <= frame["modes"].keys():
        return f"must have all modes of the cell, two or more ({', '.join(modes)})"
    for name in modes:
        entry = frame["modes"][name]
        columns = [entry[key] for key in ("objects_m", "boxes", "classes", "scores", "corners_m") if key in entry]
        if len({len(column) for column in columns}) > 1:
            return f"must have as many boxes, classes and scores as objects in mode {name!r}"
        if entry["decisive"] is not None and not 0 <= entry["decisive"] < len(entry["objects_m"]):
            return f"must name one of its objects as decisive in mode {name!r}"
    truth = frame["reference"]
    if len({len(truth[key]) for key in ("boxes", "classes", "corners_m")}) > 1:
        return "must have as many boxes and classes as objects in its reference"
    if truth["decisive"] is not None and not 0 <= truth["decisive"] < len(truth["corners_m"]):
        return "must name one of its objects as decisive in its reference"
    return None
