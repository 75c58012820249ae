"""Match data with the part of a table's schema that it has; the result is cached for data in many parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.records import dataclass
from lance_df.table.writing.conform import schema_to_write
from lance_df.table.writing.schema_rules import check_complete, check_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.format.schema import Schema

_MAX_KNOWN = 8


@dataclass(frozen=True, slots=True)
class _Fitting:
    """A schema to write with, and the inputs that it was computed from."""

    data: pa.Schema
    table: Schema
    version: str
    schema: Schema


class FittingSchemas:
    """Caches the latest schemas to write with. Threads may share it."""

    def __init__(self) -> None:
        self._known: tuple[_Fitting, ...] = ()

    def get(self, data: pa.Schema, table: Schema, version: str) -> Schema:
        """Return the part of a table's schema for which data has values.

        Parameters
        ----------
        version
            The version of the files that will be written.

        Raises
        ------
        InvalidInputError, UnsupportedFeatureError
            The data does not fit the table or the file version.
        """
        for each in self._known:
            if each.table is table and each.version == version and each.data.equals(data, True):
                return each.schema
        schema = schema_to_write(data, table)
        check_schema(schema, version)
        check_complete(schema, table, version)
        self._known = (_Fitting(data, table, version, schema), *self._known[: _MAX_KNOWN - 1])
        return schema


FITTING_SCHEMAS = FittingSchemas()
"""The cache that all tables of this process share."""
