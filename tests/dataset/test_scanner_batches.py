"""Batches of a table end with fragments, as pylance's do; those of results do not have to."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_df

ROWS = pa.table({"a": range(100), "s": [f"é{number}" for number in range(100)]})


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.2"])
@pytest.mark.parametrize("options", [{}, {"batch_size": 7}, {"batch_size": 50}])
def test_batches_end_with_fragments(tmp_path: Path, version: str, options: dict[str, object]) -> None:
    lance.write_dataset(ROWS, tmp_path / "t", max_rows_per_file=10, data_storage_version=version)
    ours = list(lance_df.dataset(tmp_path / "t").to_batches(**options))
    theirs = list(lance.dataset(str(tmp_path / "t")).to_batches(**options))
    assert [batch.num_rows for batch in ours] == [batch.num_rows for batch in theirs]
    assert pa.Table.from_batches(ours).equals(pa.Table.from_batches(theirs))
    if not options:
        assert len(ours) == 10


def test_strict_sizes_and_tables_join_fragments(tmp_path: Path) -> None:
    table = lance_df.write_dataset(ROWS, tmp_path / "t", max_rows_per_file=10)
    strict = table.to_batches(batch_size=30, strict_batch_size=True)
    assert [batch.num_rows for batch in strict] == [30, 30, 30, 10]
    assert table.to_table()["a"].num_chunks == 1
    assert table.to_table().equals(pa.Table.from_batches(table.to_batches()))
