"""Check the requirements for partition expressions.

Spec: partitioning, "Partition Expression". An expression must be deterministic and stateless, give the same
result for equal values of any width, work for a dropped column, be defined for NULL, and have the declared
type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from lance_df.compute.evaluator import ExpressionEvaluator

_NUMBERS: Final = (0, 1, 5, 34, 100, -1, -7)
_TEXTS: Final = ("", "a", "7", "héllo", "2024-02-29")
_FAILED: Final = object()

_SIGNED: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED: Final = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_FLOATS: Final = (pa.float32(), pa.float64())
_TEXT_TYPES: Final = (pa.string(), pa.large_string())
_BINARY_TYPES: Final = (pa.binary(), pa.large_binary())
_FAMILIES: Final = (_SIGNED + _UNSIGNED, (pa.float16(), *_FLOATS), _TEXT_TYPES, _BINARY_TYPES)


def checked_result_type(
    expression: str,
    sources: Sequence[pa.DataType],
    declared: pa.DataType | None,
    evaluator: ExpressionEvaluator,
) -> pa.DataType:
    """Check a partition expression and return the type of its values.

    Parameters
    ----------
    sources
        Types of ``col0``, ``col1`` …
    declared
        The declared result type; by default that of the expression.

    Raises
    ------
    InvalidInputError
        A requirement is not met; the message names it.
    """
    evaluator.check(expression)
    given = _stored_type(evaluator.result_type(expression, sources))
    result_type = given if declared is None else declared
    if not _differ_in_width_only(given, result_type):
        raise InvalidInputError(
            f"the expression {expression!r} has type {given}, but the declared type is {result_type}"
        )
    if pa.types.is_nested(result_type) or pa.types.is_null(result_type):
        raise InvalidInputError(
            f"the expression {expression!r} has type {given}, which is not supported for partition values"
        )
    _check_nulls(expression, sources, evaluator)
    _check_widths(expression, sources, result_type, evaluator)
    return result_type


def _check_nulls(expression: str, sources: Sequence[pa.DataType], evaluator: ExpressionEvaluator) -> None:
    try:
        evaluator.evaluate(expression, [pa.nulls(1, data_type) for data_type in sources])
    except InvalidInputError as err:
        raise InvalidInputError(f"{err}; it must be defined for NULL") from err


def _check_widths(
    expression: str,
    sources: Sequence[pa.DataType],
    result_type: pa.DataType,
    evaluator: ExpressionEvaluator,
) -> None:
    for number, data_type in enumerate(sources):
        for wider in _wider_types(data_type):
            for value in _samples(data_type):
                narrow, wide = (
                    _value(expression, _row(sources, number, value, as_type), result_type, evaluator)
                    for as_type in (data_type, wider)
                )
                if narrow != wide and not (narrow is _FAILED and wide is _FAILED):
                    raise InvalidInputError(
                        f"the expression {expression!r} must give the same result for equal values of any "
                        f"width, but {value!r} gives {_shown(narrow)} as {data_type}, and {_shown(wide)} "
                        f"as {wider}"
                    )


def _row(sources: Sequence[pa.DataType], number: int, value: object, as_type: pa.DataType) -> list[pa.Array]:
    return [
        pa.array([value], as_type)
        if index == number
        else pa.array([next(iter(_samples(other)), None)], other)
        for index, other in enumerate(sources)
    ]


def _value(
    expression: str, row: list[pa.Array], result_type: pa.DataType, evaluator: ExpressionEvaluator
) -> object:
    try:
        return evaluator.evaluate(expression, row).cast(result_type)[0].as_py()
    except (InvalidInputError, pa.ArrowInvalid):
        return _FAILED


def _shown(value: object) -> str:
    return "an error" if value is _FAILED else repr(value)


def _wider_types(data_type: pa.DataType) -> Iterator[pa.DataType]:
    for family in (_SIGNED, _UNSIGNED, _FLOATS, _TEXT_TYPES, _BINARY_TYPES):
        if data_type in family:
            yield from family[family.index(data_type) + 1 :]
    if data_type in _UNSIGNED:
        yield pa.int64()
    if pa.types.is_decimal128(data_type) and data_type.precision < 38:
        yield pa.decimal128(38, data_type.scale)


def _samples(data_type: pa.DataType) -> Sequence[Any]:
    types = pa.types
    if types.is_integer(data_type):
        return [number for number in _NUMBERS if number >= 0 or types.is_signed_integer(data_type)]
    if types.is_floating(data_type):
        return [float(number) for number in _NUMBERS]
    if types.is_decimal(data_type):
        digits = data_type.precision - max(data_type.scale, 0)
        values = (Decimal(number) for number in _NUMBERS if len(str(abs(number))) <= digits)
        # with a negative scale, only multiples of a power of ten
        return [value.scaleb(max(-data_type.scale, 0)) for value in values]
    if data_type in _TEXT_TYPES:
        return _TEXTS
    return [text.encode() for text in _TEXTS] if data_type in _BINARY_TYPES else ()


def _stored_type(data_type: pa.DataType) -> pa.DataType:
    if data_type == pa.string_view():
        return pa.string()
    return pa.binary() if data_type == pa.binary_view() else data_type


def _differ_in_width_only(given: pa.DataType, declared: pa.DataType) -> bool:
    """Whether two types differ at most in width."""
    if given == declared or any(given in family and declared in family for family in _FAMILIES):
        return True
    return bool(pa.types.is_decimal(given) and pa.types.is_decimal(declared))
