"""What a decision by simulated value costs: tracker, plug-in and whole frame, beside
one full detector pass.

Run: python benchmarks/bench_voi.py. With the shared KITTI data, boxes are those of CIWT
on sequence 0001 (cars) and the full mode is RRC; otherwise the synthetic world. Times
are medians of CPU microseconds over frames. The detector is yolov8s at 640 px on one
thread, where DEEPVAL_SHARED has the weights.
"""

import os
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from bench_serving import detector_s
from figures import Figure, finish

from deepval.deploy.allocators.belief import Belief
from deepval.deploy.features import glance
from deepval.deploy.fitting import fit_on
from deepval.driving.cells import folder, sources
from deepval.driving.cells.build import built
from deepval.driving.cells.spec import specs
from deepval.driving.datasets.synthetic import WorldSettings
from deepval.driving.views import frames_of

ROOT = Path(__file__).resolve().parents[1]
SYSTEMS = ("braking", "receding-horizon")
MOST_TRACKER_S, MOST_DECISION_S = 0.15e-3, 0.5e-3


def cells_of(*, tiny: bool) -> tuple[str, list]:
    """A cell of each system: KITTI with CIWT and RRC, or the synthetic world."""
    data = Path(os.environ.get("DEEPVAL_SHARED", ROOT.parent / "shared")) / "data"
    if tiny or not (data / "kitti_tracking").is_dir():
        settings = (
            WorldSettings(scenes=8, frames=20)
            if tiny
            else WorldSettings(scenes=12, frames=60)
        )
        return "synthetic boxes", specs(
            sources.synthetic(settings=settings), systems=SYSTEMS
        )
    groups = sources.read_specification(
        ROOT / "docs" / "replication" / "kitti-cars.toml", data
    )
    asked = [
        spec
        for group in groups
        for spec in group.specs
        if spec.geometry == "monocular"
        and spec.order == ("CIWT", "RRC")
        and spec.system in SYSTEMS
    ]
    return "KITTI boxes", asked


def median_us(seconds: list[float]) -> float:
    return float(np.median(seconds)) * 1e6


def main(*, tiny: bool = False) -> list[Figure]:
    figures, pass_s = [], None if tiny else detector_s(3)
    what, asked = cells_of(tiny=tiny)
    with tempfile.TemporaryDirectory() as home, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cell in built(asked):
            folder.write(cell, Path(home) / cell.spec.system)
        for name in SYSTEMS:
            cell = folder.read_cell(Path(home) / name)
            allocator = fit_on(cell, "router-voi")
            views = [view for view in cell.views if view.scene.unit in cell.split.fit][
                :3
            ]
            tracker, plug_in, whole = [], [], []
            for view in views:
                belief, past = Belief(), allocator.past()
                for frame in frames_of(view, images=False):
                    begin = time.thread_time()
                    seen = glance(frame, past, mode=view.mode)
                    allocator.score_frame(seen)
                    whole.append(time.thread_time() - begin)
                    begin = time.thread_time()
                    allocator.score_frame(seen)
                    plug_in.append(time.thread_time() - begin)
                    begin = time.thread_time()
                    belief.see(seen)
                    tracker.append(time.thread_time() - begin)
                    past = seen.after
            beside = "-" if pass_s is None else f"detector pass {pass_s * 1e3:.0f} ms"
            rows = [
                ("tracker", tracker, MOST_TRACKER_S),
                ("plug-in", plug_in, MOST_DECISION_S),
            ]
            for part, seconds, most_s in [
                *rows,
                ("whole frame", whole, MOST_DECISION_S),
            ]:
                met = None if tiny else bool(np.median(seconds) <= most_s)
                measured = f"{median_us(seconds):.0f} us CPU, {what}"
                figures.append(
                    Figure(
                        f"{part}, {name}",
                        measured,
                        beside,
                        f"at most {most_s * 1e3:g} ms",
                        met,
                    )
                )
    return figures


if __name__ == "__main__":
    finish(main())
