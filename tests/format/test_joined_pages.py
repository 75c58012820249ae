"""Columns of several files that are one: pages as each file has them, moved to where the file is."""

from __future__ import annotations

import dataclasses

import pytest
from google.protobuf.any_pb2 import Any
from hypothesis import given
from hypothesis import strategies as st

from lance_df._pb import file_pb2 as pb
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.column_metadata import ColumnInfo, JoinedPages, join_columns
from lance_df.storage import ByteRange

_SIZE = 1000
_PAGES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), max_size=2),
        st.sampled_from([0, 1, 10]),
        st.sampled_from([b"", b"encoding", b"another"]),
    ),
    max_size=3,
)


def _message(pages: list[tuple[list[tuple[int, int]], int, bytes]]) -> bytes:
    message = pb.ColumnMetadata()
    for buffers, num_rows, encoding in pages:
        page = message.pages.add(length=num_rows)
        for offset, size in buffers:
            page.buffer_offsets.append(offset)
            page.buffer_sizes.append(size)
        page.encoding.direct.encoding = Any(type_url="url", value=encoding).SerializeToString()
    return message.SerializeToString()


def _shifted(buffers: tuple[ByteRange, ...], shift: int) -> tuple[ByteRange, ...]:
    return tuple(ByteRange(shift + each.start, shift + each.stop) for each in buffers)


def _joined(messages: list[bytes], spans: list[tuple[int, int]]) -> ColumnInfo:
    return join_columns(messages, spans, source="files", column=3)


@given(st.lists(_PAGES, max_size=5))
def test_pages_of_all_files(files: list[list[tuple[list[tuple[int, int]], int, bytes]]]) -> None:
    messages = [_message(pages) for pages in files]
    spans = [(number * 1024, number * 1024 + _SIZE) for number in range(len(files))]
    joined = _joined(messages, spans)
    wanted = [
        dataclasses.replace(page, buffers=_shifted(page.buffers, start))
        for data, (start, _) in zip(messages, spans, strict=True)
        for page in ColumnInfo.from_proto(data, file_size=_SIZE, source="file", column=3).pages
    ]
    assert list(joined.pages) == wanted
    assert joined.pages[1:] == tuple(wanted[1:])
    plain = ColumnInfo(tuple(wanted), "", b"", ())
    numbers = range(0, len(wanted), 2)
    for info in (joined, plain):
        assert info.page_rows() == [page.num_rows for page in wanted]
        assert info.page_bytes() == [sum(each.num_bytes for each in page.buffers) for page in wanted]
        assert info.spans(numbers).tolist() == [
            [each.start, each.stop] for number in numbers for each in wanted[number].buffers
        ]
        alike = [info.distinct[kind] for kind in info.kinds]
        assert [(page.num_rows, page.encoding) for page in alike] == [
            (page.num_rows, page.encoding) for page in wanted
        ]


def test_what_files_have_in_common_is_there_once() -> None:
    message = _message([([(0, 10)], 5, b"encoding")])
    pages = _joined([message] * 100, [(0, _SIZE)] * 100).pages
    assert isinstance(pages, JoinedPages)
    assert (len(pages), len(pages.distinct)) == (100, 1)


def test_each_file_is_as_long_as_its_buffers_need() -> None:
    message = _message([([(0, 10), (64, 36)], 5, b"encoding")])
    assert len(_joined([message, message], [(0, 100), (128, 228)]).pages) == 2
    for spans in ([(0, 100), (128, 227)], [(0, 99), (128, 228)]):
        with pytest.raises(CorruptDataError, match="files: column 3"):
            _joined([message, message], spans)


def test_columns_that_are_not_alike() -> None:
    other = pb.ColumnMetadata(buffer_offsets=[0], buffer_sizes=[1]).SerializeToString()
    encoded = pb.ColumnMetadata()
    encoded.encoding.direct.encoding = Any(type_url="url").SerializeToString()
    for strange in (other, encoded.SerializeToString()):
        with pytest.raises(UnsupportedFeatureError, match="files: column 3"):
            _joined([_message([]), strange], [(0, 100), (128, 228)])
    with pytest.raises(CorruptDataError, match="files: column 3"):
        _joined([_message([]), b"\xff"], [(0, 100), (128, 228)])
