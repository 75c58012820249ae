"""Strings that are not UTF-8 are refused when they are written: no reader would take them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import InvalidInputError
from lance_df.file import LanceFileWriter
from lance_df.file.texts import check_texts
from lance_df.format.schema import schema_from_arrow

GOOD = [b"ok", "é".encode(), b"", b"x"]
BAD = [b"ok", b"\xff\xfe", b"", b"x"]
# valid together, not one by one
CUT = ["é".encode()[:1], "é".encode()[1:], b"a", b"b"]


def texts(values: list[bytes | None], data_type: pa.DataType = pa.string()) -> pa.Array:  # noqa: B008
    large = data_type == pa.large_string()
    binary = pa.array(values, pa.large_binary() if large else pa.binary())
    return pa.Array.from_buffers(data_type, len(values), binary.buffers())


SHAPES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "plain": lambda values: values,
    "dictionary": lambda values: pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), values),
    "struct": lambda values: pa.StructArray.from_arrays([pa.array([1, 2, 3, 4]), values], ["i", "s"]),
    "list": lambda values: pa.ListArray.from_arrays([0, 1, 3, 3, 4], values),
    "large list": lambda values: pa.LargeListArray.from_arrays([0, 1, 3, 3, 4], values),
    "list of structs": lambda values: pa.ListArray.from_arrays(
        [0, 2, 4], pa.StructArray.from_arrays([values], ["s"])
    ),
    "map keys": lambda values: pa.MapArray.from_arrays([0, 1, 4], values, pa.array([1, 2, 3, 4])),
    "map items": lambda values: pa.MapArray.from_arrays([0, 1, 4], pa.array(["a", "b", "c", "d"]), values),
}


def check(array: pa.Array) -> None:
    check_texts(schema_from_arrow(pa.schema([pa.field("t", array.type)])).fields, [array])


@pytest.mark.parametrize("data_type", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_column(shape: str, data_type: pa.DataType) -> None:
    make = SHAPES[shape]
    check(make(texts(GOOD, data_type)))
    check(make(texts(GOOD, data_type)).slice(1))
    check(make(texts(GOOD, data_type)).slice(0, 0))
    for wrong in (BAD, CUT):
        with pytest.raises(InvalidInputError, match=r"column 't(\.s)?': the string b'.*not UTF-8.*as binary"):
            check(make(texts(wrong, data_type)))


def test_only_what_is_written_counts() -> None:
    check(texts(BAD).slice(2))
    under_null = pa.Array.from_buffers(
        pa.string(),
        4,
        [pa.py_buffer(np.packbits([1, 0, 1, 1], bitorder="little")), *texts(BAD).buffers()[1:]],
    )
    assert under_null.to_pylist() == ["ok", None, "", "x"]
    check(under_null)
    lists = pa.ListArray.from_arrays([0, 1, 4], texts(BAD))
    check(lists.slice(0, 1))
    with pytest.raises(InvalidInputError, match="number 0 of its batch"):
        check(lists.slice(1))


@pytest.mark.parametrize("version", ["0.1", "2.1", "2.2"])
def test_below_a_null_struct(tmp_path: Path, version: str) -> None:
    mask = pa.array([False, True, False, False])
    table = pa.table({"t": pa.StructArray.from_arrays([texts(BAD)], ["s"], mask=mask)})
    path = tmp_path / "t.lance"
    if version == "0.1":  # which has no null structs: the string would be stored
        with pytest.raises(InvalidInputError, match=r"'t\.s'.*not UTF-8"):
            lance_df.write_dataset(table, path, data_storage_version=version)
        return
    dataset = lance_df.write_dataset(table, path, data_storage_version=version)
    rows = [{"t": {"s": "ok"}}, {"t": None}, {"t": {"s": ""}}, {"t": {"s": "x"}}]
    assert dataset.to_table().to_pylist() == rows
    assert lance.dataset(path).to_table().to_pylist() == rows


@pytest.mark.parametrize("part", ["keys", "items"])
def test_below_a_null_map(tmp_path: Path, part: str) -> None:
    good = texts(GOOD)
    keys, items = (texts(BAD), good) if part == "keys" else (good, texts(BAD))
    entries = pa.StructArray.from_arrays(
        [keys, items], fields=[pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())]
    )
    buffers = [pa.py_buffer(bytes([0b101])), pa.py_buffer(np.array([0, 1, 2, 4], np.int32))]
    maps = pa.Array.from_buffers(pa.map_(pa.string(), pa.string()), 3, buffers, children=[entries])
    check(maps)
    check(maps.slice(1))
    table = pa.table({"m": maps})
    dataset = lance_df.write_dataset(table, tmp_path / "t.lance")
    rows = [maps[0].as_py(), None, maps[2].as_py()]
    assert dataset.to_table()["m"].to_pylist() == rows
    assert lance.dataset(tmp_path / "t.lance").to_table()["m"].to_pylist() == rows
    seen = pa.Array.from_buffers(maps.type, 3, [None, buffers[1]], children=[entries])
    with pytest.raises(InvalidInputError, match="not UTF-8"):
        check(seen)


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_nothing_is_left_of_a_write(tmp_path: Path, version: str) -> None:
    table = pa.table({"i": [1, 2, 3, 4], "t": texts(BAD)})
    path = tmp_path / "t.lance"
    with pytest.raises(InvalidInputError, match=r"'t'.*b'\\xff\\xfe' \(number 1 of its batch\)"):
        lance_df.write_dataset(table, path, data_storage_version=version)
    assert not path.exists()
    good = table.set_column(1, "t", texts(GOOD))
    dataset = lance_df.write_dataset(good, path, data_storage_version=version)
    files = sorted(path.rglob("*"))
    for change in (
        lambda: lance_df.write_dataset(table, path, mode="append"),
        lambda: dataset.merge_insert("i").when_matched_update_all().execute(table),
        lambda: dataset.insert(table),
    ):
        with pytest.raises(InvalidInputError, match="not UTF-8"):
            change()
        assert sorted(path.rglob("*")) == files
    assert lance.dataset(path).to_table()["i"].to_pylist() == [1, 2, 3, 4]


def test_partitions_and_files(tmp_path: Path) -> None:
    table = pa.table({"k": [1, 2, 1, 2], "t": texts(BAD)})
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", table.schema, ["k"])
    with pytest.raises(InvalidInputError, match="not UTF-8"):
        namespace.append(table)
    assert (namespace.count_rows(), namespace.verify().ok) == (0, True)
    writer = LanceFileWriter(str(tmp_path / "f.lance"), table.schema)
    with pytest.raises(InvalidInputError, match="not UTF-8"), writer:
        writer.write_batch(table)
    assert not (tmp_path / "f.lance").exists()
