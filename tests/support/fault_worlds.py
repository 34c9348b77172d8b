"""A tiny world in which every command that writes has something to do, and those
commands.
"""

from pathlib import Path

import cv2
import numpy as np

import onnx_models
from deepval.deploy.board.tracks import read_cells
from faulty import Words
from protocol_worlds import noisy, write_cells, write_submission


def write_fault_world(home: Path) -> None:
    """Cells, submissions, images, a detector, values and scores."""
    write_cells(home / "cells", scenes=10, frames=8, costs=None, systems=("braking",))
    write_beside_cells(home)


def write_beside_cells(home: Path) -> None:
    """Submissions on the cells of a folder, images, a detector, values and scores."""
    cells = read_cells(home / "cells")
    for number in range(3):
        write_submission(
            home / "subs" / f"s{number}",
            cells,
            noisy(number),
            name=f"Noise {number}",
            costs={},
        )
    for number in range(6):
        path = home / "images" / f"u{number % 3}" / f"{number:06d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), np.full((40, 60, 3), 40 * number, dtype=np.uint8))
    onnx_models.yolov8(home / "tiny.onnx")
    rows = [
        (unit, 6 * u + i, 2.0 + i % 3, 1.0 + i % 2)
        for u, unit in enumerate("abcd")
        for i in range(6)
    ]
    lines = "".join(f"{unit},{i},{cheap},{full}\n" for unit, i, cheap, full in rows)
    (home / "values.csv").write_text(
        f"unit,input,loss_s,loss_l\n{lines}", encoding="utf-8"
    )
    scores = "".join(f"{i},{(i * 7) % 5}\n" for _, i, _, _ in rows)
    (home / "x.csv").write_text(f"input,score\n{scores}", encoding="utf-8")


def commands(home: Path) -> dict[str, Words]:
    """Commands that write, by where to; some take the output of `fit` and `evaluate` in
    `home`.
    """
    cell = home / "cells" / "braking-monocular"
    judged = ("--cells", home / "cells", "--draws", "50")
    return {
        "build": lambda out: (
            "build",
            "--units",
            "scene-00,scene-01,scene-02",
            "--workers",
            1,
            "--out",
            out / "c",
        ),
        "fit": lambda out: (
            "fit",
            cell,
            "-a",
            "gate-ridge",
            "--out",
            out / "gate.json",
        ),
        "evaluate": lambda out: (
            *("evaluate", home / "values.csv", "-s", home / "x.csv", "--draws", 200),
            *("--out", out / "r.json"),
        ),
        "detect": lambda out: (
            *(
                "detect",
                home / "images",
                "-w",
                home / "tiny.onnx",
                "--size",
                64,
                "--size",
                96,
            ),
            *("--samples", 0, "--out", out / "d"),
        ),
        "leaderboard": lambda out: (
            *(
                "leaderboard",
                home / "subs",
                *judged,
                "--cache",
                out / "kept",
                "--out",
                out / "board",
            ),
        ),
        "reproduce": lambda out: (
            *(
                "reproduce",
                cell,
                "--analysis",
                "signs",
                "-a",
                "gate-ridge",
                "--workers",
                1,
            ),
            *("--work", out / "w", "--out", out / "o"),
        ),
        "score": lambda out: ("score", cell, "ego-speed", "--out", out / "s.csv"),
        "export": lambda out: (
            "export",
            cell,
            home / "gate.json",
            "--out",
            out / "gate.onnx",
        ),
        "threshold": lambda out: (
            *("threshold", home / "values.csv", "-s", home / "x.csv", "--alpha", 0.2),
            *("--out", out / "router.json"),
        ),
        "analyse": lambda out: ("analyse", "signs", cell, "--out", out / "signs.json"),
        "report": lambda out: (
            "report",
            home / "r.json",
            "--out",
            out / "page.html",
            "--figures",
            out / "figures",
        ),
    }
