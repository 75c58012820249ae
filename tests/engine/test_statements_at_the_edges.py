"""Statements whose names are words of SQL, that would write what cannot be read, and that do not run."""

from __future__ import annotations

import re
from pathlib import Path

import datafusion
import lance
import pyarrow as pa
import pytest

import lance_df
from tools.leftover_files import leftovers

pytestmark = pytest.mark.engine

RELEASE = int(datafusion.__version__.partition(".")[0])
MERGE = "MERGE INTO t USING (SELECT 1 AS id, 'x' AS j) AS s ON t.id = s.id "


def test_names_may_be_words_of_statements(tmp_path: Path) -> None:
    ctx = lance_df.connect(str(tmp_path))
    for statement, count in (
        ("CREATE TABLE t (id INT, comment VARCHAR, default INT, end INT)", 0),
        ('CREATE TABLE u (id INT, "end" INT, "limit" INT, "from" INT, "when" INT)', 0),
        ("INSERT INTO u VALUES (1, 1, 5, 7, 3)", 1),
        ("UPDATE u SET id = u.from + CASE WHEN u.end = 1 THEN 1 ELSE 0 END WHERE u.end = 1", 1),
        (
            "MERGE INTO u USING u AS s ON u.when = s.when AND u.from = 7 WHEN MATCHED THEN UPDATE SET id = 9",
            1,
        ),
        ("DELETE FROM u WHERE u.limit = 6", 0),
        ("ALTER TABLE u ADD COLUMN s STRUCT<a INT, b ARRAY<STRUCT<c INT, d INT>>>", 0),
        ("ALTER TABLE u ADD COLUMN comment INT", 0),
        ("DELETE FROM u WHERE id < 3 AND id > 1", 0),
        ("CREATE TABLE ÄB (É INT)", 0),
        ("INSERT INTO ÄB (É) VALUES (4)", 1),
        ("UPDATE ÄB SET É = 5", 1),
    ):
        assert ctx.sql(statement).to_pylist() == [{"count": count}], statement
    (row,) = ctx.sql("SELECT * FROM u").to_pylist()
    assert row == {"id": 9, "end": 1, "limit": 5, "from": 7, "when": 3, "s": None, "comment": None}
    assert ctx.sql("SELECT * FROM ÄB").to_pylist() == [{"É": 5}]
    assert ctx.sql("SELECT * FROM ÄB VERSION AS OF 2").to_pylist() == [{"É": 4}]
    for wrong in (
        "CREATE TABLE v (id INT DEFAULT 3)",
        "CREATE TABLE v (id INT, PRIMARY KEY (id))",
        "ALTER TABLE u ADD COLUMN x INT COMMENT 'y'",
        "ALTER TABLE u ADD COLUMN x INT, ADD COLUMN y INT",
    ):
        with pytest.raises(lance_df.UnsupportedFeatureError):
            ctx.sql(wrong)
    for wrong in (
        "DELETE FROM u WHERE (id = 1",
        "DELETE FROM u WHERE id = 1)",
        "DELETE FROM u WHERE CASE id",
    ):
        with pytest.raises(lance_df.InvalidInputError):
            ctx.sql(wrong)


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


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("WITH x AS (SELECT 1 AS id) DELETE FROM t WHERE id IN (SELECT id FROM x)", "WITH in its query"),
        ("WITH x (a, b) AS (SELECT 1, 2), y AS (SELECT 3) UPDATE t SET id = 1", "WITH in its query"),
        ("DELETE t WHERE id = 1", "DELETE FROM"),
        ("INSERT t VALUES (1)", "INSERT INTO"),
        ("MERGE t USING u ON t.id = u.id WHEN MATCHED THEN DELETE", "MERGE INTO"),
        ("TRUNCATE TABLE IF EXISTS t", "TRUNCATE TABLE of a table that exists"),
        ("ALTER TABLE IF EXISTS t ADD COLUMN x INT", "ALTER TABLE of a table that exists"),
        ("EXPLAIN DELETE FROM t", "explain_scan"),
        ("explain analyze verbose UPDATE t SET id = 1", "explain_scan"),
        ("PREPARE p AS DELETE FROM t WHERE id = $1", "param_values"),
        ("PREPARE p (INT) AS INSERT INTO t VALUES ($1)", "param_values"),
        ("DELETE FROM t VERSION AS OF 1 WHERE id = 1", "restore that version first"),
        ("UPDATE t SET id = CASE WHEN id IN (SELECT id FROM t) THEN 1 ELSE 2 END", "join its query"),
        ("INSERT INTO t VALUES ((SELECT 3))", "join its query"),
        ("SELECT id FROM t ORDER BY id IN (SELECT id FROM t)", "join its query"),
        ("SELECT 1 AS a INTO q", "CREATE TABLE … AS SELECT"),
        ("WITH x AS (SELECT 1 AS a) SELECT * INTO q FROM x", "CREATE TABLE … AS SELECT"),
        ("CREATE INDEX i ON t (id)", "create_scalar_index"),
        ("DROP INDEX i", "drop_index"),
        ("VACUUM t", "cleanup_old_versions"),
        ("OPTIMIZE t", "compact_files"),
        ("BEGIN", "PartitionedNamespace.transaction"),
        ("COMMIT", "PartitionedNamespace.transaction"),
        ("REPLACE INTO t VALUES (1)", "MERGE INTO"),
        ("INSERT OR REPLACE INTO t VALUES (1)", "MERGE INTO"),
        ("INSERT INTO t BY NAME SELECT 1 AS id", "INSERT INTO t (columns)"),
        ("RESTORE TABLE t TO VERSION AS OF 1", "LanceDataset.restore"),
        ("DESCRIBE HISTORY t", "LanceDataset.versions"),
        ("CREATE TEMP TABLE q (a INT)", "CREATE VIEW"),
        ("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')", "update_config"),
        ("ALTER TABLE t ADD COLUMNS (a INT, b INT)", "one ALTER TABLE"),
        ("ALTER TABLE t CLUSTER BY (id)", "SET PARTITION SPEC"),
        ("ALTER TABLE t ADD PARTITION FIELD year(d)", "SET PARTITION SPEC"),
    ],
)
def test_what_does_not_run_says_what_does(tmp_path: Path, statement: str, remedy: str) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql("CREATE TABLE t (id INT)")
    ctx.sql("; ; INSERT INTO t VALUES (1)")
    with pytest.raises(lance_df.UnsupportedFeatureError, match=re.escape(remedy)):
        ctx.sql(statement).collect()
    assert ctx.sql("SELECT * FROM t").to_pylist() == [{"id": 1}]
    assert [path.name for path in tmp_path.iterdir()] == ["t.lance"]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE tt ADD COLUMN x INT",
        "TRUNCATE TABLE tt",
        "DELETE FROM tt",
        "UPDATE tt SET id = 1",
        "INSERT INTO tt VALUES (1)",
        "MERGE INTO tt USING t ON t.id = tt.id WHEN MATCHED THEN DELETE",
        "SELECT * FROM tt VERSION AS OF 1",
        "SELECT * FROM tt",
    ],
)
def test_a_table_that_is_missing_is_called_missing(tmp_path: Path, statement: str) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql("CREATE TABLE t (id INT)")
    with pytest.raises(lance_df.DatasetNotFoundError, match=r"table .(lance\.public\.)?tt.* not found"):
        ctx.sql(statement).collect()


@pytest.mark.parametrize(
    "query",
    [
        'WITH deleted AS (SELECT 1 AS "delete") SELECT * FROM deleted',
        'EXPLAIN SELECT 1 AS "update"',
        "WITH x AS (SELECT 1 AS a) SELECT a AS merge FROM x WHERE 'drop table' <> ''",
        "PREPARE p AS SELECT 'insert'",
    ],
)
def test_queries_with_words_of_changes_are_queries(tmp_path: Path, query: str) -> None:
    lance_df.connect(str(tmp_path)).sql(query).collect()


def test_tables_of_a_new_schema_are_stored(tmp_path: Path) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql("CREATE SCHEMA z")
    assert ctx.sql("CREATE TABLE z.t AS SELECT 1 AS a").to_pylist() == [{"count": 1}]
    ctx.sql("INSERT INTO z.t VALUES (2)")
    ctx.sql("CREATE VIEW z.v AS SELECT a + 1 AS b FROM z.t")
    assert lance_df.dataset(tmp_path / "z" / "t.lance").to_table().to_pylist() == [{"a": 1}, {"a": 2}]
    other = lance_df.connect(str(tmp_path))
    for each in (ctx, other):
        assert each.sql("SELECT a FROM z.t ORDER BY a").to_pylist() == [{"a": 1}, {"a": 2}]
        with pytest.raises(lance_df.InvalidInputError, match="exists"):
            each.sql("CREATE SCHEMA z")
        each.sql("CREATE SCHEMA IF NOT EXISTS z")
        with pytest.raises(lance_df.InvalidInputError, match="stored tables t; drop these first"):
            each.sql("DROP SCHEMA z CASCADE")
    assert ctx.sql("SELECT sum(b) AS n FROM z.v").to_pylist() == [{"n": 5}]
    ctx.sql("DROP VIEW z.v")
    ctx.sql("DROP TABLE z.t")
    ctx.sql("DROP SCHEMA z")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(lance_df.DatasetNotFoundError):
        ctx.sql("SELECT * FROM z.t")
    with pytest.raises(lance_df.InvalidInputError, match="use CREATE SCHEMA to create it"):
        ctx.sql("CREATE TABLE z.t (a INT)")
    ctx.sql("CREATE SCHEMA z")


@pytest.mark.parametrize("name", ["a/b", "__manifest", "x*", "y$z"])
def test_names_of_schemas_are_those_of_folders(tmp_path: Path, name: str) -> None:
    ctx = lance_df.connect(str(tmp_path))
    with pytest.raises(lance_df.InvalidInputError, match="cannot be the name of a schema"):
        ctx.sql(f'CREATE SCHEMA "{name}"')
    assert list(tmp_path.iterdir()) == []


def test_a_table_is_no_schema(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": [1]}), tmp_path / "t")
    with pytest.raises(lance_df.InvalidInputError, match="already exists"):
        lance_df.connect(str(tmp_path)).sql("CREATE SCHEMA t")


def test_views_are_not_replaced_by_tables(tmp_path: Path) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql("CREATE VIEW v AS SELECT 1 AS a")
    ctx.register_record_batches("m", [pa.table({"a": [1]}).to_batches()])
    for name in ("v", "m"):
        with pytest.raises(lance_df.InvalidInputError, match="drop it before CREATE TABLE"):
            ctx.sql(f"CREATE OR REPLACE TABLE {name} AS SELECT 2 AS a")
        with pytest.raises(lance_df.InvalidInputError, match="exists"):
            ctx.sql(f"CREATE TABLE {name} AS SELECT 2 AS a")
        assert ctx.sql(f"SELECT * FROM {name}").to_pylist() == [{"a": 1}]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["", "PARTITIONED BY (id)"], ids=["table", "namespace"])
def test_clauses_about_rows_of_one_side_name_its_columns(tmp_path: Path, kind: str) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql(f"CREATE TABLE t (id BIGINT, j VARCHAR) {kind}")
    ctx.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    merge = "MERGE INTO t USING (SELECT 3 AS k, 'c' AS y) AS s ON t.id = s.k "
    for wrong in (
        "WHEN NOT MATCHED THEN INSERT VALUES (t.id, s.y)",
        "WHEN NOT MATCHED THEN INSERT VALUES (id, y)",
        "WHEN NOT MATCHED AND t.id = 2 THEN INSERT VALUES (k, y)",
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET j = s.y",
        "WHEN NOT MATCHED BY SOURCE AND k = 1 THEN DELETE",
    ):
        with pytest.raises(lance_df.ColumnNotFoundError):
            ctx.sql(merge + wrong)
    right = (
        "WHEN NOT MATCHED BY SOURCE AND id = 1 THEN UPDATE SET j = t.j || 'q' "
        "WHEN NOT MATCHED AND k = 3 THEN INSERT VALUES (k, s.y) WHEN MATCHED THEN UPDATE SET j = s.y || t.j"
    )
    assert ctx.sql(merge + right).to_pylist() == [{"count": 2}]
    rows = ctx.sql("SELECT * FROM t ORDER BY id").to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, "aq"), (2, "b"), (3, "c")]


@pytest.mark.parametrize("kind", ["", "PARTITIONED BY (id)"], ids=["table", "namespace"])
def test_clauses_about_rows_of_one_side_need_not_say_which(tmp_path: Path, kind: str) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql(f"CREATE TABLE t (id BIGINT, j VARCHAR) {kind}")
    ctx.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (5, 'z')")
    ctx.from_arrow(pa.table({"id": [2, 3, 4], "j": ["x", "c", "no"]}), "news")
    merged = ctx.sql("""
        MERGE INTO t USING news ON t.id = news.id
        WHEN NOT MATCHED AND j <> 'no' THEN INSERT (id, j) VALUES (id, upper(j))
        WHEN NOT MATCHED BY SOURCE AND id < 5 THEN UPDATE SET j = j || '!'
        WHEN NOT MATCHED BY SOURCE AND J = 'z' THEN DELETE
        WHEN MATCHED THEN UPDATE SET j = t.j || news.j
    """)
    assert merged.to_pylist() == [{"count": 4}]
    rows = ctx.sql("SELECT * FROM t ORDER BY id").to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, "a!"), (2, "bx"), (3, "C")]


def test_json_of_a_query_stays_json(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "j": pa.array(['{"a":1}', None], pa.json_())})
    lance_df.write_dataset(rows, tmp_path / "t.lance")
    lance_df.connect(str(tmp_path)).sql("CREATE TABLE u AS SELECT j, id + 1 AS n FROM t")
    for table in (lance_df.dataset(tmp_path / "u.lance"), lance.dataset(tmp_path / "u.lance")):
        assert table.to_table().equals(pa.table({"j": rows["j"], "n": [2, 3]}))


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT * FROM t VERSION AS OF -1", "InvalidInput", "a whole number or a tag in quotes, got -1"),
        ("SELECT * FROM t VERSION AS OF $1", "InvalidInput", "a whole number or a tag in quotes, got $1"),
        ("SELECT * FROM t VERSION AS OF", "InvalidInput", "got the end of the text"),
        ("SELECT * FROM t TIMESTAMP AS OF now()", "InvalidInput", "a time in quotes, got now()"),
        ("WITH q AS (SELECT 1) SELECT * FROM q VERSION AS OF 1", "InvalidInput", "no versions"),
        ('SELECT * FROM "n$partitions" VERSION AS OF 2', "DatasetNotFound", "have versions"),
        ("SELECT 1; SELECT 2", "UnsupportedFeature", "call it for each"),
        ("UPDATE t AS q SET t.a = 2", "InvalidInput", "SET must use the alias 'q'"),
    ],
)
def test_messages_say_what_is_needed(tmp_path: Path, query: str, error: str, message: str) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql("CREATE TABLE t (a INT)")
    ctx.sql("CREATE TABLE n (a INT) PARTITIONED BY (a)")
    with pytest.raises(getattr(lance_df, f"{error}Error"), match=re.escape(message)):
        ctx.sql(query)


def test_frames_say_how_they_are_written(tmp_path: Path) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql("CREATE TABLE t AS SELECT 1 AS a")
    with pytest.raises(lance_df.UnsupportedFeatureError, match="write_dataset"):
        ctx.sql("SELECT 2 AS a").write_table("t")
    with pytest.raises(lance_df.ColumnNotFoundError, match="nope, where a = 1"):
        lance_df.dataset(tmp_path / "t.lance").update({"a": "nope"}, where="a = 1")


def test_placeholders_may_stand_next_to_each_other(tmp_path: Path) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql("CREATE TABLE t AS SELECT * FROM (VALUES ($a,$b)) AS v(id, x)", a=1, b=2)
    # DataFusion 51 gives values that are placeholders no type
    rows = "VALUES ($1,$2)" if RELEASE >= 53 else "SELECT $1,$2"
    ctx.sql(f"INSERT INTO t {rows}", param_values={"1": 3, "2": 4})
    ctx.sql("INSERT INTO t SELECT $a,$b", a=5, b=6)
    ctx.sql("UPDATE t SET x=$a,id=$b WHERE id = 5", a=7, b=8)
    ctx.sql("DELETE FROM t WHERE id IN ($a,$b)", a=1, b=9)
    found = ctx.sql("SELECT id,x FROM t VERSION AS OF 5 ORDER BY id").to_pylist()
    assert [tuple(row.values()) for row in found] == [(3, 4), (8, 7)]
    quoted = ctx.sql("SELECT $$it's$$ AS a, $x$y's $$z$x$ AS b").to_pylist()
    assert quoted == [{"a": "it's", "b": "y's $$z"}]
    with pytest.raises(lance_df.InvalidInputError, match="read-only"):
        lance_df.connect(str(tmp_path), read_only=True).sql("INSERT INTO t VALUES ($a,$b)", a=1, b=2)


@pytest.mark.parametrize(
    "statement",
    ["COPY t TO '{}/x.parquet'", "CREATE SCHEMA s", "DROP SCHEMA s", "SELECT 1 AS a INTO q"],
)
def test_read_only_sessions_write_nothing(tmp_path: Path, statement: str) -> None:
    lance_df.connect(str(tmp_path)).sql("CREATE TABLE t (id INT)")
    ctx = lance_df.connect(str(tmp_path), read_only=True)
    with pytest.raises(lance_df.InvalidInputError, match="the session is read-only"):
        ctx.sql(statement.format(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["t.lance"]
    assert ctx.sql("SELECT 1 AS into, 'a into b' AS x").to_pylist() == [{"into": 1, "x": "a into b"}]


@pytest.mark.parametrize(
    "before",
    [
        *(
            ";",
            " ;; ",
            "\n\t;",
            "\u00a0;",
            "/* a */ ; -- b\n",
            "EXPLAIN ",
            "EXPLAIN ANALYZE ",
            ";EXPLAIN VERBOSE ",
        ),
        *(
            "EXPLAIN ANALYZE VERBOSE ",
            "explain\nanalyze/**/",
            "EXPLAIN (ANALYZE) ",
            "EXPLAIN EXPLAIN ANALYZE ",
        ),
        *("EXPLAIN FORMAT TREE ", "PREPARE p AS ", "PREPARE p (INT) AS ", "-- a\nEXPLAIN ANALYZE "),
    ],
)
@pytest.mark.parametrize(
    "statement", ["COPY (SELECT 1 AS a) TO '{}/x.csv'", "CREATE SCHEMA s", "DROP SCHEMA e", "DELETE FROM t"]
)
def test_read_only_sessions_write_nothing_whatever_comes_before(
    tmp_path: Path, before: str, statement: str
) -> None:
    (tmp_path / "e").mkdir()
    lance_df.connect(str(tmp_path)).sql("CREATE TABLE t (id INT)")
    ctx = lance_df.connect(str(tmp_path), read_only=True)
    with pytest.raises(lance_df.InvalidInputError, match="the session is read-only"):
        ctx.sql(before + statement.format(tmp_path)).collect()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e", "t.lance"]


def test_read_only_sessions_write_nothing_in_texts_that_are_not_understood(tmp_path: Path) -> None:
    ctx = lance_df.connect(str(tmp_path), read_only=True)
    for statement in ("SELECT 1; COPY (SELECT 1 AS a) TO '{}/x.csv'", "CREATE TABLE #t AS SELECT 1 AS a"):
        with pytest.raises(lance_df.LanceError):
            ctx.sql(statement.format(tmp_path)).collect()
    assert not list(tmp_path.iterdir())
    assert ctx.sql(";EXPLAIN SELECT 1 AS comment").to_pylist()
    assert ctx.sql(";SELECT 1 AS copy").to_pylist() == [{"copy": 1}]


@pytest.mark.parametrize(
    "text",
    [
        "t FOR VERSION AS OF 2",
        "t FOR SYSTEM_VERSION AS OF 2 AS x",
        "t VERSION AS\nOF 2",
        "t FOR SYSTEM_TIME AS OF '2100-01-01'",
        "t FOR TIMESTAMP AS OF TIMESTAMP '2100-01-01' x",
        "t TIMESTAMP AS OF TIMESTAMP '2100-01-01'",
    ],
)
def test_forms_of_time_travel(tmp_path: Path, text: str) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql("CREATE TABLE t (id INT)")
    ctx.sql("INSERT INTO t VALUES (1)")
    assert ctx.sql(f"SELECT id FROM {text}").to_pylist() == [{"id": 1}]


def test_another_spec_is_one_version(tmp_path: Path) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql("CREATE TABLE p (id INT, s VARCHAR) PARTITIONED BY (bucket(2, id))")
    ctx.sql("INSERT INTO p VALUES (1, 'a'), (2, 'b')")
    for number, spec in ((3, "bucket(4, id)"), (4, "s"), (5, "bucket(2, id)")):
        ctx.sql(f"ALTER TABLE p SET PARTITION SPEC ({spec})")
        namespace = lance_df.PartitionedNamespace.open(tmp_path / "p")
        assert namespace.version == number
        assert namespace.specs[-1].id == number - 1
        assert namespace.count_rows() == 2
        assert not leftovers(tmp_path / "p")
        lance.dataset(tmp_path / "p" / "__manifest").validate()


def test_namespaces_and_folders_with_files_are_not_dropped_as_schemas(tmp_path: Path) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql("CREATE TABLE n (a INT) PARTITIONED BY (a)")
    ctx.sql("CREATE TABLE history AS SELECT 1 AS a")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "read.me").write_text("kept")
    for name in ("n", "docs"):
        with pytest.raises(lance_df.InvalidInputError, match="cannot be dropped"):
            ctx.sql(f"DROP SCHEMA {name}")
    assert (tmp_path / "docs" / "read.me").exists()
    assert ctx.sql("DESCRIBE history").to_pylist()[0]["column_name"] == "a"


@pytest.mark.parametrize("string", ["E'{}'", "$${}$$", "$q${}$q$"])
def test_strings_of_every_form_may_hold_words_of_statements(tmp_path: Path, string: str) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql("CREATE TABLE t AS SELECT 1 AS id, 'x' AS a")
    words = {word: string.format(word) for word in ("from", "returning", "when", "limit")}
    ctx.sql(f"UPDATE t SET a = {words['from']} WHERE id = 1")
    ctx.sql(f"INSERT INTO t SELECT 2, {words['returning']}")
    ctx.sql(
        f"MERGE INTO t USING (SELECT 2 AS id) AS s ON t.id = s.id AND t.a <> {words['when']} "
        f"WHEN MATCHED THEN UPDATE SET a = {words['when']}"
    )
    ctx.sql(f"DELETE FROM t WHERE a = {words['limit']}")
    assert ctx.sql("SELECT a FROM t ORDER BY id").to_pylist() == [{"a": "from"}, {"a": "when"}]


def test_columns_may_have_the_names_of_types_with_parts(tmp_path: Path) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql('CREATE TABLE t AS SELECT 1 AS "array", 2 AS "map", 3 AS "struct"')
    for statement in (
        "UPDATE t SET map = 7 WHERE array < 3",
        "UPDATE t SET struct = 4 WHERE array < 3 AND map > 3",
        "DELETE FROM t WHERE map < 3",
    ):
        ctx.sql(statement)
    assert ctx.sql("SELECT * FROM t").to_pylist() == [{"array": 1, "map": 7, "struct": 4}]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE a$b (x INT)", "'a\\$b' cannot be the name of a stored table"),
        ("CREATE TABLE IF NOT EXISTS a$b AS SELECT 1 AS x", "'a\\$b' cannot be the name of a stored table"),
        ("CREATE TABLE a$$b (x INT)", "cannot be the name of a stored table"),
        ("CREATE TABLE 'q' (x INT)", 'use double quotes, as in "q"'),
        ("CREATE OR REPLACE TABLE 'q' AS SELECT 1 AS x", "use double quotes"),
        ("INSERT INTO 't' VALUES (2)", 'use double quotes, as in "t"'),
        ("DELETE 't'", "use DELETE FROM"),
        ("DELETE FROM 't' WHERE id = 1", "use double quotes"),
        ("UPDATE 't' SET id = 3", "use double quotes"),
        ("TRUNCATE TABLE 't'", "use double quotes"),
        ("DROP TABLE IF EXISTS 't'", "use double quotes"),
        ("ALTER TABLE 't' ADD COLUMN y INT", "use double quotes"),
        ("MERGE INTO 't' USING t AS s ON TRUE WHEN MATCHED THEN DELETE", "use double quotes"),
        ("CREATE OR ALTER TABLE q (x INT)", "use CREATE OR REPLACE TABLE"),
        ("CREATE TABLE #q (x INT)", "DDL not supported"),
        ("CREATE TABLE @q AS SELECT 1 AS x", "DDL not supported"),
        ("CREATE TABLE (x INT)", "Expected"),
        ("INSERT INTO n$o VALUES (1)", "not found"),
    ],
)
def test_statements_in_a_folder_make_nothing_in_memory(tmp_path: Path, statement: str, message: str) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.sql("CREATE TABLE t AS SELECT 1 AS id")
    with pytest.raises(lance_df.LanceError, match=message):
        ctx.sql(statement)
    assert ctx.catalog().schema().names() == {"t"}
    assert ctx.sql("SELECT * FROM t").to_pylist() == [{"id": 1}]
    assert [path.name for path in tmp_path.iterdir()] == ["t.lance"]


def test_tables_in_memory_may_have_any_name(tmp_path: Path) -> None:
    ctx = lance_df.connect(str(tmp_path))
    ctx.from_arrow(pa.table({"x": [1]}), name="a$b")
    ctx.from_arrow(pa.table({"x": [1]}), name="m")
    for name, count in (("a$b", 2), ("'m'", 2), ('"m"', 3)):
        ctx.sql(f"INSERT INTO {name} VALUES (2)").collect()
        assert ctx.sql(f"SELECT * FROM {name}").count() == count
    plain = lance_df.connect()
    plain.sql("CREATE TABLE 'q' (x INT)")
    plain.sql("CREATE TABLE a$b (x INT)")
    plain.sql("INSERT INTO 'q' VALUES (1)").collect()
    assert plain.sql("SELECT * FROM q").count() == 1
