"""Many files by one call of stores that are asked by coroutines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from lance_df.errors import NotFoundError, StorageError
from lance_df.storage import Location
from lance_df.storage.together import fetch_together
from lance_df.table.parallel import read_files


class _Store(AsyncFileSystem):
    """Files in memory. Counts how many requests are on their way at once."""

    cachable = False

    def __init__(self, files: dict[str, bytes], **options: Any) -> None:
        super().__init__(**options)
        self.files = files
        self.now = self.most = 0

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.001)
        self.now -= 1
        if path == "refused":
            raise PermissionError(13, "secret")
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path][start:end]


class _Old(_Store):
    """Raises the first error, whatever is asked for, as fsspec once did."""

    async def _cat_ranges(self, paths: Any, starts: Any, ends: Any, **options: Any) -> Any:
        found = await super()._cat_ranges(paths, starts, ends, **options)
        error = next((each for each in found if isinstance(each, Exception)), None)
        if error is not None:
            raise error
        return found


def _files(store: Any, names: list[str]) -> list[Location]:
    return [Location(f"made://{name}", name, store) for name in names]


@pytest.mark.parametrize("kind", [_Store, _Old])
def test_each_file_or_what_is_wrong_with_it(kind: type[_Store]) -> None:
    files = {str(number): bytes([number]) * number for number in range(200)}
    store = kind(files, batch_size=64)
    assert read_files(_files(store, [*files])) == [*files.values()]
    assert store.most == 64
    assert read_files(_files(store, [*files]), [3] * 200) == [data[:3] for data in files.values()]
    first, missing, refused, last = read_files(_files(store, ["1", "none", "refused", "2"]))
    assert (first, last) == (files["1"], files["2"])
    assert isinstance(missing, NotFoundError)
    assert "made://none" in str(missing)
    assert isinstance(refused, StorageError)
    assert "secret" not in str(refused)
    assert "made://refused" in str(refused)


def test_stores_that_make_one_request_after_the_other() -> None:
    store = MemoryFileSystem()
    for name in ("/a", "/b"):
        store.pipe_file(name, name.encode())
    assert fetch_together(_files(store, ["/a", "/b"])) is None
    a, none, b = read_files(_files(store, ["/a", "/none", "/b"]))
    assert (a, b) == (b"/a", b"/b")
    assert isinstance(none, NotFoundError)
    others = [*_files(_Store({"c": b"c"}), ["c"]), *_files(_Store({"d": b"d"}), ["d"])]
    assert fetch_together(others) is None
    assert read_files(others) == [b"c", b"d"]
    assert read_files([]) == []
