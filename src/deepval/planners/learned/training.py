"""Samples -> a trained planner: weights and masks as plain arrays, with a manifest.

The same samples, settings and threads give the same bytes. A stopped run continues from its last checkpoint and ends
with the same bytes as an uninterrupted one. This is one of the modules that need torch.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Float, Int
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import digest_of, json_text, sha256
from deepval.files.writing import lock, npz_arrays, write_atomically
from deepval.planners.learned.masks import STEPS, TRAINED_HERE, Masks, masks_bytes, npz_bytes
from deepval.planners.learned.samples import PlannerSamples
from deepval.planners.learned.weights import MANIFEST, torch_library
from deepval.progress import Watch, silent
from deepval.version import __version__

POSITIVE_WEIGHT = 10.0
"""Weight of the road user's own cell."""
LEAST_TARGET = 0.01
"""Target of cells without the road user, instead of 0."""
CHECKPOINT = "checkpoint.npz"


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training; the defaults are the published ones except for the number of steps."""

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
                raise InputError(f"{name} of a training must be 1 or more; found {getattr(self, name)}.")
        if self.batch < 2:
            raise InputError(f"a training's batch must be 2 or more, to normalise over; found {self.batch}.")


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
    watch: Watch = silent,
) -> Trained:
    """Train a planner from scratch and write weights.npz, masks.npz and manifest.json into a folder.

    Args:
        samples: Training samples.
        out: The folder; a stopped run continues there.
        settings: Settings of the training.
        source: Origin of the samples, for the manifest: data set, units, hashes of files.
        watch: Receives every step, to report progress.
    """
    torch = torch_library()
    manifest = {
        "label": TRAINED_HERE,
        "deepval": __version__,
        "torch": str(torch.__version__),
        "cells": samples.grid.cells,
        **{name: value for name, value in asdict(settings).items() if name != "checkpoint_every"},
        "samples": len(samples),
        "samples_sha256": samples.digest,
        "source": dict(source or {}),
    }
    with (
        lock(out, f"{out}: another training is writing there; wait for it, or give another folder."),
        _repeatable(torch, settings),
    ):
        run = _Run(torch, samples, settings, checkpoint=out / CHECKPOINT, digest=digest_of(manifest))
        run.resume()
        for step in watch(range(run.done, settings.steps), "training the planner"):
            run.step(step)
        return _write(out, run, manifest)


def _write(out: Path, run: "_Run", manifest: Mapping[str, Any]) -> Trained:
    state = {name: tensor.numpy() for name, tensor in run.network.state_dict().items()}
    manifest = {**manifest, "loss": {"first": run.losses[0], "last": float(np.mean(run.losses[-50:]))}}
    weights = npz_bytes({**state, MANIFEST: np.array(json.dumps(manifest, sort_keys=True))})
    masks = masks_bytes(run.masks)
    write_atomically(out / "weights.npz", weights)
    write_atomically(out / "masks.npz", masks)
    hashes = {"weights_sha256": sha256(weights), "masks_sha256": sha256(masks)}
    write_atomically(out / "manifest.json", json_text({**manifest, **hashes}, sort_keys=True))
    (out / CHECKPOINT).unlink(missing_ok=True)
    return Trained(out / "weights.npz", out / "masks.npz", {**manifest, **hashes})


class _Run:
    """A running training."""

    def __init__(
        self, torch: Any, samples: PlannerSamples, settings: TrainingSettings, *, checkpoint: Path, digest: str
    ) -> None:
        from deepval.planners.learned.network import PlannerNetwork

        self.torch, self.samples, self.settings = torch, samples, settings
        self.checkpoint, self.digest = checkpoint, digest
        self.masks = Masks(samples.masks)
        network: Any = PlannerNetwork(settings.width)
        self.network = network.train()  # not channels last: narrow networks then write past their memory (torch 2.13)
        self.optimiser = torch.optim.Adam(
            self.network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self.within = torch.from_numpy(self.masks.cells)
        self.losses: list[float] = []

    @property
    def done(self) -> int:
        """Number of steps done."""
        return len(self.losses)

    def step(self, step: int) -> None:
        """One step; the samples and their flips depend on its number and the seed alone."""
        torch, settings = self.torch, self.settings
        chosen = _batch_samples(len(self.samples), step, settings)
        flipped = np.random.default_rng([settings.seed, 1, step]).random(settings.batch) < 0.5
        rasters = np.stack([self.samples.raster(int(sample)) for sample in chosen]).astype(np.float32)
        targets = np.stack([_one_hot(self.samples.targets[sample], self.samples.grid.cells) for sample in chosen])
        for arrays in (rasters, targets):
            arrays[flipped] = arrays[flipped][..., ::-1]
        batch = torch.from_numpy(rasters)
        loss = planner_loss(torch, self.network(batch), torch.from_numpy(targets), self.within)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.losses.append(float(loss.detach()))
        if not np.isfinite(self.losses[-1]):
            raise InputError(
                f"the training's loss must stay finite; it is not at step {step}: lower the learning rate."
            )
        if self.done % settings.checkpoint_every == 0 and self.done < settings.steps:
            write_atomically(self.checkpoint, npz_bytes(self._checkpoint()))

    def _checkpoint(self) -> dict[str, np.ndarray]:
        arrays = {f"network/{name}": tensor.numpy() for name, tensor in self.network.state_dict().items()}
        for number, state in self.optimiser.state_dict()["state"].items():
            arrays |= {f"optimiser/{number}/{name}": tensor.numpy() for name, tensor in state.items()}
        return {"digest": np.array(self.digest), "losses": np.array(self.losses), **arrays}

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
                f"{self.checkpoint}: must be a checkpoint of this training; {error}: remove it."
            ) from error
        if digest != self.digest:
            raise InputError(
                f"{self.checkpoint}: is a checkpoint of another training (other samples, settings or versions): remove "
                "it to start anew, or give another folder."
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
    """Mean cross-entropy over the cells within the masks; the road user's own cell weighs ten times."""
    inside = targets[:, within]
    weight = 1.0 + (POSITIVE_WEIGHT - 1.0) * inside
    return torch.nn.functional.binary_cross_entropy_with_logits(
        logits[:, within], inside.clamp(min=LEAST_TARGET), weight
    )


def _batch_samples(count: int, step: int, settings: TrainingSettings) -> Int[np.ndarray, "batch"]:
    """Indices of a step's samples: random permutations of all samples, one after the other, cut into batches."""
    positions = np.arange(step * settings.batch, (step + 1) * settings.batch)
    rounds = {
        n: np.random.default_rng([settings.seed, 0, n]).permutation(count) for n in set((positions // count).tolist())
    }
    return np.array([rounds[position // count][position % count] for position in positions.tolist()])


def _one_hot(cells: Int[np.ndarray, "step 2"], side: int) -> Float[np.ndarray, "step x y"]:
    target = np.zeros((STEPS, side, side), dtype=np.float32)
    inside = np.flatnonzero(cells[:, 0] >= 0)
    target[inside, cells[inside, 0], cells[inside, 1]] = 1.0
    return target


@contextmanager
def _repeatable(torch: Any, settings: TrainingSettings) -> Iterator[None]:
    """Seeded numbers, a fixed number of threads, sums in one order; torch's own settings are restored afterwards."""
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            torch.set_num_threads(settings.threads)
            torch.use_deterministic_algorithms(mode=True)
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(mode=strict)
