"""Tables in an object store: what a scan and a take ask the store for."""

import lance
import numpy as np
import pyarrow as pa
import pytest
import s3fs

import lance_df
from lance_df.errors import LanceError

NUM_ROWS = 200_000
COLUMN_BYTES = NUM_ROWS * 8

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(7)
    return pa.table({name: random.integers(0, 1 << 62, NUM_ROWS) for name in "abcdefgh"})


@pytest.fixture(params=["2.0", "2.2"])
def table(request, rows, bucket, s3_options):
    """The URL of a table that pylance wrote to the store."""
    url = f"{bucket}/tables/numbers.lance"
    options = {
        "aws_access_key_id": s3_options["key"],
        "aws_secret_access_key": s3_options["secret"],
        "aws_endpoint": s3_options["endpoint_url"],
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    lance.write_dataset(
        rows,
        url,
        storage_options=options,
        data_storage_version=request.param,
        max_rows_per_file=NUM_ROWS // 2,
    )
    return url


@pytest.fixture
def requests(monkeypatch):
    """The sizes of all reads of object bytes from now on."""
    sizes = []
    read = s3fs.S3FileSystem._cat_file

    async def counted(self, *args, **kwargs):
        data = await read(self, *args, **kwargs)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(s3fs.S3FileSystem, "_cat_file", counted)
    return sizes


def test_a_scan_reads_the_columns_it_needs(table, rows, s3_options, requests):
    dataset = lance_df.dataset(table, storage_options=s3_options)
    assert sum(requests) < 100_000
    requests.clear()
    assert dataset.to_table(columns=["c"]).equals(rows.select(["c"]))
    assert COLUMN_BYTES <= sum(requests) < COLUMN_BYTES * 1.3
    assert len(requests) <= 12  # two files; tail, column metadata, and a few windows of pages each


def test_a_take_reads_little(table, rows, s3_options, requests):
    dataset = lance_df.dataset(table, storage_options=s3_options)
    requests.clear()
    wanted = [5, 99_999, 150_000]
    assert dataset.take(wanted, columns=["b"]).equals(rows.select(["b"]).take(wanted))
    assert sum(requests) < COLUMN_BYTES / 2


def test_sql_by_url(table, rows, s3_options, requests):
    ctx = lance_df.connect(table.rpartition("/")[0], storage_options=s3_options)
    sql = "SELECT count(*) AS n, max(d) AS most FROM numbers"
    assert ctx.sql(sql).to_pylist() == [{"n": NUM_ROWS, "most": max(rows["d"].to_pylist())}]
    assert sum(requests) < COLUMN_BYTES * 1.4


def test_a_count_reads_no_column(table, s3_options, requests):
    assert lance_df.dataset(table, storage_options=s3_options).count_rows() == NUM_ROWS
    assert sum(requests) < 100_000


def test_errors_name_the_url_and_no_secret(bucket, s3_options):
    with pytest.raises(LanceError, match=r"nothing\.lance") as caught:
        lance_df.dataset(f"{bucket}/nothing.lance", storage_options=s3_options)
    assert s3_options["secret"] not in repr(caught.value)
    assert s3_options["secret"] not in repr(caught.getrepr(chain=True, style="short"))
