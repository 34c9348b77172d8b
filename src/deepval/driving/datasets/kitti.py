"""KITTI tracking files -> scenes and truths, with the geometry of docs/definitions.md,
KITTI.

Layout: `label_02/0000.txt`, `calib/0000.txt`, `oxts/0000.txt` or `poses/0000.txt`
(odometry format), and where there are pictures `image_02/0000/000000.png` or `.jpg`;
`times/0000.txt` (seconds, one per line) where time stamps exist.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.basics.files.canonical import digest_of
from deepval.driving.datasets.dataset import Dataset
from deepval.driving.geometry.camera import Camera, transform
from deepval.driving.geometry.classes import KITTI_CLASSES
from deepval.driving.geometry.vehicle import ground_corners_m
from deepval.driving.world.objects import Objects, track_closing_mps
from deepval.driving.world.scene import FASTEST_MPS, Scene
from deepval.driving.world.truth import Truth

DT_S = 0.1033
FILES = ("calib", "label_02", "oxts", "poses", "times")
"""Folders with a text file per sequence."""
ROAD_Z_M = -0.93
LARGEST, FARTHEST = 1e6, 1e12
"""Bounds of numbers in the files: lengths around the vehicle (m or px); world positions
and time stamps.
"""
LABEL_COLUMNS = 17
OXTS_COLUMNS = 30
OXTS_FORWARD = 8
POSE_COLUMNS = 12
CALIBRATION_KEYS = {
    "P2": ("P2", 12),
    "R_rect": ("R_rect", 9),
    "R0_rect": ("R_rect", 9),
    "Tr_velo_cam": ("Tr_velo_cam", 12),
    "Tr_velo_to_cam": ("Tr_velo_cam", 12),
    "Tr_imu_velo": ("Tr_imu_velo", 12),
    "Tr_imu_to_velo": ("Tr_imu_velo", 12),
}


@dataclass(frozen=True)
class Mounting:
    """`ego_from_cam0` (rectified camera 0 to IMU) and camera 2 on the vehicle."""

    ego_from_cam0: Float[np.ndarray, "4 4"]
    camera: Camera

    @property
    def grey_camera(self) -> Camera:
        """Camera 0: labels and 3D results are in its axes."""
        return replace(self.camera, ego_from_cam=self.ego_from_cam0)


class LabelRows(NamedTuple):
    """Columns of a label file, sorted by frame, DontCare rows included."""

    frame: Int[np.ndarray, "row"]
    track: Int[np.ndarray, "row"]
    cls: Shaped[np.ndarray, "row"]
    occlusion: Int[np.ndarray, "row"]
    box_px: Float[np.ndarray, "row 4"]
    size_m: Float[np.ndarray, "row 3"]
    bottom_m: Float[np.ndarray, "row 3"]
    yaw_rad: Float[np.ndarray, "row"]


def rows_of(path: Path, columns: int, *, what: str) -> list[list[str]]:
    """The words of each line that is not empty; raises where a line has the wrong
    number of columns.
    """
    if not reading.is_file(path):
        raise InputError(
            f"{what} must be at {path}; there is no such file: "
            "check the data set's folder."
        )
    rows = [line.split() for line in reading.text(path).splitlines()]
    for number, row in enumerate(rows, start=1):
        if row and len(row) != columns:
            raise InputError(
                f"{what} must have {columns} columns; "
                f"{path} has {len(row)} in line {number}."
            )
    return [row for row in rows if row]


def numbers(
    words: Sequence[Sequence[str]] | Sequence[str],
    *,
    path: Path,
    what: str,
    ids: Sequence[str] | None = None,
    largest: float = LARGEST,
    first_row: int = 1,
) -> Float[np.ndarray, "..."]:
    """Words as numbers of at most `largest`; otherwise raises with the file's name, the
    row and its id.
    """
    try:
        values = np.array(words, dtype=float)
    except ValueError as error:
        raise InputError(
            f"{what} must hold numbers; {path} does not: {error}."
        ) from error
    strange = ~(np.abs(values) <= largest)
    if strange.any():
        value = values[strange][0]
        sentence = (
            f"{what} must hold finite numbers "
            f"of at most {largest:g}; {path} has {value:g}"
        )
        refuse(strange, sentence, ids, first_row=first_row)
    return values


def refuse(
    strange: Bool[np.ndarray, "row ..."],
    sentence: str,
    ids: Sequence[str] | None,
    *,
    first_row: int = 1,
) -> None:
    """Raise with number and id of the first strange row, if there is one."""
    if strange.any():
        row = int(np.argmax(strange.reshape(len(strange), -1).any(axis=1)))
        location = f"in row {row + first_row}" + (f" ({ids[row]})" if ids else "")
        raise InputError(f"{sentence} {location}: repair the file.")


def read_calibration(path: Path) -> Mounting:
    """Calibration from a file with either spelling of the keys, with or without
    colons.
    """
    if not reading.is_file(path):
        raise InputError(
            f"the calibration must be at {path}; there is no such file: check the "
            "data set's folder."
        )
    matrices: dict[str, np.ndarray] = {}
    for row, line in enumerate(reading.text(path).splitlines(), start=1):
        key, *words = line.split() or [""]
        name, count = CALIBRATION_KEYS.get(key.rstrip(":"), ("", 0))
        if not name:
            continue
        if len(words) != count:
            raise InputError(
                f"calibration {key} must have {count} numbers; {path} has {len(words)}."
            )
        values = numbers(
            [words],
            path=path,
            what="a calibration",
            ids=[key.rstrip(":")],
            first_row=row,
        )
        matrices[name] = values.reshape(3, -1)
    missing = sorted({name for name, _ in CALIBRATION_KEYS.values()} - set(matrices))
    if missing:
        raise InputError(
            "a calibration must hold P2, R_rect, Tr_velo_cam, "
            f"Tr_imu_velo; {path} lacks {missing[0]}."
        )
    cam0_from_ego = (
        square(matrices["R_rect"])
        @ square(matrices["Tr_velo_cam"])
        @ square(matrices["Tr_imu_velo"])
    )
    k = matrices["P2"][:, :3]
    try:
        ego_from_cam0 = np.linalg.inv(cam0_from_ego)
        ego_from_cam2 = ego_from_cam0.copy()
        ego_from_cam2[:3, 3] = transform(
            ego_from_cam0, -np.linalg.solve(k, matrices["P2"][:, 3])
        )
    except np.linalg.LinAlgError as error:
        raise InputError(
            "a calibration must hold matrices that can be "
            f"inverted; {path} does not: {error}."
        ) from error
    camera = Camera(k[0, 0], k[1, 1], k[0, 2], k[1, 2], ego_from_cam2, ROAD_Z_M)
    return Mounting(ego_from_cam0, camera)


def square(matrix: Float[np.ndarray, "3 columns"]) -> Float[np.ndarray, "4 4"]:
    """A 3x3 or 3x4 matrix as a 4x4 transform."""
    result = np.eye(4)
    result[:3, : matrix.shape[1]] = matrix
    return result


def read_labels(path: Path) -> LabelRows:
    """Columns of a label file; the tracking benchmark's Person is Person_sitting."""
    rows = rows_of(path, LABEL_COLUMNS, what="labels")
    names = [row[2] for row in rows]
    unknown = sorted(set(names) - set(KITTI_CLASSES) - {"DontCare"})
    if unknown:
        raise InputError(
            f"label classes must be KITTI's; {path} has {', '.join(unknown)}."
        )
    ids = [f"{path.stem}/{row[0]}" for row in rows]
    words = [row[:2] + row[3:] for row in rows]
    table = numbers(words, path=path, what="labels", ids=ids).reshape(
        -1, LABEL_COLUMNS - 1
    )
    sentence = (
        f"frames, track ids and occlusions must be whole numbers; {path} has another"
    )
    refuse(table[:, [0, 1, 3]] % 1 != 0, sentence, ids)
    table = table[order := np.argsort(table[:, 0], kind="stable")]
    cls = np.array(
        [KITTI_CLASSES.get(names[row_number], "DontCare") for row_number in order],
        dtype="<U14",
    )
    whole = table[:, [0, 1, 3]].astype(int)
    return LabelRows(
        whole[:, 0],
        whole[:, 1],
        cls,
        whole[:, 2],
        table[:, 5:9],
        table[:, 9:12],
        table[:, 12:15],
        table[:, 15],
    )


def reference_corners_m(
    labels: LabelRows, ego_from_cam0: Float[np.ndarray, "4 4"]
) -> Float[np.ndarray, "row 4 2"]:
    """Ground corners of labelled boxes in the ego frame; a label's yaw turns from
    camera x towards -z.
    """
    ground = ground_corners_m(
        labels.bottom_m[:, [0, 2]], labels.size_m[:, [2, 1]], yaw_rad=-labels.yaw_rad
    )
    height = np.broadcast_to(labels.bottom_m[:, 1][:, None], ground.shape[:2])
    in_cam0 = np.stack([ground[..., 0], height, ground[..., 1]], axis=-1)
    return transform(ego_from_cam0, in_cam0)[..., :2]


def read_truth(
    path: Path, unit: str, *, calibration: Mounting, dt_s: Float[np.ndarray, "time"]
) -> Truth:
    """Reference objects of a unit: all labels but DontCare; boxes of DontCare are the
    ignored regions.
    """
    labels = read_labels(path)
    if len(labels.frame) and not 0 <= labels.frame[0] <= labels.frame[-1] < len(dt_s):
        raise InputError(
            f"label frames must lie in 0 to {len(dt_s) - 1}; "
            f"{path} has {labels.frame[0]} to {labels.frame[-1]}: "
            "check that the ego file of the sequence has all its frames."
        )
    ignored = labels.cls == "DontCare"
    objects = LabelRows(*(column[~ignored] for column in labels))
    corners_m = reference_corners_m(objects, calibration.ego_from_cam0)
    closing_mps = track_closing_mps(
        objects.frame, objects.track, range_m=corners_m[..., 0].min(axis=-1), dt_s=dt_s
    )
    return Truth(
        unit=unit,
        objects=Objects.of(
            len(dt_s),
            objects.frame,
            corners_m=corners_m,
            closing_mps=closing_mps,
            names=objects.cls,
            track=objects.track,
        ),
        box_px=objects.box_px,
        occlusion=objects.occlusion,
        ignored_frame=labels.frame[ignored],
        ignored_box_px=labels.box_px[ignored],
    )


class Motion(NamedTuple):
    """Time and forward speed of each frame."""

    time_s: Float[np.ndarray, "time"]
    ego_speed_mps: Float[np.ndarray, "time"]


def read_motion(root: Path, unit: str, *, dt_s: float = DT_S) -> Motion:
    """Forward speed from OXTS where the file exists, otherwise from poses (backward
    difference); at least 0.
    """
    oxts, poses = root / "oxts" / f"{unit}.txt", root / "poses" / f"{unit}.txt"
    if reading.is_file(oxts):
        rows = rows_of(oxts, OXTS_COLUMNS, what="OXTS data")
        speed = numbers(
            [row[OXTS_FORWARD] for row in rows],
            path=oxts,
            what="OXTS data",
            largest=np.inf,
        )
        _check_speeds(speed, oxts)
        return Motion(
            read_times(root, unit, frames=len(rows), dt_s=dt_s), np.maximum(speed, 0.0)
        )
    if not reading.is_file(poses):
        raise InputError(
            f"unit {unit} must have OXTS data or poses; "
            f"found neither {oxts} nor {poses}."
        )
    rows = rows_of(poses, POSE_COLUMNS, what="poses")
    pose = numbers(rows, path=poses, what="poses", largest=FARTHEST).reshape(-1, 3, 4)
    time_s = read_times(root, unit, frames=len(pose), dt_s=dt_s)
    step_m = np.einsum("ti,ti->t", np.diff(pose[:, :, 3], axis=0), pose[:-1, :, 2])
    speed = step_m / np.diff(time_s)
    speed = np.concatenate([speed[:1], speed]) if len(speed) else np.zeros(len(pose))
    _check_speeds(speed, poses)
    return Motion(time_s, np.maximum(speed, 0.0))


def _check_speeds(speed_mps: Float[np.ndarray, "time"], path: Path) -> None:
    """Raise where a speed is too high for a vehicle, forwards or backwards (the caller
    sets backward speeds to 0).
    """
    strange = ~(np.abs(speed_mps) <= FASTEST_MPS)
    if strange.any():
        sentence = (
            "the ego speed must be at "
            f"most {FASTEST_MPS:g} m/s; {path} gives {speed_mps[strange][0]:g} m/s"
        )
        refuse(
            strange,
            sentence,
            [f"{path.stem}/{frame:06d}" for frame in range(len(speed_mps))],
        )


def read_times(
    root: Path, unit: str, *, frames: int, dt_s: float = DT_S
) -> Float[np.ndarray, "time"]:
    """Time stamps in seconds from their file, or equal steps of `dt_s` where there is
    no file.
    """
    path = root / "times" / f"{unit}.txt"
    if not reading.is_file(path):
        return np.arange(frames) * dt_s
    words = [row[0] for row in rows_of(path, 1, what="time stamps")]
    time_s = numbers(words, path=path, what="time stamps", largest=FARTHEST)
    if len(time_s) != frames:
        raise InputError(
            f"time stamps must be one per frame ({frames}); {path} has {len(time_s)}."
        )
    return time_s


def image_files(folder: Path, frame_ids: Sequence[str]) -> tuple[Path | None, ...]:
    """The picture of each frame, .png before .jpg; None where a frame has none."""
    names = (
        {path.name for path in reading.entries(folder)}
        if reading.is_folder(folder)
        else set()
    )
    paths = []
    for frame_id in frame_ids:
        name = next(
            (frame_id + end for end in (".png", ".jpg") if frame_id + end in names),
            None,
        )
        paths.append(folder / name if name else None)
    return tuple(paths)


def read_unit(
    root: Path, unit: str, *, images: str = "image_02", dt_s: float = DT_S
) -> tuple[Scene, Truth]:
    """The scene of one sequence, and its reference."""
    calibration = read_calibration(root / "calib" / f"{unit}.txt")
    motion = read_motion(root, unit, dt_s=dt_s)
    frame_ids = [f"{frame:06d}" for frame in range(len(motion.time_s))]
    scene = Scene(
        unit=unit,
        frame_ids=np.array(frame_ids, dtype="<U6"),
        time_s=motion.time_s,
        ego_speed_mps=motion.ego_speed_mps,
        cameras={"image_02": calibration.camera, "image_00": calibration.grey_camera},
        image_paths=image_files(root / images / unit, frame_ids),
    )
    truth = read_truth(
        root / "label_02" / f"{unit}.txt",
        unit,
        calibration=calibration,
        dt_s=scene.dt_s,
    )
    return scene, truth


@dataclass(frozen=True)
class Kitti(Dataset):
    """The tracking sequences under a folder.

    Attributes:
        root: The folder that holds `label_02`, or its parent.
        images: Name of the picture folder.
        require_images: Whether a frame without a picture is an error.
        dt_s: Time between frames where there are no time stamps.
    """

    root: Path | str
    images: str = "image_02"
    require_images: bool = False
    dt_s: float = DT_S

    @property
    def name(self) -> str:
        """Name of the data set; it seeds the splits."""
        return "kitti"

    @property
    def folder(self) -> Path:
        """The folder that holds `label_02`."""
        root = Path(self.root)
        root = (
            root / "training"
            if reading.is_folder(root / "training" / "label_02")
            else root
        )
        if not reading.is_folder(root / "label_02"):
            raise InputError(
                f"a KITTI tracking folder must hold label_02; found none in {root}: "
                "give the right folder."
            )
        return root

    def files(self, unit: str) -> dict[str, Path]:
        """Labels, calibration and motion of a sequence."""
        paths = [self.folder / part / f"{unit}.txt" for part in FILES]
        return {
            f"{path.parent.name}/{path.name}": path
            for path in paths
            if reading.is_file(path)
        }

    def beside(self, unit: str) -> dict[str, Any]:
        """Time between frames, and a digest of the names of the pictures."""
        folder = self.folder / self.images / unit
        names = (
            [path.name for path in reading.entries(folder)]
            if reading.is_folder(folder)
            else []
        )
        return {
            "dt_s": self.dt_s,
            "require_images": self.require_images,
            "pictures": digest_of(names),
        }

    def unit_ids(self) -> tuple[str, ...]:
        """Ids of the sequences with labels, such as 0002."""
        units = tuple(
            sorted(
                path.stem for path in reading.find(self.folder / "label_02", "*.txt")
            )
        )
        if not units:
            raise InputError(
                "a KITTI tracking folder must "
                f"hold label files; {self.folder / 'label_02'} has none."
            )
        return units

    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """The scene of one sequence, and its reference."""
        scene, truth = read_unit(self.folder, unit, images=self.images, dt_s=self.dt_s)
        if self.require_images and not scene.has_image.all():
            scene.image_source(int(np.argmin(scene.has_image)))
        return scene, truth
