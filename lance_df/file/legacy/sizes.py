"""Compute the bytes of each page of a 0.1 file, since the page table has only counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lance_df.encodings.arrays import fixed_width_bits
from lance_df.encodings.leaf_values import is_variable

if TYPE_CHECKING:
    from lance_df.file.legacy.pages import PageTable
    from lance_df.format.schema import Field, Schema


def page_sizes(schema: Schema, table: PageTable) -> dict[int, npt.NDArray[np.int64]]:
    """Return, by field id, the bytes of each batch's page.

    The bytes of strings are assumed to fill the gap between the end of the previous page and their offsets,
    as all writers arrange them.
    """
    fields = list(schema.walk())
    table.load(field.id for field in fields)
    sizes = {field.id: _entries_bytes(field, table.pages(field.id)[:, 1]) for field in fields}
    positions = np.concatenate([table.pages(field.id)[:, 0] for field in fields] or [np.zeros(0, np.int64)])
    ends = positions + np.concatenate(list(sizes.values()) or [np.zeros(0, np.int64)])
    order = np.argsort(positions, kind="stable")
    reached = np.empty_like(ends)
    reached[order] = np.concatenate([[0], np.maximum.accumulate(ends[order])[:-1]]) if len(order) else 0
    gaps = np.maximum(positions - reached, 0)
    for number, field in enumerate(fields):
        if is_variable(field.arrow_type()):
            sizes[field.id] += gaps[number * table.num_batches : (number + 1) * table.num_batches]
    return sizes


def _entries_bytes(field: Field, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the bytes of the entries that the page table counts: values, or offsets of strings and lists."""
    data_type = field.arrow_type()
    if field.is_list:
        return lengths * (8 if field.logical_type.startswith("large") else 4)
    if is_variable(data_type):
        return (lengths + 1) * 8 * (lengths > 0)
    if field.logical_type.startswith("dict:"):
        data_type = data_type.index_type
    return (lengths * (fixed_width_bits(data_type) or 0) + 7) // 8
