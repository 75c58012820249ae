"""What a process of Spark imports to read members: each new one pays for it anew."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lance_df

ROOT = Path(lance_df.__file__).resolve().parents[1]
CODE = """
import pickle, sys
for reader, splits in pickle.load(sys.stdin.buffer):
    print(*sorted(k for split in splits for rows in reader.read(split) for k in rows["k"].to_pylist()))
print(*sys.modules)
"""


@pytest.mark.spark
def test_a_task_that_reads_members_imports_only_what_it_needs(tmp_path):
    from lance_df.spark.source import LanceSource

    rows = pa.table({"k": pa.array(range(90), pa.int64()), "p": pa.array([k % 3 for k in range(90)])})
    lance_df.PartitionedNamespace.create(tmp_path / "ns", rows.schema, ["identity(p)"]).append(rows)
    readers = []
    for options in ({}, {"filter": "p = 1 AND k > 10"}):
        source = LanceSource({"path": str(tmp_path / "ns"), **options})
        reader = source.reader(source.schema())
        readers.append((reader, reader.partitions()))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    sent = pickle.dumps(readers)
    done = subprocess.run([sys.executable, "-c", CODE], input=sent, stdout=-1, env=env, check=True)
    everything, filtered, modules = (line.split() for line in done.stdout.decode().splitlines())
    assert everything == [str(key) for key in range(90)]
    assert filtered == [str(key) for key in range(13, 90, 3)]
    unneeded = ("datafusion", "sqlglot", "fsspec", "asyncio", "lance_df.compute", "lance_df.engine")
    needed = {"lance_df.compute", "lance_df.compute.calculator", "lance_df.compute.calls"}
    assert [name for name in modules if name.startswith(unneeded) and name not in needed] == []
