"""Cells with their data -> the most harmed and most helped frames, cropped around the
object that decides the action.

The paper's rule: of the six most harmed and the six most helped frames, one per unit at
most, those whose decisive change is an added detection or a recovered object.
docs/analyses.md, Gallery.

The most harmed and most helped frames and the object that decides each; --figure draws
crops around it, with added and recovered objects marked.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from deepval.basics import checks
from deepval.basics.files import reading
from deepval.driving.cells.spec import CellSpec
from deepval.driving.cells.unit import unit_plans
from deepval.driving.frames import corridor_m, decisive, words
from deepval.driving.geometry.camera import Camera, image_points_px
from deepval.driving.perception.changes import changes
from deepval.judge.report.figures import style
from deepval.judge.report.figures.style import Axes, Figure, LeftOutError
from deepval.judge.report.text_tables import Table, number
from deepval.paper.analysis import Analysis, Option
from deepval.paper.columns import NAME
from deepval.paper.study import Cell, Units
from deepval.paper.tidy import Column, Row, only, or_dash, printed, yes_no

ASPECT, LEAST_PX, MARGIN = 1.6, 160.0, 2.2
"""Width over height of a crop, its least height in pixels, and its size over that of
the decisive box.
"""
MARKS = {
    "added": style.ADDED,
    "removed": style.ADDED,
    "recovered": style.RECOVERED,
    "lost": style.RECOVERED,
}
MISSED = "#f5d90a"


def crops(rows: Sequence[Row]) -> Figure:
    """A line per rank: the crops of a harmed frame and of a helped one, each cheap and
    full.

    A side without a frame is left out.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    sides = [
        [row for row in rows if row["effect"] == effect and row["box_px"]]
        for effect in ("harmed", "helped")
    ]
    sides = [side for side in sides if side]
    if not sides:
        raise LeftOutError("no frame has a decisive change of the chosen kind")
    lines, width_in = max(map(len, sides)), style.TEXT_IN / 2 * len(sides)
    height_in = 0.5 + lines * (style.TEXT_IN / 4 / ASPECT + 0.2)
    figure, panels = style.panels(
        lines, width_in=width_in, height_in=height_in, columns=2 * len(sides)
    )
    for axes in panels:
        axes.set_axis_off()
    for side, members in enumerate(sides):
        for line, row in enumerate(members):
            left = 2 * (line * len(sides) + side)
            _draw_pair(panels[left : left + 2], row, titled=line == 0)
    marks = {
        "Without a reference object": style.ADDED,
        "Object that the other mode misses": style.RECOVERED,
    }
    handles = [
        Line2D([], [], color=colour, label=text) for text, colour in marks.items()
    ]
    handles.append(
        Line2D([], [], color=MISSED, linestyle="--", label="The missed object")
    )
    style.legend_above(
        figure, [*handles, Patch(color=style.CORRIDOR, alpha=0.3, label="Corridor")]
    )
    return figure


def _draw_pair(pair: Sequence[Axes], row: Row, *, titled: bool) -> None:
    from matplotlib.patches import Polygon

    picture = None if row["picture"] is None else reading.picture(Path(row["picture"]))
    grey = [[(0.45, 0.48, 0.5)]]
    width, height = row["size_px"] or (
        [2 * x for x in row["box_px"][2:]] if picture is None else picture.shape[1::-1]
    )
    left, top, right, bottom = _window(row["box_px"], width, height)
    for full, (axes, boxes) in enumerate(
        zip(pair, (row["cheap_px"], row["full_px"]), strict=True)
    ):
        axes.imshow(
            grey if picture is None else picture,
            interpolation="bilinear",
            extent=(0, width, height, 0),
        )
        if row["corridor_px"]:
            axes.add_patch(
                Polygon(
                    row["corridor_px"],
                    closed=True,
                    color=style.CORRIDOR,
                    alpha=0.3,
                    linewidth=0,
                )
            )
        for box in boxes:
            _outline(axes, box, "white", 0.6)
        if full == (row["change"] in ("added", "recovered", "moved")):
            _outline(axes, row["box_px"], MARKS.get(row["change"], "white"), 1.6)
        elif row["change"] in ("recovered", "lost") and row["reference_px"]:
            _outline(axes, row["reference_px"], MISSED, 1.4, linestyle="--")
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        axes.set_aspect("equal")
        if titled:
            axes.set_title(
                f"{row['effect']}, {('cheap', 'full')[full]}",
                fontsize=6.5,
                pad=2,
                color=style.SOFT,
            )
    words = (
        f"V = {'+' if row['value'] > 0 else '−'}{number(abs(row['value']), 2)}: "
        f"{row['does'][0]} → {row['does'][1]}"
    )
    look = {
        "fontsize": 6.5,
        "color": style.HELPED if row["value"] > 0 else style.HARMED,
        "va": "top",
    }
    text = pair[0].text(0.0, -0.04, words, transform=pair[0].transAxes, **look)
    # The words run below both crops and must not make room beside the first.
    text.set_in_layout(False)


def _window(
    box_px: Sequence[float], width: float, height: float
) -> tuple[float, float, float, float]:
    """The part of the image around a box, of the fixed aspect and inside the image."""
    left, top, right, bottom = box_px
    high = max(LEAST_PX, MARGIN * (bottom - top), MARGIN * (right - left) / ASPECT)
    high = min(high, height, width / ASPECT)
    x = min(max((left + right) / 2, ASPECT * high / 2), width - ASPECT * high / 2)
    y = min(max((top + bottom) / 2, high / 2), height - high / 2)
    return x - ASPECT * high / 2, y - high / 2, x + ASPECT * high / 2, y + high / 2


def _outline(
    axes: Axes, box: Sequence[float], colour: str, width: float, *, linestyle: str = "-"
) -> None:
    from matplotlib.patches import Rectangle

    left, top, right, bottom = box
    look: dict[str, Any] = {
        "edgecolor": colour,
        "linewidth": width,
        "linestyle": linestyle,
    }
    axes.add_patch(
        Rectangle(
            (left, top), right - left, bottom - top, fill=False, clip_on=True, **look
        )
    )


SHOWN_CHANGES = ("added", "recovered")
CHANGES = (*SHOWN_CHANGES, "removed", "lost", "moved")


COLUMNS = (
    NAME,
    Column("effect", "harmed or helped", heading="effect"),
    Column("input", "The input", heading="input"),
    Column("value", "Its decision value", heading="value", text=number),
    Column(
        "does",
        "Action under the cheap and the full mode",
        heading="action",
        text=" -> ".join,
    ),
    Column(
        "change",
        "Decisive change: added (a detection of the full mode alone without a "
        "reference object), recovered (an object that the cheap mode misses), "
        "removed, lost (the same of the cheap mode alone), moved (both modes report "
        "it), none (no object decides)",
        heading="decisive change",
    ),
    Column("drawn", "Whether the figure shows it", heading="in figure", text=yes_no),
    Column("cheap_px", "Image boxes of the cheap mode"),
    Column("full_px", "Image boxes of the full mode"),
    Column("corridor_px", "Outline of the corridor on the road, in the image"),
    Column("size_px", "Width and height of the camera's image; None if not known"),
    Column("picture", "File of the picture", heading="picture", text=or_dash),
    Column("box_px", "Image box of the decisive detection: left, top, right, bottom"),
    Column("reference_px", "Image box of the reference object that it is matched to"),
)
"""One of the most harmed or most helped frames of a cell, and the object that
decides the action in it.
"""


def rows(
    cells: Sequence[Cell],
    *,
    units: Units = "all",
    frames: Annotated[
        int,
        Option(
            "Frames of each sign to look at, at most one per unit.", limits=(1, 1000)
        ),
    ] = 6,
    most: Annotated[
        int,
        Option(
            "Largest number of frames of each sign in the figure.", limits=(1, 1000)
        ),
    ] = 6,
    harmed_by: Annotated[
        list[str] | None,
        Option("Changes of harmed frames in the figure. Repeatable.", ("--harmed-by",)),
    ] = None,
    helped_by: Annotated[
        list[str] | None,
        Option("Changes of helped frames in the figure. Repeatable.", ("--helped-by",)),
    ] = None,
) -> Iterator[Row]:
    """The frames with the largest harm, then those with the largest benefit, largest
    first.
    """
    pictured = {
        "harmed": harmed_by or SHOWN_CHANGES,
        "helped": helped_by or SHOWN_CHANGES,
    }
    for word in (*pictured["harmed"], *pictured["helped"]):
        checks.word(word, CHANGES, "A decisive change")
    for cell in cells:
        table = cell.inputs(units).table
        for effect, way in (("harmed", -1.0), ("helped", 1.0)):
            size = way * table.decision_values
            first: dict[int, int] = {}
            for i in np.argsort(-size, kind="stable")[
                : np.count_nonzero(size > table.tolerance)
            ].tolist():
                first.setdefault(int(table.unit[i]), i)
            drawn = 0
            for i in cell.watch(
                list(first.values())[:frames], f"{effect} frames of {cell.name}"
            ):
                parts = _scenery(
                    cell.located,
                    str(table.unit_ids[table.unit[i]]),
                    str(table.input[i]),
                )
                draw = parts["change"] in pictured[effect] and drawn < most
                drawn += draw
                value = float(table.decision_values[i])
                yield {
                    **parts,
                    "cell": cell.name,
                    "effect": effect,
                    "input": str(table.input[i]),
                    "value": value,
                    "drawn": draw,
                }


def _scenery(spec: CellSpec, unit: str, input_id: str) -> dict[str, Any]:
    """Actions, boxes and picture of an input, and the change of the object that decides
    the action.
    """
    (plan,) = unit_plans([spec], unit)
    seen, scene, system = plan.data, plan.data.scene, spec.acting
    t = scene.inputs.tolist().index(input_id)
    ends = spec.order[0], spec.order[-1]
    now, previous = scene.part(slice(t, t + 1)), plan.plans.before[t : t + 1]
    cheap_px, full_px = (
        _boxes(seen.used[mode].box_px[seen.used[mode].frame == t]) for mode in ends
    )
    path = scene.image_paths[t] if scene.image_paths else None
    parts: dict[str, Any] = {
        "does": tuple(words(system, plan.plans.plans[mode][t]) for mode in ends),
        "change": "none",
        "cheap_px": cheap_px,
        "full_px": full_px,
        "corridor_px": _corridor_px(corridor_m(system), scene.camera),
        "size_px": None
        if None in (size := (scene.camera.width_px, scene.camera.height_px))
        else size,
        "picture": None if path is None else str(path),
        "box_px": None,
        "reference_px": None,
    }
    # The object that decides the full mode's action; if none does, the one that decides
    # the cheap mode's.
    for mode in ends[::-1]:
        decides = decisive(system, plan.objects[mode].at(t), now, previous)
        if decides is not None:
            i = np.flatnonzero(plan.objects[mode].frame == t)[decides]
            own = seen.used[mode]
            behind = spec.behind(own, scene, seen.truth)[i]
            parts["change"] = "moved"
            if behind >= 0:
                full = mode == ends[-1]
                other = seen.used[ends[0] if full else ends[-1]]
                kinds = changes(own, other, scene, seen.truth, full=full)
                parts["change"] = str(kinds[behind])
                partner = seen.matching(mode).partner[behind]
                (parts["box_px"],) = _boxes(own.box_px[[behind]])
                (parts["reference_px"],) = (
                    (None,) if partner < 0 else _boxes(seen.truth.box_px[[partner]])
                )
            break
    return parts


def _boxes(box_px: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, box_px.tolist()))


def _corridor_px(
    corridor_m: Mapping[str, float] | None, camera: Camera
) -> tuple[tuple[float, float], ...]:
    """The outline of the corridor on the road from 6 to 60 m, in the image."""
    if corridor_m is None:
        return ()
    half, far = corridor_m["half_width"], min(60.0, corridor_m["far"])
    corners = [(6.0, half), (far, half), (far, -half), (6.0, -half)]
    points = image_points_px(
        camera, np.array([[x, y, camera.road_z_m] for x, y in corners])
    )
    return (
        tuple((float(u), float(v)) for u, v in points)
        if np.isfinite(points).all()
        else ()
    )


def figure(rows: Sequence[Row]) -> Any:
    """Cheap beside full, harmed on the left, helped on the right."""
    return crops([row for row in rows if row["drawn"]])


def tables(rows: Sequence[Row]) -> list[Table]:
    """The rows as a table."""
    notes = ("Largest harm and largest benefit, one frame per unit at most.",)
    order = ("cell", "effect", "input", "value", "does", "change", "drawn")
    return [
        printed(
            "Most harmed and most helped frames",
            only(COLUMNS, *order),
            rows,
            notes=notes,
        )
    ]


GALLERY = Analysis(
    name="gallery",
    shows="Show the most harmed and most helped frames",
    see="analyses.md#gallery",
    paper="galleries, concept figure",
    example=("cells/braking-monocular --figure gallery.png"),
    by="cell",
    needs_data=True,
    details=(
        "The most harmed and most helped frames and the object that decides each; "
        "--figure draws crops around it, with added and recovered objects marked."
    ),
    rows=rows,
    columns=COLUMNS,
    figure=figure,
    asks=("located",),
    tables=tables,
)
