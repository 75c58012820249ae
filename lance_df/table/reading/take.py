"""Read single rows by offset, row id or row address, in the order asked for."""

from __future__ import annotations

from contextlib import closing
from operator import index
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.arrays import concat_arrays
from lance_df.encodings.gather import FEW
from lance_df.errors import InvalidInputError
from lance_df.table.blobs.columns import values_of
from lance_df.table.metadata.row_counts import live_rows, physical_rows
from lance_df.table.reading.deletions import deleted_offsets
from lance_df.table.reading.picked_column import OFFSET_BITS
from lance_df.table.reading.prefetch import map_ahead
from lance_df.table.reading.row_ids import split_addresses
from lance_df.table.reading.system_columns import system_column
from lance_df.table.scan.columns import StoredColumn, resolve_columns
from lance_df.table.scan.row_slice import conform

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from lance_df.table.scan.columns import Column
    from lance_df.table.table import Table

Integer = TypeVar("Integer", np.int64, np.uint64)

_FRAGMENTS_AHEAD = 8
_MAX_PICKED_FRAGMENTS = 64
# to read rows of a column page by page takes as much longer as to do without a kernel for so many values
_SPARED_VALUES = 50_000


def take_offsets(
    table: Table,
    offsets: npt.ArrayLike,
    *,
    columns: Iterable[str] | None = None,
    fragment_place: int | None = None,
    blobs_as_bytes: bool = False,
) -> pa.Table:
    """Return rows by their number among the live rows of the table.

    Parameters
    ----------
    offsets
        In any order; one that is there twice gives the row twice.
    columns
        As in `ScanRequest`.
    fragment_place
        Count the live rows of the fragment at this place of the table's list instead.

    Raises
    ------
    InvalidInputError
        There is no such row.
    """
    wanted = _integers(offsets, np.int64)
    first, count = (0, len(table.fragments)) if fragment_place is None else (fragment_place, 1)
    ends = np.cumsum(live_rows(table, np.arange(first, first + count)))
    num_rows = int(ends[-1]) if len(ends) else 0
    outside = wanted[(wanted < 0) | (wanted >= num_rows)]
    if len(outside):
        wrong = int(outside[0])
        raise InvalidInputError(f"{table.uri}: row {wrong} was asked for, there are {num_rows} rows")
    index = np.searchsorted(ends, wanted, side="right")
    local = wanted - np.concatenate([[0], ends])[index]
    places = index + first
    if table.fragments.has_any_deletions:
        for place in np.unique(places).tolist():
            chosen = places == place
            local[chosen] = _physical(table, place, local[chosen])
    return _take(table, places, local, columns, blobs_as_bytes=blobs_as_bytes)


def take_row_ids(
    table: Table,
    row_ids: npt.ArrayLike,
    *,
    columns: Iterable[str] | None = None,
    blobs_as_bytes: bool = False,
) -> pa.Table:
    """Return rows by their row ids; those that are deleted are left out.

    Raises
    ------
    InvalidInputError
        Without stable row ids: an id is the address of a row that never was.
    """
    ids = _integers(row_ids, np.uint64)
    if not table.uses_stable_row_ids:
        return take_addresses(table, ids, columns=columns, blobs_as_bytes=blobs_as_bytes)
    addresses, found = table.row_id_index().lookup(ids)
    return take_addresses(table, addresses[found], columns=columns, blobs_as_bytes=blobs_as_bytes)


def take_addresses(
    table: Table,
    addresses: npt.ArrayLike,
    *,
    columns: Iterable[str] | None = None,
    blobs_as_bytes: bool = False,
) -> pa.Table:
    """Return rows by their row addresses; those that are deleted are left out.

    Raises
    ------
    InvalidInputError
        There is no such fragment, or it has fewer rows.
    """
    wanted = _integers(addresses, np.uint64)
    fragment_ids, offsets = split_addresses(wanted)
    places = table.fragments.positions(fragment_ids)
    if (places < 0).any():
        missing = int(fragment_ids[places < 0][0])
        raise InvalidInputError(f"{table.uri}: version {table.version} has no fragment {missing}")
    live = np.ones(len(wanted), np.bool_)
    for place in np.unique(places).tolist():
        chosen = places == place
        num_rows = int(physical_rows(table, np.array([place]))[0])
        if int(offsets[chosen].max()) >= num_rows:
            raise InvalidInputError(
                f"{table.uri}: row {int(offsets[chosen].max())} of fragment {table.fragments[place].id} was "
                f"asked for, which has {num_rows} rows"
            )
        live[chosen] = ~np.isin(offsets[chosen], _deleted(table, place))
    return _take(table, places[live], offsets[live], columns, blobs_as_bytes=blobs_as_bytes)


def _integers(values: npt.ArrayLike, dtype: type[Integer]) -> npt.NDArray[Integer]:
    """Return row numbers as an array, without rounding or wrapping any."""
    try:
        numbers = np.asarray(values)
        if numbers.dtype.kind in "fO" and isinstance(values, list | tuple):
            # numpy makes floats of integers that are neither all signed nor all unsigned
            numbers = np.array([index(value) for value in values], dtype)
        limits = np.iinfo(dtype)
        fits = not numbers.size or (limits.min <= int(numbers.min()) and int(numbers.max()) <= limits.max)
    except (TypeError, ValueError, OverflowError) as err:
        raise InvalidInputError(f"rows are asked for by a list of integers, not by {values!r:.60}") from err
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu") or not fits:
        raise InvalidInputError(f"rows are asked for by a list of integers from 0, not by {values!r:.60}")
    return numbers.astype(dtype)


def _deleted(table: Table, place: int) -> npt.NDArray[np.int64]:
    vector = table.deletion_vector(table.fragments[place])
    return np.empty(0, np.int64) if vector is None else deleted_offsets(vector)


def _physical(table: Table, place: int, live: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the physical rows of a fragment's live rows, given by their number among these."""
    deleted = _deleted(table, place)
    # how many live rows come before each deleted one
    before = deleted - np.arange(len(deleted))
    return live + np.searchsorted(before, live, side="right")


def _take(
    table: Table,
    places: npt.NDArray[np.intp],
    offsets: npt.NDArray[np.int64],
    names: Iterable[str] | None,
    *,
    blobs_as_bytes: bool,
) -> pa.Table:
    columns = resolve_columns(table.schema, names, blobs_as_bytes=blobs_as_bytes)
    if not columns:
        return pa.table({"rows": pa.nulls(len(offsets))}).select([])
    keys = places.astype(np.int64) << OFFSET_BITS | offsets
    picked = _pick(table, keys, columns)
    rest = [column for column in columns if column not in picked]
    schema = pa.schema([column.output for column in columns], table.schema.arrow_metadata)
    read = _read(table, keys, rest) if rest else pa.table([])
    return pa.Table.from_arrays(
        [picked[column] if column in picked else read[column.output.name] for column in columns],
        schema=schema,
    )


def _pick(table: Table, keys: npt.NDArray[np.int64], columns: Sequence[Column]) -> dict[Column, pa.Array]:
    """Return those columns whose rows a kernel picks, where such are known to be."""
    picked: dict[Column, pa.Array] = {}
    fits = 0 < len(keys) < FEW and len(table.fragments) <= _MAX_PICKED_FRAGMENTS and table.location.is_local
    if not fits or not kernels.are_worth(_SPARED_VALUES * len(columns)):
        return picked
    order = keys.argsort()
    rows = keys[order]
    for column in columns:
        if isinstance(column, StoredColumn) and len(column.path) == 1 and not column.is_located:
            found = table.picked_column(column.field).take(rows, order)
            if found is not None:
                picked[column] = conform(found, column.output.type, table.uri)
    return picked


def _read(table: Table, keys: npt.NDArray[np.int64], columns: Sequence[Column]) -> pa.Table:
    """Read each row once, in storage order, then put them into the order asked for."""
    schema = pa.schema([column.output for column in columns])
    keys, order = np.unique(keys, return_inverse=True)
    touched, starts = np.unique(keys >> OFFSET_BITS, return_index=True)
    offsets_of = np.split(keys & ((1 << OFFSET_BITS) - 1), starts[1:])
    rows_of = list(zip(touched.tolist(), offsets_of, strict=False))

    def read(group: tuple[int, npt.NDArray[np.int64]]) -> pa.RecordBatch:
        return _read_group(table, group[0], group[1], columns, schema)

    ahead = 0 if table.location.is_local else _FRAGMENTS_AHEAD
    with closing(map_ahead(read, rows_of, ahead=ahead)) as batches:
        found = _with_joined_dictionaries(pa.Table.from_batches(list(batches), schema))
    joined = found.combine_chunks()
    if np.array_equal(order, np.arange(len(keys))):
        return joined
    return joined.take(pa.array(order)).combine_chunks()


def _with_joined_dictionaries(found: pa.Table) -> pa.Table:
    """Give dictionary columns one dictionary: Arrow cannot join those that hold a null, as in 2.0 files."""
    coded = [place for place, field in enumerate(found.schema) if pa.types.is_dictionary(field.type)]
    for place in coded:
        column, field = found.column(place), found.schema.field(place)
        if column.num_chunks > 1:
            found = found.set_column(place, field, concat_arrays(column.chunks, field.type))
    return found


def _read_group(
    table: Table, place: int, rows: npt.NDArray[np.int64], columns: Sequence[Column], schema: pa.Schema
) -> pa.RecordBatch:
    reader = table.fragment_reader(place)
    stored = [column for column in columns if isinstance(column, StoredColumn)]
    arrays = dict(zip(stored, reader.read([column.field for column in stored], rows), strict=True))
    values = [
        conform(values_of(table, reader.fragment, column, arrays[column]), column.output.type, reader.name)
        if isinstance(column, StoredColumn)
        else system_column(table, place, column.name, rows)
        for column in columns
    ]
    return pa.RecordBatch.from_arrays(values, schema=schema)
