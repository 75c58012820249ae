"""A file system that takes no more bytes: typed errors, no trace of what failed, the table as it was.

The limit of the size of a file stands in for a full disk: the system fails a write half-way, as a disk does.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import lance
import pyarrow as pa

import lance_df

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 200_000

_CHANGES = """
import random, resource, signal, sys
import pyarrow as pa
import lance_df

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
root = sys.argv[1]
many = pa.table({{"id": range(60_000), "text": [random.randbytes(8).hex() for _ in range(60_000)]}})
changes = {{
    "append": lambda ds: ds.insert(many),
    "overwrite": lambda ds: lance_df.write_dataset(many, root, mode="overwrite"),
    "merge": lambda ds: ds.merge_insert("id").when_not_matched_insert_all().execute(many),
    "update": lambda ds: ds.update({{"text": "repeat(text, 500)"}}),
    "columns": lambda ds: ds.add_columns({{"more": "repeat(text, 500)"}}),
}}
for name, change in changes.items():
    try:
        change(lance_df.dataset(root))
    except lance_df.LanceError as err:
        assert ".lance: File too large" in str(err), err
        print(name)
lance_df.dataset(root).insert(many.slice(0, 10))
"""


def test_what_does_not_fit_leaves_nothing(tmp_path: Path):
    root = tmp_path / "t.lance"
    lance_df.write_dataset(pa.table({"id": range(1000), "text": [f"{i:032}" for i in range(1000)]}), root)
    before = {path for path in root.rglob("*") if path.is_file()}
    done = subprocess.run(
        [sys.executable, "-c", _CHANGES.format(limit=LIMIT), str(root)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["append", "overwrite", "merge", "update", "columns"]
    added = {path.parent.name for path in root.rglob("*") if path.is_file() and path not in before}
    assert sorted(added) == ["_transactions", "_versions", "data"]
    assert sum(path.parent.name == "data" for path in root.rglob("*.lance")) == 2
    ds = lance.dataset(root)
    assert (ds.version, ds.count_rows()) == (2, 1010)
    ds.validate()
