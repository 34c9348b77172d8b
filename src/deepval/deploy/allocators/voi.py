"""Tracks of a belief and the downstream rule -> the expected value of escalating:
docs/simulated-value.md.

For every track two heads predict P(the full mode reports it) and P(it is there, given
that). Fixed draws of both, with errors of range, position and closing speed as they
occurred in the fit units, give pairs of a full output and a reference. The rule acts on
each, and its loss gives the draw's value. Score = E[benefit] - 2 E[harm] + a prior for
objects that were never seen: a weight times the squared speed where the cheap mode's
action is none. No decision value is learned.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.basics.errors import InputError, NothingToLearnError
from deepval.basics.files.canonical import plain
from deepval.basics.files.reading import check_form
from deepval.basics.progress import Watch, unwatched
from deepval.deploy.allocators.allocator import (
    Examples,
    FittedAllocator,
    Recipe,
    Training,
)
from deepval.deploy.allocators.belief import (
    FEATURES,
    HALF,
    MOST,
    OFFSET_M,
    Belief,
    U,
    X,
    Y,
    sightings,
)
from deepval.deploy.allocators.models import Boosting, Linear, Model, model_of
from deepval.deploy.allocators.models.model import Standard
from deepval.deploy.features import Glance, Sight
from deepval.driving.planners.controllers import RULES, Rule
from deepval.driving.views import OwnMemory, Past
from deepval.driving.world.objects import Objects, Outlines, Outputs

DRAWS, TRACKS = 64, 8
"""Draws of a frame, and tracks that are drawn: those that ask for most deceleration."""
MARGIN_M = 1.3
"""Tracks count up to this far beyond the rule's reach."""
BANDS_M = np.array([10.0, 20.0, 35.0, 55.0])
"""Ranges at which the errors of the next band begin; each has two tables, for tracks
seen now and for missing ones.
"""
TABLES = 2 * (len(BANDS_M) + 1)
ERRORS = ("log range", "middle", "half-width", "closing speed", "length")
FEW = 10
"""Least number of errors in a table; with fewer, it has the errors of all bands."""
LEAST_HALF_M = 0.1


# Raw numbers of a generator never change between versions of NumPy. Sorting makes each
# column a shuffle of all rows.
_SHUFFLES = (
    np.random.PCG64(0)
    .random_raw(4 * DRAWS * TRACKS)
    .reshape(4, DRAWS, TRACKS)
    .argsort(axis=1)
)
CHANCE = (_SHUFFLES[:2] + 0.5) / DRAWS
"""By full mode and reference: the number that decides whether a track is there, by draw
and track.
"""
PICKS = _SHUFFLES[2:].reshape(2 * DRAWS, TRACKS)
"""Which row of the table of errors is drawn, by draw of the full mode and then of the
reference, and by track.
"""


@dataclass(frozen=True, eq=False)
class Trail(OwnMemory):
    """The memory of a unit: its tracks, and the cheap mode's action in the last frame
    (NaN: none).
    """

    rule: Rule
    belief: Belief
    action: Float[np.ndarray, "act"]

    @classmethod
    def start(cls, rule: Rule) -> "Trail":
        """The memory before the first frame."""
        return cls(rule, Belief(), np.full(rule.choices.shape[1], np.nan))

    def after(self, glance: Glance) -> "Trail":
        """The memory after a glance."""
        return Trail(self.rule, self.belief.copy(), self.action).moved(glance)

    def moved(self, glance: Glance) -> "Trail":
        """The memory after a glance, with the same belief, which takes the glance
        in.
        """
        if not glance.frame.run:
            self.belief.see(glance)
            return replace(self, action=np.full_like(self.action, np.nan))
        seen = sightings(glance)
        self.belief.see(glance, seen)
        speed_mps = np.array([glance.frame.ego_speed_mps])
        needs = self.rule.needs(seen.obstacles, speed_mps)
        return Trail(
            self.rule,
            self.belief,
            self.rule.act(needs, speed_mps, previous=self.action[None])[0],
        )


@dataclass(frozen=True, eq=False)
class SimulatedValue(FittedAllocator):
    """Expected benefit minus a multiple of the expected harm, by simulation of the
    downstream rule.

    Attributes:
        name: Its name.
        rule: What the downstream system does about objects.
        heads: P(the full mode reports a track), and P(it is there, given its features
            and whether it is reported).
        errors: By full mode and reference, table, row and kind of error: errors of
            tracks in the fit units.
        prior: The weight of the squared speed.
        penalty: The multiple of the expected harm.
        training: The data and settings of its fit.
    """

    name: str
    rule: Rule
    heads: tuple[Model, Model]
    errors: Float[np.ndarray, "side table row error"]
    prior: float
    penalty: float
    training: Training = field(repr=False)
    front: ClassVar[str] = "belief"
    holds = "a rule, two models and tables of errors in plain numbers"
    uses = frozenset(
        {
            "ego speed",
            "cheap boxes",
            "cheap objects",
            "cheap scores",
            "calibration",
            "previous frames",
        }
    )

    def __post_init__(self) -> None:
        shape, widths = (
            (2, TABLES, DRAWS, len(ERRORS)),
            (len(FEATURES), len(FEATURES) + 1),
        )
        if self.errors.shape != shape or not np.isfinite(self.errors).all():
            raise ValueError(
                f"errors must be {shape} finite numbers; found {self.errors.shape}"
            )
        if tuple(head.width for head in self.heads) != widths:
            raise ValueError(f"the models must take {widths} columns")

    def past(self) -> Past:
        """The memory at the beginning of a unit."""
        return Past(memory=Trail.start(self.rule))

    def _of_frame(self, glance: Glance) -> float:
        before, now = glance.past.memory, glance.after.memory
        if (
            not isinstance(before, Trail)
            or not isinstance(now, Trail)
            or before.rule != self.rule
        ):
            raise InputError(
                f"{self.name} remembers tracks from the first frame on: begin each "
                "unit with its `past()`, or use `Router`."
            )
        return self.value(now, before.action)

    def _of_unit(self, sight: Sight) -> Float[np.ndarray, "time"]:
        trail = Trail.start(self.rule)
        scores = np.full(len(sight.glances), np.nan)
        for frame, glance in enumerate(sight.glances):
            before = trail.action
            trail = trail.moved(glance)
            if glance.frame.run:
                scores[frame] = self.value(trail, before)
        return scores

    def value(self, trail: Trail, previous: Float[np.ndarray, "act"]) -> float:
        """The score of the frame that the trail has just seen."""
        belief, idle = trail.belief, trail.action[0] == 0
        prior = self.prior * belief.speed_mps**2 if idle else 0.0
        chosen, rows = belief.features(self.rule.reach_m + MARGIN_M, TRACKS)
        if not len(chosen):
            return prior
        values = self.draw_values(
            belief, chosen, rows, actions=(trail.action, previous)
        )
        benefit, harm = np.maximum(values, 0.0).sum(), np.minimum(values, 0.0).sum()
        return float(benefit + self.penalty * harm) / DRAWS + prior

    def draw_values(
        self,
        belief: Belief,
        chosen: Int[np.ndarray, "track"],
        rows: Float[np.ndarray, "track column"],
        *,
        actions: tuple[Float[np.ndarray, "act"], Float[np.ndarray, "act"]],
    ) -> Float[np.ndarray, "draw"]:
        """Decision value of every draw; `actions` are those of the cheap mode now and
        before.
        """
        count = len(chosen)
        reported = CHANCE[0, :, :count] < self.heads[0].predict(rows)
        both = np.zeros((2, count, len(FEATURES) + 1))
        both[..., :-1], both[1, :, -1] = rows, 1.0
        absent, present = (
            self.heads[1].predict(both.reshape(2 * count, -1)).reshape(2, count)
        )
        there = CHANCE[1, :, :count] < np.where(reported, present, absent)
        tracks, band = belief.tracks[:, chosen], _tables(rows)
        speed_mps, rule = np.array([belief.speed_mps]), self.rule
        obstacles = self._obstacles(
            np.concatenate([reported, there]),
            tracks,
            band=band,
            speed_mps=belief.speed_mps,
        )
        needs = rule.needs(obstacles, speed_mps)
        cheap, previous = (action[None] for action in actions)
        pairs = needs.reshape(2, DRAWS, *needs.shape[1:])
        return rule.value(cheap, pairs, speed_mps=speed_mps, previous=previous)

    def _obstacles(
        self,
        marks: Bool[np.ndarray, "draw track"],
        tracks: Float[np.ndarray, "row track"],
        *,
        band: Int[np.ndarray, "track"],
        speed_mps: float,
    ) -> Outlines:
        """The marked tracks of each draw of the full mode and then of the reference,
        with errors.
        """
        draw, track = marks.nonzero()
        row = (band[track] + TABLES * (draw >= DRAWS)) * DRAWS + PICKS[draw, track]
        log_range, middle, half, closing, length = (
            self.errors.reshape(-1, len(ERRORS)).take(row, axis=0).T
        )
        x_m, u_mps, y_m, own_half_m = tracks[[X, U, Y, HALF]].take(track, axis=1)
        near_m = (np.maximum(x_m, 0.0) + OFFSET_M) * np.exp(log_range) - OFFSET_M
        y_m = y_m + np.where(y_m < 0, -middle, middle)
        half_m = np.maximum(own_half_m + half, LEAST_HALF_M)
        lateral_m = np.array([y_m - half_m, y_m + half_m]).T
        return Outlines(
            2 * DRAWS,
            draw,
            near_m,
            near_m + length,
            lateral_m,
            speed_mps - u_mps + closing,
        )

    @classmethod
    def feature_sets(cls) -> tuple[str, ...]:
        """Its own."""
        return (cls.front,)

    def content(self) -> dict[str, Any]:
        """Rule, training, columns, models, tables of errors and settings in plain
        numbers.
        """
        return {
            "name": self.name,
            "front": self.front,
            "training": plain(self.training),
            "columns": list(FEATURES),
            "rule": next(
                name for name, rule in RULES.items() if type(self.rule) is rule
            ),
            "constants": plain(self.rule),
            "prior": self.prior,
            "penalty": self.penalty,
            "heads": [head.to_dict() for head in self.heads],
            "errors": self.errors.tolist(),
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "SimulatedValue":
        """The allocator from a file's content."""
        if content["columns"] != list(FEATURES):
            raise InputError("columns must be those of this deepval. Fit it again.")
        first, second = map(model_of, content["heads"])
        return cls(
            name=str(content["name"]),
            rule=check_form(RULES[content["rule"]], content["constants"], "constants"),
            heads=(first, second),
            errors=np.array(content["errors"], float),
            prior=float(content["prior"]),
            penalty=float(content["penalty"]),
            training=Training.of(content),
        )


def _tables(rows: Float[np.ndarray, "track column"]) -> Int[np.ndarray, "track"]:
    """The table of errors of each track, by its range and whether it is missing."""
    missing, range_m = (
        rows[:, FEATURES.index("misses")],
        rows[:, FEATURES.index("range_m")],
    )
    return np.searchsorted(BANDS_M, range_m, side="right") + (len(BANDS_M) + 1) * (
        missing > 0
    )


@dataclass(frozen=True)
class SimulatedValueRecipe(Recipe):
    """How to fit an allocator by simulation.

    Attributes:
        name: Its name.
        learner: The learner of both heads.
        prior: The weight of the squared speed in the prior.
        penalty: The multiple of the expected harm.
    """

    name: str
    learner: Boosting
    prior: float = 0.015
    penalty: float = 2.0
    target = "value"
    makes = SimulatedValue
    needs_outputs = True

    def admits(self, target: str, *, classifies: bool) -> bool:
        """Only the value itself, which the simulation estimates; no label is
        learned.
        """
        del classifies
        return target == self.target

    def like(self, settings: Mapping[str, Any]) -> "SimulatedValueRecipe":
        """The recipe with the settings of a fit."""
        return check_form(
            type(self), {"name": self.name, **settings}, f"the settings of {self.name}"
        )

    def fit(
        self, examples: Examples, training: Training, *, watch: Watch = unwatched
    ) -> SimulatedValue:
        """The allocator, fitted on what became of the tracks of the fit units in the
        full mode and the reference.
        """
        del watch
        if examples.rule is None or examples.outputs is None:
            raise InputError(
                f"{self.name} simulates what the downstream system does about "
                f"objects; only {' and '.join(RULES)} have such a rule. Choose "
                "another allocator."
            )
        settings = plain(self)
        del settings["name"]
        training = replace(training, settings=settings)
        replays = _Replays.of(examples, examples.outputs, examples.rule)
        parts = []
        for unit in range(len(replays.sights)):
            parts += replays.tracks(unit)
        if not parts:
            raise NothingToLearnError(
                f"{self.name}: the cheap mode reports no object ahead in the fit units."
            )
        rows, full, reference = (
            np.concatenate(columns) for columns in zip(*parts, strict=True)
        )
        with_report = np.column_stack([rows, full[:, 0]])
        heads = (
            self._head(rows, full[:, 0], training.seed),
            self._head(with_report, reference[:, 0], training.seed),
        )
        errors = np.stack([_error_tables(rows, labels) for labels in (full, reference)])
        return SimulatedValue(
            self.name, replays.rule, heads, errors, self.prior, self.penalty, training
        )

    def _head(self, rows: np.ndarray, labels: np.ndarray, seed: int) -> Model:
        if labels.min() == labels.max():
            return Linear(Standard.of(rows), np.zeros(rows.shape[1]), float(labels[0]))
        return self.learner.fit(rows, labels, classify=True, seed=seed)


@dataclass(frozen=True, eq=False)
class _Replays:
    """The fit units, to be replayed: their sights and outputs, which frames are inputs,
    and the downstream rule.
    """

    sights: tuple[Sight, ...]
    outputs: tuple[Outputs, ...]
    inputs: tuple[Bool[np.ndarray, "_"], ...]
    rule: Rule

    @classmethod
    def of(
        cls, examples: Examples, outputs: tuple[Outputs, ...], rule: Rule
    ) -> "_Replays":
        lengths = [len(sight) for sight in examples.sights]
        marks = np.zeros(sum(lengths), bool)
        marks[examples.chosen] = True
        return cls(
            examples.sights,
            outputs,
            tuple(np.split(marks, np.cumsum(lengths)[:-1])),
            rule,
        )

    def tracks(self, unit: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Features of the tracks in each input of a unit, and what they are in the full
        mode and in the reference.
        """
        belief = Belief()
        frames = zip(
            self.sights[unit].glances,
            *(objects.by_frame() for objects in self.outputs[unit]),
            strict=True,
        )
        for frame, (glance, full, reference) in enumerate(frames):
            belief.see(glance)
            if not self.inputs[unit][frame]:
                continue
            chosen, rows = belief.features(self.rule.reach_m + MARGIN_M, MOST)
            if len(chosen):
                yield (
                    rows,
                    _labels(belief, chosen, full),
                    _labels(belief, chosen, reference),
                )


def _labels(
    belief: Belief, chosen: Int[np.ndarray, "track"], objects: Objects
) -> Float[np.ndarray, "track label"]:
    """Whether each track is among the objects, and its errors if it is."""
    old, new, seen = belief.matches(objects)
    labels = np.zeros((belief.tracks.shape[1], 1 + len(ERRORS)))
    tracks, found = belief.tracks[:, old], seen.obstacles
    near_m = found.near_m[new]
    errors = (
        np.log(
            (np.maximum(near_m, 1.0 - OFFSET_M) + OFFSET_M)
            / (np.maximum(tracks[X], 0.0) + OFFSET_M)
        ),
        np.where(tracks[Y] < 0, -1.0, 1.0) * (seen.y_m[new] - tracks[Y]),
        seen.half_m[new] - tracks[HALF],
        found.closing_mps[new] - (belief.speed_mps - tracks[U]),
        found.far_m[new] - near_m,
    )
    labels[old] = np.column_stack([np.ones(len(old)), *errors])
    return labels[chosen]


def _error_tables(
    rows: Float[np.ndarray, "track column"], labels: Float[np.ndarray, "track label"]
) -> Float[np.ndarray, "table row error"]:
    """Evenly many errors of the tracks of each table, from short to far; no errors if
    no track is there.
    """
    there = labels[:, 0] > 0
    errors, table = labels[there, 1:], _tables(rows[there])
    if not len(errors):
        return np.zeros((TABLES, DRAWS, len(ERRORS)))
    tables = []
    for number in range(TABLES):
        part = errors[table == number]
        part = part if len(part) > FEW else errors
        part = part[np.lexsort(part.T[::-1])]
        tables.append(part[np.linspace(0, len(part) - 1, DRAWS).round().astype(int)])
    return np.round(np.stack(tables), 4)
