"""Evaluate partition expressions with literals in place of their columns. Spec: partitioning, appendix D."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.compute.calculator import evaluator
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.interrupts import imports_finished
from lance_df.namespace.spec.partition_spec import PartitionField
from lance_df.namespace.spec.partition_values import as_partition_value, expression_of, partition_values
from lance_df.sql.literals import literal_sql

MAX_ROWS: Final = 3
"""Up to this many rows, literals are evaluated faster than columns, and are short enough to read."""


def with_literals(field: PartitionField, sources: Sequence[pa.Array], *, typed: bool) -> list[str]:
    """Return the expression of a partition field for each row of source values, as SQL without columns.

    Parameters
    ----------
    typed
        Whether literals must have the types of the values, rather than types in which they are equal.

    Raises
    ------
    InvalidInputError
        The expression is malformed.
    UnsupportedFeatureError
        A type has no SQL literals.
    """
    # imports the parser, which most queries do not need
    with imports_finished():
        from lance_df.sql.substitution import substituted

    expression = expression_of(field, [column.type for column in sources])
    return [
        substituted(expression, [literal_sql(column[row], typed=typed) for column in sources])
        for row in range(len(sources[0]))
    ]


def values_of_literals(field: PartitionField, sources: Sequence[pa.Array]) -> pa.Array:
    """Return the value of a partition field for each row of literals, as `partition_values` does.

    If there are few rows, the literals are substituted in the expression, which is then evaluated without a
    table.

    Raises
    ------
    InvalidInputError
        See `partition_values`.
    """
    if field.transform is None and len(sources[0]) <= MAX_ROWS and all(map(_are_exact, sources)):
        try:
            values = evaluator().constants(with_literals(field, sources, typed=True))
        except (InvalidInputError, UnsupportedFeatureError):
            values = None
        if values is not None:
            return as_partition_value(values, field)
    return partition_values(field, sources)


def _are_exact(values: pa.Array) -> bool:
    """Whether literals represent the values exactly; a literal cannot express the sign of a NaN."""
    if pa.types.is_floating(values.type):
        return not pc.any(pc.is_nan(values)).as_py()
    return not pa.types.is_null(values.type)
