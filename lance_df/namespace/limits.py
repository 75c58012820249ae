"""The thresholds of namespaces, in one object that tests and tools may replace. None changes an answer."""

from __future__ import annotations

from typing import Final

from lance_df.records import dataclass
from lance_df.table.writing.limits import Adjustable


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceLimits:
    """Thresholds of namespaces. Each is at least 1 unless it says otherwise.

    Attributes
    ----------
    small_fragment_rows
        A change of ``__manifest`` rewrites fragments of no more live rows: one file is read faster than
        several. May be 0.
    merge_ratio
        It rewrites a fragment, too, of no more live rows than so many times those that it writes anyway, so
        that each row is rewritten only as often as the number of rows has doubled. May be 0.
    directory_small_fragments, directory_small_fragment_rows
        A change of a directory namespace merges the fragments of no more rows than
        ``directory_small_fragment_rows`` once there are ``directory_small_fragments``.
    min_joined_members
        So many small members in a row are scanned as fragments of one table.
    joined_member_fragments, joined_member_rows
        Of a small member.
    manifests_at_once
        Manifests of small members that are in memory together.
    many_members
        Scans of fewer members keep the tables of these open.
    counted_members
        The rows of a scan of more members are estimated from so many of these.
    few_members
        Scans of no more members keep plans with the tables of these.
    cached_plans, cached_plan_rows
        Scans of namespaces whose plans are kept, and the rows of such a scan.
    few_rows
        To check all members for duplicates takes less than to find out which are needed, up to so many.
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
