"""Helpers to concatenate rows of ``__manifest``, and to replace columns of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.namespace.manifest_table import READ_FIELDS

if TYPE_CHECKING:
    from lance_df.namespace.spec.partition_spec import PartitionSpecs


def value_columns(specs: PartitionSpecs) -> list[str]:
    """Return the names of the columns of partition values."""
    return [each.column for each in specs.fields.values()]


def without_values(rows: pa.Table, specs: PartitionSpecs) -> pa.Table:
    """Return rows without partition values and versions."""
    for name in (*value_columns(specs), *(each.name for each in READ_FIELDS)):
        rows = with_column(rows, name, pa.nulls(len(rows), rows.schema.field(name).type))
    return rows


def with_column(rows: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return rows with a column replaced."""
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, rows.schema.field(index), column)


def joined(*parts: pa.Table) -> pa.Table:
    """Return the rows of several tables, in one chunk."""
    return pa.concat_tables(parts).combine_chunks()
