"""Take rows out of fragments: new deletion files, and fragments of which nothing is left."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyroaring import BitMap

from lance_df.errors import CommitStateUnknownError, LanceError
from lance_df.records import dataclass
from lance_df.table.base_paths import DELETIONS_DIR
from lance_df.table.deletions import write_deletion_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_df.format.fragments import Fragment
    from lance_df.table.changes.row_set import RowSet
    from lance_df.table.table import Table

# syncing a file means waiting for the disk, writing one to a store means waiting for its answer
_NUM_THREADS = 8


@dataclass(frozen=True, slots=True)
class Removal:
    """What becomes of fragments when rows are taken out.

    Attributes
    ----------
    updated_fragments
        With new deletion files, which are written already.
    removed_fragment_ids
        Fragments of which nothing is left.
    num_rows
        Rows that were there, and are not any more.
    """

    updated_fragments: tuple[Fragment, ...]
    removed_fragment_ids: tuple[int, ...]
    num_rows: int


@dataclass(frozen=True, slots=True)
class _Cut:
    """A fragment, and which of its rows are deleted when some more are."""

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
    """Write the deletion files for some rows, and remove these again when what is done with them fails.

    Parameters
    ----------
    rows
        Of this version of the table; those that are deleted already do not count.

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

    def write(cut: _Cut) -> None:
        written.append(_with_deletion_file(table, cut))

    changed = [cut for cut in cuts if not cut.leaves_nothing]
    try:
        if len(changed) == 1:
            write(changed[0])
        elif changed:
            with ThreadPoolExecutor(_NUM_THREADS) as pool:
                list(pool.map(write, changed))
        yield Removal(
            tuple(sorted(written, key=lambda fragment: fragment.id)),
            tuple(cut.fragment.id for cut in cuts if cut.leaves_nothing),
            sum(cut.num_removed for cut in cuts),
        )
    except CommitStateUnknownError:
        raise
    except BaseException:
        for fragment in written:
            _remove_deletion_file(table, fragment)
        raise


def fragment_without(table: Table, fragment: Fragment, offsets: BitMap) -> Fragment | None:
    """Return a fragment without some rows, of which the deletion file is written; None if no row is left.

    Parameters
    ----------
    offsets
        Physical rows; those that are deleted already do not count.

    Raises
    ------
    StorageError
        The store failed.
    """
    cut = _cut(table, fragment, offsets)
    if cut.leaves_nothing:
        return None
    return _with_deletion_file(table, cut) if cut.num_removed else fragment


def _cut(table: Table, fragment: Fragment, offsets: BitMap) -> _Cut:
    before = table.deletion_vector(fragment) or BitMap()
    return _Cut(fragment, before | offsets, len(before), table.fragment_rows(fragment))


def _with_deletion_file(table: Table, cut: _Cut) -> Fragment:
    file = write_deletion_file(
        table.location, cut.deleted, fragment_id=cut.fragment.id, read_version=table.version
    )
    return dataclasses.replace(cut.fragment, deletion_file=file, physical_rows=cut.num_rows)


def _remove_deletion_file(table: Table, fragment: Fragment) -> None:
    if fragment.deletion_file is not None:
        with suppress(LanceError):
            (table.location / DELETIONS_DIR / fragment.deletion_file.name(fragment.id)).remove()
