"""`partitioned_join`: join namespaces partition by partition, in tasks and without a shuffle."""

from __future__ import annotations

import json
import pickle
import warnings
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_df.engine.divided_statement import DividedStatement
from lance_df.errors import ColumnNotFoundError, InvalidInputError
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.spark.decimals import can_cross_as_integers, with_decimals, with_integers
from lance_df.spark.opened import SourceRef, open_source
from lance_df.spark.options import SourceOptions
from lance_df.spark.paths import path_for_driver
from lance_df.spark.pipeline.join_source import PART, JoinMerger, JoinSource, SomeMembers
from lance_df.spark.pipeline.tasks import check_task_bytes, num_workers, shared_out
from lance_df.spark.sessions import make_known
from lance_df.spark.types import spark_schema
from lance_df.sql.splice import quote_identifier
from lance_df.table.metadata.refs import ResolvedRef

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame, SparkSession

    from lance_df.engine.divided_statement import MemberGroup

# A task keeps one side of its joins in memory.
_TASK_BYTES: Final = 64 * 1024 * 1024
_JOINS: Final = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}
_SPELLINGS: Final = {
    "outer": "full",
    "leftouter": "left",
    "rightouter": "right",
    "fullouter": "full",
    "leftsemi": "semi",
    "leftanti": "anti",
}


def partitioned_join(
    spark: SparkSession,
    left: str | os.PathLike[str],
    right: str | os.PathLike[str],
    *,
    on: str | Sequence[str] | Mapping[str, str] | None = None,
    how: str = "inner",
    select: str | Sequence[str] | None = None,
    filter: str | None = None,
    sql: str | None = None,
    left_version: int | None = None,
    right_version: int | None = None,
    task_bytes: int = _TASK_BYTES,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return the join of two partitioned namespaces, computed in tasks over groups of partitions.

    A task reads the partitions that share keys, and DataFusion joins them: no row is sent to another task
    before it is joined. The partition specs must separate the groups of partitions by all or some of the
    join keys, as ``bucket(16)`` and ``bucket(8)`` of a key do, or ``year`` of a key on both sides. All spec
    versions in use must do so. Expressions are DataFusion's SQL. NULL keys match nothing, as in Spark.

    Parameters
    ----------
    left, right
        Paths of namespaces, ``l`` and ``r`` in expressions. The DataFrame always reads the versions that are
        the newest now.
    on
        Names of columns that both sides have, each of which is one column of the result; or a mapping from
        names on the left to names on the right.
    how
        inner, left, right, full, semi or anti, or Spark's other names of these joins.
    select
        Expressions, such as ``"l.price * r.rate AS cost"``; all columns by default.
    filter
        A condition on the rows of the result.
    sql
        A query over ``l`` and ``r``, in place of the arguments above, that can be computed partition by
        partition. It may group by the keys. With other groups or none, it may use ``count``, ``sum``,
        ``min``, ``max``, ``bool_and``, ``bool_or``, averages of numbers other than decimals, and DISTINCT:
        each task aggregates its rows, and one task merges their groups and computes the rest of the query.
    left_version, right_version
        Older versions to read.
    task_bytes
        Stored bytes for one task. Small groups share a task, and a larger group has a task of its own. One
        side of a task's groups is kept in memory.
    storage_options
        Options for the fsspec filesystems.

    Raises
    ------
    UnsupportedFeatureError
        The rows cannot be joined partition by partition; the message gives the reason. Spark can join the
        DataFrames of `lance_df.spark.read` instead.
    InvalidInputError
        An argument or an expression is invalid; `ColumnNotFoundError` for a column that does not exist.
    NotFoundError
        A namespace does not exist.
    """
    check_task_bytes(task_bytes)
    storage = dict(storage_options or {})
    tables = {
        name: _opened(SourceOptions(path=path_for_driver(path), version=version, storage=storage))
        for name, path, version in (("l", left, left_version), ("r", right, right_version))
    }
    if sql is None:
        sql = _query({name: snapshot for name, (_, snapshot) in tables.items()}, on, how, select, filter)
    elif not (on is None and select is None and filter is None and how == "inner"):
        raise InvalidInputError("sql cannot be combined with on, how, select or filter")
    statement = DividedStatement(sql, {name: snapshot for name, (_, snapshot) in tables.items()})
    tasks = shared_out(statement.groups(), num_workers(spark), task_bytes)
    splits = [
        {name: _members(ref, snapshot, name, task) for name, (ref, snapshot) in tables.items()}
        for task in tasks
    ]
    options = {
        "sql": sql,
        "splits": json.dumps([b64encode(pickle.dumps(split)).decode() for split in splits]),
        "mergedDepth": json.dumps(statement.merged_depth),
    }
    make_known(spark, JoinSource)
    reader = spark.read.format(JoinSource.name()).options(**options)
    schema = spark_schema(statement.schema)
    if statement.merged_depth is not None:
        none = {name: _members(ref, snapshot, name, ()) for name, (ref, snapshot) in tables.items()}
        merger = JoinMerger(sql, none, statement.merged_depth, schema.json())
        parts = reader.schema(f"{PART} binary").load().repartition(1)
        with warnings.catch_warnings():
            # the warning is about pandas, which is not used here
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
            return parts.mapInArrow(merger.rows, schema)
    if can_cross_as_integers(spark):
        return with_decimals(reader.schema(with_integers(schema)).load())
    return reader.schema(schema).load()


def _opened(options: SourceOptions) -> tuple[SourceRef, NamespaceSnapshot]:
    source = open_source(options)
    namespace = source.namespace
    if namespace is None:
        raise InvalidInputError(f"{source.uri}: is a table, expected a partitioned namespace")
    return SourceRef.of(source, options), namespace


def _members(
    source: SourceRef, snapshot: NamespaceSnapshot, name: str, groups: Sequence[MemberGroup]
) -> SomeMembers:
    none = np.empty(0, np.intp)
    positions = np.sort(np.concatenate([none, *(group.positions.get(name, none) for group in groups)]))
    moves = snapshot.manifest.members["read_version"].is_null().to_numpy()[positions]
    moving = positions[moves]
    tables = snapshot.open_members(moving) if len(moving) else []
    refs = {
        position: ResolvedRef(table.branch, table.version)
        for position, table in zip(moving.tolist(), tables, strict=True)
    }
    return SomeMembers(source, positions, refs)


def _query(
    tables: Mapping[str, NamespaceSnapshot],
    on: str | Sequence[str] | Mapping[str, str] | None,
    how: str,
    select: str | Sequence[str] | None,
    condition: str | None,
) -> str:
    """Return the query that the arguments describe."""
    spelled = str(how).lower().replace("_", "")
    kind = _SPELLINGS.get(spelled, spelled)
    if kind not in _JOINS:
        raise InvalidInputError(f"how must be one of {', '.join(_JOINS)}, got {how!r}")
    shared = [on] if isinstance(on, str) else list(on or ())
    if not shared or not all(isinstance(name, str) for name in shared):
        raise InvalidInputError("on must name the columns to join by; otherwise pass a query as sql")
    pairs = dict(on) if isinstance(on, Mapping) else dict(zip(shared, shared, strict=True))
    for side, columns in (("l", pairs.keys()), ("r", pairs.values())):
        unknown = [name for name in columns if name not in tables[side].arrow_schema.names]
        if unknown:
            raise ColumnNotFoundError(f"{tables[side].uri}: column {unknown[0]!r} does not exist")
    equal = " AND ".join(f"{_column('l', mine)} = {_column('r', other)}" for mine, other in pairs.items())
    wanted = [select] if isinstance(select, str) else select
    if wanted is None:
        wanted = _all_columns(tables, () if isinstance(on, Mapping) else shared, kind)
    text = f"SELECT {', '.join(wanted)} FROM l {_JOINS[kind]} r ON {equal}"
    return text if condition is None else f"{text} WHERE (\n{condition}\n)"


def _all_columns(tables: Mapping[str, NamespaceSnapshot], shared: Sequence[str], kind: str) -> list[str]:
    """Return all columns; a key column with the same name on both sides appears once, as in Spark."""
    columns = []
    for name in shared:
        both = _column("l", name), _column("r", name)
        columns.append(
            f"coalesce({', '.join(both)}) AS {quote_identifier(name)}"
            if kind == "full"
            else both[kind == "right"]
        )
    sides = ("l",) if kind in ("semi", "anti") else ("l", "r")
    for side in sides:
        names = tables[side].arrow_schema.names
        columns += [_column(side, name) for name in names if name not in shared]
    return columns


def _column(side: str, name: str) -> str:
    return f"{side}.{quote_identifier(name)}"
