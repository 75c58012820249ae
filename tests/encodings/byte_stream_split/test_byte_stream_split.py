"""Floats byte by byte, in compressed chunks."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests


def floats(data_type):
    def made(count, rng):
        first = rng.randrange(1000)
        return pa.array([first + number / 8 for number in range(count)], data_type)

    return made


CASES = [
    Case(
        str(data_type),
        floats(data_type),
        {"2.1": "byte-stream-split(", "2.2": "byte-stream-split("},
        {"compression": "zstd", "bss": "on"},
    )
    for data_type in (pa.float32(), pa.float64())
]

globals().update(five_tests(CASES))
