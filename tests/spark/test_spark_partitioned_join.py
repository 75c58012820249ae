"""`lance_df.spark.partitioned_join`: the answers of Spark's own join, from tasks, without a shuffle."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df import partition
from lance_df.errors import (
    ColumnNotFoundError,
    DatasetNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lance_df.spark.pipeline.join_source import JoinSource
from lance_df.spark.pipeline.joins import partitioned_join
from lance_df.spark.types import arrow_schema, spark_schema, to_spark

LEFT = pa.schema([("k", pa.int64()), ("v", pa.int32()), ("x", pa.string())])
RIGHT = pa.schema([("k", pa.int64()), ("w", pa.float64()), ("when", pa.timestamp("ns"))])
KINDS = ["inner", "left", "right", "full", "semi", "anti"]


def left_rows():
    keys = [None if i % 13 == 0 else i * 7 % 150 for i in range(400)]
    return pa.table([keys, list(range(400)), [f"x{i % 3}" for i in range(400)]], schema=LEFT)


def right_rows():
    keys = [None if i % 11 == 0 else i for i in range(0, 300, 2)]
    return pa.table([keys, [i / 4 for i in range(150)], list(range(150))], schema=RIGHT)


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    """Two namespaces; the left one has members of two spec versions, the right one of one."""
    folder = tmp_path_factory.mktemp("joined")
    left = lance_df.PartitionedNamespace.create(folder / "left", LEFT, [partition.bucket("k", 12)])
    rows = left_rows()
    left.append(rows.slice(0, 200))
    left.update_partition_spec([partition.bucket("k", 8), partition.identity("x")])
    left.append(rows.slice(200))
    right = lance_df.PartitionedNamespace.create(folder / "right", RIGHT, [partition.bucket("k", 8)])
    right.append(right_rows())
    return str(folder / "left"), str(folder / "right")


class PlannedOnly:
    """In the place of a session: notes what is to be read."""

    def __init__(self):
        self.dataSource = self.read = self
        self.given = {}

    def register(self, source):
        pass

    @property
    def sparkContext(self):
        from types import SimpleNamespace

        return SimpleNamespace(defaultParallelism=2)

    def format(self, name):
        return self

    def schema(self, schema):
        self.given["schema"] = schema
        return self

    def options(self, **options):
        self.given["options"] = options
        return self

    def load(self):
        source = JoinSource(self.given["options"])
        reader = pickle.loads(pickle.dumps(source)).reader(self.given["schema"])
        # of what is not merged
        return self if reader._merged_depth is not None else reader

    def repartition(self, count):
        assert count == 1
        return self

    def mapInArrow(self, function, schema):
        reader = JoinSource(self.given["options"]).reader(self.given["schema"])
        reader.merge = pickle.loads(pickle.dumps(function))
        return reader


def joined(*args, **kwargs):
    """Return the splits, and the rows, as tasks of Spark would make them."""
    reader = partitioned_join(PlannedOnly(), *args, **kwargs)
    splits = reader.partitions()
    merge = getattr(reader, "merge", iter)
    reader = pickle.loads(pickle.dumps(reader)) if merge is iter else reader
    return splits, list(merge(batch for split in splits for batch in reader.read(split)))


def as_rows(table):
    names = sorted(table.column_names if isinstance(table, pa.Table) else table.schema.names)
    rows = zip(*(table.column(name).to_pylist() for name in names), strict=True)
    return sorted(rows, key=lambda row: [(value is None, value) for value in row])


@pytest.mark.spark
def test_answers_are_those_of_spark_and_nothing_is_shuffled(spark, roots, tmp_path):
    left, right = (spark.createDataFrame(rows) for rows in (left_rows(), right_rows().drop(["when"])))
    mine = partitioned_join(spark, *roots, on="k", how="fullouter", task_bytes=1)
    assert mine.columns == ["k", "v", "x", "w", "when"]
    plan = mine._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" not in plan
    assert "BatchScan" in plan
    wanted = as_rows(left.join(right, on=["k"], how="fullouter").toArrow())
    assert as_rows(mine.toArrow().drop(["when"])) == wanted
    lance_df.spark.append(mine, tmp_path / "joined", partition_by=["bucket(k, 4)"])
    written = lance_df.PartitionedNamespace.open(tmp_path / "joined")
    assert as_rows(written.to_table().drop(["when"])) == wanted
    assert lance_df.verify(tmp_path / "joined", deep=True).ok


@pytest.mark.parametrize("kind", KINDS)
def test_joins_of_groups_make_up_the_join(roots, kind):
    splits, batches = joined(*roots, on="k", how=kind.upper())
    ctx = lance_df.connect(partitioned_joins="never")
    for name, root in zip("lr", roots, strict=True):
        lance_df.register(ctx, name, root)
    word = {"semi": "LEFT SEMI", "anti": "LEFT ANTI"}.get(kind, kind)
    key = {"full": "coalesce(l.k, r.k)", "right": "r.k"}.get(kind, "l.k")
    others = (
        "" if kind in ("semi", "anti") else ", w, arrow_cast(r.when, 'Timestamp(Microsecond, None)') AS when"
    )
    wanted = ctx.sql(f"SELECT {key} AS k, v, x {others} FROM l {word} JOIN r ON l.k = r.k").to_arrow_table()
    assert len(splits) == 1
    assert as_rows(pa.Table.from_batches(batches)) == as_rows(wanted)
    assert wanted.num_rows


def test_tasks_are_balanced_by_bytes(roots):
    splits, batches = joined(*roots, on="k", task_bytes=1)
    assert len(splits) > 1
    _, whole = joined(*roots, on="k")
    assert as_rows(pa.Table.from_batches(batches)) == as_rows(pa.Table.from_batches(whole))
    # those of bucket(4), which both specs of the left and that of the right share
    assert len(splits) <= 5


def test_queries_of_the_users_own(roots):
    _, batches = joined(*roots, on={"k": "k"}, select=["l.v + 1 AS n", "r.w"], filter="w > 5 AND l.x = 'x1'")
    found = pa.Table.from_batches(batches)
    right = {row["k"]: row["w"] for row in right_rows().to_pylist() if row["k"] is not None}
    wanted = [
        (row["v"] + 1, right[row["k"]])
        for row in left_rows().to_pylist()
        if row["k"] in right and right[row["k"]] > 5 and row["x"] == "x1"
    ]
    assert as_rows(found) == sorted(wanted)
    query = (
        "SELECT l.k, count(*) AS n, sum(w) AS s FROM l JOIN r ON l.k = r.k GROUP BY l.k HAVING count(*) > 1"
    )
    _, batches = joined(*roots, sql=query, task_bytes=1)
    counts = {}
    for row in left_rows().to_pylist():
        if row["k"] in right:
            counts[row["k"]] = counts.get(row["k"], 0) + 1
    found = pa.Table.from_batches(batches)
    assert as_rows(found) == sorted((k, n, n * right[k]) for k, n in counts.items() if n > 1)
    assert joined(*roots, on="k", filter="false")[1] == []


CALLS = [
    "count(*) AS n, count(w) AS nw, sum(v) AS s, avg(v) AS a, min(x) AS least, max(r.when) AS latest",
    "count(DISTINCT x) AS n",
    "sum(CAST(v AS DECIMAL(12, 3))) AS s, min(CAST(v AS BIGINT UNSIGNED)) AS m",
    "bool_and(v > 0) AS b, bool_or(v = 7) AS c, avg(CAST(NULL AS DOUBLE)) AS a, 2 * sum(w) + 1 AS z",
]


@pytest.mark.parametrize(
    ("calls", "clauses"),
    [
        *((calls, f"{kind} JOIN r ON l.k = r.k") for calls in CALLS for kind in ("", "RIGHT", "FULL")),
        *((calls, "JOIN r ON l.k = r.k WHERE v < 0") for calls in CALLS),
        *((f"x, {calls}", "JOIN r ON l.k = r.k WHERE v < 0 GROUP BY x") for calls in CALLS[:1]),
        *((f"x, {calls}", "FULL JOIN r ON l.k = r.k GROUP BY x") for calls in CALLS[:1]),
        *((f"x, v % 2 AS odd, {calls}", "FULL JOIN r ON l.k = r.k GROUP BY x, v % 2") for calls in CALLS[2:]),
        ("x, sum(v) AS s", "JOIN r ON l.k = r.k GROUP BY x HAVING count(*) > 55 ORDER BY x DESC LIMIT 1"),
        ("DISTINCT x, w < 9 AS few", "LEFT JOIN r ON l.k = r.k"),
        ("r.when, count(*) AS n", "LEFT JOIN r ON l.k = r.k GROUP BY r.when"),
        ("x, rank() OVER (ORDER BY sum(v)) AS place", "JOIN r ON l.k = r.k GROUP BY x"),
    ],
)
def test_aggregates_are_those_of_all_rows(roots, calls, clauses):
    query = f"SELECT {calls} FROM l {clauses}"
    splits, batches = joined(*roots, sql=query, task_bytes=1)
    assert splits
    ctx = lance_df.connect(partitioned_joins="never")
    for name, root in zip("lr", roots, strict=True):
        lance_df.register(ctx, name, root)
    wanted = ctx.sql(query).to_arrow_table()
    schema = arrow_schema(spark_schema(wanted.schema))
    expected = [row for batch in wanted.to_batches() for row in to_spark(batch, schema).to_pylist()]
    found = pa.Table.from_batches(batches, schema).to_pylist()
    assert Counter(map(repr, found)) == Counter(map(repr, expected))
    if "ORDER BY x" in clauses:
        assert found == expected


@pytest.mark.spark
def test_aggregates_are_merged_by_one_task(spark, roots, tmp_path):
    query = """SELECT x, count(*) AS n, sum(CAST(v AS DECIMAL(9, 2))) AS s, max(w) AS most
        FROM l JOIN r ON l.k = r.k GROUP BY x"""
    mine = lance_df.spark.partitioned_join(spark, *roots, sql=query, task_bytes=1)
    left, right = (spark.createDataFrame(rows) for rows in (left_rows(), right_rows().drop(["when"])))
    left.createOrReplaceTempView("l")
    right.createOrReplaceTempView("r")
    assert as_rows(mine.toArrow()) == as_rows(spark.sql(query).toArrow())
    assert (
        mine.where("x = 'x1'").select("most").collect()
        == spark.sql(f"{query} HAVING x = 'x1'").select("most").collect()
    )
    for side, rows, key in (("left", left_rows(), 14), ("right", right_rows(), 2)):
        namespace = lance_df.PartitionedNamespace.create(tmp_path / side, rows.schema, ["bucket(k, 1000)"])
        namespace.append(rows.filter(pc.equal(rows["k"], key)))
    apart = [tmp_path / "left", tmp_path / "right"]
    query = "SELECT count(*) AS n, sum(v) AS s, max(x) AS most FROM l JOIN r ON l.k = r.k"
    (split,), rows = joined(*apart, sql=query)
    assert split.tables is None
    assert pa.Table.from_batches(rows).to_pylist() == [{"n": 0, "s": None, "most": None}]
    assert lance_df.spark.partitioned_join(spark, *apart, sql=query).collect() == [(0, None, None)]
    assert lance_df.spark.partitioned_join(spark, *apart, sql=f"{query} GROUP BY v").collect() == []


def test_a_namespace_joined_with_itself(roots):
    _, batches = joined(roots[0], roots[0], on="k", select=["l.v", "r.v AS w"], task_bytes=1)
    keys = {}
    for row in left_rows().to_pylist():
        keys.setdefault(row["k"], []).append(row["v"])
    keys.pop(None)
    wanted = [(v, w) for values in keys.values() for v in values for w in values]
    assert as_rows(pa.Table.from_batches(batches)) == sorted(wanted)
    query = "SELECT a.v, b.x FROM l AS a JOIN l AS b ON a.k = b.k"
    assert sum(batch.num_rows for batch in joined(*roots, sql=query)[1]) == len(wanted)


def test_a_join_stays_at_its_versions(roots, tmp_path):
    session = PlannedOnly()
    root = str(tmp_path / "ns")
    namespace = lance_df.PartitionedNamespace.create(root, LEFT, [partition.bucket("k", 4)])
    namespace.append(left_rows())
    reader = partitioned_join(session, root, roots[1], on="k", how="left")
    namespace.append(left_rows())
    batches = [batch for split in reader.partitions() for batch in reader.read(split)]
    assert sum(batch.num_rows for batch in batches) == 400
    assert pickle.loads(reader.partitions()[0].tables)["l"].source.version == 2
    _, older = joined(root, roots[1], on="k", how="semi", left_version=1)
    assert older == []


def test_planning_processes_load_little():
    code = "import sys, lance_df.spark.pipeline.join_source; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert {"datafusion", "sqlglot", "pandas"}.isdisjoint(done.stdout.split())


def test_what_cannot_be_joined_by_partition_says_why(roots, tmp_path):
    other = str(tmp_path / "other")
    lance_df.PartitionedNamespace.create(other, RIGHT, [partition.identity("w")]).append(right_rows())
    with pytest.raises(UnsupportedFeatureError, match="no common partition field on the keys"):
        joined(roots[0], other, on="k")
    with pytest.raises(UnsupportedFeatureError, match=r"Sort.*rows of all partitions"):
        joined(*roots, sql="SELECT v FROM l JOIN r ON l.k = r.k ORDER BY v")
    with pytest.raises(UnsupportedFeatureError, match="rows of all partitions"):
        joined(*roots, sql="SELECT median(v) AS n FROM l JOIN r ON l.k = r.k")
    with pytest.raises(UnsupportedFeatureError, match="one side is not partitioned"):
        joined(*roots, sql="SELECT count(*) AS n FROM l JOIN r ON l.k = r.k WHERE v > (SELECT avg(w) FROM r)")
    with pytest.raises(UnsupportedFeatureError, match="NULL"):
        joined(*roots, sql="SELECT v FROM l WHERE k NOT IN (SELECT k FROM r)")
    with pytest.raises(UnsupportedFeatureError, match="it has no join"):
        joined(*roots, sql="SELECT v FROM l")


def test_a_repartitioned_namespace_is_joined_by_its_newest_spec(roots, tmp_path):
    moved = lance_df.PartitionedNamespace.create(tmp_path / "moved", RIGHT, [partition.identity("w")])
    moved.append(right_rows())
    moved.update_partition_spec([partition.bucket("k", 4)])
    with pytest.raises(UnsupportedFeatureError, match="no common partition field on the keys"):
        joined(roots[0], moved.uri, on="k")
    moved.repartition()
    _, batches = joined(roots[0], moved.uri, on="k")
    assert as_rows(pa.Table.from_batches(batches)) == as_rows(
        pa.Table.from_batches(joined(*roots, on="k")[1])
    )


def test_wrong_arguments(roots, tmp_path):
    with pytest.raises(InvalidInputError, match="how must be one of"):
        joined(*roots, on="k", how="cross")
    with pytest.raises(InvalidInputError, match="on must name the columns"):
        joined(*roots)
    with pytest.raises(InvalidInputError, match="task_bytes"):
        joined(*roots, on="k", task_bytes=0)
    with pytest.raises(InvalidInputError, match="cannot be combined"):
        joined(*roots, on="k", sql="SELECT 1")
    with pytest.raises(ColumnNotFoundError, match="'q'"):
        joined(*roots, on="q")
    with pytest.raises(ColumnNotFoundError, match="nope"):
        joined(*roots, on="k", select="nope")
    with pytest.raises(InvalidInputError, match="columns of the same name"):
        joined(*roots, on={"k": "k"})
    with pytest.raises(InvalidInputError):
        joined(*roots, sql="DROP TABLE l")
    with pytest.raises(DatasetNotFoundError):
        joined(roots[0], tmp_path / "none", on="k")
    lance_df.write_dataset(right_rows(), tmp_path / "table")
    with pytest.raises(InvalidInputError, match="expected a partitioned namespace"):
        joined(roots[0], tmp_path / "table", on="k")
