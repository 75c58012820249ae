"""LZ4 and Zstandard around other encodings."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests


def texts(count, rng):
    return pa.array([" ".join(rng.choice(("red", "green", "blue")) for _ in range(9)) for _ in range(count)])


def numbers(count, rng):
    return pa.array([rng.choice((1, -(2**61), 2**60)) + number % 97 for number in range(count)], pa.int64())


CASES = [
    Case(
        f"{scheme}_{made.__name__}",
        made,
        {"2.1": "general(", "2.2": "general("},
        {"compression": scheme, "bss": "off"},
    )
    for scheme in ("lz4", "zstd")
    for made in (texts, numbers)
]

globals().update(five_tests(CASES))
