"""Murmur3 of integers and short strings, beside its steps in numpy and mmh3 value by value, the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from measures import Measure

from lance_df.hashing import murmur3

from .common import Settings, interleaved

TITLE = "murmur3"


def _with_numpy(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    state = np.zeros(len(numbers), np.uint32)
    for key in numbers.view(np.uint32).reshape(-1, 2).T:
        state ^= _rotated(key * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        state = _rotated(state, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(8)
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (state ^ (state >> np.uint32(16))).view(np.int32)


def _rotated(words: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    rotated: npt.NDArray[np.uint32] = words << np.uint32(bits) | words >> np.uint32(32 - bits)
    return rotated


def run(settings: Settings) -> Iterator[Measure]:
    size = 2_000 if settings.quick else 1_000_000
    numbers = np.random.default_rng(3).integers(-(1 << 62), 1 << 62, size)
    integers = pa.array(numbers)
    texts = pa.array([f"key-{number % 1_000_000}" for number in numbers.tolist()])
    sample = slice(0, size // 50)
    as_bytes = [number.to_bytes(8, "little", signed=True) for number in numbers[sample].tolist()]
    as_text = texts[sample].to_pylist()
    works = {
        "ours": lambda: murmur3(integers)[sample],
        "numpy": lambda: pa.array(_with_numpy(numbers)[sample]),
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
