"""What opening a table costs in requests, and that it holds while others write, remove and leave junk."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
import s3fs
from fsspec.implementations.memory import MemoryFileSystem
from moto.backends import get_backend
from moto.core import DEFAULT_ACCOUNT_ID

import lance_df
from lance_df.errors import DatasetNotFoundError, LanceError, NotFoundError, StorageError
from lance_df.format.operations import Append
from lance_df.storage import Location, open_location
from lance_df.table.commit.apply import TableState
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.manifest_bytes import make_manifest_file
from lance_df.table.commit.row_account import RowChange
from lance_df.table.metadata.history import History
from lance_df.table.metadata.versions import NamingScheme, find_latest, list_versions
from lance_df.table.open import open_table

V1, V2 = NamingScheme.V1, NamingScheme.V2
NUM_FRAGMENTS = 10_000
NUM_VERSIONS = 2_000


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Manifest files: of a table of very many fragments in version 2, and of a small one in version 2000."""
    table = tmp_path_factory.mktemp("opening") / "t.lance"
    lance_df.write_dataset(pa.table({"a": [1]}), table)
    small = open_table(table)
    added = Append(tuple(small.fragments) * (NUM_FRAGMENTS - 1))
    commit_change(small, added, rows=RowChange(None))
    transaction = small.transaction()
    assert transaction is not None
    latest = dataclasses.replace(small.manifest, version=NUM_VERSIONS)
    return (
        (table / "_versions" / V2.file_name(2)).read_bytes(),
        make_manifest_file("m", TableState(latest, ()), transaction.serialize())[0],
    )


class Requests(list[str]):
    """The names of requests."""


@pytest.fixture
def s3_requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    made = Requests()
    call = s3fs.S3FileSystem._call_s3

    async def counted(self: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        made.append(method)
        return await call(self, method, *args, **kwargs)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", counted)
    monkeypatch.setattr(s3fs.S3FileSystem, "call_s3", s3fs.core.sync_wrapper(counted))
    return made


@pytest.fixture
def put() -> Any:
    """Put an object straight into the server, which is in this process: a request for each takes long."""

    def put(bucket: str, name: str, data: bytes) -> None:
        store = get_backend("s3")[DEFAULT_ACCOUNT_ID]["aws"]
        store.put_object(bucket.removeprefix("s3://"), f"t.lance/_versions/{name}", data)

    return put


def test_many_fragments_in_s3(
    manifests: tuple[bytes, bytes], put: Any, bucket: str, s3_options: dict[str, Any], s3_requests: Requests
):
    put(bucket, V2.file_name(2), manifests[0])
    table = lance_df.dataset(f"{bucket}/t.lance", storage_options=s3_options)
    assert s3_requests == ["list_objects_v2", "get_object"]
    assert table.count_rows() == NUM_FRAGMENTS
    assert s3_requests == ["list_objects_v2", "get_object"]


def test_many_versions_in_s3(
    manifests: tuple[bytes, bytes], put: Any, bucket: str, s3_options: dict[str, Any], s3_requests: Requests
):
    # more than a page, as 2000 are; with junk among them
    put(bucket, V2.file_name(NUM_VERSIONS), manifests[1])
    for version in range(NUM_VERSIONS - 150, NUM_VERSIONS):
        put(bucket, V2.file_name(version), b"")
    put(bucket, f"{V2.file_name(NUM_VERSIONS + 1)}-e2f5", b"")
    put(bucket, ".tmp_3", b"")
    put(bucket, "latest_version_hint.json", b'{"version":7}')
    location = open_location(f"{bucket}/t.lance", s3_options)
    history = History(location)
    assert history.open_latest().manifest.version == NUM_VERSIONS
    assert s3_requests == ["list_objects_v2", "get_object"]
    s3_requests.clear()
    assert history.open(NUM_VERSIONS).manifest.version == NUM_VERSIONS
    assert s3_requests == ["get_object"]
    s3_requests.clear()
    assert history.latest_version() == NUM_VERSIONS
    assert s3_requests == ["list_objects_v2"]
    for number in range(110):  # so much junk that the first page has no version
        put(bucket, f"{V2.file_name(NUM_VERSIONS + 9)}-{number}", b"")
    assert history.open_latest().manifest.version == NUM_VERSIONS


def test_old_names_in_s3(
    manifests: tuple[bytes, bytes], put: Any, bucket: str, s3_options: dict[str, Any], s3_requests: Requests
):
    for version in range(NUM_VERSIONS - 120, NUM_VERSIONS):
        put(bucket, V1.file_name(version), b"")
    put(bucket, V1.file_name(NUM_VERSIONS), manifests[1])
    history = History(open_location(f"{bucket}/t.lance", s3_options))
    assert history.open_latest().manifest.version == NUM_VERSIONS
    s3_requests.clear()
    history.open(NUM_VERSIONS)  # by the scheme that was seen
    assert s3_requests == ["get_object"]


def test_many_versions_in_a_folder(manifests: tuple[bytes, bytes], tmp_path: Path, monkeypatch: Any):
    versions = tmp_path / "t.lance/_versions"
    versions.mkdir(parents=True)
    for version in range(1, NUM_VERSIONS):
        (versions / V2.file_name(version)).touch()
    (versions / V2.file_name(NUM_VERSIONS)).write_bytes(manifests[1])
    opened = []
    open_whole = Location.open_whole
    monkeypatch.setattr(Location, "open_whole", lambda self: opened.append(self.name) or open_whole(self))
    assert open_table(tmp_path / "t.lance").version == NUM_VERSIONS
    assert opened == [V2.file_name(NUM_VERSIONS)]


def test_many_versions_in_memory(manifests: tuple[bytes, bytes], tmp_path: Path, monkeypatch: Any):
    table = open_location(f"memory://{tmp_path}/t.lance")
    for version in range(100, NUM_VERSIONS, 100):
        (table / "_versions" / V2.file_name(version)).put(b"")
    (table / "_versions" / V2.file_name(NUM_VERSIONS)).put(manifests[1])
    calls = []
    for name in ("ls", "cat_file", "info", "_open"):
        original = getattr(MemoryFileSystem, name)

        def counted(self: Any, *args: Any, name: str = name, original: Any = original, **kwargs: Any) -> Any:
            calls.append(name)
            return original(self, *args, **kwargs)

        monkeypatch.setattr(MemoryFileSystem, name, counted)
    assert open_table(table.uri).version == NUM_VERSIONS
    assert calls == ["ls", "cat_file"]


# -- while others are at work -------------------------------------------------------------------------------


def test_a_latest_version_that_goes_while_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = open_location(tmp_path / "t.lance")
    lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / "t.lance")
    listed = find_latest(table)

    def stale(location: Location) -> Any:
        monkeypatch.undo()
        lance_df.write_dataset(pa.table({"a": [2]}), tmp_path / "t.lance", mode="append")
        (table / "_versions" / V2.file_name(1)).remove()
        return listed

    monkeypatch.setattr("lance_df.table.metadata.history.find_latest", stale)
    assert open_table(tmp_path / "t.lance").version == 2


def test_a_version_that_is_listed_but_never_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / "t.lance")
    listed = find_latest(open_location(tmp_path / "t.lance"))
    (tmp_path / "t.lance/_versions" / V2.file_name(1)).unlink()
    monkeypatch.setattr("lance_df.table.metadata.history.find_latest", lambda location: listed)
    with pytest.raises(NotFoundError):
        open_table(tmp_path / "t.lance")


def _replace_the_version_when(called: str, uri: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make version 2 and remove version 1 right after the folder of versions was read."""
    real = getattr(Location, called)

    def raced(location: Location) -> Any:
        if location.name != "_versions":
            return real(location)
        monkeypatch.undo()
        seen = list(real(location))
        lance.write_dataset(pa.table({"a": [2]}), uri, mode="append")
        (uri / "_versions" / V2.file_name(1)).unlink()
        return [each for each in seen if called == "names"]

    monkeypatch.setattr(Location, called, raced)


def test_the_only_version_is_replaced_while_the_latest_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    uri = tmp_path / "t.lance"
    lance_df.write_dataset(pa.table({"a": [1]}), uri)
    _replace_the_version_when("names", uri, monkeypatch)
    assert find_latest(open_location(uri)).version == 2


def test_the_only_version_is_replaced_while_versions_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    uri = tmp_path / "t.lance"
    lance_df.write_dataset(pa.table({"a": [1]}), uri)
    _replace_the_version_when("list", uri, monkeypatch)  # fsspec leaves out what vanishes meanwhile
    assert list(list_versions(open_location(uri)).entries) == [2]


def test_a_folder_that_is_named_like_a_version(tmp_path: Path):
    (tmp_path / "t.lance/_versions" / V2.file_name(1)).mkdir(parents=True)
    with pytest.raises(DatasetNotFoundError, match="no manifest"):
        open_table(tmp_path / "t.lance")


def test_readers_while_versions_come_and_go(tmp_path: Path):
    uri = tmp_path / "t.lance"
    lance_df.write_dataset(pa.table({"a": [0]}), uri)
    is_done = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(1, 30):
                (lance_df if number % 2 else lance).write_dataset(
                    pa.table({"a": [number]}), uri, mode="append"
                )
                for version in range(max(1, number - 1), number):
                    (uri / "_versions" / V2.file_name(version)).unlink(missing_ok=True)
        except BaseException as err:
            failures.append(err)
            raise
        finally:
            is_done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while not is_done.is_set():
        table = open_table(uri)
        seen.append((table.version, table.count_rows()))
    writer.join()
    assert not failures
    assert all(version == count for version, count in seen)
    assert seen == sorted(seen)
    assert open_table(uri).version == 30


def test_junk_of_writers_that_died(tmp_path: Path):
    uri = tmp_path / "t.lance"
    lance_df.write_dataset(pa.table({"a": [1]}), uri)
    for name in (".tmp_0", ".tmp_1.manifest", f"{V2.file_name(9)}-ab", f"{V2.file_name(9)}.tmp", "x" * 29):
        (uri / "_versions" / name).write_bytes(b"")
    assert open_table(uri).version == 1
    assert lance_df.write_dataset(pa.table({"a": [2]}), uri, mode="append").version == 2
    assert lance.dataset(uri).count_rows() == 2


# -- places that cannot be used -----------------------------------------------------------------------------


def test_a_bucket_that_does_not_exist(s3_options: dict[str, Any]):
    uri = "s3://no-bucket-has-this-name/t.lance"
    with pytest.raises(DatasetNotFoundError):
        lance_df.dataset(uri, storage_options=s3_options)
    with pytest.raises(NotFoundError) as caught:
        lance_df.write_dataset(pa.table({"a": [1]}), uri, storage_options=s3_options)
    assert s3_options["secret"] not in repr(caught.getrepr(chain=True, style="short"))


def test_a_store_that_refuses(bucket: str, s3_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    uri = f"{bucket}/t.lance"
    lance_df.write_dataset(pa.table({"a": [1]}), uri, storage_options=s3_options)

    async def denied(self: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        raise PermissionError(f"denied to {s3_options['secret']}")

    for method in (
        lambda: lance_df.dataset(uri, storage_options=s3_options),
        lambda: lance_df.write_dataset(pa.table({"a": [2]}), uri, mode="append", storage_options=s3_options),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(s3fs.S3FileSystem, "_call_s3", denied)
            patch.setattr(s3fs.S3FileSystem, "call_s3", s3fs.core.sync_wrapper(denied))
            with pytest.raises(StorageError) as caught:
                method()
        assert s3_options["secret"] not in repr(caught.getrepr(chain=True, style="short"))
    assert lance_df.dataset(uri, storage_options=s3_options).count_rows() == 1


def test_a_disk_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("os.makedirs", refuse)
        with pytest.raises(StorageError, match="Permission denied"):
            lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / "t.lance")
    assert list(tmp_path.iterdir()) == []
    lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / "t.lance")
    before = sorted(tmp_path.rglob("*"))
    with monkeypatch.context() as patch:
        patch.setattr("os.link", refuse)
        with pytest.raises(LanceError):
            lance_df.write_dataset(pa.table({"a": [2]}), tmp_path / "t.lance", mode="append")
    assert sorted(tmp_path.rglob("*")) == before
