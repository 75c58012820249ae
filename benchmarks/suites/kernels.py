"""Kernels on one core, beside copying as many bytes as they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from measures import Measure

from lance_df.encodings.fsst.symbol_table import SymbolTable
from lance_df.encodings.fsst.train import train_symbols
from lance_df.encodings.kernels import fastlanes, gather

from .common import Settings, interleaved

TITLE = "kernels"

_BLOCK = 1024
_WORDS = ("carefully", "final", "deposits", "sleep", "blithely", "above", "the", "even", "ideas", "among")

Work = tuple[Callable[[], Any], Any]


def run(settings: Settings) -> Iterator[Measure]:
    num_blocks = 2 if settings.quick else 256
    random = np.random.default_rng(3)
    for bits, width in ((8, 3), (16, 9), (32, 13), (64, 33)):
        case = f"unpack {bits}-bit values of {width} bits"
        yield from _measures(case, *_unpacking(random, num_blocks, bits, width), settings)
    yield from _measures("take every third of 8-byte values", *_taking(num_blocks), settings)
    yield from _measures("expand FSST codes of text", *_expanding(random, num_blocks), settings)


def _unpacking(random: np.random.Generator, num_blocks: int, bits: int, width: int) -> Work:
    block_bytes = _BLOCK * width // 8
    packed = random.integers(0, 256, num_blocks * block_bytes, np.uint8)
    starts, widths = np.arange(num_blocks) * block_bytes, np.full(num_blocks, width)
    counts = np.full(num_blocks, _BLOCK)
    out = np.empty((num_blocks + 1) * _BLOCK * bits // 8, np.uint8)
    written = out[: num_blocks * _BLOCK * bits // 8]

    def unpack() -> Any:
        fastlanes.unpack_blocks(packed, starts, widths, counts, bits, out)
        return written

    return unpack, written


def _taking(num_blocks: int) -> Work:
    values = np.arange(num_blocks * _BLOCK * 3).view(np.uint8)
    positions = np.arange(0, num_blocks * _BLOCK * 3, 3)
    out = np.empty(num_blocks * _BLOCK * 8, np.uint8)

    def take() -> Any:
        gather.gather_values(values, 8, positions.view(np.uint8), 8, out)
        return out

    return take, out


def _expanding(random: np.random.Generator, num_blocks: int) -> Work:
    texts = [" ".join(random.choice(_WORDS, 5)).encode() for _ in range(num_blocks * 64)]
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    data = np.frombuffer(b"".join(texts), np.uint8)
    coder, _ = train_symbols(offsets, data)
    ends, codes = coder.encode(offsets, data)
    table = SymbolTable.parse(coder.serialize())
    return lambda: table.expand(ends, codes)[1], data


def _measures(case: str, work: Callable[[], Any], written: Any, settings: Settings) -> Iterator[Measure]:
    """Measure a kernel, and a copy of what it writes."""
    work()
    source, target = written.copy(), np.empty_like(written)

    def copy() -> Any:
        np.copyto(target, source)
        return target

    works = {"ours": work, "copy": copy}
    for engine, seconds in interleaved(works, settings, np.array_equal).items():
        per_kib = tuple(each / written.nbytes * 1024e9 for each in seconds)
        yield Measure(TITLE, case, engine, "ns a KiB", per_kib)
