"""Bitmaps of 2.0."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests


def some(data_type, part):
    def made(count, rng):
        return pa.array(
            [None if rng.random() < part else rng.getrandbits(6) for _ in range(count)], data_type
        )

    return made


CASES = [
    Case("few", some(pa.int32(), 0.01), {"2.0": "some-nulls("}),
    Case("many", some(pa.int64(), 0.9), {"2.0": "some-nulls("}),
    Case("none", some(pa.uint8(), 0), {"2.0": "no-nulls("}),
]

globals().update(five_tests(CASES))
