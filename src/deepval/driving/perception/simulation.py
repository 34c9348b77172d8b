"""A profile and reference objects -> simulated detections, at any resolution.

All random numbers are drawn once per unit (`draw`). `detections_at` reads a mode's
resolution off this draw, so that modes agree and disagree according to the profile, for
any selection and order of modes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Float, Int, Shaped
from deepval.driving.geometry.camera import Camera
from deepval.driving.geometry.classes import HEIGHT_M, lookup
from deepval.driving.perception.profile import (
    Conditions,
    Noise,
    Profile,
    expected_logit,
    is_person,
)
from deepval.driving.perception.reported.detections import DONE, Detections
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth

KITTI_SIZE_PX = (1242, 375)
KNOTS_PX = np.geomspace(160, 1280, 10)
FIELDS = 5
OBJECT, DOUBLE, PHANTOM = 0, 1, 2


class Things(NamedTuple):
    """Things that may be reported, sorted by frame: objects, their doubles, phantoms
    (`kind`), with image boxes.

    `identity` ties the rows of one thing together; `cls` is the true class, `reported`
    the reported one.
    """

    kind: Int[np.ndarray, "thing"]
    frame: Int[np.ndarray, "thing"]
    identity: Int[np.ndarray, "thing"]
    cls: Shaped[np.ndarray, "thing"]
    reported: Shaped[np.ndarray, "thing"]
    box_px: Float[np.ndarray, "thing 4"]
    occlusion: Int[np.ndarray, "thing"]
    range_m: Float[np.ndarray, "thing"]


class Disturbance(NamedTuple):
    """Unit-variance noise of each thing in five fields (score, four edges): lasting,
    and drifting by resolution.
    """

    lasting: Float[np.ndarray, "thing field"]
    drifting: Float[np.ndarray, "thing field knot"]


@dataclass(frozen=True)
class Draw:
    """One draw of everything random in a unit; `seed` starts the fresh noise of each
    mode.
    """

    profile: Profile
    conditions: Conditions
    unit: str
    frames: int
    size_px: tuple[int, int]
    things: Things
    score_noise: Disturbance
    edge_noise: Disturbance
    tail: Float[np.ndarray, "thing"]
    seed: int


def draw(
    profile: Profile,
    scene: Scene,
    *,
    truth: Truth,
    rng: np.random.Generator,
    conditions: Conditions | None = None,
) -> Draw:
    """All random quantities of a unit's simulation, for all resolutions at once.

    Without conditions, the light is plain and the unit draws its own number of
    phantoms.
    """
    plain = street(profile, rng)
    conditions = conditions or plain
    # An object without an image box is outside the image and cannot be reported.
    truth = truth.where(np.isfinite(truth.height_px))
    size_px = (
        scene.camera.width_px or KITTI_SIZE_PX[0],
        scene.camera.height_px or KITTI_SIZE_PX[1],
    )
    things = join(
        object_things(profile, truth, rng=rng),
        phantom_things(profile, scene, size_px=size_px, rng=rng, conditions=conditions),
    )
    dt_s = float(np.median(np.diff(scene.time_s))) if len(scene) > 1 else 0.1
    scores = disturbance(things, profile.scores.noise, fields=1, dt_s=dt_s, rng=rng)
    edges = disturbance(
        things, profile.boxes.noise, fields=FIELDS - 1, dt_s=dt_s, rng=rng
    )
    freedom = profile.boxes.freedom
    tail = np.sqrt(
        freedom / rng.chisquare(freedom, int(things.identity.max(initial=-1)) + 1)
    )[things.identity]
    tail = np.where(things.kind == DOUBLE, 1.0, tail)
    seed = int(rng.integers(2**63))
    return Draw(
        profile,
        conditions,
        scene.unit,
        len(scene),
        size_px,
        things,
        scores,
        edges,
        tail,
        seed,
    )


def object_things(
    profile: Profile, truth: Truth, *, rng: np.random.Generator
) -> Things:
    """Reference objects and their doubles; a track's reported class is drawn once, its
    double's separately.
    """
    track, identity = np.unique(truth.objects.track, return_inverse=True)
    first = np.zeros(len(track), dtype=int)
    first[identity[::-1]] = np.arange(len(truth))[::-1]
    parts = []
    for kind in (OBJECT, DOUBLE):
        reported = reported_classes(profile, truth.cls[first], rng=rng)
        parts.append(
            Things(
                np.full(len(truth), kind),
                truth.frame,
                identity,
                truth.cls.astype("<U14"),
                reported[identity],
                truth.box_px,
                truth.occlusion,
                truth.objects.near_m,
            )
        )
    return join(*parts)


def join(one: Things, other: Things) -> Things:
    """Both lists in order of frames; things of different lists stay different
    things.
    """
    offset = int(one.identity.max()) + 1 if len(one.identity) else 0
    other = other._replace(identity=other.identity + offset)
    columns = [np.concatenate(pair) for pair in zip(one, other, strict=True)]
    order = np.argsort(columns[1], kind="stable")
    return Things(*(column[order] for column in columns))


def reported_classes(
    profile: Profile, cls: Shaped[np.ndarray, "obj"], *, rng: np.random.Generator
) -> Shaped[np.ndarray, "obj"]:
    """A reported class for each object; a class outside the profile is reported as
    itself.
    """
    reported = cls.astype("<U14")
    chance = rng.random(len(cls))
    for name in np.unique(cls):
        shares = profile.confusion.get(str(name))
        if shares:
            mine = cls == name
            column = np.searchsorted(np.cumsum(list(shares.values())), chance[mine])
            reported[mine] = np.array(list(shares), dtype="<U14")[
                np.minimum(column, len(shares) - 1)
            ]
    return reported


def phantom_things(
    profile: Profile,
    scene: Scene,
    *,
    size_px: tuple[int, int],
    rng: np.random.Generator,
    conditions: Conditions,
) -> Things:
    """Phantoms that stand still, grow as the vehicle comes nearer, and vanish.

    Height and position refer to the middle of their lifetime, so that phantoms at any
    time are distributed as measured.
    """
    phantoms, frames = profile.phantoms, len(scene)
    dt_s = float(np.median(np.diff(scene.time_s))) if frames > 1 else 0.1
    lasting = max(phantoms.lasting_s / dt_s, 1.0)
    births = rng.poisson(conditions.phantoms * phantoms.per_frame / lasting, frames)
    births[:1] = rng.poisson(conditions.phantoms * phantoms.per_frame, len(births[:1]))
    birth = np.repeat(np.arange(frames), births)
    count = len(birth)
    alive = np.minimum(rng.geometric(1 / lasting, count), frames - birth)
    names = np.array(list(phantoms.classes), dtype="<U14")
    code = np.searchsorted(
        np.cumsum(list(phantoms.classes.values())), rng.random(count)
    )
    cls = names[np.minimum(code, len(names) - 1)]
    tall_px = conditions.phantom_size * np.exp(
        phantoms.ln_height + phantoms.ln_height_spread * rng.standard_normal(count)
    )
    middle_px = size_px[0] * np.interp(
        rng.random(count), np.linspace(0, 1, len(phantoms.place)), phantoms.place
    )
    aspect = lookup(cls, {str(n): phantoms.aspect[str(n)] for n in names}) * np.exp(
        0.3 * rng.standard_normal(count)
    )
    bottom = phantoms.bottom + phantoms.bottom_spread * rng.standard_normal(count)
    range_m = np.clip(scene.camera.fy_px * lookup(cls, HEIGHT_M) / tall_px, 1.5, None)

    strange = in_lane(middle_px, tall_px * aspect, depth_m=range_m, camera=scene.camera)
    alive = np.where(strange & (rng.random(count) >= phantoms.in_lane), 0, alive)

    identity = np.repeat(np.arange(count), alive)
    age = np.arange(len(identity)) - np.repeat(np.cumsum(alive) - alive, alive)
    frame = birth[identity] + age
    travelled = np.concatenate(
        [[0.0], np.cumsum(scene.ego_speed_mps[1:] * np.diff(scene.time_s))]
    )
    half = np.minimum(birth + alive // 2, frames - 1)
    left_m = range_m[identity] - (travelled[frame] - travelled[half[identity]])
    zoom = range_m[identity] / np.maximum(left_m, 0.5)
    height_px = tall_px[identity] * zoom
    width_px = height_px * aspect[identity]
    u_px = scene.camera.cx_px + (middle_px[identity] - scene.camera.cx_px) * zoom
    contact_px = (
        scene.camera.cy_px
        + scene.camera.fy_px * scene.camera.height_m / np.maximum(left_m, 0.5)
    )
    y2_px = contact_px + bottom[identity] * height_px
    box_px = np.stack(
        [u_px - width_px / 2, y2_px - height_px, u_px + width_px / 2, y2_px], axis=-1
    )
    keep = left_m > 1.5
    order = np.argsort(frame[keep], kind="stable")
    rows = (
        frame,
        identity,
        cls[identity],
        cls[identity],
        box_px,
        np.zeros(len(frame), dtype=int),
        left_m,
    )
    frame, identity, cls, reported, box_px, occlusion, left_m = (
        column[keep][order] for column in rows
    )
    return Things(
        np.full(len(frame), PHANTOM),
        frame,
        identity,
        cls,
        reported,
        box_px,
        occlusion,
        left_m,
    )


def in_lane(
    middle_px: Float[np.ndarray, "*a"],
    width_px: Float[np.ndarray, "*b"],
    *,
    depth_m: Float[np.ndarray, "*c"],
    camera: Camera,
    half_m: float = 1.2,
) -> np.ndarray:
    """Whether boxes at a depth reach into the lane ahead; the axes broadcast."""
    away_m = np.abs(
        -(middle_px - camera.cx_px) * depth_m / camera.fx_px + camera.ego_from_cam[1, 3]
    )
    return away_m < half_m + width_px * depth_m / camera.fx_px / 2


def street(profile: Profile, rng: np.random.Generator) -> Conditions:
    """Plain light in some street, which has its own number and size of phantoms."""
    phantoms = profile.phantoms
    number, size = np.exp(
        np.array([phantoms.unit_spread, phantoms.ln_height_unit])
        * rng.standard_normal(2)
    )
    return Conditions(phantoms=float(number), phantom_size=float(size))


def disturbance(
    things: Things, noise: Noise, *, fields: int, dt_s: float, rng: np.random.Generator
) -> Disturbance:
    """Noise that lasts as long as the thing, and noise that decays with `memory_s` from
    frame to frame.
    """
    count = int(things.identity.max()) + 1 if len(things.identity) else 0
    lasting = rng.standard_normal((count, fields))
    state = rng.standard_normal((count, fields, len(KNOTS_PX)))
    fresh = rng.standard_normal((len(things.frame), fields, len(KNOTS_PX)))
    seen = np.full(count, -1)
    drifting = np.empty_like(fresh)
    starts = np.flatnonzero(np.diff(things.frame, prepend=-1))
    for rows in np.split(np.arange(len(things.frame)), starts[1:]):
        if not len(rows):
            continue
        who, now = things.identity[rows], things.frame[rows[0]]
        correlation = np.where(
            seen[who] < 0, 1.0, np.exp(-(now - seen[who]) * dt_s / noise.memory_s)
        )[:, None, None]
        state[who] = (
            correlation * state[who] + np.sqrt(1 - correlation**2) * fresh[rows]
        )
        drifting[rows], seen[who] = state[who], now
    return Disturbance(lasting[things.identity], drifting)


def loading(size: float, size_scale: float) -> Float[np.ndarray, "knot"]:
    """Weights on the resolution knots: drifting noise of a mode, of unit variance,
    correlated as exp(-d ln size).
    """
    ln_knots = np.log(KNOTS_PX)
    covariance = np.exp(-np.abs(ln_knots[:, None] - ln_knots[None, :]) / size_scale)
    near = np.interp(np.log(size), ln_knots, np.arange(len(ln_knots)))
    low = min(int(near), len(ln_knots) - 2)
    weight = np.zeros(len(ln_knots))
    weight[low], weight[low + 1] = 1 - (near - low), near - low
    loaded = np.linalg.cholesky(covariance).T @ weight
    return loaded / np.linalg.norm(loaded)


def blend(
    noise: Noise, drawn: Disturbance, *, size: int, rng: np.random.Generator
) -> Float[np.ndarray, "thing field"]:
    """Unit-variance noise of a mode: lasting, drifting and fresh parts in the noise's
    shares.
    """
    fresh = max(1 - noise.of_object - noise.drifting, 0.0)
    return (
        np.sqrt(noise.of_object) * drawn.lasting
        + np.sqrt(noise.drifting) * (drawn.drifting @ loading(size, noise.size_scale))
        + np.sqrt(fresh) * rng.standard_normal(drawn.lasting.shape)
    )


class ModeNoise(NamedTuple):
    """Unit-variance noise of each thing in one mode: of its score, and of its four
    edges.
    """

    score: Float[np.ndarray, "thing"]
    edges: Float[np.ndarray, "thing 4"]


def mode_noise(drawn: Draw, size: int) -> ModeNoise:
    """The noise of a draw in a mode of that resolution."""
    rng, profile = np.random.default_rng([drawn.seed, size]), drawn.profile
    score = blend(profile.scores.noise, drawn.score_noise, size=size, rng=rng)[:, 0]
    return ModeNoise(
        score, blend(profile.boxes.noise, drawn.edge_noise, size=size, rng=rng)
    )


def latent_scores(
    drawn: Draw, *, size: int, score_noise: Float[np.ndarray, "thing"]
) -> Float[np.ndarray, "thing"]:
    """Latent score of each thing at a resolution."""
    things, profile, conditions = drawn.things, drawn.profile, drawn.conditions
    height_px = (things.box_px[:, 3] - things.box_px[:, 1]) * size / max(drawn.size_px)
    mean = expected_logit(
        profile,
        height_px,
        cls=things.cls,
        occlusion=things.occlusion,
        range_m=things.range_m,
    )
    phantom = things.kind == PHANTOM
    ghostly = profile.phantoms.logit + profile.phantoms.slope * np.log(
        np.maximum(height_px, 0.5) / 20.0
    )
    doubles, person = profile.doubles, is_person(things.cls)
    offset = np.where(person, doubles.person_logit, doubles.vehicle_logit)
    mean = np.where(phantom, ghostly, mean + offset * (things.kind == DOUBLE))
    # Haze hides far things; phantoms come from the same pixels, so it hides them too.
    mean = (
        mean
        + conditions.shift * ~phantom
        - conditions.haze_per_m * np.maximum(things.range_m, 0.0)
    )
    spread = np.array(
        [profile.scores.spread, doubles.vehicle_spread, profile.phantoms.spread]
    )[things.kind]
    spread[(things.kind == DOUBLE) & person] = doubles.person_spread
    return mean + spread * score_noise


def noisy_boxes(
    drawn: Draw,
    latent: Float[np.ndarray, "thing"],
    *,
    size: int,
    edge_noise: Float[np.ndarray, "thing 4"],
) -> Float[np.ndarray, "thing 4"]:
    """Boxes as reported at a resolution: edges displaced, clipped to the image."""
    things, boxes = drawn.things, drawn.profile.boxes
    wide_px = np.maximum(things.box_px[:, 2] - things.box_px[:, 0], 1.0)
    tall_px = np.maximum(things.box_px[:, 3] - things.box_px[:, 1], 1.0)
    unit_px = np.stack([wide_px, tall_px, wide_px, tall_px], axis=-1)
    noise = edge_noise * drawn.tail[:, None]
    at_mode_px = np.maximum(tall_px * size / max(drawn.size_px), 2.0)[:, None]
    person = is_person(things.cls)
    bias, spread = np.zeros_like(unit_px), np.zeros_like(unit_px)
    for edges, mine in ((boxes.vehicle, ~person), (boxes.person, person)):
        hidden = np.asarray(edges.occlusion_factor)[
            np.clip(things.occlusion[mine], 0, 3)
        ]
        factor = (hidden * np.exp(-edges.per_logit * np.maximum(latent[mine], -3.0)))[
            :, None
        ]
        spread[mine] = (
            np.tile(
                np.hypot(edges.relative, np.asarray(edges.px) / at_mode_px[mine]), 2
            )
            * factor
        )
        bias[mine] = edges.bias
        both = np.asarray(edges.together)
        noise[mine, 2:] = (
            both * noise[mine, :2] + np.sqrt(1 - both**2) * noise[mine, 2:]
        )
    doubles = drawn.profile.doubles
    parted = np.where(
        noise * np.array([1.0, 1.0, -1.0, -1.0]) > 0, doubles.inward, doubles.outward
    )
    spread = np.where((things.kind == DOUBLE)[:, None], parted, spread)
    bias[things.kind == PHANTOM] = 0.0
    box_px = things.box_px + unit_px * (bias + spread * noise)
    limit = np.array([*drawn.size_px, *drawn.size_px], dtype=float)
    return np.clip(box_px, 0.0, limit)


def detections_at(drawn: Draw, size: int, noise: ModeNoise | None = None) -> Detections:
    """The detections of a draw in a mode of that resolution (the picture's long side in
    pixels).

    `noise` is that of the draw's things if it was computed before; only then may the
    draw be a part of another one.
    """
    noise = mode_noise(drawn, size) if noise is None else noise
    scores, things = drawn.profile.scores, drawn.things
    latent = latent_scores(drawn, size=size, score_noise=noise.score)
    score = scores.top / (1 + np.exp(-latent))
    box_px = noisy_boxes(drawn, latent, size=size, edge_noise=noise.edges)
    least_px = 2.0 * max(drawn.size_px) / size
    large = (box_px[:, 2:] - box_px[:, :2] >= least_px).all(axis=1)
    keep = np.flatnonzero((score >= scores.floor) & large)
    keep = keep[np.lexsort((-score[keep], things.frame[keep]))]
    return Detections(
        unit=drawn.unit,
        frame=things.frame[keep],
        cls=things.reported[keep],
        score=score[keep],
        box_px=box_px[keep],
        status=np.full(drawn.frames, DONE),
    )
