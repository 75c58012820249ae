"""Inspect DataFusion's expressions.

Arguments named ``expr`` are objects of the Python binding, from plan nodes or other expressions; they have no
Python type. Facts come from the binding's classes. Some facts are only in the text of an expression; that
text is read only here and in `lance_df.engine.plans`, and only where names in it cannot mislead: it is
compared as a whole, or searched for a mark that must occur. Checked with DataFusion 51, 53 and 55.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from lance_df.records import dataclass

# The Python binding does not say which functions are volatile.
VOLATILE_FUNCTIONS: Final = frozenset({"random", "uuid"})

_SUBQUERY_KINDS: Final = frozenset({"Exists", "InSubquery", "ScalarSubquery", "SetComparison"})
# all of these are shown with this text instead of the plan, which the binding does not return
_SUBQUERY: Final = "<subquery>"
_LEAVES: Final = frozenset({"Column", "Literal", "OuterReferenceColumn", "Placeholder", "ScalarVariable"})
# The binding returns only some of their operands (no order, partition or filter), or none.
_COMPARISONS: Final = frozenset(
    {"=", "!=", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM", "AND", "OR"}
)
_TESTS: Final = frozenset(
    {"Column", "Literal", "Not", "Between", "InList"}
    | {f"Is{which}{what}" for which in ("", "Not") for what in ("Null", "True", "False", "Unknown")}
)
_PARTLY_GIVEN: Final = frozenset({"GroupingSet", "HigherOrderFunction", "Lambda", "Unnest", "WindowFunction"})


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of an aggregate function.

    Attributes
    ----------
    expr
        The call, without an alias.
    function
        The registered name of the function.
    arguments
        The argument expressions; that of ``count(*)`` is the literal 1.
    is_distinct
        Whether the call has DISTINCT.
    is_plain
        Whether the call has no FILTER, no ORDER BY and no null treatment.
    """

    expr: Any
    function: str
    arguments: tuple[Any, ...]
    is_distinct: bool
    is_plain: bool

    @property
    def counts_rows(self) -> bool:
        """Whether the call is ``count(*)`` or the count of an integer constant, over all rows."""
        if self.function != "count" or self.is_distinct or not self.is_plain or len(self.arguments) != 1:
            return False
        value = literal(self.arguments[0])
        return value is not None and pa.types.is_integer(value.type) and value.is_valid


def kind_of(expr: Any) -> str:
    """Return the name of the variant of an expression, for example ``Column`` or ``BinaryExpr``."""
    return str(expr.variant_name())


def unaliased(expr: Any) -> Any:
    """Return an expression without its alias."""
    while expr.variant_name() == "Alias":
        expr = expr.to_variant().expr()
    return expr


def uncast(expr: Any) -> tuple[Any, list[Any]]:
    """Return the expression below aliases and casts, and the casts, outermost first."""
    casts = []
    while (kind := expr.variant_name()) in ("Cast", "Alias"):
        if kind == "Cast":
            casts.append(expr)
        expr = expr.to_variant().expr()
    return expr, casts


def is_column(expr: Any) -> bool:
    """Return whether an expression is a plain column, without alias or cast."""
    return bool(expr.variant_name() == "Column")


def column_name(expr: Any) -> str | None:
    """Return the name of a column, possibly under an alias; None for other expressions."""
    inner = unaliased(expr)
    return str(inner.to_variant().name()) if inner.variant_name() == "Column" else None


def qualified_name(expr: Any) -> str | None:
    """Return the name of a column, possibly under an alias, qualified by its table.

    This is the name in `PlanNode.columns`. Returns None for other expressions.
    """
    inner = unaliased(expr)
    return str(inner.to_variant().qualified_name()) if inner.variant_name() == "Column" else None


def relation_of(expr: Any) -> str | None:
    """Return the table name that qualifies a column; None for no qualifier and for other expressions."""
    relation = expr.to_variant().relation() if expr.variant_name() == "Column" else None
    return None if relation is None else str(relation)


def output_name(expr: Any) -> str:
    """Return the name, without a table, that the result of an expression has above a projection."""
    match expr.variant_name():
        case "Alias":
            return str(expr.to_variant().alias())
        case "Column":
            return str(expr.to_variant().name())
        case _:
            return str(expr.schema_name())


def operator_of(expr: Any) -> str:
    """Return the operator of a ``BinaryExpr``; an empty text for other expressions."""
    return str(expr.rex_call_operator()) if expr.variant_name() == "BinaryExpr" else ""


def conjuncts(expr: Any) -> Iterator[Any]:
    """Yield the operands of ``AND``, from left to right."""
    pending = [expr]
    while pending:
        node = pending.pop()
        if operator_of(node) == "AND":
            pending += reversed(node.rex_call_operands())
        else:
            yield node


def literal(expr: Any) -> pa.Scalar | None:
    """Return the value of a literal; None for other expressions, and for values that Arrow lacks."""
    if expr.variant_name() != "Literal":
        return None
    try:
        value = expr.python_value()
    except Exception:  # noqa: BLE001 - it raises nothing narrower
        return None
    # older releases return Python values
    return value if isinstance(value, pa.Scalar) else pa.scalar(value)


def cast_type(expr: Any) -> str | None:
    """Return the name of the type of a ``Cast`` in Arrow for Rust; None if unknown."""
    (inner,) = expr.rex_call_operands()
    # The binding returns the type without unit, zone, precision and scale. The operand is known, so the rest
    # of the text is the type.
    before, text = f"CAST({inner.canonical_name()} AS ", expr.canonical_name()
    return str(text[len(before) : -1]) if text.startswith(before) and text.endswith(")") else None


def function_of(expr: Any) -> str | None:
    """Return the name of the scalar function that an expression calls; None for other expressions."""
    return str(expr.rex_call_operator()) if expr.variant_name() == "ScalarFunction" else None


def aggregate_call(expr: Any) -> AggregateCall | None:
    """Return an expression, possibly under an alias, as an aggregate call; None for other expressions."""
    inner = unaliased(expr)
    if inner.variant_name() != "AggregateFunction":
        return None
    detail = inner.to_variant()
    function, arguments, is_distinct = detail.aggregate_type(), tuple(detail.args()), detail.is_distinct()
    # FILTER, ORDER BY and null treatment are only in the text, after the arguments. The text without any of
    # them is known, so another text means that there are some.
    shown = ", ".join(argument.canonical_name() for argument in arguments)
    plain = f"{function}({'DISTINCT ' if is_distinct else ''}{shown})"
    return AggregateCall(inner, function, arguments, is_distinct, inner.canonical_name() == plain)


def operands(expr: Any) -> list[Any] | None:
    """Return the operands of an expression; None if the binding may not return all of them."""
    kind = expr.variant_name()
    if kind in _LEAVES:
        return []
    if kind in _PARTLY_GIVEN:
        return None
    if kind == "AggregateFunction":
        call = aggregate_call(expr)
        return list(call.arguments) if call is not None and call.is_plain else None
    try:
        return list(expr.rex_call_operands())
    except Exception:  # noqa: BLE001 - it raises nothing narrower
        return None


def holds_subquery(expr: Any) -> bool:
    """Return whether an expression may contain a subquery; parts that the binding hides may be one."""
    return _holds(expr, shows_subquery, lambda part: part.variant_name() in _SUBQUERY_KINDS)


def may_call(expr: Any, names: Collection[str]) -> bool:
    """Return whether an expression may call one of the named functions, outside of subqueries."""
    return _holds(expr, lambda text: shows_call(text, names), lambda part: _called(part) in names)


def cannot_fail(expr: Any, types: Mapping[str, pa.DataType]) -> bool:
    """Return whether an expression cannot raise an error for any values of its columns.

    Parameters
    ----------
    types
        The types of columns, by their `qualified_name`.
    """
    pending = [expr]
    while pending:
        part = pending.pop()
        kind = part.variant_name()
        inner = operands(part)
        if inner is None:
            return False
        if kind == "Cast":
            if not _is_widening(part, types):
                return False
        elif kind not in _TESTS and operator_of(part) not in _COMPARISONS:
            return False
        pending += inner
    return True


def _is_widening(cast: Any, types: Mapping[str, pa.DataType]) -> bool:
    """Return whether a cast of an integer column is to a type that can hold all its values."""
    name = qualified_name(*cast.rex_call_operands())
    stored = types.get(name) if name is not None else None
    if stored is None or not pa.types.is_integer(stored) or stored == pa.uint64():
        return False
    return cast_type(cast) in ("Int64", "Float64")


def qualified_columns(expr: Any) -> frozenset[str]:
    """Return the qualified names of the columns in an expression that cannot fail."""
    names: set[str] = set()
    pending = [expr]
    while pending:
        part = pending.pop()
        name = qualified_name(part) if is_column(part) else None
        if name is not None:
            names.add(name)
        pending += operands(part) or []
    return frozenset(names)


def columns_read(expr: Any, names: Collection[str]) -> frozenset[str]:
    """Return those of ``names`` that are columns an expression may read, of any table."""
    columns: set[str] = set()
    pending = [expr]
    while pending:
        node = pending.pop()
        if node.variant_name() == "Column":
            columns.add(node.to_variant().name())
            continue
        parts = operands(node)
        if parts is None:  # the text of an expression contains the names of the columns that it reads
            text = node.canonical_name()
            columns.update(name for name in names if name in text)
        else:
            pending += parts
    return frozenset(columns.intersection(names))


def same(one: Any, other: Any) -> bool:
    """Return whether two expressions compute the same from the same columns."""
    return identity(one) == identity(other)


def identity(expr: Any) -> tuple[Any, ...]:
    """Return a hashable key that identifies an expression.

    It has the text and the columns, since expressions of different columns may have the same text, for
    example ``a.b`` of a table ``a`` and a column ``a.b`` without a table.
    """
    columns: list[tuple[str, str]] = []
    pending = [expr]
    while pending:
        node = pending.pop()
        if node.variant_name() == "Column":
            columns.append((str(node.to_variant().relation()), node.to_variant().name()))
        else:
            pending += operands(node) or []
    return (expr.canonical_name(), *columns)


def shown(expr: Any) -> str:
    """Return the text of an expression as DataFusion writes it, for people only, not to be parsed."""
    return str(expr.canonical_name())


def shows_subquery(text: str) -> bool:
    """Return whether a text of DataFusion shows a subquery, or a name that looks like one."""
    return _SUBQUERY in text


def shows_call(text: str, names: Collection[str]) -> bool:
    """Return whether a text of DataFusion shows a call of one of the functions, or seems to."""
    return any(f"{name}(" in text for name in names)


def _holds(expr: Any, is_shown: Callable[[str], bool], matches: Callable[[Any], bool]) -> bool:
    """Return whether a part of an expression matches; hidden parts match if the text allows it."""
    if not is_shown(expr.canonical_name()):  # the text of an expression shows everything in it
        return False
    pending = [expr]
    while pending:
        part = pending.pop()
        if matches(part):
            return True
        inner = operands(part)
        if inner is not None:
            pending += inner
        elif is_shown(part.canonical_name()):
            return True
    return False


def _called(expr: Any) -> str | None:
    call = aggregate_call(expr)
    return function_of(expr) if call is None else call.function
