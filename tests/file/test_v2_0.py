"""2.0 files that pylance wrote, read by both."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from column_cases import assert_same, selected, selections, table_with_nulls, table_without_nulls

from lance_df.file.open import open_file
from lance_df.storage import open_location


def open_only_file(root):
    (path,) = (root / "data").iterdir()
    return open_file(open_location(path).open())


@pytest.mark.parametrize("num_rows", [1, 5, 1000])
@pytest.mark.parametrize("make", [table_without_nulls, table_with_nulls])
def test_every_type_and_selection(tmp_path, make, num_rows) -> None:
    expected = lance.write_dataset(make(num_rows), tmp_path / "t", data_storage_version="2.0").to_table()
    reader = open_only_file(tmp_path / "t")
    assert (reader.version, reader.num_rows) == ("2.0", num_rows)
    assert reader.schema.names == expected.schema.names
    for rows in selections(num_rows):
        found = reader.read(reader.schema.fields, rows)
        for name, array in zip(expected.schema.names, found, strict=True):
            assert_same(array, selected(expected[name], rows))
