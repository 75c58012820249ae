"""Publish a manifest under the name of its version if that is free; this is the moment of the commit.

Spec: table format, chapters 8 and 9. All writers of a table must publish in the same way: by its store's own
put-if-absent, or through one external manifest store.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from lance_df.errors import CommitStateUnknownError, CorruptDataError, LanceError, NotFoundError
from lance_df.storage.put_if_absent import put_if_absent
from lance_df.table.commit.lock import held
from lance_df.table.metadata.external_store import (
    finish_commit,
    open_stored,
    put_manifest,
    record,
    staged_manifest,
    stored,
)
from lance_df.table.metadata.versions import VERSIONS_DIR, parse_manifest_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.storage import Location
    from lance_df.table.commit.lock import CommitLock
    from lance_df.table.metadata.external_store import ExternalManifestStore, StoredManifest
    from lance_df.table.metadata.versions import NamingScheme

# How often a write is sent. It is sent again if it is unknown whether it arrived, and the file is not there.
_ATTEMPTS = 2


def publish_manifest(
    table: Location,
    version: int,
    scheme: NamingScheme,
    data: bytes,
    *,
    external_store: ExternalManifestStore | None = None,
    lock: CommitLock | None = None,
) -> bool:
    """Publish a manifest file as its version, unless the version exists.

    Parameters
    ----------
    table
        The root of the table or of the branch.
    scheme
        The naming scheme of the table's versions.
    data
        The whole file. It holds the unique id of its transaction, so equal content means the same commit.
    external_store
        Decides which file is the version, if it is given.
    lock
        Held while publishing.

    Returns
    -------
    True if the version is this file; if the reply was lost, this is found out by reading it back. False if
    another writer made the version; then this file will never be it.

    Raises
    ------
    CommitStateUnknownError
        It is unknown whether the version was made. Nothing that it refers to may be deleted.
    StorageError, NotFoundError
        The store refused; the version was not made, and no request is in flight.
    UnsupportedFeatureError
        The store has no put-if-absent; an external manifest store is needed.
    CorruptDataError
        The table and its external store contradict each other; the version was not made.
    """
    if lock is not None:
        with held(lock, version, what=f"{table.uri}: version {version}"):
            return _publish(
                table, version, scheme, data, external_store, put=partial(put_if_absent, is_locked=True)
            )
    return _publish(table, version, scheme, data, external_store, put=put_if_absent)


def is_absent(name: Location, data: bytes) -> bool:
    """Whether a local version that was being published certainly was not made.

    It may have been made and cleaned up since if there are later versions, so this returns False then.

    Parameters
    ----------
    name
        The local file of the version.
    """
    try:
        return name.read() != data
    except NotFoundError:
        folder, _, file_name = name.path.rpartition("/")
        made = parse_manifest_name(file_name)
        try:
            others = [parse_manifest_name(other) for other in os.listdir(folder)]
        except FileNotFoundError:  # the first version of a table creates the folder
            return True
        return made is None or all(other is None or other[0] <= made[0] for other in others)


def _publish(
    table: Location,
    version: int,
    scheme: NamingScheme,
    data: bytes,
    external_store: ExternalManifestStore | None,
    *,
    put: Callable[[Location, bytes], bool],
) -> bool:
    if external_store is not None:
        return _publish_recorded(table, version, scheme, data, external_store)
    name = table / VERSIONS_DIR / scheme.file_name(version)

    def is_there() -> bool | None:
        try:
            return name.read() == data
        except NotFoundError:
            return None

    if name.is_local:  # local answers are never lost
        return put(name, data)
    return _settled(lambda: put(name, data), is_there, what=f"{table.uri}: version {version}")


def _publish_recorded(
    table: Location, version: int, scheme: NamingScheme, data: bytes, store: ExternalManifestStore
) -> bool:
    """Publish in four steps: stage the manifest, record it, copy it to its final name, record that name."""
    if version > 1 and (previous := stored(store, table, version - 1)) is not None:
        finish_commit(store, table, previous)
    final = table / VERSIONS_DIR / scheme.file_name(version)
    if final.exists():
        if (known := stored(store, table, version)) is None:
            raise CorruptDataError(
                f"{final.uri}: this version exists, but the external manifest store has no entry for it; a "
                "writer committed without that store"
            )
        return _is_same(table, known, data)
    manifest = staged_manifest(version, scheme, len(data))
    staged = table / VERSIONS_DIR / manifest.name
    try:
        staged.put(data)
        is_ours = _record(store, table, manifest, data)
    except CommitStateUnknownError:
        raise
    except LanceError:  # not after an interrupt: the manifest may be recorded
        with suppress(LanceError):
            staged.remove()
        raise
    if not is_ours:
        with suppress(LanceError):
            staged.remove()
        return False
    # The version is decided; if a step fails from here on, the next writer repeats it.
    with suppress(LanceError):
        put_manifest(store, table, manifest, data)
    return True


def _record(store: ExternalManifestStore, table: Location, manifest: StoredManifest, data: bytes) -> bool:
    """Record a staged manifest for its version; return whether the version is ours."""
    what = f"{table.uri}: version {manifest.version}"

    def put() -> bool:
        try:
            return record(store, table, manifest)
        except LanceError:
            raise
        except Exception as err:
            raise CommitStateUnknownError(
                f"{what}: writing to its external manifest store failed, so it is unknown whether it was "
                "committed; check the table before trying again"
            ) from err

    def is_there() -> bool | None:
        known = stored(store, table, manifest.version)
        if known is None:
            return None
        return known.name == manifest.name or (known.is_final and _is_same(table, known, data))

    return _settled(put, is_there, what=what)


def _settled(put: Callable[[], bool], is_there: Callable[[], bool | None], *, what: str) -> bool:
    """Send a write and return whether it took effect, even if answers get lost.

    A refusal is checked by reading, too: libraries repeat requests, so our own first request may have caused
    it.

    Parameters
    ----------
    put
        Sends the write. It may be repeated, as a request that arrives late finds the name in use.
    is_there
        Returns whether the name has our content; ``None`` if it is free.
    """
    failure: LanceError | None = None
    for _ in range(_ATTEMPTS):
        try:
            if put():
                return True
        except CommitStateUnknownError as err:
            failure = err
        except LanceError:
            if failure is None:
                raise
        try:
            if (published := is_there()) is not None:
                return published
        except LanceError as err:
            failure = failure or err
            break
    raise CommitStateUnknownError(
        f"{what}: the store failed during the write, so it is unknown whether it was committed; check the "
        "table before trying again"
    ) from failure


def _is_same(table: Location, known: StoredManifest, data: bytes) -> bool:
    """Whether a recorded manifest has our content; another client may have finished the commit."""
    if known.size not in (None, len(data)):
        return False
    source = open_stored(table, known)
    return source.read_range(0, source.size).to_pybytes() == data
