"""The state that all versions of a table share: the location of its root, and its cache."""

from __future__ import annotations

from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING

from lance_df.cache import CacheKind, TableCache
from lance_df.errors import CorruptDataError, NotFoundError
from lance_df.file.open import open_file
from lance_df.records import dataclass
from lance_df.table.metadata.history import History
from lance_df.table.metadata.refs import branch_location
from lance_df.table.reading.cached_dictionaries import CachedDictionaries
from lance_df.table.reading.observed import ObservedStatistics
from lance_df.table.reading.small_columns import SmallColumns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyroaring import BitMap

    from lance_df.cache import Entries
    from lance_df.file.reader import FileReader
    from lance_df.format.fragments import DataFile
    from lance_df.format.schema import Field
    from lance_df.storage import ByteSource, Location
    from lance_df.table.commit.lock import CommitLock
    from lance_df.table.metadata.external_store import ExternalManifestStore
    from lance_df.table.scan.small_fragments import JoinedFiles


@dataclass(frozen=True, slots=True)
class Shared:
    """The state that all versions of a table share: the location of its root, and its cache."""

    root: Location
    external_store: ExternalManifestStore | None = None
    commit_lock: CommitLock | None = None
    cache: TableCache = field(default_factory=TableCache, repr=False)
    observed: ObservedStatistics = field(init=False, repr=False, compare=False)
    dictionaries: CachedDictionaries = field(init=False, repr=False, compare=False)
    small_columns: SmallColumns = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Create the members that use the cache."""
        object.__setattr__(self, "observed", ObservedStatistics(self.cache))
        object.__setattr__(self, "dictionaries", CachedDictionaries(self.cache))
        object.__setattr__(self, "small_columns", SmallColumns(self.cache))

    @property
    def data_files(self) -> Entries[FileReader]:
        """Open data files."""
        return self.cache.entries(CacheKind.DATA_FILES)

    @property
    def joined_files(self) -> Entries[JoinedFiles | None]:
        """Small data files that are read together; None for those that cannot be."""
        return self.cache.entries(CacheKind.JOINED_FILES)

    @property
    def deletion_vectors(self) -> Entries[BitMap]:
        """The deleted rows of fragments."""
        return self.cache.entries(CacheKind.DELETION_VECTORS)

    def history(self, branch: str | None) -> History:
        """Return the history of a branch."""
        return History(branch_location(self.root, branch), self.external_store)

    def open_data_file(
        self,
        location: Location,
        file: DataFile,
        *,
        manifest_source: ByteSource | None,
        stored_fields: Mapping[int, Field] | None,
    ) -> FileReader:
        """Return the shared reader of a data file; open the file if there is none yet.

        Parameters
        ----------
        manifest_source
            The manifest, which holds the dictionaries of a 0.1 file; None for other files.
        stored_fields
            The fields of that manifest by their ids; None for other files.

        Raises
        ------
        CorruptDataError
            The file is missing or damaged.
        """
        manifest_path = None if manifest_source is None else manifest_source.path
        key = (location.uri, file.size_bytes, file.fields, file.column_indices, manifest_path)
        return self.data_files.get(
            key, lambda: _open(location, file, manifest_source, stored_fields), attrgetter("footprint")
        )


def _open(
    location: Location,
    file: DataFile,
    manifest_source: ByteSource | None,
    stored_fields: Mapping[int, Field] | None,
) -> FileReader:
    try:
        source = location.open_sized(file.size_bytes) if file.size_bytes else location.open()
        if file.size_bytes not in (0, source.size):
            raise CorruptDataError(
                f"{location.uri}: the file has {source.size} bytes, but the manifest says {file.size_bytes}"
            )
        if manifest_source is not None:
            return open_file(
                source,
                field_ids=file.fields,
                dictionary_source=manifest_source,
                stored_fields=stored_fields,
            )
        return open_file(source, column_of=file.column_of())
    except NotFoundError as err:
        raise CorruptDataError(f"{location.uri}: this data file is missing") from err
