"""Inputs and frames -> figures of single decisions: the sign of the decision value, and
bird's-eye views.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from deepval.basics.errors import argument
from deepval.judge.report.figures import style
from deepval.judge.report.figures.style import Axes, Figure, LeftOutError
from deepval.judge.report.text_tables import number, percent
from deepval.judge.results import Inputs, Result

SIDE_M = 5.0
BEHIND_M = 6.0
NEAREST_END_M, FARTHEST_END_M = 40.0, 90.0
"""Extent of a bird's-eye view to the sides, behind the vehicle, and ahead of it
(smallest and largest).
"""

BESIDE_M = 0.25
"""Offset of the two paths, the full mode's to the left, so that both are visible if
they are equal.
"""
DASHED = (0, (3, 1.5))


def sign(result: Result, gains: Mapping[str, float] | None = None) -> Figure:
    """The effect of escalation on each input, helped or harmed, on asinh axes.

    With gains: decision value against perception gain, for inputs with neither zero;
    the quadrants with different signs are shaded. Without gains: the loss with the full
    mode against the loss with the cheap mode.
    """
    inputs = result.inputs
    if inputs is None:
        raise LeftOutError(
            "the result holds no inputs: evaluate with "
            f"{argument('terms', 'terms.parquet')}"
        )
    figure, (axes,) = style.panels(height_in=2.9)
    axes.set_xscale("asinh", linear_width=1.0)
    axes.set_yscale("asinh", linear_width=1.0)
    if gains is None:
        _losses(axes, inputs)
    else:
        _signs(axes, inputs, gains)
    style.legend_above(figure, axes.get_legend_handles_labels()[0])
    return figure


def decision_values(inputs: Inputs) -> list[float]:
    """Loss with the cheap mode minus loss with the full mode."""
    cheap, full = (list(inputs.losses.values())[m] for m in (0, -1))
    return [a - b for a, b in zip(cheap, full, strict=True)]


def _signs(axes: Axes, inputs: Inputs, gains: Mapping[str, float]) -> None:
    pairs = [
        (gains.get(i, math.nan), v)
        for i, v in zip(inputs.input, decision_values(inputs), strict=True)
    ]
    pairs = [
        (gain, value) for gain, value in pairs if math.isfinite(gain) and gain and value
    ]
    if not pairs:
        raise LeftOutError(
            "no input has both a perception gain and a decision value other than zero"
        )
    right, top = (1.35 * max(abs(pair[k]) for pair in pairs) for k in (0, 1))
    for name, colour, chosen in (
        ("helped", style.HELPED, [pair for pair in pairs if pair[1] > 0]),
        ("harmed", style.HARMED, [pair for pair in pairs if pair[1] < 0]),
    ):
        _points(axes, chosen, name, colour)
    axes.axhline(0, color=style.SOFT, linewidth=0.6)
    axes.axvline(0, color=style.SOFT, linewidth=0.6)
    _asinh_axis(axes.xaxis, axes.set_xlim, -right, right)
    _asinh_axis(axes.yaxis, axes.set_ylim, -top, top)
    axes.set_xlabel("Perception gain (cheap error − full error)")
    axes.set_ylabel("Decision value (units of loss)")
    disagree = sum(gain * value < 0 for gain, value in pairs) / len(pairs)
    wash: dict[str, Any] = {"color": style.HARMED_WASH, "linewidth": 0, "zorder": 0}
    axes.fill_between(
        [-right, 0], 0, top, label=f"Signs disagree: {percent(disagree, 1)}", **wash
    )
    axes.fill_between([0, right], -top, 0, **wash)


def _losses(axes: Axes, inputs: Inputs) -> None:
    modes = list(inputs.losses)
    pairs = list(zip(inputs.losses[modes[0]], inputs.losses[modes[-1]], strict=True))
    low = min(0.0, 1.35 * min(map(min, pairs)))
    high = 1.35 * max(map(max, pairs))
    if not high > low:
        raise LeftOutError("every loss is zero")
    axes.plot([low, high], [low, high], color=style.SOFT, linewidth=0.6, zorder=1)
    for name, colour, chosen in (
        ("unaffected", style.EVEN, [pair for pair in pairs if pair[0] == pair[1]]),
        ("helped", style.HELPED, [pair for pair in pairs if pair[0] > pair[1]]),
        ("harmed", style.HARMED, [pair for pair in pairs if pair[0] < pair[1]]),
    ):
        _points(axes, chosen, name, colour)
    _asinh_axis(axes.xaxis, axes.set_xlim, low, high)
    _asinh_axis(axes.yaxis, axes.set_ylim, low, high)
    axes.set_xlabel(f"Loss with {style.short(modes[0])}")
    axes.set_ylabel(f"Loss with {style.short(modes[-1])}")


def _points(
    axes: Axes, pairs: Sequence[tuple[float, float]], name: str, colour: str
) -> None:
    x, y = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    label = f"{name.capitalize()} ({len(pairs)})"
    axes.scatter(
        x, y, s=8, color=colour, alpha=0.65, linewidths=0, label=label, zorder=2
    )


def _asinh_axis(axis: Any, set_limits: Any, low: float, high: float) -> None:
    """Set limits, and ticks at zero and at powers of ten; with fewer than two powers,
    at 1, 2 and 5 times one.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    largest = max(abs(low), abs(high))
    sizes = [
        10.0**k for k in range(math.ceil(math.log10(largest)) if largest > 1 else 0)
    ]
    if len(sizes) < 2:
        step = 10.0 ** math.floor(math.log10(largest))
        sizes = [step * m for m in (1, 2, 5) if step * m <= largest]
    ticks = [0.0, *(s * size for size in sizes for s in (-1, 1))]
    axis.set_major_locator(
        FixedLocator(sorted(tick for tick in ticks if low <= tick <= high))
    )
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:g}".replace("-", "−"))
    )
    set_limits(low, high)


def birds_eye(frames: Mapping[str, Any] | None) -> Figure:
    """The most harmed and the most helped frame from above: corridor, reference, both
    modes' objects and actions.

    For each sign, the frame with the largest value that an object decides. Filled and
    thick: the object that fixes the action; lines: the vehicle's path over three
    seconds.
    """
    if frames is None:
        raise LeftOutError(
            "there is no frames.json beside the result: deepval build writes one"
        )
    chosen = [
        frame
        for frame in (_example(frames["frames"], name) for name in ("harmed", "helped"))
        if frame
    ]
    if not chosen:
        raise LeftOutError("no frame of the test units is affected")
    far = max(_far_m(frame, frames["modes"]) for frame in chosen)
    panel_in = style.TEXT_IN * 0.95 * 2 * SIDE_M / (far + BEHIND_M)
    figure, rows = style.panels(
        len(chosen),
        width_in=style.TEXT_IN,
        height_in=(panel_in + 0.36) * len(chosen) + 0.4,
    )
    for axes, frame in zip(rows, chosen, strict=True):
        _view(axes, frame, frames, far_m=far)
    rows[-1].set_xlabel("Ahead of the vehicle (m)")
    style.legend_above(figure, _legend(frames["modes"]))
    return figure


def _example(
    frames: Sequence[Mapping[str, Any]], name: str
) -> Mapping[str, Any] | None:
    candidates = sorted(
        (f for f in frames if f["sign"] == name),
        key=lambda f: (-abs(f["value"]), f["input"]),
    )
    decided = [
        f
        for f in candidates
        if any(mode["decisive"] is not None for mode in f["modes"].values())
    ]
    return next(iter(decided or candidates), None)


def _ends(
    frame: Mapping[str, Any], modes: Sequence[str]
) -> list[tuple[str, Mapping[str, Any]]]:
    return [
        (style.CHEAP, frame["modes"][modes[0]]),
        (style.FULL, frame["modes"][modes[-1]]),
    ]


def _far_m(frame: Mapping[str, Any], modes: Sequence[str]) -> float:
    """The distance ahead that includes the decisive objects and both paths, within the
    limits.
    """
    ends = [item for _, item in _ends(frame, modes)]
    matters = [
        item["objects_m"][item["decisive"]][1]
        for item in ends
        if item["decisive"] is not None
    ]
    matters += [point[0] for item in ends for point in item["path_m"] or ()]
    truth = frame["reference"]
    if truth["decisive"] is not None:
        matters += [corner[0] for corner in truth["corners_m"][truth["decisive"]]]
    reach = max((x for x in matters if x is not None), default=0.0) + 8
    return min(FARTHEST_END_M, max(NEAREST_END_M, reach))


def _view(
    axes: Axes, frame: Mapping[str, Any], frames: Mapping[str, Any], *, far_m: float
) -> None:
    from matplotlib.patches import Rectangle

    corridor = frames["corridor_m"]
    if corridor:
        half, end = corridor["half_width"], min(corridor["far"], far_m)
        axes.add_patch(
            Rectangle(
                (0, -half),
                end,
                2 * half,
                facecolor=style.CORRIDOR,
                alpha=0.1,
                label="corridor",
            )
        )
    if "road" in frame:
        _road(axes, frame["road"])
    else:
        axes.add_patch(
            Rectangle((-4.5, -0.9), 4.5, 1.8, facecolor=style.INK, label="ego")
        )
    _reference(axes, frame["reference"])
    for m, (colour, item) in enumerate(_ends(frame, frames["modes"])):
        # Cheap is drawn on top: the full mode stays visible between its dashes.
        look = {
            "linestyle": "solid" if m else DASHED,
            "label": ("cheap", "full")[m],
            "zorder": 3 - m,
        }
        _draw_objects(axes, item, look | {"edgecolor": colour})
        if item["path_m"]:
            x, y = zip(*item["path_m"], strict=True)
            shifted = [v + (BESIDE_M if m else -BESIDE_M) for v in y]
            ends = {"marker": "o", "markersize": 3.5, "markevery": [-1]}
            axes.plot(x, shifted, **look | ends, color=colour, linewidth=1.3)
    axes.set_xlim(-BEHIND_M, far_m)
    axes.set_ylim(-SIDE_M, SIDE_M)
    axes.set_aspect("equal")
    axes.set_yticks([-4, 0, 4])
    axes.set_ylabel("To the left (m)")
    axes.grid(axis="x")
    above: dict[str, Any] = {
        "xycoords": "axes fraction",
        "xytext": (0, 3),
        "textcoords": "offset points",
    }
    axes.annotate(_words(frame, frames["modes"]), (0, 1), **above)


def _road(axes: Axes, road: Mapping[str, Any]) -> None:
    """Draw the lanes, the vehicle, and its recorded path."""
    from matplotlib.patches import Polygon

    for lane in road["lanes"]:
        if lane["outline_m"]:
            axes.add_patch(
                Polygon(
                    lane["outline_m"],
                    facecolor=style.TRUTH,
                    alpha=0.12,
                    label="lane",
                    zorder=0,
                )
            )
        if lane["centre_m"]:
            axes.plot(
                *zip(*lane["centre_m"], strict=True),
                color=style.TRUTH,
                linewidth=0.5,
                zorder=0.5,
            )
    axes.add_patch(Polygon(road["ego_m"], facecolor=style.INK, label="ego"))
    if road["driven_m"]:
        axes.plot(
            *zip(*road["driven_m"], strict=True),
            color=style.INK,
            linewidth=0.9,
            linestyle=":",
            zorder=2,
        )


def _reference(axes: Axes, truth: Mapping[str, Any]) -> None:
    from matplotlib.patches import Polygon

    for i, corners in enumerate(truth["corners_m"]):
        if all(x is not None for corner in corners for x in corner):
            decides = i == truth["decisive"]
            look: dict[str, Any] = {
                "edgecolor": style.INK if decides else "none",
                "alpha": 0.75 if decides else 0.4,
            }
            axes.add_patch(
                Polygon(
                    corners,
                    closed=True,
                    facecolor=style.TRUTH,
                    label="reference",
                    **look,
                )
            )


def _draw_objects(axes: Axes, item: Mapping[str, Any], look: Mapping[str, Any]) -> None:
    from matplotlib.patches import Polygon, Rectangle

    for i, (near, far, low, high) in enumerate(item["objects_m"]):
        if None not in (near, far, low, high):
            decides = i == item["decisive"]
            fill: Any = (look["edgecolor"], 0.25 if decides else 0.04)
            width = 1.8 if decides else 0.8
            outline = (
                Polygon(
                    item["corners_m"][i],
                    closed=True,
                    facecolor=fill,
                    linewidth=width,
                    **look,
                )
                if "corners_m" in item
                else Rectangle(
                    (near, low),
                    far - near,
                    high - low,
                    facecolor=fill,
                    linewidth=width,
                    **look,
                )
            )
            axes.add_patch(outline)


def _words(frame: Mapping[str, Any], modes: Sequence[str]) -> str:
    does = [item["does"] for _, item in _ends(frame, modes)]
    value = f"{'+' if frame['value'] > 0 else '−'}{number(abs(frame['value']), 1)}"
    return (
        f"{frame['sign'].capitalize()}, V = "
        f"{value}: {does[0]} → {does[1]}; reference: {frame['reference']['does']}"
    )


def _legend(modes: Sequence[str]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return [
        Line2D(
            [],
            [],
            color=style.CHEAP,
            linestyle=DASHED,
            label=f"{style.short(modes[0])} (cheap)",
        ),
        Line2D([], [], color=style.FULL, label=f"{style.short(modes[-1])} (full)"),
        Patch(facecolor=style.TRUTH, alpha=0.6, label="Reference"),
        Patch(facecolor=style.CORRIDOR, alpha=0.1, label="Corridor"),
        Line2D([], [], color=style.INK, linewidth=1.8, label="Thick: fixes the action"),
    ]
