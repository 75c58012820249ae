"""Files of version 0.1 with statistics of their pages: the bytes that a filter on 1% of the rows reads.

Counted in a store: the whole column of the filter beside what the filter needs of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from measures import Measure
from slow_store import use_slow_store

import lance_df

from .common import Settings

TITLE = "bytes read of 0.1 files"


def run(settings: Settings) -> Iterator[Measure]:
    store = use_slow_store(0)
    rows = 100_000 if settings.quick else 4_000_000
    uri = "slow:///pages.lance"
    table = pa.table({"id": np.arange(rows), "value": np.random.default_rng(1).normal(size=rows)})
    group = rows // 200
    lance_df.write_dataset(table, uri, data_storage_version="0.1", max_rows_per_group=group)
    dataset = lance_df.dataset(uri)
    start, stop = rows // 2, rows // 2 + rows // 100
    condition = f"id >= {start} AND id < {stop}"
    for case, wanted in (("1% of a key", condition), ("the whole key", None)):
        store.log.clear()
        found = dataset.to_table(columns=["id"], filter=wanted)
        expected = table["id"].slice(start, stop - start) if wanted else table["id"]
        if not found["id"].combine_chunks().equals(expected.combine_chunks()):
            raise SystemExit(f"{case}: {found.num_rows} rows, not {len(expected)}")
        read = [each for each in store.log.requests if "/data/" in each[1]]
        yield Measure(TITLE, case, "ours", "bytes", (sum(each[2] for each in read),))
        yield Measure(TITLE, case, "ours", "requests", (len(read),))
    store.store.clear()
