"""Parquet files larger than memory: deepval.evaluate piece by piece beside the same
files in memory, in one run.

Run: python benchmarks/bench_out_of_core.py [--rows 1e6 1e7 1e8] [--order
same|shuffled|text]. CPU seconds (user and system) and peak memory of fresh processes
with BLAS on one thread, from the files to the result, imports included. Both must give
the same rows. Files are written to the folder for temporary files (56 bytes a row) and
removed.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from figures import Figure, finish, run_alone

UNITS, DRAWS, GROUP = 1_000, 1_000, 1_000_000
ROWS, ORDERS = (10**6, 10**7), ("same", "shuffled", "text")
WAYS = {"in memory": "1TB", "piece by piece": "0"}


def write(folder: Path, rows: int, order: str) -> None:
    """Losses of 40 % affected inputs, and a score that knows a little of them and
    differs by unit.
    """
    rng = np.random.default_rng(1)
    names, effect = (
        np.array([f"unit {u:04d}" for u in range(UNITS)]),
        rng.normal(size=UNITS),
    )
    writers: dict[str, pq.ParquetWriter] = {}
    groups = range(0, rows, GROUP)
    for first in groups:
        number = min(GROUP, rows - first)
        row = np.arange(first, first + number)
        unit = row * UNITS // rows
        value = np.where(rng.random(number) < 0.4, rng.normal(0.1, 1.0, number), 0.0)
        cheap = np.maximum(value, 0.0) + rng.gamma(0.5, 1.0, number)
        ids = pa.array(row).cast(pa.string()) if order == "text" else pa.array(row)
        coded = pa.DictionaryArray.from_arrays(unit.astype(np.int32), names).cast(
            pa.string()
        )
        shuffled = rng.permutation(number) if order != "same" else np.arange(number)
        score = value + 2 * rng.normal(size=number) + 0.5 * effect[unit]
        tables = {
            "values": pa.table(
                {
                    "unit": coded,
                    "input": ids,
                    "loss_cheap": cheap,
                    "loss_full": cheap - value,
                }
            ),
            "scores": pa.table(
                {"input": ids.take(pa.array(shuffled)), "score": score[shuffled]}
            ),
        }
        for name, table in tables.items():
            if name not in writers:
                writers[name] = pq.ParquetWriter(
                    folder / f"{name}.parquet", table.schema
                )
            writers[name].write_table(table)
    for writer in writers.values():
        writer.close()


def judge(folder: Path, memory: str) -> dict[str, object]:
    import deepval

    result = deepval.evaluate(
        folder / "values.parquet", {"score": folder / "scores.parquet"}, memory=memory
    )
    return {
        "rows": [
            [row.gain, row.oracle_gain, row.versus_random_lo, row.versus_random_hi]
            for row in result.rows
        ],
        "digest": result.provenance.table,
    }


def compared(rows: int, order: str) -> Figure:
    with tempfile.TemporaryDirectory(prefix="deepval-bench-") as folder:
        run_alone(__file__, "write", folder, rows, order)
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e9
        runs = {
            way: run_alone(__file__, "judge", folder, memory)
            for way, memory in WAYS.items()
        }
    whole, pieces = runs["in memory"], runs["piece by piece"]
    one, other = (json.loads(run.output) for run in (whole, pieces))
    if one["digest"] != other["digest"]:
        raise SystemExit("both ways must judge the same table")
    np.testing.assert_allclose(
        np.array(one["rows"], dtype=float),
        np.array(other["rows"], dtype=float),
        rtol=1e-11,
        atol=1e-12,
    )
    print(
        f"{rows:,} rows ({size:.2f} GB), {UNITS:,} units, "
        f"{DRAWS:,} draws, 4 budgets, ids: {order}"
    )
    for way, run in runs.items():
        print(
            f"  {way:15s} {run.cpu_s:8.1f} s "
            f"CPU (system {run.system_s:.1f})  {run.peak_gb:6.2f} GB"
        )
    return Figure(
        f"evaluate piece by piece: {rows:.0e} rows, ids {order}",
        f"{pieces.cpu_s:.1f} s CPU, {pieces.peak_gb:.2f} GB",
        f"in memory {whole.cpu_s:.1f} s, {whole.peak_gb:.2f} GB",
        "< 1.5 GB; from 1e7 rows in order <= 0.6 of its CPU",
        pieces.peak_gb < 1.5
        and (rows < 10**7 or order != "same" or pieces.cpu_s <= 0.6 * whole.cpu_s),
    )


def main(
    *, tiny: bool = False, rows: Sequence[float] = ROWS, order: str = ORDERS[0]
) -> list[Figure]:
    if tiny:
        return [compared(2_000, "text")]
    return [compared(int(number), order) for number in rows]


def asked() -> dict[str, Any]:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=float, default=ROWS)
    parser.add_argument("--order", choices=ORDERS, default=ORDERS[0])
    return vars(parser.parse_args())


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    elif sys.argv[1:2] == ["judge"]:
        print(json.dumps(judge(Path(sys.argv[2]), sys.argv[3])))
    else:
        finish(main(**asked()))
