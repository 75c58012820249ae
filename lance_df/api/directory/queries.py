"""Read the tables of a directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_df.api.directory import table_responses as responses
from lance_df.api.directory.calls import DirectoryCalls, arguments, member
from lance_df.errors import UnsupportedFeatureError
from lance_df.table.metadata.row_counts import live_rows

if TYPE_CHECKING:
    from lance_df.namespace.directory.names import Parts
    from lance_df.scanner import LanceScanner

# a fragment with fewer rows is small: the target size of a compaction
_SMALL_ROWS: Final = 1024 * 1024
_PERCENTILES: Final = (25, 50, 75, 99)
_QUERY: Final = (
    *("columns", "filter", "k", "offset", "with_row_id", "version", "branch"),
    *("vector", "full_text_query"),
)


class DirectoryQueries(DirectoryCalls):
    """Methods that read rows, plans and statistics of one version of a table.

    The default is the newest version of the branch main.
    """

    def count_table_rows(
        self,
        id: Any,
        *,
        predicate: str | None = None,
        version: int | None = None,
        branch: str | None = None,
    ) -> responses.CountTableRowsResponse:
        """Return the number of rows for which an SQL predicate is true; without a predicate, of all rows.

        Raises
        ------
        DatasetNotFoundError, VersionNotFoundError
            There is no such table, or no such version or branch.
        InvalidInputError
            The predicate is invalid.
        """
        parts, (predicate, version, branch) = arguments(
            id, predicate=predicate, version=version, branch=branch
        )
        dataset = self._opened(parts, branch, version)
        return responses.CountTableRowsResponse(count=dataset.count_rows(filter=predicate))

    def query_table(
        self,
        id: Any,
        *,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        filter: str | None = None,
        k: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        version: int | None = None,
        branch: str | None = None,
    ) -> responses.QueryTableResponse:
        """Return rows, as the bytes of an Arrow IPC file.

        Parameters
        ----------
        columns
            Names, or SQL expressions by name; in a request ``column_names`` or ``column_aliases``.
        filter
            An SQL expression.
        k
            The maximum number of rows; 0 for all rows.
        offset
            The number of rows to skip before them.

        Raises
        ------
        DatasetNotFoundError, VersionNotFoundError
            There is no such table, or no such version or branch.
        InvalidInputError
            A column or the filter is invalid.
        UnsupportedFeatureError
            The request is a vector or text search.
        """
        parts, values = arguments(
            id,
            columns=columns,
            filter=filter,
            k=k,
            offset=offset,
            with_row_id=with_row_id,
            version=version,
            branch=branch,
            vector=None,
            full_text_query=None,
        )
        reader = self._scanner(parts, dict(zip(_QUERY, values, strict=True))).to_reader()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
        return responses.QueryTableResponse(data=sink.getvalue().to_pybytes())

    def explain_table_query_plan(
        self,
        id: Any,
        query: Any = None,
        *,
        verbose: bool = False,
        branch: str | None = None,
    ) -> str:
        """Return a text that says what a query reads and why.

        Parameters
        ----------
        query
            A request of :meth:`query_table`, or a mapping of its arguments. The default is all rows.

        Raises
        ------
        LanceError
            As for :meth:`query_table`.
        """
        parts, (query, verbose, branch) = arguments(id, query=query, verbose=verbose, branch=branch)
        return self._scanner(parts, {"branch": branch, **_members(query)}).explain_plan(verbose=bool(verbose))

    def analyze_table_query_plan(
        self,
        id: Any,
        query: Any = None,
    ) -> str:
        """Run a query, and return a text that says what it read and why.

        Parameters
        ----------
        query
            A request of :meth:`query_table`, which may be the only argument, or a mapping of its arguments.

        Raises
        ------
        LanceError
            As for :meth:`query_table`.
        """
        parts, _ = arguments(id)
        return self._scanner(parts, _members(id if query is None else query)).analyze_plan()

    def get_table_stats(
        self,
        id: Any,
        *,
        branch: str | None = None,
    ) -> responses.GetTableStatsResponse:
        """Return sizes and counts of a table. All its data files are opened.

        Raises
        ------
        DatasetNotFoundError, VersionNotFoundError
            There is no such table, or no such branch.
        """
        parts, (branch,) = arguments(id, branch=branch)
        dataset = self._opened(parts, branch)
        table = dataset._table
        rows = live_rows(table, np.arange(len(table.fragments)))
        sizes = dataset.stats.data_stats().fields
        return responses.GetTableStatsResponse(
            total_bytes=sum(field.bytes_on_disk for field in sizes),
            num_rows=int(rows.sum()),
            num_indices=len({each.name for each in dataset.describe_indices()}),
            fragment_stats=responses.FragmentStats(
                len(rows), int((rows < _SMALL_ROWS).sum()), _summary(np.sort(rows))
            ),
        )

    def _scanner(self, parts: Parts, query: Mapping[str, Any]) -> LanceScanner:
        for name in ("vector", "full_text_query"):
            if _is_given(query.get(name)):
                raise UnsupportedFeatureError(
                    f"a query with {name} is not supported; vector and text search are not available"
                )
        dataset = self._opened(parts, query.get("branch"), query.get("version"))
        return dataset.scanner(
            columns=_columns(query.get("columns")),
            filter=query.get("filter"),
            limit=query.get("k") or None,
            offset=query.get("offset"),
            with_row_id=bool(query.get("with_row_id")),
        )


def _members(query: Any) -> dict[str, Any]:
    """Return the arguments of a query that a mapping or an object has."""
    return {name: value for name in _QUERY if (value := member(query, name)) is not None}


def _columns(columns: Any) -> Any:
    """Return columns as `LanceDataset.scanner` takes them; None for all."""
    names, expressions = (member(columns, name) for name in ("column_names", "column_aliases"))
    is_request = not isinstance(columns, Mapping | Sequence) or names is not None or expressions is not None
    return (names or expressions if is_request else columns) or None


def _is_given(search: Any) -> bool:
    """Whether a member of a request says what to search; requests have empty vectors where there is none."""
    names = ("single_vector", "multi_vector", "string_query", "structured_query")
    members = [member(search, name) for name in names]
    return bool(search) if isinstance(search, list | str) else any(each is not None for each in members)


def _summary(lengths: np.ndarray) -> responses.FragmentSummary:
    """Summarise numbers of rows, which are sorted."""
    if not len(lengths):
        return responses.FragmentSummary(0, 0, 0, 0, 0, 0, 0)
    percentiles = [int(lengths[(len(lengths) - 1) * percent // 100]) for percent in _PERCENTILES]
    return responses.FragmentSummary(
        int(lengths[0]), int(lengths[-1]), int(lengths.sum()) // len(lengths), *percentiles
    )
