"""Which indices name rows by stable row ids, and so stay valid for rows that move to other fragments."""

from __future__ import annotations

from typing import Final

_BY_ROW_ID: Final = frozenset(
    {
        "invertedindexdetails",
        "labellistindexdetails",
        "minhashlshindexdetails",
        "ngramindexdetails",
        "rtreeindexdetails",
        "vectorindexdetails",
    }
)
# from version 1 on, a B-tree holds addresses; the others have no later version so far
_BY_ROW_ID_IN_VERSION_0: Final = frozenset({"bitmapindexdetails", "btreeindexdetails", "jsonindexdetails"})


def holds_row_ids(kind: str | None, version: int | None) -> bool:
    """Whether an index of a table with stable row ids holds row ids; others hold addresses, or zones.

    Parameters
    ----------
    kind, version
        See :class:`lance_df.format.manifest.IndexMetadata`.
    """
    return kind in _BY_ROW_ID or (kind in _BY_ROW_ID_IN_VERSION_0 and not version)
