"""Policies of clean-ups: which versions are removed, and how fast."""

from __future__ import annotations

import datetime as dt

from lance_df.arguments import checked_flag
from lance_df.errors import InvalidInputError
from lance_df.records import dataclass

DEFAULT_AGE = dt.timedelta(days=14)
# Files that no version refers to may belong to a commit in progress, but not for longer than this.
UNVERIFIED_AGE = dt.timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPolicy:
    """The versions to remove. A version is removed if it meets every given condition.

    Attributes
    ----------
    older_than
        Minimum age since the commit. Two weeks if no condition is given at all.
    retain_versions
        The number of newest versions that stay.
    versions
        Remove only these versions.
    pinned
        Versions that stay, as something else refers to them.
    published
        The versions that readers may have seen, if versions are made first and published later; by default
        all. A writer may still publish the files of other versions, so these are removed only when they are
        old.
    delete_unverified
        Also remove new files that no version, or no published one, refers to. Safe only while nobody writes.
    error_if_tagged
        Whether a tag of a version to be removed is an error; otherwise the version stays.
    delete_rate_limit
        Files per second; ``None`` for no limit.
    delete_concurrency
        Number of files that are removed concurrently.

    Raises
    ------
    InvalidInputError
        A value is out of range.
    """

    older_than: dt.timedelta | None = None
    retain_versions: int | None = None
    versions: frozenset[int] | None = None
    pinned: frozenset[int] = frozenset()
    published: frozenset[int] | None = None
    delete_unverified: bool = False
    error_if_tagged: bool = True
    delete_rate_limit: int | None = None
    delete_concurrency: int | None = None

    def __post_init__(self) -> None:
        if self.older_than is None and self.retain_versions is None and self.versions is None:
            object.__setattr__(self, "older_than", DEFAULT_AGE)
        if self.older_than is not None and not _is_age(self.older_than):
            raise InvalidInputError(f"older_than must be a timedelta of 0 or more, got {self.older_than!r}")
        for name in ("retain_versions", "delete_rate_limit", "delete_concurrency"):
            value = getattr(self, name)
            if value is not None and (not _is_integer(value) or value < 1):
                raise InvalidInputError(f"{name} must be a positive integer, got {value!r}")
        checked_flag(self.delete_unverified, "delete_unverified")
        checked_flag(self.error_if_tagged, "error_if_tagged_old_versions")
        if self.versions is not None and not (self.versions and all(map(_is_integer, self.versions))):
            raise InvalidInputError("versions must contain at least one version number")

    def first_retained(self, versions: list[int]) -> int | None:
        """Return the oldest of ascending versions that `retain_versions` keeps; None if it keeps none."""
        return None if self.retain_versions is None else versions[-self.retain_versions :][0]

    def covers(self, version: int, *, committed: float, now: float, first_retained: int | None) -> bool:
        """Whether a version is to be removed. Times are in seconds since the epoch."""
        return (
            (self.older_than is None or committed < now - self.older_than.total_seconds())
            and (first_retained is None or version < first_retained)
            and (self.versions is None or version in self.versions)
            and version not in self.pinned
            and (self._is_published(version) or committed < now - UNVERIFIED_AGE.total_seconds())
        )

    def _is_published(self, version: int) -> bool:
        return self.delete_unverified or self.published is None or version in self.published


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_age(value: object) -> bool:
    return isinstance(value, dt.timedelta) and value >= dt.timedelta(0)
