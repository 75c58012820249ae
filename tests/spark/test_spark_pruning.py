"""Queries that pass their conditions and columns on: equal to those that do not, and reading less."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import lance_df
from lance_df.spark.pruning import pruned
from tools.spark_queries import collected, compare, make_sources, scans_of

pytestmark = pytest.mark.spark

EVENTS = pa.table(
    {
        "ts": [dt.datetime(2024, 1 + i % 12, 1 + i % 28) for i in range(1200)],
        "user": pa.array([i % 50 for i in range(1200)], pa.int64()),
        "amount": pa.array([float(i) for i in range(1200)], pa.float64()),
        "text": [f"some text of event {i * 7919 % 1009}" for i in range(1200)],
    }
)
USERS = pa.table({"id": pa.array(range(50), pa.int64()), "country": [f"c{i % 25}" for i in range(50)]})


@pytest.fixture
def sources(spark, tmp_path):
    events = lance_df.PartitionedNamespace.create(tmp_path / "events", EVENTS.schema, ["month(ts)"])
    events.append(EVENTS)
    lance_df.write_dataset(USERS, tmp_path / "users")
    by_user = lance_df.PartitionedNamespace.create(tmp_path / "by_user", EVENTS.schema, ["identity(user)"])
    by_user.append(EVENTS)
    for name in ("events", "users", "by_user"):
        spark.read.format("lance_df").load(str(tmp_path / name)).createOrReplaceTempView(name)
    yield tmp_path
    for name in ("events", "users", "by_user"):
        spark.catalog.dropTempView(name)


@pytest.fixture
def with_keys(monkeypatch):
    """Make small tables large enough for the keys of joins to be asked for."""
    monkeypatch.setattr(pruned, "MIN_BYTES", 1)
    monkeypatch.setattr(pruned, "_TIMES_AS_LARGE", 0.001)


def pruned_as(spark, query):
    """Return a pruned query, whose rows are those of the query as it is."""
    df = spark.sql(query)
    less = lance_df.spark.prune(df)
    assert collected(less) == collected(df)
    assert less.schema == df.schema
    return less


def test_bytes_and_partitions_are_those_that_a_query_needs(spark, sources):
    query = "SELECT user, sum(amount) AS s FROM events WHERE month(ts) = 3 AND user < 10 GROUP BY user"
    less = pruned_as(spark, query)
    before, after = lance_df.spark.explain_scan(spark.sql(query)), lance_df.spark.explain_scan(less)
    assert (before.partitions.kept, after.partitions.kept, after.partitions.total) == (12, 1, 12)
    assert 0 < after.bytes.kept < before.bytes.kept / 12
    (scan,) = scans_of(less)
    assert scan["columns"] == '["ts", "user", "amount"]'


def test_rows_that_commands_and_caches_have_and_texts_like_plans_do_not_matter(spark, sources):
    spark.sql("SHOW FUNCTIONS LIKE 'upper'").createOrReplaceTempView("listed")
    users = spark.table("users").cache()
    users.count()
    try:
        for query in (
            "SELECT user FROM events WHERE month(ts) = 3 AND text <> 'RelationV2['",
            "SELECT user, function FROM events CROSS JOIN listed WHERE month(ts) = 3",
            "SELECT user, country FROM events JOIN users ON user = id WHERE month(ts) = 3",
        ):
            assert lance_df.spark.explain_scan(pruned_as(spark, query)).partitions.kept == 1
    finally:
        users.unpersist()
        spark.catalog.dropTempView("listed")


def test_partitions_of_a_time_are_pruned(spark, sources):
    less = pruned_as(spark, "SELECT count(*) FROM events WHERE ts >= '2024-05-01' AND ts < '2024-07-01'")
    assert lance_df.spark.explain_scan(less).partitions.kept == 2
    less = pruned_as(spark, "SELECT user FROM events WHERE to_date(ts) = DATE '2024-05-05'")
    assert lance_df.spark.explain_scan(less).partitions.kept == 1


def test_each_scan_has_its_own_conditions(spark, sources):
    less = pruned_as(
        spark,
        "SELECT a.user, b.amount FROM (SELECT * FROM events WHERE user = 3) a "
        "JOIN events b ON a.amount = b.amount WHERE month(b.ts) = 2",
    )
    filters = [scan.get("filter", "") for scan in scans_of(less)]
    assert ["user" in text for text in filters] == [True, False]
    assert ["date_part" in text for text in filters] == [False, True]


def test_a_table_expression_that_is_used_twice_has_the_conditions_of_both_uses(spark, sources):
    less = pruned_as(
        spark,
        "WITH c AS (SELECT * FROM events WHERE month(ts) = 3) SELECT a.user, b.user AS other FROM c a "
        "FULL JOIN c b ON a.amount = b.amount AND a.user < 3 WHERE b.user > 40",
    )
    assert lance_df.spark.explain_scan(less).partitions.kept == 2
    assert all(
        "`user`" not in scan.get("filter", "") for scan in scans_of(less) if "OR" not in scan["filter"]
    )


def test_conditions_below_outer_joins_stay_where_they_are(spark, sources):
    query = (
        "SELECT u.id, e.amount FROM users u LEFT JOIN events e ON e.user = u.id AND month(e.ts) = 2 "
        "WHERE e.amount IS NULL OR e.amount > 1000"
    )
    filters = [scan.get("filter", "") for scan in scans_of(pruned_as(spark, query))]
    assert filters[0] == ""
    assert "date_part('month', `ts`) = 2" in filters[1]
    assert "amount" not in filters[1]


def test_years_of_times_in_nanoseconds_that_have_none_are_left_to_spark(spark, tmp_path):
    moments = [dt.datetime(2023, 11, 1), dt.datetime(1969, 5, 5), None]
    rows = pa.table({"i": range(3), "ns": pa.array(moments, pa.timestamp("ns"))})
    lance_df.write_dataset(rows, tmp_path / "t")
    lance_df.spark.read(spark, tmp_path / "t").createOrReplaceTempView("times")
    for condition, passed_on in (
        ("year(ns) <> 1", False),
        ("year(ns) > 1677", False),
        ("year(ns) IN (2023, 2262)", False),
        ("year(ns) < 2262", False),
        ("year(ns) = 2023", True),
        ("year(ns) NOT IN (2023, 2024)", True),
        ("month(ns) <> 0", True),
    ):
        (scan,) = scans_of(pruned_as(spark, f"SELECT i FROM times WHERE {condition}"))
        assert ("date_part" in scan.get("filter", "")) is passed_on, condition


def test_a_part_of_a_time_keeps_out_partitions_and_fragments(spark, tmp_path):
    by_year = lance_df.PartitionedNamespace.create(tmp_path / "n", EVENTS.schema, ["year(ts)"])
    rows = pa.table({"ts": [dt.datetime(2020 + i, 5, 5) for i in range(4)]})
    for name in EVENTS.schema.names[1:]:
        rows = rows.append_column(EVENTS.schema.field(name), pa.nulls(4, EVENTS.schema.field(name).type))
    by_year.append(rows)
    lance_df.spark.read(spark, tmp_path / "n").createOrReplaceTempView("by_year")
    less = pruned_as(spark, "SELECT ts FROM by_year WHERE year(ts) IN (2021, 2022)")
    assert lance_df.spark.explain_scan(less).partitions.kept == 2
    lance_df.write_dataset(rows, tmp_path / "t", max_rows_per_file=1)
    lance_df.dataset(tmp_path / "t").create_scalar_index("ts", "ZONEMAP")
    lance_df.spark.read(spark, tmp_path / "t").createOrReplaceTempView("times")
    less = pruned_as(spark, "SELECT ts FROM times WHERE year(ts) = 2021")
    assert lance_df.spark.explain_scan(less).fragments.kept == 1


def test_parts_of_days_and_times_beyond_the_calendar_of_datafusion_are_left_to_spark(spark, tmp_path):
    days = pa.array([100_000_000, 0, -100_000_000, None], pa.int32()).cast(pa.date32())
    micros = pa.array([2**63 - 1, 0, -(2**63) + 1, None], pa.int64())
    rows = {"i": range(4), "d": days}
    rows |= {"t": micros.cast(pa.timestamp("us")), "z": micros.cast(pa.timestamp("us", "UTC"))}
    lance_df.write_dataset(pa.table(rows), tmp_path / "t")
    lance_df.spark.read(spark, tmp_path / "t").createOrReplaceTempView("times")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        for condition in (
            "month(d) >= 1",
            "year(d) = 275760",
            "year(t) <> 1970",
            "hour(t) >= 0",
            "day(t) IN (10, 31)",
            "NOT month(t) IN (2, 3)",
            "hour(z) > 3",
        ):
            (scan,) = scans_of(pruned_as(spark, f"SELECT i FROM times WHERE {condition}"))
            assert "date_part" in scan["filter"], condition
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def test_times_between_two_stored_ones_are_compared_exactly(spark, tmp_path):
    moments = [dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(2024, 3, 10, 6, 59, 59), None]
    moments.append(dt.datetime(2024, 3, 10, 7))
    rows = {"i": range(4), "s": pa.array(moments, pa.timestamp("s", "Europe/Berlin"))}
    lance_df.write_dataset(pa.table(rows | {"ms": pa.array(moments, pa.timestamp("ms"))}), tmp_path / "t")
    lance_df.spark.read(spark, tmp_path / "t").createOrReplaceTempView("times")
    conditions = [
        condition.format(name, f"{word}'{second}{fraction}'", f"{word}'2024-03-10 06:59:59'")
        for name, word, fraction in (("s", "TIMESTAMP", ".5Z"), ("ms", "TIMESTAMP_NTZ", ".000001"))
        for second in ("2024-03-10 06:59:59", "1969-12-31 23:59:58")
        for condition in (
            *(f"{{0}} {operator} {{1}}" for operator in ("=", "<>", "<", "<=", ">", ">=")),
            "NOT ({0} >= {1})",
            "{0} NOT IN ({1})",
            "{0} NOT IN ({1}, {2})",
            "{0} IN ({1}, {2})",
        )
    ]
    truths = ", ".join(f"({condition}) IS TRUE AS c{n}" for n, condition in enumerate(conditions))
    wanted = spark.sql(f"SELECT i, {truths} FROM times").toArrow()
    queries = [f"SELECT i FROM times WHERE {condition}" for condition in conditions]
    scans = scans_of(lance_df.spark.prune(spark.sql(" UNION ALL ".join(queries))))
    for n, (condition, scan) in enumerate(zip(conditions, scans, strict=True)):
        kept = lance_df.dataset(tmp_path / "t").to_table(columns=["i"], filter=scan["filter"])["i"]
        assert kept.to_pylist() == wanted.filter(wanted[f"c{n}"])["i"].to_pylist(), (condition, scan)


def test_a_column_of_times_of_day_need_not_be_used(spark, tmp_path):
    rows = pa.table({"i": [1, 2], "t": pa.array([dt.time(1), None], pa.time64("us"))})
    rows = rows.append_column("s", pa.array([{"t": dt.time(2)}, None], pa.struct([("t", pa.time64("us"))])))
    lance_df.write_dataset(rows, tmp_path / "t")
    lance_df.spark.read(spark, tmp_path / "t").createOrReplaceTempView("days")
    assert pruned_as(spark, "SELECT i FROM days WHERE i = 1").collect() == [(1,)]
    assert pruned_as(spark, "SELECT t FROM days WHERE i = 1").collect() == [(dt.time(1),)]


def test_what_depends_on_the_place_of_rows_takes_no_conditions(spark, sources):
    for query in (
        "SELECT amount FROM (SELECT amount, user, rand(7) AS r FROM events) WHERE user = 3 AND r < 0.5",
        "SELECT amount FROM events TABLESAMPLE (50 PERCENT) REPEATABLE (3) WHERE user = 3",
        "SELECT monotonically_increasing_id() AS n, amount FROM events WHERE user = 3",
    ):
        (scan,) = scans_of(pruned_as(spark, query))
        assert "filter" not in scan
        assert "columns" in scan


def test_the_present_time_is_that_of_the_call(spark, sources):
    df = spark.sql("SELECT count(*) AS n FROM events WHERE ts < current_timestamp()::timestamp_ntz")
    less = lance_df.spark.prune(df)
    assert "arrow_cast" in scans_of(less)[0]["filter"]
    assert less.where("n > 0").collect() == df.collect()


def test_keys_of_a_small_side_are_conditions_of_the_other_one(spark, sources, with_keys):
    join = "SELECT e.amount, u.country FROM by_user e JOIN users u ON e.user = u.id WHERE u.country = 'c3'"
    less = pruned_as(spark, join)
    assert lance_df.spark.explain_scan(less).partitions.kept == 2
    without = lance_df.spark.prune(spark.sql(join), join_keys=False)
    assert lance_df.spark.explain_scan(without).partitions.kept == 50
    for query, partitions in (
        ("SELECT amount FROM by_user WHERE user IN (SELECT id FROM users WHERE country = 'c3')", 2),
        ("SELECT u.id, e.amount FROM users u LEFT JOIN by_user e ON e.user = u.id WHERE u.id < 3", 3),
        ("SELECT e.amount, v.x FROM by_user e JOIN (VALUES (7), (9)) v(x) ON e.user = v.x", 2),
        ("SELECT e.amount, u.id FROM by_user e LEFT JOIN users u ON e.user = u.id AND u.id < 3", 50),
        ("SELECT e.amount, u.id FROM by_user e FULL JOIN users u ON e.user = u.id AND u.id < 3", 50),
        ("SELECT amount FROM by_user WHERE user NOT IN (SELECT id FROM users WHERE country = 'c3')", 50),
        ("SELECT e.amount FROM by_user e JOIN users u ON e.user = u.id WHERE u.country = 'none'", 0),
    ):
        kept = lance_df.spark.explain_scan(pruned_as(spark, query)).partitions.kept
        assert (query, kept) == (query, partitions)


def test_keys_that_may_change_are_not_asked_for(spark, sources, with_keys, tmp_path):
    spark.range(3).write.parquet(str(tmp_path / "ids.parquet"))
    spark.read.parquet(str(tmp_path / "ids.parquet")).createOrReplaceTempView("ids")
    less = pruned_as(spark, "SELECT e.amount FROM by_user e JOIN ids ON e.user = ids.id")
    assert lance_df.spark.explain_scan(less).partitions.kept == 50


def test_rows_stay_those_of_one_version(spark, sources):
    less = lance_df.spark.prune(spark.sql("SELECT user FROM events WHERE user = 3"))
    lance_df.PartitionedNamespace.open(sources / "events").append(EVENTS)
    assert less.count() == 24
    again = lance_df.spark.read(spark, sources / "events")
    assert lance_df.spark.prune(again.where("user = 3").select("user")).count() == 48


def test_versions_and_options_of_a_read_stay(spark, sources):
    lance_df.PartitionedNamespace.open(sources / "events").append(EVENTS)
    df = lance_df.spark.read(spark, sources / "events", version=2, filter="user < 5 OR user = 9")
    less = lance_df.spark.prune(df.where("user > 3").select("amount"))
    assert collected(less) == collected(df.where("user > 3").select("amount"))
    assert less.count() == 48
    twice = lance_df.spark.prune(less.where("amount < 100"))
    assert collected(twice) == collected(less.where("amount < 100"))


def test_columns_that_were_left_out_are_not_null_but_an_error(spark, sources):
    df = spark.table("events")
    less = lance_df.spark.prune(df.select("user"))
    with pytest.raises(PySparkException, match="prune the whole query"):
        less.orderBy(df["amount"]).collect()


def test_cached_rows_are_not_pruned(spark, sources):
    df = spark.table("events").where("user < 10").cache()
    try:
        assert df.count() == 240
        query = (
            df.where("user = 3")
            .select("amount")
            .union(spark.table("events").where("user = 4").select("amount"))
        )
        assert collected(lance_df.spark.prune(query)) == collected(query)
    finally:
        df.unpersist()


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_functions_of_python_and_streams_stay(spark, sources, tmp_path):
    double = F.udf(lambda x: 2 * x, "long")
    df = spark.table("events").where("user < 5").where(double("user") > 4).select("amount")
    less = lance_df.spark.prune(df)
    assert collected(less) == collected(df)
    assert "`user` < 5" in scans_of(less)[0]["filter"]
    stream = spark.readStream.format("lance_df").load(str(sources / "events"))
    assert lance_df.spark.prune(stream) is stream
    other = spark.range(3)
    assert lance_df.spark.prune(other) is other


def test_random_queries_are_equal(spark, tmp_path, with_keys):
    make_sources(spark, tmp_path)
    passed_on = 0
    for seed in (105, 234, *range(5000, 5025)):
        query, differs, has_filter = compare(spark, seed)
        assert differs is None, f"seed {seed}: {query}\n{differs}"
        passed_on += has_filter
    assert passed_on > 15


def test_a_large_read_is_warned_of_once(tmp_path):
    lance_df.write_dataset(USERS, tmp_path / "users")
    program = f"""
import warnings
from lance_df.spark import reading
from lance_df.spark.source import LanceSource
reading.WHOLE_BYTES = 1
def read(**options):
    source = LanceSource({{"path": {str(tmp_path / "users")!r}, **options}})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        source.reader(source.schema()).partitions()
    return [str(each.message) for each in caught]
assert read(columns="id") == read(filter="id = 1") == []
(text,) = read()
assert "prune" in text and "users" in text, text
assert read() == []
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_release_whose_plans_are_not_known_reads_everything(spark, sources, monkeypatch, caplog):
    df = spark.sql("SELECT user FROM events WHERE month(ts) = 3")

    def plan(*_):
        return spark._jvm.org.apache.spark.sql.NoSuchPlan()

    monkeypatch.setattr("lance_df.spark.pruning.pruned.Plans", plan)
    assert lance_df.spark.prune(df) is df
    monkeypatch.setattr("lance_df.spark.pruning.pruned.Plans", lambda _: spark._jsparkSession.noSuchMethod())
    assert lance_df.spark.prune(df) is df
    assert [record.message[:15] for record in caplog.records] == ["plans of Spark "] * 2
