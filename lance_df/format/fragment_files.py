"""Return the names of the files of many fragments at once, without an object for each fragment."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance_df.format.fragment_list import FragmentList

_EXTENSIONS = ("arrow", "bin")


def data_file_names(fragments: FragmentList, bases: Collection[int | None] | None) -> set[str]:
    """Return the names of the data files in some base paths.

    Parameters
    ----------
    bases
        The ids of base paths. An id of ``None`` is the table's own root; ``None`` for the whole collection
        means all base paths.
    """
    messages = fragments.to_proto()
    if bases is None:
        return {file.path for message in messages for file in message.files}
    return {
        file.path
        for message in messages
        for file in message.files
        if (file.base_id if file.HasField("base_id") else None) in bases
    }


def deletion_file_names(fragments: FragmentList, bases: Collection[int | None] | None) -> set[str]:
    """Return the names of the deletion files in some base paths; see :func:`data_file_names`.

    A file of an unknown kind contributes one name for each kind.
    """
    names: set[str] = set()
    for message in fragments.to_proto():
        if not message.HasField("deletion_file"):
            continue
        file = message.deletion_file
        if bases is None or (file.base_id if file.HasField("base_id") else None) in bases:
            stem = f"{message.id}-{file.read_version}-{file.id}"
            names.update(f"{stem}.{extension}" for extension in _EXTENSIONS)
    return names
