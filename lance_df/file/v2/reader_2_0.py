"""Read 2.0 data files."""

from __future__ import annotations

from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.leaf_values import is_variable
from lance_df.encodings.rows import checked_rows, joined_starts
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.file.footprints import COLUMN_BYTES, OPEN_PAGE_BYTES, PAGE_BYTES, footprint_of
from lance_df.file.io import named_errors, run_plans
from lance_df.file.read_options import ALL
from lance_df.file.v2.blobs_2_0 import DESCRIPTION_TYPE, BlobColumn
from lance_df.file.v2.columns_2_0 import (
    LeafColumn,
    ListColumn,
    ListedText,
    PackedColumn,
    StructColumn,
    holds_lists,
)
from lance_df.file.v2.pages_2_0 import ColumnPages
from lance_df.file.v2.read_ahead import read_ahead
from lance_df.file.v2.resident_column import forms_of, read_resident
from lance_df.format.blobs import is_blob_description
from lance_df.format.encodings_v2_0 import Blob, PackedStruct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lance_df.encodings.plan import Rows
    from lance_df.file.read_options import ReadOptions
    from lance_df.file.v2.columns_2_0 import Column
    from lance_df.file.v2.container import Container
    from lance_df.file.v2.joined_files import JoinedContainer
    from lance_df.file.v2.resident_column import ResidentColumn
    from lance_df.format.schema import Field, Schema


_BYTES = pa.large_list(pa.uint8())


class V2_0FileReader:  # noqa: N801 - the version is a name
    """A `FileReader` of a 2.0 file.

    Blob fields are read as bytes, or as descriptions if `format.blobs.blob_description` made the field.

    Parameters
    ----------
    container
        The open file.
    column_of
        Field id to column number; by default from the file's own schema.
    """

    version = "2.0"

    def __init__(
        self, container: Container | JoinedContainer, column_of: Mapping[int, int] | None = None
    ) -> None:
        self.path = container.path
        self.num_rows = container.num_rows
        self._container = container
        self.footprint = footprint_of(container.source)
        self._column_of = MappingProxyType(
            dict(_stored_columns(container) if column_of is None else column_of)
        )
        self._columns: dict[Field, Column] = {}

    @property
    def schema(self) -> Schema:
        return self._container.schema

    @property
    def column_of(self) -> Mapping[int, int]:
        return self._column_of

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
        rows = checked_rows(rows, self.num_rows)
        columns = self._open(fields)
        resident = [
            column.resident if options.resident_columns and isinstance(column, LeafColumn) else None
            for column in columns
        ]
        forms = forms_of(fields, keep_dictionaries=keep_dictionaries, views=views)
        arrays = read_resident(resident, rows, forms)
        planned = [index for index, array in enumerate(arrays) if array is None]
        if not planned:
            return arrays
        source = self._container.source
        leaves = {index: column for index in planned if isinstance(column := columns[index], LeafColumn)}
        if not source.is_memory_mapped:
            source = read_ahead(source, chain.from_iterable(leaf.ahead(rows) for leaf in leaves.values()))
        plans = [
            leaves[index].read(rows, options, forms[index])
            if index in leaves
            else columns[index].read(rows, options)
            for index in planned
        ]
        for index, array in zip(planned, run_plans(source, plans), strict=True):
            arrays[index] = array
        return arrays

    def resident_column(self, field: Field) -> ResidentColumn | None:
        """Return the reader of a leaf in memory. See `FileReader.resident_column`."""
        (column,) = self._open([field])
        return column.resident if isinstance(column, LeafColumn) else None

    def page_starts(self, fields: Sequence[Field]) -> npt.NDArray[np.int64]:
        """Return the rows at which pages start. See `FileReader`."""
        return joined_starts(column.page_starts() for column in self._open(fields))

    def column_bytes(self, column: int) -> int:
        """Return the stored bytes of a column. See `FileReader`."""
        return sum(self._container.column(column).page_bytes())

    def page_bytes(self, field: Field) -> list[tuple[int, int]]:
        """Return (first row, stored bytes) of each page. See `FileReader`."""
        (column,) = self._open([field])
        return column.page_bytes()

    def _open(self, fields: Sequence[Field]) -> list[Column]:
        missing = [field for field in fields if field not in self._columns]
        if not missing:
            return [self._columns[field] for field in fields]
        self._container.load_columns(
            self._column_of[node.id]
            for field in missing
            for node in field.walk()
            if node.id in self._column_of
        )
        for field in missing:
            with named_errors(f"{self.path}: column {field.name!r}"):
                field.arrow_type()  # refuses impossible types, so that `_build` can rely on the tree
            column = self._build(field)
            if column.num_rows != self.num_rows:
                raise CorruptDataError(
                    f"{self.path}: column {field.name!r} has {column.num_rows} rows, but the file has "
                    f"{self.num_rows}"
                )
            self._columns[field] = column
            num_pages = len(column.page_bytes())
            leaves = sum(1 for _ in field.walk())
            self.footprint.add(COLUMN_BYTES * leaves + (PAGE_BYTES + OPEN_PAGE_BYTES) * num_pages)
        return [self._columns[field] for field in fields]

    def _build(self, field: Field) -> Column:
        if field.is_list:
            (item,) = field.children
            return ListColumn(self._pages(field), field.arrow_type(), self._build(item))
        if field.is_blob and isinstance((pages := self._pages(field)).column_encoding, Blob):
            descriptions = LeafColumn(pages, DESCRIPTION_TYPE)
            if is_blob_description(field):
                return descriptions
            return BlobColumn(descriptions, self._container.source.size)
        if field.is_struct:
            return self._build_struct(field)
        if field.children:
            raise UnsupportedFeatureError(
                f"{self.path}: column {field.name!r}: columns of type {field.logical_type} are not "
                "supported in 2.0 files"
            )
        return self._build_leaf(field)

    def _build_leaf(self, field: Field) -> Column:
        pages, data_type = self._pages(field), field.arrow_type()
        if not (is_variable(data_type) and holds_lists(pages)):
            return LeafColumn(pages, data_type)
        # the bytes are in a column that belongs to no field
        items = ColumnPages(self._container, self._column_of[field.id] + 1, field.name)
        return ListedText(data_type, ListColumn(pages, _BYTES, LeafColumn(items, _BYTES.value_type)))

    def _build_struct(self, field: Field) -> Column:
        header = self._pages(field) if field.id in self._column_of else None
        if header is not None and self._is_packed(field, header):
            return self._build_packed(field, header)
        children = [self._build(child) for child in field.children]
        counts = {child.num_rows for child in children} or {0 if header is None else header.num_rows}
        if len(counts) > 1:
            raise CorruptDataError(
                f"{self.path}: the children of {field.name!r} have different numbers of rows: "
                f"{sorted(counts)}"
            )
        return StructColumn(field.arrow_type(), counts.pop(), children)

    def _is_packed(self, field: Field, header: ColumnPages) -> bool:
        """Whether a struct is stored in one column; this depends on the file, not on the field's metadata."""
        if any(child.id not in self._column_of for child in field.children):
            return True
        return len(header) > 0 and isinstance(header.encoding(0), PackedStruct)

    def _build_packed(self, field: Field, pages: ColumnPages) -> Column:
        stored = next(
            (field_of_file for field_of_file in self.schema.walk() if field_of_file.id == field.id), field
        )
        index_of = {child.id: index for index, child in enumerate(stored.children)}
        if not all(child.id in index_of for child in field.children):
            raise CorruptDataError(
                f"{self.path}: packed column {field.name!r} does not store all of its children"
            )
        indices = [index_of[child.id] for child in field.children]
        with named_errors(f"{self.path}: column {field.name!r}"):
            data_type, stored_type = field.arrow_type(), stored.arrow_type()
        for index, child in zip(indices, data_type, strict=True):
            if stored_type.field(index).type != child.type:
                raise CorruptDataError(
                    f"{self.path}: packed column {field.name!r} stores {child.name!r} as "
                    f"{stored_type.field(index).type}, expected {child.type}"
                )
        return PackedColumn(data_type, LeafColumn(pages, stored_type), indices)

    def _pages(self, field: Field) -> ColumnPages:
        if field.id not in self._column_of:
            raise CorruptDataError(
                f"{self.path}: the file has no column for field {field.name!r} (id {field.id})"
            )
        return ColumnPages(self._container, self._column_of[field.id], field.name)


def _stored_fields(schema: Schema) -> Iterator[Field]:
    """Yield the fields that have columns of their own, depth first."""

    def below(field: Field) -> Iterator[Field]:
        yield field
        if not (field.is_packed or field.is_blob):
            for child in field.children:
                yield from below(child)

    for field in schema.fields:
        yield from below(field)


def _stored_columns(container: Container | JoinedContainer) -> dict[int, int]:
    """Return field id to column number of a file that holds its whole schema, depth first.

    If there are more columns than fields, texts may be stored as lists of bytes, which are two columns.
    """
    fields = list(_stored_fields(container.schema))
    if container.num_columns <= len(fields):
        return {field.id: column for column, field in enumerate(fields)}
    container.load_columns(range(container.num_columns))
    column_of: dict[int, int] = {}
    column = 0
    for field in fields:
        column_of[field.id] = column
        is_leaf = not (field.children or field.is_blob)
        is_listed = (
            is_leaf
            and column < container.num_columns
            and is_variable(field.arrow_type())
            and holds_lists(ColumnPages(container, column, field.name))
        )
        column += 2 if is_listed else 1
    return column_of
