"""Choose the layout of a page by its data, and encode it.

Format: docs/format/index.md. Flat fixed-width values without nulls that do not shrink by encoding are laid
out so that readers can map them; everything else is split into chunks, as far as it fits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.codecs.encode_options import EncodingOptions
from lance_df.encodings.codecs.encode_text import with_compression, with_symbols
from lance_df.encodings.codecs.encode_words import compressed_cutter, word_cutter
from lance_df.encodings.dictionary.encode import find_dictionary
from lance_df.encodings.encode_chunks import ValueCutter, value_cutter
from lance_df.encodings.layouts.blob.encode import encode_blobs
from lance_df.encodings.layouts.constant.encode import encode_all_null, encode_empty_struct, try_constant
from lance_df.encodings.layouts.full_zip.encode import encode_full_zip
from lance_df.encodings.layouts.mini_block.encode import encode_mini_block
from lance_df.encodings.leaf_values import (
    BooleanValues,
    FixedListValues,
    FixedValues,
    LeafValues,
    VariableValues,
    leaf_values,
)
from lance_df.encodings.packed_struct.encode import packed_values
from lance_df.errors import UnsupportedFeatureError
from lance_df.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.codecs.encode_blocks import DictionaryValues
    from lance_df.encodings.layouts.laid_out_page import LaidOutPage
    from lance_df.encodings.levels.encode import LeafColumn

# Values at least this long are stored one by one, since a chunk would contain too few of them.
_WIDE_VALUE_BYTES = 256
# Strings vary in length; they are stored in chunks unless their mean or their maximum exceeds this.
_WIDE_MEAN_BYTES = 128
_WIDE_MAX_BYTES = 4096
# An encoded column can no longer be mapped, so it must shrink by at least this much.
_WORTHWHILE_RATIO = 0.92
# Encoding so few bytes gains nothing, since every buffer is aligned to 64 bytes.
_TINY_BYTES = 256
# Only values of these widths get dictionaries, as in files of pylance.
_CODABLE_BYTES = {"2.1": (16,), "2.2": (8, 16)}


def encode_page(leaf: LeafColumn, *, version: str) -> LaidOutPage:
    """Encode the values of a leaf as a page.

    Parameters
    ----------
    leaf
        A leaf of at least one row.
    version
        ``"2.1"`` or ``"2.2"``.

    Raises
    ------
    InvalidInputError
        The field's metadata request an encoding that does not exist.
    UnsupportedFeatureError
        The column cannot be stored within the limits of the format.
    """
    if leaf.field.is_struct and not leaf.values.type.num_fields:
        return encode_empty_struct(leaf)
    if leaf.field.is_blob and not leaf.field.is_struct:
        return encode_blobs(leaf, large_chunks=version != "2.1")
    valid = leaf.valid()
    if not len(leaf.values) or pa.types.is_null(leaf.values.type) or (valid is not None and not valid.any()):
        return encode_all_null(leaf, version=version)
    page = _Page(
        leaf, None if valid is None or valid.all() else valid, EncodingOptions.of(leaf.field), version
    )
    if pa.types.is_dictionary(leaf.values.type):
        return page.of_dictionary_type(leaf.values)
    if pa.types.is_struct(leaf.values.type):
        return page.of_structs(leaf.values)
    values = leaf_values(leaf.values, page.valid)
    if version != "2.1" and (constant := try_constant(leaf, values, page.valid)) is not None:
        return constant
    match values:
        case FixedValues():
            return page.of_fixed_width(values)
        case VariableValues():
            return page.of_variable_width(values)
        case _:
            return page.of_bits_or_lists(values)


@dataclass(frozen=True, slots=True)
class _Page:
    """A page to encode; ``valid`` says which values are not null (None: all)."""

    leaf: LeafColumn
    valid: npt.NDArray[np.bool_] | None
    options: EncodingOptions
    version: str

    @property
    def is_mappable(self) -> bool:
        """Whether the page could consist of its values only."""
        return self.leaf.definition is None and self.leaf.repetition is None and not self.options.structure

    def of_fixed_width(self, values: FixedValues) -> LaidOutPage:
        if self._is_wide(values.width_bytes):
            return encode_full_zip(self.leaf, values)
        if len(values.data) <= _TINY_BYTES and self.is_mappable and self.options.is_default:
            return encode_full_zip(self.leaf, values)
        cutter = word_cutter(self._without_nulls(values), self.options)
        if values.width_bytes in _CODABLE_BYTES[self.version]:
            coded = find_dictionary(values, self.valid, self.options, num_bytes=cutter.num_bytes)
            if coded is not None:
                return self._chunks_or_records(self._code_cutter(coded.codes), values, coded.dictionary)
        is_small = cutter.num_bytes <= len(values.data) * _WORTHWHILE_RATIO
        if self.is_mappable and not is_small and self.options.compression is None:
            return encode_full_zip(self.leaf, values)
        return self._chunks_or_records(compressed_cutter(cutter, values, self.options), values)

    def of_variable_width(self, values: VariableValues) -> LaidOutPage:
        is_text = not pa.types.is_binary(self.leaf.values.type) and not pa.types.is_large_binary(
            self.leaf.values.type
        )
        coded = None
        if self.options.structure != "fullzip":
            coded = find_dictionary(values, self.valid, self.options, num_bytes=values.num_bytes)
        if coded is not None and coded.is_clear_win:
            return self._chunks_or_records(self._code_cutter(coded.codes), values, coded.dictionary)
        is_wide = self._is_wide(_usual_bytes(values))
        if is_wide and (compressed := with_compression(values, self.options)) is not None:
            short, cutter = compressed, value_cutter(compressed)
        elif self.options.compression is not None and not is_wide:
            plain = value_cutter(values, target_bytes=self.options.chunk_bytes)
            short, cutter = values, compressed_cutter(plain, None, self.options)
        else:
            short = with_symbols(values, self.options, is_text=is_text, column=self.leaf.field)
            cutter = value_cutter(short, target_bytes=self.options.chunk_bytes)
        if coded is not None and coded.num_bytes < short.num_bytes:
            return self._chunks_or_records(self._code_cutter(coded.codes), values, coded.dictionary)
        return encode_full_zip(self.leaf, short) if is_wide else self._chunks_or_records(cutter, short)

    def of_bits_or_lists(self, values: BooleanValues | FixedListValues) -> LaidOutPage:
        # records of whole bytes do not suit bits
        is_bits = isinstance(values.items if isinstance(values, FixedListValues) else values, BooleanValues)
        if isinstance(values, FixedListValues) and _value_bits(values) % 8:
            return self._of_uneven_lists(values)
        num_bytes = -(-_value_bits(values) // 8)
        if self._is_wide(num_bytes) or not num_bytes or (self.is_mappable and not is_bits):
            return encode_full_zip(self.leaf, values)
        cutter = value_cutter(values)
        if isinstance(values, BooleanValues):
            cutter = compressed_cutter(cutter, None, self.options)
        return self._chunks_or_records(cutter, values)

    def _of_uneven_lists(self, values: FixedListValues) -> LaidOutPage:
        """Store lists of booleans that do not fill whole bytes as records."""
        page = self._chunks(value_cutter(values))
        if page is None:
            raise UnsupportedFeatureError(
                f"column {self.leaf.path!r}: lists of {_value_bits(values)} booleans do not fill whole "
                "bytes. Such lists can be stored only if they are short, and not too many in a row are "
                "null or empty"
            )
        return page

    def of_dictionary_type(self, coded: pa.DictionaryArray) -> LaidOutPage:
        """Store a column of Arrow's dictionary type; null dictionary values already became levels."""
        dictionary = leaf_values(coded.dictionary)
        codes = leaf_values(coded.indices)
        if isinstance(dictionary, FixedListValues) or not isinstance(codes, FixedValues):
            raise TypeError(f"unexpected type of a dictionary column: {coded.type}")
        # the index of a null need not be valid
        page = self._chunks(self._code_cutter(self._without_nulls(codes)), dictionary)
        if page is None:
            raise UnsupportedFeatureError(
                f"column {self.leaf.path!r}: a dictionary column has too many empty or null lists in a row"
            )
        return page

    def of_structs(self, array: pa.StructArray) -> LaidOutPage:
        """Store a packed struct."""
        rows = packed_values(array, self.valid, self.leaf.path)
        if isinstance(rows, FixedValues):
            return self._chunks_or_records(value_cutter(rows), rows)
        if self.version == "2.1":
            raise UnsupportedFeatureError(
                f"column {self.leaf.path!r}: packed structs of strings or lists need file version 2.2"
            )
        return encode_full_zip(self.leaf, rows)

    def _is_wide(self, value_bytes: int) -> bool:
        if self.options.structure is not None:
            return self.options.structure == "fullzip"
        return value_bytes >= _WIDE_VALUE_BYTES

    def _without_nulls(self, values: FixedValues) -> FixedValues:
        """Replace each null by the value before it, so that runs continue."""
        if self.valid is None:
            return values
        indices = np.where(self.valid, np.arange(len(self.valid)), self.valid.argmax())
        rows = values.data.reshape(-1, values.width_bytes)[np.maximum.accumulate(indices)]
        return FixedValues(rows.reshape(-1), values.width_bytes, values.row_encoding)

    def _code_cutter(self, codes: FixedValues) -> ValueCutter:
        return compressed_cutter(word_cutter(codes, self.options), None, self.options)

    def _chunks(self, cutter: ValueCutter, dictionary: DictionaryValues | None = None) -> LaidOutPage | None:
        return encode_mini_block(
            self.leaf, cutter, self.options, large_chunks=self.version != "2.1", dictionary=dictionary
        )

    def _chunks_or_records(
        self, cutter: ValueCutter, values: LeafValues, dictionary: DictionaryValues | None = None
    ) -> LaidOutPage:
        """Lay out chunks, or store ``values`` one by one if chunks are impossible."""
        page = self._chunks(cutter, dictionary)
        return encode_full_zip(self.leaf, values) if page is None else page


def _value_bits(values: BooleanValues | FixedListValues) -> int:
    if isinstance(values, BooleanValues):
        return 1
    bits = 1 if isinstance(values.items, BooleanValues) else values.items.width_bytes * 8
    return bits * math.prod(layer.dimension for layer in values.layers)


def _usual_bytes(values: VariableValues) -> int:
    """Return a typical length of strings, for the choice of a layout."""
    longest = int(np.diff(values.offsets).max())
    is_short = len(values.data) < len(values) * _WIDE_MEAN_BYTES and longest <= _WIDE_MAX_BYTES
    return min(longest, _WIDE_VALUE_BYTES - 1) if is_short else longest
