"""Murmur3 of integers and short strings, beside a plain loop in numba and mmh3 value by value, the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mmh3
import numba
import numpy as np
import pyarrow as pa
from measures import Measure

from lance_df.hashing import murmur3

from .common import Settings, interleaved

TITLE = "murmur3"


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _plain_loop(words: Any, out: Any) -> None:
    for i in range(len(words)):
        word = np.uint64(words[i])
        state = np.uint32(0)
        for half in range(2):
            key = np.uint32((word >> np.uint64(32 * half)) & np.uint64(0xFFFFFFFF))
            key = np.uint32(key * np.uint32(0xCC9E2D51))
            key = np.uint32((key << np.uint32(15)) | (key >> np.uint32(17)))
            state ^= np.uint32(key * np.uint32(0x1B873593))
            state = np.uint32((state << np.uint32(13)) | (state >> np.uint32(19)))
            state = np.uint32(state * np.uint32(5) + np.uint32(0xE6546B64))
        state = np.uint32((state ^ np.uint32(8)) ^ ((state ^ np.uint32(8)) >> np.uint32(16)))
        state = np.uint32(state * np.uint32(0x85EBCA6B))
        state = np.uint32((state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        out[i] = np.int32(state ^ (state >> np.uint32(16)))


def run(settings: Settings) -> Iterator[Measure]:
    size = 2_000 if settings.quick else 1_000_000
    numbers = np.random.default_rng(3).integers(-(1 << 62), 1 << 62, size)
    integers = pa.array(numbers)
    texts = pa.array([f"key-{number % 1_000_000}" for number in numbers.tolist()])
    sample = slice(0, size // 50)
    as_bytes = [number.to_bytes(8, "little", signed=True) for number in numbers[sample].tolist()]
    as_text = texts[sample].to_pylist()
    out = np.empty(size, np.int32)

    def looped() -> pa.Array:
        _plain_loop(numbers, out)
        return pa.array(out[sample])

    works = {
        "ours": lambda: murmur3(integers)[sample],
        "plain loop": looped,
        "mmh3": lambda: _hashed(as_bytes),
    }
    yield from _measures("64-bit integers", works, size, len(as_bytes), settings)
    works = {"ours": lambda: murmur3(texts)[sample], "mmh3": lambda: _hashed(as_text)}
    yield from _measures("strings of about 10 bytes", works, size, len(as_bytes), settings)


def _hashed(values: list[Any]) -> pa.Array:
    return pa.array(map(mmh3.hash, values), pa.int32())


def _measures(
    case: str, works: dict[str, Callable[[], pa.Array]], size: int, sampled: int, settings: Settings
) -> Iterator[Measure]:
    for engine, seconds in interleaved(works, settings).items():
        values = sampled if engine == "mmh3" else size
        yield Measure(TITLE, case, engine, "ns a value", tuple(each / values * 1e9 for each in seconds))
