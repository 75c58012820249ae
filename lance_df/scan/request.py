"""The request that an engine makes to a scan.

A consumer that relies on more than the schema of the batches states this in `ScanRequest.requires`.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, Flag, auto
from typing import TYPE_CHECKING, TypeAlias

from lance_df.errors import InvalidInputError
from lance_df.expr.nodes import Predicate
from lance_df.records import dataclass
from lance_df.scan.options import ALL, ScanOptions

if TYPE_CHECKING:
    import pyarrow as pa


class Promise(Flag):
    """What a plan guarantees to the consumer that runs its tasks."""

    NOTHING = 0
    COMPLETE = auto()
    """Exactly the rows for which the predicate of the request is true are returned, each once.

    A limit, a pruning predicate or a `PartialAggregate` excludes this promise.
    """
    ORDERED = auto()
    """Rows are in the order of the fragments of the request, and within a fragment by ascending offset.

    Tasks have the same order, and `lance_df.scan.run.run_tasks` and ``run_ahead`` keep it. Fragments have the
    order of ``fragment_ids``, or else that of the table's list. In a namespace, they are first ordered by
    member. A `PartialAggregate` excludes this promise.
    """
    PER_FRAGMENT = auto()
    """All rows of a task, and therefore of a batch, are of one fragment. Small fragments are not joined.

    A plan makes this promise only if it is required. Other consumers split batches by row addresses.
    """


class AggregateFunction(Enum):
    """A function that a scan may compute for rows with equal keys in a `PartialAggregate`."""

    COUNT_ROWS = auto()
    """The number of rows (int64). Sums merge it."""
    COUNT = auto()
    """The number of values of a column that are not NULL (int64). Sums merge it."""
    SUM = auto()
    """The sum of a column, or NULL if it has no values. Sums merge it."""
    EXTREMES = auto()
    """Some values of a column that have the same minimum and maximum as all of its values.

    The result has the name and type of the column, and any number of rows. Values in one returned row may be
    from different stored rows. This function allows no keys and no other functions.
    """


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A column of a partial aggregate.

    Attributes
    ----------
    name
        The name of the result.
    column
        The top-level column to aggregate; None for COUNT_ROWS.
    data_type
        The type of the result: int64 for counts, the stored type for extremes, and
        `lance_df.scan.runs.summed_type` for sums.
    """

    function: AggregateFunction
    name: str
    column: str | None
    data_type: pa.DataType

    @property
    def is_nullable(self) -> bool:
        """Return whether the result may be NULL. Counts are never NULL."""
        return self.function in (AggregateFunction.SUM, AggregateFunction.EXTREMES)


@dataclass(frozen=True, slots=True)
class Rows:
    """The scan returns rows.

    Attributes
    ----------
    views
        The returned string columns that are to be returned as string_view.
    """

    views: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PartialAggregate:
    """The scan returns rows each of which stands for one or more rows that are equal in all keys.

    There may be several rows with equal keys, which the engine merges. A scan therefore aggregates as many
    rows at a time as is fast. A scan that has no faster way returns each row by itself. Batches have the
    keys, followed by the results of the calls. Without calls, equal rows may be returned as one.

    Attributes
    ----------
    keys
        Top-level columns.
    calls
        The aggregates that are computed for the rows that a returned row stands for.
    """

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns to read, each once: the keys, then the aggregated columns."""
        aggregated = (call.column for call in self.calls if call.column is not None)
        return tuple(dict.fromkeys((*self.keys, *aggregated)))

    @property
    def has_extremes(self) -> bool:
        """Return whether this is an aggregate of extremes."""
        return any(call.function is AggregateFunction.EXTREMES for call in self.calls)

    def among(self, names: Collection[str]) -> PartialAggregate | None:
        """Return the aggregate that remains when only some columns are returned; None if no call remains.

        An aggregate without calls is valid for any columns.
        """
        calls = tuple(call for call in self.calls if call.name in names)
        if self.calls and not calls:
            return None
        return PartialAggregate(tuple(key for key in self.keys if key in names), calls)

    def check(self) -> None:
        """Raise an error if the aggregate is not valid.

        Raises
        ------
        InvalidInputError
            There is nothing to return, a name occurs twice, or extremes are combined with keys or other
            functions.
        """
        names = [*self.keys, *(call.name for call in self.calls)]
        if not names:
            raise InvalidInputError("a partial aggregate needs a key or a call")
        if len(set(names)) < len(names):
            raise InvalidInputError(f"a partial aggregate has a name twice: {', '.join(names)}")
        if self.has_extremes and (
            self.keys or any(call.function is not AggregateFunction.EXTREMES for call in self.calls)
        ):
            raise InvalidInputError(
                "extremes cannot be combined with keys or other functions in a partial aggregate"
            )


Output: TypeAlias = Rows | PartialAggregate


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """A request to scan one version of a table, a namespace or a metadata table.

    Attributes
    ----------
    columns
        Top-level columns in output order; ``None`` for all. An empty tuple requests row counts only. A field
        of a struct is named ``"a.b"``. The system columns (``_rowid``, ``_rowaddr``, ``_rowoffset``,
        ``_row_created_at_version``, ``_row_last_updated_at_version``) may be named too. For a
        `PartialAggregate` this stays ``None``, because the aggregate has its own columns.
    predicate
        Applied exactly, row by row. Must not contain `Unknown`.
    pruning_predicate
        A condition that is used to prune, and to find words that strings must contain. Rows that do not match
        need not be returned, but the condition need not be applied. May contain `Unknown`.
    with_row_id, with_row_address
        Append ``_rowid`` or ``_rowaddr`` (uint64).
    limit
        The number of rows after which the scan may stop; ``None`` for all.
    batch_rows
        The maximum number of rows of a batch; ``None`` for the default.
    window_rows
        The number of rows to read at once, if they take little memory; ``None`` for the number that is best
        for consumers that process all rows. Scans that look for few rows in few columns are faster with
        larger windows.
    requires
        The promises that the consumer relies on. Planning fails if a plan cannot make them.
    fragment_ids
        Scan only these fragments; ``None`` for all. For a namespace only if it has a single member.
    rows
        Scan only these physical rows of the single fragment in ``fragment_ids``: a start and a stop
        (exclusive).
    num_tables
        The number of tables that are scanned together, including this one. Each of them is cut into fewer
        tasks.
    options
        The optimizations that the scan may use.
    include_deleted_rows
        Also return deleted rows, with a null ``_rowid``.
    blobs_as_bytes
        Return blobs as bytes instead of descriptions of their locations.
    output
        The content of the batches: rows, or a partial aggregate of them.
    """

    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    pruning_predicate: Predicate | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    limit: int | None = None
    batch_rows: int | None = None
    window_rows: int | None = None
    requires: Promise = Promise.NOTHING
    fragment_ids: tuple[int, ...] | None = None
    rows: tuple[int, int] | None = None
    num_tables: int = 1
    options: ScanOptions = ALL
    include_deleted_rows: bool = False
    blobs_as_bytes: bool = False
    output: Output = Rows()

    @property
    def may_prune_rows(self) -> bool:
        """Return whether a pruning predicate may leave out rows of a table."""
        return self.options.statistics or self.options.pattern_words

    def promises(self) -> Promise:
        """Return the promises that every plan of the request makes.

        Raises
        ------
        InvalidInputError
            Another part of the request excludes a required promise, or a partial aggregate is not valid.
        """
        if isinstance(self.output, PartialAggregate):
            self._check_aggregate(self.output)
        promises = self.requires & Promise.PER_FRAGMENT
        if isinstance(self.output, Rows):
            promises |= Promise.ORDERED
            if self.limit is None and (self.pruning_predicate is None or not self.may_prune_rows):
                promises |= Promise.COMPLETE
        if missing := self.requires & ~promises:
            names = " and ".join(str(each.name) for each in missing)
            raise InvalidInputError(
                f"the scan cannot be {names}, because another part of the request excludes it"
            )
        return promises

    def _check_aggregate(self, output: PartialAggregate) -> None:
        output.check()
        if self.columns is not None or self.with_row_id or self.with_row_address:
            raise InvalidInputError("a partial aggregate has its own columns; no others can be selected")
        if self.limit is not None:
            raise InvalidInputError("a partial aggregate reads all rows and cannot have a limit")
