"""The folder of a namespace is replaced by a backup, and reaches the same version numbers again."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import VersionNotFoundError
from lance_df.table.table import Table

pytestmark = pytest.mark.engine

QUERY = "SELECT count(*) AS n, max(id) AS m FROM ns"
FEW, MANY = 2, 20  # many members are read by their manifests alone


def rows(first: int, num_rows: int, num_members: int) -> pa.Table:
    ids = range(first, first + num_rows)
    return pa.table({"id": pa.array(ids, pa.int64()), "k": [f"k{number % num_members}" for number in ids]})


class Replaced:
    """A namespace with one row in each partition, and its backup."""

    def __init__(self, root: Path, num_members: int) -> None:
        self.num_members = num_members
        self.root, self.folder, self.backup = root / "all", root / "all" / "ns", root / "backup"
        self.root.mkdir()
        made = lance_df.PartitionedNamespace.create(
            self.folder, rows(0, 1, 1).schema, [lance_df.partition.identity("k")]
        )
        made.append(rows(0, num_members, num_members))
        shutil.copytree(self.folder, self.backup)

    def open(self) -> lance_df.PartitionedNamespace:
        return lance_df.PartitionedNamespace.open(self.folder)

    def append(self, first: int, times: int = 1) -> None:
        """Add some rows to each partition."""
        self.open().append(rows(first, times * self.num_members, self.num_members))

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.backup, self.folder)


@pytest.fixture(params=[FEW, MANY])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Replaced:
    return Replaced(tmp_path, request.param)


def answer(context: lance_df.SessionContext) -> tuple[int, int]:
    [row] = context.sql(QUERY).to_pylist()
    return row["n"], row["m"]


def test_open_sessions_and_the_newest_version_have_the_rows_of_today(place: Replaced) -> None:
    size = place.num_members
    session, held = lance_df.connect(str(place.root)), place.open()
    other = lance_df.connect()
    lance_df.register(other, "ns", held)
    place.append(100)
    held.checkout_latest()
    for context in (session, other):
        assert answer(context) == (2 * size, 99 + size)
    assert held.count_rows() == 2 * size
    place.restore()
    place.append(200, 2)
    for context in (session, other):
        assert answer(context) == (3 * size, 199 + 2 * size)
    held.checkout_latest()
    assert (held.count_rows(), held.to_table().num_rows) == (3 * size, 3 * size)


def test_a_version_that_no_longer_exists_is_an_error(place: Replaced) -> None:
    place.append(100)
    held, counted = place.open(), place.open()
    assert counted.count_rows() == 2 * place.num_members
    place.restore()
    place.append(200, 2)
    for read in (held.to_table, held.count_rows, counted.to_table):
        with pytest.raises(VersionNotFoundError, match="open the namespace again"):
            read()
    assert counted.count_rows() == 2 * place.num_members


def test_members_that_remain_are_read_although_the_version_was_cleaned_up(place: Replaced) -> None:
    held = place.open()
    scanner = held.scanner(filter="k = 'k0'")
    place.open().append(rows(place.num_members + 1, 1, place.num_members))  # to another partition
    place.open().cleanup_old_versions(retain_versions=1)
    assert scanner.to_table()["id"].to_pylist() == [0]


def test_a_folder_that_another_one_replaces_is_noticed_although_it_is_older(place: Replaced) -> None:
    """The other folder began as the same backup and reached the same versions before."""
    place.restore()
    place.append(200)
    fork = place.folder.rename(place.root.parent / "fork")
    shutil.copytree(place.backup, place.folder)
    place.append(100)
    held, counted = place.open(), place.open()
    assert counted.count_rows() == 2 * place.num_members
    shutil.rmtree(place.folder)
    fork.rename(place.folder)
    for read in (held.to_table, held.count_rows, counted.to_table):
        with pytest.raises(VersionNotFoundError, match="open the namespace again"):
            read()
    held.checkout_latest()
    assert max(held.to_table()["id"].to_pylist()) == 199 + place.num_members


@pytest.mark.parametrize("at_once", [True, False])
def test_files_that_are_replaced_in_the_same_folder_are_noticed(place: Replaced, *, at_once: bool) -> None:
    """As by rsync. The files of the fork are older than the version, which the fork may lack."""
    size = place.num_members
    place.append(200)
    fork = place.folder.rename(place.root.parent / "fork")
    shutil.copytree(place.backup, place.folder)
    for first, stop in [(100, 100 + size)] if at_once else [(100, 101), (101, 100 + size)]:
        place.open().append(rows(first, stop - first, size))
    held, counted = place.open(), place.open()
    assert counted.count_rows() == 2 * size
    for path in [each for each in place.folder.rglob("*") if each.is_file()]:
        path.unlink()
    shutil.copytree(fork, place.folder, dirs_exist_ok=True)
    for read in (held.to_table, held.count_rows, counted.to_table):
        with pytest.raises(VersionNotFoundError, match="open the namespace again"):
            read()


def test_an_older_version_knows_newer_ones_that_used_its_cache(place: Replaced) -> None:
    """The older version is in the backup; the newer ones are not."""
    older, newer = place.open(), place.open()
    place.append(100)
    newer.checkout_latest()
    older = newer.at(older.version)
    assert (newer.to_table().num_rows, newer.count_rows()) == (2 * place.num_members,) * 2
    place.restore()
    place.append(200, 2)
    place.append(300)
    older.checkout_latest()
    assert (older.count_rows(), older.to_table().num_rows) == (4 * place.num_members,) * 2
    again = older.at(older.version - 1)
    assert (again.count_rows(), again.to_table().num_rows) == (3 * place.num_members,) * 2


def test_writes_through_an_older_version_return_its_own_rows(place: Replaced) -> None:
    newer = place.open()
    number = newer.version
    place.append(100)
    newer.checkout_latest()
    older = newer.at(number)
    assert newer.count_rows() == len(newer.to_table()) == 2 * place.num_members
    place.restore()
    with older.transaction(rebase=False) as transaction:
        transaction.append(rows(200, 2 * place.num_members, place.num_members))
    assert older.count_rows() == len(older.to_table()) == 3 * place.num_members


@pytest.mark.parametrize("is_local", [True, False])
def test_clocks_of_writers_may_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_local: bool
) -> None:
    """New partitions are committed by a clock that is ahead; nothing was replaced."""
    now = time.time_ns()
    monkeypatch.setattr("time.time_ns", lambda: now + 3600 * 10**9)
    root = str(tmp_path / "ns") if is_local else f"memory://{tmp_path.name}/ns"
    added = rows(0, MANY, MANY)
    lance_df.PartitionedNamespace.create(root, added.schema, [lance_df.partition.identity("k")]).append(added)
    monkeypatch.undo()
    held = lance_df.PartitionedNamespace.open(root)
    snapshot = held._table
    [member] = snapshot.open_members(np.array([0]))
    assert member.manifest.timestamp_ns > snapshot.manifest.table.manifest.timestamp_ns
    asked: list[int] = []
    is_stored = Table.is_stored
    monkeypatch.setattr(Table, "is_stored", lambda self: asked.append(self.version) or is_stored(self))
    monkeypatch.setattr("lance_df.namespace.manifest_table._STORED_SECONDS", 3600)
    assert held.to_table().num_rows == held.count_rows() == MANY
    assert len(asked) <= 1
