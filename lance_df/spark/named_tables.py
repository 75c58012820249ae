"""Find the tables of lance_df that Spark statements name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_df.errors import UnsupportedFeatureError
from lance_df.format.column_path import format_path
from lance_df.spark.pruning.nodes import attribute_id, class_of, items
from lance_df.spark.pruning.plans import RELATION, Plans, relations
from lance_df.spark.pruning.relations import Relation, is_of_lance
from lance_df.spark.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SAME_ROWS: Final = frozenset({"SubqueryAlias", "View"})
# expressions around a column that do not change its values; decimals passed as integers have both
_SAME_COLUMN: Final = frozenset({"Alias", "MakeDecimal"})


def named_table(spark: SparkSession, name: tuple[str, ...], clause: str) -> Relation | None:
    """Return the table of lance_df with a name, or None if the name has no table or another one.

    Parameters
    ----------
    clause
        The clause that needs the table, for messages.

    Raises
    ------
    UnsupportedFeatureError
        The name is a view that has other rows or columns than one table.
    """
    joined = format_path(name)
    if is_connect(spark) or not spark.catalog.tableExists(joined):
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
