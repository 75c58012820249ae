"""Aggregates above joins that are computed group by group: as over the same rows in memory."""

from __future__ import annotations

import random
import threading
from decimal import Decimal

import datafusion
import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from lance_df.engine.optimizer.rules.partitioned_join import rule as partitioned_join
from lance_df.engine.optimizer.rules.partitioned_join import units as partitioned_join_units
from lance_df.engine.plans import partial_aggregates
from tests.engine.query_results import assert_same_result

pytestmark = pytest.mark.engine

CHOICE = random.Random(31)
COUNT = 400


def some(value, share=0.15):
    return None if CHOICE.random() < share else value


LEFT = pa.table(
    {
        "k": pa.array([some(CHOICE.randrange(60)) for _ in range(COUNT)], pa.int64()),
        "price": pa.array([some(Decimal(CHOICE.randrange(-9999, 9999)) / 100) for _ in range(COUNT)]),
        "tiny": pa.array([some(CHOICE.randrange(-128, 128)) for _ in range(COUNT)], pa.int8()),
        "huge": pa.array([some(2**64 - 1 - place) for place in range(COUNT)], pa.uint64()),
        "half": pa.array([some(CHOICE.randrange(64) / 4) for _ in range(COUNT)], pa.float32()),
        "text": [some(CHOICE.choice(["", "ä", "b", "\U0001f600"])) for _ in range(COUNT)],
        "flag": [some(CHOICE.random() < 0.5) for _ in range(COUNT)],
    }
)
RIGHT = pa.table(
    {
        "id": pa.array(range(80), pa.int64()),
        "kind": [some(CHOICE.choice("xyz")) for _ in range(80)],
        "nothing": pa.nulls(80, pa.int32()),
    }
)
CALLS = [
    *("count(*)", "count(price)", "count(nothing)", "sum(price)", "sum(tiny)", "sum(half)", "sum(nothing)"),
    *("min(text)", "max(text)", "min(price)", "max(half)", "min(nothing)", "min(huge)", "max(kind)"),
    *("avg(tiny)", "avg(half)", "avg(price)", "avg(nothing)", "bool_and(flag)", "bool_or(tiny > 100)"),
    *("sum(tiny) FILTER (WHERE flag)", "count(*) FILTER (WHERE kind = 'x')", "count(DISTINCT text)"),
    *("avg(tiny) FILTER (WHERE flag)", "sum(DISTINCT tiny)", "max(DISTINCT text)", "stddev(tiny)"),
    *("sum(tiny + id) AS total", "sum(CASE WHEN flag THEN 1 END)", "count(text) + 2 * sum(tiny)"),
    *("array_agg(tiny ORDER BY tiny)", "median(tiny)", "sum(CAST(price AS DECIMAL(38, 2)) + 1)"),
]
KEYS = ["", "", "text", "kind", "flag, kind", "tiny % 3", "kind || 'x'", "price", "k % 2, text"]
JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    for name, rows, key in (("l", LEFT, "k"), ("r", RIGHT, "id")):
        lance_df.PartitionedNamespace.create(folder / name, rows.schema, [partition.bucket(key, 8)]).append(
            rows
        )
    return folder


@pytest.fixture
def ctx(root):
    return lance_df.connect(root, partitioned_joins="always", join_memory_limit=1)


@pytest.fixture(scope="module")
def memory():
    context = datafusion.SessionContext()
    context.from_arrow(LEFT, name="l")
    context.from_arrow(RIGHT, name="r")
    return context


def random_query(choice):
    calls = choice.sample(CALLS, choice.randrange(1, 5))
    keys = choice.choice(KEYS)
    where = choice.choice(["", "", "WHERE tiny > 0", "WHERE id < 0", "WHERE kind IS NULL"])
    columns = ", ".join([*([keys] if keys else []), *calls])
    group = f"GROUP BY {keys}" if keys else ""
    having = choice.choice(["", "HAVING count(*) > 3"])
    return f"SELECT {columns} FROM l {choice.choice(JOINS)} r ON k = id {where} {group} {having}"


@pytest.mark.parametrize("number", range(60))
def test_answers_are_those_over_memory(ctx, memory, monkeypatch, number):
    for module in (partitioned_join, partitioned_join_units):
        monkeypatch.setattr(module, "num_cores", lambda: 1 + number % 3)
    query = random_query(random.Random(number))
    assert_same_result(ctx.sql(query), memory.sql(query))
    [join] = ctx.explain_scan(query).joins
    # beside distinct values DataFusion plans sums of another type than it says
    assert join.effect.startswith("by partition") or "DISTINCT" in query, (query, join)


def merges(ctx, query):
    """Return whether the units of a statement aggregate their rows."""
    [statement] = ctx.sql(query).statements
    assert len(statement.unit_plans) == 8
    return all("AggregateExec" in plan().display_indent() for plan in statement.unit_plans)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        *(("count(*), sum(price), min(text), avg(tiny)", True), ("DISTINCT kind", True)),
        *(
            ("avg(price)", False),
            ("count(DISTINCT text), count(DISTINCT tiny)", False),
            ("stddev(tiny)", False),
        ),
    ],
)
def test_units_hand_over_what_merges(ctx, columns, expected):
    assert merges(ctx, f"SELECT {columns} FROM l JOIN r ON k = id") == expected


def test_grouping_sets_are_grouped_as_a_whole(ctx, memory):
    query = "SELECT kind, flag, count(*), sum(tiny) FROM l JOIN r ON k = id GROUP BY ROLLUP (kind, flag)"
    assert_same_result(ctx.sql(query), memory.sql(query))


@pytest.mark.parametrize("name", sorted(partial_aggregates.MERGED_FUNCTIONS))
def test_functions_of_the_user_are_not_merged(ctx, name):
    class Answer(datafusion.Accumulator):
        def update(self, *_):
            pass

        def merge(self, *_):
            pass

        def state(self):
            return [pa.scalar(42)]

        def evaluate(self):
            return pa.scalar(42)

    udaf = datafusion.udaf(Answer, pa.int64(), pa.int64(), [pa.int64()], "stable", name)
    ctx.register_udaf(udaf)
    assert list(ctx.sql(f"SELECT {name}(k) AS n FROM l JOIN r ON k = id").to_pydict().values()) == [[42]]


def test_streams_that_threads_of_datafusion_take_wait_for_no_thread(ctx):
    query = "SELECT k, tiny, kind FROM l JOIN r ON k = id"
    expected = ctx.sql(query).count()
    frames = [ctx.sql(query) for _ in range(4)]
    union = frames[0].union(frames[1]).union(frames[2].union(frames[3]))
    found = []
    thread = threading.Thread(target=lambda: found.append(union.count()), daemon=True)
    thread.start()
    thread.join(60)
    assert found == [4 * expected]
