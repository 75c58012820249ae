"""One record for each slot."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests


def texts(count, rng):
    return pa.array([None if rng.random() < 0.1 else f"{rng.getrandbits(40):x}" * 3 for _ in range(count)])


def vectors(count, rng):
    items = pa.array([rng.getrandbits(20) / 7 for _ in range(20 * count)], pa.float32())
    return pa.FixedSizeListArray.from_arrays(items, 20)


def lists(count, rng):
    rows = [
        None if rng.random() < 0.1 else [f"{rng.getrandbits(40):x}" * 30] * rng.randrange(3)
        for _ in range(count)
    ]
    return pa.array(rows, pa.list_(pa.string()))


FULL_ZIP = {"structural-encoding": "fullzip"}
CASES = [
    Case(made.__name__, made, {"2.1": "full-zip(", "2.2": "full-zip("}, FULL_ZIP)
    for made in (texts, vectors, lists)
]

globals().update(five_tests(CASES))
