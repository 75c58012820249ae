"""CREATE, DROP and ALTER TABLE of a connected folder."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import (
    AlreadyExistsError,
    ColumnNotFoundError,
    CorruptDataError,
    DatasetNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)

pytestmark = pytest.mark.engine


@pytest.fixture
def ctx(tmp_path):
    return lance_df.connect(tmp_path)


def count(ctx, sql: str) -> int:
    (row,) = ctx.sql(sql).to_pylist()
    return row["count"]


def test_create_table_makes_a_stored_table(ctx, tmp_path):
    assert count(ctx, "CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR, c DECIMAL(10, 2), d DATE, e INT[])") == 0
    table = lance_df.dataset(tmp_path / "t.lance")
    assert table.version == 1
    assert table.schema.field("a") == pa.field("a", pa.int64(), nullable=False)
    assert [field.type for field in table.schema][1:4] == [pa.string(), pa.decimal128(10, 2), pa.date32()]
    assert lance.dataset(str(tmp_path / "t.lance")).count_rows() == 0
    assert ctx.sql("SELECT * FROM t").count() == 0
    with pytest.raises(AlreadyExistsError):
        ctx.sql("CREATE TABLE T (a INT)")
    assert count(ctx, "CREATE TABLE IF NOT EXISTS t (a INT)") == 0
    assert lance_df.dataset(tmp_path / "t.lance").version == 1


def test_times_have_the_zone_of_the_session(ctx, tmp_path):
    columns = "a TIMESTAMPTZ, b TIMESTAMP(3) WITH TIME  ZONE, c TIMESTAMP"
    ctx.sql(f"CREATE TABLE without ({columns})")
    ctx.sql("SET datafusion.execution.time_zone = 'Europe/Oslo'")
    ctx.sql(f"CREATE TABLE t ({columns})")
    ctx.sql("ALTER TABLE t ADD COLUMN d TIMESTAMP WITH TIME ZONE")
    ctx.sql("INSERT INTO t (a) VALUES ('2024-01-01T05:00:00+05:00')")
    zones = [field.type.tz for field in lance_df.dataset(tmp_path / "t.lance").schema]
    assert zones == ["Europe/Oslo", "Europe/Oslo", None, "Europe/Oslo"]
    assert [field.type.tz for field in lance_df.dataset(tmp_path / "without.lance").schema] == [None] * 3
    assert ctx.sql("SELECT CAST(a AS VARCHAR) AS a FROM t").to_pylist() == [
        {"a": "2024-01-01T01:00:00+01:00"}
    ]


def test_create_table_as(ctx, tmp_path):
    assert count(ctx, "CREATE TABLE t AS SELECT value AS a, 'x' AS b FROM range(10)") == 10
    assert lance.dataset(str(tmp_path / "t.lance")).to_table().column("a").to_pylist() == list(range(10))
    assert count(ctx, "CREATE OR REPLACE TABLE t AS SELECT a * 2 AS c FROM t WHERE a > 7") == 2
    table = lance_df.dataset(tmp_path / "t.lance")
    assert (table.version, table.to_table().to_pydict()) == (2, {"c": [16, 18]})
    assert table.checkout_version(1).count_rows() == 10
    with pytest.raises(InvalidInputError):
        ctx.sql("CREATE TABLE u AS SELECT 1 / (c - 16) AS x FROM t")
    assert not (tmp_path / "u.lance").exists()


def test_queries_that_begin_with_from_select_all(ctx, tmp_path):
    assert count(ctx, "CREATE TABLE t AS FROM range(4)") == 4
    assert count(ctx, "CREATE OR REPLACE TABLE t AS (FROM t WHERE value > 0)") == 3
    assert count(ctx, "INSERT INTO t FROM t UNION ALL FROM t") == 6
    ctx.sql("CREATE VIEW v AS WITH q AS (FROM t) FROM q")
    query = ctx.sql("FROM v ORDER BY value LIMIT 4")
    assert query.to_pydict() == {"value": [1, 1, 1, 2]}
    assert "t.lance" in str(ctx.explain_scan("FROM t WHERE value = 1"))
    for text in ("CREATE TABLE u AS SELECT FROM t", "CREATE OR REPLACE TABLE t AS SELECT FROM t"):
        with pytest.raises(InvalidInputError, match="no columns"):
            ctx.sql(text)
    assert not (tmp_path / "u.lance").exists()
    assert ctx.sql("FROM t").count() == 9


def test_partitioned_tables_are_namespaces(ctx, tmp_path):
    ctx.sql(
        "CREATE TABLE e (at TIMESTAMP, user BIGINT, city VARCHAR) "
        "PARTITIONED BY (year(at), bucket(4, user), truncate(2, city), identity city)"
    )
    namespace = lance_df.PartitionedNamespace.open(tmp_path / "e")
    assert [field.field_id for field in namespace.specs[0].fields] == [
        *("at_year", "user_bucket", "city_truncate", "city")
    ]
    sql = (
        "CREATE TABLE f PARTITIONED BY (city) AS SELECT value AS id, 'c' || (value % 3) AS city FROM range(9)"
    )
    assert count(ctx, sql) == 9
    assert lance_df.PartitionedNamespace.open(tmp_path / "f").partitions().num_rows == 3
    assert ctx.explain_scan("SELECT * FROM f WHERE city = 'c1'").partitions.kept == 1
    with pytest.raises(AlreadyExistsError):
        ctx.sql(sql)
    with pytest.raises(UnsupportedFeatureError, match="DROP TABLE"):
        ctx.sql("CREATE OR REPLACE TABLE f AS SELECT 1 AS a")
    for wrong in ("nothing(id)", "bucket(id)", "year(id, city)", "missing"):
        with pytest.raises((InvalidInputError, ColumnNotFoundError)):
            ctx.sql(f"CREATE TABLE g (id BIGINT, city VARCHAR) PARTITIONED BY ({wrong})")
    with pytest.raises(InvalidInputError):
        ctx.sql(
            "CREATE TABLE g PARTITIONED BY (city) AS SELECT 1 / (value - 1) AS id, 'a' AS city FROM range(3)"
        )
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize(
    ("sql", "match"),
    [
        ("CREATE TABLE t (a INT PRIMARY KEY)", "write_dataset"),
        ("CREATE TABLE t (a INT DEFAULT 4)", "write_dataset"),
        ("CREATE TABLE t (a INT) WITH (x = 1)", "write_dataset"),
        ("CREATE TABLE t (a INT) AS SELECT 1", "AS query"),
        ("ALTER TABLE s RENAME TO u", "rename the folder"),
        ("ALTER TABLE s ADD COLUMN c INT, ADD COLUMN d INT", "add_columns"),
        ("ALTER TABLE s ALTER COLUMN a TYPE BIGINT", "alter_columns"),
        ("DROP TABLE s, t", "each"),
    ],
)
def test_what_is_not_supported_names_what_is(ctx, sql, match):
    ctx.sql("CREATE TABLE s (a INT)")
    with pytest.raises(UnsupportedFeatureError, match=match):
        ctx.sql(sql)


@pytest.mark.parametrize("name", ["a/b", "../x", ".x", "_x", "a$b", "x.lance", "a\\b"])
def test_names_that_are_no_folders(ctx, name):
    with pytest.raises(InvalidInputError, match="name"):
        ctx.sql(f'CREATE TABLE "{name}" (a INT)')


def test_drop_table(ctx, tmp_path):
    ctx.sql("CREATE TABLE t (a INT)")
    ctx.sql("CREATE TABLE p (a INT, b INT) PARTITIONED BY (b)")
    for name in ("t", "p"):
        assert count(ctx, f"DROP TABLE {name}") == 0
        with pytest.raises(DatasetNotFoundError):
            ctx.sql(f"SELECT * FROM {name}")
        with pytest.raises(DatasetNotFoundError, match="not found"):
            ctx.sql(f"DROP TABLE {name}")
        assert count(ctx, f"DROP TABLE IF EXISTS {name}") == 0
    assert list(tmp_path.iterdir()) == []
    ctx.sql("CREATE TABLE t AS SELECT 5 AS other")
    assert ctx.sql("SELECT * FROM t").to_pylist() == [{"other": 5}]


def test_tables_of_subfolders(ctx, tmp_path):
    (tmp_path / "lake").mkdir()
    ctx.sql("CREATE TABLE lake.t AS SELECT 1 AS a")
    assert (tmp_path / "lake" / "t.lance").is_dir()
    ctx.sql("INSERT INTO lake.t VALUES (2)")
    assert ctx.sql("SELECT a FROM lake.t ORDER BY a").to_pydict() == {"a": [1, 2]}
    ctx.sql("DROP TABLE lake.t")
    assert not (tmp_path / "lake" / "t.lance").exists()


@pytest.mark.parametrize("folder", ["t", "t.lance"])
def test_what_is_half_dropped_is_no_table(tmp_path, folder):
    lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / folder)
    lance_df.write_dataset(pa.table({"a": [2]}), tmp_path / "other.lance")
    script = """
import os, shutil, sys, lance_df
shutil.rmtree = lambda path: os._exit(9)
lance_df.connect(sys.argv[1]).sql("DROP TABLE t")
"""
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, timeout=120)
    assert ended.returncode == 9
    session = lance_df.connect(tmp_path)
    listed = session.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    assert listed.to_pydict() == {"table_name": ["other"]}
    session.sql("CREATE TABLE t AS SELECT 3 AS a")
    assert session.sql("SELECT a FROM t").to_pydict() == {"a": [3]}


def test_what_links_lead_to_is_not_dropped(tmp_path):
    theirs = tmp_path / "theirs"
    lance_df.write_dataset({"a": [1]}, theirs / "deep" / "t.lance")
    (tmp_path / "real").mkdir()
    root = tmp_path / "root"
    root.symlink_to("real")
    (root / "lake").symlink_to("../theirs/deep")
    (root / "sea").symlink_to("../theirs")
    (root / "linked.lance").symlink_to("../theirs/deep/t.lance")
    ctx = lance_df.connect(root)
    for name in ("lake.t", '"sea/deep".t'):
        assert ctx.sql(f"SELECT a FROM {name}").to_pydict() == {"a": [1]}
        with pytest.raises(InvalidInputError, match="a symbolic link"):
            ctx.sql(f"DROP TABLE {name}")
    ctx.sql("DROP TABLE linked")
    assert not (root / "linked.lance").is_symlink()
    assert lance_df.dataset(theirs / "deep" / "t.lance").count_rows() == 1
    ctx.sql("CREATE TABLE own AS SELECT 1 AS a")
    ctx.sql("DROP TABLE own")
    assert not (root / "own.lance").exists()


def test_directories_make_their_own_tables(tmp_path):
    directory = lance_df.DirectoryNamespace(tmp_path)
    directory.create_table(["named"], pa.table({"a": [1]}))
    ctx = lance_df.connect(tmp_path)
    if (tmp_path / "__manifest").exists():
        with pytest.raises(UnsupportedFeatureError, match="create_table"):
            ctx.sql("CREATE TABLE t (a INT)")
        with pytest.raises(UnsupportedFeatureError, match="drop_table"):
            ctx.sql("DROP TABLE named")
    assert ctx.sql("INSERT INTO named VALUES (2)").to_pylist() == [{"count": 1}]
    assert ctx.sql("SELECT sum(a) AS s FROM named").to_pylist() == [{"s": 3}]


@pytest.mark.parametrize("by", ["", " PARTITIONED BY (b)"], ids=["table", "namespace"])
def test_alter_table(ctx, tmp_path, by):
    ctx.sql(f"CREATE TABLE t (a INT, b INT){by}")
    ctx.sql("INSERT INTO t VALUES (1, 1), (2, 2)")

    def version() -> int:
        if by:
            return lance_df.PartitionedNamespace.open(tmp_path / "t").version
        return lance_df.dataset(tmp_path / "t.lance").version

    for sql, names in (
        ("ALTER TABLE t ADD COLUMN c VARCHAR", ["a", "b", "c"]),
        ("ALTER TABLE t RENAME COLUMN c TO d", ["a", "b", "d"]),
        ('ALTER TABLE t ADD "E e" DOUBLE', ["a", "b", "d", "E e"]),
        ("ALTER TABLE t DROP COLUMN d", ["a", "b", "E e"]),
    ):
        before = version()
        ctx.sql(sql)
        assert version() == before + 1
        assert ctx.sql("SELECT * FROM t").schema().names == names
    before = version()
    ctx.sql("ALTER TABLE t DROP COLUMN IF EXISTS gone")
    ctx.sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT")
    assert version() == before
    with pytest.raises(ColumnNotFoundError):
        ctx.sql("ALTER TABLE t DROP COLUMN gone")
    with pytest.raises(InvalidInputError):
        ctx.sql("ALTER TABLE t ADD COLUMN a INT")
    if by:
        ctx.sql("ALTER TABLE t SET PARTITION SPEC (bucket(2, a))")
        assert len(lance_df.PartitionedNamespace.open(tmp_path / "t").specs) == 2
    else:
        with pytest.raises(InvalidInputError, match="PARTITIONED BY"):
            ctx.sql("ALTER TABLE t SET PARTITION SPEC (a)")
    ctx.sql("INSERT INTO t (a) VALUES (3)")
    assert ctx.sql("SELECT sum(a) AS s FROM t").to_pylist() == [{"s": 6}]


@pytest.mark.parametrize("partitions", ["", " PARTITIONED BY (a)"])
def test_quoted_names_mean_no_table_of_another_case(ctx, tmp_path, partitions):
    ctx.sql(f'CREATE TABLE "T" (a INT){partitions}')
    ctx.sql('INSERT INTO "T" VALUES (1)')
    for statement in (
        'DROP TABLE "t"',
        'DELETE FROM "t"',
        'UPDATE "t" SET a = 2',
        'INSERT INTO "t" VALUES (2)',
        'TRUNCATE TABLE "t"',
        'ALTER TABLE "t" ADD COLUMN b INT',
        'MERGE INTO "t" USING (SELECT 1 AS a) AS s ON "t".a = s.a WHEN MATCHED THEN DELETE',
    ):
        with pytest.raises(DatasetNotFoundError, match="did you mean 'T'"):
            ctx.sql(statement)
    assert count(ctx, 'DROP TABLE IF EXISTS "t"') == 0
    assert ctx.sql("SELECT a FROM t").to_pylist() == [{"a": 1}]

    count(ctx, f'CREATE TABLE IF NOT EXISTS "t" (a INT){partitions}')
    for name in ("t", "T", '"t"'):
        assert ctx.sql(f"SELECT a FROM {name}").to_pylist() == []
    assert count(ctx, "INSERT INTO T VALUES (5)") == 1
    assert count(ctx, 'UPDATE "T" SET a = 3') == 1
    assert ctx.sql("SELECT a FROM T").to_pylist() == [{"a": 5}]
    assert ctx.sql('SELECT a FROM "T"').to_pylist() == [{"a": 3}]
    with pytest.raises(AlreadyExistsError):
        ctx.sql('CREATE TABLE "t" (a INT)')
    if not partitions:
        assert count(ctx, 'CREATE OR REPLACE TABLE "t" AS SELECT 7 AS a') == 1
        assert ctx.sql('SELECT a FROM "T"').to_pylist() == [{"a": 3}]
    count(ctx, "DROP TABLE T")
    assert ctx.sql("SELECT a FROM T").to_pylist() == [{"a": 3}]
    assert len(list(tmp_path.iterdir())) == 1
    count(ctx, "DROP TABLE T")
    assert not list(tmp_path.iterdir())


def test_quoted_schemas_mean_no_folder_of_another_case(ctx, tmp_path):
    for folder in ("S", "S/U"):
        (tmp_path / folder).mkdir()
        lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / folder / "t.lance")
    for schema in ('"s"', '"s/u"'):
        for statement in (
            f"DROP TABLE {schema}.t",
            f"DELETE FROM {schema}.t",
            f"INSERT INTO {schema}.t VALUES (2)",
            f"CREATE TABLE {schema}.u (a INT)",
            f"CREATE OR REPLACE TABLE {schema}.t (a INT)",
        ):
            with pytest.raises(DatasetNotFoundError, match="schema 's"):
                ctx.sql(statement)
    assert ctx.sql("SELECT a FROM s.t").to_pylist() == [{"a": 1}]
    assert count(ctx, 'INSERT INTO "S".t VALUES (2)') == 1
    assert count(ctx, "DELETE FROM s.t") == 2
    assert count(ctx, 'DELETE FROM "S/U".t') == 1


def test_quoted_names_of_external_tables(ctx, tmp_path):
    ctx.sql('CREATE TABLE "T" AS SELECT 1 AS a')
    lance_df.write_dataset(pa.table({"a": [2]}), tmp_path / "sub" / "x.lance")
    external = "STORED AS LANCE LOCATION"
    ctx.sql(f"CREATE EXTERNAL TABLE \"t\" {external} '{tmp_path / 'sub' / 'x.lance'}'")
    assert ctx.sql("SELECT a FROM t").to_pylist() == [{"a": 2}]
    assert ctx.sql('SELECT a FROM "T"').to_pylist() == [{"a": 1}]


KILLED = """
import os, sys, lance_df
ctx = lance_df.connect(sys.argv[1])

def hook(event, arguments):
    if event in sys.argv[3].split() and ".manifest" in str(arguments):
        os._exit(9)

sys.addaudithook(hook)
ctx.sql(sys.argv[2])
"""


def killed(root: Path, statement: str, events: str = "open os.link os.rename") -> None:
    """Run a statement in a process that ends before the first version of a table is there."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(root), statement, events], check=False)
    assert done.returncode == 9


@pytest.mark.parametrize("is_again", ["", "IF NOT EXISTS "])
@pytest.mark.parametrize("by", ["", " PARTITIONED BY (a)"])
def test_tables_whose_making_was_killed_are_made_again(ctx, tmp_path, by, is_again):
    lance_df.write_dataset(pa.table({"x": [1]}), tmp_path / "s" / "inner.lance")
    killed(tmp_path, f"CREATE TABLE p{by} AS SELECT 1 AS a" if not by else f"CREATE TABLE p (a BIGINT){by}")
    assert next(tmp_path.glob("p*"), None) is not None
    assert ctx.sql("SELECT x FROM s.inner").to_pylist() == [{"x": 1}]
    assert "inner" in ctx.sql("SHOW TABLES").to_pydict()["table_name"]
    assert count(ctx, "DROP TABLE IF EXISTS other") == 0
    assert count(ctx, f"CREATE TABLE {is_again}p (a BIGINT){by}") == 0
    assert count(ctx, "INSERT INTO p VALUES (5)") == 1
    assert ctx.sql("SELECT a FROM p").to_pylist() == [{"a": 5}]
    with pytest.raises(AlreadyExistsError):
        ctx.sql(f"CREATE TABLE p (a BIGINT){by}")
    assert count(ctx, "DROP TABLE p") == 0


def test_an_empty_folder_may_become_a_namespace(ctx, tmp_path):
    (tmp_path / "e").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    assert count(ctx, "CREATE TABLE e PARTITIONED BY (a) AS SELECT 1 AS a") == 1
    with pytest.raises(AlreadyExistsError, match="folder already exists"):
        ctx.sql("CREATE TABLE full PARTITIONED BY (a) AS SELECT 1 AS a")
    assert [each.name for each in (tmp_path / "full").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("content", [b"", b"half", bytes(100)], ids=["empty", "cut off", "zeros"])
def test_a_damaged_namespace_is_alone(ctx, tmp_path, content):
    one = pa.table({"a": [1]})
    lance_df.write_dataset(one, tmp_path / "good.lance")
    lance_df.write_dataset(one, tmp_path / "s" / "inner.lance")
    lance_df.PartitionedNamespace.create(tmp_path / "p", one.schema, ["a"]).append(one)
    for manifest in (tmp_path / "p" / "__manifest" / "_versions").iterdir():
        manifest.write_bytes(content)
    for name in ("good", "s.inner"):
        assert ctx.sql(f"SELECT a FROM {name}").to_pylist() == [{"a": 1}]
    assert {"good", "inner", "p"} <= set(ctx.sql("SHOW TABLES").to_pydict()["table_name"])
    assert count(ctx, "DROP TABLE IF EXISTS other") == 0
    with pytest.raises(CorruptDataError, match="manifest"):
        ctx.sql("SELECT a FROM p")
    with pytest.raises(AlreadyExistsError):
        ctx.sql("CREATE TABLE p (a INT)")
    assert count(ctx, "DROP TABLE p") == 0
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("by", ["", " PARTITIONED BY (a)"])
def test_several_sessions_make_a_table_if_it_is_not_there(tmp_path, by):
    barrier = threading.Barrier(6)

    def make(number: int) -> int:
        session = lance_df.connect(tmp_path)
        barrier.wait()
        return count(session, f"CREATE TABLE IF NOT EXISTS t{by} AS SELECT {number} AS a")

    with ThreadPoolExecutor(6) as threads:
        counts = list(threads.map(make, range(6)))
    assert sorted(counts) == [0, 0, 0, 0, 0, 1]
    (row,) = lance_df.connect(tmp_path).sql("SELECT a FROM t").to_pylist()
    assert counts[row["a"]] == 1


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO nosuch.x VALUES (1)",
        "DELETE FROM nosuch.x",
        "UPDATE nosuch.x SET a = 1",
        "TRUNCATE nosuch.x",
        "ALTER TABLE nosuch.x ADD COLUMN z INT",
        "MERGE INTO nosuch.x USING (SELECT 1 AS a) s ON x.a = s.a WHEN MATCHED THEN DELETE",
        "INSERT INTO cat.nosuch.x VALUES (1)",
    ],
)
def test_changes_of_schemas_that_are_not_there(ctx, statement):
    with pytest.raises(DatasetNotFoundError, match=r"nosuch\.x' not found"):
        ctx.sql(statement)


@pytest.mark.parametrize(
    "column",
    [
        *("a INT AUTO_INCREMENT", "a INT IDENTITY(1, 1)", "a INT ON UPDATE now()", "a INT INVISIBLE"),
        *("a INT OPTIONS (description = 'x')", "a INT AUTOINCREMENT"),
    ],
)
def test_what_columns_do_not_have_is_refused(ctx, tmp_path, column):
    with pytest.raises(UnsupportedFeatureError, match="of a column is not supported"):
        ctx.sql(f"CREATE TABLE t ({column})")
    ctx.sql("CREATE TABLE t (options INT, identity INT, s STRUCT<invisible INT>)")
    with pytest.raises(UnsupportedFeatureError, match="of a column is not supported"):
        ctx.sql(f"ALTER TABLE t ADD COLUMN {column}")
    with pytest.raises(InvalidInputError, match="IF NOT EXISTS cannot be combined"):
        ctx.sql("CREATE OR REPLACE TABLE IF NOT EXISTS t AS SELECT 1 AS b")
