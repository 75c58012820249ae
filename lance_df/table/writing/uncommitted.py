"""Files that are written for a version before it is published, and are deleted if it is not.

An interrupt may come between any two instructions, even when the version exists already and nobody has
recorded that. So the error that ends a write proves nothing. Each attempt to publish a version is announced
to all `UncommittedFiles` before it begins, and marked as refused if it certainly failed. A file is deleted
only if no other attempt has a version that refers to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import ref

from lance_df.errors import CommitStateUnknownError, LanceError
from lance_df.forks import new_lock
from lance_df.interrupts import interrupted_once, note_if_interrupted, undisturbed
from lance_df.table.writing.free_location import new_folders_removed

if TYPE_CHECKING:
    from lance_df.format.manifest import IndexMetadata, Manifest
    from lance_df.storage import Location


class Attempt:
    """A version that is being published.

    Parameters
    ----------
    uri, transaction
        For messages; see `publishing`.

    Attributes
    ----------
    is_published, is_refused
        The outcome. If neither is True, it is unknown.
    """

    __slots__ = ("_indices", "_manifest", "_transaction", "_uri", "is_published", "is_refused")

    def __init__(
        self,
        manifest: Manifest,
        indices: Iterable[IndexMetadata],
        uri: str = "",
        transaction: str = "",
    ) -> None:
        self._uri = uri
        self._manifest = manifest
        self._indices = indices
        self._transaction = transaction
        self.is_published = False
        self.is_refused = False

    def names(self) -> Iterator[str]:
        """Yield the names of all files that the version refers to; for indices, those of their folders."""
        yield self._manifest.transaction_file
        for fragment in self._manifest.fragments:
            for file in fragment.files:
                yield file.path
            if fragment.deletion_file is not None:
                yield fragment.deletion_file.name(fragment.id)
        for index in self._indices:
            yield str(index.uuid)

    def describe(self) -> str:
        """Describe an attempt that was not refused, after an interrupt or an unexpected error."""
        if self.is_published:
            return note_of_version(self._uri, self._manifest.version)
        return (
            f"{self._uri}: version {self._manifest.version} (transaction {self._transaction}) was "
            "interrupted while it was published; check the table before trying again"
        )

    def note(self) -> str | None:
        """Return the note for an interrupt; None if there is no version."""
        return None if self.is_refused else self.describe()


def note_of_version(uri: str, version: int) -> str:
    """Return the note for an interrupt after a version was published."""
    return f"{uri}: version {version} was published before the call was interrupted"


class UncommittedFiles:
    """Records files, and attempts of any thread of this process to publish versions of any table."""

    def __init__(self) -> None:
        self._removals: dict[str, list[Callable[[], object]]] = {}
        self._attempts: list[Attempt] = []
        self._is_watching = False
        self._stay = False

    def watch(self) -> None:
        """Record attempts from now on; call this before others can refer to a file."""
        if self._is_watching:
            return
        self._is_watching = True
        with _lock:
            _watching[:] = [each for each in _watching if each() is not None]
            _watching.append(ref(self))

    def add(self, name: str, remove: Callable[[], object]) -> None:
        """Record a file before it is created.

        Parameters
        ----------
        name
            The unique name by which versions refer to the file; see `Attempt.names`.
        remove
            Deletes the file, even if it is incomplete; store errors are ignored.
        """
        self._removals.setdefault(name, []).append(remove)

    def add_file(self, location: Location) -> None:
        """Record a file whose name is the last part of its location."""
        self.add(location.name, location.remove)

    def announce(self, attempt: Attempt) -> None:
        """Record an attempt to publish a version."""
        self._attempts.append(attempt)

    def keep(self) -> None:
        """Keep all files until `release`, as others may publish a version with them at any time."""
        self._stay = True

    def release(self) -> None:
        """Allow files to be deleted again."""
        self._stay = False

    @property
    def are_certain(self) -> bool:
        """Whether the outcome of all attempts is known, and nobody else can make one."""
        return not self._stay and all(each.is_refused or each.is_published for each in self._attempts)

    def remove(self) -> None:
        """Delete the files that no version can refer to, as far as the stores allow."""
        if self._removals and not self._stay:
            undisturbed(self._remove)

    def _remove(self) -> None:
        left, self._removals = self._removals, {}
        for attempt in self._attempts:
            if not attempt.is_refused:
                for name in attempt.names():
                    left.pop(name, None)
        for removals in left.values():
            for remove in removals:
                with suppress(LanceError):
                    remove()


_lock: Final = new_lock()
# No callbacks of weak references: an interrupt that comes while one runs is lost.
_watching: Final[list[ref[UncommittedFiles]]] = []


@contextmanager
def uncommitted_files(table: Location | None = None) -> Iterator[UncommittedFiles]:
    """Record files; if the block fails, delete those that no version can refer to.

    Parameters
    ----------
    table
        The folder of the table that is changed; its empty folders are then deleted, too.
    """
    files = UncommittedFiles()
    files.watch()
    with nullcontext() if table is None else new_folders_removed(table), interrupted_once():
        try:
            yield files
        except BaseException:
            files.remove()
            raise


@contextmanager
def publishing(
    manifest: Manifest,
    indices: Iterable[IndexMetadata],
    uri: str,
    transaction: str,
    *,
    is_part: bool = False,
    is_absent: Callable[[], bool] | None = None,
    attempts: list[Attempt] | None = None,
) -> Iterator[Attempt]:
    """Announce an attempt to publish a version, and determine its outcome.

    Parameters
    ----------
    uri, transaction
        The table and the id of the transaction, for messages.
    is_part
        Whether a later commit makes this one visible.
    is_absent
        Returns whether the version certainly was not made and will not be; called after an interrupt, if the
        store can answer this.
    attempts
        A list to which the attempt is appended.

    Raises
    ------
    CommitStateUnknownError
        The attempt failed with an unexpected error.
    """
    attempt = Attempt(manifest, indices, uri, transaction)
    if not is_part:
        note_if_interrupted(attempt.note)
    if attempts is not None:
        attempts.append(attempt)
    try:
        for watching in tuple(_watching):
            if (files := watching()) is not None:
                files.announce(attempt)
        yield attempt
    except CommitStateUnknownError:
        raise
    except LanceError:
        attempt.is_refused = True
        raise
    except BaseException as err:
        undisturbed(partial(_look, attempt, is_absent))
        if isinstance(err, Exception) and not attempt.is_refused:
            raise CommitStateUnknownError(attempt.describe()) from err
        raise


def _look(attempt: Attempt, is_absent: Callable[[], bool] | None) -> None:
    if is_absent is not None:
        with suppress(LanceError, OSError):
            attempt.is_refused = is_absent()
            attempt.is_published = not attempt.is_refused
