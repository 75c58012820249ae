"""Indices that are looked up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.encodings import kernels
from lance_df.encodings.kernels.lookup import look_up

WIDTHS = (1, 2, 4, 8)
COUNTS = (0, 1, 7, 8, 9, 1023, 1024, 1025, 3000) if kernels.COMPILED else (0, 1, 8, 9, 1025)
NO_BYTES = np.empty(0, np.uint8)
UNTOUCHED = 0xA5


def _looked_up(
    indices: np.ndarray, valid: np.ndarray | None, table: np.ndarray | None, size: int, out_width: int
) -> tuple[int, np.ndarray]:
    """Return the status, and the bytes of each value, after which nothing is written."""
    out = np.full(len(indices) * out_width + 16, UNTOUCHED, np.uint8)
    words, room = indices.view(np.uint8), out[: len(indices) * out_width]
    words.flags.writeable = False
    marks, values = NO_BYTES if valid is None else valid, NO_BYTES if table is None else table.reshape(-1)
    status = look_up(words, indices.itemsize, marks, values, size, out_width, room)
    assert (out[len(room) :] == UNTOUCHED).all()
    return status, room.reshape(-1, out_width)


def _table(rng: np.random.Generator, size: int, width: int) -> np.ndarray:
    return rng.integers(0, 256, (size, width), np.uint8)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("out_width", [1, 2, 4, 8, 16])
def test_values_of_a_table(width: int, out_width: int) -> None:
    rng = np.random.default_rng(width * 100 + out_width)
    table = _table(rng, 200, out_width)
    for count in COUNTS:
        indices = rng.integers(1, 200, count).astype(f"u{width}")
        status, found = _looked_up(indices, None, table, 200, out_width)
        assert status == -1
        assert np.array_equal(found, table[indices.astype(np.int64)])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("out_width", WIDTHS)
def test_indices_themselves(width: int, out_width: int) -> None:
    rng = np.random.default_rng(width * 100 + out_width)
    for count in COUNTS:
        indices = rng.integers(1, 250, count).astype(f"u{width}")
        status, found = _looked_up(indices, None, None, 250, out_width)
        assert status == -1
        assert np.array_equal(found.reshape(-1).view(f"u{out_width}"), indices)


@pytest.mark.parametrize("width", WIDTHS)
def test_indices_without_a_meaning_are_0(width: int) -> None:
    rng = np.random.default_rng(width)
    table = _table(rng, 3, 8)
    for count in COUNTS[1:]:
        indices = rng.integers(0, 3, count).astype(f"u{width}")
        valid = rng.integers(0, 2, count).astype(np.uint8)
        damaged = np.where(valid, indices, np.iinfo(indices.dtype).max).astype(indices.dtype)
        status, found = _looked_up(damaged, valid, table, 3, 8)
        assert status == -1
        assert np.array_equal(found, table[np.where(valid, indices, 0).astype(np.int64)])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", COUNTS[1:])
def test_an_index_0_is_reported(width: int, count: int) -> None:
    indices = np.ones(count, f"u{width}")
    table = np.array([[7], [9]], np.uint8)
    for at in {0, count // 2, count - 1}:
        indices[at] = 0
        status, found = _looked_up(indices, None, table, 2, 1)
        assert status == 0
        assert np.array_equal(found, table[indices.astype(np.int64)])
        assert _looked_up(indices, np.ones(count, np.uint8), table, 2, 1)[0] == -1
        indices[at] = 1


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", COUNTS[1:])
def test_the_highest_index_beyond_is_reported(width: int, count: int) -> None:
    indices = np.zeros(count, f"u{width}")
    table = np.array([[7], [9]], np.uint8)
    for at in {0, count // 2, count - 1}:
        for wrong in (2, 200, np.iinfo(indices.dtype).max):
            indices[at] = wrong
            for valid in (None, np.ones(count, np.uint8)):
                status, _ = _looked_up(indices, valid, table, 2, 1)
                assert status == -2 - min(int(wrong), 1 << 62)
        indices[at] = 0
    assert _looked_up(indices, None, NO_BYTES, 0, 16)[0] == -2


@given(st.data())
def test_any_indices(data: st.DataObject) -> None:
    width, out_width = data.draw(st.sampled_from(WIDTHS)), data.draw(st.sampled_from((1, 2, 4, 8, 16)))
    numbers = st.one_of(st.integers(0, 20), st.integers(0, (1 << 8 * width) - 1))
    indices = np.array(data.draw(st.lists(numbers, max_size=40)), f"u{width}")
    marks = data.draw(st.none() | st.lists(st.integers(0, 1), min_size=len(indices), max_size=len(indices)))
    size = data.draw(st.integers(0, 300))
    table = _table(np.random.default_rng(size), size, out_width)
    valid = None if not marks else np.array(marks, np.uint8)
    expected = indices if valid is None else np.where(valid, indices, 0).astype(indices.dtype)
    status, found = _looked_up(indices, valid, table, size, out_width)
    highest = int(expected.max(initial=0))
    if len(indices) and highest >= size:
        assert status == -2 - min(highest, 1 << 62)
        return
    assert status == (0 if valid is None and len(indices) and not expected.min() else -1)
    assert np.array_equal(found, table[expected.astype(np.int64)])
