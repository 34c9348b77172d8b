"""Parquet files larger than memory: deepval.evaluate piece by piece beside the same files in memory, in one run.

Run: python benchmarks/bench_out_of_core.py [--rows 1e6 1e7 1e8] [--order same|shuffled|text]. CPU seconds (user and
system) and peak memory of fresh processes with BLAS on one thread, from the files to the result, imports included. Both
must give the same rows. Files are written to the folder for temporary files (56 bytes a row) and removed.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from figures import Figure, report

UNITS, DRAWS, GROUP = 1_000, 1_000, 1_000_000
ROWS, ORDERS = (10**6, 10**7), ("same", "shuffled", "text")
WAYS = {"in memory": "1TB", "piece by piece": "0"}
ONE_THREAD = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}


def write(folder: Path, rows: int, order: str) -> None:
    """Losses of 40 % affected inputs, and a score that knows a little of them and differs by unit."""
    rng = np.random.default_rng(1)
    names, effect = np.array([f"unit {u:04d}" for u in range(UNITS)]), rng.normal(size=UNITS)
    writers: dict[str, pq.ParquetWriter] = {}
    groups = range(0, rows, GROUP)
    for first in groups:
        number = min(GROUP, rows - first)
        row = np.arange(first, first + number)
        unit = row * UNITS // rows
        value = np.where(rng.random(number) < 0.4, rng.normal(0.1, 1.0, number), 0.0)
        cheap = np.maximum(value, 0.0) + rng.gamma(0.5, 1.0, number)
        ids = pa.array(row).cast(pa.string()) if order == "text" else pa.array(row)
        coded = pa.DictionaryArray.from_arrays(unit.astype(np.int32), names).cast(pa.string())
        given = rng.permutation(number) if order != "same" else np.arange(number)
        score = value + 2 * rng.normal(size=number) + 0.5 * effect[unit]
        tables = {
            "values": pa.table({"unit": coded, "input": ids, "loss_cheap": cheap, "loss_full": cheap - value}),
            "scores": pa.table({"input": ids.take(pa.array(given)), "score": score[given]}),
        }
        for name, table in tables.items():
            if name not in writers:
                writers[name] = pq.ParquetWriter(folder / f"{name}.parquet", table.schema)
            writers[name].write_table(table)
    for writer in writers.values():
        writer.close()


def judge(folder: Path, memory: str) -> dict[str, object]:
    import deepval

    result = deepval.evaluate(folder / "values.parquet", {"score": folder / "scores.parquet"}, memory=memory)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "cpu": used.ru_utime + used.ru_stime,
        "system": used.ru_stime,
        "peak": used.ru_maxrss * 1024,
        "rows": [[row.gain, row.oracle_gain, row.versus_random_lo, row.versus_random_hi] for row in result.rows],
        "digest": result.provenance.table,
    }


def fresh(*arguments: object) -> dict:
    """What this file measures in a process of its own."""
    command = [sys.executable, __file__, *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | ONE_THREAD, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def compared(rows: int, order: str) -> Figure:
    with tempfile.TemporaryDirectory(prefix="deepval-bench-") as held:
        subprocess.run([sys.executable, __file__, "write", held, str(rows), order], check=True)
        size = sum(path.stat().st_size for path in Path(held).iterdir()) / 1e9
        found = {way: fresh("judge", held, memory) for way, memory in WAYS.items()}
    whole, pieces = found["in memory"], found["piece by piece"]
    assert whole["digest"] == pieces["digest"], "both ways must judge the same table"
    one, other = (np.array(each["rows"], dtype=float) for each in (whole, pieces))
    np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)
    print(f"{rows:,} rows ({size:.2f} GB), {UNITS:,} units, {DRAWS:,} draws, 4 budgets, ids: {order}")
    for way, each in found.items():
        print(f"  {way:15s} {each['cpu']:8.1f} s CPU (system {each['system']:.1f})  {each['peak'] / 1e9:6.2f} GB")
    return Figure(
        f"evaluate piece by piece: {rows:.0e} rows, ids {order}",
        f"{pieces['cpu']:.1f} s CPU, {pieces['peak'] / 1e9:.2f} GB",
        f"in memory {whole['cpu']:.1f} s, {whole['peak'] / 1e9:.2f} GB",
        "< 1.5 GB; from 1e7 rows in order <= 0.6 of its CPU",
        pieces["peak"] < 1.5e9 and (rows < 10**7 or order != "same" or pieces["cpu"] <= 0.6 * whole["cpu"]),
    )


def main() -> list[Figure]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=float, default=ROWS)
    parser.add_argument("--order", choices=ORDERS, default=ORDERS[0])
    given = parser.parse_args()
    return [compared(int(rows), given.order) for rows in given.rows]


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    elif sys.argv[1:2] == ["judge"]:
        print(json.dumps(judge(Path(sys.argv[2]), sys.argv[3])))
    else:
        print("\n" + report(main()))
