"""Runs and their sums are those of numpy."""

from __future__ import annotations

import numpy as np
import pytest

from lance_df.encodings import kernels
from lance_df.encodings.kernels import run_sums

_COUNTS = [1, 2, 7, 8, 9, 1023, 1024, 1025, *([70_001] if kernels.COMPILED else [])]


def _runs(count, dtype, longest):
    """Return keys, and where runs of them begin."""
    random = np.random.default_rng(count)
    limits = np.iinfo(dtype)
    choices = np.array([0, 1, limits.min, limits.max], dtype)
    keys = np.repeat(choices[random.integers(0, 4, count)], random.integers(1, 9, count))[:count]
    keys.flags.writeable = False
    begins = np.arange(count) % longest == 0
    begins[1:] |= keys[1:] != keys[:-1]
    return keys, begins


@pytest.mark.parametrize("count", _COUNTS)
@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("longest", [1, 4, 4096])
def test_runs_of_equal_keys(dtype, count, longest):
    keys, wanted = _runs(count, dtype, longest)
    begins, ends, found = np.full(count, 7, np.uint8), np.zeros(count, np.int64), np.zeros(count, dtype)
    num_runs = run_sums.find_runs(
        keys.view(np.uint8), keys.itemsize, longest, begins, found.view(np.uint8), ends
    )
    starts = np.flatnonzero(wanted)
    assert begins.tolist() == wanted.astype(int).tolist()
    assert ends[:num_runs].tolist() == [*starts[1:].tolist(), count]
    assert found[:num_runs].tolist() == keys[starts].tolist()


@pytest.mark.parametrize("count", _COUNTS)
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("largest", [10**6, 2**63 - 1])
def test_sums_of_runs(count, step, width, largest):
    begins = _runs(count, "i4", 64)[1]
    numbers = np.random.default_rng(count).integers(-largest, largest, count * step, np.int64)
    numbers.flags.writeable = begins.flags.writeable = False
    starts = np.flatnonzero(begins)
    out = np.full(len(starts) * width, 7, np.int64)
    run_sums.add_up_runs(numbers, step, begins.view(np.uint8), width, out)
    # they start anew beyond 64 bits
    sums = np.add.reduceat(numbers[::step], starts)
    assert out[::width].tolist() == sums.tolist()
    assert width == 1 or out[1::2].tolist() == (sums >> 63).tolist()
