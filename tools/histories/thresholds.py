"""Limits of the package that histories set low and high, so that small data crosses each of them."""

from __future__ import annotations

import random
from typing import Any

_SCAN = "lance_df.table.scan.limits:SCAN_LIMITS."
_NAMESPACE = "lance_df.namespace.limits:NAMESPACE_LIMITS."
# name: (low, high)
_LIMITS: dict[str, tuple[int, int]] = {
    _SCAN + "tasks_per_core": (1, 1000),
    _SCAN + "min_task_rows": (4, 10_000_000),
    _SCAN + "max_task_rows": (16, 10_000_000),
    _SCAN + "task_alignment": (1, 4096),
    _SCAN + "max_pruned_tasks": (1, 100_000),
    _SCAN + "max_joined_fragments": (1, 100_000),
    _SCAN + "max_joined_rows": (10, 10_000_000),
    _SCAN + "max_joined_bytes": (5_000, 100_000_000),
    _SCAN + "max_small_file_bytes": (2_000, 10_000_000),
    _SCAN + "max_window_rows": (16, 1_000_000),
    _SCAN + "max_window_bytes": (2_000, 100_000_000),
    _SCAN + "first_limited_rows": (1, 100_000),
    _SCAN + "sparse_ratio": (1, 1000),
    _SCAN + "gathered_rows": (4, 100_000),
    _SCAN + "max_cached_result_rows": (2, 100_000),
    _SCAN + "max_cached_result_bytes": (100, 10_000_000),
    "lance_df.cache:set_cache_bytes": (20_000, 4_000_000_000),
    _NAMESPACE + "small_fragment_rows": (4, 100_000),
    _NAMESPACE + "merge_ratio": (0, 100),
    _NAMESPACE + "directory_small_fragments": (2, 1000),
    _NAMESPACE + "directory_small_fragment_rows": (2, 100_000),
    _NAMESPACE + "min_joined_members": (1, 1000),
    _NAMESPACE + "joined_member_fragments": (1, 1000),
    _NAMESPACE + "joined_member_rows": (10, 10_000_000),
    _NAMESPACE + "manifests_at_once": (2, 100_000),
    _NAMESPACE + "many_members": (2, 1000),
    _NAMESPACE + "few_members": (2, 1000),
    _NAMESPACE + "cached_plans": (1, 1000),
    _NAMESPACE + "cached_plan_rows": (5, 100_000),
    _NAMESPACE + "few_rows": (2, 100_000),
    "lance_df.namespace.changes.routing:_FEW_ROWS": (1, 10_000),
    "lance_df.namespace.changes.routing:_FEW_PARTS": (2, 100_000),
    "lance_df.namespace.changes.routing:_MIN_ROUTED_ROWS": (2, 100_000),
    "lance_df.namespace.changes.partition_index:_AT_ONCE": (3, 100_000),
    "lance_df.namespace.changes.waiting_rows:_MANY_ROWS": (2, 100_000),
    "lance_df.table.changes.merge:_BATCH_ROWS": (3, 1_000_000),
    "lance_df.table.changes.merge_rows:_BATCH_ROWS": (3, 1_000_000),
    "lance_df.table.changes.update:_BATCH_ROWS": (3, 1_000_000),
    "lance_df.table.changes.matching:_MAX_LISTED_KEYS": (2, 100_000),
    "lance_df.table.changes.matching:_WINDOW_ROWS": (7, 1_000_000),
    "lance_df.table.maintenance.sorted_entries:_RUN_ROWS": (5, 10_000_000),
    "lance_df.table.maintenance.sorted_entries:_BLOCK_ROWS": (3, 10_000_000),
    "lance_df.table.reading.small_columns:_MAX_ROWS": (3, 100_000),
    "lance_df.table.writing.deletion_file:BITMAP_FROM": (3, 100_000),
    "lance_df.table.reading.take:_MAX_KERNEL_FRAGMENTS": (1, 1000),
    "lance_df.table.scan.cached_plans:_MAX_FRAGMENTS": (2, 100_000),
    "lance_df.engine.provider:_REMOTE_TASKS": (1, 100),
    "lance_df.engine.optimizer.planned:WORTH_ROWS": (2, 10_000_000),
    "lance_df.engine.optimizer.rules.string_views:_WORTH_ROWS": (2, 10_000_000),
    "lance_df.engine.optimizer.rules.partial_aggregate:_WORTH_GROUPED_ROWS": (2, 10_000_000),
    "lance_df.engine.optimizer.rules.partial_aggregate:_WORTH_ROWS": (2, 10_000_000),
    "lance_df.engine.optimizer.rules.partial_aggregate:_WORTH_MEMBER_ROWS": (1, 10_000_000),
}

# `__manifest` has many fragments, a few of which are rewritten by each change
_FRAGMENTS = {
    _NAMESPACE + "small_fragment_rows": 4,
    _NAMESPACE + "merge_ratio": 0,
    "lance_df.cache:set_cache_bytes": 0,
}


def values_of(name: str) -> dict[str, int]:
    """Return the limits of a set, as `prelude.set_thresholds` takes them.

    Parameters
    ----------
    name
        ``"default"``, ``"low"``, ``"high"``, ``"fragments"`` for a ``__manifest`` of many fragments, or
        ``"mixed 5"``, where each limit is random, by the seed 5.
    """
    if name == "default":
        return {}
    if name == "fragments":
        return _FRAGMENTS
    if name in ("low", "high"):
        return {key: values[name == "high"] for key, values in _LIMITS.items()}
    rng = random.Random(name)
    chosen: dict[str, Any] = {key: rng.choice([*values, None]) for key, values in _LIMITS.items()}
    return {key: value for key, value in chosen.items() if value is not None}


def draw_thresholds(rng: random.Random) -> str:
    """Return the name of a set."""
    names = ["default", "low", "high", "fragments", f"mixed {rng.randrange(10**6)}"]
    return rng.choices(names, [3, 1, 1, 4, 4])[0]
