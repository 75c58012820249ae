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
