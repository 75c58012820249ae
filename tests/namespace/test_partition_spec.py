"""Partition specs: the JSON of the specification, and its rules."""

import json

import pyarrow as pa
import pytest

from lance_df.errors import CorruptDataError, InvalidInputError, UnsupportedFeatureError
from lance_df.namespace.spec.partition_spec import PartitionField, PartitionSpec, PartitionSpecs
from lance_df.namespace.spec.transforms import Transform, TransformKind

IDENTITY, YEAR = Transform(TransformKind.IDENTITY), Transform(TransformKind.YEAR)
EVENT_DATE = PartitionField("event_date", (1,), IDENTITY, None, pa.date32())
EVENT_YEAR = PartitionField("event_year", (1,), YEAR, None, pa.int32())
COUNTRY = PartitionField("country", (2,), IDENTITY, None, pa.string())
CUSTOM = PartitionField("initial", (2,), None, "upper(left(col0, 1))", pa.string())

APPENDIX_A = {
    "partition_spec_v1": {
        "id": 1,
        "fields": [
            {
                "field_id": "event_date",
                "source_ids": [1],
                "transform": {"type": "identity"},
                "result_type": {"type": "date32"},
            }
        ],
    },
    "partition_spec_v2": {
        "id": 2,
        "fields": [
            {
                "field_id": "event_year",
                "source_ids": [1],
                "transform": {"type": "year"},
                "result_type": {"type": "int32"},
            },
            {
                "field_id": "country",
                "source_ids": [2],
                "transform": {"type": "identity"},
                "result_type": {"type": "utf8"},
            },
        ],
    },
}


def specs(*versions):
    return PartitionSpecs(tuple(PartitionSpec(number, fields) for number, fields in enumerate(versions, 1)))


def test_the_example_of_the_specification():
    ours = specs((EVENT_DATE,), (EVENT_YEAR, COUNTRY))
    metadata = ours.to_metadata()
    assert {key: json.loads(text) for key, text in metadata.items()} == APPENDIX_A
    found = PartitionSpecs.from_metadata({**metadata, "schema": "{}", "partition_spec_vx": "?"}, source="m")
    assert found == ours
    assert list(found.fields) == ["event_date", "event_year", "country"]
    assert found.current.name == "v2"
    assert found.fields["country"].column == "partition_field_country"


def test_versions_are_ordered_by_number():
    many = specs(*[(EVENT_DATE,)] * 11)
    shuffled = dict(sorted(many.to_metadata().items()))
    assert [spec.id for spec in PartitionSpecs.from_metadata(shuffled, source="m")] == list(range(1, 12))


def test_expressions_and_parameters_come_back():
    fields = (
        CUSTOM,
        PartitionField("b", (3, 1), Transform(TransformKind.MULTI_BUCKET, num_buckets=8), None, pa.int32()),
        PartitionField("t", (2,), Transform(TransformKind.TRUNCATE, width=3), None, pa.string()),
        PartitionField("at", (4,), IDENTITY, None, pa.timestamp("ms", "UTC")),
    )
    spec = PartitionSpec(7, fields)
    assert PartitionSpec.from_json(spec.to_json(), source="m") == spec


def test_no_spec_is_no_namespace():
    assert PartitionSpecs.from_metadata({"schema": "{}"}, source="m") is None


def test_a_field_that_is_there_already_keeps_its_id():
    once = specs((EVENT_YEAR,))
    assert once.evolved([EVENT_YEAR, COUNTRY]).current == PartitionSpec(2, (EVENT_YEAR, COUNTRY))
    renamed = PartitionField("y", (1,), YEAR, None, pa.int32())
    with pytest.raises(InvalidInputError, match="must have the field_id 'event_year'"):
        once.evolved([renamed])
    with pytest.raises(InvalidInputError, match="'event_year' is used for both"):
        once.evolved([PartitionField("event_year", (2,), YEAR, None, pa.int32())])


@pytest.mark.parametrize("change", [{"transform": None}, {"expression": "col0"}, {"source_ids": ()}])
def test_fields_that_cannot_be(change):
    members = {"transform": YEAR, "expression": None, "source_ids": (1,)} | change
    with pytest.raises(InvalidInputError):
        PartitionField(field_id="f", result_type=pa.int32(), **members)


def test_specs_that_cannot_be():
    with pytest.raises(InvalidInputError, match="at least one field"):
        PartitionSpec(1, ())
    with pytest.raises(InvalidInputError, match="duplicate"):
        PartitionSpec(1, (EVENT_DATE, EVENT_DATE))


FIELD = APPENDIX_A["partition_spec_v1"]["fields"][0]


@pytest.mark.parametrize(
    "data",
    [
        *([], {}, {"id": 1}, {"id": 0, "fields": [FIELD]}, {"id": "1", "fields": [FIELD]}),
        *({"id": 1, "fields": []}, {"id": 1, "fields": [1]}, {"id": 2, "fields": [FIELD]}),
        *({"id": 1, "fields": [FIELD | change]} for change in (
            {"field_id": None}, {"field_id": ""}, {"source_ids": [True]}, {"source_ids": 1},
            {"source_ids": [-1]}, {"source_ids": [1, 2**31]},
            {"expression": "col0"}, {"expression": 5}, {"transform": None}, {"transform": "year"},
            {"transform": {"type": "bucket"}}, {"transform": {"type": "bucket", "num_buckets": 0}},
            {"transform": {"type": "truncate", "width": -1}}, {"transform": {"type": "year", "width": 1}},
            {"result_type": None}, {"result_type": {"type": "decimal128"}},
        )),
    ],
    ids=str,
)  # fmt: skip
def test_malformed_specs(data):
    with pytest.raises(CorruptDataError, match="partition_spec_v1"):
        PartitionSpecs.from_metadata({"partition_spec_v1": json.dumps(data)}, source="the manifest")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"id": 1, "fields": NaN}'], ids=len)
def test_text_that_is_no_spec(text):
    with pytest.raises(CorruptDataError, match="partition_spec_v1"):
        PartitionSpecs.from_metadata({"partition_spec_v1": text}, source="the manifest")


def test_unknown_transforms():
    data = {"id": 1, "fields": [FIELD | {"transform": {"type": "zorder"}}]}
    with pytest.raises(
        UnsupportedFeatureError, match="unknown transform 'zorder'; the transforms are identity"
    ):
        PartitionSpecs.from_metadata({"partition_spec_v1": json.dumps(data)}, source="the manifest")
