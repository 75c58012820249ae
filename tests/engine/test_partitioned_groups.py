"""Groups and windows over one namespace, partition by partition."""

import datetime as dt
import math
import random

import datafusion
import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from lance_df.engine.optimizer.rules.partitioned_join import gain as partitioned_join_gain
from lance_df.engine.optimizer.rules.partitioned_join import units as partitioned_join_units
from tests.engine.query_results import assert_same_result

pytestmark = pytest.mark.engine

MODES = [("always", None), ("auto", 1)]
RANDOM = random.Random(7)
NUM_ROWS = 300


def values(choose, data_type):
    return pa.array([None if RANDOM.random() < 0.1 else choose() for _ in range(NUM_ROWS)], data_type)


EVENTS = pa.table(
    {
        "id": pa.array(range(NUM_ROWS), pa.int64()),
        "user": values(lambda: RANDOM.randrange(-8, 16), pa.int64()),
        "weight": values(
            lambda: RANDOM.choice([0.0, -0.0, math.nan, -math.nan, math.inf, 1.5]), pa.float64()
        ),
        "name": values(lambda: RANDOM.choice(["", "ä", "ab", "abc", "abd"]), pa.string()),
        "at": values(
            lambda: dt.datetime(2024, 1, 1) + dt.timedelta(days=RANDOM.randrange(99)), pa.timestamp("us")
        ),
        "x": values(lambda: RANDOM.randrange(50) / 4, pa.float64()),
    }
)
NAMESPACES = {
    "by_user": [[partition.bucket("user", 8)]],
    "by_step": [[partition.truncate("user", 10)]],
    "by_weight": [[partition.identity("weight")]],
    "by_name": [[partition.truncate("name", 2), partition.bucket("user", 3)]],
    "by_month": [[partition.year("at"), partition.month("at")]],
    "evolved": [
        [partition.bucket("user", 12)],
        [partition.identity("user")],
        [partition.bucket("user", 8)],
    ],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    for name, specs in NAMESPACES.items():
        namespace = lance_df.PartitionedNamespace.create(folder / name, EVENTS.schema, specs[0])
        size = -(-NUM_ROWS // len(specs))
        for number, fields in enumerate(specs):
            if number:
                namespace.update_partition_spec(fields)
            namespace.append(EVENTS.slice(number * size, size))
        namespace.delete("id % 7 = 2")
    return folder


@pytest.fixture(scope="module")
def memory():
    context = datafusion.SessionContext()
    for name in NAMESPACES:
        context.from_arrow(EVENTS, name=f"all_{name}")
        context.sql(f"CREATE VIEW {name} AS SELECT * FROM all_{name} WHERE id % 7 <> 2")
    return context


@pytest.fixture
def check(root, memory, monkeypatch):
    """Compare a query with memory, however it is computed; return what each step did at last."""
    monkeypatch.setattr(partitioned_join_gain, "_WORTH_GROUPED_ROWS", 0)
    monkeypatch.setattr(partitioned_join_gain, "_WORTH_GROUPS", 0)
    monkeypatch.setattr(partitioned_join_units, "_MIN_UNIT_ROWS", 1)
    monkeypatch.setattr(partitioned_join_units, "_MIN_SHARE_BYTES", 2_000)

    def compare(query):
        expected = memory.sql(query)
        for mode, limit in MODES:
            found = lance_df.connect(root, partitioned_joins=mode, join_memory_limit=limit).sql(query)
            assert_same_result(found, expected)
        [statement] = found.statements
        return [join.effect for join in statement.joins]

    return compare


@pytest.mark.parametrize(
    ("query", "by"),
    [
        ('SELECT "user", count(*), sum(x) FROM by_user GROUP BY "user"', "bucket(8)"),
        ('SELECT DISTINCT "user" FROM by_user', "bucket(8)"),
        ('SELECT count(DISTINCT "user") FROM by_user', "bucket(8)"),
        ('SELECT name, "user" AS u, avg(x) FROM by_user GROUP BY u, name', "bucket(8)"),
        ('SELECT "user" FROM by_user GROUP BY "user" HAVING count(*) > 5 AND max(x) < 12', "bucket(8)"),
        ('SELECT "user", sum(x) AS s FROM by_step GROUP BY "user" ORDER BY s, 1 LIMIT 3', "truncate(10)"),
        ("SELECT weight, count(*) FROM by_weight GROUP BY weight", "identity"),
        ("SELECT weight, name, count(DISTINCT x) FROM by_weight GROUP BY 1, 2", "identity"),
        ('SELECT "user", name, max(at) FROM by_name GROUP BY 1, 2', "truncate(2), bucket(3)"),
        (  # DataFusion before 55 counts conditions that are NULL
            'SELECT "user", count(*) FILTER (WHERE x > 3 AND x IS NOT NULL) FROM by_name GROUP BY "user"',
            "bucket(3)",
        ),
        ("SELECT at, count(*) FROM by_month GROUP BY at", "year, month"),
        ('SELECT "user", sum(x) FROM evolved WHERE name IS NOT NULL GROUP BY "user"', "bucket(4)"),
        (
            'SELECT n, count(*) FROM (SELECT count(*) AS n FROM evolved GROUP BY "user") GROUP BY n',
            "bucket(4)",
        ),
        (
            'SELECT id, sum(x) OVER (PARTITION BY "user" ORDER BY id ROWS 2 PRECEDING) FROM by_user',
            "bucket(8)",
        ),
        (
            "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY weight ORDER BY id DESC) AS r"
            " FROM by_weight) WHERE r = 1",
            "identity",
        ),
        (
            'SELECT r, count(*) FROM (SELECT rank() OVER (PARTITION BY name, "user" ORDER BY id) AS r'
            " FROM by_name) GROUP BY r",
            "truncate(2), bucket(3)",
        ),
    ],
)
def test_groups_by_what_partitions_tell_apart(check, query, by):
    [effect] = check(query)
    assert effect.startswith("by partition: "), effect
    assert f" by {by}, in " in effect, effect
    assert effect.endswith(" at a time"), effect


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT name, count(*) FROM by_user GROUP BY name", "v1 of by_user has none"),
        ('SELECT "user" % 3, count(*) FROM by_user GROUP BY 1', "none of the columns that it groups by"),
        ('SELECT "user", count(*) FROM by_user GROUP BY ROLLUP ("user")', "grouping sets"),
        ("SELECT id, sum(x) OVER (PARTITION BY name ORDER BY id) FROM by_user", "v1 of by_user has none"),
        (
            'SELECT "user", count(*) FROM by_user WHERE "user" = 7 GROUP BY "user"',
            "all rows are in one group",
        ),
    ],
)
def test_groups_that_partitions_do_not_tell_apart(check, query, why):
    [effect] = check(query)
    assert effect.startswith("not by partition: "), effect
    assert why in effect


def test_both_of_a_union_and_a_join_of_groups(check):
    effects = check(
        'SELECT "user", count(*) FROM by_user GROUP BY "user" UNION ALL SELECT id, 0 FROM by_weight'
        " UNION ALL SELECT id, r FROM (SELECT id, count(*) OVER (PARTITION BY weight) AS r FROM by_weight)"
    )
    assert [effect.startswith("by partition") for effect in effects] == [True, True]
    effects = check(
        'SELECT n, count(*) FROM (SELECT "user", count(*) AS n FROM by_user GROUP BY "user") a'
        ' JOIN evolved b ON a."user" = b."user" GROUP BY n'
    )
    assert [effect.startswith("by partition") for effect in effects] == [True]


def test_groups_below_a_subquery(check):
    effects = check(
        'SELECT "user", count(*) FROM by_user GROUP BY "user" HAVING count(*) > (SELECT avg(x) FROM by_user)'
    )
    # some releases make a join of it
    assert any(effect.startswith("by partition: ") for effect in effects)


def test_random_groups_and_windows(check):
    keys = ['"user"', "weight", "name", "at"]
    aggregates = [
        "count(*)",
        "sum(x)",
        "count(DISTINCT name)",
        "min(x) FILTER (WHERE id > 99)",
        "avg(x)",
        "median(x)",
    ]
    filters = ["", " WHERE x > 2", ' WHERE "user" IS NULL', " WHERE id % 3 = 0", " WHERE false"]
    effects = []
    for name in NAMESPACES:
        by = ", ".join(RANDOM.sample(keys, RANDOM.randrange(1, 3)))
        what = ", ".join(RANDOM.sample(aggregates, 2))
        source = f"{name}{RANDOM.choice(filters)}"
        frame = RANDOM.choice(["", " ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING"])
        effects += check(f"SELECT {by}, {what} FROM {source} GROUP BY {by}")
        effects += check(f"SELECT id, sum(x) OVER (PARTITION BY {by} ORDER BY id{frame}) FROM {source}")
    divided = sum(effect.startswith("by partition") for effect in effects)
    assert 0 < divided < len(effects)


def test_few_rows_and_few_groups_are_made_as_a_whole(root, monkeypatch):
    ctx = lance_df.connect(root)
    query = 'SELECT "user", count(*) FROM by_user GROUP BY "user"'
    [step] = ctx.explain_scan(query).joins
    assert step.join.startswith("Aggregate: ")
    assert "rows are grouped faster as a whole" in step.effect
    monkeypatch.setattr(partitioned_join_gain, "_WORTH_GROUPED_ROWS", 200)
    [step] = ctx.explain_scan(query).joins
    assert "groups are computed faster as a whole" in step.effect
    [step] = ctx.explain_scan('SELECT count(*) OVER (PARTITION BY "user") FROM by_user').joins
    assert step.effect.startswith("by partition: "), step.effect
    monkeypatch.setattr(partitioned_join_gain, "_WORTH_GROUPS", 15)
    [step] = ctx.explain_scan(query).joins
    assert step.effect.startswith("by partition: "), step.effect
    [step] = ctx.explain_scan("SELECT weight, count(*) FROM by_weight GROUP BY weight").joins
    assert "groups are computed faster as a whole" in step.effect
    ctx.join_memory_limit = 1 << 30
    [step] = ctx.explain_scan(query).joins
    assert step.effect.startswith("by partition: "), step.effect
    assert " at a time" not in step.effect
    ctx.join_memory_limit = 1
    [step] = ctx.explain_scan("SELECT weight, count(*) FROM by_weight GROUP BY weight").joins
    assert step.effect.endswith(", 1 at a time")
    ctx.partitioned_joins = "never"
    [step] = ctx.explain_scan(query).joins
    assert "switched off" in step.effect
    assert ctx.explain_scan("SELECT count(*) FROM by_user").joins == ()


def test_groups_that_are_joined_are_left_to_the_sizes_of_tables(root, memory, monkeypatch):
    monkeypatch.setattr(partitioned_join_gain, "_WORTH_GROUPED_ROWS", 0)
    monkeypatch.setattr(partitioned_join_gain, "_WORTH_GROUPS", 0)
    ctx = lance_df.connect(root)
    groups = 'SELECT "user" FROM by_user GROUP BY "user" HAVING count(*) > 3'

    def effects(query):
        assert_same_result(ctx.sql(query), memory.sql(query))
        return [step.effect for step in ctx.explain_scan(query).joins if step.join.startswith("Aggregate: ")]

    joined = f'SELECT id, x FROM by_weight WHERE "user" IN ({groups})'
    [effect] = effects(joined)
    assert effect.endswith("how they are joined depends on their sizes")
    # a union joins nothing
    both = effects(f"{groups} UNION ALL {groups}")
    assert [effect.startswith("by partition: ") for effect in both] == [True, True]
    ctx.join_memory_limit = 1 << 30
    assert effects(joined)[0].startswith("by partition: ")
    ctx.join_memory_limit, ctx.partitioned_joins = None, "always"
    assert effects(joined)[0].startswith("by partition: ")


def test_many_groups_are_made_in_more_units(root, monkeypatch):
    ctx = lance_df.connect(root, partitioned_joins="always")
    monkeypatch.setattr(partitioned_join_units, "num_cores", lambda: 4)
    query = 'SELECT id, "user", count(*) FROM by_user GROUP BY 1, 2'
    for num_groups, num_units in ((1_000_000, 4), (10, 8)):
        monkeypatch.setattr(partitioned_join_units, "_UNIT_GROUPS", num_groups)
        [step] = ctx.explain_scan(query).joins
        assert f"in {num_units} units" in step.effect
