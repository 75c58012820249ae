"""Random joins of random namespaces: by partition, one by one, whole, and over memory they are the same."""

import datetime as dt
import random

import datafusion
import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from tests.engine.query_results import assert_same_result

KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")
KEYS = ("number", "text", "moment", "real")
SPECS = [
    [lambda: partition.bucket("number", 4)],
    [lambda: partition.bucket("number", 6)],
    [lambda: partition.bucket("text", 4), lambda: partition.truncate("text", 1)],
    [lambda: partition.truncate("text", 2)],
    [lambda: partition.identity("text")],
    [lambda: partition.year("moment"), lambda: partition.month("moment")],
    [lambda: partition.month("moment")],
    [lambda: partition.identity("moment")],
    [lambda: partition.identity("real")],
    [lambda: partition.truncate("number", 10), lambda: partition.bucket("number", 2)],
    [lambda: partition.multi_bucket(["number", "text"], 4)],
    [lambda: partition.expression("col0 % 3", ["number"])],
]


def table(random_numbers, count):
    def pick(values):
        return [random_numbers.choice([*values, None]) for _ in range(count)]

    moments = [dt.datetime(2023, month, day) for month in (1, 12) for day in (1, 31)]
    return pa.table(
        {
            "number": pa.array(
                pick([*range(-12, 12), 2**31 - 1, -(2**31)]), random_numbers.choice([pa.int32(), pa.int64()])
            ),
            "text": pick(["", "a", "ab", "äbc", "ab\U0001f600", "b"]),
            "moment": pa.array(pick(moments), pa.timestamp(random_numbers.choice(["ms", "us"]))),
            "real": pa.array(pick([0.0, -0.0, float("nan"), 1.5, float("inf")]), pa.float64()),
            "row": pa.array(range(count), pa.int64()),
        }
    )


def random_query(random_numbers):
    names = random_numbers.sample(["a", "b", "c"], random_numbers.choice([2, 2, 3]))
    joined, shown, key = names[0], [names[0]], random_numbers.choice(KEYS)
    for name in names[1:]:
        kind = random_numbers.choice(KINDS)
        condition = f"{random_numbers.choice(shown)}.{key} = {name}.{key}"
        if random_numbers.random() < 0.3:
            condition += f" AND {shown[0]}.row <> {name}.row"
        if random_numbers.random() < 0.3:
            condition += f" AND {shown[0]}.text = {name}.text"
        joined += f" {kind} JOIN {name} ON {condition}"
        if " " not in kind:
            shown.append(name)
    where = random_numbers.choice(
        [
            "",
            f" WHERE {shown[0]}.number > 0",
            f" WHERE {shown[-1]}.text < 'b'",
            f" WHERE {shown[0]}.text IS NULL",
        ]
    )
    rows = ", ".join(f"{name}.row AS row_{name}" for name in shown)
    if random_numbers.random() < 0.3:
        grouped = f"{shown[0]}.{key}"
        return f"SELECT {grouped}, count(*), max({shown[-1]}.row) FROM {joined}{where} GROUP BY {grouped}"
    return f"SELECT {rows} FROM {joined}{where}"


@pytest.mark.parametrize("seed", range(3))
def test_joins_are_the_same_however_they_are_computed(tmp_path, seed):
    random_numbers = random.Random(seed)
    memory = datafusion.SessionContext()
    for name in "abc":
        rows = table(random_numbers, 40)
        namespace = lance_df.PartitionedNamespace.create(
            tmp_path / name, rows.schema, [make() for make in random_numbers.choice(SPECS)]
        )
        namespace.append(rows.slice(0, 25))
        if random_numbers.random() < 0.4:
            namespace.update_partition_spec([make() for make in random_numbers.choice(SPECS)])
        namespace.append(rows.slice(25))
        memory.from_arrow(rows, name=name)
    context = lance_df.connect(tmp_path)
    for _ in range(16):
        query = random_query(random_numbers)
        expected = memory.sql(query)
        for mode, limit in (("always", None), ("always", 500), ("never", None)):
            context.partitioned_joins, context.join_memory_limit = mode, limit
            assert_same_result(context.sql(query), expected)
