"""The columns of 0.1 files: a tree like the schema, in which each node reads its part of each batch.

Spec: file format 0.1, section 5. Structs and lists have no nulls; in a nullable field, empty strings are
null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import empty_array, list_array, null_array, struct_array
from lance_df.encodings.legacy.lists import read_list_bounds
from lance_df.encodings.legacy.page import Points, RowSlice, Wanted
from lance_df.encodings.legacy.plain import read_plain
from lance_df.encodings.legacy.var_binary import read_var_binary
from lance_df.encodings.plan import RowRange, together
from lance_df.encodings.rows import split_rows
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.legacy.offsets import Bounds
    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.file.legacy.pages import FieldPages


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Single rows (or items): for each its batch, and its number within the batch."""

    batches: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]


BatchRanges: TypeAlias = Sequence[tuple[int, RowRange]]
"""For some batches, the number of the batch and a range of its rows (or items)."""

Parts: TypeAlias = BatchRanges | BatchRows


def parts_of(rows: Rows, batch_starts: npt.NDArray[np.int64]) -> Parts:
    """Split the rows of a file by batch."""
    if isinstance(rows, RowRange):
        ranges = split_rows(rows, batch_starts)
        return [(batch, within) for batch, within in ranges if isinstance(within, RowRange)]
    batches = np.searchsorted(batch_starts, rows, side="right") - 1
    return BatchRows(batches, rows - batch_starts[batches])


def count_parts(parts: Parts) -> int:
    """Return the number of rows (or items)."""
    return len(parts.rows) if isinstance(parts, BatchRows) else sum(len(rows) for _, rows in parts)


class Column(Protocol):
    """A column that can be read by batch."""

    def num_values(self) -> npt.NDArray[np.int64]:
        """Return the number of rows of each batch, or of items if the column is below a list."""
        ...

    def read(self, parts: Parts) -> IoPlan[pa.Array]:
        """Plan to read rows of several batches as one array. The rows must exist."""
        ...


@dataclass(frozen=True, slots=True)
class LeafPages:
    """The pages of one field, and the size of their file."""

    pages: FieldPages
    file_size: int

    def wanted(self, parts: Parts, *, extra: int = 0) -> Wanted:
        """Return the parts as decoders take them. ``extra`` of the entries of a page are not rows."""
        if isinstance(parts, BatchRows):
            return Points(self.pages[parts.batches, 0], parts.rows, self.file_size)
        wanted = []
        for batch, rows in parts:
            position, length = self.pages[batch].tolist()
            wanted.append(RowSlice(position, length - extra, self.file_size, rows))
        return wanted

    def lengths(self) -> npt.NDArray[np.int64]:
        """Return the counts of the page table for each batch."""
        return self.pages[:, 1]


@dataclass(frozen=True, slots=True)
class PlainColumn:
    """Values of fixed width."""

    data_type: pa.DataType
    leaf: LeafPages

    def num_values(self) -> npt.NDArray[np.int64]:
        return self.leaf.lengths()

    def read(self, parts: Parts) -> IoPlan[pa.Array]:
        return (yield from read_plain(self.data_type, self.leaf.wanted(parts)))


@dataclass(frozen=True, slots=True)
class VarBinaryColumn:
    """Strings and binaries."""

    data_type: pa.DataType
    leaf: LeafPages
    nullable: bool

    def num_values(self) -> npt.NDArray[np.int64]:
        return self.leaf.lengths()

    def read(self, parts: Parts) -> IoPlan[pa.Array]:
        wanted = self.leaf.wanted(parts)
        return (yield from read_var_binary(self.data_type, wanted, nullable=self.nullable))


@dataclass(frozen=True, slots=True)
class NullColumn:
    """A column of which only the number of rows is stored."""

    leaf: LeafPages

    def num_values(self) -> npt.NDArray[np.int64]:
        return self.leaf.lengths()

    def read(self, parts: Parts) -> IoPlan[pa.Array]:
        yield from ()
        return pa.nulls(count_parts(parts))


@dataclass(frozen=True, slots=True)
class DictionaryColumn:
    """Keys in pages; the values, which all files of a table share, are loaded on demand."""

    data_type: pa.DataType
    keys: PlainColumn
    load_values: Callable[[], pa.Array]

    def num_values(self) -> npt.NDArray[np.int64]:
        return self.keys.num_values()

    def read(self, parts: Parts) -> IoPlan[pa.Array]:
        keys = yield from self.keys.read(parts)
        values = self.load_values()
        if not len(values):  # written only for columns of nulls, whose keys have no meaning
            return null_array(self.data_type, len(keys))
        limits = pc.min_max(keys)
        low, high = limits["min"].as_py(), limits["max"].as_py()
        if low is not None and (low < 0 or high >= len(values)):
            raise CorruptDataError(
                f"dictionary keys are out of range: found {low} to {high}, the dictionary has {len(values)} "
                "values"
            )
        return pa.DictionaryArray.from_arrays(keys, values, ordered=self.data_type.ordered, safe=False)


@dataclass(frozen=True, slots=True)
class StructColumn:
    """Children of equal length."""

    name: str
    data_type: pa.DataType
    children: Sequence[Column]

    def num_values(self) -> npt.NDArray[np.int64]:
        counts = [child.num_values() for child in self.children]
        if not counts:
            raise CorruptDataError(f"struct {self.name!r} has no children, expected at least 1 in a 0.1 file")
        if any((count != counts[0]).any() for count in counts[1:]):
            raise CorruptDataError(
                f"the children of struct {self.name!r} have different numbers of values in a batch"
            )
        return counts[0]

    def read(self, parts: Parts) -> IoPlan[pa.Array]:
        children = yield from together([child.read(parts) for child in self.children])
        return struct_array(self.data_type, count_parts(parts), children)


@dataclass(frozen=True, slots=True)
class ListColumn:
    """Offsets in pages, and the items of the same batch."""

    data_type: pa.DataType
    leaf: LeafPages
    items: Column

    def num_values(self) -> npt.NDArray[np.int64]:
        return np.maximum(self.leaf.lengths() - 1, 0)

    def read(self, parts: Parts) -> IoPlan[pa.Array]:
        if not count_parts(parts):
            return empty_array(self.data_type)
        batches = parts.batches if isinstance(parts, BatchRows) else [batch for batch, _ in parts]
        bounds = yield from read_list_bounds(
            self.leaf.wanted(parts, extra=1),
            large=pa.types.is_large_list(self.data_type),
            num_items=self.items.num_values()[batches],
        )
        items = yield from self.items.read(_items(parts, bounds))
        lengths = np.concatenate([ends - starts for starts, ends in bounds])
        ends = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=ends[1:])
        return list_array(self.data_type, ends, items, None)


def _items(parts: Parts, bounds: Sequence[Bounds]) -> Parts:
    """Return the items of lists, split by batch."""
    if isinstance(parts, BatchRows):
        ((starts, ends),) = bounds
        lengths = ends - starts
        before = np.cumsum(lengths) - lengths
        rows = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()), dtype=np.int64)
        return BatchRows(np.repeat(parts.batches, lengths), rows)
    return [
        (batch, RowRange(int(starts[0]), int(ends[-1])))
        for (batch, _), (starts, ends) in zip(parts, bounds, strict=True)
        if len(starts) and ends[-1] > starts[0]
    ]
