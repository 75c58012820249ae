"""Values are coded with the longest symbols, and units of codes are counted."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_df.encodings.fsst.train import SymbolCoder
from lance_df.encodings.kernels import fsst_encode

SYMBOLS = [b"a", b"ab", b"abc", b"bcdefghi", b"c\0", b"\xff", b"cab"]
VALUES = st.lists(
    st.text("abcdefghi\0\xffx", max_size=30).map(lambda text: text.encode("latin-1")), max_size=20
)


def units_of(value: bytes) -> list[int]:
    units, at = [], 0
    while at < len(value):
        fitting = [symbol for symbol in SYMBOLS if value.startswith(symbol, at)]
        best = max(fitting, key=len, default=None)
        units.append(256 + value[at] if best is None else SYMBOLS.index(best))
        at += 1 if best is None else len(best)
    return units


@given(VALUES)
@settings(deadline=None)
def test_values_are_coded_and_counted(values):
    words = np.array([int.from_bytes(symbol, "little") for symbol in SYMBOLS], np.uint64)
    coder = SymbolCoder.of(words, np.array([len(symbol) for symbol in SYMBOLS], np.uint8))
    offsets = np.cumsum([0, *map(len, values)])
    code_offsets, codes = coder.encode(offsets, np.frombuffer(b"".join(values), np.uint8))
    units = [units_of(value) for value in values]
    wanted = [b"".join(bytes([u]) if u < 256 else bytes([255, u - 256]) for u in each) for each in units]
    assert [codes[low:high].tobytes() for low, high in pairwise(code_offsets)] == wanted

    counts, pairs = np.zeros(512, np.int32), np.zeros(512 * 512, np.int32)
    firsts = np.array([symbol[0] if len(symbol) > 1 else -1 for symbol in SYMBOLS], np.int64)
    fsst_encode.count_fsst(codes, code_offsets, counts, pairs, firsts)

    def with_first(unit: int) -> list[int]:
        return [unit, 256 + firsts[unit]] if unit < 256 and firsts[unit] >= 0 else [unit]

    singles = Counter(int(u) for each in units for unit in each for u in with_first(unit))
    assert {i: int(counts[i]) for i in np.flatnonzero(counts).tolist()} == singles
    joined = Counter(512 * a + int(u) for each in units for a, b in pairwise(each) for u in with_first(b))
    assert {i: int(pairs[i]) for i in np.flatnonzero(pairs).tolist()} == joined
