"""Conditions in SQL over partitioned namespaces: the rows of memory, from the partitions that they need."""

import datetime as dt
import subprocess
import sys

import datafusion
import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from lance_df.namespace.snapshot import NamespaceSnapshot
from tests.engine.query_results import assert_same_result

pytestmark = pytest.mark.engine

NUM_ROWS = 600


def rows(count=NUM_ROWS):
    numbers = range(count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "ts": [dt.datetime(2022 + i % 3, 1 + i % 12, 1 + i % 28, i % 24) for i in numbers],
            "country": [["US", "DE", None, "héllo"][i % 4] for i in numbers],
            "k": pa.array([i % 7 for i in numbers], pa.int32()),
        }
    )


SPECS = {
    "months": [["month(ts)", "country"]],
    "buckets": [["bucket(id, 16)"]],
    "both": [["multi_bucket(k, country, 8)"]],
    "prefixes": [["truncate(country, 2)", "truncate(id, 100)"]],
    "computed": [
        [
            partition.expression("upper(left(col0, 1))", ["country"], field_id="initial"),
            partition.expression("col0 * 10 + length(col1)", ["k", "country"], field_id="mixed"),
        ]
    ],
    "evolved": [["year(ts)", "month(ts)"], ["month(ts)", "day(ts)"], ["country"]],
}


def rows_of(name):
    """Few rows where each is nearly a partition."""
    return rows(24 if len(SPECS[name]) > 1 else NUM_ROWS)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pruning")
    for name, specs in SPECS.items():
        namespace = lance_df.PartitionedNamespace.create(folder / name, rows().schema, specs[0])
        namespace.append(rows_of(name))
        for spec in specs[1:]:
            namespace.update_partition_spec(spec)
            namespace.append(rows_of(name))
    return folder


@pytest.fixture(scope="module")
def ours(root):
    return lance_df.connect(root)


@pytest.fixture(scope="module")
def memory():
    context = datafusion.SessionContext()
    lance_df.register_udfs(context)
    for name, specs in SPECS.items():
        context.from_arrow(pa.concat_tables([rows_of(name)] * len(specs)), name=name)
    return context


@pytest.fixture(scope="module")
def plain(root):
    context = datafusion.SessionContext()
    lance_df.register_udfs(context)
    for name in SPECS:
        lance_df.register(context, name, root / name)
    return context


@pytest.fixture
def kept(monkeypatch):
    """Return a list that gets the number of partitions that each scan keeps."""
    found = []
    original = NamespaceSnapshot.selected_members

    def counted(self, request):
        members = original(self, request)
        found.append(len(members.positions))
        return members

    monkeypatch.setattr(NamespaceSnapshot, "selected_members", counted)
    # which looks for no plan of an earlier scan
    monkeypatch.setattr(NamespaceSnapshot, "plan", NamespaceSnapshot._planned)
    return found


def check_manifest_query(root, name, report):
    """The query that the report shows finds just the partitions that were kept."""
    context = lance_df.SessionContext()
    lance_df.register(context, "__manifest", root / name / "__manifest")
    assert context.sql(report.manifest_query).count() == report.partitions.kept, report.manifest_query


# name, condition, partitions kept of how many by our sessions, and by contexts that only push down
CASES = [
    # parts of dates
    ("months", "date_part('month', ts) = 3", 1, 12),
    ("months", "EXTRACT(MONTH FROM ts) IN (1, 2, 3, 4, 5)", 5, 12),
    ("months", "extract(month from ts) BETWEEN 2 AND 4", 3, 12),
    ("months", "date_part('MONTH', ts) NOT BETWEEN 2 AND 4", 9, 12),
    ("months", "date_part('month', ts) <> 3", 11, 12),
    ("months", "date_part('month', ts) > 10 OR country = 'US'", 5, 12),
    ("months", "date_part('month', ts) * 2 = 6", 1, 12),
    ("months", "CAST(date_part('month', ts) AS BIGINT) = 3", 1, 12),
    ("months", "date_part('month', ts) IS NULL", 0, 12),
    ("months", "NOT (date_part('month', ts) = 3)", 11, 12),
    ("months", "CAST(ts AS DATE) = '2023-02-02'", 1, 12),
    ("months", "CAST(ts AS DATE) BETWEEN '2022-12-20' AND '2023-01-05'", 2, 12),
    ("months", "date_trunc('month', ts) = '2023-02-01'", 1, 12),
    ("months", "date_part('month', ts) = date_part('day', ts)", 12, 12),
    ("months", "ts >= '2022-11-15' AND ts < '2023-02-01'", 3, 3),
    ("months", "ts >= '2022-11-15' AND CAST(ts AS DATE) < '2023-02-01'", 4, 12),
    # conditions on columns that are partition values
    ("months", "upper(country) = 'US'", 3, 12),
    ("months", "country LIKE '%S'", 3, 12),
    ("months", "country ILIKE 'u_'", 3, 12),
    ("months", "coalesce(country, 'x') = 'x'", 3, 12),
    ("months", "country IS DISTINCT FROM 'US'", 9, 12),
    ("months", "country IS NOT DISTINCT FROM NULL", 3, 12),
    ("months", "country || '!' IN ('US!', 'DE!', 'FR!', 'IT!')", 6, 12),
    ("months", "CASE WHEN country = 'US' THEN k = 1 ELSE false END", 3, 12),
    ("months", "random() < 2 AND country = 'US'", 3, 3),
    # buckets
    ("buckets", "id = 7", 1, 1),
    ("buckets", "id IN (1, 2, 3, 7)", 3, 3),
    ("buckets", "id = 7 OR id = 8", 2, 2),
    ("buckets", "id > 7", 16, 16),
    ("buckets", "id <> 7", 16, 16),
    ("buckets", "abs(murmur3(id)) % 16 = 3", 1, 16),
    ("buckets", "abs(murmur3(id)) % 16 IN (3, 4)", 2, 16),
    ("buckets", "abs(murmur3(id)) % 16 < 3", 3, 16),
    ("buckets", "abs(murmur3(id)) % 8 = 3", 16, 16),
    ("buckets", "id = 7.0", 1, 16),
    ("buckets", "id = '7'", 1, 1),
    ("buckets", "id = 7.5", 0, 16),
    ("both", "k = 3 AND country = 'US'", 1, 1),
    ("both", "k = 3 AND country IS NULL", 1, 1),
    ("both", "k IN (3, 4) AND country IN ('US', 'DE')", 4, 4),
    ("both", "k = 3", 8, 8),
    ("both", "k = 3 OR country = 'US'", 8, 8),
    # prefixes
    ("prefixes", "country LIKE 'h%'", 6, 24),
    ("prefixes", "country LIKE 'hél%'", 6, 24),
    ("prefixes", "country NOT LIKE 'hé%'", 12, 24),
    ("prefixes", "country NOT LIKE 'hél%'", 24, 24),
    ("prefixes", "starts_with(country, 'U')", 6, 24),
    ("prefixes", "left(country, 2) = 'hé'", 6, 24),
    ("prefixes", "left(country, 1) IN ('h', 'U')", 12, 24),
    ("prefixes", "substr(country, 1, 2) = 'US'", 6, 24),
    ("prefixes", "left(country, 3) = 'hél'", 6, 24),
    ("prefixes", "country BETWEEN 'A' AND 'F'", 6, 6),
    ("prefixes", "id BETWEEN 150 AND 250", 8, 8),
    ("prefixes", "id - (id % 100) = 200", 4, 24),
    ("prefixes", "id < 100", 4, 4),
    ("prefixes", "id <= 100", 8, 8),
    # expressions
    ("computed", "country = 'US'", 7, 7),
    ("computed", "country IN ('US', 'DE')", 14, 14),
    ("computed", "country = 'US' AND k = 3", 1, 1),
    ("computed", "k = 3", 22, 22),
    ("computed", "country IS NULL", 1, 1),
    ("computed", "upper(left(country, 1)) = 'U'", 7, 22),
    ("computed", 'UPPER("left"(computed."country", 1)) > \'E\'', 14, 22),
    ("computed", "k * 10 + length(country) = 32", 2, 22),
    ("computed", "10 * k + length(country) = 32", 22, 22),
    ("computed", "32 = k * 10 + length(country)", 2, 22),
    ("computed", "k * 10 + length(country) BETWEEN 20 AND 32", 5, 22),
    # several spec versions: 12 of (year, month), 24 of (month, day), 4 of country
    ("evolved", "ts >= '2022-05-15' AND ts < '2023-09-01'", 5 + 24 + 4, 5 + 24 + 4),
    ("evolved", "ts >= '2022-12-15' AND ts < '2023-03-01'", 1 + 6 + 4, 1 + 6 + 4),
    ("evolved", "ts BETWEEN '2023-02-02' AND '2023-02-03'", 1 + 1 + 4, 1 + 1 + 4),
    ("evolved", "CAST(ts AS DATE) BETWEEN '2023-02-02' AND '2023-02-03'", 1 + 1 + 4, 40),
    ("evolved", "ts IN ('2023-02-02T01:00:00', '2024-12-24', '2022-07-07')", 3 + 3 + 4, 3 + 3 + 4),
    ("evolved", "date_part('year', ts) = 2023", 4 + 24 + 4, None),
    ("evolved", "country = 'US'", 12 + 24 + 1, 12 + 24 + 1),
    ("evolved", "country = 'US' AND date_part('day', ts) = 2", 12 + 1 + 1, 12 + 24 + 1),
    ("evolved", "country = 'US' OR date_part('month', ts) = 2", 12 + 24 + 4, 40),
    ("evolved", "ts IS NULL", 0 + 0 + 4, 0 + 0 + 4),
    ("evolved", "id = 5 AND id = 6", 0, 0),
]


@pytest.mark.parametrize(("name", "condition", "in_session", "pushed"), CASES)
def test_conditions(root, ours, plain, memory, kept, name, condition, in_session, pushed):
    query = f"SELECT id, ts, country FROM {name} WHERE {condition} ORDER BY id"
    expected = memory.sql(query).to_pylist()
    assert ours.sql(query).to_pylist() == expected
    (report,) = ours.explain_scan(query).tables
    assert report.partitions.kept == in_session, report
    check_manifest_query(root, name, report)
    kept.clear()
    assert plain.sql(query).to_pylist() == expected
    assert kept[-1] == pushed or pushed is None
    quoted = condition.replace(f"{name}.", "").replace('"', "`")
    assert lance_df.PartitionedNamespace.open(root / name).count_rows(quoted) == len(expected)
    assert kept[-1] == in_session


WAYS = [
    "SELECT m.id FROM months m JOIN buckets b ON m.id = b.id AND b.id = 7",
    "SELECT m.id FROM buckets b, months m WHERE m.id = b.id AND m.id = 7 AND date_part('month', m.ts) = 8",
    "WITH c AS (SELECT id AS n, ts AS t FROM months) SELECT n FROM c WHERE date_part('month', t) = 8",
    "SELECT n FROM (SELECT id AS n, upper(country) AS u FROM months) WHERE u = 'US'",
    "SELECT id FROM months WHERE country LIKE '%S' AND id > (SELECT avg(k) FROM buckets)",
    "SELECT id FROM months WHERE id IN (SELECT id FROM buckets WHERE abs(murmur3(id)) % 16 = 3)",
    "SELECT country, count(*) FROM months GROUP BY country HAVING upper(country) = 'US'",
    "SELECT id FROM march WHERE country = 'US'",
    "SELECT a.id FROM months a JOIN months b USING (id) WHERE upper(a.country) = 'US' AND b.country = 'US'",
    "SELECT m.id FROM months m LEFT JOIN computed c ON m.id = c.id WHERE upper(m.country) = 'US'",
    "SELECT m.id FROM months m LEFT JOIN buckets b ON m.id = b.id AND abs(murmur3(b.id)) % 16 = 3",
    "SELECT id FROM months WHERE country = 'US' UNION ALL SELECT id FROM buckets WHERE id = 7",
    "SELECT count(*) FROM months WHERE country = (SELECT max(country) FROM months WHERE country LIKE '%E')",
]
KEPT_WAYS = [
    (12, 1),
    (1, 1),
    (1,),
    (3,),
    (3, 16),
    (12, 1),
    (3,),
    (0,),
    (3, 3),
    (3, 22),
    (12, 1),
    (3, 1),
    None,
]


@pytest.mark.parametrize(("query", "expected"), list(zip(WAYS, KEPT_WAYS, strict=True)))
def test_conditions_by_way_of_joins_views_and_subqueries(ours, memory, query, expected):
    if "march" in query:
        for context in (ours, memory):
            context.sql(
                "CREATE OR REPLACE VIEW march AS SELECT * FROM months WHERE date_part('month', ts) = 3"
            )
    assert_same_result(ours.sql(query), memory.sql(query))
    report = ours.explain_scan(query)
    by_name = {table.table.rpartition("/")[2]: table.partitions.kept for table in report.tables}
    if expected is not None:
        assert sorted(by_name.values()) == sorted(set(expected) if len(by_name) < len(expected) else expected)


def test_parameters(ours):
    query = "SELECT id FROM months WHERE date_part('month', ts) = $month AND country = $country"
    values = {"month": 3, "country": "DE"}
    assert ours.explain_scan(query, values).partitions.kept == 0
    assert ours.explain_scan(query, {**values, "country": None}).partitions.kept == 0
    report = ours.explain_scan(query, {**values, "country": None, "month": None})
    assert report.partitions.kept == 0
    assert ours.explain_scan(query, {**values, "month": 2}).partitions.kept == 1


def test_explain_shows_what_was_asked_and_what_did_not_help(ours):
    query = (
        "SELECT * FROM evolved WHERE ts >= '2023-02-02' AND ts <> '2024-01-01' AND country = 'US' AND k > 2"
    )
    report = ours.explain_scan(query + " AND date_part('month', ts) = 2 AND random() < 0.5")
    (table,) = report.tables
    assert [spec.spec for spec in table.specs] == [
        "v1 by year(ts), month(ts)",
        "v2 by month(ts), day(ts)",
        "v3 by country",
    ]
    assert sum(spec.partitions.kept for spec in table.specs) == report.partitions.kept
    assert table.specs[2].predicate == "object_id LIKE 'v3$%' AND partition_field_country = 'US'"
    why = {(spec.spec[:2], reason.conjunct): reason.effect for spec in table.specs for reason in spec.reasons}
    assert why["v1", "country = 'US'"] == "no partition field has country as its source in v1"
    assert why["v1", "ts <> '2024-01-01 00:00:00'"] == "<> says nothing about year(ts), month(ts)"
    assert ("v1", "ts >= '2023-02-02 00:00:00'") not in why
    assert why["v2", "ts >= '2023-02-02 00:00:00'"] == (
        "a range like this says nothing about month(ts), day(ts)"
    )
    assert "ts" in why["v3", "ts >= '2023-02-02 00:00:00'"]
    assert any("random may give something else" in effect for effect in why.values())
    assert "v3 by country: 1 of 4" in str(report)
    assert "no help: country = 'US': no partition field has country" in str(report)
    assert "v2 by month(ts), day(ts)" in report._repr_html_()


@pytest.mark.parametrize(
    "term", ["date_part('day', ts)", "date_part('month', ts)", "upper(country)", "k + 1"]
)
def test_explain_takes_terms_that_are_not_null(ours, term):
    for condition in (f"{term} IS NOT NULL", f"NOT ({term} IS NULL)", f"{term} IS NOT NULL AND id = 3"):
        query = f"SELECT id FROM evolved WHERE {condition}"
        report = ours.explain_scan(query)
        assert sum(spec.partitions.kept for spec in report.tables[0].specs) == report.partitions.kept


def test_explain_shows_the_literals_in_the_expression(ours):
    (table,) = ours.explain_scan("SELECT * FROM computed WHERE country = 'it''s' AND k = 3").tables
    assert "partition_field_initial = 'I' /* upper(left('it''s', 1)) */" in table.specs[0].predicate
    assert "/* 3 * 10 + length('it''s') */" in table.specs[0].predicate
    (table,) = ours.explain_scan("SELECT * FROM evolved WHERE ts = '2023-02-02'").tables
    assert "partition_field_ts_year = 2023 /* date_part('year', TIMESTAMP '2023-02-02 00:00:00" in (
        table.specs[0].predicate
    )


def test_functions_of_users_are_not_taken_for_built_in_ones(root):
    context = lance_df.connect(root)
    always = datafusion.udf(
        lambda texts: pa.array(["US"] * len(texts)), [pa.string()], pa.string(), "immutable", name="upper"
    )
    context.register_udf(always)
    assert context.sql("SELECT count(*) AS n FROM months WHERE upper(country) = 'US'").to_pydict() == {
        "n": [NUM_ROWS]
    }


def test_the_first_thing_that_a_process_does_may_be_to_prune(root):
    code = (
        "import datafusion, lance_df, sys\n"
        "context = datafusion.SessionContext()\n"
        "lance_df.register(context, 'computed', sys.argv[1])\n"
        "print(context.sql(\"SELECT count(*) AS n FROM computed WHERE country = 'US'\").to_pylist())\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(root / "computed")], capture_output=True, text=True, check=True
    )
    assert found.stdout == "[{'n': 150}]\n"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT w, v FROM a FULL JOIN b ON a.k = b.k AND v < 5 WHERE w IS NOT NULL AND b.k IS NOT NULL",
        "SELECT w, v FROM b FULL JOIN a ON a.k = b.k AND v < 5 WHERE w = 1 AND b.k IS NOT NULL",
    ],
)
def test_conditions_that_are_true_of_every_row_prune_nothing(tmp_path, query):
    """DataFusion makes the outer join an inner one after it has simplified conditions, and pushes TRUE."""
    never_null = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
    tables = {
        "a": pa.table({"k": [1, 2, None], "w": [1, None, 3]}),
        "b": pa.table({"k": [1, 2, 3], "v": [1, 2, 3]}, never_null),
    }
    ours, memory = lance_df.connect(tmp_path), datafusion.SessionContext()
    for name, table in tables.items():
        lance_df.PartitionedNamespace.create(tmp_path / name, table.schema, ["k"]).append(table)
        memory.from_arrow(table, name=name)
    expected = memory.sql(query).to_pydict()
    assert expected == {"w": [1], "v": [1]}
    for mode in ("never", "always"):
        ours.partitioned_joins = mode
        assert ours.sql(query).to_pydict() == expected


@pytest.mark.parametrize("condition", ["<= 9999", "= 9999", ">= 10000", "BETWEEN -5 AND 300000"])
def test_explain_takes_years_beyond_the_calendar_of_python(ours, condition):
    query = f"SELECT id FROM evolved WHERE date_part('year', ts) {condition}"
    assert ours.explain_scan(query).partitions.total > 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, (SELECT max(country) FROM months WHERE k = NULL AND id = 1) AS m FROM months",
        "SELECT id FROM buckets WHERE country <= (SELECT max(country) FROM months WHERE k = NULL AND id = 1)",
        "SELECT id FROM months WHERE k = NULL AND id > 0 AND country = (SELECT max(country) FROM months)",
        "SELECT id FROM months WHERE (SELECT max(k) FROM months WHERE NOT (k = NULL) AND id = 1) IS NULL",
    ],
)
def test_conditions_that_are_null_beside_or_within_scalar_subqueries(ours, query):
    """DataFusion does not show the scans of such a subquery, and cannot push NULL with others."""
    memory = datafusion.SessionContext()
    for name in ("months", "buckets"):
        memory.from_arrow(rows(), name=name)
    expected = memory.sql(query).sort("id").to_pydict()
    assert ours.sql(query).sort("id").to_pydict() == expected


@pytest.mark.parametrize(
    "condition",
    [
        "date_part('month', ts) = 3",
        "upper(country) = 'US' AND id % 2 = 0",
        "k = NULL AND id = 1",
        "k IN (1, 2)",
    ],
)
def test_the_scan_function_prunes_as_a_name_does(ours, root, condition):
    def found(source):
        query = f"SELECT id FROM {source} AS t WHERE {condition}"
        return ours.explain_scan(query).partitions.kept, ours.sql(query).sort("id").to_pydict()

    place = f"lance_scan('{root / 'months'}')"
    assert found(place) == found("months")
    twice = "SELECT a.id FROM {0} AS a JOIN {0} AS b ON a.id = b.id WHERE date_part('month', a.ts) = 3"
    ours.partitioned_joins = "always"
    try:
        assert (
            ours.sql(twice.format(place)).count() == ours.sql(twice.format("months")).count() == NUM_ROWS / 12
        )
    finally:
        ours.partitioned_joins = "auto"


def test_prepared_statements_read_the_newest_version_and_prune(tmp_path):
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "t", rows().schema, ["k", "country"])
    namespace.append(rows())
    ours = lance_df.connect(tmp_path)
    ours.sql(
        "PREPARE q(BIGINT) AS "
        "SELECT id, $1 AS n FROM t WHERE k < 8589934592 AND k = $1 AND upper(country) = 'DE'"
    )
    ours.sql('PREPARE "Q 2" AS SELECT id FROM t WHERE k IN (2.5, 0) AND id = $1')
    executions = {"EXECUTE q(3)": "k = 3 AND upper(country) = 'DE'", "EXECUTE q(NULL)": "FALSE"}
    executions |= {'EXECUTE "Q 2"(7)': "id = 7", "EXECUTE q('3')": "k = 3 AND country = 'DE'"}
    for count in (1, 2):
        memory = datafusion.SessionContext()
        memory.from_arrow(pa.concat_tables([rows()] * count), name="t")
        for execution, condition in executions.items():
            expected = memory.sql(f"SELECT id FROM t WHERE {condition}").sort("id").to_pydict()["id"]
            frame = ours.sql(execution)
            assert frame.sort("id").to_pydict()["id"] == expected
            if "3" in execution:
                (table,) = frame.statements[0].tables.values()
                assert table.log.scans[-1].report.partitions.kept == 1
        namespace.append(rows())
    ours.sql("DEALLOCATE q")
    with pytest.raises(lance_df.LanceError, match="does not exist"):
        ours.sql("EXECUTE q(3)")
    ours.sql("PREPARE q AS SELECT count(*) AS n FROM t")
    assert ours.sql("EXECUTE q").to_pydict() == {"n": [3 * NUM_ROWS]}


@pytest.mark.parametrize("field", ["year(day)", "month(day)", "hour(day)", "day", "bucket(day, 3)"])
def test_literals_that_are_no_whole_days(tmp_path, field):
    """A literal that a date64 is compared with counts milliseconds of a day, too."""
    days = [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), None]
    table = pa.table({"id": range(4), "day": pa.array(days, pa.date64())})
    lance_df.PartitionedNamespace.create(tmp_path / "t", table.schema, [field]).append(table)
    ours, memory = lance_df.connect(tmp_path), datafusion.SessionContext()
    memory.from_arrow(table, name="t")
    for condition in (
        "day = '1969-12-31T23:59:59-05:00'",
        "day IN ('1970-01-01T12:00:00', '2024-02-29', '1970-01-01', '1980-01-01T12:00:00')",
        "day > '1969-12-31T12:00:00'",
        "date_part('hour', day) = 0",
    ):
        query = f"SELECT id FROM t WHERE {condition} ORDER BY id"
        assert ours.sql(query).to_pydict() == memory.sql(query).to_pydict()


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("date_part('month', ts) = 3 AND upper(country) = 'US'", 0),
        ("NOT (k = NULL) AND id = 1", 0),
        ("date_part('month', ts) IN (3, 5)", 2),
    ],
)
def test_tables_that_are_created_of_a_query_read_what_it_needs(root, condition, kept):
    """In a session without a folder, DataFusion runs such a statement as soon as it is planned."""
    ours = lance_df.SessionContext()
    lance_df.register(ours, "months", root / "months")
    for number, create in enumerate(
        ("CREATE TABLE", "create or replace table", "CREATE TABLE IF NOT EXISTS")
    ):
        frame = ours.sql(f"{create} made{number} AS SELECT id FROM months WHERE {condition}")
        (table,) = frame.statements[0].tables.values()
        assert table.log.scans[-1].report.partitions.kept == kept
        expected = ours.sql(f"SELECT id FROM months WHERE {condition}").sort("id").to_pydict()
        assert ours.sql(f"SELECT id FROM made{number}").sort("id").to_pydict() == expected
