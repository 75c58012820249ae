"""Open a table: from a URI and a version, tag, branch or time to one immutable :class:`Table`."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from lance_df.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    VersionNotFoundError,
)
from lance_df.format.refs import MAIN
from lance_df.table.metadata.history import History
from lance_df.table.metadata.locations import TableLocation, locate_table
from lance_df.table.metadata.refs import ResolvedRef, VersionRef, resolve
from lance_df.table.shared import Shared
from lance_df.table.table import Table, open_ref

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from lance_df.storage import Location
    from lance_df.table.metadata.external_store import ExternalManifestStore
    from lance_df.table.metadata.manifest_io import ManifestFile


def open_table(
    uri: str | os.PathLike[str],
    *,
    version: VersionRef | None = None,
    branch: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    asof: dt.datetime | None = None,
    external_store: ExternalManifestStore | None = None,
    base_store_params: Mapping[str, Mapping[str, Any]] | None = None,
) -> Table:
    """Open one version of a table. Reads its manifest and nothing else.

    Parameters
    ----------
    uri
        Path or URL of the table, or of one of its branches (``…/tree/{branch}``);
        ``s3+ddb://bucket/path?ddbTableName=T`` for tables whose versions are recorded in DynamoDB.
    version
        A number, a tag, or (branch, version); the latest version by default.
    branch
        The branch that a version number belongs to; by default the one that ``uri`` names, or main.
    storage_options, base_store_params
        Credentials, endpoint, region … of the store, and those of base paths; see
        :func:`lance_df.table.metadata.locations.locate_table`.
    asof
        Open the newest version that is not later than this time; a time without zone is local time.
    external_store
        Where the table's writers record the manifest of each version.

    Raises
    ------
    DatasetNotFoundError
        The path does not exist, or has no table.
    VersionNotFoundError
        The table has no such version, tag or branch; the message lists those that exist.
    CorruptDataError
        The manifest is truncated or damaged.
    UnsupportedFeatureError
        The table needs a newer reader.
    """
    if asof is not None and version is not None:
        raise InvalidInputError("version and asof cannot be combined")
    located = locate_table(uri, storage_options, external_store, base_store_params)
    return open_located(located, version=version, branch=branch, asof=asof)


def open_located(
    located: TableLocation,
    *,
    version: VersionRef | None = None,
    branch: str | None = None,
    asof: dt.datetime | None = None,
) -> Table:
    """Open one version of a table whose location is known; see `open_table`."""
    root, branch_of_uri = _root(located.location, located.external_store)
    shared = Shared(root, located.external_store)
    branch = branch_of_uri if branch is None else branch
    branch = None if branch == MAIN else branch
    if asof is not None:
        return _open_asof(shared, branch, asof)
    return open_ref(shared, _resolve(shared, version, branch))


def table_at(located: TableLocation, file: ManifestFile) -> Table:
    """Return a version that was just made as a table, without reading anything."""
    branch = file.manifest.branch
    root = located.location.ancestor(f"tree/{branch}") if branch else None
    shared = Shared(root or located.location, located.external_store)
    return Table(file, location=located.location, branch=branch if root else None, shared=shared)


def _root(location: Location, store: ExternalManifestStore | None) -> tuple[Location, str | None]:
    """Return the root and the branch: a branch is a folder below the root, and its manifests name it."""
    if "/tree/" not in location.path:
        return location, None
    try:
        branch = History(location, store).open_latest().manifest.branch
    except DatasetNotFoundError:
        return location, None
    root = location.ancestor(f"tree/{branch}") if branch else None
    return (location, None) if root is None else (root, branch)


def _resolve(shared: Shared, ref: VersionRef | None, branch: str | None) -> ResolvedRef:
    try:
        return resolve(shared.root, ref, branch=branch)
    except VersionNotFoundError:
        # Report a missing table rather than a missing version.
        shared.history(None).listing()
        raise


def _open_asof(shared: Shared, branch: str | None, asof: dt.datetime) -> Table:
    return open_ref(shared, ResolvedRef(branch, version_as_of(shared.history(branch), asof)))


def version_as_of(history: History, asof: dt.datetime) -> int:
    """Return the newest version that is not later than a time; a time without zone is local time.

    Raises
    ------
    InvalidInputError
        The time is out of range.
    VersionNotFoundError
        No version is that old.
    """
    try:
        cutoff = asof.astimezone(dt.UTC)
    except (OverflowError, OSError, ValueError) as err:
        raise InvalidInputError(f"timestamp {asof} is out of range") from err
    epoch = dt.datetime.fromtimestamp(0, dt.UTC)
    first = None
    for version in reversed(history.numbers()):
        first = history.open(version).manifest.timestamp or epoch
        if first <= cutoff:
            return int(version)
    raise VersionNotFoundError(
        f"{history.location.uri}: no version existed at {asof}; the first version is from {first}"
    )
