"""The container of 2.x files: what opens, what is refused, what is read."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from damage import CountingSource
from handmade import Handmade, Page, flat
from lance.file import LanceFileReader, LanceFileWriter

from lance_df._pb import file_pb2
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError, LanceError, UnsupportedFeatureError
from lance_df.file.open import open_file
from lance_df.file.v2.container import Container
from lance_df.format.column_metadata import COLUMN_ENCODING_URL, ColumnInfo
from lance_df.format.file_metadata import Footer
from lance_df.storage import ByteRange, MappedSource

if TYPE_CHECKING:
    from pathlib import Path


def container(path: Path) -> Container:
    return Container(MappedSource(str(path)))


@pytest.fixture(params=["2.0", "2.1", "2.2"])
def written(request, tmp_path) -> tuple[str, Path]:
    table = pa.table({"a": range(100), "s": [{"x": str(i)} for i in range(100)]})
    with LanceFileWriter(str(tmp_path / "f"), table.schema, version=request.param) as writer:
        writer.write_batch(table)
        index = writer.add_global_buffer(b"hello")
    assert index == 1
    return request.param, tmp_path / "f"


def test_what_pylance_wrote(written) -> None:
    version, path = written
    opened = container(path)
    assert (opened.version, opened.num_rows, opened.path) == (version, 100, str(path))
    assert opened.schema.names == ["a", "s"]
    assert opened.num_columns == {"2.0": 3}.get(version, 2)
    assert opened.global_buffer(1).to_pybytes() == b"hello"
    assert opened.num_global_buffers == 2
    described = LanceFileReader(str(path)).metadata()
    for number, column in enumerate(described.columns):
        pages = opened.column(number).pages
        assert [page.num_rows for page in pages] == [100]
        for page, expected in zip(pages, column.pages, strict=True):
            assert [(b.start, b.num_bytes) for b in page.buffers] == [
                (buffer.position, buffer.size) for buffer in expected.buffers
            ]


def test_one_request_opens_a_file(written) -> None:
    _, path = written
    source = CountingSource(str(path))
    opened = Container(source)
    opened.column(1)
    opened.global_buffer(1)
    assert source.requests == 1


def test_metadata_beyond_the_tail_is_read_with_few_requests(tmp_path) -> None:
    columns = {f"column number {i} with a long name": [i] for i in range(1500)}
    table = pa.table(columns)
    with LanceFileWriter(str(tmp_path / "f"), table.schema, version="2.1") as writer:
        writer.write_batch(table)
    source = CountingSource(str(tmp_path / "f"))
    opened = Container(source)
    assert source.requests <= 3
    before = source.requests
    opened.load_columns(range(1500))
    assert source.requests <= before + 1
    assert opened.num_columns == 1500
    assert opened.column(1499).pages[0].num_rows == 1


def test_buffers_and_columns_that_are_not_there(written) -> None:
    opened = container(written[1])
    for wrong in (-1, 2):
        with pytest.raises(CorruptDataError, match=f"global buffer {wrong} .* has 2"):
            opened.global_buffer(wrong)
    for wrong in (-1, 3):
        with pytest.raises(CorruptDataError, match=f"column {wrong} is out of range"):
            opened.column(wrong)


@pytest.mark.parametrize("content", [b"", b"LANC", b"\0" * 100, b"PAR1" * 20, b"x" * 7])
def test_other_files_are_not_lance_files(tmp_path, content) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(CorruptDataError, match=r"f: .*(not a Lance file|truncated)"):
        open_file(MappedSource(str(tmp_path / "f")))


def test_every_truncation_is_noticed(written, tmp_path) -> None:
    content = written[1].read_bytes()
    for size in range(0, len(content), 97):
        (tmp_path / "cut").write_bytes(content[:size])
        with pytest.raises(LanceError, match="cut: "):
            open_file(MappedSource(str(tmp_path / "cut")))


PAGE = Page(2, flat(8), [b"ab"])
FIELD = pa.field("c", pa.int8())


@pytest.mark.parametrize(
    ("footer_version", "message"),
    [((2, 3), "2.3, which is unstable"), ((3, 0), "3.0"), ((0, 4), "0.4"), ((65535, 65535), "65535")],
)
def test_unknown_versions_are_unsupported(tmp_path, footer_version, message) -> None:
    path = Handmade([PAGE], footer_version=footer_version).write(tmp_path / "f", FIELD)
    with pytest.raises(
        UnsupportedFeatureError, match=f"f: written in file version {message}.*reads 0.1, 2.0"
    ):
        open_file(MappedSource(str(path)))


@pytest.mark.parametrize("footer_version", [(2, 1), (2, 2)])
def test_later_versions_must_be_aligned(tmp_path, footer_version) -> None:
    path = Handmade([PAGE], footer_version=footer_version, alignment=1).write(tmp_path / "f", FIELD)
    with pytest.raises(CorruptDataError, match="expected a multiple of 64"):
        container(path)
    path = Handmade([PAGE], footer_version=(0, 3), alignment=1).write(tmp_path / "f", FIELD)
    assert container(path).column(0).pages[0].buffers == (ByteRange(0, 2),)


def test_unaligned_pages_of_later_versions(tmp_path) -> None:
    page = Page(2, flat(8), [b"ab", b"c"])
    path = Handmade([page], footer_version=(2, 1)).write(tmp_path / "f", FIELD)
    assert len(container(path).column(0).pages[0].buffers) == 2
    # the second buffer starts at 64: let the metadata say 65
    content = path.read_bytes()
    at = content.index(b"\x0a\x02\x00\x40")  # buffer_offsets, packed
    path.write_bytes(content[: at + 3] + b"\x41" + content[at + 4 :])
    with pytest.raises(CorruptDataError, match=r"column 0, page 0: .* multiple of 64"):
        container(path).column(0)


def footer(**changes: int) -> bytes:
    fields = {
        "columns_start": 100,
        "column_table": 200,
        "global_table": 216,
        "num_global": 1,
        "num_columns": 1,
        "major": 2,
        "minor": 1,
    } | changes
    return struct.pack("<QQQIIHH4s", *fields.values(), b"LANC")


def test_a_footer_by_hand() -> None:
    parsed = Footer.parse(footer(), file_size=272, source="f")
    assert parsed == Footer(
        version="2.1",
        columns_start=100,
        column_table=ByteRange(200, 216),
        global_buffer_table=ByteRange(216, 232),
        num_columns=1,
        num_global_buffers=1,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns_start": 2**63}, "column metadata starts at byte"),
        ({"column_table": 2**64 - 1}, "the table of column metadata"),
        ({"num_columns": 2**32 - 1}, "the table of column metadata"),
        ({"global_table": 230}, "the table of global buffers"),
        ({"num_global": 0}, "the file has no global buffers"),
    ],
)
def test_impossible_footers(changes, message) -> None:
    with pytest.raises(CorruptDataError, match=f"f: {message}"):
        Footer.parse(footer(**changes), file_size=272, source="f")


def test_impossible_table_entries(written) -> None:
    _, path = written
    content = bytearray(path.read_bytes())
    (position,) = struct.unpack_from("<Q", content, len(content) - 32)
    for value in (2**64 - 1, len(content)):
        struct.pack_into("<Q", content, position + 8, value)
        path.write_bytes(content)
        with pytest.raises(CorruptDataError, match=f"the metadata of column 0 takes {value} bytes"):
            container(path)


def test_a_dispatch_to_every_version(tmp_path) -> None:
    for version in ("legacy", "2.0", "2.1", "2.2"):
        dataset = lance.write_dataset(pa.table({"a": [1]}), tmp_path / version, data_storage_version=version)
        (path,) = (tmp_path / version / "data").iterdir()
        reader = open_file(CountingSource(str(path)))
        assert reader.version == version.replace("legacy", "0.1")
        assert reader.num_rows == dataset.count_rows() == 1


def test_pages_of_2_1_before_its_release_are_unsupported(tmp_path) -> None:
    path = Handmade([PAGE], footer_version=(2, 1)).write(tmp_path / "f", FIELD)
    reader = open_file(MappedSource(str(path)))
    with pytest.raises(UnsupportedFeatureError, match=r"f: .*ArrayEncoding"):
        reader.read(reader.schema.fields, RowRange(0, 2))


def test_encodings_outside_the_metadata_are_unsupported(tmp_path) -> None:
    path = Handmade([PAGE]).write(tmp_path / "f", FIELD)
    indirect = file_pb2.ColumnMetadata(pages=[{"length": 1, "encoding": {"indirect": {"buffer_length": 9}}}])
    for message, found in ((indirect, "indirect"), (file_pb2.ColumnMetadata(pages=[{}]), "absent")):
        with pytest.raises(UnsupportedFeatureError, match=rf"f: column 3, page 0: .* but is {found}"):
            ColumnInfo.from_proto(message.SerializeToString(), file_size=9, source="f", column=3)
    assert container(path).column(0).encoding_url == COLUMN_ENCODING_URL


def test_buffers_outside_the_file_are_corrupt() -> None:
    for offsets, sizes, message in (
        ([8], [2], "bytes 8 to 10"),
        ([2**64 - 1], [2**64 - 1], "bytes 18446"),
        ([1], [], "1 buffer"),
    ):
        data = file_pb2.ColumnMetadata(buffer_offsets=offsets, buffer_sizes=sizes).SerializeToString()
        with pytest.raises(CorruptDataError, match=f"f: column 3: .*{message}"):
            ColumnInfo.from_proto(data, file_size=9, source="f", column=3)
