"""Every row of a result over every resample, in a file beside it."""

import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import InputError, InputWarning
from deepval.basics.files import reading

NUMBERS = "fiu"
AXES = {
    "unit_ids": ("U", ("unit",)),
    "counts": (NUMBERS, ("draw", "unit")),
    "weights": (NUMBERS, ("draw",)),
    "seed": ("iu", ()),
    **{
        name: (NUMBERS, ("resample",))
        for name in ("cheap_loss", "full_gain", "full_benefit")
    },
    **{
        name: (NUMBERS, ("row", "resample"))
        for name in ("gain", "benefit", "escalated", "prize", "versus_random")
    },
    **{
        f"stream_{name}": (NUMBERS, ("stream", "resample"))
        for name in ("gain", "benefit", "escalated", "prize")
    },
}
"""Kinds of dtype and axes of the arrays of a file; an axis has the same length in every
array.
"""


@dataclass(frozen=True, eq=False)
class Samples:
    """Every row over every resample, for comparing and pooling.

    Attributes:
        unit_ids: Ids of the units, in the order of `counts`.
        counts: How often each draw holds each unit.
        weights: Probability of each draw where they are enumerated, None where they are
            equally likely.
        seed: Seed of the draws, None where they are not random.
        cheap_loss: All-cheap loss in each resample.
        full_gain: Gain of escalating everything in each.
        full_benefit: Its positive part.
        gain: Gain of each row of the result in each resample; NaN where it cannot run.
        benefit: Its positive part.
        escalated: Expected number of inputs that it escalates.
        prize: Denominator of its nDG.
        versus_random: Gain minus the gain of its random reference, in units of the
            loss.
        stream_gain: Gain of each stream of the result in each resample; NaN where it
            cannot run; None without streams.
        stream_benefit: Its positive part.
        stream_escalated: Expected number of inputs that it escalates.
        stream_prize: Denominator of its nDG.
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
        """Content of the samples file of the result with this SHA-256: .npz without
        pickles; None is left out.
        """
        arrays = {item.name: getattr(self, item.name) for item in fields(self)}
        file = io.BytesIO()
        np.savez_compressed(
            file,
            result=result,
            **{name: array for name, array in arrays.items() if array is not None},
        )
        return file.getvalue()


def samples_path(result: str | Path) -> Path:
    """Path of the samples of a saved result."""
    return Path(result).with_suffix(".samples.npz")


def _check_shapes(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise a ValueError where an array has other axes than its name requires, or an
    axis has several lengths.
    """
    lengths: dict[str, int] = {}
    for name, (kinds, axes) in AXES.items():
        if name not in arrays:
            continue
        array = arrays[name]
        if array.dtype.kind not in kinds or array.ndim != len(axes):
            raise ValueError(
                f"{name} has to have "
                f"{len(axes)} axes; it holds {array.dtype} of shape {array.shape}"
            )
        for axis, length in zip(axes, array.shape, strict=True):
            if lengths.setdefault(axis, length) != length:
                raise ValueError(
                    f"{name} has {length} of axis "
                    f"{axis}, and others have {lengths[axis]}"
                )


def read_samples(
    path: Path, result: str, *, rows: int, streams: int = 0
) -> Samples | None:
    """The samples beside the result with this SHA-256; None where there are none, or
    they are of another result.
    """
    if not reading.is_file(path):
        return None
    # Few results are loaded.
    from deepval.basics.files.writing import npz_arrays

    try:
        arrays: dict[str, Any] = dict(npz_arrays(reading.content(path)))
        digest = str(arrays.pop("result"))
        _check_shapes(arrays)
        arrays["unit_ids"] = tuple(map(str, arrays["unit_ids"]))
        arrays |= {
            "weights": arrays.get("weights"),
            "seed": int(arrays["seed"]) if "seed" in arrays else None,
        }
        samples = Samples(**arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: must be samples saved by deepval; {error}. Save the result again."
        ) from error
    if digest != result:
        note = (
            f"{path}: must be the samples of the result beside it; they are of "
            "another, and are left out."
        )
        warnings.warn(InputWarning(note), stacklevel=4)
        return None
    if samples.gain.shape != (rows, len(samples.cheap_loss)):
        raise InputError(
            f"{path}: must have a sample for "
            f"each of {rows} rows; found {len(samples.gain)}."
        )
    if samples.stream_gain is not None and samples.stream_gain.shape != (
        streams,
        len(samples.cheap_loss),
    ):
        raise InputError(
            f"{path}: must have a sample for each "
            f"of {streams} streams; found {len(samples.stream_gain)}."
        )
    return samples
