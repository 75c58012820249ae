"""Convert the descriptions of pages of 2.1 and 2.2 files from and to protobuf.

Spec: file format 2.x, `PageLayout` and `CompressiveEncoding` (protos/encodings_v2_1.proto).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from lance_df._pb import encodings_v2_1_pb2 as pb
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.column_metadata import PAGE_LAYOUT_URL
from lance_df.format.encodings_v2_1 import (
    BlobLayout,
    ByteStreamSplit,
    Constant,
    ConstantLayout,
    Encoding,
    FixedSizeList,
    Flat,
    Fsst,
    FullZipLayout,
    General,
    InlineBitpacking,
    Layers,
    MiniBlockLayout,
    OutOfLineBitpacking,
    PackedField,
    PackedStruct,
    PageLayout,
    RepDefLayer,
    Rle,
    Scheme,
    Variable,
    VariablePackedStruct,
)
from lance_df.format.messages import count, parse_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def parse_page_layout(url: str, data: bytes, *, source: str) -> PageLayout:
    """Parse the encoding of a page.

    Parameters
    ----------
    url, data
        Type URL and bytes of the page's encoding.
    source
        A name for the page, for error messages.

    Raises
    ------
    CorruptDataError
        The bytes are not a `PageLayout`, or lack a required field.
    UnsupportedFeatureError
        A layout, encoding or layer that this release does not know.
    """
    _check_url(url, source)
    return (_parse_short if len(data) <= _SHORT_BYTES else _parse)(data, source)


def split_page_layout(url: str, data: bytes, *, source: str) -> tuple[PageLayout, bytes | None]:
    """Parse the encoding of a page, and return a constant value of the page apart from it.

    In the layout, an empty value replaces the constant, so that layouts which differ only in it are equal.
    Raises as :func:`parse_page_layout`.
    """
    _check_url(url, source)
    message = _message(data, source)
    if not message.constant_layout.HasField("inline_value"):
        return parse_page_layout(url, data, source=source), None
    value = message.constant_layout.inline_value
    message.constant_layout.inline_value = b""
    return parse_page_layout(url, message.SerializeToString(), source=source), value


def _check_url(url: str, source: str) -> None:
    if url != PAGE_LAYOUT_URL:
        raise UnsupportedFeatureError(
            f"{source}: the page layout is of type {url!r}, expected {PAGE_LAYOUT_URL!r}"
        )


def _message(data: bytes, source: str) -> pb.PageLayout:
    return parse_message(pb.PageLayout, data, source=source, what="the page layout")


def _parse(data: bytes, source: str) -> PageLayout:
    return layout_from_proto(_message(data, source))


# the small files of a table share a few layouts
_SHORT_BYTES = 128
_parse_short = lru_cache(256)(_parse)


def layout_from_proto(message: pb.PageLayout) -> PageLayout:
    """Convert a message. Raises as :func:`parse_page_layout`."""
    match message.WhichOneof("layout"):
        case "mini_block_layout":
            return _mini_block(message.mini_block_layout)
        case "full_zip_layout":
            return _full_zip(message.full_zip_layout)
        case "constant_layout":
            return _constant(message.constant_layout)
        case "blob_layout":
            blob = message.blob_layout
            inner = layout_from_proto(blob.inner_layout)
            if isinstance(inner, BlobLayout):
                raise CorruptDataError("a blob layout cannot contain another blob layout")
            return BlobLayout(inner=inner, layers=_layers(blob.layers))
        case _:
            raise UnsupportedFeatureError(
                "this release does not support the page layout; a newer release may support it"
            )


def layout_to_proto(layout: PageLayout) -> pb.PageLayout:
    """Convert a layout to the message that is stored."""
    if isinstance(layout, MiniBlockLayout):
        return pb.PageLayout(
            mini_block_layout=pb.MiniBlockLayout(
                rep_compression=_optional_to_proto(layout.repetition),
                def_compression=_optional_to_proto(layout.definition),
                value_compression=encoding_to_proto(layout.values),
                dictionary=_optional_to_proto(layout.dictionary),
                num_dictionary_items=layout.num_dictionary_items,
                layers=[pb.RepDefLayer.Name(layer) for layer in layout.layers],
                num_buffers=layout.num_buffers,
                repetition_index_depth=layout.repetition_index_depth,
                num_items=layout.num_items,
                has_large_chunk=layout.has_large_chunk,
            )
        )
    if isinstance(layout, FullZipLayout):
        return pb.PageLayout(
            full_zip_layout=pb.FullZipLayout(
                bits_rep=layout.bits_per_repetition,
                bits_def=layout.bits_per_definition,
                bits_per_value=layout.bits_per_value,
                bits_per_offset=layout.bits_per_offset,
                num_items=layout.num_slots,
                num_visible_items=layout.num_visible_items,
                value_compression=encoding_to_proto(layout.values),
                layers=[pb.RepDefLayer.Name(layer) for layer in layout.layers],
            )
        )
    if isinstance(layout, ConstantLayout):
        return pb.PageLayout(
            constant_layout=pb.ConstantLayout(
                layers=[pb.RepDefLayer.Name(layer) for layer in layout.layers],
                inline_value=layout.inline_value,
                rep_compression=_optional_to_proto(layout.repetition),
                def_compression=_optional_to_proto(layout.definition),
                num_rep_values=layout.num_repetition_levels,
                num_def_values=layout.num_definition_levels,
            )
        )
    return pb.PageLayout(
        blob_layout=pb.BlobLayout(
            inner_layout=layout_to_proto(layout.inner),
            layers=[pb.RepDefLayer.Name(layer) for layer in layout.layers],
        )
    )


def encoding_from_proto(message: pb.CompressiveEncoding) -> Encoding:
    """Convert a message. Raises as :func:`parse_page_layout`."""
    name = message.WhichOneof("compression")
    if name is None:
        raise UnsupportedFeatureError("an encoding is missing, or not supported by this release")
    if (parse := _PARSERS.get(name)) is None:
        raise UnsupportedFeatureError(f"encoding {name!r} is not supported by this release")
    return parse(getattr(message, name))


def encoding_to_proto(encoding: Encoding) -> pb.CompressiveEncoding:
    """Convert an encoding to the message that is stored."""
    nested = encoding_to_proto
    match encoding:
        case Flat(bits):
            return pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=bits))
        case Variable(bits):
            return pb.CompressiveEncoding(variable=pb.Variable(offsets=nested(Flat(bits))))
        case Constant(value):
            return pb.CompressiveEncoding(constant=pb.Constant(value=value))
        case InlineBitpacking(bits):
            return pb.CompressiveEncoding(
                inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=bits)
            )
        case OutOfLineBitpacking(bits, packed):
            return pb.CompressiveEncoding(
                out_of_line_bitpacking=pb.OutOfLineBitpacking(
                    uncompressed_bits_per_value=bits, values=nested(Flat(packed))
                )
            )
        case Fsst(table, values):
            return pb.CompressiveEncoding(fsst=pb.Fsst(symbol_table=table, values=nested(values)))
        case Rle(values, run_lengths):
            return pb.CompressiveEncoding(rle=pb.Rle(values=nested(values), run_lengths=nested(run_lengths)))
        case ByteStreamSplit(values):
            return pb.CompressiveEncoding(byte_stream_split=pb.ByteStreamSplit(values=nested(values)))
        case General(scheme, level, values):
            compression = pb.BufferCompression(scheme=scheme.upper(), level=level)
            return pb.CompressiveEncoding(general=pb.General(compression=compression, values=nested(values)))
        case FixedSizeList(size, values, has_validity):
            return pb.CompressiveEncoding(
                fixed_size_list=pb.FixedSizeList(
                    items_per_value=size, values=nested(values), has_validity=has_validity
                )
            )
        case PackedStruct(widths, values):
            return pb.CompressiveEncoding(
                packed_struct=pb.PackedStruct(bits_per_value=widths, values=nested(values))
            )
        case VariablePackedStruct(fields):
            return pb.CompressiveEncoding(
                variable_packed_struct=pb.VariablePackedStruct(
                    fields=[
                        pb.VariablePackedStruct.FieldEncoding(
                            value=nested(field.values),
                            bits_per_value=field.bits_per_value,
                            bits_per_length=field.bits_per_length,
                        )
                        for field in fields
                    ]
                )
            )


def _mini_block(message: pb.MiniBlockLayout) -> MiniBlockLayout:
    return MiniBlockLayout(
        values=encoding_from_proto(message.value_compression),
        num_items=count(message.num_items, "items"),
        num_buffers=message.num_buffers,
        layers=_layers(message.layers),
        repetition=_optional(message, "rep_compression"),
        definition=_optional(message, "def_compression"),
        dictionary=_optional(message, "dictionary"),
        num_dictionary_items=count(message.num_dictionary_items, "dictionary items"),
        repetition_index_depth=message.repetition_index_depth,
        has_large_chunk=message.has_large_chunk,
    )


def _full_zip(message: pb.FullZipLayout) -> FullZipLayout:
    details = message.WhichOneof("details")
    if details is None:
        raise CorruptDataError("a full-zip layout does not give the width of its values")
    return FullZipLayout(
        values=encoding_from_proto(message.value_compression),
        num_slots=message.num_items,
        num_visible_items=message.num_visible_items,
        layers=_layers(message.layers),
        bits_per_repetition=message.bits_rep,
        bits_per_definition=message.bits_def,
        bits_per_value=message.bits_per_value if details == "bits_per_value" else None,
        bits_per_offset=message.bits_per_offset if details == "bits_per_offset" else None,
    )


def _constant(message: pb.ConstantLayout) -> ConstantLayout:
    return ConstantLayout(
        layers=_layers(message.layers),
        inline_value=message.inline_value if message.HasField("inline_value") else None,
        repetition=_optional(message, "rep_compression"),
        definition=_optional(message, "def_compression"),
        num_repetition_levels=count(message.num_rep_values, "repetition levels"),
        num_definition_levels=count(message.num_def_values, "definition levels"),
    )


def _layers(numbers: Sequence[int]) -> Layers:
    try:
        return tuple(RepDefLayer(number) for number in numbers)
    except ValueError as err:
        raise UnsupportedFeatureError(
            f"the layers {list(numbers)} include one that this release does not support"
        ) from err


def _optional(
    message: pb.MiniBlockLayout | pb.ConstantLayout,
    name: Literal["rep_compression", "def_compression", "dictionary"],
) -> Encoding | None:
    return encoding_from_proto(getattr(message, name)) if message.HasField(name) else None


def _optional_to_proto(encoding: Encoding | None) -> pb.CompressiveEncoding | None:
    return None if encoding is None else encoding_to_proto(encoding)


def _flat_bits(message: pb.CompressiveEncoding) -> int:
    encoding = encoding_from_proto(message)
    if not isinstance(encoding, Flat):
        raise UnsupportedFeatureError(f"expected flat values, found encoding {type(encoding).__name__}")
    return encoding.bits_per_value


def _uncompressed(
    message: pb.Flat | pb.Variable | pb.InlineBitpacking, name: Literal["data", "values"]
) -> None:
    # no writer sets these: general compression wraps the whole encoding instead
    if message.HasField(name):
        raise UnsupportedFeatureError(
            f"encoding {type(message).__name__} with its own compression is not supported"
        )


def _flat(message: pb.Flat) -> Flat:
    _uncompressed(message, "data")
    return Flat(message.bits_per_value)


def _variable(message: pb.Variable) -> Variable:
    _uncompressed(message, "values")
    return Variable(_flat_bits(message.offsets))


def _inline_bitpacking(message: pb.InlineBitpacking) -> InlineBitpacking:
    _uncompressed(message, "values")
    return InlineBitpacking(message.uncompressed_bits_per_value)


def _general(message: pb.General) -> General:
    schemes: dict[int, Scheme] = {pb.BufferCompression.LZ4: "lz4", pb.BufferCompression.ZSTD: "zstd"}
    compression = message.compression
    if (scheme := schemes.get(compression.scheme)) is None:
        raise UnsupportedFeatureError(
            f"compression scheme {compression.scheme} is not supported by this release"
        )
    level = compression.level if compression.HasField("level") else None
    return General(scheme, level, encoding_from_proto(message.values))


def _packed_field(message: pb.VariablePackedStruct.FieldEncoding) -> PackedField:
    values = encoding_from_proto(message.value)
    match message.WhichOneof("layout"):
        case "bits_per_value":
            return PackedField(values, bits_per_value=message.bits_per_value)
        case "bits_per_length":
            return PackedField(values, bits_per_length=message.bits_per_length)
        case _:
            raise CorruptDataError("a packed child does not give its width")


_PARSERS: dict[str, Callable[..., Encoding]] = {
    "flat": _flat,
    "variable": _variable,
    "constant": lambda message: Constant(message.value if message.HasField("value") else None),
    "out_of_line_bitpacking": lambda message: OutOfLineBitpacking(
        message.uncompressed_bits_per_value, _flat_bits(message.values)
    ),
    "inline_bitpacking": _inline_bitpacking,
    "fsst": lambda message: Fsst(message.symbol_table, encoding_from_proto(message.values)),
    "rle": lambda message: Rle(encoding_from_proto(message.values), encoding_from_proto(message.run_lengths)),
    "byte_stream_split": lambda message: ByteStreamSplit(encoding_from_proto(message.values)),
    "general": _general,
    "fixed_size_list": lambda message: FixedSizeList(
        message.items_per_value, encoding_from_proto(message.values), message.has_validity
    ),
    "packed_struct": lambda message: PackedStruct(
        tuple(message.bits_per_value), encoding_from_proto(message.values)
    ),
    "variable_packed_struct": lambda message: VariablePackedStruct(
        tuple(_packed_field(field) for field in message.fields)
    ),
}
