"""Ibis over a session: skipped where ibis is not installed, or does not work with this DataFusion release.

ibis 10 to 12 connect to DataFusion 51 alone, and sqlglot 30 makes statements of theirs that do not parse.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datafusion import __version__ as datafusion_release
from sqlglot import __version__ as sqlglot_release

import lance_df

ibis = pytest.importorskip("ibis")

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not datafusion_release.startswith("51."), reason="ibis needs DataFusion 51"),
    pytest.mark.skipif(int(sqlglot_release.split(".")[0]) >= 30, reason="ibis needs sqlglot below 30"),
]

ROWS = pa.table({"id": range(300), "g": [n % 30 for n in range(300)], "fare": [n / 2 for n in range(300)]})


@pytest.fixture
def ctx(tmp_path: Path) -> lance_df.SessionContext:
    """A folder with a table and a namespace."""
    lance_df.write_dataset(ROWS, tmp_path / "t.lance")
    made = lance_df.PartitionedNamespace.create(
        tmp_path / "n", ROWS.schema, [lance_df.partition.identity("g")]
    )
    made.append(ROWS)
    return lance_df.connect(tmp_path)


def test_tables_are_queried(ctx: lance_df.SessionContext) -> None:
    con = ibis.datafusion.connect(ctx)
    assert {"n", "t", "n$partitions"} <= set(con.list_tables())
    table = con.table("t")
    assert table.schema().to_pyarrow() == ROWS.schema
    dear = table.filter(table.fare > 100)
    by_group = dear.group_by("g").agg(n=dear.count(), most=dear.fare.max()).order_by("g").limit(2)
    assert by_group.to_pyarrow().to_pylist() == [
        {"g": 0, "n": 3, "most": 135.0},
        {"g": 1, "n": 3, "most": 135.5},
    ]
    assert con.sql("SELECT count(*) AS n FROM t").to_pyarrow().to_pylist() == [{"n": 300}]


def test_filters_prune_partitions(ctx: lance_df.SessionContext) -> None:
    con = ibis.datafusion.connect(ctx)
    table = con.table("n")
    query = table.filter(table.g == 7).select("id")
    assert sorted(query.to_pyarrow()["id"].to_pylist()) == list(range(7, 300, 30))
    report: Any = ctx.explain_scan(con.compile(query))
    assert (report.partitions.kept, report.partitions.total) == (1, 30)


def test_tables_are_made_and_dropped(ctx: lance_df.SessionContext, tmp_path: Path) -> None:
    con = ibis.datafusion.connect(ctx)
    con.create_table("few", con.table("t").limit(3))
    assert lance_df.dataset(tmp_path / "few.lance").count_rows() == 3
    con.drop_table("few")
    assert "few" not in con.list_tables()
