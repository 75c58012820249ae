"""Notices of running clean-ups, which list the versions that each of them removes.

A clean-up first writes its notice and then reads which versions are named. A writer that names a version, by
a tag, a branch or a restore, first writes the name and then reads the notices. So at least one of the two
sees the other: either the clean-up spares the version, or the writer withdraws the name. A notice exists as
long as the clean-up runs. One that was not renewed for a day belongs to a process that died, and does not
count.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lance_df.errors import LanceError, NotFoundError, UnsupportedFeatureError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.storage import Location
    from lance_df.table.table import Table

_NOTICES = "_refs/clean_ups"  # at the root, for all branches; pylance does not read it
_SUFFIX = ".json"
_VALID_SECONDS = 24 * 3600
_RENEWED_AFTER_SECONDS = 3600
_MAX_BYTES = 2**28


@dataclass(frozen=True, slots=True)
class _Notice:
    file: Location
    branch: str | None
    versions: frozenset[int]
    is_valid: bool


@contextmanager
def announced(table: Table, versions: Iterable[int]) -> Iterator[Callable[[], None]]:
    """Yield a function that announces the removal of versions of a branch until the block ends.

    Call it each time before reading which versions are named: it renews a notice that is an hour old. Without
    versions it does nothing.
    """
    numbers, renewed_at = sorted(versions), float("-inf")
    file = table.shared.root / _NOTICES / f"{uuid.uuid4().hex}{_SUFFIX}"

    def announce() -> None:
        nonlocal renewed_at
        now = time.time()
        if numbers and now > renewed_at + _RENEWED_AFTER_SECONDS:
            notice = {"branch": table.branch, "versions": numbers, "renewedAt": now}
            file.put(json.dumps(notice).encode())
            renewed_at = now

    try:
        yield announce
    finally:
        if numbers:
            with suppress(LanceError):
                file.remove()


def is_announced(version: Table) -> bool:
    """Return whether a running clean-up removes a version; no clean-up runs on a web server."""
    with suppress(UnsupportedFeatureError):
        return any(
            notice.is_valid and notice.branch == version.branch and version.version in notice.versions
            for notice in _notices(version.shared.root)
        )
    return False


def remove_outdated(table: Table) -> None:
    """Remove notices of clean-ups that were killed: old ones, and those whose versions are all gone."""
    with suppress(LanceError):  # they do no harm
        notices = list(_notices(table.shared.root))
        left = set(table.history.numbers()) if notices else set()
        for notice in notices:
            is_done = notice.branch == table.branch and left.isdisjoint(notice.versions)
            if is_done or not notice.is_valid:
                notice.file.remove()


def _notices(root: Location) -> Iterator[_Notice]:
    folder = root / _NOTICES
    for name in [entry.name for entry in folder.list() if entry.name.endswith(_SUFFIX)]:
        file = folder / name
        # the clean-up has ended, or the file is another program's
        with suppress(NotFoundError, ValueError, TypeError, KeyError, RecursionError):
            notice = json.loads(file.read(max_bytes=_MAX_BYTES))
            is_valid = notice["renewedAt"] > time.time() - _VALID_SECONDS
            yield _Notice(file, notice["branch"], frozenset(notice["versions"]), is_valid)
