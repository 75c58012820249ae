"""Which part of a table's schema the columns of some data are: found once for data that comes in parts."""

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
    """A schema to write with, and what it follows from."""

    data: pa.Schema
    table: Schema
    version: str
    schema: Schema


class FittingSchemas:
    """Remembers the latest schemas to write with. Safe to share between threads."""

    def __init__(self) -> None:
        self._known: tuple[_Fitting, ...] = ()

    def get(self, data: pa.Schema, table: Schema, version: str) -> Schema:
        """Return the part of a table's schema that data brings values for.

        Parameters
        ----------
        version
            Of the files that will be written.

        Raises
        ------
        InvalidInputError, UnsupportedFeatureError
            The data does not fit the table, or not the file version.
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
"""What all tables of this process share."""
