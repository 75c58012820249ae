"""Conditions on columns with dictionaries, in statements that run their optimized plan."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset
import pytest

import lance_df
from lance_df.engine import query_planner
from tests.engine.query_results import in_memory

pytestmark = pytest.mark.engine

ROWS = pa.table(
    {
        "id": pa.array(range(6)),
        "d": pa.array(["a", "b", "a", "c", None, "A"]).dictionary_encode(),
        "u": pa.array(range(6), pa.uint64()),
    }
)
STATEMENTS = [
    "SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE a.{} AND abs(a.id) < 4 ORDER BY a.id",
    "SELECT d, max(id) AS m FROM t WHERE {} AND u <= 2.5 GROUP BY d ORDER BY m",
    "SELECT DISTINCT ON (u) id FROM t WHERE {} AND u <= 2.5 ORDER BY u, id",
    "SELECT id FROM t WHERE id IN (SELECT id FROM t WHERE {} AND u < 3) AND abs(id) < 4 ORDER BY id LIMIT 3",
    "SELECT id FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE a.id = b.id AND b.{}) ORDER BY id LIMIT 4",
    "SELECT id FROM t WHERE {} AND u <= 2.5 UNION ALL SELECT u FROM t WHERE {} AND abs(u) < 4 ORDER BY 1",
    "SELECT id, (SELECT max(id) FROM t WHERE {} AND u <= 2.5) AS m FROM t WHERE {} ORDER BY id",
]


@pytest.mark.parametrize("condition", ["d LIKE 'a'", "d NOT LIKE 'a'", "d = 'a'", "d IN ('a', 'c')"])
@pytest.mark.parametrize("worth_nodes", [0, 6])
def test_patterns_without_wildcards(tmp_path, monkeypatch, condition, worth_nodes):
    monkeypatch.setattr(query_planner, "_WORTH_NODES", worth_nodes)
    lance_df.write_dataset(ROWS, tmp_path / "t.lance")
    ctx, memory = lance_df.connect(tmp_path), in_memory({"t": ROWS})
    for statement in STATEMENTS:
        text = statement.replace("{}", condition)
        assert ctx.sql(text).to_pylist() == memory.sql(text).to_pylist(), text


def test_patterns_on_tables_of_others(tmp_path):
    lance_df.write_dataset(ROWS.drop_columns("d"), tmp_path / "t.lance")
    ctx = lance_df.connect(tmp_path)
    ctx.register_dataset("other", pyarrow.dataset.dataset(ROWS))
    text = "SELECT t.id FROM t JOIN other AS o ON o.id = t.id WHERE o.d LIKE 'a' AND abs(t.id) < 4 ORDER BY 1"
    assert ctx.sql(text).to_pydict() == {"id": [0, 2]}
