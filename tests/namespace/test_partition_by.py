"""From what a user says to partition fields, and the demands on expressions."""

from decimal import Decimal

import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from lance_df.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_df.namespace.spec.namespace_schema import NamespaceSchema
from lance_df.namespace.spec.partition_by import parse_partition_by, resolve_all
from lance_df.namespace.spec.partition_spec import PartitionSpec, PartitionSpecs
from lance_df.namespace.spec.transforms import Transform, TransformKind

pytestmark = pytest.mark.engine

SCHEMA = NamespaceSchema.create(
    pa.schema(
        [
            ("id", pa.int32()),
            ("ts", pa.timestamp("us")),
            ("country", pa.string()),
            ("place", pa.struct([("city", pa.string())])),
            ("price", pa.float32()),
        ]
    )
)


def resolved(*wanted, specs=None):
    return resolve_all(wanted, SCHEMA, specs)


def test_fields_get_names_and_types():
    fields = resolved(
        partition.year("ts"),
        partition.bucket("id", 16),
        partition.identity("place.city"),
        partition.multi_bucket(["id", "country"], 8, field_id="both"),
        partition.truncate("country", 2),
        partition.expression("upper(left(col0, 1))", ["country"]),
    )
    assert [(field.field_id, field.source_ids, field.result_type) for field in fields] == [
        ("ts_year", (1,), pa.int32()),
        ("id_bucket", (0,), pa.int32()),
        ("place_city", (4,), pa.string()),
        ("both", (0, 2), pa.int32()),
        ("country_truncate", (2,), pa.string()),
        ("country_expr", (2,), pa.string()),
    ]


def test_names_that_are_taken_get_a_number():
    fields = resolved(partition.bucket("id", 16), partition.bucket("id", 32))
    assert [field.field_id for field in fields] == ["id_bucket", "id_bucket_2"]


def test_a_field_of_an_earlier_version_keeps_its_id():
    once = PartitionSpecs((PartitionSpec(1, resolved(partition.year("ts", field_id="y"))),))
    assert resolved(partition.year("ts"), specs=once)[0].field_id == "y"
    assert resolved(partition.month("ts"), specs=once)[0].field_id == "ts_month"
    with pytest.raises(InvalidInputError, match="must keep its field_id"):
        resolved(partition.year("ts", field_id="z"), specs=once)


@pytest.mark.parametrize(
    ("text", "columns", "transform"),
    [
        ("country", ("country",), Transform(TransformKind.IDENTITY)),
        (" Year( ts )", ("ts",), Transform(TransformKind.YEAR)),
        ("bucket(id, 16)", ("id",), Transform(TransformKind.BUCKET, 16)),
        ("bucket(16, id)", ("id",), Transform(TransformKind.BUCKET, 16)),
        ("multi_bucket(8, id, country)", ("id", "country"), Transform(TransformKind.MULTI_BUCKET, 8)),
        ("multi_bucket(id, country, 8)", ("id", "country"), Transform(TransformKind.MULTI_BUCKET, 8)),
        ("truncate(place.city, 3)", ("place.city",), Transform(TransformKind.TRUNCATE, width=3)),
    ],
)
def test_texts(text, columns, transform):
    found = parse_partition_by(text)
    assert (found.columns, found.transform) == (columns, transform)


@pytest.mark.parametrize(
    ("text", "columns", "expression"),
    [
        ("expression('ascii(col0) % 7', country)", ("country",), "ascii(col0) % 7"),
        ("Expression ( 'concat(col0, ''-'', col1)' , a , b.c )", ("a", "b.c"), "concat(col0, '-', col1)"),
    ],
)
def test_expressions_are_literals_of_sql(text, columns, expression):
    found = parse_partition_by(text)
    assert (found.columns, found.transform, found.expression) == (columns, None, expression)


@pytest.mark.parametrize(
    "wanted", ["week(ts)", "expression(col0, id)", "expression('', id)", "expression('col0')",
               "bucket(id)", "bucket(16)", "bucket()", "bucket(id, x)", "bucket(id, 0)",
               "truncate(country, -1)",
               "year(country)", "year(ts, id)", 5,
               partition.truncate("price", 2), partition.identity("place"),
               partition.identity("country", field_id="")]
)  # fmt: skip
def test_fields_that_cannot_be(wanted):
    with pytest.raises(InvalidInputError):
        resolved(wanted)


def test_unknown_columns():
    with pytest.raises(ColumnNotFoundError, match="'nope'"):
        resolved("year(nope)")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("CAST(col0 / 3 AS VARCHAR)", "any width"),
        ("random()", "deterministic"),
        ("now() > to_timestamp(col0)", "when and where"),
        ("(SELECT max(col0))", "own row"),
        ("arrow_typeof(col0)", "arrow_typeof"),
        ("make_array(col0)", "not supported for partition values"),
        ("col1", "cannot be evaluated"),
        ("CASE WHEN col0 IS NULL THEN CAST('x' AS INT) ELSE 1 END", "NULL"),
        ("", "is empty"),
    ],
)
def test_expressions_that_are_refused(text, problem):
    column = "price" if "/" in text else "id"
    with pytest.raises(InvalidInputError, match=problem):
        resolved(partition.expression(text, [column]))


@pytest.mark.parametrize("data_type", [pa.decimal128(5, -2), pa.decimal128(5, 3), pa.decimal256(40, -3)])
def test_expressions_over_decimals_of_any_scale(tmp_path, data_type):
    rows = pa.table({"x": pa.array([Decimal(0), None], data_type)})
    namespace = lance_df.PartitionedNamespace.create(tmp_path, rows.schema, ["expression('col0 IS NULL', x)"])
    namespace.append(rows)
    assert namespace.count_rows("x IS NULL") == 1
    assert len(namespace.partitions()) == 2


@pytest.mark.parametrize("field_id", ["a.b", "`", "a\0b"])
def test_ids_that_no_column_can_have_leave_nothing(tmp_path, field_id):
    schema = pa.schema([("c", pa.string())])
    by = [partition.identity("c", field_id=field_id)]
    with pytest.raises(InvalidInputError, match="partition_field_"):
        lance_df.PartitionedNamespace.create(tmp_path / "n", schema, by)
    assert not list(tmp_path.iterdir())
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", schema, ["truncate(c, 2)"])
    with pytest.raises(InvalidInputError, match="partition_field_"):
        made.update_partition_spec(by)
    assert lance_df.PartitionedNamespace.open(tmp_path / "n").version == 1
    made.append(pa.table({"c": ["x"]}))
    assert lance_df.verify(tmp_path / "n", deep=True).ok


def test_declared_types():
    assert (
        resolved(partition.expression("col0 % 7", ["id"], result_type=pa.int16()))[0].result_type
        == pa.int16()
    )
    with pytest.raises(InvalidInputError, match="the declared type is string"):
        resolved(partition.expression("col0 % 7", ["id"], result_type=pa.string()))


def test_specs_too_deep_for_names_of_folders_are_refused_when_they_are_made(tmp_path):
    names = [f"c{number}" for number in range(14)]
    rows = pa.table({name: [1, 2] for name in names})
    with pytest.raises(UnsupportedFeatureError, match="14 fields would have folder names of 257 characters"):
        lance_df.PartitionedNamespace.create(tmp_path / "n", rows.schema, names)
    assert not (tmp_path / "n").exists()
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", rows.schema, names[:13])
    made.append(rows)
    assert made.to_table(filter="c12 = 2")["c0"].to_pylist() == [2]
    with pytest.raises(UnsupportedFeatureError, match="14 fields"):
        made.update_partition_spec(names)
    assert len(made.specs) == 1


@pytest.mark.parametrize("wanted", [None, "country", 5, {"country"}], ids=repr)
def test_a_list_of_partition_fields_is_wanted(wanted):
    with pytest.raises(InvalidInputError, match="list of partition fields"):
        resolve_all(wanted, SCHEMA)


@pytest.mark.parametrize("plain", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("text", ["length(col0)", "upper(col0)", "ascii(col0)", "nullif(col0, 'a')"])
def test_expressions_over_dictionaries_are_of_their_values(tmp_path, plain, text):
    encoded = pa.dictionary(pa.int8(), plain)
    schema = pa.schema([("s", encoded)])
    namespace = lance_df.PartitionedNamespace.create(tmp_path, schema, [partition.expression(text, "s")])
    in_plain = NamespaceSchema.create(pa.schema([("s", plain)]))
    (field,) = resolve_all([partition.expression(text, "s")], in_plain)
    assert namespace.specs[0].fields[0].result_type == field.result_type
    for values in (["a", None, "bc"], [None], ["bc"]):
        namespace.append(pa.table({"s": pa.array(values, encoded)}))
    assert namespace.verify(deep=True).ok
    assert len(namespace.partitions()) == (2 if text.startswith("nullif") else 3)


@pytest.mark.parametrize(
    "wrong",
    [
        partition.year("ts", field_id=7),
        partition.expression("col0 % 3", ["id"], result_type="int32"),
        partition.identity(3),
        partition.multi_bucket([], 4),
    ],
    ids=["field_id", "result_type", "column", "no columns"],
)
def test_what_is_no_name_or_type_is_refused(wrong):
    with pytest.raises(InvalidInputError, match="must be "):
        resolved(wrong)


def test_the_same_field_twice_is_refused():
    with pytest.raises(InvalidInputError, match="duplicate"):
        PartitionSpec(1, resolved(partition.year("ts"), partition.year("ts", field_id="y")))


def test_a_schema_is_an_arrow_schema(tmp_path):
    with pytest.raises(InvalidInputError, match="schema"):
        lance_df.PartitionedNamespace.create(tmp_path, [pa.field("a", pa.int32())], ["a"])
