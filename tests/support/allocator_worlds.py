"""Small built cells for tests of allocators: synthetic drives with small random
pictures, made once per process.
"""

import atexit
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from deepval.deploy.allocators import RECIPES
from deepval.deploy.fitting import fit_on
from deepval.driving.cells import folder as folders
from deepval.driving.cells import sources
from deepval.driving.cells.build import cells
from deepval.driving.datasets.synthetic import WorldSettings
from deepval.driving.perception.reported.detections import FAILED
from evidence_worlds import in_memory

LADDER = ("yolov8s-320", "yolov8s-512", "yolov8s-640")
LEARNED = tuple(name for name, recipe in RECIPES.items() if recipe.extra is None)
"""Recipes that are fitted by what every test run has."""
PAIR = (LADDER[0], LADDER[-1])
HOME = Path(tempfile.mkdtemp(prefix="deepval-test-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)


@cache
def material(modes=LADDER, *, scenes=8, frames=24):
    """Drives whose pictures are noise: the world's own take longer to draw than all
    else.
    """
    found = in_memory(
        sources.synthetic(modes, settings=WorldSettings(scenes=scenes, frames=frames))
    )
    rng = np.random.default_rng(0)
    pictures = [
        rng.integers(0, 256, (frames, 12, 20, 3), np.uint8) for _ in found.units
    ]
    drives = [
        replace(scene, images=part)
        for scene, part in zip(found.source.scenes, pictures, strict=True)
    ]
    return replace(found, source=replace(found.source, scenes=tuple(drives)))


def reporting(found, change, *, modes=None):
    """The material with the reports of some modes (all where None) changed, given unit
    by unit.
    """

    def changed(mode):
        report = mode.reader.report
        units = {unit: change(part) for unit, part in report.units.items()}
        return replace(
            mode, reader=replace(mode.reader, report=replace(report, units=units))
        )

    told = [
        changed(mode) if modes is None or mode.name in modes else mode
        for mode in found.modes
    ]
    return replace(found, modes=tuple(told))


def with_failures(found, *, every=5):
    """The material with the cheap mode failed on every n-th frame of each unit."""

    def failed(part):
        gone = np.arange(len(part.status)) % every == every - 1
        return replace(
            part.where(~gone[part.frame]), status=np.where(gone, FAILED, part.status)
        )

    return reporting(found, failed, modes=[found.modes[0].name])


def built(found, name, *, system="braking", pictures=True):
    """The material's cell in a folder, read back."""
    (cell,) = cells(found, systems=(system,))
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
