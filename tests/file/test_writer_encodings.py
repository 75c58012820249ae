"""Columns of many kinds in all encodings that can be asked for: both readers read the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader

from lance_df.encodings.plan import RowRange
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.file.open import open_file
from lance_df.file.v2.writer import FileWriter
from lance_df.format.schema import schema_from_arrow
from lance_df.storage import open_location
from lance_df.storage.sink import ByteSink

if TYPE_CHECKING:
    from pathlib import Path

_NUMBERS = (pa.uint8(), pa.int16(), pa.float16(), pa.int32(), pa.float32(), pa.int64(), pa.float64())
_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_WIDE = (pa.decimal128(38, 0), pa.decimal256(70, 0), pa.binary(3), pa.binary(16), pa.binary(300))
_OPTIONS: dict[str, tuple[str, ...]] = {
    "compression": ("zstd", "lz4", "none", "fsst"),
    "compression-level": ("1", "7"),
    "rle-threshold": ("0.0", "1.0", "no number"),
    "bss": ("on", "off", "auto"),
    "dict-size-ratio": ("0.01", "1.0"),
    "dict-divisor": ("1", "1000"),
    "dict-values-compression": ("none", "zstd"),
    "structural-encoding": ("miniblock", "fullzip"),
    "minichunk-size": ("64", "100000"),
}


def write(path: Path, column: pa.Array, version: str, metadata: dict[str, str], page_bytes: int) -> None:
    field = pa.field("c", column.type, metadata=metadata)
    schema = schema_from_arrow(pa.schema([field]))
    writer = FileWriter(ByteSink(open_location(path)), schema, version=version, page_bytes=page_bytes)
    try:
        writer.write_batch([column])
        writer.finish()
    except BaseException:
        writer.abort()
        raise


def assert_same(found: pa.Array, expected: pa.Array) -> None:
    """Compare types, nulls and bits: NaN is not equal to itself, and -0.0 is to 0.0, but here they matter."""
    found.validate(full=True)
    assert found.type == expected.type
    _assert_same_bits(found, expected)


def _assert_same_bits(found: pa.Array, expected: pa.Array) -> None:
    if pa.types.is_nested(found.type):
        assert found.is_valid().equals(expected.is_valid())
        parts = [found.flatten(), expected.flatten()]
        if pa.types.is_struct(found.type):
            for left, right in zip(*parts, strict=True):
                _assert_same_bits(left, right)
            return
        if pa.types.is_list(found.type):
            assert found.value_lengths().equals(expected.value_lengths())
        _assert_same_bits(*parts)
    elif pa.types.is_dictionary(found.type):
        assert found.dictionary_decode().equals(expected.dictionary_decode())
    elif pa.types.is_floating(found.type):
        bits = pa.binary(found.type.bit_width // 8)
        assert found.view(bits).equals(expected.view(bits))
    else:
        assert found.equals(expected)


def read_by_pylance(path: Path, num_rows: int) -> pa.Array:
    # it cuts requests of more than 16 MiB anywhere, and then refuses offsets of 8 bytes that are not aligned
    at_once = max(1, min(num_rows, num_rows * (4 << 20) // path.stat().st_size))
    reader = LanceFileReader(str(path))
    starts = range(0, num_rows, at_once) if num_rows else [0]
    parts = [reader.read_range(start, min(at_once, num_rows - start)).to_table() for start in starts]
    return pa.concat_tables(parts)["c"].combine_chunks()


def check(path: Path, column: pa.Array) -> None:
    assert_same(read_by_pylance(path, len(column)), column)
    rows = sorted({0, len(column) // 3, len(column) - 1})
    taken = LanceFileReader(str(path)).take_rows(rows).to_table()["c"].combine_chunks()
    assert_same(taken, column.take(pa.array(rows)))
    reader = open_file(open_location(path).open())
    (found,) = reader.read(reader.schema.fields, RowRange(0, len(column)))
    assert_same(found, column)
    (taken,) = reader.read(reader.schema.fields, np.array(rows, np.int64))
    assert_same(taken, column.take(pa.array(rows)))


def values(kind: pa.DataType, pattern: str, num_rows: int, rng: np.random.Generator) -> pa.Array:
    """Return a column without nulls: all bit patterns may occur, also those of NaNs."""
    if pattern == "few":
        pool = values(kind, "random", 7, rng)
        return pool.take(pa.array(rng.integers(0, 7, num_rows)))
    if pattern == "runs":
        pool = values(kind, "random", num_rows // 20 + 1, rng)
        return pool.take(pa.array(np.repeat(np.arange(len(pool)), 20)[:num_rows]))
    if kind in _TEXTS:
        lengths = rng.integers(0, 600 if pattern == "wide" else 30, num_rows)
        data = rng.choice(np.frombuffer(b"abcdef \n", np.uint8), int(lengths.sum()))
        dtype = np.int64 if kind in (pa.large_string(), pa.large_binary()) else np.int32
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)
        return pa.Array.from_buffers(kind, num_rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    if pa.types.is_boolean(kind):
        return pa.array(rng.random(num_rows) < 0.5)
    width = kind.byte_width if pa.types.is_fixed_size_binary(kind) else kind.bit_width // 8
    data = rng.integers(0, 256, (num_rows, width), np.uint8)
    if pattern == "small":
        data[:, 1:] = 0
    if pa.types.is_decimal(kind):
        data[:, -3:] = 0
    return pa.Array.from_buffers(kind, num_rows, [None, pa.py_buffer(data.tobytes())])


def with_nulls(array: pa.Array, share: float, rng: np.random.Generator) -> pa.Array:
    """Make values null, whose bytes stay where they are."""
    valid = rng.random(len(array)) >= share
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(array.type, len(array), [bitmap, *array.buffers()[1:]])


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from((*_NUMBERS, *_TEXTS, *_WIDE, pa.bool_())))
    pattern = draw(st.sampled_from(["random", "few", "runs", "small", "wide"]))
    num_rows = draw(st.sampled_from([1, 50, 3000, 20_000]))
    if kind == pa.binary(300) or (pattern == "wide" and kind in _TEXTS):
        num_rows = min(num_rows, 3000)
    column = values(kind, pattern, num_rows, rng)
    share = draw(st.sampled_from([0, 0, 0.01, 0.5, 0.99]))
    if share:
        column = with_nulls(column, share, rng)
    start = draw(st.integers(0, 3))
    column = column[min(start, num_rows - 1) :]
    shape = draw(st.sampled_from(["flat", "flat", "struct", "list", "fixed", "dictionary"]))
    if shape == "struct":
        return pa.StructArray.from_arrays([column], ["x"], mask=pa.array(rng.random(len(column)) < share))
    if shape == "list":
        offsets = np.sort(rng.integers(0, len(column) + 1, len(column) // 2 + 2)).astype(np.int32)
        offsets[[0, -1]] = 0, len(column)
        return pa.ListArray.from_arrays(pa.array(offsets), column)
    if shape == "fixed" and kind not in _TEXTS and len(column) > 1:
        return pa.FixedSizeListArray.from_arrays(column[: len(column) // 2 * 2], 2)
    if shape == "dictionary" and (kind in _TEXTS or kind in (pa.int32(), pa.int64(), pa.uint8())):
        return column.dictionary_encode()
    return column


@st.composite
def wishes(draw: st.DrawFn) -> dict[str, str]:
    keys = draw(st.lists(st.sampled_from(sorted(_OPTIONS)), max_size=3, unique=True))
    return {f"lance-encoding:{key}": draw(st.sampled_from(_OPTIONS[key])) for key in keys}


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    column=columns(),
    metadata=wishes(),
    version=st.sampled_from(["2.1", "2.2"]),
    page_bytes=st.sampled_from([10_000, 8 << 20]),
)
def test_every_kind_of_column_in_every_encoding(
    tmp_path_factory: pytest.TempPathFactory,
    column: pa.Array,
    metadata: dict[str, str],
    version: str,
    page_bytes: int,
) -> None:
    path = tmp_path_factory.mktemp("column") / "f.lance"
    write(path, column, version, metadata, page_bytes)
    check(path, column)


def layout_of(path: Path) -> str:
    return str(LanceFileReader(str(path)).metadata().columns[0].pages[0].encoding)


@pytest.mark.parametrize(
    ("metadata", "column", "layout"),
    [
        ({"compression": "zstd"}, np.sqrt(np.arange(5000)).round(), "Zstd"),
        ({"compression": "lz4", "bss": "on"}, np.arange(5000.0), "ByteStreamSplit"),
        ({"compression": "zstd", "compression-level": "19"}, [f"value {i}" for i in range(5000)], "General"),
        ({"compression": "fsst"}, [b"some bytes"] * 3 + [b"and others"], "Fsst"),
        ({"compression": "none"}, [i % 7 for i in range(5000)], "FullZipLayout"),
        ({"rle-threshold": "1.0", "dict-size-ratio": "0.01"}, np.arange(5000) // 3, "Rle"),
        ({"structural-encoding": "miniblock"}, np.random.default_rng(0).random(5000), "MiniBlockLayout"),
        ({"structural-encoding": "fullzip"}, ["short"] * 2 + ["one"], "FullZipLayout"),
        ({"dict-divisor": "1000"}, [f"value {i % 97}" for i in range(5000)], "Fsst"),
    ],
)
def test_what_is_asked_for_is_done(
    tmp_path: Path, metadata: dict[str, str], column: Any, layout: str
) -> None:
    array = pa.array(column)
    wanted = {f"lance-encoding:{key}": value for key, value in metadata.items()}
    write(tmp_path / "f.lance", array, "2.2", wanted, 8 << 20)
    assert layout in layout_of(tmp_path / "f.lance")
    check(tmp_path / "f.lance", array)


@pytest.mark.parametrize(
    ("key", "value"),
    [("compression", "gzip"), ("structural-encoding", "rows"), ("dict-values-compression", "x")],
)
def test_encodings_that_do_not_exist(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(InvalidInputError, match=f"'c': unknown .* '{value}'"):
        write(tmp_path / "f.lance", pa.array([1, 2]), "2.2", {f"lance-encoding:{key}": value}, 8 << 20)
    assert list(tmp_path.iterdir()) == []


_ODD = {
    "one very long string": pa.array(["x" * (3 << 20), None, "", "y"]),
    "a few long binaries": pa.array([b"x" * (1 << 20)] * 3 + [b"z" * 100] * 5000, pa.large_binary()),
    "lists of long strings": pa.array([["long " * 100_000, "short"], [], None, ["s"] * 5000]),
    "hardly a string": pa.array([[]] * 70_000 + [["a"]] + [None] * 70_000, pa.list_(pa.string())),
    "hardly a number": pa.array([[i] if i % 30_000 == 7 else [] for i in range(100_000)]),
    "lists of null bits": pa.array([[None] * 3] * 2000 + [None], pa.list_(pa.bool_(), 3)),
    "lists of some bits": pa.array([[None, True, False]] * 2000 + [None], pa.list_(pa.bool_(), 3)),
    "the end of a dictionary": pa.array(["a", "b"] * 200).dictionary_encode()[399:],
    "nothing in structs": pa.array([{"x": None}] * 300, pa.struct({"x": pa.null()})),
}


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", _ODD)
def test_odd_columns(tmp_path: Path, name: str, version: str) -> None:
    write(tmp_path / "f.lance", _ODD[name], version, {}, 8 << 20)
    check(tmp_path / "f.lance", _ODD[name])


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("metadata", [{}, {"lance-encoding:structural-encoding": "fullzip"}])
@pytest.mark.parametrize("length", [2, 1028, 4100])
def test_lists_of_booleans_that_take_no_whole_bytes(
    tmp_path: Path, version: str, metadata: dict[str, str], length: int
) -> None:
    bits = np.random.default_rng(length).random(40 * length) < 0.5
    for mask in (None, pa.array([True, False] * 20)):
        column = pa.FixedSizeListArray.from_arrays(pa.array(bits), length, mask=mask)
        path = tmp_path / f"{mask is None}.lance"
        write(path, column, version, metadata, 8 << 20)
        check(path, column)


def test_lists_of_booleans_that_no_chunk_has_room_for(tmp_path: Path) -> None:
    column = pa.FixedSizeListArray.from_arrays(pa.array([True] * (1 << 20) + [False] * 9), (1 << 20) + 9)
    with pytest.raises(UnsupportedFeatureError, match="whole bytes"):
        write(tmp_path / "f.lance", column, "2.1", {}, 8 << 20)
