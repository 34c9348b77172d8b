"""Rasters -> the network's logits, one at a time on one thread; equal rasters are run once.

A raster at a time: batches of eight save an eighth of the time, and make the last digits of a frame depend on how many
others share its batch. So a frame's numbers are the same in whatever company it is planned.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from deepval.arrays import Bool, Float
from deepval.files.canonical import sha256
from deepval.planners.learned.network import torch_library

REMEMBERED = 768
"""Outputs kept of rasters run before: at most 200 MB of the published network's."""


class Forward:
    """A network with what it lately answered."""

    def __init__(self, network: Any, *, remembered: int = REMEMBERED) -> None:
        self.network = network
        self.remembered = remembered
        self.runs = 0
        self._answers: OrderedDict[str, np.ndarray] = OrderedDict()

    def blocks(self, raster: Bool[np.ndarray, "channel x y"]) -> Float[np.ndarray, "step bx by"]:
        """Logits of each block of cells (see `Masks.within`)."""
        key = sha256(np.packbits(raster).tobytes())
        found = self._answers.get(key)
        if found is None:
            found = self._run(raster)
            self._answers[key] = found
            while len(self._answers) > self.remembered:
                self._answers.popitem(last=False)
        self._answers.move_to_end(key)
        return found

    def _run(self, raster: Bool[np.ndarray, "channel x y"]) -> Float[np.ndarray, "step bx by"]:
        torch = torch_library()
        self.runs += 1
        with one_thread(), torch.inference_mode():
            given = torch.from_numpy(raster[None].astype(np.float32)).contiguous(memory_format=torch.channels_last)
            return np.ascontiguousarray(self.network.blocks(given)[0].numpy())


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, so that sums are in one order; torch is left as it was found."""
    torch = torch_library()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(threads)
