"""The manifest store in a SQLite file: the contract, processes, folders that move, files that fail."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import lance
import pyarrow as pa
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import lance_df
from lance_df.errors import (
    CorruptDataError,
    InvalidInputError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.storage import Location
from lance_df.table.metadata.external_store import StoredManifest
from lance_df.table.metadata.external_store_sqlite import SQLiteManifestStore
from lance_df.table.writing.write import WriteOptions, write_table

NEEDS_LINKS = pytest.mark.skipif(os.name == "nt", reason="links take a privilege there")


@pytest.fixture
def store(tmp_path: Path) -> SQLiteManifestStore:
    return SQLiteManifestStore(tmp_path / "a folder?#%" / "versions.db")


def test_the_contract(store: SQLiteManifestStore):
    first, second = StoredManifest(1, "1.manifest-x", 10), StoredManifest(2, "2.manifest-x")
    assert store.get("b/t", 1) is None
    assert store.get_latest("b/t") is None
    assert not os.path.exists(store.path)  # reads leave no trace
    assert store.put_if_absent("b/t", first)
    assert not store.put_if_absent("b/t", StoredManifest(1, "1.manifest-y", 11))
    assert store.put_if_absent("b/t", second)
    assert store.put_if_absent("b/u", StoredManifest(7, "7.manifest"))
    assert store.get("b/t", 1) == first
    assert store.get_latest("b/t") == second
    assert not store.put_if_exists("b/t", StoredManifest(3, "3.manifest", 5))
    assert store.put_if_exists("b/t", first.finished())
    assert store.get("b/t", 1) == StoredManifest(1, "1.manifest", 10)
    store.delete("b/t", 2)
    store.delete("b/t", 99)
    assert store.get_latest("b/t") == first.finished()
    store.delete("b/t")
    assert store.get_latest("b/t") is None
    assert store.get_latest("b/u") == StoredManifest(7, "7.manifest")
    assert store.get("b/u", 2**64 - 1) is None
    assert os.listdir(os.path.dirname(store.path)) == ["versions.db"]
    assert pickle.loads(pickle.dumps(store)).get_latest("b/u") == StoredManifest(7, "7.manifest")


def test_threads_have_one_winner(store: SQLiteManifestStore):
    def race(writer: int) -> list[bool]:
        return [store.put_if_absent("b/t", StoredManifest(n, f"{n}.manifest-{writer}")) for n in range(20)]

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(race, range(4)))
    assert [sum(won) for won in zip(*outcomes, strict=True)] == [1] * 20


APPENDER = """
import sys
import pyarrow as pa
import lance_df
folder, writer = sys.argv[1], int(sys.argv[2])
store = lance_df.SQLiteManifestStore(f"{folder}/versions.db")
for number in range(5):
    rows = pa.table({"a": [100 * writer + number]})
    lance_df.write_dataset(rows, f"{folder}/t.lance", mode="append", external_store=store)
"""


@pytest.mark.parametrize("link", [False, pytest.param(True, marks=NEEDS_LINKS)])
def test_processes_that_write_to_one_table(tmp_path: Path, link: bool):
    folders = [tmp_path, tmp_path / "link" if link else tmp_path]
    if link:
        (tmp_path / "link").symlink_to(".")
    store = SQLiteManifestStore(tmp_path / "versions.db")
    lance_df.write_dataset(pa.table({"a": [0]}), tmp_path / "t.lance", external_store=store)
    processes = [
        subprocess.Popen([sys.executable, "-c", APPENDER, str(folder), str(writer)])
        for writer, folder in enumerate(folders, 1)
    ]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    ours = lance_df.dataset(tmp_path / "t.lance", external_store=store)
    assert ours.version == 11
    assert sorted(ours.to_table()["a"].to_pylist()) == [0, *range(100, 105), *range(200, 205)]
    assert all(".manifest-" not in name for name in os.listdir(tmp_path / "t.lance/_versions"))


def test_a_folder_that_moves_with_its_store(tmp_path: Path):
    place = tmp_path / "place"
    store = SQLiteManifestStore(place / "versions.db")
    made = lance_df.write_dataset(pa.table({"a": [1]}), place / "t.lance", external_store=store)
    made.create_branch("b")
    # a writer died before it gave the version its final name
    file = place / "t.lance/_versions/18446744073709551613.manifest"
    made.insert(pa.table({"a": [2]}))
    staged = file.rename(file.with_name(f"{file.name}-x"))
    assert store.put_if_exists(str(place / "t.lance"), StoredManifest(2, staged.name))
    moved = shutil.move(place, tmp_path / "moved")
    there = SQLiteManifestStore(moved / "versions.db")
    ours = lance_df.dataset(moved / "t.lance", external_store=there)
    assert (ours.version, ours.count_rows()) == (2, 2)
    assert lance_df.dataset(moved / "t.lance", ("b", None), external_store=there).count_rows() == 1
    ours.delete("a = 1")
    assert ours.version == 3
    # finished by the delete, so that it is seen without the store
    assert lance_df.dataset(moved / "t.lance", 2).count_rows() == 2


def linked(tmp_path: Path) -> list[tuple[Path, Path]]:
    """Return paths of one table, with paths of one database: links to each, and to what they lie in."""
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "parent").symlink_to(real)
    (tmp_path / "table").symlink_to(real / "t.lance")
    (tmp_path / "again").symlink_to("table")
    (tmp_path / "versions.db").symlink_to(real / "versions.db")
    (real / "here").symlink_to(".")
    tables = [real / "t.lance", tmp_path / "table", tmp_path / "again", tmp_path / "parent/here/t.lance"]
    databases = [real / "versions.db", tmp_path / "parent/versions.db", tmp_path / "versions.db"]
    return [(table, database) for table in tables for database in databases]


@NEEDS_LINKS
def test_links_lead_to_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    pairs = linked(tmp_path)
    relative = Path("parent/../parent/t.lance"), Path("parent/versions.db")
    for number, (table, database) in enumerate([*pairs, relative]):
        store = SQLiteManifestStore(database)
        rows = pa.table({"a": [number]})
        made = lance_df.write_dataset(
            rows, table, mode="append" if number else "create", external_store=store
        )
        assert made.version == number + 1
    for table, database in pairs:
        ours = lance_df.dataset(table, external_store=SQLiteManifestStore(database))
        assert ours.to_table()["a"].to_pylist() == list(range(len(pairs) + 1))
    ours.create_branch("b").insert(pa.table({"a": [-1]}))
    branch = lance_df.dataset(pairs[0][0], ("b", None), external_store=SQLiteManifestStore(pairs[0][1]))
    assert branch.count_rows() == ours.count_rows() + 1


def records(store: SQLiteManifestStore) -> dict[tuple[str, int], tuple[str, int]]:
    with closing(sqlite3.connect(store.path)) as connection:
        rows = connection.execute("SELECT * FROM manifests").fetchall()
    return {(path, version): (name, size) for path, version, name, size in rows}


def replace_records(store: SQLiteManifestStore, rows: dict[tuple[str, int], tuple[str, int | None]]) -> None:
    """Make a database as former releases wrote it: with paths as they were given."""
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("DELETE FROM manifests")
        values = [(*key, *value) for key, value in rows.items()]
        connection.executemany("INSERT INTO manifests VALUES (?, ?, ?, ?)", values)


@NEEDS_LINKS
@pytest.mark.parametrize("key", ["parent/t.lance", "table", "/parent/t.lance", "/table", "/real/t.lance"])
@pytest.mark.parametrize(("database", "now"), [("other.db", "real/t.lance"), ("versions.db", "t.lance")])
def test_records_of_former_releases_under_links(tmp_path: Path, key: str, database: str, now: str):
    linked(tmp_path)
    real, key = tmp_path / "real/t.lance", f"{tmp_path}{key}" if key[0] == "/" else key
    store = SQLiteManifestStore(tmp_path / database)
    made = lance_df.write_dataset(pa.table({"a": [1]}), real, external_store=store)
    made.insert(pa.table({"a": [2]}))
    # a writer died before it gave the version its final name
    former = {(key, version): value for (_, version), value in records(store).items()}
    name, size = former[key, 2]
    (real / "_versions" / name).rename(real / "_versions" / f"{name}-x")
    replace_records(store, {**former, (key, 2): (f"{name}-x", size)})
    for path in (real, tmp_path / "parent/t.lance", tmp_path / "table"):
        ours = lance_df.dataset(path, external_store=store)
        assert (ours.version, ours.count_rows()) == (2, 2)
    assert not store.put_if_absent(str(real), StoredManifest(2, "2.manifest-y"))
    ours.insert(pa.table({"a": [3]}))
    assert lance_df.dataset(real, external_store=store).to_table()["a"].to_pylist() == [1, 2, 3]
    assert lance_df.dataset(real, 2).count_rows() == 2  # finished
    assert records(store).keys() == {(key, 1), (key, 2), (now, 3)}
    ours.cleanup_old_versions(dt.timedelta(0))
    assert records(store).keys() == {(now, 3)}


@NEEDS_LINKS
def test_records_of_former_releases_under_several_paths(tmp_path: Path):
    linked(tmp_path)
    real, link = tmp_path / "real/t.lance", tmp_path / "parent/t.lance"
    store = SQLiteManifestStore(tmp_path / "other.db")
    made = lance_df.write_dataset(pa.table({"a": [1]}), real, external_store=store)
    for number in (2, 3):
        made.insert(pa.table({"a": [number]}))
    known = [value for _, value in sorted(records(store).items())]
    mine, theirs = "real/t.lance", "parent/t.lance"
    replace_records(
        store,
        {
            (mine, 1): known[0],
            (mine, 2): (f"{known[1][0]}-x", known[1][1] + 7),  # another writer's, who lost
            (theirs, 2): known[1],
            (theirs, 3): known[2],
        },
    )
    for path in (real, link):
        ours = lance_df.dataset(path, external_store=store)
        assert ours.to_table()["a"].to_pylist() == [1, 2, 3]
        assert lance_df.dataset(path, 2, external_store=store).count_rows() == 2
    ours.delete("a = 2")
    assert lance_df.dataset(real, external_store=store).version == 4


@NEEDS_LINKS
def test_a_table_that_moved_and_left_a_link(tmp_path: Path):
    store = SQLiteManifestStore(tmp_path / "versions.db")
    made = lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / "t.lance", external_store=store)
    shutil.move(tmp_path / "t.lance", tmp_path / "elsewhere.lance")
    (tmp_path / "t.lance").symlink_to("elsewhere.lance")
    name = Path(made.uri, "_versions/18446744073709551614.manifest").rename(
        tmp_path / "elsewhere.lance/_versions/18446744073709551614.manifest-x"
    )
    store.put_if_exists(made.uri, StoredManifest(1, name.name))
    for path in ("t.lance", "elsewhere.lance"):
        assert lance_df.dataset(tmp_path / path, external_store=store).count_rows() == 1


def test_branches_and_cleanup(tmp_path: Path):
    store = SQLiteManifestStore(tmp_path / "versions.db")
    uri = str(tmp_path / "t.lance")
    made = lance_df.write_dataset(pa.table({"a": [1]}), uri, external_store=store)
    branch = made.create_branch("b/c")
    branch.insert(pa.table({"a": [2]}))
    made.insert(pa.table({"a": [3]}))
    assert store.get_latest(f"{uri}/tree/b/c").version == 2
    assert store.get_latest(uri).version == 2
    assert lance_df.dataset(uri, ("b/c", None), external_store=store).to_table()["a"].to_pylist() == [1, 2]
    assert lance_df.dataset(f"{uri}/tree/b/c", external_store=store).to_table()["a"].to_pylist() == [1, 2]
    assert pickle.loads(pickle.dumps(branch)).to_table()["a"].to_pylist() == [1, 2]
    made.delete("a = 1")
    with pytest.raises(VersionNotFoundError):
        lance_df.dataset(uri, 9, external_store=store)


def test_files_that_are_no_store(tmp_path: Path):
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"no database at all " * 1000)
    for path in (junk, tmp_path, Path("/proc/none/x.db")):
        store = SQLiteManifestStore(path)
        with pytest.raises(StorageError):
            store.put_if_absent("b/t", StoredManifest(1, "1.manifest"))
    with pytest.raises(StorageError):
        SQLiteManifestStore(junk).get_latest("b/t")
    with pytest.raises(StorageError):
        lance_df.write_dataset(
            pa.table({"a": [1]}), tmp_path / "t.lance", external_store=SQLiteManifestStore(junk)
        )
    assert not (tmp_path / "t.lance").exists()
    for path in ("", ":memory:", "a\0b"):
        with pytest.raises(InvalidInputError):
            SQLiteManifestStore(path)


@pytest.mark.parametrize(("column", "value"), [("name", b"\xff"), ("version", "two"), ("size", "large")])
def test_rows_of_other_types(tmp_path: Path, column: str, value: object):
    path, store = tmp_path / "t.lance", SQLiteManifestStore(tmp_path / "m.db")
    data = lance_df.write_dataset(pa.table({"a": [1]}), path, external_store=store)
    data.insert(pa.table({"a": [2]}))
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute(f"UPDATE manifests SET {column} = ? WHERE version = 2", (value,))
    for use in (
        lambda: lance_df.dataset(path, external_store=store),
        lambda: data.insert(pa.table({"a": [3]})),
        lambda: data.cleanup_old_versions(dt.timedelta(0)),
    ):
        with pytest.raises(
            CorruptDataError, match=r"m\.db: the row of version .* of .*t\.lance has the name"
        ):
            use()


class FileServer(MemoryFileSystem):
    """A store that cannot create a file only if it is absent."""

    protocol = "fileserver"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix("fileserver://"))


def test_a_table_in_a_store_that_needs_one(tmp_path: Path):
    fsspec.register_implementation("fileserver", FileServer, clobber=True)
    uri = "fileserver://host/t.lance"
    with pytest.raises(UnsupportedFeatureError, match="external manifest store"):
        lance_df.write_dataset(pa.table({"a": [1]}), uri)
    assert not FileServer.store
    store = SQLiteManifestStore(tmp_path / "versions.db")
    made = lance_df.write_dataset(pa.table({"a": [1]}), uri, external_store=store)
    made.insert(pa.table({"a": [2]}))
    made.delete("a = 1")
    assert lance_df.dataset(uri, external_store=store).to_table()["a"].to_pylist() == [2]
    assert store.get_latest(uri).version == 3
    # the same path in another store is another table
    assert store.get_latest("/host/t.lance") is None


def test_a_folder_that_was_removed_without_the_store(tmp_path: Path):
    uri, store = tmp_path / "t.lance", SQLiteManifestStore(tmp_path / "versions.db")
    rows = pa.table({"a": [1]})
    lance_df.write_dataset(rows, uri, external_store=store)
    shutil.rmtree(uri)
    for use in (lance_df.dataset, partial(lance_df.write_dataset, rows)):
        with pytest.raises(VersionNotFoundError, match=r"remove the entries .*LanceDataset\.drop"):
            use(uri, external_store=store)
    lance_df.LanceDataset.drop(uri, external_store=store)
    assert lance_df.write_dataset(rows, uri, external_store=store).version == 1


def test_a_folder_that_fsspec_wraps(tmp_path: Path):
    location = Location("dir://t.lance", "t.lance", DirFileSystem(str(tmp_path), LocalFileSystem()))
    store = SQLiteManifestStore(tmp_path / "versions.db")
    options = WriteOptions(external_store=store)
    rows = pa.table({"a": [1]})
    for mode in ("create", "append"):
        write_table(location, rows.schema, rows.to_batches(), mode=mode, options=options)
    assert lance.dataset(tmp_path / "t.lance").count_rows() == 2
