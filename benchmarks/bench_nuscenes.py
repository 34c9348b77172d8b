"""Tables as large as those of nuScenes v1.0-trainval: peak memory and time of the first
and of a later reading.

Run: python benchmarks/bench_nuscenes.py. The tables are made here, in the published
columns: 850 scenes of 43 keyframes, 12 sensors, 2.6 million rows of sample_data and
ego_pose, 1.2 million annotations. Each reading is a process of its own that reads ten
scenes.
"""

import json
import tempfile
from pathlib import Path

from figures import Figure, finish, run_alone

KEYFRAMES, SENSORS = 43, 12
READ = """
import os, sys
os.environ["DEEPVAL_CACHE"] = sys.argv[2]
from deepval.driving.datasets import nuscenes, nuscenes_store
nuscenes_store.ENOUGH = int(sys.argv[3])
data = nuscenes.NuScenes(sys.argv[1])
units = data.unit_ids()[:: max(len(data.unit_ids()) // 10, 1)][:10]
print(sum(len(truth) for _, truth in map(data.read_unit, units)))
"""


def token(kind: str, number: int) -> str:
    """A token as long as the published ones."""
    return f"{kind:>8}{number:024d}".replace(" ", "0")


def write(path: Path, rows) -> None:
    """A table, one row after the other."""
    with path.open("w") as file:
        file.write("[")
        for number, row in enumerate(rows):
            file.write((",\n" if number else "\n") + json.dumps(row, indent=0))
        file.write("\n]")


def sweeps(scenes: int, between: int):
    """Keyframes of every sensor, each followed by `between` others."""
    for sample in range(scenes * KEYFRAMES):
        for sensor in range(SENSORS):
            for step in range(between + 1):
                number = (sample * SENSORS + sensor) * (between + 1) + step
                yield number, sample, sensor, step == 0


def tables(folder: Path, scenes: int, between: int, objects: int) -> int:
    """Writes all tables; the number of rows of sample_data."""
    folder.mkdir(parents=True)
    samples = scenes * KEYFRAMES
    channels = [
        "LIDAR_TOP",
        "CAM_FRONT",
        *(f"SENSOR_{number}" for number in range(SENSORS - 2)),
    ]
    write(
        folder / "log.json",
        [{"token": token("log", 0), "location": "singapore-onenorth"}],
    )
    write(folder / "category.json", [{"token": token("cat", 0), "name": "vehicle.car"}])
    write(
        folder / "sensor.json",
        [
            {"token": token("sen", n), "channel": name}
            for n, name in enumerate(channels)
        ],
    )
    turn, matrix = (
        [0.5, -0.5, 0.5, -0.5],
        [[1266.0, 0.0, 800.0], [0.0, 1266.0, 450.0], [0.0, 0.0, 1.0]],
    )
    write(
        folder / "calibrated_sensor.json",
        (
            {
                "token": token("cal", n),
                "sensor_token": token("sen", n),
                "translation": [1.7, 0.0, 1.5],
                "rotation": turn,
                "camera_intrinsic": matrix if name.startswith("CAM") else [],
            }
            for n, name in enumerate(channels)
        ),
    )
    write(
        folder / "scene.json",
        (
            {
                "token": token("sce", n),
                "name": f"scene-{n:04d}",
                "first_sample_token": token("sam", n * KEYFRAMES),
                "nbr_samples": KEYFRAMES,
                "log_token": token("log", 0),
            }
            for n in range(scenes)
        ),
    )
    write(
        folder / "sample.json",
        (
            {"token": token("sam", n), "timestamp": 1_531_883_530_449_377 + 500_000 * n,
             "next": "" if n % KEYFRAMES == KEYFRAMES - 1 else token("sam", n + 1)}
            for n in range(samples)
        ),
    )  # fmt: skip
    write(
        folder / "instance.json",
        (
            {"token": token("ins", n), "category_token": token("cat", 0)}
            for n in range(scenes * objects)
        ),
    )
    write(
        folder / "sample_data.json",
        (
            {
                "token": token("dat", n),
                "sample_token": token("sam", sample),
                "ego_pose_token": token("pos", n),
                "calibrated_sensor_token": token("cal", sensor),
                "timestamp": 1_531_883_530_449_377 + n,
                "fileformat": "jpg",
                "is_key_frame": key,
                "height": 900,
                "width": 1600,
                "filename": (
                    f"samples/{channels[sensor]}/n015-2018-07-18-11-07-57+0800__"
                    f"{channels[sensor]}__{n:016d}.jpg"
                ),
                "prev": token("dat", n - 1) if n else "",
                "next": token("dat", n + 1),
            }
            for n, sample, sensor, key in sweeps(scenes, between)
        ),
    )
    write(
        folder / "ego_pose.json",
        (
            {
                "token": token("pos", n),
                "timestamp": 1_531_883_530_449_377 + n,
                "rotation": [1.0, 0.0, 0.0, 0.0],
                "translation": [411.3039349319818 + sample, 1180.8903791765097, 0.0],
            }
            for n, sample, _, _ in sweeps(scenes, between)
        ),
    )
    write(
        folder / "sample_annotation.json",
        (
            {
                "token": token("ann", n),
                "sample_token": token("sam", n // objects),
                "visibility_token": "4",
                "instance_token": token(
                    "ins", n // objects // KEYFRAMES * objects + n % objects
                ),
                "attribute_tokens": [token("att", 0)],
                "size": [1.9, 4.6, 1.7],
                "rotation": [1.0, 0.0, 0.0, 0.0],
                "translation": [
                    431.3039349319818 + n // objects,
                    1150.0 + 2 * (n % objects),
                    0.8,
                ],
                "prev": token("ann", n - objects) if n // objects % KEYFRAMES else "",
                "next": token("ann", n + objects)
                if n // objects % KEYFRAMES < KEYFRAMES - 1
                else "",
                "num_lidar_pts": 5,
                "num_radar_pts": 0,
            }
            for n in range(samples * objects)
        ),
    )
    return samples * SENSORS * (between + 1)


def main(*, tiny: bool = False) -> list[Figure]:
    scenes, between, objects = (12, 1, 2) if tiny else (850, 5, 32)
    figures = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        rows = tables(root / "v1.0-trainval", scenes, between, objects)
        size_gb = sum(path.stat().st_size for path in root.glob("*/*.json")) / 1e9
        for what in ("first reading", "later reading"):
            done = run_alone(
                "-c", READ, str(root), str(root / "cache"), "0" if tiny else "67108864"
            )
            assert int(done.output) == 10 * KEYFRAMES * objects, done.output
            stored_gb = (
                sum(path.stat().st_size for path in root.glob("cache/**/*.parquet"))
                / 1e9
            )
            figures.append(
                Figure(
                    f"nuScenes tables, {rows:,} rows of sample_data, {what}",
                    f"{done.peak_gb:.2f} GB, {done.wall_s:.0f} s ({done.cpu_s:.0f} "
                    "s of CPU time)",
                    f"{size_gb:.2f} GB of JSON, {stored_gb:.2f} GB stored",
                    "at most 0.60 GB",
                    None if tiny else done.peak_gb <= 0.6,
                )
            )
    return figures


if __name__ == "__main__":
    finish(main())
