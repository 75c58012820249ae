"""Tables that processes read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import lance_df

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``small``, and with ``large``, of which a query takes a while."""
    folder = tmp_path_factory.mktemp("tables")
    rows = 1_000_000
    random = np.random.default_rng(0)
    texts = pa.array([f"key {number}" for number in range(5000)]).take(
        pa.array(random.integers(0, 5000, rows))
    )
    large = pa.table({"a": np.arange(rows), "b": random.random(rows), "s": texts})
    lance_df.write_dataset(large, folder / "large.lance", max_rows_per_file=100_000)
    lance_df.write_dataset(large.slice(0, 1000), folder / "small.lance")
    return folder
