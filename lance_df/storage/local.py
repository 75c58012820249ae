"""A stand-in for fsspec's local filesystem, imported on first use because most reads do not need it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from lance_df.interrupts import imports_finished


class LocalFiles:
    """Stands for fsspec's `LocalFileSystem`. All instances are interchangeable."""

    protocol = ("file", "local")
    storage_args: tuple[Any, ...] = ()
    storage_options: Mapping[str, Any] = MappingProxyType({})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copying and pickling look for optional methods
            raise AttributeError(name)
        return getattr(_local_files(), name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalFiles)

    def __hash__(self) -> int:
        return hash(LocalFiles)


@lru_cache(maxsize=1)
def _local_files() -> Any:
    with imports_finished():
        from fsspec.implementations.local import LocalFileSystem

    return LocalFileSystem()
