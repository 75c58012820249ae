"""INSERT, DELETE, UPDATE, TRUNCATE and MERGE of stored tables and partitioned namespaces."""

# ruff: noqa: E501 - statements

from __future__ import annotations

import contextlib
import shutil
import threading
from pathlib import Path

import datafusion
import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import (
    ColumnNotFoundError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    UnsupportedFeatureError,
)
from lance_df.table.changes import merged_rows

pytestmark = pytest.mark.engine

COLUMNS = "(id BIGINT NOT NULL, city VARCHAR, fare DOUBLE, small SMALLINT, at TIMESTAMP(6))"
ROWS = "(1, 'Oslo', 1.5, 1, '2023-05-01'), (2, 'Rome', 2.5, 2, '2024-05-01'), (3, NULL, NULL, NULL, NULL)"


class Store:
    """A session over a folder with the table ``t``, which may be a namespace."""

    def __init__(self, root: Path, partitioned: bool) -> None:
        self.root = root
        self.partitioned = partitioned
        self.ctx = lance_df.connect(root)

    def version(self) -> int:
        if self.partitioned:
            return lance_df.PartitionedNamespace.open(self.root / "t").version
        return lance_df.dataset(self.root / "t.lance").version

    def run(self, sql: str, **options) -> int:
        """Run a statement that makes one version, and return its count."""
        before = self.version()
        frame = self.ctx.sql(sql, **options)
        assert self.version() == before + 1
        assert frame.schema().field("count").type == pa.uint64()
        (row,) = frame.to_pylist()
        assert frame.to_pylist() == [row]
        assert self.version() == before + 1  # it is not run again
        self.check_foreign()
        return row["count"]

    def rows(self, columns: str = "id, city, fare") -> list[tuple]:
        return [
            tuple(row.values()) for row in self.ctx.sql(f"SELECT {columns} FROM t ORDER BY id").to_pylist()
        ]

    def check_foreign(self) -> None:
        """Compare what pylance reads."""
        ours = sorted(row[0] for row in self.rows("id"))
        if not self.partitioned:
            theirs = lance.dataset(str(self.root / "t.lance")).to_table().column("id").to_pylist()
        else:
            partitions = lance_df.PartitionedNamespace.open(self.root / "t").partitions().to_pylist()
            theirs = [
                value
                for each in partitions
                for value in lance.dataset(
                    str(self.root / "t" / each["location"]), version=each.get("read_version") or None
                )
                .to_table()
                .column("id")
                .to_pylist()
            ]
        assert sorted(theirs) == ours


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return folders with the table ``t``, by whether it is partitioned."""
    folders = {}
    for partitioned, by in ((False, ""), (True, " PARTITIONED BY (year(at), bucket(2, id))")):
        folders[partitioned] = tmp_path_factory.mktemp("written")
        ctx = lance_df.connect(folders[partitioned])
        ctx.sql(f"CREATE TABLE t {COLUMNS}{by}")
        ctx.sql(f"INSERT INTO t VALUES {ROWS}")
    return folders


@pytest.fixture
def new_store(tmp_path, written):
    """Return what makes a store of the test."""

    def new(*, partitioned: bool) -> Store:
        shutil.copytree(written[partitioned], tmp_path, dirs_exist_ok=True)
        return Store(tmp_path, partitioned)

    return new


@pytest.fixture(params=[False, True], ids=["table", "namespace"])
def store(request, new_store):
    return new_store(partitioned=request.param)


def refused(store: Store, sql: str, error: type[LanceError], match: str) -> None:
    before, rows = store.version(), store.rows()
    with pytest.raises(error, match=match):
        store.ctx.sql(sql)
    assert (store.version(), store.rows()) == (before, rows)


def test_insert(store):
    assert store.run("INSERT INTO t VALUES (4, 'Bern', 4, 4, '2025-01-01'), (5, NULL, NULL, NULL, NULL)") == 2
    assert store.run('INSERT INTO T (city, "id") SELECT city, id + 10 FROM t WHERE id < 3') == 2
    assert store.rows() == [
        (1, "Oslo", 1.5),
        (2, "Rome", 2.5),
        (3, None, None),
        (4, "Bern", 4.0),
        (5, None, None),
        (11, "Oslo", None),
        (12, "Rome", None),
    ]
    assert store.run("INSERT INTO t SELECT id + 100, city, fare, small, at FROM t") == 7
    assert (
        store.run("INSERT INTO t (id, fare) SELECT a.id + 1000, b.id FROM t a JOIN t b ON a.id = b.id") == 14
    )


def test_insert_keeps_the_order_of_its_query(tmp_path, new_store):
    store = new_store(partitioned=False)
    store.run("INSERT INTO t (id) SELECT id * 10 FROM t ORDER BY id DESC")
    assert lance.dataset(str(tmp_path / "t.lance")).to_table().column("id").to_pylist() == [
        1,
        2,
        3,
        30,
        20,
        10,
    ]


@pytest.mark.parametrize(
    ("sql", "error", "match"),
    [
        ("INSERT INTO t VALUES (1, 'a')", InvalidInputError, "5 columns .* returns 2"),
        ("INSERT INTO t (id, city) VALUES (1)", InvalidInputError, "2 columns .* returns 1"),
        ("INSERT INTO t (id, id) VALUES (1, 2)", InvalidInputError, "named twice"),
        ("INSERT INTO t (id, nothing) VALUES (1, 2)", ColumnNotFoundError, "nothing"),
        ("INSERT INTO t (id, small) VALUES (7, 70000)", InvalidInputError, "70000"),
        ("INSERT INTO t (id) VALUES ('x')", InvalidInputError, "'x'"),
        ("INSERT INTO t (id) VALUES (NULL)", InvalidInputError, "null"),
        ("INSERT INTO t (city) VALUES ('x')", InvalidInputError, "null"),
        ("INSERT INTO t (id) SELECT 1 / (id - 2) FROM t", InvalidInputError, "(?i)zero"),
        ("INSERT OVERWRITE t VALUES (1)", UnsupportedFeatureError, "overwrite_partitions"),
        ("INSERT INTO t (id) VALUES (1) ON CONFLICT DO NOTHING", UnsupportedFeatureError, "merge_insert"),
        ("INSERT INTO t (id) VALUES (1) RETURNING id", UnsupportedFeatureError, "RETURNING"),
        ("INSERT INTO t DEFAULT VALUES", UnsupportedFeatureError, "VALUES"),
        ("INSERT INTO t (id, city) VALUES (1, 'DEFAULT'), (2, default)", UnsupportedFeatureError, "NULL"),
        (
            "MERGE INTO t USING (SELECT 9 AS k) s ON id = k WHEN NOT MATCHED THEN INSERT (id) VALUES (DEFAULT)",
            UnsupportedFeatureError,
            "DEFAULT.* is not supported; use .*NULL",
        ),
        (
            "CREATE TABLE made AS SELECT avg(t.id) FROM t",
            InvalidInputError,
            "dot in its name; rename it, in SQL with AS",
        ),
        ("DELETE FROM t WHERE nothing = 1", ColumnNotFoundError, "nothing"),
        ("DELETE FROM t WHERE _rowaddr = 1", ColumnNotFoundError, "_rowaddr"),
        ("UPDATE t SET id = _ROWADDR", ColumnNotFoundError, "_rowaddr"),
        ("UPDATE t AS u SET id = 1 WHERE u._rowaddr = 1", ColumnNotFoundError, "_rowaddr"),
        (
            "MERGE INTO t USING (SELECT 1 AS k) s ON _rowaddr = k WHEN MATCHED THEN DELETE",
            ColumnNotFoundError,
            "_rowaddr",
        ),
        (
            "MERGE INTO t USING (SELECT 1 AS k) s ON id = k WHEN MATCHED THEN UPDATE SET id = t._rowaddr",
            ColumnNotFoundError,
            "_rowaddr",
        ),
        (
            "MERGE INTO t USING (SELECT 1 AS k) s ON id = k WHEN NOT MATCHED BY SOURCE AND _rowaddr > 5 THEN DELETE",
            ColumnNotFoundError,
            "_rowaddr",
        ),
        ("DELETE FROM t WHERE id = ", InvalidInputError, "missing|expected|Expected"),
        ("DELETE FROM t WHERE id > 1 LIMIT 1", UnsupportedFeatureError, "LIMIT"),
        ("DELETE FROM t USING t AS u WHERE t.id = u.id", UnsupportedFeatureError, "EXISTS"),
        ("UPDATE t SET nothing = 1", ColumnNotFoundError, "nothing"),
        ("UPDATE t SET id = nothing", ColumnNotFoundError, "nothing"),
        ("UPDATE t SET id = NULL WHERE id = 1", InvalidInputError, "null"),
        ("UPDATE t SET small = 70000", InvalidInputError, "70000"),
        ("UPDATE t SET small = 1, small = 2", InvalidInputError, "twice"),
        ("UPDATE t SET (id, small) = (1, 2)", UnsupportedFeatureError, "SET a ="),
        (
            "UPDATE t SET fare = s.k FROM (VALUES (1), (1)) AS s(k) WHERE t.id = s.k",
            InvalidInputError,
            "several",
        ),
        ("MERGE INTO t USING t AS s ON t.id = s.id", InvalidInputError, "WHEN"),
        (
            "MERGE INTO t USING (VALUES (1), (1)) AS s(k) ON id = k WHEN MATCHED THEN UPDATE SET fare = 1",
            InvalidInputError,
            "several",
        ),
        (
            "MERGE INTO t USING (VALUES (9)) AS s(k) ON id = k WHEN NOT MATCHED THEN INSERT (city) VALUES ('x')",
            InvalidInputError,
            "null",
        ),
        (
            "MERGE INTO t USING (VALUES (9)) AS s(k) ON id = k WHEN NOT MATCHED THEN INSERT VALUES (k)",
            InvalidInputError,
            "5 columns",
        ),
        ("MERGE INTO t USING (VALUES (9)) ON id = k WHEN MATCHED THEN DELETE", InvalidInputError, "alias"),
        (
            "MERGE INTO t USING (VALUES (9)) AS s(k) ON id = k WHEN MATCHED THEN UPDATE SET nothing = 1",
            ColumnNotFoundError,
            "nothing",
        ),
    ],
)
def test_wrong_statements_change_nothing(store, sql, error, match):
    refused(store, sql, error, match)


@pytest.mark.skipif(
    int(datafusion.__version__.partition(".")[0]) < 53, reason="errors are printed as Rust writes them"
)
@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t (id) VALUES ('x')",
        "DELETE FROM t WHERE nothing = 1",
        "DELETE FROM t WHERE rowaddr = 1",
        "UPDATE t SET id = nothing WHERE id = 1",
        "MERGE INTO t USING (VALUES (9)) AS s(k) ON id = k WHEN MATCHED THEN UPDATE SET city = nothing",
        "CREATE TABLE made AS SELECT nothing FROM t",
        "CREATE TABLE made (id NOTYPE)",
    ],
)
def test_errors_show_the_statement_and_nothing_internal(store, sql):
    with pytest.raises(lance_df.LanceError) as caught:
        store.ctx.sql(sql)
    message = str(caught.value)
    assert f"(in the statement: {sql})" in message
    assert "_row" not in message
    assert "__lance_df" not in message


def test_frames_do_not_write_to_stored_tables_by_write_table(store):
    with pytest.raises(UnsupportedFeatureError, match=r"does not support INSERT; use lance_df.write_dataset"):
        store.ctx.sql("SELECT * FROM t").write_table("t")


def test_delete(store):
    assert store.run("DELETE FROM t WHERE fare > 2") == 1
    assert store.run("DELETE FROM t AS x WHERE x.id IN (SELECT max(id) FROM t) AND x.at IS NULL") == 1
    assert store.rows() == [(1, "Oslo", 1.5)]
    assert store.ctx.sql("DELETE FROM t WHERE fare > 1000").to_pylist() == [{"count": 0}]
    assert store.ctx.sql("DELETE FROM t WHERE NULL").to_pylist() == [{"count": 0}]
    assert store.run("DELETE FROM t") == 1
    assert store.rows() == []


def test_columns_that_hold_addresses_are_none_of_the_table(store):
    """Sources may have columns of their names, and texts may be their names."""
    source = "(SELECT 1 AS _rowaddr)"
    assert store.run(f"UPDATE t SET fare = s._rowaddr FROM {source} s WHERE t.id = s._rowaddr") == 1
    assert store.run(f"MERGE INTO t USING {source} s ON t.id = s._rowaddr WHEN MATCHED THEN DELETE") == 1
    assert store.run("UPDATE t SET city = '_rowaddr' WHERE id IN (SELECT 2)") == 1
    assert store.run("DELETE FROM t WHERE city = '_rowaddr' AND id IN (SELECT 2)") == 1


def test_delete_with_correlated_subquery_and_parameters(store):
    store.ctx.sql("CREATE VIEW old AS SELECT id AS old_id FROM t WHERE at < '2024-01-01'")
    sql = "DELETE FROM t WHERE EXISTS (SELECT 1 FROM old WHERE old_id = t.id) AND id < $most"
    assert store.run(sql, param_values={"most": 100}) == 1
    assert [row[0] for row in store.rows()] == [2, 3]


def test_update_reads_old_values(store):
    assert (
        store.run("UPDATE t SET fare = id, id = CAST(fare * 2 AS BIGINT), at = '2025-01-01' WHERE id < 3")
        == 2
    )
    # two rows have the same id, in any order
    assert sorted(store.rows(), key=str) == [(3, "Oslo", 1.0), (3, None, None), (5, "Rome", 2.0)]
    assert (
        store.run("UPDATE t AS x SET city = (SELECT max(city) FROM t) WHERE x.city IS DISTINCT FROM 'Rome'")
        == 2
    )
    assert {row[1] for row in store.rows()} == {"Rome"}
    assert store.ctx.sql("UPDATE t SET fare = 0 WHERE id = 77").to_pylist() == [{"count": 0}]
    assert store.run("UPDATE t SET fare = CASE WHEN id > 3 THEN 1 ELSE 0 END -- all\n;") == 3


def test_update_from(store):
    sql = "UPDATE t SET fare = s.v, city = s.c FROM (VALUES (1, 9, 'x'), (8, 8, 'y')) AS s(k, v, c) WHERE t.id = s.k"
    assert store.run(sql) == 1
    assert store.rows()[0] == (1, "x", 9.0)


def test_truncate(store):
    assert store.run("TRUNCATE TABLE t") == 3
    assert store.rows() == []
    store.run("INSERT INTO t (id) VALUES (1)")
    assert store.run("TRUNCATE t") == 1


def test_merge(store):
    sql = """
        MERGE INTO t USING (SELECT * FROM (VALUES (1, 'gone'), (2, 'new'), (9, 'more'), (10, 'never')) AS v(k, c)) AS s
        ON t.id = s.k
        WHEN MATCHED AND s.c = 'gone' THEN DELETE
        WHEN MATCHED THEN UPDATE SET city = s.c, fare = t.fare + CASE WHEN t.id > 1 THEN 1 ELSE 0 END
        WHEN NOT MATCHED AND s.k > 9 THEN DO NOTHING
        WHEN NOT MATCHED THEN INSERT (city, id) VALUES (s.c, s.k)
        WHEN NOT MATCHED BY SOURCE AND t.city IS NULL THEN UPDATE SET city = 'alone'
    """
    assert store.run(sql) == 4
    assert store.rows() == [(2, "new", 3.5), (3, "alone", None), (9, "more", None)]


def test_merge_of_all_columns_and_a_stored_source(store):
    store.ctx.sql("CREATE TABLE news AS SELECT id + 1 AS id, 'n' AS city, 0.0 AS fare, 0 AS small, at FROM t")
    sql = "MERGE INTO t USING news ON news.id = t.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    assert store.run(sql) == 3
    assert store.rows() == [(1, "Oslo", 1.5), (2, "n", 0.0), (3, "n", 0.0), (4, "n", 0.0)]
    assert store.run("MERGE INTO t USING news n ON n.id = t.id WHEN NOT MATCHED BY SOURCE THEN DELETE") == 1
    assert [row[0] for row in store.rows()] == [2, 3, 4]
    assert store.run("MERGE INTO t x USING news n ON n.id = x.id AND x.id = 2 WHEN MATCHED THEN DELETE") == 1


def test_merge_into_an_empty_table(store):
    store.ctx.sql("TRUNCATE TABLE t")
    sql = (
        "MERGE INTO t USING (VALUES (1), (2)) AS s(k) ON id = k WHEN NOT MATCHED THEN INSERT (id) VALUES (k)"
    )
    assert store.run(sql) == 2
    assert [row[0] for row in store.rows()] == [1, 2]


def test_changes_follow_commits_of_others(store):
    if store.partitioned:
        other = lance_df.PartitionedNamespace.open(store.root / "t")
        other.append(pa.table({"id": pa.array([50], pa.int64())}))
    else:
        lance.dataset(str(store.root / "t.lance")).delete("id = 1")
    assert store.run("UPDATE t SET fare = 7") == (4 if store.partitioned else 2)
    assert {row[2] for row in store.rows()} == {7.0}


def test_concurrent_updates_are_all_made(tmp_path, new_store):
    store = new_store(partitioned=False)

    def work() -> None:
        ctx = lance_df.connect(tmp_path)
        for _ in range(5):
            ctx.sql("UPDATE t SET fare = coalesce(fare, 0) + 1")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row[2] for row in store.rows()] == [16.5, 17.5, 15.0]


def test_stable_row_ids_stay(tmp_path):
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "v": pa.array(range(10), pa.int64())})
    lance_df.write_dataset(rows, tmp_path / "t.lance", enable_stable_row_ids=True)
    before = lance_df.dataset(tmp_path / "t.lance").to_table(with_row_id=True).to_pylist()
    ctx = lance_df.connect(tmp_path)
    ctx.sql("UPDATE t SET v = 100 WHERE id % 2 = 0")
    sql = "MERGE INTO t USING (VALUES (1), (50)) AS s(k) ON id = k WHEN MATCHED THEN UPDATE SET v = 7"
    ctx.sql(sql + " WHEN NOT MATCHED THEN INSERT VALUES (k, 0)")
    after = lance_df.dataset(tmp_path / "t.lance").to_table(with_row_id=True).to_pylist()
    known = {row["id"]: row["_rowid"] for row in after}
    assert {row["id"]: row["_rowid"] for row in before}.items() <= known.items()
    assert lance.dataset(str(tmp_path / "t.lance")).count_rows() == 11


def test_names_that_need_quotes(tmp_path):
    ctx = lance_df.connect(tmp_path)
    ctx.sql('CREATE TABLE "Größe und Ähre" ("Trip id" BIGINT, "sélect" VARCHAR, "from" INT)')
    ctx.sql("""INSERT INTO "Größe und Ähre" ("sélect", "Trip id") VALUES ('it''s', 1), ('b;c', 2)""")
    ctx.sql(
        """UPDATE "Größe und Ähre" SET "from" = "Trip id" + 1, "sélect" = 'FROM' WHERE "sélect" = 'b;c'"""
    )
    ctx.sql("""DELETE FROM "Größe und Ähre" WHERE "Größe und Ähre"."sélect" LIKE 'it''%'""")
    assert ctx.sql('SELECT * FROM "Größe und Ähre"').to_pylist() == [
        {"Trip id": 2, "sélect": "FROM", "from": 3}
    ]
    with pytest.raises(ColumnNotFoundError):
        ctx.sql('DELETE FROM "Größe und Ähre" WHERE "Sélect" = 1')


def test_registered_tables_change_and_pinned_ones_do_not(tmp_path):
    path = tmp_path / "x.lance"
    lance_df.write_dataset(pa.table({"a": [1, 2]}), path)
    ctx = lance_df.enable(datafusion.SessionContext())
    lance_df.register(ctx, "x", path)
    lance_df.register(ctx, "old", path, version=1)
    assert ctx.sql("DELETE FROM x WHERE a IN (SELECT min(a) FROM old)").to_pylist() == [{"count": 1}]
    assert ctx.sql("SELECT a FROM x").to_pylist() == [{"a": 2}]
    with pytest.raises(InvalidInputError, match="version 1"):
        ctx.sql("DELETE FROM old")


def test_tables_in_memory_stay_those_of_datafusion(tmp_path):
    ctx = lance_df.SessionContext()
    ctx.sql("CREATE TABLE m (a INT)")
    assert ctx.sql("INSERT INTO m VALUES (1), (2)").to_pylist() == [{"count": 2}]
    assert ctx.sql("SELECT sum(a) AS s FROM m").to_pylist() == [{"s": 3}]
    ctx.sql("DROP TABLE m")
    with pytest.raises(DatasetNotFoundError):
        ctx.sql("SELECT * FROM m")


def test_parts_of_a_namespace_do_not_change(new_store):
    store = new_store(partitioned=True)
    with pytest.raises(UnsupportedFeatureError, match="namespace"):
        store.ctx.sql('DELETE FROM "t$partitions"')


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t (id) VALUES (1)",
        "DELETE FROM t",
        "UPDATE t SET fare = 1",
        "MERGE INTO t USING (VALUES (1)) AS s(k) ON id = k WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE t",
        "CREATE TABLE u AS SELECT 1 AS a",
        "CREATE OR REPLACE TABLE t (a INT)",
        "DROP TABLE t",
        "ALTER TABLE t DROP COLUMN fare",
        "/* first */ -- then\n delete from t",
    ],
)
def test_a_read_only_session_and_options_refuse_changes(store, sql):
    before = store.version()
    with pytest.raises(InvalidInputError, match="read-only"):
        lance_df.connect(store.root, read_only=True).sql(sql)
    options = datafusion.SQLOptions().with_allow_ddl(False).with_allow_dml(False)
    with pytest.raises(InvalidInputError, match="not supported"):
        store.ctx.sql(sql, options)
    with contextlib.suppress(InvalidInputError):
        store.ctx.explain_scan(sql)
    assert store.version() == before
    assert lance_df.connect(store.root, read_only=True).sql("SELECT id FROM t").count() == 3


def test_murmur3_in_changes(store):
    assert store.run("UPDATE t SET small = murmur3(id) % 7 WHERE murmur3(city) IS NOT NULL") == 2
    assert store.run("DELETE FROM t WHERE murmur3(id) = (SELECT murmur3(id) FROM t WHERE id = 1)") == 1


@pytest.mark.parametrize("theirs", ["merge", "merge_insert"])
def test_two_merges_of_a_new_key_insert_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: str
) -> None:
    """Whoever commits second computes the merge again, in which the key is there."""
    sql = (
        "MERGE INTO t USING (VALUES (7, {0}), (8, {0})) AS s(k, v) ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)"
    )
    ctx = lance_df.connect(tmp_path)
    ctx.sql("CREATE TABLE t (k BIGINT, v BIGINT)")
    ctx.sql("INSERT INTO t VALUES (1, 0)")
    written = merged_rows.rows_written
    calls = []

    def late(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            if theirs == "merge":
                lance_df.connect(tmp_path).sql(sql.format(1))
            else:
                merge = lance_df.dataset(tmp_path / "t.lance").merge_insert("k")
                merge.when_not_matched_insert_all().execute(pa.table({"k": [7, 8], "v": [1, 1]}))
        return written(*arguments)

    monkeypatch.setattr(merged_rows, "rows_written", late)
    assert ctx.sql(sql.format(2)).to_pylist() == [{"count": 2}]
    rows = ctx.sql("SELECT * FROM t ORDER BY k").to_pylist()
    assert rows == [{"k": 1, "v": 0}, {"k": 7, "v": 2}, {"k": 8, "v": 2}]
    assert len(calls) == (3 if theirs == "merge" else 2)
