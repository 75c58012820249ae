"""Packed structs, blobs and JSON: written by ours, read by pylance and by ours."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import lance_df
from lance_df.encodings.jsonb import decode_jsonb, encode_jsonb
from lance_df.errors import InvalidInputError, LanceError, UnsupportedFeatureError
from lance_df.file import LanceFileReader as OurReader
from lance_df.file import LanceFileWriter

if TYPE_CHECKING:
    from pathlib import Path

PACKED = {"lance-encoding:packed": "true"}
BLOB = {"lance-encoding:blob": "true"}
BLOBS = [b"x" * 100, None, b"", b"y" * 70_000, b"z" * 200]


def write(path: Path, field: pa.Field, column: pa.Array, version: str) -> None:
    batch = pa.record_batch([column], schema=pa.schema([field]))
    with LanceFileWriter(str(path), batch.schema, version=version) as writer:
        writer.write_batch(batch)


def check(path: Path, expected: list[Any]) -> None:
    assert LanceFileReader(str(path)).read_all().to_table()["c"].to_pylist() == expected
    assert LanceFileReader(str(path)).take_rows([2, 4]).to_table()["c"].to_pylist() == [
        expected[2],
        expected[4],
    ]
    assert OurReader(str(path)).read_all().to_table()["c"].to_pylist() == expected


FIXED = {
    "a": (pa.int32(), lambda i: i),
    "b": (pa.decimal128(10, 2), lambda i: Decimal(i) / 4),
    "c": (pa.float16(), float),
    "d": (pa.date32(), lambda i: dt.date(2000, 1, 1) + dt.timedelta(i)),
    "e": (pa.binary(3), lambda i: b"%03d" % i),
}
VARIABLE = {
    "f": (pa.string(), lambda i: "é" * (i % 5)),
    "g": (pa.large_binary(), lambda i: b"x" * i),
    "h": (pa.list_(pa.int8(), 2), lambda i: [i % 100, 1]),
    "i": (pa.list_(pa.list_(pa.float32(), 2), 2), lambda i: [[i, 1], [2, 3]]),
}


@pytest.mark.parametrize(
    ("version", "members"),
    [("2.1", FIXED), ("2.2", FIXED), ("2.2", VARIABLE), ("2.2", FIXED | VARIABLE)],
    ids=["2.1", "2.2", "2.2-variable", "2.2-both"],
)
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("nesting", ["top", "list", "struct"])
def test_packed_structs(
    tmp_path: Path, version: str, members: dict[str, Any], nulls: bool, nesting: str
) -> None:
    kind = pa.struct([pa.field(name, member) for name, (member, _) in members.items()])
    rows: list[Any] = [
        None if nulls and i % 3 == 1 else {name: make(i) for name, (_, make) in members.items()}
        for i in range(300)
    ]
    field = pa.field("c", kind, metadata=PACKED)
    if nesting == "list":
        field = pa.field("c", pa.list_(field))
        rows = [rows[i : i + i % 3] for i in range(300)]
    elif nesting == "struct":
        field = pa.field("c", pa.struct([field.with_name("p")]))
        rows = [{"p": row} for row in rows]
    write(tmp_path / "f", field, pa.array(rows, field.type), version)
    check(tmp_path / "f", rows)


@pytest.mark.parametrize(
    ("version", "member"),
    [
        ("2.1", pa.string()),
        ("2.1", pa.list_(pa.int8(), 2)),
        ("2.2", pa.bool_()),
        ("2.2", pa.list_(pa.bool_(), 2)),
        ("2.2", pa.list_(pa.int8())),
        ("2.2", pa.struct([("x", pa.int8())])),
        ("2.2", pa.dictionary(pa.int8(), pa.string())),
        ("2.2", pa.null()),
    ],
)
def test_what_cannot_be_packed(tmp_path: Path, version: str, member: pa.DataType) -> None:
    field = pa.field("c", pa.struct([("x", member)]), metadata=PACKED)
    with pytest.raises(
        UnsupportedFeatureError, match=r"'c': field 'x' is of type .* packed structs .* do not support"
    ):
        write(tmp_path / "f", field, pa.nulls(3, field.type), version)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("member", [pa.int8(), pa.string(), pa.list_(pa.int8(), 1)])
def test_fields_of_packed_structs_are_not_null(tmp_path: Path, member: pa.DataType) -> None:
    field = pa.field("c", pa.struct([("x", member)]), metadata=PACKED)
    with pytest.raises(
        UnsupportedFeatureError, match=r"'c\.x': the fields of a packed struct cannot be null"
    ):
        write(tmp_path / "f", field, pa.array([{"x": None}], field.type), "2.2")


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs_in_files(tmp_path: Path, version: str) -> None:
    field = pa.field("c", pa.large_binary(), metadata=BLOB)
    column = pa.array([b"cut off", *BLOBS], field.type)[1:]
    write(tmp_path / "f", field, column, version)
    check(tmp_path / "f", BLOBS)
    rows = [None if i == 1 else {"p": blob, "q": i} for i, blob in enumerate(BLOBS)]
    nested = pa.field("c", pa.struct([field.with_name("p"), pa.field("q", pa.int8())]))
    write(tmp_path / "nested", nested, pa.array(rows, nested.type), version)
    check(tmp_path / "nested", rows)
    write(tmp_path / "nulls", field, pa.nulls(5, field.type), version)
    check(tmp_path / "nulls", [None] * 5)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_tables_of_blobs_are_shared_with_pylance(tmp_path: Path, version: str) -> None:
    schema = pa.schema([pa.field("c", pa.large_binary(), metadata=BLOB)])
    table = pa.table([pa.array(BLOBS, pa.large_binary())], schema)
    lance_df.write_dataset(table, tmp_path / "t", data_storage_version=version)
    lance.write_dataset(table, tmp_path / "t", mode="append")
    lance_df.write_dataset(table, tmp_path / "t", mode="append")
    shared = lance.dataset(tmp_path / "t")
    shared.validate()
    filled = [0, 2, 3, 4]
    rows = [start + row for start in (0, 5, 10) for row in filled]
    assert [blob.readall() for blob in shared.take_blobs("c", indices=rows)] == [BLOBS[i] for i in filled] * 3
    assert lance_df.dataset(tmp_path / "t").count_rows("c IS NULL") == (0 if version == "2.0" else 3)


def test_blobs_of_the_extension_type(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"0123456789")
    uri = elsewhere.as_uri()
    values = [b"abc", None, b"", lance.Blob.from_uri(uri), lance.Blob.from_uri(uri, 2, 5)]
    table = pa.table([lance.blob_array(values)], schema=pa.schema([lance.blob_field("c")]))
    for mode in ("create", "append"):
        lance_df.write_dataset(table, tmp_path / "t", mode=mode, allow_external_blob_outside_bases=True)
    shown = lance_df.dataset(tmp_path / "t").to_table()["c"].to_pylist()
    assert shown == lance.dataset(tmp_path / "t").to_table()["c"].to_pylist()
    assert [shown[3][name] for name in ("kind", "position", "size", "blob_uri")] == [3, 0, 0, uri]
    assert [shown[9][name] for name in ("kind", "position", "size", "blob_uri")] == [3, 2, 5, uri]
    with pytest.raises(UnsupportedFeatureError, match=r"need file version 2\.2"):
        lance_df.write_dataset(
            table, tmp_path / "old", data_storage_version="2.1", allow_external_blob_outside_bases=True
        )
    assert not (tmp_path / "old").exists()


def test_blobs_that_cannot_be_stored(tmp_path: Path) -> None:
    both = pa.array([{"data": b"x", "uri": "y"}], pa.struct({"data": pa.large_binary(), "uri": pa.string()}))
    field = pa.field("c", both.type, metadata={"ARROW:extension:name": "lance.blob.v2"})
    with pytest.raises(InvalidInputError, match="'c': a blob must have either bytes or a URI"):
        write(tmp_path / "f", field, both, "2.2")
    for kind in (pa.string(), pa.binary()):
        with pytest.raises(UnsupportedFeatureError, match="'c': blobs must be of type large_binary"):
            write(tmp_path / "f", pa.field("c", kind, metadata=BLOB), pa.nulls(1, kind), "2.2")
    lists = pa.list_(pa.field("item", pa.large_binary(), metadata=BLOB))
    with pytest.raises(UnsupportedFeatureError, match="'c': blobs cannot be stored within lists"):
        write(tmp_path / "f", pa.field("c", lists), pa.nulls(1, lists), "2.2")
    assert list(tmp_path.iterdir()) == []


def test_maps_need_keys(tmp_path: Path) -> None:
    column = pa.MapArray.from_arrays([0, 0, 0], pa.nulls(0), pa.array([], pa.int32()))
    with pytest.raises(UnsupportedFeatureError, match="'key' is of the null type, but declared not null"):
        write(tmp_path / "f", pa.field("c", column.type), column, "2.2")
    assert list(tmp_path.iterdir()) == []


JSON = [
    *("0", "-0", "1", "-1", "127", "-128", "-129", "255", "256", "65536", "4294967296"),
    *("18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809"),
    *("1.0", "-0.0", "0.1", "1e5", "1e-400", "12345678901234567890.5", "null", "true", "false", '""'),
    *(
        '"a\\u00e9\\ud83d\\ude00\\n"',
        "[]",
        "{}",
        "[[], {}]",
        '{"é": 1, "b": [1, 2.5, null, "x"], "B": {"": 0}}',
    ),
    *(" [1 , 2] ", "", "[" * 50 + "]" * 50),
]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_json_is_stored_as_pylance_stores_it(tmp_path: Path, kind: pa.DataType) -> None:
    column = pa.ExtensionArray.from_storage(pa.json_(kind), pa.array([*JSON, None], kind))
    table = pa.table({"c": column})
    write(tmp_path / "ours", table.schema.field("c"), column, "2.2")
    with lance.file.LanceFileWriter(str(tmp_path / "theirs"), table.schema, version="2.2") as writer:
        writer.write_batch(table)
    ours, theirs = (
        LanceFileReader(str(tmp_path / name)).read_all().to_table() for name in ("ours", "theirs")
    )
    assert ours.equals(theirs)
    assert ours.schema.equals(theirs.schema, check_metadata=True)


def test_tables_of_json_are_shared_with_pylance(tmp_path: Path) -> None:
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None]))
    table = pa.table({"c": texts, "s": pa.StructArray.from_arrays([texts], ["x"])})
    lance_df.write_dataset(table, tmp_path / "t")
    lance.write_dataset(table, tmp_path / "t", mode="append")
    lance_df.write_dataset(table, tmp_path / "t", mode="append")
    expected = [{"c": '{"a":1}', "s": {"x": '{"a":1}'}}, {"c": None, "s": {"x": None}}] * 3
    assert lance.dataset(tmp_path / "t").to_table().to_pylist() == expected
    assert lance_df.dataset(tmp_path / "t").to_table().to_pylist() == expected


@pytest.mark.parametrize(
    "text",
    [
        "[1,]",
        "{a:1}",
        "NaN",
        "-Infinity",
        "1e400",
        "nul",
        '{"a":1,"a":2}',
        "[1",
        '"\\ud800"',
        "[" * 300 + "]" * 300,
    ],
)
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be stored as JSON"):
        encode_jsonb(pa.array([text]))


def test_json_comes_back() -> None:
    (found,) = decode_jsonb(encode_jsonb(pa.array(['{"b": [1, -2.5, "x"], "a": {"c": null}}']))).to_pylist()
    assert found == '{"a":{"c":null},"b":[1,-2.5,"x"]}'


def test_a_failed_write_leaves_no_thread_and_no_file(tmp_path: Path) -> None:
    field = pa.field("c", pa.struct([("x", pa.int64())]), metadata=PACKED)
    bad = pa.array([{"x": None}] + [{"x": 1}] * 200_000, field.type)
    with pytest.raises(LanceError, match="cannot be null"):
        write(tmp_path / "f", field, bad, "2.2")
    assert list(tmp_path.iterdir()) == []
