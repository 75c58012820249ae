"""Read single rows by offset, row id or row address, in the requested order."""

from __future__ import annotations

from contextlib import closing
from operator import index
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import concat_arrays, holds_dictionary
from lance_df.encodings.gather import FEW
from lance_df.errors import InvalidInputError
from lance_df.sliced_lists import unsliced
from lance_df.table.blobs.columns import values_of
from lance_df.table.metadata.row_counts import live_rows, physical_rows
from lance_df.table.reading.batches import count_batch
from lance_df.table.reading.column_take import OFFSET_BITS
from lance_df.table.reading.deletions import deleted_offsets
from lance_df.table.reading.prefetch import map_ahead
from lance_df.table.reading.row_ids import split_addresses
from lance_df.table.reading.system_columns import ROW_OFFSET, system_column
from lance_df.table.scan.columns import StoredColumn, SystemColumn, nested_columns, resolve_columns
from lance_df.table.scan.row_slice import conform

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from lance_df.table.reading.fragment_reader import FragmentReader
    from lance_df.table.scan.columns import Column
    from lance_df.table.table import Table

Integer = TypeVar("Integer", np.int64, np.uint64)

_OFFSETS = SystemColumn(ROW_OFFSET)
_FRAGMENTS_AHEAD = 8
_MAX_KERNEL_FRAGMENTS = 64


def take_offsets(
    table: Table,
    offsets: npt.ArrayLike,
    *,
    columns: Iterable[str] | None = None,
    fragment_position: int | None = None,
    nested: bool = False,
    blobs_as_bytes: bool = False,
) -> pa.Table:
    """Return rows by their offset among the live rows of the table.

    Parameters
    ----------
    offsets
        In any order; repeated offsets return the row repeatedly.
    columns
        As in `ScanRequest`.
    fragment_position
        Count only the live rows of the fragment at this position of the table's list.
    nested
        Return fields of structs inside their structs, and column names without backquotes; see
        `nested_columns`.

    Raises
    ------
    InvalidInputError
        There is no such row.
    """
    wanted = row_numbers(offsets)
    first, count = (0, len(table.fragments)) if fragment_position is None else (fragment_position, 1)
    ends = np.cumsum(live_rows(table, np.arange(first, first + count)))
    check_row_numbers(wanted, int(ends[-1]) if len(ends) else 0, table.uri)
    index = np.searchsorted(ends, wanted, side="right")
    local = wanted - np.concatenate([[0], ends])[index]
    positions = index + first
    if table.fragments.has_any_deletions:
        for position in np.unique(positions).tolist():
            chosen = positions == position
            local[chosen] = _physical(table, position, local[chosen])
    return _take(table, positions, local, columns, nested=nested, blobs_as_bytes=blobs_as_bytes)


def take_row_ids(
    table: Table,
    row_ids: npt.ArrayLike,
    *,
    columns: Iterable[str] | None = None,
    nested: bool = False,
    blobs_as_bytes: bool = False,
) -> pa.Table:
    """Return rows by their row ids, without deleted rows.

    Raises
    ------
    InvalidInputError
        In a table without stable row ids, an id is the address of a row that never existed.
    """
    ids = _integers(row_ids, np.uint64)
    if not table.uses_stable_row_ids:
        return take_addresses(table, ids, columns=columns, nested=nested, blobs_as_bytes=blobs_as_bytes)
    addresses, exists = table.row_id_index().lookup(ids)
    return take_addresses(
        table, addresses[exists], columns=columns, nested=nested, blobs_as_bytes=blobs_as_bytes
    )


def take_addresses(
    table: Table,
    addresses: npt.ArrayLike,
    *,
    columns: Iterable[str] | None = None,
    nested: bool = False,
    blobs_as_bytes: bool = False,
) -> pa.Table:
    """Return rows by their row addresses, without deleted rows.

    Raises
    ------
    InvalidInputError
        There is no such fragment, or it has fewer rows.
    """
    wanted = _integers(addresses, np.uint64)
    fragment_ids, offsets = split_addresses(wanted)
    positions = table.fragments.positions(fragment_ids)
    if (positions < 0).any():
        missing = int(fragment_ids[positions < 0][0])
        raise InvalidInputError(f"{table.uri}: version {table.version} has no fragment {missing}")
    live = np.ones(len(wanted), np.bool_)
    for position in np.unique(positions).tolist():
        chosen = positions == position
        num_rows = int(physical_rows(table, np.array([position]))[0])
        if int(offsets[chosen].max()) >= num_rows:
            raise InvalidInputError(
                f"{table.uri}: row {int(offsets[chosen].max())} is out of range, fragment "
                f"{table.fragments[position].id} has {num_rows} rows"
            )
        live[chosen] = ~np.isin(offsets[chosen], _deleted(table, position))
    return _take(table, positions[live], offsets[live], columns, nested=nested, blobs_as_bytes=blobs_as_bytes)


def row_numbers(values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return row numbers as an array.

    Raises
    ------
    InvalidInputError
        They are not a list of integers.
    """
    return _integers(values, np.int64)


def check_row_numbers(numbers: npt.NDArray[np.int64], num_rows: int, uri: str) -> None:
    """Check that row numbers are within the table.

    Raises
    ------
    InvalidInputError
        One is not.
    """
    outside = numbers[(numbers < 0) | (numbers >= num_rows)]
    if len(outside):
        raise InvalidInputError(
            f"{uri}: row {int(outside[0])} is out of range, the table has {num_rows} rows"
        )


def _integers(values: npt.ArrayLike, dtype: type[Integer]) -> npt.NDArray[Integer]:
    """Return row numbers as an array; none is rounded, and none wraps around."""
    try:
        numbers = np.asarray(values)
        if numbers.dtype.kind in "fO" and isinstance(values, list | tuple):
            # numpy makes floats of integers if some need uint64 and others are negative
            numbers = np.array([index(value) for value in values], dtype)
        limits = np.iinfo(dtype)
        fits = not numbers.size or (limits.min <= int(numbers.min()) and int(numbers.max()) <= limits.max)
    except (TypeError, ValueError, OverflowError) as err:
        raise InvalidInputError(f"rows must be given as a list of integers, got {values!r:.60}") from err
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu") or not fits:
        raise InvalidInputError(f"rows must be given as a list of non-negative integers, got {values!r:.60}")
    return numbers.astype(dtype)


def _deleted(table: Table, position: int) -> npt.NDArray[np.int64]:
    return deleted_offsets(table.deletion_vector(table.fragments[position]))


def _physical(table: Table, position: int, live: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the physical rows of a fragment for offsets among its live rows."""
    deleted = _deleted(table, position)
    # the number of live rows before each deleted one
    before = deleted - np.arange(len(deleted))
    return live + np.searchsorted(before, live, side="right")


def _take(
    table: Table,
    positions: npt.NDArray[np.intp],
    offsets: npt.NDArray[np.int64],
    names: Iterable[str] | None,
    *,
    nested: bool,
    blobs_as_bytes: bool,
) -> pa.Table:
    columns = resolve_columns(table.schema, names, blobs_as_bytes=blobs_as_bytes)
    if nested and any(column.path != (column.output.name,) for column in columns):
        columns = nested_columns(table.schema, columns)
    if not columns:
        return pa.Table.from_batches([count_batch(len(offsets))])
    keys = positions.astype(np.int64) << OFFSET_BITS | offsets
    taken = _pick(table, keys, columns)
    rest = [column for number, column in enumerate(columns) if number not in taken]
    schema = pa.schema(map(_taken_field, columns), table.schema.arrow_metadata)
    read = _read(table, keys, rest) if rest else pa.table([])
    return pa.Table.from_arrays(
        [
            taken[number] if number in taken else read[column.output.name]
            for number, column in enumerate(columns)
        ],
        schema=schema,
    )


def _taken_field(column: Column) -> pa.Field:
    """Return a field of the result; row offsets are never NULL here, as in pylance."""
    return column.output.with_nullable(False) if column == _OFFSETS else column.output


def _pick(table: Table, keys: npt.NDArray[np.int64], columns: Sequence[Column]) -> dict[int, pa.Array]:
    """Return, by column number, the columns that a kernel can take."""
    taken: dict[int, pa.Array] = {}
    fits = 0 < len(keys) < FEW and len(table.fragments) <= _MAX_KERNEL_FRAGMENTS and table.location.is_local
    if not fits:
        return taken
    order = keys.argsort()
    rows = keys[order]
    known: dict[FragmentReader, bool] = {}
    for number, column in enumerate(columns):
        if isinstance(column, StoredColumn) and len(column.path) == 1 and not column.is_located:
            values = table.column_take(column.field, known).take(rows, order)
            if values is not None:
                taken[number] = conform(values, column.output.type, table.uri)
    return taken


def _read(table: Table, keys: npt.NDArray[np.int64], columns: Sequence[Column]) -> pa.Table:
    """Read each row once in storage order, then restore the requested order."""
    schema = pa.schema([column.output for column in columns])
    keys, order = np.unique(keys, return_inverse=True)
    touched, starts = np.unique(keys >> OFFSET_BITS, return_index=True)
    offsets_of = np.split(keys & ((1 << OFFSET_BITS) - 1), starts[1:])
    rows_of = list(zip(touched.tolist(), offsets_of, strict=False))

    def read(group: tuple[int, npt.NDArray[np.int64]]) -> pa.RecordBatch:
        return _read_group(table, group[0], group[1], columns, schema)

    ahead = 0 if table.location.is_local else _FRAGMENTS_AHEAD
    with closing(map_ahead(read, rows_of, ahead=ahead)) as batches:
        rows = _with_joined_dictionaries(pa.Table.from_batches(list(batches), schema))
    joined = rows.combine_chunks()
    if np.array_equal(order, np.arange(len(keys))):
        return joined
    return unsliced(joined).take(pa.array(order)).combine_chunks()


def _with_joined_dictionaries(rows: pa.Table) -> pa.Table:
    """Unify dictionaries of columns: Arrow cannot join those that hold a null, as in 2.0 files."""
    coded = [index for index, field in enumerate(rows.schema) if holds_dictionary(field.type)]
    for number in coded:
        column, field = rows.column(number), rows.schema.field(number)
        if column.num_chunks > 1:
            rows = rows.set_column(number, field, concat_arrays(column.chunks, field.type))
    return rows


def _read_group(
    table: Table, position: int, rows: npt.NDArray[np.int64], columns: Sequence[Column], schema: pa.Schema
) -> pa.RecordBatch:
    reader = table.fragment_reader(position)
    stored = [column for column in columns if isinstance(column, StoredColumn)]
    read = [column for column in stored if column.is_read_from(reader)]
    arrays = dict(zip(read, reader.read([column.field for column in read], rows), strict=True))
    arrays |= {column: column.nulls(len(rows)) for column in stored if column not in arrays}
    values = [
        conform(values_of(table, reader.fragment, column, arrays[column]), column.output.type, reader.name)
        if isinstance(column, StoredColumn)
        else system_column(table, position, column.name, rows)
        for column in columns
    ]
    return pa.RecordBatch.from_arrays(values, schema=schema)
