"""Open tables of many fragments and of many versions, with ours and with pylance in turn; print times.

A manifest that our process knows already is not parsed again, so tables are opened under a new name each
time; what it takes to open them under the same name once more is printed, too.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("LANCE_LOG", "error")

import lance
import pyarrow as pa

import lance_df

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = [f"column_{number}" for number in range(10)]


def main() -> None:
    """Run the comparison; every round opens each table with each library, and counts its rows."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(dir=arguments.target) as folder:
        tables = {
            f"{arguments.fragments} fragments": _with_fragments(Path(folder), arguments.fragments),
            f"{arguments.versions} versions": _with_versions(Path(folder), arguments.versions),
        }
        for name, made in tables.items():
            table = Path(made)
            best: dict[tuple[str, str], float] = {}
            for number in range(arguments.rounds):
                for opener, count_rows in _OPENERS.items():
                    table = table.rename(f"{made}-{opener}-{number}.lance")
                    for time_of_opening in ("first", "again"):
                        start = time.perf_counter()
                        count_rows(os.fspath(table))
                        seconds = time.perf_counter() - start
                        key = (opener, time_of_opening)
                        best[key] = min(seconds, best.get(key, seconds))
            for time_of_opening in ("first", "again"):
                ours, theirs = best["ours", time_of_opening], best["pylance", time_of_opening]
                print(
                    f"{name}, {time_of_opening}: ours {ours * 1e3:.2f} ms, pylance {theirs * 1e3:.2f} ms, "
                    f"{theirs / ours:.2f} times as fast; best of {arguments.rounds} rounds"
                )


def _with_fragments(folder: Path, count: int) -> str:
    uri = str(folder / "fragments.lance")
    made = lance_df.write_dataset(_rows(), uri)
    # that they share one file makes no difference to who opens the table
    fragments = [fragment.metadata for fragment in made.get_fragments()] * (count - 1)
    lance_df.LanceDataset.commit(uri, lance_df.LanceOperation.Append(fragments), read_version=1)
    return uri


def _with_versions(folder: Path, count: int) -> str:
    uri = str(folder / "versions.lance")
    for number in range(count):
        lance.write_dataset(_rows(), uri, mode="append" if number else "create")
    return uri


def _rows() -> pa.Table:
    return pa.table({name: [1] for name in COLUMNS})


_OPENERS: dict[str, Callable[[str], int]] = {
    "ours": lambda uri: lance_df.dataset(uri).count_rows(),
    "pylance": lambda uri: lance.dataset(uri).count_rows(),
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, help="where tables are made; by default a temporary folder")
    parser.add_argument("--fragments", type=int, default=10_000)
    parser.add_argument("--versions", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=20)
    return parser.parse_args()


if __name__ == "__main__":
    main()
