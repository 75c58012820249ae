"""Rebase a change that was computed from an older version onto the latest one.

:mod:`lance_df.table.commit.conflicts` has allowed it. Here deletions of other rows of the same fragments are
united, and coverage of new indices is removed where values were replaced. Spec: table format, chapter 7.4,
footnote 1.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING

from lance_df.errors import RetryableConflictError
from lance_df.format.operations import CreateIndex, Delete, Merge, Rewrite, Update
from lance_df.table.commit.index_upkeep import of_same_values, without_coverage
from lance_df.table.commit.numbering import existing
from lance_df.table.writing.deletion_file import write_deletion_file
from lance_df.table.writing.uncommitted import UncommittedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyroaring import BitMap

    from lance_df.format.fragments import Fragment
    from lance_df.format.operations import Operation
    from lance_df.table.table import Table


class Rebase:
    """The rebase of one operation from the version that it was computed from onto a later one.

    Parameters
    ----------
    base
        Opens the version that it was computed from; many operations do not need it.
    latest
        The version that it will follow.
    others
        The operations committed between the two, oldest first.
    """

    def __init__(self, base: Callable[[], Table], latest: Table, others: Sequence[Operation]) -> None:
        self._open_base = base
        self._latest = latest
        self._others = others
        self._files = UncommittedFiles()
        self._files.watch()

    @cached_property
    def _base(self) -> Table:
        return self._open_base()

    def apply(self, operation: Operation) -> Operation:
        """Return the operation for the latest version; it may refer to deletion files that were written for
        this.

        Raises
        ------
        RetryableConflictError
            Another commit changed the same rows.
        """
        match operation:
            case Delete():
                updated, gone = self._fragments(operation.updated_fragments, operation.deleted_fragment_ids)
                return dataclasses.replace(operation, updated_fragments=updated, deleted_fragment_ids=gone)
            case Update():
                updated, gone = self._fragments(operation.updated_fragments, operation.removed_fragment_ids)
                return dataclasses.replace(operation, updated_fragments=updated, removed_fragment_ids=gone)
            case CreateIndex():
                return self._index(operation)
            case Rewrite():
                return self._rewrite(operation)
            case _:
                return operation

    def undo(self) -> None:
        """Remove the deletion files that were written, except those that a version may refer to."""
        self._files.remove()

    def _fragments(
        self, updated: Sequence[Fragment], removed: Sequence[int]
    ) -> tuple[tuple[Fragment, ...], tuple[int, ...]]:
        for fragment_id in removed:
            before, now = self._both(fragment_id)
            if before.deletion_file != now.deletion_file:
                raise self._conflict(fragment_id)
        rebased = [self._fragment(fragment) for fragment in updated]
        emptied = [each for each in rebased if isinstance(each, int)]
        return tuple(each for each in rebased if not isinstance(each, int)), (*removed, *emptied)

    def _fragment(self, mine: Fragment) -> Fragment | int:
        """Return a changed fragment, or its id if no rows are left."""
        before, now = self._both(mine.id)
        if now == before:
            return mine
        if mine.files != before.files:
            raise self._conflict(mine.id)
        if now.deletion_file == before.deletion_file:
            return dataclasses.replace(now, deletion_file=mine.deletion_file)
        deleted = self._united(mine, before, now)
        if len(deleted) == self._latest.fragment_rows(now):
            return mine.id
        file = write_deletion_file(
            self._latest.location,
            deleted,
            fragment_id=mine.id,
            read_version=self._latest.version,
            files=self._files,
        )
        return dataclasses.replace(now, deletion_file=file)

    def _united(self, mine: Fragment, before: Fragment, now: Fragment) -> BitMap:
        """Return the rows that either of us deleted.

        Raises
        ------
        RetryableConflictError
            Both deleted some of the same rows.
        """
        known = self._base.deletion_vector(before)
        wanted = self._base.deletion_vector(mine)
        deleted = self._latest.deletion_vector(now)
        if wanted is None or deleted is None:
            raise self._conflict(mine.id)
        new = wanted if known is None else wanted - known
        if not new.isdisjoint(deleted):
            raise self._conflict(mine.id)
        return deleted | new

    def _both(self, fragment_id: int) -> tuple[Fragment, Fragment]:
        """Return a fragment in the base version and in the latest one.

        Raises
        ------
        RetryableConflictError
            The fragment is gone, or others replaced columns of it.
        InvalidInputError
            The base version does not have the fragment.
        """
        before = existing(self._base.manifest, fragment_id)
        position = self._latest.fragments.position(fragment_id)
        if position is None:
            raise self._conflict(fragment_id)
        now = self._latest.fragments[position]
        # files vanish when their last column is dropped; new files have new values
        if not set(now.files) <= set(before.files):
            raise self._conflict(fragment_id)
        return before, now

    def _index(self, operation: CreateIndex) -> CreateIndex:
        """Remove coverage of fragments whose values were replaced meanwhile from the new indices.

        Raises
        ------
        RetryableConflictError
            A column got another type.
        """
        indices = operation.new_indices
        if any(isinstance(other, Merge) for other in self._others):
            before, after = ((table.schema, table.fragments) for table in (self._base, self._latest))
            held = of_same_values(indices, before, after)
            if len(held) < len(indices):
                raise RetryableConflictError(
                    f"{self._latest.uri}: a column of a new index has changed its type since version "
                    f"{self._base.version}; build the index on the newest version"
                )
            indices = held
        for other in self._others:
            if isinstance(other, Update) and other.fields_modified:
                indices = without_coverage(
                    indices,
                    fields=other.fields_modified,
                    fragment_ids=[fragment.id for fragment in other.updated_fragments],
                )
        return dataclasses.replace(operation, new_indices=indices)

    def _rewrite(self, operation: Rewrite) -> Rewrite:
        """Leave out rewritten indices that do not exist any more."""
        present = {index.uuid for index in self._latest.manifest_file.read_indices()}
        rewritten = tuple(index for index in operation.rewritten_indices if index.old_id in present)
        return dataclasses.replace(operation, rewritten_indices=rewritten)

    def _conflict(self, fragment_id: int) -> RetryableConflictError:
        return RetryableConflictError(
            f"{self._latest.uri}: rows of fragment {fragment_id} were changed since version "
            f"{self._base.version} by commits up to version {self._latest.version}, so this change no "
            "longer applies; run it again on the newest version"
        )
