"""Boxes without an object of their own -> doubles and phantoms of a profile."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.driving.geometry.camera import Camera
from deepval.driving.geometry.classes import HEIGHT_M, lookup
from deepval.driving.perception.profile import (
    Doubles,
    Noise,
    Phantoms,
    ScoreLaw,
    is_person,
    logit,
)
from deepval.driving.perception.simulation import KITTI_SIZE_PX, in_lane
from detector_profile.outcomes import Outcome, Stray

TOP, FLOOR = 0.95, 0.10
SCORE_EDGES = np.array([0.10, 0.15, 0.25, 0.40, 1.0])
HEIGHT_EDGES_PX = np.array([0.0, 20.0, 30.0, 45.0, 70.0, 110.0, 1e4])


def fit_doubles(
    rows: Outcome, stray: Stray, scores: ScoreLaw, *, mean: Float[np.ndarray, "row"]
) -> Doubles:
    """Logit offset and spread of second boxes, that reproduce the observed counts above
    0.10 and 0.25; their edges.
    """
    from scipy.optimize import least_squares
    from scipy.special import ndtr

    def fitted(*, person: bool) -> tuple[float, float]:
        mine, level = (
            stray.double & (stray.person == person),
            mean[is_person(rows.cls) == person],
        )
        observed = [
            float((mine & (stray.score >= least)).sum()) for least in (0.10, 0.25)
        ]

        def gap(x: np.ndarray) -> list[float]:
            above = [
                ndtr((level + x[0] - logit(least, top=TOP)) / np.exp(x[1])).sum()
                for least in (0.10, 0.25)
            ]
            return [
                float(np.log((a + 1) / (f + 1)))
                for a, f in zip(above, observed, strict=True)
            ]

        x = least_squares(
            gap, np.array([-3.0, np.log(scores.spread)]), bounds=([-12, -1.5], [2, 1.5])
        ).x
        return float(x[0]), float(np.exp(x[1]))

    vehicle, person = fitted(person=False), fitted(person=True)
    inward = stray.off[stray.double] * np.array([1.0, 1.0, -1.0, -1.0])
    # Tenths of a normal lie beyond 1.2816: each side is estimated from its own tenth,
    # robust to wild boxes.
    out, into = np.quantile(inward, (0.1, 0.9)) * np.array([-1, 1]) / 1.2816
    return Doubles(
        vehicle[0],
        person[0],
        vehicle[1],
        person[1],
        inward=float(into),
        outward=float(max(out, 0.0)),
    )


def phantom_expectation(
    x: np.ndarray, sizes: Sequence[int]
) -> Float[np.ndarray, "size height score"]:
    """Expected share of phantoms that are reported, by resolution, height bin and score
    bin.
    """
    from scipy.special import ndtr

    ln_height, tall_spread, level, slope, spread = x
    node = np.linspace(np.log(6), np.log(400), 240)
    density = np.exp(-0.5 * ((node - ln_height) / np.exp(tall_spread)) ** 2)
    density = density / density.sum()
    bins = np.digitize(np.exp(node), HEIGHT_EDGES_PX) - 1
    edge = logit(np.minimum(SCORE_EDGES, TOP * 0.999), top=TOP)
    result = np.zeros((len(sizes), len(HEIGHT_EDGES_PX) - 1, len(SCORE_EDGES) - 1))
    for index, size in enumerate(sizes):
        mean = level + slope * (node + np.log(size / KITTI_SIZE_PX[0]) - np.log(20.0))
        above = ndtr((mean[:, None] - edge) / np.exp(spread))
        above[:, -1] = 0.0
        np.add.at(
            result[index], bins, density[:, None] * (above[:, :-1] - above[:, 1:])
        )
    return result


class Ghosts(NamedTuple):
    """Fitted phantoms: ln number in a frame and ln height in pixels by unit, and the
    parameters that units share.

    `shape` is ln spread of ln height, logit, slope, ln spread of the latent score.
    """

    ln_per_frame: Float[np.ndarray, "unit"]
    ln_height: Float[np.ndarray, "unit"]
    shape: Float[np.ndarray, "4"]


def fit_ghosts(
    stray: Stray, frames: Int[np.ndarray, "unit size"], sizes: Sequence[int]
) -> Ghosts:
    """Poisson likelihood of phantom counts by unit, resolution, height and score;
    number and height by unit.
    """
    from scipy.optimize import minimize

    ghost = ~stray.double
    tall_px = stray.box_px[:, 3] - stray.box_px[:, 1]
    units = len(frames)
    count = np.zeros(
        (units, len(sizes), len(HEIGHT_EDGES_PX) - 1, len(SCORE_EDGES) - 1)
    )
    height_bin = np.digitize(tall_px, HEIGHT_EDGES_PX) - 1
    score_bin = np.clip(
        np.digitize(stray.score, SCORE_EDGES) - 1, 0, len(SCORE_EDGES) - 2
    )
    bin_index = (stray.unit, np.searchsorted(sizes, stray.size), height_bin, score_bin)
    np.add.at(count, tuple(column[ghost] for column in bin_index), 1)

    def loss(x: np.ndarray) -> float:
        rate, height, shape = x[:units], x[units : 2 * units], x[2 * units :]
        share = np.stack(
            [
                phantom_expectation(np.concatenate([[tall], shape]), sizes)
                for tall in height
            ]
        )
        expected = (
            np.exp(rate)[:, None, None, None] * frames[:, :, None, None] * share + 1e-9
        )
        prior = (
            0.5 * (shape[2] - 1.0) ** 2
            + 0.5 * ((shape[3] - 0.3) / 0.4) ** 2
            + 0.5 * (rate.mean() - 1.5) ** 2
        )
        prior += (
            0.5
            * (
                ((rate - rate.mean()) / 0.8) ** 2
                + ((height - height.mean()) / 0.5) ** 2
            ).sum()
        )
        return float((expected - count * np.log(expected)).sum() + prior)

    start = np.array(
        [*np.full(units, 1.5), *np.full(units, np.log(35)), np.log(0.7), -4.0, 1.0, 0.3]
    )
    bounds = (
        [(-3, 3)] * units
        + [(2, 5.5)] * units
        + [(-1.5, 0.7), (-12, 2), (0, 4), (-1, 1.2)]
    )
    x = minimize(
        loss, start, method="L-BFGS-B", bounds=bounds, options={"maxfun": 50000}
    ).x
    return Ghosts(x[:units], x[units : 2 * units], x[2 * units :])


def fit_phantoms(
    stray: Stray, ghosts: Ghosts, *, camera: Camera, noise: Noise, dt_s: float
) -> Phantoms:
    """Phantoms: numbers and scores as fitted; position, class, shape and lifetime from
    boxes with score >= 0.15.
    """
    clear = ~stray.double & (stray.score >= 0.15)
    tall_px = stray.box_px[:, 3] - stray.box_px[:, 1]
    middle = (stray.box_px[:, 0] + stray.box_px[:, 2]) / 2 / KITTI_SIZE_PX[0]
    aspect = (stray.box_px[:, 2] - stray.box_px[:, 0]) / tall_px
    names, counts = np.unique(stray.cls[clear], return_counts=True)
    # Bottoms are estimated from their middle half: a box on a roof or a shop window has
    # no road contact at all.
    bottom = np.quantile(stray.bottom[clear], (0.25, 0.5, 0.75))
    tall_spread, level, slope, spread = map(float, ghosts.shape)
    at_mode = np.log(tall_px[clear] * stray.size[clear] / KITTI_SIZE_PX[0] / 20.0)
    now = logit(stray.score[clear], top=TOP)
    again = seen_again(
        now, level + slope * at_mode, spread=np.exp(spread), noise=noise, dt_s=dt_s
    )
    stays = min(float(stray.again[clear].mean()) / again, 0.98)
    rate, height = ghosts.ln_per_frame, ghosts.ln_height
    return Phantoms(
        per_frame=float(np.exp(rate.mean())),
        unit_spread=float(rate.std()),
        lasting_s=float(dt_s / (1 - stays)),
        logit=level,
        slope=slope,
        spread=float(np.exp(spread)),
        ln_height=float(height.mean()),
        ln_height_spread=float(np.exp(tall_spread)),
        ln_height_unit=float(height.std()),
        place=tuple(map(float, np.quantile(middle[clear], np.linspace(0, 1, 11)))),
        in_lane=lane_factor(stray, clear, camera=camera),
        bottom=float(bottom[1]),
        bottom_spread=float((bottom[2] - bottom[0]) / 1.349),
        classes={
            str(name): float(share)
            for name, share in zip(names, counts / counts.sum(), strict=True)
        },
        aspect={
            str(name): float(np.median(aspect[clear & (stray.cls == name)]))
            for name in names
        },
    )


def lane_factor(
    stray: Stray, clear: Bool[np.ndarray, "det"], *, camera: Camera
) -> float:
    """Phantoms in the lane over the number expected from independent positions and
    heights; units weigh the same.
    """
    measured, expected = [], []
    for unit in np.unique(stray.unit[clear]):
        box_px, cls = (
            stray.box_px[clear & (stray.unit == unit)],
            stray.cls[clear & (stray.unit == unit)],
        )
        if len(box_px) < 30:
            continue
        width_px, middle_px = (
            box_px[:, 2] - box_px[:, 0],
            (box_px[:, 0] + box_px[:, 2]) / 2,
        )
        depth_m = camera.fy_px * lookup(cls, HEIGHT_M) / (box_px[:, 3] - box_px[:, 1])
        measured.append(
            in_lane(middle_px, width_px, depth_m=depth_m, camera=camera).mean()
        )
        elsewhere = (stray.box_px[clear, 0] + stray.box_px[clear, 2])[:, None] / 2
        expected.append(
            in_lane(elsewhere, width_px, depth_m=depth_m, camera=camera).mean()
        )
    return (
        float(np.clip(np.mean(measured) / np.mean(expected), 0.0, 1.0))
        if expected
        else 1.0
    )


def seen_again(
    now: Float[np.ndarray, "det"],
    mean: Float[np.ndarray, "det"],
    *,
    spread: float,
    noise: Noise,
    dt_s: float,
) -> float:
    """Probability that a phantom with latent score `now` was above the floor one frame
    earlier too, if it existed.
    """
    from scipy.special import ndtr

    correlation = noise.of_object + noise.drifting * np.exp(-dt_s / noise.memory_s)
    before = mean + correlation * (now - mean)
    return float(
        ndtr(
            (before - logit(FLOOR, top=TOP)) / (spread * np.sqrt(1 - correlation**2))
        ).mean()
    )
