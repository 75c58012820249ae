"""The parts that columns are changed with: look-ups, deleted rows, field ids; and what failures leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_df
from lance_df.errors import (
    ColumnNotFoundError,
    ConflictError,
    InvalidInputError,
    StorageError,
)
from lance_df.format.operations import Merge
from lance_df.format.schema import schema_from_arrow
from lance_df.storage.sink import ByteSink
from lance_df.table.evolution.add_columns import columns_added
from lance_df.table.evolution.alter_columns import can_cast
from lance_df.table.evolution.fields import edited, find_field, highest_field_id
from lance_df.table.evolution.join import Lookup
from lance_df.table.evolution.live_rows import live_offsets, read_keys
from lance_df.table.open import open_table

KEYS = st.lists(st.none() | st.integers(-3, 8), max_size=30)


@given(right=KEYS, left=KEYS)
def test_a_look_up_finds_the_last_row_of_each_key(right: list[int | None], left: list[int | None]) -> None:
    numbers = [f"row {i}" for i in range(len(right))]
    table = pa.table({"k": pa.array(right, pa.int64()), "v": pa.array(numbers, pa.string())})
    lookup = Lookup(table, "k")
    model = dict(zip(right, numbers, strict=True))
    found = lookup.take(lookup.find(pa.array(left, pa.int64())))
    assert found.column("v").to_pylist() == [model.get(key) for key in left]


def test_a_look_up_in_chunks_of_text() -> None:
    table = pa.table({"k": pa.chunked_array([["a", "b"], ["a"], []], pa.string()), "v": [1, 2, 3]})
    lookup = Lookup(table, "k")
    assert lookup.find(pa.array(["b", "a", "c", None])).to_pylist() == [1, 2, None, None]
    with pytest.raises(ColumnNotFoundError, match="join column 'x' does not exist"):
        Lookup(table, "x")
    with pytest.raises(InvalidInputError, match="only the column"):
        Lookup(table.select(["k"]), "k")
    with pytest.raises(InvalidInputError, match="type int64"):
        lookup.find(pa.array([1]))


@settings(max_examples=8)
@given(data=st.data())
def test_columns_are_written_beside_deleted_rows(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """New values land in their rows, whichever rows of a fragment are gone."""
    size = data.draw(st.integers(1, 12))
    gone = data.draw(st.sets(st.integers(0, 2 * size - 1), max_size=2 * size - 1))
    version = data.draw(st.sampled_from(["0.1", "2.0", "2.2"]))
    uri = str(tmp_path_factory.mktemp("t") / "t")
    ds = lance.write_dataset(
        pa.table({"a": range(2 * size)}), uri, max_rows_per_file=size, data_storage_version=version
    )
    if gone:
        ds.delete(f"a in ({', '.join(map(str, gone))})")
    left = [value for value in range(2 * size) if value not in gone]
    ours = lance_df.dataset(uri)
    ours.add_columns(pa.table({"s": [str(value) for value in left]}), batch_size=3)
    ours.add_columns({"n": "a + a"}, batch_size=2)
    expected = {"a": left, "s": [str(value) for value in left], "n": [2 * value for value in left]}
    assert ours.to_table().to_pydict() == lance.dataset(uri).to_table().to_pydict() == expected
    table = open_table(uri)
    for fragment in table.fragments:
        assert all(table.open_data_file(fragment, file).num_rows == size for file in fragment.files)
        addresses = live_offsets(table, fragment) + (fragment.id << 32)
        assert read_keys(table, fragment, "_rowaddr").to_pylist() == addresses.tolist()


def test_field_ids_in_files_stay_taken(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = lance_df.write_dataset(pa.table({"a": [1], "b": [2], "c": [3]}), uri)
    ds.drop_columns(["c"])
    assert highest_field_id(open_table(uri).manifest) == 2
    ds.add_columns({"c": "a + b"})
    assert [field.id() for field in ds.lance_schema.fields()] == [0, 1, 3]
    ds.drop_columns(["c"])
    assert highest_field_id(open_table(uri).manifest) == 2  # no file mentions it any more
    ds.add_columns(pa.field("c", pa.int8()))
    assert [field.id() for field in ds.lance_schema.fields()] == [0, 1, 3]
    assert lance.dataset(uri).to_table().to_pydict() == {"a": [1], "b": [2], "c": [None]}


def test_paths_and_edits_of_schemas() -> None:
    schema = schema_from_arrow(
        pa.schema([("a", pa.struct([("b.c", pa.list_(pa.struct([("d", pa.int8())])))])), ("e", pa.int8())])
    )
    assert [field.name for field in find_field(schema, "a.`b.c`.item.d")] == ["a", "b.c", "item", "d"]
    with pytest.raises(ColumnNotFoundError, match=r"the columns in 'a' are 'b\.c'"):
        find_field(schema, "a.b")
    without = edited(schema, lambda field: None if field.name == "d" else field)
    assert [field.id for field in without.walk()] == [0, 1, 2, 4]


CASTS = [
    (pa.int8(), pa.uint64(), True),
    (pa.float64(), pa.float16(), True),
    (pa.int32(), pa.float32(), False),
    (pa.date32(), pa.timestamp("us"), True),
    (pa.decimal128(9, 2), pa.decimal256(40, 2), True),
    (pa.bool_(), pa.int8(), False),
    (pa.string(), pa.large_string(), True),
    (pa.string(), pa.binary(), False),
    (pa.list_(pa.int8()), pa.large_list(pa.int64()), True),
    (pa.list_(pa.float32(), 4), pa.list_(pa.float16(), 4), True),
    (pa.list_(pa.int8()), pa.list_(pa.string()), False),
    (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int16())]), False),
    (pa.dictionary(pa.int32(), pa.string()), pa.large_string(), True),
    (pa.string(), pa.dictionary(pa.int8(), pa.string()), True),
    (pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.string()), True),
    (pa.string(), pa.dictionary(pa.int8(), pa.binary()), False),
]


@pytest.mark.parametrize(("old", "new", "possible"), CASTS)
def test_what_can_be_cast(tmp_path: Path, old: pa.DataType, new: pa.DataType, possible: bool) -> None:
    """The rule is pylance's."""
    assert can_cast(old, new) is possible
    uris = [str(tmp_path / name) for name in ("theirs", "ours")]
    table = pa.table({"a": pa.nulls(3, old)})
    for uri in uris:
        lance.write_dataset(table, uri)
    theirs, ours = lance.dataset(uris[0]), lance_df.dataset(uris[1])
    change = {"path": "a", "data_type": new}
    if possible:
        theirs.alter_columns(change)
        ours.alter_columns(change)
        assert ours.schema.equals(theirs.schema, check_metadata=True)
        read = [each.to_table() for each in (ours, lance.dataset(uris[1]), theirs)]
        assert all(each.to_pydict() == read[0].to_pydict() for each in read)
    else:
        for dataset in (theirs, ours):
            with pytest.raises(OSError, match="Cannot cast column"):
                dataset.alter_columns(change)


# -- failures -----------------------------------------------------------------------------------------------


def files(uri: str) -> set[Path]:
    return {path for path in Path(uri).rglob("*") if path.is_file()}


@pytest.fixture
def table(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    data = pa.table({"a": range(30), "s": [{"x": i} for i in range(30)]})
    lance.write_dataset(data, uri, max_rows_per_file=10)
    return uri


def add_many(ds: lance_df.LanceDataset) -> None:
    for number in range(9):
        ds.add_columns({f"b{number}": "a + a"})


@pytest.mark.parametrize("call", range(0, 45, 4))
def test_a_store_that_fails_leaves_nothing_behind(
    table: str, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    before, calls = files(table), 0

    def failing(name: str) -> Any:
        method = getattr(ByteSink, name)

        def run(self: ByteSink, *args: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call + 1:
                raise StorageError("disk full")
            return method(self, *args)

        return run

    ds = lance_df.dataset(table)
    for name in ("__init__", "write", "close"):
        monkeypatch.setattr(ByteSink, name, failing(name))
    with pytest.raises(StorageError, match="disk full"):
        add_many(ds)
    monkeypatch.undo()
    left = files(table)
    if ds.version == 1:
        assert left == before
    named = {file.path for f in open_table(table).fragments for file in f.files}
    assert {path.name for path in left if path.parent.name == "data"} == named
    assert ds.version == lance.dataset(table).version
    assert lance.dataset(table).to_table() == ds.to_table()


def test_a_conflict_leaves_nothing_behind(table: str) -> None:
    stale = lance_df.dataset(table)
    lance.dataset(table).optimize.compact_files()
    before = files(table)
    with pytest.raises(ConflictError):
        stale.add_columns({"b": "a + a"})
    with pytest.raises(ConflictError):
        stale.alter_columns({"path": "a", "data_type": pa.int32()})
    assert files(table) == before
    stale.checkout_latest()
    stale.add_columns({"b": "a + a"})
    assert lance.dataset(table).to_table(columns=["b"])["b"].to_pylist() == list(range(0, 60, 2))


def test_rows_appended_meanwhile_go_without_nullable_columns(table: str) -> None:
    stale = lance_df.dataset(table)
    lance.write_dataset(pa.table({"a": [99], "s": [{"x": 1}]}), table, mode="append")
    with pytest.raises(ConflictError):
        stale.add_columns({"b": "a + a"})  # it has not seen the new fragment
    stale.checkout_latest()
    staged = lance_df.fragment.write_fragments(pa.table({"a": [100], "s": [{"x": 2}]}), table)
    version = stale.version
    stale.add_columns({"b": "a + a"})
    made = lance_df.LanceDataset.commit(table, lance_df.LanceOperation.Append(staged), read_version=version)
    assert made.to_table()["b"].to_pylist()[-2:] == [198, None]
    assert lance.dataset(table).to_table() == made.to_table()


def test_a_computation_may_not_change_its_columns(table: str) -> None:
    opened, before = open_table(table), files(table)

    def compute(fragment: Any) -> Iterator[pa.RecordBatch]:
        name = "b" if fragment.id < 2 else "c"
        yield pa.record_batch({name: pa.array(range(10))})

    def add() -> Merge:
        with columns_added(opened, pa.schema([("b", pa.int64())]), compute) as operation:
            return operation

    with pytest.raises(InvalidInputError, match="do not exist in the table: c"):
        add()
    assert files(table) == before


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_a_fragment_keeps_a_data_file_when_only_nulls_are_left(tmp_path: Path, version: str) -> None:
    """Pylance fails on fragments without any file, its own among them."""
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(4)}), uri, max_rows_per_file=2, data_storage_version=version)
    lance.dataset(uri).delete("a = 1")
    ds = lance_df.dataset(uri)
    ds.add_columns(pa.field("n", pa.int8()))
    ds.drop_columns(["a"])
    ds.validate()
    theirs = lance.dataset(uri)
    theirs.validate()
    assert theirs.to_table() == ds.to_table() == pa.table({"n": pa.nulls(3, pa.int8())})
    theirs.add_columns({"m": "coalesce(n, 7)"})
    ds.checkout_latest()
    ds.add_columns({"a": "m + m"})
    assert [field.id() for field in ds.lance_schema.fields()] == [1, 2, 3]
    theirs = lance.dataset(uri)
    theirs.optimize.compact_files()
    assert theirs.to_table() == lance_df.dataset(uri).to_table()
    assert theirs.to_table().to_pydict() == {"n": [None] * 3, "m": [7] * 3, "a": [14] * 3}
