"""Schemas of namespaces: ids that are never used twice, and their JSON."""

import json

import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import AlreadyExistsError, ColumnNotFoundError, CorruptDataError, InvalidInputError
from lance_df.namespace.changes.column_changes import AlteredColumns, DroppedColumns, NullColumns
from lance_df.namespace.spec.namespace_schema import NamespaceSchema
from lance_df.table.evolution.alter_columns import Alteration

NESTED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("at", pa.struct([("lat", pa.float64()), pa.field("when", pa.timestamp("ms", "UTC"))])),
        pa.field("tags", pa.map_(pa.string(), pa.list_(pa.int32()))),
        pa.field("embedding", pa.list_(pa.float32(), 4), metadata={"unit": "none"}),
        pa.field("a.b", pa.string()),
    ],
    metadata={"owner": "me"},
)


def ids(schema):
    return {schema.path(field.id): field.id for field in schema.columns.walk()}


def test_ids_are_given_depth_first():
    schema = NamespaceSchema.create(NESTED)
    assert [field.id for field in schema.columns.walk()] == list(range(11))
    assert schema.path(3) == ("at", "when")
    assert schema.path(99) is None
    assert schema.arrow.equals(NESTED, check_metadata=True)


def test_the_example_of_the_specification():
    columns = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("event_date", pa.date32()),
            pa.field("country", pa.string()),
        ]
    )
    data = json.loads(NamespaceSchema.create(columns).to_json())
    assert data["fields"] == [
        {"name": "id", "nullable": False, "type": {"type": "int64"}, "metadata": {"lance:field_id": "0"}},
        {
            "name": "event_date",
            "nullable": True,
            "type": {"type": "date32"},
            "metadata": {"lance:field_id": "1"},
        },
        {"name": "country", "nullable": True, "type": {"type": "utf8"}, "metadata": {"lance:field_id": "2"}},
    ]


@pytest.mark.parametrize("level", ["column", "struct"])
def test_stored_names_are_unique(level):
    data = json.loads(NamespaceSchema.create(NESTED).to_json())
    if level == "column":
        data["fields"][0]["name"] = "at"
    else:
        data["fields"][1]["type"]["fields"][0]["name"] = "when"
    name = "at" if level == "column" else r"at\.when"
    with pytest.raises(CorruptDataError, match=f"schema: duplicate column name '{name}'"):
        NamespaceSchema.from_json(json.dumps(data), source="schema")


def without(schema, *names):
    return DroppedColumns(names).schema_after(schema)


def with_added(schema, *fields):
    return NullColumns(pa.schema(fields)).schema_after(schema)


def renamed(schema, names):
    return AlteredColumns(tuple(Alteration(path=old, name=new) for old, new in names.items())).schema_after(
        schema
    )


def test_json_comes_back_with_all_ids():
    schema = with_added(without(NamespaceSchema.create(NESTED), "tags"), pa.field("tags", pa.int8()))
    back = NamespaceSchema.from_json(schema.to_json(), source="test")
    assert back == schema
    assert ids(back) == ids(schema)
    assert back.columns.fields[-1].id == 11


def test_ids_of_dropped_columns_stay_taken():
    schema = NamespaceSchema.create(pa.schema([("a", pa.int8()), ("b", pa.int8())]))
    shorter = NamespaceSchema.from_json(without(schema, "b").to_json(), source="test")
    assert with_added(shorter, pa.field("b", pa.int8())).columns.field("b").id == 2


def test_renamed_columns_keep_their_ids():
    schema = NamespaceSchema.create(pa.schema([("a", pa.int8()), ("b", pa.int8())]))
    assert ids(renamed(schema, {"a": "b", "b": "a"})) == {("b",): 0, ("a",): 1}
    with pytest.raises(InvalidInputError, match="'b'"):
        renamed(schema, {"a": "b"})
    with pytest.raises(ColumnNotFoundError, match='"c"'):
        renamed(schema, {"c": "d"})


def test_names_lead_to_fields():
    schema = NamespaceSchema.create(NESTED)
    assert [schema.find(name).id for name in ("id", "at.when", "a.b")] == [0, 3, 10]
    for name in ("nope", "at.nope", "id.x", "tags.key", ""):
        with pytest.raises(ColumnNotFoundError, match="the columns are 'id', 'at'"):
            schema.find(name)


def test_schemas_that_cannot_be():
    with pytest.raises(InvalidInputError, match="at least one column"):
        NamespaceSchema.create(pa.schema([]))
    with pytest.raises(AlreadyExistsError, match="'a'"):
        NamespaceSchema.create(pa.schema([("a", pa.int8()), ("a", pa.int8())]))
    with pytest.raises(InvalidInputError, match="cannot drop all columns"):
        without(NamespaceSchema.create(pa.schema([("a", pa.int8())])), "a")


def column_of(name, field_id):
    field = {"name": name, "type": {"type": "int8"}, "metadata": {"lance:field_id": field_id}}
    return {"fields": [field]}


@pytest.mark.parametrize(
    "change",
    [
        {"fields": [{"name": "a", "type": {"type": "int8"}}]},
        {"fields": [{"name": "a", "type": {"type": "int8"}, "metadata": {"lance:field_id": "x"}}]},
        {
            "fields": [
                {"name": n, "type": {"type": "int8"}, "metadata": {"lance:field_id": "1"}} for n in "ab"
            ]
        },
        {"fields": None},
        {"metadata": {"lance_df:max_field_id": "many"}},
        {"metadata": {"lance_df:max_field_id": "--5"}},
        {"metadata": {"lance_df:max_field_id": "9" * 5000}},
        {"metadata": {"lance_df:max_field_id": str(2**31)}},
        {"metadata": {"other": "\ud800"}},
        {"metadata": {"\udfff": "other"}},
        column_of("\ud800", "0"),
        column_of("a", "9" * 5000),
        column_of("a", str(2**31)),
        column_of("a", "-1"),
    ],
    ids=str,
)
def test_malformed_json(change):
    text = NamespaceSchema.create(pa.schema([("a", pa.int8())])).to_json()
    with pytest.raises(CorruptDataError, match="the manifest"):
        NamespaceSchema.from_json(json.dumps(json.loads(text) | change), source="the manifest")


def test_the_highest_field_ids():
    text = NamespaceSchema.create(pa.schema([("a", pa.int8())])).to_json()
    read = NamespaceSchema.from_json(
        json.dumps(json.loads(text) | column_of("a", str(2**31 - 1))), source="the manifest"
    )
    assert read.max_field_id == 2**31 - 1
    with pytest.raises(CorruptDataError, match="ids up to 2147483647 are in use"):
        NullColumns(pa.schema([("b", pa.int8())])).schema_after(read)


def test_extension_types_are_those_of_what_is_read(tmp_path):
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("u", pa.uuid()), pa.field("b", pa.bool8())])
    rows = pa.table([pa.array([1, 2]), pa.nulls(2, pa.uuid()), pa.nulls(2, pa.bool8())], schema)
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", schema, ["k"])
    made.append(rows)
    opened = lance_df.PartitionedNamespace.open(tmp_path / "n")
    assert opened.schema.types == schema.types
    assert opened.to_table().sort_by("k") == rows
    opened.append(opened.schema.empty_table())


@pytest.mark.parametrize("where", ["field", "schema"])
def test_metadata_that_cannot_be_stored(tmp_path, where):
    metadata = {b"m\xff": b"x"}
    schema = pa.schema([pa.field("k", pa.int64(), metadata=metadata if where == "field" else None)])
    schema = schema if where == "field" else schema.with_metadata(metadata)
    with pytest.raises(InvalidInputError, match="not UTF-8 text"):
        lance_df.PartitionedNamespace.create(tmp_path / "n", schema, ["k"])
    with pytest.raises(InvalidInputError, match="not UTF-8 text"):
        lance_df.write_dataset(schema.empty_table(), tmp_path / "t")
    assert not list(tmp_path.iterdir())
