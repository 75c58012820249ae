"""Filters that only Arrow can read, because they refer to columns by position."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_df.errors import InvalidInputError
from lance_df.expr.from_pyarrow import check_with_arrow
from lance_df.expr.literals import plain_array, storage_type
from lance_df.sliced_lists import unsliced

if TYPE_CHECKING:
    import pyarrow.compute as pc

_POSITION: Final = re.compile(r"FieldPath\((\d+)")


class ArrowFilter:
    """A filter expression that Arrow evaluates, with Arrow's semantics: NaN is not greater than a number.

    Parameters
    ----------
    schema
        The schema that the positions refer to: column 0 is its first. Batches may have the columns in any
        order.

    Raises
    ------
    ColumnNotFoundError, InvalidInputError
        As for `check_with_arrow`.
    """

    def __init__(self, expression: pc.Expression, schema: pa.Schema) -> None:
        check_with_arrow(expression, schema)
        self._expression = expression
        self._schema = schema
        # The text also contains other parts, such as literals. They can only add columns.
        text = str(expression)
        positions = {int(each) for each in _POSITION.findall(text)}
        self._used = [at for at, name in enumerate(schema.names) if at in positions or name in text]

    @property
    def columns(self) -> set[str]:
        """The top-level columns that the expression may read."""
        return {self._schema.names[at] for at in self._used}

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the expression is true.

        Raises
        ------
        InvalidInputError
            A function of the expression fails on a value.
        """
        columns = [pa.nulls(batch.num_rows, storage_type(field.type)) for field in self._schema]
        for at in self._used:
            columns[at] = plain_array(batch.column(self._schema.names[at]))
        rows = pa.array(np.arange(batch.num_rows))
        numbered = pa.Table.from_arrays([*columns, rows], [*self._schema.names, _unused(self._schema.names)])
        try:
            selected = numbered.filter(self._expression).column(len(columns))
        except pa.ArrowException as err:
            raise InvalidInputError(f"the filter {self._expression} cannot be evaluated: {err}") from err
        return unsliced(batch).take(pa.array(np.sort(selected.to_numpy())))


def _unused(names: list[str]) -> str:
    return "".join(names) + "#"
