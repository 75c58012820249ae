"""Partitions of every type: values that differ by a nanosecond, or that Python cannot hold, stay apart."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.expr.evaluate import evaluate
from lance_df.expr.literals import compare
from lance_df.expr.nodes import Column, Operator
from lance_df.scan.request import ScanRequest

pytestmark = pytest.mark.engine

COLUMNS = {
    "dictionary": pa.array(["a", None, "b", "é", "a", ""]).dictionary_encode(),
    "large text": pa.array(["a", None, "b", "é", "a", ""], pa.large_string()),
    "binary": pa.array([b"a", None, b"\0", b"", b"a", b"zz"]),
    "fixed binary": pa.array([b"ab", None, b"\0\0", b"zz", b"ab", b"cc"], pa.binary(2)),
    "boolean": pa.array([True, None, False, True, False, None]),
    "decimal": pa.array([Decimal(x) if x else None for x in ("1.10", "", "-1.1", "0", "1.1", "99.99")]),
    "hundreds": pa.array(
        [Decimal(x) if x else None for x in ("100", "", "-900", "0", "100", "500")], pa.decimal128(5, -2)
    ),
    "uint64": pa.array([2**64 - 1, None, 0, 1, 2**63, 1], pa.uint64()),
    "int8": pa.array([-128, None, 127, 0, 5, 5], pa.int8()),
    "float": pa.array([0.0, -0.0, float("nan"), None, 1.5, float("inf")], pa.float32(), from_pandas=False),
    "half": pa.array(np.array([0, 1, 2, np.nan, -1, 1], np.float16)),
    "nanoseconds": pa.array([1, None, 5, -1, 2**62, 1], pa.timestamp("ns")),
    "zone": pa.array([1, None, 1001, -1, 10**15, 1], pa.timestamp("us", "America/New_York")),
    "far times": pa.array([1, None, 10**12, -(10**12), 0, 1], pa.timestamp("s")),
    "times of day": pa.array([1, None, 1001, 86_399_999_999_999, 5, 1], pa.time64("ns")),
    "durations": pa.array([1, None, 1001, -1, 5, 1], pa.duration("ns")),
    "milliseconds": pa.array([0, None, 1, -86_400_000, 0, 2], pa.date64()),
    "far dates": pa.array([0, None, -800_000, 3_000_000, 0, 1], pa.date32()),
}


@pytest.mark.parametrize("how", ["key", "bucket(key, 3)"])
@pytest.mark.parametrize("name", COLUMNS)
def test_every_value_is_found_in_its_partition(tmp_path, name, how):
    keys = COLUMNS[name]
    rows = pa.table({"n": range(len(keys)), "key": keys})
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "t", rows.schema, [how])
    namespace.append(rows)
    num_partitions = len(namespace.partitions())
    namespace.append(rows)
    assert len(namespace.partitions()) == num_partitions
    if how == "key" and name != "float":
        assert num_partitions == len(keys.unique())
    values = keys.dictionary_decode() if pa.types.is_dictionary(keys.type) else keys
    for value in values:
        if not value.is_valid:
            continue
        for operator in Operator:
            condition = compare(Column(("key",)), values.type, operator, value)
            plan = namespace._table.plan(ScanRequest(columns=("n",), predicate=condition))
            found = [n for task in plan.tasks for batch in task.read() for n in batch["n"].to_pylist()]
            truth = evaluate(condition, {("key",): values}, len(values)).to_pylist()
            assert sorted(found) == sorted([n for n, is_true in enumerate(truth) if is_true] * 2)
