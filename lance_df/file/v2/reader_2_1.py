"""Read 2.1 and 2.2 files."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.levels.merge import merge
from lance_df.encodings.levels.shape import Leaf, leaves, shape_of
from lance_df.encodings.loaded_page import Form
from lance_df.encodings.plan import RowRange
from lance_df.encodings.rows import joined_starts
from lance_df.errors import InvalidInputError
from lance_df.file.blobs.reader import fetch_blobs
from lance_df.file.footprints import COLUMN_BYTES, PAGE_BYTES, footprint_of
from lance_df.file.io import named, named_errors, run_plans
from lance_df.file.read_options import ALL
from lance_df.file.v2.columns_2_1 import Column
from lance_df.file.v2.read_ahead import read_ahead
from lance_df.file.v2.resident_column import forms_of, read_resident

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from lance_df.encodings.levels.shape import Shape
    from lance_df.encodings.plan import Rows
    from lance_df.file.read_options import ReadOptions
    from lance_df.file.v2.container import Container
    from lance_df.file.v2.joined_files import JoinedContainer
    from lance_df.file.v2.resident_column import ResidentColumn
    from lance_df.format.schema import Field, Schema


class V2_1FileReader:  # noqa: N801 - the version's name
    """Reads rows of the columns of one 2.1 or 2.2 file. See `lance_df.file.reader.FileReader`.

    Parameters
    ----------
    container
        The open file.
    column_of
        Field id to column number; by default from the file's own schema.
    """

    def __init__(
        self, container: Container | JoinedContainer, column_of: Mapping[int, int] | None = None
    ) -> None:
        self._container = container
        self.footprint = footprint_of(container.source)
        self.path = container.path
        self.version = container.version
        self.num_rows = container.num_rows
        self._column_of = (
            _number_columns(container.schema, container.num_columns)
            if column_of is None
            else {field: column for field, column in column_of.items() if column >= 0}
        )
        self._stored_fields: dict[int, Field] | None = None
        self._shapes: dict[Field, Shape] = {}
        self._resident: dict[Field, ResidentColumn | None] = {}
        self._columns: dict[tuple[int, pa.DataType], Column] = {}

    @property
    def schema(self) -> Schema:
        """The schema that is stored in the file."""
        return self._container.schema

    @property
    def column_of(self) -> Mapping[int, int]:
        """Field id to column number; fields without a column of their own are left out."""
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
        """Return one array for each field. See `FileReader.read`."""
        self._check_rows(rows)
        forms = forms_of(fields, keep_dictionaries=keep_dictionaries, views=views)
        columns = self._resident_columns(fields) if options.resident_columns else [None] * len(fields)
        arrays = read_resident(columns, rows, forms)
        planned = [index for index, array in enumerate(arrays) if array is None]
        if not planned:
            return arrays
        rest = self._read_planned(
            [fields[index] for index in planned], rows, [forms[index] for index in planned], options
        )
        for index, array in zip(planned, rest, strict=True):
            arrays[index] = array
        return arrays

    def resident_column(self, field: Field) -> ResidentColumn | None:
        """Return the reader of a leaf in memory. See `FileReader.resident_column`."""
        return self._resident_columns([field])[0]

    def _resident_columns(self, fields: Sequence[Field]) -> list[ResidentColumn | None]:
        """Return the readers of leaves that can be read without a plan, and None for other fields."""
        missing = [field for field in fields if field not in self._resident]
        if missing:
            shapes = {field: self._shape(field) for field in missing}
            tops = [shape for shape in shapes.values() if isinstance(shape, Leaf)]
            columns = iter(self._open_columns(tops))
            for field, shape in shapes.items():
                is_plain = isinstance(shape, Leaf) and not field.is_blob
                column = next(columns) if isinstance(shape, Leaf) else None
                self._resident[field] = column.resident if column is not None and is_plain else None
        return [self._resident[field] for field in fields]

    def _read_planned(
        self, fields: Sequence[Field], rows: Rows, forms: Sequence[Form], options: ReadOptions
    ) -> list[pa.Array]:
        shapes = [self._shape(field) for field in fields]
        needed = [
            (leaf, form if leaf is shape else Form.PLAIN)
            for shape, form in zip(shapes, forms, strict=True)
            for leaf in leaves(shape)
        ]
        columns = self._open_columns([leaf for leaf, _ in needed])
        stored = [
            (leaf, form, column)
            for (leaf, form), column in zip(needed, columns, strict=True)
            if not leaf.is_empty_struct
        ]
        source = self._container.source
        if not source.is_memory_mapped:
            source = read_ahead(
                source, chain.from_iterable(column.ahead(leaf, rows) for leaf, _, column in stored)
            )
        plans = [column.read(leaf, rows, options, form) for leaf, form, column in stored]
        parts = iter(run_plans(source, plans))
        paths = [None if leaf.is_empty_struct else next(parts) for leaf, _ in needed]
        arrays, position = [], 0
        for field, shape in zip(fields, shapes, strict=True):
            stop = position + sum(1 for _ in leaves(shape))
            with named_errors(f"{self.path}: column {field.name!r}"):
                arrays.append(merge(shape, paths[position:stop], len(rows)))
            position = stop
        return [self._with_blobs(field, array) for field, array in zip(fields, arrays, strict=True)]

    def _with_blobs(self, field: Field, array: pa.Array) -> pa.Array:
        """Replace the descriptions of blobs by their bytes where those are requested."""
        if not any(node.is_blob and node.logical_type == "large_binary" for node in field.walk()):
            return array
        if field.is_struct:
            children = [self._with_blobs(child, array.field(i)) for i, child in enumerate(field.children)]
            fields = [
                pa.field(child.name, values.type, child.nullable)
                for child, values in zip(field.children, children, strict=True)
            ]
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
        source = self._container.source
        plan = named(f"{self.path}: column {field.name!r}", fetch_blobs(array, source.size))
        (blobs,) = run_plans(source, [plan])
        return blobs

    def page_starts(self, fields: Sequence[Field]) -> npt.NDArray[np.int64]:
        """Return the ascending row numbers at which a page of a leaf of ``fields`` starts."""
        needed = [leaf for field in fields for leaf in leaves(self._shape(field))]
        return joined_starts(
            column.row_starts[:-1] // leaf.page_rows_per_row
            for leaf, column in zip(needed, self._open_columns(needed), strict=True)
        )

    def column_bytes(self, column: int) -> int:
        """Return the stored bytes of a column. See `FileReader`."""
        return sum(self._container.column(column).page_bytes())

    def page_bytes(self, field: Field) -> list[tuple[int, int]]:
        """Return (first row, stored bytes) of every page of the leaves of ``field``."""
        needed = list(leaves(self._shape(field)))
        return [
            (start // leaf.page_rows_per_row, num_bytes)
            for leaf, column in zip(needed, self._open_columns(needed), strict=True)
            for start, num_bytes in zip(column.row_starts.tolist(), column.page_bytes, strict=False)
        ]

    def _shape(self, field: Field) -> Shape:
        shape = self._shapes.get(field)
        if shape is None:
            with named_errors(self.path):
                shape = shape_of(field, lambda node: self._column_of.get(node.id), self._stored_field)
            self._shapes[field] = shape
        return shape

    def _stored_field(self, field_id: int) -> Field | None:
        if self._stored_fields is None:
            self._stored_fields = self.schema.by_id()
        return self._stored_fields.get(field_id)

    def _open_columns(self, needed: Sequence[Leaf]) -> list[Column]:
        keys = [(leaf.column, leaf.stored_type) for leaf in needed]
        self._container.load_columns([column for column, _ in keys])
        for leaf, key in zip(needed, keys, strict=True):
            if key not in self._columns:
                column = self._columns[key] = Column(self._container, leaf, self.footprint)
                self.footprint.add(COLUMN_BYTES + PAGE_BYTES * len(column.page_bytes))
        return [self._columns[key] for key in keys]

    def _check_rows(self, rows: Rows) -> None:
        if not len(rows):
            return
        first, last = (
            (rows.start, rows.stop - 1) if isinstance(rows, RowRange) else (int(rows[0]), int(rows[-1]))
        )
        if first < 0 or last >= self.num_rows:
            raise InvalidInputError(
                f"{self.path}: rows {first} to {last} are out of range, the file has {self.num_rows} rows"
            )


def _number_columns(schema: Schema, num_columns: int) -> dict[int, int]:
    """Return the column number of each field that has a column, in the order of the schema."""
    ids = list(_column_ids(schema.fields, packed=True))
    if len(ids) != num_columns:
        # the first 2.1 writers kept the mark of packed structs, but stored their children as separate columns
        ids = list(_column_ids(schema.fields, packed=False))
    return {field_id: column for column, field_id in enumerate(ids)}


def _column_ids(fields: Sequence[Field], *, packed: bool) -> Iterator[int]:
    for field in fields:
        if field.is_leaf or field.is_blob or (packed and field.is_packed):
            yield field.id
        else:
            yield from _column_ids(field.children, packed=packed)
