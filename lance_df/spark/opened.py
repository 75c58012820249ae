"""Open tables and namespaces at fixed versions once per process; Spark reuses its Python workers."""

from __future__ import annotations

from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from lance_df.cache import PROCESS, CacheKind, Entries
from lance_df.errors import InvalidInputError, VersionNotFoundError
from lance_df.namespace.names import MANIFEST_FOLDER
from lance_df.records import dataclass
from lance_df.spark.workers import keep_imports
from lance_df.storage import open_location
from lance_df.table.metadata.manifest_io import identity
from lance_df.table.metadata.versions import VERSIONS_DIR
from lance_df.table.open import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_df.namespace.kind import Source
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.spark.options import SourceOptions
    from lance_df.storage import Location
    from lance_df.table.table import Table

# Each Python process of Spark imports modules anew, so what reads of tables do not need is imported later.
_MAX_OPEN: Final = 64
_opened: Entries[Source] = PROCESS.part(_MAX_OPEN).entries(CacheKind.OPEN_TABLES)


@dataclass(frozen=True, slots=True)
class SourceRef:
    """A reference to one version of a table or a namespace, which any process can open.

    Attributes
    ----------
    identity
        The identity of the manifest: a table that is dropped and created again has the same version numbers.
    storage
        Options for the fsspec filesystem; no message shows them.
    """

    uri: str
    version: int
    branch: str | None
    identity: tuple[object, ...]
    is_namespace: bool
    storage: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, source: Source, options: SourceOptions) -> SourceRef:
        """Return the reference to an open table or namespace."""
        namespace = source.namespace
        if namespace is not None:
            return cls.of_manifest(namespace.manifest, options)
        return cls(
            options.path,
            source.version,
            source.branch or "main",
            _identity(source),
            is_namespace=False,
            storage=options.storage,
        )

    @classmethod
    def of_manifest(cls, manifest: NamespaceManifest, options: SourceOptions) -> SourceRef:
        """Return the reference to the version of a namespace with this manifest."""
        return cls(
            options.path,
            manifest.version,
            None,
            identity(manifest.table.manifest_file),
            is_namespace=True,
            storage=options.storage,
        )

    @property
    def location(self) -> Location:
        """The folder of the table or namespace."""
        return open_location(self.uri, dict(self.storage) or None)

    def open(self) -> Source:
        """Open the version, once per process.

        Raises
        ------
        NotFoundError
            The version no longer exists, or the table was created again.
        """
        keep_imports()
        location = self.location
        key = location.identity, self.version, self.branch, self.is_namespace, self.identity
        return _opened.get(key, lambda: self._open(location), attrgetter("num_bytes"))

    def open_table(self) -> Table:
        """Open a table as `open` does. Raises TypeError for a namespace."""
        if self.is_namespace:
            raise TypeError(f"{self.uri}: is a namespace, expected a table")
        return self.open().committed_table

    def open_namespace(self) -> NamespaceSnapshot:
        """Open a namespace as `open` does. Raises TypeError for a table."""
        namespace = self.open().namespace
        if namespace is None:
            raise TypeError(f"{self.uri}: is a table, expected a namespace")
        return namespace

    def check(self, source: Source) -> None:
        """Check that a table or namespace opened at this version is the referenced one.

        Raises
        ------
        VersionNotFoundError
            The referenced one was dropped, and another one was created in its place.
        """
        if _identity(source) != self.identity:
            raise VersionNotFoundError(
                f"{self.uri}: version {self.version} is not the version that was opened, because it was "
                "dropped and created again; read it again"
            )

    def _open(self, location: Location) -> Source:
        source: Source
        if self.is_namespace:
            from lance_df.namespace.snapshot import NamespaceSnapshot

            source = NamespaceSnapshot.open(location, self.version)
        else:
            source = open_table(
                self.uri,
                version=self.version,
                branch=self.branch,
                storage_options=dict(self.storage) or None,
            )
        self.check(source)
        return source


def _identity(source: Source) -> tuple[object, ...]:
    return identity(source.committed_table.manifest_file)


def open_source(options: SourceOptions) -> Source:
    """Open the partitioned namespace or table at a path, at the newest version by default.

    Raises
    ------
    DatasetNotFoundError, VersionNotFoundError
        The path holds neither a table nor a namespace, or the version does not exist.
    InvalidInputError
        The options name a branch or tag of a namespace, which has none.
    """
    keep_imports()
    location = open_location(options.path, options.storage or None)
    if not _holds_namespace(location):
        return open_table(
            options.path,
            version=options.version,
            branch=options.branch,
            storage_options=options.storage or None,
        )
    if options.branch is not None or isinstance(options.version, str):
        raise InvalidInputError(
            f"{location.uri}: a namespace has no branches or tags; use the option version"
        )
    from lance_df.namespace.snapshot import NamespaceSnapshot

    return NamespaceSnapshot.open(location, options.version)


def _holds_namespace(location: Location) -> bool:
    if not (location / MANIFEST_FOLDER / VERSIONS_DIR).exists():
        return False
    from lance_df.namespace.snapshot import holds_namespace

    return holds_namespace(location)
