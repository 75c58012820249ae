"""`lance_df.spark.verify` and `repair` find and do what those without Spark find and do."""

from __future__ import annotations

import datetime as dt
import shutil

import lance
import lance_namespace as requests
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace as TheirNamespace
from local_tasks import NO_SPARK, LocalTasks

import lance_df
from lance_df.errors import DatasetNotFoundError, NotFoundError
from lance_df.spark.pipeline import tasks as tasks_module

ROWS = pa.table({"k": pa.array(range(40), pa.int64()), "s": [f"s{i % 8}" for i in range(40)]})


@pytest.fixture
def root(tmp_path):
    """A namespace of 8 members: one is gone, one has another's rows, one newer ones, one a broken file."""
    root = tmp_path / "ns"
    namespace = lance_df.PartitionedNamespace.create(root, ROWS.schema, ["identity(s)"])
    namespace.append(ROWS)
    folders = sorted(namespace.partitions()["location"].to_pylist())
    shutil.rmtree(root / folders[0])
    for folder, rows in ((folders[1], ROWS.slice(0, 8)), (folders[2], None)):
        rows = lance_df.dataset(root / folder).to_table() if rows is None else rows
        lance_df.write_dataset(rows, root / folder, mode="append")
    [file] = (root / folders[3] / "data").iterdir()
    file.write_bytes(b"no data file")
    return root


@pytest.fixture
def tasks(monkeypatch):
    from lance_df.spark.pipeline import health

    monkeypatch.setattr(health, "_SEEN_AT_ONCE", 2)
    found = LocalTasks().install(monkeypatch, tasks_module)
    monkeypatch.setattr(health, "run_in_tasks", found)
    return found


@pytest.mark.spark
def test_findings_on_spark(spark, root):
    report = lance_df.spark.verify(spark, root, deep=True)
    assert report == lance_df.verify(root, deep=True)
    assert len(report.problems) >= 4
    mended = lance_df.spark.repair(spark, root, forget_missing=True)
    assert [str(action.kind) for action in mended.actions] == ["row of a missing table removed"]


@pytest.mark.parametrize("deep", [False, True])
def test_findings_are_the_same(root, tasks, deep):
    report = lance_df.spark.verify(NO_SPARK, root, deep=deep)
    assert report == lance_df.verify(root, deep=deep)
    assert not report.ok
    assert tasks.tasks["_map"] == 4


def test_repairs_are_the_same(root, tmp_path, tasks):
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    options = {"forget_missing": True, "publish_newer": True, "remove_orphans": True}
    mine = lance_df.spark.repair(NO_SPARK, root, **options)
    theirs = lance_df.PartitionedNamespace.repair(copy, **options)
    assert [str(a).replace(str(root), str(copy)) for a in mine.actions] == [str(a) for a in theirs.actions]
    assert len(mine.actions) == 3
    assert set(tasks.tasks) == {"_map"}
    assert lance_df.spark.repair(NO_SPARK, root).actions == ()


def test_values_are_read_by_tasks(tmp_path, tasks):
    root, copy = tmp_path / "ns", tmp_path / "copy"
    lance_df.PartitionedNamespace.create(root, ROWS.schema, ["identity(s)"]).append(ROWS)
    TheirNamespace(root=str(root)).create_namespace(requests.CreateNamespaceRequest(id=["other"]))
    manifest = lance.dataset(root / "__manifest")
    manifest.cleanup_old_versions(older_than=dt.timedelta(0), delete_unverified=True)
    shutil.copytree(root, copy)
    assert lance_df.spark.repair(NO_SPARK, root, dry_run=True).is_dry_run
    mine, theirs = lance_df.spark.repair(NO_SPARK, root), lance_df.PartitionedNamespace.repair(copy)
    assert [str(a).replace(str(root), str(copy)) for a in mine.actions] == [str(a) for a in theirs.actions]
    assert lance_df.PartitionedNamespace.open(root).to_table().sort_by("k") == ROWS
    assert lance_df.spark.verify(NO_SPARK, root, deep=True).ok


def test_tables_and_what_is_nothing(tmp_path, tasks):
    lance_df.write_dataset(ROWS, tmp_path / "t")
    assert lance_df.spark.verify(NO_SPARK, tmp_path / "t") == lance_df.verify(tmp_path / "t")
    [file] = (tmp_path / "t" / "data").iterdir()
    file.write_bytes(b"")
    assert lance_df.spark.verify(NO_SPARK, tmp_path / "t") == lance_df.verify(tmp_path / "t")
    with pytest.raises(DatasetNotFoundError):
        lance_df.spark.verify(NO_SPARK, tmp_path / "none")
    with pytest.raises(NotFoundError):
        lance_df.spark.repair(NO_SPARK, tmp_path / "t")
