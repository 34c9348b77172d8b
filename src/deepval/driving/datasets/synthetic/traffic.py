"""Settings and random numbers -> road traffic: one scene's ego motion and every actor's
path, on a curved road.

Road coordinates: s along the ego lane, d to its left (m); the ego lane's middle is d =
0, traffic keeps right.
"""

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Float, Shaped
from deepval.basics.files.canonical import read_toml

LANE_M = 3.5
EGO_FRONT_M = 2.7
# Length, width, height (m) and their relative spread: typical road users.
SIZES: dict[str, tuple[float, float, float, float]] = {
    "Car": (4.1, 1.68, 1.52, 0.06),
    "Van": (5.0, 1.9, 2.15, 0.07),
    "Truck": (9.0, 2.5, 3.3, 0.12),
    "Bus": (11.0, 2.55, 3.1, 0.05),
    "Pedestrian": (0.7, 0.65, 1.74, 0.07),
    "Cyclist": (1.75, 0.6, 1.72, 0.05),
    "Misc": (3.0, 1.7, 1.9, 0.2),
}


@dataclass(frozen=True)
class Street:
    """A kind of street: cruising speed, densities of traffic, and behaviour of the
    vehicle ahead.

    Densities are actors per 100 m of road; `lead` is the probability of a vehicle ahead
    in the lane and `lead_gap_s` its headway; `braking` is the probability that it
    brakes hard, `crossing` the probability that a pedestrian crosses the lane ahead.
    `clutter` is the number of things that a detector may mistake for an object,
    relative to the usual number.
    """

    share: float
    speed_mps: tuple[float, float]
    lead: float
    lead_gap_s: tuple[float, float]
    braking: float
    crossing: float
    parked: float
    oncoming: float
    beside: float
    walking: float
    cycling: float
    curvature_per_m: float
    clutter: float


def _street(values: Mapping[str, Any]) -> Street:
    pairs: dict[str, Any] = {
        name: tuple(values[name]) for name in ("speed_mps", "lead_gap_s")
    }
    return Street(**{**values, **pairs})


STREETS: dict[str, Street] = {
    name: _street(values)
    for name, values in read_toml(
        pathlib.Path(__file__).with_name("streets.toml")
    ).items()
}


@dataclass(frozen=True)
class TrafficSettings:
    """Kinds of streets and how vehicles drive: the parameters of the synthetic world's
    traffic.
    """

    streets: dict[str, Street] = field(default_factory=lambda: dict(STREETS))
    dt_s: float = 0.1
    farthest_m: float = 90.0
    headway_s: float = 1.3
    standstill_m: float = 3.0
    acceleration_mps2: float = 1.5
    comfort_mps2: float = 2.2
    drift_m: float = 0.25


class Actors(NamedTuple):
    """Every road user's path: `cls`, size (length, width, height), and position and
    heading over time.
    """

    cls: Shaped[np.ndarray, "actor"]
    size_m: Float[np.ndarray, "actor 3"]
    s_m: Float[np.ndarray, "actor time"]
    d_m: Float[np.ndarray, "actor time"]
    heading_rad: Float[np.ndarray, "actor time"]


class Drive(NamedTuple):
    """One scene's traffic: the street, the ego vehicle's speed, position and offset in
    its lane, and the actors.
    """

    street: str
    curvature_per_m: float
    speed_mps: Float[np.ndarray, "time"]
    s_m: Float[np.ndarray, "time"]
    d_m: Float[np.ndarray, "time"]
    actors: Actors


class Path(NamedTuple):
    """Motion of one road user: class, start along the road, offset, speed and sideways
    speed over time, heading.
    """

    cls: str
    s_m: float
    d_m: float
    speed_mps: Float[np.ndarray, "time"]
    sideways_mps: Float[np.ndarray, "time"]
    heading_rad: float


def lead_speed(
    street: Street,
    frames: int,
    *,
    cruise_mps: float,
    dt_s: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Speed of a vehicle ahead: it wanders around the cruising speed and may brake hard
    at some time.
    """
    speed = np.empty(frames)
    current_mps, push = cruise_mps * rng.uniform(0.8, 1.05), 0.0
    begin = (
        int(rng.integers(-frames // 2, frames))
        if rng.random() < street.braking
        else frames
    )
    strength, until = rng.uniform(2.0, 5.0), rng.uniform(0.0, 0.6) * current_mps
    for step in range(frames):
        speed[step] = current_mps
        push = 0.9 * push + 0.25 * rng.standard_normal()
        braking = begin <= step and current_mps > until
        change = (
            -strength
            if braking
            else 0.3 * (cruise_mps - current_mps) * (step < begin) + push
        )
        current_mps = max(current_mps + change * dt_s, 0.0)
    return speed


def ego_motion(
    lead_s_m: np.ndarray,
    lead_mps: np.ndarray,
    *,
    cruise_mps: float,
    settings: TrafficSettings,
    start_mps: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Position and speed of the ego vehicle behind a rear bumper at `lead_s_m`: the
    intelligent driver model.
    """
    frames, position_m, speed = len(lead_s_m), 0.0, start_mps
    positions_m, speeds = np.empty(frames), np.empty(frames)
    for step in range(frames):
        positions_m[step], speeds[step] = position_m, speed
        gap_m = max(lead_s_m[step] - position_m - EGO_FRONT_M, 0.3)
        approach = (
            speed
            * (speed - lead_mps[step])
            / (2 * np.sqrt(settings.acceleration_mps2 * settings.comfort_mps2))
        )
        desired_m = settings.standstill_m + max(
            speed * settings.headway_s + approach, 0.0
        )
        change = settings.acceleration_mps2 * (
            1 - (speed / cruise_mps) ** 4 - (desired_m / gap_m) ** 2
        )
        speed = max(speed + float(np.clip(change, -8.0, 2.5)) * settings.dt_s, 0.0)
        position_m += speed * settings.dt_s
    return positions_m, speeds


def drive(
    frames: int, *, settings: TrafficSettings, chance: float, rng: np.random.Generator
) -> Drive:
    """The traffic of one scene; `chance`, a number in 0 to 1, sets the street and
    whether a vehicle is ahead.
    """
    names = list(settings.streets)
    edges = np.cumsum([0.0, *(settings.streets[name].share for name in names)])
    edges /= edges[-1]
    kind = min(int(np.searchsorted(edges, chance, side="right")) - 1, len(names) - 1)
    name, within = names[kind], (chance - edges[kind]) / (edges[kind + 1] - edges[kind])
    street = settings.streets[name]
    cruise = float(rng.uniform(*street.speed_mps))
    paths: list[Path] = []
    lead_s_m, lead_mps = np.full(frames, 1e4), np.full(frames, cruise)
    if within < street.lead:
        lead_mps = lead_speed(
            street, frames, cruise_mps=cruise, dt_s=settings.dt_s, rng=rng
        )
        begin = (
            EGO_FRONT_M
            + settings.standstill_m
            + float(rng.uniform(*street.lead_gap_s)) * cruise
        )
        cls = vehicle(rng)
        lead_s_m = begin + np.concatenate(
            [[0.0], np.cumsum(lead_mps[1:] * settings.dt_s)]
        )
        straight = np.zeros(frames)
        paths.append(
            Path(
                cls,
                begin + SIZES[cls][0] / 2,
                float(rng.normal(0, 0.2)),
                lead_mps,
                straight,
                0.0,
            )
        )
        queue(paths, lead_mps, begin=begin, rng=rng)
    start = float(np.clip(lead_mps[0] * rng.uniform(0.9, 1.15), 0.0, 1.2 * cruise))
    s_m, speed_mps = ego_motion(
        lead_s_m, lead_mps, cruise_mps=cruise, settings=settings, start_mps=start
    )
    phase, period_s = rng.uniform(0, 2 * np.pi), rng.uniform(4, 9)
    time_s = np.arange(frames) * settings.dt_s
    d_m = settings.drift_m * np.sin(2 * np.pi * time_s / period_s + phase)
    moving_traffic(paths, street, s_m=s_m, settings=settings, rng=rng)
    side_traffic(paths, street, s_m=s_m, cruise_mps=cruise, settings=settings, rng=rng)
    curvature = float(rng.normal(0, street.curvature_per_m))
    return Drive(
        name,
        curvature,
        speed_mps,
        s_m,
        d_m,
        actors_of(paths, frames, settings=settings, rng=rng),
    )


def vehicle(rng: np.random.Generator) -> str:
    """A random class of vehicle."""
    return str(rng.choice(["Car", "Van", "Truck", "Bus"], p=[0.82, 0.10, 0.06, 0.02]))


def queue(
    paths: list[Path], lead_mps: np.ndarray, *, begin: float, rng: np.random.Generator
) -> None:
    """Add further vehicles in the lane, beyond the one ahead."""
    position_m = begin
    for _ in range(int(rng.integers(0, 3))):
        position_m += float(rng.uniform(9, 30))
        paths.append(
            Path(
                vehicle(rng),
                position_m,
                float(rng.normal(0, 0.25)),
                lead_mps,
                np.zeros(len(lead_mps)),
                0.0,
            )
        )


def moving_traffic(
    paths: list[Path],
    street: Street,
    *,
    s_m: np.ndarray,
    settings: TrafficSettings,
    rng: np.random.Generator,
) -> None:
    """Add oncoming vehicles to the left, and vehicles of the same direction in a
    neighbouring lane.
    """
    frames, reach = len(s_m), settings.farthest_m
    no_motion, length_s = np.zeros(frames), frames * settings.dt_s
    middle = sum(street.speed_mps) / 2
    span = reach + s_m[-1] + length_s * middle
    for position_m in rng.uniform(0, span, rng.poisson(street.oncoming * span / 100)):
        speed = -np.full(frames, max(middle * rng.uniform(0.6, 1.2), 0.5))
        paths.append(
            Path(
                vehicle(rng),
                float(position_m),
                LANE_M + float(rng.normal(0, 0.25)),
                speed,
                no_motion,
                np.pi,
            )
        )
    side = -LANE_M if rng.random() < 0.6 else 2 * LANE_M
    for position_m in rng.uniform(
        -15, reach, rng.poisson(street.beside * (reach + 15) / 100)
    ):
        speed = np.full(frames, middle * rng.uniform(0.75, 1.2))
        paths.append(
            Path(
                vehicle(rng),
                float(position_m),
                side + float(rng.normal(0, 0.2)),
                speed,
                no_motion,
                0.0,
            )
        )


def side_traffic(
    paths: list[Path],
    street: Street,
    *,
    s_m: np.ndarray,
    cruise_mps: float,
    settings: TrafficSettings,
    rng: np.random.Generator,
) -> None:
    """Add parked vehicles, pedestrians on the pavement, cyclists at the kerb, and
    pedestrians who cross ahead.
    """
    frames = len(s_m)
    no_motion, span = np.zeros(frames), settings.farthest_m + s_m[-1]
    for side in (-1, 1):
        edge = -0.75 * LANE_M - 0.7 if side < 0 else 1.75 * LANE_M + 0.7
        for position_m in kerb_positions_m(
            rng, span, per_100_m=street.parked, least_m=6.0
        ):
            cls = str(rng.choice(["Car", "Van", "Misc"], p=[0.86, 0.12, 0.02]))
            heading = 0.0 if rng.random() < 0.5 else np.pi
            paths.append(
                Path(
                    cls,
                    position_m,
                    edge + float(rng.normal(0, 0.15)),
                    no_motion,
                    no_motion,
                    heading,
                )
            )
        for position_m in rng.uniform(
            -5, span, rng.poisson(street.walking * span / 100)
        ):
            walk, away = (
                float(rng.normal(0, 1.2)),
                edge + side * float(rng.uniform(1.6, 3.5)),
            )
            heading = 0.0 if walk > 0 else np.pi
            paths.append(
                Path(
                    "Pedestrian",
                    float(position_m),
                    away,
                    np.full(frames, walk),
                    no_motion,
                    heading,
                )
            )
    for position_m in rng.uniform(3, span, rng.poisson(street.cycling * span / 100)):
        speed = np.full(frames, float(rng.uniform(2.5, 5.5)))
        paths.append(
            Path(
                "Cyclist",
                float(position_m),
                -1.35 + float(rng.normal(0, 0.25)),
                speed,
                no_motion,
                0.0,
            )
        )
    if rng.random() < street.crossing:
        crossing(paths, s_m=s_m, cruise_mps=cruise_mps, settings=settings, rng=rng)


def crossing(
    paths: list[Path],
    *,
    s_m: np.ndarray,
    cruise_mps: float,
    settings: TrafficSettings,
    rng: np.random.Generator,
) -> None:
    """Add one or two pedestrians who cross the road ahead, starting during the
    scene.
    """
    frames = len(s_m)
    side = 1.0 if rng.random() < 0.5 else -1.0
    position_m = float(rng.uniform(12, 18 + 2.5 * cruise_mps)) + s_m[-1] * float(
        rng.uniform(0.2, 0.9)
    )
    begin = int(rng.integers(0, max(frames * 2 // 3, 1)))
    for _ in range(int(rng.integers(1, 3))):
        pace = float(rng.uniform(0.9, 1.8))
        sideways = np.where(np.arange(frames) >= begin, -side * pace, 0.0)
        away = side * float(rng.uniform(2.6, 4.5))
        spot = position_m + float(rng.uniform(0, 1.5))
        paths.append(
            Path(
                "Pedestrian", spot, away, np.zeros(frames), sideways, -side * np.pi / 2
            )
        )


def kerb_positions_m(
    rng: np.random.Generator, span: float, *, per_100_m: float, least_m: float
) -> list[float]:
    """Positions along a kerb, at least `least_m` apart."""
    positions_m = np.sort(rng.uniform(-5, span, rng.poisson(per_100_m * span / 100)))
    selected: list[float] = []
    for position_m in positions_m:
        if not selected or position_m - selected[-1] >= least_m:
            selected.append(float(position_m))
    return selected


def actors_of(
    paths: list[Path],
    frames: int,
    *,
    settings: TrafficSettings,
    rng: np.random.Generator,
) -> Actors:
    """The paths as arrays, with a random size for each road user."""
    cls = np.array([path.cls for path in paths], dtype="<U14")
    size = np.array([SIZES[path.cls] for path in paths]).reshape(-1, 4)
    size_m = size[:, :3] * np.exp(
        size[:, 3:] * rng.standard_normal((len(paths), 3)).clip(-2.5, 2.5)
    )
    steps = (
        np.array([path.speed_mps for path in paths]).reshape(-1, frames) * settings.dt_s
    )
    sideways = (
        np.array([path.sideways_mps for path in paths]).reshape(-1, frames)
        * settings.dt_s
    )
    begin = np.array(
        [(path.s_m, path.d_m, path.heading_rad) for path in paths]
    ).reshape(-1, 3)
    steps[:, :1], sideways[:, :1] = 0.0, 0.0
    return Actors(
        cls,
        size_m,
        begin[:, :1] + np.cumsum(steps, axis=1),
        begin[:, 1:2] + np.cumsum(sideways, axis=1),
        np.repeat(begin[:, 2:], frames, axis=1),
    )
