"""The caches of open tables: one budget, least recently used entries first, whichever table they are of."""

from __future__ import annotations

import gc
import linecache
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import lance_df
from lance_df.cache import (
    DEFAULT_CACHE_BYTES,
    ENTRY_BYTES,
    CacheCounters,
    CacheKind,
    Footprint,
    TableCache,
    cache_statistics,
    set_cache_bytes,
)
from lance_df.cache.table_cache import BUDGET
from lance_df.errors import CorruptDataError, InvalidInputError

KIND = CacheKind.DATA_FILES
OTHER = CacheKind.DICTIONARIES


@pytest.fixture(autouse=True)
def budget():
    """A function that sets the budget to so many entries of 1000 bytes."""
    set_cache_bytes(0)
    gc.collect()  # tables and their plans refer to each other
    assert cache_statistics().num_bytes == 0
    yield lambda number: set_cache_bytes(number * (1000 + ENTRY_BYTES))
    set_cache_bytes(DEFAULT_CACHE_BYTES)


def kept(cache: TableCache, keys, kind=KIND) -> list:
    """Return which keys are there, without using them."""
    return [key for key in keys if (kind, key) in cache._entries]


def test_the_entries_of_all_tables_share_the_budget_and_the_oldest_goes_first(budget):
    budget(32)
    caches = [TableCache() for _ in range(4)]
    for number in range(32):
        caches[number % 4].entries(KIND).put(number, str(number), 1000)
    assert caches[0].entries(KIND).find(0) == "0"
    caches[1].entries(OTHER).put("new", "x", 1000)
    # a full budget is cleared by a sixteenth
    left = [number for number in range(32) if kept(caches[number % 4], [number])]
    assert left == [0, *range(4, 32)]
    assert kept(caches[1], ["new"], OTHER)
    assert cache_statistics().num_bytes == 30 * (1000 + ENTRY_BYTES)
    assert caches[1].statistics().kinds == {
        "data files": CacheCounters(7, 7 * (1000 + ENTRY_BYTES), 0, 0, 1),
        "dictionaries": CacheCounters(1, 1000 + ENTRY_BYTES, 0, 0, 0),
    }


def test_values_that_are_in_use_outlive_their_entries(budget):
    budget(10)
    entries = TableCache().entries(KIND)
    value = entries.put("a", ["value"], 1000)
    set_cache_bytes(0)
    assert entries.find("a") is None
    assert value == ["value"]
    assert entries.put("a", ["other"], 1000) == ["other"]
    assert cache_statistics().num_bytes == 0


def test_what_is_larger_than_the_budget_drives_out_nothing(budget):
    budget(4)
    entries = TableCache().entries(KIND)
    entries.put("small", 1, 1000)
    assert entries.get("large", lambda: 2, 10_000) == 2
    assert entries.find("small") == 1
    assert entries.find("large") is None


def test_an_entry_is_made_once_and_errors_are_not_kept(budget):
    budget(4)
    entries, made = TableCache().entries(KIND), []

    def fail():
        raise CorruptDataError("x")

    with pytest.raises(CorruptDataError):
        entries.get("a", fail, 10)
    for _ in range(3):
        assert entries.get("a", lambda: made.append(1) or "value", lambda value: len(value)) == "value"
    assert made == [1]
    assert entries.put("a", "another", 10) == "value"


def test_an_entry_of_none_is_an_entry(budget):
    budget(4)
    entries, made = TableCache().entries(KIND), []
    for _ in range(3):
        assert entries.get("a", lambda: made.append(1), 10) is None
    assert made == [1]


def test_entries_grow_with_their_footprints(budget):
    budget(10)
    cache = TableCache()
    footprint = Footprint(100)
    footprint.add(50)
    cache.entries(KIND).put("a", "value", footprint)
    footprint.add(1000)
    assert cache.statistics().kinds["data files"].num_bytes == ENTRY_BYTES + 1150
    cache.entries(KIND).grow("a", -150)
    assert cache_statistics().num_bytes == ENTRY_BYTES + 1000
    footprint.add(100 * 1000)  # more than all: it goes by itself
    assert cache.entries(KIND).find("a") is None
    assert cache_statistics().num_bytes == 0
    cache.entries(KIND).put("a", "next", 10)
    footprint.add(1000)  # of a value that is no longer here
    assert cache_statistics().num_bytes == ENTRY_BYTES + 10


def test_entries_are_forgotten_with_their_cache_and_parts_with_theirs(budget):
    budget(100)
    cache = TableCache()
    part = cache.part()
    cache.entries(KIND).put("a", 1, 1000)
    part.entries(KIND).put("a", 2, 2000)
    assert (cache.entries(KIND).find("a"), part.entries(KIND).find("a")) == (1, 2)
    assert cache.statistics().kinds == {"data files": CacheCounters(2, 3000 + 2 * ENTRY_BYTES, 2, 0, 0)}
    del part
    assert cache.statistics().kinds == {"data files": CacheCounters(1, 1000 + ENTRY_BYTES, 2, 0, 0)}
    cache.entries(KIND).drop("a")
    cache.entries(KIND).drop("b")
    assert cache_statistics().num_bytes == 0
    cache.entries(KIND).put("a", cache, 1000)  # a circle
    del cache
    gc.collect()
    assert cache_statistics().num_bytes == 0
    assert cache_statistics().total.entries == 0


@pytest.mark.parametrize("wrong", [-1, 1.5, "1", None, True])
def test_a_budget_is_a_number_of_bytes(wrong):
    with pytest.raises(InvalidInputError, match="number of bytes"):
        set_cache_bytes(wrong)


def test_the_numbers_of_the_process_are_public(budget):
    budget(3)
    assert lance_df.cache_statistics() == cache_statistics()
    lance_df.set_cache_bytes(1234)
    assert lance_df.cache_statistics().max_bytes == 1234


def test_threads_agree_on_values_and_bytes_while_entries_are_evicted(budget):
    budget(50)
    caches = [TableCache() for _ in range(8)]
    errors = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(2000):
            entries, key = rng.choice(caches).entries(rng.choice([KIND, OTHER])), rng.randrange(40)
            value = entries.get(key, lambda key=key: [key], rng.choice([0, 100, 1000]))
            if value != [key]:
                errors.append((key, value))
            if rng.random() < 0.3:
                entries.grow(key, 64)
            elif rng.random() < 0.3:
                entries.drop(key)
            if rng.random() < 0.01:
                budget(rng.randrange(50))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert not errors
    budget(20)
    statistics = cache_statistics()
    assert statistics.num_bytes == sum(each.num_bytes for each in statistics.kinds.values())
    assert statistics.num_bytes <= statistics.max_bytes
    set_cache_bytes(0)
    assert cache_statistics().num_bytes == 0


def test_an_object_that_is_held_elsewhere_says_whether_it_is_counted(budget):
    budget(32)
    entries = TableCache().entries(KIND)
    held, other = Footprint(1000), Footprint(1000)
    assert not held.use()
    entries.put("held", "value", held)
    entries.put("other", "value", other)
    for number in range(60):
        entries.put(number, number, 1000)
        assert held.use()  # so that it is among those that were used lately
    assert not other.use()
    entries.drop("held")
    assert not held.use()


def interrupted(work, number: int) -> bool:
    """Do some work with an interruption at the n-th line of the package; returns whether it came to that."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if "lance_df/cache" not in frame.f_code.co_filename:
            return None
        if event == "line":
            lines += 1
            if lines == number and "with " not in linecache.getline(frame.f_code.co_filename, frame.f_lineno):
                raise KeyboardInterrupt
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(former)
    return lines >= number


@pytest.fixture
def no_others(monkeypatch):
    """Let the budget have no other caches: each takes some lines whenever something is evicted."""
    monkeypatch.setattr(BUDGET, "_owners", [])


@pytest.mark.usefixtures("no_others")
@pytest.mark.parametrize("few", [None, 3])
def test_an_interruption_at_any_line_leaves_caches_that_work(budget, few):
    def work(cache: TableCache) -> None:
        for number in range(4):
            cache.entries(KIND).put(number, number, footprint if number == 1 else 1000)
            cache.entries(KIND).find(0)
        for _ in range(40):
            footprint.use()
        footprint.add(500)
        cache.entries(KIND).drop(0)
        cache.entries(OTHER).replace(1, "other", 1000)
        cache.entries(KIND).grow(2, 5000)  # more than the budget

    number, comes = 1, True
    while comes:
        budget(6)
        cache, footprint = TableCache(max_entries=few), Footprint(1000)
        comes = interrupted(lambda cache=cache: work(cache), number)
        number += 1
        work(cache)
        for key in range(20):
            cache.entries(KIND).put(key, key, 1000)
        budget(6)
        assert 2 <= len(cache._entries) <= 6
        assert cache_statistics().num_bytes <= cache_statistics().max_bytes
        assert all(entry.is_here for entry in cache._entries.values())
        budget(0)
        assert not cache._entries
    assert number > 300
