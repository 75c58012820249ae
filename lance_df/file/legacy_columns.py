"""Columns of 0.1 files: a tree like the schema's. Each node reads its part of each batch.

Spec: file format 0.1, section 5. Structs and lists have no nulls; strings without bytes are null where the
field is nullable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import empty_array, list_array, null_array, struct_array
from lance_df.encodings.legacy.lists import read_list_bounds
from lance_df.encodings.legacy.page import Stretch
from lance_df.encodings.legacy.plain import read_plain
from lance_df.encodings.legacy.var_binary import read_var_binary
from lance_df.encodings.plan import together
from lance_df.encodings.rows import rows_of_spans
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.file.legacy_pages import FieldPages

Part: TypeAlias = "tuple[int, Rows]"
"""A batch, and rows (or items) counted from its start."""


class Column(Protocol):
    """Something that can be read by batch."""

    def num_values(self, batch: int) -> int:
        """Return the rows, or items below a list, that a batch holds."""
        ...

    def read(self, parts: Sequence[Part]) -> IoPlan[pa.Array]:
        """Plan to read rows of several batches as one array. The rows must exist."""
        ...


@dataclass(frozen=True, slots=True)
class LeafPages:
    """The pages of one field, and the size of the file they lie in."""

    pages: FieldPages
    file_size: int

    def stretch(self, part: Part, *, extra: int = 0) -> Stretch:
        """Return what a decoder is told of a part. ``extra`` entries of the page belong to no row."""
        batch, rows = part
        position, length = self.pages[batch].tolist()
        return Stretch(position, length - extra, self.file_size, rows)


@dataclass(frozen=True, slots=True)
class PlainColumn:
    """Values of fixed width."""

    data_type: pa.DataType
    leaf: LeafPages

    def num_values(self, batch: int) -> int:
        return int(self.leaf.pages[batch, 1])

    def read(self, parts: Sequence[Part]) -> IoPlan[pa.Array]:
        return (yield from read_plain(self.data_type, [self.leaf.stretch(part) for part in parts]))


@dataclass(frozen=True, slots=True)
class VarBinaryColumn:
    """Strings and binaries."""

    data_type: pa.DataType
    leaf: LeafPages
    nullable: bool

    def num_values(self, batch: int) -> int:
        return int(self.leaf.pages[batch, 1])

    def read(self, parts: Sequence[Part]) -> IoPlan[pa.Array]:
        stretches = [self.leaf.stretch(part) for part in parts]
        return (yield from read_var_binary(self.data_type, stretches, nullable=self.nullable))


@dataclass(frozen=True, slots=True)
class NullColumn:
    """Nothing is stored but the count."""

    leaf: LeafPages

    def num_values(self, batch: int) -> int:
        return int(self.leaf.pages[batch, 1])

    def read(self, parts: Sequence[Part]) -> IoPlan[pa.Array]:
        yield from ()
        return pa.nulls(sum(len(rows) for _, rows in parts))


@dataclass(frozen=True, slots=True)
class DictionaryColumn:
    """Keys in pages; the values, the same for all files of a table, are loaded on demand."""

    data_type: pa.DataType
    keys: PlainColumn
    load_values: Callable[[], pa.Array]

    def num_values(self, batch: int) -> int:
        return self.keys.num_values(batch)

    def read(self, parts: Sequence[Part]) -> IoPlan[pa.Array]:
        keys = yield from self.keys.read(parts)
        values = self.load_values()
        if not len(values):  # written for columns of nulls only, whose keys mean nothing
            return null_array(self.data_type, len(keys))
        limits = pc.min_max(keys)
        low, high = limits["min"].as_py(), limits["max"].as_py()
        if low is not None and (low < 0 or high >= len(values)):
            raise CorruptDataError(f"dictionary keys go from {low} to {high}, there are {len(values)} values")
        return pa.DictionaryArray.from_arrays(keys, values, ordered=self.data_type.ordered, safe=False)


@dataclass(frozen=True, slots=True)
class StructColumn:
    """Children of equal length."""

    name: str
    data_type: pa.DataType
    children: Sequence[Column]

    def num_values(self, batch: int) -> int:
        counts = {child.num_values(batch) for child in self.children}
        if len(counts) != 1:
            raise CorruptDataError(
                f"the children of struct {self.name!r} have {sorted(counts)} values in batch {batch}, "
                "expected as many each"
            )
        return counts.pop()

    def read(self, parts: Sequence[Part]) -> IoPlan[pa.Array]:
        children = yield from together([child.read(parts) for child in self.children])
        return struct_array(self.data_type, sum(len(rows) for _, rows in parts), children)


@dataclass(frozen=True, slots=True)
class ListColumn:
    """Offsets in pages, and the items of the same batch."""

    data_type: pa.DataType
    leaf: LeafPages
    items: Column

    def num_values(self, batch: int) -> int:
        return max(int(self.leaf.pages[batch, 1]) - 1, 0)

    def read(self, parts: Sequence[Part]) -> IoPlan[pa.Array]:
        if not parts:
            return empty_array(self.data_type)
        large = pa.types.is_large_list(self.data_type)
        bounds = yield from together(
            [
                read_list_bounds(
                    self.leaf.stretch(part, extra=1), large=large, num_items=self.items.num_values(part[0])
                )
                for part in parts
            ]
        )
        lengths = [ends - starts for starts, ends in bounds]
        wanted = [
            (batch, rows_of_spans(starts, length))
            for (batch, _), (starts, _), length in zip(parts, bounds, lengths, strict=True)
        ]
        items = yield from self.items.read([part for part in wanted if len(part[1])])
        ends = np.zeros(sum(map(len, lengths)) + 1, np.int64)
        np.cumsum(np.concatenate(lengths), out=ends[1:])
        return list_array(self.data_type, ends, items, None)
