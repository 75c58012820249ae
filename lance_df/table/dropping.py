"""Drop a table: its folder, and its entries in an external manifest store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import CorruptDataError, NotFoundError
from lance_df.table.metadata.external_store import forget, latest_stored
from lance_df.table.metadata.refs import branch_location, list_branches
from lance_df.table.metadata.versions import VERSIONS_DIR
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

    If the folder has no manifest, only the entries in the external store are removed: the folder may be used
    for something else since the table was removed without the store.

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
    except (NotFoundError, CorruptDataError):
        # an earlier drop ended early, or did not name the store: its entries are all that remains
        root = located.location
        if store is None or _has_manifests(root) or latest_stored(store, root) is None:
            raise
        _forget_all(store, _folders(root))
        return
    if store is None:
        root.remove_tree()
        return
    folders = _folders(root)
    _forget_all(store, folders)
    root.remove_tree()
    _forget_all(store, folders)


def _folders(root: Location) -> list[Location]:
    """Return the folders of the branches and the one of the table, which are keys of the external store."""
    return [*(branch_location(root, name) for name in list_branches(root)), root]


def _has_manifests(root: Location) -> bool:
    """Whether there is any manifest, a staged one included."""
    return any(".manifest" in name for name in (root / VERSIONS_DIR).names())


def _forget_all(store: ExternalManifestStore, folders: Sequence[Location]) -> None:
    for folder in folders:
        forget(store, folder)
