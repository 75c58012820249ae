"""Decimals that cross between Python and the JVM as integers are what they would be as decimals."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import DecimalType, LongType, StructField, StructType

import lance_df
from lance_df.errors import InvalidInputError
from lance_df.spark import appending
from lance_df.spark.decimals import from_integers, to_integers, with_digits, with_integers, without_integers
from lance_df.spark.types import arrow_schema

pytestmark = pytest.mark.spark

TYPES = [
    pa.decimal128(1, 0),
    pa.decimal128(15, 2),
    pa.decimal128(18, 0),
    pa.decimal256(18, 18),
    pa.decimal128(19, 2),
]


def extremes(data_type: pa.DataType) -> pa.Array:
    most = 10**data_type.precision - 1
    numbers = [0, 1, -1, None, most, -most]
    return pa.array([None if n is None else Decimal(n).scaleb(-data_type.scale) for n in numbers], data_type)


def test_decimals_are_read_as_if_they_had_crossed_as_decimals(spark, tmp_path):
    columns = {f"c {number}": extremes(data_type) for number, data_type in enumerate(TYPES)}
    nested = pa.array([{"a": Decimal("1.5")}] * 6, pa.struct([("a", pa.decimal128(3, 1))]))
    rows = pa.table({**columns, "k": pa.array(range(6)), "held": nested, "price": columns["c 1"]})
    rows = rows.filter(pa.array([True] * 5 + [False])).cast(
        pa.schema([field.with_nullable(field.name != "k") for field in rows.schema])
    )
    table = str(tmp_path / "t")
    for part in (rows, rows.slice(1, 0), rows.slice(4)):
        lance_df.write_dataset(part, table, mode="append")
    read, loaded = lance_df.spark.read(spark, table), spark.read.format("lance_df").load(table)
    assert read.schema == loaded.schema
    assert read._jdf.queryExecution().optimizedPlan().toString().count("MakeDecimal(") == 5
    assert read.toArrow().sort_by("k") == loaded.toArrow().sort_by("k")
    found = read.where("price > 0.005 AND held.a = 1.5").groupBy("`c 4`").sum("price").collect()
    assert found == loaded.where("price > 0.005 AND held.a = 1.5").groupBy("`c 4`").sum("price").collect()
    twins = tmp_path / "twins"
    lance_df.write_dataset(pa.table({"a": columns["c 1"], "A": columns["c 2"]}), twins)
    assert lance_df.spark.read(spark, twins).columns == ["a", "A"]


def test_decimals_are_appended_as_if_they_had_crossed_as_decimals(spark, tmp_path, monkeypatch):
    columns = {f"c {number}": extremes(data_type) for number, data_type in enumerate(TYPES)}
    nested = pa.array([{"a": Decimal("1.5")}] * 6, pa.struct([("a", pa.decimal128(3, 1))]))
    rows = pa.table({**columns, "k": pa.array(range(6)), "held": nested})
    # stored with more digits behind the point than Spark's column has
    rows = rows.set_column(3, "c 3", rows["c 3"].cast(pa.decimal128(18, 18)))
    stored = rows.schema.set(1, pa.field("c 1", pa.decimal128(20, 4)))
    crossed = []
    monkeypatch.setattr(appending, "with_digits", lambda df: crossed.append(with_digits(df)) or crossed[-1])
    root = tmp_path / "ns"
    lance_df.PartitionedNamespace.create(root, stored, ["identity(k)"])
    lance_df.spark.append(spark.createDataFrame(rows), root, sort_by=["`c 1`"])
    assert [field.dataType == LongType() for field in crossed[0].schema.fields] == [True] * 4 + [
        False,
        True,
        False,
    ]
    found = lance_df.PartitionedNamespace.open(root).to_table().sort_by("k")
    assert found.select(rows.column_names) == rows.cast(stored)


def test_decimals_of_joins_are_those_of_spark(spark, tmp_path):
    columns = {f"c {number}": extremes(data_type) for number, data_type in enumerate(TYPES)}
    sides = {
        "l": pa.table({"k": pa.array([0, 1, 2, 3, 4, None]), **columns}),
        "r": pa.table({"k": pa.array([3, 4, 4, 5, 6, 7]), "other": columns["c 1"]}),
    }
    for name, rows in sides.items():
        lance_df.PartitionedNamespace.create(tmp_path / name, rows.schema, ["bucket(k, 2)"]).append(rows)
    roots = [tmp_path / name for name in sides]
    query = """SELECT l.*, l."c 1" * r.other AS "l.x `r", -other AS minus FROM l FULL JOIN r ON l.k = r.k"""
    joined = lance_df.spark.partitioned_join(spark, *roots, sql=query)
    assert joined._jdf.queryExecution().optimizedPlan().toString().count("MakeDecimal(") == 5
    own, theirs = (spark.createDataFrame(sides[name]).alias(name) for name in sides)
    wanted = own.join(theirs, on=own.k == theirs.k, how="full").selectExpr(
        "l.*", "l.`c 1` * r.other AS `l.x ``r`", "-other AS minus"
    )
    assert joined.schema == wanted.schema
    assert Counter(joined.collect()) == Counter(wanted.collect())


def test_digits_of_slices_and_nulls():
    schema = StructType([StructField("d", DecimalType(15, 2), True, {"a": 1}), StructField("k", LongType())])
    whole = with_integers(schema)
    assert [field.dataType for field in whole.fields] == [LongType(), LongType()]
    assert without_integers(whole) == schema
    values = [Decimal(n).scaleb(-2) if n % 3 else None for n in range(-30, 30)]
    batch = pa.record_batch([pa.array(values, pa.decimal128(15, 2)), pa.array(range(60))], ["d", "k"])
    for start, length in ((0, 60), (7, 31), (1, 1), (0, 0)):
        digits = to_integers(batch.slice(start, length), whole, arrow_schema(whole)).column("d")
        digits.validate(full=True)
        expected = [None if value is None else int(value * 100) for value in values[start : start + length]]
        assert digits.to_pylist() == expected
        back = from_integers(pa.record_batch([digits, digits], ["d", "k"]), whole)
        back.validate(full=True)
        assert back == pa.record_batch([batch["d"].slice(start, length), digits], ["d", "k"])


def test_a_decimal_with_more_digits_than_an_integer_has_is_refused():
    whole = with_integers(StructType([StructField("d", DecimalType(15, 2))]))
    words = np.array([1, 0, 5, 1], np.int64)  # the second value is far beyond 64 bits
    for bitmap in (None, pa.py_buffer(b"\x01")):
        array = pa.Array.from_buffers(pa.decimal128(15, 2), 2, [bitmap, pa.py_buffer(words)])
        batch = pa.record_batch([array], ["d"])
        if bitmap is None:
            with pytest.raises(InvalidInputError, match=r"column 'd': a value has more digits"):
                to_integers(batch, whole, arrow_schema(whole))
        else:
            assert to_integers(batch, whole, arrow_schema(whole)).column("d").to_pylist() == [1, None]
