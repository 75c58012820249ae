"""The way from the lowest aggregate of a plan down to a scan, and the columns of the scan that it sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from lance_df.compute.compat import LogicalPlan
from lance_df.compute.expressions import qualified_name, unaliased
from lance_df.engine.plans.nodes import Aggregate, Filter, Join, Projection, Scan, SubqueryAlias
from lance_df.engine.plans.walks import Path, chain, nodes_with_paths
from lance_df.records import dataclass

__all__ = ["WayToScan", "column_name", "unaliased"]

# the inputs of a join that have each row as often as the other side matches it
_SIDES: Final[Mapping[str, tuple[int, ...]]] = {
    "Inner": (0, 1),
    "Left": (0,),
    "Right": (1,),
    "LeftSemi": (0,),
    "RightSemi": (1,),
    "LeftAnti": (0,),
    "RightAnti": (1,),
}


@dataclass(frozen=True, slots=True)
class WayToScan:
    """The way from an aggregate down to the only scan of a table.

    Attributes
    ----------
    path
        To the aggregate, from the root of a plan.
    down
        From the input of the aggregate to the scan.
    columns
        The columns of the table that the aggregate sees: places in the table's schema, by the names there.
    """

    path: Path
    node: Any
    down: Path
    columns: Mapping[str, int]

    @classmethod
    def of(cls, plan: LogicalPlan, table: tuple[str | None, str]) -> WayToScan | None:
        """Return the way from the lowest aggregate; None if there is more on it than what treats rows alike.

        That is filters, projections, and joins that have a row as often as the other side matches it.
        """
        scans = [
            path for path, node in nodes_with_paths(plan) if isinstance(node, Scan) and node.table == table
        ]
        if len(scans) != 1:
            return None
        (path,) = scans
        nodes = chain(plan, path)
        columns = {name: place for place, name in enumerate(nodes[-1].columns)}
        for depth in range(len(path) - 1, -1, -1):
            match nodes[depth]:
                case Aggregate():
                    return cls(path[:depth], nodes[depth].plan, path[depth + 1 :], columns)
                case SubqueryAlias():
                    names = zip(nodes[depth + 1].columns, nodes[depth].columns, strict=True)
                    columns = _renamed(columns, names)
                case Projection() as node:
                    names = zip(map(column_name, node.expressions), node.columns, strict=True)
                    columns = _renamed(columns, names)
                case Filter():
                    pass
                case Join() as node if path[depth] in _SIDES.get(node.how, ()):
                    pass
                case _:
                    return None
        return None


def _renamed(columns: Mapping[str, int], names: Iterable[tuple[str, str]]) -> dict[str, int]:
    return {new: columns[name] for name, new in names if name in columns}


def column_name(expr: Any) -> str:
    """Return the name of the column that an expression is, with its table; nothing for other expressions."""
    return qualified_name(expr) or ""
