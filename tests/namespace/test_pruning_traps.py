"""Traps of pruning that other engines fell into, by their numbers; more of them in `test_pruning`."""

import datetime as dt
import shutil

import pyarrow as pa
import pytest
from test_pruning import column_of, kept_values, partitioned, selected_members, where

import lance_df
from lance_df import partition
from lance_df.errors import InvalidInputError, LanceError, VersionNotFoundError
from lance_df.expr.literals import compare, is_in
from lance_df.expr.nodes import And, Column, IsNull, Literal, Not, Operator, Or, Unknown
from lance_df.expr.terms import Call, Value
from lance_df.namespace.spec.namespace_schema import NamespaceSchema
from lance_df.namespace.spec.partition_by import resolve_all
from lance_df.namespace.spec.partition_values import partition_values

pytestmark = pytest.mark.engine

NAME = Column(("s",))


def like(pattern, word="LIKE", column=NAME):
    return Unknown("a pattern", Call(word, (column, Value(pa.scalar(pattern)))))


def test_t7_nanoseconds_before_the_epoch_are_rounded_down():
    (field,) = resolve_all(["hour(a)"], NamespaceSchema.create(pa.schema([("a", pa.timestamp("ns"))])))
    moments = pa.array([-1, -3_600_000_000_001, 0], pa.timestamp("ns"))
    assert partition_values(field, [moments]).to_pylist() == [23, 22, 0]
    (bucket,) = resolve_all(["bucket(a, 1000)"], NamespaceSchema.create(pa.schema([("a", moments.type)])))
    coarse = partition_values(bucket, [pa.array([-1], pa.timestamp("us"))])
    assert partition_values(bucket, [pa.array([-1], pa.timestamp("ns"))]) == coarse


@pytest.mark.parametrize("width", [0, -1, True, None, 2**31])
def test_t15_widths_that_cannot_be(width):
    with pytest.raises(InvalidInputError, match="width"):
        partition.truncate("a", width)


def test_t17_truncated_decimals_and_floats():
    with pytest.raises(InvalidInputError, match="double"):
        resolve_all(["truncate(a, 1)"], NamespaceSchema.create(pa.schema([("a", pa.float64())])))
    schema = NamespaceSchema.create(pa.schema([("a", pa.decimal128(9, 2))]))
    (field,) = resolve_all(["truncate(a, 1)"], schema)
    column = pa.array(["1.50", "-1.50", "-0.99"]).cast(pa.decimal128(9, 2))
    assert [str(value) for value in partition_values(field, [column]).to_pylist()] == [
        "1.00",
        "-1.00",
        "0.00",
    ]


@pytest.mark.parametrize(
    "expression",
    ["now()", "col0 + random()", "current_date", "CAST(col0 AS VARCHAR) || uuid()", "(SELECT col0)", "$1"],
)
def test_t19_expressions_that_are_not_of_their_row(expression):
    schema = NamespaceSchema.create(pa.schema([("a", pa.int64())]))
    with pytest.raises(InvalidInputError):
        resolve_all([partition.expression(expression, ["a"])], schema)


def test_t20_results_of_another_type_are_refused():
    schema = NamespaceSchema.create(pa.schema([("a", pa.int64())]))
    wrong = partition.expression("CAST(col0 AS VARCHAR)", ["a"], result_type=pa.int32())
    with pytest.raises(InvalidInputError, match="declared"):
        resolve_all([wrong], schema)


def test_t27_not_in_with_null_is_never_true():
    rows = column_of("i", [1, 2, None])
    condition = Not(is_in(Column(("i",)), pa.int64(), pa.array([1, None])))
    for spec in (["i"], ["bucket(i, 1000)"]):
        assert kept_values(spec, rows, condition) == []


def test_t29_prefixes_and_widths():
    rows = column_of("s", ["ab", "abc", "abcd", "abd", "b", "", None])
    prefix = And((where("s", ">=", "abc"), where("s", "<", "abd")))
    for condition in (prefix, And((prefix, like("abc%")))):
        assert kept_values(["truncate(s, 2)"], rows, condition) == ["ab"]
        assert kept_values(["truncate(s, 3)"], rows, condition) == ["abc"]
        assert sorted(kept_values(["truncate(s, 5)"], rows, condition)) == ["abc", "abcd"]


def test_t30_not_like_a_prefix():
    rows = column_of("s", ["ab", "abc", "abcd", "abd", "b", None])
    assert len(kept_values(["truncate(s, 2)"], rows, like("abc%", "NOT LIKE"))) == 3
    assert sorted(kept_values(["truncate(s, 3)"], rows, like("abc%", "NOT LIKE"))) == ["ab", "abd", "b"]
    assert sorted(kept_values(["truncate(s, 5)"], rows, like("abc%", "NOT LIKE"))) == ["ab", "abd", "b"]


@pytest.mark.parametrize("pattern", ["a_%", "%b", "a\\_%", "ab", "a%b%", "abc"])
def test_t31_patterns_that_are_no_prefix_keep_truncated_texts(pattern):
    rows = column_of("s", ["ab", "abc", "xb", None])
    everything = len(kept_values(["truncate(s, 2)"], rows))
    assert len(kept_values(["truncate(s, 2)"], rows, like(pattern))) == everything
    assert len(kept_values(["truncate(s, 2)"], rows, like("AB%", "ILIKE"))) == everything


def test_t34_literals_of_other_types():
    rows = column_of("i", [4, 5, 6, 2**40, None])
    column = Column(("i",))
    cases = {5.0: 1, 5.5: 0, 2**40: 1, -4.0: 0, -0.0: 0}
    for spec in (["i"], ["bucket(i, 100000)"], ["truncate(i, 1)"]):
        for literal, count in cases.items():
            condition = compare(column, pa.int64(), Operator.EQ, pa.scalar(literal))
            found = kept_values(spec, rows, condition)
            assert len([value for value in found if value is not None]) == count, (spec, literal, found)
    days = column_of("d", [dt.date(2024, 1, day) for day in (1, 2, 3)])
    noon = pa.scalar(dt.datetime(2024, 1, 2), pa.timestamp("us"))
    midnight = compare(Column(("d",)), pa.date32(), Operator.EQ, noon)
    assert kept_values(["d"], days, midnight) == [dt.date(2024, 1, 2)]


def test_t36_or_over_specs_and_fields():
    rows = column_of("s", ["US", "DE"]).set_column(
        3, "t", pa.array([dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)], pa.timestamp("us"))
    )
    condition = Or((where("s", "=", "US"), where("t", "<", dt.datetime(2020, 12, 1))))
    manifest, _ = partitioned([["year(t)"], ["year(t)", "s"]], rows)
    kept = selected_members(manifest, condition)["object_id"].to_pylist()
    assert [name.partition("$")[0] for name in kept] == ["v1", "v1", "v2"]


@pytest.mark.parametrize(("first", "second", "kept"), [(1, 2, 0), (1, 1, 1)])
def test_t28_contradictions_in_one_bucket(first, second, kept):
    rows = column_of("i", list(range(50)))
    condition = And((where("i", "=", first), where("i", "=", second)))
    assert len(kept_values(["i"], rows, condition)) == kept
    assert kept_values(["i"], rows, Literal(False)) == kept_values(["i"], rows, Literal(None)) == []


def test_t32_null_of_an_expression_is_found_where_the_expression_puts_it():
    rows = column_of("s", ["a", None])
    spec = [partition.expression("coalesce(col0, 'none')", ["s"])]
    assert kept_values(spec, rows, IsNull(NAME)) == ["none"]
    assert kept_values(spec, rows, Not(IsNull(NAME))) == ["a", "none"]


def test_t47_counts_do_not_count_deleted_rows(tmp_path):
    table = pa.table({"id": list(range(20)), "p": [i % 2 for i in range(20)]})
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", table.schema, ["p"])
    namespace.append(table)
    namespace.delete("id >= 18 OR id = 3")
    context = lance_df.connect(tmp_path)
    assert namespace.count_rows() == 17
    query = "SELECT p, count(*) AS n, max(id) AS last FROM n GROUP BY p ORDER BY p"
    assert context.sql(query).to_pylist() == [{"p": 0, "n": 9, "last": 16}, {"p": 1, "n": 8, "last": 17}]
    assert context.sql("SELECT count(*) AS n FROM n WHERE p = 1").to_pydict() == {"n": [8]}


def test_t71_a_writer_of_a_table_that_was_dropped_is_refused(tmp_path):
    path = tmp_path / "t.lance"
    lance_df.write_dataset(pa.table({"a": [1, 2, 3]}), path)
    stale = lance_df.dataset(path)
    shutil.rmtree(path)
    lance_df.write_dataset(pa.table({"b": ["x"]}), path)
    for change in (
        lambda: stale.delete("a = 1"),
        lambda: stale.update({"a": "a + 1"}),
        lambda: lance_df.write_dataset(pa.table({"a": [9]}), stale, mode="append"),
    ):
        with pytest.raises(LanceError):
            change()
    with pytest.raises(VersionNotFoundError, match="dropped and created again"):
        stale.to_table()
    assert lance_df.dataset(path).to_table().to_pydict() == {"b": ["x"]}


def test_t72_versions_are_ordered_by_number_whatever_the_clock_says(tmp_path, monkeypatch):
    path = tmp_path / "t.lance"
    lance_df.write_dataset(pa.table({"a": [1]}), path)
    for year in (2030, 1990, 1990):
        monkeypatch.setattr("time.time_ns", lambda year=year: (year - 1970) * 31_556_952 * 10**9)
        monkeypatch.setattr("time.time", lambda year=year: (year - 1970) * 31_556_952.0)
        lance_df.write_dataset(pa.table({"a": [year]}), path, mode="append")
    table = lance_df.dataset(path)
    assert table.version == 4
    assert [version["version"] for version in table.versions()] == [1, 2, 3, 4]
    assert table.to_table()["a"].to_pylist() == [1, 2030, 1990, 1990]
    assert lance_df.dataset(path, version=2).count_rows() == 2


@pytest.mark.parametrize("field", ["day(c)", "month(c)", "hour(c)"])
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_ranges_beyond_the_calendar_reach_rows_without_parts(tmp_path, field, unit):
    """DataFusion has no calendar parts of such moments, so that they lie in the partition of NULL."""
    low = -(2**62) if unit == "s" else -(2**63) + 1
    table = pa.table({"id": [0, 1, 2], "c": pa.array([0, low, low + 1], pa.timestamp(unit))})
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", table.schema, [field])
    namespace.append(table)
    name = {"s": "Second", "ms": "Millisecond", "us": "Microsecond"}[unit]
    moments = [f"arrow_cast(arrow_cast('{low + i}', 'Int64'), 'Timestamp({name}, None)')" for i in range(2)]
    rows = lance_df.connect(tmp_path).sql(
        f"SELECT id FROM n WHERE c >= {moments[0]} AND c <= {moments[1]} ORDER BY id"
    )
    assert rows.to_pydict()["id"] == [1, 2]
