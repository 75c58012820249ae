"""The layouts of the pages of 2.1 and 2.2 files and the compression of their values.

Spec: file format 2.x, `PageLayout` and `CompressiveEncoding` (protos/encodings_v2_1.proto).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, TypeAlias

from lance_df.records import dataclass


class RepDefLayer(IntEnum):
    """Which nulls and empty lists one field on the path from leaf to root can have in this page."""

    ALL_VALID_ITEM = 1
    ALL_VALID_LIST = 2
    NULLABLE_ITEM = 3
    NULLABLE_LIST = 4
    EMPTYABLE_LIST = 5
    NULL_AND_EMPTY_LIST = 6

    @property
    def is_list(self) -> bool:
        return self not in (RepDefLayer.ALL_VALID_ITEM, RepDefLayer.NULLABLE_ITEM)

    @property
    def num_levels(self) -> int:
        """The number of definition levels that the layer uses."""
        return _NUM_LEVELS[self]


_NUM_LEVELS = {
    RepDefLayer.ALL_VALID_ITEM: 0,
    RepDefLayer.ALL_VALID_LIST: 0,
    RepDefLayer.NULLABLE_ITEM: 1,
    RepDefLayer.NULLABLE_LIST: 1,
    RepDefLayer.EMPTYABLE_LIST: 1,
    RepDefLayer.NULL_AND_EMPTY_LIST: 2,
}

Layers: TypeAlias = tuple[RepDefLayer, ...]
"""The innermost layer (the leaf) comes first."""

Scheme: TypeAlias = Literal["lz4", "zstd"]


@dataclass(frozen=True, slots=True)
class Flat:
    """Values of ``bits_per_value`` bits, back to back."""

    bits_per_value: int


@dataclass(frozen=True, slots=True)
class Variable:
    """Offsets of ``bits_per_offset`` (32 or 64) bits, then bytes."""

    bits_per_offset: int


@dataclass(frozen=True, slots=True)
class Constant:
    """No buffers: every value is ``value``, or null if ``value`` is absent."""

    value: bytes | None = None


@dataclass(frozen=True, slots=True)
class InlineBitpacking:
    """Blocks of 1024 values of ``bits_per_value`` bits; each block is preceded by its packed width."""

    bits_per_value: int


@dataclass(frozen=True, slots=True)
class OutOfLineBitpacking:
    """Blocks of 1024 values of ``bits_per_value`` bits, all packed to ``packed_bits``."""

    bits_per_value: int
    packed_bits: int


@dataclass(frozen=True, slots=True)
class Fsst:
    """Strings compressed with symbols of up to 8 bytes."""

    symbol_table: bytes
    values: Encoding


@dataclass(frozen=True, slots=True)
class Rle:
    """Run values and run lengths, in two buffers."""

    values: Encoding
    run_lengths: Encoding


@dataclass(frozen=True, slots=True)
class ByteStreamSplit:
    """Byte 0 of all values, then byte 1 of all values, and so on."""

    values: Encoding


@dataclass(frozen=True, slots=True)
class General:
    """A general-purpose compressor around ``values``."""

    scheme: Scheme
    level: int | None
    values: Encoding


@dataclass(frozen=True, slots=True)
class FixedSizeList:
    """``items_per_value`` items for each value; with a bitmap of valid items if ``has_validity``."""

    items_per_value: int
    values: Encoding
    has_validity: bool = False


@dataclass(frozen=True, slots=True)
class PackedStruct:
    """Rows of concatenated fixed-width children."""

    bits_per_value: tuple[int, ...]
    values: Encoding


@dataclass(frozen=True, slots=True)
class PackedField:
    """One child in a row of a `VariablePackedStruct`: of fixed width, or preceded by its length."""

    values: Encoding
    bits_per_value: int | None = None
    bits_per_length: int | None = None


@dataclass(frozen=True, slots=True)
class VariablePackedStruct:
    """Rows of concatenated children, some of them of variable width."""

    fields: tuple[PackedField, ...]


Encoding: TypeAlias = (
    Flat
    | Variable
    | Constant
    | InlineBitpacking
    | OutOfLineBitpacking
    | Fsst
    | Rle
    | ByteStreamSplit
    | General
    | FixedSizeList
    | PackedStruct
    | VariablePackedStruct
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniBlockLayout:
    """Chunks of a few KiB that are decoded whole.

    ``num_items`` counts visible items; ``num_buffers`` the value buffers of a chunk.
    """

    values: Encoding
    num_items: int
    num_buffers: int
    layers: Layers
    repetition: Encoding | None = None
    definition: Encoding | None = None
    dictionary: Encoding | None = None
    num_dictionary_items: int = 0
    repetition_index_depth: int = 0
    has_large_chunk: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FullZipLayout:
    """One record for each slot: control word, length if values vary in width, value.

    ``num_slots`` counts invisible slots too. Exactly one of ``bits_per_value`` and ``bits_per_offset`` is
    set.
    """

    values: Encoding
    num_slots: int
    num_visible_items: int
    layers: Layers
    bits_per_repetition: int = 0
    bits_per_definition: int = 0
    bits_per_value: int | None = None
    bits_per_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantLayout:
    """All leaf values are null, or all leaf values that are not null are equal."""

    layers: Layers
    inline_value: bytes | None = None
    repetition: Encoding | None = None
    definition: Encoding | None = None
    num_repetition_levels: int = 0
    num_definition_levels: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobLayout:
    """Positions and sizes of values that are stored elsewhere in the file."""

    inner: PageLayout
    layers: Layers


PageLayout: TypeAlias = MiniBlockLayout | FullZipLayout | ConstantLayout | BlobLayout
