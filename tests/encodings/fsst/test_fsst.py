"""Strings as codes of short symbols."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests

WORDS = ("red", "green", "blue", "of the sky", "größer", "1234567890", "http://example.com/")


def sentence(rng):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(2, 9))) + f" {rng.getrandbits(30)}"


def texts(count, rng):
    return pa.array([sentence(rng) for _ in range(count)], pa.string())


def binaries(count, rng):
    return pa.array([sentence(rng).encode() + rng.randbytes(2) for _ in range(count)], pa.binary())


def large_with_nulls(count, rng):
    return pa.array([None if rng.random() < 0.2 else sentence(rng) for _ in range(count)], pa.large_string())


FSST = {"compression": "fsst"}
CASES = [
    Case("texts", texts, {"2.0": "fsst(", "2.1": "fsst(", "2.2": "fsst("}, FSST),
    Case("binaries", binaries, {"2.1": "fsst(", "2.2": "fsst("}, FSST),
    Case("nulls", large_with_nulls, {"2.1": "fsst(", "2.2": "fsst("}, FSST),
]

globals().update(five_tests(CASES))
