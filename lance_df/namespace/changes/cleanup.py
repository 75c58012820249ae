"""Remove old versions of a namespace, and versions of members that no remaining version reads.

``__manifest`` is cleaned up first. The versions of members that its remaining versions name as
``read_version`` are kept. Versions of members from the published one on are kept as well. Earlier versions
that were never published are kept for seven days, because a writer that loses a race publishes the files of
its version in another version.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_df.errors import CorruptDataError, LanceError, RetryableConflictError, VersionNotFoundError
from lance_df.namespace.changes.publish import map_commits
from lance_df.namespace.directory.names import location_of, without_last_slash
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
    """Remove old versions of ``__manifest`` and all members, and return how much was removed.

    Parameters
    ----------
    manifest
        This version and later ones are always kept.
    policy
        Selects the versions of the namespace to remove. Versions of members are removed if they are old
        enough and no remaining version of the namespace reads them.
    dry_run
        Remove nothing, and return what would be removed.

    Raises
    ------
    InvalidInputError
        A version of the namespace to remove has a tag, and the policy does not ignore tags.
    CorruptDataError
        A version cannot be read, so that it is not known which files it needs.
    RetryableConflictError
        Another process removed the newest version meanwhile.
    StorageError
        The store failed.
    """
    table = manifest.table
    published = _pinned_versions(manifest.latest_for_change().table, set())
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
        location = location_of(root, member.folder)
        reads = frozenset(pinned.get(location, ()))
        if member.version is not None and member.version not in reads:
            raise RetryableConflictError(
                f"{root.uri}: another process removed version {newest.version} of the namespace, so that it "
                f"is not known which versions of {member.object_id} are read; start again"
            )
        chosen = dataclasses.replace(
            of_members,
            pinned=reads,
            # a member that was published in the meantime has none
            published=frozenset(published.get(location, ())) if member.is_main_version else None,
        )
        return explain_cleanup(member.open(), chosen).stats if dry_run else cleanup(member.open(), chosen)

    members = members_at(root, newest, np.arange(len(newest.members)))
    members = [member for member in members if not member.folder.is_link]  # linked tables belong to others
    return _total([of_manifest, *map_commits(clean_member, members)])


def _pinned_versions(table: Table, goes: set[int]) -> dict[str, set[int]]:
    """Return the versions of members that versions of ``__manifest`` read, by the location of the member.

    Rows that several versions share are read once. Versions of ``__manifest`` that an interrupted clean-up
    has partly removed cannot be read and are skipped.
    """
    pinned: dict[str, set[int]] = {}
    seen: set[object] = set()
    for number in _all_versions(table) - goes:
        with suppress(VersionNotFoundError):  # another process may be cleaning up, too
            version = table.checkout(number)
            if not set(_PINS) <= set(version.schema.names):
                continue  # written by a program that does not know ``read_version``
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
            except (CorruptDataError, VersionNotFoundError):
                if is_half_removed(version):
                    continue
                raise
            seen.update(states.values())
            for location, read_version in pins:
                pinned.setdefault(location, set()).add(read_version)
    return pinned


def _pins(table: Table, fragment_ids: tuple[int, ...]) -> Iterable[tuple[str, int]]:
    if not fragment_ids:
        return ()
    plan = plan_scan(table, ScanRequest(columns=_PINS, fragment_ids=fragment_ids, requires=Promise.COMPLETE))
    rows = pa.Table.from_batches(run_tasks(plan.tasks), plan.schema)
    # versions of branches are also counted as versions of main; tags and the newest version are kept anyway
    rows = rows.filter(rows["read_version"].is_valid())
    locations = without_last_slash(rows["location"])
    return zip(locations.to_pylist(), rows["read_version"].to_pylist(), strict=True)


def _all_versions(table: Table) -> set[int]:
    names = (file.name for file in scan_folder(table.location / VERSIONS_DIR))
    return {parsed[0] for parsed in map(parse_manifest_name, names) if parsed is not None}


def _remove_abandoned(table: Table) -> None:
    """Remove detached versions that a crashed writer has left from a change of columns."""
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
