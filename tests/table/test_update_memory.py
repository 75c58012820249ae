"""Updates of scattered rows keep little of the data files that they read in the memory of the process."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lance_df
from tests.storage.test_mapped_pages import resident_bytes

NUM_ROWS, NUM_COLUMNS = 200_000, 12


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are counted by Linux")
def test_pages_of_scattered_rows_are_given_back(tmp_path: Path) -> None:
    rows = pa.table({f"c{number}": np.arange(NUM_ROWS) + number for number in range(NUM_COLUMNS)})
    dataset = lance_df.write_dataset(rows, tmp_path / "t.lance", data_storage_version="2.0")
    [file] = (tmp_path / "t.lance" / "data").iterdir()
    size = file.stat().st_size
    dataset.update({"c1": "-1"}, where="c0 % 100 = 7")
    # what is left is of the condition, and of what was read while the last pages were released
    assert resident_bytes(file) < size // 2
    values = dataset.to_table().to_pydict()
    changed = [value for value in values["c0"] if value % 100 == 7]
    assert len(changed) == NUM_ROWS // 100
    for number in range(2, NUM_COLUMNS):
        assert values[f"c{number}"] == [value + number for value in values["c0"]]
    assert values["c1"] == [-1 if value % 100 == 7 else value + 1 for value in values["c0"]]
