"""The output of `lance-df inspect` for a folder of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_df.cli.inspection.table_folders import tables_below
from lance_df.cli.inspection.tables import Section
from lance_df.errors import DatasetNotFoundError, LanceError
from lance_df.table.open import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_df.cli.inspection.table_folders import FolderEntry
    from lance_df.storage import Location


def inspect_folder(root: Location, storage: Mapping[str, Any] | None) -> tuple[list[Section], bool]:
    """Describe the tables and namespaces below a folder, and return whether all of them can be opened.

    Raises
    ------
    DatasetNotFoundError
        There are none.
    """
    entries = tables_below(root)
    if not entries:
        raise DatasetNotFoundError(f"{root.uri}: no Lance tables found in this folder")
    rows, errors = [], []
    for entry in entries:
        try:
            rows.append(_described(entry, storage))
        except LanceError as err:
            errors.append({"table": entry.name, "cannot be opened": " ".join(str(err).split())})
    return [Section("tables", rows), Section("cannot be opened", errors)], not errors


def _described(entry: FolderEntry, storage: Mapping[str, Any] | None) -> dict[str, Any]:
    if entry.error is not None:
        raise entry.error
    if entry.is_namespace:
        from lance_df.namespace.snapshot import NamespaceSnapshot  # loads DataFusion

        snapshot = NamespaceSnapshot.open(entry.location)
        return {
            "table": entry.name,
            "version": snapshot.version,
            "partitions": len(snapshot.manifest.members),
            "rows": None,
            "fragments": None,
            "columns": len(snapshot.arrow_schema.names),
        }
    table = open_table(entry.location.uri, storage_options=storage)
    return {
        "table": entry.name,
        "version": table.version,
        "partitions": None,
        "rows": table.count_rows(),
        "fragments": len(table.fragments),
        "columns": len(table.arrow_schema.names),
    }
