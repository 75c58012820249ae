"""The namespaces of a directory, and changes of the rows of its ``__manifest``.

Every change is computed from the newest version of ``__manifest`` and committed only on top of that version.
Spec: directory namespace; table format, chapter 15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.errors import (
    AlreadyExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lance_df.forks import new_lock
from lance_df.namespace.directory.manifest import DirectoryManifest, Edit, Entry
from lance_df.namespace.directory.names import joined
from lance_df.namespace.manifest_table import NAMESPACE
from lance_df.table.commit.options import CommitOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lance_df.namespace.directory.names import Parts
    from lance_df.storage import Location

_ATTEMPTS: Final = 100
_PATIENCE: Final = CommitOptions()


class Directory:
    """The namespaces of a directory, and changes of its rows. Safe to share between threads.

    Parameters
    ----------
    root
        The folder of the directory, which need not exist.
    use_manifest
        Whether there are namespaces, and rows for tables.

    Raises
    ------
    UnsupportedFeatureError, CorruptDataError
        There is a ``__manifest`` that cannot be read.
    """

    def __init__(self, root: Location, *, use_manifest: bool = True) -> None:
        self.root = root
        self.uses_manifest = use_manifest
        self._changing = new_lock()
        self._manifest: DirectoryManifest | None = None
        self.manifest()

    def free_cache(self) -> None:
        """Drop ``__manifest`` from memory; it is read again when needed."""
        self._manifest = None

    def manifest(self) -> DirectoryManifest | None:
        """Return the newest version of ``__manifest``, or None if it does not exist or is not used."""
        if not self.uses_manifest:
            return None
        known = self._manifest
        try:
            self._manifest = DirectoryManifest.open(self.root) if known is None else known.latest()
        except DatasetNotFoundError:
            self._manifest = None
        return self._manifest

    # -- namespaces -----------------------------------------------------------------------------------------

    def create_namespace(self, parts: Parts, properties: Mapping[str, str] | None) -> None:
        """Create a namespace.

        Raises
        ------
        AlreadyExistsError
            The id is taken.
        NotFoundError
            The parent namespace does not exist.
        """
        if not parts:
            raise AlreadyExistsError(f"{self.root.uri}: the root namespace always exists")
        entry = Entry(joined(parts), NAMESPACE, properties=properties)
        self.edit(lambda manifest: self.addition(manifest, parts, entry))

    def namespace_properties(self, parts: Parts) -> dict[str, str]:
        """Return the properties of a namespace.

        Raises
        ------
        NotFoundError
            There is none.
        """
        manifest = self.manifest()
        if not parts:
            return {} if manifest is None else manifest.root_properties
        entry = None if manifest is None else manifest.find(joined(parts))
        if manifest is None or entry is None or not entry.is_namespace:
            raise NotFoundError(f"{self.root.uri}: namespace {joined(parts)!r} does not exist")
        return {**(entry.properties or {}), **manifest.runtime_properties(entry.object_id)}

    def drop_namespace(self, parts: Parts) -> None:
        """Remove an empty namespace.

        Raises
        ------
        NotFoundError
            There is none.
        InvalidInputError
            The namespace is the root or is not empty.
        """
        if not parts:
            raise InvalidInputError(f"{self.root.uri}: the root namespace cannot be dropped")
        name = joined(parts)

        def removal(manifest: DirectoryManifest) -> Edit:
            manifest.check_changeable(name)
            entry = manifest.find(name)
            if entry is None or not entry.is_namespace:
                raise NotFoundError(f"{self.root.uri}: namespace {name!r} does not exist")
            if manifest.has_children(name):
                raise InvalidInputError(f"{self.root.uri}: namespace {name!r} is not empty")
            return Edit(removed=(name,))

        self.edit(removal)

    def namespaces(self, parent: Parts) -> list[str]:
        """Return the sorted names of the direct child namespaces of a namespace.

        Raises
        ------
        NotFoundError
            There is no such namespace.
        """
        manifest = self.manifest()
        self.check_listable(manifest, parent)
        return sorted(manifest.children(parent, NAMESPACE)) if manifest else []

    # -- changes --------------------------------------------------------------------------------------------

    def addition(self, manifest: DirectoryManifest, parts: Parts, entry: Entry) -> Edit:
        """Return the edit that adds a namespace or table.

        Raises
        ------
        AlreadyExistsError, NotFoundError
            The id is taken, or the parent namespace does not exist.
        InvalidInputError, UnsupportedFeatureError
            The directory cannot be changed; see `DirectoryManifest.check_changeable`.
        """
        manifest.check_changeable(entry.object_id)
        if other := manifest.find(entry.object_id):
            raise AlreadyExistsError(
                f"{self.root.uri}: {other.object_type} {entry.object_id!r} already exists"
            )
        if parent := parts[:-1]:
            parent_entry = manifest.find(joined(parent))
            if parent_entry is None or not parent_entry.is_namespace:
                raise NotFoundError(f"{self.root.uri}: namespace {joined(parent)!r} does not exist")
        return Edit((entry,))

    def edit(self, decide: Callable[[DirectoryManifest], Edit]) -> None:
        """Publish the edit that ``decide`` returns for the newest version.

        Raises
        ------
        RetryableConflictError
            Other writers were faster again and again.
        CommitStateUnknownError
            It is not known whether the change was published.
        """
        with self._changing:
            for attempt in range(_ATTEMPTS):
                manifest = self.manifest_to_change()
                edit = decide(manifest)
                try:
                    self._manifest = manifest.changed(edit)
                except RetryableConflictError:
                    _PATIENCE.wait(attempt)
                else:
                    return
        raise RetryableConflictError(
            f"{self.root.uri}: {_ATTEMPTS} attempts in a row failed because other writers published first; "
            "try again"
        )

    def manifest_to_change(self) -> DirectoryManifest:
        """Return the newest version of ``__manifest``; create it if it does not exist.

        Raises
        ------
        InvalidInputError
            The directory does not use ``__manifest``.
        """
        self.check_uses_manifest()
        return self.manifest() or DirectoryManifest.open_or_create(self.root)

    def check_uses_manifest(self) -> None:
        """Check that the directory uses ``__manifest``, which namespaces and rows for tables need."""
        if not self.uses_manifest:
            raise InvalidInputError(f"{self.root.uri}: this requires a namespace with manifest_enabled=True")

    def check_listable(self, manifest: DirectoryManifest | None, parts: Parts) -> None:
        """Check that a namespace exists: it has a row, or it is not empty, as other writers omit the rows."""
        if not parts:
            return
        name = joined(parts)
        entry = None if manifest is None else manifest.find(name)
        is_namespace = entry is not None and entry.is_namespace
        if manifest is None or not (is_namespace or manifest.has_children(name)):
            raise NotFoundError(f"{self.root.uri}: namespace {name!r} does not exist")
