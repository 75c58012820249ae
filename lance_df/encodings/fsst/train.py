"""Train FSST symbols for strings, and encode strings with them. See `fsst` for the format.

The symbols grow over a few rounds, as in the paper on FSST (Boncz, Neumann, Leis; VLDB 2020): each round
encodes a sample with the current symbols, and keeps the best of these and of the joined pairs of adjacent
symbols.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lance_df.encodings.fsst.symbol_table import MAGIC, MAX_SYMBOLS
from lance_df.encodings.kernels import fsst_encode
from lance_df.records import dataclass

TABLE_BYTES = 8 + 256 * 9
_ROUNDS = 8
_SAMPLE_BYTES = 32 * 1024
_SAMPLE_PIECE = 128
_SAMPLE_STEP = 97
_COMPRESSED = 1 << 24
# an escaped byte takes two, and other data than the sample would need more of them
_SINGLE_BYTE_WEIGHT = 8
_MIN_COUNT = 3
_MAX_CHAIN = 8

Offsets = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class SymbolCoder:
    """Up to 255 symbols, indexed to find the longest one that a text starts with."""

    symbols: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint8]
    _masked: npt.NDArray[np.uint64]
    _short: npt.NDArray[np.int32]
    _heads: npt.NDArray[np.int32]
    _links: npt.NDArray[np.int32]

    @classmethod
    def of(cls, symbols: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint8]) -> SymbolCoder:
        """Index symbols, given as little-endian words, by their first bytes."""
        masks = np.uint64(2**64 - 1) >> (64 - 8 * lengths.astype(np.uint64))
        short = np.full((256, 256), 1 << 9 | 256, np.int32)  # second byte, first byte
        codes = np.arange(len(symbols), dtype=np.int32)
        single, double = lengths == 1, lengths == 2
        short[:, symbols[single].astype(np.intp)] = codes[single] | 1 << 9
        short.reshape(-1)[symbols[double].astype(np.intp)] = codes[double] | 2 << 9
        heads, chain = np.full(4096, -1, np.int32), np.full(len(symbols), -1, np.int32)
        hashes = ((symbols & np.uint64(0xFFFFFF)) * np.uint64(2654435761) >> np.uint64(20)) & np.uint64(4095)
        long_symbols = np.flatnonzero(lengths > 2)
        for code in _first_of_each(long_symbols, hashes[long_symbols], lengths):
            chain[code], heads[hashes[code]] = heads[hashes[code]], code
        masked = np.stack((symbols, masks), axis=1).reshape(-1)
        return cls(symbols, lengths, masked, short.reshape(-1), heads, chain << 4 | lengths)

    def encode(self, offsets: Offsets, data: Bytes) -> tuple[Offsets, Bytes]:
        """Return offsets and codes of values; value i is ``data[offsets[i]:offsets[i + 1]]``."""
        out = np.empty(2 * len(data), np.uint8)
        out_offsets = np.empty(len(offsets), np.int64)
        tables = (self._masked, self._short, self._heads, self._links)
        size = fsst_encode.encode_fsst(data, offsets, *tables, out, out_offsets)
        return out_offsets, out[:size]

    def serialize(self) -> bytes:
        """Return the table in the form that files store."""
        header = MAGIC << 32 | _COMPRESSED | len(self.symbols)
        parts = (header.to_bytes(8, "little"), self.symbols.astype("<u8").tobytes(), self.lengths.tobytes())
        return b"".join(parts).ljust(TABLE_BYTES, b"\0")


def _first_of_each(
    codes: npt.NDArray[np.intp], hashes: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint8]
) -> list[int]:
    """Return the first few codes of each hash, shortest first, since long lists would be slow to search."""
    order = np.argsort(hashes, kind="stable")
    firsts = np.searchsorted(hashes[order], hashes[order])
    chained = codes[order][np.arange(len(order)) - firsts < _MAX_CHAIN]
    ordered: list[int] = chained[np.argsort(lengths[chained], kind="stable")].tolist()
    return ordered


def train_symbols(offsets: Offsets, data: Bytes) -> tuple[SymbolCoder, float]:
    """Train symbols for byte strings.

    Parameters
    ----------
    offsets, data
        At least one byte. Value i is ``data[offsets[i]:offsets[i + 1]]``; offsets start with 0.

    Returns
    -------
    The symbols, and the ratio of encoded to original size of a sample.
    """
    sample_offsets, sample = _sample(offsets, data)
    coder = SymbolCoder.of(np.zeros(0, np.uint64), np.zeros(0, np.uint8))
    for last in [False] * (_ROUNDS - 1) + [True]:
        coder = _next_round(coder, *coder.encode(sample_offsets, sample), keep_pairs=not last)
    _, codes = coder.encode(sample_offsets, sample)
    return coder, len(codes) / len(sample)


def _sample(offsets: Offsets, data: Bytes) -> tuple[Offsets, Bytes]:
    """Return pieces of values, spread over all data and over all values."""
    if len(data) <= _SAMPLE_BYTES:
        return offsets, data
    lengths = np.minimum(np.diff(offsets), _SAMPLE_PIECE)
    filled = np.flatnonzero(lengths)
    wanted = max(1, int(_SAMPLE_BYTES / lengths[filled].mean()))
    chosen = filled[:: max(1, len(filled) // wanted)]
    sizes = lengths[chosen]
    room = offsets[chosen + 1] - offsets[chosen] - sizes
    starts = offsets[chosen] + np.arange(len(chosen)) * _SAMPLE_STEP % (room + 1)
    ends = np.cumsum(sizes)
    positions = np.repeat(starts - (ends - sizes), sizes) + np.arange(int(ends[-1]))
    return np.concatenate([[0], ends]).astype(np.int64), data[positions]


def _next_round(coder: SymbolCoder, offsets: Offsets, codes: Bytes, *, keep_pairs: bool) -> SymbolCoder:
    counts, pairs = np.zeros(512, np.int32), np.zeros((512, 512), np.int32)
    firsts = np.where(coder.lengths > 1, (coder.symbols & np.uint64(0xFF)).astype(np.int64), -1)
    fsst_encode.count_fsst(codes, offsets, counts, pairs.reshape(-1), firsts)
    words, lengths = np.zeros(512, np.uint64), np.ones(512, np.int64)
    words[: len(coder.symbols)], words[256:] = coder.symbols, np.arange(256)
    lengths[: len(coder.lengths)] = coder.lengths

    (units,) = np.nonzero(counts)
    candidates = [(words[units], lengths[units], counts[units])]
    if keep_pairs:
        # most pairs occur once, and those save nothing
        first, second = np.divmod(np.flatnonzero(pairs.reshape(-1) > 1), 512)
        fits = lengths[first] + lengths[second] <= 8
        first, second = first[fits], second[fits]
        joined = words[first] | words[second] << (8 * lengths[first]).astype(np.uint64)
        candidates.append((joined, lengths[first] + lengths[second], pairs[first, second]))
    return _best(*(np.concatenate(parts) for parts in zip(*candidates, strict=True)))


def _best(
    words: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64], counts: npt.NDArray[np.int32]
) -> SymbolCoder:
    """Keep the candidates that save most; counts of equal candidates are added up."""
    order = np.lexsort((lengths, words))
    words, lengths, counts = words[order], lengths[order], counts[order]
    differs = (words[1:] != words[:-1]) | (lengths[1:] != lengths[:-1])
    starts = np.flatnonzero(np.concatenate([[True], differs]))
    words, lengths, counts = words[starts], lengths[starts], np.add.reduceat(counts, starts)
    gain = counts * np.where(lengths == 1, _SINGLE_BYTE_WEIGHT, lengths)
    gain[counts < _MIN_COUNT] = 0
    best = np.argsort(-gain, kind="stable")[:MAX_SYMBOLS]
    best = best[gain[best] > 0]
    return SymbolCoder.of(words[best], lengths[best].astype(np.uint8))
