"""Scenes and truths with tracks -> samples (road user, time, raster, target cells) -> a
trained planner, the network behind planner-ade, PKL and TIP.

    python studies/train_planner.py --dataset nuscenes --root nuscenes \
        --maps expansion --steps 2000 --out planner

The planner is written as plain arrays of weights and masks, with a manifest; they are
labelled as trained here. The same samples, settings and threads give the same bytes. A
stopped run continues from its last checkpoint and ends with the same bytes as an
uninterrupted one. Needs the extra `torch`.
"""

import argparse
import io
import json
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.basics.errors import InputError, library
from deepval.basics.files import reading
from deepval.basics.files.canonical import digest_of, file_digest, json_text, sha256
from deepval.basics.files.writing import (
    check_writable,
    lock,
    npz_arrays,
    write_atomically,
)
from deepval.basics.progress import Watch, unwatched
from deepval.cli import terminal
from deepval.cli.build_cells import check_roads
from deepval.cli.data_options import MappedFiles
from deepval.driving.datasets import Dataset
from deepval.driving.geometry.classes import super_class
from deepval.driving.geometry.vehicle import ground_corners_m
from deepval.driving.planners.neural import repeatable
from deepval.driving.planners.neural.plan_metrics import AHEAD_S, STEPS, Masks, PlanGrid
from deepval.driving.planners.neural.planner import MANIFEST, TRAINED_HERE
from deepval.driving.planners.neural.rasters import (
    RoadDrawing,
    ego_poses,
    own_size_m,
    road_raster,
    scene_drawing,
    to_vehicle_frame,
    whole_raster,
)
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth
from deepval.judge.tables.split import ROLES, split, units_of
from deepval.version import __version__

HORIZON_S = float(AHEAD_S[-1])
LEAST_WAY_M = 0.2
"""Other road users are samples only where they move farther than this within the
horizon of a plan.
"""
TOLERANCE_S = 0.05
"""Keyframes are not quite evenly spaced: a future may be this much shorter."""
VEHICLES = ("vehicle", "cyclist")
"""Super-classes that are samples besides the ego vehicle; trailers, which only follow,
are left out.
"""


@dataclass(frozen=True, eq=False)
class Mover:
    """One road user in the world frame at the times of its observations: (x, y, cos,
    sin), length and width.
    """

    time_s: Float[np.ndarray, "time"]
    state: Float[np.ndarray, "time 4"]
    size_m: tuple[float, float]
    vehicle: bool

    def at(self, time_s: Float[np.ndarray, "*when"]) -> Float[np.ndarray, "*when 3"]:
        """Pose (x, y, heading), linear between observations."""
        x, y, cos, sin = (
            np.interp(time_s, self.time_s, column) for column in self.state.T
        )
        return np.stack([x, y, np.arctan2(sin, cos)], axis=-1)

    def there(self, time_s: float) -> bool:
        """Whether the time lies between its first and last observation."""
        return bool(self.time_s[0] <= time_s <= self.time_s[-1])

    def starts_s(self, every_s: float) -> Float[np.ndarray, "when"]:
        """Times whose future is observed over the horizon of a plan."""
        room = self.time_s[-1] - self.time_s[0] - HORIZON_S + TOLERANCE_S
        return self.time_s[0] + every_s * np.arange(
            int(np.floor(room / every_s + 1e-9)) + 1 if room >= 0 else 0
        )


@dataclass(frozen=True, eq=False)
class UnitSamples:
    """The samples of one unit: sample i is road user `who[i]` (0: the ego vehicle) at
    `when_s[i]`.
    """

    unit: str
    drawing: RoadDrawing
    movers: tuple[Mover, ...]
    who: Int[np.ndarray, "sample"]
    when_s: Float[np.ndarray, "sample"]

    def __len__(self) -> int:
        return len(self.who)

    def raster(self, sample: int, grid: PlanGrid) -> Bool[np.ndarray, "5 x y"]:
        """The road user's raster: the road, all other road users with the ego vehicle,
        and itself.
        """
        mover, when = self.movers[self.who[sample]], float(self.when_s[sample])
        pose = mover.at(np.array(when))
        others = [
            other for other in self.movers if other is not mover and other.there(when)
        ]
        poses = np.array([other.at(np.array(when)) for other in others]).reshape(-1, 3)
        size_m = np.array([other.size_m for other in others]).reshape(-1, 2)
        corners = ground_corners_m(
            to_vehicle_frame(poses[:, :2], pose), size_m, yaw_rad=poses[:, 2] - pose[2]
        )
        return whole_raster(
            road_raster(self.drawing, pose, grid=grid), corners, mover.size_m, grid=grid
        )

    def target(self, sample: int, grid: PlanGrid) -> Int[np.ndarray, "step 2"]:
        """The road user's cell at every step; -1 outside the grid."""
        mover, when = self.movers[self.who[sample]], float(self.when_s[sample])
        ahead = mover.at(np.minimum(when + AHEAD_S, mover.time_s[-1]))
        cells = grid.cell_of(to_vehicle_frame(ahead[:, :2], mover.at(np.array(when))))
        inside = np.asarray(((cells >= 0) & (cells < grid.cells)).all(axis=1))
        return np.where(inside[:, None], cells, -1).astype(int)


@dataclass(frozen=True, eq=False)
class PlannerSamples:
    """The samples of several units, one after the other."""

    units: tuple[UnitSamples, ...]
    grid: PlanGrid

    def __len__(self) -> int:
        return sum(map(len, self.units))

    @cached_property
    def targets(self) -> Int[np.ndarray, "sample step 2"]:
        """The target of every sample."""
        cells = [
            unit.target(sample, self.grid)
            for unit in self.units
            for sample in range(len(unit))
        ]
        return np.array(cells, dtype=int).reshape(-1, STEPS, 2)

    def raster(self, sample: int) -> Bool[np.ndarray, "5 x y"]:
        """The raster of a sample."""
        ends = np.cumsum([len(unit) for unit in self.units])
        index = int(np.searchsorted(ends, sample, side="right"))
        return self.units[index].raster(
            sample - int(ends[index] - len(self.units[index])), self.grid
        )

    @cached_property
    def masks(self) -> Bool[np.ndarray, "step x y"]:
        """The cells that some sample is in at each step, with their mirror images."""
        cells = np.zeros((STEPS, self.grid.cells, self.grid.cells), dtype=bool)
        step = np.broadcast_to(np.arange(STEPS), self.targets.shape[:2])
        inside = self.targets[..., 0] >= 0
        cells[step[inside], self.targets[inside][:, 0], self.targets[inside][:, 1]] = (
            True
        )
        return cells | cells[:, :, ::-1]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of road users, times and target cells."""
        units = [
            [unit.unit, unit.who.tolist(), unit.when_s.tolist()] for unit in self.units
        ]
        return digest_of([units, self.targets.tolist()])


def unit_samples(
    scene: Scene, truth: Truth, *, every_s: float = 0.25, ego_only: bool = True
) -> UnitSamples:
    """The samples of one unit: its ego vehicle every `every_s`, and unless `ego_only`
    other vehicles that move.
    """
    movers = (_ego(scene), *_others(scene, truth))
    who, when = [], []
    for index, mover in enumerate(movers):
        if index and (ego_only or not mover.vehicle):
            continue
        starts = mover.starts_s(every_s)
        if index:
            end = np.minimum(starts + HORIZON_S, mover.time_s[-1])
            way = (
                mover.at(end)[:, :2] - mover.at(starts)[:, :2]
                if len(starts)
                else np.zeros((0, 2))
            )
            starts = starts[np.hypot(*way.T) > LEAST_WAY_M]
        who.append(np.full(len(starts), index))
        when.append(starts)
    return UnitSamples(
        scene.unit,
        scene_drawing(scene),
        movers,
        np.concatenate(who),
        np.concatenate(when),
    )


def samples_of(units: Sequence[UnitSamples], grid: PlanGrid) -> PlannerSamples:
    """Samples to train on; there must be some, and every step must stay on the grid for
    one of them.
    """
    samples = PlannerSamples(tuple(units), grid)
    if not len(samples):
        raise InputError(
            f"training a planner needs units that were logged for {HORIZON_S:g} s or "
            f"more; of the {len(units)} given none was."
        )
    if not samples.masks.any(axis=(1, 2)).all():
        raise InputError(
            "training a planner needs a road user that stays on the grid at every "
            "step; found none."
        )
    return samples


def _ego(scene: Scene) -> Mover:
    pose = ego_poses(scene)
    state = np.column_stack([pose[:, :2], np.cos(pose[:, 2]), np.sin(pose[:, 2])])
    return Mover(scene.time_s, state, own_size_m(scene), vehicle=True)


def _others(scene: Scene, truth: Truth) -> list[Mover]:
    """The reference's tracks in the world, from footprints in the ego frame."""
    objects, poses = truth.objects, ego_poses(scene)
    if (objects.track < 0).any():
        raise InputError(
            f"unit {scene.unit}: training a planner needs a track id for every "
            "reference object."
        )
    corners = objects.corners_m
    front, rear = corners[:, :2].mean(axis=1), corners[:, 2:].mean(axis=1)
    ahead, across = front - rear, corners[:, 0] - corners[:, 1]
    pose = poses[objects.frame]
    yaw = np.arctan2(ahead[:, 1], ahead[:, 0]) + pose[:, 2]
    cos, sin = np.cos(pose[:, 2]), np.sin(pose[:, 2])
    x, y = corners.mean(axis=1).T
    state = np.column_stack(
        [
            cos * x - sin * y + pose[:, 0],
            sin * x + cos * y + pose[:, 1],
            np.cos(yaw),
            np.sin(yaw),
        ]
    )
    size_m = np.column_stack([np.hypot(*ahead.T), np.hypot(*across.T)])
    kinds = super_class(objects.cls)
    movers = []
    for track in np.unique(objects.track):
        rows = np.flatnonzero(objects.track == track)
        first = rows[0]
        vehicle = (
            str(kinds[first]) in VEHICLES
            and str(objects.cls[first]).lower() != "trailer"
        )
        size = (float(size_m[first, 0]), float(size_m[first, 1]))
        movers.append(
            Mover(scene.time_s[objects.frame[rows]], state[rows], size, vehicle)
        )
    return movers


POSITIVE_WEIGHT = 10.0
"""Weight of the road user's own cell."""
LEAST_TARGET = 0.01
"""Target of cells without the road user, instead of 0."""
CHECKPOINT = "checkpoint.npz"


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training; the defaults are the published ones except for the number
    of steps.
    """

    width: int = 64
    steps: int = 1000
    batch: int = 16
    learning_rate: float = 2e-3
    weight_decay: float = 1e-8
    seed: int = 0
    threads: int = 1
    checkpoint_every: int = 50

    def __post_init__(self) -> None:
        for name in ("width", "steps", "threads", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"{name} of a training must "
                    f"be 1 or more; found {getattr(self, name)}."
                )
        if self.batch < 2:
            raise InputError(
                "a training's batch must be 2 or more, to "
                f"normalise over; found {self.batch}."
            )


class Trained(NamedTuple):
    """The files that a training wrote."""

    weights: Path
    masks: Path
    manifest: Mapping[str, Any]


def train(
    samples: PlannerSamples,
    out: Path,
    settings: TrainingSettings,
    *,
    source: Mapping[str, Any] | None = None,
    watch: Watch = unwatched,
) -> Trained:
    """Train a planner from scratch and write weights.npz, masks.npz and manifest.json
    into a folder.

    Args:
        samples: Training samples.
        out: The folder; a stopped run continues there.
        settings: Settings of the training.
        source: Origin of the samples, for the manifest: data set, units, hashes of
            files.
        watch: Receives every step, to report progress.
    """
    torch = library("torch")
    manifest = {
        "label": TRAINED_HERE,
        "deepval": __version__,
        "torch": str(torch.__version__),
        "cells": samples.grid.cells,
        **{
            name: value
            for name, value in asdict(settings).items()
            if name != "checkpoint_every"
        },
        "samples": len(samples),
        "samples_sha256": samples.digest,
        "source": dict(source or {}),
    }
    with (
        lock(
            out,
            f"{out}: another training is writing there; wait for "
            "it, or give another folder.",
        ),
        repeatable(torch, settings.seed, settings.threads),
    ):
        run = _Run(
            torch,
            samples,
            settings,
            checkpoint=out / CHECKPOINT,
            digest=digest_of(manifest),
        )
        run.resume()
        for step in watch(range(run.done, settings.steps), "training the planner"):
            run.step(step)
        return _write(out, run, manifest)


def _write(out: Path, run: "_Run", manifest: Mapping[str, Any]) -> Trained:
    state = {name: tensor.numpy() for name, tensor in run.network.state_dict().items()}
    manifest = {
        **manifest,
        "loss": {"first": run.losses[0], "last": float(np.mean(run.losses[-50:]))},
    }
    weights = npz_bytes(
        {**state, MANIFEST: np.array(json.dumps(manifest, sort_keys=True))}
    )
    masks = masks_bytes(run.masks)
    write_atomically(out / "weights.npz", weights)
    write_atomically(out / "masks.npz", masks)
    hashes = {"weights_sha256": sha256(weights), "masks_sha256": sha256(masks)}
    write_atomically(
        out / "manifest.json", json_text({**manifest, **hashes}, sort_keys=True)
    )
    (out / CHECKPOINT).unlink(missing_ok=True)
    return Trained(out / "weights.npz", out / "masks.npz", {**manifest, **hashes})


class _Run:
    """A running training."""

    def __init__(
        self,
        torch: Any,
        samples: PlannerSamples,
        settings: TrainingSettings,
        *,
        checkpoint: Path,
        digest: str,
    ) -> None:
        from deepval.driving.planners.neural.network import PlannerNetwork

        self.torch, self.samples, self.settings = torch, samples, settings
        self.checkpoint, self.digest = checkpoint, digest
        self.masks = Masks(samples.masks)
        network: Any = PlannerNetwork(settings.width)
        # not channels last: narrow networks then write past their memory (torch 2.13)
        self.network = network.train()
        self.optimiser = torch.optim.Adam(
            self.network.parameters(),
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
        )
        self.within = torch.from_numpy(self.masks.cells)
        self.losses: list[float] = []

    @property
    def done(self) -> int:
        """Number of steps done."""
        return len(self.losses)

    def step(self, step: int) -> None:
        """One step; the samples and their flips depend on its number and the seed
        alone.
        """
        torch, settings = self.torch, self.settings
        chosen = _batch_samples(len(self.samples), step, settings)
        flipped = (
            np.random.default_rng([settings.seed, 1, step]).random(settings.batch) < 0.5
        )
        rasters = np.stack(
            [self.samples.raster(int(sample)) for sample in chosen]
        ).astype(np.float32)
        targets = np.stack(
            [
                _one_hot(self.samples.targets[sample], self.samples.grid.cells)
                for sample in chosen
            ]
        )
        for arrays in (rasters, targets):
            arrays[flipped] = arrays[flipped][..., ::-1]
        batch = torch.from_numpy(rasters)
        loss = planner_loss(
            torch, self.network(batch), torch.from_numpy(targets), self.within
        )
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.losses.append(float(loss.detach()))
        if not np.isfinite(self.losses[-1]):
            raise InputError(
                f"the training's loss must stay finite; it is not at step {step}: "
                "lower the learning rate."
            )
        if self.done % settings.checkpoint_every == 0 and self.done < settings.steps:
            write_atomically(self.checkpoint, npz_bytes(self._checkpoint()))

    def _checkpoint(self) -> dict[str, np.ndarray]:
        arrays = {
            f"network/{name}": tensor.numpy()
            for name, tensor in self.network.state_dict().items()
        }
        for number, state in self.optimiser.state_dict()["state"].items():
            arrays |= {
                f"optimiser/{number}/{name}": tensor.numpy()
                for name, tensor in state.items()
            }
        return {
            "digest": np.array(self.digest),
            "losses": np.array(self.losses),
            **arrays,
        }

    def resume(self) -> None:
        """Continue from the checkpoint of this training, if there is one."""
        if not reading.exists(self.checkpoint):
            return
        torch = self.torch
        try:
            arrays = npz_arrays(reading.content(self.checkpoint))
            digest, losses = str(arrays.pop("digest")), arrays.pop("losses").tolist()
        except (ValueError, KeyError) as error:
            raise InputError(
                f"{self.checkpoint}: must be a checkpoint "
                f"of this training; {error}: remove it."
            ) from error
        if digest != self.digest:
            raise InputError(
                f"{self.checkpoint}: is a checkpoint of another training (other "
                "samples, settings or versions): remove it to start anew, or give "
                "another folder."
            )
        parts: dict[str, dict[str, Any]] = {"network": {}, "optimiser": {}}
        for name, array in arrays.items():
            kind, _, rest = name.partition("/")
            parts[kind][rest] = torch.from_numpy(np.array(array))
        self.network.load_state_dict(parts["network"])
        state: dict[int, dict[str, Any]] = {}
        for name, tensor in parts["optimiser"].items():
            number, _, what = name.partition("/")
            state.setdefault(int(number), {})[what] = tensor
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
        self.losses = losses


def planner_loss(torch: Any, logits: Any, targets: Any, within: Any) -> Any:
    """Mean cross-entropy over the cells within the masks; the road user's own cell
    weighs ten times.
    """
    inside = targets[:, within]
    weight = 1.0 + (POSITIVE_WEIGHT - 1.0) * inside
    return torch.nn.functional.binary_cross_entropy_with_logits(
        logits[:, within], inside.clamp(min=LEAST_TARGET), weight
    )


def _batch_samples(
    count: int, step: int, settings: TrainingSettings
) -> Int[np.ndarray, "batch"]:
    """Indices of a step's samples: random permutations of all samples, one after the
    other, cut into batches.
    """
    positions = np.arange(step * settings.batch, (step + 1) * settings.batch)
    rounds = {
        n: np.random.default_rng([settings.seed, 0, n]).permutation(count)
        for n in set((positions // count).tolist())
    }
    return np.array(
        [rounds[position // count][position % count] for position in positions.tolist()]
    )


def _one_hot(
    cells: Int[np.ndarray, "step 2"], side: int
) -> Float[np.ndarray, "step x y"]:
    target = np.zeros((STEPS, side, side), dtype=np.float32)
    inside = np.flatnonzero(cells[:, 0] >= 0)
    target[inside, cells[inside, 0], cells[inside, 1]] = 1.0
    return target


FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The date of every entry, so that the bytes do not depend on the time of writing."""


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An .npz file with the arrays in their order; not compressed, so that bytes depend
    on no version of zlib.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in arrays.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
            archive.writestr(
                zipfile.ZipInfo(f"{name}.npy", FIRST_DAY), entry.getvalue()
            )
    return out.getvalue()


def masks_bytes(masks: Masks) -> bytes:
    """Masks as an .npz file, the same bytes for the same masks."""
    return npz_bytes({"masks": masks.cells})


def options(words: Sequence[str] | None) -> argparse.Namespace:
    """The options of a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--root", type=Path, help="folder of the data set's files")
    parser.add_argument("--maps", type=Path, help="folder of lane maps")
    parser.add_argument(
        "--units", default="train", help=f"{', '.join(ROLES)}, or names: a,b,c"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="a stopped run continues there"
    )
    parser.add_argument("--width", type=int, default=64, help="of the first layer")
    parser.add_argument("--grid", type=int, default=256, help="cells per side")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument(
        "--every", type=float, default=0.25, help="seconds between samples"
    )
    parser.add_argument(
        "--others", action="store_true", help="train on other moving vehicles too"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args(words)


def chosen_units(source: Dataset, text: str) -> tuple[str, ...]:
    """Units by role in the split of the data set, or by name."""
    if text in ROLES:
        return units_of(split(source.name, source.unit_ids()), text)
    return source.select(text.split(","))


def source_of(source: Dataset, units: Sequence[str]) -> dict[str, Any]:
    """The source of the samples, for the manifest."""
    files = {
        name: file_digest(path)
        for unit in units
        for name, path in source.files(unit).items()
    }
    return {
        "dataset": source.name,
        "units": list(units),
        "files_sha256": digest_of(files),
    }


def run(given: argparse.Namespace) -> Trained:
    """Read the units and train on their samples."""
    # Before the units are read, which takes minutes.
    check_writable(given.out, folder=True)
    if given.every <= 0:
        raise InputError(f"--every must be more than 0 seconds; found {given.every:g}.")
    settings = TrainingSettings(
        width=given.width,
        steps=given.steps,
        batch=given.batch,
        seed=given.seed,
        threads=given.threads,
    )
    grid = PlanGrid(given.grid)
    source = MappedFiles(
        dataset=given.dataset, root=given.root, units=given.units, maps=given.maps
    ).open()
    units = chosen_units(source, given.units)
    check_roads(source, units)
    samples_by_unit = [
        unit_samples(
            *source.read_unit(unit), every_s=given.every, ego_only=not given.others
        )
        for unit in terminal.watch(units, f"units of {source.name}")
    ]
    return train(
        samples_of(samples_by_unit, grid),
        given.out,
        settings,
        source=source_of(source, units),
        watch=terminal.watch,
    )


def main(words: Sequence[str] | None = None) -> None:
    """Train, and say what was written."""
    given = options(words)
    try:
        trained = run(given)
    except InputError as error:
        print(f"Error: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    manifest = trained.manifest
    print(
        f"{trained.weights} and {trained.masks}: {manifest['steps']:,} steps on "
        f"{manifest['samples']:,} samples, loss {manifest['loss']['first']:.4f} to "
        f"{manifest['loss']['last']:.4f}; {manifest['label']}."
    )


if __name__ == "__main__":
    main()
