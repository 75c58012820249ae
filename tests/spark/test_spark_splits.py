"""How a read is cut for tasks: into splits of about the same size, that have each row once."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.cache import CacheKind, TableCache
from lance_df.spark import splits as splits_module
from lance_df.spark.opened import SourceRef, open_source
from lance_df.spark.options import SourceOptions
from lance_df.spark.splits import plan_splits

pytestmark = pytest.mark.spark

NUM_ROWS = 420_000


@pytest.fixture(scope="module")
def rows():
    numbers = np.arange(NUM_ROWS)
    noise = np.random.default_rng(1).integers(0, 1 << 62, NUM_ROWS)
    return pa.table({"x": numbers, "p": numbers * 2 // NUM_ROWS, "noise": noise})


def reader_of(path, **options):
    from lance_df.spark.source import LanceSource

    source = LanceSource({"path": str(path), **options})
    reader = source.reader(source.schema())
    return reader, reader.partitions()


def read_in_workers(monkeypatch, reader, splits, num_workers):
    """Read splits in turn as workers do that know nothing of each other."""
    from lance_df.spark import opened

    found = []
    for number in range(num_workers):
        monkeypatch.setattr(opened, "_opened", TableCache().entries(CacheKind.OPEN_TABLES))
        for split in pickle.loads(pickle.dumps(splits[number::num_workers])):
            found += [row for batch in reader.read(split) for row in batch["x"].to_pylist()]
    return sorted(found)


@pytest.mark.parametrize("max_rows_per_file", [NUM_ROWS, NUM_ROWS // 2])
@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_parts_have_each_row_once_whatever_a_worker_has_learned(
    tmp_path, rows, monkeypatch, version, max_rows_per_file
):
    path = tmp_path / "t.lance"
    lance_df.write_dataset(
        rows, path, max_rows_per_file=max_rows_per_file, data_storage_version=version
    ).delete("x % 1000 = 7")
    live = [number for number in range(NUM_ROWS) if number % 1000 != 7]
    for first in (0, NUM_ROWS // 3):
        reader, splits = reader_of(path, filter=f"x >= {first}", splitBytes="1000000")
        assert sum(piece.rows is not None for split in splits for piece in split.pieces) > 2
        assert read_in_workers(monkeypatch, reader, splits, 2) == [row for row in live if row >= first]


def test_parts_without_columns_have_as_many_rows(tmp_path, rows):
    path = tmp_path / "t.lance"
    lance_df.write_dataset(rows, path).delete("x % 1000 = 7")
    _, splits = reader_of(path, splitBytes="1000000")
    pieces = [piece for split in splits for piece in split.pieces]
    assert any(piece.rows is not None for piece in pieces)
    counts = [sum(batch.num_rows for batch in piece.read(())) for piece in pieces]
    assert counts == [sum(batch.num_rows for batch in piece.read(["x"])) for piece in pieces]
    assert sum(counts) == NUM_ROWS - NUM_ROWS // 1000


def test_parts_of_members_have_each_row_once(tmp_path, rows, monkeypatch):
    lance_df.PartitionedNamespace.create(tmp_path / "ns", rows.schema, ["identity(p)"]).append(rows)
    reader, splits = reader_of(tmp_path / "ns", filter="x >= 100000", splitBytes="1000000")
    assert sum(piece.rows is not None for split in splits for piece in split.pieces) > 2
    assert read_in_workers(monkeypatch, reader, splits, 2) == list(range(100_000, NUM_ROWS))


def test_splits_are_of_about_the_same_size(tmp_path, rows):
    # three files, of which no two make up a half
    table = lance_df.write_dataset(rows, tmp_path / "t.lance", max_rows_per_file=NUM_ROWS // 3)
    options = SourceOptions.parse({"path": table.uri})
    source = open_source(options)
    ref = SourceRef.of(source, options)
    first, second = plan_splits(source, ref, None, split_bytes=1 << 30, parallelism=2)
    whole, begin, end, last = (piece.rows for piece in (*first, *second))
    assert whole is last is None
    assert (begin[0], begin[1], end[1]) == (0, end[0], 140_000)
    sizes = [sum(piece.num_bytes for piece in split) for split in (first, second)]
    assert max(sizes) < 1.01 * min(sizes)


def test_workers_read_much_in_two_splits_each(tmp_path, rows, monkeypatch):
    table = lance_df.write_dataset(rows, tmp_path / "t.lance")
    options = SourceOptions.parse({"path": table.uri})
    source = open_source(options)

    def num_splits(parallelism: int) -> int:
        ref = SourceRef.of(source, options)
        return len(plan_splits(source, ref, None, split_bytes=1 << 30, parallelism=parallelism))

    assert [num_splits(1), num_splits(2)] == [1, 2]
    monkeypatch.setattr(splits_module, "_WAVE_BYTES", 1 << 20)
    assert [num_splits(1), num_splits(2)] == [2, 4]


def test_splits_have_parts_of_some_size(tmp_path, rows):
    lance_df.write_dataset(rows.slice(0, 100_000), tmp_path / "t.lance")
    _, splits = reader_of(tmp_path / "t.lance", splitBytes="1000")
    assert [piece.rows for split in splits for piece in split.pieces] == [None]
    # an SQL text that is no plain predicate is evaluated for whole fragments
    lance_df.write_dataset(rows, tmp_path / "s.lance", max_rows_per_file=NUM_ROWS)
    _, splits = reader_of(tmp_path / "s.lance", splitBytes="1000000", filter="x % 2 = 1")
    assert [piece.rows for split in splits for piece in split.pieces] == [None]
