"""What lies in a folder, and since when, on stores of several kinds."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path
from typing import Any

import pytest

from lance_df.storage import open_location
from lance_df.storage.listing import ListedFile, scan_folder


def listed(uri: str, options: dict[str, Any] | None = None) -> dict[str, ListedFile]:
    return {file.name: file for file in scan_folder(open_location(uri, options))}


def test_a_local_folder(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"12345")
    os.utime(tmp_path / "old", (1000, 1000))
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    found = listed(str(tmp_path))
    assert found.keys() == {"old", "folder", "link"}
    assert found["old"] == ListedFile("old", 5, is_directory=False, modified=1000.0)
    assert found["folder"].is_directory
    assert not found["link"].is_directory


def test_files_may_go_while_they_are_listed(tmp_path: Path) -> None:
    for number in range(500):
        (tmp_path / str(number)).touch()
    seen = 0
    for file in scan_folder(open_location(tmp_path)):
        (tmp_path / file.name).unlink()
        seen += 1
    assert seen == 500
    assert listed(str(tmp_path)) == {}


@pytest.mark.parametrize("scheme", ["", "memory://"])
def test_a_folder_that_does_not_exist_is_empty(tmp_path: Path, scheme: str) -> None:
    assert listed(f"{scheme}{tmp_path}/nothing") == {}


def check_store(uri: str, options: dict[str, Any] | None = None) -> None:
    before = time.time() - 2
    for name in ("a", "b/c"):
        (open_location(uri, options) / name).put(b"123")
    found = listed(uri, options)
    assert {name: (file.size, file.is_directory) for name, file in found.items()} == {
        "a": (3, False),
        "b": (0, True),
    }
    modified = found["a"].modified
    assert modified is not None
    assert before <= modified <= time.time() + 2


def test_memory(tmp_path: Path) -> None:
    check_store(f"memory://{tmp_path}")


def test_s3(bucket: str, s3_options: dict[str, Any]) -> None:
    check_store(f"{bucket}/folder", s3_options)


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"mtime": 5}, 5.0),
        ({"mtime": 5.5}, 5.5),
        ({"LastModified": dt.datetime(1970, 1, 2, tzinfo=dt.UTC)}, 86400.0),
        ({"last_modified": dt.datetime(1970, 1, 2)}, 86400.0),
        ({"updated": "1970-01-02T01:00:00+01:00"}, 86400.0),
        ({"updated": "yesterday"}, None),
        ({"mtime": None, "created": dt.datetime(1970, 1, 2, tzinfo=dt.UTC)}, 86400.0),
        ({"mtime": b"5"}, None),
        ({}, None),
    ],
)
def test_times_of_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, info: dict[str, Any], expected: float | None
) -> None:
    place = open_location(f"memory://{tmp_path}")
    answer = [{"name": f"{place.path}/x", "type": "file", "size": 1, **info}]
    monkeypatch.setattr(type(place.fs), "ls", lambda *_, **__: answer)
    assert list(scan_folder(place)) == [ListedFile("x", 1, is_directory=False, modified=expected)]
