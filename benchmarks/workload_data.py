"""The tables and queries of workloads that others chose: made once, and kept as Parquet, Lance and DuckDB.

No text of them is part of this project. Those of TPC-H and TPC-DS come with DuckDB's extensions, those of
ClickBench from a checkout of the public repository ClickHouse/ClickBench. Its table, ``hits``, is random with
a fixed seed: many zeros and empty texts, few frequent values; see tools/conformance/hits.py.
"""

from __future__ import annotations

import subprocess
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from data import ensure_data, write_lance
from queries import ALL_TABLES

import lance_df
from lance_df import partition
from tools.conformance.hits import hits

_DUCKDB = "1.5.5"  # the newest release that PyPI has the extensions of
_PART_ROWS = 1_000_000
# the partitions of TPC-H: lineitem by month, and orders and lineitem by their key
_NAMESPACES = {
    "months": {"lineitem": [partition.month("l_shipdate")]},
    "buckets": {
        "orders": [partition.bucket("o_orderkey", 8)],
        "lineitem": [partition.bucket("l_orderkey", 16)],
    },
}


@dataclass(frozen=True, slots=True)
class Workload:
    """Queries over tables.

    Attributes
    ----------
    name
        ``"TPC-H"``, ``"TPC-DS"`` or ``"ClickBench"``, and how large it is.
    home
        A folder with one folder for each kind of file: ``parquet``, ``2.0``, ``2.2`` …
    queries
        Texts by names, such as ``"q1"``.
    """

    name: str
    home: Path
    tables: tuple[str, ...]
    queries: dict[str, str]


def tpch(data: Path, scale: float, versions: Sequence[str]) -> Workload:
    """Return TPC-H; lineitem and orders are partitioned namespaces, too."""
    home = ensure_data(data, scale, tables=ALL_TABLES, versions=versions)
    texts = data / "tpch"
    if not (texts / "queries").exists():
        _run_duckdb(data, "tpch", str(texts))
    ensure_namespaces(home)
    return Workload(f"TPC-H, scale factor {scale:g}", home, ALL_TABLES, _numbered(texts / "queries"))


def ensure_namespaces(home: Path) -> None:
    """Write the tables of TPC-H that are partitioned into ``months`` and ``buckets``."""
    for kind, partitioned in _NAMESPACES.items():
        for table, fields in partitioned.items():
            target = home / kind / table
            if not (target / "__manifest").exists():
                with pq.ParquetFile(home / "parquet" / f"{table}.parquet") as file:
                    namespace = lance_df.PartitionedNamespace.create(str(target), file.schema_arrow, fields)
                    batches = file.iter_batches(_PART_ROWS)
                    namespace.append(pa.RecordBatchReader.from_batches(file.schema_arrow, batches))


def tpcds(data: Path, scale: float, versions: Sequence[str]) -> Workload:
    """Return TPC-DS."""
    home = data / f"tpcds{scale:g}"
    if not (home / "queries").exists():
        _run_duckdb(data, "tpcds", str(home), f"{scale:g}")
    tables = tuple(sorted(path.stem for path in (home / "parquet").glob("*.parquet")))
    _ensure_lance(home, tables, versions)
    return Workload(f"TPC-DS, scale factor {scale:g}", home, tables, _numbered(home / "queries"))


def clickbench(data: Path, rows: int, checkout: Path, versions: Sequence[str]) -> Workload:
    """Return ClickBench; ``rows`` are written a million at a time."""
    home = data / f"hits{rows}"
    target = home / "parquet" / "hits.parquet"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        made = target.with_suffix(".unfinished")
        schema = _schema_of(checkout / "duckdb" / "create.sql")
        with pq.ParquetWriter(made, schema) as writer:
            for part, start in enumerate(range(0, rows, _PART_ROWS)):
                writer.write_table(hits(schema, min(_PART_ROWS, rows - start), part=part).cast(schema))
        made.rename(target)
    _ensure_lance(home, ("hits",), versions)
    texts = (checkout / "datafusion" / "queries.sql").read_text().splitlines()
    queries = {f"q{number}": text.rstrip(";") for number, text in enumerate(texts)}
    return Workload(f"ClickBench, {rows:,} rows", home, ("hits",), queries)


def _schema_of(statement: Path) -> pa.Schema:
    connection = duckdb.connect()
    connection.execute(statement.read_text())
    return connection.sql("SELECT * FROM hits").to_arrow_table().schema


def _ensure_lance(home: Path, tables: Sequence[str], versions: Sequence[str]) -> None:
    for version in versions:
        for table in tables:
            target = home / version / f"{table}.lance"
            if not (target / "_versions").exists():
                write_lance(home / "parquet" / f"{table}.parquet", target, version)


def _numbered(folder: Path) -> dict[str, str]:
    numbers = sorted(int(path.stem) for path in folder.glob("*.sql"))
    texts = ((folder / f"{number}.sql").read_text().strip().rstrip(";") for number in numbers)
    return {f"q{number}": text for number, text in zip(numbers, texts, strict=True)}


def _run_duckdb(data: Path, *arguments: str) -> None:
    folder = data / "duckdb-venv"
    interpreter = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True)
        packages = ("duckdb", "duckdb-extension-tpch", "duckdb-extension-tpcds")
        wanted = [f"{package}=={_DUCKDB}" for package in packages]
        subprocess.run([interpreter, "-m", "pip", "install", "-q", *wanted], check=True)
        (folder / "ready").touch()
    script = Path(__file__).with_name("duckdb_workloads.py")
    subprocess.run([interpreter, script, *arguments], check=True)
