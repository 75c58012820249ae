"""The cache of open files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from lance_df.errors import CorruptDataError
from lance_df.table.caches import LruCache


def test_the_least_recently_used_value_goes_first():
    cache: LruCache[int] = LruCache(2)
    made = []

    def get(key: int) -> int:
        return cache.get(key, lambda: made.append(key) or key * 10)

    assert [get(key) for key in (1, 2, 1, 3, 1, 2)] == [10, 20, 10, 30, 10, 20]
    assert made == [1, 2, 3, 2]
    assert len(cache) == 2


def test_errors_are_not_kept():
    cache: LruCache[int] = LruCache(2)

    def fail() -> int:
        raise CorruptDataError("x")

    with pytest.raises(CorruptDataError):
        cache.get("a", fail)
    assert cache.get("a", lambda: 5) == 5


def test_threads_share_one_value():
    cache: LruCache[object] = LruCache(5)
    with ThreadPoolExecutor(8) as pool:
        values = list(pool.map(lambda key: cache.get(key % 3, object), range(3000)))
    assert [cache.get(key, object) for key in range(3)] == values[-3:]


def test_weights_count_against_the_capacity():
    cache: LruCache[str] = LruCache(10)
    made = []

    def get(key: str, weight: int) -> str:
        return cache.get(key, lambda: made.append(key) or key, weight=weight)

    assert [get(*each) for each in (("a", 4), ("b", 5), ("a", 4), ("c", 3))] == ["a", "b", "a", "c"]
    assert len(cache) == 2
    assert get("heavy", 11) == "heavy"
    assert len(cache) == 0
    assert made == ["a", "b", "c", "heavy"]
