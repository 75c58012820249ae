"""Rows of a partition go to one task: the numbers that say so are those of its values."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import lance_df
from lance_df.namespace.changes.routing import values_of_rows
from lance_df.namespace.keys import value_keys
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.spark.opened import SourceRef
from lance_df.spark.options import SourceOptions
from lance_df.spark.routes import route
from lance_df.storage import open_location

pytestmark = pytest.mark.spark

UTC = dt.UTC
MOMENTS = [
    dt.datetime(1, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1970, 1, 1),
    dt.datetime(2024, 2, 29, 18, 29),
    dt.datetime(2024, 2, 29, 18, 31),
    dt.datetime(2024, 3, 1, 0, 10),
    dt.datetime(9999, 12, 31, 23),
    None,
]
ROWS = pa.table(
    {
        "l": pa.array([-(2**63), -11, -1, 0, 9, 10, 2**63 - 1, None], pa.int64()),
        "b": pa.array([-128, -10, -9, 0, 9, 10, 127, None], pa.int8()),
        "s": ["", "a", "ab", "abc", "äöü", "äöx", "😀b", None],
        "d": pa.array([each and each.date() for each in MOMENTS], pa.date32()),
        "n": pa.array(MOMENTS, pa.timestamp("us")),
        "z": pa.array([each and each.replace(tzinfo=UTC) for each in MOMENTS], pa.timestamp("us", "UTC")),
        "a b": [True, False, True, None, True, False, True, None],
        "p": [{"x": 1}, {"x": 2}, {"x": None}, {"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}, {"x": 5}],
    }
)
BY_SPARK = [
    ["l", "s"],
    ["truncate(l, 10)"],
    ["truncate(b, 10)"],
    ["truncate(s, 2)"],
    ["year(d)", "month(d)"],
    ["day(n)", "hour(n)"],
    ["year(z)", "month(z)", "day(z)"],
    ["hour(z)"],
    [lance_df.partition.identity("a b")],
    [lance_df.partition.identity("p.x")],
]
BY_WRITERS = [["bucket(l, 3)", "d"]]


@pytest.fixture
def kolkata(spark):
    """A session whose hours do not begin with those of UTC, and where times without a zone have none."""
    settings = {"spark.sql.session.timeZone": "Asia/Kolkata", "spark.sql.timestampType": "TIMESTAMP_NTZ"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


def test_numbers_tell_partitions_apart(kolkata, tmp_path):
    df = kolkata.createDataFrame(ROWS)
    specs = [*BY_SPARK, *BY_WRITERS]
    columns, expected = [], []
    for number, fields in enumerate(specs):
        root = tmp_path / str(number)
        lance_df.PartitionedNamespace.create(root, ROWS.schema, fields)
        snapshot = NamespaceSnapshot.open(open_location(root))
        ref = SourceRef.of(snapshot, SourceOptions(str(root)))
        columns.append(route(df, ref, snapshot).alias(f"r{number}"))
        schema, spec = snapshot.manifest.schema, snapshot.manifest.specs.current
        values = values_of_rows(spec, schema, ROWS.combine_chunks().to_batches()[0])
        expected.append(value_keys(values.columns).to_pylist())
    by_spark = df.select(*columns[: len(BY_SPARK)])
    assert "Python" not in by_spark._jdf.queryExecution().toString()
    found = df.coalesce(1).select(*columns).toArrow()
    for number, fields in enumerate(specs):
        routes = found[f"r{number}"].to_pylist()
        pairs = set(zip(routes, expected[number], strict=True))
        assert len(pairs) == len(set(routes)) == len(set(expected[number])), fields


def test_extreme_times_do_not_stop_a_job(kolkata, tmp_path):
    times = pa.table({"z": pa.array([-(2**63), 0, 2**63 - 1], pa.timestamp("us", "UTC"))})
    df = kolkata.range(3).selectExpr(
        "timestamp_micros(element_at(array(-9223372036854775807, 0, 9223372036854775807), int(id) + 1)) AS z"
    )
    lance_df.PartitionedNamespace.create(tmp_path / "t", times.schema, ["year(z)"])
    snapshot = NamespaceSnapshot.open(open_location(tmp_path / "t"))
    ref = SourceRef.of(snapshot, SourceOptions(str(tmp_path / "t")))
    assert len(df.select(route(df, ref, snapshot)).collect()) == 3
