"""The tables of TPC-DS, from Parquet files or made by DuckDB."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCALE = 0.05
_EXTENSION = "duckdb_extension_tpcds"


def tpcds_tables(folder: Path | None) -> Iterator[tuple[str, pa.Table]]:
    """Yield the names and rows of all tables.

    Without a folder DuckDB makes them, which takes the package ``duckdb-extension-tpcds`` of the same release
    as ``duckdb``.
    """
    if folder is not None:
        for path in sorted(folder.glob("*.parquet")):
            yield path.stem, pq.read_table(path)
        return
    import duckdb

    found = importlib.util.find_spec(_EXTENSION)
    if found is None or found.origin is None:
        raise SystemExit(
            "no data of TPC-DS: give --tpcds-data, or install duckdb-extension-tpcds in the release of duckdb"
        )
    (extension,) = Path(found.origin).parent.rglob("*.duckdb_extension")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    connection.execute(f"CALL dsdgen(sf={_SCALE})")
    for (name,) in connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall():
        yield name, connection.execute(f'SELECT * FROM "{name}"').to_arrow_table()


if __name__ == "__main__":  # python -m tools.conformance.tpcds FOLDER: for an environment with another duckdb
    import sys

    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for table, rows in tpcds_tables(None):
        pq.write_table(rows, target / f"{table}.parquet")
