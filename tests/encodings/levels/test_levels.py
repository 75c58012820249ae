"""Lists, structs and NULLs above a leaf."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests

STRUCT = pa.struct({"a": pa.int32(), "b": pa.list_(pa.string())})


def lists(count, rng):
    rows = [
        None
        if rng.random() < 0.1
        else [None if rng.random() < 0.1 else rng.getrandbits(9) for _ in range(rng.randrange(4))]
        for _ in range(count)
    ]
    return pa.array(rows, pa.list_(pa.int64()))


def structs(count, rng):
    choices = (None, {"a": None, "b": None}, {"a": 1, "b": []}, {"a": 2, "b": [None, "x"]})
    return pa.array([rng.choice(choices) for _ in range(count)], STRUCT)


def lists_of_structs(count, rng):
    choices = (None, {"a": None, "b": None}, {"a": 1, "b": []}, {"a": 2, "b": [None, "x"]})
    rows = [
        rng.choice((None, [])) if rng.random() < 0.3 else rng.sample(choices, rng.randrange(1, 4))
        for _ in range(count)
    ]
    return pa.array(rows, pa.list_(STRUCT))


CASES = [
    Case("lists", lists, {"2.0": "list-offsets(", "2.1": "mini-block(", "2.2": "mini-block("}),
    Case("structs", structs, {"2.1": "mini-block(", "2.2": "mini-block("}),
    Case("lists_of_structs", lists_of_structs, {"2.1": "mini-block(", "2.2": "mini-block("}),
]

globals().update(five_tests(CASES))
