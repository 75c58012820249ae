"""What an engine requests of a scan.

A consumer that relies on more than the schema of the batches names it in `ScanRequest.requires`.
"""

from __future__ import annotations

from enum import Flag, auto

from lance_df.errors import InvalidInputError
from lance_df.expr.nodes import Predicate
from lance_df.records import dataclass


class Promise(Flag):
    """What whoever runs the tasks of a plan may rely on."""

    NOTHING = 0
    COMPLETE = auto()
    """Exactly the rows of the request are returned: those for which its predicate is true, each once.

    A limit, a pruning predicate (``hint``), ``extremes_only``, ``distinct`` and ``count_as`` exclude it.
    """
    ORDERED = auto()
    """Rows come in the order of the fragments of the request, and within a fragment by ascending offset.

    So do tasks; `lance_df.table.scan_run.run_tasks` and ``run_ahead`` keep the order. The order of fragments
    is that of ``fragment_ids``, or else of the table's list; in a namespace, that of its members first.
    ``extremes_only``, ``distinct`` and ``count_as`` exclude it.
    """
    PER_FRAGMENT = auto()
    """The rows of a task, and so those of a batch, are of one fragment. Small fragments are not joined.

    It is promised only where it is required. Others split batches by the addresses of all their rows.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """What an engine wants from one table version.

    Attributes
    ----------
    columns
        Top-level columns in output order; ``None`` for all. An empty tuple asks for row counts only. A field
        of a struct is named ``"a.b"``; the system columns (``_rowid``, ``_rowaddr``, ``_rowoffset``,
        ``_row_created_at_version``, ``_row_last_updated_at_version``) may be named too.
    predicate
        Applied exactly, row by row. Must hold no `Unknown`.
    hint
        A condition that rows outside of need not be returned, and that need not be applied: it prunes, and
        tells words that strings must hold. May hold `Unknown`.
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
    use_statistics
        Whether page statistics and indices may prune.
    include_deleted_rows
        Return deleted rows too, with a null ``_rowid``.
    blobs_as_bytes
        Return blobs as their bytes, not as descriptions of where these are.
    views
        Columns of type string, of those that are returned, to return as string_view.
    extremes_only
        Any rows will do that have the same smallest and largest value in each column, of which not all need
        be the values of one row.
    distinct
        Rows that are equal in all columns may be returned as one.
    count_as
        As ``distinct``, and with a last column of this name (int64): how many rows each row stands for. Needs
        other columns.
    """

    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    hint: Predicate | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    limit: int | None = None
    batch_rows: int | None = None
    window_rows: int | None = None
    requires: Promise = Promise.NOTHING
    fragment_ids: tuple[int, ...] | None = None
    rows: tuple[int, int] | None = None
    use_statistics: bool = True
    include_deleted_rows: bool = False
    blobs_as_bytes: bool = False
    views: frozenset[str] = frozenset()
    extremes_only: bool = False
    distinct: bool = False
    count_as: str | None = None

    def promises(self) -> Promise:
        """Return what every plan of the request promises.

        Raises
        ------
        InvalidInputError
            Something that is required is excluded by something else that is asked for.
        """
        promises = self.requires & Promise.PER_FRAGMENT
        if not (self.extremes_only or self.distinct or self.count_as is not None):
            promises |= Promise.ORDERED
            if self.limit is None and (self.hint is None or not self.use_statistics):
                promises |= Promise.COMPLETE
        if missing := self.requires & ~promises:
            names = " and ".join(str(each.name) for each in missing)
            raise InvalidInputError(f"a scan that is to be {names} is asked for what excludes that")
        return promises
