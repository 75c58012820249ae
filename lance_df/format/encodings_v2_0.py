"""The encodings of the pages of 2.0 files, and the column encodings of all 2.x files.

Spec: file format 2.x, `ArrayEncoding` and `ColumnEncoding` (protos/encodings_v2_0.proto).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from lance_df._pb import encodings_v2_0_pb2 as pb
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.column_metadata import ARRAY_ENCODING_URL, COLUMN_ENCODING_URL
from lance_df.format.messages import count, parse_message
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable


class BufferKind(IntEnum):
    """The owner of the buffer table that an index refers to."""

    PAGE = 0
    COLUMN = 1
    FILE = 2


@dataclass(frozen=True, slots=True)
class BufferRef:
    """One buffer of the page, the column or the file."""

    index: int
    kind: BufferKind = BufferKind.PAGE


@dataclass(frozen=True, slots=True)
class Flat:
    """Values of ``bits_per_value`` bits back to back; ``compression`` applies to the whole buffer."""

    bits_per_value: int
    buffer: BufferRef
    compression: str | None = None


@dataclass(frozen=True, slots=True)
class NoNulls:
    """Every value is valid."""

    values: Encoding


@dataclass(frozen=True, slots=True)
class SomeNulls:
    """A bitmap of valid values, followed by the values of all rows."""

    validity: Encoding
    values: Encoding


@dataclass(frozen=True, slots=True)
class AllNulls:
    """No value is valid; nothing is stored."""


@dataclass(frozen=True, slots=True)
class FixedSizeList:
    """``dimension`` items for each value."""

    dimension: int
    items: Encoding


@dataclass(frozen=True, slots=True)
class ListOffsets:
    """The end of each list among the page's ``num_items``; the adjustment is added for null lists."""

    offsets: Encoding
    null_offset_adjustment: int
    num_items: int


@dataclass(frozen=True, slots=True)
class StructHeader:
    """A row count; the children are stored as columns of their own."""


@dataclass(frozen=True, slots=True)
class Binary:
    """The end of each value among the bytes; the adjustment is added for null values."""

    indices: Encoding
    data: Encoding
    null_adjustment: int


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Indices into ``num_items`` items."""

    indices: Encoding
    items: Encoding
    num_items: int


@dataclass(frozen=True, slots=True)
class Fsst:
    """Binary values compressed with a symbol table."""

    binary: Encoding
    symbol_table: bytes


@dataclass(frozen=True, slots=True)
class PackedStruct:
    """Rows of concatenated children in one buffer; the buffers that ``children`` refer to are ignored."""

    children: tuple[Encoding, ...]
    buffer: BufferRef


@dataclass(frozen=True, slots=True)
class Bitpacked:
    """A dense bit stream, least significant bit first; ``signed`` values are sign-extended."""

    packed_bits: int
    bits_per_value: int
    buffer: BufferRef
    signed: bool


@dataclass(frozen=True, slots=True)
class BitpackedForNonNeg:
    """FastLanes blocks of 1024 values, all of the same width; the last block is padded."""

    packed_bits: int
    bits_per_value: int
    buffer: BufferRef


@dataclass(frozen=True, slots=True)
class FixedSizeBinary:
    """Strings or binaries that all have ``byte_width`` bytes."""

    data: Encoding
    byte_width: int


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value in every row."""

    value: bytes


Encoding: TypeAlias = (
    Flat
    | NoNulls
    | SomeNulls
    | AllNulls
    | FixedSizeList
    | ListOffsets
    | StructHeader
    | Binary
    | Dictionary
    | Fsst
    | PackedStruct
    | Bitpacked
    | BitpackedForNonNeg
    | FixedSizeBinary
    | Constant
)


@dataclass(frozen=True, slots=True)
class Values:
    """The pages hold the values themselves."""


@dataclass(frozen=True, slots=True)
class Blob:
    """The pages hold positions and sizes of values that are stored elsewhere in the file."""


ColumnEncoding: TypeAlias = Values | Blob


def parse_array_encoding(url: str, data: bytes) -> Encoding:
    """Return the encoding of a 2.0 page.

    Parameters
    ----------
    url, data
        As in ``PageInfo.encoding_url`` and ``PageInfo.encoding``.

    Raises
    ------
    CorruptDataError
        The message is damaged or incomplete.
    UnsupportedFeatureError
        Another kind of message, or an encoding that 2.0 files do not have.
    """
    if url != ARRAY_ENCODING_URL:
        raise UnsupportedFeatureError(
            f"the page encoding is of type {url!r}, expected {ARRAY_ENCODING_URL!r}"
        )
    return _array(parse_message(pb.ArrayEncoding, data, source="page", what="the encoding"))


def parse_column_encoding(url: str, data: bytes) -> ColumnEncoding:
    """Return what the pages of a column hold; an absent encoding means plain values.

    Raises
    ------
    CorruptDataError
        The message is damaged.
    UnsupportedFeatureError
        Another kind of message.
    """
    if not url:
        return Values()
    if url != COLUMN_ENCODING_URL:
        raise UnsupportedFeatureError(
            f"the column encoding is of type {url!r}, expected {COLUMN_ENCODING_URL!r}"
        )
    message = parse_message(pb.ColumnEncoding, data, source="column", what="the encoding")
    while message.WhichOneof("column_encoding") == "zone_index":
        message = message.zone_index.inner
    return Blob() if message.WhichOneof("column_encoding") == "blob" else Values()


def _array(message: pb.ArrayEncoding) -> Encoding:
    name = message.WhichOneof("array_encoding")
    if name is None:
        raise UnsupportedFeatureError("an array encoding is missing, or not supported in 2.0 files")
    return _BUILDERS[name](getattr(message, name))


def _nullable(message: pb.Nullable) -> Encoding:
    match message.WhichOneof("nullability"):
        case "no_nulls":
            return NoNulls(_array(message.no_nulls.values))
        case "some_nulls":
            return SomeNulls(_array(message.some_nulls.validity), _array(message.some_nulls.values))
        case "all_nulls":
            return AllNulls()
    raise CorruptDataError("a nullable encoding does not say which values are null")


def _flat(message: pb.Flat) -> Flat:
    scheme = message.compression.scheme if message.HasField("compression") else ""
    return Flat(
        message.bits_per_value,
        _buffer(message.buffer),
        None if scheme.lower() in ("", "none") else scheme.lower(),
    )


def _buffer(message: pb.Buffer) -> BufferRef:
    try:
        return BufferRef(message.buffer_index, BufferKind(message.buffer_type))
    except ValueError as err:
        raise UnsupportedFeatureError(f"unknown buffer type {message.buffer_type}") from err


_BUILDERS: dict[str, Callable[[Any], Encoding]] = {
    "flat": _flat,
    "nullable": _nullable,
    "fixed_size_list": lambda m: FixedSizeList(m.dimension, _array(m.items)),
    "list": lambda m: ListOffsets(_array(m.offsets), m.null_offset_adjustment, count(m.num_items, "items")),
    "struct": lambda _: StructHeader(),
    "binary": lambda m: Binary(_array(m.indices), _array(m.bytes), m.null_adjustment),
    "dictionary": lambda m: Dictionary(
        _array(m.indices), _array(m.items), count(m.num_dictionary_items, "dictionary items")
    ),
    "fsst": lambda m: Fsst(_array(m.binary), m.symbol_table),
    "packed_struct": lambda m: PackedStruct(tuple(_array(inner) for inner in m.inner), _buffer(m.buffer)),
    "bitpacked": lambda m: Bitpacked(
        m.compressed_bits_per_value, m.uncompressed_bits_per_value, _buffer(m.buffer), m.signed
    ),
    "bitpacked_for_non_neg": lambda m: BitpackedForNonNeg(
        m.compressed_bits_per_value, m.uncompressed_bits_per_value, _buffer(m.buffer)
    ),
    "fixed_size_binary": lambda m: FixedSizeBinary(_array(m.bytes), m.byte_width),
    "constant": lambda m: Constant(m.value),
}
