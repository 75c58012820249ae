"""Remove old versions of a namespace, and those of members that no version of it reads any more.

First ``__manifest`` is cleaned up; what its versions that are left name as ``read_version`` stays. So do the
versions of members from the published one on, and for seven days those before it that were never published: a
writer who finds that others were faster publishes the files of its version in another one.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_df.errors import CorruptDataError, LanceError, VersionNotFoundError
from lance_df.namespace.changes.publish import map_commits
from lance_df.namespace.published import members_at
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.storage.listing import scan_folder
from lance_df.table.maintenance.cleanup import cleanup, explain_cleanup
from lance_df.table.maintenance.cleanup_policy import UNVERIFIED_AGE, CleanupPolicy
from lance_df.table.maintenance.cleanup_result import CleanupStats
from lance_df.table.maintenance.needed_files import is_half_removed
from lance_df.table.metadata.versions import DETACHED, VERSIONS_DIR, parse_manifest_name
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.published import Member
    from lance_df.storage import Location
    from lance_df.table.table import Table

_NO_LIMIT: Final = 2**62
_PINS: Final = ("location", "read_version")


def clean_up(
    root: Location, manifest: NamespaceManifest, policy: CleanupPolicy, *, dry_run: bool = False
) -> CleanupStats:
    """Remove old versions, and return how much was removed, of ``__manifest`` and all members.

    Parameters
    ----------
    manifest
        Versions from this one on stay in any case.
    policy
        Which versions of the namespace go. Those of members go when no version of the namespace that is left
        reads them, and they are old enough.
    dry_run
        Remove nothing, and return what would be removed.

    Raises
    ------
    InvalidInputError
        A version of the namespace to be removed has a tag, and the policy does not pass over that.
    CorruptDataError
        Something cannot be read, so that it is not known what it needs.
    StorageError
        The store failed.
    """
    table = manifest.table
    published = _pinned_versions(manifest.latest().table, set())
    goes: set[int] = set()
    if dry_run:
        explained = explain_cleanup(table, policy, max_files=_NO_LIMIT)
        names = [
            file.path.rpartition("/")[2] for file in explained.candidate_files if file.kind == "manifest"
        ]
        goes = {parsed[0] for parsed in map(parse_manifest_name, names) if parsed is not None}
        of_manifest = explained.stats
    else:
        _remove_abandoned(table)
        of_manifest = cleanup(table, policy)
    newest = manifest.latest()
    pinned = _pinned_versions(newest.table, goes)
    of_members = dataclasses.replace(
        policy,
        older_than=policy.older_than or dt.timedelta(0),
        retain_versions=None,
        error_if_tagged=False,
    )

    def clean_member(member: Member) -> CleanupStats:
        name = member.folder.name
        chosen = dataclasses.replace(
            of_members,
            pinned=frozenset(pinned[name]),
            published=frozenset(published[name]) if member.is_main_version else None,
        )
        return explain_cleanup(member.open(), chosen).stats if dry_run else cleanup(member.open(), chosen)

    members = members_at(root, newest, np.arange(len(newest.members)))
    members = [member for member in members if not member.folder.is_link]  # these are tables of others
    return _total([of_manifest, *map_commits(clean_member, members)])


def _pinned_versions(table: Table, goes: set[int]) -> defaultdict[str, set[int]]:
    """Return the versions of members that versions of ``__manifest`` read, by location.

    Rows that several versions share are read once. Nobody can read versions of ``__manifest`` that a clean-up
    has removed half, so these need nothing.
    """
    pinned: defaultdict[str, set[int]] = defaultdict(set)
    seen: set[object] = set()
    for number in _all_versions(table) - goes:
        with suppress(VersionNotFoundError):  # others may clean up, too
            version = table.checkout(number)
            if not set(_PINS) <= set(version.schema.names):
                continue  # a program that does not know of pins wrote it
            states = {
                fragment.id: (
                    fragment.id,
                    tuple(file.path for file in fragment.files),
                    fragment.deletion_file,
                )
                for fragment in version.fragments
            }
            unseen = tuple(fragment_id for fragment_id, state in states.items() if state not in seen)
            try:
                pins = _pins(version, unseen)
            except CorruptDataError:
                if is_half_removed(version):
                    continue
                raise
            seen.update(states.values())
            for location, read_version in pins:
                pinned[location].add(read_version)
    return pinned


def _pins(table: Table, fragment_ids: tuple[int, ...]) -> Iterable[tuple[str, int]]:
    if not fragment_ids:
        return ()
    plan = plan_scan(table, ScanRequest(columns=_PINS, fragment_ids=fragment_ids, requires=Promise.COMPLETE))
    rows = pa.Table.from_batches(run_tasks(plan.tasks), plan.schema)
    # versions of branches count for main, too; tags and the newest version stay anyway
    rows = rows.filter(rows["read_version"].is_valid())
    return zip(rows["location"].to_pylist(), rows["read_version"].to_pylist(), strict=True)


def _all_versions(table: Table) -> set[int]:
    names = (file.name for file in scan_folder(table.location / VERSIONS_DIR))
    return {parsed[0] for parsed in map(parse_manifest_name, names) if parsed is not None}


def _remove_abandoned(table: Table) -> None:
    """Remove detached versions that a writer who died has left of a change of columns."""
    folder = table.location / VERSIONS_DIR
    if folder.is_link:
        return
    for file in scan_folder(folder):
        parsed = parse_manifest_name(file.name)
        is_old = file.modified is not None and file.modified < time.time() - UNVERIFIED_AGE.total_seconds()
        if parsed is not None and parsed[0] & DETACHED and is_old:
            with suppress(LanceError):
                (folder / file.name).remove()


def _total(stats: Iterable[CleanupStats]) -> CleanupStats:
    listed = list(stats)
    sums = {
        each.name: sum(getattr(one, each.name) for one in listed) for each in dataclasses.fields(CleanupStats)
    }
    return CleanupStats(**sums)
