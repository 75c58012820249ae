"""Read 0.1 data files."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.rows import checked_rows
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.file.footprints import COLUMN_BYTES, PAGE_BYTES, footprint_of
from lance_df.file.io import named, named_errors, run_plans
from lance_df.file.legacy.columns import parts_of
from lance_df.file.legacy.dictionaries import DictionaryLoader
from lance_df.file.legacy.opening import build_column, load_metadata, load_schema
from lance_df.file.legacy.pages import PageTable
from lance_df.file.legacy.sizes import page_sizes
from lance_df.file.legacy.statistics import LegacyStatistics, StatisticsReader
from lance_df.file.read_options import ALL
from lance_df.file.tail import with_tail

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.file.legacy.columns import Column
    from lance_df.file.read_options import ReadOptions
    from lance_df.format.schema import Field, Schema
    from lance_df.storage import ByteSource


class LegacyFileReader:
    """A `FileReader` of a 0.1 file.

    Parameters
    ----------
    source
        The file.
    field_ids
        `DataFile.fields`; if None, the embedded manifest is used.
    dictionary_source
        The table's manifest file, if ``Field.dictionary`` of the fields to read refers to it. By default it
        refers to this file, as in the embedded manifest.
    stored_fields
        The fields of the table's manifest by their ids. They say how values are stored, also if fields to
        read differ from them: whether empty strings are null, and where dictionaries are. By default the
        fields to read say so.
    """

    version = "0.1"

    def __init__(
        self,
        source: ByteSource,
        *,
        field_ids: Sequence[int] | None = None,
        dictionary_source: ByteSource | None = None,
        stored_fields: Mapping[int, Field] | None = None,
    ) -> None:
        self._source = with_tail(source)
        self.footprint = footprint_of(self._source)
        self.path = source.path
        self._metadata = load_metadata(self._source)
        self.num_rows = self._metadata.num_rows
        ids = [field.id for field in self.schema.walk()] if field_ids is None else list(field_ids)
        self._column_of = {each: each for each in ids}
        self._pages = PageTable(
            self._source,
            self._metadata.page_table_position,
            min(ids, default=0) if field_ids is None else next(iter(ids), 0),
            max(ids, default=-1),
            self._metadata.num_batches,
        )
        self._dictionaries = DictionaryLoader(dictionary_source or self._source, self.footprint)
        self._stored_fields = stored_fields or {}
        self._columns: dict[Field, Column] = {}

    @cached_property
    def schema(self) -> Schema:
        return load_schema(self._source, self._metadata.manifest_position)

    @property
    def column_of(self) -> Mapping[int, int]:
        return self._column_of

    @property
    def batch_sizes(self) -> npt.NDArray[np.int64]:
        """The number of rows of each batch."""
        sizes: npt.NDArray[np.int64] = np.diff(self._metadata.batch_starts)
        return sizes

    def read(
        self,
        fields: Sequence[Field],
        rows: Rows,
        *,
        keep_dictionaries: bool = False,
        views: Collection[Field] = (),
        options: ReadOptions = ALL,
    ) -> list[pa.Array]:
        """Return one array for each field. See `FileReader`."""
        del keep_dictionaries, views, options
        rows = checked_rows(rows, self.num_rows)
        parts = parts_of(rows, self._metadata.batch_starts)
        columns = self._open(fields)
        plans: list[IoPlan[pa.Array]] = [
            named(f"{self.path}: column {field.name!r}", column.read(parts))
            for field, column in zip(fields, columns, strict=True)
        ]
        return run_plans(self._source, plans)

    def resident_column(self, field: Field) -> None:
        """Return None, since all rows are read by plans. See `FileReader.resident_column`."""

    def page_starts(self, fields: Sequence[Field]) -> npt.NDArray[np.int64]:
        """Return the rows at which batches start. See `FileReader`."""
        return self._metadata.batch_starts[:-1] if fields else self._metadata.batch_starts[:0]

    def column_bytes(self, column: int) -> int:
        """Return 0, since 0.1 files do not count bytes by column. See `FileReader`."""
        del column
        return 0

    def page_bytes(self, field: Field) -> list[tuple[int, int]]:
        """Return (first row, stored bytes) of each page. See `FileReader`."""
        sizes = self._page_sizes
        starts = self._metadata.batch_starts[:-1].tolist()
        return [
            page
            for node in field.walk()
            if node.id in sizes
            for page in zip(starts, sizes[node.id].tolist(), strict=True)
        ]

    @cached_property
    def _page_sizes(self) -> Mapping[int, npt.NDArray[np.int64]]:
        """The stored bytes of the pages of each field, by its id."""
        with named_errors(self.path):
            sizes = page_sizes(self.schema, self._pages)
        self.footprint.add(sum(each.nbytes for each in sizes.values()))
        return sizes

    def statistics(self, field: Field) -> LegacyStatistics | None:
        """Return the bounds of each batch of a field, or None if the file has none.

        Raises
        ------
        CorruptDataError
            The statistics are damaged.
        """
        return self._statistics.read(field)

    @cached_property
    def _statistics(self) -> StatisticsReader:
        return StatisticsReader(self._source, self._metadata)

    def _open(self, fields: Sequence[Field]) -> list[Column]:
        missing = [field for field in fields if field not in self._columns]
        self._pages.load(node.id for field in missing for node in field.walk())
        for field in missing:
            with named_errors(f"{self.path}: column {field.name!r}"):
                self._columns[field] = self._build(field)
                leaves = sum(1 for _ in field.walk())
                self.footprint.add(leaves * (COLUMN_BYTES + PAGE_BYTES * self._metadata.num_batches))
        return [self._columns[field] for field in fields]

    def _build(self, field: Field) -> Column:
        for node in field.walk():
            # structs store nothing, and lose their id when one of their children is cast
            if node.id not in self._column_of and not node.is_struct:
                raise CorruptDataError(
                    f"{self.path}: the file has no column for field {node.name!r} (id {node.id})"
                )
            if node.logical_type == "map" or (node.children and not (node.is_struct or node.is_list)):
                raise UnsupportedFeatureError(
                    f"columns of type {node.logical_type} are not supported in 0.1 files"
                )
        column = build_column(field, self._pages, self._dictionaries, self._stored_fields)
        self._check_counts(column)
        return column

    def _check_counts(self, column: Column) -> None:
        expected, actual = np.diff(self._metadata.batch_starts), column.num_values()
        if (expected != actual).any():
            batch = int((expected != actual).argmax())
            raise CorruptDataError(
                f"batch {batch} has {expected[batch]} rows, but the column has {actual[batch]} values"
            )
