"""Symbols for strings: found, used, and read back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_df.encodings.fsst.symbol_table import expand
from lance_df.encodings.fsst.train import TABLE_BYTES, SymbolCoder, train_symbols


def flat(values: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    return ends, np.frombuffer(b"".join(values), np.uint8)


def coder_of(*symbols: bytes) -> SymbolCoder:
    words = np.array([int.from_bytes(symbol, "little") for symbol in symbols], np.uint64)
    return SymbolCoder.of(words, np.array([len(symbol) for symbol in symbols], np.uint8))


def check(coder: SymbolCoder, values: list[bytes]) -> bytes:
    ends, data = flat(values)
    code_ends, codes = coder.encode(ends, data)
    table = coder.serialize()
    assert len(table) == TABLE_BYTES
    expanded, expanded_ends = expand(table, pa.py_buffer(codes), code_ends)
    assert expanded.to_pybytes() == data.tobytes()
    assert expanded_ends.tolist() == ends.tolist()
    return codes.tobytes()


def test_the_longest_symbol_is_used_and_other_bytes_escaped() -> None:
    coder = coder_of(b"a", b"ab", b"abc", b"abcdefgh")
    assert check(coder, [b"abcdefghabcabxa\xff"]) == bytes([3, 2, 1, 255, ord("x"), 0, 255, 255])


def test_symbols_end_with_the_value() -> None:
    coder = coder_of(b"a", b"ab", b"abc", b"a\0", b"ab\0\0")
    # zeros behind a value are no part of it
    assert check(coder, [b"ab", b"a", b"a\0", b"ab\0\0", b"", b"b"]) == bytes([1, 0, 3, 4, 255, ord("b")])


def test_symbols_of_two_bytes_do_not_reach_beyond_the_end() -> None:
    coder = coder_of(b"a\0", b"a\xff")
    assert check(coder, [b"a", b"a\0", b"a\xff"]) == bytes([255, ord("a"), 0, 1])


def test_many_symbols_that_start_alike() -> None:
    symbols = [b"abc" + bytes([i]) for i in range(20)] + [b"abc"]
    check(coder_of(*symbols), [b"".join(symbols), *symbols])


def test_text_becomes_a_third() -> None:
    rng = np.random.default_rng(0)
    words = [b"deposits ", b"quickly ", b"express ", b"requests ", b"across ", b"the "]
    values = [b"".join(words[i] for i in rng.integers(0, 6, 8)) for _ in range(2000)]
    coder, ratio = train_symbols(*flat(values))
    codes = check(coder, values)
    assert len(codes) < sum(map(len, values)) / 3
    assert ratio == pytest.approx(len(codes) / sum(map(len, values)), abs=0.05)


def test_the_same_values_find_the_same_symbols() -> None:
    values = [f"user{i * 7919 % 10_007}@example.com".encode() for i in range(5000)]
    tables = {train_symbols(*flat(values))[0].serialize() for _ in range(2)}
    assert len(tables) == 1


def test_noise_does_not_shrink() -> None:
    data = np.random.default_rng(0).bytes(50_000)
    coder, ratio = train_symbols(*flat([data]))
    assert ratio > 0.95
    check(coder, [data])


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.binary(max_size=20) | st.text("ab\0", max_size=30).map(str.encode), min_size=1).filter(
        any
    )
)
def test_any_values_come_back(values: list[bytes]) -> None:
    coder, _ = train_symbols(*flat(values))
    check(coder, values)
