"""Check locations of new tables, and leave no folders there if no table is made."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lance_df.errors import AlreadyExistsError
from lance_df.table.metadata.base_paths import DATA_DIR, DELETIONS_DIR, INDICES_DIR
from lance_df.table.metadata.versions import NAMESPACE_MANIFEST, VERSIONS_DIR
from lance_df.table.table import TRANSACTIONS_DIR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_df.storage import Location


def check_location_is_free(table: Location) -> None:
    """Check that the folder of a new table is not the root of a namespace.

    Raises
    ------
    AlreadyExistsError
        It is one, so the table and the namespace would hide each other.
    StorageError
        It is a file.
    """
    table.check_is_folder()
    if (table / NAMESPACE_MANIFEST / VERSIONS_DIR).exists():
        raise AlreadyExistsError(
            f"{table.uri}: a namespace exists here, and a table cannot be beside its {NAMESPACE_MANIFEST}. "
            "Write to a partitioned namespace with PartitionedNamespace.open(…).append(…), create a table "
            "of a directory namespace with DirectoryNamespace(…).create_table(…), or use another folder"
        )


@contextmanager
def new_folders_removed(table: Location) -> Iterator[None]:
    """Delete the empty folders of a local table if the block fails: it was not created, or was dropped."""
    was_empty = _is_empty(table)
    try:
        yield
    except BaseException:
        remove_empty_folders(table)
        if not was_empty:
            table.remove_empty_folder()
        raise


def _is_empty(folder: Location) -> bool:
    """Whether a local folder is there and certainly is empty."""
    try:
        return folder.is_local and not os.listdir(folder.path)
    except (OSError, ValueError):  # it does not exist, may not be listed, or no folder can have this name
        return False


def remove_empty_folders(table: Location) -> None:
    """Remove the empty folders in the folder of a table."""
    for name in (DATA_DIR, DELETIONS_DIR, INDICES_DIR, TRANSACTIONS_DIR, VERSIONS_DIR):
        (table / name).remove_empty_folder()
