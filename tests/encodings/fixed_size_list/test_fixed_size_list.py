"""As many items for each row, back to back."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests


def vectors(count, rng):
    items = pa.array([rng.gauss(0, 1) for _ in range(3 * count)], pa.float32())
    return pa.FixedSizeListArray.from_arrays(items, 3)


def null_items(count, rng):
    rows = [[rng.getrandbits(7), None, 1] for _ in range(count)]
    return pa.array(rows, pa.list_(pa.int16(), 3))


def null_lists(count, rng):
    rows = [None if rng.random() < 0.2 else [[rng.getrandbits(7), 1], [2, 3]] for _ in range(count)]
    return pa.array(rows, pa.list_(pa.list_(pa.int8(), 2), 2))


ALL = {"2.0": "fixed-size-list(", "2.1": "fixed-size-list(", "2.2": "fixed-size-list("}
CASES = [
    Case("vectors", vectors, {"0.1": "plain"} | ALL),
    Case("null_items", null_items, ALL),
    Case("null_lists", null_lists, ALL),
]

globals().update(five_tests(CASES))
