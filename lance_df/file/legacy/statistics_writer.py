"""Collect the statistics of the batches of a 0.1 file, in the form of the table that the file stores.

Spec: file format 0.1, section 6. `lance_df.file.legacy.statistics` reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.legacy.encode_bounds import has_bounds, min_max, null_counts
from lance_df.format.schema import Field, schema_from_arrow

if TYPE_CHECKING:
    from lance_df.encodings.legacy.encode import Bounds
    from lance_df.format.schema import Schema


class StatisticsCollector:
    """Collects three values for each batch and each leaf that is not below a list."""

    def __init__(self, schema: Schema) -> None:
        self._entries = {field.id: _Entry(field) for field in _bounded_leaves(schema.fields)}

    def add(self, field: Field, array: pa.Array, bounds: Bounds) -> None:
        """Add the rows of a top-level column, which are split into batches at ``bounds``."""
        if field.is_struct:
            for position, child in enumerate(field.children):
                self.add(child, array.field(position), bounds)
        elif field.id in self._entries:
            self._entries[field.id].add(array, bounds)

    def finish(self) -> tuple[Schema, list[pa.Array]] | None:
        """Return the statistics, with one row for each batch and structs named by field ids; None if none."""
        entries = [(field_id, entry.finish()) for field_id, entry in sorted(self._entries.items())]
        if not entries or not len(entries[0][1]):
            return None
        fields = [pa.field(str(field_id), array.type, nullable=False) for field_id, array in entries]
        return schema_from_arrow(pa.schema(fields)), [array for _, array in entries]


class _Entry:
    """The statistics of one leaf."""

    def __init__(self, field: Field) -> None:
        self._type = field.arrow_type()
        self._nullable = field.nullable
        self._nulls: list[pa.Array] = []
        self._lows: list[pa.Array] = []
        self._highs: list[pa.Array] = []

    def add(self, array: pa.Array, bounds: Bounds) -> None:
        low, high = min_max(array, bounds)
        self._nulls.append(pa.array(null_counts(array, bounds), pa.int64()))
        self._lows.append(low)
        self._highs.append(high)

    def finish(self) -> pa.StructArray:
        parts = ((pa.int64(), self._nulls), (self._type, self._lows), (self._type, self._highs))
        columns = [pa.concat_arrays(arrays) if arrays else pa.array([], kind) for kind, arrays in parts]
        return pa.StructArray.from_arrays(
            columns,
            fields=[
                pa.field("null_count", pa.int64(), nullable=False),
                pa.field("min_value", self._type, self._nullable),
                pa.field("max_value", self._type, self._nullable),
            ],
        )


def _bounded_leaves(fields: Sequence[Field]) -> Iterator[Field]:
    for field in fields:
        if field.is_struct:
            yield from _bounded_leaves(field.children)
        elif not field.children and has_bounds(field.arrow_type()):
            yield field


def one_batch(num_values: int) -> Bounds:
    """Return the bounds of a single batch, the form in which statistics are stored."""
    return np.array([0, num_values], np.int64)
