"""Sessions over tables in memory: names, versions, views, parameters, errors, reports, threads."""

import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor

import datafusion
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest
from fake_table import sample_table

import lance_df
from lance_df.errors import (
    ColumnNotFoundError,
    CorruptDataError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    VersionNotFoundError,
)
from tests.engine.query_results import assert_same_result

pytestmark = pytest.mark.engine


@pytest.fixture(params=["session", "enabled", "plain"])
def ctx(request):
    if request.param == "session":
        return lance_df.SessionContext()
    plain = datafusion.SessionContext(datafusion.SessionConfig().with_information_schema(True))
    return lance_df.enable(plain) if request.param == "enabled" else plain


@pytest.fixture
def ours(sample):
    session = lance_df.SessionContext()
    lance_df.register(session, "t", sample)
    return session


def count(ctx, name="t"):
    return ctx.sql(f"SELECT count(*) AS n FROM {name}").to_pydict()["n"][0]


def test_new_versions_are_followed_unless_pinned(ctx, sample):
    lance_df.register(ctx, "t", sample)
    lance_df.register(ctx, "pinned", sample, version=1)
    assert (count(ctx), count(ctx, "pinned")) == (23, 23)
    sample.past.append(sample_table(40))
    assert (count(ctx), count(ctx, "pinned")) == (40, 23)


def test_an_object_at_an_old_version_stays_there(ctx, fake):
    past = [sample_table(5), sample_table(7)]
    lance_df.register(ctx, "old", fake(past, 1))
    lance_df.register(ctx, "new", fake(past))
    past.append(sample_table(9))
    assert (count(ctx, "old"), count(ctx, "new")) == (5, 9)


def test_a_dataset_object_is_its_table(ctx, sample):
    class Dataset:
        _table = sample

    lance_df.register(ctx, "t", Dataset())
    assert count(ctx) == 23
    with pytest.raises(InvalidInputError, match="int"):
        lance_df.register(ctx, "u", 5)


def test_registering_again_replaces(ctx, fake):
    lance_df.register(ctx, "t", fake([sample_table(5)]))
    lance_df.register(ctx, "t", fake([sample_table(6)]))
    assert count(ctx) == 6
    ctx.register_record_batches("m", [pa.table({"a": [1]}).to_batches()])
    lance_df.register(ctx, "m", fake([sample_table(8)]))
    assert count(ctx, "m") == 8


def test_other_tables_live_beside(ctx, sample):
    ctx.register_record_batches("before", [pa.table({"a": [1, 2]}).to_batches()])
    lance_df.register(ctx, "t", sample)
    ctx.register_record_batches("after", [pa.table({"a": [1, 2, 3]}).to_batches()])
    ctx.sql("CREATE TABLE made AS SELECT id FROM t WHERE id < 4")
    ctx.sql("CREATE VIEW seen AS SELECT id FROM t WHERE id < 6")
    assert [count(ctx, name) for name in ("before", "after", "made", "seen")] == [2, 3, 4, 6]
    shown = ctx.sql("SHOW TABLES").to_pydict()
    assert {"before", "after", "made", "seen", "t"} <= set(shown["table_name"])
    ctx.sql("DROP TABLE made")
    ctx.sql("DROP VIEW seen")
    ctx.deregister_table("t")
    for name in ("made", "seen", "t"):
        with pytest.raises(Exception, match=f"{name}.* not found"):
            ctx.sql(f"SELECT * FROM {name}")


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("Trips", "trips"),
        ('"Trips"', '"Trips"'),
        ('"my-table"', '"my-table"'),
        ("lake.trips", "lake.trips"),
        ('datafusion.lake."T.x"', 'lake."T.x"'),
    ],
)
def test_names_are_read_as_sql_reads_them(ctx, sample, name, query):
    lance_df.register(ctx, name, sample)
    assert count(ctx, query) == 23


@pytest.mark.parametrize("name", ["", "a.b.c.d", "my-table", "a b", "'t'", "a..b"])
def test_bad_names(ctx, sample, name):
    with pytest.raises(InvalidInputError, match="name"):
        lance_df.register(ctx, name, sample)


def test_registering_checks_the_source(ctx, tmp_path):
    with pytest.raises(DatasetNotFoundError, match="nothing_here"):
        lance_df.register(ctx, "t", tmp_path / "nothing_here")


def test_enabling_keeps_the_object_and_its_tables(sample):
    class Own(datafusion.SessionContext):
        def greet(self):
            return "hello"

    ctx = Own()
    ctx.register_record_batches("m", [pa.table({"a": [1]}).to_batches()])
    lance_df.register(ctx, "t", sample)
    enabled = lance_df.enable(ctx)
    assert enabled is ctx
    assert isinstance(ctx, Own)
    assert ctx.greet() == "hello"
    assert lance_df.enable(ctx) is ctx
    assert (count(ctx), count(ctx, "m")) == (23, 1)
    assert ids(ctx.sql("SELECT id FROM t WHERE murmur3(s) = murmur3('abc')")) == [1, 10, 19]


@pytest.mark.parametrize("make", [datafusion.SessionContext, lance_df.SessionContext], ids=["plain", "ours"])
@pytest.mark.parametrize(
    "config",
    [
        datafusion.SessionConfig().with_default_catalog_and_schema("my.own", "Default"),
        datafusion.SessionConfig().with_default_catalog_and_schema("datafusion", "other"),
        datafusion.SessionConfig().with_create_default_catalog_and_schema(False),
    ],
)
def test_bare_names_are_in_the_default_schema(sample, make, config):
    ctx = make(config)
    lance_df.register(ctx, "t", sample)
    lance_df.enable(ctx)
    assert count(ctx) == sample_table().num_rows
    assert ctx.sql("SELECT murmur3(1) AS h").to_pylist() == [{"h": 1392991556}]


def test_unknown_catalogs(sample, ctx):
    with pytest.raises(DatasetNotFoundError, match="catalog 'nowhere' does not exist"):
        lance_df.register(ctx, "nowhere.public.t", sample)


def test_one_version_for_all_scans_of_a_statement(ours, sample, monkeypatch):
    original = type(sample).latest

    def latest(table):
        found = original(table)
        sample.past.append(sample_table(found.data.num_rows + 1))
        return found

    monkeypatch.setattr(type(sample), "latest", latest)
    first, second = "(SELECT count(*) FROM t)", "(SELECT count(*) FROM public.t x)"
    query = f"SELECT {first} - {first} AS a, {second} - count(*) AS b FROM t"
    assert ours.sql(query).to_pylist() == [{"a": 0, "b": 0}]


def test_a_frame_stays_at_its_version(ours, sample):
    frame, table = ours.sql("SELECT count(*) AS n FROM t"), ours.table("t")
    sample.past.append(sample_table(40))
    assert frame.to_pydict() == {"n": [23]}
    assert table.count() == 23
    assert ours.table("t").count() == 40


def test_views_follow_new_versions(ours, sample):
    ours.sql("CREATE VIEW v AS SELECT id, murmur3(s) AS h FROM t WHERE s LIKE 'ab%'")
    ours.sql("CREATE OR REPLACE VIEW w AS SELECT count(*) AS n FROM v")
    before = ours.sql("SELECT n FROM w").to_pydict()["n"][0]
    sample.past.append(pa.concat_tables([sample.data, sample.data]))
    assert ours.sql("SELECT n FROM w").to_pydict()["n"] == [2 * before]
    assert ours.explain_scan("SELECT id FROM v").tables[0].reasons
    ours.sql("CREATE OR REPLACE VIEW v AS SELECT 1 AS id")
    assert ours.sql("SELECT n FROM w").to_pydict()["n"] == [1]
    ours.sql("DROP VIEW v")
    with pytest.raises(LanceError, match="v"):
        ours.sql("SELECT * FROM v")


def ids(frame):
    return sorted(row["id"] for row in frame.to_pylist())


def test_hints_of_joined_scans(ours):
    """Both scans of a self join share the table, so what prunes one must not prune the other."""
    query = "SELECT b.id FROM t a JOIN t b ON a.id + 1 = b.id WHERE a.s LIKE 'ab%' AND b.s LIKE 'z%'"
    memory = datafusion.SessionContext()
    memory.register_record_batches("t", [sample_table().to_batches()])
    assert_same_result(ours.sql(query), memory.sql(query))
    for query in (
        "SELECT id FROM t WHERE s LIKE 'zeb%' AND id > (SELECT min(id) FROM t)",
        "SELECT a.id FROM t a LEFT JOIN t b ON a.id = b.id AND b.s LIKE 'ab%' WHERE b.s IS NULL",
        "SELECT id FROM (SELECT * FROM t ORDER BY id LIMIT 5) WHERE s LIKE 'ab%'",
        "WITH c AS (SELECT id, s AS name FROM t) "
        "SELECT c.id FROM c JOIN c d ON c.id = d.id WHERE c.name LIKE 'ab%'",
        "SELECT id FROM t WHERE s LIKE 'ab%' UNION ALL SELECT id FROM t WHERE s LIKE 'z%'",
        "SELECT id FROM (SELECT id, s, row_number() OVER (ORDER BY id) AS r FROM t) "
        "WHERE s LIKE 'ab%' AND r > 1",
        "SELECT max(id) AS id FROM t GROUP BY s HAVING s LIKE 'ab%'",
        "SELECT id FROM t WHERE s LIKE 'ab%' AND id IN (SELECT id FROM t WHERE i = 1)",
        "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM t x WHERE x.id = t.id AND x.s LIKE 'ab%')",
        "SELECT x.id FROM (SELECT upper(s) AS s, id FROM t) x WHERE x.s LIKE 'AB%'",
        "SELECT id FROM (SELECT s AS ls, ls AS s, id FROM t) WHERE s LIKE 'y%'",
        "SELECT a.id FROM t a FULL JOIN t b ON a.id = b.id + 20 WHERE a.s LIKE 'a%' OR a.s IS NULL",
    ):
        assert_same_result(ours.sql(query), memory.sql(query))


def test_hidden_scans_switch_hints_off(ours, sample):
    sample.requests.clear()
    ours.sql("SELECT id FROM t WHERE s LIKE 'ab%' AND id = (SELECT max(id) FROM t)").collect()
    hints = [request.pruning_predicate for request in sample.requests if request.columns]
    assert all(hint is None or "s" not in str(hint) or "Or(" in str(hint) for hint in hints)


def test_frames_of_other_operations_prune_soundly(ours):
    frame = ours.sql("SELECT id, s FROM t WHERE s LIKE 'ab%'")
    assert type(frame.limit(1)).__name__ == "LanceDataFrame"
    assert isinstance(frame, datafusion.DataFrame)
    assert ids(frame.union(ours.sql("SELECT id, s FROM t WHERE s LIKE 'z%'"))) == sorted(
        row["id"] for row in sample_table().to_pylist() if row["s"] and row["s"].startswith(("ab", "z"))
    )
    assert ids(frame) == ids(frame)


def test_errors_of_statements(ours):
    with pytest.raises(ColumnNotFoundError, match="nope"):
        ours.sql("SELECT nope FROM t")
    with pytest.raises(DatasetNotFoundError, match="missing"):
        ours.sql("SELECT * FROM missing")
    with pytest.raises(InvalidInputError, match="SELEC id FROM t"):
        ours.sql("SELEC id FROM t")
    with pytest.raises(NotFoundError, match="missing"):
        ours.table("missing")
    with pytest.raises(InvalidInputError, match="…"):
        ours.sql("SELECT " + "x" * 1000 + "(")


def test_errors_of_scans_are_raised_as_themselves(ours, sample):
    error = sample.fail = CorruptDataError("data/'1'.lance: \"page\" 3 ends\\early")
    for run in ("collect", "to_pylist", "count", "to_arrow_table", "to_pandas", "show"):
        with pytest.raises(CorruptDataError) as caught:
            getattr(ours.sql("SELECT * FROM t").filter(datafusion.col("id") > 3), run)()
        assert (type(caught.value), str(caught.value)) == (CorruptDataError, str(error))
    with pytest.raises(CorruptDataError):
        ours.sql("SELECT * FROM t").union(ours.sql("SELECT * FROM t")).collect()
    with pytest.raises(Exception, match=r"(?i)divide ?by ?zero"):
        ours.sql("SELECT 1 / (count(*) - count(*)) FROM (VALUES (1))").collect()


def test_errors_of_opening(ours, sample):
    sample.past.clear()
    with pytest.raises((VersionNotFoundError, LanceError)):
        ours.sql("SELECT * FROM t")


def test_scan_report(ours):
    report = ours.explain_scan(
        "SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE a.i = 3 AND b.s LIKE 'ab%'"
    )
    assert isinstance(report, lance_df.ScanReport)
    assert len(report.tables) == 2
    assert report.fragments.total == 12
    assert report.pages.kept <= report.pages.total
    assert report.bytes.total == 96
    assert "memory://fake (version 1)" in str(report)
    assert "i = 3" in str(report)
    assert "<table>" in report._repr_html_()
    assert "&#x27;ab&#x27;" in report._repr_html_()
    assert str(ours.explain_scan("SELECT 1")) == "no Lance table is read"


def test_explaining_changes_nothing(ours):
    assert len(ours.explain_scan("CREATE TABLE x AS SELECT * FROM t").tables) == 1
    assert not ours.table_exist("x")


@pytest.mark.parametrize(
    "statement",
    [
        "SET datafusion.execution.batch_size = 5",
        "CREATE TABLE x (a INT)",
        "CREATE VIEW x AS SELECT * FROM t",
        "DROP TABLE t",
        "TRUNCATE t",
        "COPY t TO 'x.csv'",
        "-- a comment\nPREPARE p AS SELECT 1",
    ],
)
def test_statements_that_read_no_table_are_not_explained(ours, statement):
    with pytest.raises(InvalidInputError, match="explain_scan supports queries, INSERT, UPDATE and DELETE"):
        ours.explain_scan(statement)
    assert ours.table_exist("t")
    assert not ours.table_exist("x")


def test_changes_are_explained_by_what_they_read(ours):
    query = ours.explain_scan("SELECT 1 FROM t WHERE i = 3")
    for statement in (
        "DELETE FROM t WHERE i = 3",
        "DELETE FROM t AS x WHERE x.i = 3;",
        "UPDATE t SET i = i + 1 WHERE i = 3",
        "INSERT INTO t SELECT * FROM t WHERE i = 3",
    ):
        assert ours.explain_scan(statement).fragments == query.fragments
    assert ours.explain_scan("INSERT INTO t VALUES (1)").tables == ()
    with pytest.raises(InvalidInputError, match=r'SELECT \* FROM "t" AS "t" JOIN "t" AS "u" ON t.id = u.id$'):
        ours.explain_scan("MERGE INTO t USING t AS u ON t.id = u.id WHEN MATCHED THEN DELETE")


def test_report_sees_parameters(ours):
    report = ours.explain_scan("SELECT id FROM t WHERE i = $p", param_values={"p": 3})
    assert any("i = 3" in reason.conjunct for reason in report.tables[0].reasons)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.datetime64("2024-01-02"), dt.date(2024, 1, 2)),
        (np.datetime64("2024-02"), dt.date(2024, 2, 1)),
        (np.datetime64("2024-01-02T03"), dt.datetime(2024, 1, 2, 3)),
        (np.datetime64("2024-01-02T03:04:05.678"), dt.datetime(2024, 1, 2, 3, 4, 5, 678_000)),
        (np.datetime64("NaT"), None),
        (pd.NaT, None),
        (pd.NA, None),
    ],
)
def test_parameters_of_numpy_and_pandas(ours, value, expected):
    assert ours.sql("SELECT $p AS v", param_values={"p": value}).to_pydict() == {"v": [expected]}


def test_parameters_may_be_a_list(ours):
    query = "SELECT i FROM t WHERE i = $1 AND id > $2"
    expected = ours.sql(query, param_values={"1": 3, "2": -1}).to_pydict()
    assert ours.sql(query, param_values=[3, -1]).to_pydict() == expected
    assert ours.explain_scan(query, [3, -1]).tables == ours.explain_scan(query, {1: 3, 2: -1}).tables
    for wrong in ("x", 5):
        with pytest.raises(InvalidInputError, match="param_values must be a dict, or a list"):
            ours.sql(query, param_values=wrong)
    with pytest.raises(InvalidInputError, match=r"value of \$1, .*, cannot be converted to Arrow"):
        ours.sql(query, param_values=[np.datetime64(10, "ps"), 1])


def test_typed_hashes(ours):
    found = ours.sql(
        "SELECT murmur3(id), murmur3(cast(id AS int)) AS same, murmur3(s) AS s, murmur3(d) AS d, "
        "murmur3(f) AS f, murmur3(tz) AS tz, "
        "murmur3(u) AS u, murmur3(b) AS b, murmur3(dic) AS dic, murmur3_multi(id, s, day) AS m, "
        "murmur3(murmur3(s)) AS nested FROM t ORDER BY id"
    ).to_pydict()
    assert found["murmur3(t.id)"] == found["same"]
    assert found["s"][2] is None
    assert len(set(found["m"])) == 23
    assert found["nested"][2] is None
    query = (
        "SELECT count(*) AS n FROM t x WHERE EXISTS (SELECT 1 FROM t y WHERE murmur3(x.s) = murmur3(y.dic))"
    )
    assert ours.sql(query).to_pylist() == [{"n": 0}]
    with pytest.raises(InvalidInputError, match="murmur3"):
        ours.sql("SELECT murmur3(st) FROM t")
    for call in ("murmur3()", "murmur3(1, 2)", "murmur3_multi()"):
        with pytest.raises(InvalidInputError, match="argument"):
            ours.sql(f"SELECT {call} FROM t")


def test_statements_with_hashes_are_not_run_twice(ours):
    ours.sql("CREATE TABLE made AS SELECT murmur3(s) AS h FROM t")
    ours.sql("INSERT INTO made SELECT murmur3(day) FROM t WHERE id < 3").collect()
    assert count(ours, "made") == 26
    assert ours.sql("EXPLAIN SELECT murmur3(s) FROM t WHERE murmur3(s) > 5").collect()
    ours.sql("PREPARE p AS SELECT murmur3(s) AS h FROM t WHERE id = $1")
    assert (
        ours.sql("EXECUTE p(1)").to_pylist()
        == ours.sql("SELECT murmur3(s) AS h FROM t WHERE id = 1").to_pylist()
    )


def test_threads_share_a_session(ours):
    barrier = threading.Barrier(8)

    def run(number):
        barrier.wait()
        prefix = ["ab", "z", "A", "ap"][number % 4]
        query = f"SELECT id FROM t WHERE s LIKE '{prefix}%' AND murmur3(s) IS NOT NULL"
        found = [ids(ours.sql(query)) for _ in range(5)]
        expected = [row["id"] for row in sample_table().to_pylist() if (row["s"] or "").startswith(prefix)]
        return all(each == expected for each in found)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(8)))


def test_many_words_in_a_statement(ours):
    long_or = " OR ".join(f"i = {number}" for number in range(400))
    assert count_where(ours, long_or) == count_where(ours, "i >= 0 AND i < 400")
    many = ", ".join(map(str, range(5000)))
    assert count_where(ours, f"i IN ({many}) AND s LIKE '%'") == count_where(
        ours, "i >= 0 AND i < 5000 AND s IS NOT NULL"
    )


def count_where(ctx, condition):
    return ctx.sql(f"SELECT count(*) AS n FROM t WHERE {condition}").to_pydict()["n"][0]


def test_datasets_are_registered_as_they_are_elsewhere(tmp_path):
    rows = pa.table({"a": [1, 2, 3]})
    dataset = lance_df.write_dataset(rows, tmp_path / "t.lance")
    ctx = lance_df.connect()
    ctx.register_table("t", dataset)
    ctx.register_dataset("My Table", dataset)
    lance_df.write_dataset(rows, tmp_path / "t.lance", mode="append")
    for name in ("t", '"My Table"'):
        assert ctx.sql(f"SELECT count(*) AS n FROM {name} WHERE a IN (NULL, 1)").to_pydict() == {"n": [2]}
        assert len(ctx.explain_scan(f"SELECT a FROM {name}").tables) == 1


def test_names_of_a_folder_belong_to_its_tables(tmp_path):
    rows = pa.table({"a": [1]})
    lance_df.write_dataset(rows, tmp_path / "t.lance")
    session = lance_df.connect(tmp_path)
    for call in (
        lambda: session.deregister_table("t"),
        lambda: session.register_table("t", session.sql("SELECT 1").into_view()),
        lambda: session.register_dataset("t", pyarrow.dataset.dataset(rows)),
    ):
        with pytest.raises(InvalidInputError, match=r"^(a Lance table named )?'t' (already|is a table)"):
            call()
    session.deregister_table("nothing")
    assert session.sql("SELECT a FROM t").to_pylist() == [{"a": 1}]
