"""Convert DataFusion's expressions to terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lance_df.compute.expressions import cast_type, literal
from lance_df.compute.typed_functions import plain_name
from lance_df.expr.literals import plain_scalar
from lance_df.expr.nodes import Column
from lance_df.expr.terms import CASE, CAST, IN, LIKES, NOT_IN, Call, Term, Value

_OPERATORS: Final = {
    **{sign: sign for sign in ("=", "<", "<=", ">", ">=", "AND", "OR", "+", "-", "*", "/", "%", "||")},
    **{sign: sign for sign in ("~", "~*", "!~", "!~*", "&", "|", "<<", ">>")},
    **{sign: sign for sign in ("<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")},
    "!=": "<>",
}
_UNARY: Final = {
    "Not": "NOT",
    "Negative": "-",
    "IsNull": "IS NULL",
    "IsNotNull": "IS NOT NULL",
    "IsTrue": "IS TRUE",
    "IsFalse": "IS FALSE",
    "IsUnknown": "IS UNKNOWN",
    "IsNotTrue": "IS NOT TRUE",
    "IsNotFalse": "IS NOT FALSE",
    "IsNotUnknown": "IS NOT UNKNOWN",
}
_TEXTS: Final = (pa.string_view(), pa.large_string())


class _UnreadableError(Exception):
    """An expression of a kind that terms do not cover."""


def resolved(expr: Any, projections: Sequence[Mapping[str, Any]], depth: int) -> tuple[Any, int]:
    """Follow a name through the projections below an expression; None if it is not found.

    Parameters
    ----------
    projections
        The expressions of the projections between the expression and its table, nearest first.
    depth
        The number of projections that the expression is already below.
    """
    while expr is not None:
        kind = expr.variant_name()
        if kind == "Alias":
            expr = expr.to_variant().expr()
        elif kind == "Column" and depth < len(projections):
            expr = projections[depth].get(expr.to_variant().name())
            depth += 1
        else:
            break
    return expr, depth


def to_term(
    expr: Any,
    columns: Callable[[str], bool],
    projections: Sequence[Mapping[str, Any]] = (),
    depth: int = 0,
) -> Term | None:
    """Return an expression as a term; None if terms do not cover its kind.

    Parameters
    ----------
    columns
        Returns whether a column of a name exists.
    projections, depth
        See `resolved`.
    """
    try:
        return _Reader(columns, projections).read(expr, depth)
    except (_UnreadableError, RecursionError):
        return None


class _Reader:
    def __init__(self, columns: Callable[[str], bool], projections: Sequence[Mapping[str, Any]]) -> None:
        self._columns = columns
        self._projections = projections

    def read(self, expr: Any, depth: int) -> Term:
        expr, depth = resolved(expr, self._projections, depth)
        kind = None if expr is None else expr.variant_name()
        match kind:
            case "Column":
                name = expr.to_variant().name()
                if self._columns(name):
                    return Column((name,))
            case "Literal":
                return Value(_literal(expr))
            case "ScalarFunction":
                return self._function(expr, depth)
            case "BinaryExpr":
                if (operator := _OPERATORS.get(expr.rex_call_operator())) is not None:
                    return Call(operator, self._operands(expr, depth))
            case "Cast":
                return self._cast(expr, depth)
            case "InList":
                detail = expr.to_variant()
                items = (self.read(item, depth) for item in (detail.expr(), *detail.list()))
                return Call(NOT_IN if detail.negated() else IN, tuple(items))
            case "Like":
                return self._like(expr, depth)
            case "Case":
                return self._case(expr.to_variant(), depth)
            case str() if kind in _UNARY:
                return Call(_UNARY[kind], self._operands(expr, depth))
        raise _UnreadableError

    def _operands(self, expr: Any, depth: int) -> tuple[Term, ...]:
        try:
            operands = expr.rex_call_operands()
        except Exception as err:  # DataFusion raises nothing narrower
            raise _UnreadableError from err
        return tuple(self.read(operand, depth) for operand in operands)

    def _function(self, expr: Any, depth: int) -> Term:
        name = plain_name(expr.rex_call_operator()).lower()
        operands = self._operands(expr, depth)
        match name, operands:
            case "get_field", (Column(path), *names):
                fields = [each.scalar.as_py() for each in names if isinstance(each, Value)]
                if len(fields) < len(names):
                    raise _UnreadableError
                return Column((*path, *fields))
            case "date_part" | "date_trunc", (Value(unit), *others):
                return Call(name, (Value(pa.scalar(str(unit).lower())), *others), is_function=True)
            case _:
                return Call(name, operands, is_function=True)

    def _cast(self, expr: Any, depth: int) -> Term:
        (inner,) = expr.rex_call_operands()
        type_name = cast_type(expr)
        if type_name is None:
            raise _UnreadableError
        return Call(CAST, (self.read(inner, depth),), type_name)

    def _like(self, expr: Any, depth: int) -> Term:
        like, name = expr.to_variant(), expr.rex_call_operator().upper()
        if name not in LIKES or like.negated() != name.startswith("NOT"):
            raise _UnreadableError
        operands = (self.read(like.expr(), depth), self.read(like.pattern(), depth))
        return Call(name, operands, like.escape_char() or "")

    def _case(self, case: Any, depth: int) -> Term:
        if case.expr() is not None:
            raise _UnreadableError
        parts = [part for pair in case.when_then_expr() for part in pair]
        last = case.else_expr()
        operands = tuple(self.read(part, depth) for part in (*parts, *([] if last is None else [last])))
        return Call(CASE, operands)


def _literal(expr: Any) -> pa.Scalar:
    scalar = literal(expr)
    if scalar is None:
        raise _UnreadableError
    value = plain_scalar(scalar)
    return value.cast(pa.string()) if value.type in _TEXTS else value
