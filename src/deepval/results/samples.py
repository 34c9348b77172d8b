"""What a result rests on, draw by draw -> arrays in a file of their own, bound to the result by its hash.

Resample 0 is the sample itself; then come the draws, then the sample without each of its units (or none).
"""

import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError, InputWarning
from deepval.files import reading
from deepval.files.archives import npz_arrays

NUMBERS = "fiu"
AXES = {
    "unit_ids": ("U", ("unit",)),
    "counts": (NUMBERS, ("draw", "unit")),
    "weights": (NUMBERS, ("draw",)),
    "seed": ("iu", ()),
    **{name: (NUMBERS, ("resample",)) for name in ("cheap_loss", "full_gain", "full_benefit")},
    **{name: (NUMBERS, ("row", "resample")) for name in ("gain", "benefit", "escalated", "prize", "versus_random")},
    **{f"stream_{name}": (NUMBERS, ("stream", "resample")) for name in ("gain", "benefit", "escalated", "prize")},
}
"""What the arrays of a file hold, and their axes, each as long in one array as in another."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Every row over every resample, for comparing and pooling.

    Attributes:
        unit_ids: Ids of the units, in the order of `counts`.
        counts: How often each draw holds each unit.
        weights: Probability of each draw where they are enumerated, None where they are equally likely.
        seed: What the draws came from, None where there is no chance in them.
        cheap_loss: All-cheap loss in each resample.
        full_gain: Gain of escalating everything in each.
        full_benefit: Its positive part.
        gain: Gain of each row of the result in each resample; NaN where it cannot run.
        benefit: Its positive part.
        escalated: Expected number of inputs that it escalates.
        prize: What its nDG divides by.
        versus_random: Gain less that of what stands for random in it, in units of the loss.
        stream_gain: Gain of each stream of the result in each resample, NaN where it cannot run; None without streams.
        stream_benefit: Its positive part.
        stream_escalated: Expected number of inputs that it escalates.
        stream_prize: What its nDG divides by.
    """

    unit_ids: tuple[str, ...]
    counts: Float[np.ndarray, "draw unit"]
    weights: Float[np.ndarray, "draw"] | None
    seed: int | None
    cheap_loss: Float[np.ndarray, "resample"]
    full_gain: Float[np.ndarray, "resample"]
    full_benefit: Float[np.ndarray, "resample"]
    gain: Float[np.ndarray, "row resample"]
    benefit: Float[np.ndarray, "row resample"]
    escalated: Float[np.ndarray, "row resample"]
    prize: Float[np.ndarray, "row resample"]
    versus_random: Float[np.ndarray, "row resample"]
    stream_gain: Float[np.ndarray, "stream resample"] | None = None
    stream_benefit: Float[np.ndarray, "stream resample"] | None = None
    stream_escalated: Float[np.ndarray, "stream resample"] | None = None
    stream_prize: Float[np.ndarray, "stream resample"] | None = None

    def to_bytes(self, result: str) -> bytes:
        """The file that keeps them beside the result of this SHA-256: .npz without pickles; what is None is absent."""
        held = {item.name: getattr(self, item.name) for item in fields(self)}
        file = io.BytesIO()
        np.savez_compressed(file, result=result, **{name: part for name, part in held.items() if part is not None})
        return file.getvalue()


def samples_path(result: str | Path) -> Path:
    """Where the samples of a saved result lie."""
    return Path(result).with_suffix(".samples.npz")


def _check_shapes(held: Mapping[str, np.ndarray]) -> None:
    """Raise a ValueError where an array is not of the axes of its name, or these are not equally long everywhere."""
    lengths: dict[str, int] = {}
    for name, (kinds, axes) in AXES.items():
        if name not in held:
            continue
        array = held[name]
        if array.dtype.kind not in kinds or array.ndim != len(axes):
            raise ValueError(f"{name} has to have {len(axes)} axes; it holds {array.dtype} of shape {array.shape}")
        for axis, length in zip(axes, array.shape, strict=True):
            if lengths.setdefault(axis, length) != length:
                raise ValueError(f"{name} has {length} of axis {axis}, and others have {lengths[axis]}")


def read_samples(path: Path, result: str, *, rows: int, streams: int = 0) -> Samples | None:
    """The samples that lie beside the result of this SHA-256; None where there are none, or those of another."""
    if not reading.is_file(path):
        return None
    try:
        held: dict[str, Any] = dict(npz_arrays(reading.content(path)))
        bound = str(held.pop("result"))
        _check_shapes(held)
        held["unit_ids"] = tuple(map(str, held["unit_ids"]))
        held |= {"weights": held.get("weights"), "seed": int(held["seed"]) if "seed" in held else None}
        samples = Samples(**held)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: must be samples saved by deepval; {error}. Save the result again.") from error
    if bound != result:
        told = f"{path}: must be the samples of the result beside it; they are of another, and are left out."
        warnings.warn(InputWarning(told), stacklevel=4)
        return None
    if samples.gain.shape != (rows, len(samples.cheap_loss)):
        raise InputError(f"{path}: must have a sample for each of {rows} rows; found {len(samples.gain)}.")
    if samples.stream_gain is not None and samples.stream_gain.shape != (streams, len(samples.cheap_loss)):
        raise InputError(f"{path}: must have a sample for each of {streams} streams; found {len(samples.stream_gain)}.")
    return samples
