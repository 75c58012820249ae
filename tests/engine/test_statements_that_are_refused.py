"""Statements that would write what cannot be read, or something else than they say."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_df

pytestmark = pytest.mark.engine

MERGE = "MERGE INTO t USING (SELECT 1 AS id, 'x' AS j) AS s ON t.id = s.id "


@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_json_is_not_written_as_text(tmp_path: Path, kind: str) -> None:
    rows = pa.table({"id": [1], "j": pa.array(['{"a": 1}'], pa.json_())})
    if kind == "table":
        lance_df.write_dataset(rows, tmp_path / "t.lance")
    else:
        lance_df.PartitionedNamespace.create(tmp_path / "t", rows.schema, ["id"]).append(rows)
    ctx = lance_df.connect(str(tmp_path))
    for statement in (
        """INSERT INTO t VALUES (2, '{"b": 2}')""",
        """INSERT INTO t (j) VALUES ('not json')""",
        """UPDATE t SET j = '{"c": 3}'""",
        MERGE + "WHEN MATCHED THEN UPDATE SET j = s.j",
        MERGE + "WHEN NOT MATCHED THEN INSERT *",
    ):
        with pytest.raises(lance_df.UnsupportedFeatureError, match="column 'j' holds JSON"):
            ctx.sql(statement)
    assert ctx.sql("INSERT INTO t (id) VALUES (7)").to_pylist() == [{"count": 1}]
    assert ctx.sql("UPDATE t SET id = 8 WHERE id = 1").to_pylist() == [{"count": 1}]
    assert ctx.sql("DELETE FROM t WHERE id = 7").to_pylist() == [{"count": 1}]
    if kind == "table":
        assert lance_df.dataset(tmp_path / "t.lance").to_table().to_pylist() == [{"id": 8, "j": '{"a":1}'}]


def test_conditions_of_clauses_are_the_same_for_all_columns(tmp_path: Path) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql("CREATE TABLE t AS SELECT value AS id, 1 AS a FROM generate_series(1, 100)")
    merge = "MERGE INTO t USING (SELECT value AS id{} FROM generate_series(1, 200)) AS s ON t.id = s.id "
    with pytest.raises(lance_df.UnsupportedFeatureError, match="column of the source"):
        ctx.sql(merge.format("") + "WHEN MATCHED AND random() < 0.5 THEN UPDATE SET a = 2")
    ctx.sql(
        merge.format(", random() AS r")
        + "WHEN MATCHED AND s.r < 0.5 THEN UPDATE SET a = 2 "
        + "WHEN NOT MATCHED AND s.r < 0.5 THEN INSERT (id, a) VALUES (s.id, 3)"
    )
    rows = ctx.sql("SELECT a, id FROM t").to_pylist()
    assert {row["a"] for row in rows} == {1, 2, 3}
    assert all(row["id"] is not None for row in rows)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_maps_that_are_missing_are_null(tmp_path: Path, version: str) -> None:
    maps, folder = pa.map_(pa.string(), pa.int32()), str(tmp_path / "t.lance")
    stored = pa.struct([("m", maps)])
    if version != "2.2":
        stored = maps = pa.struct([("x", pa.int32())])  # which has no maps
    rows = pa.table({"id": [1], "m": pa.array([None], maps), "s": pa.array([None], stored)})
    lance.write_dataset(rows, folder, data_storage_version=version)
    lance.write_dataset(pa.table({"id": [2]}), folder, mode="append")
    dataset = lance_df.dataset(folder)
    assert dataset.to_table().equals(lance.dataset(folder).to_table())
    dataset.add_columns(pa.schema([("x", maps)]))
    assert dataset.to_table()["x"].null_count == 2
    dataset.optimize.compact_files()
    assert dataset.to_table().equals(lance.dataset(folder).to_table())
    dataset.to_table().validate(full=True)
