"""A synthetic scene and several driven ego vehicles -> truth and detections, ego by
ego.

The other road users follow their script; every ego has its own position, offset and
speed. All random numbers of the detector are drawn once per scene, for every road user
and frame, whether or not an ego comes to see it: egos and modes differ by geometry and
resolution alone. In the lists, the egos take the place of frames.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Float, Int
from deepval.driving.datasets.synthetic import (
    DETECTOR,
    Bodies,
    SceneParts,
    cuboids,
    draw_detector,
    truth_of,
    visible,
)
from deepval.driving.datasets.synthetic.traffic import Actors, Drive
from deepval.driving.perception.reported.detections import DONE, Detections
from deepval.driving.perception.simulation import (
    DOUBLE,
    OBJECT,
    PHANTOM,
    Draw,
    ModeNoise,
    Things,
    detections_at,
    mode_noise,
)
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth

PASSED_M = 1.5
"""A phantom nearer than this is gone."""


class Egos(NamedTuple):
    """Ego vehicles on the road of a scene: each at a step, with its way along the lane,
    offset to its left, speed.
    """

    step: Int[np.ndarray, "ego"]
    s_m: Float[np.ndarray, "ego"]
    d_m: Float[np.ndarray, "ego"]
    speed_mps: Float[np.ndarray, "ego"]


class Surroundings(NamedTuple):
    """The surroundings of all egos: every road user near them, and the truth as far as
    a camera sees.
    """

    bodies: Bodies
    truth: Truth


@dataclass(frozen=True, eq=False)
class Ride:
    """A scene to be driven; `sizes_px` are the picture sizes of its modes."""

    parts: SceneParts
    sizes_px: tuple[int, ...]

    @property
    def frames(self) -> int:
        """Number of frames of the scene."""
        return self.parts.settings.frames

    @property
    def dt_s(self) -> float:
        """Time between frames."""
        return self.parts.settings.traffic.dt_s

    @property
    def script(self) -> Drive:
        """The scripted traffic, the scripted ego included."""
        return self.parts.drive

    @cached_property
    def draw(self) -> Draw:
        """One draw for every road user, its double and every phantom, in every frame;
        the boxes are empty.
        """
        actors = self.script.actors
        frame, actor = (
            part.ravel() for part in np.indices((self.frames, len(actors.cls)))
        )
        none, still = np.zeros((len(frame), 4)), np.zeros(len(frame))
        corners_m, names = np.zeros((len(frame), 4, 2)), actors.cls[actor]
        objects = Objects(
            self.frames, frame, corners_m, still, names, actor, corners_m[:, 0]
        )
        everyone = Truth(
            self.parts.unit, objects, none, still.astype(int), frame[:0], none[:0]
        )
        return draw_detector(self.parts, everyone, self.parts.rng(DETECTOR))

    @cached_property
    def noise(self) -> dict[int, ModeNoise]:
        """Noise of every thing of the draw, by picture size."""
        return {size: mode_noise(self.draw, size) for size in self.sizes_px}

    @cached_property
    def first_row(self) -> Int[np.ndarray, "bound"]:
        """The first row of each frame in the draw; in a frame, road users come first,
        then doubles, then phantoms.
        """
        return np.searchsorted(self.draw.things.frame, np.arange(self.frames + 1))

    def look(
        self, egos: Egos, before: Surroundings | None, *, one_ego: bool = False
    ) -> Surroundings:
        """The surroundings of egos; `before` holds those one step earlier, which
        closing speeds need.

        With `one_ego` the egos are a single one, step after step.
        """
        script, settings = self.script, self.parts.settings.traffic
        paths = (path[:, egos.step] for path in script.actors[2:])
        traffic = script._replace(
            s_m=egos.s_m,
            d_m=egos.d_m,
            speed_mps=egos.speed_mps,
            actors=Actors(*script.actors[:2], *paths),
        )
        dt_s = np.full(len(egos.step), settings.dt_s)
        truth = truth_of(
            traffic,
            self.parts.unit,
            camera=self.parts.camera,
            dt_s=dt_s,
            farthest_m=settings.farthest_m,
        )
        if not one_ego:
            now, earlier_m = (
                truth.objects,
                np.full((len(egos.step), len(script.actors.cls)), np.nan),
            )
            if before is not None:
                old = before.truth.objects
                earlier_m[old.frame, old.track] = old.near_m
            closing_mps = np.nan_to_num(
                (earlier_m[now.frame, now.track] - now.near_m) / settings.dt_s
            )
            truth = replace(truth, objects=replace(now, closing_mps=closing_mps))
        return Surroundings(cuboids(traffic, farthest_m=settings.farthest_m), truth)

    def detections(self, egos: Egos, truth: Truth) -> dict[int, Detections]:
        """The detections of every ego, by picture size."""
        seen, base = visible(truth), self.draw.things
        actors, count = len(self.script.actors.cls), len(egos.step)
        first, last = self.first_row[egos.step], self.first_row[egos.step + 1]
        ghosts = last - first - 2 * actors
        ego = np.repeat(np.arange(count), ghosts)
        ghost = (last - np.cumsum(ghosts))[ego] + np.arange(len(ego))
        ghost_px, ghost_m = self._phantoms(egos, ghost=ghost, ego=ego)
        ghost, ego, ghost_px, ghost_m = (
            part[ghost_m > PASSED_M] for part in (ghost, ego, ghost_px, ghost_m)
        )
        solid = first[seen.frame] + seen.objects.track
        row = np.concatenate([solid, solid + actors, ghost])
        kind = np.repeat(
            [OBJECT, DOUBLE, PHANTOM], [len(solid), len(solid), len(ghost)]
        )
        frame, box_px = (
            np.concatenate([seen.frame, seen.frame, ego]),
            np.concatenate([seen.box_px, seen.box_px, ghost_px]),
        )
        hidden = np.concatenate([seen.occlusion, seen.occlusion, base.occlusion[ghost]])
        range_m = np.concatenate([seen.objects.near_m, seen.objects.near_m, ghost_m])
        order = np.argsort(frame, kind="stable")
        columns = (
            kind,
            frame,
            row,
            base.cls[row],
            base.reported[row],
            box_px,
            hidden,
            range_m,
        )
        row, things = row[order], Things(*(column[order] for column in columns))
        part = replace(self.draw, frames=count, things=things, tail=self.draw.tail[row])
        noise = {
            size: ModeNoise(*(field[row] for field in every))
            for size, every in self.noise.items()
        }
        return {size: detections_at(part, size, noise[size]) for size in noise}

    def _phantoms(
        self, egos: Egos, *, ghost: Int[np.ndarray, "row"], ego: Int[np.ndarray, "row"]
    ) -> tuple[Float[np.ndarray, "row 4"], Float[np.ndarray, "row"]]:
        """Boxes and ranges of phantoms, which stand where the scripted ego has them, as
        another ego has them.

        All of a phantom's box, its bottom edge included, grows from the middle of the
        picture as its range shrinks.
        """
        things, camera = self.draw.things, self.parts.camera
        scripted_m, step = things.range_m[ghost], egos.step[ego]
        range_m = scripted_m + (self.script.s_m[step] - egos.s_m[ego])
        ahead_m = np.maximum(range_m, PASSED_M)
        middle_px = np.array([camera.cx_px, camera.cy_px] * 2)
        box_px = (
            middle_px
            + (things.box_px[ghost] - middle_px) * (scripted_m / ahead_m)[:, None]
        )
        box_px[:, ::2] += (
            camera.fx_px * (egos.d_m[ego] - self.script.d_m[step]) / ahead_m
        )[:, None]
        return box_px, range_m

    def scene(self, speed_mps: Float[np.ndarray, "frame"]) -> Scene:
        """A scene of that many frames with these speeds: what a downstream system needs
        to plan for every ego.
        """
        count = len(speed_mps)
        names, time_s = np.arange(count).astype("<U6"), np.arange(count) * self.dt_s
        return Scene(
            self.parts.unit, names, time_s, speed_mps, {"front": self.parts.camera}
        )


def followed(now: Detections, before: Detections | None) -> Detections:
    """Detections of two steps in one list: frame 2 i is ego i one step earlier, frame 2
    i + 1 is ego i now.
    """
    before = now.where(np.zeros(len(now), dtype=bool)) if before is None else before
    frame = np.concatenate([2 * before.frame, 2 * now.frame + 1])
    order = np.argsort(frame, kind="stable")
    columns = (
        np.concatenate([getattr(before, name), getattr(now, name)])[order]
        for name in ("cls", "score", "box_px")
    )
    cls, score, box_px = columns
    status = np.full(2 * len(now.status), DONE)
    return Detections(
        unit=now.unit,
        frame=frame[order],
        cls=cls,
        score=score,
        box_px=box_px,
        status=status,
    )
