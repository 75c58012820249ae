"""List the versions of one branch, and open their manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    VersionNotFoundError,
)
from lance_df.records import as_integer
from lance_df.storage.source import BytesSource
from lance_df.table.metadata.external_store import StoredManifest, latest_stored, open_stored, stored
from lance_df.table.metadata.manifest_cache import LATEST
from lance_df.table.metadata.manifest_io import ManifestFile, read_manifest
from lance_df.table.metadata.versions import (
    DETACHED,
    VERSIONS_DIR,
    LatestManifest,
    NamingScheme,
    VersionListing,
    find_latest,
    list_versions,
)
from lance_df.table.parallel import map_reads, read_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_df.storage import ByteSource, Location
    from lance_df.table.metadata.external_store import ExternalManifestStore

_MAX_VERSION = 2**64 - 1


def version_sources(tables: Sequence[tuple[Location, int]]) -> Iterator[ByteSource]:
    """Open the manifest file of one version of each of many tables in one store.

    Raises
    ------
    NotFoundError
        There is no such table or version.
    """
    files = [table / f"{VERSIONS_DIR}/{NamingScheme.V2.file_name(version)}" for table, version in tables]
    if files and files[0].is_local:
        for file, (table, version) in zip(files, tables, strict=True):
            try:
                source = file.open_whole()
            except NotFoundError:
                source = History(table).source(version)
            yield source
        return
    contents = list(zip(tables, files, read_files(files), strict=True))
    # these may have file names of the other scheme
    missing = [table for table, _, content in contents if isinstance(content, LanceError)]
    others = iter(map_reads(lambda each: History(each[0]).source(each[1]), missing, where=files[0]))
    for _, file, content in contents:
        yield next(others) if isinstance(content, LanceError) else BytesSource(file.uri, content)


class History:
    """Finds and opens the manifests of one table or branch. Caches nothing, so answers are always current.

    Parameters
    ----------
    location
        The root of the table or of a branch.
    external_store
        Asked before the folder is listed, if there is one.
    """

    def __init__(self, location: Location, external_store: ExternalManifestStore | None = None) -> None:
        self.location = location
        self._external_store = external_store
        self._scheme = NamingScheme.V2  # assumed until a listing shows another one

    def listing(self) -> VersionListing:
        """List the versions that have a final manifest.

        Raises
        ------
        DatasetNotFoundError
            There is none.
        """
        listing = list_versions(self.location)
        if not listing.entries:
            raise self._nothing_here()
        return listing

    def numbers(self) -> list[int]:
        """Return the attached versions, ascending."""
        numbers = set(list_versions(self.location).entries)
        if (latest := self._stored_latest()) is not None:
            numbers.add(latest.version)
        if not numbers:
            raise self._nothing_here()
        return sorted(numbers)

    def latest_version(self) -> int:
        """Return the highest version."""
        latest = self._stored_latest()
        if latest is not None:
            return latest.version
        return self._listed_latest().version

    def open_latest(self) -> ManifestFile:
        """Open the manifest of the highest version.

        Raises
        ------
        DatasetNotFoundError
            There is no version.
        """
        return LATEST.read(self.latest_source())

    def latest_source(self, known: ByteSource | None = None) -> ByteSource:
        """Open the file of the highest version without parsing it; see :meth:`open_latest`.

        Return ``known`` itself, without reading, if the store's listing shows that it has not changed.
        """
        gone = None
        while True:
            latest = self._stored_latest() or self._listed_latest()
            try:
                if isinstance(latest, StoredManifest):
                    return open_stored(self.location, latest)
                return latest.open(self.location, known)
            except NotFoundError:
                # it was removed after newer versions were made
                if latest.version == gone:
                    raise
                gone = latest.version

    def open(self, version: int) -> ManifestFile:
        """Open the manifest of one version, attached or detached.

        Raises
        ------
        VersionNotFoundError
            There is no such version; the message lists those that exist.
        DatasetNotFoundError
            The table has no versions.
        """
        return read_manifest(self.source(version))

    def source(self, version: int) -> ByteSource:
        """Open the file of one version; see :meth:`open`."""
        number = as_integer(version)
        if number is None or not 0 <= number <= _MAX_VERSION:
            raise InvalidInputError(f"a version must be a number from 1 to {_MAX_VERSION}, got {version!r}")
        return self._source(number)

    def open_all(self) -> list[tuple[int, ManifestFile]]:
        """Open the manifests of all attached versions in ascending order, except those deleted meanwhile."""

        def opened(version: int) -> tuple[int, ManifestFile] | None:
            try:
                return version, self.open(version)
            except VersionNotFoundError:
                return None

        infos = map_reads(opened, self.numbers(), where=self.location)
        return [each for each in infos if each is not None]

    def _source(self, version: int) -> ByteSource:
        if self._external_store is not None and not version & DETACHED:
            known = stored(self._external_store, self.location, version)
            if known is not None:
                return open_stored(self.location, known)
        for scheme in (self._scheme, *(other for other in NamingScheme if other is not self._scheme)):
            try:
                source = (self.location / VERSIONS_DIR / scheme.file_name(version)).open_whole()
            except NotFoundError:
                continue
            if not version & DETACHED:
                self._scheme = scheme
            return source
        if self.location.is_on_web_server:
            raise VersionNotFoundError(
                f"{self.location.uri}: version {version} does not exist, or there is no table"
            )
        raise VersionNotFoundError(
            f"{self.location.uri}: version {version} does not exist; {self.listing().describe()}"
        )

    def _stored_latest(self) -> StoredManifest | None:
        if self._external_store is None:
            return None
        return latest_stored(self._external_store, self.location)

    def _listed_latest(self) -> LatestManifest:
        latest = find_latest(self.location)
        if latest is None:
            raise self._nothing_here()
        self._scheme = latest.scheme
        return latest

    def _nothing_here(self) -> DatasetNotFoundError:
        if not self.location.exists():
            return DatasetNotFoundError(f"{self.location.uri}: table does not exist")
        return DatasetNotFoundError(
            f"{self.location.uri}: not a Lance table, there is no manifest in {VERSIONS_DIR}"
        )
