"""Small built cells for tests of allocators: synthetic drives with small random pictures, made once per process."""

import atexit
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from deepval.allocators import RECIPES
from deepval.benchmark import folder as folders
from deepval.benchmark import sources
from deepval.benchmark.build import cells
from deepval.benchmark.fitting import fit_on
from deepval.datasets.synthetic import WorldSettings
from deepval.perception.detections import FAILED

LADDER = ("yolov8s-320", "yolov8s-512", "yolov8s-640")
PAIR = (LADDER[0], LADDER[-1])
HOME = Path(tempfile.mkdtemp(prefix="deepval-test-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)


@cache
def material(modes=LADDER, *, scenes=8, frames=24):
    """Drives whose pictures are noise: the world's own take longer to draw than all else."""
    found = sources.synthetic(modes, settings=WorldSettings(scenes=scenes, frames=frames))
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (frames, 12, 20, 3), np.uint8) for _ in found.dataset.scenes]
    drives = [replace(scene, images=part) for scene, part in zip(found.dataset.scenes, pictures, strict=True)]
    return replace(found, dataset=replace(found.dataset, scenes=tuple(drives)))


def with_failures(found, *, every=5):
    """The material with the cheap mode failed on every n-th frame of each unit."""

    def failed(mode):
        units = {}
        for unit, part in mode.units.items():
            gone = np.arange(len(part.status)) % every == every - 1
            units[unit] = replace(part.where(~gone[part.frame]), status=np.where(gone, FAILED, part.status))
        return replace(mode, units=units)

    name, cheap = next(iter(found.modes.items()))
    broken = replace(cheap, detections=failed(cheap.detections), report=failed(cheap.reported))
    return replace(found, modes={**found.modes, name: broken})


def built(found, name, *, system="braking", pictures=True):
    """The material's cell in a folder, read back."""
    (cell,) = cells(found.dataset, found.modes, systems=(system,))
    folders.write(cell, HOME / name, pictures=pictures)
    return folders.read_cell(HOME / name)


@cache
def ladder_cell():
    """A cell of three modes."""
    return built(material(), "ladder")


@cache
def pair_cell():
    """A cell of the same cheap and full mode."""
    return built(material(PAIR), "pair")


@cache
def failing_cell():
    """A cell whose cheap mode failed on every fifth frame."""
    return built(with_failures(material(PAIR)), "failing")


@cache
def learned(name):
    """The allocator of a recipe, fitted on the cell of three modes."""
    return fit_on(ladder_cell(), RECIPES[name])
