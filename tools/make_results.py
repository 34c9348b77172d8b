"""Shared KITTI data -> docs/results.md: twelve cells from public detections, every allocator, judged on the test units.

    python tools/make_results.py SHARED_DATA --work /tmp/kitti-results --out docs/results.md

Cells, models and costs measured here are kept in the work folder, so that a second run only repeats what is missing.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from deepval.allocators import RECIPES, read_allocator
from deepval.allocators.signals import SIGNALS
from deepval.analyses import seeds, transfer
from deepval.cells import build, sources, study
from deepval.cells.fitting import Scored, fit_on, score_on
from deepval.cells.folder import BuiltCell, read_cell, write
from deepval.datasets.kitti import Kitti
from deepval.files import write_atomically
from deepval.judging.budgets import Latency, Selection
from deepval.judging.comparison import pool
from deepval.report.markdown import table_text
from deepval.report.overview import overview
from deepval.report.tables import Table, TableCell, interval, number, percent
from deepval.results import Result
from deepval.tables.costs import Costs, read_costs

PAIRS = {
    "CIWT-RRC": (("CIWT", None, "raw"), ("RRC", 0.25, "probabilities")),
    "YOLO": (("YOLOv3-SORT", None, "none"), ("YOLOX-SORT", None, "none")),
    "Point": (("PointGNN", None, "raw"), ("PointRCNN", 2.0, "raw")),
}
GEOMETRIES = ("monocular", "oracle")
SYSTEMS = {"braking": "brake", "receding-horizon": "horizon"}
BOARD_MODES = ("yolov8s-320", "yolov8s-640")
"""What a cell's cheap and full mode are charged as: the public detectors have no costs of their own."""
ALPHAS = (0.1, 0.2, 0.3, 0.5)
SEEDED = ("router-mlp-value", "router-mlp-binary", "gate-gbm", "gate-gbm-memory", "router-two-head", "router-recall")


def cells_of(data: Path, work: Path) -> dict[str, BuiltCell]:
    """The twelve cells, built where they are not there yet."""
    kitti, found = data / "kitti_tracking", {}
    for pair, modes in PAIRS.items():
        folders = {(s, g): work / "cells" / pair / f"{s}-{g}" for g in GEOMETRIES for s in SYSTEMS}
        if not all((folder / "manifest.json").is_file() for folder in folders.values()):
            files = [
                sources.ModeFile(name, kitti / "detections" / f"{name}.parquet", limit, scores, ("Car",))
                for name, limit, scores in modes
            ]
            material = sources.from_files(Kitti(kitti), files)
            for cell in build.cells(material, geometries=GEOMETRIES, systems=tuple(SYSTEMS)):
                write(cell, folders[cell.spec.system, cell.spec.geometry])
        found |= {f"{pair} {SYSTEMS[s]} {g[:4]}": read_cell(folder) for (s, g), folder in folders.items()}
    return found


def scored(cell: BuiltCell, work: Path, units: str) -> dict[str, Scored]:
    """Scores by every signal and recipe; models are kept."""
    found = {name: score_on(cell, signal, units="all") for name, signal in SIGNALS.items()}
    for recipe in study.recipes_for(cell):
        path = work / "models" / units / cell.id / f"{recipe}.json"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            fit_on(cell, recipe, units=units).save(path)
        found[recipe] = score_on(cell, read_allocator(path), units="all")
    return found


def judged(
    cells: dict[str, BuiltCell], scores: dict[str, dict[str, Scored]], profile: Costs | None = None, **settings: Any
) -> dict[str, Result]:
    """Results at the four budgets: by selection, or by latency for the allocators that a profile has costs of."""
    results = {}
    for label, cell in cells.items():
        if profile is None:
            results[label] = study.judged(cell, scores[label], [Selection(a) for a in ALPHAS], **settings)
            continue
        costs = profile.renamed(dict(zip(cell.table.modes, BOARD_MODES, strict=True)))
        known = study.priced(scores[label], costs)
        results[label] = study.judged(cell, known, [Latency(a, costs) for a in ALPHAS], **settings)
    return results


def pooled_table(results: dict[str, Result]) -> Table:
    """Means over the twelve cells with their intervals."""
    lines = [
        tuple(
            map(
                TableCell,
                (
                    row.budget.label,
                    row.allocator,
                    number(row.ndg),
                    interval(row.ndg_lo, row.ndg_hi),
                    percent(row.versus_random),
                    interval(row.versus_random_lo, row.versus_random_hi, percent),
                    row.verdict or "",
                ),
            )
        )
        for row in pool(results)
    ]
    header = ("budget", "allocator", "nDG", "95 %", "vs random", "95 %", "verdict")
    return Table("Means over the twelve cells", header, (tuple(lines),))


def seed_table(cells: dict[str, BuiltCell]) -> Table:
    """Six training seeds on one cell of each pair."""
    lines = []
    for label in ("CIWT-RRC brake mono", "YOLO horizon orac", "Point brake mono"):
        for row in seeds.rows({label: cells[label]}, SEEDED):
            better = sum(verdict == "better" for verdict in row.verdicts)
            spread = " ".join(number(value, 2) for value in row.ndg)
            texts = (label, row.allocator, spread, number(row.span, 2), f"{better}/{len(row.seeds)}")
            lines.append(tuple(map(TableCell, (*texts, "yes" if row.identical else "no"))))
    header = ("cell", "allocator", "nDG by seed", "span", "better", "same bits")
    return Table("Six training seeds, selection 20%", header, (tuple(lines),))


def transfer_table(cells: dict[str, BuiltCell]) -> Table:
    """Routers fitted for one consumer and judged for the other, in every pair and geometry."""
    recipes = [name for name, recipe in RECIPES.items() if recipe.extra is None and not recipe.per_mode]
    rows = transfer.rows(cells, recipes)
    lines = []
    for recipe in recipes:
        apart = [row for row in rows if row.allocator == recipe and row.source != row.target]
        own = [row for row in rows if row.allocator == recipe and row.source == row.target]
        regret = [row.regret for row in apart if row.regret is not None]
        at20 = [sum(r.verdict == "better" for r in part if r.alpha == 0.2) for part in (own, apart)]
        counts = [sum(r.alpha == 0.2 for r in part) for part in (own, apart)]
        texts = (recipe, number(float(np.median(regret))), percent(min(row.coverage for row in apart), 1))
        shares = [f"{better}/{count}" for better, count in zip(at20, counts, strict=True)]
        lines.append(tuple(map(TableCell, (*texts, *shares))))
    header = ("allocator", "median regret (nDG)", "least coverage", "own: better @20", "transferred: better @20")
    return Table("Transfer between braking and receding horizon, four budgets", header, (tuple(lines),))


def gap_table(results: dict[str, Result]) -> Table:
    """Where the gap between the free oracle and a causal allocator goes, means over the cells that have all terms."""
    parts = ("gap", "overhead", "ranking", "causal")
    names = list(dict.fromkeys(gap.allocator for result in results.values() for gap in result.gaps))
    lines = []
    for name in names:
        found = [
            [getattr(gap, part) / result.row("random", gap.kind, gap.alpha).cheap_loss for part in parts]
            for result in results.values()
            for gap in result.gaps
            if gap.allocator == name and gap.alpha == 0.2 and all(getattr(gap, part) is not None for part in parts)
        ]
        means = np.mean(found, axis=0).tolist() if found else [None] * len(parts)
        lines.append(tuple(map(TableCell, (name, *map(percent, means), f"{len(found)}/{len(results)}"))))
    return Table("The gap to the oracle, latency 20%", ("allocator", *parts, "cells"), (tuple(lines),))


def cost_table(profile: Costs) -> Table:
    """Milliseconds per input of modes and allocators."""
    full = profile.of_mode(BOARD_MODES[1], "ms")
    entries = {**profile.modes, **profile.allocators}
    lines = [(name, number(entry["ms"]), percent(entry["ms"] / full)) for name, entry in entries.items()]
    return Table(
        "Costs", ("name", "ms per input", "of a full pass"), (tuple(tuple(map(TableCell, line)) for line in lines),)
    )


def main() -> None:
    """Make the tables and put them between the marks of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--costs", type=Path, help="costs measured on this machine")
    given = parser.parse_args()
    cells = cells_of(given.data, given.work)
    scores = {label: scored(cell, given.work, "fit") for label, cell in cells.items()}
    free = judged(cells, scores)
    tables = {f"selection-{round(100 * a)}": overview(free, alpha=a) for a in ALPHAS}
    board = judged(cells, scores, read_costs("jetson-agx-xavier"))
    tables |= {f"board-{round(100 * a)}": overview(board, kind="latency", alpha=a) for a in ALPHAS}
    if given.costs:
        profile = read_costs(given.costs)
        here = judged(cells, scores, profile)
        tables |= {f"here-{round(100 * a)}": overview(here, kind="latency", alpha=a) for a in ALPHAS}
        causal = {label: scored(cell, given.work, "train") for label, cell in cells.items()}
        calibration = list(next(iter(cells.values())).split.validation)
        tables["costs"] = cost_table(profile)
        tables["gap"] = gap_table(judged(cells, causal, profile, calibration=calibration))
    tables["pooled"] = pooled_table(free)
    tables["seeds"] = seed_table(cells)
    tables["transfer"] = transfer_table(cells)
    for name, table in tables.items():
        write_atomically(given.work / "tables" / f"{name}.md", table_text(table) + "\n", make_folder=True)
    write_atomically(given.work / "free.json", json.dumps({k: v.to_dict() for k, v in free.items()}))
    if given.out.is_file():
        write_atomically(given.out, filled(given.out.read_text(encoding="utf-8"), tables))


def filled(page: str, tables: dict[str, Table]) -> str:
    """The page with every table between `<!-- table NAME -->` and `<!-- end -->` made new."""
    for name, table in tables.items():
        begin = f"<!-- table {name} -->\n"
        if begin in page:
            head, rest = page.split(begin, 1)
            page = head + begin + table_text(table) + "\n" + rest[rest.index("<!-- end -->") :]
    return page


if __name__ == "__main__":
    main()
