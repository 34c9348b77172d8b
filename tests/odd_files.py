"""Files of every kind that the package reads, each with a way to alter it and its reader."""

import json
import pickle
import random
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

import argoverse_files
import external_worlds
from deepval.datasets import nuscenes
from deepval.datasets.logs.argoverse import Argoverse2
from deepval.datasets.logs.nuplan import Nuplan
from deepval.datasets.logs.scenarionet import ScenarioNet
from deepval.datasets.logs.waymo import Waymo
from deepval.datasets.nuscenes import NuScenes
from deepval.errors import InputError
from mutations import mutate_database, mutated, mutated_table, mutated_text

LONGEST_S = 60
"""A reader that takes longer with a small file has gone wrong."""


class Subject(NamedTuple):
    """A file, a function that writes it with a change and describes the change, and a function that reads it."""

    name: str
    path: Path
    change: Callable[[random.Random], str]
    read: Callable[[], object]


class Trial(NamedTuple):
    """What was changed, and what a reader raised beside its own errors; None where nothing."""

    change: str
    crash: str | None
    refused: bool


def trials(subject: Subject, *, times: int, seed: int | str) -> Iterator[Trial]:
    """A reader's answers to so many changes of its file, which is restored after each."""
    rng, original = random.Random(seed), subject.path.read_bytes()
    assert _answer(subject.read) == (None, False), f"{subject.name} is refused as it is"
    for _ in range(times):
        try:
            change = subject.change(rng)
            yield Trial(change, *_answer(subject.read))
        finally:
            subject.path.write_bytes(original)


def _answer(read: Callable[[], object]) -> tuple[str | None, bool]:
    try:
        with warnings.catch_warnings(), _limited(LONGEST_S):
            warnings.simplefilter("ignore")
            read()
    except InputError as error:
        sentence = str(error)
        return (None if sentence and sentence.isprintable() else f"no sentence: {sentence[:200]!r}"), True
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "deepval" in frame.filename]
        where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[::-1][:4])
        return f"{type(error).__name__}: {str(error)[:200]} ({where})", False
    return None, False


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def json_subject(
    name: str, path: Path, read: Callable[[], object], *, seal: Callable[[Any], str] = json.dumps
) -> Subject:
    """A JSON file with one value changed; `seal` turns the content into the file's text."""
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
    """A Parquet or Feather file with one column, type, cell or set of rows changed."""
    parquet = path.suffix == ".parquet"
    table = pq.read_table(path) if parquet else feather.read_table(path)

    def change(rng: random.Random) -> str:
        changed, what = mutated_table(table.to_pydict(), rng)
        try:
            (pq.write_table if parquet else feather.write_feather)(changed, str(path))
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
        np.savez(
            path,
            **{
                str(key): np.asarray(value) if np.ndim(value) < 2 or isinstance(value, np.ndarray) else np.zeros(3)
                for key, value in changed.items()
            },
        )
        return what

    return Subject(name, path, change, read)


def drive_subjects(home: Path) -> list[Subject]:
    """Files of logged drives: Argoverse 2, nuPlan, ScenarioNet, Waymo, nuScenes."""
    from test_nuscenes import expansion, tables

    scenario = argoverse_files.write_scenario(home / "av2")
    sensor = argoverse_files.write_sensor_log(home / "av2s")
    nuplan = external_worlds.nuplan(home / "nuplan")
    net = external_worlds.scenarionet(home / "net")
    waymo = external_worlds.waymo(home / "waymo")
    tables(home / "nuscenes" / "v1.0-mini")
    (home / "nuscenes" / "maps" / "expansion").mkdir(parents=True)
    road = expansion() | {"connectivity": {"a": {"incoming": [], "outgoing": ["b"]}}}
    road["arcline_path_3"] |= {"a": [{"start_pose": [100.0, 200.0, 0.5], "end_pose": None, "shape": "LSR",
                                      "radius": 9.0, "segment_length": [0.0, 60.0, 0.0]}]}  # fmt: skip
    (home / "nuscenes" / "maps" / "expansion" / "here.json").write_text(json.dumps(road))

    def read(dataset: Callable[[], Any]) -> Callable[[], object]:
        def all_of() -> object:
            nuscenes._tables.cache_clear()
            nuscenes._lane_map.cache_clear()
            data = dataset()
            unit = data.unit_ids()[0]
            return data.files(unit), data.beside(unit), data.read_unit(unit)

        return all_of

    av2, av2s = read(lambda: Argoverse2(home / "av2")), read(lambda: Argoverse2(home / "av2s"))
    np_, scenes = read(lambda: Nuplan(nuplan)), read(lambda: NuScenes(home / "nuscenes"))
    return [
        json_subject("argoverse map", next(scenario.glob("*.json")), av2),
        table_subject("argoverse scenario", next(scenario.glob("*.parquet")), av2),
        json_subject("argoverse sensor map", next((sensor / "map").glob("*.json")), av2s),
        *(
            table_subject(f"argoverse {path.stem}", path, av2s)
            for path in (*sorted(sensor.glob("*.feather")), *sorted((sensor / "calibration").glob("*.feather")))
        ),
        database_subject("nuplan log", next(nuplan.rglob("*.db")), np_),
        database_subject("nuplan map", next(nuplan.rglob("*.gpkg")), np_),
        json_subject("nuplan map index", next((nuplan / "maps").glob("*.json")), np_),
        pickle_subject("scenarionet", sorted(net.glob("*.pkl"))[0], read(lambda: ScenarioNet(net))),
        json_subject("waymo", waymo / "w0.json", read(lambda: Waymo(waymo))),
        *(
            json_subject(f"nuscenes {path.stem}", path, scenes)
            for path in sorted((home / "nuscenes" / "v1.0-mini").glob("*.json"))
        ),
        json_subject("nuscenes map", home / "nuscenes" / "maps" / "expansion" / "here.json", scenes),
    ]
