"""Whether the parts of a loaded result agree with each other."""

from collections.abc import Iterator, Mapping
from typing import Any

from deepval.basics.errors import InputError, quote
from deepval.judge.results.facts import Curve, Inputs, Optimum, Setting
from deepval.judge.results.records import KINDS, UNITS
from deepval.judge.results.scales import SCALES

ACCOUNTINGS = ("cascade", "skipping")
BUDGETED = ("half_widths", "rows", "slices", "gaps", "streams", "thresholds", "ladder")
"""Parts of a result whose records have a budget."""
BUDGET_WORDS = {
    "kind": KINDS,
    "convention": (None, *UNITS),
    "accounting": (None, *ACCOUNTINGS),
}
ANSWER_WORDS = {
    "verdict": ("run", "do not run", "not settled"),
    "scale": tuple(SCALES),
}
"""Words of the parts of a budget, and of an answer."""


def check_whole(result: Any, source: object) -> None:
    """Raise where parts of a loaded result contradict each other or themselves."""
    for problem in (
        *_setting_problems(result.setting),
        *_budget_problems(result),
        *_answer_problems(result),
        *_spending_problems(result.ladder),
        *_curve_problems(result.curves),
        *_input_problems(result.inputs),
    ):
        raise InputError(f"{source}: must be a result saved by deepval; {problem}.")


def _setting_problems(setting: Setting) -> Iterator[str]:
    if not 0 <= setting.affected <= setting.inputs:
        yield (
            "setting.affected must be between "
            f"0 and the {setting.inputs} inputs; found {setting.affected}"
        )


def _budget_problems(result: Any) -> Iterator[str]:
    for part in BUDGETED:
        for index, record in enumerate(getattr(result, part)):
            budget = {name: record.get(name) for name in BUDGET_WORDS}
            yield from _word_problems(f"{part}[{index}]", budget, BUDGET_WORDS)
    nested = {
        f"answers[{index}].budget": answer.budget
        for index, answer in enumerate(result.answers)
    }
    if result.picture is not None:
        nested["picture.budget"] = result.picture.budget
    for place, key in nested.items():
        yield from _word_problems(place, vars(key), BUDGET_WORDS)


def _answer_problems(result: Any) -> Iterator[str]:
    """Words that reports look up or choose by."""
    for index, answer in enumerate(result.answers):
        place = f"answers[{index}]"
        yield from _word_problems(place, vars(answer), ANSWER_WORDS)
        names = [mode.mode for mode in answer.fixed]
        if answer.best_fixed not in names:
            words = ", ".join(names) or "none"
            yield (
                f"{place}.best_fixed must be one of {words}; "
                f"found {quote(answer.best_fixed)}"
            )


def _word_problems(
    place: str, values: Mapping[str, Any], allowed: Mapping[str, tuple[Any, ...]]
) -> Iterator[str]:
    """Values that are none of the words that there are."""
    for name, words in allowed.items():
        if values[name] not in words:
            listed = ", ".join(map(str, words))
            yield f"{place}.{name} must be one of {listed}; found {quote(values[name])}"


def _spending_problems(ladder: tuple[Optimum, ...]) -> Iterator[str]:
    for index, optimum in enumerate(ladder):
        for position, spending in enumerate(optimum.spent):
            if spending.convention not in UNITS:
                words, value = ", ".join(UNITS), quote(spending.convention)
                yield (
                    f"ladder[{index}].spent[{position}].convention "
                    f"must be one of {words}; found {value}"
                )


def _curve_problems(curves: tuple[Curve, ...]) -> Iterator[str]:
    for index, curve in enumerate(curves):
        if (
            len({len(curve.alpha), len(curve.gain_share), len(curve.lo), len(curve.hi)})
            > 1
        ):
            yield (
                f"alpha, gain_share, lo and hi of curves[{index}] must be equally "
                "long; they are not"
            )


def _input_problems(inputs: Inputs | None) -> Iterator[str]:
    if inputs is None:
        return
    columns = {
        "unit": inputs.unit,
        **{f"losses.{mode}": part for mode, part in inputs.losses.items()},
    }
    columns |= {f"ranks.{name}": part for name, part in inputs.ranks.items()}
    columns |= {
        f"terms.{name}.{mode}": part
        for name, by in inputs.terms.items()
        for mode, part in by.items()
    }
    for name, column in columns.items():
        if len(column) != len(inputs.input):
            yield (
                f"inputs.{name} must have an entry for each of {len(inputs.input)} "
                f"inputs; it has {len(column)}"
            )
    if inputs.unit and not 0 <= min(inputs.unit) <= max(inputs.unit) < len(
        inputs.units
    ):
        yield (
            "inputs.unit must name places in "
            f"a list of {len(inputs.units)} units; it does not"
        )
    for name, by in inputs.terms.items():
        if list(by) != list(inputs.losses):
            modes, names = ", ".join(inputs.losses), ", ".join(by) or "none"
            yield f"inputs.terms.{name} must have the modes {modes}; it has {names}"
    if set(inputs.terms) != set(inputs.weights) or not set(inputs.free) <= set(
        inputs.weights
    ):
        yield (
            "inputs.weights must name the loss terms, and inputs.free "
            "some of them; they do not"
        )
