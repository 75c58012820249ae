"""A table that was opened and then removed is not created again by writes through the open object."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lance_df
from lance_df import DatasetNotFoundError, IncompatibleConflictError, LanceDataset, SQLiteManifestStore
from lance_df.fragment import write_fragments

ROWS = pa.table({"a": [1, 2]})


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_writes_through_an_object(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "t.lance"
    data = lance_df.write_dataset(ROWS, path)
    shutil.rmtree(path)
    for write in (
        lambda: data.insert(ROWS, mode=mode),
        lambda: lance_df.write_dataset(ROWS, data, mode=mode),
        lambda: write_fragments(ROWS, data, mode=mode),
    ):
        with pytest.raises(IncompatibleConflictError, match=r"t\.lance: the table was dropped"):
            write()
    assert not path.exists()
    assert lance_df.write_dataset(ROWS, path, mode=mode).count_rows() == 2


def test_creation_through_an_object(tmp_path: Path) -> None:
    data = lance_df.write_dataset(ROWS, tmp_path / "t.lance")
    LanceDataset.drop(data.uri)
    assert lance_df.write_dataset(ROWS, data, mode="create").count_rows() == 2


def test_drop_with_a_manifest_store(tmp_path: Path) -> None:
    path, store = tmp_path / "t.lance", SQLiteManifestStore(tmp_path / "store.db")
    other = lance_df.write_dataset(ROWS, tmp_path / "u.lance", external_store=store)
    lance_df.write_dataset(ROWS, path, external_store=store).create_branch("b").insert(ROWS)
    LanceDataset.drop(path, external_store=store)
    assert store.get_latest(str(path)) is store.get_latest(f"{path}/tree/b") is None
    assert lance_df.write_dataset(ROWS, path, external_store=store).create_branch("b").count_rows() == 2
    assert lance_df.dataset(other.uri, external_store=store).count_rows() == 2


def test_drop_of_entries_that_remained(tmp_path: Path) -> None:
    path, store = tmp_path / "t.lance", SQLiteManifestStore(tmp_path / "store.db")
    lance_df.write_dataset(ROWS, path, external_store=store)
    LanceDataset.drop(path)
    LanceDataset.drop(path, external_store=store)
    with pytest.raises(DatasetNotFoundError, match="table does not exist"):
        LanceDataset.drop(path, external_store=store)
    LanceDataset.drop(path, ignore_not_found=True, external_store=store)
    assert lance_df.write_dataset(ROWS, path, external_store=store).version == 1


@pytest.mark.parametrize("num_calls", [1, 2, 3])
def test_drop_that_was_interrupted(tmp_path: Path, num_calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path, store = tmp_path / "t.lance", SQLiteManifestStore(tmp_path / "store.db")
    lance_df.write_dataset(ROWS, path, external_store=store).create_branch("b")
    calls = 0

    def delete(self: SQLiteManifestStore, table: str, version: int | None = None) -> None:
        nonlocal calls
        calls += 1
        if calls == num_calls:
            raise KeyboardInterrupt
        original(self, table, version)

    original = SQLiteManifestStore.delete
    with monkeypatch.context() as patch:
        patch.setattr(SQLiteManifestStore, "delete", delete)
        with pytest.raises(KeyboardInterrupt):
            LanceDataset.drop(path, external_store=store)
    LanceDataset.drop(path, ignore_not_found=True, external_store=store)
    assert lance_df.write_dataset(ROWS, path, external_store=store).create_branch("b").count_rows() == 2
