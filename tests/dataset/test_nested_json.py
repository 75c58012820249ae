"""JSON below structs, lists and maps is text, as pylance shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_df

TEXTS = pa.array(['{"a":1}', None, "[1,2]", '"t"', "null", "3"], pa.json_())
ENDS = [0, 2, 2, 3, 4, 5, 6]
NESTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "list": lambda each: pa.ListArray.from_arrays(pa.array(ENDS, pa.int32()), each),
    "large list": lambda each: pa.LargeListArray.from_arrays(pa.array(ENDS, pa.int64()), each),
    "list of structs": lambda each: pa.ListArray.from_arrays(
        pa.array(ENDS, pa.int32()), pa.StructArray.from_arrays([each, pa.array(range(6))], ["j", "n"])
    ),
    "struct of lists": lambda each: pa.StructArray.from_arrays(
        [pa.ListArray.from_arrays(pa.array(ENDS, pa.int32()), each)], ["l"]
    ),
    "map": lambda each: pa.MapArray.from_arrays(pa.array(ENDS, pa.int32()), pa.array(list("abcdef")), each),
}


@pytest.mark.parametrize("writer", [lance, lance_df], ids=lambda each: each.__name__)
@pytest.mark.parametrize("nest", NESTS)
def test_nested_json(tmp_path: Path, nest: str, writer: object) -> None:
    table = pa.table({"id": range(6), "x": NESTS[nest](TEXTS)})
    uri = str(tmp_path / "t.lance")
    writer.write_dataset(table, uri, data_storage_version="2.2")  # type: ignore[attr-defined]
    data = lance_df.dataset(uri)
    assert data.to_table() == lance.dataset(uri).to_table() == table
    assert data.schema.field("x").type == table.schema.field("x").type
    assert data.to_table(offset=2, limit=3).to_pylist() == table.slice(2, 3).to_pylist()
    assert data.take([5, 0, 3]).to_pylist() == table.take([5, 0, 3]).to_pylist()
    assert data.to_table(["x"], filter="id >= 2").to_pylist() == table.slice(2).select(["x"]).to_pylist()
    (data.merge_insert("id").when_matched_update_all().execute(table.slice(1, 2)))
    rows = lance_df.dataset(uri).to_table().sort_by("id")
    assert rows.to_pylist() == table.to_pylist()
