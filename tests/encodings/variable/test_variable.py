"""Strings and binaries: offsets and bytes."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests


def texts(data_type):
    def made(count, rng):
        words = ("", "a", "naïve", "日本語", "zebra", "x" * 40)
        return pa.array([f"{rng.choice(words)}{rng.getrandbits(40):x}" for _ in range(count)], data_type)

    return made


def binaries(count, rng):
    return pa.array([rng.randbytes(rng.randrange(12)) + b"!" for _ in range(count)], pa.binary())


def with_nulls(count, rng):
    return pa.array([None if rng.random() < 0.3 else f"{rng.getrandbits(50)}" for _ in range(count)])


NONE = {"compression": "none"}
CASES = [
    Case(
        "texts",
        texts(pa.string()),
        {"0.1": "var-binary", "2.0": "binary(", "2.1": "variable(32", "2.2": "variable(32"},
        NONE,
    ),
    Case(
        "large",
        texts(pa.large_string()),
        {"0.1": "var-binary", "2.0": "binary(", "2.1": "variable(64", "2.2": "variable(64"},
        NONE,
    ),
    Case(
        "binaries",
        binaries,
        {"0.1": "var-binary", "2.0": "binary(", "2.1": "variable(32", "2.2": "variable(32"},
        NONE,
    ),
    Case(
        "nulls",
        with_nulls,
        {"0.1": "var-binary", "2.0": "binary(", "2.1": "variable(32", "2.2": "variable(32"},
        NONE,
    ),
]

globals().update(five_tests(CASES))
