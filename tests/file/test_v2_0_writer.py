"""2.0 files that ours writes: the encodings that pylance chooses, sizes like pylance's, read by both."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import lance.file
import numpy as np
import pyarrow as pa
import pytest
from column_cases import table_with_nulls, table_without_nulls
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_df.file
from lance_df.encodings.v2_0 import encode_leaf
from lance_df.errors import InvalidInputError, LanceError, UnsupportedFeatureError

if TYPE_CHECKING:
    from pathlib import Path

N = 1000
TEXTS = pa.array([f"value number {i} {i % 17}" for i in range(N)])
PACKED = {"lance-encoding:packed": "true"}
BLOB = {"lance-encoding:blob": "true"}


def compressed(scheme: str, level: str | None = None) -> dict[str, str]:
    options = {"lance-encoding:compression": scheme}
    return options if level is None else {**options, "lance-encoding:compression-level": level}


def one_column(array: pa.Array, metadata: dict[str, str] | None = None) -> pa.Table:
    return pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=metadata)]))


def written_by(library: Any, path: Path, table: pa.Table) -> Path:
    with library.file.LanceFileWriter(str(path), table.schema, version="2.0") as writer:
        writer.write_batch(table)
    return path


def encodings(path: Path) -> list[list[str]]:
    """Return the kinds of encoding of each page, from the outside to the inside, without sizes."""
    columns = lance.file.LanceFileReader(str(path)).metadata().columns
    # "none" is a compression to pylance; the level is not told by ours
    kinds = re.compile(r"\b(?!Some|None|Compression)[A-Z]\w+")
    return [[" ".join(kinds.findall(page.encoding)) for page in column.pages] for column in columns]


def buffer_sizes(path: Path) -> list[list[int]]:
    columns = lance.file.LanceFileReader(str(path)).metadata().columns
    return [[buffer.size for page in column.pages for buffer in page.buffers] for column in columns]


def assert_both_read(path: Path, table: pa.Table) -> None:
    for library in (lance, lance_df):
        found = library.file.LanceFileReader(str(path)).read_all(batch_size=333).to_table()
        for name in table.column_names:
            assert found[name].to_pylist() == table[name].to_pylist(), library.__name__


SMALL_STRUCT = pa.struct([("x", pa.int8()), ("y", pa.list_(pa.float32(), 2)), ("z", pa.binary(3))])
PACKED_ROWS = pa.array([{"x": i % 100, "y": [i, 2.0], "z": b"abc"} for i in range(N)], SMALL_STRUCT)
CASES: dict[str, tuple[pa.Array, dict[str, str] | None]] = {
    "equal integers": (pa.array([7] * N), None),
    "small integers": (pa.array([i % 3 for i in range(N)]), None),
    "integers that ask for zstd": (pa.array(range(N)), compressed("zstd")),
    "booleans": (pa.array([True, None] * 50), None),
    "nulls": (pa.nulls(N), None),
    "integers, all null": (pa.nulls(N, pa.int64()), None),
    "a few texts": (pa.array(["a", "b", None] * N), None),
    "a few large texts": (pa.array(["a", "b", None] * N, pa.large_string()), None),
    "a few texts in a few rows": (pa.array(["a", "b", None] * 5), None),
    "many texts": (TEXTS, None),
    "many texts with nulls": (pa.array([None if i % 3 else str(i) for i in range(N)]), None),
    "texts, all null": (pa.nulls(5, pa.string()), None),
    "many texts, all null": (pa.nulls(N, pa.string()), None),
    "empty texts": (pa.array([""] * N), None),
    "zstd": (TEXTS, compressed("zstd")),
    "zstd with a level": (TEXTS, compressed("zstd", "19")),
    "zstd of large texts": (TEXTS.cast(pa.large_string()), compressed("zstd")),
    "zstd of binaries": (TEXTS.cast(pa.binary()), compressed("zstd")),
    "zstd of a few texts": (pa.array(["a", "b"] * N), compressed("zstd")),
    "zstd with nulls": (pa.array([None if i % 3 else str(i) for i in range(N)]), compressed("zstd")),
    "lz4": (TEXTS, compressed("lz4")),
    "none": (TEXTS, compressed("none")),
    "unknown": (TEXTS, compressed("brotli")),
    "items of lists": (
        pa.array([[f"hello {i}"] * (i % 3) for i in range(N)]).cast(
            pa.list_(pa.field("item", pa.string(), metadata=compressed("zstd")))
        ),
        None,
    ),
    "lists with nulls": (pa.array([[1, 2], None, [], [None]] * 9), None),
    "fixed-size lists": (pa.array([[1, 2], None, [3, None]] * 3, pa.list_(pa.int32(), 2)), None),
    "fixed-size lists of lists": (
        pa.array([[[1, 2], [3, 4]], None] * 3, pa.list_(pa.list_(pa.int32(), 2), 2)),
        None,
    ),
    "fixed-size lists of nulls": (pa.array([[None]] * 5, pa.list_(pa.null(), 1)), None),
    "packed": (PACKED_ROWS, PACKED),
    "packed, a sliced array": (PACKED_ROWS.slice(10, 50), {"packed": "true"}),
    "packed items": (
        pa.array([[{"x": 1, "y": 2}] * (i % 3) for i in range(N)]).cast(
            pa.list_(pa.field("item", pa.struct([("x", pa.int8()), ("y", pa.int64())]), metadata=PACKED))
        ),
        None,
    ),
    "structs": (pa.array([{"a": {"b": i}, "c": str(i)} for i in range(N)]), None),
    "structs without fields": (pa.array([{}] * N, pa.struct([])), None),
    "dictionary": (pa.array(["x", "y", None] * N).dictionary_encode(), None),
    "dictionary of booleans": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1] * N, pa.uint16()), [True, False]),
        None,
    ),
    "dictionary with a null value": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1] * N, pa.int8()), pa.array(["a", None])),
        None,
    ),
    "dictionary of integers": (pa.array([5, 7, 5] * N).dictionary_encode(), None),
}


@pytest.mark.parametrize("case", CASES)
def test_encodings_are_pylances(tmp_path: Path, case: str) -> None:
    table = one_column(*CASES[case])
    ours = written_by(lance_df, tmp_path / "ours", table)
    theirs = written_by(lance, tmp_path / "theirs", table)
    assert encodings(ours) == encodings(theirs)
    assert_both_read(ours, table)
    stored, expected = ([sum(sizes) for sizes in buffer_sizes(path)] for path in (ours, theirs))
    if "lz4" not in case and "zstd" not in case and case != "items of lists":  # compressors differ
        assert stored == expected
    assert ours.stat().st_size <= theirs.stat().st_size * 1.1 + 64


BLOBS = [b"x" * (i % 5 * 70) if i % 3 else None for i in range(40)]
BLOB_CASES: dict[str, tuple[pa.Array, dict[str, str] | None]] = {
    "flat": (pa.array(BLOBS, pa.large_binary()), BLOB),
    "a slice": (pa.array(BLOBS, pa.large_binary()).slice(7, 20), BLOB),
    "nulls": (pa.nulls(5, pa.large_binary()), BLOB),
    "in structs": (
        pa.array([{"b": blob, "i": 1} for blob in BLOBS]).cast(
            pa.struct([pa.field("b", pa.large_binary(), metadata=BLOB), ("i", pa.int64())])
        ),
        None,
    ),
    "in lists": (
        pa.array([None, BLOBS[:9], [], BLOBS[9:20]], pa.list_(pa.large_binary())).cast(
            pa.list_(pa.field("item", pa.large_binary(), metadata=BLOB))
        ),
        None,
    ),
}


@pytest.mark.parametrize("case", BLOB_CASES)
def test_blobs(tmp_path: Path, case: str) -> None:
    table = one_column(*BLOB_CASES[case])
    ours = written_by(lance_df, tmp_path / "ours", table)
    theirs = written_by(lance, tmp_path / "theirs", table)
    assert encodings(ours) == encodings(theirs)
    assert buffer_sizes(ours) == buffer_sizes(theirs)
    assert_both_read(ours, table)
    assert ours.stat().st_size <= theirs.stat().st_size + 64


def test_blobs_of_a_table(tmp_path: Path) -> None:
    table = one_column(pa.array(BLOBS, pa.large_binary()), BLOB)
    lance_df.write_dataset(table, tmp_path / "t", data_storage_version="2.0")
    theirs = lance.dataset(tmp_path / "t")
    theirs.validate()
    wanted = [3, 4, 5, 11]
    found = [blob and blob.readall() for blob in theirs.take_blobs("c", indices=wanted)]
    assert found == [BLOBS[row] for row in wanted]
    lance.write_dataset(table, tmp_path / "t", mode="append")
    lance_df.write_dataset(table, tmp_path / "t", mode="append")
    assert lance.dataset(tmp_path / "t").count_rows() == 120


def test_symbols_on_request(tmp_path: Path) -> None:
    texts = pa.array([f"https://example.org/some/path/{i}?query={i % 7}" for i in range(20_000)])
    table = one_column(texts, compressed("fsst"))
    path = written_by(lance_df, tmp_path / "f", table)
    assert "Fsst" in encodings(path)[0][0]
    assert_both_read(path, table)
    ((ends, codes),) = buffer_sizes(path)
    assert (ends, codes < sum(len(text) for text in texts.to_pylist()) / 2) == (160_000, True)
    nothing = one_column(pa.array(["", None] * 3), compressed("fsst"))
    assert_both_read(written_by(lance_df, tmp_path / "g", nothing), nothing)


@pytest.mark.parametrize("data_type", [pa.large_string(), pa.large_binary()], ids=str)
def test_symbols_are_not_for_large_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_type: pa.DataType
) -> None:
    texts = [None if i % 9 == 4 else f"v{i // 40}" for i in range(5_000)]
    table = one_column(pa.array(texts).cast(data_type), compressed("fsst"))
    path = written_by(lance_df, tmp_path / "f", table)
    assert "Fsst" not in encodings(path)[0][0]
    assert_both_read(path, table)

    # as earlier releases wrote them, for which there was no such rule
    monkeypatch.setattr(encode_leaf, "is_large", lambda _: False)
    path = written_by(lance_df, tmp_path / "g", table)
    assert "Fsst" in encodings(path)[0][0]
    assert lance_df.file.LanceFileReader(str(path)).read_all().to_table() == table


@pytest.mark.parametrize("num_rows", [0, 1, 5])
def test_short_columns(tmp_path: Path, num_rows: int) -> None:
    cases = {case: (array.slice(0, num_rows), metadata) for case, (array, metadata) in CASES.items()}
    if num_rows == 1:
        cases.pop("packed items")  # there are none, which pylance neither writes nor reads
    table = pa.table(
        [array for array, _ in cases.values()],
        schema=pa.schema([pa.field(case, each.type, metadata=meta) for case, (each, meta) in cases.items()]),
    )
    path = written_by(lance_df, tmp_path / "f", table)
    assert_both_read(path, table)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    make=st.sampled_from([table_without_nulls, table_with_nulls]),
    start=st.integers(0, 50),
    cuts=st.lists(st.integers(0, 100), max_size=2),
    page_bytes=st.sampled_from([None, 500]),
)
def test_slices_of_every_type(
    tmp_path: Path, make: Any, start: int, cuts: list[int], page_bytes: int | None
) -> None:
    table = make(300)
    # structs are never null in 2.0, and there are no maps
    kept = [
        field.name
        for field in table.schema
        if "struct" not in str(field.type) and "map" not in str(field.type)
    ]
    bounds = [start, *sorted(cut for cut in cuts if cut > start), 100]
    parts = [table.select(kept).slice(low, high - low) for low, high in itertools.pairwise(bounds)]
    with lance_df.file.LanceFileWriter(tmp_path / "f", version="2.0", max_page_bytes=page_bytes) as writer:
        for part in parts:
            writer.write_batch(part)
    assert_both_read(tmp_path / "f", pa.concat_tables(parts))


def test_columns_of_fixed_width_are_read_without_a_copy(tmp_path: Path) -> None:
    table = pa.table({"i": np.arange(70_000), "f": np.arange(70_000, dtype=np.float32)})
    path = written_by(lance_df, tmp_path / "f", table)
    content = path.read_bytes()
    for column, sizes in zip(table.columns, buffer_sizes(path), strict=True):
        (chunk,) = column.chunks
        assert chunk.buffers()[1].to_pybytes() in content
        assert sizes == [chunk.nbytes]
    found = lance_df.file.LanceFileReader(str(path)).read_all(batch_size=70_000).to_table()
    addresses = [chunk.buffers()[1].address for column in found.columns for chunk in column.chunks]
    before = pa.total_allocated_bytes() + 10_000
    again = lance_df.file.LanceFileReader(str(path)).read_all(batch_size=70_000).to_table()
    assert pa.total_allocated_bytes() < before
    assert again.equals(found)
    assert all(address % 64 == 0 for address in addresses)


STRUCT = pa.struct([("x", pa.int64())])
REFUSED: dict[str, tuple[pa.Array, dict[str, str] | None, type[LanceError]]] = {
    "null structs": (pa.array([{"x": 1}, None], STRUCT), None, InvalidInputError),
    "null structs in lists": (pa.array([[{"x": 1}, None]], pa.list_(STRUCT)), None, InvalidInputError),
    "null packed structs": (pa.array([{"x": 1}, None], STRUCT), PACKED, InvalidInputError),
    "nulls in packed structs": (pa.array([{"x": 1}, {"x": None}], STRUCT), PACKED, InvalidInputError),
    "only nulls in packed structs": (pa.array([{"x": None}], STRUCT), PACKED, InvalidInputError),
    "packed booleans": (pa.array([{"x": True}]), PACKED, UnsupportedFeatureError),
    "packed texts": (pa.array([{"x": "a"}]), PACKED, UnsupportedFeatureError),
    "maps": (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), None, UnsupportedFeatureError),
    "views of lists": (pa.array([[1]], pa.list_view(pa.int8())), None, UnsupportedFeatureError),
    "decimal64": (pa.array([1], pa.decimal64(10)), None, UnsupportedFeatureError),
    "fixed-size lists of texts": (pa.array([["a"]], pa.list_(pa.string(), 1)), None, UnsupportedFeatureError),
    "dictionary of dates": (
        pa.array([1], pa.date32()).dictionary_encode(),
        None,
        UnsupportedFeatureError,
    ),
    "a dictionary without room for null": (
        pa.DictionaryArray.from_arrays(pa.array([0, None], pa.uint8()), [str(i) for i in range(256)]),
        None,
        InvalidInputError,
    ),
    "blobs that are texts": (pa.array(["a"]), BLOB, UnsupportedFeatureError),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_pylance_refuses_is_refused(tmp_path: Path, case: str) -> None:
    array, metadata, error = REFUSED[case]
    table = one_column(array, metadata)
    with pytest.raises(BaseException):  # noqa: B017, PT011 - it panics, too
        written_by(lance, tmp_path / "theirs", table)
    with pytest.raises(error, match=r"column '?c|Arrow type|dictionary of 256"):
        written_by(lance_df, tmp_path / "ours", table)
    assert not (tmp_path / "ours").exists()
