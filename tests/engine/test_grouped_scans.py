"""Groups of strings that are counted: scans that group, and the same answers."""

from collections import Counter

import datafusion
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from tests.engine.query_results import assert_same_result

pytestmark = pytest.mark.engine

ROWS = 150_000


@pytest.fixture(scope="module")
def rows():
    choose = np.random.default_rng(11)

    def words(count, share):
        values = pa.array([f"a rather long word, number {number}" for number in range(count)])
        return values.take(pa.array(choose.integers(0, count, ROWS), mask=choose.random(ROWS) < share))

    return pa.table(
        {
            "mode": words(5, 0.1),
            "state": words(40, 0),
            "nothing": pa.nulls(ROWS, pa.string()),
            "unique": [f"{number:x}" for number in range(ROWS)],
            "number": np.arange(ROWS),
            "_count": words(3, 0.5),
        }
    )


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def sessions(request, rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    lance_df.write_dataset(rows, folder / "t.lance", data_storage_version=request.param)
    lance_df.write_dataset(rows.slice(0, 0), folder / "empty.lance", data_storage_version=request.param)
    memory = datafusion.SessionContext()
    memory.from_arrow(rows, "t")
    memory.register_record_batches("empty", [[pa.RecordBatch.from_pylist([], schema=rows.schema)]])
    return lance_df.connect(folder), memory


GROUPED = [
    "SELECT mode, count(*) FROM t GROUP BY mode",
    "SELECT state AS s, mode, count(*) AS n, count(1) AS m FROM t GROUP BY mode, state HAVING count(*) > 300",
    "SELECT count(*) + 1 AS n, upper(mode) AS u FROM t GROUP BY mode ORDER BY n DESC LIMIT 3",
    "SELECT x.state, x.n FROM (SELECT state, count(*) AS n FROM t GROUP BY state) x WHERE x.n > 10",
    "WITH w AS (SELECT * FROM t) SELECT w.mode, count(*) AS n FROM w GROUP BY w.mode",
    "SELECT max(n) AS n FROM (SELECT mode, state, count(*) AS n FROM t AS y GROUP BY y.mode, y.state)",
    'SELECT "_count", count(*) AS n FROM t GROUP BY "_count"',
    "SELECT DISTINCT mode, state FROM t",
    "SELECT count(DISTINCT state) AS n FROM t",
    "SELECT count(*) AS n FROM (SELECT DISTINCT mode FROM t)",
]
OTHERS = [
    "SELECT mode, count(*) AS n FROM t WHERE number < 70000 GROUP BY mode",
    "SELECT mode, count(*) AS n FROM t WHERE length(mode) > 0 GROUP BY mode",
    "SELECT mode, count(state) AS n FROM t GROUP BY mode",
    "SELECT mode, count(mode) AS n FROM t GROUP BY mode",
    "SELECT mode, count(*) FILTER (WHERE mode LIKE '%1') AS n FROM t GROUP BY mode",
    "SELECT mode, count(*) AS n, max(number) AS m FROM t GROUP BY mode",
    "SELECT upper(mode) AS u, count(*) AS n FROM t GROUP BY upper(mode)",
    "SELECT mode, count(*) AS n FROM (SELECT * FROM t ORDER BY number LIMIT 70000) GROUP BY mode",
    "SELECT mode, count(*) AS n FROM (SELECT mode FROM t UNION ALL SELECT state FROM t) GROUP BY mode",
    "SELECT mode, state, count(*) AS n FROM t GROUP BY GROUPING SETS ((mode), (state), ())",
    "SELECT mode, state, count(*) AS n FROM t GROUP BY ROLLUP (mode, state)",
    "SELECT mode, count(*) OVER (PARTITION BY mode) AS n FROM t ORDER BY number LIMIT 10",
    "SELECT unique, count(*) AS n FROM t GROUP BY unique ORDER BY unique LIMIT 10",
    "SELECT a.mode, count(*) AS n FROM t a JOIN t b ON a.number = b.number GROUP BY a.mode",
    "SELECT (SELECT count(DISTINCT mode) FROM t) AS n, count(*) AS m FROM t",
    "SELECT mode, count(*) AS n FROM empty GROUP BY mode",
    "SELECT nothing, mode, count(*) AS n FROM t GROUP BY nothing, mode",
    "SELECT mode, count(DISTINCT state) AS n FROM t GROUP BY mode",
    "SELECT array_agg(DISTINCT mode) IS NULL AS n FROM t",
]


@pytest.mark.parametrize("text", [*GROUPED, *OTHERS])
def test_the_same_rows(sessions, text):
    ctx, memory = sessions
    assert_same_result(ctx.sql(text), memory.sql(text))


@pytest.mark.parametrize("text", GROUPED)
def test_scans_return_groups(sessions, text):
    frame = sessions[0].sql(text)
    assert frame.to_arrow_table().num_rows
    ((table, *_),) = [tuple(statement.tables.values()) for statement in frame.statements]
    assert table.log.counters.rows < 2000


def test_deleted_rows(rows, tmp_path):
    lance_df.write_dataset(rows.select(["mode", "number"]), tmp_path / "t.lance")
    lance_df.dataset(tmp_path / "t.lance").delete("number % 3 = 0 OR number > 149000")
    lance_df.write_dataset(
        rows.select(["mode", "number"]).slice(0, 70_000), tmp_path / "t.lance", mode="append"
    )
    ctx, memory = lance_df.connect(tmp_path), datafusion.SessionContext()
    memory.from_arrow(lance_df.dataset(tmp_path / "t.lance").to_table(), "t")
    text = "SELECT mode, count(*) AS n FROM t GROUP BY mode"
    assert_same_result(ctx.sql(text), memory.sql(text))


def test_views_prepared_statements_and_writes(sessions, tmp_path):
    ctx, memory = sessions
    text = "SELECT mode, count(*) AS n FROM t GROUP BY mode"
    expected = memory.sql(text)
    ctx.sql(f"CREATE OR REPLACE VIEW v AS {text}")
    assert_same_result(ctx.sql("SELECT * FROM v"), expected)
    assert ctx.sql("SELECT count(*) AS k FROM v").to_pylist() == [{"k": 6}]
    ctx.sql(f"COPY ({text}) TO '{tmp_path}/out.parquet' STORED AS PARQUET").collect()
    copied = datafusion.SessionContext().read_parquet(tmp_path / "out.parquet").to_arrow_table()
    assert Counter(map(repr, copied.to_pylist())) == Counter(map(repr, expected.to_pylist()))
