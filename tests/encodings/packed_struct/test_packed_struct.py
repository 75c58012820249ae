"""The fields of a struct beside each other."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests


def numbers(count, rng):
    rows = [{"a": rng.getrandbits(15), "b": rng.gauss(0, 1)} for _ in range(count)]
    return pa.array(rows, pa.struct({"a": pa.int16(), "b": pa.float64()}))


def texts(count, rng):
    rows = [{"a": rng.getrandbits(30), "s": f"text {rng.getrandbits(20)}", "v": [1, 2]} for _ in range(count)]
    return pa.array(rows, pa.struct({"a": pa.int32(), "s": pa.string(), "v": pa.list_(pa.float32(), 2)}))


PACKED = {"packed": "true"}
CASES = [
    Case(
        "numbers",
        numbers,
        {"2.0": "packed-struct(", "2.1": "packed-struct(", "2.2": "packed-struct("},
        PACKED,
    ),
    Case("texts", texts, {"2.2": "packed-struct("}, PACKED),
]

globals().update(five_tests(CASES))
