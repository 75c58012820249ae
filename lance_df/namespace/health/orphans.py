"""Find and remove folders of a namespace that no row names, left by crashed or unfinished writers.

A folder that any version of ``__manifest`` names is needed to read that version. A folder that no version
names may belong to a writer that has not finished, so only folders that have not been written to for a long
time may be removed.
"""

from __future__ import annotations

import datetime as dt
import time
from contextlib import nullcontext, suppress
from itertools import count, islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_df.errors import CorruptDataError, InvalidInputError, LanceError, VersionNotFoundError
from lance_df.namespace.directory.names import TABLE_SUFFIX
from lance_df.namespace.health.findings import Problem, ProblemKind, info, warning
from lance_df.namespace.health.locations import first_parts, ids_and_first_parts, unknown_folders
from lance_df.namespace.health.survey import lineage
from lance_df.namespace.manifest_table import open_manifest_table
from lance_df.namespace.names import (
    MANIFEST_FOLDER,
    SEPARATOR,
    JobNames,
    is_member_folder,
    member_of_folder,
)
from lance_df.records import dataclass
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.storage.listing import scan_folder
from lance_df.table.maintenance.cleanup_policy import UNVERIFIED_AGE
from lance_df.table.maintenance.needed_files import is_half_removed
from lance_df.table.metadata.versions import VERSIONS_DIR
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance_df.namespace.health.survey import Survey
    from lance_df.storage import Location
    from lance_df.storage.listing import ListedFile
    from lance_df.table.table import Table

ORPHAN_AGE: Final = UNVERIFIED_AGE

# how many of the ids that follow from a folder are recognized
_NUM_IDS: Final = 8


def ids_of_folder(name: str) -> Iterator[str]:
    """Yield the possible ids of the member in a folder: its original id, then endless alternatives.

    The alternatives are derived from the folder name. A repair gives one to a restored member if another
    member has its id.
    """
    if (first := member_of_folder(name)) is None:
        return
    yield first
    *above, _, last = first.split(SEPARATOR)
    names = JobNames(name)
    for number in count():
        yield SEPARATOR.join((*above, *names.segments(number, [b""]), last))


def is_id_of_folder(name: str, folder: str) -> bool:
    """Whether an id is one of the possible ids of the member in a folder."""
    return name in islice(ids_of_folder(folder), _NUM_IDS)


class UnknownFolderError(CorruptDataError):
    """The folder of a table is unknown, so that it may be one that no row names."""


@dataclass(frozen=True, slots=True)
class OrphanFolder:
    """A folder with the name of a member folder that no version of ``__manifest`` names.

    Attributes
    ----------
    modified
        The last write to the folder, in seconds since the epoch; None if the store does not report it.
    """

    folder: Location
    num_bytes: int
    modified: float | None


def check_folders(survey: Survey, rows: pa.Table) -> list[Problem]:
    """Return the problems of entries in the root that no row names."""
    named = first_parts(survey.root, rows)
    strange, members = [], []
    for entry in scan_folder(survey.root):
        if entry.name in named or entry.name == MANIFEST_FOLDER:
            continue
        if not entry.is_directory:
            strange.append(entry.name)
        elif is_member_folder(entry.name):
            members.append(entry.name)
        elif not entry.name.endswith(TABLE_SUFFIX):
            strange.append(entry.name)
    lost = _named_by(survey.root, lineage(survey.table), skip_damaged=True).named if members else frozenset()
    others: frozenset[str] = frozenset()
    if not lost.issuperset(members):
        versions = _all_versions(survey.table, skip_damaged=True)
        others = _named_by(survey.root, versions, skip_damaged=True).named
    problems = [
        _lost(name, is_table=_is_table(survey.root / name))
        if name in lost
        else _unnamed(name, is_named=name in others)
        for name in sorted(members)
    ]
    return [*problems, *(_unknown(name) for name in sorted(strange))]


def lost_folders(survey: Survey, rows: pa.Table) -> set[str]:
    """Return the folders of member tables that no row names, but that a preceding version does."""
    named = first_parts(survey.root, rows)
    unnamed = {
        entry.name
        for entry in scan_folder(survey.root)
        if entry.is_directory and entry.name not in named and is_member_folder(entry.name)
    }
    lost = unnamed and unnamed.intersection(
        _named_by(survey.root, lineage(survey.table), skip_damaged=True).named
    )
    return {name for name in lost if _is_table(survey.root / name)}


def remove_orphans(root: Location, *, older_than: dt.timedelta, dry_run: bool) -> list[OrphanFolder]:
    """Remove folders of members that no version of ``__manifest`` names, and return them.

    A folder stays if it has the name of a member whose own folder is missing.

    Parameters
    ----------
    older_than
        The minimum time since the last write to a folder. Less than the default of a week is safe only while
        no writer is active.

    Raises
    ------
    InvalidInputError
        ``older_than`` is negative.
    NotFoundError
        There is no namespace.
    CorruptDataError
        A version of ``__manifest`` cannot be read, so that it is not known which folders it needs.
    UnknownFolderError
        A version has a table without a valid location. Nothing is removed.
    """
    if older_than < dt.timedelta(0):
        raise InvalidInputError(f"older_than must be a timedelta of 0 or more, got {older_than!r}")
    latest = time.time() - older_than.total_seconds()
    entries_of_root = list(scan_folder(root))
    entries = [each for each in entries_of_root if each.is_directory and is_member_folder(each.name)]
    folders = [_measured(root, each) for each in sorted(entries, key=lambda entry: entry.name)]
    old = [each for each in folders if each.modified is not None and each.modified < latest]
    # The newest version is read after the folders, so that folders published in between are not removed.
    needed = _named_by(root, _all_versions(open_manifest_table(root)) if old else ())
    there = {each.name for each in entries_of_root}
    # their rows are wrong, so that a folder with their name may be theirs
    missing = {table for table, first in needed.tables if first not in there}
    named = needed.named
    unnamed = (each for each in old if each.folder.name not in named)
    orphans = [each for each in unnamed if member_of_folder(each.folder.name) not in missing]
    if orphans and needed.unknown:
        raise UnknownFolderError(
            f"{root.uri}: a version of __manifest does not name the folder of {needed.unknown[0]}, which may "
            "be any of those that no version names; repair the namespace, clean up its older versions, and "
            "then repair it again with remove_orphans=True (--remove-orphans)"
        )
    for each in () if dry_run else orphans:
        each.folder.remove_tree()
    return orphans


def _is_table(folder: Location) -> bool:
    """Whether a folder has versions; a failed write may have left data files in a removed folder."""
    return bool((folder / VERSIONS_DIR).names())


def _measured(root: Location, entry: ListedFile) -> OrphanFolder:
    # a crashed writer may leave a folder without files
    total, modified, is_known = 0, entry.modified or 0.0, True
    folder = root / entry.name
    pending = [folder]
    while pending:
        directory = pending.pop()
        for child in scan_folder(directory):
            if child.is_directory:
                pending.append(directory / child.name)
            total += child.size if not child.is_directory else 0
            # folders of object stores have no modification time
            if child.modified is not None:
                modified = max(modified, child.modified)
            elif not child.is_directory:
                is_known = False
    return OrphanFolder(folder, total, modified if is_known and modified else None)


def _all_versions(table: Table, *, skip_damaged: bool = False) -> Iterator[Table]:
    for number in table.history.numbers():
        with suppress(LanceError) if skip_damaged else nullcontext():
            yield table.checkout(number)


@dataclass(frozen=True, slots=True)
class _NamedFolders:
    """The folders of tables in some versions.

    Attributes
    ----------
    tables
        The ids of tables, and the entries of the root that their rows name.
    unknown
        The ids of tables without a valid location.
    """

    tables: frozenset[tuple[str, str]]
    unknown: tuple[str, ...]

    @property
    def named(self) -> frozenset[str]:
        """The entries of the root that are named."""
        return frozenset(first for _, first in self.tables)


def _named_by(root: Location, versions: Iterable[Table], *, skip_damaged: bool = False) -> _NamedFolders:
    """Return the folders that versions name, without versions that a clean-up has partly removed.

    Parameters
    ----------
    skip_damaged
        Whether to skip all fragments that cannot be read.

    Raises
    ------
    CorruptDataError
        A version cannot be read.
    """
    tables: set[tuple[str, str]] = set()
    unknown: list[str] = []
    seen: set[tuple[str, ...]] = set()
    for version in versions:
        # data files never change, so each is read once, including rows that later versions deleted
        for fragment in version.fragments:
            files = tuple(file.path for file in fragment.files)
            if files in seen:
                continue
            request = ScanRequest(
                columns=("object_id", "object_type", "location"),
                fragment_ids=(fragment.id,),
                include_deleted_rows=True,
                requires=Promise.COMPLETE,
            )
            try:
                plan = plan_scan(version, request)
                rows = pa.Table.from_batches(run_tasks(plan.tasks), plan.schema)
            except LanceError as err:
                is_missing = isinstance(err, CorruptDataError | VersionNotFoundError)
                is_gone = is_missing and is_half_removed(version)
                if not (skip_damaged or is_gone):
                    raise
                continue
            seen.add(files)
            tables.update(ids_and_first_parts(root, rows))
            unknown += unknown_folders(root, rows)
    return _NamedFolders(frozenset(tables), tuple(unknown))


def _lost(name: str, *, is_table: bool) -> Problem:
    if not is_table:
        actual = "is not a table, although an older version of __manifest lists this folder"
        advice = (
            "A failed write left files after the table was removed. Once older versions are cleaned up: "
            "repair(root, remove_orphans=True)"
        )
        return info(ProblemKind.ORPHAN, name, actual, "a row, or nothing", advice)
    actual = "an older version of __manifest lists this folder, but the newest does not"
    advice = "If the table was not dropped on purpose: run repair, which restores it"
    return warning(ProblemKind.ORPHAN, name, actual, "a row", advice)


def _unnamed(name: str, *, is_named: bool) -> Problem:
    if is_named:
        actual = "only versions of __manifest that a restore has undone list this folder"
        advice = "Nothing to do; repair keeps it until these versions are cleaned up"
        return info(ProblemKind.ORPHAN, name, actual, "a row, or nothing", advice)
    actual = "no version of __manifest lists this folder"
    advice = "A writer is running or has died; repair(root, remove_orphans=True) removes it after a week"
    return info(ProblemKind.ORPHAN, name, actual, "a row", advice)


def _unknown(name: str) -> Problem:
    return info(ProblemKind.ORPHAN, name, "does not belong to the namespace", "only tables", "Nothing to do")
