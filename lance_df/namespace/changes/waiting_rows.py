"""Rows of partitions that wait to be written; until then they stay in the batches that contain them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.expr.text_views import VIEW_BYTES, is_view, text_bytes
from lance_df.namespace.changes.scattered_rows import BatchValues, ScatteredRows
from lance_df.sliced_lists import unsliced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

# With fewer rows of a partition in a batch, a separate take is not worthwhile.
_MANY_ROWS: Final = 1024
# The size of batches that are passed to the writer: more rows mean fewer pages and calls.
_BATCH_BYTES: Final = 64 * 1024 * 1024
_numbers = itertools.count()

_Part: TypeAlias = "tuple[RoutedBatch, int, int]"


class RoutedBatch:
    """Rows of several partitions, and optionally the order that makes those of each partition contiguous.

    Attributes
    ----------
    number
        A number that grows in the order in which rows of batches are first added; -1 before that.
    row_bytes
        The average size of a row in bytes.
    """

    __slots__ = ("_order", "_rows", "_takeable", "_values", "number", "row_bytes")

    def __init__(self, rows: pa.RecordBatch, order: npt.NDArray[np.integer] | None) -> None:
        self._rows = rows
        self._takeable: dict[tuple[int, ...], TakeableRows] = {}
        self._values: BatchValues | None = None
        self._order = order
        self.number = -1
        self.row_bytes = bytes_of(rows) / max(1, rows.num_rows)

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    @property
    def is_together(self) -> bool:
        """Whether the rows of each partition are contiguous without reordering."""
        return self._order is None

    @property
    def values(self) -> BatchValues:
        """The values of the columns."""
        if self._values is None:
            self._values = BatchValues(self._rows)
        return self._values

    @property
    def num_rows(self) -> int:
        return self._rows.num_rows

    def positions(self, start: int, stop: int) -> npt.NDArray[np.integer]:
        """Return the positions of a range of the ordered rows."""
        return np.arange(start, stop) if self._order is None else self._order[start:stop]

    def take(
        self, positions: npt.NDArray[np.integer], columns: tuple[int, ...] | None = None
    ) -> pa.RecordBatch:
        """Return a copy of the rows at some positions, with all or some columns."""
        key = tuple(range(self._rows.num_columns)) if columns is None else columns
        takeable = self._takeable.get(key)
        if takeable is None:
            takeable = self._takeable[key] = TakeableRows(self._rows.select(key))
        return takeable.take(positions)

    def slice(self, start: int, stop: int) -> pa.RecordBatch:
        """Return a range of the ordered rows."""
        if self._order is None:
            return self._rows.slice(start, stop - start)
        return self.take(self._order[start:stop])


class WaitingRows:
    """Rows of one partition, in order of arrival.

    Attributes
    ----------
    num_rows, num_bytes
        The number of rows, and their approximate size.
    """

    __slots__ = ("num_bytes", "num_rows", "parts")

    def __init__(self) -> None:
        self.num_rows = 0
        self.num_bytes = 0.0
        self.parts: list[_Part] = []

    def add(self, batch: RoutedBatch, start: int, stop: int) -> None:
        """Add a range of the ordered rows of a batch."""
        if batch.number < 0:
            batch.number = next(_numbers)
        self.parts.append((batch, start, stop))
        self.num_rows += stop - start
        self.num_bytes += batch.row_bytes * (stop - start)

    @property
    def are_scattered(self) -> bool:
        """Whether to gather these rows together with others, because each batch has few of them."""
        return len(self.parts) > 1 and self.num_rows < _MANY_ROWS * len(self.parts)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of about 64 MiB."""
        for parts in self._portions():
            scattered = _scattered(parts)
            if scattered is not None:
                yield scattered
            else:
                yield from joined(batch.slice(start, stop) for batch, start, stop in parts)

    def _portions(self) -> Iterator[list[_Part]]:
        """Yield lists of parts of about 64 MiB each."""
        portion: list[_Part] = []
        num_bytes = 0.0
        for batch, start, stop in self.parts:
            step = max(1, int(_BATCH_BYTES / max(batch.row_bytes, 1)))
            for first in range(start, stop, step):
                last = min(stop, first + step)
                portion.append((batch, first, last))
                num_bytes += batch.row_bytes * (last - first)
                if num_bytes >= _BATCH_BYTES:
                    yield portion
                    portion, num_bytes = [], 0.0
        if portion:
            yield portion


def _scattered(parts: Sequence[_Part]) -> pa.RecordBatch | None:
    """Return rows of several batches as one batch, or None if Arrow should do it."""
    schema = parts[0][0].schema
    if not kernels.COMPILED or len(parts) < 2:
        return None
    if any(batch.is_together or batch.schema != schema for batch, _, _ in parts):
        return None
    orders = [batch.positions(start, stop) for batch, start, stop in parts]
    columns = ScatteredRows(schema, [batch.values for batch, _, _ in parts], orders).columns()
    others = tuple(number for number in range(len(schema)) if number not in columns)
    if others:
        taken = [batch.take(order, others) for (batch, _, _), order in zip(parts, orders, strict=True)]
        rest = joined(taken)
        if len(rest) > 1:
            return None
        columns.update(zip(others, rest[0].columns, strict=True))
    return pa.RecordBatch.from_arrays([columns[number] for number in range(len(schema))], schema=schema)


def gathered(waiting: Sequence[WaitingRows]) -> list[WaitingRows]:
    """Return the same rows copied out of their batches; each batch is read only once."""
    parts = [(*part, number) for number, rows in enumerate(waiting) for part in rows.parts]
    parts.sort(key=lambda part: part[0].number)
    taken, numbers = [], []
    for _, group in itertools.groupby(parts, lambda part: part[0].number):
        of_batch = list(group)
        batch = of_batch[0][0]
        positions = [batch.positions(start, stop) for _, start, stop, _ in of_batch]
        taken.append(batch.take(np.concatenate(positions)))
        numbers += [(number, stop - start) for _, start, stop, number in of_batch]
    owners, lengths = np.array(numbers, np.int64).reshape(-1, 2).T
    owner_of_row = np.repeat(owners, lengths)
    selected = [WaitingRows() for _ in waiting]
    first = 0
    for batch in joined(taken):
        owners = owner_of_row[first : first + batch.num_rows]
        order = np.argsort(owners, kind="stable")
        stops = np.cumsum(np.bincount(owners, minlength=len(waiting)))
        routed = RoutedBatch(batch, order)
        for rows, start, stop in zip(selected, [0, *stops.tolist()], stops.tolist(), strict=False):
            if start < stop:
                rows.add(routed, start, stop)
        first += batch.num_rows
    return selected


def joined(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return the rows of some batches as one batch, or as several if they do not fit in one."""
    batches = list(batches)
    if len(batches) < 2:
        return batches
    try:
        return pa.Table.from_batches(batches).combine_chunks().to_batches()
    except pa.ArrowInvalid:  # dictionaries whose union is too large for the index type
        return batches


class TakeableRows:
    """A batch whose views are taken as 16-byte words, because Arrow cannot take views."""

    __slots__ = ("_batch", "_views", "_words")

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch = unsliced(batch)
        self._views = [number for number, kind in enumerate(batch.schema.types) if is_view(kind)]
        columns = batch.columns
        for number in self._views:
            columns[number] = _as_words(columns[number])
        self._words = pa.RecordBatch.from_arrays(columns, batch.schema.names) if self._views else batch

    def take(self, positions: npt.NDArray[np.integer]) -> pa.RecordBatch:
        """Return the rows at some positions; views refer to the same buffers."""
        taken = self._words.take(pa.array(positions))
        if not self._views:
            return taken
        columns = taken.columns
        for number in self._views:
            columns[number] = _as_views(columns[number], self._batch.column(number))
        return pa.RecordBatch.from_arrays(columns, schema=self._batch.schema)


def bytes_of(rows: pa.RecordBatch) -> int:
    """Return the size of rows in bytes; for views, unlike ``nbytes``, only the text that they refer to."""
    return sum(
        VIEW_BYTES * len(each) + text_bytes(each) if is_view(each.type) else each.nbytes
        for each in rows.columns
    )


def _as_words(views: pa.Array) -> pa.Array:
    bitmap, words, *_ = views.buffers()
    return pa.Array.from_buffers(pa.binary(VIEW_BYTES), len(views), [bitmap, words], offset=views.offset)


def _as_views(words: pa.Array, like: pa.Array) -> pa.Array:
    _, _, *texts = like.buffers()
    return pa.Array.from_buffers(like.type, len(words), [*words.buffers(), *texts], offset=words.offset)
