"""The memory that open tables keep, in processes of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from process_programs import output_of

if TYPE_CHECKING:
    from pathlib import Path

FORKS = """
import warnings
from lance_df.cache import CacheKind, TableCache, cache_statistics, set_cache_bytes
warnings.simplefilter("ignore", DeprecationWarning)  # of forks of processes with threads
set_cache_bytes(100_000)
cache, stop = TableCache(), threading.Event()

def work():
    number = 0
    while not stop.is_set():
        cache.entries(CacheKind.DATA_FILES).put(number % 300, number, 100)
        cache.entries(CacheKind.DATA_FILES).drop((number * 7) % 300)
        number += 1

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
codes = set()
for _ in range(30):
    child = os.fork()
    if not child:
        signal.alarm(20)
        TableCache().entries(CacheKind.DICTIONARIES).put("x", 1, 100)
        found = cache_statistics()
        is_right = found.num_bytes == sum(each.num_bytes for each in found.kinds.values())
        os._exit(0 if is_right and 0 < found.num_bytes <= 100_000 else 1)
    codes.add(os.waitpid(child, 0)[1])
stop.set()
for thread in threads:
    thread.join()
print(codes)
"""


def test_forked_children_count_what_they_have_whatever_other_threads_did(tmp_path: Path) -> None:
    assert output_of(FORKS, tmp_path) == "{0}\n"


THOUSAND = """
import gc
import shutil
import numpy as np

def memory():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def rows(num_rows, num_columns):
    numbers = np.arange(num_rows)
    texts = [f"text {number % 40}" for number in range(num_rows)]
    return pa.table({f"c{n}": numbers * n if n % 2 else texts for n in range(num_columns)})

def query(dataset):
    assert dataset.to_table(columns=["c0", "c3"], filter=pc.field("c1") > 5)["c3"][0].as_py() == 18

lance_df.write_dataset(rows(300, 5), f"{folder}/0", max_rows_per_file=150)
lance_df.write_dataset(rows(100, 400), f"{folder}/wide")
lance_df.write_dataset(rows(300_000, 4), f"{folder}/large", max_rows_per_file=50_000)
for number in range(1, 1000):
    shutil.copytree(f"{folder}/0", f"{folder}/{number}")
others = [lance_df.dataset(f"{folder}/{name}") for name in ("wide", "large")]
opened = []

def open_and_query(numbers):
    for number in numbers:
        opened.append(lance_df.dataset(f"{folder}/{number}"))
        query(opened[-1])
        if number % 100 == 0:
            for dataset in others:
                query(dataset)
        found = lance_df.cache_statistics()
        assert found.num_bytes == found.total.num_bytes <= found.max_bytes

open_and_query(range(50))
per_table = lance_df.cache_statistics().num_bytes // 50
budget = 8 * per_table
lance_df.set_cache_bytes(budget)
before = memory()
open_and_query(range(50, 1000))
grown = memory() - before
found = lance_df.cache_statistics()
kept = found.total.entries
opened.clear(), others.clear(), gc.collect()
left = lance_df.cache_statistics()
print(per_table > 20_000, grown < 60e6 or grown, 0 < kept < 200, found.total.evictions > 950)
print(sorted(left.kinds, key=str) if left.total.entries else "", left.num_bytes <= budget)
"""


def test_a_thousand_open_tables_keep_no_more_than_the_budget(tmp_path: Path) -> None:
    kinds = ["columns", "manifests", "schemas"]  # are for whoever opens the tables again
    assert output_of(THOUSAND, tmp_path) == f"True True True True\n{kinds} True\n"
