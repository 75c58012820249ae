"""Words and spans whose first byte is before the array are errors of kernels with checks, and uncompiled."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from lance_df.encodings.kernels import variable

pytestmark = pytest.mark.skipif(
    os.environ.get("LANCE_DF_KERNELS") not in ("checked", "python"), reason="only these kernels check bounds"
)

DATA = np.arange(64, dtype=np.uint8)
BEFORE = [-1, -3, -(2**63)]


@contextmanager
def index_error() -> Iterator[None]:
    """Check that the block raises an `IndexError`, or reports one, as functions without exceptions do."""
    errors: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda unraisable: errors.append(unraisable.exc_type))
        try:
            yield
        except IndexError:
            errors.append(IndexError)
    assert IndexError in errors


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("start", BEFORE)
@pytest.mark.parametrize("width", [4, 8])
def test_words_start_within_their_array(start: int, width: int) -> None:
    ends = np.zeros(width, np.uint8)
    with index_error():
        variable.gather_variable(
            DATA, width, numbers(start), numbers(32), numbers(0), ends, np.empty(8, np.uint8)
        )


@pytest.mark.parametrize("start", BEFORE)
def test_spans_start_within_both_arrays(start: int) -> None:
    out = np.zeros(16, np.uint8)
    with index_error():
        variable.copy_spans(DATA, numbers(start), numbers(8), out, numbers(0))
    with index_error():
        variable.copy_spans(DATA, numbers(0), numbers(8), out, numbers(start))
    assert not out.any()
