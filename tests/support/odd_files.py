"""Files of every kind that the package reads, each with a way to alter it and its
reader.
"""

import json
import pickle
import random
import shutil
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import deepval
import external_worlds
from commands import run
from deepval.basics.errors import InputError
from deepval.basics.files.canonical import json_text, sha256
from deepval.basics.files.writing import npz_bytes
from deepval.deploy.allocators import read_allocator
from deepval.deploy.allocators.allocator import file_text
from deepval.deploy.board.submission_files import read_folder
from deepval.deploy.board.submissions import read_history, wanted
from deepval.deploy.board.tracks import read_cells
from deepval.deploy.fitting import fit_on, refit, score_on, sights_of
from deepval.driving.cells.explorer import pictures
from deepval.driving.cells.folder import read_cell
from deepval.driving.cells.sources import read_specification
from deepval.driving.cells.view_files import read_frames
from deepval.driving.datasets import kitti, nuscenes
from deepval.driving.datasets.logs.nuplan import Nuplan
from deepval.driving.datasets.logs.scenarionet import ScenarioNet
from deepval.driving.datasets.nuscenes import NuScenes
from deepval.driving.perception import profile
from deepval.driving.perception.reported.detection_files import open_detections
from deepval.driving.perception.running.onnx_model import OnnxModel, class_names
from deepval.driving.planners.neural.planner import masks_of, read_file, weights_of
from deepval.judge.report import html
from deepval.judge.report.forms import FORMS
from deepval.judge.routing import read_routing
from deepval.judge.tables.split import read_split
from fault_worlds import write_fault_world
from fuzzed import changed
from in_memory import over
from kitti_files import write_kitti
from mutations import mutate_database, mutated, mutated_table, mutated_text
from protocol_worlds import toml
from train_planner import masks_bytes
from worlds import judge, random_table

LONGEST_S = 60
"""CPU seconds; a reader that takes longer with a small file has gone wrong."""


class Subject(NamedTuple):
    """A file, what writes it with a change and describes the change, what reads it, and
    what follows its return.
    """

    name: str
    path: Path
    change: Callable[[random.Random], str]
    read: Callable[[], object]
    restored: Callable[[], object] = lambda: None


class Trial(NamedTuple):
    """What was changed, and what a reader raised beside its own errors; None where
    nothing.
    """

    change: str
    crash: str | None
    refused: bool


def trials(subject: Subject, *, times: int, seed: int | str) -> Iterator[Trial]:
    """A reader's answers to so many changes of its file, which is restored after
    each.
    """
    rng, original = random.Random(seed), subject.path.read_bytes()
    assert _answer(subject.read) == (None, False), f"{subject.name} is refused as it is"
    for _ in range(times):
        try:
            change = subject.change(rng)
            yield Trial(change, *_answer(subject.read))
        finally:
            subject.path.write_bytes(original)
            subject.restored()


def _answer(read: Callable[[], object]) -> tuple[str | None, bool]:
    try:
        with warnings.catch_warnings(), _limited(LONGEST_S):
            warnings.simplefilter("ignore")
            read()
    except InputError as error:
        sentence = str(error)
        return (
            None
            if sentence and sentence.isprintable()
            else f"no sentence: {sentence[:200]!r}"
        ), True
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if "deepval" in frame.filename
        ]
        where = " < ".join(
            f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[::-1][:4]
        )
        return f"{type(error).__name__}: {str(error)[:200]} ({where})", False
    return None, False


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s of CPU time")

    # of CPU time, so that a busy machine changes nothing
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def json_subject(
    name: str,
    path: Path,
    read: Callable[[], object],
    *,
    seal: Callable[[Any], str] = json.dumps,
) -> Subject:
    """A JSON file with one value changed; `seal` turns the content into the file's
    text.
    """
    content = json.loads(path.read_text(encoding="utf-8"))

    def change(rng: random.Random) -> str:
        changed, what = mutated(content, rng)
        path.write_text(seal(changed), encoding="utf-8", errors="surrogatepass")
        return what

    return Subject(name, path, change, read)


def text_subject(name: str, path: Path, read: Callable[[], object]) -> Subject:
    """A text file with one word or line changed."""
    text = path.read_text(encoding="utf-8")

    def change(rng: random.Random) -> str:
        changed, what = mutated_text(text, rng)
        path.write_text(changed, encoding="utf-8")
        return what

    return Subject(name, path, change, read)


def table_subject(name: str, path: Path, read: Callable[[], object]) -> Subject:
    """A Parquet file with one column, type, cell or set of rows changed."""
    table = pq.read_table(path)

    def change(rng: random.Random) -> str:
        changed, what = mutated_table(table.to_pydict(), rng)
        try:
            pq.write_table(changed, path)
        except (pa.ArrowException, ValueError):  # Parquet has no such type
            pq.write_table(table.slice(0, 0), path)
        return what

    return Subject(name, path, change, read)


def database_subject(name: str, path: Path, read: Callable[[], object]) -> Subject:
    """An SQLite file changed by statements."""
    return Subject(name, path, lambda rng: mutate_database(path, rng), read)


def pickle_subject(name: str, path: Path, read: Callable[[], object]) -> Subject:
    """A pickle of containers and arrays with one value changed."""
    content = pickle.loads(path.read_bytes())

    def change(rng: random.Random) -> str:
        changed, what = mutated(content, rng)
        path.write_bytes(pickle.dumps(changed, protocol=rng.choice((2, 4, 5))))
        return what

    return Subject(name, path, change, read)


def npz_subject(name: str, path: Path, read: Callable[[], object]) -> Subject:
    """An archive of arrays with one array changed."""
    with np.load(path) as archive:
        content = dict(archive)

    def change(rng: random.Random) -> str:
        changed, what = mutated(content, rng)
        arrays = {
            str(key): value if isinstance(value, np.ndarray) else _array(value)
            for key, value in changed.items()
        }
        path.write_bytes(
            npz_bytes(
                {
                    key: array
                    for key, array in arrays.items()
                    if not array.dtype.hasobject
                }
            )
        )
        return what

    return Subject(name, path, change, read)


def _array(value: Any) -> np.ndarray:
    with suppress(ValueError):
        return np.asarray(value)
    return np.zeros(3)


def drive_subjects(home: Path) -> list[Subject]:
    """Files of logged drives: nuPlan, ScenarioNet, nuScenes."""
    from test_nuscenes import expansion, tables

    nuplan = external_worlds.nuplan(home / "nuplan")
    net = external_worlds.scenarionet(home / "net")
    tables(home / "nuscenes" / "v1.0-mini")
    (home / "nuscenes" / "maps" / "expansion").mkdir(parents=True)
    road = expansion() | {"connectivity": {"a": {"incoming": [], "outgoing": ["b"]}}}
    road["arcline_path_3"] |= {
        "a": [
            {
                "start_pose": [100.0, 200.0, 0.5],
                "end_pose": None,
                "shape": "LSR",
                "radius": 9.0,
                "segment_length": [0.0, 60.0, 0.0],
            }
        ]
    }
    (home / "nuscenes" / "maps" / "expansion" / "here.json").write_text(
        json.dumps(road)
    )

    def read(dataset: Callable[[], Any]) -> Callable[[], object]:
        def all_of() -> object:
            nuscenes._tables.cache_clear()
            nuscenes._lane_map.cache_clear()
            data = dataset()
            unit = data.unit_ids()[0]
            return data.files(unit), data.beside(unit), data.read_unit(unit)

        return all_of

    np_, scenes = (
        read(lambda: Nuplan(nuplan)),
        read(lambda: NuScenes(home / "nuscenes")),
    )
    return [
        database_subject("nuplan log", next(nuplan.rglob("*.db")), np_),
        database_subject("nuplan map", next(nuplan.rglob("*.gpkg")), np_),
        json_subject("nuplan map index", next((nuplan / "maps").glob("*.json")), np_),
        pickle_subject(
            "scenarionet", sorted(net.glob("*.pkl"))[0], read(lambda: ScenarioNet(net))
        ),
        *(
            json_subject(f"nuscenes {path.stem}", path, scenes)
            for path in sorted((home / "nuscenes" / "v1.0-mini").glob("*.json"))
        ),
        json_subject(
            "nuscenes map",
            home / "nuscenes" / "maps" / "expansion" / "here.json",
            scenes,
        ),
    ]


def in_cell(subject: Subject) -> Subject:
    """A file of a cell, whose manifest tells of the changed file's hash as if it had
    been built so.
    """
    folder = next(
        path for path in subject.path.parents if (path / "manifest.json").is_file()
    )
    manifest, name = (
        folder / "manifest.json",
        subject.path.relative_to(folder).as_posix(),
    )
    content = json.loads(manifest.read_text(encoding="utf-8"))

    def seal() -> None:
        content["files"][name] = sha256(subject.path.read_bytes())
        manifest.write_text(
            json_text(content, sort_keys=True, ensure_ascii=True), encoding="utf-8"
        )

    def change(rng: random.Random) -> str:
        what = subject.change(rng)
        seal()
        return what

    return Subject(
        f"{subject.name} of a cell", subject.path, change, subject.read, seal
    )


def command(*words: object) -> Callable[[], object]:
    """A reader that runs the command in this process."""

    def read() -> object:
        done = run(*words)
        if done.code == 2:
            raise InputError(
                done.err.strip().splitlines()[-1] if done.err.strip() else ""
            )
        assert done.code in (0, 1), f"exit code {done.code}: {done.err[-300:]}"
        return done

    return read


def table_subjects(home: Path) -> list[Subject]:
    """Losses, scores, terms and costs, read whole and piece by piece; results; router
    logs; routers' files.
    """
    home.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    count = 24
    ids = [f"i{n}" for n in range(count)]
    losses = {
        f"loss_{mode}": rng.integers(0, 9, count).astype(float).tolist()
        for mode in ("s", "m", "l")
    }
    table = {
        "unit": [f"u{n // 4}" for n in range(count)],
        "input": ids,
        "order": list(range(count)),
        **losses,
    }
    table |= {
        f"usd_{mode}": (n + rng.uniform(1, 2, count)).tolist()
        for n, mode in enumerate(("s", "m", "l"))
    }
    table |= {"kind": [("x", "y")[n % 2] for n in range(count)]}
    long = {
        name: table[name] for name in ("unit", "input", "order", "loss_s", "loss_l")
    }
    scores = {"input": ids, "score": rng.normal(size=count).tolist()}
    per_mode = {
        "input": ids,
        "score_m": rng.normal(size=count).tolist(),
        "score_l": rng.normal(size=count).tolist(),
    }
    for name, columns in (
        ("values", table),
        ("scores", scores),
        ("modes", per_mode),
        ("long", long),
    ):
        pq.write_table(pa.table(columns), home / f"{name}.parquet")
        rows = zip(*columns.values(), strict=True)
        lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
        (home / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    modes = {mode: {"ms": 5.0 + n, "mj": 1.0 + n} for n, mode in enumerate(("s", "l"))}
    costs = {"modes": modes, "allocators": {"scores": {"ms": 0.5, "mj": 1.0}}}
    (home / "costs.toml").write_text(toml(costs), encoding="utf-8")

    paid = {"allocators": {name: {"usd": 0.1} for name in ("x", "y")}}

    def whole(ending: str) -> Callable[[], object]:
        def read() -> object:
            scores = {"x": home / f"scores{ending}", "y": home / f"modes{ending}"}
            budgets = [0.2, deepval.Money(0.5, paid)]
            options = {"by": "kind", "calibration": ["u0"], "draws": 5}
            return FORMS["markdown"](
                deepval.evaluate(home / f"values{ending}", scores, budgets, **options)
            )

        return read

    def pieces() -> object:
        scores = {"x": home / "scores.parquet"}
        return deepval.evaluate(home / "long.parquet", scores, [0.2], draws=5, memory=0)

    words = (
        "evaluate",
        home / "long.parquet",
        "-s",
        home / "scores.parquet",
        "--draws",
        5,
    )
    charged = command(*words, "--costs", home / "costs.toml")
    router = home / "router.json"
    assert (
        run(
            "threshold",
            home / "values.csv",
            "-s",
            home / "scores.csv",
            "--alpha",
            0.2,
            "--out",
            router,
            notes=True,
        ).code
        == 0
    )
    rows = [
        {
            "global index": f"a_{i}",
            "prompt": "x",
            "prediction": model,
            "cost": 0.1 * len(model),
            "accuracy": i % 2,
        }
        for model in ("big", "small")
        for i in range(4)
    ]
    (home / "log.json").write_text(json.dumps(rows), encoding="utf-8")
    wide = {
        "sample_id": ["a", "b"],
        "prompt": ["p", "q"],
        "eval_name": ["e", "e"],
        "big": [1.0, 0.0],
        "small": [0.0, 0.5],
    }
    wide |= {"big|total_cost": [0.2, 0.2], "small|total_cost": [0.1, 0.1]}
    pq.write_table(pa.table(wide), home / "wide.parquet")
    out = home / "imported.csv"
    return [
        *(
            table_subject(f"{name} whole", home / f"{name}.parquet", whole(".parquet"))
            for name in ("values", "scores", "modes")
        ),
        *(
            table_subject(f"{name} in pieces", home / f"{name}.parquet", pieces)
            for name in ("long", "scores")
        ),
        *(
            text_subject(f"{name} as text", home / f"{name}.csv", whole(".csv"))
            for name in ("values", "scores", "modes")
        ),
        table_subject(
            "scores of a command",
            home / "scores.parquet",
            command(*words),
        ),
        text_subject("costs", home / "costs.toml", charged),
        json_subject("router", router, lambda: read_routing(router)),
        json_subject(
            "router log",
            home / "log.json",
            command("import", home / "log.json", "--out", out),
        ),
        table_subject(
            "wide router log",
            home / "wide.parquet",
            command("import", home / "wide.parquet", "--out", out),
        ),
    ]


def cell_subjects(home: Path) -> list[Subject]:
    """Files of a cell with hashes that fit, allocators fitted on it with hashes that
    fit, frames with pictures.
    """
    write_fault_world(home)
    cell = home / "cells" / "braking-monocular"
    fitted = {}
    for name in ("gate-ridge", "gate-gbm", "router-mlp-value", "router-recall"):
        fitted[name] = home / f"{name}.json"
        assert run("fit", cell, "-a", name, "--out", fitted[name]).code == 0

    def used() -> object:
        built = read_cell(cell)
        score = score_on(built, fitted["gate-ridge"])
        parts = (
            built.spec,
            built.table,
            built.terms,
            built.evidence,
            built.split,
            built.views,
            sights_of(built),
        )
        fit_on(built, "gate-ridge")
        return parts, score

    frames = home / "f" / "frames.json"
    frames.parent.mkdir()
    content = json.loads((cell / "frames.json").read_text(encoding="utf-8"))
    content["frames"] = content["frames"][:2]
    frames.write_text(json.dumps(content), encoding="utf-8")
    table = random_table(np.random.default_rng(0), inputs=12, units=3)
    result = judge(table, {"mine": np.arange(12.0)}, [deepval.Selection(0.2)], draws=10)
    result.save(home / "r.json", samples=True)

    def page() -> object:
        shown = read_frames(frames)
        return html.render(
            {"cell": result},
            {"cell": shown},
            images=pictures(shown, root=home / "images"),
        )

    def sealed(content: Any) -> str:
        if not isinstance(content, dict):
            return json.dumps(content)
        body = {
            key: value
            for key, value in content.items()
            if key not in ("format", "version", "sha256")
        }
        with suppress(ValueError, TypeError):
            return file_text(body)
        return json.dumps(content)

    def refitted(path: Path) -> Callable[[], object]:
        def read() -> object:
            made = read_allocator(path)
            built = read_cell(cell)
            return score_on(built, made), refit(built, made)

        return read

    views = sorted(path for path in (cell / "view").rglob("*") if path.is_file())
    kinds = {".json": json_subject, ".parquet": table_subject, ".npz": npz_subject}
    return [
        *(
            in_cell(kinds[path.suffix](path.relative_to(cell).as_posix(), path, used))
            for path in (
                *sorted(cell.glob("*.parquet")),
                cell / "split.json",
                cell / "frames.json",
                *views[:6],
            )
            if path.suffix in kinds
        ),
        json_subject("manifest", cell / "manifest.json", used),
        *(
            json_subject(f"{name} sealed again", path, refitted(path), seal=sealed)
            for name, path in fitted.items()
        ),
        json_subject(
            "exported",
            fitted["gate-gbm"],
            command("export", cell, fitted["gate-gbm"], "--out", home / "g.onnx"),
            seal=sealed,
        ),
        json_subject(
            "fit --like",
            fitted["gate-ridge"],
            command(
                "fit",
                cell,
                "--like",
                fitted["gate-ridge"],
                "--out",
                home / "again.json",
            ),
            seal=sealed,
        ),
        json_subject("frames with pictures", frames, page),
        json_subject(
            "frames as figures",
            frames,
            command(
                "report",
                home / "r.json",
                "--frames",
                frames,
                "--figures",
                home / "figures",
            ),
        ),
        json_subject(
            "report --frames --images",
            frames,
            command(
                "report",
                home / "r.json",
                "--frames",
                frames,
                "--images",
                "--out",
                home / "page.html",
            ),
        ),
        json_subject(
            "result",
            home / "r.json",
            command("report", home / "r.json", "--out", home / "page.html"),
        ),
        npz_subject(
            "samples",
            home / "r.samples.npz",
            lambda: deepval.Result.load(home / "r.json"),
        ),
        text_subject(
            "split of a command",
            cell / "split.json",
            lambda: read_split(cell / "split.json"),
        ),
    ]


def other_subjects(home: Path) -> list[Subject]:
    """Detections of each format, KITTI, submissions, boards, plans, specifications,
    profiles, planners, pictures.
    """
    from learned_worlds import fan, small_weights

    write_fault_world(home)
    write_kitti(home)
    training = home / "kitti_tracking" / "training"
    scenes = [kitti.read_unit(training, "0000")[0]]
    boxes = pq.read_table(home / "large.parquet").to_pydict()
    rows = zip(
        boxes["unit"],
        boxes["frame"],
        boxes["x1"],
        boxes["y1"],
        boxes["score"],
        strict=True,
    )
    coco = [
        {
            "image_id": f"{u}/{f:06d}",
            "category_id": 3,
            "bbox": [x, y, 9.0, 9.0],
            "score": s,
        }
        for u, f, x, y, s in rows
    ]
    images = [{"id": n, "file_name": f"0000/{n:06d}.png"} for n in range(8)]
    box = {
        "translation": [1.0, 2.0, 1.0],
        "size": [2.0, 4.0, 1.6],
        "rotation": [1.0, 0.0, 0.0, 0.0],
    }
    box |= {"velocity": [0.0, 1.0], "detection_name": "car", "detection_score": 0.5}
    content = {
        "coco.json": coco,
        "named.json": [
            row | {"image_id": row["image_id"][-1:], "category_id": 1}
            for row in coco[:8]
        ],
        "annotations.json": {
            "images": images,
            "categories": [{"id": 1, "name": "car"}],
        },
        "nuscenes.json": {
            "meta": {},
            "results": {str(frame): [box] for frame in scenes[0].frame_ids},
        },
        "units.json": ["car", "person"],
    }
    for row in content["named.json"]:
        row["image_id"] = int(row["image_id"])
    for name, part in content.items():
        (home / name).write_text(json.dumps(part), encoding="utf-8")
    (home / "text").mkdir()
    label = (training / "label_02" / "0000.txt").read_text(encoding="utf-8")
    (home / "text" / "0000.txt").write_text(
        label.replace("\n", " 0.5\n"), encoding="utf-8"
    )
    for words in (
        (
            "detect",
            home / "images",
            "-w",
            home / "tiny.onnx",
            "--size",
            64,
            "--samples",
            0,
            "--out",
            home / "cache",
        ),
        (
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
        ),
    ):
        done = run(*words)
        assert done.code == 0, done.err
    cache = next(path for path in (home / "cache").iterdir() if path.is_dir())
    told = wanted(read_cells(home / "cells"))
    spec = {
        "dataset": "synthetic",
        "geometry": "monocular",
        "system": "braking",
        "scenes": 4,
        "frames": 4,
    }
    (home / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    (home / "spec.toml").write_text(toml(spec), encoding="utf-8")
    weights, masks = home / "weights.npz", home / "masks.npz"
    weights.write_bytes(npz_bytes(dict(small_weights().arrays)))
    masks.write_bytes(masks_bytes(fan()))
    shutil.copy(
        Path(profile.__file__).parent / "profiles" / f"{profile.DEFAULT}.toml",
        home / "profile.toml",
    )

    def found(name: str, **options: Any) -> Callable[[], object]:
        return lambda: over(open_detections(home / name, **options), scenes)

    def submitted() -> object:
        return read_folder(home / "subs" / "s1", told)

    unit = lambda: kitti.read_unit(training, "0000")  # noqa: E731
    planner = lambda: (  # noqa: E731
        weights_of(read_file(weights, "weights")),
        masks_of(read_file(masks, "masks")),
    )
    picture = next((home / "images").rglob("*.png"))

    no_model = object.__new__(OnnxModel)  # names in a file need nothing of it

    def perceived() -> object:
        shutil.rmtree(home / "c2", ignore_errors=True)
        return command(*words)()

    words = (
        "detect",
        home / "images",
        "-w",
        home / "tiny.onnx",
        "--size",
        64,
        "--samples",
        0,
        "--out",
        home / "c2",
    )
    return [
        table_subject("detections", home / "large.parquet", found("large.parquet")),
        json_subject("coco results", home / "coco.json", found("coco.json")),
        json_subject(
            "coco results with names",
            home / "named.json",
            found("named.json", annotations=home / "annotations.json"),
        ),
        json_subject(
            "coco annotations",
            home / "annotations.json",
            found("named.json", annotations=home / "annotations.json"),
        ),
        json_subject(
            "nuscenes results", home / "nuscenes.json", found("nuscenes.json")
        ),
        text_subject("kitti results", home / "text" / "0000.txt", found("text")),
        json_subject(
            "detection cache",
            home / "cache" / "manifest.json",
            lambda: open_detections(cache),
        ),
        *(
            text_subject(f"kitti {part}", training / part / "0000.txt", unit)
            for part in ("label_02", "calib", "poses")
        ),
        text_subject("card", home / "subs" / "s1" / "card.toml", submitted),
        text_subject(
            "submission",
            home / "subs" / "s1" / "scores" / "braking-monocular.csv",
            submitted,
        ),
        json_subject(
            "history",
            home / "board" / "history.json",
            lambda: read_history(home / "board"),
        ),
        json_subject(
            "specification in JSON",
            home / "spec.json",
            lambda: read_specification(home / "spec.json"),
        ),
        text_subject(
            "specification in TOML",
            home / "spec.toml",
            lambda: read_specification(home / "spec.toml"),
        ),
        npz_subject("planner weights", weights, planner),
        npz_subject("planner masks", masks, planner),
        text_subject(
            "profile",
            home / "profile.toml",
            lambda: profile.read_profile(home / "profile.toml"),
        ),
        json_subject(
            "class names",
            home / "units.json",
            lambda: class_names(no_model, home / "units.json"),
        ),
        bytes_subject("picture", picture, perceived),
        bytes_subject("onnx", home / "tiny.onnx", perceived),
    ]


def bytes_subject(name: str, path: Path, read: Callable[[], object]) -> Subject:
    """A file of any kind with some of its bytes changed."""
    data = path.read_bytes()

    def change(rng: random.Random) -> str:
        path.write_bytes(changed(data, rng))
        return "bytes"

    return Subject(name, path, change, read)
