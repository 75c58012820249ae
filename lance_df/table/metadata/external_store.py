"""External manifest stores: record which file holds a version, for stores that lack put-if-absent.

Spec: table format, commit primitives. A commit takes four steps: it stages its manifest under a unique name,
records that name for its version (which decides the commit), copies the manifest to its final name, and
records the final name. If a writer dies in between, the next writer completes the steps. Reads of this
package write nothing, so they read a staged manifest where it is; its bytes are the same.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Protocol

from lance_df.errors import CorruptDataError, NotFoundError, VersionNotFoundError
from lance_df.records import dataclass
from lance_df.storage.translate import translate_errors
from lance_df.table.metadata.versions import VERSIONS_DIR, NamingScheme, parse_manifest_name

if TYPE_CHECKING:
    from lance_df.storage import ByteSource, Location

_SUFFIX = ".manifest"


@dataclass(frozen=True, slots=True)
class StoredManifest:
    """The entry of one version in an external store.

    Attributes
    ----------
    version
        The version.
    name
        The name of the file in the folder of manifests: the final file, or a staged one (``{final
        name}-{uuid}``).
    size
        The size of the file in bytes; ``None`` if it is not recorded.
    """

    version: int
    name: str
    size: int | None = None

    @property
    def is_final(self) -> bool:
        return self.name == self.final_name

    @property
    def final_name(self) -> str:
        """Name of the file once the commit is finished."""
        return self.name.partition(_SUFFIX)[0] + _SUFFIX

    def finished(self) -> StoredManifest:
        """Return the entry for the finished commit."""
        return StoredManifest(self.version, self.final_name, self.size)


def staged_manifest(version: int, scheme: NamingScheme, size: int) -> StoredManifest:
    """Return an entry with a unique name for a staged manifest."""
    return StoredManifest(version, f"{scheme.file_name(version)}-{uuid.uuid4()}", size)


class ExternalManifestStore(Protocol):
    """A strongly consistent map from (table, version) to manifest file, shared by all writers of a table.

    ``table`` identifies a table or branch; see :func:`store_key`. Entries that earlier releases recorded
    under a local path with symbolic links are found too.

    Methods that write raise `CommitStateUnknownError` if it is not known whether they wrote, and any other
    error if they certainly did not write.
    """

    def get(self, table: str, version: int) -> StoredManifest | None:
        """Return the entry of a version, or None."""
        ...

    def get_latest(self, table: str) -> StoredManifest | None:
        """Return the entry of the highest recorded version, or None."""
        ...

    def put_if_absent(self, table: str, manifest: StoredManifest) -> bool:
        """Record a version that has no entry yet. Return whether it was recorded."""
        ...

    def put_if_exists(self, table: str, manifest: StoredManifest) -> bool:
        """Replace the entry of a version. Return whether there was one."""
        ...

    def delete(self, table: str, version: int | None = None) -> None:
        """Delete the entry of one version, or all entries of a table. Missing entries are ignored."""
        ...


def staged_version(name: str) -> int | None:
    """Return the version of a staged manifest by its name, or None for other files."""
    final, suffix, rest = name.partition(_SUFFIX)
    parsed = parse_manifest_name(final + suffix) if rest.startswith("-") else None
    return None if parsed is None else parsed[0]


def store_key(table: Location) -> str:
    """Return the key of a table in external stores: its absolute local path, or ``scheme://bucket/path``.

    It is the same one by whichever symbolic links a table is named. Of the schemes of a store it has always
    the same one.
    """
    path = table.path.rstrip("/")
    if table.is_local:
        return os.path.realpath(path)
    protocol = table.fs.protocol
    return f"{protocol if isinstance(protocol, str) else protocol[0]}://{path.lstrip('/')}"


def _keys(table: Location) -> list[str]:
    """Return the key of a table, and the one that former releases used where its path has symbolic links."""
    former = [table.path.rstrip("/")] if table.is_local else []
    return list(dict.fromkeys([store_key(table), *former]))


def latest_stored(store: ExternalManifestStore, table: Location) -> StoredManifest | None:
    """Return a store's entry of the highest version of a table; see :func:`stored`."""
    with translate_errors(f"{table.uri}: its external manifest store"):
        known = [store.get_latest(key) for key in _keys(table)]
    return max((each for each in known if each is not None), key=lambda each: each.version, default=None)


def stored(store: ExternalManifestStore, table: Location, version: int) -> StoredManifest | None:
    """Return a store's entry of a version.

    Raises
    ------
    StorageError
        The external store failed, so nothing is known about the version.
    """
    with translate_errors(f"{table.uri}: its external manifest store"):
        known = (store.get(key, version) for key in _keys(table))
        return next((each for each in known if each is not None), None)


def record(store: ExternalManifestStore, table: Location, manifest: StoredManifest) -> bool:
    """Record a version of which nothing is known; return whether that was so."""
    key, *former = _keys(table)
    if any(store.get(each, manifest.version) is not None for each in former):
        return False
    return store.put_if_absent(key, manifest)


def forget(store: ExternalManifestStore, table: Location, version: int | None = None) -> None:
    """Let a store forget one version, or all of a table; what is not known is fine."""
    for key in _keys(table):
        store.delete(key, version)


def open_stored(table: Location, manifest: StoredManifest) -> ByteSource:
    """Open the manifest file that an external store names.

    Raises
    ------
    VersionNotFoundError
        The commit was finished, and the file is gone.
    CorruptDataError
        The store's entry is not a manifest of this version, the file has another size, or it is gone
        although the commit was not finished.
    """
    parsed = parse_manifest_name(manifest.final_name)
    rest = manifest.name.removeprefix(manifest.final_name)
    if parsed is None or parsed[0] != manifest.version or "/" in rest or (rest and rest[0] != "-"):
        raise CorruptDataError(
            f"{table.uri}: the external manifest store has the invalid name {manifest.name!r} for version "
            f"{manifest.version}"
        )
    folder = table / VERSIONS_DIR
    # another client may finish the commit, and delete the staged file, at any time
    for name in dict.fromkeys((manifest.name, manifest.final_name)):
        try:
            source = folder.child(name).open_whole()
        except NotFoundError:
            continue
        if manifest.size is not None and source.size != manifest.size:
            raise CorruptDataError(
                f"{source.path}: the file has {source.size} bytes, but the external manifest store says "
                f"{manifest.size}"
            )
        return source
    kind = VersionNotFoundError if manifest.is_final else CorruptDataError
    advice = (
        ""
        if table.exists()
        else ", and neither does the folder of the table; if it was removed, remove the entries of the store "
        "with LanceDataset.drop and this external_store"
    )
    raise kind(
        f"{table.uri}: the external manifest store names the manifest {manifest.name!r} for version "
        f"{manifest.version}, but it does not exist{advice}"
    )


def finish_commit(store: ExternalManifestStore, table: Location, manifest: StoredManifest) -> None:
    """Give a recorded manifest its final name, if it still has a staged one.

    Any number of clients may do this at once.

    Raises
    ------
    StorageError
        One of the stores failed; the version stays readable through the external store.
    CorruptDataError
        The manifest is gone.
    """
    if manifest.is_final:
        return
    source = open_stored(table, manifest)
    data = source.read_range(0, source.size).to_pybytes()
    put_manifest(store, table, manifest, data)


def put_manifest(
    store: ExternalManifestStore, table: Location, manifest: StoredManifest, data: bytes
) -> None:
    """Copy a staged manifest to its final name, record that name, and remove the staged file.

    If a clean-up has removed the version since it was recorded, the final file is removed again.
    """
    folder = table / VERSIONS_DIR
    (folder / manifest.final_name).put(data)
    with translate_errors(f"{table.uri}: its external manifest store"):
        recorded = [store.put_if_exists(key, manifest.finished()) for key in _keys(table)]
        # our entry keeps other writers from making the version while its file is removed
        is_gone = not any(recorded) and record(store, table, manifest.finished())
    if is_gone:
        (folder / manifest.final_name).remove()
    (folder / manifest.name).remove()
    if is_gone:
        with translate_errors(f"{table.uri}: its external manifest store"):
            forget(store, table, manifest.version)
