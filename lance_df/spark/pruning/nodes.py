"""The nodes of plans and expressions of Spark, as its JVM has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SCAN: Final = "DataSourceV2ScanRelation"
"""The class of a relation that an optimized plan reads."""


def class_of(node: Any) -> str:
    """Return the class of a plan or an expression, without its package."""
    name: str = node.getClass().getSimpleName()
    return name


def items(seq: Any) -> Iterator[Any]:
    """Yield the items of a Scala sequence."""
    for position in range(seq.size()):
        yield seq.apply(position)


def children(node: Any) -> Iterator[Any]:
    """Yield what a plan or an expression is computed from."""
    return items(node.children())


def inner_plans(node: Any) -> Iterator[Any]:
    """Yield the children of a plan, and the plans of the subqueries in its expressions."""
    yield from children(node)
    yield from items(node.subqueries())


def attribute_id(attribute: Any) -> int:
    """Return the number that an attribute has in all of a plan."""
    number: int = attribute.exprId().id()
    return number
