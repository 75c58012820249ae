"""Write TPC-H lineitem as Lance tables, with ours and with pylance in turn; print times and sizes."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("LANCE_LOG", "error")

import pyarrow as pa
import pyarrow.parquet as pq
from data import LANCE_VERSIONS, ensure_data

import lance_df

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TABLES = ("lineitem", "orders", "customer")


def main() -> None:
    """Run the comparison; every round writes each table once with each library."""
    arguments = _arguments()
    home = ensure_data(arguments.data, arguments.scale)
    for name in arguments.tables:
        table = _plain_strings(pq.read_table(home / "parquet" / f"{name}.parquet"))
        print(f"{name}: {table.num_rows} rows, {table.nbytes >> 20} MiB, best of {arguments.rounds} rounds")
        for version in arguments.versions:
            best = {writer: float("inf") for writer in _WRITERS}
            sizes = {}
            with tempfile.TemporaryDirectory(dir=arguments.target) as folder:
                for _ in range(arguments.rounds):
                    for writer, seconds, size in _round(table, Path(folder), version):
                        best[writer] = min(best[writer], seconds)
                        sizes[writer] = size
            ours, theirs = best["ours"], best["pylance"]
            print(
                f"  {version}: ours {ours:.2f} s, {sizes['ours'] / 1e6:.1f} MB; "
                f"pylance {theirs:.2f} s, {sizes['pylance'] / 1e6:.1f} MB; "
                f"{theirs / ours:.2f} times as fast, {sizes['ours'] / sizes['pylance']:.2f} times as large"
            )


def _round(table: pa.Table, folder: Path, version: str) -> Iterator[tuple[str, float, int]]:
    for writer, write in _WRITERS.items():
        target = folder / writer
        start = time.perf_counter()
        write(table, str(target), data_storage_version=version)
        seconds = time.perf_counter() - start
        size = sum(file.stat().st_size for file in (target / "data").iterdir())
        shutil.rmtree(target)
        yield writer, seconds, size


def _plain_strings(table: pa.Table) -> pa.Table:
    fields = [
        field.with_type(pa.string()) if pa.types.is_string_view(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields)).combine_chunks()


def _write_with_pylance(*arguments: Any, **options: Any) -> None:
    import lance

    logging.getLogger("lance").setLevel(logging.ERROR)
    lance.write_dataset(*arguments, **options)


_WRITERS: dict[str, Callable[..., Any]] = {"ours": lance_df.write_dataset, "pylance": _write_with_pylance}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=Path("bench-data"), help="where generated tables are kept"
    )
    parser.add_argument("--target", type=Path, help="where tables are written; by default a temporary folder")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--versions", nargs="+", choices=LANCE_VERSIONS, default=("2.0", "2.2"))
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=("lineitem",))
    return parser.parse_args()


if __name__ == "__main__":
    main()
