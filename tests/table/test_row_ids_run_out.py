"""Tables whose next row id leaves no ids for new rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from manifest_edits import edit_manifest

import lance_df
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = pa.table({"k": [2, 10, 11], "v": [20, 100, 110]})


def merge(data: lance_df.LanceDataset) -> None:
    data.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(ROWS)


def insert(data: lance_df.LanceDataset) -> None:
    data.insert(ROWS)


@pytest.mark.parametrize(("change", "num_new"), [(merge, 2), (insert, 3)])
@pytest.mark.parametrize("num_left", [0, 1, 3])
def test_the_last_row_ids(
    tmp_path: Path, change: Callable[[lance_df.LanceDataset], None], num_new: int, num_left: int
) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(pa.table({"k": [1, 2], "v": [1, 2]}), uri, enable_stable_row_ids=True)
    edit_manifest(uri, lambda manifest: setattr(manifest, "next_row_id", 2**64 - 1 - num_left))
    if num_new <= num_left:
        change(lance_df.dataset(uri))
        ids = lance_df.dataset(uri).to_table(with_row_id=True)["_rowid"].to_pylist()
        assert max(ids) == 2**64 - 2 - num_left + num_new
        return
    with pytest.raises(CorruptDataError, match=f"{num_new} new rows need row ids.*restore an older version"):
        change(lance_df.dataset(uri))
    data = lance_df.dataset(uri)
    assert data.version == 1
    assert data.to_table()["k"].to_pylist() == [1, 2]
    assert len(list(Path(uri, "data").iterdir())) == 1
