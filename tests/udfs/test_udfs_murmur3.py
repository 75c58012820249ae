"""The hash UDFs in a plain DataFusion context."""

import datafusion
import mmh3
import pyarrow as pa
import pytest

import lance_df
from lance_df.hashing import murmur3_multi
from lance_df.udfs.murmur3 import PLAIN_TYPES

pytestmark = pytest.mark.engine


@pytest.fixture
def ctx():
    context = datafusion.SessionContext()
    table = pa.table(
        {
            "i": pa.array([34, None, -1], pa.int32()),
            "u": pa.array([34, 2**64 - 1, None], pa.uint64()),
            "s": ["iceberg", None, ""],
        }
    )
    context.register_record_batches("t", [table.to_batches()])
    lance_df.register_udfs(context)
    return context


def values(ctx, expression):
    return ctx.sql(f"SELECT {expression} AS x FROM t").to_pydict()["x"]


def test_integers(ctx):
    assert values(ctx, "murmur3(i)") == [2017239379, None, mmh3.hash(b"\xff" * 8)]
    assert ctx.sql("SELECT murmur3(i) AS x FROM t").schema().field("x").type == pa.int32()


@pytest.mark.parametrize("column", ["s", "u", "arrow_cast('x', 'Binary')"])
def test_other_types_are_refused_rather_than_hashed_as_something_else(ctx, column):
    with pytest.raises(Exception, match="murmur3"):
        values(ctx, f"murmur3({column})")


def test_typed_names(ctx):
    assert values(ctx, "murmur3_utf8(s)") == [1210000089, None, mmh3.hash("")]
    assert values(ctx, "murmur3_uint64(u)") == [2017239379, mmh3.hash(b"\xff" * 8), None]
    types = {
        "int64": "Int64",
        "float64": "Float64",
        "bool": "Boolean",
        "binary": "Binary",
        "date32": "Date32",
    }
    for name, data_type in types.items():
        assert values(ctx, f"murmur3_{name}(arrow_cast(NULL, '{data_type}'))") == [None] * 3
    assert types.keys() < PLAIN_TYPES.keys()


def test_several_columns(ctx):
    found = values(ctx, "murmur3_multi(make_array(murmur3_key_int64(i), murmur3_key_utf8(s)))")
    table = ctx.sql("SELECT i, s FROM t").to_arrow_table().combine_chunks()
    assert found == murmur3_multi([column.chunk(0) for column in table.columns]).to_pylist()


def test_constants_are_folded(ctx):
    plan = ctx.sql("SELECT i FROM t WHERE i = murmur3(5)").optimized_logical_plan().display_indent()
    assert "murmur3" not in plan
