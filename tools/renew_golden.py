"""Cells and one result, made by the commands of today -> tests/golden/*.json: the SHA-256 of every file.

    python tools/renew_golden.py [NAME ...] [--shared ../shared]

tests/cells/test_golden.py makes the same files and compares. Renew after a change that is meant to alter them, and say
in the commit which files changed and why: the differences are printed. Names are synthetic and the pairs of public
KITTI detections; those need the shared data and are left alone where they are absent.

Last digits of floats depend on which instructions NumPy and OpenBLAS choose for the processor at hand, so the commands
run with the choice fixed. Bytes of Parquet files depend on the version of pyarrow, so every file also has digests of
its parts (columns, keys): they are compared where versions are not those of the golden, and they name what differs.
"""

import argparse
import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from deepval.protocol.cell_builds import (
    BUILT_BY,  # holds one
    UNITS,  # named by a digest of the code, which every change alters
)

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
LIBRARIES = ("numpy", "pyarrow", "scikit-learn")
SAME_DIGITS = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
BUILD = "build --out . --geometry monocular --geometry oracle --system braking --system receding-horizon"
PAIRS = {
    "kitti-CIWT-RRC": (("CIWT", "RRC"), "--scores-are CIWT=raw --threshold RRC=0.25"),
    "kitti-YOLOv3-SORT-YOLOX-SORT": (("YOLOv3-SORT", "YOLOX-SORT"), "--scores-are none"),
    "kitti-PointGNN-PointRCNN": (("PointGNN", "PointRCNN"), "--scores-are raw --threshold PointRCNN=2.0"),
}
NAMES = ("synthetic", *PAIRS)
JUDGED = "braking-monocular"
"""The synthetic cell that the result is of."""
SCORED = {"ego-speed": "ego-speed", "lost": "lost", "gate-ridge": "judged/gate-ridge.json"}
JUDGE = " ".join(
    [
        f"evaluate {JUDGED}/values.parquet --terms {JUDGED}/terms.parquet --draws 200",
        *(f"--scores judged/{name}.csv" for name in SCORED),
        "--alpha 0.1 --alpha 0.2 --alpha 0.5 --budget selection --budget latency --budget energy",
    ]
)
JUDGEMENTS = {
    "cascade": "--by ego_speed_mps:5,10 --by cheap_boxes:1,3 --simultaneous --curve 10 "
    "--format csv --out judged/cascade.json",
    "skipping": "--skipping --rails mj_all --weight collision=2 --format markdown --out judged/skipping.json",
}
RUN = """
import contextlib, json, sys
from deepval.cli import main
for words, printed in json.load(sys.stdin):
    sys.argv = ["deepval", *words]
    with open(printed, "w", encoding="utf-8") if printed else contextlib.nullcontext(sys.stdout) as out:
        with contextlib.redirect_stdout(out):
            try:
                main()
            except SystemExit as stop:
                if stop.code:
                    raise
"""


def golden(name: str, shared: Path, work: Path) -> dict[str, Any]:
    """The content of one golden: versions, and for every folder its cell's id and the digests of its files."""
    if name == "synthetic":
        (work / "judged").mkdir()
        fitted = f"fit {JUDGED} --allocator gate-ridge --out judged/gate-ridge.json"
        scored = [f"score {JUDGED} {a} --units all --out judged/{n}.csv" for n, a in SCORED.items()]
        _run(work, {f"{BUILD} --costs jetson-agx-xavier": None, fitted: None} | dict.fromkeys(scored))
        split = json.loads((work / JUDGED / "split.json").read_text(encoding="utf-8"))
        units = f"--units {','.join(split['test'])} --calibrate {','.join(split['validation'])}"
        # Results store the words of the command line, so no path may depend on where the repository lies.
        costs = work / "judged" / "costs.toml"
        costs.write_bytes((GOLDEN / "costs.toml").read_bytes())
        _run(work, {f"{JUDGE} {units} --costs judged/costs.toml {m}": f"judged/{n}.txt" for n, m in JUDGEMENTS.items()})
        costs.unlink()
    else:
        kitti = (shared / "data" / "kitti_tracking").resolve()
        modes = [f"--mode {shlex.quote(f'{m}={kitti}/detections/{m}.parquet')}" for m in PAIRS[name][0]]
        root = f"--dataset kitti --root {shlex.quote(str(kitti))} --class Car"
        _run(work, {" ".join([BUILD, root, *modes, PAIRS[name][1]]): None})
    folders = {path.name: _folder(path) for path in sorted(work.iterdir()) if path.name != UNITS}
    built = json.loads((work / JUDGED / "manifest.json").read_text(encoding="utf-8"))
    libraries = {library: version(library) for library in LIBRARIES} | {"libc": " ".join(platform.libc_ver())}
    return {
        "made_with": {"machine": platform.machine(), **libraries, "deepval": built["deepval"]},
        "folders": folders,
    }


def differences(kept: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    """A line for every file that differs from the golden, by its bytes or, under other versions, by its parts."""
    exact = kept["made_with"] == made["made_with"]
    lines = []
    for folder in sorted({*kept["folders"], *made["folders"]}):
        old, new = (golden["folders"].get(folder, {"id": None, "files": {}}) for golden in (kept, made))
        if old["id"] != new["id"]:
            lines.append(f"{folder}: its id was {old['id']} and is {new['id']}")
        for name in sorted({*old["files"], *new["files"]}):
            was, found = old["files"].get(name), new["files"].get(name)
            if was is None or found is None:
                lines.append(f"{folder}/{name}: is {'new' if was is None else 'no longer there'}")
            elif was["parts"] != found["parts"]:
                parts = sorted({*was["parts"], *found["parts"]})
                where = [part for part in parts if was["parts"].get(part) != found["parts"].get(part)]
                lines.append(f"{folder}/{name}: differs in {', '.join(where)}")
            elif exact and was["sha256"] != found["sha256"]:
                lines.append(f"{folder}/{name}: other bytes, the same contents")
    return lines


def _run(work: Path, commands: Mapping[str, str | None]) -> None:
    """Run commands of `deepval` in a folder; if a command has a file name, its output goes to that file.

    They share a process, since starting one takes longer than most of them.
    """
    given = json.dumps([[shlex.split(words), printed] for words, printed in commands.items()])
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=work,
        env={**os.environ, **SAME_DIGITS},
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"A command failed of {given}:\n{done.stdout}{done.stderr}")


def _folder(folder: Path) -> dict[str, Any]:
    manifest = folder / "manifest.json"
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != BUILT_BY)
    return {
        "id": json.loads(manifest.read_text(encoding="utf-8"))["id"] if manifest.is_file() else None,
        "files": {
            path.relative_to(folder).as_posix(): {"sha256": _digest(path.read_bytes()), "parts": _parts(path)}
            for path in files
        },
    }


def _parts(path: Path) -> dict[str, str]:
    """Digests of a file's columns or keys, without what depends on the version of pyarrow or deepval."""
    if path.suffix == ".parquet":
        return {name: _column_digest(column) for name, column in _columns(path).items()}
    if path.suffix != ".json":
        return {"text": _digest(path.read_bytes())[:16]}
    content = json.loads(path.read_text(encoding="utf-8"))
    if path.name == "manifest.json":
        content = {key: value for key, value in content.items() if key != "deepval"}
        content["files"] = sorted(content["files"])
    if "provenance" in content:
        content["provenance"] = {key: value for key, value in content["provenance"].items() if key != "deepval"}
    return {key: _digest(json.dumps(value).encode())[:16] for key, value in content.items()}


def _columns(path: Path) -> dict[str, Any]:
    table = pq.read_table(path)
    return {name: table.column(name) for name in table.column_names}


def _column_digest(column: Any) -> str:
    """Digest of type, values and gaps; numbers enter as they are stored in memory."""
    values = column.to_numpy()
    raw = json.dumps(values.tolist()).encode() if values.dtype.kind == "O" else np.ascontiguousarray(values).tobytes()
    return _digest(str(column.type).encode() + raw + column.is_valid().to_numpy().tobytes())[:16]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main() -> None:
    """Renew the goldens and print the differences from the earlier ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--shared", type=Path, default=os.environ.get("DEEPVAL_SHARED", ROOT.parent / "shared"))
    given = parser.parse_args()
    for name in given.names or NAMES:
        if name not in NAMES:
            parser.error(f"NAME must be one of {', '.join(NAMES)}; found {name!r}")
        if name in PAIRS and not (given.shared / "data" / "kitti_tracking").is_dir():
            print(f"{name}: left alone, there are no shared data in {given.shared}")
            continue
        with tempfile.TemporaryDirectory() as work:
            made = golden(name, given.shared, Path(work))
        target = GOLDEN / f"{name}.json"
        kept = json.loads(target.read_text(encoding="utf-8")) if target.is_file() else {"made_with": {}, "folders": {}}
        lines = differences(kept, made)
        target.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
        print(f"{name}: {len(lines)} differences" + "".join(f"\n  {line}" for line in lines))


if __name__ == "__main__":
    main()
