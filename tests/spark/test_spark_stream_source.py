"""The stream of rows that versions add: its reader is called as Spark calls it, then by Spark itself."""

from __future__ import annotations

import datetime as dt
import pickle
import shutil
import sys

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructField, StructType

import lance_df
from lance_df.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    MissingDependencyError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.spark.source import LanceSource
from lance_df.spark.stream_source import Offset

COLUMNS = StructType([StructField("k", LongType()), StructField("s", StringType())])


def rows(first, count=10):
    numbers = range(first, first + count)
    return pa.table({"k": pa.array(numbers, pa.int64()), "s": [f"s{k % 3}" for k in numbers]})


class Target:
    """A table or a namespace, with the changes that both have."""

    def __init__(self, kind, path):
        self.is_table, self.path = kind == "table", str(path)
        if self.is_table:
            lance_df.write_dataset(rows(0), path)
        else:
            lance_df.PartitionedNamespace.create(path, rows(0).schema, ["identity(s)"]).append(rows(0))

    @property
    def opened(self):
        return (lance_df.dataset if self.is_table else lance_df.PartitionedNamespace.open)(self.path)

    @property
    def version(self):
        return self.opened.version

    def append(self, first, count=10):
        if self.is_table:
            lance_df.write_dataset(rows(first, count), self.path, mode="append")
        else:
            self.opened.append(rows(first, count))

    def overwrite(self, first):
        if self.is_table:
            lance_df.write_dataset(rows(first), self.path, mode="overwrite")
        else:
            self.opened.overwrite_partitions(rows(first))

    def compact(self):
        (self.opened.optimize.compact_files if self.is_table else self.opened.compact)()


@pytest.fixture(params=["table", "namespace"])
def target(request, tmp_path):
    """Ten rows, in the newest version."""
    return Target(request.param, tmp_path / "target")


class Query:
    """Calls a reader as a query of Spark does, which keeps offsets in its checkpoint."""

    def __init__(self, path, schema=COLUMNS, start=None, **options):
        source = LanceSource({"path": path, **{name.lower(): str(value) for name, value in options.items()}})
        self.reader = source.streamReader(schema)
        self.start = start

    def batch(self, limit=None):
        """Return the keys of the next batch."""
        start = self.start or self.reader.initialOffset()
        end = self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit())
        found = self.between(start, end)
        self.start = end
        return found

    def between(self, start, end):
        splits = pickle.loads(pickle.dumps(self.reader.partitions(start, end)))
        reader = pickle.loads(pickle.dumps(self.reader))
        batches = [batch for split in splits for batch in reader.read(split)]
        return sorted(key for batch in batches for key in batch["k"].to_pylist())


def test_all_rows_come_first_and_then_what_each_version_adds(target):
    query = Query(target.path)
    assert query.batch() == [*range(10)]
    assert query.batch() == []
    target.append(10)
    target.append(20, 5)
    assert query.batch() == [*range(10, 25)]
    target.append(25, 3)
    assert query.batch() == [25, 26, 27]
    assert query.batch() == []
    assert query.start["version"] == target.version
    assert query.reader.reportLatestOffset() == {"version": target.version}


def test_where_a_stream_starts(target):
    first = target.version
    target.append(10)
    target.append(20)
    assert Query(target.path, startingVersion="latest").batch() == []
    assert Query(target.path, startingVersion=first + 1).batch() == [*range(10, 30)]
    assert Query(target.path, startingVersion=first + 3).batch() == []
    assert Query(target.path, startingVersion="earliest").batch() == [*range(30)]
    assert Query(target.path, startingVersion=1).batch() == [*range(30)]
    with pytest.raises(VersionNotFoundError, match=f"startingVersion is {first + 4}"):
        Query(target.path, startingVersion=first + 4).batch()
    query = Query(target.path, startingVersion="latest")
    assert query.batch() == []
    target.append(30)
    assert query.batch() == [*range(30, 40)]


def test_a_first_batch_that_is_run_again_is_the_same(target):
    for options in ({}, {"startingVersion": "latest"}, {"startingVersion": "earliest"}):
        query = Query(target.path, **options)
        start = query.reader.initialOffset()
        end = query.reader.latestOffset(start, ReadAllAvailable())
        wanted = query.between(start, end)
        number = target.opened.count_rows()
        target.append(number)
        again = Query(target.path, **options)
        assert again.between(again.reader.initialOffset(), end) == wanted
        assert Query(target.path, start=end).batch() == [*range(number, number + 10)]


def test_batches_are_bounded_by_versions_and_by_rows(target):
    for first in range(10, 60, 10):
        target.append(first)
    query = Query(target.path, startingVersion=target.version - 4, maxVersionsPerTrigger=2)
    assert [query.batch() for _ in range(4)] == [[*range(10, 30)], [*range(30, 50)], [*range(50, 60)], []]
    for max_rows, num_batches in ((1, 5), (10, 5), (29, 3), (30, 2), (1000, 1)):
        query = Query(target.path, startingVersion=target.version - 4, maxRowsPerTrigger=max_rows)
        found = [query.batch() for _ in range(num_batches)]
        assert [key for keys in found for key in keys] == [*range(10, 60)], max_rows
        assert query.batch() == []
    query = Query(target.path, startingVersion=target.version - 4, maxRowsPerTrigger=1)
    assert query.batch(ReadAllAvailable()) == [*range(10, 60)]
    query = Query(target.path, maxVersionsPerTrigger=1)
    assert [len(query.batch()) for _ in range(2)] == [60, 0]


def test_what_is_available_now_ends_there(target):
    query = Query(target.path, maxVersionsPerTrigger=1)
    query.reader.prepareForTriggerAvailableNow()
    target.append(10)
    assert query.batch() == [*range(20)] or query.batch() == []
    assert query.batch() == []


def test_versions_that_store_the_same_rows_in_another_way_add_none(target):
    query = Query(target.path)
    query.batch()
    target.append(10)
    target.append(20)
    target.compact()
    target.append(30)
    if target.is_table:
        target.opened.create_scalar_index("k", "ZONEMAP")
    target.opened.add_columns({"twice": "k * 2"} if target.is_table else pa.field("twice", pa.int64()))
    target.append(40)
    assert query.batch() == [*range(10, 50)]
    target.compact()
    assert query.batch() == []


def test_rows_that_repartition_moves_are_not_added_again(tmp_path):
    target = Target("namespace", tmp_path / "ns")
    query = Query(target.path)
    query.batch()
    target.append(10)
    target.opened.update_partition_spec(["bucket(k, 2)"])
    target.append(20)
    assert target.opened.repartition().commits == 1
    target.append(30)
    assert query.batch() == [*range(10, 40)]
    target.opened.update_partition_spec(["truncate(s, 1)"])
    assert target.opened.repartition(step_bytes=1).commits > 1
    assert query.batch() == []
    target.opened.delete("k < 40")
    target.append(40)
    with pytest.raises(UnsupportedFeatureError, match="skipChangeCommits"):
        query.batch()


def test_a_column_called_repartition_tells_no_move(tmp_path):
    data = rows(0).append_column("repartition", pa.array([True] * 10))
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "ns", data.schema, ["identity(s)"])
    namespace.append(data)
    query = Query(str(tmp_path / "ns"))
    query.batch()
    namespace.delete("repartition")
    namespace.append(data)
    with pytest.raises(UnsupportedFeatureError, match="skipChangeCommits"):
        query.batch()


@pytest.mark.parametrize("change", ["delete", "update", "overwrite", "restore"])
def test_versions_that_take_rows_back_stop_the_stream_or_are_skipped(target, change):
    query, skipping = (Query(target.path, **each) for each in ({}, {"skipChangeCommits": "true"}))
    assert query.batch() == skipping.batch() == [*range(10)]
    target.append(10)
    if change == "delete":
        target.opened.delete("k = 3")
    elif change == "update" and target.is_table:
        target.opened.update({"s": "'x'"}, "k = 3")
    elif change == "update":
        target.opened.upsert(rows(3, 1), on=["k"])
    elif change == "overwrite":
        target.overwrite(100)
    elif target.is_table:
        lance_df.dataset(target.path, version=1).restore()
    else:
        lance_df.dataset(f"{target.path}/__manifest", version=2).restore()
    number = target.version
    target.append(20)
    with pytest.raises(UnsupportedFeatureError, match="skipChangeCommits") as stopped:
        query.batch()
    # an upsert of a namespace deletes rows of a partition and appends the new ones
    operation = f" ({change.title()})" if target.is_table or change != "update" else ""
    wanted = f"{target.path}: version {number} changes existing rows{operation}, but a stream"
    assert str(stopped.value).startswith(wanted)
    assert skipping.batch() == [*range(10, 30)]


def test_rows_that_a_merge_inserts_are_added(tmp_path):
    target = Target("table", tmp_path / "t.lance")
    query = Query(target.path)
    query.batch()
    merge = target.opened.merge_insert("k").when_not_matched_insert_all()
    merge.execute(rows(5))
    target.opened.delete("k > 1000")
    assert query.batch() == [*range(10, 15)]


def test_versions_that_were_removed_are_missed(target):
    query = Query(target.path)
    query.batch()
    start = query.start
    for first in (10, 20, 30):
        target.append(first)
    target.opened.cleanup_old_versions(dt.timedelta(0))
    with pytest.raises(VersionNotFoundError, match="was removed before the stream read it"):
        Query(target.path, start=start).batch()
    if target.is_table:  # rows of the newest version alone need no other one
        newest = Query(target.path, start={"version": target.version - 1})
        assert newest.batch() == [*range(30, 40)]
    assert Query(target.path, startingVersion="earliest").batch() == [*range(40)]


def test_filters_and_columns_are_those_of_reads(target):
    query = Query(target.path, StructType(COLUMNS.fields[:1]), filter="s = 's1' AND k % 2 = 0", columns="k")
    assert query.batch() == [4]
    target.append(10)
    target.append(20)
    assert query.batch() == [k for k in range(10, 30) if k % 6 == 4]


def test_columns_that_go_away_are_named(target):
    query = Query(target.path)
    assert query.batch() == [*range(10)]
    target.opened.drop_columns(["k"])
    if target.is_table:
        lance_df.write_dataset(rows(10).select(["s"]), target.path, mode="append")
    else:
        target.opened.append(rows(10).select(["s"]))
    with pytest.raises(ColumnNotFoundError, match=r"no column 'k'; the columns are s. Select columns"):
        query.batch()
    remaining = LanceSource({"path": target.path, "columns": "s"})
    reader = remaining.streamReader(remaining.schema())
    end = reader.latestOffset(query.start, ReadAllAvailable())
    splits = reader.partitions(query.start, end)
    assert sum(batch.num_rows for split in splits for batch in reader.read(split)) == 10


def test_columns_that_came_later_are_null_in_older_versions(target):
    first = target.version
    target.append(10)
    if target.is_table:
        target.opened.add_columns({"twice": "k * 2"})
        lance_df.write_dataset(
            rows(20).append_column("twice", pa.array([7] * 10)), target.path, mode="append"
        )
    else:
        target.opened.add_columns(pa.field("twice", pa.int64()))
        target.opened.append(rows(20).append_column("twice", pa.array([7] * 10)))
    newest = LanceSource({"path": target.path}).schema()
    query = Query(target.path, newest, startingVersion=first + 1, maxVersionsPerTrigger=1)
    start = query.reader.initialOffset()
    end = query.reader.latestOffset(start, query.reader.getDefaultReadLimit())
    [batch] = (
        pa.Table.from_batches(
            batch for split in query.reader.partitions(start, end) for batch in query.reader.read(split)
        )
        .combine_chunks()
        .to_batches()
    )
    assert (batch.schema.names, batch["twice"].null_count) == (["k", "s", "twice"], 10)
    assert query.batch() == [*range(10, 20)]
    assert [query.batch() for _ in range(3)] == [[], [*range(20, 30)], []]
    required = StructType([*COLUMNS, StructField("twice", LongType(), nullable=False)])
    for schema in (required, StructType(newest.fields[2:])):
        with pytest.raises(ColumnNotFoundError, match=r"no column 'twice'.*begin at a later version"):
            Query(target.path, schema, startingVersion=first + 1, maxVersionsPerTrigger=1).batch()


def test_older_releases_of_pyspark_read_no_streams(target, monkeypatch):
    source = LanceSource({"path": target.path})
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    monkeypatch.delitem(sys.modules, "lance_df.spark.stream_source")
    with pytest.raises(
        MissingDependencyError, match=r'PySpark 4.2 or later: pip install -U "lance_df\[spark\]"'
    ):
        source.streamReader(COLUMNS)
    assert source.reader(COLUMNS).partitions()


def test_mistakes_are_typed(target):
    for options, words in (
        ({"startingVersion": "x"}, "startingVersion"),
        ({"maxRowsPerTrigger": 0}, "maxRowsPerTrigger"),
        ({"skipChangeCommits": "yes"}, "skipChangeCommits"),
        ({"version": 1}, "startingVersion"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            Query(target.path, **options)
    with pytest.raises(InvalidInputError, match="is only for streams"):
        LanceSource({"path": target.path, "startingversion": "1"}).reader(COLUMNS)
    with pytest.raises(InvalidInputError, match="not an offset of lance_df"):
        Offset.parse({"offset": 3})
    with pytest.raises(VersionNotFoundError, match="another table"):
        Query(target.path, start={"version": 1000}).batch()


def test_members_without_a_version_have_no_history(tmp_path):
    directory = lance_df.PartitionedNamespace.create(tmp_path / "ns", rows(0).schema, ["identity(s)"])
    directory.append(rows(0))
    manifest = lance_df.dataset(tmp_path / "ns" / "__manifest")
    manifest.update({"read_version": "NULL"}, "object_type = 'table'")
    with pytest.raises(UnsupportedFeatureError, match="without a recorded version"):
        Query(str(tmp_path / "ns"), startingVersion=2).batch()


def altered(path, *changes):
    """Rename columns one after another, as ``old:new``, or change them otherwise."""
    for change in changes:
        dataset = lance_df.dataset(path)
        if isinstance(change, str):
            old, new = change.split(":")
            dataset.alter_columns({"path": old, "name": new})
        else:
            change(dataset)


SWAP = ("a:t", "b:a", "t:b")


def cast(path, data_type):
    return lambda dataset: dataset.alter_columns({"path": path, "data_type": data_type})


def drop(column):
    return lambda dataset: dataset.drop_columns([column])


def add(name, data_type):
    return lambda dataset: dataset.add_columns(pa.schema([(name, data_type)]))


def pair(number):
    return pa.table({"k": [number], "a": [f"A{number}"], "b": [f"B{number}"]})


def struct(number):
    return pa.table({"k": [number], "a": [{"x": number, "y": number}]})


def number(value):
    return pa.table({"k": [value], "a": pa.array([value * 10], pa.int32())})


def added_rows(make, path, *changes, **options):
    """Return the row that version 2 adds, as a stream of the columns after some changes reads it."""
    lance_df.write_dataset(make(1), path)
    lance_df.write_dataset(make(2), path, mode="append")
    altered(path, *changes)
    source = LanceSource({"path": str(path), "startingversion": "2", **options})
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    splits = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    reader = pickle.loads(pickle.dumps(reader))
    return [row for split in splits for batch in reader.read(split) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("make", "changes", "options", "problem"),
    [
        (pair, ["a:c"], {}, "column 'c' is named 'a'"),
        (pair, SWAP, {}, "column 'b' is named 'a'"),
        (pair, SWAP, {"columns": "k", "filter": "a = 'B2'"}, "column 'a' is named 'b'"),
        (pair, SWAP, {"columns": "k", "filter": "upper(a) = 'B2'"}, "column 'a' is named 'b'"),
        (number, [drop("a"), add("a", pa.int32())], {}, "column 'a' is another one"),
        (number, [drop("a"), add("a", pa.string())], {}, "column 'a' is another one"),
        (number, [cast("a", pa.int64()), "a:c"], {}, "column 'c' is named 'a'"),
        (struct, ["a.y:z"], {}, "column 'a.z' is named 'a.y'"),
        (struct, [drop("a.y")], {}, "the fields of column 'a' are x, y, not x"),
        (pair, [add("c", pa.int64())], {"filter": "c IS NULL"}, "no column 'c'"),
    ],
)
def test_columns_that_are_others_in_older_versions_stop_the_stream(tmp_path, make, changes, options, problem):
    path = tmp_path / "t.lance"
    with pytest.raises(
        ColumnNotFoundError, match=rf"t\.lance: version 2.*{problem}.*begin at a later version"
    ):
        added_rows(make, path, *changes, **options)


@pytest.mark.parametrize(
    ("make", "changes", "options", "row"),
    [
        (pair, ["a:c"], {"columns": "k,b", "filter": "b = 'B2'"}, {"k": 2, "b": "B2"}),
        (pair, ["a:c", "c:a"], {}, {"k": 2, "a": "A2", "b": "B2"}),
        (pair, [drop("a"), add("c", pa.int64())], {}, {"k": 2, "b": "B2", "c": None}),
        (number, [cast("a", pa.int64())], {}, {"k": 2, "a": 20}),
        (number, [cast("a", pa.int16()), cast("a", pa.int8())], {"filter": "a = 20"}, {"k": 2, "a": 20}),
        (number, ["a:c", cast("c", pa.int64()), "c:a"], {}, {"k": 2, "a": 20}),
        (struct, [cast("a.y", pa.int32())], {}, {"k": 2, "a": {"x": 2, "y": 2}}),
    ],
)
def test_columns_that_are_the_same_in_older_versions_are_read(tmp_path, make, changes, options, row):
    assert added_rows(make, tmp_path / "t.lance", *changes, **options) == [row]


def test_values_that_a_cast_column_cannot_hold_name_the_version(tmp_path):
    def emptied(dataset):
        dataset.delete("true")

    with pytest.raises(InvalidInputError, match=r"t\.lance: version 2.*'a'.*20000.*begin at a later version"):
        added_rows(
            lambda value: number(value * 1000),
            tmp_path / "t.lance",
            emptied,
            cast("a", pa.int8()),
            skipchangecommits="true",
        )


def test_columns_of_an_overwrite_are_those_of_the_same_names(tmp_path):
    def overwritten(dataset):
        data = pa.table({"z": ["z"], "b": ["b"], "k": [3], "a": ["a"]})
        lance_df.write_dataset(data, dataset.uri, mode="overwrite")

    rows_ = added_rows(pair, tmp_path / "t.lance", overwritten, skipchangecommits="true")
    assert rows_ == [{"z": None, "b": "B2", "k": 2, "a": "A2"}]


def test_versions_after_a_restore_have_the_columns_of_the_restored_version(tmp_path):
    path = tmp_path / "t.lance"
    lance_df.write_dataset(pa.table({"k": [1], "s": [10]}), path)
    lance_df.write_dataset(pa.table({"s": [20], "k": [2]}), path, mode="overwrite")
    source = LanceSource({"path": str(path), "skipchangecommits": "true"})
    query = Query(str(path), source.schema(), skipchangecommits="true")
    assert query.batch() == [2]
    lance_df.dataset(path, version=1).restore()
    lance_df.write_dataset(pa.table({"k": [3], "s": [30]}), path, mode="append")
    assert query.batch() == [3]


def test_columns_that_change_while_a_query_runs(target):
    query = Query(target.path)
    query.batch()
    if target.is_table:
        altered(target.path, cast("k", pa.int32()))
        lance_df.write_dataset(
            rows(10).cast(lance_df.dataset(target.path).schema), target.path, mode="append"
        )
        assert query.batch() == [*range(10, 20)]
        target.opened.cleanup_old_versions(dt.timedelta(0))
        altered(target.path, "k:t", "s:k", "t:s")
        lance_df.write_dataset(
            pa.table({"s": pa.array([1], pa.int32()), "k": ["x"]}), target.path, mode="append"
        )
        message = "column 'k' is named 's'"
    else:
        target.opened.rename_column("k", "t")
        target.opened.append(rows(10).rename_columns(["t", "s"]))
        message = "column 'k' is named 't'"
    with pytest.raises(ColumnNotFoundError, match=message):
        query.batch()


def recreated(target, *firsts):
    shutil.rmtree(target.path)
    again = Target("table" if target.is_table else "namespace", target.path)
    for first in firsts:
        again.append(first)


@pytest.mark.parametrize("num_later", [0, 1, 3])
@pytest.mark.parametrize("is_running", [True, False])
def test_a_table_that_was_dropped_and_created_again_is_another_one(target, num_later, is_running):
    target.append(10)
    query = Query(target.path)
    assert query.batch() == [*range(20)]
    start = query.start
    recreated(target, *range(100, 100 + 10 * num_later, 10))
    if not is_running:
        query = Query(target.path, start=start)
    with pytest.raises(VersionNotFoundError, match=r"another table; start again with a new checkpoint"):
        query.batch()


def test_a_batch_of_a_table_that_was_created_again_is_not_run_again(target):
    query = Query(target.path, startingVersion="latest")
    start = query.reader.initialOffset()
    target.append(10)
    end = query.reader.latestOffset(start, ReadAllAvailable())
    assert query.between(start, end) == [*range(10, 20)]
    recreated(target, 10)
    with pytest.raises(VersionNotFoundError, match="another table"):
        Query(target.path).between(start, end)


def test_checkpoints_of_earlier_releases_are_read(target):
    number_ = target.version
    target.append(10)
    assert Query(target.path, start={"version": number_}).batch() == [*range(10, 20)]
    first = {"version": 0, "begin": target.version, "whole": True}
    assert Query(target.path, start=first).batch() == [*range(20)]
