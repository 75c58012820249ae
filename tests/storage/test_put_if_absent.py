"""Exclusive creation: one winner of any race, on every kind of store that is supported."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.cached import SimpleCacheFileSystem
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from lance_df.errors import CommitStateUnknownError, NotFoundError, StorageError, UnsupportedFeatureError
from lance_df.storage import Location, open_location
from lance_df.storage.put_if_absent import put_if_absent
from lance_df.storage.sink import ByteSink

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["local", "memory", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "local":
        return open_location(tmp_path)
    if request.param == "memory":
        return open_location(f"memory://{uuid.uuid4().hex}")
    return open_location(request.getfixturevalue("bucket"), request.getfixturevalue("s3_options"))


def test_first_one_wins(folder: Location) -> None:
    assert put_if_absent(folder / "below/name", b"first")
    assert not put_if_absent(folder / "below/name", b"second")
    assert (folder / "below/name").read() == b"first"
    assert [entry.name for entry in (folder / "below").list()] == ["name"]


def test_races_have_one_winner(folder: Location) -> None:
    num_writers, num_rounds = 6, 8
    barrier = threading.Barrier(num_writers)

    def race(writer: int) -> list[bool]:
        won = []
        for number in range(num_rounds):
            barrier.wait()
            won.append(put_if_absent(folder / f"{number}", b"%d" % writer * 5000))
        return won

    with ThreadPoolExecutor(num_writers) as pool:
        outcomes = list(pool.map(race, range(num_writers)))
    for number, round_outcomes in enumerate(zip(*outcomes, strict=True)):
        assert sum(round_outcomes) == 1
        content = (folder / f"{number}").read()
        assert content == b"%d" % round_outcomes.index(True) * 5000


RACER = """
import os, sys
from lance_df.storage import open_location
from lance_df.storage.put_if_absent import put_if_absent
folder, writer, num_rounds, has_links = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "True"
def no_link(*_):
    raise PermissionError(1, "Operation not permitted")
if not has_links:
    os.link = no_link
print("ready", flush=True)
sys.stdin.readline()
for number in range(num_rounds):
    if put_if_absent(open_location(f"{folder}/{number}"), b"%d" % writer * 5000):
        print(number)
"""


@pytest.mark.parametrize("has_links", [True, False])
def test_races_of_processes_have_one_winner(tmp_path: Path, has_links: bool) -> None:
    num_rounds = 30
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path), str(writer), str(num_rounds), str(has_links)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for writer in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    winners = {}
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for writer, process in enumerate(processes):
        won = [int(line) for line in process.communicate()[0].split()]
        assert process.returncode == 0
        assert winners.keys().isdisjoint(won)
        winners.update(dict.fromkeys(won, writer))
    assert sorted(winners) == list(range(num_rounds))
    for number, writer in winners.items():
        assert (tmp_path / f"{number}").read_bytes() == b"%d" % writer * 5000
    assert len(list(tmp_path.iterdir())) == num_rounds


@pytest.mark.parametrize("wrapper", ["dir", "simplecache", "unknown"])
def test_stores_without_a_primitive_are_refused(tmp_path: Path, wrapper: str) -> None:
    files = {
        "dir": lambda: DirFileSystem(str(tmp_path), LocalFileSystem()),
        "simplecache": lambda: SimpleCacheFileSystem(fs=MemoryFileSystem(), cache_storage=str(tmp_path)),
        "unknown": AbstractFileSystem,
    }
    location = Location(f"{wrapper}://name", "name", files[wrapper]())
    with pytest.raises(UnsupportedFeatureError, match=f"{wrapper}://name: .* external manifest store"):
        put_if_absent(location, b"x")
    assert list(tmp_path.iterdir()) == []


def no_link(*_: Any) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


def test_file_systems_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.link", no_link)
    location = open_location(tmp_path / "name")
    assert put_if_absent(location, b"first")
    assert not put_if_absent(location, b"second")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("name", b"first")]
    monkeypatch.setattr("ctypes.CDLL", lambda *args, **kwargs: object())
    with pytest.raises(StorageError, match="does not support hard links"):
        put_if_absent(open_location(tmp_path / "other"), b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["name"]


def test_a_link_whose_answer_was_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def repeated(source: str, target: str) -> None:
        link(source, target)
        link(source, target)  # as a network filesystem that sends a request again

    monkeypatch.setattr("os.link", repeated)
    assert put_if_absent(open_location(tmp_path / "name"), b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["name"]


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        put_if_absent(open_location(tmp_path / "name"), b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("lance_df.storage.local_files.sync_folder", fail)
    with pytest.raises(CommitStateUnknownError, match="could not be synced"):
        put_if_absent(open_location(tmp_path / "name"), b"x")


def test_files_have_the_usual_permissions(tmp_path: Path) -> None:
    put_if_absent(open_location(tmp_path / "name"), b"x")
    (tmp_path / "other").write_bytes(b"x")
    assert (tmp_path / "name").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_unusable_places(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(NotFoundError):
        put_if_absent(open_location(tmp_path / "file/below/name"), b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


class FakeCloud(AbstractFileSystem):
    """Remembers what it was asked for, and answers as it is told."""

    cachable = False

    def __init__(self, protocol: str, answers: list[Exception | None]) -> None:
        super().__init__()
        self.protocol = protocol
        self.answers = answers
        self.asked: list[dict[str, Any]] = []

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        self.asked.append({"path": path, "value": value, "mode": mode, **kwargs})
        if (answer := self.answers.pop(0)) is not None:
            raise answer


class FakeGcs(FakeCloud):
    def _pipe_file(self, path: str, data: bytes, chunksize: int = 0, mode: str = "overwrite") -> None: ...


class FakeAzure(FakeCloud):
    def _pipe_file(self, path: str, value: bytes, overwrite: bool = True, **kwargs: Any) -> None: ...


class Answer(Exception):
    """An error as gcsfs and the Azure library raise them."""

    def __init__(self, code: int | str | None = None, status_code: int | None = None) -> None:
        super().__init__("secret")
        self.code = code
        self.status_code = status_code


@pytest.mark.parametrize(
    ("fake", "protocol", "precondition"),
    [(FakeGcs, "gs", {"mode": "create"}), (FakeAzure, "abfs", {"overwrite": False})],
)
def test_preconditions_of_other_clouds(
    fake: type[FakeCloud], protocol: str, precondition: dict[str, Any]
) -> None:
    fs = fake(protocol, [None, FileExistsError("x"), Answer(code=412), Answer(status_code=409), None])
    location = Location("gs://bucket/name", "bucket/name", fs)
    assert put_if_absent(location, b"abc")
    assert not put_if_absent(location, b"abc")
    assert not put_if_absent(location, b"abc")
    assert put_if_absent(location, b"abc")  # once what kept it busy is done
    assert len(fs.asked) == 5
    for request in fs.asked:
        assert (request["path"], request["value"]) == ("bucket/name", b"abc")
        assert precondition.items() <= request.items()


def test_releases_that_would_ignore_a_precondition_are_refused() -> None:
    class OldGcs(FakeCloud):
        def _pipe_file(self, path: str, data: bytes, chunksize: int = 0) -> None: ...

    fs = OldGcs("gs", [])
    with pytest.raises(UnsupportedFeatureError):
        put_if_absent(Location("gs://bucket/name", "bucket/name", fs), b"abc")
    assert fs.asked == []


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(code=403), StorageError),
        (Answer(status_code=401), StorageError),
        (OSError("Forbidden: name"), StorageError),
        (FileNotFoundError("bucket"), NotFoundError),
        (Answer(code="503"), CommitStateUnknownError),
        (Answer(status_code=408), CommitStateUnknownError),
        (Answer(), CommitStateUnknownError),
        (TimeoutError(), CommitStateUnknownError),
        (ConnectionResetError(), CommitStateUnknownError),
    ],
)
def test_what_a_failure_tells(answer: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        put_if_absent(Location("gs://bucket/name", "bucket/name", FakeGcs("gs", [answer])), b"abc")
    assert "secret" not in repr(caught.value)


def test_a_name_that_stays_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    fs = FakeGcs("gs", [Answer(code=409) for _ in range(20)])
    with pytest.raises(StorageError, match="too many concurrent requests"):
        put_if_absent(Location("gs://bucket/name", "bucket/name", fs), b"abc")


def test_s3_missing_bucket_and_wrong_request(s3_options: dict[str, Any]) -> None:
    with pytest.raises(NotFoundError, match="no such bucket"):
        put_if_absent(open_location("s3://no-bucket-of-this-name/x", s3_options), b"x")
    unreachable = {
        **s3_options,
        "endpoint_url": "http://127.0.0.1:9",
        "config_kwargs": {"retries": {"total_max_attempts": 1}},
    }
    with pytest.raises(CommitStateUnknownError) as caught:
        put_if_absent(open_location("s3://bucket/x", unreachable), b"x")
    assert s3_options["secret"] not in repr(caught.getrepr(chain=True, style="short"))


def test_s3_requests_carry_the_precondition(
    bucket: str, s3_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    location = open_location(bucket, s3_options) / "name"
    assert put_if_absent(location, b"first")
    headers = []
    client = fsspec.asyn.sync(location.fs.loop, location.fs.get_s3, "bucket")

    def seen(request: Any, **_: Any) -> None:
        headers.append(request.headers.get("If-None-Match"))

    client.meta.events.register("before-sign.s3.PutObject", seen)
    try:
        assert not put_if_absent(location, b"second")
    finally:
        client.meta.events.unregister("before-sign.s3.PutObject", seen)
    assert headers in (["*"], [b"*"])
    assert location.read() == b"first"


def test_sink_writes_all_or_nothing(folder: Location) -> None:
    sink = ByteSink(folder / "kept")
    sink.write(b"abc")
    sink.write(memoryview(b"defg"))
    assert sink.position == 7
    sink.close()
    assert (folder / "kept").read() == b"abcdefg"
    dropped = ByteSink(folder / "dropped")
    dropped.write(b"abc")
    dropped.abort()
    assert not (folder / "dropped").exists()


def test_sink_does_not_replace_a_local_file(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"x")
    with pytest.raises(StorageError):
        ByteSink(open_location(tmp_path / "there"))
    assert (tmp_path / "there").read_bytes() == b"x"


def test_remove_is_content_with_nothing(folder: Location) -> None:
    put_if_absent(folder / "name", b"x")
    (folder / "name").remove()
    (folder / "name").remove()
    assert not (folder / "name").exists()
