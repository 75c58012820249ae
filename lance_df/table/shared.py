"""What all versions of a table have in common: where its root is, and what was opened already."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from lance_df.errors import CorruptDataError, NotFoundError
from lance_df.file.open import open_file
from lance_df.file.tail import TAIL_BYTES
from lance_df.records import dataclass
from lance_df.storage.source import SMALL_FILE_BYTES
from lance_df.table.caches import LruCache
from lance_df.table.history import History
from lance_df.table.kept_dictionaries import KeptDictionaries
from lance_df.table.learned_bounds import LearnedBounds
from lance_df.table.learned_extremes import LearnedExtremes
from lance_df.table.limits import SCAN_LIMITS
from lance_df.table.refs import branch_location
from lance_df.table.small_columns import SmallColumns

if TYPE_CHECKING:
    from pyroaring import BitMap

    from lance_df.file.reader import FileReader
    from lance_df.format.fragments import DataFile
    from lance_df.storage import ByteSource, Location
    from lance_df.table.commit.lock import CommitLock
    from lance_df.table.external_store import ExternalManifestStore
    from lance_df.table.scan.small_fragments import JoinedFiles


@dataclass(frozen=True, slots=True)
class Shared:
    """What all versions of a table have in common: where its root is, and what was opened already."""

    root: Location
    external_store: ExternalManifestStore | None = None
    commit_lock: CommitLock | None = None
    readers: LruCache[FileReader] = field(
        default_factory=lambda: LruCache(SCAN_LIMITS.current.open_files), repr=False
    )
    joined: LruCache[JoinedFiles | None] = field(
        default_factory=lambda: LruCache(SCAN_LIMITS.current.joined_file_bytes), repr=False
    )
    bounds: LearnedBounds = field(default_factory=LearnedBounds, repr=False)
    extremes: LearnedExtremes = field(default_factory=LearnedExtremes, repr=False)
    dictionaries: KeptDictionaries = field(default_factory=KeptDictionaries, repr=False)
    small_columns: SmallColumns = field(default_factory=SmallColumns, repr=False)
    deletions: LruCache[BitMap] = field(
        default_factory=lambda: LruCache(SCAN_LIMITS.current.deletion_vectors), repr=False
    )

    def history(self, branch: str | None) -> History:
        """Return the history of a branch."""
        return History(branch_location(self.root, branch), self.external_store)

    def open_data_file(
        self, location: Location, file: DataFile, *, manifest_source: ByteSource | None
    ) -> FileReader:
        """Open a data file, or return its reader, which is shared.

        Parameters
        ----------
        manifest_source
            The manifest, which holds dictionaries of a 0.1 file; None for other files.

        Raises
        ------
        CorruptDataError
            The file is missing or damaged.
        """
        manifest_path = None if manifest_source is None else manifest_source.path
        key = (location.uri, file.size_bytes, file.fields, file.column_indices, manifest_path)
        in_memory = 0 if location.is_local or file.size_bytes > SMALL_FILE_BYTES else file.size_bytes
        return self.readers.get(
            key, lambda: _open(location, file, manifest_source), weight=1 + in_memory // TAIL_BYTES
        )


def _open(location: Location, file: DataFile, manifest_source: ByteSource | None) -> FileReader:
    try:
        source = location.open_sized(file.size_bytes) if file.size_bytes else location.open()
        if file.size_bytes not in (0, source.size):
            raise CorruptDataError(
                f"{location.uri}: the file has {source.size} bytes, its table says {file.size_bytes}"
            )
        if manifest_source is not None:
            return open_file(source, field_ids=file.fields, dictionary_source=manifest_source)
        return open_file(source, column_of=file.column_of())
    except NotFoundError as err:
        raise CorruptDataError(f"{location.uri}: this data file is missing") from err
