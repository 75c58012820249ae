"""Convert computed columns to the form in which tables store them: casts, and encoded JSON."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_df.compute.compat import DataFrame, col
from lance_df.compute.json_values import json_documents
from lance_df.errors import InvalidInputError
from lance_df.sql.splice import quote_identifier

if TYPE_CHECKING:
    from lance_df.format.schema import Field

_TEXTS: Final = (pa.string(), pa.large_string(), pa.string_view())
_BINARIES: Final = (pa.binary(), pa.large_binary(), pa.binary_view())


def cast_to_stored(frame: DataFrame, fields: Mapping[str, Field]) -> DataFrame:
    """Return a frame whose columns have the types of the stored columns; JSON text is not encoded yet.

    Raises
    ------
    InvalidInputError
        A value for a JSON column is neither text nor a document.
    """
    columns = []
    for given in frame.schema():
        column, field = col(quote_identifier(given.name)), fields.get(given.name)
        wanted = given.type if field is None else _cast_type(given, field)
        columns.append(column if wanted == given.type else column.cast(wanted).alias(given.name))
    return frame.select(*columns)


def _cast_type(given: pa.Field, field: Field) -> pa.DataType:
    """Return the type to cast values to. For a JSON column, text stays text and documents stay binary."""
    if not field.is_json:
        return field.arrow_type()
    if given.type in _TEXTS or pa.types.is_null(given.type):
        return pa.string()
    if given.type in _BINARIES:
        return field.arrow_type()
    raise InvalidInputError(
        f"column {field.name!r} holds JSON; expected JSON text or the value of a JSON column, got "
        f"{given.type}"
    )


def with_documents(
    schema: pa.Schema, batches: Generator[pa.RecordBatch], fields: Mapping[str, Field]
) -> tuple[pa.Schema, Generator[pa.RecordBatch]]:
    """Return batches, and their schema, in which the values of JSON columns are stored documents.

    The batches raise `InvalidInputError` if a text is not valid JSON or a binary is not a valid document.
    """
    are_json = [each.name in fields and fields[each.name].is_json for each in schema]
    if not any(are_json):
        return schema, batches
    stored = pa.schema(
        [
            each.with_type(fields[each.name].arrow_type()) if is_json else each
            for each, is_json in zip(schema, are_json, strict=True)
        ],
        schema.metadata,
    )

    def encoded() -> Generator[pa.RecordBatch]:
        for batch in batches:
            columns = [
                json_documents(column, name) if is_json else column
                for column, name, is_json in zip(batch.columns, schema.names, are_json, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=stored)

    return stored, encoded()
