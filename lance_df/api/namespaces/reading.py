"""Read the rows of a partitioned namespace. Like a table, it is a `pyarrow.dataset.Dataset`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.api.dataset_calls import DatasetCalls
from lance_df.engine.query import plan_with_sql
from lance_df.errors import InvalidInputError
from lance_df.expr.from_pyarrow import to_predicate
from lance_df.file.arrow_types import shown_schema
from lance_df.namespace_scanner import NamespaceFragment, NamespaceScanner
from lance_df.scan.request import ScanRequest
from lance_df.scanner_options import ScannerBuilder
from lance_df.sql.expressions import with_quoted_columns

if TYPE_CHECKING:
    from lance_df.api.namespaces.namespace import PartitionedNamespace
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.scan.plan import ScanPlan
    from lance_df.scanner_options import Columns, Filter

# engines run each by itself, and plan it by itself
_MAX_FRAGMENTS: Final = 16


class NamespaceReading(DatasetCalls):
    """Methods that read rows. A scan opens only members that may have matching rows.

    Columns are given as names, or as a dict of names and SQL expressions. A filter is an SQL expression or a
    pyarrow expression. In every SQL expression over a namespace, text in double quotes is a column if a
    column has exactly that name. Otherwise it is a string, as in filters of a `LanceDataset`.
    """

    _table: NamespaceSnapshot

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of all members, with the types in which rows are read."""
        if self._default_scan_options is not None:
            return self.scanner().projected_schema
        return shown_schema(self._table.arrow_schema)

    def scanner(
        self,
        columns: Columns = None,
        filter: Filter = None,
        batch_size: int | None = None,
        *,
        limit: int | None = None,
        offset: int | None = None,
        **options: Any,
    ) -> NamespaceScanner:
        """Return a scan that has not run yet. Partitions that cannot match are not opened.

        Parameters
        ----------
        columns
            A list of columns or struct fields (``"a.b"``); or a dict of names and SQL expressions.
        filter
            An SQL expression or a pyarrow expression.
        batch_size
            The maximum number of rows of a batch.
        limit, offset
            The maximum number of rows to return, and the number of rows to skip before them.
        **options
            ``strict_batch_size``, ``order_by``, ``use_stats``, ``use_scalar_index`` and ``blob_handling``, as
            in `LanceDataset.scanner`. Options that only tune performance have no effect.

        Raises
        ------
        InvalidInputError, ColumnNotFoundError
            An argument is invalid.
        UnsupportedFeatureError
            Row ids or fragments are requested. They belong to members, not to the namespace.
        """
        names = self._table.arrow_schema.names
        if isinstance(filter, str):
            filter = with_quoted_columns(filter, names)
        if isinstance(columns, Mapping):
            columns = {
                name: with_quoted_columns(text, names) if type(text) is str else text
                for name, text in columns.items()
            }
        builder = ScannerBuilder(self)
        if self._default_scan_options:
            builder.apply_defaults(self._default_scan_options)
        given = {
            "columns": columns,
            "filter": filter,
            "batch_size": batch_size,
            "limit": limit,
            "offset": offset,
            **options,
        }
        builder.apply_defaults({name: value for name, value in given.items() if value is not None})
        return NamespaceScanner(self, builder.to_options())

    def to_batches(
        self,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a scan; see `scanner`."""
        return iter(self.scanner(columns, filter, **options).to_reader())  # errors of the request at once

    def count_rows(self, filter: Filter = None, **options: Any) -> int:
        """Return the number of rows, or of those that match an SQL or pyarrow expression."""
        if filter is None and not self._default_scan_options:
            return self._table.count_rows()
        return self.scanner(filter=filter, **options).count_rows()

    def take(self, indices: Sequence[int] | pa.Array, columns: Columns = None, **options: Any) -> pa.Table:
        """Return rows by their positions in a scan, in the requested order. All members are read.

        Raises
        ------
        InvalidInputError
            There is no row at such a position.
        """
        return self.scanner(columns, **options).take(indices)

    def get_fragments(self, filter: pc.Expression | None = None) -> list[NamespaceFragment]:
        """Return the members as a few fragments; with a filter, only members that may have matching rows.

        At least one fragment is returned, even without members: DataFusion cannot sort the rows of an empty
        list of fragments.
        """
        if filter is not None and not isinstance(filter, pc.Expression):
            raise InvalidInputError(f"expected a pyarrow expression, got {type(filter).__name__}")
        condition = (self._default_scan_options or {}).get("condition")
        if filter is not None and condition is not None:
            filter = condition & filter
        wanted = condition if filter is None else filter
        predicate = None if wanted is None else to_predicate(wanted, self._table.arrow_schema)
        positions = self._table.selected_members(ScanRequest(pruning_predicate=predicate)).positions
        parts = np.array_split(positions, min(max(1, len(positions)), _MAX_FRAGMENTS))
        namespace = cast("PartitionedNamespace", self)
        return [NamespaceFragment(namespace, tuple(part.tolist())) for part in parts]

    def plan_scan(self, filter: Filter = None) -> ScanPlan:
        """Return the plan of a scan. Its ``report`` says what the scan would read.

        Parameters
        ----------
        filter
            An SQL expression, a pyarrow expression, or None for all rows.

        Raises
        ------
        InvalidInputError, ColumnNotFoundError
            A name or the expression is invalid.
        """
        if not isinstance(filter, str | pc.Expression | None):
            raise InvalidInputError(
                f"filter must be SQL text or a pyarrow expression, got {type(filter).__name__}"
            )
        if isinstance(filter, str):
            filter = with_quoted_columns(filter, self._table.arrow_schema.names)
        return plan_with_sql(self._table, filter=filter)
