"""Record the keys that a merge inserted, so that concurrent merges detect a new key that both insert.

The transaction of a merge holds a split block Bloom filter of these keys. A block has eight little-endian
u32; the upper half of a hash selects the block, the lower half one bit of each word. Observed with pylance
14: it writes a filter of 1024 blocks if the keys are the unenforced primary key of the table, in its order.
It hashes with xxHash64 and seed 0: 32 and 64-bit integers as eight bytes, strings and binary unchanged, and
the parts of a key of several columns with a zero byte after each. It leaves out keys of other types, so it
does not detect these; we convert them to one of the forms above. It conflicts with filters that share a key
with its own, with appends, and with updates that have no filter.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import fixed_width_bits
from lance_df.encodings.kernels.hashing import xxhash64_bytes
from lance_df.encodings.leaf_values import is_variable
from lance_df.expr.literals import plain_array, storage_type, without_views
from lance_df.format.operations import Append, InsertedKeys
from lance_df.table.indices.split_block_filter import BLOCK_BYTES, blocks_and_bits
from lance_df.table.key_values import comparable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.format.operations import Update

    Hashes: TypeAlias = npt.NDArray[np.uint64]
    Blocks: TypeAlias = npt.NDArray[np.uint32]

# For a primary key: the number that pylance writes and can compare. Other filters may be smaller.
_NUM_BLOCKS: Final = 1024
_MIN_BLOCKS: Final = 8
_KEYS_PER_BLOCK: Final = 4


def inserted_keys(
    field_ids: Sequence[int], columns: Sequence[pa.Array], *, is_primary: bool, is_part: bool = False
) -> InsertedKeys:
    """Return the filter of some keys.

    Parameters
    ----------
    columns
        The parts of the keys. Keys with a null match nothing, and are left out.
    is_primary
        Whether they are the primary key of the table.
    is_part
        Whether `united_keys` will unite the filter with those of other keys.
    """
    hashes = _hashes(columns)
    num_blocks = _NUM_BLOCKS
    if not (is_primary or is_part):
        wanted = 1 << max(len(hashes) // _KEYS_PER_BLOCK, 1).bit_length()
        num_blocks = min(max(wanted, _MIN_BLOCKS), _NUM_BLOCKS)
    words = np.zeros((num_blocks, 8), np.uint32)
    blocks, bits = _block_and_bit(hashes, num_blocks)
    np.bitwise_or.at(words, blocks, bits)
    return InsertedKeys(
        tuple(field_ids),
        words.astype("<u4").tobytes(),
        number_of_items=8 * num_blocks,
        is_primary=is_primary,
        is_common=all(_is_common(column.type) for column in columns),
        hashes=None if is_part else hashes,
    )


def united_keys(parts: Sequence[InsertedKeys]) -> InsertedKeys:
    """Unite one or more filters that were made with ``is_part``."""
    words = np.bitwise_or.reduce([np.frombuffer(part.blocks or b"", "<u4") for part in parts])
    return dataclasses.replace(parts[0], blocks=words.tobytes())


def may_repeat_keys(mine: Update, theirs: Append | Update) -> bool:
    """Return whether a merge may have inserted a key that another commit may have inserted, too."""
    keys = mine.inserted_keys
    if keys is None or _is_empty(keys):
        return False
    if isinstance(theirs, Append):
        return keys.is_primary and bool(theirs.fragments)
    if not theirs.new_fragments:
        return not set(theirs.fields_modified).isdisjoint(keys.field_ids)
    if theirs.inserted_keys is not None:
        return _may_share_keys(keys, theirs.inserted_keys)
    # an update names the columns that it assigns; a merge names all columns that it writes
    assigned = set(theirs.fields_for_preserving_frag_bitmap)
    return not assigned or not keys.field_ids or not assigned.isdisjoint(keys.field_ids)


def _may_share_keys(mine: InsertedKeys, theirs: InsertedKeys) -> bool:
    our_words, their_words = _words(mine), _words(theirs)
    if mine.field_ids != theirs.field_ids or our_words is None or their_words is None:
        return True
    if not mine.is_common and _is_empty(theirs):
        return True
    if mine.hashes is not None:
        blocks, bits = _block_and_bit(mine.hashes, len(their_words))
        return bool(((their_words[blocks] & bits) != 0).all(axis=1).any())
    num_blocks = min(len(our_words), len(their_words))
    common = _folded(our_words, num_blocks) & _folded(their_words, num_blocks)
    return bool((common != 0).all(axis=1).any())


def _is_empty(keys: InsertedKeys) -> bool:
    return keys.blocks is not None and not any(keys.blocks)


def _is_common(data_type: pa.DataType) -> bool:
    """Whether pylance puts keys of this type into its filters."""
    if pa.types.is_integer(data_type):
        return int(data_type.bit_width) >= 32
    return is_variable(data_type)


def _words(keys: InsertedKeys) -> Blocks | None:
    """Return the blocks of a filter; None if it is not valid, or cannot be compared with others."""
    num_blocks, rest = divmod(len(keys.blocks or b""), BLOCK_BYTES)
    if keys.blocks is None or rest or num_blocks.bit_count() != 1:
        return None
    return np.frombuffer(keys.blocks, "<u4").reshape(num_blocks, 8)


def _folded(words: Blocks, num_blocks: int) -> Blocks:
    """Fold a filter to fewer blocks; the result equals a filter that was made with that number."""
    return np.bitwise_or.reduce(words.reshape(num_blocks, -1, 8), axis=1)


def _block_and_bit(hashes: Hashes, num_blocks: int) -> tuple[npt.NDArray[np.int64], Blocks]:
    """Return the block of each hash, and its bit in each word of the block."""
    blocks, bits = blocks_and_bits(hashes, num_blocks)
    return blocks, np.uint32(1) << bits


def _hashes(columns: Sequence[pa.Array]) -> Hashes:
    parts = [_bytes_of(column) for column in columns]
    keys = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, *_ends(len(parts[0])))
    keys = keys.drop_null()
    hashes = np.empty(len(keys), np.uint64)
    if len(keys):
        _, offsets, data = keys.buffers()
        ends = np.frombuffer(offsets, np.int64, len(keys) + 1, 8 * keys.offset)
        xxhash64_bytes(ends, np.frombuffer(data or b"", np.uint8), hashes)
    return hashes


def _ends(num_keys: int) -> tuple[pa.Array, pa.Scalar]:
    """Return an empty last part, and the separator, so that a zero byte follows the last part, too."""
    kind = pa.large_binary()
    return pa.repeat(pa.scalar(b"", kind), num_keys), pa.scalar(b"\0", kind)


def _bytes_of(column: pa.Array) -> pa.Array:
    """Return one part of the keys as the bytes to hash."""
    if pa.types.is_nested(storage_type(column.type)):
        return comparable(column)
    values, types = without_views(plain_array(column)), pa.types
    if types.is_null(values.type):
        return values.cast(pa.large_binary())
    if types.is_boolean(values.type):
        values = values.cast(pa.int64())
    elif types.is_floating(values.type):
        values = _one_form(values)
    elif types.is_temporal(values.type):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    if types.is_integer(values.type):
        values = values.cast(pa.int64() if types.is_signed_integer(values.type) else pa.uint64())
    bits = fixed_width_bits(values.type)
    if bits is not None:
        values = values.view(pa.binary(bits // 8))
    return values.cast(pa.large_binary())


def _one_form(values: pa.Array) -> pa.Array:
    """Return floats as numbers that are equal if merges treat them as equal: all NaNs, and both zeros."""
    numbers = values.cast(pa.float64())
    whole = pc.if_else(pc.is_nan(numbers), pa.scalar(float("nan")), pc.add(numbers, pa.scalar(0.0)))
    return whole.view(pa.int64())
