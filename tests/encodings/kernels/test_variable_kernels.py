"""Kernels of values of variable width, against Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.encodings import kernels
from lance_df.encodings.kernels import variable

_MANY = 1025 if kernels.COMPILED else 20
_KINDS = st.sampled_from(["<i4", "<i8"])


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 70)), max_size=30), _KINDS)
def test_spans_are_copied_and_joined(spans: list[tuple[int, int]], kind: str) -> None:
    data = np.random.default_rng(0).integers(0, 256, 270, dtype=np.uint8)
    data.flags.writeable = False
    starts, sizes = (np.array([span[place] for span in spans], np.int64) for place in (0, 1))
    parts = [data[start : start + size].tobytes() for start, size in spans]
    ends = np.cumsum(sizes)
    total = int(sizes.sum())

    out = np.empty(total, np.uint8)
    variable.copy_spans(data, starts, sizes, out, total - ends)  # the last one comes first
    assert out.tobytes() == b"".join(reversed(parts))

    offsets = np.empty(len(spans) + 1, kind)
    variable.join_variable(data, starts, sizes, offsets.itemsize, offsets.view(np.uint8), out)
    assert out.tobytes() == b"".join(parts)
    assert offsets.tolist() == [0, *ends.tolist()]


def _chunks(
    texts: list[list[bytes]], kind: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the bytes of chunks, where they start, their sizes and counts, and room for what they hold."""
    width = np.dtype(kind).itemsize
    data, starts, sizes = b"", [], []
    for values in texts:
        offsets = np.cumsum([(len(values) + 1) * width, *map(len, values)]).astype(kind)
        chunk = offsets.tobytes() + b"".join(values)
        starts.append(len(data))
        sizes.append(len(chunk))
        data += chunk + bytes(-len(chunk) % 8)
    room = np.empty(sum(len(text) for values in texts for text in values), np.uint8)
    counts = [len(values) for values in texts]
    return (
        np.frombuffer(data, np.uint8),
        np.array(starts, np.int64),
        np.array(sizes, np.int64),
        np.array(counts, np.int64),
        room,
    )


@given(st.lists(st.lists(st.binary(max_size=20), max_size=12), max_size=5), _KINDS)
def test_chunks_are_joined(texts: list[list[bytes]], kind: str) -> None:
    data, starts, sizes, counts, out = _chunks(texts, kind)
    offsets = np.empty(counts.sum() + 1, kind)
    width = offsets.itemsize
    assert variable.gather_variable(data, width, starts, sizes, counts, offsets.view(np.uint8), out) == -1
    assert out.tobytes() == b"".join(text for values in texts for text in values)
    assert offsets.tolist() == np.cumsum([0, *(len(text) for values in texts for text in values)]).tolist()


@pytest.mark.parametrize("kind", ["<i4", "<i8"])
@pytest.mark.parametrize("count", [1, 7, 8, 9, _MANY])
def test_chunks_of_many_values_are_joined(kind: str, count: int) -> None:
    texts = [[b"x" * (number % 5) for number in range(count)], [b"yz"] * count]
    data, starts, sizes, counts, out = _chunks(texts, kind)
    offsets = np.empty(2 * count + 1, kind)
    width = offsets.itemsize
    assert variable.gather_variable(data, width, starts, sizes, counts, offsets.view(np.uint8), out) == -1
    assert out.tobytes() == b"".join(texts[0] + texts[1])
    assert np.diff(offsets).tolist() == [len(text) for values in texts for text in values]


@pytest.mark.parametrize("kind", ["<i4", "<i8"])
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("offset", [-1, -(2**31), 2**31 - 1, 0, 1000])
def test_broken_offsets_are_found(kind: str, place: int, offset: int) -> None:
    data, starts, sizes, counts, out = _chunks([[b"ab", b"c"], [b"", b"abc", b"d"]], kind)
    data = data.copy()
    offsets = np.empty(6, kind)
    width = offsets.itemsize
    # of the second chunk; where its first one is 0, or descends, its bytes are more than there is room for
    data[starts[1] + place * width :][:width].view(kind)[0] = offset
    assert variable.gather_variable(data, width, starts, sizes, counts, offsets.view(np.uint8), out) == 1
