"""Writes that fail before their rows end: what makes the rows is closed, and no thread is left, at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from lance_df.errors import InvalidInputError, LanceError

STORED = pa.schema([pa.field("a", pa.int64(), nullable=False)])
GIVEN = pa.schema([pa.field("a", pa.int64())])


class Rows:
    """Batches of which the sixth cannot be made, or does not fit."""

    def __init__(self, *, fits: bool) -> None:
        self.fits = fits
        self.is_closed = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for number in range(100):
                if number == 5 and self.fits:
                    raise RuntimeError("no sixth batch")
                value = None if number == 5 else number
                yield pa.record_batch([pa.array([value], pa.int64())], schema=GIVEN)
        finally:
            self.is_closed = True

    def __arrow_c_stream__(self, requested: object = None) -> object:
        return pa.RecordBatchReader.from_batches(GIVEN, self.batches()).__arrow_c_stream__(requested)


def created(folder: Path, rows: Any) -> None:
    lance_df.write_dataset(rows, folder / "t.lance", schema=STORED)


def appended(folder: Path, rows: Any) -> None:
    uri = folder / "t.lance"
    lance_df.write_dataset(STORED.empty_table(), uri)
    lance_df.write_dataset(rows, uri, schema=GIVEN, mode="append")


def added_to_a_namespace(folder: Path, rows: Any) -> None:
    namespace = lance_df.PartitionedNamespace.create(str(folder / "n"), STORED, [partition.bucket("a", 4)])
    namespace.append(rows)


def inserted_into_a_directory(folder: Path, rows: Any) -> None:
    lance_df.write_dataset(STORED.empty_table(), folder / "t.lance")
    reader = rows if isinstance(rows, Rows) else pa.RecordBatchReader.from_batches(GIVEN, rows)
    lance_df.DirectoryNamespace(folder).insert_into_table(["t"], reader)


def added_as_a_column(folder: Path, rows: Any) -> None:
    data = lance_df.write_dataset(pa.table({"k": range(100)}), folder / "t.lance", max_rows_per_file=4)
    data.add_columns(rows, reader_schema=STORED)


def added_as_a_column_that_is_too_long(folder: Path, rows: Any) -> None:
    data = lance_df.write_dataset(pa.table({"k": range(3)}), folder / "t.lance")
    data.add_columns(rows, reader_schema=STORED)


def added_to_a_fragment(folder: Path, rows: Any) -> None:
    data = lance_df.write_dataset(pa.table({"k": range(100)}), folder / "t.lance", max_rows_per_file=30)
    data.get_fragments()[0].merge_columns(rows, reader_schema=STORED)


WRITES: tuple[Callable[[Path, Any], None], ...] = (
    created,
    appended,
    added_to_a_namespace,
    inserted_into_a_directory,
    added_as_a_column,
    added_as_a_column_that_is_too_long,
    added_to_a_fragment,
)


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("write", WRITES)
def test_sources_are_closed(
    tmp_path: Path, write: Callable[[Path, Any], None], is_stream: bool, fits: bool
) -> None:
    rows, before = Rows(fits=fits), set(threading.enumerate())
    source = rows if is_stream else rows.batches()
    with pytest.raises((RuntimeError, pa.ArrowInvalid, LanceError)) as failure:
        write(tmp_path, source)
    assert rows.is_closed
    deadline = time.monotonic() + 1
    while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left
    del failure  # which has held the frames of the write until now


def test_a_reader_is_left_to_who_made_it(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    reader = pa.RecordBatchReader.from_batches(GIVEN, Rows(fits=False).batches())
    with pytest.raises(InvalidInputError) as failure:
        created(tmp_path, reader)
    assert set(threading.enumerate()) <= before
    assert reader.read_next_batch().num_rows == 1
    del failure


def test_nothing_is_read_by_a_write_that_is_refused(tmp_path: Path) -> None:
    """So that the same rows can be written elsewhere."""
    created(tmp_path, iter([pa.record_batch([pa.array([1], pa.int64())], schema=GIVEN)]))
    rows = (pa.record_batch([pa.array([number], pa.int64())], schema=GIVEN) for number in range(3))
    with pytest.raises(lance_df.AlreadyExistsError):
        created(tmp_path, rows)
    lance_df.write_dataset(rows, tmp_path / "other.lance", schema=GIVEN)
    assert lance_df.dataset(tmp_path / "other.lance").count_rows() == 3


def test_a_column_that_cannot_be_computed_leaves_no_thread(tmp_path: Path) -> None:
    data = lance_df.write_dataset(
        pa.table({"k": range(10_000)}), tmp_path / "t.lance", max_rows_per_file=1000
    )

    def compute(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch["k"][0].as_py() == 5010:
            raise RuntimeError("no sixth batch")
        return pa.record_batch({"d": batch["k"]})

    for add in (data.add_columns, data.get_fragment(5).merge_columns):
        before = set(threading.enumerate())
        with pytest.raises(RuntimeError) as failure:
            add(compute, batch_size=10)
        assert set(threading.enumerate()) <= before
        del failure
