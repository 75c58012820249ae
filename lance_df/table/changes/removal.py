"""Remove rows from fragments: write new deletion files, and find fragments without remaining rows."""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING

from pyroaring import BitMap

from lance_df.interrupts import workers
from lance_df.records import dataclass
from lance_df.table.metadata.base_paths import DELETIONS_DIR
from lance_df.table.writing.deletion_file import write_deletion_file
from lance_df.table.writing.uncommitted import UncommittedFiles, uncommitted_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance_df.format.fragments import Fragment
    from lance_df.storage import Location
    from lance_df.table.changes.row_set import RowSet
    from lance_df.table.table import Table

# syncing a file means waiting for the disk, writing one to a store means waiting for its response
_NUM_THREADS = 8


@dataclass(frozen=True, slots=True)
class Removal:
    """The effect of removing rows from fragments.

    Attributes
    ----------
    updated_fragments
        Fragments with new deletion files, which are written already.
    removed_fragment_ids
        Fragments without remaining rows.
    num_rows
        The number of rows that were removed.
    """

    updated_fragments: tuple[Fragment, ...]
    removed_fragment_ids: tuple[int, ...]
    num_rows: int


@dataclass(frozen=True, slots=True)
class RemovedRows:
    """Removed rows, in a form that can be sent to another process.

    Attributes
    ----------
    counts
        The number of live rows that were selected, by fragment id.
    """

    removal: Removal
    counts: dict[int, int]

    @classmethod
    def united(cls, parts: Iterable[RemovedRows]) -> RemovedRows:
        """Unite removals from different fragments of one table."""
        parts = list(parts)
        updated = [fragment for part in parts for fragment in part.removal.updated_fragments]
        removal = Removal(
            tuple(sorted(updated, key=lambda fragment: fragment.id)),
            tuple(sorted(number for part in parts for number in part.removal.removed_fragment_ids)),
            sum(part.removal.num_rows for part in parts),
        )
        return cls(removal, {number: count for part in parts for number, count in part.counts.items()})


def note_deletion_files(files: UncommittedFiles, table: Location, removal: Removal) -> None:
    """Register the deletion files of a removal, so that they are deleted if the change fails."""
    for fragment in removal.updated_fragments:
        if fragment.deletion_file is not None:
            files.add_file(table / DELETIONS_DIR / fragment.deletion_file.name(fragment.id))


@dataclass(frozen=True, slots=True)
class _Cut:
    """A fragment with its deleted rows, including those that are being removed."""

    fragment: Fragment
    deleted: BitMap
    num_before: int
    num_rows: int

    @property
    def num_removed(self) -> int:
        return len(self.deleted) - self.num_before

    @property
    def leaves_nothing(self) -> bool:
        return len(self.deleted) == self.num_rows


@contextmanager
def rows_removed(table: Table, rows: RowSet) -> Iterator[Removal]:
    """Write the deletion files for some rows; delete them if the block fails.

    Parameters
    ----------
    rows
        Rows of this version of the table; rows that are deleted already do not count.

    Raises
    ------
    NotFoundError
        The table has no such fragment.
    StorageError
        The store failed.
    """
    cuts = [_cut(table, table.fragment(fragment_id), offsets) for fragment_id, offsets in rows]
    cuts = [cut for cut in cuts if cut.num_removed]
    written: list[Fragment] = []
    changed = [cut for cut in cuts if not cut.leaves_nothing]
    with uncommitted_files(table.location) as files:
        if len(changed) == 1:
            written = [_with_deletion_file(table, changed[0], files)]
        elif changed:
            with workers(_NUM_THREADS) as pool:
                named = [
                    pool.submit(copy_context().run, _with_deletion_file, table, cut, files) for cut in changed
                ]
                written = [each.result() for each in named]
        yield Removal(
            tuple(sorted(written, key=lambda fragment: fragment.id)),
            tuple(cut.fragment.id for cut in cuts if cut.leaves_nothing),
            sum(cut.num_removed for cut in cuts),
        )


def _cut(table: Table, fragment: Fragment, offsets: BitMap) -> _Cut:
    before = table.deletion_vector(fragment) or BitMap()
    return _Cut(fragment, before | offsets, len(before), table.fragment_rows(fragment))


def _with_deletion_file(table: Table, cut: _Cut, files: UncommittedFiles) -> Fragment:
    file = write_deletion_file(
        table.location,
        cut.deleted,
        fragment_id=cut.fragment.id,
        read_version=table.version,
        files=files,
    )
    return dataclasses.replace(cut.fragment, deletion_file=file, physical_rows=cut.num_rows)
