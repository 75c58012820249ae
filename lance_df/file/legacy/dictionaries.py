"""Load the values of 0.1 dictionary columns: one array per field, in the manifest or the data file.

Spec: file format 0.1, 5.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.cache import Footprint
from lance_df.encodings.leaf_values import is_variable
from lance_df.encodings.legacy.page import RowSlice
from lance_df.encodings.legacy.plain import read_plain
from lance_df.encodings.legacy.var_binary import read_var_binary
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError
from lance_df.file.io import named, run_plan

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.format.schema import Field
    from lance_df.storage import ByteSource


class DictionaryLoader:
    """Reads each dictionary once, from ``source``; ``footprint`` counts the memory."""

    def __init__(self, source: ByteSource, footprint: Footprint | None = None) -> None:
        self._source = source
        self._footprint = footprint or Footprint()
        self._values: dict[tuple[int, int, pa.DataType, bool], pa.Array] = {}

    def load(self, field: Field) -> pa.Array:
        """Return the values of a dictionary field.

        Raises
        ------
        CorruptDataError
            The field does not give their position, or the values are not there.
        """
        label = f"{self._source.path}: dictionary of column {field.name!r}"
        if field.dictionary is None:
            raise CorruptDataError(f"{label}: the schema does not give the position of the values")
        position, length = field.dictionary
        value_type = field.arrow_type().value_type
        key = (position, length, value_type, field.nullable)
        if key not in self._values:
            if length < 0:
                raise CorruptDataError(f"{label}: the number of values must not be negative, found {length}")
            parts = [RowSlice(position, length, self._source.size, RowRange(0, length))]
            plan = (
                read_var_binary(value_type, parts, nullable=field.nullable)
                if is_variable(value_type)
                else read_plain(value_type, parts)
            )
            values = self._values[key] = run_plan(self._source, named(label, plan))
            self._footprint.add(values.nbytes)
        return self._values[key]
