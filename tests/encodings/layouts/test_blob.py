"""Values that lie elsewhere in the file."""

from __future__ import annotations

import pyarrow as pa

from tests.encodings.encoded_cases import Case, five_tests


def payloads(count, rng):
    sizes = (0, 1, 63, 64, 65, 300)
    rows = [None if rng.random() < 0.1 else rng.randbytes(rng.choice(sizes)) for _ in range(count)]
    return pa.array(rows, pa.large_binary())


def bytes_at(described, path):
    """Return the bytes that positions and sizes mean."""
    if described.type == pa.large_binary():
        return described
    content = path.read_bytes()
    rows = []
    for each in described.to_pylist():
        is_null = each is None or (not each["size"] and each["position"])
        rows.append(None if is_null else content[each["position"] :][: each["size"]])
    return pa.array(rows, pa.large_binary())


CASES = [
    Case("payloads", payloads, {"2.0": "packed-struct(", "2.1": "blob"}, {"blob": "true"}, stored=bytes_at)
]

globals().update(five_tests(CASES))
