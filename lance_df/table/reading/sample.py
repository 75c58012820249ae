"""Estimates from a few rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import concat_arrays
from lance_df.encodings.plan import RowRange
from lance_df.errors import LanceError
from lance_df.scan.runs import run_starts
from lance_df.scan.source import SampledStrings
from lance_df.table.reading.observed import ENTRY_BYTES

if TYPE_CHECKING:
    from lance_df.table.reading.fragment_reader import FragmentReader
    from lance_df.table.table import Table

S = TypeVar("S")

# strings up to this size are inside a view
_VIEW_BYTES: Final = 12
_MOSTLY: Final = 0.75
_SAMPLED_ROWS: Final = 1024
_SAMPLED_RANGES: Final = 8
_VALUE_BYTES: Final = 16
_SAMPLED_VALUES: Final = 8 * 1024
# If values are clustered, or all different, the rest is expected to be similar.
_CLUSTERED: Final = 0.9
_MOST: Final = 100


class TableSample:
    """A `lance_df.scan.source.Sample` of one fragment of a table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    @property
    def num_rows(self) -> int | None:
        """The number of rows, if the manifest has it."""
        return self._table.estimated_rows()

    def strings(self, names: Collection[str]) -> SampledStrings | None:
        """Return properties of string columns; None if there are no rows."""
        reader = self._first_fragment()
        if reader is None:
            return None

        def estimate() -> SampledStrings:
            rows = RowRange(0, min(_SAMPLED_ROWS, reader.num_rows))
            fields = [self._table.schema.field(name) for name in names]
            columns = dict(zip(names, reader.read(fields, rows, keep_dictionaries=True), strict=True))
            return SampledStrings(
                frozenset(name for name, array in columns.items() if _is_short(array)),
                frozenset(name for name, array in columns.items() if pa.types.is_dictionary(array.type)),
            )

        return self._observed("strings", reader, names, estimate)

    def num_distinct(self, names: Sequence[str]) -> float:
        """Estimate the number of distinct combinations of column values; 0 if it is unknown."""
        reader = self._first_fragment()
        if not names or reader is None:
            return 0.0

        def estimate() -> tuple[float, float]:
            rows = RowRange(0, min(_SAMPLED_VALUES, reader.num_rows))
            return _new_values(reader.read([self._table.schema.field(name) for name in names], rows))

        share, most = self._observed("distinct values", reader, names, estimate) or (0.0, 0.0)
        return min(float(self._table.fragments.physical_rows.sum()) * share, most)

    def share_among(self, name: str, values: pa.Array) -> float:
        """Estimate the fraction of rows with one of the given values in a column; 1 if it is unknown."""
        reader = self._first_fragment()
        if reader is None or name not in self._table.schema.names:
            return 1.0

        def take() -> pa.Array:
            field = self._table.schema.field(name)
            parts = []
            for start in np.linspace(
                0, reader.num_rows, _SAMPLED_RANGES, endpoint=False, dtype=np.int64
            ).tolist():
                rows = RowRange(start, min(start + _SAMPLED_ROWS // _SAMPLED_RANGES, reader.num_rows))
                parts += reader.read([field], rows)
            return concat_arrays(parts, field.arrow_type())

        sampled = self._observed("values", reader, [name], take, _SAMPLED_ROWS * _VALUE_BYTES)
        if sampled is None or sampled.type != values.type or not len(sampled):
            return 1.0
        return float(pc.mean(pc.is_in(sampled, values)).as_py())

    def rows_per_run(self, names: Sequence[str]) -> float:
        """Estimate the average number of neighbouring rows that are equal in some columns."""
        table = self._table
        physical_rows = table.fragments.physical_rows
        is_stored = all(name in table.schema.names for name in names)
        if not is_stored or not (physical_rows > 0).any():
            return 1.0
        reader = table.fragment_reader(int(np.argmax(physical_rows)))

        def estimate() -> float:
            fields = [table.schema.field(name) for name in names]
            num_rows = num_runs = 0
            for start in {0, max(0, reader.num_rows // 2 - _SAMPLED_ROWS)}:
                rows = RowRange(start, min(start + _SAMPLED_ROWS, reader.num_rows))
                num_rows += len(rows)
                starts = run_starts(reader.read(fields, rows), len(rows), _SAMPLED_ROWS)
                num_runs += int(np.count_nonzero(starts))
            return num_rows / max(1, num_runs)

        return self._observed("runs", reader, names, estimate) or 1.0

    def _first_fragment(self) -> FragmentReader | None:
        """Return the first fragment with rows; None if there is none."""
        has_rows = self._table.fragments.physical_rows > 0
        return self._table.fragment_reader(int(np.argmax(has_rows))) if has_rows.any() else None

    def _observed(
        self,
        kind: str,
        reader: FragmentReader,
        names: Collection[str],
        estimate: Callable[[], S],
        num_bytes: int = ENTRY_BYTES,
    ) -> S | None:
        """Return a cached estimate; None if the rows cannot be read; the scan itself raises the error."""
        try:
            return self._table.shared.observed.sample(kind, reader, tuple(names), estimate, num_bytes)
        except (LanceError, pa.ArrowNotImplementedError):
            return None


def _is_short(values: pa.Array) -> bool:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    share = pc.mean(pc.less_equal(pc.binary_length(values), _VIEW_BYTES)).as_py()
    return share is None or bool(share >= _MOSTLY)


def _new_values(columns: Sequence[pa.Array]) -> tuple[float, float]:
    """Return the fraction of rows expected to have a new value, and the maximum number of values."""
    codes = np.zeros(len(columns[0]), np.int64)
    for given in columns:
        # the indices of a dictionary may be null
        column = given.dictionary_decode() if pa.types.is_dictionary(given.type) else given
        indices = pc.dictionary_encode(column, null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        _, codes = np.unique(codes * (int(indices.max()) + 1) + indices, return_inverse=True)
    num_rows, num_values = len(codes), int(codes.max()) + 1
    num_runs = 1 + int(np.count_nonzero(np.diff(codes)))
    if num_values >= _CLUSTERED * num_runs:
        return num_values / num_rows, np.inf
    # s rows show n (1 - exp(-s / n)) of n values in random order
    counts = np.geomspace(num_values, _MOST * num_rows, 256)
    shown = counts * -np.expm1(-num_rows / counts)
    return 1.0, float(counts[min(int(np.searchsorted(shown, num_values)), len(counts) - 1)])
