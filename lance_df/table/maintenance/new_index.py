"""Write the files of a new index segment, one after the other, into a folder of its own."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lance_df.file.v2.writer import FileWriter
from lance_df.format.manifest import IndexMetadata
from lance_df.format.schema import schema_from_arrow
from lance_df.storage.sink import ByteSink
from lance_df.table.metadata.base_paths import INDICES_DIR

if TYPE_CHECKING:
    import pyarrow as pa
    from pyroaring import BitMap

    from lance_df.format.manifest import Manifest
    from lance_df.format.schema import Field
    from lance_df.storage import Location
    from lance_df.table.writing.uncommitted import UncommittedFiles


class NewIndexFile:
    """An index file that is being written: rows, schema metadata, and global buffers."""

    def __init__(self, writer: FileWriter) -> None:
        self._writer = writer
        self.metadata: dict[str, bytes] = {}

    def write(self, arrays: Sequence[pa.Array]) -> None:
        """Add rows: an array for each column."""
        self._writer.write_batch(arrays)

    def add_buffer(self, data: bytes) -> int:
        """Add a global buffer, and return its number."""
        return self._writer.add_global_buffer(data)


class NewIndex:
    """An index segment that is not part of a version yet.

    Parameters
    ----------
    table
        The root of the table or branch.
    manifest
        The version that the index is computed from.
    files
        Registers the folder before it is created.
    """

    def __init__(self, table: Location, manifest: Manifest, files: UncommittedFiles) -> None:
        self.uuid = uuid.uuid4()
        self._folder = table / INDICES_DIR / str(self.uuid)
        self._manifest = manifest
        # as in pylance, which has no index files of version 0.1
        self._version = "2.0" if manifest.data_format in (None, "0.1") else manifest.data_format
        self._sizes: dict[str, int] = {}
        files.add(str(self.uuid), self._remove)

    @property
    def sizes(self) -> tuple[tuple[str, int], ...]:
        """The names and sizes of the files, sorted by name."""
        return tuple(sorted(self._sizes.items()))

    @contextmanager
    def create(self, name: str, schema: pa.Schema) -> Iterator[NewIndexFile]:
        """Write a file; it is durable afterwards."""
        self._sizes[name] = 0
        writer = FileWriter(ByteSink(self._folder / name), schema_from_arrow(schema), version=self._version)
        try:
            file = NewIndexFile(writer)
            yield file
            self._sizes[name] = writer.finish(metadata=file.metadata).size_bytes
        except BaseException:
            writer.abort()
            raise

    def entry(
        self,
        field: Field,
        *,
        name: str,
        details_url: str,
        fragment_ids: BitMap,
        index_version: int,
        dataset_version: int | None = None,
    ) -> IndexMetadata:
        """Return the manifest entry of the segment, after its files are written."""
        return IndexMetadata(
            uuid=self.uuid,
            fields=(field.id,),
            name=name,
            dataset_version=self._manifest.version if dataset_version is None else dataset_version,
            fragment_bitmap=fragment_ids.serialize(),
            details_type_url=details_url,
            index_version=index_version,
            created_at_ms=time.time_ns() // 1_000_000,
            files=self.sizes,
        )

    def _remove(self) -> None:
        for name in self._sizes:
            (self._folder / name).remove()
        self._folder.remove_empty_folder()
