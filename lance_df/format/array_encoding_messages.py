"""Serialize the encodings of 2.0 pages; `lance_df.format.encodings_v2_0` parses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df._pb import encodings_v2_0_pb2 as pb
from lance_df.format import encodings_v2_0 as model

if TYPE_CHECKING:
    from lance_df.format.encodings_v2_0 import BufferRef, Encoding


def serialize_array_encoding(encoding: Encoding) -> bytes:
    """Serialize the encoding of a page.

    Raises
    ------
    TypeError
        The encoding can only be read.
    """
    return _message(encoding).SerializeToString()


def _message(encoding: Encoding) -> pb.ArrayEncoding:
    match encoding:
        case model.Flat(bits, buffer, compression):
            flat = pb.Flat(bits_per_value=bits, buffer=_buffer(buffer))
            if compression is not None:
                flat.compression.scheme = compression
            return pb.ArrayEncoding(flat=flat)
        case model.NoNulls(values):
            inner = pb.Nullable(no_nulls=pb.Nullable.NoNulls(values=_message(values)))
            return pb.ArrayEncoding(nullable=inner)
        case model.SomeNulls(validity, values):
            some = pb.Nullable.SomeNulls(validity=_message(validity), values=_message(values))
            return pb.ArrayEncoding(nullable=pb.Nullable(some_nulls=some))
        case model.AllNulls():
            return pb.ArrayEncoding(nullable=pb.Nullable(all_nulls=pb.Nullable.AllNulls()))
        case model.FixedSizeList(dimension, items):
            return pb.ArrayEncoding(
                fixed_size_list=pb.FixedSizeList(dimension=dimension, items=_message(items))
            )
        case model.ListOffsets(offsets, adjustment, num_items):
            lists = pb.List(offsets=_message(offsets), null_offset_adjustment=adjustment, num_items=num_items)
            return pb.ArrayEncoding(list=lists)
        case model.StructHeader():
            return pb.ArrayEncoding(struct=pb.SimpleStruct())
        case model.Binary(indices, data, adjustment):
            binary = pb.Binary(indices=_message(indices), bytes=_message(data), null_adjustment=adjustment)
            return pb.ArrayEncoding(binary=binary)
        case model.Dictionary(indices, items, num_items):
            dictionary = pb.Dictionary(
                indices=_message(indices), items=_message(items), num_dictionary_items=num_items
            )
            return pb.ArrayEncoding(dictionary=dictionary)
        case model.Fsst(binary, symbol_table):
            return pb.ArrayEncoding(fsst=pb.Fsst(binary=_message(binary), symbol_table=symbol_table))
        case model.PackedStruct(children, buffer):
            packed = pb.PackedStruct(inner=[_message(child) for child in children], buffer=_buffer(buffer))
            return pb.ArrayEncoding(packed_struct=packed)
        case _:
            raise TypeError(f"encoding {type(encoding).__name__} can be read but not written")


def _buffer(buffer: BufferRef) -> pb.Buffer:
    return pb.Buffer(
        buffer_index=buffer.index,
        buffer_type=pb.Buffer.BufferType.Name(buffer.kind),
    )
