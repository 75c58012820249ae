"""Read rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import pyarrow as pa

from lance_df.api.base import DatasetBase
from lance_df.api.dataset_calls import DatasetCalls
from lance_df.arguments import checked_integer, checked_names
from lance_df.errors import InvalidInputError
from lance_df.file.arrow_types import show_table
from lance_df.scanner_options import Columns, Filter, ScannerBuilder
from lance_df.table.reading.system_columns import ROW_ADDRESS, SYSTEM_COLUMNS, system_schema
from lance_df.table.reading.take import take_offsets, take_row_ids
from lance_df.table.scan.columns import resolve_columns, resolve_name

if TYPE_CHECKING:
    import pandas as pd

    from lance_df.dataset import LanceDataset
    from lance_df.fragment import LanceFragment
    from lance_df.scanner import LanceScanner
    from lance_df.table.table import Table


class Reading(DatasetBase, DatasetCalls):
    """Methods that read rows: scans, and rows by position, id or address."""

    def scanner(
        self,
        columns: Columns = None,
        filter: Filter | dict[str, Any] = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: object = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        fragments: Iterable[LanceFragment] | None = None,
        index_segments: object = None,
        full_text_query: object = None,
        **options: Any,
    ) -> LanceScanner:
        """Return a scan that has not run yet.

        Parameters
        ----------
        columns
            A list of columns, struct fields (``"a.b"``) or system columns; ``["*"]`` for all columns; or a
            dict of names and SQL expressions.
        filter
            An SQL expression or a pyarrow expression.
        limit, offset
            The maximum number of rows to return, and the number of rows to skip before them.
        batch_size
            The maximum number of rows of a batch.
        fragments
            Scan only these fragments, in this order.
        **options
            ``with_row_id``, ``with_row_address``, ``include_deleted_rows``, ``strict_batch_size``,
            ``order_by``, ``use_stats``, ``use_scalar_index`` and ``blob_handling``, as in pylance. Options
            that only tune performance have no effect.
        nearest, index_segments, full_text_query
            Refused: lance_df has no vector or text search.
        batch_size_bytes, batch_readahead, fragment_readahead, scan_in_order
            No effect. Rows are always returned in order.

        Raises
        ------
        InvalidInputError
            An argument is invalid.
        """
        del batch_size_bytes, batch_readahead, fragment_readahead, scan_in_order
        builder = ScannerBuilder(cast("LanceDataset", self))
        defaults = self._default_scan_options
        if defaults:
            builder.apply_defaults(defaults)
            columns = _of_computed(columns, defaults.get("columns"))
        given = {
            "columns": columns,
            "filter": filter,
            "limit": limit,
            "offset": offset,
            "nearest": nearest,
            "batch_size": batch_size,
            "fragments": fragments,
            "index_segments": index_segments,
            "full_text_query": full_text_query,
            **options,
        }
        builder.apply_defaults({name: value for name, value in given.items() if value is not None})
        return builder.to_scanner()

    def to_pandas(self, columns: Columns = None, filter: Filter = None, **options: Any) -> pd.DataFrame:
        """Read the rows into a pandas frame; see `scanner`.

        Options that are not scan options are passed to `pyarrow.Table.to_pandas`.
        """
        options.pop("blob_mode", None)
        return super().to_pandas(columns, filter, **options)

    def count_rows(self, filter: Filter = None, **options: Any) -> int:
        """Return the number of rows, or of those that match an SQL or pyarrow expression.

        As in pylance, default scan options, including a default filter, have no effect on counts. To count
        the rows of the default scan, call ``scanner().count_rows()``. A dataset that `filter` returned counts
        its own rows.
        """
        counted = self._without_defaults()
        if filter is None and not options and not counted._default_scan_options:
            return self._table.count_rows()
        return counted.scanner(filter=filter, **options).count_rows()

    def _without_defaults(self) -> Self:
        """Return the same rows without default scan options. The condition of `filter` is retained."""
        condition = (self._default_scan_options or {}).get("condition")
        return self._with_scan_options({} if condition is None else {"condition": condition})

    def take(self, indices: Sequence[int] | pa.Array, columns: Columns = None) -> pa.Table:
        """Return rows by their positions in a scan of the whole table, in the requested order.

        As in pylance, a field of a struct (``"s.a"``) is returned inside its struct, whereas scans return it
        as a column. A column that is named twice is returned once, unless it is a system column.

        Raises
        ------
        InvalidInputError
            There is no row at such a position.
        """
        return taken_columns(
            self._table, columns, lambda names: take_offsets(self._table, indices, columns=names, nested=True)
        )

    def _take_rows(self, row_ids: Sequence[int] | pa.Array, columns: Columns = None, **_: object) -> pa.Table:
        """Return rows by their row ids, in the requested order. Ids of deleted rows are ignored."""
        return taken_columns(
            self._table, columns, lambda names: take_row_ids(self._table, row_ids, columns=names, nested=True)
        )

    def slice(self, start: int, end: int, columns: Columns = None) -> pa.Table:
        """Return the rows from ``start`` to ``end`` (exclusive)."""
        first = checked_integer(start, "start")
        return self.to_table(columns, offset=first, limit=max(0, checked_integer(end, "end") - first))

    def sample(
        self,
        num_rows: int,
        columns: Columns = None,
        randomize_order: bool = True,
    ) -> pa.Table:
        """Return random rows, each at most once."""
        total = self._table.count_rows()
        number = checked_integer(num_rows, "num_rows")
        if not 0 <= number <= total:
            raise InvalidInputError(f"cannot sample {number} rows from {total}")
        indices = random.sample(range(total), number)
        return self.take(indices if randomize_order else sorted(indices), columns)


def taken_columns(
    table: Table, columns: Columns, take: Callable[[Iterable[str] | None], pa.Table]
) -> pa.Table:
    """Return columns of taken rows; see `Reading.take`.

    Parameters
    ----------
    take
        A function that takes the columns with some names, or all columns for None.
    """
    if columns is None:
        return show_table(take(None))
    if isinstance(columns, Mapping):
        return _computed(table, columns, take)
    names = [
        resolve_name(table.schema, name).output.name if "`" in name else name
        for name in checked_names(columns, "columns")
    ]
    once = list(dict.fromkeys(names))
    taken = show_table(take(once))
    if len(once) == len(names):
        return taken
    tops = [resolve_name(table.schema, name).path[0] for name in names]
    first = {top: index for index, top in reversed(list(enumerate(tops)))}
    shown = [top for index, top in enumerate(tops) if top in SYSTEM_COLUMNS or first[top] == index]
    positions = {name: index for index, name in reversed(list(enumerate(taken.schema.names)))}
    return taken.select([positions[name] for name in shown])


def _computed(
    table: Table, columns: Mapping[str, str], take: Callable[[Iterable[str] | None], pa.Table]
) -> pa.Table:
    """Compute expressions over taken rows, after reading the columns that the expressions use."""
    from lance_df.engine.query import columns_computed_from, compute_columns

    taken = resolve_columns(table.schema, system_schema(table.arrow_schema).names)
    names = columns_computed_from(pa.schema([column.output for column in taken]), columns)
    # without any column, a table of Arrow has no rows
    return show_table(compute_columns(take(names or [ROW_ADDRESS]), columns))


def _of_computed(columns: Columns, computed: Columns) -> Columns:
    """Return expressions for columns if all of them name computed columns of the default scan options."""
    if not columns or not isinstance(columns, list | tuple) or not isinstance(computed, Mapping):
        return columns
    if not all(isinstance(name, str) and name in computed for name in columns):
        return columns
    return {name: computed[name] for name in columns}
