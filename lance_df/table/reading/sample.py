"""Estimates from a few rows of a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_df.encodings.plan import RowRange
from lance_df.errors import LanceError
from lance_df.scan.runs import run_starts

if TYPE_CHECKING:
    from lance_df.scan.source import SampledStrings
    from lance_df.table.table import Table

_SAMPLED_ROWS: Final = 1024


class TableSample:
    """A `lance_df.scan.source.Sample` of the largest fragment of a table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    @property
    def num_rows(self) -> int | None:
        """The number of rows, where the manifest has it."""
        return self._table.estimated_rows()

    def strings(self, names: Collection[str]) -> SampledStrings | None:
        """Return what columns of strings are like; None without rows."""
        from lance_df.table.string_looks import look_at_strings

        return look_at_strings(self._table, names)

    def num_distinct(self, names: Sequence[str]) -> float:
        """Return about how many different values columns have together; 0 if that is not known."""
        from lance_df.table.distinct_looks import expected_distinct

        return expected_distinct(self._table, names)

    def rows_per_run(self, names: Sequence[str]) -> float:
        """Return how many neighbouring rows are equal in some columns on average."""
        table = self._table
        fragments = table.fragments
        is_stored = all(name in table.schema.names for name in names)
        if not is_stored or not (fragments.physical_rows > 0).any():
            return 1.0
        reader = table.fragment_reader(int(np.argmax(fragments.physical_rows)))

        def estimate() -> float:
            fields = [table.schema.field(name) for name in names]
            num_rows = num_runs = 0
            for start in {0, max(0, reader.num_rows // 2 - _SAMPLED_ROWS)}:
                rows = RowRange(start, min(start + _SAMPLED_ROWS, reader.num_rows))
                num_rows += len(rows)
                starts = run_starts(reader.read(fields, rows), len(rows), _SAMPLED_ROWS)
                num_runs += int(np.count_nonzero(starts))
            return num_rows / max(1, num_runs)

        try:
            return table.shared.observed.sample("runs", reader, names, estimate)
        except LanceError:
            return 1.0
