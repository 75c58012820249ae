"""Rows that come as a stream go to few files, however often the rows that wait are written."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.namespace.changes import routing
from lance_df.namespace.changes.routing import PartitionWriter
from lance_df.table.writing.fragment_writer import FileLimits

SCHEMA = pa.schema([("p", pa.int64()), ("k", pa.int64()), ("s", pa.string())])
# of the narrow rows here, so that some ten thousand of each partition are written at once
BUFFER_BYTES = 2_000_000
BATCH_ROWS = 20_000


def batches(num_rows: int, num_partitions: int) -> Iterator[pa.RecordBatch]:
    """Yield rows whose keys ascend, and whose partitions take turns."""
    for start in range(0, num_rows, BATCH_ROWS):
        keys = np.arange(start, min(start + BATCH_ROWS, num_rows))
        texts = pa.array([f"text {number}" if number % 9 else None for number in keys.tolist()])
        yield pa.RecordBatch.from_arrays(
            [pa.array(keys % num_partitions), pa.array(keys), texts], schema=SCHEMA
        )


@pytest.fixture
def namespace(tmp_path: Path) -> lance_df.PartitionedNamespace:
    return lance_df.PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["p"])


@pytest.fixture(autouse=True)
def small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PartitionWriter.__init__.__kwdefaults__, "buffer_bytes", BUFFER_BYTES)


def files_of(root: Path) -> dict[str, int]:
    """Return how many data files each partition has."""
    return {folder.name: len(list((folder / "data").iterdir())) for folder in (root / "n").glob("*dataset")}


def appended(namespace: lance_df.PartitionedNamespace, rows: Iterator[pa.RecordBatch]) -> None:
    namespace.append(pa.RecordBatchReader.from_batches(SCHEMA, rows))


@pytest.mark.parametrize("num_partitions", [1, 3, 6])
def test_a_partition_has_one_file(
    namespace: lance_df.PartitionedNamespace, tmp_path: Path, num_partitions: int
) -> None:
    appended(namespace, batches(400_000, num_partitions))
    assert list(files_of(tmp_path).values()) == [1] * num_partitions
    expected = pa.Table.from_batches(batches(400_000, num_partitions))
    for folder in (tmp_path / "n").glob("*dataset"):
        rows = lance.dataset(folder).to_table()
        [partition] = rows["p"].unique().to_pylist()
        wanted = expected.filter(pa.compute.field("p") == partition)
        assert rows.select(SCHEMA.names).equals(wanted.cast(rows.select(SCHEMA.names).schema))
    ctx = lance_df.connect(tmp_path)
    for key in (0, 8_191, 8_192, 123_456, 399_999):
        [row] = ctx.sql(f"SELECT p, s FROM n WHERE k = {key}").to_pylist()
        assert row == {"p": key % num_partitions, "s": f"text {key}" if key % 9 else None}
    pages = ctx.explain_scan("SELECT p FROM n WHERE k = 123456").tables[0].pages
    assert pages.kept < pages.total


def test_files_end_at_their_limit(
    namespace: lance_df.PartitionedNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PartitionWriter.__init__.__kwdefaults__, "limits", FileLimits(max_rows=30_000))
    appended(namespace, batches(400_000, 4))
    assert list(files_of(tmp_path).values()) == [4] * 4
    rows = (
        lance_df.connect(tmp_path).sql("SELECT count(*) AS n, sum(k) AS s, count(s) AS t FROM n").to_pylist()
    )
    assert rows == [{"n": 400_000, "s": sum(range(400_000)), "t": 400_000 - len(range(0, 400_000, 9))}]


def test_few_files_are_open(
    namespace: lance_df.PartitionedNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "_MOST_OPEN", 2)
    appended(namespace, batches(400_000, 6))
    counts = sorted(files_of(tmp_path).values())
    assert counts[:2] == [1, 1]
    assert counts[2] > 1
    rows = lance_df.connect(tmp_path).sql("SELECT count(*) AS n, sum(k) AS s FROM n").to_pylist()
    assert rows == [{"n": 400_000, "s": sum(range(400_000))}]


def test_a_stream_that_fails_leaves_nothing(namespace: lance_df.PartitionedNamespace, tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(300_000, 3)
        raise ValueError("the source is gone")

    appended(namespace, batches(30, 3))
    before = sorted(path for path in (tmp_path / "n").rglob("*") if path.is_file())
    with pytest.raises(Exception, match="the source is gone"):
        appended(namespace, failing())
    assert sorted(path for path in (tmp_path / "n").rglob("*") if path.is_file()) == before
    if sys.platform.startswith("linux"):
        gc.collect()
        opened = [os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")]
        assert not [path for path in opened if "/data/" in path and str(tmp_path) in path]
    assert lance_df.connect(tmp_path).sql("SELECT count(*) AS n FROM n").to_pylist() == [{"n": 30}]


def test_an_append_that_fails_in_a_transaction_leaves_nothing(
    namespace: lance_df.PartitionedNamespace, tmp_path: Path
) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(300_000, 3)
        raise ValueError("the source is gone")

    with namespace.transaction() as transaction:
        with pytest.raises(Exception, match="the source is gone"):
            transaction.append(pa.RecordBatchReader.from_batches(SCHEMA, failing()))
        transaction.append(pa.Table.from_batches(batches(30, 3)))
    assert list(files_of(tmp_path).values()) == [1] * 3
    assert lance_df.connect(tmp_path).sql("SELECT count(*) AS n FROM n").to_pylist() == [{"n": 30}]


@pytest.mark.parametrize("seed", range(6))
def test_random_streams(
    namespace: lance_df.PartitionedNamespace, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(routing, "_MOST_OPEN", rng.choice([1, 3, 64]))
    monkeypatch.setitem(
        PartitionWriter.__init__.__kwdefaults__, "buffer_bytes", rng.choice([300_000, 3_000_000])
    )
    kinds = np.random.default_rng(seed)
    made = []
    for _ in range(rng.randint(1, 25)):
        num_rows = rng.choice([0, 1, 100, 9_000, 40_000])
        # few partitions have most of the rows, and some appear late
        partitions = np.minimum(kinds.geometric(0.5, num_rows), rng.randint(1, 12))
        keys = kinds.integers(-(2**62), 2**62, num_rows)
        texts = pa.array([None if key % 5 == 0 else str(key) for key in keys.tolist()], pa.string())
        made.append(pa.RecordBatch.from_arrays([pa.array(partitions), pa.array(keys), texts], schema=SCHEMA))
    appended(namespace, iter(made))
    order = [("p", "ascending"), ("k", "ascending")]
    found = pa.table(lance_df.connect(tmp_path).sql("SELECT * FROM n")).sort_by(order)
    assert found.equals(pa.Table.from_batches(made, SCHEMA).sort_by(order))
