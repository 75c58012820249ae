"""Distinguish tables from partitioned namespaces without importing the modules of namespaces."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeAlias, cast

from lance_df.errors import NotFoundError
from lance_df.namespace.names import MANIFEST_FOLDER
from lance_df.table.metadata.versions import VERSIONS_DIR
from lance_df.table.table import Table

if TYPE_CHECKING:
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.storage import Location

Source: TypeAlias = "Table | NamespaceSnapshot"
"""An open table or namespace."""


def opened_in(value: object) -> Source | None:
    """Return the open table or namespace that a value is, or that a public object represents as a whole."""
    if getattr(value, "_selects", False):
        return None
    # no object is a namespace before the module has been imported
    module = sys.modules.get("lance_df.namespace.snapshot")
    for opened in (value, getattr(value, "_table", None)):
        if isinstance(opened, Table):
            return opened
        if module is not None and isinstance(opened, module.NamespaceSnapshot):
            return cast("NamespaceSnapshot", opened)
    return None


def holds_namespace(folder: Location) -> bool:
    """Whether a folder is the root of a partitioned namespace, not only of a directory of tables."""
    if not (folder / MANIFEST_FOLDER / VERSIONS_DIR).exists():
        return False
    from lance_df.namespace.manifest_table import open_manifest_table
    from lance_df.namespace.spec.partition_spec import KEY_PREFIX

    try:
        metadata = open_manifest_table(folder).manifest.table_metadata
    except NotFoundError:  # the program that created it was stopped before its first version
        return False
    return any(key.startswith(KEY_PREFIX) for key in metadata)


def is_unmade_namespace(folder: Location) -> bool:
    """Whether a folder is empty, or holds the remains of a namespace whose creation was interrupted."""
    if any(entry.name != MANIFEST_FOLDER for entry in folder.list()):
        return False
    return not any(name.endswith(".manifest") for name in (folder / MANIFEST_FOLDER / VERSIONS_DIR).names())
