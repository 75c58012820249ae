"""Remove old versions, and files that no remaining version needs.

A clean-up keeps everything that is needed by a remaining version, a tag, a branch, another table that is
known to build on this one, or a commit in progress. A notice lists the versions that it removes, so that a
writer that names one of them meanwhile sees this; see `lance_df.table.metadata.removal_notices`. Files are
removed first and manifests last: a crash at worst leaves versions that cannot be read, which the next
clean-up removes. If a file cannot be removed, all manifests stay. A folder that is a symbolic link is never
touched, as its files belong to another table, or to none. Spec: table format, chapter 13.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from lance_df.errors import InvalidInputError, LanceError, NotFoundError, VersionNotFoundError
from lance_df.file.blobs.sidecars import BLOB_SUFFIX
from lance_df.format.operations import Restore
from lance_df.format.transaction import Transaction
from lance_df.storage.listing import scan_folder
from lance_df.table.commit.loop import TRANSACTIONS_DIR
from lance_df.table.maintenance.cleanup_policy import UNVERIFIED_AGE, CleanupPolicy
from lance_df.table.maintenance.cleanup_result import (
    Candidate,
    CleanupCandidateFile,
    CleanupExplanation,
    CleanupReferencedBranch,
    CleanupStats,
    FileKind,
    Tally,
)
from lance_df.table.maintenance.needed_files import Bases, FileNames, tables_around, versions_at
from lance_df.table.maintenance.removal import Remover
from lance_df.table.metadata.base_paths import DATA_DIR, DELETIONS_DIR, INDICES_DIR
from lance_df.table.metadata.external_store import forget, staged_version, stored
from lance_df.table.metadata.missing_files import check_same_version
from lance_df.table.metadata.removal_notices import announced, remove_outdated
from lance_df.table.metadata.versions import DETACHED, VERSIONS_DIR, parse_manifest_name
from lance_df.table.writing.staged_write import CLAIM_SUFFIX

if TYPE_CHECKING:
    from lance_df.storage import Location
    from lance_df.storage.listing import ListedFile
    from lance_df.table.metadata.manifest_io import ManifestFile
    from lance_df.table.table import Table

_log = logging.getLogger("lance_df")

_TEMPORARY = ".tmp"
_CHUNK = 1000

T = TypeVar("T")


def cleanup(table: Table, policy: CleanupPolicy, *, now: float | None = None) -> CleanupStats:
    """Remove old versions of a table, or of a branch.

    Parameters
    ----------
    table
        This version, all later ones, and the newest one always stay.
    now
        Seconds since the epoch; by default the current time.

    Raises
    ------
    InvalidInputError
        A version to be removed has a tag, and the policy makes this an error. Nothing was removed.
    IncompatibleConflictError
        The table was dropped, or its branch deleted, and created again. Nothing was removed.
    CorruptDataError
        A manifest cannot be read, so the files that it needs are unknown. Nothing was removed.
    StorageError
        The store failed. The table is intact, but old versions may be incomplete.
    """
    survey = _survey(table, policy, time.time() if now is None else now)
    tally = Tally()
    remover = Remover(table.location, policy, tally)
    with announced(table, survey.goes) as announce:
        for chunk in _chunks(survey.candidates()):
            announce()
            # a version that is being restored counts as used until the restore is committed
            survey.see_new_uses()
            survey.see_new_versions()
            remover.remove(each for each in chunk if not survey.is_needed(each))
        for folder in survey.empty_folders:
            folder.remove_empty_folder()
        if not tally.num_failed:
            _remove_manifests(survey, remover, announce)
    if not tally.num_failed:
        remove_outdated(table)
    stats = tally.stats()
    _log.info("%s: cleaned up: %s", table.uri, stats)
    return stats


def explain_cleanup(
    table: Table, policy: CleanupPolicy, *, max_files: int = 0, now: float | None = None
) -> CleanupExplanation:
    """Return what :func:`cleanup` would do, without doing it.

    Parameters
    ----------
    max_files
        The number of files to list.

    Raises
    ------
    InvalidInputError, IncompatibleConflictError, CorruptDataError, StorageError
        See :func:`cleanup`.
    """
    survey = _survey(table, policy, time.time() if now is None else now)
    tally, named, num_files = Tally(), [], 0
    prefix = len(table.location.path.rstrip("/")) + 1
    for each in (*survey.candidates(), *survey.manifests):
        tally.add(each)
        num_files += 1
        if num_files <= max_files:
            path = each.location.path[prefix:]
            named.append(CleanupCandidateFile(path, each.kind, each.size_bytes, each.is_unverified))
    branches = [
        CleanupReferencedBranch(name, branch.parent_version)
        for name, branch in table.branches().items()
        if branch.parent_branch == table.branch
    ]
    return CleanupExplanation(
        read_version=table.version,
        stats=tally.stats(),
        candidate_files=named,
        candidate_files_truncated=0 < max_files < num_files,
        candidate_file_limit=max_files,
        referenced_branches=branches,
    )


@dataclass(slots=True)
class _Survey:
    """The files that are needed, and those that are not.

    Attributes
    ----------
    needed, unneeded
        Files that remaining versions need, and files of versions to be removed. A file may be in both.
    goes
        The manifests of the versions to be removed.
    last_seen
        The highest version whose files are known.
    empty_folders
        Folders of indices and blobs whose files were removed by an interrupted clean-up.
    """

    table: Table
    policy: CleanupPolicy
    now: float
    bases: Bases
    needed: FileNames = field(default_factory=FileNames)
    unneeded: FileNames = field(default_factory=FileNames)
    goes: dict[int, Candidate] = field(default_factory=dict)
    last_seen: int = 0
    empty_folders: list[Location] = field(default_factory=list)

    @property
    def manifests(self) -> list[Candidate]:
        """The manifests of the versions to be removed, ascending."""
        return [self.goes[version] for version in sorted(self.goes)]

    def candidates(self) -> Iterator[Candidate]:
        """Yield the files that are not needed, except for manifests."""
        folders: tuple[tuple[str, FileKind, set[str], set[str], tuple[str, ...]], ...] = (
            (DATA_DIR, "data", self.needed.data, self.unneeded.data, (".lance",)),
            (DELETIONS_DIR, "deletion", self.needed.deletions, self.unneeded.deletions, (".arrow", ".bin")),
            (
                TRANSACTIONS_DIR,
                "transaction",
                self.needed.transactions,
                self.unneeded.transactions,
                (".txn", CLAIM_SUFFIX),
            ),
        )
        yield from self._index_files()
        for name, kind, needed, unneeded, suffixes in folders:
            folder = self.table.location / name
            for file in _scanned(folder):
                if file.is_directory and name == DATA_DIR:
                    yield from self._blob_files(folder / file.name, file)
                if file.is_directory or file.name in needed:
                    continue
                if file.name.startswith(_TEMPORARY):
                    yield from self._unverified(folder, file, "temporary", file.name)
                elif file.name.endswith(suffixes):
                    yield from self._candidate(folder, file, kind, file.name, unneeded)
        versions = self.table.location / VERSIONS_DIR
        for file in _scanned(versions):
            if file.name.startswith(_TEMPORARY) or self._is_left_over(file.name):
                yield from self._unverified(versions, file, "temporary", file.name)

    def _is_left_over(self, name: str) -> bool:
        """Whether a file is a staged manifest that the external store does not name."""
        store, version = self.table.shared.external_store, staged_version(name)
        if store is None or version is None:
            return False
        known = stored(store, self.table.location, version)
        return known is None or known.name != name

    def is_needed(self, candidate: Candidate) -> bool:
        """Whether a remaining version needs a file, including versions made since the survey."""
        match candidate.kind:
            case "data":
                return candidate.name in self.needed.data
            case "deletion":
                return candidate.name in self.needed.deletions
            case "index":
                return candidate.name in self.needed.indices
            case "transaction":
                return candidate.name in self.needed.transactions
            case _:
                return False

    def see_new_versions(self) -> None:
        """Record the files of versions that were made meanwhile as needed."""
        history = self.table.history
        for version in range(self.last_seen + 1, history.latest_version() + 1):
            with suppress(NotFoundError):
                file = history.open(version)
                self.needed.add_version(file, self.bases.of(file.manifest, self.table.location))
            self.last_seen = version

    def see_new_uses(self) -> None:
        """Keep versions that got a tag, that a branch starts from, or that are being restored."""
        tags, starts = _named_versions(self.table)
        for version in {*tags, *starts, *self._restored()} & self.goes.keys():
            del self.goes[version]
            with suppress(NotFoundError):  # another clean-up removed it
                file = self.table.history.open(version)
                self.needed.add_version(file, self.bases.of(file.manifest, self.table.location))

    def _restored(self) -> set[int]:
        """Return the versions being restored, recording the files of these commits as needed."""
        restored = set()
        folder = self.table.location / TRANSACTIONS_DIR
        for file in scan_folder(folder):
            known = file.name in self.needed.transactions or file.name in self.unneeded.transactions
            if known or not file.name.endswith(".txn") or self._is_abandoned(file):
                continue
            with suppress(LanceError):  # for example a file that is being written
                data = (folder / file.name).read()
                operation = Transaction.parse(data, source=file.name).operation
                self.needed.add_operation(operation)
                if isinstance(operation, Restore):
                    restored.add(operation.version)
        return restored

    def _blob_files(self, folder: Location, listed: ListedFile) -> Iterator[Candidate]:
        """Yield blob files beside a data file; they are needed as long as the data file is."""
        data_file, is_empty = f"{folder.name}.lance", True
        if data_file in self.needed.data or folder.name in self.needed.data:
            return
        for file in scan_folder(folder):
            is_empty = False
            if file.name.endswith(BLOB_SUFFIX):
                yield from self._candidate(folder, file, "data", data_file, self.unneeded.data)
        if is_empty and (data_file in self.unneeded.data or self._is_abandoned(listed)):
            self.empty_folders.append(folder)

    def _index_files(self) -> Iterator[Candidate]:
        indices = self.table.location / INDICES_DIR
        for folder in _scanned(indices):
            if not folder.is_directory or folder.name in self.needed.indices:
                continue
            index_folder, is_empty = indices / folder.name, True
            for file in scan_folder(index_folder):
                is_empty = False
                yield from self._candidate(index_folder, file, "index", folder.name, self.unneeded.indices)
            if is_empty and (folder.name in self.unneeded.indices or self._is_abandoned(folder)):
                self.empty_folders.append(index_folder)

    def _candidate(
        self, folder: Location, file: ListedFile, kind: FileKind, name: str, unneeded: set[str]
    ) -> Iterator[Candidate]:
        if name in unneeded:
            yield Candidate(kind, name, folder / file.name, file.size, is_unverified=False)
        else:
            yield from self._unverified(folder, file, kind, name)

    def _unverified(
        self, folder: Location, file: ListedFile, kind: FileKind, name: str
    ) -> Iterator[Candidate]:
        if not file.is_directory and self._is_abandoned(file):
            yield Candidate(kind, name, folder / file.name, file.size, is_unverified=True)

    def _is_abandoned(self, file: ListedFile) -> bool:
        """Whether a file that no version refers to belongs to no commit in progress."""
        if self.policy.delete_unverified:
            return True
        return file.modified is not None and file.modified < self.now - UNVERIFIED_AGE.total_seconds()


def _survey(table: Table, policy: CleanupPolicy, now: float) -> _Survey:
    survey = _Survey(table, policy, now, Bases(table.location))
    # Tables that build on this one come first: files they add later come from versions that stay.
    for root in tables_around(table):
        for file in versions_at(root):
            survey.needed.add_version(file, survey.bases.of(file.manifest, root))
    survey.goes = _sort_versions(survey)
    survey.see_new_uses()
    return survey


def _sort_versions(survey: _Survey) -> dict[int, Candidate]:
    """Record the files of every version as needed or not; return the manifests to be removed."""
    table, policy = survey.table, survey.policy
    listed = _listed_versions(table.location)
    numbers = table.history.numbers()
    first_retained = policy.first_retained(numbers)
    survey.last_seen = numbers[-1]
    tags, starts = _named_versions(table)
    goes: dict[int, Candidate] = {}
    now: ManifestFile | None = None
    for file in _versions_of_table(table, listed, numbers):
        version = file.manifest.version
        if version == min(table.version, survey.last_seen):
            now = file
        entry = listed.get(version)
        committed = _time_of(file, entry)
        is_old = (
            entry is not None
            and committed is not None
            and version < min(survey.last_seen, table.version)
            and policy.covers(version, committed=committed, now=survey.now, first_retained=first_retained)
        )
        if is_old and version in tags and policy.error_if_tagged:
            raise InvalidInputError(
                f"{table.uri}: version {version} cannot be removed because it has the tag "
                f"{tags[version]!r}; delete the tag, or pass error_if_tagged_old_versions=False to keep "
                "tagged versions"
            )
        bases = survey.bases.of(file.manifest, table.location)
        if entry is not None and is_old and version not in tags and version not in starts:
            path = table.location / VERSIONS_DIR / entry.name
            goes[version] = Candidate("manifest", entry.name, path, entry.size, is_unverified=False)
            survey.unneeded.add_version(file, bases)
        else:
            survey.needed.add_version(file, bases)
    check_same_version(table, now)
    return goes


def _versions_of_table(table: Table, listed: Collection[int], numbers: list[int]) -> Iterator[ManifestFile]:
    yield from versions_at(table.location)
    if table.shared.external_store is None:
        return
    for version in range(numbers[0], numbers[-1] + 1):
        # for some versions only the external store knows the manifest file
        if version not in listed:
            with suppress(VersionNotFoundError):
                yield table.history.open(version)


def _listed_versions(table: Location) -> dict[int, ListedFile]:
    """Return the manifest files of attached versions."""
    files = {}
    for file in _scanned(table / VERSIONS_DIR):
        parsed = parse_manifest_name(file.name)
        if parsed is not None and not parsed[0] & DETACHED:
            files[parsed[0]] = file
    return files


def _scanned(folder: Location) -> Iterator[ListedFile]:
    return iter(()) if folder.is_link else scan_folder(folder)


def _named_versions(table: Table) -> tuple[dict[int, str], set[int]]:
    """Return the tagged versions of this branch with a tag of each, and the versions where branches start."""
    tags = {tag.version: name for name, tag in table.tags().items() if tag.branch == table.branch}
    branches = table.branches().values()
    starts = {branch.parent_version for branch in branches if branch.parent_branch == table.branch}
    return tags, starts


def _time_of(file: ManifestFile, entry: ListedFile | None) -> float | None:
    if file.manifest.timestamp_ns is not None:
        return file.manifest.timestamp_ns / 1e9
    return None if entry is None else entry.modified


def _remove_manifests(survey: _Survey, remover: Remover, announce: Callable[[], None]) -> None:
    """Remove manifests in ascending order; the entry in the external store is removed before the file."""
    store = survey.table.shared.external_store
    for chunk in _chunks(iter(sorted(survey.goes))):
        announce()
        survey.see_new_uses()
        versions = [version for version in chunk if version in survey.goes]
        if store is not None:
            for version in versions:
                forget(store, survey.table.location, version)
        remover.remove(survey.goes[version] for version in versions)


def _chunks(items: Iterator[T]) -> Iterator[list[T]]:
    while chunk := list(islice(items, _CHUNK)):
        yield chunk
