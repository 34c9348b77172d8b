"""Names of scenarios -> the scenes of nuPlan's logs to read.

A choice is `sample:N` (a fixed rule for N scenarios), `type:NAME` (all scenarios with a
sweep of that tag) or tokens, of a scene or of any of its sweeps. The rule: logs in the
order of SHA-256("deepval:nuplan:" + name of the log), of each the two scenarios of the
lowest SHA-256("deepval:nuplan:" + token), until there are N. Only scenarios that are
long enough for 24 states count, and, if there is a folder of sensor data, only logs
with front pictures.
"""

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from deepval.basics.errors import InputError, InputWarning
from deepval.basics.files import reading
from deepval.basics.files.canonical import sha256
from deepval.driving.datasets.logs.geopackage import Database, open_database

LEAST_SWEEPS = 127
"""Sweeps of the shortest scenario with 24 states: 64 steps, every second sweep."""
PER_LOG = 2
"""Scenarios of a log in a sample: 60 come from 30 logs, nine of which are test logs, as
in the paper.
"""
TOKEN = re.compile("[0-9a-f]{16}")


def logs_below(root: Path | str) -> dict[str, Path]:
    """The file of each log below a folder, by its name."""
    paths: dict[str, Path] = {}
    for folder, inner, files in os.walk(root):
        # These folders hold no logs, but millions of pictures and point clouds: do not
        # walk them.
        inner[:] = sorted(set(inner) - {"sensor_blobs", "maps"})
        for path in (
            Path(folder) / name for name in sorted(files) if name.endswith(".db")
        ):
            if path.stem in paths:
                raise InputError(
                    f"each nuPlan log must be there once; {path.stem} is at "
                    f"{paths[path.stem]} and {path}: give the folder of one split, "
                    "with maps in it."
                )
            paths[path.stem] = path
    return paths


def is_choice(names: Sequence[str]) -> bool:
    """Whether names choose scenarios; names of logs do not.

    Raises if some do and others do not.
    """
    is_choosing = [
        name.startswith(("sample:", "type:")) or TOKEN.fullmatch(name) is not None
        for name in names
    ]
    if any(is_choosing) and not all(is_choosing):
        other = names[is_choosing.index(False)]
        raise InputError(
            "--units must be names of logs or a choice of scenarios, "
            f"not both; found {other!r} too."
        )
    return any(is_choosing)


@lru_cache(maxsize=4)
def chosen_scenes(
    root: Path, names: tuple[str, ...], pictures: Path | None
) -> Mapping[str, frozenset[str]]:
    """Tokens of the chosen scenes, by the name of their log."""
    paths = logs_below(root)
    samples = [name for name in names if name.startswith("sample:")]
    if samples:
        number = samples[0].removeprefix("sample:")
        if len(names) > 1 or not number.isdecimal() or int(number) < 1:
            raise InputError(
                "a sample must be given alone, "
                f"as sample:60; found {','.join(names)!r}."
            )
        return _sample(paths, int(number), pictures)
    types = frozenset(
        name.removeprefix("type:") for name in names if name.startswith("type:")
    )
    tokens = frozenset(
        bytes.fromhex(name) for name in names if not name.startswith("type:")
    )
    chosen, missing = {}, set(tokens)
    for log, path in paths.items():
        with open_database(path, what="a nuPlan log") as database:
            long = _long_scenes(database)
            scenes = set()
            for sweep, scene in _sweeps(database) if tokens else ():
                if tokens & {sweep, scene}:
                    scenes.add(scene)
                    missing -= {sweep, scene}
            short = scenes - long
            if short:
                raise InputError(
                    f"{path}: a chosen scenario must have {LEAST_SWEEPS} sweeps or "
                    f"more, for 24 states; {min(short).hex()} has fewer: leave it out."
                )
            scenes |= _tagged(database, types) & long if types else set()
        if scenes:
            chosen[log] = frozenset(scene.hex() for scene in scenes)
    if missing or not chosen:
        what = (
            f"token {min(missing).hex()}"
            if missing
            else f"a scenario of type {', '.join(sorted(types))}"
        )
        raise InputError(
            "chosen scenarios must be in the logs below "
            f"{root}; {what} is in none of {len(paths)}."
        )
    return chosen


def _sample(
    paths: Mapping[str, Path], number: int, pictures: Path | None
) -> dict[str, frozenset[str]]:
    chosen: dict[str, frozenset[str]] = {}
    left = number
    for log in sorted(paths, key=_rank):
        if not left:
            break
        if pictures is not None and not reading.is_folder(pictures / log / "CAM_F0"):
            continue
        with open_database(paths[log], what="a nuPlan log") as database:
            scenes = sorted(
                (scene.hex() for scene in _long_scenes(database)), key=_rank
            )[: min(PER_LOG, left)]
        if scenes:
            chosen[log] = frozenset(scenes)
            left -= len(scenes)
    if not chosen:
        raise InputError(
            "a sample must have logs with scenarios of 24 states; none of "
            f"{len(paths)} logs has one."
        )
    if left:
        warnings.warn(
            f"the sample has {number - left} of {number} scenarios: at most {PER_LOG} "
            f"of each of {len(chosen)} logs.",
            InputWarning,
            stacklevel=2,
        )
    return chosen


def _rank(name: str) -> str:
    return sha256(f"deepval:nuplan:{name}".encode())


def _long_scenes(database: Database) -> set[bytes]:
    """Tokens of the scenes that have states."""
    database.require({"lidar_pc": ("token", "scene_token")})
    query = "SELECT scene_token FROM lidar_pc GROUP BY scene_token HAVING COUNT(*) >= ?"
    return {
        scene
        for (scene,) in database.rows(query, (LEAST_SWEEPS,))
        if isinstance(scene, bytes)
    }


def _sweeps(database: Database) -> list[tuple[bytes, bytes]]:
    rows = database.rows("SELECT token, scene_token FROM lidar_pc")
    return [
        (sweep, scene)
        for sweep, scene in rows
        if isinstance(sweep, bytes) and isinstance(scene, bytes)
    ]


def _tagged(database: Database, types: frozenset[str]) -> set[bytes]:
    """Tokens of the scenes with a sweep that has one of the tags."""
    database.require({"scenario_tag": ("lidar_pc_token", "type")})
    tagged = {
        sweep
        for sweep, kind in database.rows(
            "SELECT lidar_pc_token, type FROM scenario_tag"
        )
        if kind in types
    }
    return {scene for sweep, scene in _sweeps(database) if sweep in tagged}
