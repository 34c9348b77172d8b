"""Matched outcomes of a detector at several resolutions -> its profile:
docs/definitions.md, Simulated detector.

The latent score is fitted by censored maximum likelihood (unreported objects lie below
the floor), its shares over objects, time and resolution by the likelihood of pairs,
phantoms by their counts over resolution, score and height.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Float, Int
from deepval.basics.files.writing import write_atomically
from deepval.driving.geometry.boxes import frame_pairs
from deepval.driving.perception.profile import (
    Boxes,
    Conditions,
    Edges,
    Noise,
    Profile,
    ScoreLaw,
    is_person,
    logit,
)
from detector_profile.outcomes import Outcome, Specimen, all_outcomes, unit_names
from detector_profile.strays import FLOOR, TOP, fit_doubles, fit_ghosts, fit_phantoms

HEIGHT_KNOTS_PX = (4.0, 7.0, 10.0, 15.0, 25.0, 50.0)
# Range adds hardly anything to height, and in these data it also separates the picture
# sets: the prior keeps it near 0.
RANGE_PRIOR = 500.0
FREEDOM = 4
LAGS = (0, 1, 2, 4, 8, 16)


def basis(height_px: Float[np.ndarray, "row"]) -> Float[np.ndarray, "row knot"]:
    """Weights of the height knots for piecewise linear interpolation in ln height,
    extrapolated below the first.
    """
    ln_knots = np.log(HEIGHT_KNOTS_PX)
    x = np.minimum(np.log(height_px), ln_knots[-1])
    low = np.clip(np.searchsorted(ln_knots, x, side="right") - 1, 0, len(ln_knots) - 2)
    share = (x - ln_knots[low]) / (ln_knots[low + 1] - ln_knots[low])
    weight = np.zeros((len(x), len(ln_knots)))
    weight[np.arange(len(x)), low] = 1 - share
    weight[np.arange(len(x)), low + 1] = share
    return weight


def fit_scores(rows: Outcome) -> tuple[ScoreLaw, Float[np.ndarray, "row"]]:
    """The latent score by censored maximum likelihood, and each row's standardised
    residual or its bound.
    """
    from scipy.optimize import minimize
    from scipy.special import log_ndtr

    classes = [str(name) for name in np.unique(rows.cls) if name != "Car"]
    heights, knots = basis(rows.height_px), len(HEIGHT_KNOTS_PX)
    by_class = np.stack([rows.cls == name for name in classes], axis=-1).astype(float)
    hidden = np.stack(
        [np.clip(rows.occlusion, 0, 3) >= level for level in (1, 2)], axis=-1
    ).astype(float)
    far = np.log(np.clip(rows.range_m, 2.0, 200.0) / 20.0)
    design = np.column_stack([heights, by_class, hidden, far])
    seen, least = rows.seen, logit(FLOOR, top=TOP)
    target = np.where(seen, logit(np.where(seen, rows.score, FLOOR), top=TOP), least)

    # Sums of exponentials: the score rises with height for every x, without
    # constraints.
    def coefficients(x: np.ndarray) -> np.ndarray:
        return np.concatenate(
            [np.cumsum(np.concatenate([x[:1], np.exp(x[1:knots])])), x[knots:-1]]
        )

    def loss(x: np.ndarray) -> float:
        spread = np.exp(x[-1])
        away = (target - design @ coefficients(x)) / spread
        likelihood = np.where(seen, -0.5 * away**2 - x[-1], log_ndtr(away))
        shrink = (
            (x[knots:-1] ** 2).sum() * 2.0
            + RANGE_PRIOR * x[-2] ** 2
            + ((x[1:knots] + 0.5) ** 2).sum() * 0.5
        )
        return float(shrink - likelihood.sum())

    start = np.concatenate(
        [[-4.0], np.zeros(knots - 1), np.zeros(len(classes) + 3), [0.3]]
    )
    x = minimize(
        loss, start, method="L-BFGS-B", options={"maxiter": 500, "maxfun": 100000}
    ).x
    fitted, spread = coefficients(x), float(np.exp(x[-1]))
    effects = fitted[knots:]
    levels = np.cumsum(effects[len(classes) : len(classes) + 2])
    scores = ScoreLaw(
        height_px=HEIGHT_KNOTS_PX,
        height_logit=tuple(fitted[:knots]),
        class_logit={"Car": 0.0}
        | dict(zip(classes, map(float, effects[: len(classes)]), strict=True)),
        occlusion_logit=(0.0, float(levels[0]), float(levels[1]), float(levels[1])),
        range_logit=float(effects[-1]),
        spread=spread,
        top=TOP,
        floor=FLOOR,
        noise=Noise(0.4, 0.4, 1.0, 1.0),
    )
    return scores, (target - design @ fitted) / spread


class RowPairs(NamedTuple):
    """Pairs of rows of one object: the number of frames and the ln resolution between
    them.
    """

    first: Int[np.ndarray, "pair"]
    second: Int[np.ndarray, "pair"]
    lag: Int[np.ndarray, "pair"]
    apart: Float[np.ndarray, "pair"]


def row_pairs(rows: Outcome) -> RowPairs:
    """All pairs of rows of one track that lie one of `LAGS` frames apart, at any two
    resolutions.
    """
    thing = np.unique(
        np.column_stack([rows.unit, rows.track]), axis=0, return_inverse=True
    )[1].reshape(-1)
    key = thing * 100_000 + rows.frame
    order = np.argsort(key, kind="stable")
    parts = []
    for lag in LAGS:
        pairs = frame_pairs(key, key[order], lag=lag)
        first, second = pairs.first, order[pairs.second]
        keep = first < second if lag == 0 else np.ones(len(first), dtype=bool)
        parts.append((first[keep], second[keep], np.full(keep.sum(), lag)))
    first, second, lag = (np.concatenate(column) for column in zip(*parts, strict=True))
    return RowPairs(
        first, second, lag, np.abs(np.log(rows.size[first] / rows.size[second]))
    )


def both_below(h: np.ndarray, k: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """P(X < h, Y < k) of a bivariate normal, by integrating over the correlation."""
    from scipy.special import ndtr

    node, weight = np.polynomial.legendre.leggauss(12)
    angle = np.arcsin(correlation)[:, None] * (node + 1) / 2
    sin, cos = np.sin(angle), np.cos(angle)
    inner = np.exp(
        -(h[:, None] ** 2 + k[:, None] ** 2 - 2 * (h * k)[:, None] * sin) / (2 * cos**2)
    )
    return ndtr(h) * ndtr(k) + (inner @ weight) * np.arcsin(correlation) / 2 / (
        2 * np.pi
    )


def pair_correlation(
    x: np.ndarray, pairs: RowPairs, dt_s: float
) -> tuple[Noise, np.ndarray]:
    """The noise of unbounded parameters, and the correlation of each pair under it."""
    share = np.exp(np.append(x[:2], 0.0))
    share = share / share.sum()
    noise = Noise(
        float(share[0]), float(share[1]), float(np.exp(x[2])), float(np.exp(x[3]))
    )
    drift = np.exp(-pairs.lag * dt_s / noise.memory_s - pairs.apart / noise.size_scale)
    return noise, np.clip(noise.of_object + noise.drifting * drift, 1e-6, 0.995)


def fit_noise(
    rows: Outcome,
    residual: Float[np.ndarray, "row"],
    *,
    dt_s: float,
    rng: np.random.Generator,
    most_pairs: int = 20_000,
) -> Noise:
    """Shares of the latent score's noise by the likelihood of pairs; unreported objects
    enter by their bounds.
    """
    from scipy.optimize import minimize
    from scipy.special import log_ndtr

    pairs = row_pairs(rows)
    if len(pairs.first) > most_pairs:
        chosen = rng.permutation(len(pairs.first))[:most_pairs]
        pairs = RowPairs(*(column[chosen] for column in pairs))
    a, b = residual[pairs.first], residual[pairs.second]
    seen_a, seen_b = rows.seen[pairs.first], rows.seen[pairs.second]
    both, none = seen_a & seen_b, ~seen_a & ~seen_b
    observed, bound = np.where(seen_a, a, b), np.where(seen_a, b, a)

    def loss(x: np.ndarray) -> float:
        _, r = pair_correlation(x, pairs, dt_s)
        rest = 1 - r**2
        full = -0.5 * np.log(rest) - (a * a - 2 * r * a * b + b * b) / (2 * rest)
        half = -0.5 * observed**2 + log_ndtr((bound - r * observed) / np.sqrt(rest))
        likelihood = np.where(both, full, half)
        likelihood[none] = np.log(
            np.maximum(both_below(a[none], b[none], r[none]), 1e-12)
        )
        return -float(likelihood.sum())

    start = np.array([0.5, 0.5, 0.0, 0.0])
    bounds = [(-4, 4), (-4, 4), (np.log(0.1), np.log(20)), (np.log(0.1), np.log(20))]
    x = minimize(loss, start, method="L-BFGS-B", bounds=bounds).x
    return pair_correlation(x, pairs, dt_s)[0]


class FittedEdges(NamedTuple):
    """Edges of one kind of object, and each row's displacement over its scale."""

    edges: Edges
    unit: Float[np.ndarray, "row 4"]


def fit_edges(rows: Outcome) -> FittedEdges:
    """Edge bias, and scale by height, occlusion and score, by the likelihood of
    Student's t.
    """
    from scipy.optimize import minimize

    bias = np.median(rows.edges[(rows.occlusion == 0) & ~rows.cut], axis=0)
    away, level = rows.edges - bias, np.clip(rows.occlusion, 0, 2)

    height_px, latent = rows.height_px[:, None], logit(rows.score, top=TOP)[:, None]

    def spread(x: np.ndarray) -> np.ndarray:
        factor = np.exp(np.array([0.0, x[4], x[5]])[level][:, None] - x[6] * latent)
        return np.tile(np.hypot(np.exp(x[:2]), np.exp(x[2:4]) / height_px), 2) * factor

    def loss(x: np.ndarray) -> float:
        size = spread(x)
        tails = (FREEDOM + 1) / 2 * np.log1p((away / size) ** 2 / FREEDOM)
        return float(
            (np.log(size) + tails).sum()
            + 20.0 * (x[4:] ** 2).sum()
            + 5.0 * (x[2:4] ** 2).sum()
        )

    x = minimize(
        loss, np.array([-3.5, -3.5, 0.0, 0.0, 0.2, 0.4, 0.1]), method="L-BFGS-B"
    ).x
    unit = away / spread(x)
    core = np.clip(unit, -3, 3)
    edges = Edges(
        bias=tuple(map(float, bias)),
        relative=tuple(map(float, np.exp(x[:2]))),
        px=tuple(map(float, np.exp(x[2:4]))),
        occlusion_factor=(1.0, *map(float, np.exp(x[4:6])), float(np.exp(x[5]))),
        per_logit=float(x[6]),
        together=tuple(
            float(np.corrcoef(core[:, i], core[:, i + 2])[0, 1]) for i in (0, 1)
        ),
    )
    return FittedEdges(edges, unit)


def fit_boxes(rows: Outcome, *, dt_s: float) -> Boxes:
    """Edges of vehicles and persons, and the shares of their noise over objects, time
    and resolution.
    """
    rows = rows.where(rows.seen)
    person = is_person(rows.cls)
    vehicle, walker = fit_edges(rows.where(~person)), fit_edges(rows.where(person))
    unit = np.zeros((len(rows.frame), 4))
    unit[~person], unit[person] = vehicle.unit, walker.unit
    return Boxes(
        vehicle.edges,
        walker.edges,
        FREEDOM,
        edge_noise(rows, np.clip(unit, -3, 3), dt_s=dt_s),
    )


def edge_noise(
    rows: Outcome, unit: Float[np.ndarray, "row 4"], *, dt_s: float
) -> Noise:
    """Shares of edge noise: least squares on mean products of pairs, by lag and
    distance in resolution.
    """
    from scipy.optimize import least_squares

    pairs = row_pairs(rows)
    label = np.column_stack([pairs.lag, np.round(pairs.apart * 4)])
    cell = np.unique(label, axis=0, return_inverse=True)[1].reshape(-1)
    product = (unit[pairs.first] * unit[pairs.second]).mean(axis=1) / (unit**2).mean()
    count = np.bincount(cell)
    mean = np.bincount(cell, weights=product) / count
    none = np.zeros(len(count), dtype=int)
    lag = np.round(np.bincount(cell, weights=pairs.lag) / count).astype(int)
    middle = RowPairs(none, none, lag, np.bincount(cell, weights=pairs.apart) / count)
    fitted = least_squares(
        lambda y: np.sqrt(count) * (pair_correlation(y, middle, dt_s)[1] - mean),
        np.array([0.0, 0.5, 0.0, 0.0]),
        bounds=([-4, -4, np.log(0.1), np.log(0.1)], [4, 4, np.log(20), np.log(20)]),
    )
    return pair_correlation(fitted.x, middle, dt_s)[0]


def fit_confusion(rows: Outcome) -> dict[str, dict[str, float]]:
    """Reported classes of each true class, as shares of the tracks' reports; below 1 %
    left out.
    """
    confusion = {}
    for name in np.unique(rows.cls):
        reported, count = np.unique(
            rows.reported[(rows.cls == name) & rows.seen], return_counts=True
        )
        share = count / max(count.sum(), 1)
        share = np.where(share >= 0.01, share, 0.0)
        if count.sum() >= 20:
            confusion[str(name)] = {
                str(t): float(s)
                for t, s in zip(reported, share / share.sum(), strict=True)
                if s
            }
    return confusion


def frames_run(
    samples: Sequence[Specimen],
) -> tuple[Int[np.ndarray, "unit size"], list[int]]:
    """Frames run by unit and resolution, and the resolutions."""
    units, sizes = unit_names(samples), sorted({sample.size for sample in samples})
    frames = np.zeros((len(units), len(sizes)), dtype=int)
    for sample in samples:
        frames[units.index(sample.scene.unit), sizes.index(sample.size)] += int(
            sample.detections.run.sum()
        )
    return frames, sizes


def streets(samples: Sequence[Specimen]) -> dict[str, Conditions]:
    """The number and size of phantoms by unit, relative to the profile's."""
    ghosts = fit_ghosts(all_outcomes(samples)[1], *frames_run(samples))
    number, size = (
        np.exp(column - column.mean())
        for column in (ghosts.ln_per_frame, ghosts.ln_height)
    )
    names = unit_names(samples)
    return {
        u: Conditions(phantoms=float(n), phantom_size=float(z))
        for u, n, z in zip(names, number, size, strict=True)
    }


def fit_profile(
    samples: Sequence[Specimen], *, name: str, fitted_on: str, seed: int = 0
) -> Profile:
    """The profile of a detector from its outcomes at several resolutions on units with
    a reference.
    """
    rows, stray = all_outcomes(samples)
    dt_s = float(np.median(np.diff(samples[0].scene.time_s)))
    scores, residual = fit_scores(rows)
    scores = replace(
        scores,
        noise=fit_noise(rows, residual, dt_s=dt_s, rng=np.random.default_rng(seed)),
    )
    target = np.where(
        rows.seen,
        logit(np.where(rows.seen, rows.score, FLOOR), top=TOP),
        logit(FLOOR, top=TOP),
    )
    ghosts = fit_ghosts(stray, *frames_run(samples))
    return Profile(
        name=name,
        fitted_on=fitted_on,
        scores=scores,
        boxes=fit_boxes(rows, dt_s=dt_s),
        confusion=fit_confusion(rows),
        doubles=fit_doubles(
            rows, stray, scores, mean=target - residual * scores.spread
        ),
        phantoms=fit_phantoms(
            stray, ghosts, camera=samples[0].scene.camera, noise=scores.noise, dt_s=dt_s
        ),
    )


def write_profile(profile: Profile, path: Path | str, *, head: str) -> None:
    """Write a profile as TOML with `head` (its origin) as comments above."""
    lines = [f"# {line}".rstrip() for line in head.splitlines()]
    lines += [
        f"{key} = {toml(value)}"
        for key, value in asdict(profile).items()
        if not isinstance(value, dict)
    ]
    for key, value in asdict(profile).items():
        if isinstance(value, dict):
            lines += ["", *section(key, value)]
    write_atomically(path, "\n".join(lines) + "\n")


def section(name: str, values: Mapping[str, Any]) -> list[str]:
    """The lines of one TOML table, tables within it as inline tables."""
    return [f"[{name}]", *(f"{key} = {toml(value)}" for key, value in values.items())]


def toml(value: Any) -> str:
    """A value as TOML; numbers keep four significant digits, which is more than the
    data justify.
    """
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, Mapping):
        return (
            "{ "
            + ", ".join(f"{key} = {toml(item)}" for key, item in value.items())
            + " }"
        )
    if isinstance(value, tuple | list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return repr(float(f"{value:.4g}"))
