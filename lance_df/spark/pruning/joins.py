"""Derive conditions from joins: the keys of one side's rows are among the keys of the other side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_df.records import dataclass
from lance_df.spark.pruning.nodes import SCAN, all_nodes, attribute_id, children, class_of, items

if TYPE_CHECKING:
    from collections.abc import Iterator

# By kind of join: whether each side may lose its rows without a match, with the same result …
_RESTRICTED: Final = {
    "Inner": (True, True),
    "Cross": (True, True),
    "LeftSemi": (True, True),
    "LeftOuter": (False, True),
    "LeftAnti": (False, True),
    "RightOuter": (True, False),
}
# … and whether each side may lose rows that a condition on the result removes later.
_PASSED: Final = {
    "Inner": (True, True),
    "Cross": (True, True),
    "LeftSemi": (True, False),
    "LeftOuter": (True, False),
    "LeftAnti": (True, False),
    "RightOuter": (False, True),
}
_NO_SIDE: Final = (False, False)
_OF_SAME_ROWS: Final = frozenset(
    {"LocalRelation", "OneRowRelation", "Project", "Filter", "Sort", "Join", "Union"}
)


@dataclass(frozen=True, slots=True)
class JoinKey:
    """An equality of a join, which uses only rows whose attribute equals a key of the other side.

    Attributes
    ----------
    attribute
        The id of the attribute.
    side, key
        The plan of the other side, and its expression that the attribute equals.
    """

    attribute: int
    side: Any
    key: Any


def keys_below(join: Any, keys: tuple[JoinKey, ...]) -> tuple[tuple[JoinKey, ...], tuple[JoinKey, ...]]:
    """Return the keys for each side of a join, from the keys of its result and from the join itself."""
    kind = class_of(join.joinType()).rstrip("$")
    restricted, passed = _RESTRICTED.get(kind, _NO_SIDE), _PASSED.get(kind, _NO_SIDE)
    sides = tuple(children(join))
    attributes = [{attribute_id(each) for each in items(side.output())} for side in sides]
    new = list(_keys_of(join, sides, attributes)) if any(restricted) else []
    left, right = (
        (
            *(key for key in keys if passed[number] and key.attribute in attributes[number]),
            *(key for side, key in new if restricted[number] and side == number),
        )
        for number in (0, 1)
    )
    return left, right


def passed_keys(plan: Any, kind: str, keys: tuple[JoinKey, ...]) -> tuple[JoinKey, ...]:
    """Return the keys that also hold for the rows of the child of a plan, which is not a join."""
    if not keys or kind in ("Filter", "Sort"):
        return keys
    if kind != "Project":
        return ()
    plain = {
        attribute_id(each) for each in items(plan.projectList()) if class_of(each) == "AttributeReference"
    }
    return tuple(key for key in keys if key.attribute in plain)


def _keys_of(join: Any, sides: tuple[Any, ...], attributes: list[set[int]]) -> Iterator[tuple[int, JoinKey]]:
    condition = join.condition()
    for pair in _equalities(condition.get()) if condition.isDefined() else ():
        for mine, other in (pair, pair[::-1]):
            if class_of(mine) != "AttributeReference":
                continue
            used = {attribute_id(each) for each in items(other.references().toSeq())}
            for number in (0, 1):
                if attribute_id(mine) in attributes[number] and used and used <= attributes[1 - number]:
                    yield number, JoinKey(attribute_id(mine), sides[1 - number], other)


def _equalities(condition: Any) -> Iterator[tuple[Any, Any]]:
    kind = class_of(condition)
    if kind == "And":
        for child in children(condition):
            yield from _equalities(child)
    elif kind == "EqualTo" and condition.deterministic():
        left, right = children(condition)
        yield left, right


def scans_of_same_rows(side: Any) -> list[Any] | None:
    """Return the relations of a plan that always has the same rows if its relations do, else None.

    Another plan might have other keys when the query runs than when its keys are computed.
    """
    scans: list[Any] = []
    if not side.deterministic():
        return None
    for node in all_nodes(side):
        kind = class_of(node)
        if kind == SCAN:
            scans.append(node.relation())
        elif kind not in _OF_SAME_ROWS:
            return None
    return scans
