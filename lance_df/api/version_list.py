"""The versions of a table or a namespace: a list that notebooks show as a table."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from lance_df.display.elements import bar, escaped, html_table, note
from lance_df.display.numbers import size_text
from lance_df.scan.report import Count

if TYPE_CHECKING:
    from lance_df.table.metadata.version_info import VersionInfo

_TITLES: Final = ("version", "time", "rows", "fragments", "bytes")
_MAX_SHOWN: Final = 100
_OF_NAMESPACES: Final = {
    "version": "version",
    "timestamp": "time",
    "operation": "operation",
    "spec_version": "spec",
    "partitions_added": "added",
    "partitions_changed": "changed",
    "partitions_removed": "removed",
}


class VersionList(list["VersionInfo"]):
    """The number, time and summary of each version, oldest first."""

    def _repr_html_(self) -> str:
        newest = self[::-1][:_MAX_SHOWN]
        most = max((int(each["metadata"]["total_rows"]) for each in newest), default=0)
        rows = [_row(each, most) for each in newest]
        more = len(self) - len(newest)
        table = html_table(_TITLES, rows)
        return f"<div>{table}{note(f'… {more:,} older versions') if more > 0 else ''}</div>"


def _row(info: VersionInfo, most: int) -> tuple[str, ...]:
    summary = info["metadata"]
    num_rows = int(summary["total_rows"])
    return (
        str(info["version"]),
        escaped(info["timestamp"].isoformat(" ", "seconds")),
        bar(Count(num_rows, most), f"{num_rows:,}"),
        f"{int(summary['total_fragments']):,}",
        size_text(int(summary["total_files_size"])),
    )


class NamespaceVersionList(list[dict[str, Any]]):
    """The rows of ``$history`` for each version of a namespace, oldest first."""

    def _repr_html_(self) -> str:
        newest = self[::-1][:_MAX_SHOWN]
        rows = [[escaped(_shown(each[name])) for name in _OF_NAMESPACES] for each in newest]
        more = len(self) - len(newest)
        table = html_table(tuple(_OF_NAMESPACES.values()), rows)
        return f"<div>{table}{note(f'… {more:,} older versions') if more > 0 else ''}</div>"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dt.datetime):
        return value.isoformat(" ", "seconds")
    return f"{value:,}" if isinstance(value, int) else str(value)
