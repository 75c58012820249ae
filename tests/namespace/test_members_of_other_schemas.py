"""Members that pylance changed are read as pylance reads them, with columns matched by field id."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df import PartitionedNamespace, ScanOptions
from lance_df.errors import CorruptDataError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.engine

_OPTIONS = (
    ScanOptions(),
    ScanOptions(joined_members=False),
    ScanOptions(**dict.fromkeys(ScanOptions.__slots__, False)),
)
_DICTIONARY = pa.dictionary(pa.int8(), pa.string())
_PLACE = pa.struct([("x", pa.int32()), ("y", pa.string()), ("z", pa.struct([("p", pa.int64())]))])


def _made(root: Path, rows: pa.Table) -> PartitionedNamespace:
    namespace = PartitionedNamespace.create(str(root / "n"), rows.schema, ["identity(k)"])
    namespace.append(rows)
    return namespace


def _members(namespace: PartitionedNamespace) -> list[str]:
    rows = namespace.partitions().sort_by("k")
    return [f"{namespace.uri}/{location}" for location in rows["location"].to_pylist()]


def _published(namespace: PartitionedNamespace) -> PartitionedNamespace:
    """Publish the newest versions of all members, as any writer that follows the specification does."""
    manifest = lance.dataset(f"{namespace.uri}/__manifest")
    by_version: dict[int, list[str]] = {}
    for path in _members(namespace):
        by_version.setdefault(lance.dataset(path).version, []).append(f"'{path.rsplit('/', 1)[1]}'")
    for version, locations in by_version.items():
        manifest.update({"read_version": str(version)}, where=f"location IN ({', '.join(locations)})")
    return PartitionedNamespace.open(namespace.uri)


def _answers(namespace: PartitionedNamespace, query: str) -> list[list[dict[str, object]]]:
    root = namespace.uri.rpartition("/")[0]
    contexts = [lance_df.connect(root, scan_options=options) for options in _OPTIONS]
    return [sorted(context.sql(query).to_pylist(), key=str) for context in contexts]


def _rows(members: int) -> pa.Table:
    numbers = range(2 * members)
    return pa.table(
        {
            "k": pa.array([number // 2 for number in numbers], pa.int32()),
            "s": ["old"] * len(numbers),
            "i": numbers,
            "st": pa.array([{"x": 1, "y": "old", "z": {"p": 2}}] * len(numbers), _PLACE),
            "ls": pa.array([[{"u": 1, "v": "old"}]] * len(numbers)),
        }
    )


@pytest.mark.parametrize("members", [1, 5, 17])
def test_a_dropped_column_is_null_before_and_after_a_compaction(tmp_path: Path, members: int) -> None:
    namespace = _made(tmp_path, _rows(members))
    for path in _members(namespace):
        lance.dataset(path).create_scalar_index("s", "BTREE")
        lance.dataset(path).drop_columns(["s", "st.y", "ls.item.v"])
    namespace = _published(namespace)

    def check(left: int) -> None:
        expected = {"s": None, "st": {"x": 1, "y": None, "z": {"p": 2}}, "ls": [{"u": 1, "v": None}]}
        for answer in _answers(namespace, "SELECT s, st, ls FROM n"):
            assert answer == [expected] * left
        for answer in _answers(namespace, "SELECT count(s) AS n, min(s) AS s, min(st['y']) AS y FROM n"):
            assert answer == [{"n": 0, "s": None, "y": None}]
        for condition, count in (("s = 'old'", 0), ("s IS NULL", left), ("st['y'] IS NULL", left)):
            query = f"SELECT count(*) AS n FROM n WHERE {condition}"
            assert _answers(namespace, query) == [[{"n": count}]] * len(_OPTIONS)
        for answer in _answers(namespace, "SELECT a.i FROM n a JOIN n b ON a.s = b.s"):
            assert answer == []
        assert namespace.count_rows() == left

    check(2 * members)
    for path in _members(namespace):
        lance.dataset(path).delete("i % 2 = 0")
        lance.dataset(path).optimize.compact_files()
    namespace = _published(namespace)
    check(members)


def test_a_dropped_map_is_null(tmp_path: Path) -> None:
    rows = pa.table({"k": [0], "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})
    namespace = PartitionedNamespace.create(str(tmp_path / "n"), rows.schema, ["identity(k)"])
    namespace.append(rows)
    lance.dataset(_members(namespace)[0]).drop_columns(["m"])
    assert _published(namespace).to_table().to_pylist() == [{"k": 0, "m": None}]


def test_a_column_that_was_dropped_and_added_again_is_another_one(tmp_path: Path) -> None:
    namespace = _made(tmp_path, _rows(1))
    (path,) = _members(namespace)
    lance.dataset(path).drop_columns(["s"])
    lance.dataset(path).add_columns({"s": "'new'"})
    with pytest.raises(CorruptDataError, match="field 1, 's' in the namespace, is missing"):
        _published(namespace).to_table()


_CHANGES: dict[str, Callable[[PartitionedNamespace, pa.Table], object]] = {
    "append": lambda namespace, row: namespace.append(row),
    "update": lambda namespace, _: namespace.update({"s": "'new'"}, where="i = 1"),
    "upsert": lambda namespace, row: namespace.upsert(row, on="i"),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_members_without_a_column_take_no_rows_that_would_lose_it(tmp_path: Path, change: str) -> None:
    namespace = _made(tmp_path, _rows(1))
    lance.dataset(_members(namespace)[0]).drop_columns(["s"])
    namespace = _published(namespace)
    row = namespace.to_table().slice(0, 1)
    row = row.set_column(row.schema.get_field_index("s"), "s", pa.array(["new"]))
    with pytest.raises(CorruptDataError, match=r"lacks columns of the namespace.*'s'.*publish_newer=True"):
        _CHANGES[change](namespace, row)
    assert PartitionedNamespace.open(namespace.uri).to_table()["s"].to_pylist() == [None, None]
    namespace.delete("i = 1")
    assert PartitionedNamespace.open(namespace.uri).count_rows() == 1


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("members", [1, 5, 17])
def test_members_say_themselves_whether_empty_strings_are_null(
    tmp_path: Path, version: str, members: int
) -> None:
    def schema(*, nullable: bool) -> pa.Schema:
        texts = [pa.field("s", pa.string(), nullable=nullable), pa.field("b", pa.binary(), nullable=nullable)]
        below = pa.struct([pa.field("y", pa.string(), nullable=nullable)])
        return pa.schema([pa.field("k", pa.int32()), *texts, pa.field("st", below)])

    values = [{"k": k, "s": s, "b": s.encode(), "st": {"y": s}} for k in range(members) for s in ("", "a")]
    namespace = _made(tmp_path, pa.Table.from_pylist(values, schema(nullable=True)))
    for k, path in enumerate(_members(namespace)):
        own = pa.Table.from_pylist([each for each in values if each["k"] == k], schema(nullable=False))
        lance.write_dataset(own, path, mode="overwrite", data_storage_version=version)
    namespace = _published(namespace)
    for answer in _answers(namespace, "SELECT * FROM n"):
        assert answer == sorted(values, key=str)
    for answer in _answers(namespace, "SELECT count(*) AS n, count(b) AS b FROM n WHERE s = ''"):
        assert answer == [{"n": members, "b": members}]
    for answer in _answers(namespace, "SELECT k FROM n WHERE s IS NULL OR st['y'] IS NULL"):
        assert answer == []


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1"])
@pytest.mark.parametrize("members", [1, 8, 17])
def test_nulls_in_columns_that_are_not_nullable_are_refused(
    tmp_path: Path, version: str, members: int
) -> None:
    schema = pa.schema([pa.field("k", pa.int32()), pa.field("s", pa.string(), nullable=False)])
    namespace = _made(
        tmp_path, pa.table({"k": pa.array(range(members), pa.int32()), "s": ["a"] * members}, schema)
    )
    paths = _members(namespace)
    for k, path in enumerate(paths):
        own = pa.table({"k": pa.array([k, k], pa.int32()), "s": [None, "a"]})
        lance.write_dataset(own, path, mode="overwrite", data_storage_version=version)
    namespace = _published(namespace)
    for options in _OPTIONS:
        context = lance_df.connect(str(tmp_path), scan_options=options)
        with pytest.raises(CorruptDataError, match="'s' is not nullable, but contains nulls") as caught:
            context.sql("SELECT s FROM n").to_pylist()
        assert any(f"{path}/data/" in str(caught.value) for path in paths)


@pytest.mark.parametrize("members", [1, 5, 17])
def test_dictionaries_of_0_1_are_those_of_the_members(tmp_path: Path, members: int) -> None:
    keys = pa.array([number // 2 for number in range(2 * members)], pa.int32())
    words = pa.array([f"{number % 2}-{number // 2}" for number in range(2 * members)])
    rows = pa.table({"k": keys, "c": words.cast(_DICTIONARY)})
    namespace = _made(tmp_path, rows)
    for k, path in enumerate(_members(namespace)):
        own = pa.table({"k": pa.array([k, k], pa.int32()), "c": words.slice(2 * k, 2).cast(_DICTIONARY)})
        lance.write_dataset(own, path, mode="overwrite", data_storage_version="legacy")
    assert PartitionedNamespace.repair(namespace.uri, publish_newer=True).actions
    namespace = PartitionedNamespace.open(namespace.uri)
    for answer in _answers(namespace, "SELECT * FROM n"):
        assert answer == sorted(rows.to_pylist(), key=str)
    for answer in _answers(namespace, "SELECT k FROM n WHERE c = '1-0'"):
        assert answer == [{"k": 0}]
    assert not [each for each in namespace.verify(deep=True).problems if each.kind.value != "schema"]


_FIELDS = ("s", "b", "i", "c", "st", "ls")


def _random_rows(rng: random.Random, k: int, count: int, schema: pa.Schema) -> pa.Table:
    def drawn(name: str) -> object:
        values: dict[str, list[object]] = {
            "s": ["", "a", "bé"],
            "b": [b"", b"x"],
            "i": [0, -1, 2**40],
            "c": ["one", "two"],
            "st": [{"x": 1, "y": "", "z": {"p": 2}}, {"x": 2, "y": "b", "z": {"p": 3}}],
            "ls": [[], [{"u": 1, "v": "e"}], [{"u": 2, "v": "f"}] * 2],
        }
        is_null = name in ("s", "b", "i", "c") and schema.field(name).nullable and rng.random() < 0.3
        return None if is_null else rng.choice(values[name])

    columns = [pa.array([drawn(name) for _ in range(count)]) for name in _FIELDS]
    numbers = pa.array([1000 * k + number for number in range(count)])
    keys = pa.array([k] * count, pa.int32())
    arrays = [column.cast(schema.field(name).type) for name, column in zip(_FIELDS, columns, strict=True)]
    return pa.table([keys, numbers, *arrays], schema)


def _changed(rng: random.Random, path: str, k: int, schema: pa.Schema) -> None:
    dataset = lance.dataset(path)
    columns = [name for name in _FIELDS if name in dataset.schema.names and schema.field(name).nullable]
    match rng.choice(
        ["drop", "drop below", "rename", "nullable", "add", "overwrite", "delete", "compact", "index"]
    ):
        case "drop" if columns:
            dataset.drop_columns([rng.choice(columns)])
        case "drop below" if "st" in columns and len(dataset.schema.field("st").type.names) == 3:
            dataset.drop_columns([rng.choice(["st.x", "st.y", "st.z"])])
        case "rename" if "s" in dataset.schema.names:
            dataset.alter_columns({"path": "s", "name": "renamed"})
        case "nullable" if "b" in dataset.schema.names:
            dataset.alter_columns({"path": "b", "nullable": True})
        case "add":
            dataset.add_columns({f"added{rng.randrange(1000)}": "row * 2"})
        case "overwrite":
            own = [
                field.with_nullable(rng.random() < 0.5) if field.name in ("s", "b") else field
                for field in schema
            ]
            rows = _random_rows(rng, k, rng.choice([2, 9]), pa.schema(own))
            version = rng.choice(["legacy", "legacy", "2.0", "2.1", "2.2"])
            lance.write_dataset(rows, path, mode="overwrite", data_storage_version=version)
        case "delete":
            dataset.delete(f"row % {rng.choice([2, 3])} = 0")
        case "compact":
            dataset.optimize.compact_files()
        case "index" if "i" in dataset.schema.names:
            dataset.create_scalar_index("i", "BTREE")


def _projected(path: str, template: pa.Schema, fields: list[object]) -> pa.Table:
    """Return a member as pylance reads it, with the columns of the namespace by field id."""
    dataset = lance.dataset(path)
    rows, own = dataset.to_table(), {field.id(): field for field in dataset.lance_schema.fields()}

    def values(data_type: pa.DataType, wanted: object, known: object, array: pa.Array) -> pa.Array:
        if not pa.types.is_struct(data_type):
            return array.cast(data_type)
        below = {child.id(): child for child in known.children()}
        children = []
        for child in wanted.children():
            child_type = data_type.field(child.name()).type
            if child.id() in below:
                children.append(
                    values(child_type, child, below[child.id()], array.field(below[child.id()].name()))
                )
            else:
                children.append(pa.nulls(len(array), child_type))
        return pa.StructArray.from_arrays(children, fields=[*data_type], mask=array.is_null())

    arrays = [
        values(column.type, field, own[field.id()], rows[own[field.id()].name()].combine_chunks())
        if field.id() in own
        else pa.nulls(rows.num_rows, column.type)
        for column, field in zip(template, fields, strict=True)
    ]
    return pa.table(arrays, pa.schema([column.with_nullable(True) for column in template]))


@pytest.mark.parametrize("members", [1, 5, 20])
@pytest.mark.parametrize("seed", range(2))
def test_changed_members_are_read_as_pylance_reads_them(tmp_path: Path, members: int, seed: int) -> None:
    rng = random.Random(f"{members} {seed}")
    types = [pa.string(), pa.binary(), pa.int64(), _DICTIONARY, _PLACE, _rows(1).schema.field("ls").type]
    schema = pa.schema(
        [
            pa.field("k", pa.int32()),
            pa.field("row", pa.int64()),
            *(pa.field(name, data_type) for name, data_type in zip(_FIELDS, types, strict=True)),
        ]
    )
    namespace = _made(tmp_path, pa.concat_tables(_random_rows(rng, k, 4, schema) for k in range(members)))
    paths = _members(namespace)
    fields = lance.dataset(paths[0]).lance_schema.fields()
    for k, path in enumerate(paths):
        for _ in range(rng.choice([0, 1, 2])):
            _changed(rng, path, k, schema)
    namespace = _published(namespace)
    expected = pa.concat_tables(_projected(path, schema, fields) for path in paths)
    in_order = sorted(expected.to_pylist(), key=str)
    for answer in _answers(namespace, "SELECT * FROM n"):
        assert answer == in_order
    for condition, matches in (
        ("s IS NULL", pc.field("s").is_null()),
        ("s = ''", pc.field("s") == ""),
        ("i >= 0", pc.field("i") >= 0),
        ("i IS NULL", pc.field("i").is_null()),
        ("c = 'one'", pc.field("c").cast(pa.string()) == "one"),
        ("st['y'] IS NULL", pc.field(("st", "y")).is_null()),
    ):
        numbers = [{"row": number} for number in expected.filter(matches)["row"].to_pylist()]
        for answer in _answers(namespace, f"SELECT row FROM n WHERE {condition}"):
            assert answer == sorted(numbers, key=str)
    counts = {name: len(expected) - expected[name].null_count for name in _FIELDS}
    query = f"SELECT {', '.join(f'count({name}) AS {name}' for name in _FIELDS)} FROM n"
    assert _answers(namespace, query) == [[counts]] * len(_OPTIONS)


def test_members_of_0_1_take_no_files_of_other_versions(tmp_path: Path) -> None:
    rows = pa.table({"k": pa.array([0, 0, 1], pa.int32()), "s": ["a", "b", "c"]})
    namespace = _made(tmp_path, rows)
    path = _members(namespace)[0]
    lance.write_dataset(rows.slice(0, 2), path, mode="overwrite", data_storage_version="legacy")
    namespace = _published(namespace)
    changes = [lambda: namespace.append(rows), lambda: namespace.update({"s": "'z'"}, "k = 0")]
    for change in changes:
        with pytest.raises(InvalidInputError, match=r"cannot be added to a table of version 0\.1"):
            change()
    assert PartitionedNamespace.open(namespace.uri).count_rows() == 3
    namespace.overwrite_partitions(rows)
    namespace.append(rows)
    assert lance.dataset(path).count_rows() == 4
    assert PartitionedNamespace.open(namespace.uri).count_rows() == 6
