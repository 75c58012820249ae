"""Convert paths for Spark."""

from __future__ import annotations

import os

from lance_df.storage import open_location


def path_for_driver(path: str | os.PathLike[str]) -> str:
    """Return a path that also holds for Spark's processes, whose working directory may be another one."""
    text = os.fspath(path)
    return text if "://" in text else open_location(text).uri
