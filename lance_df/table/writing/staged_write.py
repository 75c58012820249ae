"""Data files that many processes write, and that one process commits or another one removes.

The process that commits and the one that aborts may run at the same time, and neither learns what became of
the other. So each creates the same file beside the table, the claim, unless it is there: whoever creates it
goes on alone, and removes it at the end. An abort that has the claim removes the files only if no version
refers to any of them, and the first file before all others: a commit that has the claim fails if the first
file is gone. A process that dies, or cannot know what became of its requests, leaves the claim. Then no
other process commits or removes the files, and a clean-up removes both when they are old enough.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from lance_df.errors import (
    CommitStateUnknownError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lance_df.records import dataclass
from lance_df.storage.put_if_absent import put_if_absent
from lance_df.table.commit.loop import TRANSACTIONS_DIR
from lance_df.table.maintenance.needed_files import data_files_at
from lance_df.table.metadata.base_paths import DATA_DIR
from lance_df.table.writing.fragment_writer import remove_data_file

if TYPE_CHECKING:
    from lance_df.storage import Location

CLAIM_SUFFIX: Final = ".claim"
"""How the names of claims end, in the folder of the transactions."""

_ABORT: Final = b"abort "
_COMMIT: Final = b"commit "
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A data file that is not committed yet, of the table with this root."""

    table: Location
    path: str

    @property
    def location(self) -> Location:
        """Where it is."""
        return self.table / DATA_DIR / self.path


class StagedWrite:
    """The files of one write.

    Parameters
    ----------
    table
        The root of the table that is committed to; of a namespace, that of ``__manifest``.
    write_id
        Names the write, the same in all processes, and no other write.
    files
        Yields the files, always in the same order.
    """

    def __init__(self, table: Location, write_id: str, files: Callable[[], Iterator[StagedFile]]) -> None:
        self._table = table
        self._claim = table / TRANSACTIONS_DIR / f"{write_id}{CLAIM_SUFFIX}"
        self._files = files
        self._is_left = False

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Keep others from removing the files while they are committed.

        Raises
        ------
        RetryableConflictError
            The write was aborted, or its files were removed. Nothing may be committed.
        CommitStateUnknownError
            Another process commits the write, or did so and died.
        StorageError, UnsupportedFeatureError
            The claim cannot be made.
        """
        first = next(self._files(), None)
        if first is None:
            yield
            return
        self._take_for_commit()
        try:
            _check_present(first.location)
            yield
        except CommitStateUnknownError:
            raise
        except Exception:
            self._release()
            self._remove_empty_folders()
            raise
        # not after an interrupt, which may have come while a version was published
        self._release()

    def remove(self) -> None:
        """Remove the files, unless a version refers to one of them, or the store fails.

        Only while `committing`.
        """
        try:
            self._remove_unreferenced()
        except LanceError:
            # a request to remove the first file may still be under way
            self._is_left = True

    def abort(self) -> None:
        """Remove the files, unless they are committed, or may still be, or the store fails."""
        if next(self._files(), None) is None:
            return
        with suppress(LanceError):
            content = _unique(_ABORT)
            if self._holder(content) == content:
                self.remove()
                self._release()
        self._remove_empty_folders()

    def _remove_unreferenced(self) -> None:
        first = next(self._files(), None)
        if first is None:
            return
        names: dict[Location, set[str]] = {}
        for file in self._files():
            names.setdefault(file.table, set()).add(file.path)
        for table, staged in names.items():
            if not staged.isdisjoint(data_files_at(table)):
                return
        first.location.remove()
        for file in self._files():
            remove_data_file(file.location)
        for table in names:
            (table / DATA_DIR).remove_empty_folder()
            table.remove_empty_folder()

    def _take_for_commit(self) -> None:
        content = _unique(_COMMIT)
        holder = self._holder(content)
        if holder == content:
            return
        if holder.startswith(_ABORT):
            raise RetryableConflictError(
                f"{self._table.uri}: this write was aborted before it was committed; write the rows again "
                f"({self._claim.uri})"
            )
        raise CommitStateUnknownError(
            f"{self._table.uri}: another process commits this write, or was ended while it did so; check "
            f"the table before trying again ({self._claim.uri})"
        )

    def _holder(self, content: bytes) -> bytes:
        """Create the claim, unless it is there, and return its content."""
        for _ in range(_ATTEMPTS):
            # when its answer is lost, what is there decides
            with suppress(CommitStateUnknownError):
                if put_if_absent(self._claim, content):
                    return content
            with suppress(NotFoundError):
                return self._claim.read()
        raise StorageError(f"{self._claim.uri}: cannot be created, which a commit needs")

    def _release(self) -> None:
        if self._is_left:
            return
        with suppress(LanceError):
            self._claim.remove()

    def _remove_empty_folders(self) -> None:
        for folder in (self._table / TRANSACTIONS_DIR, self._table):
            folder.remove_empty_folder()


def _unique(content: bytes) -> bytes:
    """Return a content that no other claim has."""
    return content + uuid.uuid4().hex.encode()


def _check_present(file: Location) -> None:
    try:
        file.read_start(1)
    except NotFoundError as err:
        raise RetryableConflictError(
            f"{file.uri}: this file of the write was removed before it was committed; write the rows again"
        ) from err
