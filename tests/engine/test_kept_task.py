"""Scans of a few rows keep what they returned, for the version and the request that it was read for."""

from __future__ import annotations

import datafusion
import pyarrow as pa
import pytest

import lance_df
from lance_df.scan.request import ScanRequest
from lance_df.table.open import open_table
from lance_df.table.scan import cached_plans
from lance_df.table.scan.limits import SCAN_LIMITS
from tests.engine.query_results import assert_same_result

pytestmark = pytest.mark.engine

_ROWS = pa.table(
    {
        "id": pa.array([1, None, 3, -4], pa.int64()),
        "value": [0.0, 1.5, float("nan"), None],
        "name": ["é", "", None, "a" * 40],
    }
)
_STATEMENTS = [
    "SELECT * FROM t",
    "SELECT name FROM t WHERE id > 1",
    "SELECT name FROM t WHERE id > 2",
    "SELECT id FROM t WHERE value = 0.0",
    "SELECT id FROM t WHERE value = 1.5",
    "SELECT id FROM t WHERE name IS NULL",
    "SELECT count(*) FROM t WHERE length(name) > 1",
    "SELECT a.name, b.value FROM t a JOIN t b ON a.id = b.id WHERE a.id = 3",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r JOIN t ON t.id = r.n) SELECT * FROM r",
]


@pytest.fixture
def reads(monkeypatch):
    """Count how often tasks are read, and how often what was kept is."""
    found = {"asked": 0, "kept": 0}
    read = cached_plans._CachedTask.read

    def counted(task):
        found["asked"] += 1
        found["kept"] += task._batches is not None
        return read(task)

    monkeypatch.setattr(cached_plans._CachedTask, "read", counted)
    return found


def test_statements_that_are_repeated_answer_as_before_and_follow_the_table(tmp_path, reads):
    lance_df.write_dataset(_ROWS, tmp_path / "t.lance")
    session = lance_df.connect(tmp_path)
    for rows in (_ROWS, pa.concat_tables([_ROWS, _ROWS.slice(0, 1)]), _ROWS.slice(0, 0)):
        memory = datafusion.SessionContext()
        memory.register_record_batches(
            "t", [rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]]
        )
        for text in _STATEMENTS:
            for _ in range(3):
                assert_same_result(session.sql(text), memory.sql(text))
        if rows is _ROWS:
            lance_df.write_dataset(_ROWS.slice(0, 1), tmp_path / "t.lance", mode="append")
        else:
            lance_df.dataset(tmp_path / "t.lance").delete("true")
    assert reads["kept"] > reads["asked"] / 3


def test_only_one_small_task_is_kept(tmp_path):
    lance_df.write_dataset(_ROWS, tmp_path / "small.lance")
    lance_df.write_dataset(pa.table({"id": range(5000)}), tmp_path / "large.lance")
    large = open_table(str(tmp_path / "large.lance")).plan(ScanRequest())
    assert not any(isinstance(each, cached_plans._CachedTask) for each in large.tasks)
    (task,) = open_table(str(tmp_path / "small.lance")).plan(ScanRequest()).tasks
    assert (task.num_rows, task.num_bytes > 0) == (4, True)
    with SCAN_LIMITS.replaced(max_cached_result_bytes=10):
        assert sum(batch.num_rows for _ in range(2) for batch in task.read()) == 8
        assert task._batches is None
    assert all(first is again for first, again in zip(task.read(), task.read(), strict=True))
