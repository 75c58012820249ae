"""Deletion files of both kinds, good and bad."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lance_df.errors import CorruptDataError, LanceError
from lance_df.format.fragments import DeletionFile, DeletionFileType
from lance_df.storage import open_location
from lance_df.table.metadata.base_paths import DELETIONS_DIR
from lance_df.table.reading.deletions import deleted_offsets, read_deletion_vector
from lance_df.table.writing.deletion_file import write_deletion_file
from lance_df.table.writing.uncommitted import UncommittedFiles

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 100_000
FIELD = pa.field("row_id", pa.uint32(), nullable=False)


def arrow(
    *columns: pa.Array, fields: tuple[pa.Field, ...] = (FIELD,), codec: str | None = None, batches: int = 1
) -> bytes:
    sink = pa.BufferOutputStream()
    schema = pa.schema(fields)
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        for _ in range(batches):
            writer.write_batch(pa.record_batch(list(columns), schema=schema))
    return sink.getvalue().to_pybytes()


def offsets(*values: int) -> pa.Array:
    return pa.array(values, pa.uint32())


def read(folder: Path, data: bytes, kind: str, *, count: int = 0, num_rows: int = ROWS) -> BitMap:
    file = DeletionFile(file_type=DeletionFileType(kind), read_version=1, id=2, num_deleted_rows=count)
    path = folder / file.name(0)
    path.write_bytes(data)
    return read_deletion_vector(open_location(path), file, num_rows=num_rows)


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("values", [(), (5,), (9, 3, 7), tuple(range(0, ROWS, 3))], ids=len)
def test_arrow_files(tmp_path: Path, codec: str | None, values: tuple[int, ...]):
    deleted = read(tmp_path, arrow(offsets(*values), codec=codec), "arrow", count=len(values))
    assert deleted == BitMap(values)
    assert deleted_offsets(deleted).tolist() == sorted(values)


@pytest.mark.parametrize(
    "values", [[], [5], range(0, ROWS, 2), range(10, 90_000)], ids=["0", "1", "half", "run"]
)
def test_bitmap_files(tmp_path: Path, values):
    bitmap = BitMap(values)
    assert read(tmp_path, bitmap.serialize(), "bin", count=len(values)) == bitmap
    bitmap.run_optimize()
    assert read(tmp_path, bitmap.serialize(), "bin") == bitmap


@pytest.mark.parametrize(("count", "kind"), [(1, "arrow"), (4999, "arrow"), (5000, "bin"), (70_000, "bin")])
def test_written_files(tmp_path: Path, count: int, kind: str):
    deleted = BitMap(range(7, 7 + count))
    table = open_location(tmp_path / "t.lance")
    files = UncommittedFiles()
    first, second = (
        write_deletion_file(table, deleted, fragment_id=3, read_version=9, files=files) for _ in range(2)
    )
    assert first.id != second.id
    assert (first.file_type, first.read_version, first.num_deleted_rows) == (kind, 9, count)
    assert first.base_id is None
    names = sorted(path.name for path in (tmp_path / "t.lance" / DELETIONS_DIR).iterdir())
    assert names == sorted(f"3-9-{file.id}.{kind}" for file in (first, second))
    location = table / DELETIONS_DIR / first.name(3)
    assert read_deletion_vector(location, first, num_rows=ROWS) == deleted
    if kind == "arrow":
        with pa.ipc.open_file(location.read()) as written:
            assert written.schema.equals(pa.schema([FIELD]), check_metadata=True)
            assert written.num_record_batches == 1


def test_duplicates_count_once(tmp_path: Path):
    assert read(tmp_path, arrow(offsets(3, 3, 4)), "arrow", count=2) == BitMap([3, 4])
    with pytest.raises(CorruptDataError, match="lists 2 deleted rows, but the manifest says 3"):
        read(tmp_path, arrow(offsets(3, 3, 4)), "arrow", count=3)


@pytest.mark.parametrize("kind", ["arrow", "bin"])
def test_rows_that_do_not_exist(tmp_path: Path, kind: str):
    data = arrow(offsets(3, 10)) if kind == "arrow" else BitMap([3, 10]).serialize()
    assert len(read(tmp_path, data, kind, num_rows=11)) == 2
    with pytest.raises(CorruptDataError, match=r"0-1-2.*row 10 is deleted.*10 rows"):
        read(tmp_path, data, kind, num_rows=10)


NULLABLE = pa.field("row_id", pa.uint32())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ARROW1",
        arrow(offsets(1), fields=(NULLABLE,)),
        arrow(pa.array([1, None], pa.uint32()), fields=(NULLABLE,)),
        arrow(pa.array([1], pa.int32()), fields=(pa.field("row_id", pa.int32(), nullable=False),)),
        arrow(offsets(1), fields=(pa.field("other", pa.uint32(), nullable=False),)),
        arrow(offsets(1), offsets(1), fields=(FIELD, FIELD)),
        arrow(offsets(1), batches=2),
        arrow(offsets(1), batches=0),
        arrow(offsets(*range(50)))[:-30],
        BitMap([1]).serialize(),
    ],
)
def test_other_files_than_the_arrow_form(tmp_path: Path, data: bytes):
    with pytest.raises(CorruptDataError, match=r"0-1-2\.arrow"):
        read(tmp_path, data, "arrow")


@pytest.mark.parametrize("data", [b"", b"\x00" * 8, BitMap([1, 2, 70_000]).serialize()[:-1], b"\xff" * 40])
def test_other_files_than_the_bitmap_form(tmp_path: Path, data: bytes):
    with pytest.raises(CorruptDataError, match=r"0-1-2\.bin"):
        read(tmp_path, data, "bin")


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("claim", [0, 8, 4 * 30_000 + 4096, 2**31, 2**62, -2])
def test_sizes_that_compressed_buffers_claim(tmp_path: Path, codec: str, claim: int):
    data = arrow(offsets(*range(30_000)), codec=codec)
    size = struct.pack("<q", 4 * 30_000)
    assert data.count(size) >= 1
    at = data.rindex(size, 0, data.rindex(b"ARROW1") - 100)
    spoiled = data[:at] + struct.pack("<q", claim) + data[at + 8 :]
    with pytest.raises(CorruptDataError, match="claim"):
        read(tmp_path, spoiled, "arrow")


def test_more_rows_than_the_fragment_are_refused_before_they_are_read(tmp_path: Path):
    with pytest.raises(CorruptDataError, match="101 values, expected at most 100"):
        read(tmp_path, arrow(offsets(*range(101))), "arrow", num_rows=100)


def test_a_missing_file(tmp_path: Path):
    file = DeletionFile(file_type=DeletionFileType.BITMAP, read_version=1, id=2)
    with pytest.raises(CorruptDataError, match=r"gone\.bin.*missing"):
        read_deletion_vector(open_location(tmp_path / "gone.bin"), file, num_rows=5)


VALUES = np.random.default_rng(5).choice(ROWS, 3000, replace=False)
FILES = {
    "plain": ("arrow", arrow(offsets(*VALUES.tolist()))),
    "zstd": ("arrow", arrow(offsets(*VALUES.tolist()), codec="zstd")),
    "lz4": ("arrow", arrow(offsets(*VALUES.tolist()), codec="lz4")),
    "bitmap": ("bin", BitMap(VALUES.astype(np.uint32)).serialize()),
}


@pytest.mark.parametrize("form", FILES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 2**32), cut=st.integers(0, 9), new=st.binary(max_size=9))
def test_damaged_files_give_rows_of_the_fragment_or_an_error(tmp_path: Path, form: str, at, cut, new):
    kind, data = FILES[form]
    # most damage near the ends, where the structure is
    at = at % len(data) if at % 2 else (at % 700 if at % 3 else len(data) - 1 - at % 700)
    try:
        deleted = read(tmp_path, data[:at] + new + data[at + cut :], kind, count=len(VALUES))
    except LanceError:
        return
    assert len(deleted) == len(VALUES)
    assert deleted.max() < ROWS
