"""Rows of a feature set and labels -> fitted models -> scores of a unit at once, or of
one frame as it arrives.

A fitted allocator can be exported as an ONNX graph, whose scores are checked against
ours.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from deepval.basics import plugins
from deepval.basics.arrays import Bool, Float, Shaped
from deepval.basics.errors import InputError, NothingToLearnError, library, reason
from deepval.basics.files.canonical import json_canonical, plain
from deepval.basics.files.reading import check_form
from deepval.basics.progress import Watch, unwatched
from deepval.deploy.allocators.allocator import (
    Examples,
    FittedAllocator,
    Lost,
    Part,
    Recipe,
    Score,
    Training,
    unseen,
)
from deepval.deploy.allocators.feature_sets import FEATURE_SETS, OBSERVED, FeatureSet
from deepval.deploy.allocators.models import (
    Learner,
    Linear,
    Model,
    Quantile,
    Trees,
    model_of,
)
from deepval.deploy.allocators.models.model import Standard, apply_link_to_one
from deepval.deploy.allocators.onnx_graph import RAW, ROW, score_graph, tree_graph
from deepval.deploy.features import Glance, Sight
from deepval.driving.perception.running.onnx_model import open_session
from deepval.driving.views import CheapMode

Call = Callable[[Float[np.ndarray, "column"]], float]
_CALLS: WeakKeyDictionary[Trees, Call | None] = WeakKeyDictionary()
"""Trees -> the function that walks them.

Stored outside the models, which stay plain numbers and can be pickled.
"""


def predict_row(model: Model, row: Float[np.ndarray, "column"]) -> float:
    """The prediction of a model for one row, bit-equal to its prediction in a batch."""
    if not isinstance(model, Trees):
        return model.predict_row(row)
    if model not in _CALLS:
        _CALLS[model] = _walk(model)
    call = _CALLS[model]
    return model.predict_row(row) if call is None else call(row)


def _walk(model: Trees) -> Call | None:
    """The function that walks one row through trees by ONNX Runtime; None if that is
    not installed or too old.
    """
    if find_spec("onnxruntime") is None:
        return None
    try:
        session = open_session(tree_graph(model), name="that of trees", threads=1)
    except InputError:
        return None
    run, link, outputs = session.run, model.link, [RAW]

    def predict_one(row: Float[np.ndarray, "column"]) -> float:
        return apply_link_to_one(
            run(outputs, {ROW: row.reshape(1, -1)})[0].item(), link
        )

    return predict_one


HEAD_WEIGHTS = (-1.0, 0.5)
"""Weights of the second and third head in the score.

The third weight, for the rule "recall", is from cross-validation over KITTI's training
and validation units.
"""
RECALL = {"lost_required": 1.0, "required": -1.0, "ego_speed_mps": Lost().speed_weight}
"""The untrained signal `lost` as a sum of columns."""

SIGNED = ("value", "value-signed-cdf")
"""Targets whose sign separates help from harm."""
Rule = Literal["value", "difference", "recall", "modes"]


@dataclass(frozen=True, eq=False)
class Learned(FittedAllocator):
    """A fitted allocator.

    Attributes:
        name: Its name.
        feature_set: The function from a glance to the row of its models.
        heads: The models.
        rule: "value": the score is the prediction of the only head; "difference": the
            first head's prediction minus the second's; "recall": the same plus half the
            third's; "modes": one head and one score per mode above cheap.
        training: The data and settings of its fit.
    """

    name: str
    feature_set: FeatureSet
    heads: tuple[Model, ...]
    rule: Rule
    training: Training = field(repr=False)
    uses: frozenset[Part] = field(init=False, repr=False)
    holds = "models in plain numbers"

    def __post_init__(self) -> None:
        object.__setattr__(self, "uses", self.feature_set.uses)
        count = {
            "value": 1,
            "difference": 2,
            "recall": 3,
            "modes": len(self.training.modes) - 1,
        }[self.rule]
        if len(self.heads) != count:
            raise InputError(
                f"{self.name}: the rule {self.rule!r} "
                f"needs {count} models; found {len(self.heads)}."
            )
        for head in self.heads:
            if head.width != len(self.feature_set.columns):
                raise InputError(
                    f"{self.name}: a model must take the "
                    f"{len(self.feature_set.columns)} columns of "
                    f"{self.feature_set.name!r}; one takes {head.width}."
                )

    @property
    def per_mode(self) -> bool:
        """Whether every mode above cheap has its own head and score."""
        return self.rule == "modes"

    def score_rows(
        self, rows: Float[np.ndarray, "row column"]
    ) -> Float[np.ndarray, "row *mode"]:
        """The score of each row of the feature set."""
        predictions = [head.predict(rows) for head in self.heads]
        return (
            np.stack(predictions, axis=1)
            if self.per_mode
            else _combination(predictions)
        )

    def score_row(self, row: Float[np.ndarray, "column"]) -> Score:
        """The score of one row of the feature set."""
        predictions = [predict_row(head, row) for head in self.heads]
        return tuple(predictions) if self.per_mode else _combination(predictions)

    def stages(self) -> Mapping[str, Callable[[Any], Any]]:
        """Preprocessing (from a glance to the row of the models) and inference."""

        def preprocess(seen: Glance | list[Glance]) -> Any:
            if isinstance(seen, list):
                return np.stack([self.feature_set.row(glance) for glance in seen])
            return self.feature_set.row(seen)

        def inference(rows: np.ndarray) -> Any:
            return self.score_row(rows) if rows.ndim == 1 else self.score_rows(rows)

        return {"preprocess": preprocess, "inference": inference}

    def _of_frame(self, glance: Glance) -> Score:
        return self.score_row(self.feature_set.row(glance))

    def _of_unit(self, sight: Sight) -> Float[np.ndarray, "time *mode"]:
        """The scores of all rows at once: faster than frame by frame."""
        scores = self.score_rows(self.feature_set.rows(sight))
        scores[~sight.view.detections.run] = np.nan
        return scores

    @classmethod
    def feature_sets(cls) -> tuple[str, ...]:
        """Every feature set."""
        return tuple(FEATURE_SETS)

    def content(self) -> dict[str, Any]:
        """Rule, training, names of the columns, and the models in plain numbers."""
        return {
            "name": self.name,
            "rule": self.rule,
            "training": self.training.content(),
            "front": self.feature_set.name,
            "columns": list(self.feature_set.columns),
            "heads": [head.to_dict() for head in self.heads],
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Learned":
        """The allocator from a file's content."""
        feature_set = FEATURE_SETS[content["front"]]
        _check_columns(content.get("columns"), feature_set)
        heads = tuple(model_of(head) for head in content["heads"])
        return cls(
            str(content["name"]),
            feature_set,
            heads,
            content["rule"],
            Training.of(content),
        )


def _combination(predictions: list[Any]) -> Any:
    """One score from one, two or three predictions: a, a - b, a - b + c/2."""
    score = predictions[0]
    for prediction, weight in zip(predictions[1:], HEAD_WEIGHTS, strict=False):
        score = score + weight * prediction
    return score


def _check_columns(columns: Any, feature_set: FeatureSet) -> None:
    if columns == list(feature_set.columns):
        return
    file_columns = list(columns) if isinstance(columns, list) else []
    pairs = zip([*file_columns, None], [*feature_set.columns, None], strict=False)
    index, (file_column, set_column) = next(
        (n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1]
    )
    raise InputError(
        f"columns must be those of {feature_set.name!r} in this deepval; column "
        f"{index} is {file_column!r} and should be {set_column!r}. Fit it again."
    )


@dataclass(frozen=True)
class RowRecipe(Recipe):
    """How to fit a learned allocator.

    Attributes:
        name: Its name.
        feature_set: The name of its feature set; if the cheap mode observes, OBSERVED
            replaces it.
        target: The default target, a name of deepval.deploy.labels.
        learner: The learner of its models.
        rule: The rule from predictions to a score.
    """

    name: str
    feature_set: str
    target: str
    learner: Learner
    rule: Rule = "value"
    makes = Learned

    @property
    def per_mode(self) -> bool:
        """Whether a head is fitted for every mode above cheap."""
        return self.rule == "modes"

    def admits(self, target: str, *, classifies: bool) -> bool:
        """Values for one head per mode, signed targets for heads that separate help
        from harm, otherwise any.
        """
        del classifies
        return {"value": True, "modes": target == "value"}.get(
            self.rule, target in SIGNED
        )

    def undefined(self, mode: CheapMode) -> str | None:
        """The reason why its feature set, or its replacement, cannot read this cheap
        mode; None if it can.
        """
        return unseen(FEATURE_SETS[self.for_mode(mode).feature_set].uses, mode)

    def for_mode(self, mode: CheapMode) -> "RowRecipe":
        """The recipe for this cheap mode: if the mode observes, its objects replace
        image boxes as features.
        """
        return (
            replace(self, feature_set=OBSERVED.get(self.feature_set, self.feature_set))
            if mode.observes
            else self
        )

    def like(self, settings: Mapping[str, Any]) -> "RowRecipe":
        """The recipe with the learner's settings."""
        kind = type(self.learner)
        if settings.get("learner") != kind.__name__:
            raise InputError(
                f"{self.name} is fitted by {kind.__name__}; this "
                f"allocator was fitted by {settings.get('learner')}."
            )
        values = {name: value for name, value in settings.items() if name != "learner"}
        return replace(
            self, learner=check_form(kind, values, f"the settings of {kind.__name__}")
        )

    def fit(
        self, examples: Examples, training: Training, *, watch: Watch = unwatched
    ) -> Learned:
        """The allocator, fitted on the examples' rows of the feature set."""
        del watch
        mode = examples.sights[0].view.mode
        reason = self.undefined(mode)
        if reason is not None:
            raise InputError(
                f"{self.name} cannot be fitted here: "
                f"{reason}. Choose another allocator."
            )
        recipe = self.for_mode(mode)
        feature_set = FEATURE_SETS[recipe.feature_set]
        rows = np.concatenate([feature_set.rows(sight) for sight in examples.sights])[
            examples.chosen
        ]
        return recipe.fit_rows(
            rows, examples.labels, training, classify=examples.classify
        )

    def fit_rows(
        self,
        rows: Float[np.ndarray, "input column"],
        labels: Float[np.ndarray, "input *mode"],
        training: Training,
        *,
        classify: bool,
    ) -> Learned:
        """The allocator, fitted on rows of the feature set."""
        if not np.isfinite(labels).all():
            raise InputError(
                f"{self.name}: every fit input "
                f"needs a label; {int((~np.isfinite(labels)).sum())} have none."
            )
        heads: tuple[Model, ...]
        if self.rule in ("difference", "recall"):
            heads = tuple(
                _head(self, rows, sign * labels, training.seed) for sign in (1.0, -1.0)
            )
            if self.rule == "recall":
                columns = FEATURE_SETS[self.feature_set].columns
                heads += (
                    Quantile.fit(
                        rows,
                        {
                            columns.index(name): weight
                            for name, weight in RECALL.items()
                        },
                    ),
                )
        elif self.rule == "modes":
            heads = tuple(
                _model(self, rows, column, classify=classify, seed=training.seed)
                for column in labels.T
            )
        else:
            heads = (_model(self, rows, labels, classify=classify, seed=training.seed),)
        settings: dict[str, Any] = {
            "learner": type(self.learner).__name__,
            **plain(self.learner),
        }
        return Learned(
            self.name,
            FEATURE_SETS[self.feature_set],
            heads,
            self.rule,
            replace(training, settings=settings),
        )


@dataclass(frozen=True, eq=False)
class Estimator(Model):
    """A fitted estimator with the methods of scikit-learn, in memory only.

    Its prediction is P(1), the decision function or the predicted value: the first of
    these that the estimator has.

    Attributes:
        fitted: The estimator.
        empty: Columns without a number in any fit row, such as those of pictures:
            estimators get 0 there.
    """

    fitted: Any
    empty: Bool[np.ndarray, "column"]

    @property
    def width(self) -> int:
        """The length of a row."""
        return len(self.empty)

    def predict(
        self, rows: Float[np.ndarray, "row column"]
    ) -> Float[np.ndarray, "row"]:
        """The prediction for each row."""
        method = next(name for name in ESTIMATES if hasattr(self.fitted, name))
        filled = np.where(self.empty, 0.0, rows)
        with _own_estimator("scoring", filled):
            predictions = np.asarray(getattr(self.fitted, method)(filled), dtype=float)
        if predictions.ndim == 2:
            columns = predictions.shape[1]
            # the probabilities of "no" and "yes"; other columns have no order
            if columns != 1 and (method, columns) != ("predict_proba", 2):
                raise InputError(
                    "an estimator must predict one finite number per row; "
                    f"{method} gives {columns}."
                )
            predictions = predictions[:, -1]
        if predictions.shape != (len(rows),) or not np.isfinite(predictions).all():
            raise InputError(
                "an estimator must predict one finite number "
                f"per row; {method} does not."
            )
        return predictions

    def to_dict(self) -> dict[str, Any]:
        """None: reading an estimator from a file would execute what the file
        contains.
        """
        raise InputError("an estimator cannot be written to a file of plain numbers.")

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Estimator":
        """None: no file contains an estimator."""
        raise InputError("an estimator cannot be read from a file.")


ESTIMATES = ("predict_proba", "decision_function", "predict")
"""Methods of an estimator that predict; the first two are those of classifiers."""


@contextmanager
def _own_estimator(
    purpose: str, rows: Float[np.ndarray, "row column"]
) -> Iterator[None]:
    """Report an error of an estimator as one sentence."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        sentence = (
            plugins.complaint(error) or f"{type(error).__name__}: {reason(error)}."
        )
        gaps = int(np.isnan(rows).any(axis=0).sum())
        advice = (
            (
                f" {gaps} of {rows.shape[1]} features have gaps: begin the pipeline "
                "with SimpleImputer()."
            )
            if gaps
            else ""
        )
        raise InputError(
            f"{purpose} by the estimator failed: {sentence}{advice}"
        ) from error


@dataclass(frozen=True, eq=False)
class EstimatorRecipe(Recipe):
    """How to fit a user's estimator: a copy of it, on the 65 features or on the user's
    table.

    Attributes:
        name: Its name.
        estimator: The estimator, not fitted.
        features: The user's table; None for the 65 features, or the 18 of observed
            objects.
    """

    name: str
    estimator: Any
    features: FeatureSet | None = None
    target: str = field(init=False)
    makes = Learned

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "target", "value-binary" if self.classifies else "value"
        )

    @property
    def classifies(self) -> bool:
        """Whether it takes labels 0 and 1."""
        return any(hasattr(self.estimator, name) for name in ESTIMATES[:-1])

    def admits(self, target: str, *, classifies: bool) -> bool:
        """Any target for a regressor, labels 0 and 1 for a classifier."""
        del target
        return classifies or not self.classifies

    def like(self, settings: Mapping[str, Any]) -> "EstimatorRecipe":
        """The recipe itself: its settings are in the estimator."""
        del settings
        return self

    def fit(
        self, examples: Examples, training: Training, *, watch: Watch = unwatched
    ) -> Learned:
        """The allocator of a copy of the estimator; units are its groups if it takes
        groups.
        """
        del watch
        features = (
            self.features
            or FEATURE_SETS[
                OBSERVED["cheap"] if examples.sights[0].view.mode.observes else "cheap"
            ]
        )
        rows = np.concatenate([features.rows(sight) for sight in examples.sights])[
            examples.chosen
        ]
        units = np.concatenate(
            [np.full(len(sight), sight.view.scene.unit) for sight in examples.sights]
        )
        if self.classifies and len(np.unique(examples.labels)) < 2:
            raise NothingToLearnError(
                f"{self.name}: a classifier needs fit inputs of "
                "both kinds; all are of one."
            )
        empty = np.asarray(np.isnan(rows).all(axis=0))
        rows = np.where(empty, 0.0, rows)
        with _own_estimator("fitting", rows):
            estimator = deepcopy(self.estimator)
            settings = (
                estimator.get_params() if hasattr(estimator, "get_params") else {}
            )
            random = [
                name
                for name in settings
                if name.endswith("random_state") and settings[name] is None
            ]
            if random:
                estimator.set_params(**dict.fromkeys(random, training.seed))
            labels = (
                examples.labels.astype(int) if examples.classify else examples.labels
            )
            estimator.fit(rows, labels, **_groups(estimator, units[examples.chosen]))
        return Learned(
            self.name, features, (Estimator(estimator, empty),), "value", training
        )


def _groups(estimator: Any, units: Shaped[np.ndarray, "input"]) -> dict[str, Any]:
    """The argument `groups` of an estimator's fit, or of the fit of a pipeline's last
    step; empty if it takes none.
    """
    steps = getattr(estimator, "steps", None)
    if steps:
        return {
            f"{steps[-1][0]}__{name}": groups
            for name, groups in _groups(steps[-1][1], units).items()
        }
    # A search, which has `refit`, passes groups on to its splitter.
    searches = (
        hasattr(estimator, "refit")
        and "Group" in type(getattr(estimator, "cv", None)).__name__
    )
    return (
        {"groups": units}
        if searches or "groups" in inspect.signature(estimator.fit).parameters
        else {}
    )


def _model(
    recipe: RowRecipe,
    rows: np.ndarray,
    labels: np.ndarray,
    *,
    classify: bool,
    seed: int,
) -> Model:
    if classify and len(np.unique(labels)) < 2:
        raise NothingToLearnError(
            f"{recipe.name}: a classifier needs fit inputs of both kinds; all "
            f"{len(labels)} have label {labels[0]:g}."
        )
    return recipe.learner.fit(rows, labels, classify=classify, seed=seed)


def _head(recipe: RowRecipe, rows: np.ndarray, values: np.ndarray, seed: int) -> Model:
    """P(value > 0), inputs weighted by |value|; inputs of value 0 get the mean weight
    of all other inputs.
    """
    positive = values > 0
    if not positive.any() or positive.all():
        return Linear(Standard.of(rows), np.zeros(rows.shape[1]), float(positive.all()))
    stake = np.abs(values)
    weights = np.where(stake > 0, stake, stake[stake > 0].mean())
    return recipe.learner.fit(
        rows,
        positive.astype(float),
        classify=True,
        weights=weights / weights.mean(),
        seed=seed,
    )


def onnx_of(allocator: Learned) -> bytes:
    """The ONNX graph from an allocator's row to its score, or to one score per mode
    above cheap.
    """
    weights = None if allocator.per_mode else HEAD_WEIGHTS
    columns = len(allocator.feature_set.columns)
    return score_graph(
        allocator.heads, columns=columns, weights=weights, facts=facts_of(allocator)
    )


def facts_of(allocator: Learned) -> Mapping[str, str]:
    """The metadata of a graph: its columns, the modes of its scores, and its training
    target and cell.
    """
    facts: dict[str, Any] = {
        "allocator": allocator.name,
        "front": allocator.feature_set.name,
        "columns": list(allocator.feature_set.columns),
        "modes": list(allocator.modes),
        "target": allocator.training.target,
        "cell": allocator.training.cell,
    }
    return {
        f"deepval.{name}": v if isinstance(v, str) else json_canonical(v)
        for name, v in facts.items()
    }


TOLERANCE = 1e-9
"""Largest allowed difference of a score; relative to the largest score if that is
above 1.
"""


class Export(NamedTuple):
    """A graph and the result of its check: rows tried, the largest difference, and rows
    with bit-equal scores.
    """

    graph: bytes
    rows: int
    difference: float
    equal: int


def export(allocator: FittedAllocator, rows: Float[np.ndarray, "row column"]) -> Export:
    """The graph of an allocator that is a function of a row; InputError if its scores
    differ from ours.

    The check uses the rows, the same rows with every third number missing, and with
    numbers on the trees' thresholds.
    """
    if not isinstance(allocator, Learned):
        raise InputError(
            f"{allocator.name} is not a function of a row of numbers, so there is no "
            "graph from row to score."
        )
    library("onnxruntime", purpose="Checking an exported graph", extra="vision")
    graph = onnx_of(allocator)
    test_rows = _test_rows(allocator, rows)
    (scores,) = open_session(graph, name=f"that of {allocator.name}", threads=1).run(
        None, {ROW: test_rows}
    )
    ours = allocator.score_rows(test_rows).reshape(scores.shape)
    difference = float(np.abs(scores - ours).max())
    if not difference <= TOLERANCE * max(1.0, float(np.abs(ours).max())):
        raise InputError(
            f"{allocator.name}: ONNX Runtime must score rows as we do; it differs by "
            f"{difference:.3g} on one of {len(test_rows):,} rows. Nothing is written."
        )
    return Export(
        graph, len(test_rows), difference, int((scores == ours).all(axis=1).sum())
    )


def _test_rows(
    allocator: Learned, rows: Float[np.ndarray, "row column"]
) -> Float[np.ndarray, "tried column"]:
    """Rows for the check: unchanged, with gaps, and with columns on the thresholds of
    trees.
    """
    unchanged = np.ascontiguousarray(rows, np.float64)
    gaps = np.where(
        np.arange(unchanged.size).reshape(unchanged.shape) % 3 == 0, np.nan, unchanged
    )
    on_threshold = unchanged.copy()
    for head in allocator.heads:
        feature, threshold = (
            getattr(head, name, np.zeros(0)) for name in ("feature", "threshold")
        )
        cuts = np.flatnonzero(np.isfinite(threshold).ravel())
        for index, cut in enumerate(cuts.tolist()):
            on_threshold[index % len(on_threshold), int(feature.ravel()[cut])] = (
                threshold.ravel()[cut]
            )
    return np.concatenate([unchanged, gaps, on_threshold])
