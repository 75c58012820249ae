"""Results of a function that a call kept, which failed later, are those of the same rows only."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lance_df

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("change", ["nothing", "batch size", "rows"])
def test_a_call_that_is_repeated_after_a_change(tmp_path: Path, change: str) -> None:
    dataset = lance_df.write_dataset(pa.table({"x": range(30)}), tmp_path / "t", max_rows_per_file=10)
    computed: list[int] = []

    def function(fails_at: int) -> lance_df.BatchUDF:
        @lance_df.batch_udf(
            output_schema=pa.schema([("y", pa.int64())]), checkpoint_file=tmp_path / "checkpoint"
        )
        def negated(batch: pa.RecordBatch) -> pa.RecordBatch:
            values = batch.column("x").to_pylist()
            if fails_at in values:
                raise RuntimeError("stopped")
            computed.extend(values)
            return pa.record_batch({"y": [-value for value in values]})

        return negated

    with pytest.raises(RuntimeError, match="stopped"):
        dataset.add_columns(function(25), batch_size=4)
    computed.clear()
    if change == "rows":
        dataset.delete("x IN (0, 13)")
    dataset.add_columns(function(-1), batch_size=2 if change == "batch size" else 4)
    rows = dataset.to_table()
    assert rows["y"].to_pylist() == [-value for value in rows["x"].to_pylist()]
    assert (len(computed) < 15) == (change == "nothing")
    assert not (tmp_path / "checkpoint").exists()
