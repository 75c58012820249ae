"""TPC-H tables as Parquet and Lance files, made once and kept."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from queries import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable

LANCE_VERSIONS = ("2.0", "2.1", "2.2")


def ensure_data(
    folder: Path,
    scale: float,
    *,
    tables: Iterable[str] = TABLES,
    versions: Iterable[str] = LANCE_VERSIONS,
) -> Path:
    """Return the folder of one scale factor; generate what is missing.

    tpchgen-cli writes Parquet, pylance writes Lance: we read what others wrote.
    """
    home = folder / f"sf{scale:g}"
    parquet = home / "parquet"
    tables = tuple(tables)
    missing = [table for table in tables if not (parquet / f"{table}.parquet").exists()]
    if missing:
        parquet.mkdir(parents=True, exist_ok=True)
        generator = Path(sys.executable).with_name("tpchgen-cli")
        arguments = [
            "parquet",
            "-s",
            f"{scale:g}",
            "-T",
            ",".join(missing),
            "-o",
            str(parquet),
            "--overwrite",
        ]
        subprocess.run([str(generator), *arguments], check=True, stdout=subprocess.DEVNULL)
    for version in versions:
        for table in tables:
            target = home / version / f"{table}.lance"
            if not (target / "_versions").exists():
                write_lance(parquet / f"{table}.parquet", target, version)
    return home


def write_lance(source: Path, target: Path, version: str) -> None:
    """Write a Parquet file as a Lance table, by pylance."""
    os.environ.setdefault("LANCE_LOG", "error")
    import lance
    import pyarrow.parquet as pq

    logging.getLogger("lance").setLevel(logging.ERROR)
    with pq.ParquetFile(source) as file:
        batches = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        lance.write_dataset(batches, str(target), data_storage_version=version)
