"""`lance_df.spark.build_statistics`: zone maps for what lacks them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from local_tasks import NO_SPARK, LocalTasks

import lance_df
from lance_df.errors import ColumnNotFoundError, RetryableConflictError, UnsupportedFeatureError
from lance_df.spark.pipeline import statistics


def rows(count, first=0):
    numbers = pa.array(range(first, first + count), pa.int64())
    texts = pa.array([None if i % 9 == 0 else f"t{i:08}" for i in range(first, first + count)], pa.string())
    lists = pa.array([[i] for i in range(count)], pa.list_(pa.int64()))
    return pa.table({"p": pa.array([i % 2 for i in range(count)]), "k": numbers, "t": texts, "l": lists})


@pytest.fixture
def root(tmp_path):
    """A namespace of two members with three zones each, and one with a few rows only."""
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "ns", rows(1).schema, ["identity(p)"])
    for number in range(2):
        namespace.append(rows(24_000, 24_000 * number), statistics=False)
    namespace.append(rows(1, 100_000).set_column(0, "p", pa.array([7])))
    return tmp_path / "ns"


@pytest.fixture
def tasks(monkeypatch):
    return LocalTasks().install(monkeypatch, statistics)


def opened(root):
    return lance_df.PartitionedNamespace.open(root)


def members(root):
    found = opened(root).partitions()
    pairs = zip(found["location"].to_pylist(), found["read_version"].to_pylist(), strict=True)
    return [lance_df.dataset(root / name, version=version) for name, version in pairs]


def indexed(root):
    return sorted(
        sorted(f"{each['fields'][0]}:{len(each['fragment_ids'])}" for each in member.list_indices())
        for member in members(root)
    )


@pytest.mark.parametrize("task_bytes", [1, 1 << 30])
def test_members_of_several_zones_get_zone_maps(root, tasks, task_bytes):
    before, wanted = opened(root), opened(root).to_table().sort_by("k")
    metrics = lance_df.spark.build_statistics(NO_SPARK, root, task_bytes=task_bytes)
    assert (metrics.tables, metrics.fragments) == (2, 4)
    assert indexed(root) == [[], ["k:2", "t:2"], ["k:2", "t:2"]]
    assert opened(root).version == before.version + 1
    assert opened(root).to_table().sort_by("k") == wanted
    report = opened(root).plan_scan(pc.field("k") < 100).report
    assert report.pages.kept < report.pages.total or report.fragments.kept < report.fragments.total
    assert opened(root).count_rows("k < 100 OR t = 't00030001'") == 101
    assert lance_df.verify(root, deep=True).ok
    again = lance_df.spark.build_statistics(NO_SPARK, root, task_bytes=task_bytes)
    assert again == statistics.StatisticsMetrics()
    opened(root).append(rows(10_000, 50_000), statistics=False)
    metrics = lance_df.spark.build_statistics(NO_SPARK, root, ["k"], task_bytes=task_bytes)
    assert (metrics.tables, metrics.fragments) == (3, 3)
    assert indexed(root) == [["k:1"], ["k:3", "t:2"], ["k:3", "t:2"]]
    assert opened(root).count_rows("k >= 59000") == 1000 + 1


@pytest.mark.spark
def test_statistics_on_spark(spark, root, tmp_path):
    assert lance_df.spark.build_statistics(spark, root).tables == 2
    assert indexed(root) == [[], ["k:2", "t:2"], ["k:2", "t:2"]]


def test_statistics_of_a_table(tmp_path, tasks):
    for number in range(3):
        lance_df.write_dataset(rows(9000, 9000 * number), tmp_path / "t", mode="append", statistics=False)
    table = lance_df.dataset(tmp_path / "t")
    table.delete("k = 5")
    table.create_scalar_index("k", "ZONEMAP", name="mine")
    lance_df.write_dataset(rows(9000, 27_000), tmp_path / "t", mode="append", statistics=False)
    metrics = lance_df.spark.build_statistics(NO_SPARK, tmp_path / "t", task_bytes=1)
    assert (metrics.tables, metrics.fragments) == (1, 4)
    assert tasks.tasks["_collect"] == 4
    table = lance_df.dataset(tmp_path / "t")
    assert {each["name"]: len(each["fragment_ids"]) for each in table.list_indices()} == {
        "mine": 4,
        "p_idx": 4,
        "t_idx": 4,
    }
    assert table.count_rows("k BETWEEN 0 AND 9 OR t = 't00030001'") == 10
    assert lance_df.spark.build_statistics(NO_SPARK, tmp_path / "t").fragments == 0
    assert lance_df.dataset(tmp_path / "t").version == table.version


def test_wrong_columns(root, tasks):
    with pytest.raises(ColumnNotFoundError, match="nope"):
        lance_df.spark.build_statistics(NO_SPARK, root, ["nope"])
    with pytest.raises(UnsupportedFeatureError, match="a zone map is not supported"):
        lance_df.spark.build_statistics(NO_SPARK, root, ["l"])


def test_what_others_do_meanwhile_stays(root, tasks, monkeypatch):
    publish = statistics.publish

    def late(*args):
        opened(root).delete("p = 0 AND k < 20000")
        return publish(*args)

    monkeypatch.setattr(statistics, "publish", late)
    lance_df.spark.build_statistics(NO_SPARK, root)
    assert opened(root).count_rows() == 48_001 - 10_000
    assert indexed(root) == [[], [], ["k:2", "t:2"]]
    monkeypatch.setattr(
        statistics, "publish", lambda *args: (opened(root).drop_columns(["t"]), publish(*args))
    )
    with pytest.raises(RetryableConflictError, match="schema"):
        lance_df.spark.build_statistics(NO_SPARK, root)
    assert lance_df.verify(root, deep=True).ok
