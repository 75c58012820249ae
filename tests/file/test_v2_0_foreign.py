"""2.0 encodings that pylance reads and does not write, and wrong pages. The oracle is pylance's reader."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from column_cases import assert_same, selected, selections
from handmade import Handmade, Page, binary, flat, no_nulls, some_nulls
from lance.file import LanceFileReader

from lance_df._pb import encodings_v2_0_pb2 as pb
from lance_df.encodings.general.codecs import compress
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.file.open import open_file
from lance_df.storage import MappedSource

if TYPE_CHECKING:
    from pathlib import Path

BUFFER = pb.Buffer(buffer_index=0)


def read_all(path: Path) -> pa.Array:
    reader = open_file(MappedSource(str(path)))
    (found,) = reader.read(reader.schema.fields, RowRange(0, reader.num_rows))
    return found


def assert_both_read(path: Path, expected: pa.Array, *, pylance_reads: bool = True) -> None:
    column = pa.chunked_array([expected])
    if pylance_reads:
        assert LanceFileReader(str(path)).read_all().to_table()["c"].to_pylist() == expected.to_pylist()
    reader = open_file(MappedSource(str(path)))
    for rows in selections(len(expected)):
        (found,) = reader.read(reader.schema.fields, rows)
        assert_same(found, selected(column, rows))


def pack_dense(values: np.ndarray, bits: int) -> bytes:
    words = (values[:, None].astype(np.uint64) >> np.arange(bits, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(words.astype(np.uint8), bitorder="little").tobytes()


@pytest.mark.parametrize(
    ("kind", "bits"), [(pa.uint8(), 3), (pa.uint16(), 9), (pa.uint32(), 20), (pa.uint64(), 33)]
)
@pytest.mark.parametrize("num_rows", [1, 10, 1000])
def test_dense_bits(tmp_path, kind, bits, num_rows) -> None:
    values = np.random.default_rng(0).integers(0, 2**bits, num_rows, dtype=np.uint64)
    encoding = pb.ArrayEncoding(
        bitpacked=pb.Bitpacked(
            compressed_bits_per_value=bits, uncompressed_bits_per_value=kind.bit_width, buffer=BUFFER
        )
    )
    page = Page(num_rows, no_nulls(encoding), [pack_dense(values, bits)])
    assert_both_read(Handmade([page]).write(tmp_path / "f", pa.field("c", kind)), pa.array(values, kind))


def test_dense_signed_bits(tmp_path) -> None:
    values = np.arange(-100, 100)
    encoding = pb.ArrayEncoding(
        bitpacked=pb.Bitpacked(
            compressed_bits_per_value=8, uncompressed_bits_per_value=32, buffer=BUFFER, signed=True
        )
    )
    page = Page(200, encoding, [values.astype(np.int8).tobytes()])
    path = Handmade([page]).write(tmp_path / "f", pa.field("c", pa.int32()))
    assert_both_read(path, pa.array(values, pa.int32()))


@pytest.mark.parametrize("num_rows", [1, 1024, 2500])
def test_blocks_of_bits(tmp_path, num_rows) -> None:
    # A block of bytes has 8 rows of 128 lanes; of 4 bits each, rows 2k and 2k + 1 share word k of a lane.
    values = np.arange(num_rows) % 13
    rows = np.zeros((-(-num_rows // 1024), 8, 128), np.uint8)
    rows.reshape(-1)[:num_rows] = values
    packed = rows[:, 0::2] | rows[:, 1::2] << 4
    encoding = pb.ArrayEncoding(
        bitpacked_for_non_neg=pb.BitpackedForNonNeg(
            compressed_bits_per_value=4, uncompressed_bits_per_value=8, buffer=BUFFER
        )
    )
    page = Page(num_rows, no_nulls(encoding), [packed.tobytes()])
    path = Handmade([page]).write(tmp_path / "f", pa.field("c", pa.uint8()))
    assert_both_read(path, pa.array(values, pa.uint8()))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_strings_of_one_length(tmp_path, kind) -> None:
    values = [f"{i:04}" for i in range(500)]
    encoding = pb.ArrayEncoding(fixed_size_binary=pb.FixedSizeBinary(bytes=flat(8), byte_width=4))
    page = Page(500, no_nulls(encoding), ["".join(values).encode()])
    path = Handmade([page]).write(tmp_path / "f", pa.field("c", kind))
    assert_both_read(path, pa.array(values).cast(kind))


def test_null_strings_of_one_length(tmp_path) -> None:
    encoding = pb.ArrayEncoding(fixed_size_binary=pb.FixedSizeBinary(bytes=flat(8, 1), byte_width=2))
    page = Page(3, some_nulls(flat(1), encoding), [b"\x05", b"aabbcc"])
    path = Handmade([page]).write(tmp_path / "f", pa.field("c", pa.string()))
    assert_both_read(path, pa.array(["aa", None, "cc"]), pylance_reads=False)


@pytest.mark.parametrize("scheme", ["lz4", "zstd"])
def test_compressed_numbers(tmp_path, scheme) -> None:
    values = np.arange(1000, dtype=np.int32)
    page = Page(1000, no_nulls(flat(32, scheme=scheme)), [compress(scheme, values.tobytes())])
    path = Handmade([page]).write(tmp_path / "f", pa.field("c", pa.int32()))
    assert_both_read(path, pa.array(values))


def test_constants(tmp_path) -> None:
    page = Page(40, pb.ArrayEncoding(constant=pb.Constant(value=struct.pack("<i", -7))), [])
    path = Handmade([page]).write(tmp_path / "f", pa.field("c", pa.int32()))
    assert_both_read(path, pa.array([-7] * 40, pa.int32()), pylance_reads=False)


def test_buffers_of_the_column_and_of_the_file(tmp_path) -> None:
    pages = [
        Page(2, flat(32, 0, kind=1), []),
        Page(2, flat(32, 1, kind=2), []),
        Page(2, flat(32), [struct.pack("<2i", 5, 6)]),
    ]
    file = Handmade(
        pages, column_buffers=[struct.pack("<2i", 1, 2)], global_buffers=[struct.pack("<2i", 3, 4)]
    )
    path = file.write(tmp_path / "f", pa.field("c", pa.int32()))
    assert_both_read(path, pa.array([1, 2, 3, 4, 5, 6], pa.int32()), pylance_reads=False)


@pytest.mark.parametrize("footer_version", [(0, 3), (2, 0)])
def test_both_footers_and_any_alignment(tmp_path, footer_version) -> None:
    page = Page(3, no_nulls(flat(64)), [struct.pack("<3q", 1, 2, 3)])
    file = Handmade([page, page], footer_version=footer_version, alignment=1)
    path = file.write(tmp_path / "f", pa.field("c", pa.int64()))
    assert_both_read(path, pa.array([1, 2, 3] * 2))


def test_nulls_in_the_ends_by_hand(tmp_path) -> None:
    # "ab", null, "", "c": ends 2, 2 + 4, 2, 3 with an adjustment of 3 bytes + 1
    page = Page(4, binary(no_nulls(flat(64)), flat(8, 1), 4), [struct.pack("<4Q", 2, 6, 2, 3), b"abc"])
    path = Handmade([page]).write(tmp_path / "f", pa.field("c", pa.string()))
    assert_both_read(path, pa.array(["ab", None, "", "c"]))


def test_an_adjustment_of_zero_makes_every_value_null(tmp_path) -> None:
    page = Page(2, binary(no_nulls(flat(64)), flat(8, 1), 0), [struct.pack("<2Q", 1, 2), b"ab"])
    path = Handmade([page]).write(tmp_path / "f", pa.field("c", pa.binary()))
    assert read_all(path).to_pylist() == [None, None]


def test_strings_coded_as_a_dictionary_by_hand(tmp_path) -> None:
    # a u8 dictionary for strings: 0 is null, k is item k - 1
    items = binary(no_nulls(flat(64, 1)), flat(8, 2), 4)
    encoding = pb.ArrayEncoding(
        dictionary=pb.Dictionary(indices=no_nulls(flat(8)), items=items, num_dictionary_items=2)
    )
    page = Page(4, encoding, [b"\x02\x00\x01\x02", struct.pack("<2Q", 1, 3), b"abb"])
    path = Handmade([page]).write(tmp_path / "f", pa.field("c", pa.string()))
    assert_both_read(path, pa.array(["bb", None, "a", "bb"]))


WRONG = {
    "short buffer": (pa.int64(), Page(3, no_nulls(flat(64)), [b"\0" * 23]), "3 values of 64 bits take 24"),
    "other width": (pa.int64(), Page(3, no_nulls(flat(32)), [b"\0" * 12]), "found values of 32 bits"),
    "absurd count": (pa.int64(), Page(2**61, no_nulls(flat(64)), [b"\0" * 24]), "take 18446744073709551616"),
    "no such buffer": (pa.int64(), Page(1, no_nulls(flat(64, 3)), [b"\0" * 8]), "page buffer 3"),
    "no such file buffer": (pa.int64(), Page(1, flat(64, 7, kind=2), []), "file buffer 7"),
    "end beyond the bytes": (
        pa.string(),
        Page(1, binary(flat(64), flat(8, 1), 100), [struct.pack("<Q", 9), b"abc"]),
        "found 9, expected at most 3",
    ),
    "descending ends": (
        pa.string(),
        Page(2, binary(flat(64), flat(8, 1), 100), [struct.pack("<2Q", 3, 1), b"abc"]),
        "ends at 1, before its start at 3",
    ),
    "not UTF-8": (
        pa.string(),
        Page(1, binary(flat(64), flat(8, 1), 100), [struct.pack("<Q", 2), b"\xff\xfe"]),
        "not UTF-8",
    ),
    "half a character": (
        pa.string(),
        Page(2, binary(flat(64), flat(8, 1), 100), [struct.pack("<2Q", 1, 2), "é".encode()]),
        "middle of a UTF-8 character",
    ),
    "index beyond the dictionary": (
        pa.string(),
        Page(
            1,
            pb.ArrayEncoding(
                dictionary=pb.Dictionary(
                    indices=flat(8), items=binary(flat(64, 1), flat(8, 2), 9), num_dictionary_items=1
                )
            ),
            [b"\x02", struct.pack("<Q", 1), b"a"],
        ),
        "dictionary index 1 is out of range, the dictionary has 1 values",
    ),
    "zstd of another size": (
        pa.int8(),
        Page(9, flat(8, scheme="zstd"), [compress("zstd", b"12345678")]),
        "the decompressed buffer has 8",
    ),
    "zstd bomb": (
        pa.int8(),
        Page(9, flat(8, scheme="zstd"), [compress("zstd", bytes(10_000_000))]),
        "declare a decompressed size of 10000000 bytes",
    ),
    "wide bits": (
        pa.uint8(),
        Page(
            1,
            pb.ArrayEncoding(
                bitpacked=pb.Bitpacked(
                    compressed_bits_per_value=9, uncompressed_bits_per_value=8, buffer=BUFFER
                )
            ),
            [b"\0\0"],
        ),
        "packed to 9 bits",
    ),
    "string of numbers": (pa.string(), Page(1, no_nulls(flat(64)), [b"\0" * 8]), "values of fixed width"),
    "number of strings": (
        pa.int64(),
        Page(1, binary(flat(64), flat(8, 1), 9), [struct.pack("<Q", 1), b"a"]),
        "values of variable width",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_pages_name_file_column_and_page(tmp_path, name) -> None:
    kind, page, message = WRONG[name]
    path = Handmade([page]).write(tmp_path / "f", pa.field("c", kind))
    with pytest.raises(CorruptDataError, match=message) as caught:
        open_file(MappedSource(str(path))).read(
            open_file(MappedSource(str(path))).schema.fields, RowRange(0, min(page.num_rows, 10))
        )
    assert str(caught.value).startswith(f"{path}: column 0 (c), page 0: ")


def test_encodings_of_later_versions_are_unsupported(tmp_path) -> None:
    unknown = pb.ArrayEncoding()
    unknown.ParseFromString(b"\x9a\x01\x00")  # field 19, rle
    path = Handmade([Page(1, unknown, [])]).write(tmp_path / "f", pa.field("c", pa.int8()))
    with pytest.raises(
        UnsupportedFeatureError, match=r"column 0 \(c\), page 0: .* not supported in 2.0 files"
    ):
        read_all(path)


def test_a_page_of_another_version_is_unsupported(tmp_path) -> None:
    page = Page(1, flat(8), [b"a"], url="/lance.encodings21.PageLayout")
    path = Handmade([page]).write(tmp_path / "f", pa.field("c", pa.int8()))
    with pytest.raises(UnsupportedFeatureError, match="PageLayout"):
        read_all(path)


def test_rows_of_pages_and_of_the_file_must_agree(tmp_path) -> None:
    page = Page(2, flat(8), [b"ab"])
    path = Handmade([page], num_rows=3).write(tmp_path / "f", pa.field("c", pa.int8()))
    with pytest.raises(CorruptDataError, match="'c' has 2 rows, but the file has 3"):
        read_all(path)


def test_a_claim_of_countless_nulls_takes_no_memory(tmp_path) -> None:
    nulls = pb.ArrayEncoding(nullable=pb.Nullable(all_nulls={}))
    path = Handmade([Page(10**9, nulls, [])]).write(tmp_path / "f", pa.field("c", pa.int64()))
    reader = open_file(MappedSource(str(path)))
    (found,) = reader.read(reader.schema.fields, RowRange(0, 10**9))
    assert found.null_count == len(found) == 10**9
