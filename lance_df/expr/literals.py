"""Compare columns with literals of other types without loss.

Engines convert literals to the type of their column, so literals of other types were written by hand. They
are converted if the result of the comparison is unambiguous. Comparisons for which engines disagree become
`Unknown`: rounding of large integers, finer time units, naive and zoned timestamps.
"""

from __future__ import annotations

import math
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError
from lance_df.expr.nodes import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    Predicate,
    Truth,
    Unknown,
)
from lance_df.expr.text import scalar_text
from lance_df.format.schema import EXTENSION_NAME, STORED_JSON

_MAX_EXACT_INTEGER = 2**53


def storage_type(data_type: pa.DataType) -> pa.DataType:
    """Return the storage type: the type without dictionaries and extension types."""
    while True:
        if isinstance(data_type, pa.BaseExtensionType):
            data_type = data_type.storage_type
        elif pa.types.is_dictionary(data_type):
            data_type = data_type.value_type
        else:
            return data_type


def plain_scalar(value: pa.Scalar) -> pa.Scalar:
    """Return the value without dictionaries and extension types."""
    while isinstance(value, pa.DictionaryScalar | pa.ExtensionScalar):
        value = value.value if value.is_valid else pa.scalar(None, storage_type(value.type))
    return value


def plain_array(values: pa.Array) -> pa.Array:
    """Return the values without dictionaries and extension types."""
    while True:
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        elif isinstance(values, pa.DictionaryArray):
            values = values.dictionary_decode()
        else:
            return values


def without_views(values: pa.Array) -> pa.Array:
    """Return strings and binary values in a layout that all pyarrow kernels support."""
    if pa.types.is_string_view(values.type):
        return values.cast(pa.large_string())
    if pa.types.is_binary_view(values.type):
        return values.cast(pa.large_binary())
    return values


def unscaled(values: pa.Array) -> pa.Array:
    """Return decimals of negative scale as their stored integers, because pyarrow cannot compare them."""
    kind = values.type
    if not pa.types.is_decimal(kind) or kind.scale >= 0:
        return values
    wide = pa.decimal256 if pa.types.is_decimal256(kind) else pa.decimal128
    return values.view(wide(kind.precision, 0))


def compare(column: Column, data_type: pa.DataType, operator: Operator, value: pa.Scalar) -> Predicate:
    """Return ``column operator value`` with the literal converted to the column's type ``data_type``.

    The literal may be null, a dictionary scalar, or of another type than the column.
    """
    target, value = storage_type(data_type), plain_scalar(value)
    if not value.is_valid or pa.types.is_null(target):
        return Literal(None)
    if value.type == target:
        return (
            Comparison(column, operator, value) if _is_ordered(target) else _unknown(column, operator, value)
        )
    if (number := _number_comparison(column, target, operator, value)) is not None:
        return number
    if _keeps_meaning(value.type, target):
        converted, is_exact = _converted(pa.repeat(value, 1), target)
        if converted is not None and is_exact[0].as_py():
            return Comparison(column, operator, converted[0])
    return _unknown(column, operator, value)


def is_in(column: Column, data_type: pa.DataType, values: pa.Array) -> Predicate:
    """Return ``column IN (values)`` with the values converted to the column's type. Nulls are allowed."""
    target, items = storage_type(data_type), without_views(plain_array(values))
    if pa.types.is_nested(items.type):
        return Unknown(f"{'.'.join(column.path)} IN (… {len(items)} values)")
    has_null = items.null_count > 0
    items = items.drop_null() if has_null else items
    if pa.types.is_null(target) or pa.types.is_null(items.type):
        return Literal(None) if has_null or len(items) else Literal(False)
    if items.type != target:
        if not (_keeps_meaning(items.type, target) or _are_numbers(items.type, target)) or (
            _may_round(items, target)
        ):
            return Unknown(f"{'.'.join(column.path)} IN (… {len(items)} values)")
        converted, is_exact = _converted(items, target)
        if converted is None or not (_are_numbers(items.type, target) or pc.all(is_exact).as_py()):
            return Unknown(f"{'.'.join(column.path)} IN (… {len(items)} values)")
        if not pc.all(is_exact).as_py():
            converted = converted.filter(is_exact)  # no value of the column equals the other items
        items = converted
    if not _is_ordered(target):
        return Unknown(f"{'.'.join(column.path)} IN (… {len(items)} values)")
    return In(column, items, has_null)


def bind_literals(predicate: Predicate, data_type: pa.DataType) -> Predicate:
    """Convert all literals of a predicate on one column to the column's type."""
    match predicate:
        case Comparison(column, operator, value):
            return compare(column, data_type, operator, value)
        case In(column, values, has_null):
            bound = is_in(column, data_type, values)
            return In(column, bound.values, has_null) if isinstance(bound, In) else bound
        case Not(operand):
            return Not(bind_literals(operand, data_type))
        case And(operands) | Or(operands):
            return type(predicate)(tuple(bind_literals(part, data_type) for part in operands))
        case IsNull(operand):
            return predicate if isinstance(operand, Column) else IsNull(bind_literals(operand, data_type))
        case Literal() | Truth() | Unknown():
            return predicate
        case _:
            assert_never(predicate)


def constant(column: Column, *, value: bool) -> Predicate:
    """Return a predicate that is ``value`` for all rows, except that it is NULL where the column is NULL."""
    if value:
        return Or((Not(IsNull(column)), Literal(None)))
    return And((IsNull(column), Literal(None)))


def _number_comparison(
    column: Column, target: pa.DataType, operator: Operator, value: pa.Scalar
) -> Predicate | None:
    """Compare an integer or float column with a number that the column's type may be unable to represent.

    ``None`` if the types are not numbers.
    """
    if not _are_numbers(value.type, target):
        return None
    number = value.as_py()
    if pa.types.is_floating(target):
        return _float_comparison(column, target, operator, number)
    if isinstance(number, float):
        if not math.isfinite(number) or abs(number) >= _MAX_EXACT_INTEGER:
            return Unknown(f"{'.'.join(column.path)} {operator} {number}")
        if not number.is_integer():
            return _between_values(column, operator, pa.scalar(math.floor(number)), target)
    lowest, highest = integer_limits(target)
    whole = int(number)
    if whole < lowest:
        return constant(column, value=operator in (Operator.NE, Operator.GT, Operator.GE))
    if whole > highest:
        return constant(column, value=operator in (Operator.NE, Operator.LT, Operator.LE))
    return Comparison(column, operator, pa.scalar(whole, target))


def _float_comparison(
    column: Column, target: pa.DataType, operator: Operator, number: float
) -> Predicate | None:
    with np.errstate(over="ignore"):
        nearest = target.to_pandas_dtype()(number)
    if isinstance(number, int) and not (abs(number) <= _exact_limit(target) and int(nearest) == number):
        return Unknown(f"{'.'.join(column.path)} {operator} {number}")
    if float(nearest) == number or math.isnan(number):
        return Comparison(column, operator, pa.scalar(nearest, target))
    lower = nearest if float(nearest) < number else np.nextafter(nearest, -np.inf, dtype=nearest.dtype)
    return _between_values(column, operator, pa.scalar(lower, target), target)


def _between_values(column: Column, operator: Operator, below: pa.Scalar, target: pa.DataType) -> Predicate:
    """Compare with a number just above ``below``, between two values of the column's type."""
    if operator in (Operator.EQ, Operator.NE):
        return constant(column, value=operator is Operator.NE)
    reachable = Operator.LE if operator in (Operator.LT, Operator.LE) else Operator.GT
    return compare(column, target, reachable, below)


def integer_limits(data_type: pa.DataType) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer type."""
    limits = np.iinfo(data_type.to_pandas_dtype())
    return int(limits.min), int(limits.max)


def _exact_limit(float_type: pa.DataType) -> int:
    """Return the limit up to which a float type represents all integers."""
    return 1 << (int(np.finfo(float_type.to_pandas_dtype()).nmant) + 1)


def _are_numbers(first: pa.DataType, second: pa.DataType) -> bool:
    return all(pa.types.is_integer(each) or pa.types.is_floating(each) for each in (first, second))


def _may_round(values: pa.Array, target: pa.DataType) -> bool:
    """Whether an engine that compares integers and floats as floats may treat different numbers as equal."""
    if pa.types.is_floating(values.type) and pa.types.is_integer(target):
        large = pc.greater_equal(pc.abs(values.cast(pa.float64())), float(_MAX_EXACT_INTEGER))
    elif pa.types.is_integer(values.type) and pa.types.is_floating(target):
        large = pc.greater(pc.abs(values.cast(pa.float64(), safe=False)), float(_exact_limit(target)))
    else:
        return False
    return bool(pc.any(large).as_py())


def _keeps_meaning(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast between the types preserves the meaning of a value, provided it preserves the value."""
    kinds = pa.types
    if is_text(source):
        return is_text(target)
    if is_bytes(source):
        return is_bytes(target)
    if kinds.is_decimal(target):
        return kinds.is_decimal(source) or kinds.is_integer(source)
    if kinds.is_timestamp(source) and kinds.is_timestamp(target):
        return (source.tz is None) == (target.tz is None)
    if kinds.is_date(source):
        return kinds.is_date(target) or (kinds.is_timestamp(target) and target.tz is None)
    if kinds.is_timestamp(source):
        return kinds.is_date(target) and source.tz is None
    return any(same(source) and same(target) for same in (kinds.is_time, kinds.is_duration))


def exact_items(values: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Return the values that the target type represents exactly, cast to it; ``None`` if types do not match.

    Parameters
    ----------
    values
        Values without nulls, dictionaries, extension types and views.
    """
    if values.type == target:
        return values
    converted, is_exact = _converted(values, target)
    return None if converted is None else converted.filter(is_exact)


def are_exact(values: pa.Array, target: pa.DataType) -> pa.BooleanArray:
    """Return for each value whether the target type represents it exactly; NULL for NULL."""
    return _converted(values, target)[1]


def _converted(values: pa.Array, target: pa.DataType) -> tuple[pa.Array | None, pa.Array]:
    """Cast values, and return which of them are exact. The array is ``None`` if it cannot be cast."""
    try:
        result = _cast(values, target)
        back = _cast(result, values.type)
        same = _are_equal(back, values)
    except pa.ArrowNotImplementedError:
        return None, pa.array([False] * len(values))
    except pa.ArrowInvalid:
        if len(values) <= 1:
            return pa.nulls(len(values), target), pa.array([False] * len(values), pa.bool_())
        # a value that is rejected, such as bytes of another width, says nothing about the others
        middle = len(values) // 2
        halves = [_converted(half, target) for half in (values[:middle], values[middle:])]
        same = pa.concat_arrays([each for _, each in halves])
        results = [half for half, _ in halves if half is not None]
        return (pa.concat_arrays(results) if len(results) == len(halves) else None), same
    if pa.types.is_floating(values.type) and pa.types.is_integer(target):
        # floats beyond the largest integer may be cast to it, and it may be cast back to the next float
        _, highest = integer_limits(target)
        same = pc.and_(same, pc.less(values.cast(pa.float64()), float(highest + 1)))
    elif pa.types.is_integer(values.type) and pa.types.is_integer(target):
        # between types of equal width, a cast back restores the bits even if the value changed
        same = pc.and_(same, pc.equal(pc.sign(values), pc.sign(result)))
    return result, same


def _cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast values, through an intermediate type if pyarrow has no cast or rejects values that fit."""
    kinds = pa.types
    if kinds.is_integer(values.type) and kinds.is_decimal(target):
        values = values.cast(pa.decimal128(38, 0))
    elif kinds.is_float16(values.type) or kinds.is_float16(target):
        values = values.cast(pa.float32(), safe=False)
    return values.cast(target, safe=False)


def _are_equal(values: pa.Array, others: pa.Array) -> pa.Array:
    """Compare arrays of one type. NaN equals NaN."""
    if not pa.types.is_floating(values.type):
        return pc.equal(unscaled(values), unscaled(others))
    wide, other = values.cast(pa.float64()), others.cast(pa.float64())
    return pc.or_(pc.equal(wide, other), pc.and_(pc.is_nan(wide), pc.is_nan(other)))


def is_text(data_type: pa.DataType) -> bool:
    """Return whether values are strings."""
    kinds = pa.types
    return kinds.is_string(data_type) or kinds.is_large_string(data_type) or kinds.is_string_view(data_type)


def is_bytes(data_type: pa.DataType) -> bool:
    """Return whether values are bytes, of variable or fixed width."""
    kinds = pa.types
    return (
        kinds.is_binary(data_type)
        or kinds.is_large_binary(data_type)
        or kinds.is_binary_view(data_type)
        or kinds.is_fixed_size_binary(data_type)
    )


def _is_ordered(data_type: pa.DataType) -> bool:
    """Whether values of the type can be compared. Nested types and intervals cannot."""
    kinds = pa.types
    return (
        kinds.is_boolean(data_type)
        or kinds.is_integer(data_type)
        or kinds.is_floating(data_type)
        or kinds.is_decimal(data_type)
        or kinds.is_date(data_type)
        or kinds.is_time(data_type)
        or kinds.is_timestamp(data_type)
        or kinds.is_duration(data_type)
        or is_text(data_type)
        or is_bytes(data_type)
    )


def _unknown(column: Column, operator: Operator, value: pa.Scalar) -> Unknown:
    return Unknown(f"{'.'.join(column.path)} {operator} {scalar_text(value)}")


def is_json(field: pa.Field) -> bool:
    """Whether a column of a stored schema holds JSON."""
    return (field.metadata or {}).get(EXTENSION_NAME.encode()) == STORED_JSON


def may_give_json(field: pa.Field) -> bool:
    """Whether a column of a stored schema holds JSON, or is a struct with a field that does."""
    return is_json(field) or (pa.types.is_struct(field.type) and any(map(is_json, field.type.fields)))


def json_comparison_error(name: str) -> InvalidInputError:
    """Return the error of a condition that compares a JSON column with what is no JSON."""
    return InvalidInputError(
        f"column {name!r} holds JSON, stored as JSONB, and can be compared only with JSON; compare its text, "
        f"json_extract({name}, '$'), or a value, such as json_get_string({name}, 'key')"
    )
