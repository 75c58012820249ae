"""The thresholds of namespaces, in one object that tests and tools may replace. They never affect results."""

from __future__ import annotations

from typing import Final

from lance_df.records import dataclass
from lance_df.table.scan.limits import Adjustable


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceLimits:
    """Thresholds of namespaces. Each is at least 1 unless stated otherwise.

    Attributes
    ----------
    small_fragment_rows
        A change of ``__manifest`` rewrites fragments with at most this many live rows, because one file is
        read faster than several. May be 0.
    merge_ratio
        A change also rewrites a fragment whose live rows are at most this multiple of the rows that it writes
        anyway, so that each row is rewritten only as often as the number of rows doubles. May be 0.
    directory_small_fragments, directory_small_fragment_rows
        A change of a directory namespace merges the fragments with at most ``directory_small_fragment_rows``
        rows once there are ``directory_small_fragments`` of them.
    min_joined_members
        The least number of consecutive small members that are scanned as fragments of one table.
    joined_member_fragments, joined_member_rows
        The most fragments and rows of a small member.
    manifests_at_once
        The number of manifests of small members that are in memory at once.
    many_members
        Scans of fewer members keep their tables open.
    counted_members
        The row count of a scan of more members is estimated from this many of them.
    few_members
        Scans of at most this many members also cache the plans of the members' tables.
    cached_plans, cached_plan_rows
        How many plans of scans are cached, and the most rows of a scan whose plan is cached.
    few_rows
        Up to this many members, checking all for duplicates is faster than selecting the needed ones.
    """

    small_fragment_rows: int = 512
    merge_ratio: int = 2
    directory_small_fragments: int = 16
    directory_small_fragment_rows: int = 4096
    min_joined_members: int = 4
    joined_member_fragments: int = 4
    joined_member_rows: int = 64 * 1024
    manifests_at_once: int = 1024
    many_members: int = 16
    counted_members: int = 16
    few_members: int = 256
    cached_plans: int = 256
    cached_plan_rows: int = 8192
    few_rows: int = 1024


NAMESPACE_LIMITS: Final = Adjustable(NamespaceLimits())
