"""Values, and how often each is repeated."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests


def runs(count, rng):
    values = []
    while len(values) < count:
        values += [rng.getrandbits(31)] * rng.choice((1, 40, 254, 255, 256, 700))
    return pa.array(values[:count], pa.int32())


def with_nulls(count, rng):
    values = []
    while len(values) < count:
        values += [None if rng.random() < 0.1 else rng.getrandbits(60)] * rng.choice((30, 255, 300))
    return pa.array(values[:count], pa.int64())


CASES = [
    Case("runs", runs, {"2.1": "rle(", "2.2": "rle("}),
    Case("nulls", with_nulls, {"2.1": "rle(", "2.2": "rle("}),
]

globals().update(five_tests(CASES))
