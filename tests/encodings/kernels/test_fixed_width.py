"""Kernels of values of fixed width, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.encodings.kernels import fixed_width


def _expand(width: int, runs: list[list[int]], counts: list[int]) -> tuple[int, np.ndarray, list[np.ndarray]]:
    """Return the status, what is written, and what it should be."""
    random = np.random.default_rng(width)
    values = [random.integers(0, 2 ** (8 * width - 1), len(each)).astype(f"<u{width}") for each in runs]
    num_runs = np.array(list(map(len, runs)), np.int64)
    first = np.cumsum(num_runs) - num_runs
    data = np.frombuffer(b"".join(each.tobytes() for each in values), np.uint8)
    lengths = np.array([length for each in runs for length in each], np.uint8)
    lengths.flags.writeable = False
    out = np.empty(sum(counts) * width, np.uint8)
    status = fixed_width.expand_runs(
        data, first * width, width, lengths, first, num_runs, np.array(counts, np.int64), out
    )
    wanted = [
        np.repeat(each, length)[:count] for each, length, count in zip(values, runs, counts, strict=True)
    ]
    return status, out.view(f"<u{width}"), wanted


@given(
    st.sampled_from([1, 2, 4, 8]),
    st.lists(st.lists(st.one_of(st.integers(0, 20), st.just(255)), max_size=9), max_size=4),
    st.integers(0, 5),
)
def test_runs_are_expanded(width: int, runs: list[list[int]], cut: int) -> None:
    counts = [max(0, sum(lengths) - cut) for lengths in runs]
    status, found, wanted = _expand(width, runs, counts)
    assert status == -1
    np.testing.assert_array_equal(found, np.concatenate([*wanted, found[:0]]))


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("lengths", [[], [0], [9, 3], [255]])
def test_runs_that_are_too_short_are_found(width: int, lengths: list[int]) -> None:
    status, _, _ = _expand(width, [[4, 4], lengths, [20]], [8, sum(lengths) + 1, 20])
    assert status == 1


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("counts", [[], [0], [1, 7, 0], [100, 9]])
def test_split_bytes_are_put_together(width: int, counts: list[int]) -> None:
    chunks = [
        np.random.default_rng(count).integers(0, 256, (count, width), dtype=np.uint8) for count in counts
    ]
    planes = [np.concatenate([each.T.reshape(-1), np.zeros(5, np.uint8)]) for each in chunks]
    data = np.concatenate([*planes, np.empty(0, np.uint8)])
    sizes = np.array(list(map(len, planes)), np.int64)
    data.flags.writeable = False
    out = np.empty(sum(counts) * width, np.uint8)
    fixed_width.split_byte_streams(data, np.cumsum(sizes) - sizes, np.array(counts, np.int64), width, out)
    assert out.tobytes() == b"".join(each.tobytes() for each in chunks)
