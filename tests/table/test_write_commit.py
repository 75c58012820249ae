"""Commits: races with ours and with pylance's writers, conflicts, lost replies, failing stores."""

from __future__ import annotations

import dataclasses
import datetime as dt
import shutil
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, get_args

import lance
import pyarrow as pa
import pytest
from manifest_edits import edit_manifest

import lance_df
from lance_df.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    CorruptDataError,
    IncompatibleConflictError,
    RetryableConflictError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_df.format.operations import (
    Append,
    Clone,
    OpaqueOperation,
    Operation,
    Overwrite,
)
from lance_df.format.transaction import Transaction
from lance_df.storage import Location, open_location
from lance_df.table.commit import publish as publish_module
from lance_df.table.commit.conflicts import RULES, check_conflict
from lance_df.table.commit.loop import CommitOptions, commit, commit_change
from lance_df.table.commit.manifest_bytes import make_manifest_file
from lance_df.table.commit.row_account import RowChange
from lance_df.table.commit.state import TableState
from lance_df.table.open import open_table
from lance_df.table.writing.fragment_writer import FileLimits, fragments_written

if TYPE_CHECKING:
    from pathlib import Path

ROW = pa.table({"a": [1], "b": ["x"]})
QUICK = CommitOptions(max_retries=2, sleep=lambda _: None)


def append_from(uri: str, version: int, **options: Any) -> int:
    """Append a row as a writer does that has read `version` and was slow."""
    table = open_table(uri, version=version)
    with fragments_written(
        table.location, table.schema, ROW.to_batches(), version="2.2", limits=FileLimits()
    ) as fragments:
        transaction = Transaction(read_version=version, uuid=str(uuid.uuid4()), operation=Append(fragments))
        rows = RowChange(len(ROW))
        return commit(table.location, transaction, rows=rows, options=QUICK, **options).manifest.version


def data_files(path: Path) -> set[str]:
    return {file.name for folder in ("data", "_transactions") for file in (path / folder).iterdir()}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = str(tmp_path / "t.lance")
    lance_df.write_dataset(ROW, path)
    return path


def test_many_writers_of_both_libraries(uri: str) -> None:
    num_writers, num_appends = 6, 5
    barrier = threading.Barrier(num_writers)

    def work(writer: int) -> None:
        barrier.wait()
        for number in range(num_appends):
            row = pa.table({"a": [100 * (writer + 1) + number], "b": [str(writer)]})
            if writer % 2:
                lance_df.write_dataset(row, uri, mode="append")
            else:
                lance.write_dataset(row, uri, mode="append")

    with ThreadPoolExecutor(num_writers) as pool:
        list(pool.map(work, range(num_writers)))
    theirs = lance.dataset(uri)
    theirs.validate()
    found = sorted(theirs.to_table()["a"].to_pylist())
    assert found == [1] + [100 * (w + 1) + n for w in range(num_writers) for n in range(num_appends)]
    assert theirs.version == 1 + num_writers * num_appends
    assert sorted(lance_df.dataset(uri).to_table()["a"].to_pylist()) == found


def test_one_creator_wins(tmp_path: Path) -> None:
    barrier = threading.Barrier(5)
    target = tmp_path / "t.lance"

    def create(number: int) -> int | None:
        barrier.wait()
        try:
            lance_df.write_dataset(pa.table({"a": [number]}), str(target))
        except AlreadyExistsError:
            return None
        return number

    with ThreadPoolExecutor(5) as pool:
        (winner,) = [outcome for outcome in pool.map(create, range(5)) if outcome is not None]
    assert lance.dataset(str(target)).to_table()["a"].to_pylist() == [winner]
    assert len(data_files(target)) == 2


def test_fragment_ids_are_given_out_at_the_commit(uri: str) -> None:
    lance.write_dataset(ROW, uri, mode="append")
    lance.dataset(uri).delete("a = 1 and b = 'y'")
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    lance.dataset(uri).update({"b": "'z'"})
    latest = lance.dataset(uri).version
    assert append_from(uri, 1) == latest + 1
    theirs = lance.dataset(uri)
    theirs.validate()
    ids = [fragment.fragment_id for fragment in theirs.get_fragments()]
    assert ids == sorted(set(ids))
    assert theirs.count_rows() == 3
    assert theirs.count_rows("a = 1") == 3


def _overwrite(theirs: lance.LanceDataset) -> None:
    lance.write_dataset(ROW, theirs, mode="overwrite")


def _restore(theirs: lance.LanceDataset) -> None:
    lance.dataset(theirs.uri, version=1).restore()


def _cast_column(theirs: lance.LanceDataset) -> None:
    theirs.alter_columns({"path": "a", "data_type": pa.int32()})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (_overwrite, IncompatibleConflictError),
        (_restore, IncompatibleConflictError),
        (_cast_column, RetryableConflictError),
    ],
)
def test_changes_that_an_append_cannot_follow(
    uri: str, tmp_path: Path, change: Any, error: type[Exception]
) -> None:
    change(lance.dataset(uri))
    before, version = data_files(tmp_path / "t.lance"), lance.dataset(uri).version
    with pytest.raises(error, match="was committed before this append"):
        append_from(uri, 1)
    assert data_files(tmp_path / "t.lance") == before
    assert lance.dataset(uri).version == version


def test_an_unknown_version_between_is_a_conflict(uri: str, tmp_path: Path) -> None:
    lance.write_dataset(ROW, uri, mode="append")
    lance.write_dataset(ROW, uri, mode="append")
    (gone,) = (tmp_path / "t.lance/_versions").glob(f"{2**64 - 1 - 2}.manifest")
    gone.unlink()
    with pytest.raises(IncompatibleConflictError, match=r"version 2 \(an unknown operation\)"):
        append_from(uri, 1)


def test_a_table_that_went_back_is_a_conflict(uri: str, tmp_path: Path) -> None:
    lance.write_dataset(ROW, uri, mode="append")
    table = open_table(uri)
    (newest,) = (tmp_path / "t.lance/_versions").glob(f"{2**64 - 1 - 2}.manifest")
    newest.unlink()
    transaction = Transaction(read_version=2, uuid=str(uuid.uuid4()), operation=Append(()))
    with pytest.raises(
        IncompatibleConflictError, match="version 2, which this change is based on, no longer exists"
    ):
        commit(table.location, transaction, rows=RowChange(), options=QUICK)


def test_a_transaction_is_never_applied_twice(uri: str) -> None:
    table = open_table(uri)
    transaction = Transaction(read_version=1, uuid=str(uuid.uuid4()), operation=Append(()))
    assert commit(table.location, transaction, rows=None).manifest.version == 2
    lance.write_dataset(ROW, uri, mode="append")
    assert commit(table.location, transaction, rows=None).manifest.version == 2
    assert lance.dataset(uri).version == 3


def test_giving_up_after_losing_again_and_again(
    uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = data_files(tmp_path / "t.lance")
    real = publish_module.put_if_absent

    def lose(name: Location, data: bytes) -> bool:
        monkeypatch.setattr(publish_module, "put_if_absent", real)
        lance_df.write_dataset(ROW, uri, mode="append")
        monkeypatch.setattr(publish_module, "put_if_absent", lose)
        return real(name, data)

    monkeypatch.setattr(publish_module, "put_if_absent", lose)
    with pytest.raises(RetryableConflictError, match="3 attempts in a row"):
        append_from(uri, 1)
    assert lance.dataset(uri).version == 4
    assert len(data_files(tmp_path / "t.lance") - before) == 2 * 3


def memory_table(tmp_path: Path) -> str:
    uri = f"memory://{tmp_path}/t.lance"
    lance_df.write_dataset(ROW, uri)
    return uri


@pytest.mark.parametrize("answer", ["error", "conflict"])
def test_a_lost_reply_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    uri = memory_table(tmp_path)
    real = publish_module.put_if_absent

    def lose_reply(name: Location, data: bytes) -> bool:
        assert real(name, data)
        if answer == "conflict":  # as when the client library repeats a request that had arrived
            return False
        raise CommitStateUnknownError("connection reset")

    monkeypatch.setattr(publish_module, "put_if_absent", lose_reply)
    assert lance_df.write_dataset(ROW, uri, mode="append").version == 2
    monkeypatch.undo()
    assert lance_df.dataset(uri).count_rows() == 2


def test_a_lost_request_leaves_everything_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = memory_table(tmp_path)
    data = open_location(f"{uri}/data")
    before = len(list(data.list()))

    def lose_request(_: Location, __: bytes) -> bool:
        raise CommitStateUnknownError("connection reset")

    monkeypatch.setattr(publish_module, "put_if_absent", lose_request)
    with pytest.raises(CommitStateUnknownError, match=r"it is unknown whether it was committed"):
        lance_df.write_dataset(ROW, uri, mode="append")
    assert len(list(data.list())) == before + 1
    assert lance_df.dataset(uri).version == 1


def test_a_store_that_refuses_is_no_unknown_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = memory_table(tmp_path)
    data = open_location(f"{uri}/data")
    before = len(list(data.list()))

    def refuse(_: Location, __: bytes) -> bool:
        raise StorageError("no permission") from PermissionError(13, "no")

    monkeypatch.setattr(publish_module, "put_if_absent", refuse)
    with pytest.raises(StorageError, match="no permission"):
        lance_df.write_dataset(ROW, uri, mode="append")
    assert len(list(data.list())) == before


def test_a_failing_disk_leaves_the_table_as_it_was(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = data_files(tmp_path / "t.lance")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    for function in ("os.link", "os.fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(function, full)
            with pytest.raises(StorageError, match="No space left"):
                lance_df.write_dataset(ROW, uri, mode="append")
        assert data_files(tmp_path / "t.lance") == before
        assert lance.dataset(uri).version == 1


def test_tables_that_need_more_of_a_writer(uri: str, tmp_path: Path) -> None:
    lance.dataset(uri).update_config({"lance.row_lineage.spill": "true"})
    table = open_table(uri)
    flagged = dataclasses.replace(table.manifest, version=3, writer_feature_flags=8 | 1 << 40)
    transaction = Transaction(read_version=2, uuid=str(uuid.uuid4()), operation=Append(()))
    name = tmp_path / f"t.lance/_versions/{2**64 - 1 - 3}.manifest"
    name.write_bytes(make_manifest_file("m", TableState(flagged, ()), transaction.serialize())[0])
    before = data_files(tmp_path / "t.lance")
    with pytest.raises(UnsupportedFeatureError, match="changing the table needs feature"):
        lance_df.write_dataset(ROW, uri, mode="append")
    assert data_files(tmp_path / "t.lance") == before


KNOWN = [kind for kind in get_args(Operation) if kind is not OpaqueOperation]


@pytest.mark.parametrize("mine", KNOWN)
@pytest.mark.parametrize("theirs", KNOWN)
def test_every_pair_has_a_rule(mine: type, theirs: type) -> None:
    makes_tables_only = Clone in (mine, theirs)
    assert ((mine, theirs) in RULES) is not makes_tables_only


@pytest.mark.parametrize("theirs", [None, OpaqueOperation("UpdateMemWalState")])
def test_what_is_not_known_conflicts(theirs: Operation | None) -> None:
    with pytest.raises(IncompatibleConflictError):
        check_conflict(Append(()), theirs, version=3, table="t")


def test_a_table_that_was_made_anew_refuses_its_old_writer(uri: str, tmp_path: Path) -> None:
    stale = open_table(uri)
    for extra in (0, 1):  # as far as the version that was read, and further
        shutil.rmtree(uri)
        lance_df.write_dataset(ROW, uri)
        for _ in range(extra):
            lance_df.write_dataset(ROW, uri, mode="append")
        before = data_files(tmp_path / "t.lance")
        with pytest.raises(IncompatibleConflictError, match="dropped and created again"):
            commit_change(stale, Append(()), rows=RowChange())
        assert data_files(tmp_path / "t.lance") == before
        assert lance.dataset(uri).version == 1 + extra


def test_an_interrupt_while_publishing_leaves_everything(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = publish_module.put_if_absent

    def interrupted(name: Location, data: bytes) -> bool:
        real(name, data)
        raise KeyboardInterrupt

    monkeypatch.setattr(publish_module, "put_if_absent", interrupted)
    with pytest.raises(KeyboardInterrupt) as raised:
        lance_df.write_dataset(ROW, uri, mode="append")
    assert raised.value.__notes__ == [f"{uri}: version 2 was published before the call was interrupted"]
    assert lance.dataset(uri).count_rows() == 2
    lance.dataset(uri).validate()


def test_a_strict_overwrite(uri: str) -> None:
    stale = open_table(uri)
    strict = CommitOptions(max_retries=0)
    lance_df.write_dataset(ROW, uri, mode="append")
    with pytest.raises(RetryableConflictError, match="does not allow concurrent commits"):
        commit_change(stale, Overwrite((), stale.schema), rows=RowChange.replacing(0), options=strict)
    assert (
        commit_change(
            stale.latest(), Overwrite((), stale.schema), rows=RowChange.replacing(0), options=strict
        ).version
        == 3
    )


def test_detached_versions(uri: str) -> None:
    table = open_table(uri)
    made = commit_change(table, Append(()), rows=RowChange(), options=CommitOptions(detached=True))
    assert made.version >> 63 == 1
    assert lance.dataset(uri).version == 1
    assert lance.dataset(uri, version=made.version).count_rows() == 1
    assert open_table(uri, version=made.version).transaction() is not None


def test_the_time_for_a_commit_is_limited(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(uri)
    monkeypatch.setattr(publish_module, "put_if_absent", lambda *_: False)
    seconds = iter(range(0, 1000, 20))
    options = CommitOptions(
        commit_timeout=dt.timedelta(seconds=30), monotonic=lambda: next(seconds), sleep=lambda _: None
    )
    with pytest.raises(RetryableConflictError, match="2 attempts in a row"):
        commit_change(table, Append(()), rows=RowChange(), options=options)


def test_an_append_finds_no_row_ids(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(ROW, uri, enable_stable_row_ids=True)
    edit_manifest(uri, lambda manifest: setattr(manifest, "next_row_id", 2**64 - 1))
    before = data_files(tmp_path / "t.lance")
    with pytest.raises(CorruptDataError, match="new rows need row ids from"):
        lance_df.write_dataset(pa.concat_tables([ROW, ROW]), uri, mode="append")
    assert data_files(tmp_path / "t.lance") == before
    assert lance_df.dataset(uri).to_table() == ROW


def test_no_transaction_file_where_the_table_wants_none(uri: str, tmp_path: Path) -> None:
    table = open_table(uri)
    flagged = dataclasses.replace(table.manifest, version=2, writer_feature_flags=32)
    transaction = Transaction(read_version=1, uuid=str(uuid.uuid4()), operation=Append(()))
    name = tmp_path / f"t.lance/_versions/{2**64 - 1 - 2}.manifest"
    name.write_bytes(make_manifest_file("m", TableState(flagged, ()), transaction.serialize())[0])
    before = data_files(tmp_path / "t.lance")
    made = commit_change(open_table(uri), Append(()), rows=RowChange())
    assert data_files(tmp_path / "t.lance") == before
    assert made.manifest.writer_feature_flags == 32
    assert lance.dataset(uri).version == 3
    lance.write_dataset(ROW, uri, mode="append")
