"""Values in columns of other types: as in tables of Spark's own, or refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as T

import lance_df
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.spark.assignment import assigned_type, wanted_type

# types are parsed by the JVM, so that a session is needed
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

COLUMNS = (
    "id BIGINT, at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, day2 DATE, s1 STRING, s2 STRING, s3 STRING, "
    "s4 STRING, s5 STRING, s6 STRING, price DECIMAL(10,2), whole DECIMAL(10,2), ats ARRAY<TIMESTAMP>, "
    "pair STRUCT<at: TIMESTAMP, text: STRING>, days MAP<STRING, DATE>"
)
ROWS = (
    "SELECT 7L AS id, DATE'2024-07-02' AS at, DATE'2024-01-02' AS local, "
    "TIMESTAMP'2024-01-01 22:30:00' AS day, "
    "TIMESTAMP_NTZ'1969-12-31 22:30:00' AS day2, TIMESTAMP'2024-01-01 22:30:00.5' AS s1, 1e10D AS s2, "
    "100.0D AS s3, 0.00000001BD AS s4, true AS s5, INTERVAL '1 02:00:00' DAY TO SECOND AS s6, "
    "1.005D AS price, 5 AS whole, array(DATE'2024-01-02', NULL) AS ats, "
    "named_struct('at', DATE'2024-01-02', 'text', TIMESTAMP_NTZ'2024-01-01 22:30:00') AS pair, "
    "map('a', TIMESTAMP'2024-01-01 22:30:00') AS days"
)


@pytest.fixture
def zone(spark):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def test_values_are_those_of_tables_of_spark(spark, zone, tmp_path):
    spark.sql(f"CREATE TABLE assigned ({COLUMNS}) USING parquet LOCATION '{tmp_path / 'parquet'}'")
    spark.sql(f"INSERT INTO assigned {ROWS}")
    [wanted] = spark.table("assigned").toArrow().to_pylist()
    empty = spark.table("assigned").where("false")
    spark.sql("DROP TABLE assigned")
    rows = spark.sql(ROWS)

    def merge_all(path):
        lance_df.spark.merge(spark, path, rows, on="id").when_not_matched_insert().execute()

    def merge_values(path):
        merge = lance_df.spark.merge(spark, path, rows, on="id")
        merge.when_not_matched_insert({name: f"source.{name}" for name in rows.columns}).execute()

    def insert(path):
        spark.read.format("lance_df").load(path).createOrReplaceTempView("assigned")
        lance_df.spark.sql(spark, f"INSERT INTO assigned {ROWS}")
        spark.catalog.dropTempView("assigned")

    def write(path):
        lance_df.spark.write(rows, path, mode="append")

    for number, (add, spec) in enumerate(
        ((write, None), (write, ["identity(id)"]), (insert, None), (merge_all, None), (merge_values, None))
    ):
        path = str(tmp_path / f"t{number}")
        lance_df.spark.write(empty, path, partition_by=spec)
        add(path)
        assert lance_df.spark.read(spark, path).toArrow().to_pylist() == [wanted], (add.__name__, spec)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        path = str(tmp_path / "without_ansi")
        lance_df.spark.write(empty.drop("price", "s4"), path)
        rows = rows.drop("price", "s4")
        merge_values(path)
        del wanted["price"], wanted["s4"]  # of which Spark makes others
        assert lance_df.spark.read(spark, path).toArrow().to_pylist() == [wanted]
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("BIGINT", "TIMESTAMP"),
        ("TIMESTAMP", "BIGINT"),
        ("INT", "BOOLEAN"),
        ("BOOLEAN", "DOUBLE"),
        ("DATE", "INT"),
        ("STRING", "DATE"),
        ("STRING", "BINARY"),
        ("TIMESTAMP", "TIMESTAMP_NTZ"),
        ("ARRAY<DATE>", "STRING"),
        ("DATE", "ARRAY<DATE>"),
    ],
)
def test_what_spark_refuses_is_refused_by_name(given, wanted):
    ours, theirs = (T.StructType.fromDDL(f"c {each}")["c"].dataType for each in (given, wanted))
    words = f"has type {wanted.lower()}, but type {given.lower()} in the data; cast it to {wanted}"
    with pytest.raises(InvalidInputError, match=f"'c' {words}"):
        assigned_type("c", ours, theirs, is_ansi=True)
    inner = [T.ArrayType(T.StructType([T.StructField("f", each)])) for each in (ours, theirs)]
    with pytest.raises(InvalidInputError, match=f"'c.element.f' {words}"):
        assigned_type("c", *inner, is_ansi=True)


def test_values_of_a_merge_that_spark_casts_are_cast():
    for given, wanted in (("STRING", "DATE"), ("BOOLEAN", "DOUBLE"), ("VOID", "INT"), ("DOUBLE", "STRING")):
        ours, theirs = (T.StructType.fromDDL(f"c {each}")["c"].dataType for each in (given, wanted))
        assert assigned_type("c", ours, theirs, is_ansi=True, casts_others=True) == theirs
    for number in (T.DoubleType(), T.LongType()):
        assert assigned_type("c", number, T.IntegerType(), is_ansi=True, casts_others=True) == number


def test_null_alone_gets_the_type_of_its_column(spark, tmp_path):
    stored = pa.table(
        {
            "m": pa.array([None], pa.map_(pa.string(), pa.int32())),
            "l": pa.array([None], pa.list_(pa.map_(pa.string(), pa.uint64()))),
        }
    )
    lance_df.write_dataset(stored, tmp_path / "t")
    lance_df.spark.write(spark.sql("SELECT map() AS m, array(map()) AS l"), tmp_path / "t", mode="append")
    lance_df.spark.write(spark.sql("SELECT map('a', NULL) AS m, NULL AS l"), tmp_path / "t", mode="append")
    assert lance_df.dataset(tmp_path / "t").to_table()["m"].to_pylist() == [None, [], [("a", None)]]
    assert lance_df.dataset(tmp_path / "t").to_table()["l"].to_pylist() == [None, [[]], None]


def test_nothing_is_rounded_to_whole_numbers(spark, tmp_path):
    schema = pa.schema(
        [("id", pa.int64()), ("u", pa.uint64()), ("i", pa.int32()), ("d", pa.decimal128(10, 2))]
    )
    lance_df.write_dataset(pa.table([[1], [1], [0], [0]], schema=schema), tmp_path / "t")
    source = spark.sql("SELECT 1L AS id, 3.7D AS v, 1.005BD AS d, 18446744073709551615BD AS u")
    for column, value in (("u", "1.5D"), ("u", "source.d"), ("i", "source.v"), ("d", "source.d")):
        rows = source.selectExpr("id", f"{value.removeprefix('source.')} AS {column}")
        with pytest.raises(InvalidInputError, match=f"column '{column}'"):
            lance_df.spark.write(rows, tmp_path / "t", mode="append")
        merge = lance_df.spark.merge(spark, tmp_path / "t", source, on="id")
        with pytest.raises(InvalidInputError, match=f"column '{column}'"):
            merge.when_matched_update({column: value}).execute()
    merge = lance_df.spark.merge(spark, tmp_path / "t", source, on="id")
    merge.when_matched_update({"u": "source.u", "i": "3.0D", "d": "source.v"}).execute()
    [row] = lance_df.dataset(tmp_path / "t").to_table().to_pylist()
    assert (row["u"], row["i"], str(row["d"])) == (2**64 - 1, 3, "3.70")


def test_columns_in_another_order_are_refused(spark, tmp_path):
    lance_df.spark.write(spark.sql("SELECT 1L AS n, TIMESTAMP'2024-01-01 00:00:00' AS ts"), tmp_path / "t")
    swapped = spark.sql("SELECT 1L AS ts, TIMESTAMP'2024-01-01 00:00:00' AS n")
    with pytest.raises(InvalidInputError, match="'ts' has type timestamp, but type bigint"):
        lance_df.spark.write(swapped, tmp_path / "t", mode="append")
    with (
        pytest.raises(InvalidInputError, match=r"the data has type .*, but the table has .*; cast it first"),
        lance_df.spark.typed_errors(),
    ):
        swapped.write.format("lance_df").mode("append").save(str(tmp_path / "t"))
    assert lance_df.dataset(tmp_path / "t").count_rows() == 1


def test_types_that_spark_has_not_are_left_to_arrow():
    schema = pa.schema([("wide", pa.decimal256(60, 2)), ("x", pa.uint8())])
    assert wanted_type(schema, "wide") is wanted_type(schema, "none") is None
    assert wanted_type(schema, "x") == T.ShortType()


@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_intervals_of_months_are_refused_by_the_name_of_their_column(spark, tmp_path, kind):
    path = str(tmp_path / "target")
    schema = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("s", pa.struct([("n", pa.int32())]))])
    if kind == "table":
        lance_df.write_dataset(schema.empty_table(), path)
    else:
        lance_df.PartitionedNamespace.create(path, schema, ["identity(n)"])
    month = "INTERVAL '2' MONTH"
    for name, value in (("n", month), ("s", f"named_struct('n', {month})")):
        rows = spark.sql(f"SELECT 1L AS id, {value} AS {name}")

        def merge(rows=rows):
            return lance_df.spark.merge(spark, path, rows, on="id")

        for call in (
            lambda rows=rows: lance_df.spark.write(rows, path, mode="append"),
            lambda: merge().when_matched_update().when_not_matched_insert().execute(),
            lambda value=value, name=name: merge().when_matched_update({name: value}).execute(),
        ):
            with pytest.raises(UnsupportedFeatureError, match=f"column '{name}.*interval"):
                call()
