"""The path from the lowest aggregate of a plan down to a scan, and the scan's columns at the aggregate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from lance_df.compute.expressions import qualified_name
from lance_df.engine.plans.nodes import Aggregate, Filter, Join, PlanNode, Projection, Scan, SubqueryAlias
from lance_df.engine.plans.walks import Path, chain, nodes_with_paths
from lance_df.records import dataclass

# the inputs of a join whose rows occur in the result as often as the other side matches them
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
class AggregatePath:
    """The path from an aggregate down to the only scan of a table.

    Attributes
    ----------
    path
        The path from the root of the plan to the aggregate.
    node
        The aggregate.
    down
        The path from the input of the aggregate to the scan.
    columns
        The columns of the table that reach the aggregate: positions in the table's schema, by the names at
        the aggregate.
    """

    path: Path
    node: Aggregate
    down: Path
    columns: Mapping[str, int]

    @classmethod
    def of(cls, plan: PlanNode, table: tuple[str | None, str]) -> AggregatePath | None:
        """Return the path from the lowest aggregate; None if a node on it does not treat all rows equally.

        Filters and projections treat all rows equally, and so do joins in which a row occurs as often as the
        other side matches it.
        """
        paths = [
            path for path, node in nodes_with_paths(plan) if isinstance(node, Scan) and node.table == table
        ]
        if len(paths) != 1:
            return None
        (path,) = paths
        nodes = chain(plan, path)
        columns = {name: position for position, name in enumerate(nodes[-1].columns)}
        for depth in range(len(path) - 1, -1, -1):
            match nodes[depth]:
                case Aggregate() as node:
                    return cls(path[:depth], node, path[depth + 1 :], columns)
                case SubqueryAlias() as node:
                    columns = _renamed(columns, zip(nodes[depth + 1].columns, node.columns, strict=True))
                case Projection() as node:
                    names = (qualified_name(expr) or "" for expr in node.expressions)
                    columns = _renamed(columns, zip(names, node.columns, strict=True))
                case Filter():
                    pass
                case Join() as node if path[depth] in _SIDES.get(node.how, ()):
                    pass
                case _:
                    return None
        return None


def _renamed(columns: Mapping[str, int], names: Iterable[tuple[str, str]]) -> dict[str, int]:
    return {new: columns[name] for name, new in names if name in columns}
