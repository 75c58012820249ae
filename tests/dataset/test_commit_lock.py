"""`commit_lock`: taken for each version as pylance takes it; what it makes safe, and how it fails."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import fsspec
import lance
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import lance_df
from lance_df.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    ConflictError,
    InvalidInputError,
    RetryableConflictError,
    StorageError,
    UnsupportedFeatureError,
)

_ROWS = pa.table({"a": [1, 2, 3]})


class Lock:
    """Records what is done with it."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int]] = []

    @contextlib.contextmanager
    def __call__(self, version: int) -> Iterator[None]:
        self.log.append(("taken", version))
        yield
        self.log.append(("released", version))


def _changes(module: ModuleType, uri: str, lock: Lock) -> None:
    module.write_dataset(_ROWS, uri, commit_lock=lock)
    module.write_dataset(_ROWS, uri, mode="append", commit_lock=lock)
    dataset = module.dataset(uri, commit_lock=lock)
    dataset.delete("a = 1")
    dataset.update({"a": "7"}, where="a = 2")
    dataset.merge_insert("a").when_not_matched_insert_all().execute(pa.table({"a": [100]}))
    dataset = module.dataset(uri, commit_lock=lock)
    dataset.add_columns({"b": "a + 1"})
    dataset.restore()
    fragments = module.fragment.write_fragments(pa.table({"a": [5], "b": [6]}), uri)
    append = module.LanceOperation.Append(fragments)
    read_version = module.dataset(uri).version
    module.LanceDataset.commit(uri, append, read_version, lock)
    dataset = module.dataset(uri, commit_lock=lock)
    dataset.optimize.compact_files()
    dataset.tags.create("t", 1)


def test_every_version_is_made_under_the_lock(tmp_path: Path) -> None:
    logs = []
    for module in (lance, lance_df):
        lock, uri = Lock(), str(tmp_path / module.__name__)
        _changes(module, uri, lock)
        latest = module.dataset(uri).version
        assert lock.log == [(what, n) for n in range(1, latest + 1) for what in ("taken", "released")]
        logs.append(lock.log)
    assert logs[0] == logs[1]


def test_zone_maps_and_written_datasets_keep_the_lock(tmp_path: Path) -> None:
    lock = Lock()
    made = lance_df.write_dataset(_ROWS, tmp_path / "t", statistics=True, commit_lock=lock)
    assert [version for _, version in lock.log] == [1, 1, 2, 2]
    lance_df.write_dataset(_ROWS, made, mode="append")
    made.create_branch("side")
    assert [version for what, version in lock.log if what == "taken"] == [1, 2, 3, 2]


class PlainFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """A store that cannot create a file only if it is absent."""

    protocol = "plain"
    store: dict[str, Any] = {}  # noqa: RUF012 - as in the base class
    pseudo_dirs = [""]  # noqa: RUF012


@pytest.fixture
def plain() -> Iterator[str]:
    fsspec.register_implementation("plain", PlainFileSystem, clobber=True)
    PlainFileSystem.store.clear()
    yield "plain://bucket/t"
    PlainFileSystem.store.clear()


def test_stores_without_a_primitive_are_safe_under_a_lock(plain: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="commit_lock"):
        lance_df.write_dataset(_ROWS, plain)
    mutex = threading.Lock()

    @contextlib.contextmanager
    def lock(_: int) -> Iterator[None]:
        with mutex:
            yield

    lance_df.write_dataset(_ROWS, plain, commit_lock=lock)
    with pytest.raises(AlreadyExistsError):
        lance_df.write_dataset(_ROWS, plain, commit_lock=lock)
    threads = [
        threading.Thread(
            target=lance_df.write_dataset, args=(_ROWS, plain), kwargs={"mode": "append", "commit_lock": lock}
        )
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = lance_df.dataset(plain)
    assert (found.version, found.count_rows()) == (7, 21)
    with pytest.raises(UnsupportedFeatureError, match="commit_lock"):
        found.delete("a = 1")
    lance_df.dataset(plain, commit_lock=lock).delete("a = 1")
    assert lance_df.dataset(plain).count_rows() == 14


def test_a_version_that_another_writer_makes_is_followed(tmp_path: Path) -> None:
    """The lock is no promise that nobody came before: the next version is tried, with the lock for it."""
    uri, seen = str(tmp_path / "t"), []
    lance_df.write_dataset(_ROWS, uri)

    def lock(version: int) -> contextlib.AbstractContextManager[None]:
        seen.append(version)
        if len(seen) == 1:
            lance_df.write_dataset(_ROWS, uri, mode="append")
        return contextlib.nullcontext()

    made = lance_df.write_dataset(_ROWS, uri, mode="append", commit_lock=lock)
    assert (seen, made.version, made.count_rows()) == ([2, 3], 3, 9)


def _refusing(_: int) -> contextlib.AbstractContextManager[None]:
    raise RuntimeError("no lock today")


@contextlib.contextmanager
def _refusing_to_enter(_: int) -> Iterator[None]:
    raise RuntimeError("no lock today")
    yield


@pytest.mark.parametrize("lock", [_refusing, _refusing_to_enter, lambda _: None])
def test_a_lock_that_cannot_be_taken(tmp_path: Path, lock: Callable[[int], Any]) -> None:
    uri = tmp_path / "t"
    with pytest.raises(StorageError, match="commit_lock could not be acquired"):
        lance_df.write_dataset(_ROWS, uri, commit_lock=lock)
    assert not uri.exists()
    lance_df.write_dataset(_ROWS, uri)
    before = sorted(path for path in uri.rglob("*") if path.is_file())
    with pytest.raises(StorageError, match="commit_lock could not be acquired"):
        lance_df.dataset(str(uri), commit_lock=lock).delete("a = 1")
    assert sorted(path for path in uri.rglob("*") if path.is_file()) == before


def test_a_conflict_that_the_lock_tells_of_is_passed_on(tmp_path: Path) -> None:
    def lock(_: int) -> contextlib.AbstractContextManager[None]:
        raise RetryableConflictError("somebody has it")

    with pytest.raises(RetryableConflictError, match="somebody"):
        lance_df.write_dataset(_ROWS, tmp_path / "t", commit_lock=lock)


def test_a_conflict_without_a_message_is_given_one(tmp_path: Path) -> None:
    @contextlib.contextmanager
    def lock(_: int) -> Iterator[None]:
        raise ConflictError
        yield

    with pytest.raises(ConflictError, match="version 1: its commit_lock raised CommitConflictError"):
        lance_df.write_dataset(_ROWS, tmp_path / "t", commit_lock=lock)
    assert not (tmp_path / "t").exists()


def test_a_lock_that_fails_when_it_is_released(tmp_path: Path) -> None:
    @contextlib.contextmanager
    def lock(_: int) -> Iterator[None]:
        yield
        raise RuntimeError("lost")

    uri = str(tmp_path / "t")
    with pytest.raises(CommitStateUnknownError, match="lost"):
        lance_df.write_dataset(_ROWS, uri, commit_lock=lock)
    assert lance_df.dataset(uri).to_table() == _ROWS


def test_what_is_no_lock(tmp_path: Path) -> None:
    made = lance_df.write_dataset(_ROWS, tmp_path / "t")
    operation = lance_df.LanceOperation.Restore(1)
    for call in (
        lambda: lance_df.dataset(made.uri, commit_lock=5),  # type: ignore[arg-type]
        lambda: lance_df.write_dataset(_ROWS, made, mode="append", commit_lock=5),  # type: ignore[arg-type]
        lambda: lance_df.LanceDataset.commit(made, operation, 1, 5),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInputError, match="commit_lock"):
            call()
    assert lance_df.dataset(made.uri).version == 1
