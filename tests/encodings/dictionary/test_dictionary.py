"""Indices into values that a page stores once."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests


def few_texts(count, rng):
    return pa.array([f"text {rng.randrange(7)}" for _ in range(count)])


def few_with_nulls(count, rng):
    return pa.array([None if rng.random() < 0.2 else f"text {rng.randrange(70)}" for _ in range(count)])


def few_decimals(count, rng):
    values = [Decimal(rng.getrandbits(100)) for _ in range(5)]
    return pa.array([rng.choice(values) for _ in range(count)], pa.decimal128(38, 0))


def coded(count, rng):
    indices = pa.array([rng.randrange(3) for _ in range(count)], pa.int8())
    return pa.DictionaryArray.from_arrays(indices, pa.array(["ab", "", "ü"]))


CASES = [
    Case("texts", few_texts, {"2.0": "dictionary(", "2.1": "dictionary of", "2.2": "dictionary of"}),
    Case("nulls", few_with_nulls, {"2.0": "dictionary(", "2.1": "dictionary of", "2.2": "dictionary of"}),
    Case("decimals", few_decimals, {"2.1": "dictionary of", "2.2": "dictionary of"}),
    Case(
        "coded",
        coded,
        {"2.0": "dictionary(", "2.1": "dictionary of", "2.2": "dictionary of"},
    ),
]

globals().update(five_tests(CASES))
