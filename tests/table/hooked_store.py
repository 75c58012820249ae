"""A store in memory that calls back at each request, to fail it or to let other writers run first."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

Hook = "Callable[[str, str], AbstractContextManager[Any]]"


class HookedStore(MemoryFileSystem):
    """`memory://` under another name, with content and a hook of its own."""

    protocol = ("hooked", "memory")
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    hook: ClassVar[Any] = None
    _inside: ClassVar[threading.local] = threading.local()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.replace("hooked://", "memory://"))

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        with self._request("list", path):
            return super().ls(path, detail=detail, **options)

    def info(self, path: str, **options: Any) -> Any:
        with self._request("head", path):
            return super().info(path, **options)

    def cat_file(self, path: str, *arguments: Any, **options: Any) -> Any:
        with self._request("get", path):
            return super().cat_file(path, *arguments, **options)

    def pipe_file(self, path: str, value: bytes, **options: Any) -> Any:
        with self._request("put", path):
            return super().pipe_file(path, value, **options)

    def rm_file(self, path: str) -> None:
        with self._request("delete", path):
            super().rm_file(path)

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        with self._request("open", path):
            return super()._open(path, mode, **options)

    @contextmanager
    def _request(self, kind: str, path: str) -> Iterator[None]:
        """Call the hook, once for requests that consist of others."""
        if getattr(self._inside, "yes", False):
            yield
            return
        self._inside.yes = True
        try:
            with nullcontext() if self.hook is None else type(self).hook(kind, path):
                yield
        finally:
            self._inside.yes = False


@contextmanager
def hooked(hook: Callable[[str, str], AbstractContextManager[Any]] | None) -> Iterator[None]:
    """Let requests call ``hook(kind, path)``, a context manager around what they do."""
    HookedStore.hook = staticmethod(hook) if hook is not None else None
    try:
        yield
    finally:
        HookedStore.hook = None


def snapshot() -> dict[str, bytes]:
    """Return the content of the store."""
    return {path: file.getvalue() for path, file in HookedStore.store.items()}


def reset(content: dict[str, bytes] | None = None) -> None:
    """Replace the content of the store."""
    fs = HookedStore(skip_instance_cache=True)
    HookedStore.store.clear()
    HookedStore.pseudo_dirs[:] = [""]
    for path, data in (content or {}).items():
        fs.pipe_file(path, data)


class Faults:
    """A hook that fails one request, or all from one on; counts them.

    Parameters
    ----------
    kinds
        The requests that count; None for all.
    """

    def __init__(
        self, first: int, *, after: bool, last: int | None = None, kinds: Container[str] | None = None
    ) -> None:
        self._kinds = kinds
        self._failing = range(first, first + 1 if last is None else last)
        self._after = after
        self.count = 0

    @contextmanager
    def __call__(self, kind: str, path: str) -> Iterator[None]:
        if self._kinds is not None and kind not in self._kinds:
            yield
            return
        self.count += 1
        fails = self.count in self._failing
        if fails and not self._after:
            raise ConnectionError(kind)
        yield
        if fails:
            raise ConnectionError(f"{kind} {path}")


fsspec.register_implementation("hooked", HookedStore, clobber=True)
