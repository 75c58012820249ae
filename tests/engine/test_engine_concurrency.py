"""Queries in threads while another program appends."""

import threading

import datafusion
import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_df

pytestmark = pytest.mark.engine

ROWS, APPENDS = 500, 15


def part(number):
    return pa.table({"k": np.arange(number * ROWS, (number + 1) * ROWS), "part": np.full(ROWS, number)})


@pytest.mark.parametrize("make", [lance_df.connect, datafusion.SessionContext])
def test_every_query_sees_one_version_and_later_ones_no_older(tmp_path, make):
    lance.write_dataset(part(0), tmp_path / "t")
    context = make()
    lance_df.register(context, "t", tmp_path / "t")
    done = threading.Event()
    seen, failures = [], []

    def query():
        numbers = []
        try:
            while not (done.is_set() and numbers and numbers[-1] == APPENDS):
                row = context.sql(
                    "SELECT count(*) AS n, max(k) AS top, sum(k) AS total, count(DISTINCT part) AS parts "
                    "FROM t"
                ).to_pylist()[0]
                n = row["n"]
                assert row == {"n": n, "top": n - 1, "total": n * (n - 1) // 2, "parts": n // ROWS}
                numbers.append(row["parts"])
        except BaseException as err:  # noqa: BLE001 - reported by the test
            failures.append(err)
        seen.append(numbers)

    threads = [threading.Thread(target=query) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1, APPENDS):
        lance.write_dataset(part(number), tmp_path / "t", mode="append")
    done.set()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert len(seen) == 4
    assert all(numbers == sorted(numbers) for numbers in seen)
