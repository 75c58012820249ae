"""Plans of members are kept for equal requests; others, and those of other versions, are planned anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.scan.options import ALL
from lance_df.scan.request import ScanRequest
from lance_df.scan.run import num_cores, run_tasks
from lance_df.storage import open_location
from lance_df.table.scan import cached_plans
from lance_df.table.scan.limits import SCAN_LIMITS

NUM_MEMBERS = 70  # more than share a plan of the namespace, fewer than plans are kept of
ROWS = pa.table(
    {
        "p": [number % NUM_MEMBERS for number in range(NUM_MEMBERS * 6)],
        "f": [0.0, -0.0, 1.5, None, float("nan"), -2.0] * NUM_MEMBERS,
        "k": list(range(NUM_MEMBERS * 6)),
    }
)
IS_NAN = pc.is_nan(pc.field("f"))
# Zeros are equal and NaN is the greatest. DataFusion 51 and 53 order -0.0 before 0.0.
COMPARISONS = {
    ">": (pc.field("f") > 0) | IS_NAN,
    ">=": (pc.field("f") >= 0) | IS_NAN,
    "<": pc.field("f") < 0,
    "=": pc.field("f") == 0,
}
CONDITIONS = [
    *(
        (f"f {op} {zero}", expected)
        for op, expected in COMPARISONS.items()
        for zero in ("0.0", "-0.0", "0.0")
    ),
    *((f"f IN ({zero}, 7.0)", COMPARISONS["="]) for zero in ("0.0", "-0.0")),
    ("f IS NULL", pc.field("f").is_null()),
    ("isnan(f)", IS_NAN),
    ("NOT isnan(f)", ~IS_NAN),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", ROWS.schema, ["p"])
    namespace.append(ROWS)
    return tmp_path


@pytest.mark.engine
def test_answers_do_not_depend_on_what_was_planned_before(root: Path) -> None:
    ctx, rows = lance_df.connect(str(root)), ROWS
    for _ in range(2):
        for condition, expected in [*CONDITIONS, *CONDITIONS]:
            answer = pa.table(ctx.sql(f"SELECT k FROM n WHERE {condition} ORDER BY k"))
            assert answer.equals(rows.filter(expected).select(["k"])), condition
        namespace = lance_df.PartitionedNamespace.open(root / "n")
        namespace.delete("k % 4 = 1")
        more = pa.table({"p": [3, 500], "f": [0.0, -0.0], "k": [10_000, 10_001]}, ROWS.schema)
        namespace.append(more)
        rows = pa.concat_tables([rows.filter(pc.not_equal(pc.bit_wise_and(rows["k"], 3), 1)), more])


@pytest.mark.engine
def test_members_are_planned_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    plan_scan = cached_plans.plan_scan
    monkeypatch.setattr(
        cached_plans, "plan_scan", lambda *arguments: planned.append(arguments) or plan_scan(*arguments)
    )
    ctx = lance_df.connect(str(root))
    query = "SELECT count(*) AS n FROM n WHERE k = 17"
    for _ in range(3):  # what scans observe of values may rule more out
        assert ctx.sql(query).to_pylist() == [{"n": 1}]
    assert planned
    before = len(planned)
    assert ctx.sql(query).to_pylist() == [{"n": 1}]
    assert len(planned) == before


@pytest.mark.parametrize("num_members", [1, 4, 40, 300])
def test_members_share_the_tasks_of_a_scan(tmp_path: Path, num_members: int) -> None:
    rows = pa.table({"p": np.arange(24_000) % num_members, "k": np.arange(24_000)})
    lance_df.PartitionedNamespace.create(tmp_path / "n", rows.schema, ["p"]).append(rows)
    wanted = SCAN_LIMITS.current.tasks_per_core * num_cores()
    snapshot = NamespaceSnapshot.open(open_location(tmp_path / "n"))
    with SCAN_LIMITS.replaced(min_task_rows=10, task_alignment=1, max_joined_fragments=1):
        plan = snapshot.plan(ScanRequest(columns=("k",), options=replace(ALL, joined_members=False)))
        assert max(num_members, wanted // 2) <= len(plan.tasks) <= num_members + wanted
        batches = list(run_tasks(plan.tasks))
    assert sorted(pa.Table.from_batches(batches)["k"].to_pylist()) == list(range(24_000))
