"""Which values fit another type, on real Spark: one query with all of them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from lance_df.errors import InvalidInputError
from lance_df.spark.ingesting.checked_rows import BAD, TargetColumn, checked
from lance_df.spark.ingesting.conversions import converted
from lance_df.spark.ingesting.held_values import stored

pytestmark = pytest.mark.spark

NO = object()
"""Does not fit."""

# an expression of Spark, the type of the target, and the value there
CASES = [
    ("127", "TINYINT", 127),
    ("128", "TINYINT", NO),
    ("2147483648L", "INT", NO),
    ("CAST(NULL AS BIGINT)", "INT", None),
    ("NULL", "INT", None),
    ("9007199254740993L", "DOUBLE", NO),
    ("9007199254740992L", "DOUBLE", 9007199254740992.0),
    ("9223372036854775807L", "DOUBLE", NO),
    ("9223372036854775807L", "FLOAT", NO),
    ("-9223372036854775808L", "DOUBLE", -9223372036854775808.0),
    ("9223372036854775808D", "BIGINT", NO),
    ("float('9223372036854775808')", "BIGINT", NO),
    ("-9223372036854775808D", "BIGINT", -9223372036854775808),
    ("9223372036854774784D", "BIGINT", 9223372036854774784),
    ("3.0D", "INT", 3),
    ("3.5D", "INT", NO),
    ("double('NaN')", "INT", NO),
    ("double('Infinity')", "BIGINT", NO),
    ("1e300D", "FLOAT", NO),
    ("double('-Infinity')", "FLOAT", float("-inf")),
    ("0.1D", "FLOAT", 0.10000000149011612),
    ("0.25D", "DECIMAL(10, 2)", Decimal("0.25")),
    ("0.125D", "DECIMAL(10, 2)", NO),
    ("12.30BD", "DECIMAL(10, 1)", Decimal("12.3")),
    ("12.34BD", "DECIMAL(10, 1)", NO),
    ("123456BD", "DECIMAL(5, 0)", NO),
    ("7", "DECIMAL(12, 2)", Decimal("7.00")),
    ("7.00BD", "INT", 7),
    ("7.01BD", "INT", NO),
    ("1", "STRING", "1"),
    ("DATE'2013-01-01'", "STRING", "2013-01-01"),
    ("' 12 '", "INT", 12),
    ("'12.0'", "INT", NO),
    ("''", "INT", NO),
    ("'12.345'", "DECIMAL(10, 2)", NO),
    ("'12.340'", "DECIMAL(10, 2)", Decimal("12.34")),
    ("'1.5'", "DECIMAL(38, 0)", NO),
    ("'-0.6'", "DECIMAL(38, 0)", NO),
    ("'1.00000000005'", "DECIMAL(38, 10)", NO),
    ("'1.00000000050'", "DECIMAL(38, 10)", Decimal("1.0000000005")),
    ("'1.0004'", "DECIMAL(37, 2)", NO),
    ("' +150e-1 '", "DECIMAL(38, 0)", Decimal(15)),
    ("'155e-1'", "DECIMAL(38, 0)", NO),
    ("'1.5E+2'", "DECIMAL(5, 0)", Decimal(150)),
    ("'0E-10'", "DECIMAL(5, 0)", Decimal(0)),
    ("'.50'", "DECIMAL(5, 1)", Decimal("0.5")),
    ("'1e2'", "DOUBLE", 100.0),
    ("' -.5 '", "DOUBLE", -0.5),
    ("'1d'", "DOUBLE", NO),
    ("'1f'", "FLOAT", NO),
    ("'0x1p3'", "DOUBLE", NO),
    ("'1e400'", "DOUBLE", NO),
    ("'-Infinity'", "DOUBLE", float("-inf")),
    ("'yes'", "BOOLEAN", True),
    ("'maybe'", "BOOLEAN", NO),
    ("'2013-02-28'", "DATE", dt.date(2013, 2, 28)),
    ("'2013-02-29'", "DATE", NO),
    ("'2013-02-28 10:00:00'", "DATE", NO),
    ("'2013-02-28 00:00:00.0'", "DATE", dt.date(2013, 2, 28)),
    ("'2013-02-28T00:00:00Z'", "DATE", NO),
    ("'2013-02-28 garbage'", "DATE", NO),
    ("'2013-02-28 12:30 PM'", "DATE", NO),
    ("'2013-02-28T25:99'", "DATE", NO),
    ("'2013-02'", "DATE", NO),
    ("'201302'", "DATE", NO),
    ("'2013'", "TIMESTAMP_NTZ", NO),
    ("'2013-2-28 1:02'", "TIMESTAMP_NTZ", dt.datetime(2013, 2, 28, 1, 2)),
    ("'2013-02-28 10:00:00.123456789'", "TIMESTAMP_NTZ", NO),
    ("'2013-02-28 10:00:00.123456789Z'", "TIMESTAMP", NO),
    ("'2013-02-28 10:00:00.123456000'", "TIMESTAMP_NTZ", dt.datetime(2013, 2, 28, 10, 0, 0, 123456)),
    ("'2013-02-28 10:00:00 UTC+03:00'", "TIMESTAMP_NTZ", NO),
    ("'2013-02-28 10:00:00GMT+1'", "TIMESTAMP_NTZ", NO),
    ("'2013-02-28 10:00:00 UT+1'", "TIMESTAMP_NTZ", NO),
    ("'2013-02-28 10:00:00.5 CET'", "TIMESTAMP_NTZ", NO),
    ("'2013-02-28 10:00:00 Japan'", "TIMESTAMP_NTZ", NO),
    ("DATE'+999999-01-01'", "TIMESTAMP_NTZ", NO),
    ("'2013-02-28 10:00:00'", "TIMESTAMP_NTZ", dt.datetime(2013, 2, 28, 10)),
    ("'2013-02-28T10:00:00+05:00'", "TIMESTAMP_NTZ", NO),
    ("'2013-02-28T10:00:00Z'", "TIMESTAMP_NTZ", NO),
    ("'10:00:00'", "TIMESTAMP_NTZ", NO),
    ("TIMESTAMP_NTZ'2013-02-28 00:00:00'", "DATE", dt.date(2013, 2, 28)),
    ("TIMESTAMP_NTZ'2013-02-28 00:00:01'", "DATE", NO),
    ("DATE'2013-02-28'", "TIMESTAMP_NTZ", dt.datetime(2013, 2, 28)),
    ("array(1, 2)", "ARRAY<TINYINT>", [1, 2]),
    ("array(1, 200)", "ARRAY<TINYINT>", NO),
    ("array(1, NULL)", "ARRAY<TINYINT>", [1, None]),
    ("array(0.1D)", "ARRAY<FLOAT>", [0.10000000149011612]),
    ("array('1', 'x')", "ARRAY<INT>", NO),
    ("array(array('1'))", "ARRAY<ARRAY<INT>>", [[1]]),
    ("map('a', 200)", "MAP<STRING, TINYINT>", NO),
    ("map('a', 2, 'b', NULL)", "MAP<STRING, TINYINT>", {"a": 2, "b": None}),
    ("named_struct('x', 0.1D)", "STRUCT<x: FLOAT>", {"x": 0.10000000149011612}),
    ("named_struct('x', '2013-02-28 x')", "STRUCT<x: DATE>", NO),
    ("named_struct('x', CAST(NULL AS BIGINT))", "STRUCT<x: INT>", {"x": None}),
    ("named_struct('x', 1.5D, 'y', 'a')", "STRUCT<x: INT, y: STRING>", NO),
    ("named_struct('x', 2.0D, 'y', 'a')", "STRUCT<x: INT, y: STRING>", {"x": 2, "y": "a"}),
]

LAST_OF_NANOSECONDS = dt.datetime(2262, 4, 11, 23, 47, 16, 854775)
STORED = [
    ("255S", pa.uint8(), 255),
    ("256S", pa.uint8(), NO),
    ("-1", pa.uint16(), NO),
    ("18446744073709551615BD", pa.uint64(), Decimal(2**64 - 1)),
    ("18446744073709551616BD", pa.uint64(), NO),
    ("70000.0F", pa.float16(), NO),
    ("X'0102'", pa.binary(2), b"\x01\x02"),
    ("X'01'", pa.binary(2), NO),
    ("array(1, 2)", pa.list_(pa.int32(), 2), [1, 2]),
    ("array(1)", pa.list_(pa.int32(), 2), NO),
    ("TIMESTAMP_NTZ'2013-01-01 00:00:01'", pa.timestamp("s"), dt.datetime(2013, 1, 1, 0, 0, 1)),
    ("TIMESTAMP_NTZ'2013-01-01 00:00:00.5'", pa.timestamp("s"), NO),
    ("TIMESTAMP_NTZ'2013-01-01 00:00:00.0005'", pa.timestamp("ms"), NO),
    ("TIMESTAMP_NTZ'2300-01-01 00:00:00'", pa.timestamp("ns"), NO),
    ("TIMESTAMP_NTZ'2262-04-11 23:47:16.854775'", pa.timestamp("ns"), LAST_OF_NANOSECONDS),
    ("array(300S, 5S)", pa.list_(pa.uint8()), NO),
    ("array(255S, NULL)", pa.large_list(pa.uint8()), [255, None]),
    ("named_struct('x', 300S)", pa.struct([("x", pa.uint8())]), NO),
    ("named_struct('x', CAST(NULL AS SMALLINT))", pa.struct([("x", pa.uint8())]), {"x": None}),
    ("array(TIMESTAMP_NTZ'2013-01-01 00:00:00.5')", pa.list_(pa.timestamp("s")), NO),
    ("array(array(1), array(1, 2))", pa.list_(pa.list_(pa.int32(), 2)), NO),
    ("array(array(1, 2), NULL)", pa.list_(pa.list_(pa.int32(), 2)), [[1, 2], None]),
    ("array(1S, 256S)", pa.list_(pa.uint8(), 2), NO),
    ("map(256S, 1)", pa.map_(pa.uint8(), pa.int32()), NO),
    ("map(1, 256S)", pa.map_(pa.int32(), pa.uint8()), NO),
    ("map(1, 25S)", pa.map_(pa.int32(), pa.uint8()), {1: 25}),
    ("300", pa.dictionary(pa.int8(), pa.uint8()), NO),
]  # fmt: skip

REFUSED = [
    ("1", "TIMESTAMP"),
    ("1", "BOOLEAN"),
    ("true", "INT"),
    ("X'00'", "STRING"),
    ("TIMESTAMP_NTZ'2013-01-01 00:00:00'", "TIMESTAMP"),
    ("current_timestamp()", "TIMESTAMP_NTZ"),
    ("named_struct('x', 1)", "STRUCT<y: INT>"),
    ("array(1)", "ARRAY<TIMESTAMP>"),
    ("named_struct('x', 1)", "STRUCT<x: BOOLEAN>"),
    ("map('a', 1)", "MAP<STRING, BOOLEAN>"),
    ("'[1]'", "ARRAY<INT>"),
]


def test_values_fit_or_are_told(spark):
    texts = [text for text, *_ in (*CASES, *STORED)]
    row = spark.sql(f"SELECT {', '.join(f'{text} AS c{n}' for n, text in enumerate(texts))}")
    # a literal would be computed while the query is planned
    row = row.join(spark.range(1), how="cross").drop("id")
    columns = []
    for number, (_, target, _) in enumerate((*CASES, *STORED)):
        source = row.schema[f"c{number}"].dataType
        value = F.col(f"c{number}")
        if isinstance(target, str):
            found = converted(value, source, StructType.fromDDL(f"v {target}")["v"].dataType)
        else:
            found = stored(converted(value, source, source), target)
        fits = F.lit(True) if found.fits is None else F.coalesce(found.fits, F.lit(False)) | value.isNull()
        columns += [F.when(fits, found.value).alias(f"v{number}"), fits.alias(f"f{number}")]
    [found] = row.select(*columns).collect()
    seen = []
    for number in range(len(texts)):
        value = found[f"v{number}"]
        value = value.asDict() if hasattr(value, "asDict") else value
        seen.append((texts[number], NO if not found[f"f{number}"] else value))
    assert seen == [(text, value) for text, _, value in (*CASES, *STORED)]


def test_what_would_mean_something_else_is_refused(spark):
    for text, target in REFUSED:
        row = spark.sql(f"SELECT {text} AS v")
        wanted = [TargetColumn(StructType.fromDDL(f"v {target}")["v"])]
        with pytest.raises(
            InvalidInputError, match=r"column 'v' has type .* in the target; cast it in the query"
        ):
            checked(row, wanted, None)


def test_nulls_deep_inside_are_found(spark):
    rows = spark.sql(
        """SELECT * FROM VALUES
           (1, named_struct('a', array(1, 2), 'm', map('k', 1))),
           (2, named_struct('a', array(1, NULL), 'm', map('k', 1))),
           (3, named_struct('a', array(1), 'm', map('k', CAST(NULL AS INT)))),
           (4, NULL),
           (5, named_struct('a', NULL, 'm', NULL)) AS t(id, s)"""
    )
    inner = StructType.fromDDL("s STRUCT<a: ARRAY<INT>, m: MAP<STRING, INT>>")["s"].dataType
    inner["a"].dataType.containsNull = False
    inner["m"].dataType.valueContainsNull = False
    wanted = [TargetColumn(rows.schema["id"]), TargetColumn(StructField("s", inner))]
    found = checked(rows, wanted, None).select("id", f"{BAD}.column", f"{BAD}.reason", f"{BAD}.row").collect()
    assert [row["column"] for row in found] == [None, "s", "s", None, None]
    assert found[1]["row"] == '{"id":2,"s":{"a":[1,null],"m":{"k":1}}}'
