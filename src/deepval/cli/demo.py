"""`deepval demo`: the synthetic world -> its cells, and every allocator fitted and
judged on each of them.
"""

import os
import warnings
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from deepval.basics.errors import InputWarning, library
from deepval.basics.files import reading
from deepval.basics.files.writing import check_writable, write_atomically
from deepval.cli import options, terminal
from deepval.cli.report_page import page_text, read_result
from deepval.cli.terminal import say
from deepval.deploy import fitting
from deepval.deploy.fitting import Scored
from deepval.driving.cells import build, sources
from deepval.driving.cells import folder as folders
from deepval.driving.datasets.synthetic import WorldSettings
from deepval.judge.allowances import LEVELS, Latency, Selection
from deepval.judge.cases import judge
from deepval.judge.report import forms
from deepval.judge.report.tables.overview import overview
from deepval.judge.report.text_tables import percent, quantity
from deepval.judge.results import HEADLINE, Result
from deepval.judge.tables.columns import csv_text
from deepval.judge.tables.costs import PROFILES

BOARD = PROFILES["jetson-agx-xavier"]
BOTH = [*map(Selection, LEVELS), *map(Latency, LEVELS)]
SYSTEMS, GEOMETRIES = ("braking", "receding-horizon"), ("monocular", "oracle")
SCENES = WorldSettings().scenes
SHOWN = "braking-monocular"
"""The cell of the closing sentences, which also has a judgement of causal policies."""


def demo(
    *,
    out: Annotated[Path, Parameter(alias="-o", group=options.OUTPUT)] = Path("demo"),
    seed: options.Seed = 0,
    scenes: Annotated[int, options.whole(3, 10_000)] = SCENES,
    pixel: Annotated[bool, Parameter(parse=False)] = False,
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> None:
    """Cells are built, every allocator is fitted, and all are judged on the test units.

    Example: deepval demo --out demo

    Args:
        out: Folder for cells and results.
        scenes: Scenes of the synthetic world.
        pixel: Draw every frame, and add image features and the pixel router (torch);
            from Python alone.
    """
    check_writable(out, folder=True)
    for name in ("scipy", "pyarrow", "sklearn", "PIL"):
        library(name, purpose="The demo", extra="fit")
    if pixel:
        library("torch")
    world = sources.synthetic(seed=seed, settings=WorldSettings(scenes=scenes))
    free: dict[str, Result] = {}
    charged: dict[str, Result] = {}
    for cell in build.cells(
        world, geometries=GEOMETRIES, systems=SYSTEMS, watch=terminal.watch
    ):
        folder = out / f"{cell.spec.system}-{cell.spec.geometry}"
        folders.write(cell, folder, costs=BOARD, pictures=pixel)
        free[folder.name], charged[folder.name] = _judge(
            folders.read_cell(folder), pixel=pixel
        )
    if printing.is_json:
        content = {
            name: {"free": free[name].to_dict(), "charged": charged[name].to_dict()}
            for name in free
        }
        terminal.print_json(content)
        return
    overviews = [overview(free, alpha=alpha) for alpha in LEVELS]
    overviews += [
        overview(charged, kind="latency", alpha=alpha) for alpha in (0.2, 0.5)
    ]
    page = out / "report.html"
    pages = {name: out / name / "result.json" for name in free}
    pages |= {f"{name}, charged": out / name / "result-board.json" for name in charged}
    pages[f"{SHOWN}, causal"] = _judge_causal(folders.read_cell(out / SHOWN))
    write_atomically(
        page,
        page_text(
            {name: read_result(path) for name, path in pages.items()}, images=True
        ),
    )
    write_atomically(
        out / "results.md", "\n\n".join(map(forms.table_markdown, overviews)) + "\n"
    )
    say(
        "Each number is an allocator's nDG: its share of what a perfect choice of as "
        "many test inputs gains. Each column is a cell: a planner, and whether its "
        "distances are estimated from the image (monocular) or true (oracle). "
        "Allocators were fitted on other units."
    )
    terminal.print_tables([overviews[1]])
    say("\n" + "\n".join(_closing(free, scenes, out)))
    if os.environ.get("DISPLAY") and os.isatty(1):
        webbrowser.open(reading.resolve(page).as_uri())


def _closing(results: Mapping[str, Result], scenes: int, out: Path) -> list[str]:
    """What was simulated, whether escalation helps, which allocator to run, how certain
    that is, what to open next.
    """
    setting = results[SHOWN].setting
    cheap, full = setting["modes"][0], setting["modes"][-1]
    affected, everything = setting["affected"], setting["all_full_share"]
    tests = quantity(setting["units"], "test scene")
    answer = results[SHOWN].answer(HEADLINE, kind="selection")
    verdicts = [
        result.answer(HEADLINE, kind="selection").verdict for result in results.values()
    ]
    told = ", ".join(
        f"{verdict} in {quantity(verdicts.count(verdict), 'cell')}"
        for verdict in dict.fromkeys(verdicts)
    )
    return [
        f"Simulated: {quantity(scenes, 'scene')} of invented road traffic, no real "
        f"data. A vehicle plans by what a detector sees, by the cheap mode ({cheap}) "
        f"or the expensive one ({full}); escalating is running the latter.",
        f"Help or harm ({SHOWN}, {tests}): the expensive mode changes the loss of "
        f"{affected:,} of {quantity(setting['inputs'], 'input')} and makes "
        f"{percent(setting['harm_rate'], 1)} of those worse. Running it always "
        f"{'raises' if (everything or 0.0) < 0 else 'lowers'} the "
        f"loss by {percent(None if everything is None else abs(everything), 1)}.",
        f"What to run: {answer.sentence} {answer.instead}",
        f"How certain: {answer.doubt} Over all cells: {told}.",
        f"Open next: {out / 'report.html'} in a browser (all cells, frames, sliders); "
        f"{out / 'results.md'} has all tables; `deepval evaluate {out / SHOWN}` "
        "prints this cell.",
    ]


def _judge(cell: folders.BuiltCell, *, pixel: bool) -> tuple[Result, Result]:
    """Verdicts on the cell with free allocators, and with charged ones."""
    recipes = [*fitting.recipes_for(cell), *["router-pixel"] * pixel]
    scored = fitting.scored_by_all(
        cell, recipes, calibrating=True, watch=terminal.watch
    )
    for name, item in scored.items():
        text = csv_text(item.columns())
        write_atomically(cell.folder / "scores" / f"{name}.csv", text, make_folder=True)
    settings: dict[str, Any] = {
        "curve_points": 20,
        "terms": cell.terms,
        "thresholds": True,
    }
    free = judge(cell, scored, command=None, **settings)
    free.save(cell.folder / "result.json")
    charged = _judge_charged(cell, scored, **settings)
    charged.save(cell.folder / "result-board.json")
    return free, charged


def _judge_charged(
    cell: folders.BuiltCell, scored: Mapping[str, Scored], **settings: Any
) -> Result:
    """Verdicts with charged allocators; those without a cost on the board are listed,
    and the tables say so once.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="No cost known", category=InputWarning
        )
        return judge(cell, scored, BOTH, command=None, missing_costs="list", **settings)


def _judge_causal(cell: folders.BuiltCell) -> Path:
    """Verdicts on causal policies: allocators fitted on the training units, thresholds
    from the validation units.
    """
    scored = fitting.scored_by_all(cell, units="train", watch=terminal.watch)
    result = _judge_charged(cell, scored, calibration=list(cell.split.validation))
    result.save(cell.folder / "result-causal.json")
    return cell.folder / "result-causal.json"
