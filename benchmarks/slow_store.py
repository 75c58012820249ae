"""A store in memory whose every request takes a while, and is counted: `slow://…`."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Log:
    """The requests since the last `clear`: (kind, path, bytes, when it began, when it ended)."""

    requests: list[tuple[str, str, int, float, float]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def clear(self) -> None:
        with self.lock:
            self.requests.clear()

    @property
    def num_bytes(self) -> int:
        return sum(each[2] for each in self.requests)

    def waiting(self) -> float:
        """Return the seconds in which at least one request was on its way."""
        total, end = 0.0, 0.0
        for *_, start, stop in sorted(self.requests, key=lambda each: each[3]):
            total += max(0.0, stop - max(start, end))
            end = max(end, stop)
        return total

    def shown(self) -> list[str]:
        """Return one line for each request, in the order in which they began."""
        first = min((each[3] for each in self.requests), default=0.0)
        return [
            f"{(start - first) * 1e3:7.1f} {kind:5} {path} {size}"
            for kind, path, size, start, _ in sorted(self.requests, key=lambda each: each[3])
        ]


class SlowStore(MemoryFileSystem):
    """An object store: conditional creation is one request, ranges of one call are asked for at once."""

    async_impl = True  # as those of object stores: one call asks for many files at once
    protocol = ("slow", "gs")  # the name under which conditional creation is known
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    delay: ClassVar[float] = 0.0
    log: ClassVar[Log] = Log()
    _nested: ClassVar[threading.local] = threading.local()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return MemoryFileSystem._strip_protocol(path.removeprefix("slow://"))

    @contextmanager
    def _request(self, kind: str, paths: Sequence[str], sizes: Sequence[int] = (0,)) -> Iterator[None]:
        if getattr(self._nested, "inside", False):  # what one call is made of is no request of its own
            yield
            return
        self._nested.inside = True
        start = time.perf_counter()
        try:
            time.sleep(self.delay)
            yield
        finally:
            self._nested.inside = False
            stop = time.perf_counter()
            with self.log.lock:
                self.log.requests += [
                    (kind, path, size, start, stop) for path, size in zip(paths, sizes, strict=True)
                ]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        sizes = [0]
        with self._request("GET", [path], sizes):
            data: bytes = super().cat_file(path, start, end, **options)
            sizes[0] = len(data)
        return data

    def cat_ranges(self, paths: Any, starts: Any, ends: Any, *rest: Any, **options: Any) -> list[bytes]:
        sizes = [0] * len(paths)
        with self._request("GET", paths, sizes):
            data: list[bytes] = super().cat_ranges(paths, starts, ends, *rest, **options)
            sizes[:] = map(len, data)
        return data

    def info(self, path: str, **options: Any) -> Any:
        with self._request("HEAD", [path]):
            return super().info(path, **options)

    def exists(self, path: str, **options: Any) -> bool:
        with self._request("HEAD", [path]):
            return bool(super().exists(path, **options))

    def isfile(self, path: str) -> bool:
        with self._request("HEAD", [path]):
            return bool(super().isfile(path))

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        with self._request("LIST", [path]):
            found = super().ls(path, detail, **options)
        if detail:
            for info in found:
                if info["type"] == "file":
                    info["ETag"] = hashlib.md5(self.store[info["name"]].getvalue()).hexdigest()
        return found

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        with self._request("PUT", [path], [len(value)]):
            if mode == "create" and super().exists(path):
                raise FileExistsError(path)
            super().pipe_file(path, value)

    def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite") -> None:
        self.pipe_file(path, value, mode)

    def open(self, path: str, mode: str = "rb", *rest: Any, **options: Any) -> Any:
        with self._request("PUT" if "w" in mode else "GET", [path]):
            return super().open(path, mode, *rest, **options)

    def rm_file(self, path: str) -> None:
        with self._request("DELETE", [path]):
            super().rm_file(path)


def use_slow_store(delay: float) -> type[SlowStore]:
    """Register `slow://`; every request takes ``delay`` seconds."""
    fsspec.register_implementation("slow", SlowStore, clobber=True)
    SlowStore.delay = delay
    return SlowStore
