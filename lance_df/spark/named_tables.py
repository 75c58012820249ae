"""Find the tables of lance_df that Spark statements name, or read under other names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_df.errors import UnsupportedFeatureError
from lance_df.format.column_path import format_path
from lance_df.spark.failures import OF_SPARK
from lance_df.spark.folders import is_shown
from lance_df.spark.pruning.nodes import all_inner_plans, attribute_id, class_of, items
from lance_df.spark.pruning.plans import RELATION, Plans, relations
from lance_df.spark.pruning.relations import Relation, is_of_lance
from lance_df.spark.sessions import is_connect
from lance_df.spark.source import LanceSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_SAME_ROWS: Final = frozenset({"SubqueryAlias", "View"})
# expressions around a column that do not change its values; decimals passed as integers have both
_SAME_COLUMN: Final = frozenset({"Alias", "MakeDecimal"})
# the analysis of such a statement executes the statement in its text
_EXECUTES: Final = "ExecuteImmediate"
_SCRIPT: Final = "CompoundBody"


def named_table(spark: SparkSession, name: tuple[str, ...], clause: str) -> Relation | None:
    """Return the table of lance_df with a name, or None if the name has no table or another one.

    Parameters
    ----------
    clause
        The clause that needs the table, for messages.

    Raises
    ------
    UnsupportedFeatureError
        The name is a view that has other rows or columns than one table; or the session belongs to Spark
        Connect, which does not say which table a name has.
    """
    joined = format_path(name)
    if not spark.catalog.tableExists(joined):
        return None
    if is_connect(spark):
        if _is_shown_or_of_lance(spark, name, joined):
            raise UnsupportedFeatureError(
                f"{clause}: over Spark Connect, {'.'.join(name)} cannot be resolved to a table of lance_df; "
                "pass its path to lance_df.spark.read, write, merge, update or delete"
            )
        return None
    held: Any = spark.table(joined)._jdf
    plan = held.queryExecution().analyzed()
    relation = _bare_relation(plan)
    if relation is not None:
        return Relation.of(relation, Plans(spark))
    if any(is_of_lance(each) for each in relations(plan)):
        raise UnsupportedFeatureError(
            f"{clause}: {'.'.join(name)} is a view with a filter, a projection, a join or the like, not a "
            "table of lance_df; name the table"
        )
    return None


def _is_shown_or_of_lance(spark: SparkSession, name: tuple[str, ...], joined: str) -> bool:
    """Whether a name is that of a view of a registered folder, or of a table of lance_df in the catalog."""
    if len(name) == 1 and is_shown(spark, name[0]):
        return True
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {joined}").collect()
    return any(row["col_name"] == "Provider" and row["data_type"] == LanceSource.name() for row in rows)


def names_read(spark: SparkSession, statement: str) -> set[str]:
    """Return the names of views of DataFrames that a statement reads, and of tables that do not exist.

    The statement may read them through views, functions and variables, but not through a view of a DataFrame,
    which has the versions of its DataFrame. The names of EXECUTE IMMEDIATE and of scripts are not known.
    """
    if is_connect(spark):
        return set()
    session: Any = spark
    state = session._jsparkSession.sessionState()
    try:
        parsed = state.sqlParser().parsePlan(statement)
        kind = class_of(parsed)
        if _EXECUTES in kind or kind == _SCRIPT:
            return set()
        # without the checks, which raise an error for a column that only a newer version has
        return set(_names_in(state.analyzer().execute(parsed)))
    except OF_SPARK:  # Spark raises it again when it runs the statement
        return set()


def _names_in(plan: Any) -> Iterator[str]:
    kind = class_of(plan)
    if kind == "UnresolvedRelation":
        *parents, name = items(plan.multipartIdentifier())
        if not parents:
            yield name
    elif kind == "View" and plan.desc().viewText().isEmpty():
        identifier = plan.desc().identifier()
        if identifier.database().isEmpty():
            yield identifier.table()
    else:
        for inner in all_inner_plans(plan):
            yield from _names_in(inner)


def _bare_relation(plan: Any) -> Any:
    """Return the relation of a plan that has exactly its rows and columns, or None for another plan."""
    kind = class_of(plan)
    if kind == RELATION:
        return plan
    if kind in _SAME_ROWS or (kind == "Project" and _has_same_columns(plan)):
        return _bare_relation(plan.child())
    return None


def _has_same_columns(projection: Any) -> bool:
    """Whether a projection has the columns of its child, with the same order and names."""
    columns, below = list(items(projection.projectList())), list(items(projection.child().output()))
    return len(columns) == len(below) and all(map(_is_same_column, columns, below))


def _is_same_column(column: Any, below: Any) -> bool:
    if column.name() != below.name():
        return False
    while True:
        kind = class_of(column)
        if kind == "AttributeReference":
            return attribute_id(column) == attribute_id(below)
        # views created in SQL cast each column to its type at that time
        is_same_type = kind == "Cast" and column.dataType().equals(column.child().dataType())
        if kind not in _SAME_COLUMN and not is_same_type:
            return False
        column = column.child()
