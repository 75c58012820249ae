"""Paths as Spark takes them."""

from __future__ import annotations

import os

from lance_df.storage import open_location


def path_for_driver(path: str | os.PathLike[str]) -> str:
    """Return a path as Spark's processes take it, which may run in another folder than this one."""
    text = os.fspath(path)
    return text if "://" in text else open_location(text).uri
