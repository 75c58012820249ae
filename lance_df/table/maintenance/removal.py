"""Delete many files: several concurrently, at a limited rate, and count the failures."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lance_df.errors import StorageError
from lance_df.file.blobs.sidecars import BLOB_SUFFIX
from lance_df.forks import new_lock
from lance_df.table.metadata.base_paths import DATA_DIR, INDICES_DIR

if TYPE_CHECKING:
    from lance_df.storage import Location
    from lance_df.table.maintenance.cleanup_policy import CleanupPolicy
    from lance_df.table.maintenance.cleanup_result import Candidate, Tally

_REQUESTS_AT_ONCE = 16


class Remover:
    """Deletes files of one table.

    Parameters
    ----------
    tally
        Counts the removed files, and those that the store refused to remove.
    """

    def __init__(self, table: Location, policy: CleanupPolicy, tally: Tally) -> None:
        self._table = table
        self._concurrency = policy.delete_concurrency or _REQUESTS_AT_ONCE
        self._pace = _Pace(policy.delete_rate_limit)
        self._tally = tally

    def remove(self, candidates: Iterable[Candidate]) -> None:
        """Delete files. A file that is already gone counts as removed."""
        files = list(candidates)
        with ThreadPoolExecutor(self._concurrency) as pool:
            results = list(pool.map(self._try_remove, files))
        for each, is_removed in zip(files, results, strict=True):
            if is_removed:
                self._tally.add(each)
            else:
                self._tally.num_failed += 1
        for folder, name in filter(None, {_folder_of(each) for each in files}):
            (self._table / folder / name).remove_empty_folder()

    def _try_remove(self, candidate: Candidate) -> bool:
        self._pace.wait()
        try:
            candidate.location.remove()
        except StorageError:
            return False
        return True


def _folder_of(candidate: Candidate) -> tuple[str, str] | None:
    """Return the folder of an index, or of the blobs of a data file; None for other files."""
    if candidate.kind == "index":
        return INDICES_DIR, candidate.name
    if candidate.location.name.endswith(BLOB_SUFFIX):
        return DATA_DIR, candidate.name.removesuffix(".lance")
    return None


class _Pace:
    """Lets a limited number of callers pass per second."""

    def __init__(self, limit: int | None) -> None:
        self._interval = 0.0 if limit is None else 1 / limit
        self._next = 0.0
        self._lock = new_lock()

    def wait(self) -> None:
        if not self._interval:
            return
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._interval
        time.sleep(turn - now)
