"""Publishing a manifest: one winner, lost replies found out, unknown outcomes told, four steps finished."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import (
    CommitStateUnknownError,
    CorruptDataError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_df.storage import Location, open_location
from lance_df.table.commit import publish
from lance_df.table.commit.publish import is_absent, publish_manifest
from lance_df.table.metadata.external_store import StoredManifest, finish_commit, staged_manifest, store_key
from lance_df.table.metadata.external_store_sqlite import SQLiteManifestStore
from lance_df.table.metadata.versions import NamingScheme

V2 = NamingScheme.V2
MINE, THEIRS = b"my manifest", b"their manifest"


@pytest.fixture
def table(tmp_path: Path) -> Location:
    return open_location(f"memory://{tmp_path}/t.lance")


@pytest.fixture
def store(tmp_path: Path) -> SQLiteManifestStore:
    return SQLiteManifestStore(tmp_path / "versions.db")


def manifest_file(table: Location, version: int) -> Location:
    return table / f"_versions/{V2.file_name(version)}"


def names(table: Location) -> list[str]:
    return [entry.name for entry in (table / "_versions").list()]


# -- by the store's own put-if-absent -----------------------------------------------------------------------


@pytest.mark.parametrize("where", ["memory", "local"])
def test_the_first_one_wins(tmp_path: Path, where: str):
    table = open_location(f"memory://{tmp_path}" if where == "memory" else tmp_path)
    assert publish_manifest(table, 1, V2, MINE)
    assert not publish_manifest(table, 1, V2, THEIRS)
    assert publish_manifest(table, 2, V2, THEIRS)
    assert names(table) == [V2.file_name(2), V2.file_name(1)]
    assert manifest_file(table, 1).read() == MINE


class Put:
    """Stands for put_if_absent: does or fails what it is told to, call after call."""

    def __init__(self, *outcomes: str) -> None:
        self.outcomes = list(outcomes)

    def __call__(self, location: Location, data: bytes) -> bool:
        outcome = self.outcomes.pop(0)
        if "mine" in outcome:
            location.put(data)
        if "theirs" in outcome:
            location.put(THEIRS)
        if "unknown" in outcome:
            raise CommitStateUnknownError("a time-out")
        if "refused" in outcome:
            raise StorageError("refused")
        return "taken" not in outcome


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["mine, unknown"], True),  # a lost reply
        (["mine, taken"], True),  # a lost reply, and the library sent the request again
        (["theirs, unknown"], False),
        (["theirs, taken"], False),
        (["unknown", "mine"], True),  # a lost request
        (["unknown", "mine, unknown"], True),
        (["unknown", "theirs, taken"], False),
        (["unknown", "unknown"], CommitStateUnknownError),
        (["unknown", "refused"], CommitStateUnknownError),  # the first one may still be on its way
        (["taken", "taken"], CommitStateUnknownError),  # by a file that is gone again
        (["refused"], StorageError),
    ],
)
def test_outcomes(
    table: Location,
    monkeypatch: pytest.MonkeyPatch,
    outcomes: list[str],
    expected: bool | type[Exception],
):
    put = Put(*outcomes)
    monkeypatch.setattr(publish, "put_if_absent", put)
    if isinstance(expected, bool):
        assert publish_manifest(table, 1, V2, MINE) is expected
    else:
        with pytest.raises(expected):
            publish_manifest(table, 1, V2, MINE)
    assert not put.outcomes


def test_an_answer_that_cannot_be_checked(table: Location, monkeypatch: pytest.MonkeyPatch):
    def fail(self: Location) -> bytes:
        raise StorageError("down")

    monkeypatch.setattr(publish, "put_if_absent", Put("unknown"))
    monkeypatch.setattr(Location, "read", fail)
    with pytest.raises(CommitStateUnknownError, match="check the table"):
        publish_manifest(table, 1, V2, MINE)


def test_what_is_absent(tmp_path: Path):
    table = open_location(tmp_path / "t.lance")
    name = manifest_file(table, 2)
    assert is_absent(name, MINE)  # nor is the table
    assert publish_manifest(table, 1, V2, THEIRS)
    assert is_absent(name, MINE)
    assert publish_manifest(table, 2, V2, MINE)
    assert not is_absent(name, MINE)
    assert is_absent(name, THEIRS)
    assert publish_manifest(table, 3, V2, THEIRS)
    name.remove()
    assert not is_absent(name, MINE)  # it may have been cleaned up


def test_a_store_that_cannot_do_it(tmp_path: Path):
    table = open_location(f"dir::file://{tmp_path}")
    with pytest.raises(UnsupportedFeatureError, match="external manifest store"):
        publish_manifest(table, 1, V2, MINE)
    assert list(tmp_path.iterdir()) == []


# -- through an external manifest store ---------------------------------------------------------------------


@pytest.mark.parametrize("scheme", list(NamingScheme))
def test_four_steps(table: Location, store: SQLiteManifestStore, scheme: NamingScheme):
    assert publish_manifest(table, 1, scheme, MINE, external_store=store)
    assert not publish_manifest(table, 1, scheme, THEIRS, external_store=store)
    assert publish_manifest(table, 2, scheme, THEIRS, external_store=store)
    assert sorted(names(table)) == sorted([scheme.file_name(1), scheme.file_name(2)])
    assert (table / "_versions" / scheme.file_name(1)).read() == MINE
    assert store.get_latest(store_key(table)) == StoredManifest(2, scheme.file_name(2), len(THEIRS))


class Flaky(SQLiteManifestStore):
    """A store whose put_if_absent does or fails what it is told to."""

    def __init__(
        self, path: Path, *outcomes: str, finish: Callable[[Any, str, StoredManifest], None]
    ) -> None:
        super().__init__(path)
        self.outcomes = list(outcomes)
        self.finish = finish

    def put_if_absent(self, table: str, manifest: StoredManifest) -> bool:
        outcome = self.outcomes.pop(0)
        if "mine" in outcome:
            super().put_if_absent(table, manifest)
        if "finished" in outcome:
            self.finish(self, table, manifest)
        if "theirs" in outcome:
            super().put_if_absent(table, StoredManifest(manifest.version, f"{manifest.final_name}-x", 3))
        if "unknown" in outcome:
            raise TimeoutError("an error of a library")
        if "refused" in outcome:
            raise StorageError("refused")
        return "taken" not in outcome


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["mine, unknown"], True),
        (["mine, taken"], True),
        (["mine, finished, unknown"], True),  # by another client, before the answer
        (["theirs, unknown"], False),
        (["theirs, taken"], False),
        (["unknown", "mine"], True),
        (["unknown", "unknown"], CommitStateUnknownError),
        (["unknown", "refused"], CommitStateUnknownError),
        (["refused"], StorageError),
    ],
)
def test_outcomes_of_recording(
    table: Location, tmp_path: Path, outcomes: list[str], expected: bool | type[Exception]
):
    store = Flaky(
        tmp_path / "versions.db",
        *outcomes,
        finish=lambda store, _, manifest: finish_commit(store, table, manifest),
    )
    if isinstance(expected, bool):
        assert publish_manifest(table, 1, V2, MINE, external_store=store) is expected
        assert names(table) == ([V2.file_name(1)] if expected else [])
    else:
        with pytest.raises(expected):
            publish_manifest(table, 1, V2, MINE, external_store=store)
        # what may be the version is kept, and nothing else
        assert len(names(table)) == (expected is CommitStateUnknownError)
    assert not store.outcomes


@pytest.mark.parametrize("broken", ["put", "put_if_exists", "remove"])
def test_a_decided_commit_is_acknowledged_and_finished_by_the_next(
    table: Location, store: SQLiteManifestStore, monkeypatch: pytest.MonkeyPatch, broken: str
):
    def fail(self: Any, *args: Any) -> None:
        if broken != "put" or (not self.name.startswith(".") and self.name.endswith(".manifest")):
            raise StorageError("down")
        put(self, *args)

    put = Location.put
    with monkeypatch.context() as patch:
        patch.setattr(SQLiteManifestStore if broken == "put_if_exists" else Location, broken, fail)
        assert publish_manifest(table, 1, V2, MINE, external_store=store)
    assert len(names(table)) == (1 if broken == "put" else 2)
    assert publish_manifest(table, 2, V2, THEIRS, external_store=store)
    first = store.get(store_key(table), 1)
    assert first == StoredManifest(1, V2.file_name(1), len(MINE))
    assert manifest_file(table, 1).read() == MINE
    assert [name for name in names(table) if name.endswith(".manifest")] == [V2.file_name(2), V2.file_name(1)]


def test_a_store_that_fails_refuses(table: Location, store: SQLiteManifestStore, tmp_path: Path):
    publish_manifest(table, 1, V2, MINE, external_store=store)
    (tmp_path / "versions.db").write_bytes(b"this is no database" * 1000)
    with pytest.raises(StorageError, match="cannot read this SQLite file"):
        publish_manifest(table, 2, V2, MINE, external_store=store)
    assert names(table) == [V2.file_name(1)]


def test_a_version_that_the_store_does_not_know(table: Location, store: SQLiteManifestStore):
    publish_manifest(table, 1, V2, THEIRS)
    with pytest.raises(CorruptDataError, match="without that store"):
        publish_manifest(table, 1, V2, MINE, external_store=store)
    assert manifest_file(table, 1).read() == THEIRS
    # a table that was made before there was a store goes on
    assert publish_manifest(table, 2, V2, MINE, external_store=store)
    assert publish_manifest(table, 3, V2, MINE, external_store=store)


def test_a_half_done_commit_that_was_lost(table: Location, store: SQLiteManifestStore):
    store.put_if_absent(store_key(table), staged_manifest(1, V2, 5))
    with pytest.raises(CorruptDataError, match="does not exist"):
        publish_manifest(table, 2, V2, MINE, external_store=store)


# -- processes that are killed ------------------------------------------------------------------------------

KILLED = """
import os, sys
import pyarrow as pa
import lance_df
from lance_df.storage import Location
from lance_df.table.metadata.external_store_sqlite import SQLiteManifestStore

# Each child appends one row, and dies before or after one of the calls that make up a commit.
folder, calls = sys.argv[1], 0

def watch(kind, method, is_watched, die_at):
    original = getattr(kind, method)
    def watched(self, *args, **options):
        global calls
        if not is_watched(self):
            return original(self, *args, **options)
        calls += 1
        if calls == die_at:
            os._exit(9)
        result = original(self, *args, **options)
        calls += 1
        if calls == die_at:
            os._exit(9)
        return result
    setattr(kind, method, watched)

def append(number, die_at):
    is_manifest = lambda file: file.path.rpartition("/")[0].endswith("_versions") and ".manifest" in file.name
    for kind, method, is_watched in (
        (Location, "put", is_manifest),
        (Location, "remove", is_manifest),
        (SQLiteManifestStore, "put_if_absent", lambda store: True),
        (SQLiteManifestStore, "put_if_exists", lambda store: True),
    ):
        watch(kind, method, is_watched, die_at)
    write(number)
    os._exit(0)

def write(number):
    store = SQLiteManifestStore(f"{folder}/versions.db")
    rows = pa.table({"a": [number]})
    lance_df.write_dataset(rows, f"{folder}/t.lance", mode="append", external_store=store)

write(0)
for number in range(1, 20):
    child = os.fork()
    if not child:
        append(number, number)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(number, status, flush=True)
    write(100 + number)
    if not status:
        break
"""


def test_writers_that_are_killed_between_the_steps(tmp_path: Path):
    store = SQLiteManifestStore(tmp_path / "versions.db")
    uri = str(tmp_path / "t.lance")
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    outcomes = [tuple(map(int, line.split())) for line in ran.stdout.splitlines()]
    assert [status for _, status in outcomes] == [9] * 10 + [0], ran.stderr
    # dead before it was recorded: never happened; from then on it is there
    expected = [0, *range(4, 12), *range(101, 112)]
    ours = lance_df.dataset(uri, external_store=store)
    assert sorted(ours.to_table()["a"].to_pylist()) == expected
    assert ours.version == len(expected)
    theirs = lance.dataset(uri)
    theirs.validate()
    assert sorted(theirs.to_table()["a"].to_pylist()) == expected
    assert [each["version"] for each in theirs.versions()] == list(range(1, ours.version + 1))


# -- folders that cannot be written -------------------------------------------------------------------------


def test_places_where_nothing_can_be_written(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"x")
    for uri in (tmp_path / "file", tmp_path / "file/t.lance", "/proc/t.lance"):
        with pytest.raises((StorageError, NotFoundError)):
            lance_df.write_dataset(pa.table({"a": [1]}), uri)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
