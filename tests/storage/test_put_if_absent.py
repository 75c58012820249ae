"""Exclusive creation: one winner of any race, on every kind of store that is supported."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from lance_df.errors import StorageError, UnsupportedFeatureError
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


def test_stores_without_a_primitive_are_refused(tmp_path: Path) -> None:
    location = Location("dir://name", "name", DirFileSystem(str(tmp_path), LocalFileSystem()))
    with pytest.raises(UnsupportedFeatureError, match="cannot create a file only if it is absent"):
        put_if_absent(location, b"x")
    assert list(tmp_path.iterdir()) == []


def test_file_systems_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    with pytest.raises(StorageError, match="no hard links"):
        put_if_absent(open_location(tmp_path / "name"), b"x")
    assert list(tmp_path.iterdir()) == []


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
