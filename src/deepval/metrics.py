"""Arrays of losses and a score -> one number: metrics of a ranking, without intervals,
for scikit-learn and notebooks.

A score ranks inputs: higher means escalate first. V = loss_cheap - loss_full is the
decision value, and G(k) the expected sum of V over the k highest scores, exact over all
ways to break ties. All metrics but `harm_ratio` are better if larger. Losses are one
number per input; a number stands for the same loss everywhere, so that decision values
alone are passed as `(value, 0, score)`. A metric that would divide by a number that is
not positive is NaN. `deepval.evaluate` reports the same numbers with intervals over
units, and a verdict.

With scikit-learn, for an estimator of the decision value, and for one that predicts
both losses:

    scoring = scorer(normalized_decision_gain, budget=0.2)
    cross_val_score(model, X, loss_cheap - loss_full, groups=unit,
                    cv=GroupKFold(5), scoring=scoring)
    cross_val_score(model, X, np.stack([loss_cheap, loss_full], axis=1),
                    groups=unit, cv=GroupKFold(5), scoring=scoring)

`groups` is not about intervals. With groups, each group is ranked for itself and
escalates the budget's share of its own inputs; gains, harms and losses are then summed
over all groups, and one ratio is formed at the end. Use it if scores cannot be compared
between groups, such as out-of-fold scores of several models (a group is a fold), or if
every drive or user has a budget of its own. Small groups round: at a share of 0.2, a
group of two inputs escalates none.

`autoc` and `qini` are the rank-weighted average treatment effects of Yadlowsky et al.
(2021, arXiv:2111.07966), with escalation as the treatment and V as the treatment
effect. Both losses of every input are observed, so V stands where other packages need
an estimate of the effect (doubly robust scores, inverse propensity weights). If one
mode per input was logged, `deepval.values_from_log` computes such estimates first.
Formulas and relations to grf, maq and causalml: docs/definitions.md, Metrics of a
ranking.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from deepval.basics import checks
from deepval.basics.arrays import Float
from deepval.basics.errors import InputError, quote
from deepval.judge.extras.optimality import oracle_gain
from deepval.judge.tables import columns, keys
from deepval.judge.tables.scores import align_all
from deepval.judge.tables.values import ValueTable, part_of, quota
from deepval.judge.tie_expectations import cumulative_gain, inclusion

Definition = Literal["grf", "causalml"]


class _Ranked(NamedTuple):
    """Decision values and scores of the inputs that are ranked together."""

    value: Float[np.ndarray, "input"]
    score: Float[np.ndarray, "input"]


def decision_gain_score(
    loss_cheap: Any,
    loss_full: Any,
    score: Any,
    *,
    budget: float = 0.2,
    groups: Any = None,
    normalize: bool = True,
) -> float:
    """Gain of escalating the highest scores, G(k), as a share of the all-cheap loss;
    k = floor(budget*N + 0.5).

    Args:
        loss_cheap: Loss of each input under the cheap mode.
        loss_full: Loss of each input under the full mode.
        score: Score of each input.
        budget: Share of the inputs that is escalated, in (0, 1].
        groups: Names of groups that are ranked apart, each with the same budget
            share; None: all inputs together.
        normalize: Divide by the all-cheap loss; otherwise the gain is in units of the
            loss.
    """
    table = _table(loss_cheap, loss_full, groups)
    selected = _selected(table, score, budget)
    gain = sum(float(weight @ group.value) for group, weight in selected)
    return (
        part_of(gain, table.cheap_loss) if checks.flag(normalize, "normalize") else gain
    )


def normalized_decision_gain(
    loss_cheap: Any,
    loss_full: Any,
    score: Any,
    *,
    budget: float = 0.2,
    groups: Any = None,
) -> float:
    """NDG: gain of escalating the highest scores over that of the oracle, which
    escalates at most as many inputs.

    1 is the optimum, 0 the gain of never escalating; net harm is negative. NaN if no
    input can be helped. Arguments are those of `decision_gain_score`.
    """
    selected = list(_selected(_table(loss_cheap, loss_full, groups), score, budget))
    gain = sum(float(weight @ group.value) for group, weight in selected)
    return part_of(
        gain,
        sum(
            oracle_gain(group.value, _slots(group.value, budget))
            for group, _ in selected
        ),
    )


def harm_ratio(
    loss_cheap: Any,
    loss_full: Any,
    score: Any = None,
    *,
    budget: float = 0.2,
    groups: Any = None,
) -> float:
    """Harm over benefit, sum|V-| / sum V+, of the escalated inputs; less is better, and
    1 means that nothing is gained.

    Without a score all inputs are escalated, and `budget` has no effect. NaN if no
    escalated input is helped. Arguments are those of `decision_gain_score`.
    """
    table = _table(loss_cheap, loss_full, groups)
    if score is None:
        return table.harm_ratio
    selected = list(_selected(table, score, budget))
    harm, benefit = (
        sum(
            float(weight @ np.maximum(sign * group.value, 0.0))
            for group, weight in selected
        )
        for sign in (-1, 1)
    )
    return part_of(harm, benefit)


def area_under_gain(
    loss_cheap: Any,
    loss_full: Any,
    score: Any,
    *,
    groups: Any = None,
    normalize: bool = True,
) -> float:
    """Mean gain over all shares of escalated inputs from 0 to 1, as a share of the
    all-cheap loss.

    The area under G as a function of k/N, linear between whole k. A random ranking has
    half of the all-full gain; the area over the all-full gain is RouteLLM's APGR.
    Arguments are those of `decision_gain_score`.
    """
    table = _table(loss_cheap, loss_full, groups)
    area = sum(_area(group) for group in _groups(table, score))
    return (
        part_of(area, table.cheap_loss) if checks.flag(normalize, "normalize") else area
    )


def autoc(loss_cheap: Any, loss_full: Any, score: Any) -> float:
    """AUTOC: mean over k = 1, ..., N of G(k)/k - G(N)/N, in units of the loss per
    input, as in grf, ties included.

    Arguments are those of `decision_gain_score`. 0 for a score that is the same
    everywhere.
    """
    (group,) = _groups(_table(loss_cheap, loss_full), score)
    rank = np.arange(1, len(group.value) + 1)
    return float(
        np.mean(cumulative_gain(group.score, group.value)[1:] / rank)
        - group.value.mean()
    )


def qini(
    loss_cheap: Any, loss_full: Any, score: Any, *, definition: Definition = "grf"
) -> float:
    """Qini coefficient: area between the gain curve and that of a random ranking.

    Args:
        loss_cheap: Loss of each input under the cheap mode.
        loss_full: Loss of each input under the full mode.
        score: Score of each input.
        definition: `grf`: mean over k = 1, ..., N of k/N (G(k)/k - G(N)/N), in units of
            the loss per input. `causalml` (its `qini_score`, normalized): sum over k =
            0, ..., N of G(k) - k/N G(N), divided by |G(N)| and by the N + 1 points of
            the curve; NaN if G(N) is 0.
    """
    checks.word(definition, get_args(Definition), "definition")
    (group,) = _groups(_table(loss_cheap, loss_full), score)
    inputs, total = len(group.value), float(group.value.sum())
    # The curves meet at both ends, so that a mean over the points is the area between
    # them.
    between = _area(group) - total / 2
    return (
        between / inputs
        if definition == "grf"
        else part_of(between * inputs / (inputs + 1), abs(total))
    )


@dataclass(frozen=True)
class Scorer:
    """A metric as scikit-learn's `scoring`: called with an estimator, X and y.

    Attributes:
        metric: One of the metrics of this module.
        options: Its further arguments, such as `budget`.
    """

    metric: Callable[..., float]
    options: Mapping[str, Any]

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """The metric of the estimator's predictions.

        Args:
            estimator: Predicts the decision value, or the losses of both modes.
            X: The features of the inputs.
            y: Their decision values, or the losses of both modes in two columns.
        """
        truth = np.asarray(y, dtype=np.float64)
        guess = np.asarray(estimator.predict(X), dtype=np.float64)
        score = guess if guess.ndim == 1 else guess[:, 0] - guess[:, -1]
        if truth.ndim == 1:
            return self.metric(truth, 0, score, **self.options)
        return self.metric(truth[:, 0], truth[:, -1], score, **self.options)


def scorer(metric: Callable[..., float], **options: Any) -> Scorer:
    """A metric of this module as `scoring` of scikit-learn's cross_val_score.

    Args:
        metric: Such as `normalized_decision_gain`.
        options: Its further arguments, such as `budget=0.2`.
    """
    return Scorer(metric, options)


def _table(loss_cheap: Any, loss_full: Any, groups: Any = None) -> ValueTable:
    """The losses as a table with a column `groups`."""
    arrays = [loss for loss in (loss_cheap, loss_full) if hasattr(loss, "__len__")]
    if not arrays:
        raise InputError(
            "A metric needs a loss per "
            f"input; found {quote(loss_cheap)} and {quote(loss_full)}."
        )
    one = np.zeros(len(arrays[0]), dtype=np.int64)
    cheap, full = (
        loss if hasattr(loss, "__len__") else np.full(len(one), loss)
        for loss in (loss_cheap, loss_full)
    )
    return ValueTable.from_columns(
        unit=one,
        losses={"cheap": cheap, "full": full},
        attributes={"groups": one if groups is None else groups},
        source="a metric",
    )


def _groups(table: ValueTable, score: Any) -> Iterator[_Ranked]:
    """The inputs that are ranked together, group by group."""
    column = np.asarray(score)
    # Predictions of scikit-learn may be a matrix with one column.
    (scores,) = align_all(
        table, {"score": column[:, 0] if column.shape[1:] == (1,) else column}
    )
    if scores.choice:
        raise InputError(
            "A metric needs a score per input; found names "
            "of modes, which rank nothing."
        )
    names, group = keys.groups(columns.id_array(table.attributes["groups"], "groups"))
    for rows in np.split(
        np.argsort(group, kind="stable"),
        np.cumsum(np.bincount(group))[: len(names) - 1],
    ):
        yield _Ranked(table.decision_values[rows], scores.values[rows])


def _selected(
    table: ValueTable, score: Any, budget: float
) -> Iterator[tuple[_Ranked, Float[np.ndarray, "input"]]]:
    """Each group, and the probability that each of its inputs is escalated."""
    for group in _groups(table, score):
        yield group, inclusion(group.score, _slots(group.value, budget))


def _slots(value: Float[np.ndarray, "input"], budget: float) -> int:
    return int(quota(len(value), checks.share_of_inputs(budget, "budget")))


def _area(group: _Ranked) -> float:
    """Area under the gain curve by the trapezoidal rule, which is exact: the curve is
    linear between whole numbers.
    """
    gain = cumulative_gain(group.score, group.value)
    return float(gain.sum() - gain[-1] / 2) / len(group.value)
