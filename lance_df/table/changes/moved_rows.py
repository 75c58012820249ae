"""Rows that a change rewrites elsewhere: they keep their stable row ids."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import numpy as np

from lance_df.format.row_ids import row_ids_of, serialize_row_ids
from lance_df.table.reading.row_ids import split_addresses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from lance_df.format.fragments import Fragment
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.table import Table


def fragment_runs(addresses: Addresses, *, max_rows: int) -> Iterator[slice]:
    """Split addresses into runs within one fragment, of at most ``max_rows``."""
    fragment_ids, _ = split_addresses(addresses)
    starts = np.flatnonzero(np.diff(fragment_ids, prepend=-1)).tolist()
    for start, stop in itertools.pairwise([*starts, len(addresses)]):
        for first in range(start, stop, max_rows):
            yield slice(first, min(first + max_rows, stop))


def row_ids_at(table: Table, addresses: Addresses) -> npt.NDArray[np.uint64]:
    """Return the row ids at some addresses, in the same order."""
    if not table.uses_stable_row_ids:
        return addresses
    fragment_ids, offsets = split_addresses(addresses)
    ids = np.empty(len(addresses), np.uint64)
    for fragment_id in np.unique(fragment_ids).tolist():
        here = fragment_ids == fragment_id
        ids[here] = table.row_ids(table.fragment(fragment_id)).take(offsets[here])
    return ids


def with_row_ids(fragments: Iterable[Fragment], row_ids: npt.NDArray[np.uint64]) -> tuple[Fragment, ...]:
    """Set the row ids of the first rows of new fragments. The commit assigns new ids to the other rows."""
    named = []
    start = 0
    for fragment in fragments:
        ids_of_fragment = row_ids[start : start + fragment.physical_rows]
        start += fragment.physical_rows
        ids = serialize_row_ids(row_ids_of(ids_of_fragment)) if len(ids_of_fragment) else None
        named.append(dataclasses.replace(fragment, row_ids=ids))
    return tuple(named)
