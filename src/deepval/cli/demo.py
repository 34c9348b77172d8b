"""`deepval demo`: the synthetic world -> its cells, and every allocator fitted and judged on each of them."""

import os
import warnings
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from deepval.cells import build, fitting, sources
from deepval.cells import folder as folders
from deepval.cells.fitting import Scored
from deepval.cells.judgement import judge
from deepval.cli import terminal
from deepval.cli.commands import option
from deepval.cli.options import Json, Seed
from deepval.cli.report_page import page_text, read_result
from deepval.cli.terminal import say
from deepval.datasets.synthetic import WorldSettings
from deepval.errors import InputWarning, library
from deepval.files import reading
from deepval.files.writing import check_writable, write_atomically
from deepval.judging.allowances import LEVELS, Latency, Selection
from deepval.paper.analyses.regime import PAPER, regime_lines
from deepval.report import forms
from deepval.report.comparisons import overview
from deepval.results import Result
from deepval.tables.columns import csv_text
from deepval.tables.costs import PROFILES

BOARD = PROFILES["jetson-agx-xavier"]
BOTH = [*map(Selection, LEVELS), *map(Latency, LEVELS)]
SHOWN = "braking-monocular"
"""The cell with a judgement of causal policies."""


def demo(
    *,
    out: Annotated[Path, option("--out", "Folder for cells and results.", short="-o")] = Path("demo"),
    seed: Seed = 0,
    scenes: Annotated[
        int, option("--scenes", "Scenes of the synthetic world.", within=(3, 10_000))
    ] = WorldSettings().scenes,
    pixel: Annotated[
        bool, option("--pixel", "Draw every frame, and add image features and the pixel router (torch).")
    ] = False,
    json: Json = False,
) -> None:
    """Build, fit, judge and report a synthetic world.

    Cells are built, every allocator is fitted, and all are judged on the test units.

    Example: deepval demo --out demo
    """
    check_writable(out, folder=True)
    for name in ("scipy", "pyarrow", "sklearn", "PIL"):
        library(name, purpose="The demo", extra="fit")
    if pixel:
        library("torch")
    world = sources.synthetic(seed=seed, settings=WorldSettings(scenes=scenes))
    systems, geometries = (tuple(dict.fromkeys(part)) for part in zip(*PAPER, strict=True))
    free: dict[str, Result] = {}
    charged: dict[str, Result] = {}
    tables = {}
    for cell in build.cells(world, geometries=geometries, systems=systems, watch=terminal.watch):
        system, geometry = cell.spec.system, cell.spec.geometry
        folder = out / f"{system}-{geometry}"
        folders.write(cell, folder, costs=BOARD, pictures=pixel)
        free[folder.name], charged[folder.name] = _judge(folders.read_cell(folder), pixel=pixel)
        tables[system, geometry] = [cell.table]
    if json:
        content = {name: {"free": free[name].to_dict(), "charged": charged[name].to_dict()} for name in free}
        terminal.print_json(content)
        return
    say("The synthetic world, all units, beside the paper's ranges:\n" + "\n".join(regime_lines(tables)) + "\n")
    overviews = [overview(free, alpha=alpha) for alpha in LEVELS]
    overviews += [overview(charged, kind="latency", alpha=alpha) for alpha in (0.2, 0.5)]
    page = out / "report.html"
    pages = {name: out / name / "result.json" for name in free}
    pages |= {f"{name}, charged": out / name / "result-board.json" for name in charged}
    pages[f"{SHOWN}, causal"] = _judge_causal(folders.read_cell(out / SHOWN))
    write_atomically(page, page_text({name: read_result(path) for name, path in pages.items()}, images=True))
    write_atomically(out / "results.md", "\n\n".join(map(forms.table_markdown, overviews)) + "\n")
    say("Held-out test units, allocators fitted on the others; latency by the board's cost profile:\n")
    terminal.print_tables([overviews[1], overviews[4]])
    say(f"\nCells and results: {out}/<system>-<geometry>/. All tables: {out}/results.md.")
    say(f"One page with everything, sliders and frames: {page}")
    if os.environ.get("DISPLAY") and os.isatty(1):
        webbrowser.open(reading.resolve(page).as_uri())


def _judge(cell: folders.BuiltCell, *, pixel: bool) -> tuple[Result, Result]:
    """Verdicts on the cell with free allocators, and with charged ones."""
    recipes = [*fitting.recipes_for(cell), *["router-pixel"] * pixel]
    scored = fitting.scored_by_all(cell, recipes, watch=terminal.watch)
    for name, item in scored.items():
        text = csv_text(item.columns())
        write_atomically(cell.folder / "scores" / f"{name}.csv", text, make_folder=True)
    settings: dict[str, Any] = {"curve_points": 20, "terms": cell.terms}
    free = judge(cell, scored, command=None, **settings)
    free.save(cell.folder / "result.json")
    charged = _judge_charged(cell, scored, **settings)
    charged.save(cell.folder / "result-board.json")
    return free, charged


def _judge_charged(cell: folders.BuiltCell, scored: Mapping[str, Scored], **settings: Any) -> Result:
    """Verdicts with charged allocators; those without a cost on the board are listed, and the tables say so once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No cost known", category=InputWarning)
        return judge(cell, scored, BOTH, command=None, missing_costs="list", **settings)


def _judge_causal(cell: folders.BuiltCell) -> Path:
    """Verdicts on causal policies: allocators fitted on the training units, thresholds from the validation units."""
    scored = fitting.scored_by_all(cell, units="train", watch=terminal.watch)
    result = _judge_charged(cell, scored, calibration=list(cell.split.validation))
    result.save(cell.folder / "result-causal.json")
    return cell.folder / "result-causal.json"
