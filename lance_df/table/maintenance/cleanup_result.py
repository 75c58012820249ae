"""The results of a clean-up, or of a dry run of it, with the names of pylance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias

from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.storage import Location

FileKind: TypeAlias = Literal["data", "deletion", "index", "transaction", "temporary", "manifest"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that is not needed.

    Attributes
    ----------
    name
        The name by which versions refer to the file; for an index file, its folder.
    is_unverified
        Whether no version ever referred to the file, as far as is known.
    """

    kind: FileKind
    name: str
    location: Location
    size_bytes: int
    is_unverified: bool


@dataclass(frozen=True, slots=True)
class CleanupStats:
    """The numbers of items that a clean-up removed."""

    bytes_removed: int = 0
    old_versions: int = 0
    data_files_removed: int = 0
    transaction_files_removed: int = 0
    index_files_removed: int = 0
    deletion_files_removed: int = 0
    failed_deletes: int = 0


@dataclass(frozen=True, slots=True)
class CleanupCandidateFile:
    """A file that a clean-up would remove. ``path`` is relative to the table."""

    path: str
    kind: FileKind
    size_bytes: int
    unverified: bool


@dataclass(frozen=True, slots=True)
class CleanupReferencedBranch:
    """A branch, and the version of the table that it starts from, which therefore is not removed."""

    name: str
    referenced_version: int
    cleanup_candidate: bool = False


@dataclass(frozen=True, slots=True)
class CleanupExplanation:
    """What a clean-up would remove.

    Attributes
    ----------
    candidate_files
        The first ``candidate_file_limit`` files. ``candidate_files_truncated`` says whether there are more.
    """

    read_version: int
    stats: CleanupStats
    candidate_files: list[CleanupCandidateFile] = field(default_factory=list)
    candidate_files_truncated: bool = False
    candidate_file_limit: int = 1000
    referenced_branches: list[CleanupReferencedBranch] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Tally:
    """Counts removed files."""

    def __init__(self) -> None:
        self._counts: Counter[FileKind] = Counter()
        self._num_bytes = 0
        self.num_failed = 0

    def add(self, candidate: Candidate) -> None:
        """Count a file that was removed, or would be."""
        self._counts[candidate.kind] += 1
        self._num_bytes += candidate.size_bytes

    def stats(self) -> CleanupStats:
        """Return the totals."""
        counts: Mapping[FileKind, int] = self._counts
        return CleanupStats(
            bytes_removed=self._num_bytes,
            old_versions=counts["manifest"],
            data_files_removed=counts["data"],
            transaction_files_removed=counts["transaction"],
            index_files_removed=counts["index"],
            deletion_files_removed=counts["deletion"],
            failed_deletes=self.num_failed,
        )
