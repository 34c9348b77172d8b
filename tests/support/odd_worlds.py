"""Commands, and a folder of paths that cannot be meant, for them to be tried on."""

import os
import signal
import warnings
from contextlib import suppress
from pathlib import Path

import pytest

from commands import call
from deepval.basics.errors import InputError
from kitti_files import write_kitti

CELL = "cells/braking-monocular"
KITTI = (
    "build --out out --dataset kitti --root kitti_tracking --mode small=small.parquet "
    "--mode large=large.parquet"
)
NEW = "line\nbreak"
ODD = (
    "pipe",
    "zero",
    "loop",
    "plain/below",
    "n" * 300,
    "\udcff\udcfe",
    NEW,
    "deep",
    "latin",
)
"""What a path may be; with the ending that a command wants."""
COMMANDS = [
    "evaluate {}.csv -s x.csv",
    "evaluate {}.parquet -s x.csv",
    "evaluate {} -s x.csv",
    "evaluate values.csv -s {}.csv",
    "evaluate values.csv -s x.csv --costs {}.toml",
    "evaluate values.csv -s x.csv --units {}.txt",
    "evaluate values.csv -s x.csv --out {}/r.json",
    "compare {}.csv x.csv y.csv",
    "compare values.csv {}.csv y.csv",
    "compare values.csv x.csv y.csv --costs {}.toml",
    "evaluate {}.csv -s x.csv --diagnose",
    "evaluate values.csv --diagnose --costs {}.toml",
    "shadow {}.csv -s x.csv --out p.json",
    "shadow values.csv -s x.csv --out p.json --coming {}.csv",
    "shadow values.csv -s x.csv --out {}/p.json",
    "report {}.json",
    "report result.json --frames {}.json",
    "report result.json --out {}/page.html",
    "report result.json --figures {}/f",
    f"report {CELL} --images --image-root {{}} --out p.html",
    KITTI.replace("kitti_tracking", "{}"),
    KITTI.replace("small.parquet", "{}.parquet"),
    *(KITTI.replace("small.parquet", name) for name in ("{}.json", "{}.txt", "{}")),
    f"{KITTI} --costs {{}}.toml",
    f"{KITTI} --units {{}}.txt",
    KITTI.replace("--out out", "--out {}/out"),
    *(
        f"build --out out --dataset {name} --root {{}} --mode none --mode reference"
        for name in (
            "nuscenes",
            "nuplan",
            "scenarionet",
        )
    ),
    (
        "build --out out --units scene-00,scene-01 --system planner-ade --weights "
        "{}.npz --masks x.csv"
    ),
    "build --out out --units scene-00,scene-01 --maps {}",
    "demo --out {}/demo",
    "detect {} -w detector.onnx --size 64 --out c --samples 0",
    "detect images -w {}.onnx --size 64 --out c --samples 0",
    "detect images -w detector.onnx --size 64 --out {}/c",
    "detect images -w detector.onnx --size 64 --out c --samples 0 --names {}.json",
    "detect --dataset kitti --root {} -w detector.onnx --size 64 --out c",
    "fit {} -a gate-ridge",
    f"fit {CELL} -a gate-ridge --out {{}}/a.json",
    f"fit {CELL} --like {{}}.json",
    "score {} ego-speed",
    f"fit {CELL} -a mean.py:Mean --features {{}}.csv",
    f"score {CELL} {{}}.py:score",
    f"score {CELL} {{}}.json",
    f"score {CELL} ego-speed --out {{}}/s.csv",
    f"profile {CELL} {{}}.json --out c.toml",
    "profile {} ego-speed --out c.toml",
    "analyse signs {}",
    "analyse wins {}.json",
    f"analyse budgets {CELL} --costs {{}}.toml",
    "analyse signs kitti-public --data {} --work w",
    "reproduce {} --work w --out o",
    f"reproduce {CELL} --work {{}}/w --out o",
    f"reproduce {CELL} --work w --out {{}}/o",
    "drive --dataset scenarionet --root {} --planner idm",
    (
        "drive --dataset synthetic --system braking --allocator random --units "
        "scene-01 --page {}/p.html"
    ),
    "cells --data {}",
    "check {} --cells cells",
    "check subs --cells {}",
    "leaderboard {} --cells cells --out b",
    "leaderboard subs --cells {} --out b",
    "leaderboard subs --cells cells --out {}/b",
    "leaderboard subs --cells cells --out b --cache {}/c",
    "watch {}.json",
    "watch w.json --reference {}.csv",
    "watch w.json --reference {}.csv -s x.csv",
    "watch w.json --reference values.csv -s {}.csv",
    "watch state.json {}.csv",
    "watch state.json --page {}/p.html",
    "import {}.parquet --out v.csv",
    "import log.csv --out v.csv --prices {}.csv",
    "import log.csv --out v.csv --quality {}.csv",
    "import log.csv --out v.csv --scores-out {}/s",
]


def write_world(folder: Path) -> Path:
    """Write values, scores, costs, a cell, a result, a data set, and one of every kind
    of odd file.
    """
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patched.chdir(folder)
        write_kitti(folder)
        rows = [
            (unit, 6 * u + i, 2.0 + i % 3, 1.0 + i % 2)
            for u, unit in enumerate("ab")
            for i in range(6)
        ]
        Path("values.csv").write_text(
            "unit,input,loss_s,loss_l\n"
            + "".join(f"{u},{i},{s},{b}\n" for u, i, s, b in rows)
        )
        for name in "xy":
            Path(f"{name}.csv").write_text(
                "input,score\n" + "".join(f"{i},{(i * 7) % 5}\n" for _, i, _, _ in rows)
            )
        call(
            "build", "--units", "scene-00,scene-01,scene-02,scene-03", "--out", "cells"
        )
        call(
            "evaluate",
            "values.csv",
            "-s",
            "x.csv",
            "--draws",
            "5",
            "--out",
            "result.json",
        )
        call(
            "watch",
            "state.json",
            "--reference",
            "values.csv",
            "-s",
            "x.csv",
            "--claim",
            "rate=0.2+-0.1",
        )
        Path("subs").mkdir()
        Path("log.csv").write_text(
            "dataset,i,question_chars,a,b\n"
            + "".join(f"d{i % 2},{i},9,0,1\n" for i in range(6))
        )
        Path("mean.py").write_text("class Mean:\n    fit = predict = None\n")
        for end in (
            "",
            ".csv",
            ".parquet",
            ".toml",
            ".json",
            ".txt",
            ".onnx",
            ".npz",
            ".py",
        ):
            os.mkfifo(f"pipe{end}")
            Path(f"zero{end}").symlink_to("/dev/zero")
            Path(f"loop{end}").symlink_to(f"loop{end}")
            Path(f"deep{end}").write_text("[" * 100_000)
            Path(f"latin{end}").write_bytes(b"0 caf\xe9,\xe9\n")
            with suppress(OSError):  # macOS takes no such name
                Path(f"\udcff\udcfe{end}").write_bytes(b"\x00\xff")
        Path("plain").write_text("")
    return folder


def tree(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


def check_refused(command: str, odd: str) -> None:
    """Run a command in the world on an odd path: one printable sentence, and no
    wait.
    """
    words = [word.replace("{}", odd) for word in command.split(" ")]
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits"))
    signal.alarm(300)  # no measure of speed: what waits for a pipe waits for ever
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(InputError) as told:
                call(*words)
    finally:
        signal.alarm(0)
    sentence = str(told.value)
    assert sentence.isprintable(), odd
    assert sentence.endswith("."), (odd, sentence)


def trials(command: str) -> tuple[str, ...]:
    """What a command is tried on; a folder may be called by a line break."""
    return tuple(odd for odd in ODD if "{}/" not in command or odd != NEW)
