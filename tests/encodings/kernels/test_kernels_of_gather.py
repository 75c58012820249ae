"""Kernels that take values by position, against numpy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.encodings import kernels
from lance_df.encodings.kernels import gather, gather_strings

_MANY = 1025 if kernels.COMPILED else 40
_COUNTS = sorted({*range(10), 31, 32, 33, _MANY - 2, _MANY - 1, _MANY})
_ROOM = 8


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _bytes(array: np.ndarray) -> np.ndarray:
    return _read_only(array.view(np.uint8).reshape(-1))


@pytest.mark.parametrize("count", _COUNTS)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.9, 1.0])
@pytest.mark.parametrize("wanted", [True, False])
def test_positions_of_a_mask(count: int, share: float, wanted: bool) -> None:
    mask = np.random.default_rng(count).random(count) < share
    expected = np.flatnonzero(mask == wanted)
    found = np.full(len(expected) + _ROOM, -1, np.int64)
    assert gather.find_positions(_bytes(mask), wanted, found) == len(expected)
    np.testing.assert_array_equal(found[: len(expected)], expected)


@pytest.mark.parametrize("count", [1, 8, 9, 100, 5000])
def test_more_positions_than_were_counted_are_refused(count: int) -> None:
    mask = np.zeros(count, np.bool_)
    mask[-(count // 2 + 1) :] = True
    out = np.full(count, 77)
    for room in {0, count // 4}:
        with pytest.raises(ValueError, match="positions counted before"):
            gather.find_positions(_bytes(mask), True, out[:room])
        assert (out[room:] == 77).all()


@pytest.mark.parametrize("place", [0, 7, 8, 31, 32, 63, 64, 500])
@pytest.mark.parametrize("wanted", [True, False])
def test_positions_where_few_are_wanted(place: int, wanted: bool) -> None:
    mask = np.full(place + 200, not wanted)
    mask[place] = wanted
    found = np.empty(1 + _ROOM, np.int64)
    assert gather.find_positions(_bytes(mask), wanted, found) == 1
    assert found[0] == place


@given(st.sampled_from([1, 2, 3, 8, 16, 40]), st.lists(st.booleans(), max_size=70))
def test_values_between_those_that_are_dropped(width: int, dropped: list[bool]) -> None:
    data = np.random.default_rng(0).bytes(width * len(dropped))
    rows = np.frombuffer(data, np.uint8).reshape(len(dropped), width)
    kept = rows[~np.array(dropped, np.bool_)]
    out = np.empty(kept.size, np.uint8)
    gather.copy_between(_bytes(rows), width, np.flatnonzero(dropped), out)
    np.testing.assert_array_equal(out, kept.reshape(-1))


@pytest.mark.parametrize("count", _COUNTS)
@pytest.mark.parametrize("offset", [0, 3, 8])
def test_bits(count: int, offset: int) -> None:
    random = np.random.default_rng(count)
    bits = random.integers(0, 256, 20, dtype=np.uint8)
    positions = random.integers(0, 160 - offset, count)
    expected = np.unpackbits(bits, bitorder="little")[positions + offset]
    out = np.full(-(-count // 8), 255, np.uint8)
    assert gather.gather_bits(_bytes(bits), offset, _read_only(positions), out) == expected.sum()
    np.testing.assert_array_equal(out, np.packbits(expected, bitorder="little"))


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("kind", ["u1", "<u2", "<u4", "<u8", "<i4", "<i8"])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, _MANY])
def test_values(width: int, kind: str, count: int) -> None:
    random = np.random.default_rng(count)
    rows = random.integers(0, 256, (200, width), dtype=np.uint8)
    positions = random.integers(0, 200, count).astype(kind)
    out = np.empty(count * width, np.uint8)
    gather.gather_values(_bytes(rows), width, _bytes(positions), positions.itemsize, out)
    np.testing.assert_array_equal(out, rows[positions].reshape(-1))
    if width == 16:
        places = random.integers(0, max(count, 1), 9 if count else 0)
        out = np.empty(16 * len(places), np.uint8)
        gather.look_up_pairs(_bytes(rows), _bytes(positions), positions.itemsize, places, out)
        np.testing.assert_array_equal(out, rows[positions[places]].reshape(-1))


def test_what_has_no_room_is_not_written() -> None:
    values, positions, out = np.zeros(16, np.uint8), np.zeros(3, np.uint8), np.empty(1, np.uint8)
    order, sources = np.zeros(3, np.int64), [gather.Values(values)]
    for call in (
        lambda: gather.gather_values(values, 1, positions, 1, out),
        lambda: gather.look_up_pairs(values, positions, 1, order, out),
        lambda: gather.gather_scattered(sources, 4, order, np.array([3]), order[:1], out),
        lambda: gather_strings.gather_ends(values, 4, positions, 1, out),
        lambda: gather_strings.gather_padded(values, 16, np.zeros(1, np.int32), positions, 1, 4, out, out),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            call()


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("counts", [[], [0], [3, 0, 70], [5, 1500 if kernels.COMPILED else 20, 1]])
def test_values_that_are_scattered(width: int, counts: list[int]) -> None:
    random = np.random.default_rng(width)
    rows = [random.integers(0, 256, (30 + part, width), dtype=np.uint8) for part in range(len(counts))]
    orders = [random.integers(0, 30, count) for count in counts]
    order = np.concatenate([*orders, np.empty(0, np.int64)])
    sources = [gather.Values(_bytes(each)) for each in rows]
    out = np.empty(len(order) * width, np.uint8)
    sizes, shifts = np.array(counts, np.int64), np.zeros(len(counts), np.int64)
    gather.gather_scattered(sources, width, order, sizes, shifts, out)
    expected = [each[places].reshape(-1) for each, places in zip(rows, orders, strict=True)]
    np.testing.assert_array_equal(out, np.concatenate([*expected, np.empty(0, np.uint8)]))


def test_views_are_shifted_where_their_texts_are_in_buffers() -> None:
    views = np.zeros((3, 4), "<i4")
    views[:, 0], views[:, 2], views[:, 3] = [12, 13, 2**31 - 1], [7, 1, 2], [8, -5, 9]
    out = np.empty(48, np.uint8)
    gather.gather_scattered(
        [gather.Values(_bytes(views))], 16, np.array([2, 0, 1]), np.array([3]), np.array([40]), out
    )
    views[1:, 2] += 40
    np.testing.assert_array_equal(out.view("<i4").reshape(3, 4), views[[2, 0, 1]])


@given(
    st.lists(st.binary(max_size=90), min_size=1, max_size=20),
    st.lists(st.integers(0, 19), max_size=60),
    st.booleans(),
    st.sampled_from(["<i4", "<i8"]),
    st.sampled_from(["u1", "<u2", "<i4", "<i8"]),
)
def test_spans(texts: list[bytes], numbers: list[int], is_sorted: bool, kind: str, of: str) -> None:
    numbers = [number % len(texts) for number in (sorted(numbers) if is_sorted else numbers)]
    positions = np.array(numbers, of)
    offsets = np.cumsum([5, *map(len, texts)]).astype(kind)
    data = np.frombuffer(b"other" + b"".join(texts), np.uint8)
    ends = np.empty(len(numbers) + 1, kind)
    taken = [texts[number] for number in numbers]
    spans = _bytes(offsets), offsets.itemsize
    places = _bytes(positions), positions.itemsize
    total = gather_strings.gather_ends(*spans, *places, ends.view(np.uint8))
    assert total == sum(map(len, taken))
    assert [low + len(text) for low, text in zip(ends, taken, strict=False)] == ends[1:].tolist()
    out = np.empty(total, np.uint8)
    gather_strings.gather_spans(*spans, data, *places, out)
    assert out.tobytes() == b"".join(taken)


@pytest.mark.parametrize("kind", ["<i4", "<i8"])
def test_neighbours_are_copied_at_once(kind: str) -> None:
    data = np.random.default_rng(0).integers(0, 256, 4000, dtype=np.uint8)
    offsets = np.arange(0, 4001, 4).astype(kind)
    positions = np.delete(np.arange(200, 800), [5, 100, 101])
    out = np.empty(4 * len(positions), np.uint8)
    gather_strings.gather_spans(_bytes(offsets), offsets.itemsize, data, _bytes(positions), 8, out)
    np.testing.assert_array_equal(out, data.reshape(-1, 4)[positions].reshape(-1))


def test_a_total_beyond_32_bits_is_told() -> None:
    offsets, positions = np.array([0, 2**31 - 1], "<i4"), np.zeros(5, np.uint8)
    ends = np.empty(6, "<i4")
    assert gather_strings.gather_ends(_bytes(offsets), 4, positions, 1, ends.view(np.uint8)) == 5 * (
        2**31 - 1
    )


@pytest.mark.parametrize("row_bytes", [16, 24, 32])
@pytest.mark.parametrize("kind", ["<i4", "<i8"])
@pytest.mark.parametrize("of", ["u1", "<u2", "<u4", "<i8"])
@pytest.mark.parametrize("count", [0, 1, 60])
def test_padded_values(row_bytes: int, kind: str, of: str, count: int) -> None:
    random = np.random.default_rng(count)
    rows = random.integers(0, 256, (50, row_bytes), dtype=np.uint8)
    lengths = random.integers(0, row_bytes + 1, 50).astype(np.int32)
    positions = random.integers(0, 50, count).astype(of)
    taken = [rows[at, : lengths[at]].tobytes() for at in positions]
    total = sum(map(len, taken))
    ends, out = np.empty(count + 1, kind), np.empty(total + row_bytes, np.uint8)
    numbers = _bytes(positions), positions.itemsize
    found = gather_strings.gather_padded(
        _bytes(rows), row_bytes, _read_only(lengths), *numbers, ends.itemsize, ends.view(np.uint8), out
    )
    assert found == total
    assert [out[low:high].tobytes() for low, high in pairwise(ends)] == taken
