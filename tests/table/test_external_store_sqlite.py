"""The manifest store in a SQLite file: the contract, processes, folders that move, files that fail."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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
from lance_df.errors import InvalidInputError, StorageError, UnsupportedFeatureError, VersionNotFoundError
from lance_df.storage import Location
from lance_df.table.metadata.external_store import StoredManifest
from lance_df.table.metadata.external_store_sqlite import SQLiteManifestStore
from lance_df.table.writing.write import WriteOptions, write_table


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


def test_processes_that_write_to_one_table(tmp_path: Path):
    store = SQLiteManifestStore(tmp_path / "versions.db")
    lance_df.write_dataset(pa.table({"a": [0]}), tmp_path / "t.lance", external_store=store)
    processes = [
        subprocess.Popen([sys.executable, "-c", APPENDER, str(tmp_path), str(writer)]) for writer in (1, 2)
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


def test_a_folder_that_fsspec_wraps(tmp_path: Path):
    location = Location("dir://t.lance", "t.lance", DirFileSystem(str(tmp_path), LocalFileSystem()))
    store = SQLiteManifestStore(tmp_path / "versions.db")
    options = WriteOptions(external_store=store)
    rows = pa.table({"a": [1]})
    for mode in ("create", "append"):
        write_table(location, rows.schema, rows.to_batches(), mode=mode, options=options)
    assert lance.dataset(tmp_path / "t.lance").count_rows() == 2
