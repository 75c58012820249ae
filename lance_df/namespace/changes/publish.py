"""Publish changes of a namespace, on top of whatever others have published by then.

Spec: partitioning, "Multi-Partition Transaction".
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from threading import get_ident
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable
from weakref import WeakValueDictionary

from lance_df.errors import (
    CommitStateUnknownError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
)
from lance_df.forks import after_fork_in_child, new_lock
from lance_df.interrupts import interrupted_once, undisturbed, workers
from lance_df.namespace.changes.draft import Draft, NeedsSeparateDraftError
from lance_df.namespace.changes.pins import NeedsPinsError, with_pins
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
    """What can be made on a draft."""

    def apply(self, draft: Draft) -> None:
        """Make versions of members that have the change."""


class NamespaceChange(Applicable, Protocol):
    """A change that can be made again on another version. What still holds need not be computed again."""

    def tidy(self, published: NamespaceManifest) -> None:
        """Remove what is not needed any more, as a version with the change is published."""


@runtime_checkable
class MakesFolders(Protocol):
    """A change that may have made folders for tables of new partitions."""

    def folders(self) -> Iterable[Location]:
        """Return these, and perhaps others that are there for long."""


@runtime_checkable
class WritesFiles(Protocol):
    """A change that writes data files when it is made.

    Attributes
    ----------
    files
        These; they are to be removed when the change is not published.
    """

    files: UncommittedFiles


def remove_new_folders(manifest: NamespaceManifest, changes: Iterable[object]) -> None:
    """Remove what changes have made that were not published, as far as the store lets us.

    Members keep versions that nobody reads: whoever changes them next undoes these.
    """
    folders = [each for change in changes if isinstance(change, MakesFolders) for each in change.folders()]

    def remove() -> None:
        with suppress(LanceError):
            remove_unpublished(manifest.latest(), folders)

    if folders:
        undisturbed(remove)


def remove_unpublished(manifest: NamespaceManifest, folders: Sequence[Location]) -> None:
    """Remove the folders of tables that a version of the namespace does not have."""
    if not folders:
        return
    known = set(manifest.rows["location"].to_pylist())
    for folder in folders:
        if folder.name not in known:
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
    """Make changes one after the other, show all of them at once, and return a version that has them.

    Transactions of this process that wait for each other share a commit.

    Parameters
    ----------
    manifest
        The version whose schema the changes were made for.
    rebase
        Make the changes again when others have published another version; otherwise fail.
    in_advance
        Make the changes while others publish theirs, not only when it is their turn: for those that take
        time.
    files
        Of the changes: are kept while another thread may publish them.

    Raises
    ------
    RetryableConflictError
        Another version was published, and the changes may not be made again: so it was asked for, or the
        schema is another one, or others were faster again and again.
    CommitStateUnknownError
        It is not known whether the changes were published.
    """
    if rebase:
        return line_of(root).publish(Waiting(root, manifest, changes, files), in_advance=in_advance)
    try:
        draft = Draft(root, manifest)
        _apply(draft, changes)
    except NeedsPinsError as err:
        return publish(root, with_pins(root, manifest, err.members), changes, rebase=False)
    published = draft.publish()
    # a commit has looked for others, but changes of no rows make none
    if published is manifest and manifest.latest().version != manifest.version:
        raise RetryableConflictError(
            f"{root.uri}: a version after {manifest.version} was published; start again from it"
        )
    for change in changes:
        change.tidy(published)
    return published


@dataclass(slots=True, eq=False)
class Waiting:
    """A transaction that waits to be published.

    Attributes
    ----------
    files
        Of its changes, which are kept as long as any thread may publish it.
    published, error
        What became of it.
    publisher
        The thread that has begun to publish it.
    attempts
        To publish it, by the thread that tried last.
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
        """Whether it is published, or has failed."""
        return self.published is not None or self.error is not None

    def settle(self) -> None:
        """Find out what became of it, if its publisher was interrupted."""
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
        """Let files be removed, as no thread can publish it any more."""
        for files in self.files:
            files.release()

    def outcome(self) -> NamespaceManifest:
        """Return the version that has the changes, or raise what kept them from it."""
        if self.published is None:
            raise self.error or TypeError("the transaction is not done")
        return self.published

    def apply(self, draft: Draft) -> None:
        """Make the changes."""
        draft.check_follows(self.manifest)
        if draft.manifest.schema != self.manifest.schema:
            raise RetryableConflictError(f"{self.root.uri}: the schema changed meanwhile; start again")
        _apply(draft, self.changes)


class PublishingLine:
    """The transactions of this process that wait to be published in one namespace.

    Whoever finds nobody publishing does so for all that wait by then.
    """

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()
        self._publishes = new_lock()
        self._claims = new_lock()

    def publish(self, waiting: Waiting, *, in_advance: bool) -> NamespaceManifest:
        """Publish a transaction, perhaps with others; see the function of this name."""
        if in_advance and self._publishes.locked():
            make_in_advance(waiting.root, waiting.manifest.latest(), waiting)
        # before others can get hold of it; an interrupt may come at any moment
        for files in waiting.files:
            files.keep()
        try:
            self._waiting.append(waiting)
            while not waiting.is_done:
                with self._publishes:
                    if not waiting.is_done:
                        self._publish_waiting()
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
        """Take back a transaction, unless another thread has begun to publish it."""
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
        """Publish what waits. The lock is held, so that what others have claimed before was left by them."""
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
        """Publish transactions but those that fail; take out those that have to wait for the others."""
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
                continue  # they are pinned by now
            except RetryableConflictError:
                _log.info(
                    "%s: others published first, attempt %d; trying again", group[0].root.uri, attempt + 1
                )
                STRICT.wait(attempt)
        raise RetryableConflictError(
            f"{group[0].root.uri}: others were faster {_ATTEMPTS} times in a row; try again"
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
                raise RetryableConflictError(f"{draft.root.uri}: a version was cleaned up meanwhile") from err
            transaction.error = err


_lines: WeakValueDictionary[Hashable, PublishingLine] = WeakValueDictionary()
_lines_lock: Final = new_lock()


def _forget_lines() -> None:
    # what waits there is of threads that the parent publishes
    global _lines  # noqa: PLW0603
    _lines = WeakValueDictionary()


after_fork_in_child(_forget_lines)


def line_of(root: Location) -> PublishingLine:
    """Return where transactions of a namespace wait in this process."""
    with _lines_lock:
        return _lines.setdefault(root.identity, PublishingLine())


def make_in_advance(root: Location, manifest: NamespaceManifest, change: Applicable) -> None:
    """Make a change on top of a version, so that it need not be made when it is its turn to be published.

    Not where members are to be pinned before.
    """
    with suppress(NeedsPinsError):
        change.apply(Draft(root, manifest))


def _apply(draft: Draft, changes: Sequence[NamespaceChange]) -> None:
    for change in changes:
        change.apply(draft)


def map_commits(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the results of a function for each item, several at once: commits mostly wait for the store."""
    left = iter(items)
    done: list[R] = []
    with workers(_NUM_THREADS) as pool:
        # all at once would wait in more memory than what they are about takes
        while some := list(islice(left, _WAITING)):
            done += pool.map(function, some)
    return done
