"""A table that was opened and then removed is not created again by writes through the open object."""

from __future__ import annotations

import datetime as dt
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lance_df
from lance_df import (
    CorruptDataError,
    DatasetNotFoundError,
    IncompatibleConflictError,
    LanceDataset,
    LanceOperation,
    SQLiteManifestStore,
    VersionNotFoundError,
)
from lance_df.fragment import write_fragments
from lance_df.table.metadata.external_store import StoredManifest
from lance_df.table.metadata.versions import NamingScheme

if TYPE_CHECKING:
    from collections.abc import Callable

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


def test_drop_leaves_what_the_folder_is_used_for_now(tmp_path: Path) -> None:
    """The table was dropped without its store, and other tables are in its folder now."""
    path, store = tmp_path / "t", SQLiteManifestStore(tmp_path / "store.db")
    lance_df.write_dataset(ROWS, path, external_store=store)
    LanceDataset.drop(path)
    lance_df.write_dataset(ROWS, path / "other.lance")
    (path / "notes.txt").write_text("mine")
    LanceDataset.drop(path, external_store=store)
    assert store.get_latest(str(path)) is None
    assert lance_df.dataset(path / "other.lance").to_table() == ROWS
    assert (path / "notes.txt").read_text() == "mine"
    with pytest.raises(DatasetNotFoundError, match="not a Lance table"):
        LanceDataset.drop(path, external_store=store)


def test_drop_after_a_commit_that_was_not_finished(tmp_path: Path) -> None:
    """The store names a staged manifest, which was removed with the folder."""
    path, store = tmp_path / "t.lance", SQLiteManifestStore(tmp_path / "store.db")
    lance_df.write_dataset(ROWS, path, external_store=store)
    staged = StoredManifest(2, f"{NamingScheme.V2.file_name(2)}-abc", 100)
    assert store.put_if_absent(str(path), staged)
    with pytest.raises(CorruptDataError, match="it does not exist"):  # there is a version
        LanceDataset.drop(path, external_store=store)
    shutil.rmtree(path)
    LanceDataset.drop(path, external_store=store)
    assert store.get_latest(str(path)) is None
    assert lance_df.write_dataset(ROWS, path, external_store=store).version == 1


def test_a_staged_manifest_that_is_damaged_is_not_dropped(tmp_path: Path) -> None:
    path, store = tmp_path / "t.lance", SQLiteManifestStore(tmp_path / "store.db")
    staged = StoredManifest(1, f"{NamingScheme.V2.file_name(1)}-abc", 100)
    store.put_if_absent(str(path), staged)
    file = path / "_versions" / staged.name
    file.parent.mkdir(parents=True)
    file.write_bytes(b"short")
    with pytest.raises(CorruptDataError, match="5 bytes"):
        LanceDataset.drop(path, external_store=store)
    assert (file.exists(), store.get_latest(str(path))) == (True, staged)


OTHER = pa.table({"a": [777]})
WRITES: dict[str, Callable[[LanceDataset], object]] = {
    "append": lambda data: lance_df.write_dataset(ROWS, data, mode="append"),
    "overwrite": lambda data: lance_df.write_dataset(OTHER, data, mode="overwrite"),
    "insert": lambda data: data.insert(ROWS),
    "fragments": lambda data: write_fragments(ROWS, data, mode="append"),
    "commit": lambda data: LanceDataset.commit(data, LanceOperation.Append([]), data.version),
    "commit an overwrite": lambda data: LanceDataset.commit(data, LanceOperation.Overwrite(ROWS.schema, [])),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("num_versions", [1, 2, 3])
@pytest.mark.parametrize("branch", [None, "b"])
def test_writes_to_a_table_that_was_created_again(
    tmp_path: Path, write: str, num_versions: int, branch: str | None
) -> None:
    """It has fewer, as many or more versions than the one that was opened."""
    path = tmp_path / "t.lance"

    def create(versions: int) -> LanceDataset:
        made = lance_df.dataset(path).create_branch("b") if branch else lance_df.write_dataset(OTHER, path)
        for _ in range(versions - 1):
            made.insert(OTHER)
        return made

    if branch:
        lance_df.write_dataset(OTHER, path)
    data = create(2)
    if branch:
        data.branches.delete("b")
    else:
        LanceDataset.drop(path)
    other = create(num_versions)
    files = sorted(path.rglob("*"))
    with pytest.raises(IncompatibleConflictError, match="created again after version 2 was opened"):
        WRITES[write](data)
    assert sorted(path.rglob("*")) == files
    other.checkout_latest()
    assert (other.version, other.to_table()["a"].to_pylist()) == (num_versions, [777] * num_versions)


@pytest.mark.parametrize("change", [*WRITES, "config", "delete"])
@pytest.mark.parametrize("first", ["later", "at the same version"])
def test_changes_of_a_branch_that_was_created_again_without_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, first: str
) -> None:
    """It starts after the version that was opened; or it had such a version, which was cleaned up."""
    main = lance_df.write_dataset(ROWS, tmp_path / "t.lance")
    data = main.create_branch("b")
    data.insert(ROWS)
    main.branches.delete("b")
    if first == "later":
        main.insert(OTHER)
        main.insert(OTHER)
    else:
        later = time.time() + 60
        monkeypatch.setattr(time, "time", lambda: later)
    other = main.create_branch("b")
    other.insert(OTHER)
    other.insert(OTHER)
    other.cleanup_old_versions(retain_versions=1, delete_unverified=True)
    version, num_rows = other.version, other.count_rows()
    changes: dict[str, Callable[[LanceDataset], object]] = {
        **WRITES,
        "config": lambda data: data.update_config({"k": "v"}),
        "delete": lambda data: data.delete("a = 1"),
    }
    with pytest.raises(IncompatibleConflictError, match="created again after version 2 was opened"):
        changes[change](data)
    other.checkout_latest()
    assert (other.version, other.count_rows()) == (version, num_rows)


@pytest.mark.parametrize("write", WRITES)
def test_writes_through_a_version_that_is_not_the_newest(tmp_path: Path, write: str) -> None:
    for cleans_up in (False, True):
        path = tmp_path / f"{cleans_up}.lance"
        data = lance_df.write_dataset(ROWS, path)
        lance_df.write_dataset(ROWS, path, mode="append")
        if cleans_up and write == "commit":  # it needs the version that it read
            continue
        if cleans_up:
            lance_df.dataset(path).cleanup_old_versions(dt.timedelta(0))
        WRITES[write](data)


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"])
def test_statistics_of_an_index_that_was_cleaned_up(tmp_path: Path, kind: str) -> None:
    data = lance_df.write_dataset(ROWS, tmp_path / "t.lance")
    data.create_scalar_index("a", kind)
    old = lance_df.dataset(data.uri)
    data.create_scalar_index("a", kind, replace=True)
    data.cleanup_old_versions(older_than=dt.timedelta(0))
    for statistics in (old.index_statistics, old.stats.index_stats):
        with pytest.raises(VersionNotFoundError, match="version 2 was cleaned up; open the table again"):
            statistics("a_idx")


REFS: dict[str, Callable[[LanceDataset], object]] = {
    "create a tag": lambda data: data.tags.create("u"),
    "move a tag": lambda data: data.tags.update("t", 1),
    "delete a tag": lambda data: data.tags.delete("t"),
    "describe a tag": lambda data: data.tags.replace_metadata("t", {"k": "v"}),
    "describe a branch": lambda data: data.branches.replace_metadata("b", {"k": "v"}),
    "delete a branch": lambda data: data.branches.delete("b"),
    "create a branch": lambda data: data.create_branch("c"),
    "create a branch at a version": lambda data: data.create_branch("c", 1),
    "clean up": lambda data: data.cleanup_old_versions(dt.timedelta(0), error_if_tagged_old_versions=False),
}


def with_refs(path: Path, rows: pa.Table, num_versions: int) -> LanceDataset:
    data = lance_df.write_dataset(rows, path)
    data.tags.create("t", 1)
    data.create_branch("b")
    for _ in range(num_versions - 1):
        data.insert(rows)
    return data


def contents(path: Path) -> dict[Path, bytes]:
    return {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}


@pytest.mark.parametrize("change", REFS)
@pytest.mark.parametrize("num_versions", [1, 2, 3])
def test_names_and_clean_ups_of_a_table_that_was_replaced(
    tmp_path: Path, change: str, num_versions: int
) -> None:
    data = with_refs(tmp_path / "t.lance", ROWS, 2)
    with_refs(tmp_path / "u.lance", OTHER, num_versions)
    (tmp_path / "t.lance").rename(tmp_path / "old.lance")
    (tmp_path / "u.lance").rename(tmp_path / "t.lance")
    before = contents(tmp_path)
    with pytest.raises(IncompatibleConflictError, match="created again after version 2 was opened"):
        REFS[change](data)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("change", REFS)
def test_names_and_clean_ups_through_a_version_that_is_not_the_newest(tmp_path: Path, change: str) -> None:
    for cleans_up in (False, True):
        path = tmp_path / f"{cleans_up}.lance"
        data = with_refs(path, ROWS, 2)
        for _ in range(2):
            lance_df.write_dataset(ROWS, path, mode="append")
        if cleans_up:
            newest = lance_df.dataset(path)
            newest.cleanup_old_versions(dt.timedelta(0), error_if_tagged_old_versions=False)
            newest.tags.update("t", 4)
            data.tags.create("v", 4)
        before = contents(path)
        if cleans_up and change in (
            "create a tag",
            "create a branch",
        ):  # of the version itself, which is gone
            with pytest.raises(VersionNotFoundError):
                REFS[change](data)
            continue
        REFS[change](data)
        assert (contents(path) != before) == (change != "clean up")


@pytest.mark.parametrize("change", [each for each in REFS if each != "clean up"])
def test_names_of_a_table_that_was_dropped(tmp_path: Path, change: str) -> None:
    data = with_refs(tmp_path / "t.lance", ROWS, 1)
    LanceDataset.drop(data.uri)
    with pytest.raises(
        IncompatibleConflictError, match=r"t\.lance: the table was dropped; nothing was written"
    ):
        REFS[change](data)
    assert not (tmp_path / "t.lance").exists()


CHANGES: dict[str, Callable[[LanceDataset], object]] = {
    "delete": lambda data: data.delete("a = 1"),
    "update": lambda data: data.update({"a": "7"}, where="a = 1"),
    "merge": lambda data: data.merge_insert("a").when_matched_update_all().execute(ROWS),
    "upsert": lambda data: (
        data.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(OTHER)
    ),
    "compact": lambda data: data.optimize.compact_files(),
    "index": lambda data: data.create_scalar_index("a", "BITMAP"),
    "zone map": lambda data: data.create_scalar_index("a", "ZONEMAP"),
    "add columns": lambda data: data.add_columns({"b": "a"}),
    "cast": lambda data: data.alter_columns({"path": "a", "data_type": pa.int32()}),
    "configure": lambda data: data.update_config({"k": "v"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_a_table_that_was_moved_leave_no_folders(tmp_path: Path, change: str) -> None:
    data = lance_df.write_dataset(pa.table({"a": range(9)}), tmp_path / "t.lance", max_rows_per_file=3)
    data.to_table()
    (tmp_path / "t.lance").rename(tmp_path / "moved.lance")
    with pytest.raises(IncompatibleConflictError):
        CHANGES[change](data)
    assert [path.name for path in tmp_path.iterdir()] == ["moved.lance"]
