"""What an engine requests of a scan.

A consumer that relies on more than the schema of the batches names it in `ScanRequest.requires`.
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
    """What whoever runs the tasks of a plan may rely on."""

    NOTHING = 0
    COMPLETE = auto()
    """Exactly the rows of the request are returned: those for which its predicate is true, each once.

    A limit, a pruning predicate and a `PartialAggregate` exclude it.
    """
    ORDERED = auto()
    """Rows come in the order of the fragments of the request, and within a fragment by ascending offset.

    So do tasks; `lance_df.scan.run.run_tasks` and ``run_ahead`` keep the order. The order of fragments
    is that of ``fragment_ids``, or else of the table's list; in a namespace, that of its members first.
    A `PartialAggregate` excludes it.
    """
    PER_FRAGMENT = auto()
    """The rows of a task, and so those of a batch, are of one fragment. Small fragments are not joined.

    It is promised only where it is required. Others split batches by the addresses of all their rows.
    """


class AggregateFunction(Enum):
    """What a scan may compute for rows that are equal in the keys of a `PartialAggregate`."""

    COUNT_ROWS = auto()
    """The number of rows (int64). Sums merge it."""
    COUNT = auto()
    """The number of values of a column that are not NULL (int64). Sums merge it."""
    SUM = auto()
    """The sum of a column, NULL of no values. Sums merge it."""
    EXTREMES = auto()
    """Values of a column with the same minimum and maximum as all of its values have.

    The result has the name and the type of the column, and any number of rows; values in one row need not be
    those of one stored row. There are no keys then, and no other functions.
    """


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A column of a partial aggregate.

    Attributes
    ----------
    name
        Of the result.
    column
        What is aggregated: a top-level column; None for COUNT_ROWS.
    data_type
        Of the result: int64 of counts, the stored type of extremes, `lance_df.scan.runs.summed_type` of sums.
    """

    function: AggregateFunction
    name: str
    column: str | None
    data_type: pa.DataType

    @property
    def is_nullable(self) -> bool:
        """Whether the result may be NULL: counts are not."""
        return self.function in (AggregateFunction.SUM, AggregateFunction.EXTREMES)


@dataclass(frozen=True, slots=True)
class Rows:
    """A scan returns rows.

    Attributes
    ----------
    views
        Columns of type string, of those that are returned, to return as string_view.
    """

    views: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PartialAggregate:
    """A scan returns rows that each stand for one or more rows which are equal in all keys.

    There may be several rows for equal keys: the engine merges them, so a scan aggregates as much of its rows
    at a time as is fast. A scan that has no faster way returns each row by itself. Batches have the keys,
    and then the results of the calls. Without calls, equal rows may be returned as one.

    Attributes
    ----------
    keys
        Top-level columns.
    calls
        What is computed for the rows that a row stands for.
    """

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read, each once: the keys, and then what is aggregated."""
        aggregated = (call.column for call in self.calls if call.column is not None)
        return tuple(dict.fromkeys((*self.keys, *aggregated)))

    @property
    def has_extremes(self) -> bool:
        """Whether it is one of extremes."""
        return any(call.function is AggregateFunction.EXTREMES for call in self.calls)

    def among(self, names: Collection[str]) -> PartialAggregate | None:
        """Return the aggregate of which some columns are returned; None if no call is among them.

        An aggregate without calls is one for any columns.
        """
        calls = tuple(call for call in self.calls if call.name in names)
        if self.calls and not calls:
            return None
        return PartialAggregate(tuple(key for key in self.keys if key in names), calls)

    def check(self) -> None:
        """Raise for what is none.

        Raises
        ------
        InvalidInputError
            There is nothing to return, a name is there twice, or extremes are mixed with anything else.
        """
        names = [*self.keys, *(call.name for call in self.calls)]
        if not names:
            raise InvalidInputError("a partial aggregate needs a key or a call")
        if len(set(names)) < len(names):
            raise InvalidInputError(f"a partial aggregate has a name twice: {', '.join(names)}")
        if self.has_extremes and (
            self.keys or any(call.function is not AggregateFunction.EXTREMES for call in self.calls)
        ):
            raise InvalidInputError("extremes are computed without keys and without other functions")


Output: TypeAlias = Rows | PartialAggregate


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """What an engine wants of one version of a table, a namespace or a table about one.

    Attributes
    ----------
    columns
        Top-level columns in output order; ``None`` for all. An empty tuple asks for row counts only. A field
        of a struct is named ``"a.b"``; the system columns (``_rowid``, ``_rowaddr``, ``_rowoffset``,
        ``_row_created_at_version``, ``_row_last_updated_at_version``) may be named too. Of a
        `PartialAggregate` the columns are its own, and these stay ``None``.
    predicate
        Applied exactly, row by row. Must hold no `Unknown`.
    pruning_predicate
        A condition that rows outside of need not be returned, and that need not be applied: it prunes, and
        names words that strings must hold. May hold `Unknown`.
    with_row_id, with_row_address
        Append ``_rowid`` or ``_rowaddr`` (uint64).
    limit
        Rows after which the scan may stop; ``None`` for all.
    batch_rows
        Upper bound for the rows of a batch; ``None`` for the default.
    window_rows
        Rows to read at once, as far as they take little memory; ``None`` for as many as whoever computes on
        all of them likes best. Scans that look for few rows in few columns are faster with more.
    requires
        What the consumer relies on. Planning fails where a plan cannot promise that.
    fragment_ids
        Restrict to these fragments; ``None`` for all. Of a namespace with a single member only.
    rows
        Restrict to these physical rows of the only fragment of ``fragment_ids``: a start and a stop
        (exclusive).
    num_tables
        How many tables are scanned together, of which this is one: each of them is cut into fewer tasks.
    options
        What may be done to take less time.
    include_deleted_rows
        Return deleted rows too, with a null ``_rowid``.
    blobs_as_bytes
        Return blobs as their bytes, not as descriptions of where these are.
    output
        What batches hold: rows, or a partial aggregate of them.
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
        """Whether a pruning predicate may leave out rows of a table."""
        return self.options.statistics or self.options.pattern_words

    def promises(self) -> Promise:
        """Return what every plan of the request promises.

        Raises
        ------
        InvalidInputError
            Something that is required is excluded by something else that is asked for, or a partial aggregate
            is none.
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
            raise InvalidInputError(f"a scan that is to be {names} is asked for what excludes that")
        return promises

    def _check_aggregate(self, output: PartialAggregate) -> None:
        output.check()
        if self.columns is not None or self.with_row_id or self.with_row_address:
            raise InvalidInputError("the columns of a partial aggregate are its own: no others can be named")
        if self.limit is not None:
            raise InvalidInputError("a partial aggregate is of all rows: it has no limit")
