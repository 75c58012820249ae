"""Merge-insert: update, delete and insert rows by their keys, in one commit.

Observed with pylance 14: a key with a null matches nothing. Rows of the source without a match are inserted
even if they repeat each other. It is an error if two rows of the source match the same row of the table and
fulfil the condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, StrEnum, auto
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.file.blobs.columns import has_blobs
from lance_df.file.conform import conform_array
from lance_df.format.operations import Update
from lance_df.records import dataclass
from lance_df.sliced_lists import unsliced
from lance_df.table.changes.column_patch import columns_patched
from lance_df.table.changes.matching import Matches, find_matches
from lance_df.table.changes.merge_rows import Source, check_insertable, inserted_rows, updated_rows
from lance_df.table.changes.moved_rows import fragment_runs, row_ids_at, with_row_ids
from lance_df.table.changes.removal import rows_removed
from lance_df.table.changes.retry import Change
from lance_df.table.changes.row_set import RowSet
from lance_df.table.changes.writing import rows_written
from lance_df.table.commit.inserted_keys import inserted_keys
from lance_df.table.commit.row_account import NO_ROWS, RowChange
from lance_df.table.key_values import key_columns
from lance_df.table.metadata.base_paths_write import choose_targets
from lance_df.table.reading.take import take_addresses

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.format.fragments import Fragment
    from lance_df.format.operations import InsertedKeys
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.metadata.base_paths import DataTarget
    from lance_df.table.table import Table

_BATCH_ROWS = 64 * 1024


class WhenMatched(Enum):
    """What happens to a row of the table that matches a row of the source."""

    KEEP = auto()
    UPDATE = auto()
    DELETE = auto()
    FAIL = auto()


class WriteMode(StrEnum):
    """How updated rows are written: as new rows, or as new files with the source's columns."""

    AUTO = "auto"
    REWRITE_ROWS = "rewrite_rows"
    REWRITE_COLUMNS = "rewrite_columns"


@dataclass(frozen=True, slots=True)
class PairCondition:
    """A condition on a row of the source and a row of the table.

    Attributes
    ----------
    source_columns, target_columns
        The columns that it may read.
    evaluate
        Returns for which pairs the condition is true, given these columns.
    """

    source_columns: tuple[str, ...]
    target_columns: tuple[str, ...]
    evaluate: Callable[[pa.RecordBatch, pa.Table], npt.NDArray[np.bool_]]


RowCondition: TypeAlias = "Callable[[Table], Iterable[Addresses]]"
"""Yields the addresses of the rows for which a condition is true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClauses:
    """The clauses of a merge.

    Attributes
    ----------
    on
        The key columns.
    condition
        Which matches are updated or deleted; ``None`` for all of them.
    insert
        Whether rows of the source without a match are inserted.
    delete_unmatched
        Whether rows of the table without a match are deleted; only those that ``unmatched`` returns, if it
        is given.
    use_statistics
        Whether indices and statistics may rule out fragments and rows.
    target_bases, target_all_bases
        The base paths for new rows, see :func:`lance_df.table.metadata.base_paths_write.choose_targets`.
    """

    on: tuple[str, ...]
    when_matched: WhenMatched = WhenMatched.KEEP
    condition: PairCondition | None = None
    insert: bool = False
    delete_unmatched: bool = False
    unmatched: RowCondition | None = None
    write_mode: WriteMode = WriteMode.AUTO
    use_statistics: bool = True
    target_bases: tuple[str, ...] = ()
    target_all_bases: bool | None = None

    def rewrites_columns(self, source: Source, table: Table) -> bool:
        """Whether the merge writes new files for some columns instead of new rows.

        Raises
        ------
        InvalidInputError
            This mode was requested, but cannot express the merge.
        """
        if self.write_mode is not WriteMode.REWRITE_COLUMNS:
            return False
        obstacles = {
            "the merge inserts rows": self.insert,
            "the merge deletes rows": self.delete_unmatched,
            "the merge does not update matching rows": self.when_matched is not WhenMatched.UPDATE,
            "the source has all columns of the table": len(source.schema.fields) == len(table.schema.fields),
            "the source has only the key columns": len(source.schema.fields) == len(self.on),
            "files of version 0.1 cannot replace a column": table.manifest.file_version == "0.1",
        }
        for obstacle, is_there in obstacles.items():
            if is_there:
                raise InvalidInputError(f"write mode 'rewrite_columns' is not possible because {obstacle}")
        return True

    @property
    def does_nothing(self) -> bool:
        """Whether no clause changes or checks anything."""
        return self.when_matched is WhenMatched.KEEP and not (self.insert or self.delete_unmatched)


@dataclass(frozen=True, slots=True)
class MergeStatistics:
    """How many rows a merge inserted, updated and deleted."""

    num_inserted: int
    num_updated: int
    num_deleted: int


@contextmanager
def merge(table: Table, rows: pa.Table, clauses: MergeClauses) -> Iterator[Change[MergeStatistics]]:
    """Compute a merge.

    Parameters
    ----------
    rows
        The source. It is held in memory, and so are 16 bytes for each match. Rows of the table are read in
        batches.

    Raises
    ------
    InvalidInputError
        Rows do not fit the table, a column that is not nullable has a null, several rows of the source
        match one row of the table, or there is a match and matches must fail.
    UnsupportedFeatureError
        Keys are maps, or a column cannot be written.
    """
    source = Source.of(_needed(rows, clauses), table.schema)
    if clauses.insert:
        check_insertable(source, table.schema)
    keys = _keys(source, clauses.on)
    matches = find_matches(table, clauses.on, keys, use_statistics=clauses.use_statistics)
    chosen = _chosen(table, source, matches, clauses)
    if clauses.rewrites_columns(source, table):
        with columns_patched(table, source, chosen, keys=clauses.on) as operation:
            yield Change(operation, NO_ROWS, MergeStatistics(0, len(chosen), 0))
        return
    inserted = _without_match(source, matches) if clauses.insert else np.empty(0, np.int64)
    removed = RowSet.of([chosen.addresses])
    updated = chosen if clauses.when_matched is WhenMatched.UPDATE else Matches.none()
    if clauses.delete_unmatched:
        removed = removed.union(_unmatched(table, matches, clauses))
    targets = choose_targets(
        table.location,
        table.manifest.base_paths,
        names=clauses.target_bases,
        all_bases=clauses.target_all_bases,
    )
    with (
        _written(table, source, updated, inserted, targets) as fragments,
        rows_removed(table, removed) as removal,
    ):
        operation = Update(
            removal.removed_fragment_ids,
            removal.updated_fragments,
            fragments,
            fields_for_preserving_frag_bitmap=tuple(sorted(table.schema.by_id())),
            inserted_keys=_new_keys(table, clauses.on, keys, inserted),
        )
        num_deleted = removal.num_rows - len(updated)
        changed = RowChange(len(updated) + len(inserted), removed.live_counts(table))
        yield Change(operation, changed, MergeStatistics(len(inserted), len(updated), num_deleted))


def _needed(rows: pa.Table, clauses: MergeClauses) -> pa.Table:
    """Drop columns that no clause reads: if nothing is written, the table need not have them."""
    if clauses.insert or clauses.when_matched is WhenMatched.UPDATE:
        return rows
    read = {*clauses.on, *(() if clauses.condition is None else clauses.condition.source_columns)}
    return rows.select([name for name in rows.schema.names if name in read])


def _keys(source: Source, on: tuple[str, ...]) -> list[pa.Array]:
    """Return the key columns of the source, one array each, with storage types, as the table has them."""
    missing = [name for name in on if name not in source.rows.schema.names]
    if missing:
        raise InvalidInputError(f"the source has no key column {missing[0]!r}")
    rows = source.rows.select(on)
    for position, name in enumerate(on):
        field, column = source.schema.field(name), rows.column(name)
        if has_blobs(field):
            raise UnsupportedFeatureError(f"key column {name!r} contains blobs; blobs cannot be keys")
        stored = [conform_array(chunk, field) for chunk in column.chunks]
        rows = rows.set_column(position, name, pa.chunked_array(stored, field.arrow_type()))
    return key_columns(rows, on)


def _chosen(table: Table, source: Source, matches: Matches, clauses: MergeClauses) -> Matches:
    """Return the matches to update or delete."""
    if clauses.when_matched is WhenMatched.KEEP:
        return Matches.none()
    if clauses.when_matched is WhenMatched.FAIL:
        if len(matches):
            raise InvalidInputError(
                "the table already has a row with the key "
                f"{_key_text(source, clauses.on, matches.rows[0])}, and the merge is set to fail on a match"
            )
        return matches
    chosen = matches if clauses.condition is None else _fulfilling(table, source, matches, clauses.condition)
    # matches are in table order
    twice = np.flatnonzero(chosen.addresses[1:] == chosen.addresses[:-1])
    if len(twice):
        raise InvalidInputError(
            f"several source rows have the key {_key_text(source, clauses.on, chosen.rows[twice[0]])} and "
            "match the same row of the table; each table row may match at most one source row"
        )
    return chosen


def _key_text(source: Source, on: tuple[str, ...], number: np.int64) -> str:
    return ", ".join(f"{name} = {source.rows.column(name)[int(number)].as_py()!r:.60}" for name in on)


def _fulfilling(table: Table, source: Source, matches: Matches, condition: PairCondition) -> Matches:
    fulfilled = [np.empty(0, np.bool_)]
    # evaluated even if there are no rows, so that an invalid condition always fails
    runs = list(fragment_runs(matches.addresses, max_rows=_BATCH_ROWS)) or [slice(0, 0)]
    for part in (matches.slice(run.start, run.stop) for run in runs):
        ours = source.take(part.rows).select(condition.source_columns)
        theirs = take_addresses(table, part.addresses, columns=condition.target_columns)
        fulfilled.append(condition.evaluate(ours, theirs))
    return matches.where(np.concatenate(fulfilled))


def _without_match(source: Source, matches: Matches) -> npt.NDArray[np.int64]:
    unmatched = np.ones(source.rows.num_rows, np.bool_)
    unmatched[matches.rows] = False
    return np.flatnonzero(unmatched)


def _new_keys(
    table: Table, on: tuple[str, ...], keys: list[pa.Array], inserted: npt.NDArray[np.int64]
) -> InsertedKeys:
    """Return the filter of the inserted keys; without any it is empty."""
    taken = [unsliced(key).take(pa.array(inserted)) for key in keys]
    ids = tuple(table.schema.field(name).id for name in on)
    return inserted_keys(ids, taken, is_primary=ids == table.schema.primary_key)


def _unmatched(table: Table, matches: Matches, clauses: MergeClauses) -> RowSet:
    rows = RowSet.all_of(table) if clauses.unmatched is None else RowSet.of(clauses.unmatched(table))
    return rows.without(RowSet.of([matches.addresses]))


@contextmanager
def _written(
    table: Table,
    source: Source,
    updated: Matches,
    inserted: npt.NDArray[np.int64],
    targets: tuple[DataTarget, ...],
) -> Iterator[tuple[Fragment, ...]]:
    """Write updated rows, then inserted ones."""
    if source.is_whole(table.schema) and not table.uses_stable_row_ids:
        # if nothing depends on the order, the order of the source is cheapest
        numbers = np.sort(np.concatenate([updated.rows, inserted]), kind="stable")
        batches: Iterator[pa.RecordBatch] = inserted_rows(table.schema, source, numbers)
    else:
        batches = chain(updated_rows(table, source, updated), inserted_rows(table.schema, source, inserted))
    with rows_written(table, table.schema, batches, targets=targets) as fragments:
        if table.uses_stable_row_ids:
            yield with_row_ids(fragments, row_ids_at(table, updated.addresses))
        else:
            yield fragments
