"""MERGE in tasks does what `merge_insert`, `upsert` and the MERGE of SQL do."""

from __future__ import annotations

import shutil
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from test_spark_changes import contents, files, made, opened, rows

import lance_df
from lance_df.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_df.spark.changes import merging

pytestmark = pytest.mark.spark

NAN = float("nan")


def shown(path: Path, *, order: str = "id") -> list[str]:
    """Return all rows as texts, in which NaN is equal to itself."""
    return sorted(map(repr, contents(path, order).to_pylist()))


def source_of(spark: Any, table: pa.Table) -> Any:
    """Return a DataFrame with the rows, in more than one task."""
    times = [
        field.with_type(pa.timestamp("us")) if pa.types.is_timestamp(field.type) else field
        for field in table.schema
    ]
    frame = spark.createDataFrame(table.cast(pa.schema(times), safe=False)).repartition(3)
    if "at" in frame.columns:
        frame = frame.withColumn("at", frame["at"].cast("timestamp_ntz"))
    return frame


def sql_merge(path: Path, table: pa.Table, clauses: str) -> None:
    ctx = lance_df.SessionContext()
    lance_df.register(ctx, "t", str(path))
    ctx.from_arrow(table, "src")
    ctx.sql(f"MERGE INTO t AS target USING src AS source ON target.id = source.id {clauses}").collect()


@pytest.fixture(params=["stable 2.2", "namespace"])
def both(request, tmp_path):
    path = made(tmp_path / "ours", request.param)
    return path, Path(shutil.copytree(path, tmp_path / "theirs"))


def test_a_history_of_merges_is_that_of_one_machine(both, spark):
    path, other = both
    is_namespace = (path / "__manifest").exists()
    version = opened(path).version
    new = rows(200, 400, seed=7)

    done = (
        lance_df.spark.merge(spark, path, source_of(spark, new), "id")
        .when_matched_update()
        .when_not_matched_insert()
        .execute()
    )
    times = new.set_column(4, "at", new["at"].cast(pa.timestamp("us"), safe=False).cast(pa.timestamp("ns")))
    times = times.cast(new.schema)
    if is_namespace:
        theirs = opened(other).upsert(times, "id")
    else:
        builder = opened(other).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        theirs = builder.execute(times)
    assert (done.num_inserted_rows, done.num_updated_rows, done.num_deleted_rows) == (100, 100, 0)
    assert theirs == {"num_inserted_rows": 100, "num_updated_rows": 100, "num_deleted_rows": 0}
    assert shown(path) == shown(other)
    assert opened(path).to_table().schema.equals(opened(other).to_table().schema, check_metadata=True)
    assert done.version == opened(path).version == version + 1

    clauses = (
        "WHEN MATCHED AND source.id % 5 = 0 THEN DELETE "
        "WHEN MATCHED AND target.x IS NOT NULL "
        "THEN UPDATE SET s = source.s || '+' || target.id, part = 'new' "
        "WHEN NOT MATCHED AND source.id < 640 THEN INSERT (id, s) VALUES (source.id + 1000, source.s) "
        "WHEN NOT MATCHED BY SOURCE AND target.id < 30 THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE AND target.id < 60 THEN UPDATE SET x = target.id / 2.0"
    )
    some = pa.table({"id": range(500, 700), "s": [f"é{number}" for number in range(200)]})
    done = (
        lance_df.spark.merge(spark, path, spark.createDataFrame(some).repartition(2), "id")
        .when_matched_delete("source.id % 5 = 0")
        .when_matched_update(
            {"s": "source.s || '+' || target.id", "part": "'new'"}, condition="target.x IS NOT NULL"
        )
        .when_not_matched_insert({"id": "source.id + 1000", "s": "source.s"}, condition="source.id < 640")
        .when_not_matched_by_source_delete("target.id < 30")
        .when_not_matched_by_source_update({"x": "target.id / 2.0"}, condition="target.id < 60")
        .execute()
    )
    sql_merge(other, some, clauses)
    assert shown(path) == shown(other)
    assert done.num_deleted_rows == 20 + 30
    assert done.num_inserted_rows == 40
    assert done.version == version + 2

    # fields of structs that the source has not stay as they are
    partial = spark.createDataFrame([(3, (7,)), (70, None), (9999, (1,))], "id long, n struct<a int>")
    before = {row["id"]: row["n"] for row in opened(path).to_table().to_pylist()}
    done = lance_df.spark.merge(spark, path, partial, "id").when_matched_update().execute()
    after = {row["id"]: row["n"] for row in opened(path).to_table().to_pylist()}
    wanted = dict(before)
    for number, n in ((3, {"a": 7}), (70, None)):
        if number in before:
            held = (before[number] or {}).get("b")
            wanted[number] = None if n is None else {**n, "b": held}
    assert after == wanted
    assert done.version == version + 3
    assert lance_df.verify(path, deep=True).ok
    if not is_namespace:
        ids = opened(path).to_table(columns=["id"], with_row_id=True)
        assert len(set(ids["_rowid"].to_pylist())) == ids.num_rows


def test_stable_row_ids_stay_with_their_rows(spark, tmp_path):
    path = made(tmp_path / "t", "stable 2.1")
    before = opened(path).to_table(columns=["id"], with_row_id=True)
    known = dict(zip(before["id"].to_pylist(), before["_rowid"].to_pylist(), strict=True))
    new = rows(200, 400, seed=7).select(["id", "s"])
    builder = lance_df.spark.merge(spark, path, source_of(spark, new), "id")
    builder.when_matched_update().when_not_matched_insert().execute()
    after = opened(path).to_table(columns=["id"], with_row_id=True)
    found = dict(zip(after["id"].to_pylist(), after["_rowid"].to_pylist(), strict=True))
    assert {number: found[number] for number in known} == known
    assert sorted(found.values()) == list(range(600))


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1"])
def test_keys_with_null_nan_and_zeros_in_every_file_version(spark, tmp_path, version):
    target = pa.table(
        {
            "k": pa.array([None, NAN, -0.0, 1.5, 1.5, 2.0]),
            "l": ["a", "ü", "ü", "x", "x", None],
            "v": range(6),
        }
    )
    source = pa.table({"k": pa.array([None, NAN, 0.0, 1.5, 2.0, 2.0]), "l": ["a", "ü", "ü", "x", None, None]})
    source = source.append_column("v", pa.array(range(10, 16)))
    path, other = tmp_path / "ours", tmp_path / "theirs"
    for each in (path, other):
        lance_df.write_dataset(target, each, data_storage_version=version, max_rows_per_file=3)
    builder = lance_df.spark.merge(spark, path, source_of(spark, source), ["k", "l"])
    done = builder.when_matched_update().when_not_matched_insert().execute()
    builder = lance_df.dataset(other).merge_insert(["k", "l"]).when_matched_update_all()
    theirs = builder.when_not_matched_insert_all().execute(source)
    assert done.num_updated_rows == theirs["num_updated_rows"] == 4
    assert done.num_inserted_rows == theirs["num_inserted_rows"] == 3
    assert shown(path, order="v") == shown(other, order="v")


@pytest.mark.parametrize("max_keys", [0, 100])
def test_keys_of_exact_numbers_match_by_value(spark, tmp_path, monkeypatch, max_keys):
    # above the maximum, keys rule out no rows
    monkeypatch.setattr("lance_df.spark.changes.merging._FEW_KEYS", max_keys)
    path = tmp_path / "t"
    lance_df.write_dataset(
        pa.table(
            {
                "n": pa.array([2**53 + 1, 7], pa.int64()),
                "u": pa.array([2**64 - 1, 7], pa.uint64()),
                "d": pa.array([Decimal("1.10"), Decimal(7)], pa.decimal128(38, 20)),
                "v": ["x", "x"],
            }
        ),
        path,
    )
    for keys, updated in (
        ("7Y AS n, 7L AS u, 7 AS d", 1),
        ("CAST(9007199254740993 AS DECIMAL(38,10)) AS n, 18446744073709551615 AS u, 1.1000BD AS d", 1),
        ("9007199254740992L AS n, 18446744073709551615 AS u, 1.10BD AS d", 0),
    ):
        merge = lance_df.spark.merge(spark, path, spark.sql(f"SELECT {keys}"), ["n", "u", "d"])
        assert merge.when_matched_update({"v": "'y'"}).execute().num_updated_rows == updated, keys


@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_keys_that_spark_would_round_are_refused(spark, tmp_path, kind):
    path = tmp_path / "t"
    target = pa.table(
        {
            "f": pa.array([0.1], pa.float32()),
            "g": [0.1],
            "n": [2**53],
            "i": pa.array([2**24], pa.int32()),
            "d": pa.array([Decimal(1)], pa.decimal128(38, 20)),
            "st": pa.array([{"f": 0.1}], pa.struct([("f", pa.float32())])),
            "h": pa.array([0.1], pa.float16()),
            "sth": pa.array([{"h": 0.1}], pa.struct([("h", pa.float16())])),
        }
    )
    if kind == "table":
        lance_df.write_dataset(target, path)
    else:
        lance_df.PartitionedNamespace.create(path, target.schema, ["bucket(n, 2)"]).append(target)
    for name, value, error, text in (
        ("f", "0.1D", InvalidInputError, "'f' has type float, but type double in the source; cast it"),
        ("g", "0.1F", InvalidInputError, "'g' has type double, but type float in the source; cast it"),
        ("n", "9007199254740992D", InvalidInputError, "'n' has type bigint, but type double"),
        ("i", "16777216F", InvalidInputError, "'i' has type int, but type float"),
        ("d", "1L", InvalidInputError, "'d' has type decimal.38,20., but type bigint"),
        ("d", "CAST(1 AS DECIMAL(38,0))", InvalidInputError, "'d' has type decimal"),
        ("st", "named_struct('f', 0.1D)", InvalidInputError, "'st' has type struct<f:float>, but"),
        ("h", "0.1F", UnsupportedFeatureError, "'h' has type halffloat, but Spark has no type"),
        ("sth", "named_struct('h', 0.1F)", UnsupportedFeatureError, "Spark has no type"),
    ):
        source = spark.sql(f"SELECT {value} AS {name}")
        upsert = lance_df.spark.upsert_batches(path, name, sink_id="s")
        for change in (
            lance_df.spark.merge(spark, path, source, name).when_matched_delete().execute,
            partial(upsert, source, 0),
        ):
            with pytest.raises(error, match=text):
                change()
    assert opened(path).to_table().num_rows == 1


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_fields_of_structs_in_values_go_by_name(spark, tmp_path, ansi):
    path = tmp_path / "t"
    pair = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    lance_df.write_dataset(pa.table({"id": [1], "st": pa.array([{"a": 0, "b": 0}], pair)}), path)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for value, found in (
            ("named_struct('b', 1L, 'a', 2)", {"a": 2, "b": 1}),
            ("named_struct('a', 5)", {"a": 5, "b": None}),
            ("named_struct('b', NULL)", {"a": None, "b": None}),
            ("NULL", None),
        ):
            merge = lance_df.spark.merge(spark, path, spark.sql("SELECT 1L AS id"), on="id")
            merge.when_matched_update({"st": value}).execute()
            assert lance_df.dataset(path).to_table()["st"].to_pylist() == [found], value
        merge = lance_df.spark.merge(spark, path, spark.sql("SELECT 1L AS id"), on="id")
        with pytest.raises(InvalidInputError, match="field 'c' does not exist"):
            merge.when_matched_update({"st": "named_struct('c', 5)"}).execute()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_nanoseconds_that_spark_has_not_match_nothing(spark, tmp_path):
    path = tmp_path / "t"
    moments = pa.array([1_000, 1_001, None], pa.timestamp("ns"))
    lance_df.write_dataset(pa.table({"at": moments, "v": [1, 2, 3]}), path)
    source = spark.createDataFrame([(datetime(1970, 1, 1, 0, 0, 0, 1), 9)], "at timestamp_ntz, v long")
    done = lance_df.spark.merge(spark, path, source, "at").when_matched_update().execute()
    assert done.num_updated_rows == 1
    done = (
        lance_df.spark.merge(spark, path, source, "at")
        .when_not_matched_by_source_update({"v": "target.v * 10"})
        .execute()
    )
    found = lance_df.dataset(path).to_table().sort_by("v")
    assert found["v"].to_pylist() == [9, 20, 30]
    assert found["at"].cast(pa.int64()).to_pylist() == [1_000, 1_001, None]


@pytest.mark.parametrize("kind", ["2.2", "namespace"])
def test_what_fails_in_a_task_publishes_nothing_and_leaves_no_files(spark, tmp_path, kind):
    path = made(tmp_path / "t", kind)
    before, version = files(tmp_path), opened(path).version
    new = rows(100, 450, seed=3)
    twice = source_of(spark, pa.concat_tables([new, new.slice(0, 1)]))
    with pytest.raises(InvalidInputError, match="several rows"):
        lance_df.spark.merge(
            spark, path, twice, "id"
        ).when_matched_update().when_not_matched_insert().execute()
    assert files(tmp_path) == before
    with pytest.raises(InvalidInputError, match="null"):
        lance_df.spark.merge(spark, path, source_of(spark, new), "id").when_matched_update(
            {"id": "CASE WHEN source.id = 470 THEN NULL ELSE source.id END"}
        ).execute()
    assert files(tmp_path) == before
    assert opened(path).version == version


def test_what_is_wrong_is_an_error(spark, tmp_path):
    path = made(tmp_path / "t", "2.2")
    frame = spark.createDataFrame([(1, "x")], "id long, s string")

    def merge(source: Any, on: Any = "id") -> Any:
        return lance_df.spark.merge(spark, path, source, on)

    for call, error, text in [
        (lambda: merge(frame).execute(), InvalidInputError, "clause"),
        (lambda: merge(frame, "nothing"), ColumnNotFoundError, "nothing"),
        (lambda: merge(frame, None), InvalidInputError, "key"),
        (lambda: lance_df.spark.merge(spark, path, frame, "id", run_id=""), InvalidInputError, "run id"),
        (
            lambda: merge(frame.withColumnRenamed("s", "y")).when_matched_update().execute(),
            InvalidInputError,
            "do not exist in the target: y",
        ),
        (lambda: merge(frame.drop("id")).when_matched_update().execute(), InvalidInputError, "no key column"),
        (
            lambda: merge(frame.selectExpr("'1' AS id")).when_matched_update().execute(),
            InvalidInputError,
            "cast it",
        ),
        (lambda: merge(frame).when_matched_update({"s": "target.y"}).execute(), ColumnNotFoundError, "y"),
        (lambda: merge(frame).when_matched_update({"n.a": "1"}), InvalidInputError, "struct"),
        (lambda: merge(frame).when_matched_update({"s": 3}), InvalidInputError, "F.lit"),
        (
            lambda: merge(frame).when_matched_update({"s": "to_json(struct(target.*))"}),
            InvalidInputError,
            "use column names",
        ),
        (
            lambda: merge(frame).when_matched_update({"s": F.to_json(F.struct("target.*"))}),
            InvalidInputError,
            "use column names",
        ),
        (
            lambda: merge(frame).when_not_matched_insert({"s": "source.s"}).execute(),
            InvalidInputError,
            "'id' is not nullable",
        ),
    ]:
        with pytest.raises(error, match=text):
            call()
    assert opened(path).version == 1
    values = {"s": "regexp_replace(source.s, '(.*)', '* ') || string(2 *\n source.id)"}
    assert merge(frame).when_matched_update(values).execute().num_updated_rows == 1


def test_an_empty_source_the_target_itself_and_a_run_id(spark, tmp_path):
    path = made(tmp_path / "t", "namespace")
    nothing = spark.createDataFrame([], "id long, s string")
    done = lance_df.spark.merge(spark, path, nothing, "id").when_matched_update().when_not_matched_insert()
    assert done.execute().num_updated_rows == 0
    done = lance_df.spark.merge(spark, path, nothing, "id").when_not_matched_by_source_delete("target.id < 9")
    assert done.execute().num_deleted_rows == 9
    itself = lance_df.spark.read(spark, path, columns=["id", "s"], filter="id % 2 = 0")
    for is_repeated in (False, True):
        builder = lance_df.spark.merge(spark, path, itself, "id", run_id="itself")
        summary = builder.when_matched_update({"s": "concat(source.s, target.s)", "x": "1"}).execute()
        assert summary.is_repeated is is_repeated
        assert summary.num_updated_rows == (0 if is_repeated else 245)
    found = contents(path)
    assert found.num_rows == 491
    assert sum(x == 1 for x in found["x"].to_pylist()) >= 245


@pytest.mark.parametrize("kind", ["2.2", "namespace"])
def test_merges_at_the_same_time_insert_a_key_once(spark, tmp_path, monkeypatch, kind):
    from lance_df.spark.changes import merging

    path = made(tmp_path / "t", kind)
    frame = spark.createDataFrame([(number, "ours") for number in range(490, 510)], "id long, s string")
    theirs = pa.table({"id": range(495, 505), "s": ["theirs"] * 10})
    original = merging.map_batches

    def late(*args: Any) -> Any:
        monkeypatch.setattr(merging, "map_batches", original)
        if kind == "namespace":
            opened(path).upsert(theirs, "id")
        else:
            builder = opened(path).merge_insert("id").when_matched_update_all()
            builder.when_not_matched_insert_all().execute(theirs)
        return original(*args)

    monkeypatch.setattr(merging, "map_batches", late)
    builder = lance_df.spark.merge(spark, path, frame, "id").when_matched_update({"s": "'u ' || source.s"})
    done = builder.when_not_matched_insert().execute()
    assert (done.num_updated_rows, done.num_inserted_rows) == (15, 5)
    found = contents(path)
    assert found["id"].to_pylist() == list(range(510))
    assert found["s"].to_pylist()[490:] == ["u ours"] * 15 + ["ours"] * 5


def test_hundreds_of_partitions_and_a_source_of_many_tasks(spark, tmp_path, monkeypatch):
    # as with sources of more rows, whose keys are not sent to all tasks
    monkeypatch.setattr("lance_df.spark.changes.merging._FEW_KEYS", 1000)
    path = tmp_path / "t"
    data = pa.table({"id": range(3000), "p": [number % 300 for number in range(3000)], "v": [0] * 3000})
    namespace = lance_df.PartitionedNamespace.create(path, data.schema, ["identity(p)"])
    namespace.append(data)
    frame = spark.range(0, 4000, 2, numPartitions=4).selectExpr("id", "(id + 1) % 310 AS p", "id AS v")
    done = lance_df.spark.merge(spark, path, frame, "id").when_matched_update().when_not_matched_insert()
    summary = done.execute()
    assert (summary.num_updated_rows, summary.num_inserted_rows) == (1500, 500)
    assert summary.version == namespace.version + 1
    found = contents(path)
    wanted = {number: (number % 300, 0) for number in range(3000)}
    wanted |= {number: ((number + 1) % 310, number) for number in range(0, 4000, 2)}
    ours = zip(*(found[name].to_pylist() for name in ("id", "p", "v")), strict=True)
    assert {number: (p, v) for number, p, v in ours} == wanted
    assert found.num_rows == len(wanted)
    assert opened(path).partitions().num_rows == 305


def test_a_merge_does_not_end_the_cache_of_another_merge_of_its_source(spark):
    """Merges in several threads read one source, whose rows differ each time that Spark computes it."""
    source = spark.range(50).select("id", F.expr("uuid()").alias("value"))
    with merging._computed_once(source) as one:
        first = sorted(one.collect())
        with merging._computed_once(source) as other:
            assert other.columns == source.columns
            assert len(other.collect()) == 50
        assert sorted(one.select("*").collect()) == first
    assert not source.storageLevel.useMemory
    kept = source.persist()
    with merging._computed_once(kept) as one:
        first = sorted(one.collect())
    assert sorted(kept.collect()) == first
    kept.unpersist()
