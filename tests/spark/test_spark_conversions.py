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
from lance_df.spark.ingesting.conversions import converted, stored

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
    ("'1e2'", "DOUBLE", 100.0),
    ("'1e400'", "DOUBLE", NO),
    ("'-Infinity'", "DOUBLE", float("-inf")),
    ("'yes'", "BOOLEAN", True),
    ("'maybe'", "BOOLEAN", NO),
    ("'2013-02-28'", "DATE", dt.date(2013, 2, 28)),
    ("'2013-02-29'", "DATE", NO),
    ("'2013-02-28 10:00:00'", "DATE", NO),
    ("'2013-02-28 10:00:00'", "TIMESTAMP_NTZ", dt.datetime(2013, 2, 28, 10)),
    ("'2013-02-28T10:00:00+05:00'", "TIMESTAMP_NTZ", NO),
    ("'2013-02-28T10:00:00Z'", "TIMESTAMP_NTZ", NO),
    ("'10:00:00'", "TIMESTAMP_NTZ", NO),
    ("TIMESTAMP_NTZ'2013-02-28 00:00:00'", "DATE", dt.date(2013, 2, 28)),
    ("TIMESTAMP_NTZ'2013-02-28 00:00:01'", "DATE", NO),
    ("DATE'2013-02-28'", "TIMESTAMP_NTZ", dt.datetime(2013, 2, 28)),
    ("array(1, 2)", "ARRAY<TINYINT>", [1, 2]),
    ("array(1, 200)", "ARRAY<TINYINT>", NO),
    ("map('a', 200)", "MAP<STRING, TINYINT>", NO),
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
    ("array('1')", "ARRAY<INT>"),
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
        columns += [found.value.alias(f"v{number}"), fits.alias(f"f{number}")]
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
        with pytest.raises(InvalidInputError, match=r"column 'v' is .* in the target: cast it in the query"):
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
