"""Chunks of a few KiB."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests


def texts(count, rng):
    return pa.array([rng.choice(("", "ab", "x" * 300)) + f"{rng.getrandbits(40):x}" for _ in range(count)])


def lists(count, rng):
    rows = [
        [rng.getrandbits(40)] * rng.choice((0, 1, 3, 900 if rng.random() < 0.01 else 2)) for _ in range(count)
    ]
    return pa.array(rows, pa.list_(pa.int64()))


MINI_BLOCK = {"structural-encoding": "miniblock"}
CASES = [
    Case("texts", texts, {"2.1": "mini-block(", "2.2": "mini-block("}, MINI_BLOCK),
    Case("lists", lists, {"2.1": "mini-block(", "2.2": "mini-block("}, MINI_BLOCK),
]

globals().update(five_tests(CASES))
