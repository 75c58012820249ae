"""Columns of every type through Spark and back."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, MapType, NullType, StringType, StructType, YearMonthIntervalType

import lance_df
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.spark.types import arrow_schema, new_schema, spark_schema, to_spark, to_stored

pytestmark = pytest.mark.spark

MOMENT = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)
EARLY = dt.datetime(1901, 1, 1, 0, 0, 0, 1)
SAME = {
    "flag": pa.array([True, None, False]),
    "i8": pa.array([-128, None, 127], pa.int8()),
    "i16": pa.array([-(2**15), None, 2**15 - 1], pa.int16()),
    "i32": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
    "i64": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
    "f32": pa.array([float("inf"), None, -0.0], pa.float32()),
    "f64": pa.array([1e308, None, 5e-324], pa.float64()),
    "ÄÖ 名前 x": pa.array(["", None, "é€😀"]),
    "bytes": pa.array([b"", None, b"\x00\xff"]),
    "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "moment": pa.array([MOMENT, None, EARLY], pa.timestamp("us", "UTC")),
    "local": pa.array([MOMENT, None, EARLY], pa.timestamp("us")),
    "price": pa.array([Decimal("123.45"), None, Decimal("-0.01")], pa.decimal128(10, 2)),
    "large": pa.array([Decimal(10**37), None, Decimal(-1)], pa.decimal128(38, 0)),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int64())),
    "struct": pa.array([{"a": 1, "b": [{"c": "x"}]}, None, {"a": None, "b": []}]),
}
OTHER = {
    "u8": (pa.array([0, None, 255], pa.uint8()), pa.array([0, None, 255], pa.int16())),
    "u64": (
        pa.array([0, None, 2**64 - 1], pa.uint64()),
        pa.array([Decimal(0), None, Decimal(2**64 - 1)], pa.decimal128(20, 0)),
    ),
    "half": (pa.array([1.5, None, -2.0], pa.float16()), pa.array([1.5, None, -2.0], pa.float32())),
    "word": (pa.array(["a", None, "a"]).dictionary_encode(), pa.array(["a", None, "a"])),
    "nanos": (
        pa.array([1, None, -1], pa.timestamp("ns")),
        pa.array([dt.datetime(1970, 1, 1), None, dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]),
    ),
    "seconds": (
        pa.array([5, None, -5], pa.timestamp("s", "Europe/Berlin")),
        pa.array([5_000_000, None, -5_000_000], pa.timestamp("us", "UTC")),
    ),
    "vector": (
        pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
        pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32())),
    ),
    "fixed": (
        pa.array([b"abcd", None, b"\x00\x01\x02\x03"], pa.binary(4)),
        pa.array([b"abcd", None, b"\x00\x01\x02\x03"]),
    ),
    "text": (pa.array(["a", None, ""], pa.large_string()), pa.array(["a", None, ""])),
}


@pytest.fixture
def stored(tmp_path):
    columns = SAME | {name: before for name, (before, _) in OTHER.items()}
    lance_df.write_dataset(pa.table(columns), tmp_path / "t.lance")
    return str(tmp_path / "t.lance")


def test_every_type_is_read_written_and_read_again(spark, stored, tmp_path):
    wanted = SAME | {name: after for name, (_, after) in OTHER.items()}
    df = spark.read.format("lance_df").load(stored)
    found = df.toArrow()
    for name, column in wanted.items():
        assert found[name].to_pylist() == column.to_pylist(), name
    df.write.format("lance_df").mode("append").save(str(tmp_path / "copy.lance"))
    copy = lance_df.dataset(tmp_path / "copy.lance").to_table()
    for name, column in wanted.items():
        assert copy[name].to_pylist() == column.to_pylist(), name
    # back into the types of the table
    df.write.format("lance_df").mode("append").save(stored)
    twice = lance_df.dataset(stored).to_table()
    for name in twice.column_names:
        if name != "nanos":
            assert twice[name].to_pylist()[3:] == twice[name].to_pylist()[:3], name


def test_tables_without_rows(spark, stored, tmp_path):
    df = spark.read.format("lance_df").load(stored).where("1 = 0")
    df.write.format("lance_df").mode("append").save(str(tmp_path / "empty.lance"))
    empty = spark.read.format("lance_df").load(str(tmp_path / "empty.lance"))
    assert (empty.count(), empty.columns) == (0, df.columns)


@pytest.mark.parametrize("data_type", [pa.decimal256(60, 2), pa.month_day_nano_interval()])
def test_types_that_spark_has_not_are_refused_by_name(data_type):
    with pytest.raises(UnsupportedFeatureError, match="'odd'"):
        spark_schema(pa.schema([("fine", pa.int64()), ("odd", data_type)]))


@pytest.mark.parametrize("data_type", [YearMonthIntervalType(), ArrayType(NullType(), containsNull=False)])
def test_types_that_arrow_has_not_are_refused_by_name(data_type):
    with pytest.raises(UnsupportedFeatureError, match=f"'odd': {data_type.simpleString()}"):
        arrow_schema(StructType().add("fine", NullType()).add("odd", data_type))


def test_values_of_maps_that_are_never_null_stay_so():
    stored = pa.map_(pa.string(), pa.field("value", pa.uint8(), nullable=False))
    assert spark_schema(pa.schema([("m", stored)]))["m"].dataType.valueContainsNull is False


def test_the_schema_of_spark_is_that_of_its_batches():
    table = pa.table(SAME | {name: before for name, (before, _) in OTHER.items()})
    schema = spark_schema(table.schema)
    assert isinstance(schema, StructType)
    [batch] = table.to_batches()
    assert to_spark(batch, arrow_schema(schema)).schema == arrow_schema(schema)


@pytest.mark.parametrize(
    ("column", "wanted", "words"),
    [
        (pa.array([300]), pa.int8(), "'x'"),
        (pa.array(["a"]), pa.int64(), "'x'"),
        (pa.array([0], pa.timestamp("us", "UTC")), pa.timestamp("us"), "cast it to TIMESTAMP_NTZ"),
        (pa.array([0], pa.timestamp("us")), pa.timestamp("us", "UTC"), "cast it to TIMESTAMP first"),
        (pa.array([2932897], pa.date32()), pa.string(), "not in the years 1 to 9999, .* cast it first"),
        (pa.array([None, -719163], pa.date32()), pa.large_string(), "not in the years 1 to 9999"),
        (pa.array([500]), pa.decimal128(4, 2), "precision 4"),
        (pa.array([1.005]), pa.decimal128(10, 2), "'x'"),
        (pa.array([float("nan")]), pa.decimal128(10, 2), "'x'"),
        (pa.array([2049]), pa.float16(), "2049 does not fit float16"),
        (pa.array([None, 65520.0, 1.0]), pa.float16(), "65520.0 does not fit float16"),
        (pa.array([Decimal(-70000)]), pa.float16(), "-70000 does not fit float16"),
    ],
)
def test_values_that_do_not_fit_are_refused(column, wanted, words):
    batch = pa.RecordBatch.from_arrays([column], ["x"])
    with pytest.raises(InvalidInputError, match=words):
        to_stored(batch, pa.schema([("x", wanted)]))


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (pa.array([dt.date(2024, 1, 2)]), pa.timestamp("us", "UTC")),
        (pa.array([dt.date(2024, 1, 2)]), pa.int32()),
        (pa.array([19], pa.int32()), pa.date32()),
        (pa.array([0]), pa.timestamp("us", "UTC")),
        (pa.array([MOMENT], pa.timestamp("us", "UTC")), pa.int64()),
        (pa.array([MOMENT], pa.timestamp("us", "UTC")), pa.date32()),
        (pa.array([MOMENT], pa.timestamp("us", "UTC")), pa.string()),
        (pa.array([7]), pa.bool_()),
        (pa.array([True]), pa.float64()),
        (pa.array([100.0]), pa.string()),
        (pa.array([Decimal("0.0000001")]), pa.large_string()),
        (pa.array([Decimal("0.0000001")]), pa.dictionary(pa.int32(), pa.string())),
        (pa.array(["12"]), pa.int64()),
        (pa.array(["2024-01-02"]), pa.date32()),
    ],
)
@pytest.mark.parametrize("is_within", [False, True])
def test_what_spark_refuses_or_stores_as_another_value_is_refused(column, wanted, is_within):
    if is_within:
        column, wanted = pa.array([[{"k": column[0]}]]), pa.list_(pa.struct([("k", wanted)]))
    with pytest.raises(
        InvalidInputError, match=r"'x': the data has type .*, but the table has .*; cast it first"
    ):
        to_stored(pa.RecordBatch.from_arrays([column], ["x"]), pa.schema([("x", wanted)]))


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (pa.array([5, None]), pa.array([Decimal("5.00"), None], pa.decimal128(10, 2))),
        (pa.array([0.1, 1e10]), pa.array([Decimal("0.1"), Decimal(10**10)], pa.decimal128(30, 18))),
        (pa.array([Decimal("1.255"), Decimal("-0.001")]), pa.array([1.255, -0.001])),
        (pa.array([Decimal("1.255"), None]), pa.array([1.255, None], pa.float32())),
        (pa.array([True, None]), pa.array(["true", None])),
        (pa.array([Decimal("1.50")]), pa.array(["1.50"])),
        (pa.array([dt.date(2024, 1, 2)]), pa.array([dt.datetime(2024, 1, 2)], pa.timestamp("us"))),
        (pa.array([dt.date(2024, 1, 2), None]), pa.array(["2024-01-02", None])),
        (pa.array([dt.date.min, dt.date.max]), pa.array(["0001-01-01", "9999-12-31"])),
        (pa.nulls(2), pa.array([None, None], pa.date32())),
    ],
)
def test_what_arrow_stores_as_spark_does_is_stored(column, wanted):
    stored = to_stored(pa.RecordBatch.from_arrays([column], ["x"]), pa.schema([("x", wanted.type)]))
    assert stored.column(0).equals(wanted)


def test_dictionaries_take_what_their_values_take():
    texts = pa.dictionary(pa.int8(), pa.string())
    for given, found in (([1, None], ["1", None]), ([True], ["true"]), ([b"x"], ["x"]), ([None], [None])):
        batch = pa.RecordBatch.from_arrays([pa.array(given)], ["x"])
        assert to_stored(batch, pa.schema([("x", texts)]))["x"].to_pylist() == found


def test_columns_of_new_tables_take_null_and_no_collation():
    within = StructType().add("s", StringType(), nullable=False)
    schema = StructType().add("a", ArrayType(within, containsNull=False), nullable=False, metadata={"k": 1})
    made = new_schema(schema)["a"]
    assert (made.nullable, made.dataType.containsNull, made.metadata) == (True, True, {"k": 1})
    assert made.dataType.elementType["s"].nullable
    for data_type, path in (
        (StringType("UTF8_LCASE"), "c"),
        (MapType(StringType(), StructType().add("f", StringType("UNICODE"))), "c.value.f"),
    ):
        with pytest.raises(UnsupportedFeatureError, match=f"'{path}': string collate .* cast it to STRING"):
            new_schema(StructType().add("c", data_type))


@pytest.mark.parametrize("wanted", [pa.int64(), pa.int16()])
def test_a_struct_may_be_null_whose_fields_must_not_be(wanted):
    rows = pa.array([{"k": 1, "s": "a"}, None, {"k": 3, "s": None}])
    stored = pa.struct([pa.field("k", wanted, nullable=False), ("t", pa.date32()), ("s", pa.string())])
    there = to_stored(pa.RecordBatch.from_arrays([rows], ["x"]), pa.schema([("x", stored)]))
    there.validate(full=True)
    found = [{"k": 1, "t": None, "s": "a"}, None, {"k": 3, "t": None, "s": None}]
    assert there["x"].to_pylist() == found
    # and back, and as it is
    assert to_spark(there, arrow_schema(spark_schema(there.schema)))["x"].to_pylist() == found
    assert to_stored(there, there.schema)["x"].to_pylist() == found


def test_items_of_slices_are_cast_one_by_one():
    lists = pa.array([[{"k": 9}], [{"k": 1}, None], None, []]).slice(1)
    maps = pa.array([[("z", 9)], [("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int64())).slice(
        1
    )
    stored = pa.schema(
        [("l", pa.large_list(pa.struct([("k", pa.uint8())]))), ("m", pa.map_(pa.large_string(), pa.uint8()))]
    )
    there = to_stored(pa.RecordBatch.from_arrays([lists, maps], ["l", "m"]), stored)
    there.validate(full=True)
    assert there.to_pydict() == {"l": lists.to_pylist(), "m": maps.to_pylist()}
    nanos = pa.array([[-1]], pa.list_(pa.timestamp("ns")))
    cut = to_spark(
        pa.RecordBatch.from_arrays([nanos], ["n"]), pa.schema([("n", pa.list_(pa.timestamp("us")))])
    )
    assert cut["n"].to_pylist() == [[dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]]


def test_fixed_size_lists_may_be_null_at_any_depth():
    vector = pa.list_(pa.float32(), 2)
    numbers = pa.list_(pa.float64())
    values = [None, [1.0, 2.0], None, [3.0, None]]
    many = [None] * 100_000
    for rows, wanted in (
        (pa.array(values, numbers), vector),
        (pa.array(values, numbers), pa.list_(pa.field("item", pa.float16()), 2)),
        (pa.array(many, numbers), vector),
        (pa.array([None, None], pa.list_(pa.null())), vector),
        (pa.array([[], None], numbers), pa.list_(pa.float32(), 0)),
        (pa.array([None, [1.0, 2.0]], numbers), pa.list_(pa.field("item", pa.float32(), nullable=False), 2)),
        (pa.array([[*values], None, []], pa.list_(numbers)), pa.large_list(vector)),
        (pa.array([[[1, 2], None], None], pa.list_(numbers)), pa.list_(vector, 2)),
        (
            pa.array([{"v": None}, None, {"v": [1, 2]}], pa.struct([("v", numbers)])),
            pa.struct([("v", vector)]),
        ),
        (pa.array([[{"k": 1}], None]), pa.list_(pa.struct([("k", pa.uint8())]), 1)),
    ):
        for start in (0, 1):
            batch = pa.RecordBatch.from_arrays([rows], ["v"]).slice(start)
            there = to_stored(batch, pa.schema([("v", wanted)]))
            there.validate(full=True)
            assert there["v"].to_pylist() == rows.to_pylist()[start:]
            back = to_spark(there, arrow_schema(spark_schema(there.schema)))
            assert back["v"].to_pylist() == rows.to_pylist()[start:]
    nanos = pa.RecordBatch.from_arrays([pa.array([None, [-1]], pa.list_(pa.timestamp("ns"), 1))], ["n"])
    cut = to_spark(nanos, pa.schema([("n", pa.list_(pa.timestamp("us")))]))
    assert cut["n"].to_pylist() == [None, [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]]


def test_floats_are_rounded_to_narrower_ones():
    for given, wanted, found in (
        ([0.1, 65519.0, None, float("-inf")], pa.float16(), [0.0999755859375, 65504.0, None, float("-inf")]),
        ([0.1, 1e300], pa.float32(), [0.10000000149011612, float("inf")]),
        ([1, 2048], pa.float16(), [1.0, 2048.0]),
        ([Decimal("1.5")], pa.float16(), [1.5]),
    ):
        batch = pa.RecordBatch.from_arrays([pa.array(given)], ["x"])
        assert to_stored(batch, pa.schema([("x", wanted)]))["x"].to_pylist() == found


@pytest.mark.parametrize(
    ("value", "wanted", "words"),
    [
        ({"k": None}, pa.struct([pa.field("k", pa.int64(), nullable=False)]), "'k' is not nullable"),
        ({"k": 1, "l": 2}, pa.struct([("k", pa.int64())]), "field 'l' does not exist"),
        ([1], pa.list_(pa.int64(), 2), "a list has 1 items, but the table requires 2"),
        ([[1, 2], [1]], pa.list_(pa.list_(pa.int64(), 2), 2), "a list has 1 items, but the table requires 2"),
        (
            {"v": [1]},
            pa.struct([("v", pa.list_(pa.int8(), 2))]),
            "a list has 1 items, but the table requires 2",
        ),
        ([1, None], pa.list_(pa.field("item", pa.int64(), nullable=False), 2), "'item' is not nullable"),
        ([1, None], pa.list_(pa.field("item", pa.int64(), nullable=False)), "'item' is not nullable"),
        (
            [{"at": MOMENT}],
            pa.list_(pa.struct([("at", pa.timestamp("us", "UTC"))])),
            "cast it to TIMESTAMP first",
        ),
    ],
)
def test_values_within_values_that_do_not_fit_are_refused(value, wanted, words):
    batch = pa.RecordBatch.from_arrays([pa.array([value])], ["x"])
    with pytest.raises(InvalidInputError, match=f"'x': .*{words}"):
        to_stored(batch, pa.schema([("x", wanted)]))


def test_null_where_it_must_not_be_is_refused():
    batch = pa.RecordBatch.from_arrays([pa.array([1, None])], ["x"])
    with pytest.raises(InvalidInputError, match="is not nullable"):
        to_stored(batch, pa.schema([pa.field("x", pa.int64(), nullable=False)]))
