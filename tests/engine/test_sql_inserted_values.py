"""INSERT … VALUES: each value gets the type of its column, and rows keep the order of their query."""

import datafusion
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import InvalidInputError

pytestmark = pytest.mark.engine

# by the type of a column, rows whose values have several types
MIXED = [
    ("BIGINT", "(9007199254740993), (1.5)"),
    ("BIGINT", "(9223372036854775807), (1.5), (NULL)"),
    ("BIGINT", "(CAST(9007199254740993 AS BIGINT)), (1.0)"),
    ("VARCHAR", "(1), (2.5)"),
    ("VARCHAR", "(true), ('a')"),
    ("VARCHAR", "(DATE '2020-01-02'), ('x')"),
    ("VARCHAR", "(1.50), (2), ('x')"),
    ("DATE", "('2020-01-01'), (DATE '1969-12-31')"),
    ("DATE", "('2020-01-01'), (TIMESTAMP '1969-12-31T23:59:59')"),
    ("TIMESTAMP", "('2020-01-01'), (DATE '1969-12-31')"),
    ("BOOLEAN", "(true), ('false')"),
    ("BYTEA", "('abc'), (X'00ff')"),
    ("DOUBLE", "(1), ('NaN')"),
    ("DECIMAL(5,2)", "('12.345'), (1)"),
    ("DECIMAL(38,0)", "('99999999999999999999999999999999999999'), (1)"),
    ("VARCHAR[]", "(['a']), ([1]), (NULL)"),
    ("BIGINT", "(3), (1.5), (2) ORDER BY 1 DESC LIMIT 2"),
    ("BIGINT", "(1 + 1), (abs(-3.0))"),
]


def values_of(ctx, column_type, values):
    ctx.sql(f"CREATE TABLE t (a {column_type})").collect()
    ctx.sql(f"INSERT INTO t VALUES {values}").collect()
    return ctx.sql("SELECT a FROM t").to_arrow_table()["a"].to_pylist()


@pytest.mark.parametrize(("column_type", "values"), MIXED)
def test_values_of_several_types(tmp_path, column_type, values):
    ours = values_of(lance_df.connect(tmp_path), column_type, values)
    assert repr(ours) == repr(values_of(datafusion.SessionContext(), column_type, values))


def test_values_of_a_namespace(tmp_path):
    ctx = lance_df.connect(tmp_path)
    ctx.sql("CREATE TABLE t (a BIGINT, b VARCHAR) PARTITIONED BY (bucket(4, a))")
    ctx.sql("INSERT INTO t (b, a) VALUES (1, 9007199254740993), ('x', 1.5), (NULL, '7')")
    assert ctx.sql("SELECT a, b FROM t ORDER BY a").to_pylist() == [
        {"a": 1, "b": "x"},
        {"a": 7, "b": None},
        {"a": 9007199254740993, "b": "1"},
    ]


def test_values_beside_a_struct_that_lacks_a_field(tmp_path):
    if int(datafusion.__version__.partition(".")[0]) < 53:
        pytest.skip("DataFusion 51 casts structs by position")
    ctx = lance_df.connect(tmp_path)
    ctx.sql("CREATE TABLE t (a BIGINT, s STRUCT<x BIGINT, y VARCHAR>)")
    ctx.sql("INSERT INTO t VALUES (9007199254740993, {x: 1}), (1.5, NULL)")
    assert ctx.sql("SELECT * FROM t").to_pylist() == [
        {"a": 9007199254740993, "s": {"x": 1, "y": None}},
        {"a": 1, "s": None},
    ]


def test_parameters(tmp_path):
    ctx = lance_df.connect(tmp_path)
    ctx.sql("CREATE TABLE t (a BIGINT, b VARCHAR)")
    ctx.sql("INSERT INTO t VALUES ($1, $2), ($3, $4), ($5, '$6')", None, [2**53 + 1, "p", 1.5, 7, None])
    ctx.sql("INSERT INTO t VALUES ($x, $y)", param_values={"x": "8", "y": 1.5})
    assert ctx.sql("SELECT a, b FROM t").to_pylist() == [
        {"a": 2**53 + 1, "b": "p"},
        {"a": 1, "b": "7"},
        {"a": None, "b": "$6"},
        {"a": 8, "b": "1.5"},
    ]


@pytest.mark.parametrize("values", ["('x')", "(1), ('x')", "(1), (3000000000)"])
def test_values_that_do_not_fit(tmp_path, values):
    ctx = lance_df.connect(tmp_path)
    ctx.sql("CREATE TABLE t (a INT)")
    with pytest.raises(InvalidInputError, match="INSERT INTO t VALUES"):
        ctx.sql(f"INSERT INTO t VALUES {values}")
    assert lance_df.dataset(tmp_path / "t.lance").version == 1


@pytest.mark.parametrize("rows", [3, 50_000])
def test_rows_of_columns_with_one_name_keep_their_order(tmp_path, rows):
    values = [(each * 7919) % rows for each in range(rows)]
    lance_df.write_dataset(pa.table({"v": values}), tmp_path / "s.lance")
    ctx = lance_df.connect(tmp_path)
    ctx.sql("CREATE TABLE t (a BIGINT, b BIGINT)")
    ctx.sql("INSERT INTO t SELECT x.v, y.v FROM s x JOIN s y ON x.v = y.v ORDER BY x.v DESC")
    wanted = list(range(rows))[::-1]
    assert ctx.sql("SELECT * FROM t").to_pydict() == {"a": wanted, "b": wanted}
    ctx.sql("INSERT INTO t SELECT DISTINCT x.v, y.v FROM s x JOIN s y ON x.v = y.v WHERE x.v = 1")
    assert ctx.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": rows + 1}]
