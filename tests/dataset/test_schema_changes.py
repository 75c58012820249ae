"""Columns and metadata are changed as pylance does it, and each library goes on with the other's table."""

from __future__ import annotations

import dataclasses
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from manifest_edits import edit_manifest

import lance_df
from lance_df.errors import (
    ColumnNotFoundError,
    ConflictError,
    CorruptDataError,
    InvalidInputError,
    LanceError,
    UnsupportedFeatureError,
)
from lance_df.format.operations import Merge, Project
from lance_df.format.schema import Field
from lance_df.fragment import write_fragments
from lance_df.operations import LanceOperation
from lance_df.schema import LanceSchema
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import NO_ROWS
from lance_df.table.open import open_table

Step = Callable[[Any], Any]
NESTED = pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.float64())]))])


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "a": pa.array(numbers, pa.int32()),
            "s": pa.array([f"text {i}" for i in numbers]),
            "st": pa.array([{"x": i, "y": {"z": i / 2}} for i in numbers], NESTED),
            "l": pa.array([[i] * (i % 3 + 1) for i in numbers], pa.list_(pa.int16())),
        }
    )


def make(folder: Path, version: str, *, stable: bool = False) -> str:
    uri = str(folder / "table")
    ds = lance.write_dataset(
        rows(0, 40), uri, max_rows_per_file=16, data_storage_version=version, enable_stable_row_ids=stable
    )
    ds.delete("a in (0, 1, 7, 31) or (a >= 36)")
    return uri


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"twice": pa.array([2 * v for v in batch["a"].to_pylist()], pa.int64())})


def steps(version: str) -> dict[str, Step]:
    """What both libraries are asked for, one after the other."""
    live = lambda ds: pa.table({"r": pa.array(range(ds.count_rows()), pa.int16())})  # noqa: E731
    key = pa.table({"key": pa.array(range(40), pa.int32()), "m": [f"m{i}" for i in range(40)]})
    found: dict[str, Step] = {
        "sql": lambda ds: ds.add_columns({"b": "a + a", "c": "concat(s, '!')", "one": "1"}),
        "function": lambda ds: ds.add_columns(double, read_columns=["a"]),
        "stream": lambda ds: ds.add_columns(live(ds).to_reader(max_chunksize=7)),
        "merge": lambda ds: ds.merge(key, "a", "key"),
        "rename": lambda ds: ds.alter_columns({"path": "b", "name": "B"}, {"path": "st.x", "name": "X"}),
        "rename item": lambda ds: ds.alter_columns({"path": "l.item", "name": "element"}),
        "cast": lambda ds: ds.alter_columns({"path": "a", "data_type": pa.int64(), "name": "id"}),
        "cast text": lambda ds: ds.alter_columns({"path": "s", "data_type": pa.large_string()}),
        "cast list": lambda ds: ds.alter_columns({"path": "l", "data_type": pa.large_list(pa.int32())}),
        "not null": lambda ds: ds.alter_columns({"path": "id", "nullable": False}),
        "drop": lambda ds: ds.drop_columns(["B", "c", "one"]),
        "drop nested": lambda ds: ds.drop_columns(["st.y.z"]),
        "add again": lambda ds: ds.add_columns({"B": "id + id"}),
        "nullable": lambda ds: ds.alter_columns({"path": "id", "nullable": True}),
        "config": lambda ds: ds.update_config({"k": "v", "gone": "x"}),
        "less config": lambda ds: ds.delete_config_keys(["gone", "never"]),
        "metadata": lambda ds: ds.update_metadata({"owner": "me", "x": "y"}),
        "less metadata": lambda ds: ds.update_metadata({"only": "this", "x": None}, replace=True),
        "schema metadata": lambda ds: ds.update_schema_metadata({"p": "q", "r": "s"}),
        "less schema metadata": lambda ds: ds.update_schema_metadata({"p": None}),
    }
    if version == "0.1":
        del found["rename item"]  # pylance does not read what it then makes of the list
    if version != "0.1":
        kind = (
            pa.list_(pa.int8()) if version == "2.0" else pa.struct([("q", pa.int8())])
        )  # of 2.0 is never null
        given = pa.schema(
            [pa.field("n", pa.int32(), metadata={"k": "v"}), pa.field("ns", kind)], metadata={"sm": "x"}
        )
        found["nulls"] = lambda ds: ds.add_columns(given)
        found["a list of fields"] = lambda ds: ds.add_columns([pa.field("n2", pa.list_(pa.string()))])
    if version == "2.2":
        found["into a struct"] = lambda ds: ds.add_columns(pa.field("st", pa.struct([("w", pa.int8())])))
    if version in ("2.1", "2.2"):
        found["cast nested"] = lambda ds: ds.alter_columns({"path": "st.X", "data_type": pa.int32()})
        found["cast item"] = lambda ds: ds.alter_columns({"path": "l.item", "data_type": pa.int64()})
    found["field metadata"] = lambda ds: ds.update_field_metadata({"id": {"u": "m"}, "st.X": {"u": "v"}})
    found["other field metadata"] = lambda ds: ds.update_field_metadata({"id": {"k": "1"}}, replace=True)
    return found


def flat(fields: tuple[Field, ...]) -> list[tuple[Any, ...]]:
    return [(f.id, f.name, f.logical_type, f.nullable, dict(f.metadata), flat(f.children)) for f in fields]


def described(uri: str) -> dict[str, Any]:
    """What a manifest says, but for the names of files and the times."""
    table = open_table(uri)
    manifest = table.manifest
    return {
        "schema": flat(manifest.schema.fields),
        "schema metadata": dict(manifest.schema.metadata),
        "files": [
            (f.id, f.physical_rows, [(x.fields, x.column_indices, x.version) for x in f.files])
            for f in manifest.fragments
        ],
        "row ids": [(f.row_ids, f.created_at, f.last_updated_at) for f in manifest.fragments],
        "maps": (dict(manifest.config), dict(manifest.table_metadata)),
        "flags": (manifest.reader_feature_flags, manifest.writer_feature_flags),
        "version": (manifest.version, manifest.max_fragment_id, manifest.next_row_id),
        "operation": type(table.transaction().operation).__name__,
    }


@pytest.mark.parametrize(
    ("version", "stable"), [("0.1", False), ("2.0", False), ("2.1", True), ("2.2", False), ("2.2", True)]
)
def test_every_change_is_what_pylance_makes(tmp_path: Path, version: str, stable: bool) -> None:
    theirs_uri = make(tmp_path, version, stable=stable)
    ours_uri = str(tmp_path / "ours")
    shutil.copytree(theirs_uri, ours_uri)
    theirs, ours = lance.dataset(theirs_uri), lance_df.dataset(ours_uri)
    for name, step in steps(version).items():
        assert step(theirs) == step(ours), name
        assert described(ours_uri) == described(theirs_uri), name
        assert ours.version == theirs.version
    expected = theirs.to_table()
    assert ours.to_table() == expected
    assert lance.dataset(ours_uri).to_table() == expected
    assert lance_df.dataset(theirs_uri).to_table() == expected
    lance.dataset(ours_uri).validate()
    ours.validate()


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_the_libraries_take_turns(tmp_path: Path, version: str) -> None:
    alone_uri = make(tmp_path, version)
    turns_uri = str(tmp_path / "turns")
    shutil.copytree(alone_uri, turns_uri)
    alone = lance.dataset(alone_uri)
    for number, step in enumerate(steps(version).values()):
        step(alone)
        step(lance_df.dataset(turns_uri) if number % 2 else lance.dataset(turns_uri))
    mixed = lance.dataset(turns_uri)
    assert mixed.to_table() == alone.to_table()
    mixed.validate()
    mixed.delete("id = 3")
    more = lance_df.write_dataset(mixed.to_table().slice(0, 5), turns_uri, mode="append")
    assert more.count_rows() == alone.count_rows() + 4
    mixed.checkout_latest()
    mixed.optimize.compact_files()
    assert lance_df.dataset(turns_uri).to_table() == mixed.to_table()


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.2"])
def test_fields_of_structs_are_cast_where_pylance_cannot_read_its_own(tmp_path: Path, version: str) -> None:
    """A column of 2.0 and 0.1 files is written anew as a whole, as its struct cannot be in two files."""
    uri = make(tmp_path, version)
    ds = lance_df.dataset(uri)
    before = ds.to_table()
    ds.alter_columns({"path": "st.y.z", "data_type": pa.float32()}, {"path": "st.x", "name": "X"})
    assert ds.schema.field("st").type == pa.struct(
        [("X", pa.int64()), ("y", pa.struct([("z", pa.float32())]))]
    )
    values = [[each["X"], each["y"]["z"]] for each in ds.to_table()["st"].to_pylist()]
    assert values == [[each["x"], each["y"]["z"]] for each in before["st"].to_pylist()]
    other = lance.dataset(uri)
    assert other.to_table() == ds.to_table()
    other.validate()
    ds.validate()
    ds.drop_columns(["st.X"])
    assert lance.dataset(uri).to_table() == ds.to_table()


def test_a_nested_cast_of_0_1_by_pylance_is_read(tmp_path: Path) -> None:
    uri = make(tmp_path, "0.1")
    theirs = lance.dataset(uri)
    theirs.alter_columns({"path": "st.x", "data_type": pa.int32()})
    assert lance_df.dataset(uri).to_table() == theirs.to_table()


def test_nulls_of_deleted_rows_do_not_hinder(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"a": [1, None, 3], "b": [1, 2, 3]}), uri)
    ds = lance_df.dataset(uri)
    with pytest.raises(InvalidInputError, match="contains nulls"):
        ds.alter_columns({"path": "a", "nullable": False})
    lance.dataset(uri).delete("b = 2")
    ds.checkout_latest()
    ds.alter_columns({"path": "a", "nullable": False})
    assert not ds.schema.field("a").nullable
    assert ds.to_table().to_pydict() == {"a": [1, 3], "b": [1, 3]}
    ds.add_columns({"c": "a + b"})
    assert lance.dataset(uri).to_table() == ds.to_table()
    ds.validate()


def test_a_field_is_null_only_where_its_struct_is_not(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    data = pa.table({"s": pa.array([{"x": 1, "l": [1]}, None, {"x": 2, "l": None}])})
    lance.write_dataset(data, uri)
    ds = lance_df.dataset(uri)
    ds.alter_columns({"path": "s.x", "nullable": False}, {"path": "s.l.item", "nullable": False})
    assert ds.to_table().to_pylist() == lance.dataset(uri).to_table().to_pylist() == data.to_pylist()
    with pytest.raises(InvalidInputError, match="contains nulls"):
        ds.alter_columns({"path": "s.l", "nullable": False})
    with pytest.raises(InvalidInputError, match="contains nulls"):
        ds.alter_columns({"path": "s", "nullable": False})


def test_frames_and_wrapped_functions(tmp_path: Path) -> None:
    ds = lance_df.dataset(make(tmp_path, "2.2"))

    @lance_df.batch_udf(output_schema=pa.schema([("n", pa.int64())]))
    def ids(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"n": batch["_rowid"].cast(pa.int64())})

    ds.add_columns(ids, read_columns=["_rowid"], batch_size=5)
    ds.add_columns(lambda batch: batch.to_pandas()[["a"]].rename(columns={"a": "frame"}) * 2)
    table = ds.to_table(with_row_id=True)
    assert table["n"].to_pylist() == table["_rowid"].to_pylist()
    assert table["frame"].to_pylist() == [2 * value for value in table["a"].to_pylist()]
    assert ds.schema.metadata is None
    assert lance.dataset(ds.uri).to_table(columns=["n", "frame"]) == ds.to_table(columns=["n", "frame"])


def test_computed_batches_are_kept_until_the_columns_are_committed(tmp_path: Path) -> None:
    ds = lance_df.dataset(make(tmp_path, "2.2"))
    checkpoint = tmp_path / "checkpoint.sqlite"
    seen: list[int] = []
    fails = True

    def compute(batch: pa.RecordBatch) -> pa.RecordBatch:
        if fails and len(seen) == 4:
            raise RuntimeError("the machine went away")
        seen.append(batch.num_rows)
        return pa.record_batch({"n": batch["a"]})

    def add() -> None:
        udf = lance_df.batch_udf(pa.schema([("n", pa.int32())]), checkpoint)(compute)
        ds.add_columns(udf, read_columns=["a"], batch_size=5)

    before = files(ds.uri)
    with pytest.raises(RuntimeError):
        add()
    assert files(ds.uri) == before
    assert checkpoint.exists()
    fails = False
    add()
    assert sum(seen) == ds.count_rows()
    assert not checkpoint.exists()
    assert ds.to_table()["n"] == ds.to_table()["a"]


def files(uri: str) -> set[str]:
    return {str(path) for path in Path(uri).rglob("*") if path.is_file()}


def broken(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"n": batch["a"].slice(1)})


BAD: dict[str, tuple[type[LanceError], Step]] = {
    "no such column": (ColumnNotFoundError, lambda ds: ds.drop_columns(["nope"])),
    "no such field": (ColumnNotFoundError, lambda ds: ds.drop_columns(["st.nope"])),
    "all columns": (InvalidInputError, lambda ds: ds.drop_columns(ds.schema.names)),
    "what a list holds": (UnsupportedFeatureError, lambda ds: ds.drop_columns(["l.item"])),
    "a field of a struct that is there": (
        InvalidInputError,
        lambda ds: ds.add_columns(pa.field("st", pa.struct([("x", pa.int8())]))),
    ),
    "text for a list": (InvalidInputError, lambda ds: ds.drop_columns("st")),
    "an empty path": (InvalidInputError, lambda ds: ds.drop_columns([""])),
    "a column that exists": (InvalidInputError, lambda ds: ds.add_columns({"a": "1"})),
    "one column twice": (
        InvalidInputError,
        lambda ds: ds.add_columns(pa.schema([("n", pa.int8()), ("n", pa.int8())])),
    ),
    "a reserved name": (InvalidInputError, lambda ds: ds.add_columns({"_rowid": "a"})),
    "a dotted name": (InvalidInputError, lambda ds: ds.add_columns({"x.y": "a"})),
    "an unknown name in SQL": (ColumnNotFoundError, lambda ds: ds.add_columns({"n": "nope + 1"})),
    "no expressions": (InvalidInputError, lambda ds: ds.add_columns({})),
    "an aggregate": (InvalidInputError, lambda ds: ds.add_columns({"n": "sum(a)"})),
    "a failing expression": (LanceError, lambda ds: ds.add_columns({"n": "a / (a - 20)"})),
    "nulls that must not be": (
        InvalidInputError,
        lambda ds: ds.add_columns(pa.field("n", pa.int8(), nullable=False)),
    ),
    "too few rows": (InvalidInputError, lambda ds: ds.add_columns(pa.table({"n": [1, 2, 3]}))),
    "too many rows": (InvalidInputError, lambda ds: ds.add_columns(pa.table({"n": range(99)}))),
    "rows that do not fit": (InvalidInputError, lambda ds: ds.add_columns(broken)),
    "no batch": (InvalidInputError, lambda ds: ds.add_columns(lambda batch: 7)),
    "an odd transform": (InvalidInputError, lambda ds: ds.add_columns(7)),
    "names that clash": (InvalidInputError, lambda ds: ds.alter_columns({"path": "a", "name": "s"})),
    "an empty name": (InvalidInputError, lambda ds: ds.alter_columns({"path": "a", "name": ""})),
    "a reserved new name": (
        InvalidInputError,
        lambda ds: ds.alter_columns({"path": "a", "name": "_rowaddr"}),
    ),
    "a new name with a backquote": (
        InvalidInputError,
        lambda ds: ds.alter_columns({"path": "a", "name": "x`y"}),
    ),
    "nothing to alter": (InvalidInputError, lambda ds: ds.alter_columns({"path": "a"})),
    "an unknown alteration": (InvalidInputError, lambda ds: ds.alter_columns({"path": "a", "type": 1})),
    "one column altered twice": (
        InvalidInputError,
        lambda ds: ds.alter_columns({"path": "a", "name": "x"}, {"path": "a", "name": "y"}),
    ),
    "a lossy cast": (
        InvalidInputError,
        lambda ds: ds.alter_columns({"path": "big", "data_type": pa.int8()}),
    ),
    "a cast to another kind": (
        InvalidInputError,
        lambda ds: ds.alter_columns({"path": "a", "data_type": pa.string()}),
    ),
    "a cast of an indexed column": (
        UnsupportedFeatureError,
        lambda ds: ds.alter_columns({"path": "a", "data_type": pa.int64()}),
    ),
    "keys of another type": (
        InvalidInputError,
        lambda ds: ds.merge(pa.table({"a": pa.array([1]), "n": [1]}), "a"),
    ),
    "no such key": (ColumnNotFoundError, lambda ds: ds.merge(pa.table({"x": [1], "n": [1]}), "x")),
    "a merge of nothing": (
        InvalidInputError,
        lambda ds: ds.merge(pa.table({"a": pa.array([1], pa.int32())}), "a"),
    ),
    "a merge of what is there": (
        InvalidInputError,
        lambda ds: ds.merge(pa.table({"a": pa.array([1], pa.int32()), "s": ["x"]}), "a"),
    ),
    "configuration that is no text": (InvalidInputError, lambda ds: ds.update_config({"k": 1})),
    "metadata that is no dict": (InvalidInputError, lambda ds: ds.update_metadata("k")),
    "metadata of no field": (ColumnNotFoundError, lambda ds: ds.update_field_metadata({"no": {"k": "v"}})),
}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = make(tmp_path_factory.mktemp("indexed"), "2.2")
    ds = lance.dataset(uri)
    ds.add_columns({"big": "cast(a as bigint) * 1000"})
    ds.create_scalar_index("a", "BTREE")
    return uri


@pytest.mark.parametrize("name", BAD)
def test_bad_input_leaves_nothing_behind(indexed: str, name: str) -> None:
    error, call = BAD[name]
    ds = lance_df.dataset(indexed)
    before = files(indexed)
    with pytest.raises(error):
        call(ds)
    assert files(indexed) == before
    assert ds.version == ds.latest_version


def test_0_1_files_hold_no_nulls_of_numbers(tmp_path: Path) -> None:
    ds = lance_df.dataset(make(tmp_path, "0.1"))
    before = files(ds.uri)
    with pytest.raises(InvalidInputError, match=r"files of version 0\.1 cannot store"):
        ds.merge(pa.table({"a": pa.array([5], pa.int32()), "n": [1]}), "a")
    with pytest.raises(UnsupportedFeatureError, match="without data"):
        ds.add_columns(pa.field("n", pa.int32()))
    assert files(ds.uri) == before


def test_indices_follow_their_columns(tmp_path: Path) -> None:
    uris = [make(tmp_path, "2.2"), str(tmp_path / "ours")]
    theirs = lance.dataset(uris[0])
    for column, kind in (("a", "BTREE"), ("s", "BITMAP"), ("st.x", "BTREE")):
        theirs.create_scalar_index(column, kind)
    shutil.copytree(*uris)
    ours = lance_df.dataset(uris[1])

    def indices(uri: str) -> list[tuple[Any, ...]]:
        found = open_table(uri).manifest_file.read_indices()
        return [(i.name, i.uuid, i.fields, i.fragment_bitmap, i.dataset_version, i.files) for i in found]

    for step in (
        lambda ds: ds.alter_columns({"path": "a", "name": "A"}),
        lambda ds: ds.add_columns({"n": "cast(A as bigint)"}),
        lambda ds: ds.drop_columns(["st.x"]),
        lambda ds: ds.update_config({"k": "v"}),
        lambda ds: ds.drop_columns(["s"]),
    ):
        step(theirs)
        step(ours)
        assert indices(uris[1]) == indices(uris[0])
    assert [each[0] for each in indices(uris[1])] == ["a_idx"]
    assert lance.dataset(uris[1]).to_table(filter="A = 5") == ours.to_table(filter="A = 5")


def test_a_cast_and_appended_rows_are_not_combined(tmp_path: Path) -> None:
    """The rows hold the column as it was, and would lose it."""
    uri = make(tmp_path, "2.2")
    stale, other = lance_df.dataset(uri), lance_df.dataset(uri)
    fragments = lance_df.fragment.write_fragments(rows(50, 55), uri)
    other.alter_columns({"path": "a", "data_type": pa.int64()})
    staged = lance_df.LanceOperation.Append(fragments)
    with pytest.raises(ConflictError):
        lance_df.LanceDataset.commit(uri, staged, read_version=stale.version)
    assert lance_df.dataset(uri).to_table()["a"].null_count == 0


@pytest.mark.parametrize("data", [None, [{"w": 1}, {"w": 2}, None, {"w": 4}]], ids=["nulls", "values"])
def test_structs_get_fields_also_where_they_are_null(tmp_path: Path, data: list[Any] | None) -> None:
    kind = pa.struct([("x", pa.int64())])
    new = pa.field("st", pa.struct([("w", pa.int8())]))
    table = pa.table({"st": pa.array([{"x": 1}, None, {"x": None}, {"x": 4}], kind)})
    opened = []
    for library in (lance, lance_df):
        uri = str(tmp_path / library.__name__)
        lance.write_dataset(table, uri)
        ds = library.dataset(uri)
        ds.add_columns(new if data is None else pa.table({"st": pa.array(data, new.type)}))
        opened.append(ds.to_table())
        assert described(uri)["schema"] == described(str(tmp_path / "lance"))["schema"]
    assert opened[0] == opened[1] == lance.dataset(uri).to_table()


def test_structs_in_lists_get_fields_and_are_cast(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("x", pa.int64())]))
    table = pa.table({"l": pa.array([[{"x": 1}, None], None, [], [{"x": 2}]], kind)})
    opened = []
    for library in (lance, lance_df):
        uri = str(tmp_path / library.__name__)
        lance.write_dataset(table, uri)
        ds = library.dataset(uri)
        ds.add_columns(pa.field("l", pa.list_(pa.struct([("w", pa.int8())]))))
        opened.append(ds.to_table())
    assert opened[0] == opened[1]
    ds.alter_columns({"path": "l.item.x", "data_type": pa.int32()})
    assert ds.to_table()["l"].to_pylist() == opened[0]["l"].to_pylist()
    assert lance.dataset(uri).to_table() == ds.to_table()
    ds.validate()
    with pytest.raises(InvalidInputError, match="already"):
        ds.add_columns(pa.table({"l": pa.array([[{"v": 1}]] * 4)}))


def test_the_mark_of_field_ids_is_kept(tmp_path: Path) -> None:
    """A table may say that field ids are never used again."""
    uri = make(tmp_path, "2.2")

    def mark(manifest: Any) -> None:
        manifest.writer_feature_flags |= 32768
        manifest.max_allocated_field_id = 20

    edit_manifest(uri, mark)
    ds = lance_df.dataset(uri)
    ds.add_columns({"n": "a + a"})
    ds.drop_columns(["n"])
    ds.add_columns({"n": "a + a"})
    ds.alter_columns({"path": "a", "data_type": pa.int64()})
    assert {field.name(): field.id() for field in ds.lance_schema.fields()}["n"] == 22
    assert open_table(uri).manifest.max_allocated_field_id == 23
    lance.dataset(uri).add_columns({"m": "a + a"})
    ds.checkout_latest()
    assert {field.name(): field.id() for field in ds.lance_schema.fields()}["m"] == 24
    ds.validate()


def test_field_ids_end(tmp_path: Path) -> None:
    uri = make(tmp_path, "2.2")

    def mark(manifest: Any) -> None:
        manifest.writer_feature_flags |= 32768
        manifest.max_allocated_field_id = 2**31 - 2

    edit_manifest(uri, mark)
    ds = lance_df.dataset(uri)
    ds.add_columns({"n": "a + a"})
    before = files(uri)
    for change in (
        lambda: ds.add_columns({"m": "a + a"}),
        lambda: ds.add_columns(pa.schema([("m", pa.int32())])),
        lambda: ds.alter_columns({"path": "a", "data_type": pa.int64()}),
        lambda: lance_df.write_dataset(rows(0, 1), uri, mode="overwrite"),
    ):
        with pytest.raises(
            CorruptDataError, match=r"table: .* ids up to \d+ are in use, .* at most 2147483647"
        ):
            change()
    assert files(uri) == before


def test_a_cast_keeps_the_metadata_of_the_field(tmp_path: Path) -> None:
    """Pylance drops it."""
    ds = lance_df.dataset(make(tmp_path, "2.2"))
    ds.update_field_metadata({"a": {"unit": "m"}, "st.x": {"unit": "s"}})
    ds.alter_columns({"path": "a", "data_type": pa.int64()}, {"path": "st.x", "data_type": pa.int16()})
    schema = lance.dataset(ds.uri).schema
    assert schema.field("a").metadata == {b"unit": b"m"}
    assert schema.field("st").type.field("x").metadata == {b"unit": b"s"}


def test_deprecated_names_still_work(tmp_path: Path) -> None:
    ds = lance_df.dataset(make(tmp_path, "2.2"))
    with pytest.warns(DeprecationWarning, match="replace_schema_metadata"):
        ds.replace_schema_metadata({"k": "v"})
    with pytest.warns(DeprecationWarning, match="replace_field_metadata"):
        ds.replace_field_metadata("st.x", {"f": "g"})
    schema = lance.dataset(ds.uri).schema
    assert schema.metadata == {b"k": b"v"}
    assert schema.field("st").type.field("x").metadata == {b"f": b"g"}


@pytest.mark.parametrize("change", ["append", "update", "upsert", "delete"])
def test_nulls_that_came_meanwhile_keep_a_column_nullable(tmp_path: Path, change: str) -> None:
    path = tmp_path / "t"
    nulls = pa.table({"k": [9], "a": pa.array([None], pa.int64())})
    lance_df.write_dataset(pa.table({"k": [1, 2], "a": [1, 2]}), path)
    stale = lance_df.dataset(path)
    current = lance_df.dataset(path)
    changes: dict[str, Callable[[], object]] = {
        "append": lambda: lance_df.write_dataset(nulls, path, mode="append"),
        "update": lambda: current.update({"a": "NULL"}, where="k = 1"),
        "upsert": lambda: current.merge_insert("k").when_not_matched_insert_all().execute(nulls),
        "delete": lambda: current.delete("k = 1"),
    }
    changes[change]()
    if change == "delete":
        stale.alter_columns({"path": "a", "nullable": False})
    else:
        with pytest.raises(ConflictError):
            stale.alter_columns({"path": "a", "nullable": False})
    for library in (lance, lance_df):
        assert library.dataset(path).schema.field("a").nullable is (change != "delete")
        assert library.dataset(path).to_table().num_rows == {"delete": 1, "update": 2}.get(change, 3)


DAY = 86_400_000
TO_ZONES = [
    (pa.array([1_704_110_400, 1_719_835_200, None], pa.timestamp("s")), pa.timestamp("us", "Europe/Berlin")),
    (pa.array([1_704_110_400_000_000, None], pa.timestamp("us")), pa.timestamp("ns", "+05:30")),
    (pa.array([200 * DAY, None, -DAY], pa.date64()), pa.timestamp("ms", "America/New_York")),
    (pa.array([200, None, -1], pa.date32()), pa.timestamp("s", "UTC")),
    (
        pa.array([[0], None, [], [1, None]], pa.list_(pa.timestamp("ms"))),
        pa.large_list(pa.timestamp("us", "Asia/Tokyo")),
    ),
    (
        pa.array([[0, 1], None, [None, 2]], pa.list_(pa.timestamp("ms"), 2)),
        pa.list_(pa.timestamp("us", "Asia/Tokyo"), 2),
    ),
]


@pytest.mark.parametrize(("values", "kind"), TO_ZONES, ids=lambda each: str(getattr(each, "type", each)))
def test_times_without_a_zone_become_those_of_its_clocks(
    tmp_path: Path, values: pa.Array, kind: pa.DataType
) -> None:
    data = pa.table({"id": range(len(values)), "t": values})
    found = []
    for library in (lance, lance_df):
        dataset = library.write_dataset(data, str(tmp_path / library.__name__))
        dataset.delete("id = 1")
        dataset.alter_columns({"path": "t", "data_type": kind})
        found.append(dataset.to_table())
    assert found[0] == found[1]


@pytest.mark.parametrize("moment", ["2024-10-27T02:30:00", "2024-03-31T02:30:00"])
def test_times_that_a_zone_has_twice_or_never_are_refused(tmp_path: Path, moment: str) -> None:
    data = pa.table({"t": pa.array([moment, None]).cast(pa.timestamp("us"))})
    for library in (lance, lance_df):
        dataset = library.write_dataset(data, str(tmp_path / library.__name__))
        with pytest.raises(OSError, match=r"Can.* cast"):
            dataset.alter_columns({"path": "t", "data_type": pa.timestamp("us", "Europe/Berlin")})


DICTIONARY = pa.dictionary(pa.int8(), pa.string())
OF_DICTIONARIES = [
    (pa.array(["a", None, "b"]), DICTIONARY),
    (pa.array(["a", None, "b"]).dictionary_encode(), pa.large_string()),
    (pa.array(["a", None, "b"]).dictionary_encode(), DICTIONARY),
    (pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int32()), ["a", None]), pa.string()),
    (pa.array([5, None, 5]), pa.dictionary(pa.int32(), pa.int64())),
    (pa.array([[["a"]], None, []], pa.list_(pa.list_(DICTIONARY))), pa.list_(pa.list_(pa.string()))),
]


@pytest.mark.parametrize(
    ("values", "kind"), OF_DICTIONARIES, ids=lambda each: str(getattr(each, "type", each))
)
def test_casts_to_and_from_dictionaries(tmp_path: Path, values: pa.Array, kind: pa.DataType) -> None:
    found = []
    for library in (lance, lance_df):
        dataset = library.write_dataset(pa.table({"t": values}), str(tmp_path / library.__name__))
        dataset.alter_columns({"path": "t", "data_type": kind})
        found.append(dataset.to_table())
    assert found[0].schema == found[1].schema
    assert found[0].to_pylist() == found[1].to_pylist()


def test_casts_that_dictionaries_refuse(tmp_path: Path) -> None:
    data = pa.table({"t": [str(number) for number in range(300)]})
    dataset = lance_df.write_dataset(data, tmp_path / "t")
    with pytest.raises(InvalidInputError, match="Can't cast"):
        dataset.alter_columns({"path": "t", "data_type": DICTIONARY})
    coded = pa.table({"t": pa.array([1, 300]).dictionary_encode()})
    with pytest.raises(InvalidInputError, match="Can't cast value 300"):
        lance_df.write_dataset(coded, tmp_path / "d").alter_columns({"path": "t", "data_type": pa.int8()})


def test_values_beyond_the_calendar_are_named(tmp_path: Path) -> None:
    for values, text in (
        (pa.array([0, 2**60], pa.timestamp("s")), str(2**60)),
        (pa.array([0, 2**62], pa.duration("s")), str(2**62)),
        (pa.array([[0], [2**60]], pa.list_(pa.timestamp("s"))), str(2**60)),
    ):
        dataset = lance_df.write_dataset(pa.table({"t": values}), tmp_path / "t", mode="overwrite")
        kind = pa.duration("ns") if pa.types.is_duration(values.type) else pa.timestamp("ns")
        kind = pa.list_(kind) if pa.types.is_list(values.type) else kind
        with pytest.raises(InvalidInputError, match=f"Can't cast value .*{text}"):
            dataset.alter_columns({"path": "t", "data_type": kind})


ONE_FIELD = pa.struct([("a", pa.int32())])


@pytest.mark.parametrize(
    ("kind", "value", "paths"),
    [
        (pa.list_(ONE_FIELD), [{"a": 1}], ["x.item.a"]),
        (pa.large_list(ONE_FIELD), [{"a": 1}], ["x.item.a"]),
        (pa.list_(pa.list_(ONE_FIELD)), [[{"a": 1}]], ["x.item.item.a"]),
        (pa.list_(pa.struct([("a", pa.int32()), ("b", pa.int8())])), [{"a": 1}], ["x.item.a", "x.item.b"]),
        (pa.struct([("l", pa.list_(ONE_FIELD))]), {"l": [{"a": 1}]}, ["x.l.item.a"]),
        (pa.map_(pa.string(), ONE_FIELD), [("k", {"a": 1})], ["x.entries.value.a"]),
    ],
)
def test_lists_of_structs_without_fields_are_dropped(
    tmp_path: Path, kind: pa.DataType, value: Any, paths: list[str]
) -> None:
    uri = str(tmp_path / "table")
    table = pa.table({"id": [1], "x": pa.array([value], kind)})
    lance_df.write_dataset(table, uri, data_storage_version="2.2")
    for path in paths:
        lance_df.dataset(uri).drop_columns([path])
    for library in (lance_df, lance):
        assert library.dataset(uri).to_table().to_pylist() == [{"id": 1}]


@pytest.mark.parametrize("path", ["x.entries.key", "x.entries.value"])
def test_maps_keep_their_keys_and_values(tmp_path: Path, path: str) -> None:
    uri = str(tmp_path / "table")
    table = pa.table({"x": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8()))})
    ds = lance_df.write_dataset(table, uri, data_storage_version="2.2")
    with pytest.raises(UnsupportedFeatureError, match="cannot be dropped on its own"):
        ds.drop_columns([path])


@pytest.mark.parametrize("operation", ["Merge", "Project"])
def test_schemas_that_no_reader_accepts_are_refused(tmp_path: Path, operation: str) -> None:
    uri = str(tmp_path / "table")
    lance_df.write_dataset(pa.table({"id": [1], "x": pa.array([[{"a": 1}]], pa.list_(ONE_FIELD))}), uri)
    table = open_table(uri)
    fields = (table.schema.fields[0], table.schema.fields[1].with_children(()))
    schema = dataclasses.replace(table.schema, fields=fields)
    made = Project(schema) if operation == "Project" else Merge(tuple(table.fragments), schema)
    with pytest.raises(InvalidInputError, match="no reader could open"):
        commit_change(table, made, rows=NO_ROWS)
    assert lance_df.dataset(uri).version == 1


@pytest.mark.parametrize("operation", ["Overwrite", "Merge", "Project"])
@pytest.mark.parametrize("name", ["a", "x.y", "_rowid", "_rowaddr", "", "`q", "n\0"])
def test_commits_check_new_names(tmp_path: Path, operation: str, name: str) -> None:
    uri = str(tmp_path / "table")
    ds = lance_df.write_dataset(pa.table({"a": [1], "b": ["x"]}), uri)
    fragments = [fragment.metadata for fragment in ds.get_fragments()]
    schema = LanceSchema.from_pyarrow(pa.schema([("a", pa.int64()), (name, pa.string())]))
    made: Any = {
        "Overwrite": lambda: LanceOperation.Overwrite(schema, fragments),
        "Merge": lambda: LanceOperation.Merge(fragments, schema),
        "Project": lambda: LanceOperation.Project(schema),
    }[operation]()
    with pytest.raises(InvalidInputError, match=r"two columns|dot|reserved|not allowed|NUL"):
        lance_df.LanceDataset.commit(uri, made, read_version=1)
    if operation == "Overwrite":
        with pytest.raises(InvalidInputError, match=r"two columns|dot|reserved|not allowed|NUL"):
            lance_df.LanceDataset.commit(str(tmp_path / "new"), made)
    assert lance_df.dataset(uri).to_table().to_pylist() == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize("operation", ["Merge", "Project"])
def test_commits_need_new_files_for_another_type(tmp_path: Path, operation: str) -> None:
    uri = str(tmp_path / "table")
    ds = lance_df.write_dataset(pa.table({"a": [1, 2], "b": ["x", "y"]}), uri, max_rows_per_file=1)
    old = [fragment.metadata for fragment in ds.get_fragments()]
    schema = LanceSchema.from_pyarrow(pa.schema([("a", pa.string()), ("b", pa.string())]))
    new = write_fragments(
        pa.table({"a": ["1", "2"], "b": ["x", "y"]}), uri, mode="overwrite", max_rows_per_file=1
    )
    for fragment, data in zip(old, new, strict=True):
        data.id = fragment.id
    made: Any = LanceOperation.Project(schema) if operation == "Project" else None
    for fragments in (old, [new[0], old[1]]):
        made = made if operation == "Project" else LanceOperation.Merge(fragments, schema)
        with pytest.raises(InvalidInputError, match=r"field 0 .*'a'.* no new data file"):
            lance_df.LanceDataset.commit(uri, made, read_version=1)
    if operation == "Merge":
        ds = lance_df.LanceDataset.commit(uri, LanceOperation.Merge(new, schema), read_version=1)
        assert ds.to_table().to_pylist() == [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]


def add_b(ds: Any) -> None:
    ds.add_columns(pa.schema([pa.field("y", pa.struct([("b", pa.int32())]))]))


def cast_b(ds: Any) -> None:
    ds.alter_columns({"path": "y.b", "data_type": pa.int64()})


def drop_a(ds: Any) -> None:
    ds.drop_columns(["y.a"])


def forbid_nulls(ds: Any) -> None:
    ds.alter_columns({"path": "y", "nullable": False})


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ([{"a": 1}, None], [add_b]),
        ([{"a": 1}, None], [add_b, cast_b]),
        ([{"a": 1}, None], [add_b, drop_a]),
        ([{"a": 1}, None], [add_b, cast_b, drop_a]),
        ([{"a": 1}, {"a": None}], [add_b, forbid_nulls]),
        ([{"a": 1}, {"a": None}], [add_b, cast_b, forbid_nulls]),
    ],
)
def test_structs_stay_null_where_they_are(tmp_path: Path, values: list[Any], steps: list[Step]) -> None:
    """The fields with data say which structs are NULL, also for a field without data."""
    uri = str(tmp_path / "table")
    lance_df.write_dataset(pa.table({"y": pa.array(values, ONE_FIELD)}), uri, data_storage_version="2.2")
    for step in steps:
        step(lance_df.dataset(uri))
    expected = [value and {"b": None} for value in values]
    for library in (lance_df, lance):
        ds = library.dataset(uri)
        assert [row["y"] for row in ds.take([0, 1], columns=["y.b"]).to_pylist()] == expected
        whole = ds.to_table()["y"].to_pylist()
        assert [value and value["b"] for value in whole] == [None, None]
        assert [value is None for value in whole] == [value is None for value in values]
        assert ds.to_table(columns=["y.b"]).to_pylist() == [{"y.b": None}] * 2
        assert ds.count_rows("y IS NULL") == values.count(None)


def test_fields_without_data_in_nested_structs(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    kind = pa.struct([("s", pa.struct([("d", pa.string()), ("e", pa.int8())])), ("a", pa.list_(pa.int8()))])
    values = [{"s": {"d": "x"}, "a": [1]}, {"s": None, "a": [2]}, None, {"s": {}, "a": None}]
    lance_df.write_dataset(pa.table({"y": pa.array(values, kind)}), uri, data_storage_version="2.2")
    new = pa.struct([("s", pa.struct([("c", pa.int16())])), ("b", pa.int32())])
    lance_df.dataset(uri).add_columns(pa.schema([pa.field("y", new)]))

    def check() -> None:
        ours, theirs = lance_df.dataset(uri), lance.dataset(uri)
        for columns in (["y.s.c"], ["y.b"], ["y.b", "y.s.c"], ["y"]):
            assert ours.take(range(4), columns=columns).equals(theirs.take(range(4), columns=columns))
            assert ours.to_table(columns=columns).equals(theirs.to_table(columns=columns))
        assert ours.count_rows("y.s IS NULL") == theirs.count_rows("y.s IS NULL") == 2
        context = lance_df.connect()
        lance_df.register(context, "t", uri)
        batches = context.sql("SELECT y['s'] IS NULL AS n, y['b'] AS b FROM t").collect()
        rows = pa.Table.from_batches(batches).to_pylist()
        assert rows == [{"n": n, "b": None} for n in (False, True, True, False)]

    check()
    lance_df.dataset(uri).alter_columns({"path": "y.s.c", "data_type": pa.int64()})
    check()
    lance_df.dataset(uri).drop_columns(["y.s.d", "y.s.e", "y.a"])
    check()


def test_siblings_of_fields_without_data_are_read_only_for_structs() -> None:
    uri = f"memory://{uuid.uuid4()}/t.lance"
    rows = [None if number % 5 == 0 else number * 2**40 for number in range(60_000)]
    values = [None if row is None else {"a": row, "c": str(row)} for row in rows]
    lance_df.write_dataset(pa.table({"x": rows, "y": values}), uri, data_storage_version="2.2")
    new = pa.struct([("b", pa.string()), ("s", pa.struct([("d", pa.int8())]))])
    lance_df.dataset(uri).add_columns(pa.schema([pa.field("y", new)]))

    def bytes_read(read: Callable[[lance_df.LanceDataset], pa.Table], expected: list[Any]) -> int:
        dataset, before = lance_df.dataset(uri), lance_df.bytes_read_counter()
        table = read(dataset)
        assert table.column(table.num_columns - 1).to_pylist() == expected
        table.validate(full=True)
        return lance_df.bytes_read_counter() - before

    def columns(*names: str) -> int:
        kinds = {"x": pa.int64(), "y.a": pa.int64(), "y.b": pa.string(), "y.s": pa.struct([("d", pa.int8())])}
        last = rows if names[-1] in ("x", "y.a") else [None] * len(rows)

        def read(dataset: lance_df.LanceDataset) -> pa.Table:
            table = dataset.to_table(columns=list(names))
            assert table.schema.names == list(names)
            assert table.schema.types == [kinds[name] for name in names]
            return table

        return bytes_read(read, last)

    sibling = columns("y.a")
    metadata = sibling // 10
    assert columns("y.b") < metadata
    assert columns("y.b", "y.s") < metadata
    assert columns("y.s", "x") - columns("x") < metadata
    assert columns("y.b", "y.a") - sibling < metadata
    structs = [None if row is None else {"b": None} for row in rows]
    chosen = range(0, len(rows), 3)
    needed = bytes_read(lambda dataset: dataset.take(chosen, columns=["y.b"]), structs[::3])
    assert needed > metadata
    nulls = bytes_read(
        lambda dataset: dataset.to_table(columns=["y.b"], filter=pc.field("y", "b").is_null()),
        [None] * len(rows),
    )
    assert nulls < metadata


def test_fields_of_structs_that_are_never_null_may_be(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    schema = pa.schema([pa.field("y", ONE_FIELD, nullable=False)])
    lance.write_dataset(pa.table({"y": [{"a": 1}, {"a": None}]}, schema=schema), uri)
    assert lance_df.dataset(uri).to_table(columns=["y.a"])["y.a"].to_pylist() == [1, None]


def test_a_file_without_a_field_that_the_manifest_lists_is_corrupt(tmp_path: Path) -> None:
    """pylance casts a field of structs in lists of 2.0, and then cannot read the column."""
    rows = pa.table({"id": [1], "l": pa.array([[{"x": 1, "y": 2}]])})
    table = lance.write_dataset(rows, str(tmp_path / "t"), data_storage_version="2.0")
    table.alter_columns({"path": "l.item.x", "data_type": pa.int32()})
    damaged = lance_df.dataset(tmp_path / "t")
    with pytest.raises(CorruptDataError, match=r"data/.*\.lance: the file has no column for field 'l'"):
        damaged.to_table()
    assert damaged.to_table(columns=["id"]).to_pylist() == [{"id": 1}]
