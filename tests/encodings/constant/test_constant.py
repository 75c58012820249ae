"""Pages whose values are all NULL, or all equal."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests


def equal(value, data_type):
    return lambda count, _: pa.array([value] * count, data_type)


def some_nulls(count, rng):
    return pa.array([None if rng.random() < 0.5 else 7 for _ in range(count)], pa.int16())


CASES = [
    Case("nulls", equal(None, pa.int32()), {"2.0": "all-nulls", "2.1": "constant", "2.2": "constant"}),
    Case("null_lists", equal(None, pa.list_(pa.int32())), {"2.1": "constant", "2.2": "constant"}),
    Case("numbers", equal(42, pa.int64()), {"2.2": "constant"}),
    Case("texts", equal("the same text, of more than 32 bytes", pa.string()), {"2.2": "constant"}),
    Case("some_nulls", some_nulls, {"2.2": "constant"}, ours="rle("),
]

globals().update(five_tests(CASES))
