"""Publish changes of a namespace, on top of whatever others have published by then.

Spec: partitioning, "Multi-Partition Transaction".
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from lance_df.errors import RetryableConflictError
from lance_df.namespace.draft import Draft

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.storage import Location

T = TypeVar("T")
R = TypeVar("R")

_ATTEMPTS: Final = 50
_NUM_THREADS: Final = 8


class NamespaceChange(Protocol):
    """A change that can be made again on another version. What still holds need not be computed again."""

    def apply(self, draft: Draft) -> None:
        """Make versions of members that have the change."""

    def tidy(self) -> None:
        """Remove what is not needed any more once the change is published."""


def publish(
    root: Location, manifest: NamespaceManifest, changes: Sequence[NamespaceChange], *, rebase: bool = True
) -> NamespaceManifest:
    """Make changes one after the other, show all of them at once, and return the version that has them.

    Parameters
    ----------
    manifest
        The version whose schema the changes were made for.
    rebase
        Make the changes again when others have published another version; otherwise fail.

    Raises
    ------
    RetryableConflictError
        Another version was published, and the changes may not be made again: so it was asked for, or the
        schema is another one, or others were faster again and again.
    CommitStateUnknownError
        It is not known whether the changes were published.
    """
    schema = manifest.schema
    for _ in range(_ATTEMPTS):
        if manifest.schema != schema:
            raise RetryableConflictError(f"{root.uri}: the schema changed meanwhile; start again")
        draft = Draft(root, manifest)
        for change in changes:
            change.apply(draft)
        try:
            published = draft.publish()
        except RetryableConflictError:
            if not rebase:
                raise
            manifest = manifest.latest()
        else:
            for change in changes:
                change.tidy()
            return published
    raise RetryableConflictError(f"{root.uri}: others were faster {_ATTEMPTS} times in a row; try again")


def map_commits(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the results of a function for each item, several at once: commits mostly wait for the store."""
    with ThreadPoolExecutor(_NUM_THREADS) as pool:
        return list(pool.map(function, items))
