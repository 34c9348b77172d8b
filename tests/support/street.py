"""A street of logged tracks, and trackers of different reach: modes that report cuboids
without any image box.
"""

from dataclasses import dataclass, replace

import numpy as np

from deepval.driving.cells.spec import Material, ModeSpec
from deepval.driving.datasets import Dataset
from deepval.driving.geometry.vehicle import ZOE
from deepval.driving.perception.reported.detection_rows import ModeReader
from deepval.driving.perception.reported.detections import FAILED, Detections
from deepval.driving.world.lanes import Lane, LaneMap
from deepval.driving.world.objects import box_objects
from driving import known, scene

FRAMES, CLASSES = 24, ("Car", "Pedestrian", "Cyclist", "Traffic_cone", "Truck")
ROAD = LaneMap(
    {
        "in": Lane(
            "in", np.array([[0.0, 0.0], [40.0, 0.0]]), "a", successors=("across",)
        ),
        "across": Lane(
            "across",
            np.array([[40.0, 0.0], [60.0, 0.0]]),
            "b",
            successors=("out",),
            connector=True,
        ),
        "out": Lane("out", np.array([[60.0, 0.0], [400.0, 0.0]]), "c"),
    }
)


def pose_at(x_m, y_m=0.0, heading_rad=0.0):
    """The pose of an ego vehicle."""
    cos, sin = np.cos(heading_rad), np.sin(heading_rad)
    pose = np.eye(4)
    pose[:2, :2], pose[:2, 3] = [[cos, -sin], [sin, cos]], (x_m, y_m)
    return pose


@dataclass(frozen=True)
class Street(Dataset):
    """Ten drives along one road.

    `hidden` is added to where things beyond `beyond_m` are.
    """

    hidden_m: float = 0.0
    beyond_m: float = 20.0
    name = "street"

    def files(self, unit):
        return {}

    def unit_ids(self):
        return tuple(f"street-{place}" for place in range(10))

    def read_unit(self, unit):
        rng = np.random.default_rng(int(unit[7:]))
        frame = np.sort(rng.integers(0, FRAMES, 6 * FRAMES))
        near, low = rng.uniform(4, 45, len(frame)), rng.uniform(-6, 4, len(frame))
        near = np.where(near > self.beyond_m, near + self.hidden_m, near)
        things = box_objects(
            FRAMES,
            frame,
            near_m=near,
            far_m=near + rng.uniform(0.5, 8, len(frame)),
            lateral_m=np.column_stack([low, low + rng.uniform(0.5, 2.5, len(frame))]),
            closing_mps=np.zeros(len(frame)),
            names=np.array(CLASSES)[rng.integers(0, len(CLASSES), len(frame))],
            track=rng.integers(0, 12, len(frame)),
        )
        things = replace(things, velocity_mps=rng.normal(0, 3, (len(frame), 2)))
        speed = np.abs(rng.normal(7, 3, FRAMES))
        road = scene(
            FRAMES,
            unit=unit,
            speed_mps=speed,
            dt_s=0.5,
            vehicle=ZOE,
            lane_map=ROAD,
            route=("a", "b", "c"),
            world_from_ego=np.array([pose_at(x) for x in np.cumsum(0.5 * speed)]),
        )
        return road, known(things, unit)


@dataclass(frozen=True)
class Tracker(ModeReader):
    """A mode that puts a 3D box with class, track and velocity around whatever is
    within its reach.
    """

    farthest_m: float
    fails: bool = False
    scores = "none"

    @property
    def definition(self):
        return {
            "source": "tracker",
            "farthest_m": self.farthest_m,
            "fails": self.fails,
            "scores": "none",
        }

    def detections(self, scene, truth):
        status = (
            np.where(np.arange(len(scene)) % 5 == 4, FAILED, 0)
            if self.fails
            else np.zeros(len(scene), int)
        )
        things = truth.objects
        things = things.where(
            (things.near_m <= self.farthest_m) & (status[things.frame] == 0)
        )
        size_m = np.column_stack(
            [things.far_m - things.near_m, np.ptp(things.lateral_m, axis=1)]
        )
        rest = np.broadcast_to([1.5, 0.0], size_m.shape)
        nothing = np.full((len(things), 5), np.nan)
        return Detections(
            unit=scene.unit,
            frame=things.frame,
            cls=things.cls,
            score=nothing[:, 0],
            box_px=nothing[:, 1:],
            status=status,
            track=things.track,
            cuboid_m=np.column_stack(
                [things.centre_m, np.zeros(len(things)), size_m, rest]
            ),
            velocity_mps=things.velocity_mps,
            cuboid_frame="ego",
        )


def street(*, reach_m=(15.0, 30.0, 60.0), fails=False, **settings):
    """The material of the street, with one tracker per reach."""
    readers = [
        Tracker(reach, fails and place == 0) for place, reach in enumerate(reach_m)
    ]
    modes = tuple(
        ModeSpec(f"tracker-{each.farthest_m:g}", each.definition, reader=each)
        for each in readers
    )
    return Material(Street(**settings), modes, Street().unit_ids())
