"""What the goldens freeze: worlds, and the commands that are run in each of them.

A world is a folder. Commands without a golden prepare it; the others are cases: what
they print as JSON, or the files that they write, goes to the golden file of their
command or analysis. `tools/renew_golden.py` runs, compares and stores them.
"""

import csv
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"


@dataclass(frozen=True)
class Step:
    """A command of `deepval`, or a function that writes files into the world's folder.

    Attributes:
        words: The words after `deepval`.
        golden: The golden file that the outcome goes to; empty if it only prepares.
        case: The name of the outcome in that file.
        writes: Files whose contents are frozen instead of what is printed.
        act: What to call instead of a command; what it returns is the outcome.
    """

    words: str = ""
    golden: str = ""
    case: str = ""
    writes: tuple[str, ...] = ()
    act: Callable[[Path], Any] | None = None


@dataclass(frozen=True)
class World:
    """A folder of cells or tables, and what is run in it.

    Attributes:
        name: Its name, which opens the names of its cases.
        steps: Makes the commands, from the folder of shared data.
        needs: Folders of the shared data without which the world is left out.
        slow: Whether it takes minutes: left to `make slow`.
        cells: Folders of cells whose files are frozen by their digests at the end.
    """

    name: str
    steps: Callable[[Path], Iterator[Step]]
    needs: tuple[str, ...] = ()
    slow: bool = False
    cells: tuple[str, ...] = field(default=())


def case(golden: str, name: str, words: str, *writes: str) -> Step:
    """A command whose JSON, or whose files, are frozen."""
    if not writes:
        words += " --json"
    return Step(words, golden, name, writes)


def analyse(name: str, words: str, label: str = "") -> Step:
    """An analysis whose rows are frozen."""
    return case(name, label or "rows", f"analyse {name} {words}")


# --- the demo's four cells ------------------------------------------------------------

DEMO_CELLS = (
    "braking-monocular",
    "braking-oracle",
    "receding-horizon-monocular",
    "receding-horizon-oracle",
)
ALL_DEMO = " ".join(DEMO_CELLS)
BRAKING, HORIZON = DEMO_CELLS[0], DEMO_CELLS[2]
LEDGER_FREE = ("signs", "composition", "ties", "mechanism", "viability", "lift")
ON_STORED_SCORES = (
    *(*LEDGER_FREE, "observations", "persistence", "sensitivity", "robustness"),
    *("agreement", "consumers", "optima", "perception-ranking", "selection-regret"),
    *("held-out", "benefit-harm", "wins", "half-widths", "concentration"),
    *("optimality", "arbiter", "budgets", "break-even", "capacity", "skipping"),
)
"""Analyses that fit nothing, or little."""
THREE = f"{BRAKING} -s gate-ridge ego-speed lost"


def demo(_shared: Path) -> Iterator[Step]:
    """The demo, every command that judges its cells, and every analysis on them."""
    yield case("demo", "rows", "demo --out .")
    yield Step(act=_write_costs)
    yield from _judgements()
    yield from _comparisons()
    yield from _routers()
    yield from _fits_and_scores()
    yield from _board()
    yield case("cells", "synthetic", "cells synthetic")
    yield case("gallery", "rows", f"analyse gallery {ALL_DEMO}")
    for name in ON_STORED_SCORES:
        yield analyse(name, ALL_DEMO)
    yield analyse("out-of-fold", ALL_DEMO)
    yield analyse("targets", f"{BRAKING} {HORIZON}")
    yield analyse("uniform", BRAKING)
    yield analyse("gaps", BRAKING)
    yield analyse("deadlines", f"{BRAKING} {HORIZON}")
    yield analyse("operating-points", f"{HORIZON} --no-tuned")
    yield analyse("seeds", f"{BRAKING} -a gate-gbm --seeds 2")
    yield analyse("transfer", f"{BRAKING} {HORIZON} -a gate-ridge -a gate-gbm")
    yield analyse("streams", f"{BRAKING} -a gate-ridge -a router-recall")
    yield analyse("objective-swap", f"{BRAKING} {HORIZON} -a gate-ridge")
    yield analyse("published-objectives", f"{BRAKING} -a router-gbm-binary")
    yield analyse("target-transforms", f"{BRAKING} -a router-gbm-value")


def _write_costs(folder: Path) -> None:
    """Made-up costs in every convention, so that budgets of all kinds are judged."""
    shutil.copy(GOLDEN / "costs.toml", folder / "costs.toml")


def _judgements() -> Iterator[Step]:
    yield case("evaluate", "stored scores", f"evaluate {BRAKING}")
    yield case("evaluate", "another cell", f"evaluate {DEMO_CELLS[3]}")
    yield Step(golden="evaluate", case="cascade", act=_cascade)
    yield Step(golden="evaluate", case="skipping", act=_skipping)
    yield case(
        "evaluate",
        "exact draws",
        f"evaluate {THREE} --draws exact --units scene-00,scene-01,scene-05,scene-08",
    )
    yield case("evaluate", "no draws", f"evaluate {THREE} --draws 0")
    yield Step(golden="evaluate", case="thresholds and areas", act=_thresholds)
    yield case("diagnose", "stored scores", f"evaluate {BRAKING} --diagnose")
    yield case("diagnose", "no scores", f"evaluate {HORIZON}/values.parquet --diagnose")


CHARGED = ("selection", "latency", "energy")
FEW = {"draws": 200, "calibrated": True}


def _cascade(_: Path) -> Any:
    """Groups, curves, and intervals that hold for all rows together."""
    groups = ("ego_speed_mps:5,10", "cheap_boxes:1,3")
    more = {"by": groups, "simultaneous_intervals": True, "curve_points": 10}
    return _judged(CHARGED, alphas=(0.1, 0.2, 0.5), **FEW, **more)


def _skipping(_: Path) -> Any:
    """Other weights, and budgets that count all rails."""
    kind = {"accounting": "skipping", "rails": "mj_all"}
    weights = {"collision": 2.0}
    return _judged(CHARGED, kind, alphas=(0.1, 0.2, 0.5), weights=weights, **FEW)


def _thresholds(_: Path) -> Any:
    """Thresholds, and areas between gain curves."""
    result = _judged(("selection", "latency"), thresholds=True, has_costs=False)
    return replace(result, recovery=result.apgr())


def _judged(
    kinds: Sequence[str],
    charge: Mapping[str, str] = MappingProxyType({}),
    *,
    alphas: Sequence[float] = (0.1, 0.2, 0.3, 0.5),
    calibrated: bool = False,
    has_costs: bool = True,
    **settings: Any,
) -> Any:
    """Three allocators on a cell, judged as `evaluate` does, with arguments that only
    Python has.
    """
    from deepval.judge.allowances import Selection, measured
    from deepval.judge.cases import judge, read_evaluation_data

    costs = Path("costs.toml") if has_costs else None
    case = read_evaluation_data(Path(BRAKING), costs=costs)
    names = ("gate-ridge", "ego-speed", "lost")
    scores = case.scores({name: Path(name) for name in names})
    budgets = []
    for kind in kinds:
        for alpha in alphas:
            if kind == "selection":
                budgets.append(Selection(alpha))
            else:
                budgets.append(measured(kind, alpha, **charge))
    assert case.cell is not None
    if calibrated:
        settings["calibration"] = case.units(["validation"])
    return judge(
        case,
        scores,
        budgets,
        command="evaluate",
        units=case.units(["test"]),
        terms=case.cell.terms,
        missing_costs=case.missing_costs(scores, budgets, requested=True),
        **settings,
    )


def _comparisons() -> Iterator[Step]:
    for of in ("gain", "benefit", "harm", "area"):
        yield case("compare", of, f"compare {BRAKING} gate-ridge lost --of {of}")
    yield case("compare", "four cells", f"compare {ALL_DEMO} gate-gbm ego-speed")
    yield case(
        "compare",
        "causal",
        f"compare {BRAKING} gate-ridge@frozen-threshold lost@token-bucket",
    )


def _routers() -> Iterator[Step]:
    policies = ("frozen-threshold", "causal-cap", "adaptive-threshold", "token-bucket")
    for policy in (*policies, "replay-threshold", "conformal-harm", "best"):
        yield case(
            "threshold",
            policy,
            f"threshold {BRAKING} -s lost --alpha 0.2 --policy {policy}",
        )
    yield case(
        "threshold",
        "certified harm",
        f"threshold {BRAKING} -s lost --harm-at-most 5%",
    )
    yield case(
        "threshold",
        "router",
        f"threshold {BRAKING} -s gate-gbm --out router.json",
        "router.json",
    )
    table = f"{BRAKING}/values.parquet"
    scores = f"{BRAKING}/scores/ego-speed.csv"
    yield Step(act=_write_stream)
    yield case(
        "watch",
        "begun",
        f"watch watch.json --reference reference.csv -s {scores} --alpha 0.2",
    )
    yield case("watch", "evidence", "watch watch.json stream.csv --end")
    begin = f"--reference reference.csv -s {scores} --claim harm<=0.05"
    yield case("watch", "state", f"watch harm.json {begin}", "harm.json")
    yield case(
        "shadow",
        "plan",
        f"shadow {table} -s {scores} --units scene-00,scene-01,scene-05,scene-08 "
        "--share 0.1 --out plan.json",
        "plan.json",
    )


def _write_stream(folder: Path) -> None:
    """The scored inputs of a cell as a reference, and the same inputs with speeds."""
    import pyarrow.parquet as pq

    rows = pq.read_table(folder / BRAKING / "values.parquet").to_pylist()
    with (folder / BRAKING / "scores" / "ego-speed.csv").open() as file:
        scores = {row["input"]: row["score"] for row in csv.DictReader(file)}
    columns = ["unit", "input", *(name for name in rows[0] if name.startswith("loss_"))]
    scored = [row for row in rows if row["input"] in scores]
    _write_csv(folder / "reference.csv", columns, scored)
    streamed = [row | {"score": scores[row["input"]]} for row in reversed(scored)]
    _write_csv(folder / "stream.csv", [*columns, "score"], streamed)


def _write_csv(path: Path, columns: list[str], rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def _fits_and_scores() -> Iterator[Step]:
    for recipe in ("gate-ridge", "gate-gbm", "router-mlp-value", "router-two-head"):
        yield case(
            "fit",
            recipe,
            f"fit {BRAKING} -a {recipe} --out {recipe}.json",
            f"{recipe}.json",
        )
    for name in ("gate-ridge.json", "uncertainty", "memory", "criticality"):
        stem = name.removesuffix(".json")
        yield case(
            "score",
            stem,
            f"score {BRAKING} {name} --units all --out scored-{stem}.csv",
            f"scored-{stem}.csv",
        )
    yield case(
        "drive",
        "synthetic",
        "drive --dataset synthetic --system braking --scenes 8 --calibrate 8 "
        "--allocator random --allocator lost --alpha 0.2 --draws 100",
    )


def _board() -> Iterator[Step]:
    yield Step(act=_write_entries)
    yield case(
        "leaderboard",
        "three entries",
        "leaderboard entries --cells . --draws 200 --out board",
        "board/leaderboard.json",
    )


def _write_entries(folder: Path) -> None:
    """Submissions of three stored allocators."""
    for name in ("gate-ridge", "lost", "ego-speed"):
        entry = folder / "entries" / name
        (entry / "scores").mkdir(parents=True)
        card = f'name = "{name}"\nhandle = "lab"\n'
        card += 'inputs = ["cheap-detections", "ego"]\n'
        (entry / "card.toml").write_text(card)
        for cell in DEMO_CELLS:
            scores = folder / cell / "scores" / f"{name}.csv"
            shutil.copy(scores, entry / "scores" / f"{cell}.csv")


# --- real KITTI cells -----------------------------------------------------------------

FITTED = (
    *("transfer", "objective-swap", "published-objectives", "target-transforms"),
    *("seeds", "streams", "uniform", "gaps", "deadlines", "operating-points"),
)
"""Analyses that fit allocators on KITTI: seconds each."""
KITTI = "kitti/braking-monocular kitti/receding-horizon-monocular"


def kitti(shared: Path) -> Iterator[Step]:
    """YOLOv8s at 320 and 640 px on 439 frames, two systems; every quick analysis."""
    yield from _kitti_cells(shared)
    for name in ("gate-ridge", "ego-speed", "lost"):
        for cell in KITTI.split():
            yield Step(f"score {cell} {name}")
    for cell in KITTI.split():
        yield case("evaluate", Path(cell).name, f"evaluate {cell} --draws 200")
        yield case("diagnose", Path(cell).name, f"evaluate {cell} --diagnose")
    yield case("compare", "two cells", f"compare {KITTI} gate-ridge ego-speed")
    yield case("threshold", "lost", f"threshold {KITTI.split()[0]} -s lost")
    left_out = {"arbiter", "selection-regret"}  # no validation input is affected enough
    for name in ON_STORED_SCORES:
        if name not in left_out:
            yield analyse(name, f"{KITTI}")
    yield analyse("gallery", f"{KITTI}")
    yield analyse("targets", KITTI)
    yield analyse("ladder", "ladder/braking-monocular")
    yield analyse("capacity", "ladder/braking-monocular", "four modes")


DETECTIONS = "data/kitti_more/detections"


def _kitti_cells(shared: Path) -> Iterator[Step]:
    root = shlex.quote(str(shared / "data" / "kitti_tracking"))
    common = f"--geometry monocular --dataset kitti --root {root} --threshold 0.25 "
    common += "--costs jetson-agx-xavier"
    systems = "--system braking --system receding-horizon"
    yield Step(f"build --out kitti {systems} {common} {_modes(shared, (320, 640))}")
    sizes = _modes(shared, (320, 384, 512, 640))
    yield Step(f"build --out ladder --system braking {common} {sizes}")
    for cell in KITTI.split():
        yield Step(f"fit {cell} -a gate-ridge")


def _modes(shared: Path, sizes: tuple[int, ...]) -> str:
    folder = shared / DETECTIONS
    files = {size: shlex.quote(f"{folder}/yolov8s_{size}.parquet") for size in sizes}
    return " ".join(f"--mode yolov8s-{size}={file}" for size, file in files.items())


def kitti_fitted(shared: Path) -> Iterator[Step]:
    """The same cells; the analyses that fit allocators."""
    yield from _kitti_cells(shared)
    for name in FITTED:
        yield analyse(name, f"{KITTI}")


# --- public detections on all of KITTI ------------------------------------------------

PAIRS = {
    "kitti-CIWT-RRC": (("CIWT", "RRC"), "--scores-are CIWT=raw --threshold RRC=0.25"),
    "kitti-YOLOv3-SORT-YOLOX-SORT": (
        ("YOLOv3-SORT", "YOLOX-SORT"),
        "--scores-are none",
    ),
    "kitti-PointGNN-PointRCNN": (
        ("PointGNN", "PointRCNN"),
        "--scores-are raw --threshold PointRCNN=2.0",
    ),
}
SYSTEMS = "--geometry monocular --geometry oracle --system braking "
SYSTEMS += "--system receding-horizon"


def pair(name: str) -> Callable[[Path], Iterator[Step]]:
    """The four cells of a pair of published detections: their files alone."""
    modes, options = PAIRS[name]

    def steps(shared: Path) -> Iterator[Step]:
        root = shared / "data" / "kitti_tracking"
        words = (
            f"build --out . {SYSTEMS} --dataset kitti --root {shlex.quote(str(root))}"
        )
        for mode in modes:
            file = f"{root}/detections/{mode}.parquet"
            words += f" --mode {shlex.quote(f'{mode}={file}')}"
        yield Step(f"{words} --class Car {options}")

    return steps


# --- tables of language models and planners -------------------------------------------

FIVE = (
    "mistralai/mistral-7b-chat",
    "mistralai/mixtral-8x7b-chat",
    "zero-one-ai/Yi-34B-Chat",
    "gpt-3.5-turbo-1106",
    "gpt-4-1106-preview",
)


def _pair(_: Path) -> Any:
    """Curves, and areas between them."""
    import deepval

    scores = {"prompt_length": "pair-scores/prompt_length.parquet"}
    result = deepval.evaluate("pair.parquet", scores, curve_points=10)
    return replace(result, recovery=result.apgr())


def tables(shared: Path) -> Iterator[Step]:
    """RouteLLM (two models), RouterBench (five, with prices), NAVSIM (planners)."""
    logs = {
        "pair": f"{shared}/data/routing/routellm_mmlu_gsm8k.parquet",
        "five": f"{shared}/data/routing/routerbench_zs_winograde_train.parquet",
        "planners": f"{shared}/data/navsim/two_sided.parquet",
    }
    for name, log in logs.items():
        modes = f"--modes {','.join(FIVE)}" if name == "five" else ""
        yield case(
            "import",
            name,
            f"import {shlex.quote(log)} {modes} --out {name}.parquet "
            f"--scores-out {name}-scores",
            f"{name}.parquet",
        )
    length, speed = "pair-scores/prompt_length.parquet", "planners-scores/ego_speed_mps"
    yield Step(act=_write_router_scores)
    yield Step(golden="evaluate", case="pair", act=_pair)
    yield case("diagnose", "pair", f"evaluate pair.parquet -s {length} --diagnose")
    yield case("threshold", "pair", f"threshold pair.parquet -s {length}")
    yield case("compare", "pair", f"compare pair.parquet {length} pair-noise.csv")
    yield case(
        "deadlines",
        "pair",
        f"analyse deadlines pair.parquet -s {length} --costs times.toml",
    )
    yield case(
        "shadow",
        "pair",
        f"shadow pair.parquet -s {length} --share 0.03 --out shadow.json",
        "shadow.json",
    )
    yield case(
        "evaluate",
        "planners",
        f"evaluate planners.parquet -s {speed}.parquet planners-noise.csv --draws 200",
    )
    yield case(
        "evaluate",
        "planners by mode",
        "evaluate planners.parquet -s planners-by-mode.csv",
    )
    money = (
        "-s five-noise.csv five-by-mode.csv five-own.csv --costs free.toml --draws 200"
    )
    yield case("evaluate", "five", f"evaluate five.parquet {money} --alpha 0.1 0.3")
    yield case(
        "evaluate",
        "five skipping",
        f"evaluate five.parquet {money} --budget money --alpha 0.05 0.2 --skipping",
    )
    yield case(
        "threshold",
        "five",
        "threshold five.parquet -s five-by-mode.csv --budget money --costs free.toml "
        "--skipping --alpha 0.1",
    )
    yield case(
        "compare",
        "five",
        "compare five.parquet five-by-mode.csv five-noise.csv "
        "--budget money --costs free.toml",
    )


def _write_router_scores(folder: Path) -> None:
    """Scores, scores by mode and choices that know the values among seeded noise."""
    rng = np.random.default_rng(0)
    for name in ("pair", "planners", "five"):
        inputs, modes, values = _values(folder / f"{name}.parquet")
        noisy = values + rng.normal(size=values.shape) * values.std()
        by_mode = {f"score_{mode}": noisy[:, at] for at, mode in enumerate(modes) if at}
        chosen = rng.choice(modes, len(inputs))
        _write_columns(folder / f"{name}-noise.csv", inputs, score=noisy[:, -1])
        _write_columns(folder / f"{name}-by-mode.csv", inputs, **by_mode)
        _write_columns(folder / f"{name}-own.csv", inputs, choice=chosen)
    free = "".join(f"[allocators.five-{name}]\nusd = 0.0\n" for name in FREE)
    (folder / "free.toml").write_text(free, encoding="utf-8")
    (folder / "times.toml").write_text(TIMES, encoding="utf-8")


FREE = ("noise", "by-mode", "own")
TIMES = """
[modes.weak_mixtral_8x7b]
ms = 14.4
[modes.strong_gpt4_1106]
ms = 18.5
[allocators.prompt_length]
ms = 0.1
"""


def _values(path: Path) -> tuple[list[str], list[str], np.ndarray]:
    """Inputs, modes and values against the cheapest mode of a values file."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    names = [name for name in table.column_names if name.startswith("loss_")]
    losses = np.stack([table.column(name).to_numpy() for name in names], axis=1)
    modes = [name.removeprefix("loss_") for name in names]
    return table.column("input").to_pylist(), modes, losses[:, :1] - losses


def _write_columns(path: Path, inputs: list[str], **columns: Any) -> None:
    lists = {name: np.asarray(column).tolist() for name, column in columns.items()}
    rows = []
    for at, name in enumerate(inputs):
        rows.append({"input": name} | {column: lists[column][at] for column in lists})
    _write_csv(path, ["input", *lists], rows)


# --- the tracks, on small trees in the owners' layouts --------------------------------


def external(_shared: Path) -> Iterator[Step]:
    """nuPlan: every analysis of the track `external`."""
    yield Step(act=_write_trees)
    yield case("cells", "tracks", "cells core external --data data")
    yield case(
        "reproduce",
        "external",
        "reproduce external --data data --workers 1 --out external",
        "external/report.json",
    )


def core(_shared: Path) -> Iterator[Step]:
    """KITTI and nuScenes: every analysis of the track `core`."""
    yield Step(act=_write_trees)
    yield case(
        "reproduce",
        "core",
        "reproduce core --data data --workers 1 --out core",
        "core/report.json",
    )


def _write_trees(folder: Path) -> None:
    """The small trees of the tests."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    paths = settings["tool"]["pytest"]["ini_options"]["pythonpath"]
    sys.path[:0] = [str(ROOT / path) for path in paths]
    import track_trees

    track_trees.write_data(folder / "data")


KITTI_FOLDERS = ("kitti_tracking", "kitti_more")
WORLDS = {
    world.name: world
    for world in (
        World("demo", demo, cells=DEMO_CELLS),
        World("kitti", kitti, KITTI_FOLDERS, cells=tuple(KITTI.split())),
        World("kitti-fitted", kitti_fitted, KITTI_FOLDERS, slow=True),
        World("tables", tables, ("routing", "navsim")),
        World("external", external, cells=("deepval-work/cells/*",)),
        World("core", core, slow=True, cells=("deepval-work/cells/*",)),
        *(
            World(
                name, pair(name), ("kitti_tracking",), name != "kitti-CIWT-RRC", ("*",)
            )
            for name in PAIRS
        ),
    )
}
