"""Tables and namespaces at fixed versions, opened once in a process: Spark uses its Python workers again."""

from __future__ import annotations

from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from lance_df.cache import PROCESS, CacheKind, Entries
from lance_df.errors import InvalidInputError, VersionNotFoundError
from lance_df.namespace.kind import namespace_of
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

# Each process of Spark imports what it needs anew: what reads of tables do without waits until it is needed.
_MAX_OPEN: Final = 64
_opened: Entries[Source] = PROCESS.part(_MAX_OPEN).entries(CacheKind.OPEN_TABLES)


@dataclass(frozen=True, slots=True)
class SourceRef:
    """One version of a table or of a namespace, wherever it is opened.

    Attributes
    ----------
    identity
        Of its manifest: a table that is dropped and created again has versions of the same numbers.
    storage
        For the fsspec filesystem; shows up in no message.
    """

    uri: str
    version: int
    branch: str | None
    identity: tuple[object, ...]
    is_namespace: bool
    storage: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, source: Source, options: SourceOptions) -> SourceRef:
        """Return what names an open table or namespace."""
        namespace = namespace_of(source)
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
        """Return what names a version of a namespace."""
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
        """Its folder."""
        return open_location(self.uri, dict(self.storage) or None)

    def open(self) -> Source:
        """Open it, once in a process.

        Raises
        ------
        NotFoundError
            There is no such version any more, or it is another one.
        """
        keep_imports()
        location = self.location
        key = location.identity, self.version, self.branch, self.is_namespace, self.identity
        return _opened.get(key, lambda: self._open(location), attrgetter("num_bytes"))

    def open_table(self) -> Table:
        """Open a table, as `open`. Raises TypeError for a namespace."""
        if self.is_namespace:
            raise TypeError(f"{self.uri}: a namespace, where a table is needed")
        return self.open().committed_table

    def open_namespace(self) -> NamespaceSnapshot:
        """Open a namespace, as `open`. Raises TypeError for a table."""
        namespace = namespace_of(self.open())
        if namespace is None:
            raise TypeError(f"{self.uri}: a table, where a namespace is needed")
        return namespace

    def check(self, source: Source) -> None:
        """Check that a table or namespace, as it was opened at this version, is the one that this names.

        Raises
        ------
        VersionNotFoundError
            It was dropped, and another one was created in its place.
        """
        if _identity(source) != self.identity:
            raise VersionNotFoundError(
                f"{self.uri}: version {self.version} is not the one that was opened: it was dropped and "
                "created again since; read it again"
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
    """Open what a path names: a partitioned namespace or a table, at the newest version by default.

    Raises
    ------
    DatasetNotFoundError, VersionNotFoundError
        There is neither a table nor a namespace, or no such version.
    InvalidInputError
        A namespace has no branches and tags.
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
        raise InvalidInputError(f"{location.uri}: a namespace has no branches and tags; use option version")
    from lance_df.namespace.snapshot import NamespaceSnapshot

    return NamespaceSnapshot.open(location, options.version)


def _holds_namespace(location: Location) -> bool:
    if not (location / MANIFEST_FOLDER / VERSIONS_DIR).exists():
        return False
    from lance_df.namespace.snapshot import holds_namespace

    return holds_namespace(location)
