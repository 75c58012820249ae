"""Choose the layout of a page from its data, and encode it.

Spec: file format, chapters 6.3 and 8. Flat fixed-width values without nulls are laid out so that readers map
them; everything else goes through chunks, as far as it fits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.v2_1.encode_constant import encode_all_null, encode_empty_struct, try_constant
from lance_df.encodings.v2_1.encode_fullzip import encode_full_zip
from lance_df.encodings.v2_1.encode_miniblock import bitpacking_cutter, encode_mini_block, value_cutter
from lance_df.encodings.v2_1.encode_values import (
    BooleanValues,
    FixedListValues,
    FixedValues,
    LeafValues,
    VariableValues,
    is_variable,
    leaf_values,
)
from lance_df.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from lance_df.encodings.v2_1.encode_levels import LeafColumn
    from lance_df.encodings.v2_1.encode_miniblock import ValueCutter
    from lance_df.encodings.v2_1.laid_out_page import LaidOutPage

# Values at least this long are laid out one by one: a chunk would hold too few of them.
_WIDE_VALUE_BYTES = 256
_MIN_DICTIONARY_ROWS = 100
# A column that is packed or coded can no longer be mapped, so it has to shrink by this much to be worth it.
_WORTHWHILE_RATIO = 0.75
_DICTIONARY_SAMPLE = 4096


def encode_page(leaf: LeafColumn, *, version: str) -> LaidOutPage:
    """Encode a leaf's share of a page.

    Parameters
    ----------
    leaf
        At least one row.
    version
        ``"2.1"`` or ``"2.2"``.

    Raises
    ------
    UnsupportedFeatureError
        The column cannot be stored within the limits of the format.
    """
    if leaf.field.is_struct:
        return encode_empty_struct(leaf)
    valid = leaf.valid()
    if not len(leaf.values) or pa.types.is_null(leaf.values.type) or (valid is not None and not valid.any()):
        return encode_all_null(leaf)
    large_chunks = version != "2.1"
    if pa.types.is_dictionary(leaf.values.type):
        return _dictionary_typed(leaf, large_chunks=large_chunks)
    values = leaf_values(leaf.values, valid)
    if version != "2.1" and (page := try_constant(leaf, values)) is not None:
        return page
    return _general(leaf, values, large_chunks=large_chunks)


def _general(leaf: LeafColumn, values: LeafValues, *, large_chunks: bool) -> LaidOutPage:
    if (
        is_variable(leaf.values.type)
        and (page := _try_dictionary(leaf, large_chunks=large_chunks)) is not None
    ):
        return page
    if _is_boolean(values) or _max_width(values) < _WIDE_VALUE_BYTES:
        packed = _worthwhile_bitpacking(leaf, values)
        mappable = leaf.definition is None and leaf.repetition is None and not _is_boolean(values)
        if packed is not None or isinstance(values, VariableValues) or not mappable:
            cutter = packed or value_cutter(values)
            page = encode_mini_block(leaf, cutter, large_chunks=large_chunks)
            if page is not None:
                return page
    return encode_full_zip(leaf, values)


def _is_boolean(values: LeafValues) -> bool:
    """Whether values are made of bits, so that records of whole bytes do not suit them."""
    return isinstance(values.items if isinstance(values, FixedListValues) else values, BooleanValues)


def _max_width(values: LeafValues) -> int:
    match values:
        case FixedValues(_, width):
            return width
        case BooleanValues():
            return 1
        case VariableValues():
            return int(np.diff(values.offsets).max())
        case FixedListValues(layers, items, _):
            bits = 1 if isinstance(items, BooleanValues) else items.width_bytes * 8
            return -(-bits * math.prod(layer.dimension for layer in layers) // 8)


def _worthwhile_bitpacking(leaf: LeafColumn, values: LeafValues) -> ValueCutter | None:
    """Return an encoder that packs the values, if they become much smaller; nulls become zeros for it."""
    if not isinstance(values, FixedValues) or values.width_bytes not in (1, 2, 4, 8):
        return None
    if not pa.types.is_primitive(leaf.values.type) or pa.types.is_floating(leaf.values.type):
        return None
    words = values.data.view(f"<u{values.width_bytes}")
    valid = leaf.valid()
    if valid is not None:
        words = np.where(valid, words, words.dtype.type(0))
    cutter, num_bytes = bitpacking_cutter(words)
    return cutter if num_bytes <= words.nbytes * _WORTHWHILE_RATIO else None


def _try_dictionary(leaf: LeafColumn, *, large_chunks: bool) -> LaidOutPage | None:
    """Store each distinct value once, if that makes the page smaller."""
    count = len(leaf.values)
    if count < _MIN_DICTIONARY_ROWS:
        return None
    sample = leaf.values[:: max(1, count // _DICTIONARY_SAMPLE)]
    if pc.count_distinct(sample).as_py() > len(sample) // 2:
        return None
    coded = leaf.values.dictionary_encode()
    dictionary = leaf_values(coded.dictionary)
    plain_bytes = sum(buffer.size for buffer in leaf.values.buffers()[1:] if buffer is not None)
    code_bytes = count * max(1, len(coded.dictionary).bit_length()) // 8
    if _stored_bytes(dictionary) + code_bytes > plain_bytes * _WORTHWHILE_RATIO:
        return None
    return _coded(leaf, coded, dictionary, large_chunks=large_chunks)


def _stored_bytes(values: LeafValues) -> int:
    if isinstance(values, VariableValues):
        return len(values.data) + len(values.offsets) * values.offset_bits // 8
    return values.data.nbytes if isinstance(values, FixedValues) else 0


def _dictionary_typed(leaf: LeafColumn, *, large_chunks: bool) -> LaidOutPage:
    """Store a column of Arrow's dictionary type; null dictionary values became levels before."""
    dictionary = leaf_values(leaf.values.dictionary)
    page = _coded(leaf, leaf.values, dictionary, large_chunks=large_chunks)
    if page is None:
        raise UnsupportedFeatureError(
            f"column {leaf.path!r}: too many empty or null lists in a row for a dictionary column"
        )
    return page


def _coded(
    leaf: LeafColumn, coded: pa.DictionaryArray, dictionary: LeafValues, *, large_chunks: bool
) -> LaidOutPage | None:
    if isinstance(dictionary, FixedListValues):
        raise TypeError(f"a dictionary of type {coded.type.value_type}")
    codes = leaf_values(pc.fill_null(coded.indices, 0))
    if not isinstance(codes, FixedValues):
        raise TypeError(f"dictionary indices of type {coded.type.index_type}")
    words = codes.data.view(f"<u{codes.width_bytes}")
    packed, num_bytes = bitpacking_cutter(words)
    cutter = packed if num_bytes <= words.nbytes * _WORTHWHILE_RATIO else value_cutter(codes)
    return encode_mini_block(leaf, cutter, large_chunks=large_chunks, dictionary=dictionary)
