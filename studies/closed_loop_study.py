"""Does single-step decision value predict closed-loop value? Figures of
docs/closed-loop.md.

    python studies/closed_loop_study.py [--system braking receding-horizon] [--scenes \
        400] [--workers 2] [--out FILE]

Allocators are fitted on a world of seed 0 and drive scenes of seed 1; further scenes of
seed 1 set the thresholds.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from deepval.basics.workers import mapping
from deepval.deploy import drives, fitting
from deepval.deploy.allocators import SIGNALS
from deepval.deploy.drives import (
    Arm,
    DriveSetting,
    Followed,
    choices_along,
    follow_script,
)
from deepval.driving.cells import build, folder, sources
from deepval.driving.datasets.synthetic import WorldSettings, unit_id
from deepval.driving.systems.outcomes import branches, unit_outcomes
from deepval.driving.systems.system import travelled_m
from deepval.driving.world.objects import Objects
from deepval.judge.draws import Draws, make_draws
from deepval.judge.intervals import interval_over
from deepval.judge.tables.costs import Costs
from deepval.metrics import normalized_decision_gain

RECIPES = (
    *(
        "gate-ridge",
        "gate-gbm",
        "gate-gbm-memory",
        "router-mlp-value",
        "router-gbm-value",
    ),
    *("router-gbm-binary", "router-two-head", "router-recall"),
    "router-voi",
)
ALPHA, HORIZON, FITTED_SCENES, FURTHER = 0.2, 40, 96, 50
BEHIND, SLOWER, ASIDE_M = (0.0, 0.3, 0.6), (0.0, 0.35, 0.7), 0.4
"""Displaced starts: behind the script by shares of the way of 4 s, slower by shares of
the mean speed, or aside.
"""
WAY_M, SPEED_MPS, SIDE_M = 10.0, 3.0, 0.5
"""Widths of the weights of displaced starts around the end of a plan."""


@dataclass(frozen=True, eq=False)
class OneStep:
    """A scene along a script: losses of both modes, the plans, and the decisions and
    scores of every arm.
    """

    loss: np.ndarray
    plans: np.ndarray
    escalated: np.ndarray
    scores: np.ndarray


def one_step(course: DriveSetting, unit: str, along: Followed) -> OneStep:
    """Single-step losses as in a cell, and what every arm escalates along the
    script.
    """
    system = course.controller(course.ride(unit))
    objects: dict[str, Objects] = dict(
        zip(("cheap", "full"), along.seen.objects, strict=True)
    )
    plans = branches(system, along.scene, objects)
    loss = unit_outcomes(system, along.scene, along.truth, branches=plans).loss
    scores, escalated = zip(
        *(choices_along(arm, course, along) for arm in course.arms), strict=True
    )
    return OneStep(
        loss,
        np.stack(list(plans.plans.values())),
        np.array(escalated),
        np.array(scores),
    )


def pseudo_losses(course: DriveSetting, unit: str, logged: OneStep) -> np.ndarray:
    """Two-stage loss of every arm: its plan is held for 4 s, then displaced starts near
    its end are judged.
    """
    script = course.ride(unit).script
    mean_mps, steps = (
        float(script.speed_mps.mean()),
        np.arange(len(logged.loss) - HORIZON),
    )
    shifts = [
        (-4 * mean_mps * way, 0.0, -mean_mps * slow)
        for way in BEHIND
        for slow in SLOWER
    ]
    shifts += [(0.0, side, 0.0) for side in (-ASIDE_M, ASIDE_M)]
    stages = []
    for ahead_m, left_m, faster_mps in shifts:
        along = follow_script(
            course, unit, ahead_m=ahead_m, left_m=left_m, faster_mps=faster_mps
        )
        stages.append(one_step(course, unit, along))
    receding = course.system == "receding-horizon"
    losses = []
    for arm in range(len(course.arms)):
        mode = logged.escalated[arm, steps].astype(int)
        plan = logged.plans[mode, steps]
        speed_mps, acceleration = (
            script.speed_mps[steps],
            plan[:, 0] if receding else -np.maximum(plan[:, 0], 0.0),
        )
        end_m = script.s_m[steps] + travelled_m(speed_mps, acceleration, 4.0)
        end_mps = np.maximum(speed_mps + 4.0 * acceleration, 0.0)
        side_m = plan[:, 1] if receding else np.zeros(len(steps))
        later, distance, second = steps + HORIZON, [], []
        for (ahead_m, left_m, faster_mps), stage in zip(shifts, stages, strict=True):
            way = (script.s_m[later] + ahead_m - end_m) / WAY_M
            speed = (
                np.maximum(script.speed_mps[later] + faster_mps, 0.0) - end_mps
            ) / SPEED_MPS
            distance.append(way**2 + speed**2 + ((left_m - side_m) / SIDE_M) ** 2)
            second.append(stage.loss[later, stage.escalated[arm, later].astype(int)])
        apart = np.array(distance)
        weight = np.exp(-(apart - apart.min(axis=0)) / 2)
        second_loss = (weight * np.array(second)).sum(axis=0) / weight.sum(axis=0)
        losses.append((logged.loss[steps, mode] + second_loss).sum())
    return np.array(losses)


@dataclass(frozen=True, eq=False)
class SceneStudy:
    """One scene: drives, single-step losses and pseudo-closed-loop losses."""

    unit: str
    outcomes: list
    logged: OneStep
    pseudo: np.ndarray


def study_scene(course: DriveSetting, unit: str) -> SceneStudy:
    """Everything about one scene."""
    costs = Costs.of("jetson-agx-xavier")
    rows = drives.outcomes(
        drives.drive_scene(course, unit), [name for name, _ in course.modes], costs
    )
    logged = one_step(course, unit, follow_script(course, unit))
    return SceneStudy(unit, rows, logged, pseudo_losses(course, unit, logged))


def arms_of(course: DriveSetting, work: Path) -> Sequence[Arm]:
    """Never, always, random, the signals, and recipes fitted on another world."""
    world = sources.synthetic(seed=0, settings=WorldSettings(scenes=FITTED_SCENES))
    system = "braking" if course.system in ("idm", "pdm-closed") else course.system
    (cell,) = build.cells(world, geometries=("monocular",), systems=(system,))
    folder.write(cell, work / "cell")
    built = folder.read_cell(work / "cell")
    allocators = [
        *SIGNALS.values(),
        *(fitting.fit_on(built, recipe) for recipe in RECIPES),
    ]
    others = [
        unit_id(scene)
        for scene in range(course.settings.scenes - FURTHER, course.settings.scenes)
    ]
    along = [follow_script(course, unit) for unit in others]
    fitted = [
        drives.calibrated(allocator, course, along, policy="frozen threshold")
        for allocator in allocators
    ]
    return [*map(Arm, drives.PLAIN), *fitted]


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks along the last axis, ties averaged."""
    below = (values[..., :, None] > values[..., None, :]).sum(axis=-1)
    return below + (values[..., :, None] == values[..., None, :]).sum(axis=-1) / 2


def agreement(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Spearman's rank correlation and R² along the last axis."""

    def correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = a - a.mean(axis=-1, keepdims=True), b - b.mean(axis=-1, keepdims=True)
        return (a * b).sum(axis=-1) / np.sqrt((a**2).sum(axis=-1) * (b**2).sum(axis=-1))

    return correlation(ranks(one), ranks(other)), correlation(one, other) ** 2


def bounds_text(samples: np.ndarray, draws: Draws, digits: int) -> str:
    """The bounds of the interval of a quantity over the draws."""
    bounds = interval_over(samples, draws)
    if bounds is None:
        return "[-, -]"
    return f"[{bounds.low:.{digits}f}, {bounds.high:.{digits}f}]"


def report(course: DriveSetting, parts: Sequence[SceneStudy]) -> str:
    """The page's tables."""
    names = [arm.name for arm in course.arms]
    loss = np.concatenate([part.logged.loss for part in parts])
    value = [part.logged.loss[:, 0] - part.logged.loss[:, 1] for part in parts]
    gained = np.array(
        [
            (part.logged.escalated * v).sum(axis=1)
            for part, v in zip(parts, value, strict=True)
        ]
    )
    cheap = np.array([part.logged.loss[:, 0].sum() for part in parts])
    driven = np.array(
        [[row["loss"] for row in part.outcomes[: len(names)]] for part in parts]
    )
    pseudo = np.array([part.pseudo for part in parts])
    top = np.sort(np.maximum(np.concatenate(value), 0.0))[::-1]
    oracle = top[: round(ALPHA * len(top))].sum()
    draws = make_draws(len(parts), 2000, 0)

    def gains(counts: np.ndarray) -> dict[str, np.ndarray]:
        never, pseudo_never = counts @ driven[:, 0], counts @ pseudo[:, 0]
        return {
            "one step": (counts @ gained) / (counts @ cheap)[:, None],
            "pseudo": 1 - (counts @ pseudo) / pseudo_never[:, None],
            "closed": 1 - (counts @ driven) / never[:, None],
        }

    whole, drawn = gains(np.ones((1, len(parts)))), gains(draws.counts)
    lines = [
        f"## {course.system}: {len(parts)} drives per allocator",
        "",
        "| allocator | rate on script | rate driven | nDG, ranking | nDG, policy | "
        "one-step gain % | pseudo gain % | closed-loop gain % [95 %] | contacts | at "
        "fault | hard brakes | way m | lost s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    order = np.argsort(-whole["closed"][0], kind="stable")
    for index in order.tolist():
        rows = [part.outcomes[index] for part in parts]
        on_script = np.mean([part.logged.escalated[index].mean() for part in parts])
        score = np.concatenate([part.logged.scores[index] for part in parts])
        ranking = "-"
        if course.arms[index].allocator is not None:
            ranking = f"{normalized_decision_gain(loss[:, 0], loss[:, 1], score, budget=ALPHA):.2f}"  # noqa: E501
        bounds = bounds_text(100 * drawn["closed"][:, index], draws, 1)
        policy = gained[:, index].sum() / oracle
        mean = {
            name: np.mean([row[name] for row in rows])
            for name in ("hard_brakes", "progress_m", "time_lost_s")
        }
        rate = sum(row["escalations"] for row in rows) / sum(
            row["frames"] for row in rows
        )
        cells = [
            *(
                names[index],
                f"{100 * on_script:.1f}",
                f"{100 * rate:.1f}",
                ranking,
                f"{policy:.2f}",
            ),
            *(
                f"{100 * whole['one step'][0, index]:.1f}",
                f"{100 * whole['pseudo'][0, index]:.1f}",
            ),
            f"{100 * whole['closed'][0, index]:.1f} {bounds}",
            *(
                str(sum(row["collisions"] for row in rows)),
                str(sum(row["at_fault"] for row in rows)),
            ),
            *(
                f"{mean['hard_brakes']:.2f}",
                f"{mean['progress_m']:.1f}",
                f"{mean['time_lost_s']:.2f}",
            ),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    perfect = [part.outcomes[-1] for part in parts]
    lines += [
        "",
        "Perfect perception: mean loss "
        f"{np.mean([row['loss'] for row in perfect]):.3f}, never "
        f"{driven[:, 0].mean():.3f}; {sum(row['collisions'] for row in perfect)} "
        f"contacts, {sum(row['at_fault'] for row in perfect)} at fault, "
        f"{np.mean([row['hard_brakes'] for row in perfect]):.2f} hard brakes.",
        "",
        (
            "| predictor of the closed-loop gain | allocators | "
            "Spearman [95 %] | R² [95 %] |"
        ),
        "|---|---|---|---|",
    ]
    at_rate = [
        index for index, name in enumerate(names) if name not in ("never", "always")
    ]
    for label, chosen in (
        ("all", list(range(len(names)))),
        ("at the rate, without never and always", at_rate),
    ):
        for name in ("one step", "pseudo"):
            texts = []
            point = agreement(whole[name][:, chosen], whole["closed"][:, chosen])
            samples = agreement(drawn[name][:, chosen], drawn["closed"][:, chosen])
            for value_now, sample in zip(point, samples, strict=True):
                bounds = bounds_text(sample, draws, 2)
                texts.append(f"{value_now[0]:.2f} {bounds}")
            lines.append(
                f"| {name} | {label} ({len(chosen)}) | {texts[0]} | {texts[1]} |"
            )
    difference = [
        agreement(drawn["pseudo"][:, at_rate], drawn["closed"][:, at_rate])[part]
        - agreement(drawn["one step"][:, at_rate], drawn["closed"][:, at_rate])[part]
        for part in (0, 1)
    ]
    spearman, squared = (bounds_text(sample, draws, 2) for sample in difference)
    lines += [
        "",
        f"Pseudo minus one step, at the rate: Spearman {spearman}, R² {squared}.",
    ]
    return "\n".join(lines) + "\n"


HEAD = """# Closed loop: figures

Written by `{} --out docs/generated/closed-loop.md`;
[closed-loop.md](../closed-loop.md) explains it. Allocators are fitted on a synthetic \
world of seed 0 and drive
scenes of seed 1. Gains are shares of the loss of never.
"""


def study(system: str, scenes: int, workers: int) -> str:
    """The tables of one system."""
    course = DriveSetting(
        system, settings=WorldSettings(scenes + FURTHER, 101), alpha=ALPHA
    )
    with tempfile.TemporaryDirectory() as work:
        course = replace(course, arms=tuple(arms_of(course, Path(work))))
    with mapping(workers) as map_units:
        parts = list(
            map_units(
                partial(study_scene, course),
                [unit_id(scene) for scene in range(scenes)],
            )
        )
    return report(course, parts)


def main() -> None:
    """Print or write the tables of every system asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--system", nargs="+", default=["braking"], choices=list(drives.CONTROLLERS)
    )
    parser.add_argument("--scenes", type=int, default=400)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    began = time.monotonic()
    words = (
        "python studies/closed_loop_study.py "
        f"--system {' '.join(options.system)} --scenes {options.scenes}"
    )
    text = HEAD.format(words)
    for system in options.system:
        text += "\n" + study(system, options.scenes, options.workers)
        if options.out is not None:
            options.out.write_text(text, encoding="utf-8")
        print(
            f"{system}: {time.monotonic() - began:.0f} s since the start",
            file=sys.stderr,
        )
    print(text)


if __name__ == "__main__":
    main()
