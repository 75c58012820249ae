"""Expressions of stored files that would take all memory or all stack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lance_df
from lance_df.compute.calculator import evaluator
from lance_df.errors import InvalidInputError

pytestmark = pytest.mark.engine

_ROOT = Path(lance_df.__file__).resolve().parents[1]

BOMBS = [
    "repeat('x', 1000000000)",
    "repeat(col1, col0)",
    "repeat('x', power(10, 9))",
    "repeat(repeat(repeat('x', 1000), 1000), 1000)",
    "lpad('x', 2000000000)",
    "rpad('x', 2000000000, 'y')",
    "REPEAT ('x', -(-1000000000))",
    "length(lpad('x', 1000000000))",
    "array_length(array_repeat(1, 1000000000))",
    "array_length(range(1000000000))",
    "array_length(generate_series(0, 1000000000, 1))",
    "array_length(array_resize([1], 1000000000, 1))",
    "replace(" * 5 + "col1" + ", 'a', 'aaaaaaaaaa')" * 5,
    "regexp_replace(" * 5 + "col1" + ", 'a', 'aaaaaaaaaa', 'g')" * 5,
    "encode(" * 40 + "col1" + ", 'hex')" * 40,
    "arrow_cast(col1, 'FixedSizeBinary(2000000000)')",
    "+".join(["col0"] * 3000),
    "||".join(["col1"] * 3000),
    "col0" + "::bigint" * 3000,
    "NOT " * 3000 + "col0 > 1",
    "(" * 30_000 + "col0" + ")" * 30_000,
    "CASE WHEN col0 > 1 THEN 1 ELSE " * 1000 + "0" + " END" * 1000,
    "col0 IN (" + ", ".join(map(str, range(3000))) + ")",
    "concat(" + ", ".join(["col1"] * 3000) + ")",
]


@pytest.mark.parametrize("expression", BOMBS)
def test_refused_before_they_are_evaluated(expression: str):
    with pytest.raises(InvalidInputError):
        evaluator().check(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "repeat(col1, 3)",
        "lpad(CAST(col0 AS varchar), 10, '0')",
        "rpad(left(col1, 2), 8)",
        "replace(replace(col1, 'a', ''), 'b', 'cc')",
        "regexp_replace(col1, '[0-9]+', '#')",
        "power(col0, 2)",
        "encode(md5(col1), 'hex')",
        "+".join(["col0"] * 100),
        "col0 IN (" + ", ".join(map(str, range(200))) + ")",
    ],
)
def test_what_is_of_use_is_accepted(expression: str):
    evaluator().check(expression)


_READ = """
import resource, sys
import lance_df
from lance_df.errors import LanceError
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
try:
    ns = lance_df.PartitionedNamespace.open(sys.argv[1])
    print(ns.count_rows("a = 1"), ns.to_table(filter="b = 'x'").num_rows)
    ns.append(ns.to_table())
except LanceError as err:
    print(type(err).__name__)
"""


@pytest.mark.parametrize("expression", BOMBS[:2] + BOMBS[4:5] + BOMBS[16:19])
def test_namespaces_that_hold_them(tmp_path: Path, expression: str):
    """Reading does not evaluate them, and appending refuses them."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    field = lance_df.partition.expression("col0 + 1", ["a"])
    ns = lance_df.PartitionedNamespace.create(tmp_path / "ns", schema, [field])
    ns.append(pa.table({"a": [1, 2], "b": ["x", "y"]}, schema))
    manifest = lance_df.dataset(tmp_path / "ns" / "__manifest")
    spec = json.loads(manifest._table.manifest.table_metadata["partition_spec_v1"])
    spec["fields"][0]["expression"] = expression
    manifest.update_metadata({"partition_spec_v1": json.dumps(spec)})
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(tmp_path / "ns")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=_ROOT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["1", "1", "InvalidInputError"]
