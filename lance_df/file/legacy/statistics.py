"""Read the page statistics of 0.1 files: bounds of each batch, for leaves that are not below a list.

They are stored as a table with one row for each batch, whose columns are structs of null_count, min_value
and max_value, named by the field's id. Spec: file format 0.1, section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.plan import RowRange, together
from lance_df.errors import CorruptDataError
from lance_df.file.io import named, named_errors, run_plan
from lance_df.file.legacy.dictionaries import DictionaryLoader
from lance_df.file.legacy.opening import build_column
from lance_df.file.legacy.pages import PageTable
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.format.legacy_metadata import LegacyMetadata
    from lance_df.format.schema import Field
    from lance_df.storage import ByteSource


@dataclass(frozen=True, slots=True)
class LegacyStatistics:
    """The statistics of one field, with one entry for each batch.

    Attributes
    ----------
    row_starts
        The first row of each batch, followed by the total number of rows.
    min_values, max_values
        Bounds of the values that are not null. They need not occur as values, since strings are cut to 64
        bytes. Null means unknown. A zero is -0.0 as a minimum and +0.0 as a maximum; NaN is left out. A batch
        of nulls has the limits of its type (for decimals those of 128 bits, beyond the precision).
    null_counts
        The number of nulls when the batch was written. The stored batch has nulls only in strings and
        binaries.
    """

    row_starts: npt.NDArray[np.int64]
    min_values: pa.Array
    max_values: pa.Array
    null_counts: npt.NDArray[np.int64]


class StatisticsReader:
    """Finds and reads the statistics of single fields."""

    def __init__(self, source: ByteSource, metadata: LegacyMetadata) -> None:
        self._source = source
        self._row_starts = metadata.batch_starts
        self._num_batches = metadata.num_batches
        self._entries: dict[str, Field] = {}
        self._pages: PageTable | None = None
        if metadata.statistics is not None:
            schema = metadata.statistics.schema
            self._entries = {field.name: field for field in schema.fields}
            self._pages = PageTable(
                source, metadata.statistics.page_table_position, 0, schema.max_field_id, num_batches=1
            )

    def read(self, field: Field) -> LegacyStatistics | None:
        """Return the statistics of a leaf, or None if the file has none for it."""
        entry = self._entries.get(str(field.id))
        if entry is None or self._pages is None or not self._num_batches:
            return None
        parts = {child.name: child for child in entry.children}
        label = f"{self._source.path}: statistics of column {field.name!r}"
        if not {"null_count", "min_value", "max_value"} <= parts.keys():
            raise CorruptDataError(f"{label}: found {sorted(parts)}, expected bounds and a null count")
        wanted = [parts["min_value"], parts["max_value"], parts["null_count"]]
        with named_errors(label):
            minimum, maximum, nulls = self._read(label, self._pages, wanted)
            if not minimum.type == maximum.type == field.arrow_type() or nulls.type != pa.int64():
                raise CorruptDataError(
                    f"the bounds are of type {minimum.type}, but the column is of type {field.arrow_type()}"
                )
        return LegacyStatistics(self._row_starts, minimum, maximum, nulls.to_numpy())

    def _read(self, label: str, pages: PageTable, fields: list[Field]) -> list[pa.Array]:
        pages.load(field.id for field in fields)
        columns = [build_column(field, pages, DictionaryLoader(self._source)) for field in fields]
        for column in columns:
            (num_values,) = column.num_values().tolist()
            if num_values != self._num_batches:
                raise CorruptDataError(
                    f"the statistics cover {num_values} batches, but the file has {self._num_batches}"
                )
        rows = [(0, RowRange(0, self._num_batches))]
        plans = [column.read(rows) for column in columns]
        return run_plan(self._source, named(label, together(plans)))
