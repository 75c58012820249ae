"""`lance_df.verify`: check a table or a partitioned namespace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lance_df.arguments import checked_flag
from lance_df.errors import DatasetNotFoundError
from lance_df.namespace.health.verify import verify_namespace, verify_table
from lance_df.namespace.snapshot import holds_namespace
from lance_df.storage import open_location
from lance_df.table.open import open_table

if TYPE_CHECKING:
    from lance_df.namespace.health.findings import VerifyReport


def verify(
    path: str | os.PathLike[str],
    *,
    deep: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> VerifyReport:
    """Check a table or a partitioned namespace, without changing anything.

    Parameters
    ----------
    path
        A path or URL. A namespace is checked even if `PartitionedNamespace.open` refuses to open it.
    deep
        For a namespace: read all rows, and compare their partition values with the values that queries are
        pruned by. The rows of a table are always read.

    Returns
    -------
    A report that can be printed, with ``ok`` and ``problems``.

    Raises
    ------
    DatasetNotFoundError
        There is neither a table nor a namespace.
    CorruptDataError
        The manifest cannot be read at all.
    """
    checked_flag(deep, "deep")
    try:
        table = open_table(path, storage_options=storage_options)
    except DatasetNotFoundError:
        root = open_location(path, storage_options)
        if not holds_namespace(root):
            raise
        return verify_namespace(root, deep=deep)
    return verify_table(table)
