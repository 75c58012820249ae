"""Errors name what the user wrote, not what stands around it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import datafusion
import pyarrow as pa
import pytest

import lance_df

pytestmark = pytest.mark.engine

RELEASE = int(datafusion.__version__.partition(".")[0])
ROWS = pa.table({"id": [1, 2], "city": ["Oslo", None], "a b": [1.5, 2.5]})


@pytest.fixture(params=["table", "namespace"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The same rows in both kinds of tables."""
    if request.param == "table":
        return lance_df.write_dataset(ROWS, tmp_path / "t.lance")
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", ROWS.schema, ["city"])
    made.append(ROWS)
    return made


@pytest.mark.skipif(RELEASE < 53, reason="errors are printed as Rust writes them")
@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("id <>", "Expected: an expression, found: the end of the text (in the expression: id <>)"),
        ("id between 1", "Expected: AND, found: the end of the text"),
        ("New York", "Expected: the end of the text, found: York"),
        ("id in ()", "Expected: an expression, found: ) (in the expression: id in ())"),
        ("id && city", "use AND"),
        ("city = 'x", "a quote or a comment is not closed"),
        ("nope > 1", "No field named nope; the columns are id, city"),
        ("id", "the filter 'id' does not return a boolean, but Int64"),
        pytest.param(
            "id = 'a'",
            "Cannot cast string 'a' to value of Int64 type",
            marks=pytest.mark.skipif(RELEASE < 55, reason="it compares texts"),
        ),
    ],
)
def test_filters_are_quoted_as_they_are_written(source: Any, expression: str, said: str) -> None:
    with pytest.raises(lance_df.LanceError) as caught:
        source.to_table(filter=expression)
    message = str(caught.value)
    assert said in message
    for hidden in ("Line:", "Column:", "_row", "__lance", "t.id", "caused by", "SELECT"):
        assert hidden not in message


@pytest.mark.parametrize("text", ["Oslo", " New York "])
def test_updates_to_bare_words_say_to_quote_them(source: Any, text: str) -> None:
    with pytest.raises(lance_df.LanceError, match=r"are SQL expressions\. To set the text itself, quote it"):
        source.update({"city": text})
    assert source.count_rows("city IS NULL") == 1


@pytest.mark.skipif(RELEASE < 55, reason="it panics where decimals of negative scale are compared")
def test_panics_are_errors(tmp_path: Path) -> None:
    hundreds = pa.table({"c": pa.array([Decimal(100), None], pa.decimal128(10, -2))})
    dataset = lance_df.write_dataset(hundreds, tmp_path / "t.lance")
    for read in (dataset.count_rows, dataset.delete):
        with pytest.raises(lance_df.UnsupportedFeatureError, match="panics: attempt to divide by zero"):
            read("c = 100")
    with pytest.raises(lance_df.UnsupportedFeatureError, match="panics"):
        lance_df.connect(tmp_path).sql("SELECT * FROM t WHERE c = 100")


LIMITED = "SET datafusion.runtime.memory_limit = '1M'"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k FROM t ORDER BY s, k",
        # planned and run in a context of its own
        "SELECT a.s, max(a.k) AS k FROM t AS a JOIN t AS b ON a.k = b.k JOIN t AS c ON b.k = c.k "
        "JOIN t AS d ON c.k = d.k WHERE a.k > 7 GROUP BY a.s ORDER BY k DESC LIMIT 3",
    ],
    ids=["sort", "joins"],
)
def test_statements_that_need_more_memory_than_they_may_take(tmp_path: Path, query: str) -> None:
    rows = pa.table({"k": range(300_000), "s": [f"text {number:010}" for number in range(300_000)]})
    lance_df.write_dataset(rows, tmp_path / "t.lance")
    ctx = lance_df.connect(tmp_path)
    before = ctx.sql(query).to_arrow_table()
    ctx.sql(LIMITED)
    with pytest.raises(lance_df.ResourcesExhaustedError, match="Raise the limit, such as SET") as raised:
        ctx.sql(query).to_arrow_table()
    assert isinstance(raised.value, MemoryError)
    ctx.sql(LIMITED.replace("1M", "2G"))
    assert ctx.sql(query).to_arrow_table().equals(before)


@pytest.mark.parametrize("wrong", ["4G", 4, datafusion.SessionConfig()])
def test_a_runtime_is_one_of_datafusion(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(lance_df.LanceError, match=r"must be a datafusion\.RuntimeEnvBuilder"):
        lance_df.connect(tmp_path, runtime=wrong)
    runtime = datafusion.RuntimeEnvBuilder().with_disk_manager_os().with_fair_spill_pool(1 << 30)
    assert lance_df.connect(tmp_path, runtime=runtime).sql("SELECT 1 AS n").to_pylist() == [{"n": 1}]


@pytest.mark.skipif(RELEASE < 53, reason="errors are printed as Rust writes them")
@pytest.mark.parametrize(("column", "meant"), [('"A"', "t.a"), ("t.aa", "t.a"), ("bc", 't."Bc"')])
def test_a_similar_column_is_suggested_in_one_line(tmp_path, column, meant):
    ctx = lance_df.connect(tmp_path)
    ctx.sql('CREATE TABLE t AS SELECT 1 AS a, 2 AS "Bc"')
    with pytest.raises(lance_df.ColumnNotFoundError) as caught:
        ctx.sql(f"SELECT {column} FROM t")
    suggestion = f". Did you mean '{meant}'? The" if RELEASE >= 55 else "; the"
    expected = f'No field named {column}{suggestion} columns are t.a, t."Bc" (in the'
    assert str(caught.value).startswith(expected)
