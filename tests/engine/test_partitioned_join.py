"""Joins of partitioned namespaces go partition by partition, and give what DataFusion gives over memory."""

import datetime as dt
import random

import datafusion
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from lance_df.engine.optimizer.rules.partitioned_join import gain as partitioned_join_gain
from lance_df.engine.optimizer.rules.partitioned_join import rule as partitioned_join
from lance_df.engine.optimizer.rules.partitioned_join import units as partitioned_join_units
from lance_df.engine.optimizer.rules.partitioned_join.shares import Share
from lance_df.errors import InvalidInputError
from lance_df.hashing.arrays import murmur3
from lance_df.table import table as table_module
from tests.engine.query_results import assert_same_result, collected, rows_of

pytestmark = pytest.mark.engine

CHOICE = random.Random(20)
MODES = [("always", None), ("always", 2_000)]
ALL_MODES = [("never", None), *MODES]


def number(limit=40):
    return None if CHOICE.random() < 0.1 else CHOICE.randrange(limit)


def moment(*, with_hour=True):
    if CHOICE.random() < 0.05:
        return None
    day = (2022 + CHOICE.randrange(2), 1 + CHOICE.randrange(3), 1 + CHOICE.randrange(2))
    return dt.datetime(*day, CHOICE.randrange(2) if with_hour else 0)


ORDERS = pa.table(
    {
        "id": pa.array(range(300), pa.int64()),
        "customer": pa.array([number() for _ in range(300)], pa.int32()),
        "region": [CHOICE.choice(["eu", "us", None, "ap"]) for _ in range(300)],
        "total": pa.array([CHOICE.randrange(100) for _ in range(300)], pa.int64()),
        "at": pa.array([moment() for _ in range(300)], pa.timestamp("us")),
        "weight": [CHOICE.choice([0.0, -0.0, float("nan"), -float("nan"), 1.5, None]) for _ in range(300)],
    }
)
CUSTOMERS = pa.table(
    {
        "id": pa.array([number(60) for _ in range(60)], pa.int64()),
        "name": [f"c{place % 17}" for place in range(60)],
        "region": [CHOICE.choice(["eu", "us", None, "af"]) for _ in range(60)],
        "boss": pa.array([number(60) for _ in range(60)], pa.int64()),
        "weight": [CHOICE.choice([0.0, -0.0, float("nan"), 2.5, None]) for _ in range(60)],
    }
)
VISITS = pa.table(
    {
        "customer": pa.array([number(60) for _ in range(150)], pa.int16()),
        "at": pa.array([moment(with_hour=False) for _ in range(150)], pa.timestamp("us")),
        "seconds": pa.array(range(150), pa.int64()),
        "customer_text": [str(place % 40) for place in range(150)],
    }
)
NAMESPACES = {
    "orders": (ORDERS, [partition.bucket("customer", 16)]),
    "customers": (CUSTOMERS, [partition.bucket("id", 8)]),
    "visits": (VISITS, [partition.bucket("customer", 12)]),
    "sixes": (VISITS, [partition.bucket("customer", 6)]),
    "fives": (VISITS, [partition.bucket("customer", 5)]),
    "texts": (VISITS, [partition.bucket("customer_text", 8)]),
    "orders_by_month": (ORDERS, [partition.year("at"), partition.month("at")]),
    "visits_by_day": (VISITS, [partition.year("at"), partition.month("at"), partition.day("at")]),
    "visits_by_mere_day": (VISITS, [partition.day("at")]),
    "orders_by_mere_month": (ORDERS, [partition.month("at")]),
    "orders_by_region": (ORDERS, [partition.identity("region"), partition.bucket("customer", 4)]),
    "customers_by_region": (CUSTOMERS, [partition.identity("region")]),
    "orders_by_weight": (ORDERS, [partition.identity("weight")]),
    "customers_by_weight": (CUSTOMERS, [partition.identity("weight")]),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("joins")
    for name, (rows, fields) in NAMESPACES.items():
        lance_df.PartitionedNamespace.create(folder / name, rows.schema, fields).append(rows)
    evolved = lance_df.PartitionedNamespace.create(
        folder / "evolved", ORDERS.schema, [partition.bucket("customer", 16), partition.identity("region")]
    )
    evolved.append(ORDERS.slice(0, 150))
    evolved.update_partition_spec([partition.bucket("customer", 8)])
    evolved.append(ORDERS.slice(150))
    return folder


@pytest.fixture(scope="module")
def memory():
    context = datafusion.SessionContext()
    for name, (rows, _) in NAMESPACES.items():
        context.from_arrow(rows, name=name)
    context.from_arrow(ORDERS, name="evolved")
    return context


@pytest.fixture
def ctx(root):
    return lance_df.connect(root)


@pytest.fixture
def check(ctx, memory):
    """Compare a query with memory, all groups at once and one by one; return what each join did."""

    def compare(query, by_partition=None):
        expected = memory.sql(query)
        for mode, limit in MODES:
            ctx.partitioned_joins, ctx.join_memory_limit = mode, limit
            found = ctx.sql(query)
            assert_same_result(found, expected)
        [statement] = found.statements
        effects = [join.effect for join in statement.joins]
        if by_partition is not None:
            assert [effect.startswith("by partition") for effect in effects] == by_partition, effects
        return effects

    return compare


ON = "orders o {} JOIN customers c ON o.customer = c.id"


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
def test_trap_48_outer_joins_keep_partitions_that_only_one_side_has(check, kind):
    check(f"SELECT o.*, c.* FROM {ON.format(kind)}", [True])
    check(f"SELECT o.id, c.name FROM {ON.format(kind)} AND o.total > 50 AND c.name <> 'c3'", [True])
    check(f"SELECT o.id, c.name FROM {ON.format(kind)} AND c.id = 7", [True])
    check(f"SELECT o.id, v.seconds FROM orders_by_month o {kind} JOIN visits_by_day v ON o.at = v.at", [True])


@pytest.mark.parametrize(
    "condition",
    [
        "o.customer IN (SELECT id FROM customers)",
        "o.customer IN (SELECT id FROM customers WHERE name < 'c3') AND total > 20",
        "EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer AND c.region <> o.region)",
        "NOT EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer)",
        "o.customer NOT IN (SELECT id FROM customers)",
        "o.customer NOT IN (SELECT id FROM customers WHERE id IS NOT NULL)",
        "o.customer NOT IN (SELECT id FROM customers WHERE id > 1000)",
        "o.customer IS NOT NULL AND o.customer NOT IN (SELECT id FROM customers WHERE id IS NOT NULL)",
        "o.customer IN (SELECT id FROM customers) OR total > 90",
        "o.customer NOT IN (SELECT id FROM customers WHERE id = 3) OR total > 90",
    ],
)
def test_trap_49_null_keys_in_semi_and_anti_joins(check, condition):
    check(f"SELECT id FROM orders o WHERE {condition}")


def test_trap_49_null_keys_that_are_equal(check):
    check(
        "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer IS NOT DISTINCT FROM c.id", [True]
    )
    check("SELECT customer FROM orders INTERSECT SELECT id FROM customers", [True])
    check("SELECT id FROM customers EXCEPT SELECT customer FROM orders")


def test_trap_49_not_in_goes_by_partition_where_there_is_no_null(check):
    query = """SELECT id FROM orders WHERE customer IS NOT NULL
        AND customer NOT IN (SELECT id FROM customers WHERE id IS NOT NULL)"""
    check(query, [True])


@pytest.mark.parametrize(
    ("tables", "function", "num_groups"),
    [
        (("orders o", "customers c", "o.customer = c.id"), "bucket(8)", 9),
        (("visits o", "customers c", "o.customer = c.id"), "bucket(4)", 5),
        (("sixes o", "customers c", "o.customer = c.id"), "bucket(2)", 3),
        (("orders o", "visits c", "o.customer = c.customer"), "bucket(4)", 5),
        (("fives o", "customers c", "o.customer = c.id"), None, 0),
    ],
)
def test_trap_50_buckets_are_paired_by_their_greatest_common_divisor(check, tables, function, num_groups):
    left, right, condition = tables
    [effect] = check(f"SELECT * FROM {left} FULL JOIN {right} ON {condition}")
    if function is None:
        assert effect.startswith("not by partition: no common partition field")
    else:
        assert effect.startswith(f"by partition: {num_groups} groups by {function}, ")


def test_trap_51_a_day_does_not_imply_a_month(check):
    on = "o.at = v.at AND o.customer = v.customer"
    query = "SELECT o.id, v.seconds FROM {} o LEFT JOIN {} v ON " + on
    [refused] = check(query.format("orders_by_mere_month", "visits_by_mere_day"), [False])
    assert "v1 of orders_by_mere_month has month; v1 of visits_by_mere_day has day" in refused
    [effect] = check(query.format("orders_by_month", "visits_by_day"), [True])
    assert "groups by year, month" in effect
    [effect] = check(query.format("orders_by_mere_month", "visits_by_day"), [True])
    assert "groups by month" in effect


def test_trap_52_a_transform_of_another_column_is_no_help(check):
    [effect] = check(
        "SELECT o.id FROM orders_by_month o JOIN visits_by_day v ON o.customer = v.customer", [False]
    )
    assert "no common partition field" in effect
    check("SELECT o.id FROM orders o JOIN customers c ON o.region = c.region", [False])


def test_trap_53_spec_versions_share_what_all_of_them_imply(check):
    [effect] = check("SELECT o.id, c.name FROM evolved o LEFT JOIN customers c ON o.customer = c.id", [True])
    assert "by bucket(8)" in effect
    [effect] = check("SELECT o.id FROM evolved o JOIN customers_by_region c ON o.region = c.region", [False])
    assert "v1 of evolved has identity; v2 of evolved has none" in effect


def test_trap_54_a_subset_of_the_fields(check):
    [effect] = check(
        "SELECT o.id, c.id FROM orders_by_region o JOIN customers_by_region c USING (region)", [True]
    )
    assert "by identity" in effect
    [effect] = check(
        "SELECT o.id, c.id FROM orders_by_region o JOIN customers c ON o.customer = c.id", [True]
    )
    assert "by bucket(4)" in effect
    both = "o.region = e.region AND o.customer = e.customer"
    check(f"SELECT o.id, e.id FROM orders_by_region o FULL JOIN orders_by_region e ON {both}", [True])


@pytest.mark.parametrize(
    ("query", "by_partition"),
    [
        (f"SELECT o.id, v.seconds FROM {ON.format('')} JOIN visits v ON v.customer = c.id", [True, True]),
        (f"SELECT o.id, v.seconds FROM {ON.format('')} FULL JOIN visits v ON v.customer = o.customer", None),
        (f"SELECT o.id, v.seconds FROM {ON.format('LEFT')} JOIN visits v ON v.customer = c.id", None),
        (
            f"SELECT o.id, v.seconds FROM {ON.format('LEFT')} LEFT JOIN visits v ON v.customer = c.id",
            [False, True],
        ),
        (
            f"SELECT o.id, v.seconds FROM {ON.format('FULL')} LEFT JOIN visits v ON v.customer = c.id",
            [False, True],
        ),
        (
            "SELECT a.name, b.name FROM customers a JOIN customers b ON a.id = b.id AND a.name < b.name",
            [True],
        ),
        ("SELECT a.name, b.name FROM customers a JOIN customers b ON a.id = b.boss", [False]),
        (
            """WITH v AS (SELECT * FROM orders WHERE total > 50)
            SELECT a.id, b.id FROM v a JOIN v b ON a.customer = b.customer""",
            [True],
        ),
        (f"SELECT c.id, count(*), max(total) FROM {ON.format('RIGHT')} GROUP BY c.id", [True]),
        (f"SELECT c.id, count(o.id) FROM {ON.format('LEFT')} GROUP BY c.id", [True]),
        (
            f"SELECT c.name, sum(total), count(*) FROM {ON.format('')} GROUP BY c.name HAVING count(*) > 3",
            [True],
        ),
        (f"SELECT DISTINCT c.region FROM {ON.format('')}", [True]),
        (f"SELECT count(*), count(DISTINCT o.region), count(DISTINCT c.name) FROM {ON.format('')}", [True]),
        (
            f"SELECT c.name, o.region, sum(total) FROM {ON.format('')} GROUP BY ROLLUP (c.name, o.region)",
            [True],
        ),
        (
            f"""SELECT o.id, row_number() OVER (PARTITION BY o.customer ORDER BY o.id, c.name)
            FROM {ON.format("LEFT")}""",
            [True],
        ),
        (
            f"SELECT o.id, rank() OVER (PARTITION BY c.name ORDER BY o.id, c.id) FROM {ON.format('')}",
            [True],
        ),
        (
            "SELECT o.id, (SELECT max(seconds) FROM visits v WHERE v.customer = o.customer) FROM orders o",
            [True],
        ),
        (f"SELECT o.id FROM {ON.format('')} WHERE o.total > (SELECT avg(total) FROM orders)", None),
        (f"SELECT o.id FROM {ON.format('')} UNION ALL SELECT id FROM customers", [True]),
        (
            f"""SELECT x.n, y.n FROM (SELECT c.region r, count(*) n FROM {ON.format("")} GROUP BY 1) x
            JOIN (SELECT region r, count(*) n FROM orders_by_region GROUP BY 1) y ON x.r = y.r""",
            None,
        ),
        (
            f"""SELECT o.id, c.name, x.k FROM {ON.format("")}
            JOIN (VALUES (1, 'c1'), (2, 'c2')) x(k, n) ON x.n = c.name""",
            [False, True],
        ),
    ],
)
def test_trap_55_three_tables_self_joins_and_groups_above(check, query, by_partition):
    check(query, by_partition)


def test_trap_56_rows_are_paired_by_key_after_an_outer_join(check):
    query = """SELECT coalesce(o.customer, c.id) AS k, o.total, c.name, v.seconds
        FROM orders o FULL JOIN customers c ON o.customer = c.id
        FULL JOIN visits v ON v.customer = coalesce(o.customer, c.id) ORDER BY k, total, name, seconds"""
    check(query)


def test_fields_of_structs_of_both_sides(tmp_path):
    """Plans with such columns are optimized once only."""
    rows = pa.table(
        {
            "k": [place % 50 for place in range(200)],
            "s": pa.array([{"a": place, "b": {"c": str(place % 7)}} for place in range(200)]),
        }
    )
    memory, context = datafusion.SessionContext(), lance_df.connect(tmp_path)
    for name in ("l", "r"):
        lance_df.PartitionedNamespace.create(tmp_path / name, rows.schema, [partition.bucket("k", 8)]).append(
            rows
        )
        memory.from_arrow(rows, name=name)
    for query in (
        "SELECT l.k, l.s['a'] AS a, r.s['a'] AS b FROM l JOIN r ON l.k = r.k",
        "SELECT l.s['b']['c'] AS c, sum(r.s['a']) AS n FROM l JOIN r ON l.k = r.k GROUP BY l.s['b']['c']",
        "SELECT l.k FROM l JOIN r ON l.k = r.k AND l.s['a'] > r.s['a'] WHERE r.s['b']['c'] = '3'",
    ):
        for mode, limit in ALL_MODES:
            context.partitioned_joins, context.join_memory_limit = mode, limit
            assert_same_result(context.sql(query), memory.sql(query))


PAIRS = "SELECT a.k AS x, b.k AS y, a.n AS z, b.n AS w FROM l a JOIN r b ON a.k = b.k AND a.n = b.n"


@pytest.mark.parametrize(
    "query",
    [
        f"{PAIRS} ORDER BY 2, 4",
        f"SELECT *, row_number() OVER (ORDER BY y, z) AS r FROM ({PAIRS})",
        f"SELECT y, w FROM ({PAIRS}) WHERE w > 3 ORDER BY w, y",
        f"SELECT *, lag(w) OVER (PARTITION BY x ORDER BY w) AS o FROM ({PAIRS}) ORDER BY w, y",
        "SELECT k, k AS y, count(*) AS n FROM l GROUP BY 1, 2 ORDER BY 2",
        "SELECT k AS x, k AS y, sum(n) AS n FROM l GROUP BY k ORDER BY y",
        "SELECT s, s AS t, k FROM l WHERE s = 'v3' GROUP BY 1, 2, 3 ORDER BY 2, 3",
        "SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n) AS r, n AS m FROM l ORDER BY m",
        "SELECT k % 7 AS x, k % 7 AS y, max(n) AS n FROM l GROUP BY 1, 2 ORDER BY y",
    ],
)
def test_columns_that_are_equal_are_sorted_by(tmp_path, query):
    rows = pa.table(
        {
            "k": [place % 50 for place in range(400)],
            "s": [f"v{place % 10}" for place in range(400)],
            "n": range(400),
        }
    )
    memory, context = datafusion.SessionContext(), lance_df.connect(tmp_path)
    for name, buckets in (("l", 8), ("r", 4)):
        fields = [partition.bucket("k", buckets)]
        lance_df.PartitionedNamespace.create(tmp_path / name, rows.schema, fields).append(rows)
        memory.from_arrow(rows, name=name)
    for mode, limit in ALL_MODES:
        context.partitioned_joins, context.join_memory_limit = mode, limit
        assert_same_result(context.sql(query), memory.sql(query))


def test_trap_57_keys_of_other_types(check):
    check("SELECT o.id FROM orders o JOIN visits v ON o.customer = v.customer", [True])
    check("SELECT o.id FROM orders o JOIN texts v ON o.customer = v.customer_text", [False])
    check("SELECT o.id FROM orders o JOIN customers c ON CAST(o.customer AS DOUBLE) = c.id", [False])
    check("SELECT o.id FROM orders o JOIN customers c ON TRY_CAST(o.customer AS TINYINT) = c.id", [False])
    check("SELECT o.id FROM orders o JOIN customers c ON o.customer + 0 = c.id", [False])


def test_trap_57_dates_moments_and_zones(tmp_path):
    days = [dt.date(2024, 1, 1 + place % 20) for place in range(60)]
    moments = pa.array([dt.datetime(2024, 1, 1 + place % 20) for place in range(60)], pa.timestamp("s"))
    columns = {
        "days": pa.array(days),
        "seconds": moments,
        "nanoseconds": moments.cast(pa.timestamp("ns")),
        "zoned": moments.cast(pa.timestamp("us", "Europe/Berlin")),
    }
    context, memory = lance_df.connect(tmp_path), datafusion.SessionContext()
    context.partitioned_joins = "always"
    for name, values in columns.items():
        rows = pa.table({"k": values, "n": range(60)})
        lance_df.PartitionedNamespace.create(tmp_path / name, rows.schema, [partition.bucket("k", 4)]).append(
            rows
        )
        memory.from_arrow(rows, name=name)
    alike = {("seconds", "nanoseconds"), ("nanoseconds", "seconds")}
    for left in columns:
        for right in columns:
            query = f"SELECT a.n, b.n FROM {left} a JOIN {right} b ON a.k = b.k"
            found = context.sql(query)
            assert_same_result(found, memory.sql(query))
            [join] = found.statements[0].joins
            if (left, right) in alike:  # DataFusion 51 compares them as seconds, and rounds for that
                assert join.effect.startswith("by") or "compared as timestamp[s]" in join.effect, join
            else:
                assert join.effect.startswith("by") == (left == right), (query, join)


def test_trap_58_zeros_and_nans(check):
    check(
        "SELECT o.id, c.name FROM orders_by_weight o FULL JOIN customers_by_weight c USING (weight)", [True]
    )
    check(
        "SELECT o.id FROM orders_by_weight o LEFT ANTI JOIN customers_by_weight c ON o.weight = c.weight",
        [True],
    )


def test_trap_59_a_key_in_tables_of_several_spec_versions(check, root):
    key = next(
        key
        for key in ORDERS["customer"].to_pylist()
        if key is not None
        and all(key in part["customer"].to_pylist() for part in (ORDERS[:150], ORDERS[150:]))
    )
    check(
        f"SELECT o.id, c.name FROM evolved o LEFT JOIN customers c ON o.customer = c.id AND c.id = {key}",
        [True],
    )
    check(f"SELECT o.id FROM evolved o JOIN orders e ON o.customer = e.customer WHERE e.customer = {key}")


@pytest.mark.parametrize("mode", ["always", "never"])
def test_members_that_a_repartition_has_emptied_do_not_count(tmp_path, mode):
    rows = pa.table({"k": pa.array([*range(200), None], pa.int64()), "n": range(201)})
    moved = lance_df.PartitionedNamespace.create(tmp_path / "moved", rows.schema, [partition.identity("n")])
    moved.append(rows.slice(0, 50))
    moved.update_partition_spec([partition.bucket("k", 8)])
    moved.append(rows.slice(50))
    other = lance_df.PartitionedNamespace.create(tmp_path / "other", rows.schema, [partition.bucket("k", 4)])
    other.append(rows.slice(25))
    memory = datafusion.SessionContext()
    memory.from_arrow(rows, name="moved")
    memory.from_arrow(rows.slice(25), name="other")
    query = "SELECT * FROM moved FULL JOIN other ON moved.k = other.k"
    effects = []
    for _ in range(2):
        frame = lance_df.connect(tmp_path, partitioned_joins=mode).sql(query)
        assert_same_result(frame, memory.sql(query))
        effects += [join.effect for statement in frame.statements for join in statement.joins]
        moved.repartition()
    if mode == "always":
        before, after = effects
        assert "no common partition field" in before
        assert after.startswith("by partition")


def test_trap_60_a_heavy_key_and_an_empty_partition(tmp_path):
    rows = pa.table({"k": pa.array([7] * 3000 + list(range(50)), pa.int64()), "n": range(3050)})
    few = pa.table({"k": pa.array([*range(40, 60), 7, 7, None], pa.int64()), "m": range(23)})
    context, memory = lance_df.connect(tmp_path), datafusion.SessionContext()
    for name, table, count in (("heavy", rows, 16), ("few", few, 8)):
        namespace = lance_df.PartitionedNamespace.create(
            tmp_path / name, table.schema, [partition.bucket("k", count)]
        )
        namespace.append(table)
        memory.from_arrow(table, name=name)
    lance_df.PartitionedNamespace.open(tmp_path / "few").delete("k = 45")
    memory.sql("CREATE TABLE left_over AS SELECT * FROM few WHERE k <> 45 OR k IS NULL")
    for number, kind in enumerate(("INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI", "RIGHT ANTI")):
        left, right = ("heavy", "few") if number % 2 else ("few", "heavy")
        query = f"SELECT * FROM {left} {kind} JOIN {right} ON {left}.k = {right}.k"
        expected = memory.sql(query.replace("few", "left_over"))
        for mode, limit in MODES:
            context.partitioned_joins, context.join_memory_limit = mode, limit
            assert_same_result(context.sql(query), expected)


def test_a_group_that_is_larger_than_the_limit_is_joined_in_shares(tmp_path, monkeypatch):
    monkeypatch.setattr(partitioned_join_units, "_MIN_SHARE_BYTES", 1)
    count = 2000
    keys = [None if number % 50 == 0 else number for number in range(count)]
    tables = {
        "wide": pa.table({"k": pa.array(keys, pa.int64()), "n": range(count)}),
        "thin": pa.table({"k": pa.array(keys[::2], pa.int32()), "m": range(count // 2)}),
    }
    context = lance_df.connect(tmp_path, partitioned_joins="always", join_memory_limit=4_000)
    memory = datafusion.SessionContext()
    for name, table in tables.items():
        namespace = lance_df.PartitionedNamespace.create(tmp_path / name, table.schema, ["bucket(k, 2)"])
        namespace.append(table)
        memory.from_arrow(table, name=name)
    for query in (
        "SELECT n, m FROM thin FULL JOIN wide ON thin.k = wide.k AND n < 900 WHERE n IS NULL OR n <> 4",
        "SELECT wide.k, count(*), sum(m) FROM wide JOIN thin ON thin.k = wide.k GROUP BY wide.k",
        "SELECT m FROM thin LEFT ANTI JOIN wide ON thin.k = wide.k",
        "SELECT count(*) FROM wide JOIN thin ON thin.k IS NOT DISTINCT FROM wide.k",
    ):
        found = context.sql(query)
        assert_same_result(found, memory.sql(query))
        [statement] = found.statements
        [effect] = [join.effect for join in statement.joins]
        units = int(effect.split(" in ")[1].split()[0])
        assert units > 8, effect
        read = [provider.log.counters.rows for _, provider in statement.units]
        assert 0 < max(read) < count / 4


def test_shares_hold_each_key_once_and_about_as_many():
    numbers = pa.array([*range(100_000), None])
    hashes = murmur3(numbers.slice(0, 100_000)).to_numpy().astype("int64")
    bucket = numbers.filter(pa.array([*(abs(hashes) % 16 == 3), True]))
    held = [Share(number, 8).holds(bucket) for number in range(8)]
    assert (sum(each.astype(int) for each in held) == 1).all()
    assert all(abs(each.sum() * 8 - len(bucket)) < len(bucket) / 4 for each in held)


def test_trap_61_both_sides_are_of_one_version_each(tmp_path):
    rows = pa.table({"k": pa.array(range(100), pa.int64())})
    namespaces = [
        lance_df.PartitionedNamespace.create(tmp_path / name, rows.schema, [partition.bucket("k", 4)])
        for name in ("a", "b")
    ]
    for namespace in namespaces:
        namespace.append(rows)
    context = lance_df.connect(tmp_path)
    context.partitioned_joins = "always"
    query = "SELECT count(*) AS n FROM a JOIN b ON a.k = b.k"
    planned = context.sql(query)
    for namespace in namespaces:
        namespace.append(rows)
    assert planned.to_pydict() == {"n": [100]}
    assert context.sql(query).to_pydict() == {"n": [400]}
    assert [join.effect[:2] for join in context.explain_scan(query).joins] == ["by"]


def test_trap_62_limits_above_a_join(check, ctx, memory):
    order = "ORDER BY o.total DESC, o.id, c.name"
    check(f"SELECT o.id, c.name FROM {ON.format('')} {order} LIMIT 7 OFFSET 3", [True])
    check(f"SELECT o.id, c.name FROM {ON.format('LEFT')} {order} LIMIT 7", [True])
    for mode, limit in ALL_MODES:
        ctx.partitioned_joins, ctx.join_memory_limit = mode, limit
        found = ctx.sql(f"SELECT o.id, c.name FROM {ON.format('')} LIMIT 11 OFFSET 2")
        rows = rows_of(collected(found))
        assert len(rows) == 11
        assert set(rows) <= set(rows_of(collected(memory.sql(f"SELECT o.id, c.name FROM {ON.format('')}"))))


def test_groups_that_filters_leave_empty_are_not_read(ctx):
    ctx.partitioned_joins = "always"
    report = ctx.explain_scan(f"SELECT o.id, c.name FROM {ON.format('')} WHERE c.id = 7 AND o.total > 10")
    assert [table.partitions.kept for table in report.tables] in ([1, 1], [1, 2], [2, 1])
    outer = ctx.explain_scan(f"SELECT o.id, c.name FROM {ON.format('LEFT')} AND c.id = 7")
    assert sorted(table.partitions.kept for table in outer.tables) == [1, 16]


def test_names_with_dots_quotes_and_schemas(check):
    check(
        """SELECT "o".id, 'a.b' AS "x.y" FROM orders AS "o"
        JOIN customers "C ""d" ON "o".customer = "C ""d".id WHERE "C ""d".region IS NULL""",
        [True],
    )
    check('SELECT t.* FROM (SELECT o.id AS "O", c.id FROM ' + ON.format("") + ') t WHERE "O" > 50', [True])
    check(
        "SELECT o.id FROM public.orders o JOIN datafusion.public.customers ON o.customer = customers.id",
        [True],
    )


def test_views_parameters_and_moments(ctx, check):
    ctx.partitioned_joins = "always"
    ctx.sql(f"CREATE VIEW joined AS SELECT o.id, c.name FROM {ON.format('')}")
    query = "SELECT count(*) AS n FROM joined WHERE name > $least"
    [join] = ctx.explain_scan(query, {"least": "c3"}).joins
    assert join.effect.startswith("by partition")
    found = ctx.sql(query, param_values={"least": "c3"}).to_pydict()
    ctx.partitioned_joins = "never"
    assert ctx.sql(query, param_values={"least": "c3"}).to_pydict() == found
    ctx.partitioned_joins = "always"
    moments = ctx.sql(f"SELECT DISTINCT now() AS n FROM {ON.format('')}").to_pydict()["n"]
    assert len(moments) == 1


def test_small_joins_are_ordinary_unless_asked_for(ctx):
    [join] = ctx.explain_scan(f"SELECT o.id FROM {ON.format('')}").joins
    assert "joined faster as a whole" in join.effect
    [join] = ctx.explain_scan(f"SELECT c.id, count(*) FROM {ON.format('')} GROUP BY c.id").joins
    assert "grouped faster as a whole" in join.effect
    ctx.partitioned_joins = "never"
    [join] = ctx.explain_scan(f"SELECT o.id FROM {ON.format('')}").joins
    assert "switched off" in join.effect


@pytest.mark.parametrize(
    ("above", "least"),
    [
        ("", partitioned_join_gain._WORTH_JOINED_ROWS),
        (" GROUP BY c.id", partitioned_join_gain._WORTH_GROUPED_ROWS),
    ],
)
def test_larger_joins_go_by_partition_and_groups_sooner_than_joins(ctx, monkeypatch, above, least):
    query = f"SELECT count(*) FROM {ON.format('')}{above}"
    for num_rows, expected in ((least - 1, "not by partition"), (least, "by partition")):
        monkeypatch.setattr(
            partitioned_join_units,
            "_sizes",
            lambda _, count, rows=num_rows: tuple(
                np.diff(np.arange(count + 1) * rows // count) for _ in "123"
            ),
        )
        [join] = ctx.explain_scan(query).joins
        assert join.effect.startswith(expected), join.effect


def test_results_can_be_worked_with(ctx, memory):
    from datafusion import col
    from datafusion import functions as f

    query = f"SELECT o.customer, o.total, c.name FROM {ON.format('')}"
    frames = []
    for mode, limit in ALL_MODES:
        ctx.partitioned_joins, ctx.join_memory_limit = mode, limit
        frames.append(ctx.sql(query))
    for frame in (*frames, memory.sql(query)):
        summed = frame.filter(col("total") > 20).aggregate([col("name")], [f.sum(col("total")).alias("s")])
        by_name = f"SELECT name, sum(total) AS s FROM {ON.format('')} WHERE total > 20 GROUP BY name"
        assert_same_result(summed, memory.sql(by_name))
        assert_same_result(frame, frame)  # a frame may be run again
    assert_same_result(frames[1].union(frames[2]), memory.sql(f"{query} UNION ALL {query}"))


def test_streams_may_be_dropped_half_way(ctx):
    ctx.partitioned_joins, ctx.join_memory_limit = "always", 2_000
    stream = ctx.sql(f"SELECT o.id FROM {ON.format('')}").execute_stream()
    assert next(iter(stream)).to_pyarrow().num_rows
    del stream
    assert ctx.sql(f"SELECT count(*) AS n FROM {ON.format('')}").to_pydict()["n"][0] > 0


def test_a_missing_member_is_named(tmp_path):
    from lance_df.errors import NotFoundError

    rows = pa.table({"k": pa.array(range(100), pa.int64())})
    for name in ("a", "b"):
        lance_df.PartitionedNamespace.create(tmp_path / name, rows.schema, [partition.bucket("k", 4)]).append(
            rows
        )
    gone = lance_df.PartitionedNamespace.open(tmp_path / "b").partitions()["location"][0].as_py()
    (tmp_path / "b" / gone).rename(tmp_path / "elsewhere")
    for mode, limit in ALL_MODES:
        context = lance_df.connect(tmp_path)
        context.partitioned_joins, context.join_memory_limit = mode, limit
        with pytest.raises(NotFoundError, match=gone.replace("$", r"\$")):
            context.sql("SELECT count(*) FROM a JOIN b ON a.k = b.k").collect()


@pytest.mark.parametrize(("name", "value"), [("partitioned_joins", "yes"), ("join_memory_limit", 0)])
def test_settings_are_checked(ctx, name, value):
    setattr(ctx, name, value)
    with pytest.raises(InvalidInputError, match=name):
        ctx.sql("SELECT 1 FROM orders")
    with pytest.raises(InvalidInputError, match=name):
        lance_df.connect(**{name: value})


def test_enabled_contexts_join_by_partition_too(root, memory):
    plain = datafusion.SessionContext()
    for name in ("orders", "customers"):
        lance_df.register(plain, name, root / name)
    enabled = lance_df.enable(plain)
    enabled.partitioned_joins = "always"
    query = f"SELECT o.id, c.name FROM {ON.format('LEFT')}"
    assert_same_result(enabled.sql(query), memory.sql(query))
    assert [join.effect[:2] for join in enabled.explain_scan(query).joins] == ["by"]


def test_joins_within_a_limit_give_back_what_they_have_read(tmp_path, monkeypatch):
    released = []
    monkeypatch.setattr(table_module, "release_pages", released.extend)
    rows = pa.table({"k": range(64), "v": range(64)})
    for name in ("a", "b"):
        by = [partition.bucket("k", 4)]
        lance_df.PartitionedNamespace.create(tmp_path / name, rows.schema, by).append(rows)
    files = sorted(map(str, tmp_path.glob("*/*$dataset/data/*")))
    context = lance_df.connect(tmp_path, partitioned_joins="always", join_memory_limit=1)
    query = "SELECT count(*) AS n, sum(a.v + b.v) AS s FROM a JOIN b ON a.k = b.k"
    for _ in range(2):
        assert context.sql(query).to_pylist() == [{"n": 64, "s": 63 * 64}]
        assert sorted(released) == files
        released.clear()
    context.join_memory_limit = None
    assert context.sql(query).to_pylist() == [{"n": 64, "s": 63 * 64}]
    assert not released


def test_units_within_a_large_limit_stay_small():
    sizes = np.full(64, 2**20)
    numbers, _ = partitioned_join_units._bounded(sizes, 2**30)
    assert np.bincount(numbers).tolist() == [8] * 8
    numbers, at_once = partitioned_join_units._bounded(sizes, 1)
    assert at_once == 1
    assert np.bincount(numbers).tolist() == [1] * 64


@pytest.mark.parametrize("num_threads", [1, 4])
def test_all_threads_read_a_group_that_is_one_file(tmp_path, monkeypatch, num_threads):
    monkeypatch.setattr(partitioned_join, "num_cores", lambda: num_threads)
    monkeypatch.setattr(partitioned_join_units, "_MIN_WINDOW_ROWS", 1)
    keys = np.arange(300_000)
    for name in ("a", "b"):
        rows = pa.table({"k": keys, name: keys})
        by = [partition.bucket("k", 2)]
        lance_df.PartitionedNamespace.create(tmp_path / name, rows.schema, by).append(rows)
    context = lance_df.connect(tmp_path, partitioned_joins="always", join_memory_limit=1)
    found = context.sql("SELECT sum(a) AS s FROM a JOIN b ON a.k = b.k AND a + b > 9")
    assert found.to_pylist() == [{"s": sum(range(5, 300_000))}]
    [statement] = found.statements
    tasks = [len(provider.log.scans[-1].tasks) for _, provider in statement.units]
    assert len(tasks) == 4
    assert set(tasks) == ({1} if num_threads == 1 else {6})


@pytest.mark.parametrize("limit", [None, 100_000])
def test_units_build_on_the_smaller_side(tmp_path, limit):
    many = pa.table({"k": pa.array([number(4_000) for _ in range(12_000)], pa.int64()), "n": range(12_000)})
    few = pa.table({"k": pa.array([None, *range(2_000)], pa.int64()), "m": range(2_001)})
    context, memory = lance_df.connect(tmp_path, partitioned_joins="always"), datafusion.SessionContext()
    context.join_memory_limit = limit
    for name, table, count in (("many", many, 8), ("few", few, 4)):
        by = [partition.bucket("k", count)]
        lance_df.PartitionedNamespace.create(tmp_path / name, table.schema, by).append(table)
        memory.from_arrow(table, name=name)
    for kind, built in (("INNER", "Inner"), ("LEFT", "Right"), ("RIGHT", "Left"), ("FULL", "Full")):
        query = f"SELECT n, m, many.k, few.k FROM many {kind} JOIN few ON many.k = few.k AND n + m <> 9"
        found = context.sql(query)
        [statement] = found.statements
        for plan in [plan() for plan in statement.unit_plans] or [found.execution_plan()]:
            text = plan.display_indent()
            assert f"join_type={built}," in text
            assert text.index("projection=[k, m]") < text.index("projection=[k, n]")
        assert_same_result(found, memory.sql(query))


WORDS = ["a", "ab", "abc", "é", "éa", "zz", "", None, "abcdefgh"] * 3
KEYS = {
    "string": pa.array(WORDS),
    "large_string": pa.array(WORDS, pa.large_string()),
    "dictionary": pa.array(WORDS).dictionary_encode(),
    "binary": pa.array(WORDS, pa.binary()),
    "large_binary": pa.array(WORDS, pa.large_binary()),
}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("string", "large_string"),
        ("large_string", "dictionary"),
        ("string", "string"),
        ("binary", "large_binary"),
    ],
)
@pytest.mark.parametrize(
    ("transforms", "function"),
    [
        (("k", "bucket(k, 4)"), "bucket(4)"),
        (("bucket(k, 4)", "bucket(k, 6)"), "bucket(2)"),
        (("k", "k"), "identity"),
    ],
)
def test_text_and_binary_keys_may_differ_in_width(tmp_path, one, other, transforms, function):
    for name, key, transform in zip("xy", (one, other), transforms, strict=True):
        rows = pa.table({"k": KEYS[key], name: range(len(WORDS))})
        lance_df.PartitionedNamespace.create(tmp_path / name, rows.schema, [transform]).append(rows)
    query = "SELECT x, y FROM x JOIN y ON x.k = y.k ORDER BY x, y"
    ctx = lance_df.connect(tmp_path, partitioned_joins="always")
    (join,) = ctx.explain_scan(query).joins
    assert f"groups by {function}" in join.effect
    plain = lance_df.connect(tmp_path, partitioned_joins="never")
    rows = ctx.sql(query).to_arrow_table()
    assert rows.num_rows == 8 * 9
    assert rows == plain.sql(query).to_arrow_table()


def test_keys_of_types_that_do_not_agree_are_named(tmp_path):
    numbers = pa.array([1, 2, 3], pa.decimal128(9, 2))
    for name, key, transform in (
        ("x", numbers, "k"),
        ("y", numbers.cast(pa.decimal128(12, 4)), "bucket(k, 4)"),
    ):
        rows = pa.table({"k": key})
        lance_df.PartitionedNamespace.create(tmp_path / name, rows.schema, [transform]).append(rows)
    ctx = lance_df.connect(tmp_path, partitioned_joins="always")
    (join,) = ctx.explain_scan("SELECT count(*) FROM x JOIN y ON x.k = y.k").joins
    assert join.effect.endswith("; key 1 is decimal128(9, 2) and decimal128(12, 4)")
