"""Data files that many processes write, and that one process either commits or removes.

The process that commits and the one that aborts may run at the same time, and neither learns the outcome of
the other. So each tries to create the same file beside the table, the claim. Only the one that creates it
continues, and removes it at the end. With the claim, an abort removes the files only if no version refers to
any of them, and the first file before all others; a commit fails if the first file is gone. A process that
dies, or cannot know the outcome of its requests, leaves the claim. Then no other process commits or removes
the files, and a clean-up removes both when they are old enough.
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
"""The suffix of the names of claims, in the folder of transactions."""

_ABORT: Final = b"abort "
_COMMIT: Final = b"commit "
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A data file that is not committed yet; ``table`` is the root of its table."""

    table: Location
    path: str

    @property
    def location(self) -> Location:
        """The location of the file."""
        return self.table / DATA_DIR / self.path


class StagedWrite:
    """The files of one write.

    Parameters
    ----------
    table
        The root of the table that gets the commit; for a namespace, that of ``__manifest``.
    write_id
        A unique id of the write, the same in all processes.
    files
        Yields the files, each time in the same order.
    """

    def __init__(self, table: Location, write_id: str, files: Callable[[], Iterator[StagedFile]]) -> None:
        self._table = table
        self._claim = table / TRANSACTIONS_DIR / f"{write_id}{CLAIM_SUFFIX}"
        self._files = files
        self._is_left = False

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Prevent others from removing the files while they are committed.

        Raises
        ------
        RetryableConflictError
            The write was aborted, or its files were removed. Nothing may be committed.
        CommitStateUnknownError
            Another process is committing the write, or died while doing so.
        StorageError, UnsupportedFeatureError
            The claim cannot be created.
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
        """Delete the files, unless a version refers to one of them, or the store fails.

        Call it only while `committing`.
        """
        try:
            self._remove_unreferenced()
        except LanceError:
            # a request to delete the first file may still be in flight
            self._is_left = True

    def abort(self) -> None:
        """Delete the files, unless they are committed or may still be, or the store fails."""
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
            f"{self._table.uri}: another process is committing this write, or was stopped while committing "
            f"it; check the table before trying again ({self._claim.uri})"
        )

    def _holder(self, content: bytes) -> bytes:
        """Create the claim, unless it exists, and return its content."""
        for _ in range(_ATTEMPTS):
            # if the answer of the store is lost, the content that is there decides
            with suppress(CommitStateUnknownError):
                if put_if_absent(self._claim, content):
                    return content
            with suppress(NotFoundError):
                return self._claim.read()
        raise StorageError(f"{self._claim.uri}: cannot create this file, which the commit needs")

    def _release(self) -> None:
        if self._is_left:
            return
        with suppress(LanceError):
            self._claim.remove()

    def _remove_empty_folders(self) -> None:
        for folder in (self._table / TRANSACTIONS_DIR, self._table):
            folder.remove_empty_folder()


def _unique(content: bytes) -> bytes:
    """Return content that no other claim has."""
    return content + uuid.uuid4().hex.encode()


def _check_present(file: Location) -> None:
    try:
        file.read_start(1)
    except NotFoundError as err:
        raise RetryableConflictError(
            f"{file.uri}: this data file was removed before the write was committed; write the rows again"
        ) from err
