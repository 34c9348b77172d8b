"""Seeded example files for tests of the command: values, scores and costs as a user
would bring them.
"""

import csv
from pathlib import Path

import numpy as np

COSTS = """\
[modes.cheap]
ms = 13.18
mj = 41.1
[modes.full]
ms = 18.47
mj = 84.4
[allocators.ego-speed]
ms = 0.0
mj = 0.0
[allocators.uncertainty]
ms = 0.21
mj = 0.8
served = "single"
[allocators.router]
ms = 0.65
mj = 2.1
served = "single"
[allocators.boosted-gate]
ms = 21.4
mj = 70.0
served = "single"
"""


def write_example(folder: Path) -> None:
    """values.csv, scores/*.csv and costs.toml: 32 scenes of 40 frames with four
    allocators.
    """
    rng = np.random.default_rng(20261115)
    scenes, frames = 32, 40
    scene = np.repeat(np.arange(scenes), frames)
    frame = np.tile(np.arange(frames), scenes)
    speed = np.clip(
        rng.normal(9, 4, scenes)[scene]
        + np.cumsum(rng.normal(0, 0.4, (scenes, frames)), axis=1).ravel(),
        0,
        None,
    )
    busy = rng.gamma(2, 0.5, scenes)[scene]
    hazard = speed / 10 * busy
    touched = rng.random(len(scene)) < np.clip(0.05 + 0.06 * hazard, 0, 0.6)
    helps = rng.random(len(scene)) < 0.6
    size = rng.gamma(1.5, 0.6 + 0.5 * hazard)
    cheap = np.where(
        rng.random(len(scene)) < 0.3, rng.gamma(1.2, 0.5 + hazard), 0.0
    ) + np.where(touched & helps, size, 0)
    value = np.where(touched, np.where(helps, size, -0.8 * size), 0.0).round(4)
    full = (cheap.round(4) - value).round(4)
    guess = np.sign(value) * touched * rng.random(len(scene)) + 0.3 * hazard
    scores = {
        "ego-speed": speed.round(3),
        "uncertainty": rng.poisson(1.5 + busy).astype(float),
        "router": (guess + rng.normal(0, 0.45, len(scene))).round(4),
        "boosted-gate": (guess + rng.normal(0, 0.25, len(scene))).round(4),
    }
    ids = [f"{s:02d}-{f:02d}" for s, f in zip(scene, frame, strict=True)]
    weather = np.array(["sun", "rain", "night"])[rng.integers(0, 3, scenes)][scene]
    (folder / "scores").mkdir(parents=True, exist_ok=True)
    columns = [
        [f"scene-{s:02d}" for s in scene],
        ids,
        frame,
        cheap.round(4),
        full,
        speed.round(2),
        weather,
    ]
    _write(
        folder / "values.csv",
        ["unit", "input", "order", "loss_cheap", "loss_full", "speed", "weather"],
        columns,
    )
    for name, score in scores.items():
        _write(folder / "scores" / f"{name}.csv", ["input", "score"], [ids, score])
    (folder / "costs.toml").write_text(COSTS, encoding="utf-8")


def _write(path: Path, header: list[str], columns: list) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(zip(*columns, strict=True))
