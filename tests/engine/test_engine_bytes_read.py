"""What queries ask of a store, counted."""

import fsspec
import lance
import numpy as np
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import lance_df

pytestmark = pytest.mark.engine

FRAGMENTS, ROWS = 12, 20_000


class CountedFileSystem(MemoryFileSystem):
    """Files in memory, and a list of what was read: (path, bytes)."""

    protocol = "counted"
    store: dict = {}  # noqa: RUF012 - as the base class has it
    pseudo_dirs: list = [""]  # noqa: RUF012
    reads: list = []  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path):
        return MemoryFileSystem._strip_protocol(path.removeprefix("counted://"))

    def cat_file(self, path, start=None, end=None, **options):
        data = super().cat_file(path, start, end, **options)
        self.reads.append((path, len(data)))
        return data


@pytest.fixture(scope="module", params=["0.1", "2.0", "2.1", "2.2"])
def stored(request, tmp_path_factory):
    """Many fragments of a key, a number and a wide payload; returns the URL and the size of all data."""
    folder = tmp_path_factory.mktemp("counted") / "t"
    random = np.random.default_rng(1)
    rows = FRAGMENTS * ROWS
    payload = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(64), rows, [None, pa.py_buffer(random.bytes(64 * rows))]
    )
    lance.write_dataset(
        pa.table({"id": np.arange(rows), "x": random.integers(0, 1000, rows), "payload": payload}),
        folder,
        max_rows_per_file=ROWS,
        max_rows_per_group=ROWS,
        data_storage_version=request.param,
    )
    fsspec.register_implementation("counted", CountedFileSystem, clobber=True)
    url = f"counted:///{request.param}"
    fsspec.filesystem("counted").put(str(folder), f"/{request.param}", recursive=True)
    return url, sum(path.stat().st_size for path in (folder / "data").iterdir())


@pytest.fixture
def table(stored):
    """Return a new session, which has read nothing yet, the size of all data, and where these are."""
    url, total = stored
    context = lance_df.connect()
    lance_df.register(context, "t", url)
    return context, total, url.removeprefix("counted://") + "/data/"


def data_reads(table, query):
    """Return the answer, the bytes read of data files, and how many of these were touched."""
    context, _, folder = table
    CountedFileSystem.reads.clear()
    answer = context.sql(query).to_arrow_table()
    reads = [(path, size) for path, size in CountedFileSystem.reads if path.startswith(folder)]
    return answer, sum(size for _, size in reads), len({path for path, _ in reads})


def test_a_count_reads_no_data(table):
    answer, num_bytes, _ = data_reads(table, "SELECT count(*) FROM t")
    assert answer.to_pylist() == [{"count(*)": FRAGMENTS * ROWS}]
    assert num_bytes == 0


def test_columns_that_are_not_asked_for_are_not_read(table):
    total = table[1]
    _, num_bytes, num_files = data_reads(table, "SELECT sum(x) FROM t")
    assert num_files == FRAGMENTS
    assert num_bytes < total / 5


def test_pages_without_a_match_are_read_of_the_filter_column_only(table):
    total = table[1]
    answer, num_bytes, _ = data_reads(table, "SELECT payload FROM t WHERE id = 123456")
    assert answer.num_rows == 1
    assert num_bytes < total / 6  # about the ids alone
    answer, again, num_files = data_reads(table, "SELECT payload FROM t WHERE id = 123457")
    assert answer.num_rows == 1
    assert num_files == 1  # what the first query learned of the ids
    assert again < total / 20


# the last one: a scan that is told to stop may still be reading when the answer is there
def test_a_limit_stops_early(table):
    total = table[1]
    answer, num_bytes, num_files = data_reads(table, "SELECT * FROM t LIMIT 1")
    assert answer.num_rows == 1
    assert num_files <= FRAGMENTS / 2
    assert num_bytes < total / 2
