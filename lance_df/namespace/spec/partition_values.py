"""Compute the partition values of rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.compute.calculator import evaluator
from lance_df.errors import InvalidInputError
from lance_df.namespace.spec.native_transforms import native_values
from lance_df.namespace.spec.partition_spec import PartitionField

_NULL_TYPES: Final = (pa.null(), pa.int64(), pa.string(), pa.timestamp("us"), pa.float64(), pa.binary())


def expression_of(field: PartitionField, types: Sequence[pa.DataType]) -> str:
    """Return the SQL expression of a field over ``col0``, ``col1`` …, its own or that of its transform."""
    return field.expression or "" if field.transform is None else field.transform.expression(types)


def follows_from_sources(field: PartitionField) -> bool:
    """Whether equal source values have equal partition values, as the specification requires.

    Specs of other writers may have expressions that depend on randomness, the clock or other tables. Their
    values allow no pruning.
    """
    return field.transform is not None or _refusal(field.expression or "") is None


@lru_cache(maxsize=1024)
def _refusal(expression: str) -> str | None:
    try:
        evaluator().check(expression)
    except InvalidInputError as err:
        return str(err)
    return None


def partition_values(field: PartitionField, columns: Sequence[pa.Array]) -> pa.Array:
    """Return the value of a partition field for each row.

    As in SQL comparisons, -0.0 and 0.0 are the same value, and so are all NaN.

    Parameters
    ----------
    columns
        The source columns, in the order of ``source_ids``; nulls for a dropped column.

    Raises
    ------
    InvalidInputError
        The expression fails for a row, has a result outside the field's type, or is not allowed in a
        partition field.
    """
    if not follows_from_sources(field):
        raise InvalidInputError(f"partition field {field.field_id!r}: {_refusal(field.expression or '')}")
    plain = [_plain(column) for column in columns]
    values = None
    if field.transform is not None:
        is_gone = all(pa.types.is_null(column.type) for column in plain)
        values = pa.nulls(len(plain[0])) if is_gone else native_values(field.transform, plain)
    return as_partition_value(_evaluated(field, plain) if values is None else values, field)


def _evaluated(field: PartitionField, columns: Sequence[pa.Array]) -> pa.Array:
    is_gone = [pa.types.is_null(column.type) for column in columns]
    # not every function accepts nulls without a type
    for stand_in in _NULL_TYPES if any(is_gone) else ():
        typed = [
            pa.nulls(len(column), stand_in) if gone else column
            for column, gone in zip(columns, is_gone, strict=True)
        ]
        with suppress(InvalidInputError):
            return evaluator().evaluate(expression_of(field, [column.type for column in typed]), typed)
    return evaluator().evaluate(expression_of(field, [column.type for column in columns]), columns)


def as_partition_value(values: pa.Array, field: PartitionField) -> pa.Array:
    """Return values in the type of a field, with zeros and NaN of floats normalized.

    Raises
    ------
    InvalidInputError
        A value does not fit.
    """
    try:
        cast = values if values.type == field.result_type else values.cast(field.result_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as err:
        raise InvalidInputError(
            f"partition field {field.field_id!r}: values of type {values.type} do not fit "
            f"{field.result_type}: {err}"
        ) from err
    return _normal_floats(cast) if pa.types.is_floating(cast.type) else cast


def _plain(values: pa.Array) -> pa.Array:
    """Return the values without extension types and dictionaries."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values


def _normal_floats(values: pa.Array) -> pa.Array:
    floats = pc.fill_null(values, pa.scalar(0.0, values.type)).to_numpy(zero_copy_only=False)
    normal = np.where(np.isnan(floats), np.array(np.nan, floats.dtype), floats + np.array(0, floats.dtype))
    return pa.array(normal, values.type, mask=values.is_null().to_numpy(zero_copy_only=False))
