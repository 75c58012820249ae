"""Single `.lance` files: the container, pages and statistics, and their readers and writers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lance_df.file.api.reader import LanceBufferDescriptor as LanceBufferDescriptor
    from lance_df.file.api.reader import LanceColumnMetadata as LanceColumnMetadata
    from lance_df.file.api.reader import LanceFileMetadata as LanceFileMetadata
    from lance_df.file.api.reader import LanceFileReader as LanceFileReader
    from lance_df.file.api.reader import LanceFileStatistics as LanceFileStatistics
    from lance_df.file.api.reader import LancePageMetadata as LancePageMetadata
    from lance_df.file.api.session import LanceFileSession as LanceFileSession
    from lance_df.file.api.writer import LanceFileWriter as LanceFileWriter

__all__ = [
    "LanceBufferDescriptor",
    "LanceColumnMetadata",
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileSession",
    "LanceFileStatistics",
    "LanceFileWriter",
    "LancePageMetadata",
    "stable_version",
]

_MODULES = {
    **dict.fromkeys(("LanceBufferDescriptor", "LanceColumnMetadata", "LanceFileMetadata"), "api.reader"),
    **dict.fromkeys(("LanceFileReader", "LanceFileStatistics", "LancePageMetadata"), "api.reader"),
    "LanceFileSession": "api.session",
    "LanceFileWriter": "api.writer",
}


def stable_version() -> str:
    """Return the file version of new tables, which ``data_storage_version="stable"`` selects."""
    return "2.2"


def __getattr__(name: str) -> Any:
    """Import a name on first access, since code that only reads tables needs no writers."""
    if (module := _MODULES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
