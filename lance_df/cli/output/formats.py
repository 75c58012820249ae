"""The output formats, and their file suffixes."""

from __future__ import annotations

from typing import Final

TEXT_FORMATS: Final = ("table", "csv", "json", "ndjson", "markdown")
FORMATS: Final = (*TEXT_FORMATS, "parquet", "arrow")

_SUFFIXES: Final = {
    ".csv": "csv",
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".md": "markdown",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
}


def format_of_file(name: str) -> str | None:
    """Return the format of a file name's suffix, or None."""
    return next((style for suffix, style in _SUFFIXES.items() if name.lower().endswith(suffix)), None)
