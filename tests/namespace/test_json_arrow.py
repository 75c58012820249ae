"""Schemas as JSON and back, and what other writers leave out."""

import json

import pyarrow as pa
import pytest

from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.namespace.spec.json_arrow import schema_from_json, schema_to_json, type_from_json, type_to_json

ITEM = pa.field("item", pa.int32(), nullable=False, metadata={"lance:field_id": "7"})
TYPES = [
    *(pa.null(), pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(5)),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "America/New_York"), pa.duration("ms")),
    *(pa.decimal128(38, 0), pa.decimal128(10, 2), pa.decimal128(9, -3), pa.decimal256(76, 75)),
    *(pa.list_(ITEM), pa.large_list(pa.list_(ITEM)), pa.list_(ITEM, 3), pa.struct([ITEM])),
    *(pa.map_(pa.string(), pa.timestamp("ms")), pa.dictionary(pa.int16(), pa.string())),
    pa.struct([]),
]


@pytest.mark.parametrize("data_type", TYPES, ids=str)
def test_types_come_back(data_type):
    text = json.dumps(type_to_json(data_type))
    assert type_from_json(json.loads(text), source="test") == data_type


def test_schema_of_the_specification():
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"lance:field_id": "0"}),
            pa.field("event_date", pa.date32(), metadata={"lance:field_id": "1"}),
            pa.field("country", pa.string(), metadata={"lance:field_id": "2"}),
        ]
    )
    assert schema_to_json(schema) == {
        "fields": [
            {
                "name": "id",
                "nullable": False,
                "type": {"type": "int64"},
                "metadata": {"lance:field_id": "0"},
            },
            {
                "name": "event_date",
                "nullable": True,
                "type": {"type": "date32"},
                "metadata": {"lance:field_id": "1"},
            },
            {
                "name": "country",
                "nullable": True,
                "type": {"type": "utf8"},
                "metadata": {"lance:field_id": "2"},
            },
        ]
    }
    back = schema_from_json(schema_to_json(schema.with_metadata({"owner": "me"})), source="test")
    assert back.equals(schema.with_metadata({"owner": "me"}), check_metadata=True)


@pytest.mark.parametrize(
    ("data", "data_type"),
    [
        ({"type": "timestamp"}, pa.timestamp("us")),
        ({"type": "duration"}, pa.duration("us")),
        ({"type": "BOOLEAN"}, pa.bool_()),
        ({"type": "decimal128", "length": 10002}, pa.decimal128(10, 2)),
    ],
)
def test_what_other_writers_leave_out(data, data_type):
    assert type_from_json(data, source="test") == data_type


@pytest.mark.parametrize(
    "data",
    [
        *(None, "int32", {}, {"type": 5}, {"type": "decimal128"}, {"type": "decimal128", "length": 999_000}),
        *({"type": "list"}, {"type": "list", "fields": []}, {"type": "struct", "fields": [{}]}),
        *({"type": "fixed_size_binary", "length": "5"}, {"type": "fixed_size_binary", "length": 2**40}),
        {"type": "map", "fields": [{"name": "entries", "type": {"type": "int8"}}]},
        {"type": "struct", "fields": [{"name": "a", "type": {"type": "int8"}, "metadata": {"a": 1}}]},
        {"type": "timestamp", "logical_type": "timestamp:weeks:-"},
    ],
    ids=str,
)
def test_malformed_types(data):
    with pytest.raises(CorruptDataError):
        type_from_json(data, source="the manifest")


def test_unknown_types():
    with pytest.raises(UnsupportedFeatureError, match="the manifest: unknown data type 'union'"):
        type_from_json({"type": "union"}, source="the manifest")
    with pytest.raises(UnsupportedFeatureError):
        type_to_json(pa.month_day_nano_interval())
