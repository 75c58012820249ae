"""Commit many small changes, with ours and with pylance in turn; print the times.

Ours makes every version durable before it says so (the file and its name are synced); pylance does not.
``--no-sync`` leaves that out, to compare the work alone.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("LANCE_LOG", "error")

import lance
import pyarrow as pa

import lance_df

if TYPE_CHECKING:
    from collections.abc import Callable

ROW = pa.table({"id": [1], "name": ["one"], "value": [1.0]})


def appends(library: Any, path: str, count: int) -> None:
    """Append one row after the other."""
    for _ in range(count):
        library.write_dataset(ROW, path, mode="append")


def deletes(library: Any, path: str, count: int) -> None:
    """Delete one row after the other from one fragment."""
    library.write_dataset(pa.table({"id": range(10 * count)}), path)
    for number in range(count):
        library.dataset(path).delete(f"id = {number}")


CASES: dict[str, Callable[[Any, str, int], None]] = {"appends": appends, "deletes": deletes}


def main() -> None:
    """Run each case in turns; every round of a library starts with a new table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--target", type=Path, help="a folder on the disk to measure")
    parser.add_argument("--no-sync", action="store_true", help="do not wait for the disk")
    arguments = parser.parse_args()
    if arguments.no_sync:
        os.fsync = lambda _: None
    for name, run in CASES.items():
        best: dict[str, float] = {}
        for _ in range(arguments.rounds):
            for library in (lance_df, lance):
                with tempfile.TemporaryDirectory(dir=arguments.target) as folder:
                    start = time.perf_counter()
                    run(library, f"{folder}/t.lance", arguments.count)
                    seconds = time.perf_counter() - start
                best[library.__name__] = min(seconds, best.get(library.__name__, seconds))
        ours, theirs = best["lance_df"], best["lance"]
        print(
            f"{arguments.count} {name}: ours {ours:.2f} s, pylance {theirs:.2f} s; "
            f"{theirs / ours:.2f} times as fast"
        )


if __name__ == "__main__":
    main()
