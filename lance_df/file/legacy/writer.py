"""Write one 0.1 file: pages batch by batch, then the page table, statistics, dictionaries and metadata."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.legacy.encode import encode_column
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.file.legacy.dictionary_writer import DictionaryKeys, check_dictionaries, write_dictionaries
from lance_df.file.legacy.statistics_writer import StatisticsCollector, one_batch
from lance_df.file.texts import check_texts
from lance_df.file.v2.writer import WrittenFile
from lance_df.format.legacy_metadata import (
    LENGTH_BYTES,
    LegacyMetadata,
    LegacyStatisticsInfo,
    serialize_embedded_schema,
    serialize_legacy_footer,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.encodings.legacy.encode import FieldPages
    from lance_df.format.schema import Schema
    from lance_df.storage.sink import ByteSink

# encoded in one go
_STEP_ROWS = 64 * 1024
_MAX_ROWS = 2**31 - 1


class LegacyFileWriter:
    """Splits rows into batches of equal size, and writes each batch as soon as it is full."""

    def __init__(
        self,
        sink: ByteSink,
        schema: Schema,
        *,
        rows_per_group: int = 1024,
        dictionaries: dict[int, pa.Array] | None = None,
    ) -> None:
        """Start a file.

        Parameters
        ----------
        sink
            An empty sink; closed by :meth:`finish`, removed by :meth:`abort`.
        schema
            The fields, with the ids that the table assigned.
        rows_per_group
            The number of rows of a batch; the last batch may have fewer.
        dictionaries
            The values of dictionary columns by field id, which all files of a table share. If neither the
            schema nor this has values for a column, they are collected here from the rows, for the table.

        Raises
        ------
        InvalidInputError
            The schema has a dictionary column without values, and ``dictionaries`` is None.
        """
        if dictionaries is None:
            try:
                check_dictionaries(schema)
            except InvalidInputError:
                sink.abort()
                raise
        self.num_rows = 0
        self._sink = sink
        self._schema = schema
        self._rows_per_group = rows_per_group
        self._keys = DictionaryKeys(schema, {} if dictionaries is None else dictionaries)
        self._pages = _PageWriter(sink)
        self._statistics = StatisticsCollector(schema)
        self._pending: list[Sequence[pa.Array]] = []
        self._num_pending = 0
        self._batch_lengths: list[int] = []

    @property
    def position(self) -> int:
        """The number of bytes in the file so far."""
        return self._sink.position

    def has_room(self, arrays: Sequence[pa.Array]) -> bool:  # noqa: ARG002 - each table has one dictionary
        """Return True: rows that this file cannot take, no other file of the table can take either."""
        return True

    def write_batch(self, arrays: Sequence[pa.Array]) -> None:
        """Add rows: one array of storage type for each field of the schema, all of the same length.

        Raises
        ------
        InvalidInputError
            The arrays do not fit the schema, a null is not allowed, a string is not UTF-8, the table's
            dictionary lacks a value, or there are more rows than a 0.1 file can count.
        StorageError
            The store failed.
        """
        if len(arrays) != len(self._schema.fields) or len({len(array) for array in arrays}) > 1:
            raise InvalidInputError(
                f"expected {len(self._schema.fields)} arrays of the same length, got the lengths "
                f"{[len(array) for array in arrays]}"
            )
        check_texts(self._schema.fields, arrays, has_null_structs=False)
        num_rows = len(arrays[0]) if arrays else 0
        if self.num_rows + num_rows > _MAX_ROWS:
            raise InvalidInputError(f"a 0.1 file holds at most {_MAX_ROWS} rows")
        self.num_rows += num_rows
        for start in range(0, num_rows, _STEP_ROWS):
            part = [array.slice(start, _STEP_ROWS) for array in arrays]
            self._pending.append(part)
            self._num_pending += len(part[0])
            if self._num_pending >= self._rows_per_group:
                self._write_groups(self._num_pending // self._rows_per_group * self._rows_per_group)

    def add_global_buffer(self, data: bytes) -> int:
        """Raise `UnsupportedFeatureError`: 0.1 files have no such buffers."""
        raise UnsupportedFeatureError(f"0.1 files cannot store global buffers; got one of {len(data)} bytes")

    def finish(self) -> WrittenFile:
        """Write pending rows and the metadata, and make the file durable."""
        self._write_groups(self._num_pending)
        ids = sorted(field.id for field in self._schema.walk())
        page_table = self._pages.write_table(ids, len(self._batch_lengths))
        statistics = self._write_statistics()
        embedded = self._write_schema()
        metadata = LegacyMetadata(
            manifest_position=embedded,
            batch_starts=np.concatenate([[0], np.cumsum(self._batch_lengths, dtype=np.int64)]),
            page_table_position=page_table,
            statistics=statistics,
        )
        self._sink.write(serialize_legacy_footer(self._write_block(metadata.serialize())))
        self._sink.close()
        return WrittenFile(
            num_rows=self.num_rows,
            size_bytes=self._sink.position,
            version="0.1",
            fields=tuple(ids),
            column_indices=(),
        )

    def flush(self) -> None:
        """Do nothing: batches have a fixed number of rows, so pending rows wait for more."""

    def abort(self) -> None:
        """Remove the unfinished file."""
        self._sink.abort()

    def _write_groups(self, num_rows: int) -> None:
        """Write the first ``num_rows`` pending rows as batches."""
        if not num_rows:
            return
        bounds = np.append(np.arange(0, num_rows, self._rows_per_group), num_rows)
        columns: list[FieldPages] = []
        rest: list[pa.Array] = []
        for field, *parts in zip(self._schema.fields, *self._pending, strict=True):
            coded = [self._keys.recode(field, part) for part in parts]
            if len(coded) > 1:  # a later part may have added values
                coded = [self._keys.recode(field, part) for part in coded]
            array = coded[0] if len(coded) == 1 else pa.concat_arrays(coded)
            rest.append(array.slice(num_rows))
            array = array.slice(0, num_rows)
            self._statistics.add(field, array, bounds)
            columns.extend(encode_column(field, array, bounds))
        self._pages.write(columns, len(bounds) - 1)
        self._batch_lengths.extend(np.diff(bounds).tolist())
        self._num_pending -= num_rows
        self._pending = [rest] if self._num_pending else []

    def _write_statistics(self) -> LegacyStatisticsInfo | None:
        collected = self._statistics.finish()
        if collected is None:
            return None
        schema, arrays = collected
        pages = _PageWriter(self._sink)
        for field, array in zip(schema.fields, arrays, strict=True):
            pages.write(list(encode_column(field, array, one_batch(len(array)))), 1)
        return LegacyStatisticsInfo(schema, pages.write_table([f.id for f in schema.walk()], 1))

    def _write_schema(self) -> int:
        schema = self._schema.with_dictionaries(self._keys.finish())
        if not self._sink.position:
            self._sink.write(b"\0")  # position 0 would mean that there is no schema
        content, fields = write_dictionaries(schema.fields, self._sink.position)
        self._sink.write(content)
        return self._write_block(serialize_embedded_schema(dataclasses.replace(schema, fields=fields)))

    def _write_block(self, message: bytes) -> int:
        position = self._sink.position
        self._sink.write(len(message).to_bytes(LENGTH_BYTES, "little") + message)
        return position


class _PageWriter:
    """Writes pages, and records their positions for the page table."""

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink
        self._entries: dict[int, list[tuple[int, int]]] = {}

    def write(self, columns: Sequence[FieldPages], num_batches: int) -> None:
        """Write all batches without padding; each batch has one page of every field."""
        position = self._sink.position
        for batch in range(num_batches):
            parts: list[memoryview] = []
            for field_id, pages in columns:
                page = pages[batch]
                parts.append(page.data.data)
                end = position + page.data.nbytes
                if page.offsets is not None:
                    parts.append((page.offsets + position).astype("<i8").view(np.uint8).data)
                    position = end
                    end += parts[-1].nbytes
                self._entries.setdefault(field_id, []).append((position, page.count))
                position = end
            self._sink.write(b"".join(parts))

    def write_table(self, field_ids: Sequence[int], num_batches: int) -> int:
        """Write the page table for all ids from the smallest to the largest; return its position."""
        position = self._sink.position
        low, high = min(field_ids, default=0), max(field_ids, default=-1)
        table = np.zeros((high - low + 1, num_batches, 2), "<i8")
        for field_id, entries in self._entries.items():
            table[field_id - low] = entries
        self._sink.write(table.tobytes())
        return position
