"""Reading and aligning beside the obvious way: integer and text ids, CSV, Kendall's
tau-b.

Run: python benchmarks/bench_reading.py. CPU seconds of this process, polars on one
thread, the better of two turns of each in the same run. maq, the natural neighbour of
scores per mode, cannot be installed where this is written: no figure stands beside it.
"""

import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from figures import Figure, finish
from scipy.stats import kendalltau

import deepval
from deepval.judge.concordance import pair_counts
from deepval.judge.tables.scores import align

MANY, SOME, UNITS = 10_000_000, 1_000_000, 1_000
TURNS = 2


def cpu_s(work: Callable[[], Any]) -> float:
    """The better of some turns."""
    taken = []
    for _ in range(TURNS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def files(folder: Path, rows: int, *, text: bool, csv: bool) -> tuple[Path, Path]:
    """A values file and a scores file in another order."""
    rng = np.random.default_rng(0)
    ids = pa.array(np.arange(rows))
    ids = pa.array([f"frame-{number:08d}" for number in range(rows)]) if text else ids
    unit = pa.array(np.repeat(np.arange(UNITS), rows // UNITS))
    cheap = rng.exponential(size=rows)
    values = pa.table(
        {
            "unit": unit,
            "input": ids,
            "loss_cheap": cheap,
            "loss_full": cheap - rng.normal(0.1, 1, rows),
        }
    )
    order = rng.permutation(rows)
    scores = pa.table(
        {"input": ids.take(pa.array(order)), "score": rng.normal(size=rows)}
    )
    ending = "csv" if csv else "parquet"
    paths = folder / f"values.{ending}", folder / f"scores.{ending}"
    for table, path in zip((values, scores), paths, strict=True):
        pc.write_csv(table, path) if csv else pq.write_table(table, path)
    return paths


def ours(values: Path, scores: Path) -> None:
    align(deepval.read_values(values), "score", scores)


def joined(values: Path, scores: Path) -> None:
    """What somebody with polars would do: join by id, sort by score."""
    read = pl.read_csv if values.suffix == ".csv" else pl.read_parquet
    read(values).join(read(scores), on="input").sort("score", descending=True)


def reading(
    rows: int, limit: float, *, text: bool, csv: bool, sort_alone: bool = False
) -> Figure:
    with tempfile.TemporaryDirectory() as folder:
        values, scores = files(Path(folder), rows, text=text, csv=csv)

        def read_and_sort() -> None:
            pq.read_table(values)
            np.argsort(pq.read_table(scores)["score"].to_numpy())

        mine = cpu_s(lambda: ours(values, scores))
        beside = cpu_s(read_and_sort if sort_alone else lambda: joined(values, scores))
    kind = (
        f"{'text' if text else 'integer'} ids, "
        f"{'CSV' if csv else 'Parquet'}, {rows:,} rows"
    )
    other = "read + argsort" if sort_alone else "polars join + sort"
    return Figure(
        kind,
        f"{mine:.2f} s CPU",
        f"{other} {beside:.2f} s",
        f"at most {limit} times",
        mine <= limit * beside,
    )


def long_log(folder: Path, runs: int) -> Path:
    """A log of two models: ids, tenants, times, right or wrong, and prices."""
    rng = np.random.default_rng(0)
    number = np.arange(runs) // 2
    log = pa.table(
        {
            "request_id": [f"req-{i:07d}" for i in number],
            "tenant": [f"tenant-{i}" for i in number % UNITS],
            "timestamp": pa.array(1_772_366_400 + number).cast(pa.timestamp("s")),
            "model": np.array(["small", "large"])[np.arange(runs) % 2],
            "correct": rng.integers(0, 2, runs),
            "cost_usd": rng.exponential(size=runs) * (1 + 9 * (np.arange(runs) % 2)),
        }
    )
    path = folder / "log.csv"
    pc.write_csv(log, path)
    return path


def importing(runs: int, limit: float) -> Figure:
    """A long log as a table, beside reading its columns alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = long_log(Path(folder), runs)
        mine = cpu_s(lambda: deepval.import_router_log(path))
        beside = cpu_s(lambda: pl.read_csv(path))
    return Figure(
        f"import of a log, CSV, {runs:,} runs",
        f"{mine:.2f} s CPU",
        f"polars read_csv {beside:.2f} s",
        f"at most {limit} times",
        mine <= limit * beside,
    )


def kendall(pairs: int) -> Figure:
    rng = np.random.default_rng(2)
    one = rng.normal(size=pairs)
    other = np.round(one + rng.normal(size=pairs), 2)
    mine, theirs = (
        cpu_s(lambda: pair_counts(one, other).tau_b),
        cpu_s(lambda: kendalltau(one, other)),
    )
    return Figure(
        f"Kendall's tau-b, {pairs:,} pairs",
        f"{mine:.2f} s CPU",
        f"scipy {theirs:.2f} s",
        "not slower",
        mine <= theirs,
    )


def main(*, tiny: bool = False) -> list[Figure]:
    warnings.simplefilter("ignore")
    many, some = (2 * UNITS, UNITS) if tiny else (MANY, SOME)
    return [
        kendall(some),
        reading(some, 2.5, text=True, csv=False),
        reading(some, 2.5, text=True, csv=True),
        importing(some, 5.0),
        reading(many, 2.0, text=False, csv=False, sort_alone=True),
    ]


if __name__ == "__main__":
    finish(main())
