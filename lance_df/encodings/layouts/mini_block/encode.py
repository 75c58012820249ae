"""Encode mini-block pages: chunks of a few KiB, each with its own levels and values.

Format: docs/format/mini_block.md.

::

    chunk    u16 num_levels | u16 rep_size? | u16 def_size? | u16/u32 size of each value buffer | pad to 8
             rep block | pad | def block | pad | value buffer 0 | pad | ...
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.buffers import Chunked
from lance_df.encodings.codecs.encode_blocks import DictionaryValues, encode_dictionary, encode_levels
from lance_df.encodings.encode_chunks import (
    ChunkBuffer,
    ChunkedValues,
    ValueCutter,
    chunk_ends,
)
from lance_df.encodings.layouts.laid_out_page import LaidOutPage
from lance_df.format.encodings_v2_1 import MiniBlockLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from lance_df.encodings.buffers import Bytes, Counts
    from lance_df.encodings.codecs.encode_options import EncodingOptions
    from lance_df.encodings.encoded_page import Buffer
    from lance_df.encodings.levels.encode import LeafColumn

_MAX_CHUNK_BYTES_2_1 = 32 * 1024
_MAX_U16 = 0xFFFF
_ALIGNMENT = 8


def encode_mini_block(
    leaf: LeafColumn,
    cutter: ValueCutter,
    options: EncodingOptions,
    *,
    large_chunks: bool,
    dictionary: DictionaryValues | None = None,
) -> LaidOutPage | None:
    """Lay out a page as chunks.

    Parameters
    ----------
    leaf
        The levels of the page, with at least one visible item.
    cutter
        The encoder of the values, or of the dictionary indices.
    options
        The options for the compression of the dictionary.
    large_chunks
        Whether the page is for 2.2: sizes have 32 bits, levels may be runs, dictionaries may be compressed.
    dictionary
        The values that the indices refer to.

    Returns
    -------
    The page, or None if no split into chunks is within the limits of the format, because
    there are too many empty lists between two values.
    """
    items = cutter.chunk_items
    while items >= 2:
        if (cut := _try_cut(leaf, cutter.cut, items, large_chunks=large_chunks)) is not None:
            layout, buffers = cut
            break
        items //= 2
    else:
        return None
    if dictionary is not None:
        wanted = options.dictionary_compression if large_chunks else None
        encoding, block = encode_dictionary(dictionary, wanted)
        layout = replace(layout, dictionary=encoding, num_dictionary_items=len(dictionary))
        buffers.insert(2, block)
    return LaidOutPage(layout=layout, buffers=tuple(buffers), num_rows=leaf.num_rows)


def _try_cut(
    leaf: LeafColumn, cut: Callable[[int], ChunkedValues], chunk_items: int, *, large_chunks: bool
) -> tuple[MiniBlockLayout, list[Buffer]] | None:
    slot_ends = _slot_ends(leaf, chunk_items)
    slot_counts = np.diff(slot_ends, prepend=0)
    if slot_counts.max() > _MAX_U16:
        return None
    repetition = definition = None
    levels: list[ChunkBuffer] = []
    if leaf.repetition is not None:
        repetition, blocks = encode_levels(
            leaf.repetition, slot_ends, max_level=leaf.max_repetition, allow_runs=large_chunks
        )
        levels.append(blocks)
    if leaf.definition is not None:
        definition, blocks = encode_levels(
            leaf.definition, slot_ends, max_level=leaf.max_definition, allow_runs=large_chunks
        )
        levels.append(blocks)
    if any(section.sizes.max() > _MAX_U16 for section in levels):
        return None
    values = cut(chunk_items)
    chunk_sizes, data = _join(slot_counts, levels, values.buffers, large_chunks=large_chunks)
    if not large_chunks and chunk_sizes.max() > _MAX_CHUNK_BYTES_2_1:
        return None
    buffers: list[Buffer] = [_chunk_words(chunk_sizes, chunk_items, large_chunks=large_chunks), data.data]
    if leaf.repetition is not None:
        buffers.append(_repetition_index(leaf.repetition == leaf.max_repetition, slot_ends))
    layout = MiniBlockLayout(
        values=values.encoding,
        num_items=len(leaf.values),
        num_buffers=len(values.buffers),
        layers=leaf.layers,
        repetition=repetition,
        definition=definition,
        repetition_index_depth=0 if leaf.repetition is None else 1,
        has_large_chunk=large_chunks,
    )
    return layout, buffers


def _slot_ends(leaf: LeafColumn, chunk_items: int) -> Counts:
    """Return the end of each chunk's slots: after its last visible slot; the last chunk takes the rest."""
    ends = chunk_ends(len(leaf.values), chunk_items)[:-1]
    visible = leaf.visible()
    if visible is not None:
        ends = np.flatnonzero(visible)[ends - 1] + 1
    return np.append(ends, leaf.num_slots)


def _join(
    slot_counts: Counts, levels: Sequence[ChunkBuffer], values: Sequence[ChunkBuffer], *, large_chunks: bool
) -> tuple[Counts, Bytes]:
    """Return the size of each chunk, and all chunks."""
    headers = _headers(slot_counts, levels, values, large_chunks=large_chunks)
    width = headers.itemsize
    heads = Chunked.consecutive(headers.view(np.uint8), np.full(len(headers), width, np.int64))
    sections = [ChunkBuffer.of(heads), *levels, *values]
    padded = [section.sizes + -section.sizes % _ALIGNMENT for section in sections]
    chunk_sizes = np.sum(padded, axis=0)
    out = np.zeros(int(chunk_sizes.sum()), np.uint8)
    starts = np.cumsum(chunk_sizes) - chunk_sizes
    for section, sizes in zip(sections, padded, strict=True):
        section.copy_to(out, starts)
        starts = starts + sizes
    return chunk_sizes, out


def _headers(
    slot_counts: Counts, levels: Sequence[ChunkBuffer], values: Sequence[ChunkBuffer], *, large_chunks: bool
) -> npt.NDArray[np.void]:
    kinds = ["<u2"] * len(levels) + ["<u4" if large_chunks else "<u2"] * len(values)
    fields = [("num_levels", "<u2"), *((f"size{i}", kind) for i, kind in enumerate(kinds))]
    header_bytes = np.dtype(fields).itemsize
    if padding := -header_bytes % _ALIGNMENT:
        fields.append(("padding", f"V{padding}"))
    headers = np.zeros(len(slot_counts), np.dtype(fields))
    if levels:
        headers["num_levels"] = slot_counts
    for i, section in enumerate((*levels, *values)):
        headers[f"size{i}"] = section.sizes
    return headers


def _chunk_words(chunk_sizes: Counts, chunk_items: int, *, large_chunks: bool) -> bytes:
    log = chunk_items.bit_length() - 1
    words = (chunk_sizes // _ALIGNMENT - 1) << 4 | log
    words[-1] ^= log  # the last chunk has the remaining items; its word does not store their number
    return words.astype("<u4" if large_chunks else "<u2").tobytes()


def _repetition_index(row_starts: npt.NDArray[np.bool_], slot_ends: Counts) -> bytes:
    """Return, for each chunk, the rows that end in it and the slots at its end whose row continues."""
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
