"""Access the nodes of plans and expressions in Spark's JVM."""

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
    """Yield the children of a plan or an expression."""
    return items(node.children())


def inner_plans(node: Any) -> Iterator[Any]:
    """Yield the children of a plan, and the plans of the subqueries in its expressions."""
    yield from children(node)
    yield from items(node.subqueries())


def all_inner_plans(node: Any) -> Iterator[Any]:
    """Yield the plans of `inner_plans`, and the queries of commands such as CREATE."""
    yield from children(node)
    yield from items(node.innerChildren())


def all_nodes(plan: Any) -> Iterator[Any]:
    """Yield a plan and all plans in it."""
    yield plan
    for inner in inner_plans(plan):
        yield from all_nodes(inner)


def output_of(relation: Any) -> list[tuple[int, str]]:
    """Return the ids and the names of the attributes of a relation, in one request to the JVM."""
    node = json.loads(relation.toJSON())[0]
    return [(each["exprId"]["id"], each["name"]) for (each,) in node["output"]]


def attributes_in(expressions: Any) -> Iterator[int]:
    """Yield the ids of the attributes in expressions given as JSON."""
    rest = [expressions]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            if value.get("class", "").endswith(".AttributeReference"):
                yield value["exprId"]["id"]
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)


def attribute_id(attribute: Any) -> int:
    """Return the id of an attribute, which is the same everywhere in a plan."""
    number: int = attribute.exprId().id()
    return number
