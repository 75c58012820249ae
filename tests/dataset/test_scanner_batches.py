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


@pytest.mark.parametrize(
    "options", [{}, {"limit": 3}, {"columns": []}, {"with_row_id": True}, {"filter": "a > 3"}]
)
def test_offsets_in_no_rows(tmp_path: Path, options: dict[str, object]) -> None:
    empty = lance_df.write_dataset(ROWS[:0], tmp_path / "empty")
    table = lance_df.write_dataset(ROWS, tmp_path / "t")
    for scanner in (empty.scanner(offset=1, **options), table.scanner(offset=1, fragments=[], **options)):
        assert scanner.to_table().num_rows == 0
    table.delete("true")
    assert table.to_table(offset=1, **options).num_rows == 0


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("named_struct('a', CAST(a AS string))", pa.struct([("a", pa.string())])),
        ("make_array(CAST(a AS string), s)", pa.list_(pa.string())),
        ("map(['k'], [CAST(a AS string)])", None),
    ],
)
def test_computed_columns_have_no_views_below(
    tmp_path: Path, expression: str, kind: pa.DataType | None
) -> None:
    table = lance_df.write_dataset(ROWS, tmp_path / "t")
    columns = {"a": "a", "k": expression}
    rows = table.to_table(columns)
    assert "view" not in str(rows.schema)
    assert kind is None or rows.schema.field("k").type == kind
    last = table.to_table(columns, order_by=["a"], limit=2, offset=98)
    assert last.equals(rows[98:])
