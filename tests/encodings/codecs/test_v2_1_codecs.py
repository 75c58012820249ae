"""Encodings of 2.1 pages on bytes made by hand, whole and broken."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_df.encodings.buffers import Chunked, read_spans
from lance_df.encodings.codecs.fixed_width import decode_fixed_width, decode_fixed_width_block
from lance_df.encodings.codecs.values import decode_values
from lance_df.encodings.dictionary.decode import Dictionary
from lance_df.encodings.fsst.symbol_table import SymbolTable
from lance_df.encodings.general import decode as general
from lance_df.encodings.general.codecs import compress
from lance_df.encodings.variable.decode import decode_variable_block
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.encodings_v2_1 import (
    ByteStreamSplit,
    Constant,
    Encoding,
    FixedSizeList,
    Flat,
    Fsst,
    General,
    InlineBitpacking,
    OutOfLineBitpacking,
    PackedStruct,
    Rle,
    Variable,
)
from lance_df.storage import ByteRange

ORDER = [0, 4, 2, 6, 1, 5, 3, 7]


def chunked(*chunks: bytes) -> Chunked:
    """Lay chunks out as in a page: each on a multiple of 8."""
    data, starts = b"", []
    for chunk in chunks:
        starts.append(len(data))
        data += chunk + bytes(-len(chunk) % 8)
    array = np.frombuffer(data, np.uint8)
    return Chunked(array, np.array(starts, np.int64), np.array([len(c) for c in chunks], np.int64))


def counts(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def pack(values: list[int], width: int, bits: int) -> bytes:
    """Pack 1024 values bit by bit, as the format's definition says it."""
    lanes = 1024 // bits
    words = [0] * (width * lanes)
    for row in range(bits):
        for lane in range(lanes):
            value = values[ORDER[row // 8] * 16 + row % 8 * 128 + lane]
            for bit in range(width):
                at = row * width + bit
                words[at // bits * lanes + lane] |= (value >> bit & 1) << at % bits
    return np.array(words, f"<u{bits // 8}").tobytes()


def fixed(encoding: Encoding, buffers: tuple[Chunked, ...], sizes: np.ndarray, bits: int) -> list[int]:
    data = decode_fixed_width(encoding, buffers, sizes, bits_per_value=bits)
    return np.frombuffer(data.tobytes(), f"<u{bits // 8}").tolist()


def test_flat_values_of_several_chunks() -> None:
    buffer = chunked(struct.pack("<2h", 1, -2), struct.pack("<1h", 3) + b"padding")
    assert fixed(Flat(16), (buffer,), counts(2, 1), 16) == [1, 65534, 3]


def test_bits_restart_in_every_chunk() -> None:
    buffer = chunked(b"\x01", b"\x02", b"\xff")
    array = decode_values(Flat(1), (buffer,), counts(2, 2, 3), pa.bool_())
    assert array.to_pylist() == [True, False, False, True, True, True, True]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_bitpacking_of_every_width(bits: int) -> None:
    rng = np.random.default_rng(bits)
    for width in sorted({0, 1, 3, bits // 2, bits - 1, bits}):
        values = [int(v) * 2 >> (64 - width) for v in rng.integers(0, 2**63, 1024)]
        block = pack(values, width, bits)
        inline = chunked(
            width.to_bytes(bits // 8, "little") + block, width.to_bytes(bits // 8, "little") + block
        )
        found = fixed(InlineBitpacking(bits), (inline,), counts(1024, 7), bits)
        assert found == values + values[:7], width
        packed = OutOfLineBitpacking(bits, width)
        assert fixed(packed, (chunked(block + block),), counts(2000), bits) == values + values[:976]
        if width and width < bits:
            tail = np.array(values[:3], f"<u{bits // 8}").tobytes()
            assert fixed(packed, (chunked(block + tail),), counts(1027), bits) == values + values[:3]


def test_runs() -> None:
    buffers = chunked(b"\x05\x06"), chunked(b"\x02\xff")
    assert fixed(Rle(Flat(8), Flat(8)), buffers, counts(4), 8) == [5, 5, 6, 6]
    block = chunked(struct.pack("<Q2H", 4, 7, 8) + b"\x01\x03")
    data = decode_fixed_width_block(Rle(Flat(16), Flat(8)), block, counts(4), bits_per_value=16)
    assert np.frombuffer(data, "<u2").tolist() == [7, 8, 8, 8]


@pytest.mark.parametrize("scheme", ["lz4", "zstd"])
def test_general_compression_of_the_first_buffer(scheme: Any) -> None:
    values, lengths = compress(scheme, b"\x05\x06"), b"\x01\x02"
    encoding = General(scheme, None, Rle(Flat(8), Flat(8)))
    assert fixed(encoding, (chunked(values), chunked(lengths)), counts(3), 8) == [5, 6, 6]


def test_bare_zstd_frames() -> None:
    frame = pa.Codec("zstd").compress(struct.pack("<2i", 1, 2), asbytes=True)
    assert fixed(General("zstd", None, Flat(32)), (chunked(frame),), counts(2), 32) == [1, 2]


def test_split_byte_streams() -> None:
    values = np.array([1.5, -2.0, 3.25], "<f4")
    planes = values.view(np.uint8).reshape(3, 4).T.tobytes()
    assert fixed(ByteStreamSplit(Flat(32)), (chunked(planes, planes[::3]),), counts(3, 1), 32)[:3] == (
        values.view("<u4").tolist()
    )


def text_chunk(*values: bytes, width: int = 4) -> bytes:
    ends = np.cumsum([(len(values) + 1) * width, *map(len, values)])
    return ends.astype(f"<u{width}").tobytes() + b"".join(values)


@pytest.mark.parametrize(("data_type", "width"), [(pa.string(), 4), (pa.large_binary(), 8)])
def test_variable_chunks(data_type: pa.DataType, width: int) -> None:
    one, two = text_chunk(b"a", b"", "gr\u00fc\u00df".encode(), width=width), text_chunk(b"xyz", width=width)
    expected = [b"a", b"", "gr\u00fc\u00df".encode(), b"xyz"]
    for chunks, sizes in (((one, two), (3, 1)), ((one,), (3,))):
        array = decode_values(Variable(8 * width), (chunked(*chunks),), counts(*sizes), data_type)
        array.validate(full=True)
        assert array.cast(pa.large_binary()).to_pylist() == expected[: sum(sizes)]


@pytest.mark.parametrize("bits", [32, 64])
def test_variable_blocks(bits: int) -> None:
    word = "<I" if bits == 32 else "<Q"
    pack_words = lambda *numbers: b"".join(struct.pack(word, number) for number in numbers)  # noqa: E731
    width = bits // 8
    block = pack_words(bits, 2 * width + 3 * width, 0, 2, 3) + b"abc"
    # as the first 2.1 writers made them: a byte of width, the number of values, the start of the bytes
    old = (
        bytes([bits])
        + pack_words(300, 1 + 2 * width + 301 * width, *[min(i, 3) for i in range(301)])
        + b"abc"
    )
    found = decode_variable_block(Variable(bits), np.frombuffer(block, np.uint8), 2, bits_per_offset=bits)
    assert found.to_arrow(pa.binary() if bits == 32 else pa.large_binary()).to_pylist() == [b"ab", b"c"]
    found = decode_variable_block(Variable(bits), np.frombuffer(old, np.uint8), 300, bits_per_offset=bits)
    values = found.to_arrow(pa.binary() if bits == 32 else pa.large_binary()).to_pylist()
    assert values == [b"a", b"b", b"c"] + [b""] * 297


def symbol_table(*symbols: bytes, switch: int = 1) -> bytes:
    header = 0x46535354 << 32 | switch << 24 | len(symbols)
    body = b"".join(symbol.ljust(8, b"\0") for symbol in symbols) + bytes(map(len, symbols))
    return (header.to_bytes(8, "little") + body).ljust(2312, b"\0")


def test_fsst() -> None:
    table = symbol_table(b"hello ", b"w", b"orld")
    coded = [b"\x00\x01\x02", b"", b"\xff!\x00\xff\xff", b"\x01" * 9]
    plain = [b"hello world", b"", b"!hello \xff", b"w" * 9]
    array = decode_values(Fsst(table, Variable(32)), (chunked(text_chunk(*coded)),), counts(4), pa.binary())
    assert array.to_pylist() == plain
    verbatim = symbol_table(switch=0)
    array = decode_values(
        Fsst(verbatim, Variable(32)), (chunked(text_chunk(*plain)),), counts(4), pa.binary()
    )
    assert array.to_pylist() == plain


@given(st.lists(st.lists(st.integers(0, 5), max_size=40), min_size=1, max_size=30))
@settings(deadline=None, derandomize=True)
def test_fsst_against_its_definition(values: list[list[int]]) -> None:
    symbols = [b"a", b"bc", b"defghijk", b"\xff\xfe", b"xyz"]
    coded = [b"".join(bytes([c]) if c < 5 else b"\xff\x07" for c in codes) for codes in values]
    plain = [b"".join(symbols[c] if c < 5 else b"\x07" for c in codes) for codes in values]
    offsets = np.cumsum([0, *map(len, coded)]).astype(np.int32)
    table = SymbolTable.parse(symbol_table(*symbols))
    ends, data = table.expand(offsets, np.frombuffer(b"".join(coded), np.uint8))
    assert [data[a:b].tobytes() for a, b in pairwise(ends)] == plain


def test_fixed_size_lists_with_null_items() -> None:
    data_type = pa.list_(pa.list_(pa.int8(), 2), 2)
    encoding = FixedSizeList(2, FixedSizeList(2, Flat(8), has_validity=True), has_validity=True)
    outer, inner, values = chunked(b"\x0d"), chunked(b"\x7f"), chunked(bytes(range(8)))
    array = decode_values(encoding, (outer, inner, values), counts(2), data_type)
    assert array.to_pylist() == [[[0, 1], None], [[4, 5], [6, None]]]


def test_packed_structs() -> None:
    data_type = pa.struct([pa.field("a", pa.int8()), pa.field("b", pa.int16())])
    rows = struct.pack("<bhbh", 1, 2, 3, 4)
    array = decode_values(PackedStruct((8, 16), Flat(24)), (chunked(rows),), counts(2), data_type)
    assert array.to_pylist() == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


def test_constant_levels_take_no_bytes() -> None:
    data = decode_fixed_width_block(Constant(b"\x01"), chunked(b""), counts(3), bits_per_value=16)
    assert np.frombuffer(data, "<u2").tolist() == [1, 1, 1]


@pytest.mark.parametrize("values", [["a", "bc", "x" * 16], ["a", "y" * 17], [""]])
def test_dictionary_look_up(values: list[str]) -> None:
    numbers = [0, len(values) - 1, 0, 200]
    for data_type in (pa.string(), pa.large_string()):
        dictionary = Dictionary(pa.array(values, data_type), data_type)
        is_null = np.array([False, False, False, True])
        found = dictionary.look_up(pa.array(numbers, pa.uint8()), is_null).to_pylist()
        assert found[:3] == [values[0], values[-1], values[0]]
        with pytest.raises(CorruptDataError, match="dictionary index 200"):
            dictionary.look_up(pa.array(numbers, pa.uint8()), None)


BOMB = compress("zstd", bytes(1 << 24))
LISTS = FixedSizeList(2, Flat(64))
PACKED = PackedStruct((8,), Flat(8))
BROKEN: list[tuple[str, Encoding, tuple[bytes, ...], int, pa.DataType]] = [
    ("flat: short", Flat(32), (b"1234567",), 2, pa.int32()),
    ("flat: absurd count", Flat(32), (b"12345678",), 2**61, pa.int32()),
    ("flat: other width", Flat(16), (b"12345678",), 2, pa.int32()),
    ("flat: two buffers", Flat(32), (b"12345678", b""), 2, pa.int32()),
    ("bits: absurd count", Flat(1), (b"1",), 2**62, pa.bool_()),
    ("inline: empty", InlineBitpacking(32), (b"",), 1, pa.int32()),
    ("inline: width 33", InlineBitpacking(32), (b"\x21\0\0\0" + bytes(5000),), 1, pa.int32()),
    ("inline: width 255 of 64", InlineBitpacking(64), (b"\xff" * 8 + bytes(9000),), 1, pa.int64()),
    ("inline: short block", InlineBitpacking(32), (b"\x01\0\0\0" + bytes(120),), 1, pa.int32()),
    ("inline: too many", InlineBitpacking(32), (b"\x00\0\0\0",), 1025, pa.int32()),
    ("out of line: short", OutOfLineBitpacking(16, 3), (bytes(100),), 1024, pa.int16()),
    ("out of line: width", OutOfLineBitpacking(16, 17), (bytes(9000),), 1024, pa.int16()),
    ("runs: too short", Rle(Flat(8), Flat(8)), (b"\x01", b"\x03"), 4, pa.int8()),
    ("runs: absurd count", Rle(Flat(8), Flat(8)), (b"\x01", b"\xff"), 2**50, pa.int8()),
    ("runs: no lengths", Rle(Flat(8), Flat(8)), (b"\x01",), 1, pa.int8()),
    ("lz4: claims", General("lz4", None, Flat(8)), (b"\xff\xff\xff\x7f\0\0\0\0",), 1, pa.int8()),
    ("zstd: claims", General("zstd", None, Flat(8)), (b"\xff" * 7 + b"\x7f\0\0",), 1, pa.int8()),
    ("lz4: no room", General("lz4", None, Flat(8)), (b"\5\0\0\0\x10a",), 5, pa.int8()),
    ("zstd: more than counted", General("zstd", None, Flat(64)), (BOMB,), 1024, pa.int64()),
    ("runs: more than counted", General("zstd", None, Rle(Flat(8), Flat(8))), (BOMB, b"\1"), 1, pa.int8()),
    ("lists: more than counted", General("zstd", None, LISTS), (BOMB,), 512, pa.list_(pa.int64(), 2)),
    ("packed: more than counted", General("zstd", None, PACKED), (BOMB,), 9, pa.struct([("a", pa.int8())])),
    ("streams: short", ByteStreamSplit(Flat(32)), (bytes(11),), 3, pa.float32()),
    ("variable: no room", Variable(32), (bytes(8),), 2, pa.string()),
    ("variable: absurd count", Variable(32), (bytes(8),), 2**62, pa.string()),
    ("variable: descending", Variable(32), (struct.pack("<3I", 12, 14, 13) + b"abc",), 2, pa.string()),
    ("variable: outside", Variable(32), (struct.pack("<2I", 8, 12) + b"abc",), 1, pa.string()),
    ("variable: negative", Variable(32), (struct.pack("<2i", -8, 8) + b"abc",), 1, pa.string()),
    ("variable: offsets", Variable(64), (bytes(64),), 1, pa.string()),
    ("variable: no UTF-8", Variable(32), (text_chunk(b"\xff\xfe"),), 1, pa.string()),
    ("variable: half a character", Variable(32), (text_chunk(b"\xc3", b"\xbc"),), 2, pa.string()),
    ("fsst: no table", Fsst(b"", Variable(32)), (text_chunk(b"a"),), 1, pa.string()),
    ("fsst: long symbol", Fsst(symbol_table(b"a" * 9), Variable(32)), (text_chunk(b"\0"),), 1, pa.string()),
    ("fsst: ends in escape", Fsst(symbol_table(b"a"), Variable(32)), (text_chunk(b"\xff"),), 1, pa.binary()),
    (
        "fsst: escape between",
        Fsst(symbol_table(b"a"), Variable(32)),
        (text_chunk(b"\xff", b"b"),),
        2,
        pa.binary(),
    ),
    ("list: other size", FixedSizeList(3, Flat(8)), (bytes(9),), 3, pa.list_(pa.int8(), 2)),
    ("list: no validity", FixedSizeList(2, Flat(8), True), (), 3, pa.list_(pa.int8(), 2)),
    ("list: absurd count", FixedSizeList(2, Flat(8)), (bytes(9),), 2**62, pa.list_(pa.int8(), 2)),
    ("packed: widths", PackedStruct((16,), Flat(16)), (bytes(9),), 1, pa.struct([("a", pa.int8())])),
]


@pytest.mark.parametrize(
    ("encoding", "buffers", "count", "data_type"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN]
)
@pytest.mark.parametrize("again", [1, 2])
def test_broken_chunks(
    encoding: Encoding, buffers: tuple[bytes, ...], count: int, data_type: pa.DataType, again: int
) -> None:
    """The same chunk alone and twice: one chunk is viewed, several are copied."""
    before = pa.total_allocated_bytes()
    with pytest.raises(CorruptDataError):
        decode_values(
            encoding, tuple(chunked(*[b] * again) for b in buffers), counts(*[count] * again), data_type
        )
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_levels_of_more_than_is_counted() -> None:
    with pytest.raises(CorruptDataError, match="declare a decompressed size of 16777216 bytes"):
        decode_fixed_width_block(
            General("zstd", None, Flat(16)), chunked(BOMB), counts(1024), bits_per_value=16
        )


def test_chunks_of_text_that_expand_without_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing says how long values are; the chunks of a page are bounded together."""
    encoding = General("zstd", None, Variable(32))
    chunk = text_chunk(bytes(1 << 20))
    packed = [compress("zstd", chunk)] * 4
    sizes = counts(1, 1, 1, 1)
    array = decode_values(encoding, (chunked(*packed),), sizes, pa.binary())
    assert array.to_pylist() == [bytes(1 << 20)] * 4
    monkeypatch.setattr(general, "_MAX_PLAIN_BYTES", 4 * len(chunk) - 1)
    with pytest.raises(CorruptDataError, match=f"declare a decompressed size of {len(chunk)} bytes"):
        decode_values(encoding, (chunked(*packed),), sizes, pa.binary())
    monkeypatch.setattr(general, "_MAX_PLAIN_BYTES", 0)
    plain = [compress("zstd", text_chunk(b"abc"))] * 4
    assert decode_values(encoding, (chunked(*plain),), sizes, pa.string()).to_pylist() == ["abc"] * 4
    with pytest.raises(CorruptDataError, match="declare a decompressed size"):
        decode_variable_block(encoding, np.frombuffer(packed[0], np.uint8), 1, bits_per_offset=32)


@pytest.mark.parametrize(
    ("encoding", "data_type"),
    [
        (Variable(32), pa.int32()),
        (Flat(32), pa.string()),
        (Constant(), pa.int8()),
        (Rle(Flat(8), Flat(16)), pa.int8()),
        (Flat(8), pa.struct([("a", pa.int8())])),
    ],
)
def test_encodings_that_do_not_fit_the_type(encoding: Encoding, data_type: pa.DataType) -> None:
    buffers = tuple(chunked(bytes(64)) for _ in range(2 if isinstance(encoding, Rle) else 1))
    with pytest.raises(UnsupportedFeatureError):
        decode_values(encoding, buffers, counts(1), data_type)


@pytest.mark.parametrize("block", [b"", bytes(7), struct.pack("<2I", 32, 9), struct.pack("<2I", 32, 2**31)])
def test_broken_variable_blocks(block: bytes) -> None:
    with pytest.raises(CorruptDataError):
        decode_variable_block(Variable(32), np.frombuffer(block, np.uint8), 5, bits_per_offset=32)


def test_spans_that_touch_are_read_together() -> None:
    data = bytes(range(100))
    starts, stops = counts(0, 8, 24, 32), counts(8, 16, 32, 40)
    plan = read_spans(ByteRange(10, 90), starts, stops, mapped=False)
    assert next(plan) == [ByteRange(10, 26), ByteRange(34, 50)]
    with pytest.raises(StopIteration) as end:
        plan.send([pa.py_buffer(data[10:26]), pa.py_buffer(data[34:50])])
    joined, at = end.value.value
    assert at.tolist() == [0, 8, 16, 24]
    assert joined.tobytes() == data[10:26] + data[34:50]
    plan = read_spans(ByteRange(10, 90), counts(8, 24), counts(8, 24), mapped=False)
    empty = [pa.py_buffer(b"") for _ in next(plan)]
    with pytest.raises(StopIteration) as end:
        plan.send(empty)
    assert len(end.value.value[0]) == 0
    with pytest.raises(CorruptDataError, match="the buffer has 80"):
        next(read_spans(ByteRange(10, 90), counts(0), counts(81), mapped=True))
