"""Result -> the picture of its answer: quality against cost, with the answer as title.

Fixed modes are squares, the best blind mixture is dashed, and the candidate is the one
coloured curve. Its band is the interval of its lead, drawn on the dashed line.
"""

import textwrap
from typing import Any

import numpy as np

from deepval.judge.report.answers import check_highlight
from deepval.judge.report.figures import style
from deepval.judge.report.figures.style import Axes, Figure, LeftOutError
from deepval.judge.report.pictures import pictures
from deepval.judge.results import Answer, Picture, PicturePoints, Result

HEIGHT_IN = 2.75
TITLE_CHARACTERS = 52
FROM_ZERO = 0.4
"""The cost axis begins at 0 if the cheapest mode costs at most this share."""
PLACE = 0.62
"""Where the name of a line stands, as a share of its length."""
OPEN = "#8e4fa8"
"""The colour of what is not settled, as on the page."""
COLOURS = {"run": style.HELPED, "do not run": style.HARMED}
LINE: dict[str, Any] = {"linewidth": 1.6, "zorder": 4}
HALO: dict[str, Any] = {
    "facecolor": "white",
    "edgecolor": "none",
    "pad": 0.5,
    "alpha": 0.7,
}
BEHIND: dict[str, Any] = {"color": style.EVEN, "linewidth": 0.7, "zorder": 1}


def answer_figure(result: Result, highlight: str | None = None) -> Figure:
    """Quality against cost under the kind of budget of the headline answer.

    Args:
        result: The result.
        highlight: The allocator that is emphasised, instead of the candidate.
    """
    check_highlight([result], highlight)
    found = pictures(result)
    if not found:
        raise LeftOutError("its rows have no costs and qualities to draw")
    picture = found[0]
    if len({mark.quality for mark in picture.fixed}) < 2:
        lines = [*picture.routers, picture.blind]
        if len({quality for line in lines for quality in line.quality}) < 2:
            raise LeftOutError("every choice comes to the same")
    answer = next((one for one in result.answers if one.budget == picture.budget), None)
    figure, (axes,) = style.panels(height_in=HEIGHT_IN)
    axes.set_title(_title(result, answer), loc="left", fontsize=7)
    # The name of the lowest mode stands below it.
    axes.margins(y=0.1)
    name, verdict = None, ""
    if answer is not None:
        name, verdict = answer.candidate, answer.verdict
    if highlight is not None:
        row = result.row(highlight, **vars(picture.budget))
        name, verdict = highlight, row.answer or ""
    _draw(axes, picture, name, COLOURS.get(verdict, OPEN))
    _draw_modes(axes, picture, has_whisker=result.effect is not None)
    if result.effect is None:
        _draw_budget(axes, picture)
    axes.set_xlabel(picture.cost_axis)
    axes.set_ylabel(picture.quality_axis)
    costs = [mark.cost for mark in picture.fixed]
    # An axis from 0 is half empty where the cheap mode is not cheap.
    if min(costs) <= FROM_ZERO * max(costs):
        axes.set_xlim(left=0)
    axes.grid(axis="y")
    return figure


def _title(result: Result, answer: Answer | None) -> str:
    """The answer in one sentence, in lines."""
    sentence = ""
    if answer is not None:
        sentence = answer.sentence
    if result.effect is not None:
        sentence = result.effect.sentences[0]
    return textwrap.fill(sentence, TITLE_CHARACTERS)


def _draw(axes: Axes, picture: Picture, emphasised: str | None, colour: str) -> None:
    """The lines; one of them is emphasised, in its colour."""
    for router in picture.routers:
        if router.name != emphasised:
            axes.plot(router.cost, router.quality, label=router.name, **BEHIND)
    if picture.oracle is not None:
        oracle = picture.oracle
        axes.plot(oracle.cost, oracle.quality, color=style.SOFT, linewidth=0.7)
        _name(axes, oracle, "perfect router", style.SOFT, above=True)
    blind = picture.blind
    dashes: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 0.9, "zorder": 3}
    axes.plot(blind.cost, blind.quality, color=style.INK, label=blind.name, **dashes)
    own = [router for router in picture.routers if router.name == emphasised]
    is_below = bool(own) and not _is_ahead(picture, own[0])
    _name(axes, blind, blind.name, style.SOFT, above=is_below)
    for router in own:
        _draw_candidate(axes, router, colour)
        _name(axes, router, router.name, colour, above=not is_below)
    on_top = picture.on_top
    if on_top is not None:
        axes.plot(on_top.cost, on_top.quality, color=style.HELPED, linewidth=1.1)
        _name(axes, on_top, on_top.name, style.HELPED, above=True)


def _draw_candidate(axes: Axes, router: PicturePoints, colour: str) -> None:
    bounds = [
        (cost, low, high)
        for cost, low, high in zip(router.cost, router.low, router.high, strict=True)
        if low is not None and high is not None
    ]
    if bounds:
        costs, lows, highs = map(list, zip(*bounds, strict=True))
        axes.fill_between(costs, lows, highs, color=colour, alpha=0.14, linewidth=0)
    axes.plot(router.cost, router.quality, color=colour, label=router.name, **LINE)


def _draw_modes(axes: Axes, picture: Picture, *, has_whisker: bool) -> None:
    """A square and a name for every fixed mode; its interval where nothing else is."""
    for mark in picture.fixed:
        look: dict[str, Any] = {"marker": "s", "markersize": 4, "color": style.INK}
        look["clip_on"] = False
        axes.plot([mark.cost], [mark.quality], linestyle="none", zorder=5, **look)
        is_last = mark is picture.fixed[-1]
        place: dict[str, Any] = {"xytext": (6, -8), "ha": "left"}
        if is_last:
            place = {"xytext": (2, -13), "ha": "right"}
        axes.annotate(
            style.short(mark.name),
            (mark.cost, mark.quality),
            textcoords="offset points",
            fontsize=6.5,
            bbox=HALO,
            zorder=6,
            **place,
        )
    last = picture.fixed[-1]
    if has_whisker and last.low is not None and last.high is not None:
        axes.vlines(last.cost, last.low, last.high, color=style.INK, linewidth=0.9)


def _draw_budget(axes: Axes, picture: Picture) -> None:
    for share, cost in zip(picture.share, picture.share_cost, strict=True):
        if share == picture.budget.alpha:
            dots: Any = (0, (1, 2))
            axes.axvline(cost, color=style.SOFT, linewidth=0.8, linestyle=dots)


def _name(
    axes: Axes, line: PicturePoints, name: str, colour: str, *, above: bool
) -> None:
    """The name of a line, beside it at PLACE."""
    cost = line.cost[0] + PLACE * (line.cost[-1] - line.cost[0])
    quality = float(np.interp(cost, line.cost, line.quality))
    axes.annotate(
        style.short(name),
        (cost, quality),
        xytext=(-3, 5) if above else (3, -11),
        textcoords="offset points",
        # Lines rise, so there is room above at the left and below at the right.
        ha="right" if above else "left",
        fontsize=6.5,
        color=colour,
        bbox=HALO,
        zorder=6,
    )


def _is_ahead(picture: Picture, router: PicturePoints) -> bool:
    """Whether a router is above the blind mixture where its name stands."""
    cost = router.cost[0] + PLACE * (router.cost[-1] - router.cost[0])
    own = np.interp(cost, router.cost, router.quality)
    return bool(own >= np.interp(cost, picture.blind.cost, picture.blind.quality))
