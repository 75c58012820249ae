"""Texts that have no bytes in UTF-8, and names with NUL, are refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import InvalidInputError

HALF, NUL = "a\ud800", "a\0b"
CALLS: dict[str, Callable[[lance_df.LanceDataset], object]] = {
    "config key": lambda table: table.update_config({HALF: "1"}),
    "config value": lambda table: table.update_config({"a": HALF}),
    "metadata": lambda table: table.update_metadata({"a": HALF}),
    "rename": lambda table: table.alter_columns({"path": "id", "name": HALF}),
    "rename nul": lambda table: table.alter_columns({"path": "id", "name": NUL}),
    "columns": lambda table: table.to_table(columns={NUL: "id"}),
    "half columns": lambda table: table.to_table(columns={HALF: "id"}),
    "add": lambda table: table.add_columns({NUL: "id + 1"}),
    "half add": lambda table: table.add_columns({HALF: "id + 1"}),
    "tag": lambda table: table.tags.create(HALF, 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_texts_that_cannot_be_stored(tmp_path: Path, name: str) -> None:
    table = lance_df.write_dataset(pa.table({"id": [1, 2]}), tmp_path / "t.lance")
    with pytest.raises(InvalidInputError):
        CALLS[name](table)
    again = lance_df.dataset(tmp_path / "t.lance")
    assert again.version == 1
    assert again.to_table().to_pydict() == {"id": [1, 2]}
