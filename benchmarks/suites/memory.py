"""The peak memory of a scan in a new process, for a table that is 1, 2, 4 and 8 times as large.

Three figures: what the scan allocates (anonymous memory, above what the process has after a scan of a few
rows), once of a local file and once of a store that hands over copies, and the peak of the whole process with
the parts of files that are mapped, which the system takes back when it needs the room.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from measures import Measure

import lance_df

from .common import BENCHMARKS, Settings, run_python

TITLE = "memory of a scan"
_SCAN = """
import json, sys, threading, time
sys.path.insert(0, sys.argv[2])
import lance_df, pyarrow as pa
uri = sys.argv[1]
if sys.argv[3] == "store":
    import os
    from slow_store import use_slow_store
    use_slow_store(0)
    import fsspec
    class Disk(fsspec.get_filesystem_class("file")):
        protocol = "disk"
        @classmethod
        def _strip_protocol(cls, path):
            return super()._strip_protocol(path.removeprefix("disk://"))
    fsspec.register_implementation("disk", Disk)
    uri = "disk://" + uri
def told(name):
    # not ru_maxrss, which begins with the size of the process that started this one
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) * 1024
dataset = lance_df.dataset(uri)
dataset.to_table(limit=10)
before, peak, done = told("RssAnon"), 0, False
def watch():
    global peak
    while not done:
        peak = max(peak, told("RssAnon"))
        time.sleep(0.002)
watcher = threading.Thread(target=watch)
watcher.start()
rows = sum(batch.num_rows for batch in dataset.to_batches())
done = True
watcher.join()
print(json.dumps([rows, peak - before, told("VmHWM")]))
"""


def run(settings: Settings) -> Iterator[Measure]:
    rows = 2_000 if settings.quick else 1_000_000
    for version in settings.versions[-1:] if settings.quick else settings.versions:
        for times in (1, 2) if settings.quick else (1, 2, 4, 8):
            uri = settings.scratch / "memory.lance"
            _write(uri, rows, times, version)
            for place in ("file", "store"):
                text = run_python(Path(sys.executable), _SCAN, str(uri), str(BENCHMARKS), place)[2]
                found, allocated, peak = json.loads(text)
                if found != rows * times:
                    raise SystemExit(f"{found} rows instead of {rows * times}")
                yield Measure(TITLE, f"{place}, {times}x", f"ours-{version}", "bytes allocated", (allocated,))
                if place == "file":
                    yield Measure(TITLE, f"{times}x", f"ours-{version}", "bytes with mapped files", (peak,))
            shutil.rmtree(uri)


def _write(uri: Path, rows: int, times: int, version: str) -> None:
    random = np.random.default_rng(1)
    for number in range(times):
        part = pa.table(
            {
                "id": np.arange(rows) + number * rows,
                "value": random.normal(size=rows),
                "small": random.integers(0, 100, rows),
                "text": pa.array(random.integers(0, 1 << 40, rows)).cast(pa.string()),
            }
        )
        mode = "append" if number else "create"
        lance_df.write_dataset(part, uri, mode=mode, data_storage_version=version)
