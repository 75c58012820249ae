"""What engines know of what they scan: a table, a namespace or a table about one, in one version."""

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
    """Names of columns of strings, by what a sample of them shows.

    Attributes
    ----------
    short
        Most values fit into a string view itself.
    dictionaries
        Stored as a dictionary.
    """

    short: frozenset[str]
    dictionaries: frozenset[str]


class Sample(Protocol):
    """Estimates from a few stored rows. What cannot be read gives none: the scan itself raises the error.

    Attributes
    ----------
    num_rows
        About how many rows the sampled table has; None if that is not known.
    """

    @property
    def num_rows(self) -> int | None: ...

    def strings(self, names: Collection[str]) -> SampledStrings | None:
        """Return what top-level columns of strings are like; None without rows."""
        ...

    def rows_per_run(self, names: Sequence[str]) -> float:
        """Return how many neighbouring rows are equal in some top-level columns on average, at least 1."""
        ...

    def share_among(self, name: str, values: pa.Array) -> float:
        """Return about which part of the rows has one of some values in a top-level column; 1 if unknown."""
        ...

    def num_distinct(self, names: Sequence[str]) -> float:
        """Return about how many different values some top-level columns have together; 0 if unknown."""
        ...


class Scannable(Protocol):
    """One version of something that is scanned. Immutable, and safe to share between threads.

    Attributes
    ----------
    uri
        Names it in messages and reports.
    version
        Its number.
    arrow_schema
        Its columns.
    is_local
        Whether reading takes no requests to a store.
    plan_cache
        What engines keep of their requests, to plan equal ones with less work. It is a part of the cache of
        the source, and may be empty at any time.
    is_partitioned
        Whether its rows are divided by values of columns or of expressions: a filter on these may be
        decided for a whole part, and predicates prune by the terms that their `Unknown` parts compute, too.
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

    def plan(self, request: ScanRequest) -> ScanPlan:
        """Plan a scan. No data is read. Equal requests may share a plan.

        Raises
        ------
        LanceError
            The request names what does not exist or excludes itself, or metadata cannot be read.
        """
        ...

    def estimated_rows(self, pruning_predicate: Predicate | None) -> int | None:
        """Return about how many rows a scan with a pruning predicate reads.

        None where that is not known from what is in memory.
        """
        ...

    def sample(self, pruning_predicate: Predicate | None) -> Sample | None:
        """Return a sample of the rows of such a scan; None where there is none, or it takes requests."""
        ...
