"""The interface of a scan's source for engines: one version of a table, namespace or metadata table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from lance_df.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.cache import Entries
    from lance_df.expr.nodes import Predicate
    from lance_df.scan.plan import ScanPlan
    from lance_df.scan.request import ScanRequest


@dataclass(frozen=True, slots=True)
class SampledStrings:
    """Names of string columns, classified by a sample.

    Attributes
    ----------
    short
        Columns in which most values fit into a string view itself.
    dictionaries
        Columns that are stored as dictionaries.
    """

    short: frozenset[str]
    dictionaries: frozenset[str]


class Sample(Protocol):
    """Estimates from a few stored rows. Unreadable data gives no estimate; the scan raises the error.

    Attributes
    ----------
    num_rows
        The estimated number of rows of the sampled table; None if it is not known.
    """

    @property
    def num_rows(self) -> int | None: ...

    def strings(self, names: Collection[str]) -> SampledStrings | None:
        """Return a classification of top-level string columns; None without rows."""
        ...

    def rows_per_run(self, names: Sequence[str]) -> float:
        """Return the average number of neighbouring rows that are equal in some columns, at least 1."""
        ...

    def share_among(self, name: str, values: pa.Array) -> float:
        """Return the estimated share of rows whose value in a column is one of ``values``; 1 if unknown."""
        ...

    def num_distinct(self, names: Sequence[str]) -> float:
        """Return the estimated number of distinct combinations of values of some columns; 0 if unknown."""
        ...


class Scannable(Protocol):
    """One version of a source of scans. Immutable, and safe to share between threads.

    Attributes
    ----------
    uri
        The name in messages and reports.
    version
        The number of the version.
    arrow_schema
        The schema of the columns.
    is_local
        Whether reading needs no requests to a store.
    plan_cache
        A cache in which engines store results for equal requests. It is a part of the cache of the source,
        and may be empty at any time.
    is_partitioned
        Whether the rows are divided by values of columns or expressions. Then partition values may decide a
        filter for a whole partition, and the terms of `Unknown` predicates prune too.
    namespace
        The source itself, a `NamespaceSnapshot`, if it is a partitioned namespace; None for a table and for a
        metadata table. The room of scans does not know the class.
    """

    @property
    def uri(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def arrow_schema(self) -> pa.Schema: ...
    @property
    def is_local(self) -> bool: ...
    @property
    def plan_cache(self) -> Entries[Any]: ...
    @property
    def is_partitioned(self) -> bool: ...
    @property
    def namespace(self) -> Any: ...

    def plan(self, request: ScanRequest) -> ScanPlan:
        """Plan a scan. No data is read. Equal requests may share a plan.

        Raises
        ------
        LanceError
            The request refers to something that does not exist or is contradictory, or metadata cannot be
            read.
        """
        ...

    def estimated_rows(self, pruning_predicate: Predicate | None) -> int | None:
        """Return the estimated number of rows that a scan with a pruning predicate reads.

        None if it cannot be determined from data in memory.
        """
        ...

    def sample(self, pruning_predicate: Predicate | None) -> Sample | None:
        """Return a sample of a scan's rows; None if there is none or it would need requests to a store."""
        ...
