"""List the tables of a session, without members of partitioned namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Collection

    from lance_df.engine.session import SessionContext

_PARTITIONS: Final = "$partitions"
_ALL_TABLES: Final = """SELECT table_schema, table_name FROM information_schema.tables
WHERE table_schema <> 'information_schema' ORDER BY table_schema, table_name"""


def listed_tables(ctx: SessionContext, hidden: Collection[str] = ()) -> pa.Table:
    """Return the schema and name of each table.

    Parameters
    ----------
    hidden
        Names to omit.
    """
    tables = ctx.sql(_ALL_TABLES).to_arrow_table()
    pairs = [
        (str(schema), str(name))
        for schema, name in zip(*(column.to_pylist() for column in tables.columns), strict=True)
    ]
    whole = {(schema, name.removesuffix(_PARTITIONS)) for schema, name in pairs if name.endswith(_PARTITIONS)}
    of_members = {name for _, name in whole} | {f"{schema}/{name}" for schema, name in whole}
    shown = [(schema, name) for schema, name in pairs if schema not in of_members and name not in hidden]
    return pa.table(
        {
            "table_schema": pa.array([schema for schema, _ in shown], pa.string()),
            "table_name": pa.array([name for _, name in shown], pa.string()),
        }
    )
