"""Fragments of one table as fragments of another, whose base paths hold the files.

Spec: table format, `DataFile.base_id`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from lance_df._pb import table_pb2
from lance_df.format.fragments import MAX_FRAGMENT_ID

FragmentMessages: TypeAlias = Sequence[table_pb2.DataFragment]
"""Fragments as `ManifestTemplate.fragments` and `FragmentList.to_proto` return them."""


def moved_if_small(
    fragments: FragmentMessages, folder: str, base_id: int, *, max_fragments: int, max_rows: int
) -> tuple[bytes, ...]:
    """Return fragments as the other table stores them; none unless they are few, small and whole.

    Their ids are left out; see `FragmentList.joined`.

    Parameters
    ----------
    folder
        In which the files are, below a base path of the other table.
    max_rows
        Of all fragments together.
    """
    if not 0 < len(fragments) <= max_fragments:
        return ()
    num_rows = 0
    for each in fragments:
        if not each.physical_rows or each.HasField("deletion_file") or each.id > MAX_FRAGMENT_ID:
            return ()
        num_rows += each.physical_rows
    if num_rows > max_rows:
        return ()
    return tuple([_moved(each, folder, base_id) for each in fragments])


def _moved(message: table_pb2.DataFragment, folder: str, base_id: int) -> bytes:
    fragment = table_pb2.DataFragment(physical_rows=message.physical_rows)
    for stored in message.files:
        file = fragment.files.add()
        file.CopyFrom(stored)
        file.path = f"{folder}/{stored.path}"
        file.base_id = base_id
    return fragment.SerializeToString()
