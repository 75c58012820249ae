"""Single rows of several pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from made_pages import NO_BYTES, MadePage, cut, packed_page, runs_page

from lance_df.encodings import kernels
from lance_df.encodings.kernels.pages import Page
from lance_df.encodings.kernels.row_take import FLAT, PACKED, RUNS, WHOLE, take_rows

NO_CHUNKS = np.empty(0, np.int64)
COUNT = 3000 if kernels.COMPILED else 1100
WORDS = (1, 2, 4, 8)


def _whole(values: np.ndarray, table_size: int) -> Page:
    width = values.itemsize
    return Page(values.view(np.uint8), NO_CHUNKS, NO_CHUNKS, 0, 0, width, NO_BYTES, table_size, width)


def _flat(values: np.ndarray, table_size: int) -> Page:
    parts = np.split(values, range(64, len(values), 64))
    made = MadePage([(len(part), [part.tobytes()]) for part in parts])
    return made.page(values.itemsize, table_size=table_size)


def _packed(values: np.ndarray, table_size: int) -> Page:
    bits = int(values.max()).bit_length()
    parts = np.split(values, range(1024, len(values), 1024))
    return packed_page(parts, bits, wide=True).page(values.itemsize, table_size=table_size)


def _runs(values: np.ndarray, table_size: int) -> Page:
    parts = []
    for part in np.split(values, range(200, len(values), 200)):
        cuts = np.flatnonzero(np.diff(part)) + 1
        parts.append((part[np.append(0, cuts)], np.diff(np.concatenate([[0], cuts, [len(part)]]))))
    return runs_page(parts, wide=False).page(values.itemsize, table_size=table_size)


KINDS: dict[int, Callable[[np.ndarray, int], Page]] = {
    WHOLE: _whole,
    FLAT: _flat,
    PACKED: _packed,
    RUNS: _runs,
}


def _take(
    pages: list[Any], kinds: list[int], bases: list[int], starts: list[int], rows: np.ndarray, width: int
) -> tuple[tuple[int, int, int], np.ndarray]:
    """Return where it stopped, and the bytes of each value in the order of the rows."""
    targets = np.random.default_rng(len(rows)).permutation(len(rows))
    out = np.zeros(len(rows) * width, np.uint8)
    numbers = [np.array(each, np.int64) for each in (kinds, bases, starts)]
    result = take_rows(pages, *numbers, rows, targets, 0, out)
    return result, out.reshape(-1, width)[targets]


def _rows(rng: np.random.Generator, total: int) -> list[np.ndarray]:
    """Return no rows, single ones, few, those at edges, the same again, and all."""
    edges = [0, 1, 63, 64, 127, 128, COUNT - 1, COUNT, COUNT + 1, total - 1]
    chosen = [
        [],
        [0],
        [total - 1],
        edges,
        [5, 5, 5, COUNT],
        np.sort(rng.integers(0, total, 50)),
        range(total),
    ]
    return [np.array(each, np.int64) for each in chosen]


def _values(rng: np.random.Generator, kind: int, width: int, highest: int) -> np.ndarray:
    values = rng.integers(0, highest, COUNT, np.uint64, endpoint=True).astype(f"u{width}")
    return np.repeat(values, 7)[:COUNT] if kind == RUNS else values


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", WORDS)
def test_values(kind: int, width: int) -> None:
    rng = np.random.default_rng(kind * 10 + width)
    for bits in {1, 3, 8 * width - 1, 8 * width}:
        parts = [_values(rng, kind, width, (1 << bits) - 1) for _ in range(3)]
        pages, starts = [KINDS[kind](part, -1) for part in parts], [number * COUNT for number in range(4)]
        values = np.concatenate(parts)
        for rows in _rows(rng, len(values)):
            result, found = _take(pages, [kind] * 3, [0] * 3, starts, rows, width)
            assert (result[0], result[2]) == (len(rows), -1)
            assert np.array_equal(found.reshape(-1).view(values.dtype), values[rows])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", WORDS)
def test_indices_of_all_pages(kind: int, width: int) -> None:
    rng = np.random.default_rng(kind * 10 + width)
    parts = [_values(rng, kind, width, 99) for _ in range(3)]
    pages, starts = [KINDS[kind](part, 100) for part in parts], [number * COUNT for number in range(4)]
    bases = [0, 100, 70_000]
    expected = np.concatenate(
        [part.astype(np.uint32) + base for part, base in zip(parts, bases, strict=True)]
    )
    for rows in _rows(rng, 3 * COUNT):
        result, found = _take(pages, [kind] * 3, bases, starts, rows, 4)
        assert (result[0], result[2]) == (len(rows), -1)
        assert np.array_equal(found.reshape(-1).view(np.uint32), expected[rows])


@pytest.mark.parametrize("width", [3, 16])
def test_values_that_are_no_words(width: int) -> None:
    values = np.random.default_rng(width).integers(0, 256, (500, width), np.uint8)
    whole = Page(values.reshape(-1), NO_CHUNKS, NO_CHUNKS, 0, 0, width, NO_BYTES, -1, width)
    flat = MadePage([(100, [part.tobytes()]) for part in cut(values, [100] * 5)]).page(width)
    rows = np.array([0, 99, 100, 499, 500, 777, 999])
    result, found = _take([whole, flat], [WHOLE, FLAT], [0, 0], [0, 500, 1000], rows, width)
    assert result[::2] == (7, -1)
    assert np.array_equal(found, np.concatenate([values, values])[rows])


def test_kinds_of_pages_differ() -> None:
    values = np.repeat(np.arange(COUNT // 5 + 1, dtype=np.uint16) % 300, 5)[:COUNT]
    pages = [make(values, -1) for make in KINDS.values()]
    starts = [number * COUNT for number in range(5)]
    rows = np.arange(0, 4 * COUNT, 37)
    result, found = _take(pages, list(KINDS), [0] * 4, starts, rows, 2)
    assert result[::2] == (len(rows), -1)
    assert np.array_equal(found.reshape(-1).view(np.uint16), values[rows % COUNT])


def test_it_stops_at_a_page_that_is_not_known() -> None:
    values = np.arange(COUNT, dtype=np.uint16)
    page, starts = _whole(values, -1), np.array([0, COUNT, 2 * COUNT, 3 * COUNT])
    rows, targets = np.array([3, 5, 2 * COUNT, 2 * COUNT + 9]), np.arange(4)
    out, kinds, bases = np.zeros(8, np.uint8), np.full(3, WHOLE), np.zeros(3, np.int64)
    assert take_rows([page, None, None], kinds, bases, starts, rows, targets, 0, out) == (2, 2, -1)
    assert out.view(np.uint16).tolist() == [3, 5, 0, 0]
    assert take_rows([page, None, page], kinds, bases, starts, rows, targets, 2, out)[::2] == (4, -1)
    assert out.view(np.uint16).tolist() == [3, 5, 0, 9]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", WORDS)
def test_an_index_beyond_those_of_a_page(kind: int, width: int) -> None:
    values = np.zeros(COUNT, f"u{width}")
    values[1000:1003] = 77
    page = KINDS[kind](values, 50)
    arguments = ([page, page], [kind] * 2, [0, 50], [0, COUNT, 2 * COUNT])
    assert _take(*arguments, np.array([5, 999, 1003]), 4)[0][::2] == (3, -1)
    result, _ = _take(*arguments, np.array([5, COUNT + 999, COUNT + 1001, COUNT + 1005]), 4)
    assert result == (1, 1, -2 - 77)


@pytest.mark.parametrize("kind", [FLAT, PACKED, RUNS])
def test_chunks_that_do_not_hold_their_values(kind: int) -> None:
    good = {
        FLAT: (10, [bytes(20)]),
        PACKED: (10, [b"\3\0" + bytes(3 * 128)]),
        RUNS: (10, [bytes(4), bytes([4, 6])]),
    }
    bad = {
        FLAT: [(10, [bytes(19)]), (10, [b""])],
        PACKED: [
            (10, [b"\4\0" + bytes(3 * 128)]),
            (10, [b"\3"]),
            (10, [b""]),
            (10, [b"\x11\0" + bytes(17 * 128)]),
        ],
        RUNS: [(10, [bytes(3), bytes([4, 6])]), (10, [bytes(4), bytes([4, 5])]), (10, [b"", b""])],
    }
    for wrong in bad[kind]:
        page = MadePage([good[kind], wrong]).page(2)
        assert _take([page], [kind], [0], [0, 20], np.array([0, 9]), 2)[0] == (2, 0, -1)
        result, _ = _take([page], [kind], [0], [0, 20], np.array([0, 19]), 2)
        assert result == (0, 0, 1)
        assert _take([page], [kind], [0], [0, 99], np.array([0, 25]), 2)[0][2] == 1
    many = MadePage([(1025, [b"\0\0"])]).page(2)
    assert _take([many], [PACKED], [0], [0, 1025], np.array([0]), 2)[0] == (0, 0, 0)
