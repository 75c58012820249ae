"""Files that pylance writes, read by ours: against what was written, and by rows of any choice."""

from __future__ import annotations

import dataclasses
import decimal
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.arrow import BFloat16Type
from lance.file import LanceFileWriter

import lance_df
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.file.v2.container import Container
from lance_df.file.v2.reader_2_1 import V2_1FileReader
from lance_df.format.blobs import blob_description
from lance_df.storage import ByteRange
from lance_df.storage.source import ByteSource, MappedSource

VERSIONS = ("2.1", "2.2")
NULLS = {"none": 0.0, "some": 0.3, "all": 1.0}


def write(path: Path, table: pa.Table, version: str, **options: Any) -> V2_1FileReader:
    with LanceFileWriter(str(path), table.schema, version=version, **options) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    return open_reader(path)


def open_reader(path: Path) -> V2_1FileReader:
    return V2_1FileReader(Container(MappedSource(str(path))))


class RecordingSource(ByteSource):
    """A file that is not mapped; keeps the ranges that were asked for."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.data = pa.py_buffer(Path(path).read_bytes())
        self.size = self.data.size
        self.asked: list[ByteRange] = []

    @property
    def is_memory_mapped(self) -> bool:
        return False

    def _read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        self.asked += ranges
        # one byte off, so that nothing is aligned as it is in the file
        return [pa.py_buffer(b"x" + self.data[r.start : r.stop].to_pybytes()).slice(1) for r in ranges]


def row_choices(num_rows: int, rng: np.random.Generator) -> list[RowRange | np.ndarray]:
    choices: list[RowRange | np.ndarray] = [RowRange(0, num_rows), RowRange(0, 0), np.empty(0, np.int64)]
    if num_rows:
        middle = num_rows // 2
        choices += [RowRange(middle, num_rows), RowRange(num_rows // 3, middle + 1), np.array([num_rows - 1])]
        choices.append(np.unique(rng.integers(0, num_rows, min(num_rows, 50))))
    return choices


def check(reader: V2_1FileReader, expected: pa.Table, rng: np.random.Generator) -> None:
    """Compare every column for several choices of rows."""
    assert reader.num_rows == expected.num_rows
    columns = {
        name: pa.concat_arrays(expected[name].chunks)
        if expected[name].num_chunks
        else pa.array([], expected[name].type)
        for name in expected.column_names
    }
    remote = V2_1FileReader(Container(RecordingSource(reader.path)))
    for number, rows in enumerate(row_choices(expected.num_rows, rng)):
        arrays = (remote if number > 3 else reader).read(reader.schema.fields, rows)
        for name, array in zip(expected.column_names, arrays, strict=True):
            whole = columns[name]
            wanted = (
                whole[rows.start : rows.stop] if isinstance(rows, RowRange) else whole.take(pa.array(rows))
            )
            array.validate(full=True)
            assert array.type == wanted.type, name
            assert comparable(array).equals(comparable(wanted)), (name, rows)


def comparable(array: pa.Array) -> pa.Array:
    """Return an array that is equal to another when the values are: NaN, and whatever dictionaries hold."""
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    if pa.types.is_list(array.type) and pa.types.is_dictionary(array.type.value_type):
        return array.cast(pa.list_(array.type.value_type.value_type))
    if pa.types.is_floating(array.type):
        return array.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[array.type.bit_width])
    return array


def masked(array: pa.Array, nulls: float, rng: np.random.Generator) -> pa.Array:
    if not nulls:
        return array
    return array.take(pa.array(np.arange(len(array)), mask=rng.random(len(array)) < nulls))


def integers(data_type: pa.DataType, count: int, rng: np.random.Generator) -> pa.Array:
    info = np.iinfo(data_type.to_pandas_dtype())
    return pa.array(rng.integers(info.min, info.max, count, endpoint=True, dtype=info.dtype), data_type)


@functools.cache
def primitive_columns(count: int) -> dict[str, pa.Array]:
    """One column for each Arrow type without children, and for each encoding that values bring about."""
    rng = np.random.default_rng(count)
    columns: dict[str, pa.Array] = {}
    for width in (8, 16, 32, 64):
        for sign in ("int", "uint"):
            columns[f"{sign}{width}"] = integers(pa.type_for_alias(f"{sign}{width}"), count, rng)
    small = rng.integers(0, 40, count)
    columns["small"] = pa.array(small, pa.int64())
    columns["small_16"] = pa.array(small, pa.uint16())
    columns["runs"] = pa.array(np.repeat(small, 60)[:count], pa.int32())
    columns["sorted"] = pa.array(np.arange(count) * 3, pa.int64())
    columns["constant"] = pa.array(np.full(count, 7), pa.int64())
    columns["half"] = pa.array(rng.standard_normal(count).astype(np.float16), pa.float16())
    columns["float"] = pa.array(rng.standard_normal(count), pa.float32())
    columns["double"] = pa.array(np.where(small == 3, np.nan, rng.random(count)), pa.float64())
    columns["bool"] = pa.array(rng.random(count) < 0.5)
    columns["true"] = pa.array(np.full(count, True))
    columns["date32"] = pa.array(small, pa.int32()).cast(pa.date32())
    columns["date64"] = pa.array(small * 86_400_000, pa.int64()).cast(pa.date64())
    columns["time32"] = pa.array(small, pa.int32()).cast(pa.time32("ms"))
    columns["time64"] = pa.array(small, pa.int64()).cast(pa.time64("ns"))
    columns["duration"] = pa.array(small, pa.int64()).cast(pa.duration("us"))
    columns["timestamp"] = pa.array(small * 10**9, pa.int64()).cast(pa.timestamp("us"))
    columns["zoned"] = pa.array(small * 10**9, pa.int64()).cast(pa.timestamp("ns", "America/New_York"))
    wide = rng.integers(-(10**15), 10**15, count).tolist()
    columns["decimal"] = pa.array([decimal.Decimal(v).scaleb(-4) for v in wide], pa.decimal128(38, 4))
    columns["few_decimals"] = pa.array(
        [decimal.Decimal(v).scaleb(-2) for v in small.tolist()], pa.decimal128(10, 2)
    )
    columns["decimal256"] = pa.array([decimal.Decimal(v).scaleb(-4) for v in wide], pa.decimal256(60, 4))
    columns["fixed_3"] = pa.array([bytes(3 * [v % 256]) for v in wide], pa.binary(3))
    columns["fixed_300"] = pa.array([bytes(300 * [v % 256]) for v in wide], pa.binary(300))
    columns["null"] = pa.nulls(count)
    text = [f"{v:x} grüße {v % 91}" for v in wide]
    for name in ("string", "large_string", "binary", "large_binary"):
        data_type = pa.type_for_alias(name)
        columns[name] = pa.array(text, pa.string()).cast(data_type)
        columns[f"few_{name}"] = pa.array([f"v{v}" for v in small.tolist()], pa.string()).cast(data_type)
        columns[f"constant_{name}"] = pa.array(["same"] * count, pa.string()).cast(data_type)
        columns[f"long_{name}"] = pa.array([t * (v % 60) for t, v in zip(text, wide, strict=True)]).cast(
            data_type
        )
    columns["empty_strings"] = pa.array([""] * count)
    columns["dictionary"] = (
        columns["few_string"].dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    )
    columns["int_dictionary"] = pa.DictionaryArray.from_arrays(
        pa.array(small % 5, pa.uint16()), pa.array([5, 6, 7, 8, 9], pa.int64())
    )
    return columns


@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("count", [0, 1, 5, 1000])
@pytest.mark.parametrize("version", VERSIONS)
def test_primitive_types(tmp_path: Path, version: str, count: int, nulls: str) -> None:
    rng = np.random.default_rng(count)
    table = pa.table({k: masked(v, NULLS[nulls], rng) for k, v in primitive_columns(count).items()})
    check(write(tmp_path / "f.lance", table, version), table, rng)


@pytest.mark.parametrize("nulls", ["none", "some"])
@pytest.mark.parametrize("version", VERSIONS)
def test_many_rows(tmp_path: Path, version: str, nulls: str) -> None:
    rng = np.random.default_rng(7)
    names = [
        "int16",
        "int64",
        "small",
        "small_16",
        "runs",
        "constant",
        "double",
        "bool",
        "few_decimals",
        "decimal",
        "fixed_3",
        "string",
        "few_string",
        "long_binary",
        "constant_string",
        "dictionary",
    ]
    columns = primitive_columns(70_000)
    table = pa.table({name: masked(columns[name], NULLS[nulls], rng) for name in names})
    check(write(tmp_path / "f.lance", table, version), table, rng)


def list_of(
    items: pa.Array, count: int, rng: np.random.Generator, nulls: float, kind: Any = pa.ListArray
) -> pa.Array:
    lengths = np.where(rng.random(count) < 0.3, 0, rng.integers(0, 5, count))
    hidden = rng.random(count) < nulls
    lengths[hidden] = 0
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    repeats = -(-int(offsets[-1]) // max(len(items), 1))
    pool = pa.concat_arrays([items] * max(repeats, 1))[: int(offsets[-1])]
    return kind.from_arrays(
        pa.array(offsets, pa.int64() if kind is pa.LargeListArray else pa.int32()),
        pool,
        mask=pa.array(hidden),
    )


def struct_of(children: dict[str, pa.Array], rng: np.random.Generator, nulls: float) -> pa.Array:
    count = len(next(iter(children.values())))
    return pa.StructArray.from_arrays(
        list(children.values()), list(children), mask=pa.array(rng.random(count) < nulls)
    )


def nested_columns(count: int, rng: np.random.Generator, nulls: float) -> dict[str, pa.Array]:
    ints = masked(integers(pa.int32(), count, rng), nulls, rng)
    text = masked(pa.array([f"text {v}" for v in range(count)], pa.string()), nulls, rng)
    wide = pa.array([b"x" * (300 + v % 7) for v in range(count)], pa.binary())
    struct = struct_of({"x": ints, "y": text}, rng, nulls)
    list_of_ints = list_of(ints, count, rng, nulls)
    fixed = pa.FixedSizeListArray.from_arrays(
        masked(pa.array(rng.standard_normal(count * 4), pa.float32()), nulls, rng), 4
    )
    embedding = pa.FixedSizeListArray.from_arrays(
        pa.array(rng.standard_normal(count * 768), pa.float32()), 768
    )
    bits = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(count * 5) < 0.5), 5)
    return {
        "struct": struct,
        "deep": struct_of({"a": struct_of({"b": struct}, rng, nulls), "c": ints}, rng, nulls),
        "list": list_of_ints,
        "large_list": list_of(text, count, rng, nulls, pa.LargeListArray),
        "list_wide": list_of(wide, count, rng, nulls),
        "list_list": list_of(list_of_ints, count, rng, nulls),
        "list_struct": list_of(struct, count, rng, nulls),
        "struct_list": struct_of({"l": list_of_ints, "i": ints}, rng, nulls),
        "list_struct_list": list_of(
            struct_of({"l": list_of_ints, "s": struct}, rng, nulls), count, rng, nulls
        ),
        "empty_lists": pa.array([[]] * count, pa.list_(pa.int64())),
        "null_lists": pa.array([None] * count, pa.list_(pa.int64())),
        "fixed": fixed,
        "embedding": embedding,
        "bits": bits,
        "list_fixed": list_of(fixed, count, rng, nulls),
        "list_embedding": list_of(embedding[: min(count, 40)], min(count, 40), rng, nulls)
        if count <= 40
        else ints,
        "list_dictionary": list_of(
            pa.array(["a", "b"] * count)[:count].dictionary_encode(), count, rng, nulls
        ),
        "list_bool": list_of(masked(pa.array(rng.random(count) < 0.5), nulls, rng), count, rng, nulls),
    }


@pytest.mark.parametrize("nulls", [0.0, 0.2])
@pytest.mark.parametrize("count", [1, 5, 1000])
@pytest.mark.parametrize("version", VERSIONS)
def test_nested_types(tmp_path: Path, version: str, count: int, nulls: float) -> None:
    rng = np.random.default_rng(count)
    for name, array in nested_columns(count, rng, nulls).items():
        table = pa.table({name: array})
        check(write(tmp_path / f"{name}.lance", table, version), table, rng)


def with_metadata(array: pa.Array, **metadata: str) -> pa.Table:
    encoded = {f"lance-encoding:{key.replace('_', '-')}": value for key, value in metadata.items()}
    return pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=encoded)]))


@pytest.mark.parametrize("nulls", [0.0, 0.2])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "metadata",
    [
        {"compression": "zstd"},
        {"compression": "lz4"},
        {"compression": "zstd", "bss": "on"},
        {"compression": "none"},
        {"compression": "fsst"},
        {"structural_encoding": "fullzip"},
        {"structural_encoding": "fullzip", "compression": "zstd"},
        {"structural_encoding": "fullzip", "compression": "fsst"},
        {"structural_encoding": "miniblock", "compression": "zstd"},
    ],
    ids=lambda metadata: "-".join(metadata.values()),
)
def test_encodings_on_request(tmp_path: Path, version: str, nulls: float, metadata: dict[str, str]) -> None:
    rng = np.random.default_rng(3)
    columns = primitive_columns(3000)
    names = [
        "int64",
        "small",
        "runs",
        "float",
        "double",
        "string",
        "few_string",
        "long_string",
        "long_binary",
        "large_string",
        "binary",
        "decimal",
    ]
    if "structural_encoding" not in metadata:
        names += ["bool", "fixed_300", "dictionary"]
    arrays = {name: masked(columns[name], nulls, rng) for name in names}
    arrays["list"] = list_of(arrays["string"], 3000, rng, nulls)
    arrays["list_int"] = list_of(arrays["int64"], 3000, rng, nulls)
    for name, array in arrays.items():
        if name in ("large_string",) and metadata.get("compression") == "fsst":
            continue
        table = with_metadata(array, **metadata)
        check(write(tmp_path / f"{name}.lance", table, version), table, rng)


def test_binaries_without_bytes(tmp_path: Path) -> None:
    column = pa.array([b"", None, b""] * 100, pa.binary(0))
    for name, array in (("nulls", column), ("none", column.drop_null()), ("all", pa.nulls(9, pa.binary(0)))):
        lance.write_dataset(pa.table({"c": array}), tmp_path / name, data_storage_version="2.2")
        ours = lance_df.dataset(tmp_path / name)
        assert ours.to_table()["c"].combine_chunks().equals(array)
        assert ours.take([2, 0])["c"].to_pylist() == array.take(pa.array([2, 0])).to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
def test_full_zip_bool(tmp_path: Path, version: str) -> None:
    rng = np.random.default_rng(3)
    array = masked(pa.array(rng.random(1000) < 0.5), 0.2, rng)
    table = with_metadata(array, structural_encoding="fullzip")
    check(write(tmp_path / "f.lance", table, version), table, rng)


@pytest.mark.parametrize("version", VERSIONS)
def test_pages_of_a_column_may_differ(tmp_path: Path, version: str) -> None:
    """No nulls, then nulls, then nothing else; each part is larger than a page may be."""
    rng = np.random.default_rng(5)
    count = 3000
    parts = [nested_columns(count, rng, nulls)["list_struct_list"] for nulls in (0.0, 0.3, 1.0)]
    flat = [masked(primitive_columns(3 * count)["string"][:count], nulls, rng) for nulls in (0.0, 0.3, 1.0)]
    table = pa.table({"n": pa.chunked_array(parts), "s": pa.chunked_array(flat)})
    path = tmp_path / "f.lance"
    reader = write(path, table, version, data_cache_bytes=1)
    assert len(reader.page_starts(reader.schema.fields)) > 2
    check(reader, table, rng)


def test_maps(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    for nulls in (0.0, 0.3):
        keys = pa.array([f"k{v}" for v in range(2000)])
        values = masked(integers(pa.int64(), 2000, rng), nulls, rng)
        offsets = np.sort(rng.integers(0, 2000, 501)).astype(np.int32)
        data_type = pa.map_(pa.string(), pa.int64())
        maps = pa.MapArray.from_arrays(pa.array(offsets), keys, values)
        maps = pa.array([None if rng.random() < nulls else row for row in maps.to_pylist()], data_type)
        table = pa.table(
            {"m": maps, "s": struct_of({"m": maps}, rng, nulls), "l": list_of(maps, 500, rng, nulls)}
        )
        check(write(tmp_path / f"{nulls}.lance", table, "2.2"), table, rng)


def test_fixed_size_lists_of_structs(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    for nulls in (0.0, 0.3):
        count = 900
        items = struct_of(
            {
                "x": masked(integers(pa.int32(), count * 3, rng), nulls, rng),
                "w": masked(pa.array(["w" * (300 + v % 5) for v in range(count * 3)]), nulls, rng),
            },
            rng,
            nulls,
        )
        hidden = pa.array(rng.random(count) < nulls)
        lists = pa.FixedSizeListArray.from_arrays(items, 3, mask=hidden)
        table = pa.table({"f": lists, "i": pa.array(range(count))})
        check(write(tmp_path / f"{nulls}.lance", table, "2.2"), table, rng)


def test_fixed_size_list_of_structs_in_a_struct(tmp_path: Path) -> None:
    """pylance writes this and cannot read it."""
    rng = np.random.default_rng(9)
    items = pa.StructArray.from_arrays([pa.array(range(300))], ["x"])
    lists = pa.FixedSizeListArray.from_arrays(items, 3, mask=pa.array(rng.random(100) < 0.2))
    table = pa.table({"s": struct_of({"f": lists, "i": pa.array(range(100))}, rng, 0.3)})
    check(write(tmp_path / "f.lance", table, "2.2"), table, rng)


@pytest.mark.parametrize("version", VERSIONS)
def test_empty_structs(tmp_path: Path, version: str) -> None:
    rng = np.random.default_rng(1)
    empty = pa.StructArray.from_buffers(pa.struct([]), 50, [None])
    ints = pa.array(range(50))
    inner = pa.StructArray.from_arrays([empty, ints], ["e", "i"])
    only = pa.StructArray.from_arrays([empty], ["e"])
    table = pa.table({"e": empty, "s": inner, "o": only})
    check(write(tmp_path / "f.lance", table, version), table, rng)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nulls", [0.0, 0.2])
def test_packed_structs(tmp_path: Path, version: str, nulls: float) -> None:
    rng = np.random.default_rng(1)
    columns = primitive_columns(2000)
    fixed = struct_of({name: columns[name] for name in ("int8", "int64", "decimal", "date32")}, rng, nulls)
    table = with_metadata(fixed, packed="true")
    reader = write(tmp_path / "f.lance", table, version)
    assert list(reader.column_of.values()) == [0]
    check(reader, table, rng)
    (field,) = reader.schema.fields
    for kept in ([1], [3, 0]):
        part = field.with_children(field.children[number] for number in kept)
        wanted = pc_struct(fixed, [field.children[number].name for number in kept])
        for start, stop in ((0, 2000), (10, 500), (1503, 1507)):
            (array,) = reader.read([part], RowRange(start, stop))
            array.validate(full=True)
            assert array.equals(wanted[start:stop])


def pc_struct(array: pa.StructArray, names: list[str]) -> pa.Array:
    return pa.StructArray.from_arrays([array.field(name) for name in names], names, mask=array.is_null())


def test_packed_structs_of_variable_width(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    columns = primitive_columns(2000)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.standard_normal(8000), pa.float32()), 4)
    for nulls in (0.0, 0.3):
        children = {name: columns[name] for name in ("int8", "long_string", "int64", "large_binary")}
        table = with_metadata(struct_of({**children, "v": vectors}, rng, nulls), packed="true")
        check(write(tmp_path / f"{nulls}.lance", table, "2.2"), table, rng)


@pytest.mark.parametrize("version", VERSIONS)
def test_subfields(tmp_path: Path, version: str) -> None:
    rng = np.random.default_rng(2)
    nested = nested_columns(1000, rng, 0.2)["list_struct_list"]
    reader = write(tmp_path / "f.lance", pa.table({"n": nested}), version)
    (field,) = reader.schema.fields
    (struct,) = field.children
    inner = struct.children[1]
    kept = field.with_children([struct.with_children([inner.with_children([inner.children[1]])])])
    (array,) = reader.read([kept], RowRange(100, 900))
    rows = [
        None
        if row is None
        else [
            None if item is None else {"s": None if item["s"] is None else {"y": item["s"]["y"]}}
            for item in row
        ]
        for row in nested[100:900].to_pylist()
    ]
    assert array.to_pylist() == rows
    array.validate(full=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_outside_the_file_are_refused(tmp_path: Path, version: str) -> None:
    reader = write(tmp_path / "f.lance", pa.table({"a": [1, 2, 3]}), version)
    for rows in (RowRange(0, 4), RowRange(-1, 2), np.array([1, 3])):
        with pytest.raises(InvalidInputError, match=r"f\.lance.*the file has 3"):
            reader.read(reader.schema.fields, rows)


@pytest.mark.parametrize("version", VERSIONS)
def test_takes_read_only_what_they_need(tmp_path: Path, version: str) -> None:
    rng = np.random.default_rng(4)
    count = 50_000
    columns = {
        "flat": integers(pa.int64(), count, rng),
        "text": pa.array([f"value {v} of many" for v in rng.integers(0, 10**12, count)]),
        "wide": pa.array([b"w" * 400] * count, pa.binary(400)),
        "lists": list_of(integers(pa.int64(), 1000, rng), count, rng, 0.1),
        "long": pa.array([f"{v}" * 100 for v in range(count)]),
    }
    limits = {"flat": 9_000, "text": 9_000, "wide": 400, "lists": 40_000, "long": 2_000}
    path = tmp_path / "f.lance"
    write(path, pa.table(columns), version)
    for name, array in columns.items():
        source = RecordingSource(str(path))
        reader = V2_1FileReader(Container(source))
        field = reader.schema.field(name)
        reader.read([field], RowRange(0, 1))
        source.asked.clear()
        (taken,) = reader.read([field], np.array([count // 2]))
        assert taken.equals(array[count // 2 : count // 2 + 1])
        assert sum(asked.num_bytes for asked in source.asked) <= limits[name], name


def test_blobs(tmp_path: Path) -> None:
    """2.1 and 2.2 columns are read as the descriptors that pylance shows."""
    values = [b"small", None, b"", b"m" * 100_000, b"l" * 5_000_000]
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    for version in VERSIONS:
        uri = str(tmp_path / version)
        dataset = lance.write_dataset(
            pa.table([pa.array(values, pa.large_binary())], schema), uri, data_storage_version=version
        )
        (data_file,) = (tmp_path / version / "data").glob("*.lance")
        reader = open_reader(data_file)
        for rows in row_choices(5, np.random.default_rng(0)):
            (array,) = reader.read([blob_description(field) for field in reader.schema.fields], rows)
            wanted = dataset.take(
                list(range(rows.start, rows.stop)) if isinstance(rows, RowRange) else rows.tolist()
            )
            array.validate(full=True)
            assert array.type == wanted["b"].type
            assert array.to_pylist() == wanted["b"].to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
def test_extension_types_are_read_as_storage(tmp_path: Path, version: str) -> None:
    rng = np.random.default_rng(0)
    texts = [None if v % 5 == 0 else f'{{"a": {v}, "b": [1, "x"]}}' for v in range(300)]
    table = pa.table({"j": pa.array(texts, pa.json_()), "v": pa.array(texts, pa.string_view())})
    uri = str(tmp_path / "d")
    lance.write_dataset(table, uri, data_storage_version=version)
    (data_file,) = (tmp_path / "d" / "data").glob("*.lance")
    json, view = open_reader(data_file).read(open_reader(data_file).schema.fields, RowRange(0, 300))
    assert view.to_pylist() == texts
    assert json.type == pa.large_binary()
    assert [value is None for value in json.to_pylist()] == [text is None for text in texts]
    halves = rng.integers(0, 2**15, 300, dtype=np.uint16)
    plain = pa.ExtensionArray.from_storage(
        BFloat16Type(), pa.array([v.tobytes() for v in halves], pa.binary(2))
    )
    lists = pa.FixedSizeListArray.from_arrays(plain, 3)
    table = pa.table({"f": plain[:100], "l": lists})
    reader = write(tmp_path / "f.lance", table, version)
    for array in reader.read(reader.schema.fields, RowRange(0, 100)):
        flat = array if pa.types.is_fixed_size_binary(array.type) else array.flatten()
        assert flat.equals(plain.storage[: len(flat)])


def test_fixed_size_lists_of_structs_that_pylance_cannot_read(tmp_path: Path) -> None:
    """Lists within, and fixed-size lists of structs within each other."""
    rng = np.random.default_rng(0)
    lists = pa.array([[1], [2, 3], None, [], [4], [5]], pa.list_(pa.int32()))
    items = pa.StructArray.from_arrays([lists, pa.array(range(6))], ["l", "i"])
    pairs = pa.FixedSizeListArray.from_arrays(pa.StructArray.from_arrays([pa.array(range(12))], ["x"]), 2)
    nested = pa.StructArray.from_arrays([pairs], ["p"])
    for number, array in enumerate(
        [
            pa.FixedSizeListArray.from_arrays(items, 2),
            pa.FixedSizeListArray.from_arrays(items, 2, mask=pa.array([False, True, False])),
            pa.FixedSizeListArray.from_arrays(nested, 3, mask=pa.array([False, True])),
        ]
    ):
        table = pa.table({"f": array})
        check(write(tmp_path / f"{number}.lance", table, "2.2"), table, rng)


def test_structs_marked_as_packed_may_be_stored_unpacked(tmp_path: Path) -> None:
    """The first 2.1 writers did so: the number of columns tells."""
    struct = pa.StructArray.from_arrays([pa.array([1, 2]), pa.array([3, 4])], ["a", "b"])
    plain = write(tmp_path / "plain.lance", pa.table({"c": struct}), "2.1")
    (field,) = plain.schema.fields
    marked = dataclasses.replace(field, metadata={"lance-encoding:packed": b"true"})
    container = Container(MappedSource(plain.path))
    container.schema = dataclasses.replace(container.schema, fields=(marked,))
    reader = V2_1FileReader(container)
    assert reader.column_of == {1: 0, 2: 1}
    assert reader.read([marked], RowRange(0, 2))[0].equals(struct)


def test_errors_name_file_and_column(tmp_path: Path) -> None:
    path = tmp_path / "f.lance"
    reader = write(
        path, pa.table({"s": struct_of({"x": pa.array(range(5000))}, np.random.default_rng(0), 0)}), "2.1"
    )
    (page,) = Container(MappedSource(str(path))).column(0).pages
    data = bytearray(path.read_bytes())
    data[page.buffers[0].start : page.buffers[0].stop] = b"\xff" * page.buffers[0].num_bytes
    path.write_bytes(data)
    with pytest.raises(CorruptDataError, match=r"f\.lance: column 's\.x', page 0: .*chunks"):
        open_reader(path).read(reader.schema.fields, RowRange(0, 1))
