"""Where no new table may be: right in the root of a namespace, beside its ``__manifest``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import AlreadyExistsError
from lance_df.table.metadata.versions import NAMESPACE_MANIFEST, VERSIONS_DIR

if TYPE_CHECKING:
    from lance_df.storage import Location


def check_location_is_free(table: Location) -> None:
    """Check that the folder of a new table is not the root of a namespace, whoever made that.

    Raises
    ------
    AlreadyExistsError
        It is: one of the two would hide the other.
    """
    if (table / NAMESPACE_MANIFEST / VERSIONS_DIR).exists():
        raise AlreadyExistsError(
            f"{table.uri}: there is a namespace, and no table can be beside its {NAMESPACE_MANIFEST}: write "
            "to a partitioned namespace with PartitionedNamespace.open(…).append(…), and make a table of a "
            "directory with DirectoryNamespace(…).create_table(…), or in a folder of its own"
        )
