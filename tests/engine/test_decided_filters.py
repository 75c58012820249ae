"""What partition values decide is not asked of rows again, though DataFusion does not push it into scans."""

import datetime as dt

import datafusion
import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from tests.engine.query_results import assert_same_result, in_memory
from tools.conformance.contexts import low_thresholds

pytestmark = pytest.mark.engine

N = 400
ROWS = pa.table(
    {
        "id": pa.array([None if i % 50 == 7 else i for i in range(N)], pa.int64()),
        "ts": [
            None if i % 41 == 0 else dt.datetime(2023, 1, 1) + dt.timedelta(hours=37 * i) for i in range(N)
        ],
        "c": [["US", "DE", None, "us", "Ünï"][i % 5] for i in range(N)],
        "f": [[0.0, -0.0, float("nan"), None, 1.5][i % 5] for i in range(N)],
    }
)
DECIDED = [
    "date_part('month', ts) = 3",
    "3 = EXTRACT(MONTH FROM ts)",
    "date_part('month', ts) * 2 > 6",
    "date_part('month', ts) IN (1, 12) OR date_part('month', ts) = 6",
    "date_part('month', ts) = 99",
    "upper(c) = 'US'",
    "upper(c) = 'US' AND date_part('month', ts) BETWEEN 2 AND 5",
    "(c IS DISTINCT FROM 'US') AND coalesce(upper(c), 'US') = 'US'",
    "length(c) = 3",
    "CASE WHEN c = 'DE' THEN true ELSE upper(c) = 'US' END",
]
LEFT = {
    "date_part('month', ts) = 3 AND id % 7 = 1": "id@",
    "id % 7 = 1": "id@",
    "date_part('month', ts) < 9 AND upper(c) = 'DE' AND id + 1 > 20": "id@",
    "date_part('month', ts) = id % 12": "id@",
    "f * 2 = 0": "f@",
}
QUERIES = [
    "SELECT count(*) AS n, sum(id) AS s FROM n WHERE {}",
    "SELECT id, c FROM n WHERE {} ORDER BY id, c LIMIT 7",
    "SELECT d AS e FROM (SELECT id AS d, ts, c, f, id FROM n) AS a WHERE {} ORDER BY d DESC, c LIMIT 3",
    "SELECT c, count(*) AS k FROM n AS n WHERE {} GROUP BY c HAVING count(*) > 1 ORDER BY c, k",
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decided")
    made = lance_df.PartitionedNamespace.create(folder / "n", ROWS.schema, ["month(ts)", "c", "identity(f)"])
    made.append(ROWS.slice(0, 250))
    made.update_partition_spec([partition.month("ts"), partition.bucket("id", 3), partition.identity("c")])
    made.append(ROWS.slice(250))
    return folder


@pytest.fixture(scope="module")
def plain():
    context = datafusion.SessionContext()
    context.register_record_batches("n", [ROWS.to_batches()])
    return context


def filters(frame):
    plan = frame.execution_plan().display_indent()
    return [line.strip() for line in plan.splitlines() if "FilterExec" in line and "count" not in line]


@pytest.mark.parametrize("condition", [*DECIDED, *LEFT])
def test_conditions_are_asked_of_partitions_or_of_rows(root, plain, condition):
    context = lance_df.connect(root)
    for query in QUERIES:
        frame = context.sql(query.format(condition))
        found = filters(frame)
        assert bool(found) == (condition in LEFT), (query, found)
        assert all(LEFT[condition] in each for each in found)
        if "AND id" in condition:
            assert "date_part" not in found[0]
            assert "upper" not in found[0]
        assert frame.to_pylist() == plain.sql(query.format(condition)).to_pylist(), query
    namespace = lance_df.PartitionedNamespace.open(root / "n")
    expected = plain.sql(f"SELECT count(*) AS n FROM n WHERE {condition}").to_pylist()[0]["n"]
    assert namespace.count_rows(condition) == namespace.to_table(filter=condition).num_rows == expected


def test_where_a_plan_cannot_be_built_anew_rows_are_asked(root, plain):
    context = lance_df.connect(root)
    for query in (
        "SELECT c FROM n WHERE upper(c) = 'US' GROUP BY GROUPING SETS ((c), ()) ORDER BY c",
        "SELECT x.id FROM n x JOIN n y ON x.id = y.id WHERE upper(x.c) = 'US' ORDER BY 1",
        "SELECT id FROM (SELECT * FROM n ORDER BY id LIMIT 20) WHERE upper(c) = 'US' ORDER BY id",
        "SELECT id FROM n WHERE upper(c) = 'US' AND id > (SELECT avg(id) FROM n) ORDER BY id",
        "SELECT id FROM n WHERE upper(c) = 'US' UNION ALL SELECT id FROM n WHERE upper(c) = 'DE' ORDER BY id",
        "SELECT id FROM n WHERE upper(c) = 'US' AND random() >= 0 ORDER BY id",
    ):
        assert context.sql(query).to_pylist() == plain.sql(query).to_pylist(), query


def test_functions_of_users_decide_nothing(root):
    context = lance_df.connect(root)
    other = datafusion.udf(lambda c: c, [pa.string()], pa.string(), "immutable", name="upper")
    context.register_udf(other)
    frame = context.sql("SELECT count(*) AS n FROM n WHERE upper(c) = 'US'")
    assert filters(frame)
    assert frame.to_pylist() == [{"n": N // 5}]


def test_the_report_says_what_is_read(root):
    context = lance_df.connect(root)
    report = context.explain_scan("SELECT id FROM n WHERE date_part('month', ts) = 3 AND id % 7 = 1")
    assert 0 < report.partitions.kept < report.partitions.total
    assert "partition_field_ts_month = 3" in str(report)


def test_conditions_that_become_literals_besides_others(tmp_path):
    sizes = {"i": 100, "k": 7, "g": 5, "p": 3}
    rows = pa.table({name: [number % size for number in range(100)] for name, size in sizes.items()})
    tables = {"a": rows, "b": rows.slice(0, 0)}
    for name, part in tables.items():
        lance_df.PartitionedNamespace.create(tmp_path / name, rows.schema, ["p"]).append(part)
    memory = in_memory(tables)
    query = (
        "SELECT a.k, count(*) AS n FROM a LEFT JOIN b ON a.k = b.g AND coalesce(a.i, 0) IS NULL "
        "WHERE coalesce(b.p, 3) IN (4, NULL) AND b.k NOT IN (2, 3) GROUP BY a.k ORDER BY 1"
    )
    with low_thresholds():
        ctx = lance_df.connect(tmp_path)
        rules = {report.rule: report.effect for report in ctx.explain_scan(query).rules}
        assert_same_result(ctx.sql(query), memory.sql(query))
    assert "literal" in rules["decided_filters"]
