"""`lance_df.spark.compact`: of tables and namespaces, by tasks, in one commit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from local_tasks import NO_SPARK, LocalTasks

import lance_df
from lance_df.errors import InvalidInputError, RetryableConflictError, StorageError
from lance_df.spark.pipeline import compaction


def rows(count, first=0):
    numbers = range(first, first + count)
    return pa.table({"k": pa.array(numbers, pa.int64()), "s": [f"s{i % 7}" for i in numbers]})


@pytest.fixture
def root(tmp_path):
    """A namespace of 7 members, each of 4 fragments; rows of one of them are deleted."""
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "ns", rows(1).schema, ["identity(s)"])
    for number in range(4):
        namespace.append(rows(700, 700 * number))
    namespace.delete("k < 2000 AND s = 's3'")
    return tmp_path / "ns"


@pytest.fixture
def tasks(monkeypatch):
    return LocalTasks().install(monkeypatch, compaction)


def opened(root):
    return lance_df.PartitionedNamespace.open(root)


def files(root):
    return sorted(str(path) for path in Path(root).rglob("data/*") if "__manifest" not in str(path))


def fragments(root):
    members = opened(root).partitions()
    pairs = zip(members["location"].to_pylist(), members["read_version"].to_pylist(), strict=True)
    return [len(lance_df.dataset(root / name, version=version).get_fragments()) for name, version in pairs]


def contents(root):
    return opened(root).to_table().sort_by("k")


@pytest.mark.spark
def test_compaction_on_spark(spark, root):
    wanted, before = contents(root), opened(root).version
    metrics = lance_df.spark.compact(spark, root, task_bytes=1)
    assert (metrics.fragments_removed, metrics.fragments_added) == (6 * 4 + 2, 7)
    assert opened(root).version == before + 1
    assert fragments(root) == [1] * 7
    assert contents(root) == wanted
    assert lance_df.verify(root, deep=True).ok
    assert lance_df.spark.compact(spark, root).fragments_removed == 0
    assert opened(root).version == before + 1
    table = root.parent / "table"
    for number in range(3):
        lance_df.write_dataset(rows(100, 100 * number), table, mode="append")
    assert lance_df.spark.compact(spark, table).fragments_removed == 3
    with pytest.raises(InvalidInputError, match="target_rows_per_fragment") as caught:
        lance_df.spark.compact(spark, root, target_rows_per_fragment=0)
    assert caught.value.__cause__ is not None
    assert lance_df.dataset(table).to_table() == rows(300)


def test_small_members_share_a_task_and_large_ones_are_cut(root, tasks, tmp_path):
    lance_df.spark.compact(NO_SPARK, root)
    assert tasks.tasks["_rewrite"] == 1
    table = tmp_path / "large"
    for number in range(6):
        lance_df.write_dataset(rows(100, 100 * number), table, mode="append")
    lance_df.spark.compact(NO_SPARK, table, target_rows_per_fragment=200, task_bytes=1)
    assert tasks.tasks["_rewrite"] == 1 + 3
    version = lance_df.dataset(table).version
    lance_df.spark.compact(NO_SPARK, table, target_rows_per_fragment=200)
    assert lance_df.dataset(table).version == version
    assert lance_df.dataset(table).to_table() == rows(600)


def test_what_others_do_meanwhile_stays(root, tasks):
    def meddle(step):
        if step == "_commit_members":
            opened(root).append(rows(70, 10_000))
            opened(root).delete("k = 0 OR s = 's1'")

    tasks.before = meddle
    lance_df.spark.compact(NO_SPARK, root)
    wanted = [k for k in [*range(2800), *range(10_000, 10_070)] if k and k % 7 != 1]
    wanted = [k for k in wanted if k >= 2000 or k % 7 != 3]
    assert contents(root)["k"].to_pylist() == wanted
    assert lance_df.verify(root, deep=True).ok
    # of the member with the row that was deleted nothing was shown, of others what they had before
    assert sorted(fragments(root)) == [0, 2, 2, 2, 2, 2, 5]


def test_what_others_publish_after_members_were_compacted_stays(root, monkeypatch, tasks):
    publish = compaction.publish

    def late(*args, **kwargs):
        opened(root).append(rows(70, 10_000))
        return publish(*args, **kwargs)

    monkeypatch.setattr(compaction, "publish", late)
    lance_df.spark.compact(NO_SPARK, root)
    assert contents(root).num_rows == 2800 - 286 + 70
    assert fragments(root) == [2] * 7
    assert lance_df.verify(root, deep=True).ok


def test_a_schema_that_changes_meanwhile_is_a_conflict(root, tasks):
    tasks.before = lambda step: opened(root).drop_columns(["k"]) if step == "_commit_members" else None
    with pytest.raises(RetryableConflictError, match="schema"):
        lance_df.spark.compact(NO_SPARK, root)
    assert opened(root).schema.names == ["s"]
    tasks.before = lambda step: None
    lance_df.spark.compact(NO_SPARK, root)
    assert fragments(root) == [1] * 7


@pytest.mark.parametrize("kind", ["namespace", "table"])
def test_tasks_that_fail_leave_nothing(root, tasks, monkeypatch, kind, tmp_path):
    place = root
    if kind == "table":
        place = tmp_path / "table"
        for number in range(4):
            lance_df.write_dataset(rows(100, 100 * number), place, mode="append")
    before, calls = (files(place), sorted(tmp_path.rglob("*.manifest"))), []
    rewrite = compaction.rewrite

    def fail(*args):
        calls.append(args)
        if len(calls) == 2:
            raise StorageError("the disk is full")
        return rewrite(*args)

    monkeypatch.setattr(compaction, "rewrite", fail)
    with pytest.raises(StorageError, match="full"):
        lance_df.spark.compact(NO_SPARK, place, task_bytes=1, target_rows_per_fragment=200)
    assert len(calls) == 2
    assert (files(place), sorted(tmp_path.rglob("*.manifest"))) == before
    # a process that is killed removes nothing itself
    monkeypatch.setattr(compaction, "rewrite", lambda *args: (rewrite(*args), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        lance_df.spark.compact(NO_SPARK, place, target_rows_per_fragment=200)
    assert (files(place), sorted(tmp_path.rglob("*.manifest"))) == before


def test_two_compactions_at_once(root, tasks):
    def other(step):
        if step == "_commit_members":
            tasks.before = lambda _: None
            lance_df.spark.compact(NO_SPARK, root)

    wanted = contents(root)
    tasks.before = other
    lance_df.spark.compact(NO_SPARK, root)
    assert contents(root) == wanted
    assert fragments(root) == [1] * 7
    assert lance_df.verify(root, deep=True).ok


def test_members_that_are_read_at_their_newest_version(root, tasks):
    manifest = lance_df.dataset(root / "__manifest")
    manifest.update({"read_version": "NULL"}, where="object_type = 'table'")
    before, folder = opened(root).version, opened(root).partitions()["location"][0].as_py()
    extra = lance_df.dataset(root / folder).to_table().slice(0, 3)
    lance_df.write_dataset(extra, root / folder, mode="append")
    wanted = contents(root)
    assert lance_df.spark.compact(NO_SPARK, root).fragments_added == 7
    # versions are named first: what others commit to members from then on is not published
    assert opened(root).version == before + 2
    assert contents(root) == wanted
    assert fragments(root) == [1] * 7


def test_what_is_neither_table_nor_namespace(tmp_path, tasks):
    with pytest.raises(InvalidInputError, match="task_bytes"):
        lance_df.spark.compact(NO_SPARK, tmp_path, task_bytes=0)
    with pytest.raises(lance_df.errors.NotFoundError):
        lance_df.spark.compact(NO_SPARK, tmp_path / "none")
    lance_df.PartitionedNamespace.create(tmp_path / "ns", rows(1).schema, ["identity(s)"])
    assert lance_df.spark.compact(NO_SPARK, tmp_path / "ns").fragments_added == 0
