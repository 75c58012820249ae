"""Publish a manifest under the name of its version, if that is free: the moment of a commit.

Spec: table format, chapters 8 and 9. All writers of a table must publish in the same way: by its store's own
put-if-absent, or through one external manifest store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import CommitStateUnknownError, NotFoundError, StorageError, UnsupportedFeatureError
from lance_df.storage.put_if_absent import put_if_absent
from lance_df.table.versions import VERSIONS_DIR

if TYPE_CHECKING:
    from lance_df.storage import Location
    from lance_df.table.external_store import ExternalManifestStore
    from lance_df.table.versions import NamingScheme


def publish_manifest(
    table: Location,
    version: int,
    scheme: NamingScheme,
    data: bytes,
    *,
    external_store: ExternalManifestStore | None = None,
) -> bool:
    """Make a manifest file the one of its version, unless that has one.

    Parameters
    ----------
    table
        The root of the table or of the branch.
    scheme
        How the table names its versions.
    data
        The whole file. It holds the unique id of its transaction, so that equal content is the same commit.
    external_store
        Decides which file is the version, where there is one.

    Returns
    -------
    True: the version is this file, also when the reply was lost and that was found out by reading it back.
    False: another writer made the version, and this file will never be it.

    Raises
    ------
    CommitStateUnknownError
        Whether the version was made is not known. Nothing that it refers to may be deleted.
    StorageError
        The store refused; the version was not made, and no request is on its way.
    UnsupportedFeatureError
        The store cannot tell writers apart: give an external manifest store.
    """
    if external_store is not None:
        raise UnsupportedFeatureError(f"{table.uri}: commits through an external store are not there yet")
    name = table / VERSIONS_DIR / scheme.file_name(version)
    try:
        if put_if_absent(name, data):
            return True
        failure = None
    except CommitStateUnknownError as err:
        failure = err
    try:
        return name.read() == data
    except (StorageError, NotFoundError) as err:
        raise CommitStateUnknownError(
            f"{name.uri}: the store failed while this version was written; whether it was committed is not "
            "known: look at the table before trying again"
        ) from (failure or err)
