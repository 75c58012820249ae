"""What is a partitioned namespace, and what is not, asked without importing what those need."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lance_df.namespace.names import MANIFEST_FOLDER
from lance_df.table.metadata.versions import VERSIONS_DIR

if TYPE_CHECKING:
    from typing import TypeGuard

    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.storage import Location


def is_namespace(found: object) -> TypeGuard[NamespaceSnapshot]:
    """Whether this is a `NamespaceSnapshot`: nothing is before their module has been imported."""
    module = sys.modules.get("lance_df.namespace.snapshot")
    return module is not None and isinstance(found, module.NamespaceSnapshot)


def holds_namespace(folder: Location) -> bool:
    """Whether a folder is the root of a partitioned namespace, and not of a mere directory of tables."""
    if not (folder / MANIFEST_FOLDER / VERSIONS_DIR).exists():
        return False
    from lance_df.namespace.manifest_table import open_manifest_table
    from lance_df.namespace.spec.partition_spec import KEY_PREFIX

    metadata = open_manifest_table(folder).manifest.table_metadata
    return any(key.startswith(KEY_PREFIX) for key in metadata)
