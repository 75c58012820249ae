"""Publish changes of a namespace on top of the newest version.

Spec: partitioning, "Multi-Partition Transaction".
"""

from __future__ import annotations

import logging
import posixpath
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from threading import get_ident
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable
from weakref import WeakValueDictionary

from lance_df.errors import (
    CommitStateUnknownError,
    IncompatibleConflictError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
)
from lance_df.forks import after_fork_in_child, new_lock
from lance_df.interrupts import interrupted_once, note_if_interrupted, undisturbed, workers
from lance_df.namespace.changes.draft import Draft, NeedsSeparateDraftError
from lance_df.namespace.changes.pins import NeedsPinsError, with_pins
from lance_df.namespace.directory.names import without_last_slash
from lance_df.namespace.manifest_table import STRICT

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.storage import Location
    from lance_df.table.writing.uncommitted import Attempt, UncommittedFiles

T = TypeVar("T")
R = TypeVar("R")

_log = logging.getLogger("lance_df")

_ATTEMPTS: Final = 100
_MAX_GROUP: Final = 64
_NUM_THREADS: Final = 8
_WAITING: Final = 1024


class Applicable(Protocol):
    """An object that can be applied to a draft."""

    def apply(self, draft: Draft) -> None:
        """Commit versions of members that have the change."""


class NamespaceChange(Applicable, Protocol):
    """A change that can be applied again to another version, reusing results that are still valid."""

    def tidy(self, published: NamespaceManifest) -> None:
        """Remove files that are no longer needed once a version with the change is published."""


@runtime_checkable
class MakesFolders(Protocol):
    """A change that may have created folders for tables of new partitions."""

    def folders(self) -> Iterable[Location]:
        """Return these folders, and perhaps older ones."""


@runtime_checkable
class WritesFiles(Protocol):
    """A change that writes data files when it is applied.

    Attributes
    ----------
    files
        The written files, which are removed if the change is not published.
    """

    files: UncommittedFiles


def remove_new_folders(manifest: NamespaceManifest, changes: Iterable[object]) -> None:
    """Remove new folders of unpublished changes, as far as the store allows.

    Members keep versions that nobody reads; the next change of a member undoes them.
    """
    folders = [each for change in changes if isinstance(change, MakesFolders) for each in change.folders()]

    def remove() -> None:
        with suppress(LanceError):
            remove_unpublished(manifest.latest(), folders)

    if folders:
        undisturbed(remove)


def remove_unpublished(manifest: NamespaceManifest, folders: Sequence[Location]) -> None:
    """Remove those folders of tables that a version of the namespace does not have."""
    if not folders:
        return
    root = posixpath.dirname(manifest.table.location.path)
    locations = without_last_slash(manifest.rows["location"].drop_null()).to_pylist()
    known = {posixpath.join(root, location) for location in locations}
    for folder in folders:
        if folder.path not in known:
            with suppress(LanceError):
                folder.remove_tree()


@interrupted_once()
def publish(
    root: Location,
    manifest: NamespaceManifest,
    changes: Sequence[NamespaceChange],
    *,
    rebase: bool = True,
    in_advance: bool = True,
    files: Sequence[UncommittedFiles] = (),
) -> NamespaceManifest:
    """Apply changes one after another, publish them in one commit, and return a version that has them.

    Waiting transactions of this process share a commit.

    Parameters
    ----------
    manifest
        The version for whose schema the changes were computed.
    rebase
        Whether to apply the changes again if another version was published; otherwise fail.
    in_advance
        Whether to apply the changes while other transactions are being published, not only in their turn.
        Useful for changes that take time.
    files
        The files of the changes, which are kept while another thread may publish them.

    Raises
    ------
    RetryableConflictError
        Another version was published, and the changes cannot be applied again: ``rebase`` is False, the
        schema has changed, or other writers were faster again and again.
    IncompatibleConflictError
        The namespace was dropped, and perhaps made anew.
    CommitStateUnknownError
        It is not known whether the changes were published.
    """
    if rebase:
        return line_of(root).publish(Waiting(root, manifest, changes, files), in_advance=in_advance)
    try:
        draft = Draft(root, manifest)
        _apply(draft, changes)
        published = draft.publish()
    except NeedsPinsError as err:
        return publish(root, with_pins(root, manifest, err.members), changes, rebase=False)
    except NotFoundError as err:
        _check_exists(root, manifest, err)
        raise
    # a commit checks for other versions, but changes without rows make no commit
    if published is manifest and manifest.latest().version != manifest.version:
        raise RetryableConflictError(
            f"{root.uri}: a version after {manifest.version} was published in the meantime; start again "
            "from it"
        )
    for change in changes:
        change.tidy(published)
    return published


def _check_exists(root: Location, manifest: NamespaceManifest, cause: NotFoundError) -> None:
    """Check that a namespace was not dropped, after something in it was not found."""
    try:
        latest = manifest.latest()
    except NotFoundError:
        raise IncompatibleConflictError(f"{root.uri}: the namespace was dropped") from cause
    latest.check_follows(manifest)


@dataclass(slots=True, eq=False)
class Waiting:
    """A transaction that waits to be published.

    Attributes
    ----------
    files
        The files of its changes, which are kept as long as any thread may publish it.
    published, error
        The outcome; both are None until it is known.
    publisher
        The thread that is publishing it.
    attempts
        The commit attempts of the last publishing thread.
    """

    root: Location
    manifest: NamespaceManifest
    changes: Sequence[NamespaceChange]
    files: Sequence[UncommittedFiles] = ()
    published: NamespaceManifest | None = None
    error: BaseException | None = None
    publisher: int | None = None
    attempts: Sequence[Attempt] = ()

    @property
    def is_done(self) -> bool:
        """Whether it was published or has failed."""
        return self.published is not None or self.error is not None

    def settle(self) -> None:
        """Determine the outcome if the publishing thread was interrupted."""
        tried = [attempt for attempt in self.attempts if not attempt.is_refused]
        if not tried or self.is_done:
            return
        if all(attempt.is_published for attempt in tried):
            self.published = self.manifest.latest()
            return
        self.error = CommitStateUnknownError(
            f"{self.root.uri}: the thread that published the changes was interrupted; check the namespace "
            "before trying again"
        )

    def release(self) -> None:
        """Allow the files to be removed, as no thread can publish the transaction any more."""
        for files in self.files:
            files.release()

    def outcome(self) -> NamespaceManifest:
        """Return the version that has the changes, or raise the error."""
        if self.published is None:
            raise self.error or TypeError("the transaction is not done")
        return self.published

    def apply(self, draft: Draft) -> None:
        """Apply the changes."""
        draft.check_follows(self.manifest)
        if draft.manifest.schema != self.manifest.schema:
            raise RetryableConflictError(
                f"{self.root.uri}: the schema was changed in the meantime; start again"
            )
        _apply(draft, self.changes)


class PublishingLine:
    """The transactions of this process that wait to be published in one namespace.

    A thread that finds no other thread publishing does so for all waiting transactions.
    """

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()
        self._publishes = new_lock()
        self._claims = new_lock()

    def publish(self, waiting: Waiting, *, in_advance: bool) -> NamespaceManifest:
        """Publish a transaction, perhaps together with others; see the function `publish`."""
        if in_advance and self._publishes.locked():
            make_in_advance(waiting.root, waiting.manifest.latest(), waiting)
        # before other threads can see it; an interrupt may come at any moment
        for files in waiting.files:
            files.keep()
        try:
            self._waiting.append(waiting)
            while not waiting.is_done:
                with self._publishes:
                    if not waiting.is_done:
                        self._publish_waiting()
            # another thread may have published it
            for attempt in waiting.attempts:
                note_if_interrupted(attempt.note)
        except BaseException as err:
            self._withdraw(waiting, err)
            raise
        if waiting.error is not None:
            waiting.release()
        published = waiting.outcome()
        for change in waiting.changes:
            change.tidy(published)
        return published

    def _withdraw(self, waiting: Waiting, err: BaseException) -> None:
        """Withdraw a transaction, unless another thread is publishing it."""
        with self._claims:
            if waiting.publisher in (None, get_ident()):
                with suppress(ValueError):
                    self._waiting.remove(waiting)
                waiting.release()
                return
        err.add_note(
            f"{waiting.root.uri}: interrupted while another thread published the changes; check the "
            "namespace before trying again"
        )

    def _publish_waiting(self) -> None:
        """Publish the waiting transactions; the lock is held, so earlier claims of other threads are void."""
        with self._claims:
            group = list(islice(self._waiting, _MAX_GROUP))
            for each in group:
                each.publisher = get_ident()
        try:
            for each in group:
                each.settle()
            group = [each for each in group if not each.is_done]
            self._publish_group(group)
        finally:
            with self._claims:
                for each in list(self._waiting):
                    if each.is_done:
                        self._waiting.remove(each)
                    else:
                        each.publisher = None

    def _publish_group(self, group: list[Waiting]) -> None:
        if not group:
            return
        try:
            published = self._published(group)
        except LanceError as err:
            for each in group:
                each.error = each.error or err
        else:
            for each in group:
                if not each.is_done:
                    each.published = published

    def _published(self, group: list[Waiting]) -> NamespaceManifest:
        """Publish transactions except those that fail; remove those that have to wait for others."""
        manifest = group[0].manifest
        for attempt in range(_ATTEMPTS):
            manifest = manifest.latest()
            draft = Draft(group[0].root, manifest)
            attempts: list[Attempt] = []
            try:
                for each in list(group):
                    if not each.is_done:
                        self._draw_up(draft, each, group)
                for each in group:
                    each.attempts = attempts
                return draft.publish(options=replace(STRICT, attempts=attempts))
            except NeedsPinsError:
                continue  # `_draw_up` has pinned the members
            except RetryableConflictError:
                _log.info(
                    "%s: another writer published first, attempt %d failed; trying again",
                    group[0].root.uri,
                    attempt + 1,
                )
                STRICT.wait(attempt)
        raise RetryableConflictError(
            f"{group[0].root.uri}: {_ATTEMPTS} attempts in a row failed because other writers published "
            "first; try again"
        )

    def _draw_up(self, draft: Draft, transaction: Waiting, group: list[Waiting]) -> None:
        draft.begin_turn()
        try:
            transaction.apply(draft)
        except NeedsSeparateDraftError:
            draft.undo_turn()
            group.remove(transaction)  # it still waits
        except NeedsPinsError as err:
            try:
                with_pins(draft.root, draft.manifest, err.members)
            except RetryableConflictError:
                raise err from None
            except LanceError as failure:
                draft.undo_turn()
                transaction.error = failure
            else:
                raise
        except Exception as err:
            draft.undo_turn()
            if isinstance(err, NotFoundError) and draft.manifest.latest().version != draft.manifest.version:
                raise RetryableConflictError(
                    f"{draft.root.uri}: a version was cleaned up in the meantime"
                ) from err
            transaction.error = err


_lines: WeakValueDictionary[Hashable, PublishingLine] = WeakValueDictionary()
_lines_lock: Final = new_lock()


def _forget_lines() -> None:
    # the waiting transactions belong to threads of the parent, which publishes them
    global _lines  # noqa: PLW0603
    _lines = WeakValueDictionary()


after_fork_in_child(_forget_lines)


def line_of(root: Location) -> PublishingLine:
    """Return the line in which transactions of a namespace wait in this process."""
    with _lines_lock:
        return _lines.setdefault(root.identity, PublishingLine())


def make_in_advance(root: Location, manifest: NamespaceManifest, change: Applicable) -> None:
    """Apply a change to a version, so that results can be reused when it is published.

    Does nothing if members must be pinned first.
    """
    with suppress(NeedsPinsError):
        change.apply(Draft(root, manifest))


def _apply(draft: Draft, changes: Sequence[NamespaceChange]) -> None:
    for change in changes:
        change.apply(draft)


def map_commits(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the results of a function for all items, in threads, as commits mostly wait for the store."""
    left = iter(items)
    done: list[R] = []
    with workers(_NUM_THREADS) as pool:
        # submitting all at once would use more memory than the items themselves
        while some := list(islice(left, _WAITING)):
            done += pool.map(function, some)
    return done
