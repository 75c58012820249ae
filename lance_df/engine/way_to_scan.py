"""The way from the lowest aggregate of a plan down to a scan, and the columns of the scan that it sees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from lance_df.compute.compat import plan_schema, variant
from lance_df.engine.plan_rebuild import Path
from lance_df.records import dataclass

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
    def of(cls, plan: Any, table: tuple[str | None, str]) -> WayToScan | None:
        """Return the way from the lowest aggregate; None if there is more on it than what treats rows alike.

        That is filters, projections, and joins that have a row as often as the other side matches it.
        """
        paths = list(_paths(plan, table))
        if len(paths) != 1:
            return None
        (path,) = paths
        nodes = [plan]
        for number in path:
            nodes.append(nodes[-1].inputs()[number])
        columns = {name: place for place, name in enumerate(plan_schema(variant(nodes[-1])))}
        for depth in range(len(path) - 1, -1, -1):
            detail = variant(nodes[depth])
            match type(detail).__name__:
                case "Aggregate":
                    return cls(path[:depth], nodes[depth], path[depth + 1 :], columns)
                case "SubqueryAlias":
                    below = plan_schema(variant(nodes[depth + 1]))
                    columns = _renamed(columns, zip(below, plan_schema(detail), strict=True))
                case "Projection":
                    names = map(column_name, detail.projections())
                    columns = _renamed(columns, zip(names, plan_schema(detail), strict=True))
                case "Filter":
                    pass
                case "Join" if path[depth] in _SIDES.get(str(detail.join_type()), ()):
                    pass
                case _:
                    return None
        return None


def _renamed(columns: Mapping[str, int], names: Iterable[tuple[str, str]]) -> dict[str, int]:
    return {new: columns[name] for name, new in names if name in columns}


def column_name(expr: Any) -> str:
    """Return the name of the column that an expression is, with its table; nothing for other expressions."""
    inner = unaliased(expr)
    return str(inner.to_variant().qualified_name()) if inner.variant_name() == "Column" else ""


def _paths(plan: Any, table: tuple[str | None, str]) -> Iterator[Path]:
    """Yield the paths to scans of a table."""
    pending: list[tuple[Any, Path]] = [(plan, ())]
    while pending:
        node, path = pending.pop()
        inputs = node.inputs()
        if not inputs and "TableScan: " in node.display() and variant(node).fqn()[1:] == table:
            yield path
        pending += [(child, (*path, number)) for number, child in enumerate(inputs)]


def unaliased(expr: Any) -> Any:
    """Return what an expression computes, whatever it calls that."""
    return expr.to_variant().expr() if expr.variant_name() == "Alias" else expr
