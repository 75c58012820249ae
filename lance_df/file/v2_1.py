"""Read 2.1 and 2.2 files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import concat_arrays
from lance_df.encodings.plan import RowRange
from lance_df.encodings.v2_1.merge import merge
from lance_df.encodings.v2_1.nested import empty_path_array, path_array
from lance_df.encodings.v2_1.page import open_page
from lance_df.encodings.v2_1.shape import leaves, shape_of
from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.file.blobs import fetch_blobs
from lance_df.file.io import named, named_errors, run_plans
from lance_df.format.encodings_v2_1 import parse_page_layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.encodings.v2_1.page import PageDecoder
    from lance_df.encodings.v2_1.shape import Leaf, Shape
    from lance_df.file.container import Container
    from lance_df.format.schema import Field, Schema


class V2_1FileReader:  # noqa: N801 - the version's name
    """Reads rows of the columns of one 2.1 or 2.2 file. See `lance_df.file.reader.FileReader`.

    Parameters
    ----------
    container
        The open file.
    column_of
        Field id to column number. Without it the file's own schema tells.
    """

    def __init__(self, container: Container, column_of: Mapping[int, int] | None = None) -> None:
        self._container = container
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
        self._columns: dict[tuple[int, pa.DataType], _Column] = {}

    @property
    def schema(self) -> Schema:
        """The schema that the file describes itself with."""
        return self._container.schema

    @property
    def column_of(self) -> Mapping[int, int]:
        """Field id to column number; fields without a column of their own are left out."""
        return self._column_of

    def read(self, fields: Sequence[Field], rows: Rows) -> list[pa.Array]:
        """Return one array for each field. See `FileReader.read`."""
        self._check_rows(rows)
        shapes = [self._shape(field) for field in fields]
        needed = [leaf for shape in shapes for leaf in leaves(shape)]
        plans: list[IoPlan[pa.Array]] = []
        num_plans = []
        for leaf, column in zip(needed, self._open_columns(needed), strict=True):
            leaf_plans = [] if leaf.is_empty_struct else column.plans(leaf, rows)
            plans += leaf_plans
            num_plans.append(len(leaf_plans))
        parts = iter(run_plans(self._container.source, plans))
        paths: list[pa.Array | None] = []
        for leaf, count in zip(needed, num_plans, strict=True):
            own = [next(parts) for _ in range(count)]
            with named_errors(f"{self.path}: column {leaf.name!r}"):
                paths.append(concat_arrays(own, own[0].type) if own else None)
        arrays, position = [], 0
        for field, shape in zip(fields, shapes, strict=True):
            stop = position + sum(1 for _ in leaves(shape))
            with named_errors(f"{self.path}: column {field.name!r}"):
                arrays.append(merge(shape, paths[position:stop], len(rows)))
            position = stop
        return [self._with_blobs(field, array) for field, array in zip(fields, arrays, strict=True)]

    def _with_blobs(self, field: Field, array: pa.Array) -> pa.Array:
        """Replace the descriptors of blobs that are asked for as bytes."""
        if not any(node.is_blob and node.logical_type == "large_binary" for node in field.walk()):
            return array
        if field.is_struct:
            children = [self._with_blobs(child, array.field(i)) for i, child in enumerate(field.children)]
            fields = [
                pa.field(child.name, found.type, child.nullable)
                for child, found in zip(field.children, children, strict=True)
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
        starts = [
            column.row_starts[:-1] // leaf.page_rows_per_row
            for leaf, column in zip(needed, self._open_columns(needed), strict=True)
        ]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *starts]))

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

    def _open_columns(self, needed: Sequence[Leaf]) -> list[_Column]:
        keys = [(leaf.column, leaf.stored_type) for leaf in needed]
        self._container.load_columns([column for column, _ in keys])
        for leaf, key in zip(needed, keys, strict=True):
            if key not in self._columns:
                self._columns[key] = _Column(self._container, leaf)
        return [self._columns[key] for key in keys]

    def _check_rows(self, rows: Rows) -> None:
        if not len(rows):
            return
        first, last = (
            (rows.start, rows.stop - 1) if isinstance(rows, RowRange) else (int(rows[0]), int(rows[-1]))
        )
        if first < 0 or last >= self.num_rows:
            raise InvalidInputError(
                f"{self.path}: rows {first} to {last} are asked for, the file has {self.num_rows}"
            )


class _Column:
    """The pages of one column; each is opened when a row of it is first asked for."""

    def __init__(self, container: Container, leaf: Leaf) -> None:
        self._info = container.column(leaf.column)
        self._place = f"{container.path}: column {leaf.name!r}"
        self._stored_type = leaf.stored_type
        self._mapped = container.source.is_memory_mapped
        self._pages: list[PageDecoder | None] = [None] * len(self._info.pages)
        counts = [0, *(page.num_rows for page in self._info.pages)]
        expected = container.num_rows * leaf.page_rows_per_row
        if sum(counts) != expected and not leaf.is_empty_struct:
            raise CorruptDataError(f"{self._place}: {sum(counts)} rows, the file has {expected}")
        self.row_starts: npt.NDArray[np.int64] = np.cumsum(np.array(counts, np.int64))
        self.page_bytes = [sum(buffer.num_bytes for buffer in page.buffers) for page in self._info.pages]

    def plans(self, leaf: Leaf, rows: Rows) -> list[IoPlan[pa.Array]]:
        """Return one plan for each page that ``rows`` lie in, at least one."""
        if not len(rows):
            return [_empty(leaf)]
        factor = leaf.page_rows_per_row
        if isinstance(rows, RowRange):
            first, last = rows.start * factor, rows.stop * factor - 1
            wanted: Rows = RowRange(first, last + 1)
        else:
            wanted = rows if factor == 1 else (rows[:, None] * factor + np.arange(factor)).reshape(-1)
            first, last = int(wanted[0]), int(wanted[-1])
        begin, end = (np.searchsorted(self.row_starts, [first, last], side="right") - 1).tolist()
        plans = []
        for number in range(begin, end + 1):
            start, stop = self.row_starts[number : number + 2].tolist()
            local = _clip(wanted, start, stop)
            if len(local):
                plans.append(self._plan(number, local, leaf))
        return plans

    def _plan(self, number: int, rows: Rows, leaf: Leaf) -> IoPlan[pa.Array]:
        with named_errors(f"{self._place}, page {number}"):
            page = self._pages[number]
            if page is None:
                page = self._pages[number] = self._open(number)
            slots = yield from page.decode(rows)
            return path_array(slots, leaf.ancestors)

    def _open(self, number: int) -> PageDecoder:
        info = self._info.pages[number]
        layout = parse_page_layout(info.encoding_url, info.encoding, source="its encoding")
        return open_page(layout, info.buffers, info.num_rows, self._stored_type, mapped=self._mapped)


def _empty(leaf: Leaf) -> IoPlan[pa.Array]:
    yield from ()
    return empty_path_array(leaf.stored_type, leaf.ancestors)


def _clip(rows: Rows, start: int, stop: int) -> Rows:
    """Return those of ``rows`` in ``start`` (inclusive) to ``stop`` (exclusive), counted from ``start``."""
    if isinstance(rows, RowRange):
        return RowRange(max(rows.start, start) - start, min(rows.stop, stop) - start)
    first, last = np.searchsorted(rows, [start, stop]).tolist()
    clipped = rows[first:last]
    return clipped - start if start else clipped


def _number_columns(schema: Schema, num_columns: int) -> dict[int, int]:
    """Return the column of each leaf, in the order of the schema."""
    ids = list(_column_ids(schema.fields, packed=True))
    if len(ids) != num_columns:
        # the first 2.1 writers kept the mark of packed structs, but stored their children one by one
        ids = list(_column_ids(schema.fields, packed=False))
    return {field_id: column for column, field_id in enumerate(ids)}


def _column_ids(fields: Sequence[Field], *, packed: bool) -> Iterator[int]:
    for field in fields:
        if field.is_leaf or field.is_blob or (packed and field.is_packed):
            yield field.id
        else:
            yield from _column_ids(field.children, packed=packed)
