"""Convert fragments of one table into fragments of another that refers to the files by a base path.

Spec: table format, `DataFile.base_id`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from lance_df._pb import table_pb2
from lance_df.format.fragments import MAX_FRAGMENT_ID

FragmentMessages: TypeAlias = Sequence[table_pb2.DataFragment]
"""Fragments in the form that `ManifestTemplate.fragments` and `FragmentList.to_proto` return."""


def moved_if_small(
    fragments: FragmentMessages, folder: str, base_id: int, *, max_fragments: int, max_rows: int
) -> tuple[bytes, ...]:
    """Return the fragments as the other table stores them, or none if they are many, large or have deletions.

    The result has no fragment ids; see `FragmentList.joined`.

    Parameters
    ----------
    folder
        The folder of the files, below a base path of the other table.
    max_rows
        The limit for the rows of all fragments together.
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
