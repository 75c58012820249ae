"""The nodes of plans and expressions of Spark, as its JVM has them."""

from __future__ import annotations

import json
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


def output_of(relation: Any) -> list[tuple[int, str]]:
    """Return the ids and the names of the attributes of a relation, in one request to the JVM."""
    node = json.loads(relation.toJSON())[0]
    return [(each["exprId"]["id"], each["name"]) for (each,) in node["output"]]


def used_attributes(plan: Any) -> frozenset[int]:
    """Return the ids of the attributes in a plan and those below it, but for what scans return."""
    ids: set[int] = set()
    rest = [node for node in json.loads(plan.toJSON()) if not node["class"].endswith(f".{SCAN}")]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            if value.get("class", "").endswith(".AttributeReference"):
                ids.add(value["exprId"]["id"])
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)
    return frozenset(ids)


def attribute_id(attribute: Any) -> int:
    """Return the number that an attribute has in all of a plan."""
    number: int = attribute.exprId().id()
    return number
