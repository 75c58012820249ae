"""Write the texts of TPC-H or TPC-DS, and the tables of TPC-DS, as DuckDB's extensions have them.

Usage: python duckdb_workloads.py tpch|tpcds FOLDER [SCALE]

Runs by itself, in an environment with duckdb and its extensions of the same release: see workload_data.py.
Writes ``queries/N.sql``, and with a scale factor ``parquet/TABLE.parquet``.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import duckdb


def main() -> None:
    name, target, *scale = sys.argv[1:]
    folder = Path(target)
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    found = importlib.util.find_spec(f"duckdb_extension_{name}")
    if found is None or found.origin is None:
        sys.exit(f"install duckdb-extension-{name} in the release of duckdb, {duckdb.__version__}")
    (extension,) = Path(found.origin).parent.rglob("*.duckdb_extension")
    connection.execute(f"LOAD '{extension}'")
    if scale:
        (folder / "parquet").mkdir(parents=True, exist_ok=True)
        connection.execute(f"CALL dsdgen(sf={float(scale[0])})")
        for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            connection.execute(f"COPY \"{table}\" TO '{folder / 'parquet' / table}.parquet' (FORMAT parquet)")
    (folder / "queries").mkdir(parents=True, exist_ok=True)
    for number, text in connection.execute(f"SELECT query_nr, query FROM {name}_queries()").fetchall():
        (folder / "queries" / f"{number}.sql").write_text(text)


if __name__ == "__main__":
    main()
