"""A folder of small tables, and the command line in this process."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from lance_df.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TRIPS = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "city": pa.array([None, "Zürich", "東京", ""] * 250),
        "fare": pa.array([Decimal("1.50"), None] * 500, pa.decimal128(9, 2)),
        "at": pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * 1000, pa.timestamp("us", "UTC")),
    }
)


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``trips.lance`` (three fragments and versions, rows deleted, an index) and ``empty.lance``."""
    folder = tmp_path_factory.mktemp("tables")
    trips = lance.write_dataset(TRIPS, folder / "trips.lance", max_rows_per_file=400)
    trips.delete("id >= 990")
    trips.create_scalar_index("id", "ZONEMAP")
    lance.write_dataset(TRIPS.schema.empty_table(), folder / "empty.lance")
    return folder


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command: returns exit code, stdout, stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
