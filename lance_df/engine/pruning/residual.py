"""Apply filters that predicates cannot express, such as comparisons of two columns, to batches.

DataFusion does not apply a pushed filter again, so such an expression is evaluated here as a whole. pyarrow's
own evaluation differs from DataFusion's for NaN and for NULLs in IN lists; this evaluation does not.
Functions that only pyarrow expressions have, such as arithmetic, are evaluated by pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.engine.pruning.nested_order import compared, is_nested
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.expr.evaluate import evaluate, gather_columns
from lance_df.expr.expression_tokens import CallEnd, CallStart, FieldReference, has_tokens, tokens
from lance_df.expr.floats import float_values, order_keys
from lance_df.expr.from_pyarrow import as_equalities, listed_items
from lance_df.expr.literals import exact_items, is_text, plain_array, plain_scalar, without_views
from lance_df.expr.nodes import And, Column, In, IsNull, Not, Or, Predicate, Unknown
from lance_df.sliced_lists import unsliced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.engine.pruning.arrow_filter import ArrowFilter
    from lance_df.expr.expression_tokens import Token

_Term: TypeAlias = pa.Array | pa.Scalar

_SHORT_DIGITS: Final = 38  # of decimals with 128 bits
_VIEWS: Final = (pa.string_view(), pa.binary_view())


def as_datafusion(predicate: Predicate) -> Predicate:
    """Return the predicate with `Unknown` for conditions that DataFusion interprets differently.

    Only DataFusion's long IN lists distinguish -0.0 from 0.0; its other comparisons do not.
    """
    match predicate:
        case In(column, values) if pa.types.is_floating(values.type) and (float_values(values) == 0).any():
            return Unknown(f"{'.'.join(column.path)} IN (… {len(values)} values with 0.0)")
        case Not(operand):
            return Not(as_datafusion(operand))
        case IsNull(operand) if not isinstance(operand, Column):
            return IsNull(as_datafusion(operand))
        case And(operands):
            return And(tuple(map(as_datafusion, operands)))
        case Or(operands):
            return Or(tuple(map(as_datafusion, operands)))
        case _:
            return predicate


def residual_filter(expression: pc.Expression, schema: pa.Schema) -> ResidualFilter | ArrowFilter:
    """Return a filter that applies an expression over the columns of ``schema`` to batches."""
    if has_tokens(expression):
        return ResidualFilter(expression)
    from lance_df.engine.pruning.arrow_filter import ArrowFilter

    return ArrowFilter(expression, schema)


class ResidualFilter:
    """A pushed filter expression that can be applied to any number of batches from any thread."""

    def __init__(self, expression: pc.Expression, *, true_column: str | None = None) -> None:
        # literals are views if columns are views in the schema; here, both are read as strings
        given = tokens(expression, true_column=true_column)
        self._tokens: tuple[Token, ...] = tuple(map(_without_view, given))
        self._paths = {token.path for token in self._tokens if isinstance(token, FieldReference)}

    @property
    def columns(self) -> set[str]:
        """The top-level columns that the expression reads."""
        return {path[0] for path in self._paths}

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the expression is true.

        Raises
        ------
        InvalidInputError
            The expression is not a condition, or one of its functions fails on a value.
        """
        gathered = gather_columns(batch, self._paths)
        columns = {path: plain_array(_contiguous(array)) for path, array in gathered.items()}
        mask = self._evaluate(columns)
        if not (pa.types.is_boolean(mask.type) or pa.types.is_null(mask.type)):
            raise InvalidInputError(f"the filter must be of type bool, its type is {mask.type}")
        if isinstance(mask, pa.Scalar):
            return batch if mask.as_py() is True else batch.slice(0, 0)
        if pa.types.is_null(mask.type):
            return batch.slice(0, 0)
        return unsliced(batch).filter(mask, null_selection_behavior="drop")

    def _evaluate(self, columns: dict[tuple[str, ...], pa.Array]) -> _Term:
        functions: list[str] = []
        arguments: list[list[_Term]] = [[]]
        for token in self._tokens:
            match token:
                case CallStart(function):
                    functions.append(function)
                    arguments.append([])
                case CallEnd(options):
                    terms = arguments.pop()
                    arguments[-1].append(_call(functions.pop(), terms, options))
                case FieldReference(path):
                    arguments[-1].append(columns[path])
                case scalar:
                    arguments[-1].append(plain_scalar(scalar))
        ((result,),) = arguments
        return result


def _without_view(token: Token) -> Token:
    if not isinstance(token, pa.Scalar):
        return token
    return without_views(pa.repeat(token, 1))[0] if token.type in _VIEWS else token


def _contiguous(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _call(function: str, terms: list[_Term], options: pa.StructScalar | None) -> _Term:
    if function == "is_in":
        return _is_in(terms[0], options)
    if (implementation := _FUNCTIONS.get(function)) is None or _counts_nan(function, options):
        return _call_arrow(function, terms, options)
    try:
        return implementation(*terms)
    except (ValueError, pa.ArrowException) as err:  # ValueError: decimals with more digits than any type has
        types = ", ".join(str(term.type) for term in terms)
        raise InvalidInputError(f"{function}({types}) in a filter cannot be evaluated: {err}") from err


def _counts_nan(function: str, options: pa.StructScalar | None) -> bool:
    """Whether this is a NULL test that is also true for NaN."""
    return function == "is_null" and options is not None and bool(options["nan_is_null"].as_py())


def _is_in(value: _Term, options: pa.StructScalar | None) -> _Term:
    if (items := listed_items(options)) is None:
        raise UnsupportedFeatureError("an IN list without values is not supported in a pushed filter")
    values = without_views(plain_array(pa.repeat(value, 1) if isinstance(value, pa.Scalar) else value))
    column = Column(("value",))
    try:
        if (listed := _items_of_type(items.drop_null(), values.type)) is None:
            raise InvalidInputError(
                f"values of type {values.type} cannot be compared with {items.type} in a filter"
            )
        predicate = as_equalities(In(column, listed, has_null=items.null_count > 0))
        is_member = evaluate(predicate, {column.path: values}, len(values))
    except pa.ArrowException as err:
        raise InvalidInputError(
            f"is_in({values.type}, {items.type}) in a filter cannot be evaluated: {err}"
        ) from err
    return is_member[0] if isinstance(value, pa.Scalar) else is_member


def _items_of_type(items: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Return the items that values of a type may equal, in that type; None if the types do not compare."""
    if pa.types.is_null(items.type):
        return pa.array([], wanted)
    if is_text(items.type) and not is_text(wanted):
        return items.cast(wanted)  # the cast parses numbers and times
    return exact_items(items, wanted)


def _equal(left: _Term, right: _Term) -> _Term:
    if is_nested(left.type):
        return _compared(left, right, np.equal)
    return pc.equal(*_ordered(left, right))


def _less(left: _Term, right: _Term) -> _Term:
    if is_nested(left.type):
        return _compared(left, right, np.less)
    return pc.less(*_ordered(left, right))


def _compared(left: _Term, right: _Term, compare: Callable[..., Any]) -> _Term:
    """Compare lists or structs. The result is NULL if either operand is NULL."""
    size = max([len(term) for term in (left, right) if isinstance(term, pa.Array)], default=1)
    one, other = (pa.repeat(term, size) if isinstance(term, pa.Scalar) else term for term in (left, right))
    is_null = pc.or_(one.is_null(), other.is_null()).to_numpy(zero_copy_only=False)
    compared_values = pa.array(compare(compared(one, other), 0), mask=is_null)
    return (
        compared_values[0]
        if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar)
        else compared_values
    )


def _ordered(left: _Term, right: _Term) -> tuple[_Term, _Term]:
    """Return terms that compare: floats as in `lance_df.expr.floats`, decimals without negative scales.

    Those of Arrow's null type are NULLs of another type.
    """
    if pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type):
        return _without_negative_scale(left), _without_negative_scale(right)
    if pa.types.is_null(left.type) and pa.types.is_null(right.type):  # for which pyarrow has no kernel
        return left.cast(pa.bool_()), right.cast(pa.bool_())
    if not (pa.types.is_floating(left.type) and pa.types.is_floating(right.type)):
        return left, right
    wide = left.type if left.type == right.type else pa.float64()
    return _order_keys(left.cast(wide)), _order_keys(right.cast(wide))


def _without_negative_scale(term: _Term) -> _Term:
    if not pa.types.is_decimal(term.type) or term.type.scale >= 0:
        return term
    digits = term.type.precision - term.type.scale
    return term.cast(pa.decimal128(digits, 0) if digits <= _SHORT_DIGITS else pa.decimal256(digits, 0))


def _order_keys(term: _Term) -> _Term:
    if isinstance(term, pa.Scalar):
        return _order_keys(pa.repeat(term, 1))[0]
    nulls = term.is_null().to_numpy(zero_copy_only=False) if term.null_count else None
    return pa.array(order_keys(float_values(term)), mask=nulls)


_FUNCTIONS: dict[str, Callable[..., _Term]] = {
    "equal": _equal,
    "not_equal": lambda left, right: pc.invert(_equal(left, right)),
    "less": _less,
    "less_equal": lambda left, right: pc.invert(_less(right, left)),
    "greater": lambda left, right: _less(right, left),
    "greater_equal": lambda left, right: pc.invert(_less(left, right)),
    "and_kleene": pc.and_kleene,
    "or_kleene": pc.or_kleene,
    "invert": pc.invert,
    "is_null": pc.is_null,
    "is_valid": pc.is_valid,
}


def _call_arrow(function: str, terms: Sequence[_Term], options: pa.StructScalar | None) -> _Term:
    """Apply a pyarrow function to arrays and scalars row by row, and return the result.

    Parameters
    ----------
    options
        See `lance_df.expr.expression_tokens.CallEnd`.

    Raises
    ------
    InvalidInputError
        The function does not exist, does not compute one value for each row, or fails on a value.
    """
    try:
        if pc.get_function(function).kind != "scalar" and function != "cast":
            raise InvalidInputError(f"the function {function!r} does not return one value for each row")
        return pc.call_function(function, list(terms), _options(options))
    except (KeyError, pa.ArrowException) as err:
        types = ", ".join(str(term.type) for term in terms)
        raise InvalidInputError(f"{function}({types}) in a filter cannot be evaluated: {err}") from err


def _options(given: pa.StructScalar | None) -> pc.FunctionOptions | None:
    """Return the function options for a struct of their fields. They deserialize from an Arrow IPC file."""
    if given is None:
        return None
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.repeat(given, 1)], ["options"])
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pc.FunctionOptions.deserialize(sink.getvalue())
