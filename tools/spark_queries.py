"""Random queries of Spark over tables and namespaces of lance_df: pruned or not, the rows must be equal.

::

    python tools/spark_queries.py --queries 2000
    python tools/spark_queries.py --queries 1 --seed 1234  # one of them again
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import lance_df
from lance_df.spark.pruning import pruned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NUM_ROWS = 400
START = dt.datetime(2023, 11, 1)
NEGATIVE_NAN = np.array([0xFFF8000000000000], np.uint64).view(np.float64)[0]
TEXTS = ["", "a", "ab", "abc", "b", "B", "it's", 'say "x"', "a\\b", "é", "z%", "_", "\U0001f600x"]
FLOATS = [0.0, -0.0, 1.5, -2.25, float("nan"), NEGATIVE_NAN, float("inf"), float("-inf"), 1e300, 5e-324]


def rows(seed: int, count: int = NUM_ROWS) -> pa.Table:
    """Return random rows of all types whose conditions are translated, with NULLs."""
    rng = random.Random(seed)

    def column(values: object, data_type: pa.DataType, share: float = 0.1) -> pa.Array:
        held = [None if rng.random() < share else values() for _ in range(count)]  # type: ignore[operator]
        return pa.array(held, data_type)

    def moment() -> dt.datetime:
        return START + dt.timedelta(hours=rng.randrange(24 * 120), microseconds=rng.choice([0, 1, 999_999]))

    def nanos() -> int:
        return int(moment().timestamp()) * 10**9 + rng.choice([0, 1, 999, 1000, 1500])

    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "k": column(lambda: rng.randrange(40), pa.int32()),
            "u": column(lambda: rng.randrange(2**32), pa.uint32()),
            "Small": column(lambda: rng.randrange(-128, 128), pa.int8()),
            "s": column(lambda: rng.choice(TEXTS), pa.string()),
            "big text": column(lambda: rng.choice(TEXTS), pa.large_string()),
            "f": column(lambda: rng.choice(FLOATS), pa.float64()),
            "g": column(lambda: rng.choice(FLOATS[:8]), pa.float32()),
            "b": column(lambda: rng.random() < 0.5, pa.bool_()),
            "d": column(lambda: moment().date(), pa.date32()),
            "ts": column(moment, pa.timestamp("us")),
            "ns": column(nanos, pa.timestamp("ns")),
            "ms": column(lambda: moment().replace(microsecond=5000), pa.timestamp("ms")),
            "tz": column(moment, pa.timestamp("us", "UTC")),
            "berlin": column(moment, pa.timestamp("us", "Europe/Berlin")),
            "dec": column(lambda: Decimal(rng.randrange(-500, 500)).scaleb(-2), pa.decimal128(9, 2)),
            "wide": column(lambda: Decimal(rng.randrange(-500, 500)).scaleb(-2), pa.decimal128(25, 2)),
            "st": column(lambda: {"x": rng.randrange(5)}, pa.struct([("x", pa.int64())])),
        }
    )


def make_sources(spark: SparkSession, folder: Path) -> dict[str, str]:
    """Make tables, namespaces and views of them; return the names of the views and their paths."""
    paths = {name: str(folder / name) for name in ("events", "by_key", "flat", "users")}
    by_month = lance_df.PartitionedNamespace.create(paths["events"], rows(1).schema, ["month(ts)"])
    by_month.append(rows(1))
    by_key = lance_df.PartitionedNamespace.create(
        paths["by_key"], rows(2).schema, ["bucket(k, 4)", "identity(b)"]
    )
    by_key.append(rows(2))
    lance_df.write_dataset(rows(3), paths["flat"], max_rows_per_file=100)
    lance_df.write_dataset(rows(4, 12), paths["users"])
    for name, path in paths.items():
        read = (
            spark.read.format("lance_df").load(path) if name != "flat" else lance_df.spark.read(spark, path)
        )
        read.createOrReplaceTempView(name)
    return paths


class Queries:
    """Makes queries, each from a seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def query(self) -> str:
        """Return a query, whose rows are the same however often it is run."""
        pick = self._rng.choice
        return pick(
            [
                self._select,
                self._aggregate,
                self._join,
                self._semi,
                self._union,
                self._cte,
                self._scalar,
                self._window,
            ]
        )()

    def _table(self) -> str:
        table = self._rng.choice(["events", "by_key", "flat", "users", "events", "by_key"])
        if self._rng.random() < 0.15:
            return f"(SELECT * FROM {table} WHERE {self._condition(1)})"
        return table

    def _columns(self, prefix: str = "") -> str:
        names = [
            "id",
            "k",
            "u",
            "SMALL",
            "s",
            "`big text`",
            "f",
            "b",
            "d",
            "ts",
            "ns",
            "tz",
            "dec",
            "wide",
            "st.x",
        ]
        return ", ".join(prefix + name for name in self._rng.sample(names, self._rng.randint(1, 5)))

    def _select(self) -> str:
        columns = "*" if self._rng.random() < 0.2 else self._columns()
        return f"SELECT {columns} FROM {self._table()} t WHERE {self._condition()}"

    def _aggregate(self) -> str:
        group = self._rng.choice(["k", "s", "month(ts)", "b", "year(d)", "dec"])
        rows = f"{self._table()} t WHERE {self._condition()}"
        having = self._rng.choice(["", " HAVING count(*) > 2", f" HAVING {group} IS NOT NULL"])
        if self._rng.random() < 0.3:
            return f"SELECT count(*), max(id), count(DISTINCT s) FROM {rows}"
        return f"SELECT {group} AS g, count(*), sum(id), min(ts) FROM {rows} GROUP BY {group}{having}"

    def _join(self) -> str:
        kind = self._rng.choice(["", "LEFT", "RIGHT", "FULL", "CROSS", "INNER"])
        key = self._rng.choice(["k", "s", "id", "d", "ts", "dec", "ns"])
        on = f"a.{key} = c.{key}"
        if self._rng.random() < 0.4:
            on += f" AND {self._condition(1, self._rng.choice(['a.', 'c.']))}"
        where = self._rng.choice(
            ["", f" WHERE {self._condition(1, 'a.')}", f" WHERE {self._condition(1, 'c.')}"]
        )
        if self._rng.random() < 0.3:
            where = f" WHERE {self._condition(1, 'a.')} AND {self._condition(1, 'c.')}"
        if kind == "CROSS":
            return (
                f"SELECT count(*), sum(a.id - c.id) FROM {self._table()} a CROSS JOIN users c"
                f"{where or ' WHERE a.k < c.k'}"
            )
        return (
            f"SELECT a.id, c.id AS other, {self._columns('c.')} FROM {self._table()} a "
            f"{kind} JOIN {self._table()} c ON {on}{where}"
        )

    def _semi(self) -> str:
        inner = f"SELECT k FROM {self._table()} i WHERE {self._condition(1)}"
        test = self._rng.choice(
            [
                f"k IN ({inner})",
                f"k NOT IN ({inner} AND k IS NOT NULL)",
                f"k NOT IN ({inner})",
                f"EXISTS ({inner} AND i.s = t.s)",
                f"NOT EXISTS ({inner} AND i.id = t.id)",
                f"(k IN ({inner}) OR {self._condition(1)})",
            ]
        )
        return f"SELECT {self._columns()} FROM {self._table()} t WHERE {test} AND {self._condition(1)}"

    def _union(self) -> str:
        word = self._rng.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
        table, other, outer = self._table(), self._table(), self._rng.choice(["k < 9", "true"])
        return (
            f"SELECT id, s, ts FROM (SELECT id, s, ts, k FROM {table} t WHERE {self._condition(1)} {word} "
            f"SELECT id, s, ts, k FROM {other} t WHERE {self._condition(1)}) x WHERE {outer}"
        )

    def _cte(self) -> str:
        return (
            f"WITH c AS (SELECT id, k, s, b, d FROM {self._table()} t WHERE {self._condition(1)}) "
            f"SELECT a.id, a.s, e.d FROM c a {self._rng.choice(['', 'LEFT', 'FULL'])} JOIN c e "
            f"ON a.id = e.id {self._rng.choice(['', 'AND e.k > 5', 'AND a.k < 20'])} "
            f"WHERE {self._rng.choice(['a.b', 'e.b', 'a.k < 9', 'a.s > e.s', 'true'])}"
        )

    def _scalar(self) -> str:
        inner = f"SELECT max(k) FROM {self._table()} i WHERE {self._condition(1)}"
        return (
            f"SELECT id, ({inner}) AS m FROM {self._table()} t WHERE {self._condition(1)} AND k <= ({inner})"
        )

    def _window(self) -> str:
        outer = self._rng.choice(["k = 3", "n > 2", "s < 'b'", "k IN (1, 2, 3)"])
        return (
            f"SELECT id, n FROM (SELECT id, k, s, count(*) OVER (PARTITION BY k) AS n FROM {self._table()} t "
            f"WHERE {self._condition(1)}) x WHERE {outer}"
        )

    def _condition(self, depth: int = 2, prefix: str = "") -> str:
        roll = self._rng.random()
        if depth and roll < 0.5:
            word = self._rng.choice(["AND", "OR"])
            return f"({self._condition(depth - 1, prefix)} {word} {self._condition(depth - 1, prefix)})"
        if roll < 0.6:
            return f"NOT ({self._condition(max(depth - 1, 0), prefix)})"
        return self._comparison(prefix)

    def _comparison(self, prefix: str) -> str:
        rng = self._rng
        name = rng.choice(list(self._values()))
        column, write = prefix + name, self._values()[name]
        value, operator = write(), rng.choice(["=", "<", "<=", ">", ">=", "<>", "<=>"])
        like = rng.choice(["a%", "ab%", "%b", "%", "z\\\\%%", "a_", "it%", "_"])
        date, time = rng.choice(["ts", "d", "ns", "tz", "berlin"]), rng.choice(["ts", "tz"])
        parts = ["year", "month", "day", "hour"]
        return rng.choice(
            [
                f"{column} {operator} {value}",
                f"{value} {operator} {column}",
                f"{column} BETWEEN {value} AND {write()}",
                f"{column} IN ({value}, {write()}, {write()})",
                f"{column} NOT IN ({value}, {write()})",
                f"{column} IN ({', '.join(write() for _ in range(14))})",
                f"{column} IN ({value}, NULL)",
                f"{column} NOT IN ({value}, NULL)",
                f"{column} IS NULL",
                f"{column} IS NOT NULL",
                f"coalesce({column}, {value}) = {value}",
                f"{prefix}s LIKE '{like}'",
                f"{rng.choice(parts[:3])}({prefix}{date}) = {rng.choice([1, 2, 11, 2024])}",
                f"{rng.choice(parts)}({prefix}{time}) IN (1, 2, 11)",
                f"to_date({prefix}ts) {operator} DATE '2023-12-{rng.randint(10, 28)}'",
                f"date_trunc('MONTH', {prefix}ts) = TIMESTAMP_NTZ '2024-01-01'",
                f"CAST({prefix}k AS STRING) = '{rng.randrange(9)}'",
                f"CAST({prefix}k AS DOUBLE) > {rng.randrange(9)}.5",
                f"{prefix}id % 3 = {rng.randrange(3)}",
                f"upper({prefix}s) = 'AB'",
                f"{prefix}st.x {operator} {rng.randrange(5)}",
                rng.choice([f"{prefix}b", f"NOT {prefix}b", f"{prefix}b = true", f"{prefix}b <=> false"]),
            ]
        )

    def _values(self) -> dict[str, object]:
        rng = self._rng

        def quoted() -> str:
            text = rng.choice(TEXTS).replace("\\", "\\\\").replace("'", "\\'")
            return f"'{text}'"

        def moment(kind: str) -> str:
            at = START + dt.timedelta(hours=rng.randrange(24 * 120), microseconds=rng.choice([0, 1, 999_999]))
            return f"{kind} '{at}'"

        floats = [
            "0.0D",
            "-0.0D",
            "1.5D",
            "-2.25D",
            "double('NaN')",
            "double('Infinity')",
            "double('-Infinity')",
            "1e300D",
        ]
        decimals = ["0.00", "1.25", "-3.00", "4.5", "2", "1.255"]
        return {
            "id": lambda: str(rng.randrange(-5, NUM_ROWS)),
            "k": lambda: rng.choice([str(rng.randrange(40)), "3000000000", "2.5"]),
            "u": lambda: rng.choice(["-1", "2147483648", "100", "4294967295"]),
            "SMALL": lambda: str(rng.randrange(-200, 200)),
            "s": quoted,
            "`big text`": quoted,
            "f": lambda: rng.choice(floats),
            "g": lambda: rng.choice([*floats, "float('1.5')", "float('NaN')", "float('0')", "float('0.1')"]),
            "d": lambda: rng.choice([f"DATE '2023-12-{rng.randint(10, 28)}'", "DATE '9999-12-31'"]),
            "ts": lambda: rng.choice(
                [moment("TIMESTAMP_NTZ"), "TIMESTAMP_NTZ '9999-01-01'", moment("TIMESTAMP")]
            ),
            "ns": lambda: rng.choice([moment("TIMESTAMP_NTZ"), "TIMESTAMP_NTZ '9999-01-01'"]),
            "ms": lambda: moment("TIMESTAMP_NTZ"),
            "tz": lambda: moment("TIMESTAMP"),
            "berlin": lambda: moment("TIMESTAMP"),
            "dec": lambda: rng.choice(decimals),
            "wide": lambda: rng.choice(decimals),
        }


def collected(df: DataFrame) -> list[str]:
    """Return the rows of a DataFrame in an order of their own."""
    return sorted(repr(row) for row in df.toArrow().to_pylist())


def scans_of(df: DataFrame) -> list[dict[str, str]]:
    """Return the options of the scans of a DataFrame."""
    held = df._jdf  # type: ignore[operator]
    found = pruned.occurrences(held.queryExecution().optimizedPlan(), pruned.Plans(df.sparkSession))
    return [dict(each.relation.options().asCaseSensitiveMap()) for each in found]


def compare(spark: SparkSession, seed: int) -> tuple[str, str | None, bool]:
    """Run a query as it is, and pruned. Returns it, what differs, and whether a condition was passed on."""
    query = Queries(seed).query()
    df = spark.sql(query)
    try:
        wanted = collected(df)
    except Exception as err:  # noqa: BLE001 - whatever Spark has against it
        return query, f"not run: {str(err)[:200]}", False
    less = lance_df.spark.prune(df)
    found = collected(less)
    scans = scans_of(less)
    differs = None
    if found != wanted or less.schema != df.schema:
        differs = f"{len(wanted)} rows, and pruned {len(found)}: {scans}"
    return query, differs, any("filter" in each for each in scans)


def main() -> int:
    """Run the queries, and print those that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    pruned.MIN_BYTES = 1  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder:
        spark = lance_df.spark.session(
            "local[2]",
            conf={
                "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false",
                "spark.sql.shuffle.partitions": "1",
                "spark.log.level": "OFF",
            },
        )
        make_sources(spark, Path(folder))
        counts = {"equal": 0, "with conditions": 0, "not run": 0, "different": 0}
        for seed in range(options.seed, options.seed + options.queries):
            query, differs, has_filter = compare(spark, seed)
            is_run = differs is None or not differs.startswith("not run")
            counts["not run" if not is_run else "equal" if differs is None else "different"] += 1
            counts["with conditions"] += has_filter
            if differs is not None:
                sys.stdout.write(f"seed {seed}: {query}\n  {differs}\n")
                sys.stdout.flush()
        sys.stdout.write(f"{counts}\n")
        spark.stop()
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
