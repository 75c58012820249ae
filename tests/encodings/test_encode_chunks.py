"""Chunks of values: bit-packed, as runs, and as they are; few of them and many."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_df.encodings.bitpacked.decode import decode_inline
from lance_df.encodings.bitpacked.encode import bitpacking_cutter
from lance_df.encodings.buffers import Chunked
from lance_df.encodings.encode_chunks import ChunkBuffer, chunk_ends, value_cutter
from lance_df.encodings.leaf_values import BooleanValues, VariableValues
from lance_df.encodings.rle.decode import decode_rle
from lance_df.encodings.rle.encode import count_runs, rle_cutter
from lance_df.format.encodings_v2_1 import InlineBitpacking, Rle


def chunked(buffer: ChunkBuffer) -> Chunked:
    padded = buffer.sizes + -buffer.sizes % 8
    starts = np.cumsum(padded) - padded
    out = np.zeros(int(padded.sum()) + 8, np.uint8)
    buffer.copy_to(out, starts)
    return Chunked(out, starts, buffer.sizes)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("count", [1, 1023, 1024, 5000, 100_000])
@pytest.mark.parametrize("items", [1024, 64])
def test_packed_words_come_back(width: int, count: int, items: int) -> None:
    rng = np.random.default_rng(count)
    bits = np.repeat(rng.integers(0, width * 8 + 1, count // 1024 + 1), 1024)[:count]
    words = rng.integers(0, 2**64, count, np.uint64) >> np.minimum(64 - bits, 63).astype(np.uint64)
    words = (words * (bits > 0)).astype(f"<u{width}")
    cut = bitpacking_cutter(words).cut(items)
    assert isinstance(cut.encoding, InlineBitpacking)
    counts = np.diff(chunk_ends(count, items), prepend=0)
    found = decode_inline(cut.encoding, chunked(cut.buffers[0]), counts)
    assert np.array_equal(found.view(words.dtype), words)


def test_packed_size_is_known_before() -> None:
    words = np.random.default_rng(0).integers(0, 1000, 10_000).astype(np.uint32)
    cutter = bitpacking_cutter(words)
    assert cutter.num_bytes == cutter.cut(1024).buffers[0].num_bytes


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 700), min_size=1, max_size=30),
    width=st.sampled_from([1, 2, 4, 8]),
    items=st.sampled_from([2, 64, 2048]),
)
def test_runs_come_back(lengths: list[int], width: int, items: int) -> None:
    words = np.repeat(np.arange(len(lengths)) % 7, lengths).astype(f"<u{width}")
    assert count_runs(words) == 1 + np.count_nonzero(np.diff(words.astype(np.int64)))
    cut = rle_cutter(words, count_runs(words)).cut(items)
    assert isinstance(cut.encoding, Rle)
    counts = np.diff(chunk_ends(len(words), items), prepend=0)
    values, run_lengths = map(chunked, cut.buffers)
    assert len(values) == len(counts)
    assert np.array_equal(decode_rle(cut.encoding, values, run_lengths, counts).view(words.dtype), words)


@pytest.mark.parametrize("count", [1, 3, 100])
def test_bits_in_chunks_of_less_than_a_byte(count: int) -> None:
    flags = np.arange(count) % 3 == 0
    values = BooleanValues(np.packbits(flags, bitorder="little"), count)
    (buffer,) = value_cutter(values).cut(2).buffers
    pairs = np.unpackbits(buffer.joined(), bitorder="little").reshape(-1, 8)[:, :2].reshape(-1)
    assert np.array_equal(pairs[:count], flags)


@pytest.mark.parametrize("items", [2, 4, 4096])
def test_offsets_count_from_the_start_of_each_chunk(items: int) -> None:
    strings = [b"x" * (i % 5) for i in range(301)]
    offsets = np.cumsum([0, *map(len, strings)], dtype=np.int64)
    values = VariableValues(offsets, np.frombuffer(b"".join(strings), np.uint8), 32)
    (buffer,) = value_cutter(values).cut(items).buffers
    assert (buffer.sizes % 4 == 0).all()
    whole, found = buffer.joined(), []
    for start, size in zip(np.cumsum(buffer.sizes) - buffer.sizes, buffer.sizes, strict=True):
        chunk = whole[start : start + size].tobytes()
        first = int.from_bytes(chunk[:4], "little")
        ends = np.frombuffer(chunk, "<u4", first // 4)
        found += [chunk[a:b] for a, b in pairwise(ends.tolist())]
    assert found == strings


def test_spans_are_copied_alike_few_or_many() -> None:
    data = np.random.default_rng(0).integers(0, 256, 1000, np.uint8)
    sizes = np.arange(200) % 5
    spans = Chunked(data, np.arange(200, dtype=np.int64) * 3, sizes.astype(np.int64))
    targets = np.arange(200, dtype=np.int64) * 8
    many, few = np.zeros((2, 1600), np.uint8)
    spans.copy_to(many, targets)
    for i in range(200):
        Chunked(data, spans.starts[i : i + 1], spans.sizes[i : i + 1]).copy_to(few, targets[i : i + 1])
    assert np.array_equal(many, few)
    assert many.any()
