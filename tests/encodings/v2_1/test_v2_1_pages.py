"""Pages made by hand: what older writers made, what no writer makes, and what is broken."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from lance_df.encodings.levels.nested import Ancestor, path_array
from lance_df.encodings.plan import RowRange, Rows
from lance_df.encodings.v2_1.page import open_page
from lance_df.errors import CorruptDataError, LanceError, UnsupportedFeatureError
from lance_df.file.io import run_plan
from lance_df.format.encodings_v2_1 import (
    BlobLayout,
    Constant,
    ConstantLayout,
    FixedSizeList,
    Flat,
    FullZipLayout,
    MiniBlockLayout,
    PackedStruct,
    PageLayout,
    RepDefLayer,
    Rle,
    Variable,
)
from lance_df.format.page_layout_messages import layout_from_proto, layout_to_proto, parse_page_layout
from lance_df.storage import ByteRange
from lance_df.storage.source import ByteSource

ITEM, NULLABLE = RepDefLayer.ALL_VALID_ITEM, RepDefLayer.NULLABLE_ITEM
ANY_LIST = RepDefLayer.NULL_AND_EMPTY_LIST
LIST = (Ancestor("list", "item"),)


class Buffers(ByteSource):
    """Page buffers in memory."""

    def __init__(self, buffers: Sequence[bytes], *, mapped: bool) -> None:
        self.path = "page"
        self.ranges, data = [], b""
        for buffer in buffers:
            self.ranges.append(ByteRange(len(data), len(data) + len(buffer)))
            data += buffer + bytes(-len(buffer) % 64)
        self.size, self._data, self._mapped = len(data), pa.py_buffer(data), mapped

    @property
    def is_memory_mapped(self) -> bool:
        return self._mapped

    def _read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        return [self._data.slice(wanted.start, wanted.num_bytes) for wanted in ranges]


def decode(
    layout: PageLayout,
    buffers: Sequence[bytes],
    num_rows: int,
    data_type: pa.DataType,
    ancestors: Sequence[Ancestor] = (),
    rows: Rows | None = None,
) -> list[object]:
    assert layout_from_proto(layout_to_proto(layout)) == layout
    found = []
    for mapped in (True, False):
        source = Buffers(buffers, mapped=mapped)
        page = open_page(layout, source.ranges, num_rows, data_type, mapped=mapped)
        loaded, within = run_plan(source, page.load(RowRange(0, num_rows) if rows is None else rows))
        array = path_array(loaded.slots(within), ancestors)
        array.validate(full=True)
        found.append(array.to_pylist())
    assert found[0] == found[1]
    return found[0]


def u16(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}H", *numbers)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


@pytest.mark.parametrize("large", [False, True])
def test_the_size_of_chunk_words_follows_the_flag(large: bool) -> None:
    """Early 2.2 files have 16-bit words."""
    chunk = padded(u16(0) + struct.pack("<I" if large else "<H", 12)) + padded(struct.pack("<3i", 1, 2, 3))
    word = struct.pack("<I" if large else "<H", (len(chunk) // 8 - 1) << 4)
    layout = MiniBlockLayout(
        values=Flat(32), num_items=3, num_buffers=1, layers=(ITEM,), has_large_chunk=large
    )
    assert decode(layout, [word, chunk], 3, pa.int32()) == [1, 2, 3]
    assert decode(layout, [word, chunk], 3, pa.int32(), rows=np.array([0, 2])) == [1, 3]


def test_a_row_that_spans_chunks() -> None:
    """[1, 2, 3, 4, 5], [6]: the first row covers two chunks and ends in the third."""

    def chunk(rep: list[int], values: list[int]) -> bytes:
        header = padded(u16(len(rep), 2 * len(rep), len(values)))
        return header + padded(u16(*rep)) + padded(bytes(values))

    chunks = [chunk([1, 0], [1, 2]), chunk([0, 0], [3, 4]), chunk([0, 1], [5, 6])]
    words = u16(*[(len(c) // 8 - 1) << 4 | 1 for c in chunks])
    index = struct.pack("<6Q", 0, 2, 0, 2, 2, 0)
    layout = MiniBlockLayout(
        values=Flat(8),
        num_items=6,
        num_buffers=1,
        layers=(ITEM, RepDefLayer.ALL_VALID_LIST),
        repetition=Flat(16),
        repetition_index_depth=1,
    )
    buffers = [words, b"".join(chunks), index]
    for rows, expected in (
        (RowRange(0, 2), [[1, 2, 3, 4, 5], [6]]),
        (RowRange(1, 2), [[6]]),
        (np.array([0]), [[1, 2, 3, 4, 5]]),
    ):
        assert decode(layout, buffers, 2, pa.uint8(), LIST, rows) == expected
    wrong = struct.pack("<6Q", 1, 0, 0, 2, 1, 0)
    with pytest.raises(CorruptDataError, match="disagree"):
        decode(layout, [*buffers[:2], wrong], 2, pa.uint8(), LIST)


def test_indices_of_nulls_mean_nothing() -> None:
    chunk = padded(u16(2, 4, 2)) + padded(u16(0, 1)) + padded(b"\x00\xff")
    block = struct.pack("<4I", 32, 16, 0, 1) + b"a"
    layout = MiniBlockLayout(
        values=Flat(8),
        num_items=2,
        num_buffers=1,
        layers=(NULLABLE,),
        definition=Flat(16),
        dictionary=Variable(32),
        num_dictionary_items=1,
    )
    word = u16((len(chunk) // 8 - 1) << 4)
    assert decode(layout, [word, chunk, block], 2, pa.string()) == ["a", None]
    by_index = pa.dictionary(pa.int8(), pa.string())
    assert decode(layout, [word, chunk, block], 2, by_index) == ["a", None]
    visible = padded(u16(2, 4, 2)) + padded(u16(0, 0)) + padded(b"\x00\xff")
    with pytest.raises(CorruptDataError, match="dictionary index 255"):
        decode(layout, [word, visible, block], 2, pa.string())


def test_lists_that_are_all_null_may_be_full_zip_without_values() -> None:
    """Writers before 4.0 made fixed-size lists that are all null so."""
    layout = FullZipLayout(
        values=Constant(),
        num_slots=3,
        num_visible_items=3,
        layers=(NULLABLE,),
        bits_per_definition=1,
        bits_per_value=0,
    )
    assert decode(layout, [b"\1\1\1"], 3, pa.list_(pa.float32(), 4)) == [None] * 3


def test_full_zip_lists_of_strings() -> None:
    """["a", null], null, [], ["bc"]: repetition << 2 | definition, then the length where there is a value."""
    records = [
        b"\x04" + struct.pack("<I", 1) + b"a" + b"\x01",
        b"\x06",
        b"\x07",
        b"\x04" + struct.pack("<I", 2) + b"bc",
    ]
    index = bytes(np.cumsum([0, *map(len, records)]).tolist())
    layout = FullZipLayout(
        values=Variable(32),
        num_slots=5,
        num_visible_items=3,
        layers=(NULLABLE, ANY_LIST),
        bits_per_repetition=1,
        bits_per_definition=2,
        bits_per_offset=32,
    )
    buffers = [b"".join(records), index]
    assert decode(layout, buffers, 4, pa.string(), LIST) == [["a", None], None, [], ["bc"]]
    assert decode(layout, buffers, 4, pa.string(), LIST, np.array([0, 3])) == [["a", None], ["bc"]]
    for bad in (
        [b"".join(records)[:-1], index],
        [records[0], index],
        [buffers[0], index[::-1]],
        [buffers[0], b""],
    ):
        with pytest.raises(CorruptDataError):
            decode(layout, bad, 4, pa.string(), LIST)


def test_full_zip_lists_with_item_validity() -> None:
    layout = FullZipLayout(
        values=FixedSizeList(2, Flat(16), has_validity=True),
        num_slots=2,
        num_visible_items=2,
        layers=(ITEM,),
        bits_per_value=40,
    )
    data = b"\x01" + u16(5, 6) + b"\x03" + u16(7, 8)
    assert decode(layout, [data], 2, pa.list_(pa.int16(), 2)) == [[5, None], [7, 8]]


@pytest.mark.parametrize(
    ("data_type", "inline", "buffers", "expected"),
    [
        (pa.int16(), b"\x05\x00", [], 5),
        (pa.bool_(), b"\x01", [], True),
        (pa.string(), None, [struct.pack("<5I", 2, 8, 3, 0, 3) + b"abc"], "abc"),
        (pa.large_binary(), None, [struct.pack("<3I2Q", 2, 16, 3, 1, 3) + b"abc"], b"bc"),
        (pa.binary(40), None, [struct.pack("<2I", 1, 40) + b"x" * 40], b"x" * 40),
    ],
)
def test_constants(
    data_type: pa.DataType, inline: bytes | None, buffers: list[bytes], expected: object
) -> None:
    flat = ConstantLayout(layers=(ITEM,), inline_value=inline)
    assert decode(flat, buffers, 9, data_type, rows=RowRange(2, 5)) == [expected] * 3
    nullable = ConstantLayout(layers=(NULLABLE,), inline_value=inline)
    assert decode(nullable, [*buffers, b"", u16(0, 1, 0)], 3, data_type) == [expected, None, expected]
    lists = ConstantLayout(layers=(NULLABLE, ANY_LIST), inline_value=inline)
    levels = [u16(1, 0, 1, 1), u16(0, 1, 2, 3)]
    assert decode(lists, [*buffers, *levels], 3, data_type, LIST) == [[expected, None], None, []]
    assert decode(lists, [*buffers, *levels], 3, data_type, LIST, np.array([2])) == [[]]


def test_all_null_pages_take_memory_for_what_is_asked_only() -> None:
    layout = ConstantLayout(layers=(NULLABLE,))
    assert decode(layout, [], 2**60, pa.int64(), rows=RowRange(2**59, 2**59 + 2)) == [None, None]
    compressed = ConstantLayout(
        layers=(NULLABLE, ANY_LIST),
        repetition=Rle(Flat(16), Flat(8)),
        definition=Rle(Flat(16), Flat(8)),
        num_repetition_levels=3,
        num_definition_levels=3,
    )
    ones = struct.pack("<QH", 2, 1) + b"\x03"
    assert decode(compressed, [ones, ones], 3, pa.int64(), LIST) == [[None]] * 3
    absurd = ConstantLayout(layers=(NULLABLE,), definition=Flat(16), num_definition_levels=2**40)
    with pytest.raises(CorruptDataError):
        decode(absurd, [b"", u16(1, 1)], 2**40, pa.int64(), rows=RowRange(0, 1))


def test_constant_pages_without_a_value_hold_nulls_only() -> None:
    with pytest.raises(CorruptDataError, match="without a value"):
        decode(ConstantLayout(layers=(ITEM,)), [], 3, pa.int8())
    with pytest.raises(CorruptDataError, match="without a value"):
        decode(ConstantLayout(layers=(NULLABLE,)), [b"", u16(1, 0, 1)], 3, pa.int8())


def test_blob_pages_hold_levels_in_positions() -> None:
    descriptor = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])
    rows = struct.pack("<6Q", 640, 5, 1 << 16, 0, 0, 0)
    inner = FullZipLayout(
        values=Flat(128), num_slots=3, num_visible_items=3, layers=(ITEM,), bits_per_value=128
    )
    with pytest.raises(LanceError):
        decode(BlobLayout(inner=inner, layers=(NULLABLE,)), [rows], 3, descriptor)
    chunk = padded(u16(0, 48)) + rows
    mini = MiniBlockLayout(
        values=PackedStruct((64, 64), Flat(128)), num_items=3, num_buffers=1, layers=(ITEM,)
    )
    word = u16((len(chunk) // 8 - 1) << 4)
    found = decode(BlobLayout(inner=mini, layers=(NULLABLE,)), [word, chunk], 3, descriptor)
    assert found == [{"position": 640, "size": 5}, None, {"position": 0, "size": 0}]


def test_levels_without_a_meaning() -> None:
    layout = ConstantLayout(layers=(NULLABLE, ANY_LIST), inline_value=b"\x01")
    for rep, definition in (([2], [0]), ([1], [4]), ([1, 1], [0]), ([0], [0]), ([], [])):
        with pytest.raises(CorruptDataError):
            decode(layout, [u16(*rep), u16(*definition)], 1, pa.int8(), LIST)
    with pytest.raises(CorruptDataError, match="layers"):
        decode(layout, [u16(1), u16(0)], 1, pa.int8(), ())


BROKEN_TABLES: list[tuple[dict[str, int], list[bytes]]] = [
    ({}, [u16(0x10), bytes(8)]),
    ({}, [b"\0", bytes(16)]),
    ({"num_items": 2**62}, [u16(0x10), bytes(16)]),
    ({"num_items": 1}, [u16(0x11, 0x10), bytes(64)]),
    ({"num_buffers": 2**40}, [u16(0x10), bytes(16)]),
    ({"num_buffers": 0}, [u16(0x10), bytes(16)]),
    ({}, [u16(0x10), u16(0, 2000) + bytes(12)]),
    ({}, [u16(0x10)]),
]


@pytest.mark.parametrize(("changes", "buffers"), BROKEN_TABLES)
def test_broken_chunk_tables(changes: dict[str, int], buffers: list[bytes]) -> None:
    layout = MiniBlockLayout(
        **{"values": Flat(32), "num_items": 2, "num_buffers": 1, "layers": (ITEM,), **changes}
    )
    with pytest.raises(CorruptDataError):
        decode(layout, buffers, layout.num_items, pa.int32(), rows=RowRange(0, 1))


@pytest.mark.parametrize("num_items", [2**31, 2**62])
def test_chunks_of_so_many_items_that_their_bytes_are_no_number(num_items: int) -> None:
    """Kernels would count 2**62 items of 4 bytes as none."""
    layout = MiniBlockLayout(values=Flat(32), num_items=num_items, num_buffers=1, layers=(ITEM,))
    source = Buffers([u16(0x10), bytes(16)], mapped=True)
    page = open_page(layout, source.ranges, num_items, pa.int32(), mapped=True)
    with pytest.raises(CorruptDataError, match=f"a chunk has {num_items} items"):
        run_plan(source, page.whole())


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        (MiniBlockLayout(values=Flat(32), num_items=2, num_buffers=1, layers=(ITEM,)), "num_items"),
        (
            MiniBlockLayout(values=Flat(32), num_items=2, num_buffers=1, layers=(ITEM,), dictionary=Flat(32)),
            "num_dictionary_items",
        ),
        (ConstantLayout(layers=(NULLABLE,)), "num_rep_values"),
        (ConstantLayout(layers=(NULLABLE,)), "num_def_values"),
    ],
)
def test_counts_of_64_bits_are_refused(layout: PageLayout, name: str) -> None:
    message = layout_to_proto(layout)
    setattr(getattr(message, message.WhichOneof("layout")), name, 2**64 - 1)
    with pytest.raises(CorruptDataError, match="a page has 18446744073709551615 "):
        layout_from_proto(message)


def test_unknown_layouts_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="PlanarLayout"):
        parse_page_layout("/lance.encodings23.PlanarLayout", b"", source="here")
    with pytest.raises(UnsupportedFeatureError):
        parse_page_layout("/lance.encodings21.PageLayout", b"", source="here")
    with pytest.raises(CorruptDataError, match="here"):
        parse_page_layout("/lance.encodings21.PageLayout", b"\xff\xff", source="here")
