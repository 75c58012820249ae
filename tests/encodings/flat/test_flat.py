"""Values of equal width, as they are."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests


def numbers(count, rng):
    return pa.array([rng.getrandbits(64) - 2**63 for _ in range(count)], pa.int64())


def bits(count, rng):
    return pa.array([rng.random() < 0.5 for _ in range(count)], pa.bool_())


def floats(count, rng):
    special = [float("nan"), -0.0, float("inf")]
    return pa.array([rng.choice(special) if rng.random() < 0.1 else rng.gauss(0, 1e9) for _ in range(count)])


CASES = [
    Case("numbers", numbers, {"0.1": "plain", "2.0": "flat(64", "2.1": "flat(64", "2.2": "flat(64"}),
    Case("bits", bits, {"0.1": "plain", "2.0": "flat(1", "2.1": "flat(1", "2.2": "flat(1"}),
    Case("floats", floats, {"0.1": "plain", "2.0": "flat(64", "2.1": "flat(64", "2.2": "flat(64"}),
]

globals().update(five_tests(CASES))
