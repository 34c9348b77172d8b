"""Cells with results in folders, as `deepval build` and `deepval evaluate` leave them:
what pages are made from.
"""

import json
from pathlib import Path

import deepval
from deepval.driving.cells import build, sources
from deepval.driving.cells import folder as folders

UNITS = tuple(f"scene-{i:02d}" for i in (0, 1, 5, 10, 29, 34, 40, 47))
COSTS = """\
[modes.yolov8s-320]
ms = 13.18
[modes.yolov8s-640]
ms = 18.47
[allocators.ego-speed]
ms = 0.0
[allocators.criticality]
ms = 1.3
"""


def write_cells(
    folder: Path, systems: tuple[str, ...] = ("braking", "receding-horizon")
) -> list[Path]:
    """A folder per system on eight scenes, judged on all of them; returns the
    results.
    """
    world = sources.synthetic(units=UNITS)
    (folder / "costs.toml").write_text(COSTS, encoding="utf-8")
    results = []
    for cell in build.cells(world, systems=systems):
        home = folder / cell.spec.system
        folders.write(cell, home, costs=folder / "costs.toml")
        (home / "scores").mkdir()
        for name, column in (
            ("ego-speed", "ego_speed_mps"),
            ("criticality", "cheap_required_mps2"),
        ):
            pairs = zip(
                cell.table.input.tolist(),
                cell.table.attributes[column].tolist(),
                strict=True,
            )
            text = "input,score\n" + "".join(
                f"{key},{score!r}\n" for key, score in pairs
            )
            (home / "scores" / f"{name}.csv").write_text(text, encoding="utf-8")
        table = deepval.read_values(home / "values.parquet", costs=home / "costs.toml")
        result = deepval.evaluate(
            table,
            {
                name: home / "scores" / f"{name}.csv"
                for name in ("ego-speed", "criticality")
            },
            [
                kind(alpha)
                for kind in (deepval.Selection, deepval.Latency)
                for alpha in (0.2, 0.5)
            ],
            draws=200,
            curve_points=10,
            terms=home / "terms.parquet",
        )
        result.save(home / "result.json")
        results.append(home / "result.json")
    return results


def data_of(page: str) -> dict:
    """The data that a page carries."""
    return json.loads(
        page.partition('<script type="application/json" id="data">')[2].partition(
            "</script>"
        )[0]
    )
