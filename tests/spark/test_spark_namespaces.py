"""Partitioned namespaces through the data source: routed by task, published by the driver at once."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df import partition
from lance_df.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lance_df.namespace.health.orphans import remove_orphans
from lance_df.spark.failures import typed_errors
from lance_df.storage import open_location

pytestmark = pytest.mark.spark

COLUMNS = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("s", pa.string())])
START = dt.datetime(2024, 1, 1)


def rows(count: int, first: int = 0) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        [
            [START + dt.timedelta(hours=7 * i) for i in numbers],
            list(numbers),
            [None if i % 5 == 0 else f"s{i % 3}" for i in numbers],
        ],
        schema=COLUMNS,
    )


@pytest.fixture
def root(tmp_path):
    namespace = lance_df.PartitionedNamespace.create(
        tmp_path / "ns", COLUMNS, [partition.month("ts"), partition.bucket("k", 2)]
    )
    namespace.append(rows(500))
    return str(tmp_path / "ns")


def frame(spark, table):
    return spark.createDataFrame(table).selectExpr("CAST(ts AS TIMESTAMP_NTZ) AS ts", "k", "s")


def opened(root):
    return lance_df.PartitionedNamespace.open(root)


def read(spark, root, **options):
    return spark.read.format("lance_df").options(**options).load(root)


def write(df, root, mode="append", **options):
    df.write.format("lance_df").mode(mode).options(**options).save(root)


def folders(root):
    from pathlib import Path

    return sorted(each.name for each in Path(root).iterdir())


def test_a_namespace_is_read_like_a_table(spark, root):
    assert read(spark, root).toArrow().sort_by("k") == rows(500)
    found = read(spark, root, filter="ts < TIMESTAMP '2024-02-01' AND s = 's1'", columns="k")
    wanted = opened(root).to_table(["k"], "ts < TIMESTAMP '2024-02-01' AND s = 's1'")
    assert sorted(found.toArrow()["k"].to_pylist()) == sorted(wanted["k"].to_pylist())
    later = read(spark, root, filter="date_part('month', ts) = 3 AND s IS NULL").count()
    assert later == opened(root).count_rows("date_part('month', ts) = 3 AND s IS NULL") > 0


def test_small_members_share_a_split(spark, root):
    assert len(opened(root).partitions()) == 10
    assert read(spark, root).rdd.getNumPartitions() == 1
    cut = read(spark, root, splitBytes=1)
    assert cut.rdd.getNumPartitions() >= 10
    assert cut.toArrow().sort_by("k") == rows(500)


def test_versions_of_namespaces(spark, root):
    opened(root).append(rows(10, 500))
    assert read(spark, root, version=2).count() == 500
    assert read(spark, root).count() == 510
    with pytest.raises(InvalidInputError, match="no branches"), typed_errors():
        read(spark, root, tag="golden")


def test_append_reaches_all_partitions_in_one_version(spark, root):
    before = opened(root)
    df = frame(spark, rows(700, 400)).repartition(3)
    write(df, root)
    after = opened(root)
    assert after.version == before.version + 1
    assert after.count_rows() == 1200
    assert after.at(before.version).to_table().sort_by("k") == rows(500)
    assert len(after.partitions()) == 22
    assert lance_df.verify(root).ok
    assert sorted(after.to_table()["k"].to_pylist()) == sorted([*range(500), *range(400, 1100)])


def test_new_partitions_have_one_folder_each_whoever_writes_them(spark, tmp_path):
    lance_df.PartitionedNamespace.create(tmp_path / "ns", COLUMNS, [partition.month("ts")])
    write(frame(spark, rows(500)).repartition(4), str(tmp_path / "ns"))
    assert len(folders(tmp_path / "ns")) == 1 + 5
    assert not remove_orphans(open_location(tmp_path / "ns"), older_than=dt.timedelta(0), dry_run=True)
    assert opened(tmp_path / "ns").to_table().sort_by("k") == rows(500)


def test_overwrite_replaces_all_or_the_partitions_that_occur(spark, root):
    january = frame(spark, rows(3))
    write(january, root, "overwrite", partitionOverwriteMode="dynamic")
    left = [k for k in range(500) if START + dt.timedelta(hours=7 * k) >= dt.datetime(2024, 2, 1)]
    buckets = opened(root).to_table(filter="k < 3")
    assert sorted(buckets["k"].to_pylist()) == [0, 1, 2]
    assert set(left) <= set(opened(root).to_table()["k"].to_pylist())
    write(january, root, "overwrite")
    assert opened(root).to_table().sort_by("k") == rows(3)
    write(january.where("k < 0"), root, "overwrite")
    assert opened(root).count_rows() == 0


def test_pipeline_append_makes_the_namespace(spark, tmp_path):
    df = frame(spark, rows(500)).repartition(4)
    lance_df.spark.append(df, tmp_path / "ns", partition_by=["month(ts)"], sort_by=["k"])
    namespace = opened(tmp_path / "ns")
    assert namespace.to_table().sort_by("k") == rows(500)
    for name in namespace.partitions()["location"].to_pylist():
        member = lance_df.dataset(tmp_path / "ns" / name)
        assert len(member.get_fragments()) == 1
        numbers = member.to_table()["k"].to_pylist()
        assert numbers == sorted(numbers)
    with pytest.raises(NotFoundError):
        lance_df.spark.append(df, tmp_path / "none")


@pytest.mark.parametrize(("distribution", "files"), [("hash", 1), ("none", 3)])
def test_partitions_are_brought_together_or_written_where_rows_are(spark, tmp_path, distribution, files):
    source = rows(60)
    few = source.filter(pc.less(pc.month(source["ts"]), 2))
    df = frame(spark, pa.concat_tables([few] * 3)).repartition(3, "k")
    root = tmp_path / "new"
    lance_df.spark.append(df, root, partition_by=["month(ts)"], sort_by=["k"], distribution=distribution)
    found = opened(root)
    assert found.to_table().sort_by("k").equals(pa.concat_tables([few] * 3).sort_by("k"))
    (name,) = found.partitions()["location"].to_pylist()
    assert len(lance_df.dataset(root / name).get_fragments()) == files


def test_mistakes_in_appends_are_typed(spark, root, tmp_path):
    with pytest.raises(InvalidInputError, match="distribution must be hash or none, got 'range'"):
        lance_df.spark.append(frame(spark, rows(1)), tmp_path / "no", distribution="range")
    with pytest.raises(InvalidInputError, match="a list of columns, got 'ks'"):
        lance_df.spark.append(frame(spark, rows(1)), root, sort_by="ks")
    with pytest.raises(InvalidInputError, match="run id must not be empty"):
        lance_df.spark.append(frame(spark, rows(1)), tmp_path / "no", partition_by=["month(ts)"], run_id="")
    with pytest.raises(InvalidInputError, match="run id must not be empty"):
        lance_df.spark.write(frame(spark, rows(1)), tmp_path / "no", run_id="")
    lance_df.write_dataset(rows(1), tmp_path / "table")
    with pytest.raises(AlreadyExistsError, match="a table already exists"):
        lance_df.spark.append(frame(spark, rows(1)), tmp_path / "table", partition_by=["month(ts)"])
    assert not (tmp_path / "no").exists()


def test_a_namespace_whose_first_rows_fail_is_not_there(spark, tmp_path):
    wrong = spark.sql("SELECT id, id % 2 AS g, 1 / (id - 5) AS q FROM range(10)")
    right = wrong.withColumn("q", wrong["id"].cast("double"))
    (tmp_path / "n").mkdir()
    (tmp_path / "n" / "other.txt").write_text("stays")
    for name in ("m", "n"):
        for mode in ("errorifexists", "ignore"):
            with pytest.raises(InvalidInputError, match="DIVIDE_BY_ZERO"):
                lance_df.spark.write(wrong, tmp_path / name, mode=mode, partition_by=["identity(g)"])
    assert not (tmp_path / "m").exists()
    assert [each.name for each in (tmp_path / "n").iterdir()] == ["other.txt"]
    lance_df.spark.write(right, tmp_path / "m", mode="ignore", partition_by=["identity(g)"])
    assert read(spark, str(tmp_path / "m")).count() == 10
    # of a namespace that was there nothing is removed
    lance_df.PartitionedNamespace.create(tmp_path / "empty", opened(tmp_path / "m").schema, ["identity(g)"])
    with pytest.raises(InvalidInputError, match="DIVIDE_BY_ZERO"):
        lance_df.spark.append(wrong, tmp_path / "empty", partition_by=["identity(g)"])
    assert len(opened(tmp_path / "empty")) == 0


def test_a_namespace_that_others_write_to_stays(spark, tmp_path, monkeypatch):
    wrong = spark.sql("SELECT id, id % 2 AS g, 1 / (id - 5) AS q FROM range(10)")
    create = lance_df.PartitionedNamespace.create

    def created(root, *args, **kwargs):
        made = create(root, *args, **kwargs)
        (tmp_path / "m" / f"00000000_v1${'a' * 16}$dataset" / "data").mkdir(parents=True)
        return made

    monkeypatch.setattr(lance_df.PartitionedNamespace, "create", created)
    with pytest.raises(InvalidInputError, match="DIVIDE_BY_ZERO"):
        lance_df.spark.write(wrong, tmp_path / "m", partition_by=["identity(g)"])
    assert opened(tmp_path / "m").count_rows() == 0


def test_rows_that_do_not_fit_change_nothing(spark, root):
    before = folders(root)
    bad = spark.sql("SELECT TIMESTAMP_NTZ '2030-01-01' AS ts, 1L AS k, 'x' AS s, 1 AS more")
    with pytest.raises(InvalidInputError, match="more"):
        lance_df.spark.append(bad, root)
    with pytest.raises(InvalidInputError, match="TIMESTAMP_NTZ"):
        lance_df.spark.append(spark.createDataFrame(rows(3)), root)
    with pytest.raises(InvalidInputError, match="'k'"):
        lance_df.spark.append(spark.sql("SELECT TIMESTAMP_NTZ '2030-01-01' AS ts, 'z' AS k, 'x' AS s"), root)
    assert opened(root).count_rows() == 500
    assert folders(root) == before
