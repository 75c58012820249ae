"""Statements that write blob columns: binary values become blobs, and positions of blobs are not copied."""

from __future__ import annotations

import datafusion
import pyarrow as pa
import pytest

import lance_df
from lance_df.blob import blob_array, blob_field
from lance_df.errors import InvalidInputError, UnsupportedFeatureError

pytestmark = pytest.mark.engine

RELEASE = int(datafusion.__version__.partition(".")[0])
OLD_FIELD = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})


@pytest.fixture(params=["2.1", "2.2"])
def ctx(request, tmp_path):
    is_new = request.param == "2.2"
    blobs = blob_array([b"one", b"two"]) if is_new else pa.array([b"one", b"two"], pa.large_binary())
    schema = pa.schema([("id", pa.int64()), blob_field("b") if is_new else OLD_FIELD, ("s", pa.string())])
    rows = pa.table([pa.array([1, 2]), blobs, pa.array(["x", "y"])], schema=schema)
    for name in ("t", "u"):
        lance_df.write_dataset(rows, tmp_path / f"{name}.lance", data_storage_version=request.param)
    return lance_df.connect(tmp_path)


COPIES = [
    *(
        "b",
        "coalesce(b, b)",
        "CASE WHEN id = 1 THEN b END",
        "nullif(b, NULL)",
        "(SELECT max(b) FROM t)",
        "[b]",
    ),
    *("struct(b)", "array_agg(b) OVER ()", "max(b) OVER ()", "map([id], [b])", "[b][1]"),
]


@pytest.mark.parametrize("expression", COPIES)
def test_positions_are_not_copied(ctx, expression):
    for statement in (
        f"CREATE TABLE c AS SELECT id, {expression} AS b FROM t",
        f"INSERT INTO u SELECT id, {expression} AS b, s FROM t",
        f"MERGE INTO u USING (SELECT id, {expression} AS v FROM t) AS q ON u.id = q.id "
        "WHEN MATCHED THEN UPDATE SET b = q.v",
    ):
        with pytest.raises(UnsupportedFeatureError, match="column 'b' holds blobs"):
            ctx.sql(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE c AS SELECT max(b) AS b FROM t",
        "UPDATE u SET b = coalesce(b, b)",
        "UPDATE u SET b = t.b FROM t WHERE t.id = u.id",
        "MERGE INTO u USING t ON u.id = t.id WHEN MATCHED THEN UPDATE SET *",
        "MERGE INTO u USING t ON u.id = t.id WHEN NOT MATCHED THEN INSERT *",
        "MERGE INTO u USING t ON u.id = t.id WHEN MATCHED AND t.id = 1 THEN UPDATE SET b = NULL "
        "WHEN MATCHED THEN UPDATE SET s = 'z'",
    ],
)
def test_changes_with_positions(ctx, statement):
    with pytest.raises(UnsupportedFeatureError, match="column 'b' holds blobs"):
        ctx.sql(statement)


def test_blobs_within_structs(tmp_path):
    field = pa.field("st", pa.struct([pa.field("n", pa.int64()), blob_field("b")]))
    values = pa.StructArray.from_arrays([pa.array([1]), blob_array([b"one"])], fields=list(field.type))
    rows = pa.table([values], schema=pa.schema([field]))
    lance_df.write_dataset(rows, tmp_path / "t.lance", data_storage_version="2.2")
    ctx = lance_df.connect(tmp_path)
    for expression in ("st", "[st]", "st['b']"):
        with pytest.raises(UnsupportedFeatureError, match="column 'x' holds blobs"):
            ctx.sql(f"CREATE TABLE c AS SELECT {expression} AS x FROM t")


def test_sizes_and_structs_of_the_same_shape_are_copied(ctx):
    ctx.sql("CREATE TABLE c AS SELECT id, b['size'] AS size, b IS NULL AS is_null FROM t")
    assert ctx.sql("SELECT size, is_null FROM c").to_pydict() == {"size": [3, 3], "is_null": [False, False]}
    ctx.sql("UPDATE u SET s = CAST(b['size'] AS VARCHAR)")
    shape = "named_struct('position', CAST(1 AS BIGINT UNSIGNED), 'size', CAST(2 AS BIGINT UNSIGNED))"
    ctx.sql(f"CREATE TABLE d AS SELECT {shape} AS v")
    ctx.sql("CREATE TABLE e AS SELECT * FROM d")
    assert ctx.sql("SELECT v FROM e").to_pydict() == {"v": [{"position": 1, "size": 2}]}


def test_binary_values_become_blobs(ctx, tmp_path):
    ctx.sql("DELETE FROM u WHERE id = 2")
    ctx.sql("INSERT INTO u VALUES (3, X'6162', 'n'), (4, NULL, 'n')")
    if RELEASE >= 53:  # earlier releases lose the type of a parameter in VALUES
        ctx.sql("INSERT INTO u VALUES (5, $1, 'n')", param_values=[b"given"])
    else:
        ctx.sql("INSERT INTO u VALUES (5, X'676976656e', 'n')")
    ctx.sql("INSERT INTO u (id, b) SELECT 6, CAST(s AS BYTEA) FROM t WHERE id = 1")
    ctx.sql("UPDATE u SET b = X'00' WHERE id = 1")
    ctx.sql(
        "MERGE INTO u USING (VALUES (6, X'aa'), (7, X'bb')) AS q(id, b) ON u.id = q.id "
        "WHEN MATCHED THEN UPDATE SET b = q.b WHEN NOT MATCHED THEN INSERT (id, b) VALUES (q.id, q.b)"
    )
    rows = lance_df.dataset(tmp_path / "u.lance").scanner(blob_handling="all_binary").to_table()
    values = dict(zip(rows["id"].to_pylist(), rows["b"].to_pylist(), strict=True))
    assert values == {1: b"\0", 3: b"ab", 4: None, 5: b"given", 6: b"\xaa", 7: b"\xbb"}
    with pytest.raises(InvalidInputError, match=r"CAST|cast"):
        ctx.sql("INSERT INTO u VALUES (8, TRUE, 'n')")
