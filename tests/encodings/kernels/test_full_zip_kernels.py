"""Kernels that walk over the records of full-zip pages, against Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.encodings.kernels import full_zip

_DEFINITION_BITS = 2
_MAX_VISIBLE = 1


def _parse(
    data: bytes, stops: list[int], word_bytes: int, length_bytes: int, value_bytes: int, room: int
) -> tuple[tuple[int, int, int], list[np.ndarray]]:
    rows = np.array([0, *stops], np.int64)
    found: list[Any] = [np.empty(room, kind) for kind in (np.uint16, np.uint16, np.int64, np.int64)]
    if not length_bytes:
        found[3] = np.empty(0, np.int64)
    result = full_zip.parse_records(
        np.frombuffer(data, np.uint8),
        rows[:-1],
        rows[1:],
        word_bytes,
        _DEFINITION_BITS,
        length_bytes,
        value_bytes,
        _MAX_VISIBLE,
        *found,
    )
    return result, found


_ROWS = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 40)), max_size=3), max_size=8
)


@given(_ROWS, st.sampled_from([1, 2, 4]), st.sampled_from([0, 4, 8]), st.integers(0, 9))
def test_records(
    rows: list[list[tuple[int, int, int]]], word_bytes: int, length_bytes: int, value_bytes: int
) -> None:
    data, stops, levels, starts, lengths = b"", [], [], [], []
    for row in rows:
        for repetition, definition, size in row:
            levels.append((repetition, definition))
            data += (repetition << _DEFINITION_BITS | definition).to_bytes(word_bytes, "little")
            if definition > _MAX_VISIBLE:
                continue
            length = value_bytes
            if length_bytes:
                length = size if definition == 0 else 0
                data += length.to_bytes(length_bytes, "little") if definition == 0 else b""
                lengths.append(length)
            starts.append(len(data))
            data += b"v" * length
        stops.append(len(data))
    result, found = _parse(data, stops, word_bytes, length_bytes, value_bytes, len(levels))
    assert result == (len(levels), len(starts), -1)
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == levels
    assert found[2][: len(starts)].tolist() == starts
    assert found[3][: len(lengths)].tolist() == lengths

    for size in range(len(data)) if len(data) < 60 else ():
        # the last row ends within a record, or between two of them
        stop = stops.index(len(data))
        cut = [min(size, each) for each in stops]
        (slots, values, broken), _ = _parse(data[:size], cut, word_bytes, length_bytes, value_bytes, 99)
        assert broken <= stop
        assert slots <= len(levels)
        assert values <= len(starts)


def test_records_without_control_words() -> None:
    result, found = _parse(bytes(24), [8, 8, 24], 0, 0, 8, 3)
    assert result == (3, 3, -1)
    assert found[2].tolist() == [0, 8, 16]
    result, found = _parse(b"\2\0\0\0ab\0\0\0\0", [6, 10], 0, 4, 0, 2)
    assert result == (2, 2, -1)
    assert found[3].tolist() == [2, 0]


@pytest.mark.parametrize(
    ("data", "stops", "length_bytes", "room", "broken"),
    [
        (b"\0v\0", [2, 3], 0, 9, 1),  # a word without a value
        (b"\0v\0v", [2, 4], 0, 1, 1),  # more records than there is room for
        (b"\3\0\0\0\0", [1, 4], 4, 9, 1),  # a part of a length
        (b"\0\1\0\0\0", [5], 4, 9, 0),
        (b"\0\xff\xff\xff\xffv", [6], 4, 9, 0),
        (b"\0\xff\xff\xff\xff\xff\xff\xff\xffv", [10], 8, 9, 0),
        (b"\0\0\0\0\0\0\0\0\x80v", [10], 8, 9, 0),
    ],
)
def test_records_that_do_not_fit_are_found(
    data: bytes, stops: list[int], length_bytes: int, room: int, broken: int
) -> None:
    assert _parse(data, stops, 1, length_bytes, 1, room)[0][2] == broken


def _packed(data: bytes, lengths: list[int], fixed: list[int], prefixes: list[int]) -> tuple[int, Any, Any]:
    sizes = np.array(lengths, np.int64)
    starts, found = np.empty((2, len(fixed), len(lengths)), np.int64)
    status = full_zip.parse_packed_rows(
        np.frombuffer(data, np.uint8),
        np.cumsum(sizes) - sizes,
        sizes,
        np.array(fixed, np.int64),
        np.array(prefixes, np.int64),
        starts,
        found,
    )
    return status, starts, found


@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=20)), max_size=9))
def test_packed_rows(rows: list[tuple[bytes, bytes]]) -> None:
    parts = [
        b""
        if not one
        else len(one).to_bytes(4, "little") + one + b"fix" + len(two).to_bytes(8, "little") + two
        for one, two in rows
    ]
    data = b"".join(parts)
    status, starts, lengths = _packed(data, list(map(len, parts)), [-1, 3, -1], [4, 0, 8])
    assert status == -1
    for row, (one, two) in enumerate(rows):
        found = [data[at : at + size] for at, size in zip(starts[:, row], lengths[:, row], strict=True)]
        assert found == ([one, b"fix", two] if one else [b"", b"", b""])


@pytest.mark.parametrize(
    "row", [b"\1\0\0", b"\1\0\0\0", b"\0\0\0\0f", b"\0\0\0\0fixed", b"\xff\xff\xff\xfffix", b"\4\0\0\0fix"]
)
def test_packed_rows_that_do_not_fill_their_bytes_are_found(row: bytes) -> None:
    status, _, _ = _packed(b"\0\0\0\0fix" + row, [7, 0, len(row)], [-1, 3], [4, 0])
    assert status == 2


@pytest.mark.parametrize("size", [2**63, 2**64 - 1])
def test_lengths_beyond_63_bits_are_found(size: int) -> None:
    assert _packed(size.to_bytes(8, "little") + b"ab", [10], [-1], [8])[0] == 0
