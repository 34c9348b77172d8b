"""A table larger than memory whose sums DuckDB computes, beside deepval's own reader.

Run: python benchmarks/duckdb_source.py [--rows 1e6 1e7 1e8] [--ids same shuffled text
text-shuffled] [--scores 1 5]. It needs duckdb, which deepval does not, so that
benchmarks/run.py leaves it out. CPU seconds (user and system) and peak memory of fresh
processes with BLAS on one thread, from the files to the judged rows, imports included.
Both must give the same rows and digests. Files are written to the folder for temporary
files (up to 80 bytes a row, and as much for what is spilled) and removed.

DuckDB reads the losses and scores side by side. Scores in another order are sorted by
id where the ids of the table ascend, else joined by id and sorted by row. DuckDB sums
by unit and block of scores, and selects the rows of the blocks in which a draw is cut.
The sieve of deepval places the blocks, and its judgement uses these sums. What deepval
finds beside, such as notes, thresholds and the spread of the gain, is left out here.
"""

import argparse
import hashlib
import importlib
import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from figures import run_alone

UNITS, DRAWS, GROUP = 1_000, 1_000, 1_000_000
IDS = ("same", "shuffled", "text", "text-shuffled")
SAMPLE = 1 << 18
"""Rows from which the cuts are estimated."""
THREADS, MEMORY = 2, "900MB"


def write(folder: Path, rows: int, ids: str, scores: int) -> None:
    """Losses of 40 % affected inputs, and scores that know a little of them.

    Shuffled ids are scattered over the whole file.
    """
    rng = np.random.default_rng(1)
    names = np.array([f"unit {u:04d}" for u in range(UNITS)])
    effect = rng.normal(size=UNITS)
    value = np.empty(rows)
    writer = None
    for first in range(0, rows, GROUP):
        number = min(GROUP, rows - first)
        row = np.arange(first, first + number)
        affected = rng.random(number) < 0.4
        value[row] = np.where(affected, rng.normal(0.1, 1.0, number), 0.0)
        cheap = np.maximum(value[row], 0.0) + rng.gamma(0.5, 1.0, number)
        unit = pa.array((row * UNITS // rows).astype(np.int32))
        table = pa.table(
            {
                "unit": pa.DictionaryArray.from_arrays(unit, names).cast(pa.string()),
                "input": _ids(row, ids),
                "loss_cheap": cheap,
                "loss_full": cheap - value[row],
            }
        )
        writer = writer or pq.ParquetWriter(folder / "values.parquet", table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    for number in range(scores):
        noise = (2 + number) * rng.normal(size=rows)
        score = value + noise + 0.5 * effect[np.arange(rows) * UNITS // rows]
        _write_scores(folder / f"score{number}.parquet", score, ids)


def _write_scores(path: Path, score: np.ndarray, ids: str) -> None:
    rows = len(score)
    stride = 1
    if ids.endswith("shuffled"):
        # A stride that shares no factor with the number of rows visits each row once.
        stride = int(rows * 0.618)
        while np.gcd(stride, rows) != 1:
            stride += 1
    writer = None
    for first in range(0, rows, GROUP):
        row = np.arange(first, min(first + GROUP, rows)) * stride % rows
        table = pa.table({"input": _ids(row, ids), "score": score[row]})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def _ids(row: np.ndarray, ids: str) -> pa.Array:
    numbers = pa.array(row)
    return numbers.cast(pa.string()) if ids.startswith("text") else numbers


def judge_by_deepval(folder: Path, scores: int) -> dict[str, Any]:
    import deepval

    files = {f"score{n}": folder / f"score{n}.parquet" for n in range(scores)}
    result = deepval.evaluate(folder / "values.parquet", files, memory=0)
    used = result.provenance.scores
    digests = [result.provenance.table, *(used[name].digest for name in files)]
    return {"rows": _figures(result.rows), "digests": digests}


def _figures(rows: Any) -> list[list[float]]:
    return [
        [row.gain, row.oracle_gain, row.versus_random_lo, row.versus_random_hi]
        for row in rows
    ]


@dataclass
class Table:
    """Losses and scores that DuckDB reads beside each other.

    Attributes:
        db: The connection.
        values: The losses, what stands after `from`.
        units: The units, sorted.
        rows: Number of inputs.
        aligned: The scores in the order of the losses, what stands after `from`.
        digests: Of the table and of every score.
    """

    db: Any
    values: str
    units: list[str]
    rows: int
    aligned: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)

    def ask(self, query: str) -> dict[str, np.ndarray]:
        """The columns of the result."""
        return self.db.execute(query).fetchnumpy()

    def number(self, query: str) -> Any:
        """The only number of the result."""
        return self.db.execute(query).fetchall()[0][0]

    def pieces(self, query: str) -> Iterator[list[np.ndarray]]:
        """The columns of the result, some rows at a time."""
        for batch in self.db.sql(query).to_arrow_reader(1 << 18):
            yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]

    def beside(self, numbers: Iterable[int]) -> str:
        """The losses with some of the scores, what stands after `from`."""
        sides = [f"positional join {self.aligned[n]} s{n}" for n in numbers]
        return " ".join([f"{self.values} v", *sides])


def table_of(folder: Path, scores: int) -> Table:
    """The table with its scores aligned; raises where ids are repeated or missing."""
    duckdb = importlib.import_module("duckdb")

    db = duckdb.connect()
    db.execute(f"set threads = {THREADS}")
    db.execute(f"set memory_limit = '{MEMORY}'")
    db.execute(f"set temp_directory = '{folder}/spilled'")
    values = f"read_parquet('{folder}/values.parquet')"
    counted = db.execute(f"select unit, count(*) from {values} group by 1 order by 1")
    found = counted.fetchall()
    table = Table(db, values, [name for name, _ in found], sum(n for _, n in found))
    names = ", ".join(repr(name) for name in table.units)
    db.execute(f"create type unit_id as enum ({names})")
    ascending = _digest_table(table)
    for number in range(scores):
        path = f"read_parquet('{folder}/score{number}.parquet')"
        source = _aligned(table, path, number, ascending=ascending)
        table.aligned.append(source)
        digest = hashlib.sha256()
        for (part,) in table.pieces(f"select score from {source}"):
            digest.update(np.ascontiguousarray(part).data)
        table.digests.append(digest.hexdigest())
    return table


def _digest_table(table: Table) -> bool:
    """Computes the digest of the table; returns whether its ids ascend."""
    digest = hashlib.sha256("\n".join(["cheap", "full", *table.units, ""]).encode())
    id_type = table.db.sql(f"select input from {table.values}").types[0]
    ids = "input, true"
    if id_type == "VARCHAR":
        # Texts that all spell integers are hashed as integers.
        ids = "input::bigint, input = (input::bigint)::varchar"
    ascending = id_type != "VARCHAR"
    last = -1
    for number, is_plain in table.pieces(f"select {ids} from {table.values}"):
        if not is_plain.all():
            raise SystemExit("the ids of this benchmark spell integers")
        ascending &= bool(number[0] > last and np.all(number[1:] > number[:-1]))
        last = number[-1]
        digest.update(np.ascontiguousarray(number).data)
    for column in ("enum_code(unit::unit_id)::int", "loss_cheap", "loss_full"):
        for (part,) in table.pieces(f"select {column} from {table.values}"):
            digest.update(np.ascontiguousarray(part).data)
    table.digests.append(digest.hexdigest())
    return ascending


def _aligned(table: Table, path: str, number: int, *, ascending: bool) -> str:
    """The scores in the order of the losses: as they are, sorted by id, or joined."""
    if _is_aligned(table, path):
        # One-to-one with the table: without a repeated id there, there is none here.
        if not ascending and not table.aligned:
            _refuse_repeated(table)
        return path
    name = f"aligned{number}"
    if ascending:
        table.db.execute(
            f"create temp table {name} as select input, score from {path}"
            f" order by input"
        )
        if not _is_aligned(table, name):
            raise SystemExit("table and scores must have the same ids")
        return name
    rows = f"(select input, row::uinteger as row from {numbered(table.values)})"
    table.db.execute(
        f"create temp table {name} as select v.row, score from {rows} v"
        f" full join {path} s on v.input = s.input order by row"
    )
    # Every row of one side met one of the other and none is left over: then no id is
    # repeated on either side.
    (counted,) = table.db.execute(
        f"select count(*), count(row), count(score) from {name}"
    ).fetchall()
    if counted != (table.rows,) * 3:
        raise SystemExit("ids must differ, and table and scores must have the same")
    return name


def _is_aligned(table: Table, scores: str) -> bool:
    """Whether scores have the order of the table; the first rows mostly tell."""
    for limit in (" limit 100000", ""):
        both = (
            f"(select input from {table.values}{limit}) v positional join"
            f" (select input from {scores}{limit}) s"
        )
        same = "coalesce(v.input = s.input, false)"
        if not table.number(f"select bool_and({same}) from {both}"):
            return False
    return True


def _refuse_repeated(table: Table) -> None:
    repeated = table.number(
        f"select count(*) from"
        f" (select input from {table.values} group by input having count(*) > 1)"
    )
    if repeated:
        raise SystemExit("input ids must differ")


def block_of(score: str, edges: np.ndarray) -> str:
    """The number of descending edges above a score, by binary search in SQL."""

    def between(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        edge = f"'{float(edges[middle])!r}'::double"
        return (
            f"case when {score} < {edge} then {between(middle + 1, high)}"
            f" else {between(low, middle)} end"
        )

    return f"({between(0, len(edges))})::smallint"


def ranges_of(score: str, edges: np.ndarray, blocks: np.ndarray) -> str:
    """The condition that a score lies in one of some blocks."""
    bounds = [np.inf, *edges.tolist(), -np.inf]
    starts = np.flatnonzero(np.diff(np.append(False, blocks).astype(int)) == 1)
    ends = np.flatnonzero(np.diff(np.append(blocks, False).astype(int)) == -1)
    wanted = []
    for start, end in zip(starts, ends, strict=True):
        upper = "<" if start else "<="
        wanted.append(
            f"({score} >= '{bounds[end + 1]!r}'::double"
            f" and {score} {upper} '{bounds[start]!r}'::double)"
        )
    return "(" + (" or ".join(wanted) or "false") + ")"


VALUE = "(v.loss_cheap - v.loss_full)"
"""The decision value of an input."""
UNIT = "enum_code(v.unit::unit_id)::int"


def judge_by_duckdb(folder: Path, scores: int) -> dict[str, Any]:
    """The rows of the default budgets, from sums that DuckDB computes."""
    from deepval.basics.progress import unwatched
    from deepval.judge.allowances import allowance, budget_list
    from deepval.judge.bootstrap import Bootstrap, UnitSums, resample_counts
    from deepval.judge.draws import make_draws
    from deepval.judge.judgement import judge
    from deepval.judge.policies import Always, Never, Oracle, Random, Ranking
    from deepval.judge.row_columns import additions_of, rows_of
    from deepval.judge.sieve import SiftedScores

    table = table_of(folder, scores)
    units = len(table.units)
    totals = table.ask(
        f"select count(*) as rows, sum(v.loss_cheap) as cheap, sum({VALUE}) as value,"
        f" sum(greatest({VALUE}, 0)) as up from {table.values} v"
        f" group by unit order by unit"
    )
    by_unit = UnitSums(
        *(np.asarray(totals[name], float) for name in ("rows", "cheap", "value", "up"))
    )
    allowances = [allowance(b, ("cheap", "full"), None) for b in budget_list(None)]
    drawn = make_draws(units, DRAWS, 0)
    counts = resample_counts(drawn, units)
    inputs = counts @ by_unit.inputs
    slots = np.column_stack([a.slots(inputs) for a in allowances])
    oracle, *rankings = sifted(table, scores, counts, slots)
    bootstrap = Bootstrap.of_sums(
        tuple(table.units),
        ("cheap", "full"),
        by_unit,
        drawn,
        counts,
        rows=None,
        watch=unwatched,
    )
    helpful = oracle.sieve.tables[0].sum(axis=0)
    policies = [
        Random(),
        Never(),
        Always(),
        *(Ranking(f"score{n}", SiftedScores(item)) for n, item in enumerate(rankings)),
        Oracle(SiftedScores(oracle), helpful),
    ]
    contests = judge(bootstrap, policies, allowances)
    additions = additions_of(bootstrap, contests, at_once=False, is_estimated=False)
    rows = _figures(rows_of(bootstrap, contests, additions))
    return {"rows": rows, "digests": table.digests}


def sifted(table: Table, scores: int, counts: Any, slots: Any) -> list[Any]:
    """Decision values and scores in the product's sieve, with sums from DuckDB."""
    from deepval.judge.kernel import Sieve
    from deepval.judge.sieve import QUANTILES, WIDEST, Sifting

    step = -(-table.rows // SAMPLE)
    # Every table is thinned by its own row numbers: less is read than side by side.
    sample = table.ask(
        f"select {UNIT} as unit, {VALUE} as value from {numbered(table.values)} v"
        f" where row % {step} = 0"
    )
    for n, source in enumerate(table.aligned):
        thinned = f"select score from {numbered(source)} where row % {step} = 0"
        sample[f"score{n}"] = table.ask(thinned)["score"]

    def sieve_of(name: str, *, signed: bool) -> Sifting:
        which = slice(None) if signed else np.flatnonzero(sample[name] > 0)
        sieve = Sieve.over(
            sample[name][which],
            sample["unit"][which].astype(np.int64),
            step=step,
            counts=counts,
            slots=slots,
            quantities=1 + signed,
            quantiles=QUANTILES,
            widest=WIDEST,
        )
        # DuckDB stores no row before the sums are known.
        item = Sifting(sieve, signed, lambda: read_rows(table, siftings))
        item.requested[:] = False
        return item

    siftings = [sieve_of("value", signed=False)]
    siftings += [sieve_of(f"score{n}", signed=True) for n in range(scores)]
    sum_blocks(table, siftings)
    for item in siftings:
        item.want(counts, slots)
    read_rows(table, siftings)
    return siftings


def numbered(source: str) -> str:
    """The same rows with their number as column `row`."""
    if source.startswith("read_parquet"):
        read = f"{source.removesuffix(')')}, file_row_number = true)"
        return f"(select *, file_row_number as row from {read})"
    return f"(select rowid as row, score from {source})"


def sum_blocks(table: Table, siftings: Sequence[Any]) -> None:
    """Sums by unit and block: of the decision values, then of all scores in one
    reading.
    """
    oracle, *rankings = siftings
    found = table.ask(
        f"select enum_code(unit::unit_id) as unit, b, count(*) as rows,"
        f" sum(value) as up"
        f" from (select unit, value, {block_of('value', oracle.sieve.edges)} as b"
        f" from (select unit, {VALUE} as value from {table.values} v) where value > 0)"
        f" group by unit, b"
    )
    oracle.sieve.tables[0][found["b"], found["unit"]] = found["rows"]
    oracle.sieve.tables[1][found["b"], found["unit"]] = found["up"]
    numbers = range(len(rankings))
    blocks = [
        f"{block_of(f's{n}.score', item.sieve.edges)} as b{n}"
        for n, item in enumerate(rankings)
    ]
    listed = ", ".join(f"b{n}" for n in numbers)
    sets = ", ".join(f"(unit, b{n})" for n in numbers)
    found = table.ask(
        f"select enum_code(unit::unit_id) as unit, {listed}, count(*) as rows,"
        f" sum(value) as value, sum(greatest(value, 0)) as up"
        f" from (select unit, {VALUE} as value, {', '.join(blocks)}"
        f" from {table.beside(numbers)}) group by grouping sets ({sets})"
    )
    for n, item in enumerate(rankings):
        own = ~np.ma.getmaskarray(found[f"b{n}"])
        at = np.asarray(found[f"b{n}"])[own], found["unit"][own]
        for part, name in zip(item.sieve.tables, ("rows", "value", "up"), strict=True):
            part[at] = np.asarray(found[name])[own]


def read_rows(table: Table, siftings: Sequence[Any]) -> None:
    """Read the rows of the requested blocks."""
    oracle, *rankings = siftings
    columns = [VALUE, *(f"s{n}.score" for n in range(len(rankings)))]
    sources = [f"{table.values} v", *(table.beside([n]) for n in range(len(rankings)))]
    for item, column, source in zip(siftings, columns, sources, strict=True):
        if item.requested.any():
            asked = (
                f"select {column}, {VALUE}, {UNIT} from {source}"
                f" where {ranges_of(column, item.sieve.edges, item.requested)}"
            )
            if item is oracle:
                asked += f" and {VALUE} > 0"
            for score, value, unit in table.pieces(asked):
                item.again(score, value, unit)
        item.read()


WAYS = ("deepval", "duckdb")


def judge(folder: Path, scores: int, way: str) -> dict[str, Any]:
    if way == "deepval":
        return judge_by_deepval(folder, scores)
    return judge_by_duckdb(folder, scores)


def compared(rows: int, ids: str, scores: int, ways: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="deepval-bench-") as folder:
        run_alone(__file__, "write", folder, rows, ids, scores)
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e9
        print(f"{rows:,} rows ({size:.2f} GB), ids: {ids}, scores: {scores}")
        first = None
        for way in ways:
            run = run_alone(__file__, "judge", folder, scores, way)
            found = json.loads(run.output)
            first = first or found
            np.testing.assert_allclose(
                np.array(found["rows"], dtype=float),
                np.array(first["rows"], dtype=float),
                rtol=1e-9,
                atol=1e-9,
            )
            if found["digests"] != first["digests"]:
                raise SystemExit("all ways must judge the same table")
            print(
                f"  {way:8s} {run.cpu_s:8.1f} s CPU (system {run.system_s:.1f})"
                f"  {run.peak_gb:6.2f} GB",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=float, default=(1e6, 1e7))
    parser.add_argument("--ids", nargs="+", choices=IDS, default=IDS)
    parser.add_argument("--scores", nargs="+", type=int, default=(1, 5))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    asked = parser.parse_args()
    if importlib.util.find_spec("duckdb") is None:
        raise SystemExit("This benchmark needs duckdb: pip install duckdb.")
    for rows in asked.rows:
        for ids in asked.ids:
            for scores in asked.scores:
                compared(int(rows), ids, scores, asked.ways)


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
    elif sys.argv[1:2] == ["judge"]:
        print(json.dumps(judge(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
    else:
        main()
