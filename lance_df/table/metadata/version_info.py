"""Describe versions, for the list of versions."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from lance_df.format.manifest import Manifest


class VersionInfo(TypedDict):
    """The description of one version, as in pylance: ``timestamp`` is local time without a zone."""

    version: int
    timestamp: dt.datetime
    metadata: dict[str, str]


def describe_version(manifest: Manifest) -> VersionInfo:
    """Summarize a version as pylance does; numbers that the manifest does not have count as 0."""
    fragments = manifest.fragments
    known = (fragments.physical_rows > 0) & ~(fragments.has_deletions & (fragments.num_deleted == 0))
    num_rows = int((fragments.physical_rows - fragments.num_deleted)[known].sum())
    num_deleted = int(fragments.num_deleted.sum())
    summary = {
        "total_data_file_rows": num_rows + num_deleted,
        "total_data_files": int(fragments.num_files.sum()),
        "total_deletion_file_rows": num_deleted,
        "total_deletion_files": int(fragments.has_deletions.sum()),
        "total_files_size": int(fragments.file_bytes.sum()),
        "total_fragments": len(fragments),
        "total_rows": num_rows,
    }
    return VersionInfo(
        version=manifest.version,
        timestamp=_local_time(manifest.timestamp),
        metadata={key: str(value) for key, value in summary.items()},
    )


def _local_time(time: dt.datetime | None) -> dt.datetime:
    epoch = dt.datetime.fromtimestamp(0, dt.UTC)
    try:
        return (time or epoch).astimezone().replace(tzinfo=None)
    except (OverflowError, OSError, ValueError):  # at the limits of the calendar
        return epoch.astimezone().replace(tzinfo=None)
