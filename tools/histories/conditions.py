"""Conditions as plain data: their SQL text, and what they are of a row.

A condition is a tuple: ``("eq", column, value)``, ``("lt", …)``, ``("ge", …)``, ``("in", column, values)``,
``("null", column)``, ``("mod", column, divisor, rest)``, ``("and", a, b)`` or ``("or", a, b)``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

    from .model import State

Condition = tuple[Any, ...]

_SIGNS = {"eq": "=", "lt": "<", "ge": ">="}
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
}
_TYPES: dict[type, tuple[str, ...]] = {
    int: ("int32", "int64"),
    str: ("string", "large_string"),
    dt.date: ("date32",),
}
_ORDERED = ("key", "part", "small", "text", "day")


def literal(value: Any) -> str:
    """Return a value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def to_sql(condition: Condition) -> str:
    """Return the SQL text of a condition."""
    kind, *rest = condition
    if kind in ("and", "or"):
        return f"({to_sql(rest[0])} {kind.upper()} {to_sql(rest[1])})"
    if kind == "null":
        return f"{rest[0]} IS NULL"
    if kind == "in":
        return f"{rest[0]} IN ({', '.join(map(literal, rest[1]))})"
    if kind == "mod":
        return f"{rest[0]} % {rest[1]} = {rest[2]}"
    return f"{rest[0]} {_SIGNS[kind]} {literal(rest[1])}"


def columns_of(condition: Condition) -> set[str]:
    """Return the names of the columns of a condition."""
    if condition[0] in ("and", "or"):
        return columns_of(condition[1]) | columns_of(condition[2])
    return {condition[1]}


def fits(condition: Condition, state: State) -> bool:
    """Return whether a state has the columns of a condition, and they have the types of its values."""
    kind, *rest = condition
    if kind in ("and", "or"):
        return all(fits(part, state) for part in rest)
    values = {"null": [], "in": rest[-1], "mod": rest[-1:]}.get(kind, rest[-1:])
    types = {column.name: column.type for column in state.columns}
    return rest[0] in types and all(is_of_type(value, types[rest[0]]) for value in values)


def is_of_type(value: Any, name: str) -> bool:
    """Return whether a column of a type may hold a value."""
    if value is None:
        return True
    return name.startswith(_TYPES[type(value)])


def evaluate(condition: Condition, row: Mapping[str, Any]) -> bool | None:
    """Return whether a condition is true of a row, or None for NULL."""
    kind, *rest = condition
    if kind == "and":
        both = evaluate(rest[0], row), evaluate(rest[1], row)
        return False if False in both else None if None in both else True
    if kind == "or":
        both = evaluate(rest[0], row), evaluate(rest[1], row)
        return True if True in both else None if None in both else False
    found = row[rest[0]]
    if kind == "null":
        return found is None
    if found is None:
        return None
    if kind == "in":
        return found in rest[1]
    if kind == "mod":
        return bool(found % rest[1] == rest[2])
    return _COMPARED[kind](found, rest[1])


def draw_condition(rng: random.Random, state: State) -> Condition:
    """Return a random condition over the columns of a table."""
    condition = _simple(rng, state)
    if rng.random() < 0.3:
        condition = (rng.choice(["and", "or"]), condition, _simple(rng, state))
    return condition


def _simple(rng: random.Random, state: State) -> Condition:
    columns = [(i, each) for i, each in enumerate(state.columns) if each.role.startswith(_ORDERED)]
    if not columns or rng.random() < 0.08:
        return "null", rng.choice(state.columns).name
    position, column = rng.choice(columns)
    # a value that occurs, most of the time
    values = [state.rows[rng.randrange(len(state.rows))][position] for _ in range(3)] if state.rows else []
    values = [each for each in values if each is not None]
    if not values:
        return "null", column.name
    if column.type in ("int32", "int64") and rng.random() < 0.3:
        divisor = rng.choice([2, 3, 7, 50])
        return "mod", column.name, divisor, rng.randrange(divisor)
    kind = rng.choice(["eq", "eq", "eq", "in", "in", "lt", "ge"])
    return kind, column.name, sorted(set(values)) if kind == "in" else values[0]
