"""Partition values of rows, with the traps that other implementations fell into."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_df import partition
from lance_df.errors import InvalidInputError
from lance_df.namespace.spec.namespace_schema import NamespaceSchema
from lance_df.namespace.spec.partition_by import resolve_all
from lance_df.namespace.spec.partition_values import partition_values

pytestmark = pytest.mark.engine

US = pa.timestamp("us")


def values(wanted, *columns):
    schema = NamespaceSchema.create(
        pa.schema([(name, c.type) for name, c in zip("abc", columns, strict=False)])
    )
    (field,) = resolve_all([wanted], schema)
    found = partition_values(field, columns)
    assert found.type == field.result_type
    return found.to_pylist()


def calendar(column):
    return [
        values(part("a"), column)[0]
        for part in (partition.year, partition.month, partition.day, partition.hour)
    ]


def test_t1_before_the_epoch():
    before = pa.array([-1], US)
    assert calendar(before) == [1969, 12, 31, 23]
    assert calendar(pa.array([-1], pa.timestamp("ns"))) == [1969, 12, 31, 23]


def test_t2_years_before_christ():
    days = (np.datetime64("-0044-03-15") - np.datetime64("1970-01-01")).astype(int)
    assert values(partition.year("a"), pa.array([days], pa.date32())) == [-44]


def test_t3_the_hour_of_a_date():
    assert values(partition.hour("a"), pa.array([dt.date(2024, 5, 6), None])) == [0, None]


def test_t4_times_beyond_the_calendar_have_no_year():
    assert values(partition.year("a"), pa.array([2**63 - 1], US)) == [None]


def test_t5_zones():
    at = dt.datetime(2024, 1, 1, 23, tzinfo=dt.UTC)
    assert values(partition.hour("a"), pa.array([at], pa.timestamp("us", "America/New_York"))) == [18]


def test_t6_units():
    at = dt.datetime(2024, 2, 29)
    columns = [pa.array([at], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")]
    assert {tuple(calendar(column)) for column in columns} == {(2024, 2, 29, 0)}
    assert len({values(partition.bucket("a", 1000), column)[0] for column in columns}) == 1


def test_t8_widths_hash_alike():
    types = [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
    assert {values(partition.bucket("a", 2**31 - 1), pa.array([34], t))[0] for t in types} == {2017239379}


def test_t9_the_lowest_hash():
    assert values(partition.bucket("a", 7), pa.array([2841062569])) == [2**31 % 7]


def test_t10_layouts_of_text_hash_alike():
    text = pa.array(["héllo", None])
    columns = [text, text.cast(pa.large_string()), text.cast(pa.string_view()), text.dictionary_encode()]
    assert len({tuple(values(partition.bucket("a", 997), column)) for column in columns}) == 1


def test_t11_scales_of_decimals_hash_alike():
    columns = [
        pa.array([Decimal("1.00")], t)
        for t in (pa.decimal128(9, 2), pa.decimal128(18, 2), pa.decimal256(40, 5))
    ]
    assert len({values(partition.bucket("a", 997), column)[0] for column in columns}) == 1


def test_t12_floats_have_one_zero_and_one_nan():
    quiet, other = np.array([0x7FF8000000000000, 0xFFF8000000000123], np.uint64).view(np.float64)
    floats = pa.array([0.0, -0.0, quiet, other, None], from_pandas=False)
    found = values(partition.identity("a"), floats)
    assert np.array(found[:4], float).view(np.uint64).tolist() == [
        0,
        0,
        0x7FF8000000000000,
        0x7FF8000000000000,
    ]
    assert found[4] is None
    buckets = values(partition.bucket("a", 997), floats)
    assert (buckets[0], buckets[2]) == (buckets[1], buckets[3])


def test_t13_nulls_in_several_columns():
    a, b = pa.array([None, None, 5]), pa.array(["a", None, None])
    found = values(partition.multi_bucket(["a", "b"], 997), a, b)
    assert found[0] == values(partition.bucket("a", 997), pa.array(["a"]))[0]
    assert found[1] is None
    assert found[2] == values(partition.bucket("a", 997), pa.array([5]))[0]


def test_t14_truncated_numbers():
    numbers = pa.array([-1, -10, -11, -(2**63), 19, None])
    assert values(partition.truncate("a", 10), numbers) == [0, -10, -10, -9223372036854775800, 10, None]
    assert values(partition.truncate("a", 1000), pa.array([-128, 127], pa.int8())) == [0, 0]
    assert values(partition.truncate("a", 10), pa.array([2**64 - 1], pa.uint64())) == [18446744073709551610]
    prices = pa.array([Decimal("17.50"), Decimal("-17.50")], pa.decimal128(9, 2))
    assert values(partition.truncate("a", 10), prices) == [Decimal(10), Decimal(-10)]


@pytest.mark.parametrize("data_type", [pa.string(), pa.large_string()])
def test_t16_truncated_text_is_cut_between_code_points(data_type):
    texts = ["héllo", "e\u0301a", "😀😁😂", "👨‍👩‍👧", "x", "", None]
    expected = [None if text is None else text[:2] for text in texts]
    assert values(partition.truncate("a", 2), pa.array(texts, data_type)) == expected


def test_t18_any_text_is_a_partition():
    texts = ["", "NULL", "__HIVE_DEFAULT_PARTITION__", "a/b=c$d", "x" * 10_000, None]
    assert values(partition.identity("a"), pa.array(texts)) == texts


def test_columns_that_are_gone_are_null():
    for wanted in (
        partition.year("a"),
        partition.bucket("a", 4),
        partition.truncate("a", 4),
        partition.identity("a"),
    ):
        column = pa.array([5], US) if wanted.transform.kind.value == "year" else pa.array([5])
        (field,) = resolve_all([wanted], NamespaceSchema.create(pa.schema([("a", column.type)])))
        assert partition_values(field, [pa.nulls(3)]).to_pylist() == [None] * 3


def test_an_expression_over_a_column_that_is_gone():
    schema = NamespaceSchema.create(pa.schema([("a", pa.int64())]))
    (field,) = resolve_all([partition.expression("coalesce(to_hex(col0), 'none')", ["a"])], schema)
    assert partition_values(field, [pa.nulls(2)]).to_pylist() == ["none", "none"]


def test_values_that_do_not_fit_are_refused():
    (field,) = resolve_all(
        [partition.expression("col0 * 1000", ["a"], result_type=pa.int16())],
        NamespaceSchema.create(pa.schema([("a", pa.int64())])),
    )
    with pytest.raises(InvalidInputError, match="do not fit"):
        partition_values(field, [pa.array([1000])])


def test_dictionaries_have_the_values_they_stand_for():
    column = pc.dictionary_encode(pa.array(["b", None, "a", "b"]))
    assert values(partition.identity("a"), column) == ["b", None, "a", "b"]
