"""What failed is let go of: the tables, the mapped files and the rows that a failed statement has read."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import CorruptDataError
from lance_df.table.table import Table

pytestmark = pytest.mark.engine

_FAILURES = 12
_RUNS: dict[str, Callable[[Path], object]] = {
    "filter": lambda path: lance_df.dataset(path).to_table(filter="s LIKE '%fox%'"),
    "batches": lambda path: list(lance_df.dataset(path).to_batches(filter="s LIKE '%fox%'")),
    "delete": lambda path: lance_df.dataset(path).delete("s LIKE '%fox%'"),
    "sql": lambda path: _sql(path, "SELECT * FROM t WHERE s LIKE '%fox%'").to_arrow_table(),
    "stream": lambda path: list(_sql(path, "SELECT * FROM t WHERE s LIKE '%fox%'").execute_stream()),
    "join": lambda path: _sql(path, "SELECT t.s FROM t JOIN t AS u ON t.s = u.s").collect(),
}


def _sql(path: Path, statement: str) -> lance_df.engine.LanceDataFrame:
    return lance_df.connect(str(path.parent)).sql(statement)


def _open_tables() -> int:
    gc.collect()
    return sum(isinstance(each, Table) for each in gc.get_objects())


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    path = tmp_path / "t.lance"
    rows = pa.table({"i": range(2000), "s": [f"text {i} fox" for i in range(2000)]})
    lance_df.write_dataset(rows, path, max_rows_per_file=1000)
    for file in (path / "data").iterdir():
        data = bytearray(file.read_bytes())
        data[: len(data) // 3] = b"\xff" * (len(data) // 3)
        file.write_bytes(data)
    return path


@pytest.mark.parametrize("run", _RUNS.values(), ids=_RUNS)
def test_failed_scans_let_go_of_their_tables(damaged: Path, run: Callable[[Path], object]) -> None:
    before = _open_tables()
    for _ in range(_FAILURES):
        with pytest.raises(CorruptDataError, match="column 's', page 0"):
            run(damaged)
    # threads of DataFusion end a little later than the statement
    deadline = monotonic() + 20
    while _open_tables() > before and monotonic() < deadline:
        sleep(0.1)
    assert _open_tables() <= before


def test_errors_say_where_in_a_scan_they_were_raised(damaged: Path) -> None:
    frame = _sql(damaged, "SELECT * FROM t WHERE s LIKE '%fox%'")
    for _ in range(2):
        with pytest.raises(CorruptDataError) as caught:
            frame.collect()
        shown = "".join(traceback.format_tb(caught.value.__traceback__))
        assert "in collect" in shown or "frame.collect()" in shown
        assert "file/v2/" in shown
