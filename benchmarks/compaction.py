"""Compact TPC-H lineitem out of many small fragments, with ours and with pylance in turn; print times."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("LANCE_LOG", "error")

import pyarrow as pa
import pyarrow.parquet as pq
from data import LANCE_VERSIONS, ensure_data

import lance_df

WRITERS = ("ours", "pylance")


def main() -> None:
    """Run the comparison: in each round, both compact a copy of the same table."""
    arguments = _arguments()
    home = ensure_data(arguments.data, arguments.scale)
    rows = _plain_strings(pq.read_table(home / "parquet" / "lineitem.parquet"))
    if arguments.rows_per_fragment is not None:
        rows = rows.slice(0, arguments.rows_per_fragment * arguments.fragments)
    for version in arguments.versions:
        with tempfile.TemporaryDirectory(dir=arguments.target) as folder:
            best = _compare(rows, Path(folder), version, arguments)
        ours, theirs = best["ours"], best["pylance"]
        print(
            f"{version}: {arguments.fragments} fragments, {rows.num_rows} rows: ours {ours:.2f} s, "
            f"pylance {theirs:.2f} s, {theirs / ours:.2f} times as fast"
        )


def _compare(rows: pa.Table, folder: Path, version: str, arguments: argparse.Namespace) -> dict[str, float]:
    source = folder / "source"
    size = -(-rows.num_rows // arguments.fragments)
    _pylance().write_dataset(rows, str(source), max_rows_per_file=size, data_storage_version=version)
    best = dict.fromkeys(WRITERS, float("inf"))
    for _ in range(arguments.rounds):
        for writer in WRITERS:
            target = folder / writer
            shutil.copytree(source, target)
            best[writer] = min(best[writer], _compact(writer, target, rows.num_rows))
            shutil.rmtree(target)
    return best


def _compact(writer: str, target: Path, num_rows: int) -> float:
    module: Any = lance_df if writer == "ours" else _pylance()
    dataset = module.dataset(str(target))
    start = time.perf_counter()
    dataset.optimize.compact_files()
    seconds = time.perf_counter() - start
    compacted = _pylance().dataset(str(target))
    if compacted.count_rows() != num_rows or len(compacted.get_fragments()) > 1 + num_rows // (1 << 20):
        raise SystemExit(f"{writer} did not compact the table")
    return seconds


def _pylance() -> Any:
    import lance

    logging.getLogger("lance").setLevel(logging.ERROR)
    return lance


def _plain_strings(table: pa.Table) -> pa.Table:
    fields = [
        field.with_type(pa.string()) if pa.types.is_string_view(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields)).combine_chunks()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=Path("bench-data"), help="where generated tables are kept"
    )
    parser.add_argument("--target", type=Path, help="where tables are written; by default a temporary folder")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--fragments", type=int, default=500)
    parser.add_argument("--rows-per-fragment", type=int, help="by default all rows are shared out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--versions", nargs="+", choices=LANCE_VERSIONS, default=LANCE_VERSIONS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
