"""Integers in as few bits as they need."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests

TYPES = ((pa.uint8(), 3), (pa.int16(), 9), (pa.int32(), 21), (pa.uint64(), 40))


def of_type(data_type, bits):
    def numbers(count, rng):
        return pa.array([rng.getrandbits(bits) for _ in range(count)], data_type)

    return numbers


def with_nulls(count, rng):
    return pa.array([None if rng.random() < 0.2 else rng.getrandbits(17) for _ in range(count)], pa.int64())


CASES = [
    *(
        Case(str(data_type), of_type(data_type, bits), {"2.1": "bitpacking", "2.2": "bitpacking"})
        for data_type, bits in TYPES
    ),
    Case("nulls", with_nulls, {"2.1": "bitpacking", "2.2": "bitpacking"}),
]

globals().update(five_tests(CASES))
