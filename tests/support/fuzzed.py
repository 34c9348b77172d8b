"""Real files of every kind that is read -> the same with bytes turned, cut, repeated or
put in from elsewhere.
"""

import random
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import deepval
from commands import run
from deepval.basics.errors import InputError
from deepval.basics.files.canonical import read_json, read_manifest
from deepval.basics.files.writing import read_sealed
from deepval.deploy.allocators import read_allocator
from deepval.deploy.board.standings import JUDGEMENTS_SCHEMA, JUDGEMENTS_WHAT
from deepval.deploy.board.submission_files import read_folder
from deepval.deploy.board.submissions import read_history, wanted
from deepval.deploy.board.tracks import read_cells
from deepval.driving.cells.folder import read_cell
from deepval.driving.cells.view_files import read_frames
from deepval.driving.datasets import kitti
from deepval.driving.perception.reported.detection_files import open_detections
from deepval.judge.tables.costs import PROFILES, read_costs
from deepval.judge.tables.split import read_split
from fault_worlds import write_fault_world
from kitti_files import write_kitti
from worlds import judge, random_table

TOKENS = (
    b"nan",
    b"1e999",
    b"-1",
    b"99999999999999999999",
    b"\xff",
    b"\0",
    b'"',
    b"[",
    b"{",
    b"}",
    b",",
    b"\n",
    b"\r",
)
TOKENS += (
    b"null",
    b"true",
    b"PAR1",
    b"\xef\xbb\xbf",
    b"=",
    b"]",
    b"'",
    b"\\ud800",
    b"\t",
    b" ",
    b"0",
    b";",
)


class Target(NamedTuple):
    """A file and who reads it."""

    name: str
    data: bytes
    path: Path
    read: Callable[[Path], object]


def changed(data: bytes, rng: random.Random) -> bytes:
    """Bytes with one to four changes."""
    made = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(made) + 1)
        span = rng.choice((1, 1, 2, 4, 16, 64))
        way = rng.randrange(6)
        if way == 0 and made:
            made[place % len(made)] ^= 1 << rng.randrange(8)
        elif way == 1:
            made[place : place + span] = rng.randbytes(span)
        elif way == 2:
            made[place : place + span] = b""
        elif way == 3:
            made[place:place] = rng.choice(TOKENS)
        elif way == 4:
            made[place : place + span] = rng.choice(TOKENS)
        else:
            start = rng.randrange(len(made) + 1)
            made[place:place] = made[start : start + span * 4]
    return (
        bytes(made[: rng.randrange(len(made) + 1)])
        if rng.random() < 0.1
        else bytes(made)
    )


def targets(home: Path) -> list[Target]:
    """One file of every kind, with its reader."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_fault_world(home)
        write_kitti(home)
    cell = home / "cells" / "braking-monocular"
    made = run("fit", cell, "-a", "gate-ridge", "--out", home / "gate.json")
    assert made.code == 0, made.err
    table = random_table(np.random.default_rng(0), inputs=12, units=3)
    result = judge(table, {"mine": np.arange(12.0)}, [deepval.Selection(0.2)], draws=10)
    result.save(home / "r.json", samples=True)
    assert (
        run(
            "leaderboard",
            home / "subs",
            "--cells",
            home / "cells",
            "--draws",
            5,
            "--cache",
            home / "kept",
            "--out",
            home / "board",
        ).code
        == 0
    )
    boxes = {"unit": ["0000"], "frame": [0], "cls": ["car"], "score": [0.5]}
    boxes |= {corner: [1.0] for corner in ("x1", "y1", "x2", "y2")}
    pq.write_table(pa.table(boxes), home / "boxes.parquet")
    (home / "boxes.json").write_text(
        '[{"image_id": "0000/1", "category_id": 3, "bbox": [1, '
        '2, 3, 4], "score": 0.5}]',
        encoding="utf-8",
    )
    told = wanted(read_cells(home / "cells"))
    training = home / "kitti_tracking" / "training"
    table_file = home / "values.parquet"
    pq.write_table(
        pa.table(
            {
                "unit": ["a", "b"],
                "input": [1, 2],
                "loss_s": [1.0, 2.0],
                "loss_l": [0.5, 3.0],
            }
        ),
        table_file,
    )

    def target(name: str, path: Path, read: Callable[[Path], object]) -> Target:
        return Target(name, path.read_bytes(), path, read)

    def submission(path: Path) -> object:
        return read_folder(
            path.parent if path.name == "card.toml" else path.parent.parent, told
        )

    def unit(_: Path) -> object:
        return kitti.read_unit(training, "0000")

    return [
        target("values.csv", home / "values.csv", deepval.read_values),
        target("values.parquet", table_file, deepval.read_values),
        target(
            "scores.csv",
            home / "x.csv",
            lambda p: deepval.evaluate(home / "values.csv", {"x": p}, draws=2),
        ),
        target(
            "costs.toml",
            _copy(PROFILES["jetson-agx-xavier"], home / "costs.toml"),
            read_costs,
        ),
        target("result.json", home / "r.json", deepval.Result.load),
        target(
            "samples.npz",
            home / "r.samples.npz",
            lambda p: deepval.Result.load(home / "r.json"),
        ),
        target(
            "frames.json",
            _copy(cell / "frames.json", home / "f" / "frames.json"),
            read_frames,
        ),
        target(
            "split.json",
            _copy(cell / "split.json", home / "f" / "split.json"),
            read_split,
        ),
        target(
            "manifest.json",
            cell / "manifest.json",
            lambda p: (read_manifest(p.parent), read_cell(p.parent).spec),
        ),
        target("allocator", home / "gate.json", read_allocator),
        target("card.toml", home / "subs" / "s0" / "card.toml", submission),
        target(
            "submission.csv",
            home / "subs" / "s1" / "scores" / "braking-monocular.csv",
            submission,
        ),
        target(
            "history.json",
            home / "board" / "history.json",
            lambda p: read_history(p.parent),
        ),
        target(
            "judgements",
            next((home / "kept").glob("*.judged")),
            lambda p: read_sealed(p, JUDGEMENTS_SCHEMA, JUDGEMENTS_WHAT),
        ),
        target("boxes.parquet", home / "boxes.parquet", open_detections),
        target("boxes.json", home / "boxes.json", open_detections),
        target("labels", training / "label_02" / "0000.txt", unit),
        target("calibration", training / "calib" / "0000.txt", unit),
        target("json", home / "boxes.json", read_json),
    ]


def _copy(source: Path, to: Path) -> Path:
    to.parent.mkdir(exist_ok=True)
    to.write_bytes(source.read_bytes())
    return to


def crash(target: Target, data: bytes) -> str | None:
    """What a reader raises beside errors of ours; None where nothing."""
    target.path.write_bytes(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(target.path)
    except InputError as error:
        return (
            None
            if str(error) and "\n" not in str(error)
            else f"no sentence: {str(error)[:200]!r}"
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        place = traceback.extract_tb(error.__traceback__)[-1]
        return (
            f"{type(error).__name__}: "
            f"{str(error)[:200]} ({Path(place.filename).name}:{place.lineno})"
        )
    finally:
        target.path.write_bytes(target.data)
    return None
