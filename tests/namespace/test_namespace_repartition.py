"""`PartitionedNamespace.repartition`: rows of older spec versions go to partitions of the newest one."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace

import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from lance_df.blob import blob_array, blob_field
from lance_df.errors import RetryableConflictError, StorageError, UnsupportedFeatureError
from lance_df.namespace.changes import repartition as module
from lance_df.namespace.health.orphans import remove_orphans
from lance_df.storage import open_location

COLUMNS = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("ns")), ("s", pa.string())])


def rows(count, first=0):
    numbers = range(first, first + count)
    start = dt.datetime(2023, 1, 1)
    times = [None if i % 50 == 3 else start + dt.timedelta(hours=9 * i) for i in numbers]
    # nanoseconds, which nothing on the way may cut
    exact = pa.array(times, pa.timestamp("ns")).cast(pa.int64())
    exact = pa.array([None if t is None else t + 123 for t in exact.to_pylist()]).cast(pa.timestamp("ns"))
    return pa.table([list(numbers), exact, [f"ü{i % 3}" for i in numbers]], schema=COLUMNS)


@pytest.fixture
def root(tmp_path):
    """A namespace of three spec versions with rows of each, some of them deleted."""
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "ns", COLUMNS, [partition.year("ts")])
    namespace.append(rows(1200))
    namespace.update_partition_spec([partition.identity("s")])
    namespace.append(rows(300, 1200))
    namespace.delete("k % 5 = 4")
    namespace.update_partition_spec([partition.year("ts"), partition.month("ts")])
    namespace.append(rows(100, 1500))
    return tmp_path / "ns"


def opened(root):
    return lance_df.PartitionedNamespace.open(root)


def contents(root):
    return opened(root).to_table().sort_by("k")


def specs_with_rows(root):
    members = opened(root).partitions()
    rows_of = zip(
        *(members[name].to_pylist() for name in ("object_id", "location", "read_version")), strict=True
    )
    return {
        name.split("$")[0]
        for name, folder, version in rows_of
        if lance_df.dataset(root / folder, version=version).count_rows()
    }


def test_all_rows_move_in_one_commit(root):
    wanted = contents(root)
    namespace = opened(root)
    before = namespace.version
    metrics = namespace.repartition()
    assert (metrics.rows, metrics.commits) == (1200, 1)
    assert namespace.version == opened(root).version == before + 1
    assert contents(root) == wanted
    assert contents(root)["ts"].type == pa.timestamp("ns")
    assert specs_with_rows(root) == {"v3"}
    assert lance_df.verify(root, deep=True).ok
    assert namespace.at(before).to_table().sort_by("k") == wanted
    assert namespace.repartition().commits == 0
    assert namespace.version == before + 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_job_that_dies_goes_on_where_it_was(root, monkeypatch, when):
    wanted, calls = contents(root), []
    publish = module.publish

    class Killed(BaseException):
        pass

    def dying(*args, **more):
        calls.append(args)
        if len(calls) % 2 == 0:
            if when == "after":
                publish(*args, **more)
            raise Killed
        return publish(*args, **more)

    monkeypatch.setattr(module, "publish", dying)
    deaths = 0
    while True:
        try:
            opened(root).repartition(step_bytes=1)
            break
        except Killed:
            deaths += 1
            assert contents(root) == wanted
    assert deaths >= 2
    assert contents(root) == wanted
    assert specs_with_rows(root) == {"v3"}
    assert lance_df.verify(root, deep=True).ok


def test_a_step_that_fails_leaves_nothing(root, monkeypatch):
    wanted, before = contents(root), sorted(root.rglob("*"))
    stage = module.stage_partitions

    def fail(*args, **kwargs):
        stage(*args, **kwargs)
        raise StorageError("the disk is full")

    monkeypatch.setattr(module, "stage_partitions", fail)
    with pytest.raises(StorageError, match="full"):
        opened(root).repartition()
    assert sorted(root.rglob("*")) == before
    assert contents(root) == wanted


def test_what_others_change_meanwhile_moves_too(root, monkeypatch):
    stage, calls = module.stage_partitions, []

    def meddle(*args, **kwargs):
        found = stage(*args, **kwargs)
        calls.append(args)
        if len(calls) == 1:
            opened(root).delete("k < 100 OR s = 'ü1'")
            opened(root).append(rows(50, 2000))
        return found

    monkeypatch.setattr(module, "stage_partitions", meddle)
    opened(root).repartition()
    assert len(calls) == 2
    numbers = [k for k in range(100, 1500) if k % 3 != 1 and k % 5 != 4]
    numbers += [k for k in range(1500, 1600) if k % 3 != 1] + list(range(2000, 2050))
    assert contents(root)["k"].to_pylist() == numbers
    assert specs_with_rows(root) == {"v3"}
    # what was written in vain is not there any more
    assert not remove_orphans(open_location(root), older_than=dt.timedelta(0), dry_run=True)
    assert lance_df.verify(root, deep=True).ok


def test_others_who_never_stop_are_a_conflict(root, monkeypatch):
    stage = module.stage_partitions

    def meddle(*args, **kwargs):
        found = stage(*args, **kwargs)
        namespace = opened(root)
        smallest = namespace.to_table(["k"])["k"].to_pylist()
        namespace.delete(f"k = {min(smallest)}")
        return found

    monkeypatch.setattr(module, "stage_partitions", meddle)
    monkeypatch.setattr(module, "_ATTEMPTS", 3)
    with pytest.raises(RetryableConflictError, match="changed in the meantime"):
        opened(root).repartition()
    assert opened(root).count_rows() == 1300 - 3


def blobs_of(root):
    """Return the bytes of all blobs, by key, and the files beside data files that are needed for them."""
    members, found, beside = opened(root).partitions(), {}, set()
    for folder, version in zip(
        members["location"].to_pylist(), members["read_version"].to_pylist(), strict=True
    ):
        member = lance_df.dataset(root / folder, version=version)
        rows = member.scanner(blob_handling="all_binary").to_table()
        found |= dict(zip(rows["k"].to_pylist(), rows["b"].to_pylist(), strict=True))
        if len(rows):
            beside |= set((root / folder).rglob("*.blob"))
    return found, beside


def test_blobs_move_with_their_rows(tmp_path, monkeypatch):
    root = tmp_path / "ns"
    blob = blob_field("b", inline_size_threshold=4, dedicated_size_threshold=64)
    columns = pa.schema([pa.field("k", pa.int64()), blob])
    namespace = lance_df.PartitionedNamespace.create(root, columns, [partition.identity("k")])
    values = [b"in", None, b"", b"packed" * 5, b"by itself" * 20, b"deleted" * 30]
    namespace.append(pa.table([range(6), blob_array(values)], schema=columns))
    namespace.delete("k = 5")
    namespace.update_partition_spec([partition.bucket("k", 2)])
    wanted = dict(enumerate(values[:5]))
    assert blobs_of(root)[0] == wanted
    before = sorted(root.rglob("*"))
    with monkeypatch.context() as patched:
        stage = module.stage_partitions
        patched.setattr(module, "stage_partitions", lambda *args, **kwargs: (stage(*args, **kwargs), 1 / 0))
        with pytest.raises(ZeroDivisionError):
            namespace.repartition()
    assert sorted(root.rglob("*")) == before
    assert (namespace.repartition().rows, len(specs_with_rows(root))) == (5, 1)
    assert blobs_of(root)[0] == wanted
    opened(root).cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    found, beside = blobs_of(root)
    assert found == wanted
    assert set(root.rglob("*.blob")) == beside
    assert lance_df.verify(root, deep=True).ok


def test_blobs_in_base_paths_of_a_partition_are_not_moved(tmp_path, monkeypatch):
    root = tmp_path / "ns"
    columns = pa.schema([pa.field("k", pa.int64()), blob_field("b")])
    namespace = lance_df.PartitionedNamespace.create(root, columns, [partition.identity("k")])
    namespace.append(pa.table([[1], blob_array([b"x"])], schema=columns))
    namespace.update_partition_spec([partition.bucket("k", 2)])
    # of a table that something else has made
    schema = SimpleNamespace(walk=lambda: [SimpleNamespace(is_blob=True)])
    member = SimpleNamespace(uri="member", manifest=SimpleNamespace(base_paths=(1,)), schema=schema)
    monkeypatch.setattr(module, "in_columns_of", lambda *_: member)
    with pytest.raises(
        UnsupportedFeatureError, match="member: the table may have blobs in base paths of its own"
    ):
        namespace.repartition()
    assert opened(root).count_rows() == 1


def test_a_namespace_of_one_spec_stays_as_it_is(tmp_path):
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "ns", COLUMNS, [partition.year("ts")])
    namespace.append(rows(10))
    assert namespace.repartition().partitions == 0
    assert namespace.version == 2
