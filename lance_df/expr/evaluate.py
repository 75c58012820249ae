"""Evaluate predicates over arrays with DataFusion's semantics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import ColumnNotFoundError, InvalidInputError
from lance_df.expr.floats import bit_values, float_values, order_keys
from lance_df.expr.literals import bind_literals, plain_scalar, unscaled, without_views
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
from lance_df.expr.text import to_text
from lance_df.expr.whole_numbers import ARRAY_COMPARISONS, compared_numbers, whole_numbers

_KERNELS = {
    Operator.EQ: pc.equal,
    Operator.NE: pc.not_equal,
    Operator.LT: pc.less,
    Operator.LE: pc.less_equal,
    Operator.GT: pc.greater,
    Operator.GE: pc.greater_equal,
}


def evaluate(
    predicate: Predicate,
    columns: Mapping[tuple[str, ...], pa.Array | pa.ChunkedArray],
    num_rows: int,
) -> pa.BooleanArray:
    """Return the value of the predicate for each row. The value may be NULL.

    Parameters
    ----------
    predicate
        Literals may have another type than their column if the conversion is exact.
    columns
        The column of each path in ``columns(predicate)``, with ``num_rows`` values; see `gather_columns`.

    Raises
    ------
    InvalidInputError
        The predicate contains `Unknown` or compares incomparable values, or a column has another length.
    ColumnNotFoundError
        A column is missing from ``columns``.
    """
    return _Evaluation(columns, num_rows).value(predicate)


def gather_columns(
    batch: pa.RecordBatch | pa.Table, paths: Iterable[tuple[str, ...]]
) -> dict[tuple[str, ...], pa.Array | pa.ChunkedArray]:
    """Return the columns at ``paths``. NULLs of enclosing structs make their fields NULL.

    Raises
    ------
    ColumnNotFoundError
        ``batch`` has no such column, or a struct has no such field.
    """
    gathered = {}
    for path in paths:
        try:
            column = batch.column(path[0])
            gathered[path] = pc.struct_field(column, list(path[1:])) if len(path) > 1 else column
        except (KeyError, pa.ArrowException) as err:
            raise ColumnNotFoundError(f"column {'.'.join(path)!r} does not exist") from err
    return gathered


class _Evaluation:
    __slots__ = ("_columns", "_num_rows", "_plain")

    def __init__(self, columns: Mapping[tuple[str, ...], pa.Array | pa.ChunkedArray], num_rows: int) -> None:
        self._columns = columns
        self._num_rows = num_rows
        self._plain: dict[tuple[str, ...], pa.Array] = {}

    def value(self, predicate: Predicate) -> pa.BooleanArray:
        match predicate:
            case Literal(value):
                return pa.repeat(pa.scalar(value, pa.bool_()), self._num_rows)
            case Comparison(column) | In(column) | Truth(column):
                return _leaf(predicate, self._column(column))
            case IsNull(operand):
                if isinstance(operand, Column):
                    return _leaf(predicate, self._column(operand))
                return pc.is_null(self.value(operand))
            case Not(operand):
                return pc.invert(self.value(operand))
            case And(operands):
                return self._joined(operands, pc.and_kleene, deciding=False)
            case Or(operands):
                return self._joined(operands, pc.or_kleene, deciding=True)
            case Unknown(text):
                raise InvalidInputError(f"the filter cannot be evaluated: {text}")
            case _:
                assert_never(predicate)

    def _joined(self, operands: tuple[Predicate, ...], kernel: object, *, deciding: bool) -> pa.BooleanArray:
        result = self.value(Literal(not deciding))
        for number, operand in enumerate(operands):
            part = self.value(operand)
            result = pc.call_function(kernel.__name__, [result, part]) if number else part  # type: ignore[attr-defined]
            if result.null_count == 0 and result.true_count == (self._num_rows if deciding else 0):
                break
        return result

    def _column(self, column: Column) -> pa.Array:
        plain = self._plain.get(column.path)
        if plain is None:
            name = ".".join(column.path)
            if (values := self._columns.get(column.path)) is None:
                raise ColumnNotFoundError(f"the filter needs column {name!r}, which the data does not have")
            if len(values) != self._num_rows:
                raise InvalidInputError(f"column {name!r} has {len(values)} rows, expected {self._num_rows}")
            plain = self._plain[column.path] = _one_array(values)
        return plain


def _one_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        if values.num_chunks == 1:
            values = values.chunk(0)
        else:
            unified = values.unify_dictionaries() if pa.types.is_dictionary(values.type) else values
            values = unified.combine_chunks()
            if isinstance(values, pa.ChunkedArray):  # pyarrow keeps chunks that exceed 32-bit offsets
                values = pa.concat_arrays(values.chunks)
    while isinstance(values, pa.ExtensionArray):
        values = values.storage
    return without_views(values)


def _leaf(predicate: Comparison | In | Truth | IsNull, values: pa.Array) -> pa.BooleanArray:
    """Evaluate a predicate on one column. For a dictionary, evaluate it for the dictionary's values."""
    if isinstance(values, pa.DictionaryArray):
        if len(values.dictionary) > len(values):
            return _leaf(predicate, values.dictionary_decode())
        if isinstance(predicate, IsNull) and values.dictionary.null_count == 0:
            return values.indices.is_null()
        by_value = _leaf(predicate, values.dictionary)
        result = by_value.take(values.indices)
        return pc.fill_null(result, True) if isinstance(predicate, IsNull) else result
    match predicate:
        case IsNull():
            return values.is_null()
        case Truth(column):
            if pa.types.is_null(values.type):
                return values.cast(pa.bool_())
            if not pa.types.is_boolean(values.type):
                raise InvalidInputError(
                    f"column {'.'.join(column.path)!r} of type {values.type} is not a condition"
                )
            return values
        case Comparison(_, operator, value) if value.type == values.type:
            return _compared(values, operator, value)
        case In(_, items) if items.type == values.type:
            return _contained(values, predicate)
        case _:
            return _coerced(predicate, values)


def _coerced(predicate: Comparison | In, values: pa.Array) -> pa.BooleanArray:
    """Evaluate a comparison whose literal has another type than the column."""
    same = bind_literals(predicate, values.type)
    if isinstance(same, Unknown):
        raise InvalidInputError(f"{to_text(predicate)}: the value cannot be compared with {values.type}")
    return _Evaluation({predicate.column.path: values}, len(values)).value(same)


def _compared(values: pa.Array, operator: Operator, value: pa.Scalar) -> pa.BooleanArray:
    if pa.types.is_floating(values.type):
        floats = float_values(values)
        if pa.types.is_float16(values.type) or np.isnan(value.as_py()) or _may_differ(operator, floats):
            literal = order_keys(float_values(pa.repeat(value, 1)))[0]
            return _with_nulls_of(values, ARRAY_COMPARISONS[operator](order_keys(floats), literal))
    elif values.offset == 0 and (numbers := whole_numbers(values)) is not None:
        bits = np.packbits(compared_numbers(operator, numbers, value), bitorder="little")
        valid = values.buffers()[0]
        return pa.BooleanArray.from_buffers(
            pa.bool_(), len(values), [valid, pa.py_buffer(bits)], values.null_count
        )
    if (integers := unscaled(values)) is not values:
        return _KERNELS[operator](integers, unscaled(pa.repeat(value, 1))[0])
    return _KERNELS[operator](values, plain_scalar(value))


def _may_differ(operator: Operator, floats: npt.NDArray[np.floating]) -> bool:
    """Whether IEEE comparison, which is faster, may differ from total order because NaN occurs."""
    if operator in (Operator.EQ, Operator.NE) or len(floats) == 0:
        return False
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return bool(np.isnan(floats.min()))


def _contained(values: pa.Array, predicate: In) -> pa.BooleanArray:
    items = predicate.values
    if pa.types.is_floating(values.type):
        if pa.types.is_float16(values.type):
            contained = np.isin(bit_values(float_values(values)), bit_values(float_values(items)))
            result = pa.array(contained)
        else:
            width = pa.int32() if pa.types.is_float32(values.type) else pa.int64()
            result = pc.is_in(values.view(width), value_set=items.view(width))
    else:
        result = pc.is_in(values, value_set=items)
    if predicate.has_null:
        # a value that is not in the list may equal the NULL
        result = pc.or_kleene(result, pa.scalar(None, pa.bool_()))
    return result if values.null_count == 0 else pc.if_else(values.is_valid(), result, None)


def _with_nulls_of(values: pa.Array, truth: npt.NDArray[np.bool_]) -> pa.BooleanArray:
    return pa.array(truth, mask=None if values.null_count == 0 else values.is_null().to_numpy(False))
