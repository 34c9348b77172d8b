"""A folder of reference outputs -> how far our rasters, logits, plans, PKL and TIP
differ from them.

The folder holds rasters.npz (packed rasters of each frame with all boxes and with half
of them, masks), rasters_inputs.json.gz (what they were drawn from) and
network_check.json (logits, cells, PKL and TIP of a network whose weights are generated
by a recipe). Exit code 1 if something differs by more than is allowed.

Run: python tools/check_planning_metrics.py ../shared/data/planner_reference [--json]
[--frames 0,7]
"""

import argparse
import gzip
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.errors import InputError
from deepval.driving.geometry.vehicle import ground_corners_m
from deepval.driving.planners.neural.network import PlannerNetwork, state_shapes
from deepval.driving.planners.neural.plan_metrics import (
    BLOCK,
    Masks,
    PlanGrid,
    path_cells,
    pkl,
    tip,
)
from deepval.driving.planners.neural.planner import (
    Forward,
    PlannerWeights,
    network_with,
)
from deepval.driving.planners.neural.rasters import (
    RoadDrawing,
    road_raster,
    to_vehicle_frame,
    whole_raster,
)

TENSORS, PARAMETERS = 149, 18_851_768
LOGITS, RELATIVE = 2e-4, 1e-4


@dataclass(frozen=True)
class Comparison:
    """One quantity: how many numbers or frames were compared, the largest difference,
    and the allowed difference.
    """

    what: str
    compared: int
    worst: float
    allowed: float

    @property
    def holds(self) -> bool:
        """Whether something was compared and no difference is larger than allowed."""
        return self.compared > 0 and self.worst <= self.allowed


def comparisons(folder: Path, frames: Sequence[int] | None = None) -> list[Comparison]:
    """Every quantity of a reference compared with ours, on the requested frames or on
    all.
    """
    packed = np.load(folder / "rasters.npz")
    with gzip.open(folder / "rasters_inputs.json.gz") as file:
        inputs = json.load(file)["frames"]
    recorded = json.loads((folder / "network_check.json").read_text())
    chosen = list(range(len(inputs))) if frames is None else list(frames)
    drawn = {frame: frame_rasters(inputs[frame]) for frame in chosen}
    weights, found = generated_weights(), []
    found += _of_rasters(packed, drawn)
    found += _of_state(weights, recorded["weights"]["parameter_check"])
    side = [int(length) for length in packed["masks_shape"]]
    masks = Masks(
        np.unpackbits(packed["masks_recovered"])[: np.prod(side)].reshape(side) > 0
    )
    return found + _of_network(Forward(network_with(weights)), masks, drawn, recorded)


def frame_rasters(frame: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The raster of a frame with all its boxes and with half of them, from the
    reference's inputs.
    """

    def shapes(layer: str) -> tuple[np.ndarray, ...]:
        return tuple(
            np.array(item["xy"], dtype=float).reshape(-1, 2) for item in frame[layer]
        )

    ego = frame["ego"]
    pose = np.array([ego["x"], ego["y"], ego["yaw"]])
    drawing = RoadDrawing(
        *(
            shapes(name)
            for name in ("road_segment", "lane", "road_divider", "lane_divider")
        )
    )
    boxes = np.array(
        [[box[key] for key in ("x", "y", "yaw", "l", "w")] for box in frame["boxes"]]
    ).reshape(-1, 5)
    corners = ground_corners_m(
        to_vehicle_frame(boxes[:, :2], pose),
        boxes[:, 3:],
        yaw_rad=boxes[:, 2] - pose[2],
    )
    road = road_raster(drawing, pose)

    def whole(kept: np.ndarray) -> np.ndarray:
        return whole_raster(road, kept, (ego["l"], ego["w"]), grid=PlanGrid())

    return {"gt": whole(corners), "half": whole(corners[frame["keep"]])}


def generated_weights(seed: int = 0) -> PlannerWeights:
    """Weights by the reference's recipe: one stream of normal numbers over the names in
    order.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    arrays: dict[str, np.ndarray] = {}
    for name, shape in sorted(state_shapes().items()):
        if name.endswith("num_batches_tracked"):
            arrays[name] = np.zeros((), dtype=np.int64)
            continue
        z = rng.standard_normal(shape)
        if name.endswith("running_var"):
            z = 1 + 0.1 * np.abs(z)
        elif len(shape) >= 2 and name != "final.weight":
            z = z * np.sqrt(2 / np.prod(shape[1:]))
        elif len(shape) == 1 and name.endswith(".weight"):
            z = 1 + 0.1 * z
        else:
            z = 0.1 * z
        arrays[name] = z.astype(np.float32)
    return PlannerWeights(arrays, 64)


def _of_rasters(
    packed: Mapping[str, np.ndarray], drawn: Mapping[int, Mapping[str, np.ndarray]]
) -> list[Comparison]:
    found = []
    for name in ("gt", "half"):
        wrong = [
            np.count_nonzero(
                np.unpackbits(packed[name][frame]).reshape(rasters[name].shape)
                != rasters[name]
            )
            for frame, rasters in drawn.items()
        ]
        found.append(
            Comparison(
                f"rasters, {name}: pixels that differ",
                len(wrong),
                float(max(wrong)),
                0.0,
            )
        )
    return found


def _of_state(
    weights: PlannerWeights, recorded: Mapping[str, Mapping[str, Any]]
) -> list[Comparison]:
    network = PlannerNetwork()
    counted = sum(parameter.numel() for parameter in network.parameters())
    shapes = {name: list(array.shape) for name, array in weights.arrays.items()}
    named = {name: entry["shape"] for name, entry in recorded.items()}
    others = {
        name for name in shapes if not name.endswith("num_batches_tracked")
    } ^ set(named)
    wrong = len(others) + sum(
        shapes.get(name) != shape for name, shape in named.items()
    )
    sums = [
        abs(float(weights.arrays[name].sum(dtype=float)) - entry["sum"])
        for name, entry in recorded.items()
    ]
    return [
        Comparison(
            "state: tensors more or less than published",
            len(shapes),
            float(abs(len(shapes) - TENSORS)),
            0.0,
        ),
        Comparison(
            "state: parameters more or less than published",
            counted,
            float(abs(counted - PARAMETERS)),
            0.0,
        ),
        Comparison("state: names or shapes that differ", len(named), float(wrong), 0.0),
        Comparison("generated weights: sums, absolute", len(sums), max(sums), 1e-3),
    ]


def _of_network(
    forward: Forward,
    masks: Masks,
    drawn: Mapping[int, Mapping[str, np.ndarray]],
    recorded: Mapping[str, Any],
) -> list[Comparison]:
    off: dict[str, list[float]] = {}

    def note(what: str, ours: Any, theirs: Any, *, relative: bool = False) -> None:
        theirs = np.asarray(theirs, dtype=float)
        gap = np.abs(np.asarray(ours, dtype=float) - theirs)
        off.setdefault(what, []).append(
            float((gap / np.abs(theirs) if relative else gap).max())
        )

    step, x, y = np.array(recorded["sample_index_t_x_y"]).T
    for frame, rasters in drawn.items():
        entry = recorded["frames"][frame]
        blocks = {name: forward.blocks(raster) for name, raster in rasters.items()}
        reference, half = (masks.within(blocks[name]) for name in ("gt", "half"))
        note(
            "logits, mean over all cells, absolute",
            blocks["gt"].mean(dtype=float),
            entry["logit_mean"],
        )
        for name, key in (("gt", "sampled_logits"), ("half", "sampled_logits_half")):
            if key in entry:
                note(
                    f"logits, {name}, sampled cells, absolute",
                    blocks[name][step, x // BLOCK, y // BLOCK],
                    entry[key],
                )
        if "argmax_cell" in entry:
            note(
                "plan: distance of argmax cells, in cells",
                path_cells(reference, masks),
                entry["argmax_cell"],
            )
        metrics = {
            "pkl": pkl(reference, half, precision=np.float32),
            "pkl_float64": pkl(reference, half),
            "tip": tip(reference, half, masks),
            "tip_ts16": tip(reference, half, masks, steps=16),
            "tip_log": tip(reference, half, masks, utility="logarithm"),
        }
        for name, ours in metrics.items():
            note(f"{name}, relative", ours, entry[name], relative=True)
    limits = {"logits": LOGITS, "plan": 0.0}
    return [
        Comparison(
            what,
            len(gaps),
            max(gaps),
            limits.get(what.partition(",")[0].partition(":")[0], RELATIVE),
        )
        for what, gaps in off.items()
    ]


def main() -> None:
    """Print the table, and fail if a difference is larger than allowed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reference", type=Path, help="folder of the reference")
    parser.add_argument(
        "--frames", help="numbers of frames, such as 0,7; all if not given"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    frames = (
        None
        if given.frames is None
        else [int(text) for text in given.frames.split(",")]
    )
    try:
        found = comparisons(given.reference, frames)
    except (OSError, KeyError, IndexError, ValueError, InputError) as error:
        sys.exit(
            f"{given.reference}: must be a folder of reference "
            f"outputs in the format above; {error!r}."
        )
    if given.json:
        print(
            json.dumps(
                [asdict(each) | {"holds": each.holds} for each in found], indent=1
            )
        )
    else:
        print(f"{'quantity':<48} {'compared':>10} {'worst':>10} {'allowed':>10}")
        for each in found:
            verdict = "" if each.holds else "  NOT HELD"
            print(
                f"{each.what:<48} {each.compared:>10,} "
                f"{each.worst:>10.2g} {each.allowed:>10.2g}{verdict}"
            )
    sys.exit(0 if all(each.holds for each in found) else 1)


if __name__ == "__main__":
    main()
