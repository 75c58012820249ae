"""Columns of scans: stored columns, fields of stored structs, and system columns."""

from __future__ import annotations

import dataclasses
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.cache import PROCESS, CacheKind, Entries
from lance_df.encodings.arrays import null_array
from lance_df.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_df.format.blobs import blob_description
from lance_df.format.column_path import parse_path
from lance_df.records import dataclass
from lance_df.scan.request import Rows
from lance_df.table.reading.system_columns import ROW_ADDRESS, ROW_ID, SYSTEM_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from lance_df.format.schema import Field, Schema
    from lance_df.scan.aggregate import PartialAggregator
    from lance_df.scan.request import ScanRequest
    from lance_df.table.reading.fragment_reader import FragmentReader

    Fields: TypeAlias = tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of the data files.

    Attributes
    ----------
    path
        Names from the top-level field down; more than one for a field of a struct.
    field
        The top-level field, with only the children that the path needs.
    output
        Name and type of the result.
    is_located
        Whether ``field`` describes blobs of a 2.2 table, and the result is their bytes, wherever these are.
    """

    path: tuple[str, ...]
    field: Field
    output: pa.Field = dataclasses.field(compare=False)
    is_located: bool = False

    def extract(self, array: pa.Array) -> pa.Array:
        """Return the values at the path, given those of ``field``; a NULL struct has NULL fields."""
        return array if len(self.path) == 1 else pc.struct_field(array, list(self.path[1:]))

    def is_read_from(self, reader: FragmentReader) -> bool:
        """Return whether the values depend on stored bytes; if not, `nulls` may replace those of ``field``.

        A field of a struct is NULL where the struct is NULL, so if it has no data, nobody needs the struct.
        """
        return len(self.path) == 1 or reader.is_stored(self.field)

    def nulls(self, num_rows: int) -> pa.Array:
        """Return NULLs in place of the values of ``field``."""
        return null_array(self.field.arrow_type(), num_rows)


@dataclass(frozen=True, slots=True)
class SystemColumn:
    """A column that is computed; see `lance_df.table.reading.system_columns`."""

    name: str

    @property
    def path(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def output(self) -> pa.Field:
        return pa.field(self.name, pa.uint64())


Column: TypeAlias = StoredColumn | SystemColumn


# Members of a namespace have the same fields.
_MAX_RECENT = 256
_COLUMN_BYTES = 1024
_recent: Entries[tuple[Fields, tuple[Column, ...]]] = PROCESS.part(_MAX_RECENT).entries(CacheKind.COLUMNS)


@dataclass(frozen=True, slots=True)
class ScanOutput:
    """The columns that a scan reads, and the schema that it returns.

    Attributes
    ----------
    columns
        The columns to read, in order.
    schema
        The schema of the batches.
    aggregator
        Aggregates the columns to batches; None if the columns themselves are returned.
    """

    columns: tuple[Column, ...]
    schema: pa.Schema
    aggregator: PartialAggregator | None = None


def output_of(schema: Schema, request: ScanRequest) -> ScanOutput:
    """Return the columns and the output schema of a request for a table schema.

    Raises
    ------
    ColumnNotFoundError, InvalidInputError
        As in `resolve_columns`; or the partial aggregate is invalid.
    """
    output = request.output
    if isinstance(output, Rows):
        columns = resolve_columns(
            schema,
            request.columns,
            appended=row_columns(with_row_id=request.with_row_id, with_row_address=request.with_row_address),
            blobs_as_bytes=request.blobs_as_bytes,
            views=output.views,
        )
        return ScanOutput(columns, _arrow_schema(schema, columns))
    columns = resolve_columns(schema, output.columns, blobs_as_bytes=request.blobs_as_bytes)
    read = _arrow_schema(schema, columns)
    if output.has_extremes:
        return ScanOutput(columns, read)
    from lance_df.scan.aggregate import PartialAggregator

    aggregator = PartialAggregator(output, read)
    return ScanOutput(columns, aggregator.schema, aggregator)


def _arrow_schema(schema: Schema, columns: Iterable[Column]) -> pa.Schema:
    return pa.schema([column.output for column in columns], schema.arrow_metadata)


def resolve_columns(
    schema: Schema,
    names: Iterable[str] | None,
    *,
    appended: Sequence[str] = (),
    blobs_as_bytes: bool = False,
    views: Collection[str] = (),
) -> tuple[Column, ...]:
    """Return the columns that a scan is asked for.

    Parameters
    ----------
    names
        Top-level columns, struct fields as ``"a.b"``, or system columns; ``None`` for all top-level ones.
    appended
        System columns to append at the end, even if ``names`` has them elsewhere.
    blobs_as_bytes
        Whether to read blobs as bytes rather than as descriptions of their locations.
    views
        Names of columns that are returned as string views, if they are strings.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    InvalidInputError
        A name is repeated.
    """
    wanted = [name for name in (schema.names if names is None else names) if name not in appended]
    wanted += appended
    if len(set(wanted)) < len(wanted):
        twice = next(name for name, count in Counter(wanted).items() if count > 1)
        raise InvalidInputError(f"column {twice!r} is selected twice")

    def resolved() -> tuple[Fields, tuple[Column, ...]]:
        plain = (resolve_name(schema, name, blobs_as_bytes=blobs_as_bytes) for name in wanted)
        columns = tuple(as_view(column) if column.output.name in views else column for column in plain)
        return schema.fields, columns

    # each entry holds its fields, so no other object can have their id
    key = (id(schema.fields), tuple(wanted), blobs_as_bytes, frozenset(views))
    return _recent.get(key, resolved, _COLUMN_BYTES * (1 + len(wanted)))[1]


def nested_columns(schema: Schema, columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return columns with struct fields inside their structs: ``s.a`` and ``s.b`` become one column ``s``.

    It takes the position of its first field. Its fields are in schema order.
    """
    ids: dict[str, set[int]] = {}
    system: dict[str, Column] = {}
    for column in columns:
        below = ids.setdefault(column.path[0], set())
        if isinstance(column, SystemColumn):
            system[column.name] = column
            continue
        node = schema.field(column.path[0])
        for name in column.path[1:]:
            node = next(child for child in node.children if child.name == name)
        below.update(leaf.id for leaf in node.leaves())
    nested = []
    for name, below in ids.items():
        if name in system:
            nested.append(system[name])
        elif (reduced := schema.field(name).only(below)) is not None:
            field = blob_description(reduced)
            nested.append(StoredColumn((name,), field, field.to_arrow()))
    return tuple(nested)


def resolve_name(schema: Schema, name: str, *, blobs_as_bytes: bool = False) -> Column:
    """Return the column with this name: a top-level column if there is one, else a path with dots.

    Names in a path may be in backquotes. The result has the requested name.
    """
    path = (name,) if name in schema.by_name or name in SYSTEM_COLUMNS else _split(name)
    column = resolve_path(schema, path, blobs_as_bytes=blobs_as_bytes)
    if isinstance(column, SystemColumn):
        return column
    return dataclasses.replace(column, output=column.output.with_name(name))


def _split(name: str) -> tuple[str, ...]:
    if "`" in name:
        with suppress(InvalidInputError):
            return parse_path(name)
    return tuple(name.split("."))


def resolve_path(schema: Schema, path: tuple[str, ...], *, blobs_as_bytes: bool = False) -> Column:
    """Return the column at a path of names.

    Raises
    ------
    ColumnNotFoundError
        There is none; the message lists what exists.
    """
    if len(path) == 1 and path[0] in SYSTEM_COLUMNS and path[0] not in schema.by_name:
        return SystemColumn(path[0])
    nodes = [schema.field(path[0])]
    for name in path[1:]:
        children = nodes[-1].children if nodes[-1].is_struct and not nodes[-1].is_blob else ()
        child = next((child for child in children if child.name == name), None)
        if child is None:
            raise ColumnNotFoundError(
                f"column {'.'.join(path)!r} does not exist; the fields of {nodes[-1].name!r} are "
                f"{', '.join(repr(child.name) for child in children) or 'none'}"
            )
        nodes.append(child)
    is_located = blobs_as_bytes and nodes[-1].is_blob and nodes[-1].is_struct
    blobs_below = (node.is_blob and node.is_struct for node in nodes[-1].walk())
    if blobs_as_bytes and not is_located and any(blobs_below):
        raise UnsupportedFeatureError(
            f"column {'.'.join(path)!r} contains blobs of file version 2.2; select these by their own names"
        )
    leaf = nodes[-1] if blobs_as_bytes and not is_located else blob_description(nodes[-1])
    output = leaf.to_arrow().with_name(".".join(path)).with_nullable(any(node.nullable for node in nodes))
    if is_located:
        output = pa.field(output.name, pa.large_binary(), output.nullable)
    for node in reversed(nodes[:-1]):
        leaf = node.with_children([leaf])
    return StoredColumn(path, leaf, output, is_located)


def as_view(column: Column) -> Column:
    """Return a string column as a column of string views, and other columns unchanged."""
    if not isinstance(column, StoredColumn) or column.output.type != pa.string():
        return column
    return dataclasses.replace(column, output=column.output.with_type(pa.string_view()))


def row_columns(*, with_row_id: bool, with_row_address: bool) -> tuple[str, ...]:
    """Return the system columns that these flags request, in the order in which they are appended."""
    return (ROW_ID,) * with_row_id + (ROW_ADDRESS,) * with_row_address
