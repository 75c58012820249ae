"""Fast paths that readers of data files may use."""

from __future__ import annotations

from typing import Final, NamedTuple


class ReadOptions(NamedTuple):
    """Switches for fast paths. Values, types and names are the same with and without them.

    A tuple, since it is part of keys of caches.

    Attributes
    ----------
    resident_columns
        Decode columns that are in memory without plans. See `file.v2.resident_column`.
    page_runs
        Decode small pages of a column together. See `file.v2.page_groups`.
    """

    resident_columns: bool = True
    page_runs: bool = True


ALL: Final = ReadOptions()
