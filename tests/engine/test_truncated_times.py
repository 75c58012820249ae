"""Conditions on truncated timestamps at the ends of what timestamps hold, where DataFusion wraps around."""

from __future__ import annotations

import datafusion
import pyarrow as pa
import pytest
from query_results import assert_same_result

import lance_df

pytestmark = pytest.mark.engine

_END = 2**63
_TICKS = [-_END, 1 - _END, 3 * 86_400 * 10**9 - _END, -1, 0, 10**15, _END - 2, _END - 1, None]


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
@pytest.mark.parametrize("transform", [lance_df.partition.identity, lance_df.partition.year, None])
def test_rows_at_the_ends(tmp_path, unit, transform):
    times = pa.array(_TICKS, pa.int64()).view(pa.timestamp(unit))
    rows = pa.table({"id": range(len(_TICKS)), "x": times})
    if transform is None:
        lance_df.write_dataset(rows, tmp_path / "t", max_rows_per_file=1)
    elif transform is lance_df.partition.year and unit != "ns":
        rows = rows.filter(pa.compute.is_in(rows["id"], pa.array([3, 4, 8])))
    if transform is not None:
        lance_df.PartitionedNamespace.create(tmp_path / "t", rows.schema, [transform("x")]).append(rows)
    memory, ours = datafusion.SessionContext(), lance_df.SessionContext()
    memory.from_arrow(rows, "t")
    lance_df.register(ours, "t", tmp_path / "t")
    for period in ("hour", "day"):
        for sign in (">=", ">", "=", "<"):
            for day in ("1970-01-01", "1677-09-22", "2262-04-11", "2024-05-01"):
                where = f"date_trunc('{period}', x) {sign} timestamp '{day}'"
                query = f"SELECT id FROM t WHERE {where} ORDER BY id"
                assert_same_result(ours.sql(query), memory.sql(query))
