"""Write small fragments, each in one piece; work that thousands of them share is done once."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from lance_df.file.texts import check_texts
from lance_df.file.v2.small_file import encode_small, field_ids, small_file
from lance_df.file.v2.writer import WrittenFile
from lance_df.format.file_tail import serialize_descriptor
from lance_df.format.fragments import Fragment
from lance_df.table.metadata.base_paths import DATA_DIR
from lance_df.table.writing.fragment_writer import data_file, data_file_name

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.format.schema import Schema
    from lance_df.storage import Location
    from lance_df.storage.unsynced import Unsynced

SMALL_BYTES: Final = 256 * 1024


class SmallFragments:
    """Writes fragments of one schema, in the same files as :func:`~.fragment_writer.fragments_written`.

    Parameters
    ----------
    schema
        A schema without blobs.
    version
        ``"2.1"`` or ``"2.2"``.
    """

    def __init__(self, schema: Schema, *, version: str) -> None:
        self._schema = schema
        self._version = version
        self._fields = tuple(field_id for field in schema.fields for field_id in field_ids(field))
        self._descriptor = lru_cache(maxsize=1024)(lambda num_rows: serialize_descriptor(schema, num_rows))

    def write(self, table: Location, rows: pa.RecordBatch, unsynced: Unsynced) -> Fragment:
        """Write at least one row, and at most `SMALL_BYTES`, into a new data file of a table.

        Parameters
        ----------
        rows
            Rows in the storage types of the schema.

        Raises
        ------
        InvalidInputError
            There is a null in a column that is not nullable, or a string that is not UTF-8.
        StorageError
            The store failed; no file is left.
        """
        check_texts(self._schema.fields, rows.columns)
        num_rows = rows.num_rows
        pages = []
        for field, array in zip(self._schema.fields, rows.columns, strict=True):
            pages += encode_small(field, array, version=self._version)
        content = small_file(self._descriptor(num_rows), pages, version=self._version)
        name = data_file_name()
        unsynced.put_new(table / DATA_DIR / name, content)
        written = WrittenFile(
            num_rows=num_rows,
            size_bytes=len(content),
            version=self._version,
            fields=self._fields,
            column_indices=tuple(range(len(self._fields))),
        )
        return Fragment(id=0, files=(data_file(name, written),), physical_rows=num_rows)
