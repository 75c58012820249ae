"""Mini-block pages: chunks of a few KiB, each with its own levels and values. Spec: file format, 4.4.

::

    chunk    u16 num_levels | u16 rep_size? | u16 def_size? | u16/u32 size of each value buffer | pad to 8
             rep block | pad | def block | pad | value buffer 0 | pad | ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lance_df.encodings.v2_1.encode_bitpack import BLOCK_VALUES, bit_widths, pack_blocks, pad_to_blocks
from lance_df.encodings.v2_1.encode_blocks import DictionaryValues, encode_block, encode_levels
from lance_df.encodings.v2_1.encode_values import (
    BooleanValues,
    FixedListValues,
    FixedValues,
    LeafValues,
    VariableValues,
    pack_bits,
)
from lance_df.encodings.v2_1.laid_out_page import LaidOutPage
from lance_df.format.encodings_v2_1 import (
    Encoding,
    FixedSizeList,
    Flat,
    InlineBitpacking,
    MiniBlockLayout,
    Variable,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.v2_1.encode_levels import LeafColumn

Piece: TypeAlias = bytes | memoryview

# What a chunk aims at: small enough for random access, large enough that its header does not count.
_TARGET_CHUNK_BYTES = 16 * 1024
_MAX_CHUNK_ITEMS = 4096
_MAX_CHUNK_BYTES_2_1 = 32 * 1024
_MAX_U16 = 0xFFFF
_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class ChunkedValues:
    """The values of a page, cut into chunks: ``buffers[i][k]`` is value buffer ``i`` of chunk ``k``."""

    encoding: Encoding
    buffers: Sequence[Sequence[Piece]]


@dataclass(frozen=True, slots=True)
class ValueCutter:
    """A way to encode values.

    Attributes
    ----------
    chunk_items
        Items of each chunk that suit this encoding best, a power of two.
    cut
        Encodes into chunks of so many items; the last chunk takes what is left.
    """

    chunk_items: int
    cut: Callable[[int], ChunkedValues]


def value_cutter(values: LeafValues) -> ValueCutter:
    """Return how to store ``values`` as they are."""
    match values:
        case FixedValues(_, width):
            return ValueCutter(_chunk_items(width), lambda items: _cut_fixed(values, items))
        case BooleanValues():
            return ValueCutter(_MAX_CHUNK_ITEMS, lambda items: _cut_bits(values, items))
        case FixedListValues():
            width = _list_bits(values) // 8 + 1
            return ValueCutter(max(8, _chunk_items(width)), lambda items: _cut_lists(values, items))
        case VariableValues():
            width = values.offset_bits // 8 + len(values.data) // max(1, len(values))
            return ValueCutter(_chunk_items(width), lambda items: _cut_variable(values, items))


def bitpacking_cutter(words: npt.NDArray[np.unsignedinteger]) -> tuple[ValueCutter, int]:
    """Return how to store unsigned words bit-packed, and how many bytes that takes."""
    blocks = pad_to_blocks(words)
    widths = bit_widths(blocks)
    num_bytes = int(widths.sum()) * BLOCK_VALUES // 8 + len(widths) * words.itemsize
    return ValueCutter(BLOCK_VALUES, lambda items: _cut_bitpacked(words, blocks, widths, items)), num_bytes


def encode_mini_block(
    leaf: LeafColumn,
    cutter: ValueCutter,
    *,
    large_chunks: bool,
    dictionary: DictionaryValues | None = None,
) -> LaidOutPage | None:
    """Lay out a page as chunks.

    Parameters
    ----------
    leaf
        Levels of the page; at least one visible item.
    cutter
        Encoder of its values, or of its dictionary indices.
    large_chunks
        Whether sizes take 32 bits, as they must from 2.2 on.
    dictionary
        Values that the indices stand for.

    Returns
    -------
    None when no cut satisfies the limits of the format: too many empty lists between two values.
    """
    items = cutter.chunk_items
    while items >= 2:
        page = _try_cut(leaf, cutter.cut, items, large_chunks=large_chunks, dictionary=dictionary)
        if page is not None:
            return page
        items //= 2
    return None


def _try_cut(
    leaf: LeafColumn,
    cut: Callable[[int], ChunkedValues],
    chunk_items: int,
    *,
    large_chunks: bool,
    dictionary: DictionaryValues | None,
) -> LaidOutPage | None:
    num_items = len(leaf.values)
    slot_ends = _slot_ends(leaf, chunk_items)
    slot_counts = np.diff(slot_ends, prepend=0)
    if slot_counts.max() > _MAX_U16:
        return None
    repetition = definition = None
    sections: list[Sequence[Piece]] = []
    if leaf.repetition is not None:
        repetition, blocks = encode_levels(leaf.repetition, slot_ends, max_level=leaf.max_repetition)
        sections.append(blocks)
    if leaf.definition is not None:
        definition, blocks = encode_levels(leaf.definition, slot_ends, max_level=leaf.max_definition)
        sections.append(blocks)
    num_level_sections = len(sections)
    values = cut(chunk_items)
    sections.extend(values.buffers)
    sizes = np.array([[len(piece) for piece in section] for section in sections], np.int64)
    if num_level_sections and sizes[:num_level_sections].max() > _MAX_U16:
        return None

    headers = _headers(
        slot_counts if num_level_sections else slot_counts * 0, sizes, num_level_sections, large_chunks
    )
    chunk_sizes = headers.itemsize + (-(-sizes // _ALIGNMENT) * _ALIGNMENT).sum(axis=0)
    if not large_chunks and chunk_sizes.max() > _MAX_CHUNK_BYTES_2_1:
        return None
    buffers = [_chunk_words(chunk_sizes, chunk_items, large_chunks), _join(headers, sections, sizes)]
    dictionary_encoding = None
    if dictionary is not None:
        dictionary_encoding, block = encode_block(dictionary)
        buffers.append(block)
    if leaf.repetition is not None:
        buffers.append(_repetition_index(leaf.repetition == leaf.max_repetition, slot_ends))
    layout = MiniBlockLayout(
        values=values.encoding,
        num_items=num_items,
        num_buffers=len(values.buffers),
        layers=leaf.layers,
        repetition=repetition,
        definition=definition,
        dictionary=dictionary_encoding,
        num_dictionary_items=0 if dictionary is None else len(dictionary),
        repetition_index_depth=0 if leaf.repetition is None else 1,
        has_large_chunk=large_chunks,
    )
    return LaidOutPage(layout=layout, buffers=tuple(buffers), num_rows=leaf.num_rows)


def _slot_ends(leaf: LeafColumn, chunk_items: int) -> npt.NDArray[np.int64]:
    """Return where the slots of each chunk stop: after its last visible slot; the last one takes the rest."""
    num_items = len(leaf.values)
    ends = np.arange(chunk_items, num_items, chunk_items, dtype=np.int64)
    visible = leaf.visible()
    if visible is not None:
        ends = np.flatnonzero(visible)[ends - 1] + 1
    return np.append(ends, leaf.num_slots)


def _headers(
    slot_counts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    num_level_sections: int,
    large_chunks: bool,
) -> npt.NDArray[np.void]:
    names = [f"size{i}" for i in range(len(sizes))]
    widths = ["<u2"] * num_level_sections + ["<u4" if large_chunks else "<u2"] * (
        len(sizes) - num_level_sections
    )
    fields = [("num_levels", "<u2"), *zip(names, widths, strict=True)]
    header_bytes = np.dtype(fields).itemsize
    if padding := -header_bytes % _ALIGNMENT:
        fields.append(("padding", f"V{padding}"))
    headers = np.zeros(len(slot_counts), np.dtype(fields))
    headers["num_levels"] = slot_counts
    for name, section_sizes in zip(names, sizes, strict=True):
        headers[name] = section_sizes
    return headers


def _chunk_words(chunk_sizes: npt.NDArray[np.int64], chunk_items: int, large_chunks: bool) -> bytes:
    log = chunk_items.bit_length() - 1
    words = (chunk_sizes // _ALIGNMENT - 1) << 4 | log
    words[-1] ^= log  # the last chunk takes what is left, which its word does not say
    return words.astype("<u4" if large_chunks else "<u2").tobytes()


def _join(
    headers: npt.NDArray[np.void], sections: Sequence[Sequence[Piece]], sizes: npt.NDArray[np.int64]
) -> bytes:
    raw = memoryview(headers.tobytes())
    width = headers.itemsize
    paddings = [[bytes(pad) for pad in row] for row in (-sizes % _ALIGNMENT).tolist()]
    pieces: list[Piece] = []
    for chunk in range(len(headers)):
        pieces.append(raw[chunk * width : (chunk + 1) * width])
        for section, padding in zip(sections, paddings, strict=True):
            pieces += (section[chunk], padding[chunk])
    return b"".join(pieces)


def _repetition_index(row_starts: npt.NDArray[np.bool_], slot_ends: npt.NDArray[np.int64]) -> bytes:
    """Return, for each chunk, the rows that end in it and the slots at its end whose row goes on."""
    slot_starts = np.concatenate([[0], slot_ends[:-1]])
    started = np.concatenate([[0], np.cumsum(row_starts)])
    starts_in_chunk = started[slot_ends] - started[slot_starts]
    begins_inside_row = ~row_starts[slot_starts]
    goes_on = np.append(begins_inside_row[1:], False)
    finished = np.maximum(starts_in_chunk + begins_inside_row - goes_on.astype(np.int64), 0)
    positions = np.flatnonzero(row_starts)
    last_start = np.maximum(positions[started[slot_ends] - 1], slot_starts)
    partial = np.where(goes_on, slot_ends - last_start, 0)
    return np.stack([finished, partial], axis=1).astype("<u8").tobytes()


def _chunk_items(width_bytes: int) -> int:
    """Return the largest power of two whose values fit in a chunk, at least 2."""
    fitting = max(2, min(_MAX_CHUNK_ITEMS, _TARGET_CHUNK_BYTES // max(1, width_bytes)))
    return 1 << (fitting.bit_length() - 1)


def _slices(data: memoryview, chunk_bytes: int) -> list[memoryview]:
    return [data[start : start + chunk_bytes] for start in range(0, max(1, len(data)), chunk_bytes)]


def _cut_fixed(values: FixedValues, items: int) -> ChunkedValues:
    return ChunkedValues(
        Flat(values.width_bytes * 8), [_slices(values.data.data, items * values.width_bytes)]
    )


def _cut_bits(values: BooleanValues, items: int) -> ChunkedValues:
    if items < 8:
        flags = np.unpackbits(values.bitmap, bitorder="little", count=len(values)).astype(np.bool_)
        pieces: list[Piece] = [
            pack_bits(flags[start : start + items]).tobytes() for start in range(0, len(flags), items)
        ]
        return ChunkedValues(Flat(1), [pieces])
    return ChunkedValues(Flat(1), [_slices(values.bitmap.data, items // 8)])


def _cut_lists(values: FixedListValues, items: int) -> ChunkedValues:
    encoding: Encoding = Flat(1 if isinstance(values.items, BooleanValues) else values.items.width_bytes * 8)
    buffers: list[Sequence[Piece]] = []
    per_value = 1
    for layer in values.layers:
        per_value *= layer.dimension
        if layer.validity is not None:
            bitmap = BooleanValues(pack_bits(layer.validity), len(layer.validity))
            buffers.extend(_cut_bits(bitmap, items * per_value).buffers)
    for layer in reversed(values.layers):
        encoding = FixedSizeList(layer.dimension, encoding, layer.validity is not None)
    cut = _cut_bits if isinstance(values.items, BooleanValues) else _cut_fixed
    buffers.extend(cut(values.items, items * per_value).buffers)  # type: ignore[arg-type]
    return ChunkedValues(encoding, buffers)


def _list_bits(values: FixedListValues) -> int:
    per_value, bits = 1, 0
    for layer in values.layers:
        per_value *= layer.dimension
        bits += per_value if layer.validity is not None else 0
    return bits + per_value * (1 if isinstance(values.items, BooleanValues) else values.items.width_bytes * 8)


def _cut_variable(values: VariableValues, items: int) -> ChunkedValues:
    """Give every chunk its own offsets, counted from the start of the buffer, and its bytes."""
    dtype = np.dtype(f"<u{values.offset_bits // 8}")
    data = values.data.data
    pieces: list[Piece] = []
    for first in range(0, max(1, len(values)), items):
        offsets = values.offsets[first : first + items + 1]
        start, stop = int(offsets[0]), int(offsets[-1])
        head = (offsets - (start - len(offsets) * dtype.itemsize)).astype(dtype)
        pieces.append(b"".join((head.tobytes(), data[start:stop], bytes((start - stop) % dtype.itemsize))))
    return ChunkedValues(Variable(values.offset_bits), [pieces])


def _cut_bitpacked(
    words: npt.NDArray[np.unsignedinteger],
    blocks: npt.NDArray[np.unsignedinteger],
    widths: npt.NDArray[np.int64],
    items: int,
) -> ChunkedValues:
    if items != BLOCK_VALUES:
        blocks = np.concatenate([pad_to_blocks(words[i : i + items]) for i in range(0, len(words), items)])
        widths = bit_widths(blocks)
    pieces: list[Piece] = [b""] * len(blocks)
    for width in np.unique(widths).tolist():
        (chosen,) = np.nonzero(widths == width)
        head = np.full((len(chosen), 1), width, words.dtype)
        packed = memoryview(np.concatenate([head, pack_blocks(blocks[chosen], width)], axis=1).tobytes())
        size = len(packed) // len(chosen)
        for position, chunk in enumerate(chosen.tolist()):
            pieces[chunk] = packed[position * size : (position + 1) * size]
    return ChunkedValues(InlineBitpacking(words.itemsize * 8), [pieces])
