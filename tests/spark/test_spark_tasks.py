"""What is shared out to tasks, tasks that die, and rows of skewed partitions."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import lance_df
from lance_df.errors import InvalidInputError, JobFailedError
from lance_df.spark.options import SourceOptions
from lance_df.spark.pipeline import tasks
from lance_df.spark.pipeline.tasks import cut_in_order, evenly, map_in_tasks, run_in_tasks, shared_out

MIB = 1 << 20


@dataclass(frozen=True)
class Work:
    num_bytes: int


def sizes(shares):
    return [sum(work.num_bytes for work in share) for share in shares]


def test_work_is_shared_out_by_bytes():
    many = [Work(MIB // 100)] * 1000
    assert len(shared_out(many, 2)) == len(cut_in_order(many, 2)) == 4
    assert max(sizes(shared_out(many, 2))) < 3 * MIB
    assert len(shared_out(many[:90], 64)) == 1  # less than a task is worth
    large = [*many, Work(50 * MIB)]
    for share in (shared_out, cut_in_order):
        shares = share(large, 2, 4 * MIB)
        assert sum(map(len, shares)) == 1001
        assert sum(sizes(shares)) == sum(work.num_bytes for work in large)
        assert all(shares)
    assert max(len(each) for each in shared_out(large, 2, 4 * MIB) if Work(50 * MIB) in each) == 1
    kept = [work for share in cut_in_order(large, 2, 4 * MIB) for work in share]
    assert kept == large
    assert shared_out([], 2) == cut_in_order([], 2) == evenly([], 2, 5) == []
    assert [len(each) for each in evenly(range(10), 2, 4)] == [5, 5]
    assert len(evenly(range(1000), 2, 1)) == 4


def test_results_come_in_the_order_of_items(monkeypatch):
    monkeypatch.setattr(tasks, "run_in_tasks", lambda _, function, work: [function(each) for each in work])
    monkeypatch.setattr(tasks, "num_workers", lambda _: 3)
    for count in (0, 1, 5, 100):
        assert map_in_tasks(None, str, range(count), least=2) == [str(number) for number in range(count)]


@pytest.mark.spark
def test_tasks_that_fail_and_die(spark):
    parse = SourceOptions.parse
    assert [found.version for found in run_in_tasks(spark, parse, [{"path": "x", "version": "3"}])] == [3]
    with pytest.raises(InvalidInputError, match="version must be a number of at least 1") as caught:
        run_in_tasks(spark, parse, [{"path": "x"}, {"path": "x", "version": "-1"}])
    assert isinstance(caught.value.__cause__, PySparkException)
    with pytest.raises(JobFailedError, match=r"failed 2 times: .*crashed"):
        run_in_tasks(spark, os._exit, [1])


@pytest.mark.spark
def test_skewed_partitions_are_written_by_several_tasks(spark, tmp_path):
    count = 40_000
    rows = pa.table(
        {
            "p": pa.array([0 if i % 10 else 1 + i % 3 for i in range(count)], pa.int64()),
            "k": pa.array([i * 7919 % count for i in range(count)], pa.int64()),
        }
    )
    # partitions that share a shuffle partition would be split together
    settings = {
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "32KB",
        "spark.sql.shuffle.partitions": "20",
    }
    former = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        df = spark.createDataFrame(rows).repartition(6)
        lance_df.spark.append(df, tmp_path / "ns", partition_by=["identity(p)"], sort_by=["k"])
    finally:
        for name, value in former.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
    namespace = lance_df.PartitionedNamespace.open(tmp_path / "ns")
    assert namespace.to_table().sort_by("k") == rows.sort_by("k")
    assert namespace.version == 2
    fragments = {}
    members = namespace.partitions()
    for folder, value in zip(members["location"].to_pylist(), members["p"].to_pylist(), strict=True):
        member = lance_df.dataset(tmp_path / "ns" / folder)
        fragments[value] = len(member.get_fragments())
        for fragment in member.get_fragments():
            numbers = fragment.to_table()["k"].to_pylist()
            assert numbers == sorted(numbers)
    assert fragments.pop(0) > 2
    assert set(fragments.values()) == {1}
