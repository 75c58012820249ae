"""The engines that are compared. Each opens the tables once and then answers SQL with an Arrow table."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

Engine = Callable[[str], "pa.Table"]

NUM_THREADS = os.cpu_count() or 1


def open_engine(name: str, home: Path, tables: Sequence[str]) -> Engine:
    """Open an engine.

    ``"ours-2.2"``; ``"plain-2.2"``, a context of DataFusion's own; ``"months-2.2"`` and ``"buckets-2.2"``,
    with namespaces for some of the tables; ``"pylance-2.0"``, ``"parquet"``, ``"duckdb"`` on Parquet,
    ``"duckdb_tables"``, ``"memory"``.
    """
    kind, _, version = name.partition("-")
    return _OPEN[kind](home / (version or "parquet"), tables)


def _ours(home: Path, _: Sequence[str]) -> Engine:
    from datafusion import SessionConfig

    import lance_df

    config = SessionConfig().with_target_partitions(NUM_THREADS)
    ctx = lance_df.connect(str(home), config=config)
    return lambda sql: ctx.sql(sql).to_arrow_table()


def _plain(home: Path, tables: Sequence[str]) -> Engine:
    import lance_df

    ctx = _context()
    for table in tables:
        lance_df.register(ctx, table, str(home / f"{table}.lance"))
    return lambda sql: ctx.sql(sql).to_arrow_table()


def _with_namespaces(kind: str) -> Callable[[Path, Sequence[str]], Engine]:
    def open_both(home: Path, tables: Sequence[str]) -> Engine:
        from datafusion import SessionConfig

        import lance_df

        ctx = lance_df.SessionContext(SessionConfig().with_target_partitions(NUM_THREADS))
        for table in tables:
            namespace = home.parent / kind / table
            source = namespace if namespace.exists() else home / f"{table}.lance"
            lance_df.register(ctx, table, str(source))
        return lambda sql: ctx.sql(sql).to_arrow_table()

    return open_both


def _pylance(home: Path, tables: Sequence[str]) -> Engine:
    import lance

    ctx = _context()
    for table in tables:
        dataset = lance.dataset(str(home / f"{table}.lance"))
        ctx.register_table(
            table, lance.FFILanceTableProvider(dataset, with_row_id=False, with_row_addr=False)
        )
    return lambda sql: ctx.sql(sql).to_arrow_table()


def _parquet(home: Path, tables: Sequence[str]) -> Engine:
    ctx = _context()
    for table in tables:
        ctx.register_parquet(table, str(home / f"{table}.parquet"))
    return lambda sql: ctx.sql(sql).to_arrow_table()


def _memory(home: Path, tables: Sequence[str]) -> Engine:
    import pyarrow.parquet as pq

    ctx = _context()
    for table in tables:
        batches = pq.read_table(home / f"{table}.parquet").to_batches(max_chunksize=65_536)
        ctx.register_record_batches(table, [batches[part::NUM_THREADS] for part in range(NUM_THREADS)])
    return lambda sql: ctx.sql(sql).to_arrow_table()


def _duckdb(home: Path, tables: Sequence[str]) -> Engine:
    import duckdb

    connection = duckdb.connect(config={"threads": NUM_THREADS})
    for table in tables:
        path = home / f"{table}.parquet"
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{path}')")
    return lambda sql: connection.sql(sql).to_arrow_table()


def _duckdb_tables(home: Path, tables: Sequence[str]) -> Engine:
    import duckdb

    file = home.parent / "tables.duckdb"
    if not file.exists():
        made = file.with_suffix(".unfinished")
        made.unlink(missing_ok=True)
        with duckdb.connect(str(made)) as writer:
            for table in tables:
                path = home / f"{table}.parquet"
                writer.execute(f"CREATE TABLE {table} AS SELECT * FROM read_parquet('{path}')")
        made.rename(file)
    connection = duckdb.connect(str(file), read_only=True, config={"threads": NUM_THREADS})
    return lambda sql: connection.sql(sql).to_arrow_table()


def _context() -> Any:
    from datafusion import SessionConfig, SessionContext

    return SessionContext(SessionConfig().with_target_partitions(NUM_THREADS))


_OPEN: dict[str, Callable[[Path, Sequence[str]], Engine]] = {
    "ours": _ours,
    "plain": _plain,
    "months": _with_namespaces("months"),
    "buckets": _with_namespaces("buckets"),
    "pylance": _pylance,
    "parquet": _parquet,
    "memory": _memory,
    "duckdb": _duckdb,
    "duckdb_tables": _duckdb_tables,
}
