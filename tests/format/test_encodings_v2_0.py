"""Descriptions of 2.0 encodings from their messages."""

from __future__ import annotations

import pytest

from lance_df._pb import encodings_v2_0_pb2 as pb
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format import encodings_v2_0 as enc
from lance_df.format.column_metadata import ARRAY_ENCODING_URL, COLUMN_ENCODING_URL

FLAT = pb.ArrayEncoding(flat=pb.Flat(bits_per_value=8, buffer=pb.Buffer(buffer_index=2)))
PARSED_FLAT = enc.Flat(8, enc.BufferRef(2))


def parse(message: pb.ArrayEncoding) -> enc.Encoding:
    return enc.parse_array_encoding(ARRAY_ENCODING_URL, message.SerializeToString())


def test_bytes_by_hand() -> None:
    # field 2 nullable { field 1 no_nulls { field 1 values { field 1 flat { 1: 64, 2: {} } } } }
    data = bytes.fromhex("120a 0a08 0a06 0a04 0840 1200")
    assert enc.parse_array_encoding(ARRAY_ENCODING_URL, data) == enc.NoNulls(enc.Flat(64, enc.BufferRef(0)))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"nullable": {"all_nulls": {}}}, enc.AllNulls()),
        (
            {"nullable": {"some_nulls": {"validity": FLAT, "values": FLAT}}},
            enc.SomeNulls(PARSED_FLAT, PARSED_FLAT),
        ),
        ({"fixed_size_list": {"dimension": 3, "items": FLAT}}, enc.FixedSizeList(3, PARSED_FLAT)),
        (
            {"list": {"offsets": FLAT, "null_offset_adjustment": 9, "num_items": 8}},
            enc.ListOffsets(PARSED_FLAT, 9, 8),
        ),
        ({"struct": {}}, enc.StructHeader()),
        (
            {"binary": {"indices": FLAT, "bytes": FLAT, "null_adjustment": 5}},
            enc.Binary(PARSED_FLAT, PARSED_FLAT, 5),
        ),
        (
            {"dictionary": {"indices": FLAT, "items": FLAT, "num_dictionary_items": 4}},
            enc.Dictionary(PARSED_FLAT, PARSED_FLAT, 4),
        ),
        ({"fsst": {"binary": FLAT, "symbol_table": b"t"}}, enc.Fsst(PARSED_FLAT, b"t")),
        (
            {"packed_struct": {"inner": [FLAT, FLAT], "buffer": {"buffer_type": 1}}},
            enc.PackedStruct((PARSED_FLAT, PARSED_FLAT), enc.BufferRef(0, enc.BufferKind.COLUMN)),
        ),
        ({"fixed_size_binary": {"bytes": FLAT, "byte_width": 7}}, enc.FixedSizeBinary(PARSED_FLAT, 7)),
        ({"constant": {"value": b"v"}}, enc.Constant(b"v")),
    ],
)
def test_every_encoding(message, expected) -> None:
    assert parse(pb.ArrayEncoding(**message)) == expected


@pytest.mark.parametrize(
    ("scheme", "expected"), [("", None), ("none", None), ("ZSTD", "zstd"), ("lz4", "lz4")]
)
def test_compression_schemes(scheme, expected) -> None:
    flat = pb.Flat(bits_per_value=8, buffer={}, compression=pb.Compression(scheme=scheme))
    assert parse(pb.ArrayEncoding(flat=flat)).compression == expected


def test_what_is_wrong_or_unknown() -> None:
    with pytest.raises(CorruptDataError, match="which values are null"):
        parse(pb.ArrayEncoding(nullable={}))
    with pytest.raises(UnsupportedFeatureError, match="missing"):
        parse(pb.ArrayEncoding(fsst={"symbol_table": b""}))
    with pytest.raises(UnsupportedFeatureError, match="unknown buffer type 9"):
        parse(pb.ArrayEncoding(flat={"bits_per_value": 8, "buffer": {"buffer_type": 9}}))
    with pytest.raises(CorruptDataError, match="not a valid Protobuf message"):
        enc.parse_array_encoding(ARRAY_ENCODING_URL, b"\xff\xff\xff")
    with pytest.raises(UnsupportedFeatureError, match="PageLayout"):
        enc.parse_array_encoding("/lance.encodings21.PageLayout", b"")


def test_column_encodings() -> None:
    blob = pb.ColumnEncoding(blob={"inner": {"values": {}}})
    zones = pb.ColumnEncoding(zone_index={"rows_per_zone": 1, "inner": blob})
    for message, expected in (
        (blob, enc.Blob()),
        (zones, enc.Blob()),
        (pb.ColumnEncoding(values={}), enc.Values()),
    ):
        assert enc.parse_column_encoding(COLUMN_ENCODING_URL, message.SerializeToString()) == expected
    assert enc.parse_column_encoding("", b"") == enc.Values()
    with pytest.raises(UnsupportedFeatureError, match="other"):
        enc.parse_column_encoding("/other", b"")
