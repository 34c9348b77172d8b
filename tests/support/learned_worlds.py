"""A made-up data set that the learned planner can drive on: a straight road with lanes,
dividers, poses, tracks.
"""

from dataclasses import dataclass

import numpy as np

from deepval.driving.datasets import Dataset
from deepval.driving.geometry.vehicle import ZOE, ground_corners_m
from deepval.driving.planners.neural.network import PlannerNetwork
from deepval.driving.planners.neural.plan_metrics import STEPS, Masks
from deepval.driving.planners.neural.planner import PlannerWeights
from deepval.driving.world.lanes import Lane, LaneMap
from deepval.driving.world.objects import Objects
from deepval.driving.world.truth import Future
from driving import known, scene

FRAMES, DT_S, AHEAD = 12, 0.5, 8


def small_weights(width=2, seed=0):
    """Random weights of a narrow network, other than those that a network starts
    with.
    """
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, tensor in PlannerNetwork(width).state_dict().items():
        if name.endswith("num_batches_tracked"):
            arrays[name] = np.zeros((), dtype=np.int64)
        else:
            z = rng.standard_normal(tuple(tensor.shape))
            arrays[name] = (
                1 + 0.1 * np.abs(z) if "running_var" in name else z / np.sqrt(z[0].size)
            ).astype(np.float32)
    return PlannerWeights(arrays, width)


def fan(cells=64):
    """Masks that widen ahead of the vehicle."""
    x, y = np.meshgrid(np.arange(cells), np.arange(cells), indexing="ij")
    origin, middle = round(17 / (76.8 / cells)), (cells - 1) / 2
    reach = np.arange(1, STEPS + 1)[:, None, None] * cells / 64
    return Masks(
        (x >= origin) & (x <= origin + 2 * reach) & (np.abs(y - middle) <= 1 + reach)
    )


def straight_map(heading_rad=0.0, long_m=300.0):
    """Two lanes and a connector along one heading, with a divider of each kind."""
    turn = np.array(
        [
            [np.cos(heading_rad), np.sin(heading_rad)],
            [-np.sin(heading_rad), np.cos(heading_rad)],
        ]
    )

    def box(low, high, right, left):
        return (
            np.array(
                [[low, right], [high, right], [high, left], [low, left]], dtype=float
            )
            @ turn
        )

    def line(low, high, y):
        return np.array([[low, y], [high, y]], dtype=float) @ turn

    lanes = [
        Lane(
            "right",
            line(-50, long_m, 0),
            "a",
            box(-50, long_m, -2, 2),
            successors=("on",),
        ),
        Lane("left", line(long_m, -50, 4), "b", box(-50, long_m, 2, 6)),
        Lane("on", line(long_m, long_m + 40, 0), "c", connector=True),
    ]
    dividers = {
        "road": (line(-50, long_m, 2),),
        "lane": (line(-50, long_m, -2), np.zeros((0, 2))),
    }
    return LaneMap({lane.id: lane for lane in lanes}, dividers_m=dividers)


@dataclass(frozen=True)
class Roads(Dataset):
    root: str | None = None
    name = "roads"

    def files(self, unit):
        return {}

    def unit_ids(self):
        return tuple(f"road-{place}" for place in range(6))

    def read_unit(self, unit):
        """The ego vehicle follows a car; another one stands at the roadside, a person
        walks along it.
        """
        rng = np.random.default_rng(int(unit[-1]))
        heading, speed_mps = rng.uniform(-3, 3), rng.uniform(4, 9)
        time_s = np.arange(FRAMES) * DT_S
        along = np.array([np.cos(heading), np.sin(heading)])
        pose = np.tile(np.eye(4), (FRAMES, 1, 1))
        pose[:, :2, :2] = [[along[0], -along[1]], [along[1], along[0]]]
        pose[:, :2, 3] = speed_mps * time_s[:, None] * along
        road = scene(
            FRAMES,
            unit=unit,
            speed_mps=speed_mps,
            dt_s=DT_S,
            world_from_ego=pose,
            lane_map=straight_map(heading),
            vehicle=ZOE,
        )
        driven_m = speed_mps * time_s
        gap_m, parked_m = rng.uniform(8, 25), rng.uniform(15, 50)
        x = np.stack(
            [
                np.full(FRAMES, gap_m),
                parked_m - driven_m,
                parked_m + 5 + 1.2 * time_s - driven_m,
            ],
            axis=1,
        )
        y = np.tile([0.0, -4.0, -6.0], (FRAMES, 1))
        size = np.tile([[4.5, 1.9], [4.2, 1.8], [0.7, 0.7]], (FRAMES, 1))
        centre = np.stack([x, y], axis=-1).reshape(-1, 2)
        things = Objects.of(
            FRAMES,
            np.repeat(np.arange(FRAMES), 3),
            corners_m=ground_corners_m(centre, size, yaw_rad=np.zeros(len(centre))),
            closing_mps=np.zeros(len(centre)),
            names=np.tile(["Car", "Car", "Pedestrian"], FRAMES),
            track=np.tile([7, 8, 9], FRAMES),
        )
        ahead_s = DT_S * np.arange(1, AHEAD + 1)
        future = np.zeros((FRAMES, AHEAD, 3))
        future[..., 0] = speed_mps * ahead_s
        logged = np.arange(FRAMES)[:, None] + np.arange(1, AHEAD + 1) < FRAMES
        return road, known(things, unit, future=Future(ahead_s, future, logged))
