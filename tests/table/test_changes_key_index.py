"""Matching of keys: against a plain dictionary, over all types that can be keys."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_df.table import key_values
from lance_df.table.changes.key_index import KeyIndex
from lance_df.table.key_values import comparable, hashes, is_comparable

# few values each, so that keys meet; some that differ in their last bytes or their sign only
KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [0, 1, -1, 2**40, 2**63 - 1, -(2**63)]),
    (pa.int8(), [0, 5, -5, 127, -128]),
    (pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
    (pa.bool_(), [True, False]),
    (pa.float64(), [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan]),
    (pa.float32(), [0.0, -0.0, 1.5, math.nan]),
    (pa.float16(), [0.0, -0.0, 1.5, math.nan]),
    (pa.string(), ["", "a", "ab", "12345678", "123456789", "12345678901234567", "12345678X01234567", "ü"]),
    (pa.large_binary(), [b"", b"\0", b"\0\0", b"12345678", b"12345678\0"]),
    (pa.binary(3), [b"abc", b"abd", b"\0\0\0"]),
    (pa.binary(11), [b"abcdefghijk", b"abcdefghijl", b"bbcdefghijk"]),
    (pa.decimal128(20, 2), [Decimal("1.00"), Decimal("-1.00"), Decimal("99999999999999999.01")]),
    (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 1, 1)]),
    (pa.timestamp("us", "UTC"), [-1, 0, 1, 2**50]),
    (pa.time64("ns"), [0, 1000, 5000]),
    (pa.duration("s"), [-3, 0, 3]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "12345678901"]),
    (pa.null(), [None]),
    (pa.struct([("x", pa.int8()), ("y", pa.string())]), [{"x": 1, "y": y} for y in ("a", "ab", None)]),
    (pa.list_(pa.string()), [[], [None], [""], ["a", "b"], ["ab", ""], ["", "ab"]]),
    (pa.large_list(pa.list_(pa.bool_())), [[], [[]], [None], [[True], []], [[], [True]]]),
    (pa.list_(pa.int16(), 2), [[1, 2], [1, None], [None, 1], [2, 1]]),
    (
        pa.list_(pa.struct([("x", pa.float32())])),
        [[], [None], [{"x": None}], [{"x": 0.5}], [{"x": 0.5}, None]],
    ),
    (pa.list_view(pa.dictionary(pa.int8(), pa.string())), [["a", "b"], ["b", "a"], ["a", None]]),
]


def same(left: Any, right: Any) -> bool:
    both_nan = isinstance(left, float) and isinstance(right, float) and left != left and right != right
    return left is not None and (left == right or both_nan)


def expected(source: list[tuple[Any, ...]], target: list[tuple[Any, ...]]) -> list[tuple[int, int]]:
    return [
        (row, position)
        for position, theirs in enumerate(target)
        for row, ours in enumerate(source)
        if all(same(left, right) for left, right in zip(ours, theirs, strict=True))
    ]


def keys(rng: random.Random, kinds: list[int]) -> tuple[list[pa.Array], list[tuple[Any, ...]]]:
    """Return the columns of some keys, slices of longer ones, and the keys as tuples."""
    count = rng.choice([0, 1, 5, 30])
    rows = [tuple(rng.choice([*KINDS[kind][1], None]) for kind in kinds) for _ in range(count)]
    arrays = [pa.array([row[number] for row in rows], KINDS[kind][0]) for number, kind in enumerate(kinds)]
    cut = rng.randint(0, count // 4)
    return [array.slice(cut) for array in arrays], [
        tuple(array[position].as_py() for array in arrays) for position in range(cut, count)
    ]


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_pairs_are_those_of_equal_keys(kind: int):
    rng = random.Random(kind)
    for _ in range(25):
        kinds = [kind, *rng.choices(range(len(KINDS)), k=rng.randint(0, 2))]
        source, source_rows = keys(rng, kinds)
        target, target_rows = keys(rng, kinds)
        index = KeyIndex(source)
        rows, positions = index.pairs(target)
        found = list(zip(rows.tolist(), positions.tolist(), strict=True))
        assert found == expected(source_rows, target_rows)
        assert len(index) == sum(None not in row for row in source_rows)


def test_many_keys():
    rng = np.random.default_rng(3)
    source = rng.choice(10**12, 20_000)
    target = np.concatenate([rng.integers(-(10**12), 2 * 10**12, 200_000), source[:5000]])
    rows, positions = KeyIndex([pa.array(source)]).pairs([pa.array(target)])
    assert np.array_equal(source[rows], target[positions])
    assert np.array_equal(np.unique(positions), np.flatnonzero(np.isin(target, source)))
    names = pa.array([f"customer-{number:09}-suffix" for number in source[:3000]])
    rows, positions = KeyIndex([names]).pairs([names.take(pa.array(np.arange(2999, -1, -1)))])
    assert rows.tolist() == list(range(2999, -1, -1))
    assert positions.tolist() == list(range(3000))


@pytest.mark.parametrize(
    "data_type",
    [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.uint64(), pa.date32(), pa.float32()],
)
def test_many_keys_that_lie_together(data_type: pa.DataType):
    """Many rows, most of them far from the keys, some just beside them; below and above zero."""
    width = data_type.bit_width // 8
    stored = {pa.date32(): pa.int32()}.get(data_type, data_type)
    if pa.types.is_floating(stored):
        low, high = -(2**20), 2**20
    else:
        limits = np.iinfo(stored.to_pandas_dtype())
        low, high = int(limits.min), int(limits.max)
    rng = np.random.default_rng(width)
    middle = (low + high) // 2
    for first in (low, max(low, middle - 40), high - 80):
        source = range(first, first + 80, 3)
        spread = [int(number) for number in rng.uniform(low, high, 70_000)]
        target = [*spread, *range(max(low, first - 90), min(high, first + 170))]
        ours, theirs = (pa.array(each, stored).cast(data_type) for each in (source, target))
        rows, positions = KeyIndex([ours]).pairs([theirs])
        assert ours.take(pa.array(rows)).equals(theirs.take(pa.array(positions)))
        assert positions.tolist() == [place for place, number in enumerate(target) if number in source]


def test_keys_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(key_values, "_MULTIPLIER", np.uint64(0))
    source, target = pa.array([5, 6, 5, None]), pa.array([6, 7, 5])
    rows, positions = KeyIndex([source, source]).pairs([target, target])
    assert rows.tolist() == [1, 0, 2]
    assert positions.tolist() == [0, 2, 2]


def test_hashes_differ_where_keys_do():
    texts = pa.array([f"{prefix}{number}" for prefix in ("", "x" * 30) for number in range(2000)])
    assert len(np.unique(hashes([comparable(texts)]))) == len(texts)
    numbers = pa.array(np.arange(4000))
    assert len(np.unique(hashes([numbers, numbers]) >> np.uint64(40))) > 3900


def test_zeros_and_nans_in_lists_are_one_key_each():
    ours, theirs = ([[0.0, float("nan")]], [[-0.0, -float("nan")], [0.0, 1.0]])
    rows, positions = KeyIndex([pa.array(ours)]).pairs([pa.array(theirs)])
    assert (rows.tolist(), positions.tolist()) == ([0], [0])


@pytest.mark.parametrize(
    "data_type",
    [
        pa.map_(pa.string(), pa.int8()),
        pa.list_(pa.map_(pa.string(), pa.int8())),
        pa.run_end_encoded(pa.int16(), pa.int8()),
    ],
)
def test_maps_are_no_keys(data_type: pa.DataType):
    assert not is_comparable(data_type)
