"""Time per plan of IDM and PDM-Closed on recorded scenes, beside their readable twins
in the same run.

Run: python benchmarks/bench_planners.py. CPU milliseconds of one thread, the least of
two rounds for each state with the logged road users; the twins on every twelfth state.
Needs the shared scenes (DEEPVAL_SHARED).
"""

import os
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from figures import Figure, finish
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from check_planners import State, states
from deepval.driving.planners.idm import Idm
from deepval.driving.planners.pdm_closed import PdmClosed
from reference import planners as slow

ROOT = Path(__file__).resolve().parents[1]
ROUNDS, TWIN_EVERY = 2, 12
TARGETS_MS = {"IDM": (3.0, 10.0), "PDM-Closed": (20.0, 45.0)}
PUBLISHED_MS = {"IDM": "9-23", "PDM-Closed": "70-150"}


def cpu_ms(call: Callable[[], Any]) -> float:
    """CPU milliseconds of one call."""
    begin = time.process_time()
    call()
    return 1e3 * (time.process_time() - begin)


def times_ms(plan: Callable[..., Any], recorded: list[State]) -> np.ndarray:
    """Time of each state's plan among the logged road users."""
    plan(recorded[0].situation, recorded[0].branches["gt"])
    return np.min(
        [
            [
                cpu_ms(lambda s=state: plan(s.situation, s.branches["gt"]))
                for state in recorded
            ]
            for _ in range(ROUNDS)
        ],
        axis=0,
    )


def main(*, tiny: bool = False) -> list[Figure]:
    data = Path(os.environ.get("DEEPVAL_SHARED", ROOT.parent / "shared")) / "data"
    reference, scenes = data / "planner_reference", data / "scenarionet_nuscenes_mini"
    if not (reference.exists() and scenes.exists()):
        return [
            Figure(
                "planners",
                f"no planner_reference in {data}",
                "-",
                "set DEEPVAL_SHARED",
                met=None,
            )
        ]
    figures = []
    with threadpool_limits(limits=1):
        recorded = list(islice(states(reference, scenes), 2 if tiny else None))
        for name, plan, twin in (
            ("IDM", Idm().plan, slow.idm),
            ("PDM-Closed", PdmClosed().plan, slow.pdm),
        ):
            ours_ms, twin_ms = (
                times_ms(plan, recorded),
                times_ms(twin, recorded[::TWIN_EVERY]),
            )
            (median, p90), (slow_median, slow_p90) = (
                np.quantile(t, [0.5, 0.9]) for t in (ours_ms, twin_ms)
            )
            most = TARGETS_MS[name]
            print(
                f"{name}: {len(recorded)} states, median {median:.1f} ms, p90 "
                f"{p90:.1f} ms; readable twin on {len(twin_ms)} of them, median "
                f"{slow_median:.0f} ms, p90 {slow_p90:.0f} ms; ratio of medians "
                f"{slow_median / median:.0f}; the published planner needed "
                f"{PUBLISHED_MS[name]} ms on another machine"
            )
            figures.append(
                Figure(
                    f"{name}, one plan",
                    f"median {median:.1f} ms, p90 {p90:.1f} ms",
                    f"twin {slow_median:.0f} ms, p90 {slow_p90:.0f} ms: "
                    f"{slow_median / median:.0f} times as long",
                    f"median <= {most[0]:g} ms, p90 <= {most[1]:g} ms",
                    bool(median <= most[0] and p90 <= most[1]),
                )
            )
        several(recorded, figures)
    return figures


def several(recorded: list[State], figures: list[Figure]) -> None:
    """Three branches of a state planned at once, against one after the other."""
    planner = PdmClosed()
    some = [state for state in recorded if len(state.branches) >= 3]
    branches = [list(state.branches.values())[:3] for state in some]
    pairs = list(zip(some, branches, strict=True))[::4]
    together = np.median(
        [cpu_ms(lambda s=s, b=b: planner.plans(s.situation, b)) for s, b in pairs]
    )
    single = np.median(
        [
            sum(cpu_ms(lambda s=s, a=a: planner.plan(s.situation, a)) for a in b)
            for s, b in pairs
        ]
    )
    figures.append(
        Figure(
            "PDM-Closed, three branches",
            f"median {together:.1f} ms",
            f"one by one {single:.1f} ms",
            "less than one by one",
            bool(together < single),
        )
    )


if __name__ == "__main__":
    finish(main())
