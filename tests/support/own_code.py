"""Every analysis on a system, a data set and an estimator of the user's own.

`python tests/support/own_code.py` prints a table of what ran, and why the rest did not.
"""

import sys
from contextlib import chdir
from itertools import product
from pathlib import Path
from tempfile import mkdtemp

from commands import call, run
from deepval.paper.analysis import ANALYSES, REPORT_ONLY, Analysis, analysis
from deepval.paper.study import PARTS

NAMES = tuple(name for name in ANALYSES if name not in REPORT_ONLY)
COLUMNS = ("system", "data set", "estimator")
UNITS = ",".join(f"scene-{number:02}" for number in range(40))
CODE = '''
from dataclasses import dataclass

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from deepval.driving.datasets import Dataset
from deepval.driving.datasets.synthetic import Synthetic
from deepval.driving.systems import System

line = make_pipeline(SimpleImputer(), StandardScaler(), Ridge())


@dataclass(frozen=True)
class Alarm(System):
    """Brakes for any object within reach."""

    reach_m: float = 30.0
    weights = {"late": 5.0, "needless": 1.0}
    choices = np.array([[0.0], [1.0]])

    def near(self, objects):
        near = objects.near_m < self.reach_m
        return np.bincount(objects.frame, weights=near, minlength=objects.frames) > 0

    def plan(self, perceived, scene, *, starts=None, previous=None):
        return self.near(perceived).astype(float)[:, None]

    def terms(self, plans, scene, truth, *, previous):
        there, braked = self.near(truth.objects), plans[:, 0] > 0
        return {"late": (there & ~braked) * 1.0, "needless": (braked & ~there) * 1.0}


@dataclass(frozen=True)
class Lanes(Dataset):
    """Twenty-four scenes."""

    root: object = None
    name = "lanes"

    def files(self, unit):
        return {}

    def unit_ids(self):
        return Synthetic().unit_ids()[:24]

    def read_unit(self, unit):
        return Synthetic().read_unit(unit)
'''
SIZES = {"320": 13.18, "512": 16.0, "640": 18.47}
"""Milliseconds per size of the detector."""
ALLOCATORS = {"ego-speed": 0.0, "gate-ridge": 1.0, "line": 0.2}
ALARM = "systems/mine-Alarm-monocular"
BRAKING = "systems/braking-monocular"
DATA_SET = ["data/braking-monocular", "data/receding-horizon-monocular"]
PLANNER = "the system must be a published planner"
REASONS = dict.fromkeys(product(["external"], COLUMNS), PLANNER)
"""A part of the reason where an analysis cannot run, by analysis and column."""


def build(folder: Path) -> None:
    """Own code, cells with scores, and costs, in a folder."""
    with chdir(folder):
        Path("mine.py").write_text(CODE)
        systems = ("--system", "mine.py:Alarm", "--system", "braking")
        words = ("--units", UNITS, "--out", "systems")
        call("build", *_modes("yolov8s"), *systems, *words)
        systems = ("--system", "braking", "--system", "receding-horizon")
        words = ("--geometry", "monocular", "--out", "data")
        call(
            "build", "--dataset", "mine.py:Lanes", *_modes("profile"), *systems, *words
        )
        for cell in (ALARM, BRAKING, *DATA_SET):
            call("score", cell, "ego-speed")
            call("fit", cell, "-a", "mine.py:line")
        lines = []
        for family, (size, ms) in product(("yolov8s", "profile"), SIZES.items()):
            lines.append(f"[modes.{family}-{size}]\nms = {ms}\nmj = {ms}\n")
        for name, ms in ALLOCATORS.items():
            lines.append(f"[allocators.{name}]\nms = {ms}\nmj = {ms}\n")
        Path("costs.toml").write_text("".join(lines))


def _modes(family: str) -> list[str]:
    return [word for size in SIZES for word in ("--mode", f"{family}-{size}")]


def reason(name: str, column: str, folder: Path) -> str | None:
    """Why an analysis does not run in a folder that `build` filled; None if it does."""
    declared = analysis(name)
    cells = DATA_SET
    words = ["--code", "mine.py:Lanes"]
    if column == "system":
        cells, words = [ALARM, BRAKING], ["--code", "mine.py:Alarm"]
    if column == "estimator":
        cells, words = [BRAKING], []
        if declared.least > 1:
            cells = DATA_SET
    words += ["--json", *_options(declared, own=column == "estimator")]
    with chdir(folder):
        done = run("analyse", name, *cells, *words, notes=True)
    if done.code == 0:
        return None
    return done.err.strip().splitlines()[-1]


def _options(declared: Analysis, *, own: bool) -> list[str]:
    """Few draws, costs, and quick recipes: the user's own or ridge regression."""
    parts = [PARTS[part] for part in declared.asks]
    groups = {group for part in parts for group in part.groups}
    options = [option for part in parts for option in part.options.values()]
    flags = {flag for option in options for flag in option.option.flags}
    flags |= {flag for _, option in declared.declared.values() for flag in option.flags}
    words = []
    if "draws" in groups or {"draws", "seed"} <= declared.parameters.keys():
        words += ["--draws", "20"]
    if "charges" in groups:
        words += ["--costs", "costs.toml"]
    if declared.name == "skipping":  # it judges routers in the cell by name
        return [*words, "-a", "line"]
    if "--allocator" in flags or "recipes" in declared.settings:
        words += ["-a", "mine.py:line" if own else "gate-ridge"]
    return words


if __name__ == "__main__":
    place = Path(mkdtemp())
    build(place)
    for analysis_name in NAMES:
        for column in COLUMNS:
            why = reason(analysis_name, column, place)
            text = "ran" if why is None else f"did not run: {why}"
            sys.stdout.write(f"{analysis_name:21} {column:10} {text}\n")
