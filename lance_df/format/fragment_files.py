"""Names of the files of many fragments at once, without making an object for each."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance_df.format.fragment_list import FragmentList

_EXTENSIONS = ("arrow", "bin")


def data_file_names(fragments: FragmentList, bases: Collection[int | None] | None) -> set[str]:
    """Return the names of the data files that lie in some base paths.

    Parameters
    ----------
    bases
        ``None`` among them is the table's own root; ``None`` instead of them stands for all.
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
    """Return the names of the deletion files that lie in some base paths; see :func:`data_file_names`.

    Files of an unknown kind count under the names of all kinds.
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
