"""Drop a table: its folder, and its entries in an external manifest store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import NotFoundError
from lance_df.table.metadata.external_store import forget, latest_stored
from lance_df.table.metadata.refs import branch_location, list_branches
from lance_df.table.metadata.versions import list_versions
from lance_df.table.open import open_located

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.storage import Location
    from lance_df.table.metadata.external_store import ExternalManifestStore
    from lance_df.table.metadata.locations import TableLocation


def drop_table(located: TableLocation) -> None:
    """Remove a table with its branches and everything else in its folder.

    The external store forgets the table before its files are removed, and again afterwards, as a writer may
    have recorded a version in between. If the process is killed at any time, the table can be dropped again.

    Raises
    ------
    DatasetNotFoundError
        There is no table, and the external store has no entry of one.
    CorruptDataError
        The newest version cannot be read. Nothing is removed.
    """
    store = located.external_store
    try:
        root = open_located(located).shared.root
    except NotFoundError:
        # an earlier drop ended early, or did not name the store: its entries are all that remains
        root = located.location
        if store is None or list_versions(root).entries or latest_stored(store, root) is None:
            raise
    if store is None:
        root.remove_tree()
        return
    folders = [*(branch_location(root, name) for name in list_branches(root)), root]
    _forget_all(store, folders)
    root.remove_tree()
    _forget_all(store, folders)


def _forget_all(store: ExternalManifestStore, folders: Sequence[Location]) -> None:
    for folder in folders:
        forget(store, folder)
