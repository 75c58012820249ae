"""Tables that are dropped and created again at the same path, while Python workers keep what they opened."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from local_tasks import LocalTasks

import lance_df
from lance_df.errors import VersionNotFoundError
from lance_df.spark.failures import typed_errors
from lance_df.spark.opened import SourceRef, open_source
from lance_df.spark.options import SourceOptions
from lance_df.spark.pipeline import compaction


def rows(word, first=0):
    numbers = list(range(first, first + 4))
    return pa.table({"k": pa.array(numbers, pa.int64()), "v": [f"{word}{each}" for each in numbers]})


def write(path, word, *, is_namespace=False):
    """Make a table of two versions, or a namespace, in the place of what is there."""
    shutil.rmtree(path, ignore_errors=True)
    if is_namespace:
        made = lance_df.PartitionedNamespace.create(path, rows("").schema, ["bucket(k, 2)"])
        made.append(rows(word))
        made.append(rows(word, 4))
    else:
        lance_df.write_dataset(rows(word), path)
        lance_df.write_dataset(rows(word, 4), path, mode="append")


def contents(path, *, is_namespace=False):
    opened = lance_df.PartitionedNamespace.open(path) if is_namespace else lance_df.dataset(path)
    return sorted(opened.to_table()["v"].to_pylist())


OLD, NEW = ([f"{word}{number}" for number in range(8)] for word in ("old", "new"))


@pytest.mark.parametrize("is_namespace", [False, True])
def test_what_was_dropped_is_not_opened_again(tmp_path, is_namespace):
    options = SourceOptions(str(tmp_path / "t"))
    refs = []
    for word, expected in (("old", OLD), ("new", NEW)):
        write(options.path, word, is_namespace=is_namespace)
        source = open_source(options)
        refs.append(SourceRef.of(source, options))
        opened = refs[-1].open()
        assert opened is refs[-1].open()
        assert opened.version == source.version
        assert contents(options.path, is_namespace=is_namespace) == expected
    old, new = refs
    assert (old.version, old.uri, old.branch) == (new.version, new.uri, new.branch)
    assert old.open() is not new.open()
    write(options.path, "newest", is_namespace=is_namespace)
    with pytest.raises(VersionNotFoundError, match="dropped and created again"):
        SourceRef.of(open_source(options), options).check(new.open())


def test_a_version_that_was_dropped_before_a_task_opens_it(tmp_path):
    options = SourceOptions(str(tmp_path / "t"))
    write(options.path, "old")
    ref = SourceRef.of(open_source(options), options)
    write(options.path, "new")
    with pytest.raises(VersionNotFoundError, match="version 2 is not the version that was opened"):
        ref.open()


@pytest.mark.parametrize("is_namespace", [False, True])
def test_compaction_of_a_table_that_was_created_again(tmp_path, monkeypatch, is_namespace):
    LocalTasks().install(monkeypatch, compaction)
    for word, expected in (("old", OLD), ("new", NEW)):
        write(tmp_path / "t", word, is_namespace=is_namespace)
        if word == "old":
            options = SourceOptions(str(tmp_path / "t"))
            SourceRef.of(open_source(options), options).open()
        assert lance_df.spark.compact(None, tmp_path / "t").fragments_removed > 1
        assert contents(tmp_path / "t", is_namespace=is_namespace) == expected


@pytest.mark.spark
@pytest.mark.parametrize("is_namespace", [False, True])
def test_workers_that_are_used_again_see_the_new_rows(spark, tmp_path, is_namespace):
    path = str(tmp_path / "t")

    def read():
        return [row["v"] for row in lance_df.spark.read(spark, path).orderBy("k").collect()]

    write(path, "old", is_namespace=is_namespace)
    kept = lance_df.spark.read(spark, path)
    for _ in range(3):
        assert read() == OLD
    write(path, "new", is_namespace=is_namespace)
    assert read() == NEW
    with pytest.raises(VersionNotFoundError, match="read it again"), typed_errors():
        kept.collect()
    with pytest.raises(VersionNotFoundError, match="read it again"), typed_errors():
        lance_df.spark.prune(kept.where("k > 2"))
    changes = spark.createDataFrame([(1,)], "k long")
    merge = lance_df.spark.merge(spark, path, changes, on="k")
    merge.when_matched_update({"v": "concat(target.v, '!')"}).execute()
    assert contents(path, is_namespace=is_namespace) == [NEW[0], "new1!", *NEW[2:]]
    assert lance_df.spark.delete(spark, path, where="v = 'new2'").num_deleted_rows == 1
    lance_df.spark.update(spark, path, {"v": "'x'"}, where="v = 'new3'")
    lance_df.spark.compact(spark, path)
    assert contents(path, is_namespace=is_namespace) == [NEW[0], "new1!", *NEW[4:], "x"]
    assert read() == [NEW[0], "new1!", "x", *NEW[4:]]
