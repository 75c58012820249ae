"""One `.lance` file: container, pages, statistics; readers and writers. Bytes stop here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lance_df.file.api import LanceFileReader as LanceFileReader
    from lance_df.file.api_session import LanceFileSession as LanceFileSession
    from lance_df.file.api_writer import LanceFileWriter as LanceFileWriter

__all__ = ["LanceFileReader", "LanceFileSession", "LanceFileWriter"]

_MODULES = {"LanceFileReader": "api", "LanceFileSession": "api_session", "LanceFileWriter": "api_writer"}


def __getattr__(name: str) -> Any:
    """Import what is asked for: whoever reads tables needs no writers."""
    if (module := _MODULES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
